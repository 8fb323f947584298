//! Each way in which a run can go wrong, made by spoiling a good one.

use super::*;

/// Two files, every job as it should be, a merge that died once with one file checkpointed.
fn good() -> (Expected, Found) {
    let files: Vec<(String, Facts)> = ["a", "b"].map(|path| (path.to_owned(), Facts::of(path.as_bytes()))).to_vec();
    let mut total = Total::default();
    for (path, facts) in &files {
        total.add(path, facts);
    }
    let mut jobs: Vec<Seen> = (1..)
        .zip([kinds::INDEX_FILE].into_iter().chain(kinds::ALL.map(|(kind, _)| kind)))
        .map(|(id, kind)| seen(id, kind))
        .collect();
    for job in &mut jobs {
        match job.kind.as_str() {
            kinds::MERGE => {
                (job.attempt, job.run_lease, job.rescues) = (2, 2, 1);
                job.result = Some(serde_json::json!({ "total": total, "resumed_at": 1 }));
            }
            kinds::SUMMARY => {
                (job.snoozes, job.run_lease) = (2, 3);
                job.result = Some(serde_json::json!({ "total": total }));
            }
            kinds::FLAKY => (job.attempt, job.run_lease, job.failures) = (3, 3, 2),
            _ => {}
        }
    }
    let orphan = Orphan { id: position(&jobs, kinds::MERGE).1, run_lease: 1, checkpoint: 1 };
    let found = Found { jobs, files: (0..).zip(files.clone()).collect(), announcements: 1 };
    (Expected { files, killed: Some(vec![orphan]) }, found)
}

fn seen(id: i64, kind: &str) -> Seen {
    Seen {
        id,
        kind: kind.to_owned(),
        state: kinds::COMPLETED.to_owned(),
        attempt: 1,
        run_lease: 1,
        snoozes: 0,
        rescues: 0,
        failures: 0,
        run_at: DateTime::UNIX_EPOCH,
        attempted_at: Some(DateTime::UNIX_EPOCH),
        finalized_at: Some(DateTime::UNIX_EPOCH),
        last_error: None,
        result: None,
    }
}

fn position(jobs: &[Seen], kind: &str) -> (usize, i64) {
    let at = jobs.iter().position(|job| job.kind == kind).unwrap();
    (at, jobs[at].id)
}

/// Spoils a good run and expects the one reason that mentions `reason`.
#[track_caller]
fn check(kind: &str, spoil: impl FnOnce(&mut Seen, &mut Expected), reason: &str) {
    let (mut expected, mut found) = good();
    let (at, _) = position(&found.jobs, kind);
    spoil(&mut found.jobs[at], &mut expected);
    let reasons = differences(&expected, &found);
    assert!(reasons.iter().any(|given| given.contains(reason)), "{reason} not in {reasons:#?}");
}

#[test]
fn a_good_run_has_no_differences() {
    let (expected, found) = good();
    assert_eq!(differences(&expected, &found), Vec::<String>::new());
}

#[test]
fn each_wrong_job_is_named() {
    check(kinds::INDEX_FILE, |job, _| job.state = "failed".to_owned(), "is failed instead of");
    check(kinds::INDEX_FILE, |job, _| job.attempt = 2, "attempt 2 after 0");
    check(kinds::INDEX_FILE, |job, _| job.run_lease = 2, "lease 2 for 1 attempts");
    check(kinds::INDEX_FILE, |job, _| (job.rescues, job.attempt, job.run_lease) = (1, 2, 2), "its worker died 0 times");
    check(kinds::INDEX_FILE, |job, _| job.snoozes = 1, "snoozed 1 times");
    check(kinds::DELAYED, |job, _| job.run_at += chrono::TimeDelta::seconds(1), "ran before it was due");
    check(kinds::FLAKY, |job, _| (job.attempt, job.run_lease, job.failures) = (1, 1, 0), "expected two");
    check(kinds::SUMMARY, |job, _| (job.snoozes, job.run_lease) = (0, 1), "never had to wait");
    check(kinds::SUMMARY, |job, _| job.result = None, "summarise answered None");
    check(kinds::ANNOUNCE, |job, _| job.kind = "unknown".to_owned(), "0 jobs of kind announce");
}

#[test]
fn a_rescue_that_went_wrong_is_named() {
    check(kinds::MERGE, |_, expected| expected.killed = Some(Vec::new()), "no rescue was seen");
    check(kinds::MERGE, |job, _| job.run_lease = 1, "kept the lease of its dead attempt");
    check(kinds::MERGE, |_, expected| expected.killed.as_mut().unwrap()[0].checkpoint = 2, "merge resumed at file 1");
    check(kinds::MERGE, |job, _| job.id = 99, "is gone since its worker was killed");
}

#[test]
fn a_wrong_index_is_named() {
    let spoilt = |spoil: fn(&mut Found)| {
        let (expected, mut found) = good();
        spoil(&mut found);
        differences(&expected, &found).join("\n")
    };
    assert!(spoilt(|found| _ = found.files.remove(&1)).contains("file 1 (b) is not in the index"));
    assert!(spoilt(|found| found.files.get_mut(&0).unwrap().1.lines += 1).contains("computed directly"));
    assert!(spoilt(|found| found.announcements = 2).contains("the unique job ran 2 times"));
}
