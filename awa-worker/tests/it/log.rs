//! What is logged, for tests that judge it. All tests of the program share one log, so each looks for lines of its own: of a
//! kind of job that no other test has.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Everything at `info` and above that Awa has said since the first call of [`record`].
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Begins to record, once for all tests. To be called before what is looked for can happen.
pub(crate) fn record() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| tracing_subscriber::registry().with(Recorder).init());
}

/// The lines so far that contain all of these texts. A line is the level, the message, and ` name=value` for each field.
pub(crate) fn lines(texts: &[&str]) -> Vec<String> {
    let all = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter(|line| texts.iter().all(|text| line.contains(text))).cloned().collect()
}

/// Waits for such a line.
pub(crate) async fn logged(texts: &[&str]) -> String {
    crate::support::until(&format!("a line with {texts:?}"), async || !lines(texts).is_empty()).await;
    lines(texts).swap_remove(0)
}

struct Recorder;

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        if *meta.level() > Level::INFO || !meta.target().starts_with("awa") {
            return;
        }
        let mut line = Line { message: String::new(), fields: String::new() };
        event.record(&mut line);
        let line = format!("{} {}{}", meta.level(), line.message, line.fields);
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
        written.expect("a String takes everything");
    }
}
