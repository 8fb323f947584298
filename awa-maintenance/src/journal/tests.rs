//! What is told, when, and what is not.

use super::*;
use async_trait::async_trait;
use tracing::Span;

#[derive(Debug)]
struct Named(&'static str);

#[async_trait]
impl Duty for Named {
    fn name(&self) -> &'static str {
        self.0
    }

    fn span(&self) -> Span {
        Span::none()
    }

    async fn pass(&self) -> Result<Pass, Error> {
        unreachable!("nobody asks for one")
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn names(news: &News) -> Vec<&'static str> {
    news.reports.iter().map(|report| report.name).collect()
}

fn pass(changed: usize, next: Next) -> Pass {
    Pass { changed, next }
}

#[tokio::test(start_paused = true)]
async fn what_is_told_is_told_once_and_what_came_meanwhile_the_next_time() {
    let journal = Journal::new(["a", "b"], ["c"]);
    let (a, b) = (Named("a"), Named("b"));
    assert_eq!(names(&journal.news()), ["c"], "what is left out is news, what has not begun is not");
    journal.began(&a);
    let news = journal.news();
    assert_eq!(names(&news), ["a", "c"]);
    tokio::time::advance(SECOND).await;
    journal.passed(&a, pass(2, Next::Now));
    journal.told(&news);
    assert_eq!(names(&journal.news()), ["a"]);
    journal.told(&journal.news());
    assert!(journal.news().reports.is_empty());
    journal.passed(&b, pass(0, Next::In(SECOND)));
    assert_eq!(names(&journal.news()), ["b"]);
    // Never told: the next report has it too.
    assert_eq!(names(&journal.news()), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_report_has_the_last_pass_and_the_sums_of_the_term() {
    let journal = Journal::new(["a"], []);
    let duty = Named("a");
    for changed in [3, 4] {
        journal.began(&duty);
        tokio::time::advance(SECOND).await;
        journal.passed(&duty, pass(changed, Next::In(SECOND * 9)));
    }
    tokio::time::advance(SECOND * 2).await;
    let report = journal.news().reports.remove(0);
    assert_eq!((report.passes, report.changed, report.failures, report.failed), (2, 7, 0, None));
    assert_eq!(report.began, Some(SECOND * 3));
    let last = PassReport {
        ago: SECOND * 2,
        took: SECOND,
        changed: Some(4),
        is_caught_up: Some(true),
        next_in: Some(SECOND * 9),
    };
    assert_eq!(report.ended, Some(last));
    journal.began(&duty);
    journal.passed(&duty, pass(1, Next::Now));
    assert_eq!(journal.news().reports[0].ended.expect("a pass").is_caught_up, Some(false));
    assert_eq!(journal.of_tick()[0].ended.expect("a pass").next_in, None);
    journal.begin_term();
    assert!(journal.news().reports.is_empty(), "a new term has done nothing yet");
}

#[tokio::test(start_paused = true)]
async fn failures_count_until_a_pass_ends_well_and_the_last_error_stays() {
    let journal = Journal::new(["a"], []);
    let duty = Named("a");
    for failures in 1..=3 {
        journal.began(&duty);
        journal.failed(&duty, &Error::Panicked(format!("the words of {failures}")), SECOND);
        let report = journal.news().reports.remove(0);
        assert_eq!((report.failures, report.passes), (failures, 0));
        let last = report.ended.expect("a pass");
        assert_eq!((last.changed, last.is_caught_up, last.next_in), (None, None, Some(SECOND)));
    }
    journal.passed(&duty, pass(0, Next::Now));
    tokio::time::advance(SECOND).await;
    let report = journal.news().reports.remove(0);
    assert_eq!((report.failures, report.failed), (0, Some((SECOND, "panicked: the words of 3".to_owned()))));
}

#[test]
fn a_duty_that_is_not_in_the_journal_is_passed_by() {
    let journal = Journal::default();
    journal.began(&Named("a"));
    assert!(journal.news().reports.is_empty());
}
