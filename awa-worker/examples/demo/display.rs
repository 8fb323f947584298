//! What one sees while waiting: bars on a terminal, a plain line now and then anywhere else.

use crate::{kinds, observe::Standing};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::{
    io::{self, IsTerminal},
    time::Duration,
};
use tokio::time::Instant;

/// Without a terminal, at most one line in this time.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) enum Display {
    Bars { all: MultiProgress, whole: ProgressBar, merge: ProgressBar },
    Lines { last: Option<(Instant, Standing)> },
}

impl Display {
    pub(crate) fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self::Lines { last: None };
        }
        let all = MultiProgress::new();
        let style = |template| ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let whole = all.add(ProgressBar::new(0));
        whole.set_style(style("{prefix:>8} [{bar:24.green}] {pos:>6} of {len} jobs  {msg}").progress_chars("=> "));
        whole.set_prefix("all");
        let merge = all.add(ProgressBar::new(100));
        merge.set_style(style("{prefix:>8} [{bar:24.cyan}] {pos:>5}%  {msg}").progress_chars("=> "));
        merge.set_prefix("merge");
        Self::Bars { all, whole, merge }
    }

    /// Shows how the run stands.
    pub(crate) fn show(&mut self, standing: &Standing) {
        let done = standing.merge_state == kinds::COMPLETED;
        // A completed job has no progress any more.
        let (percent, message) =
            if done { (100, "completed") } else { (standing.merge_percent, &*standing.merge_message) };
        match self {
            Self::Bars { whole, merge, .. } => {
                whole.set_length(u64::try_from(standing.jobs).unwrap_or(0));
                whole.set_position(u64::try_from(standing.ended).unwrap_or(0));
                whole.set_message(counts(standing));
                merge.set_position(u64::try_from(percent).unwrap_or(0));
                merge.set_message(if done {
                    message.to_owned()
                } else {
                    format!("{}, {message}", standing.merge_state)
                });
            }
            Self::Lines { last } => {
                let now = Instant::now();
                let due = last.as_ref().is_none_or(|(at, shown)| now - *at >= LINE_INTERVAL && shown != standing);
                if due || (standing.ended == standing.jobs && standing.jobs > 0) {
                    println!(
                        "{} of {} jobs done ({}); merge {percent} % {message}",
                        standing.ended,
                        standing.jobs,
                        counts(standing)
                    );
                    *last = Some((now, standing.clone()));
                }
            }
        }
    }

    /// Says something that stays.
    pub(crate) fn say(&self, text: &str) {
        match self {
            Self::Bars { all, .. } => _ = all.println(text),
            Self::Lines { .. } => println!("{text}"),
        }
    }

    /// Leaves the last state standing.
    pub(crate) fn end(&self) {
        if let Self::Bars { whole, merge, .. } = self {
            whole.abandon();
            merge.abandon();
        }
    }
}

fn counts(standing: &Standing) -> String {
    format!(
        "{} running on {} workers, {} waiting, {} to retry",
        standing.running, standing.workers, standing.waiting, standing.retrying
    )
}
