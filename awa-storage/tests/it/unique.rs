//! Unique jobs: what makes two jobs the same, and that every enqueue gets one of two answers, whoever else is at it.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use awa_model::{Due, Inserted, JobId, JobState, Kind, PreparedJob, Unique, UniqueStates};
use awa_storage::{
    Error,
    enqueue::{enqueue, enqueue_many},
    testing::TestDatabase,
};
use futures_util::future::join_all;
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};
use sqlx::{Connection as _, PgPool};

use crate::producing::{backend, blocked, count, finish, job, new, queue, unique};
use crate::scene::run;

/// The encoding of awa.unique_key, pinned: keys computed from its description by another program.
#[tokio::test]
async fn unique_keys_are_those_of_their_description() {
    let vectors = [
        ("'resize', null, null, null, null, now()", "cf78d7ad3a0cf24973aae9024a275653"),
        ("'resize', 'images', null, null, null, now()", "9830bc5c194099e64f4033f4e6e3e087"),
        (
            r#"'resize', null, '{"b": {"y": 2.0, "x": 1}, "a": 1.00}', null, null, now()"#,
            "187bf8ed1f7c5ed55c0f21e6c1f307d7",
        ),
        ("'resize', null, '[1, 2]', null, null, now()", "fd8f14955a9d50817ffab86cdfa47a11"),
        (r#"'grüße', 'ключ', '{"ü": "🦀"}', null, null, now()"#, "c35ce1d3b7814341bfa58acb50870f24"),
        (r#"'resize', null, '{"a": 1, "b": 2}', '{a}', null, now()"#, "36f1d361a232653c0047b5f0ba9954c6"),
        (r#"'resize', null, '{"c": null, "a": 1}', '{c,b,a,b}', null, now()"#, "425256a3eca7a34cc76fe02613c1e23c"),
        ("'resize', null, null, null, 3600, '2026-01-01 00:59:59+00'", "8b239bcbfeda7a820e1c5c4de538a189"),
        ("'resize', 'q', '{}', null, 0.5, '2026-01-01 00:00:00.75+00'", "5cd266a210308e204d2aacfe9eb2de96"),
    ];
    let database = TestDatabase::new().await;
    for (arguments, expected) in vectors {
        let statement = sqlx::AssertSqlSafe(format!("select encode(awa.unique_key({arguments}), 'hex')"));
        let key: String = sqlx::query_scalar(statement).fetch_one(&database.pool()).await.expect("a key");
        assert_eq!(key, expected, "{arguments}");
    }
}

/// Enqueues the first, then the second, and says whether the second is a duplicate of the first.
async fn same(pool: &PgPool, first: PreparedJob, second: PreparedJob) -> bool {
    let id = new(enqueue(pool, &first).await.expect("enqueued"));
    let one = enqueue(pool, &second).await.expect("enqueued");
    let many = enqueue_many(pool, &[second]).await.expect("enqueued");
    run(pool, "select awa.delete_jobs(array(select id from awa.jobs))").await;
    assert_eq!(count(pool, "awa.job_unique_claims").await, 0, "the next pair finds nobody");
    match one {
        Inserted::Duplicate(holder) => {
            assert_eq!((holder, many), (id, vec![one]));
            true
        }
        Inserted::New(second) | Inserted::Replaced(second) => {
            assert_eq!(many, [Inserted::Duplicate(second)], "it holds a key of its own");
            false
        }
    }
}

#[tokio::test]
async fn args_are_compared_as_json_values() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let original = r#"{"a":1,"b":{"x":1,"y":2},"list":[1,2]}"#;
    for equal in [
        r#"{ "list": [1, 2], "b": {"y": 2, "x": 1}, "a": 1 }"#,
        r#"{"a":1.0,"b":{"x":1e0,"y":2.00},"list":[1,2]}"#,
        r#"{"\u0061":0,"a":1,"b":{"x":1,"y":2},"list":[1,2]}"#,
    ] {
        assert!(same(&pool, unique(original), unique(equal)).await, "{equal}");
    }
    for other in [
        r#"{"a":1,"b":{"x":1,"y":2},"list":[2,1]}"#,
        r#"{"a":"1","b":{"x":1,"y":2},"list":[1,2]}"#,
        r#"{"a":1,"b":{"x":1,"y":2},"list":[1,2],"c":null}"#,
    ] {
        assert!(!same(&pool, unique(original), unique(other)).await, "{other}");
    }
}

#[tokio::test]
async fn digits_in_strings_are_not_numbers() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    assert!(!same(&pool, unique(r#"["1.0"]"#), unique(r#"["1"]"#)).await);
    assert!(!same(&pool, unique(r#"["\"1.0"]"#), unique(r#"["\"1"]"#)).await);
    assert!(!same(&pool, unique(r#"[1.01]"#), unique(r#"[1.1]"#)).await);
    assert!(!same(&pool, unique(r#"[10]"#), unique(r#"[1.0]"#)).await);
}

fn by(args: &str, rule: &Unique) -> PreparedJob {
    PreparedJob { unique: Some(rule.clone()), ..job(args) }
}

#[tokio::test]
async fn named_fields_alone_are_compared() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let rule = Unique::until_finished().fields(["user", "day"]);
    let original = by(r#"{"user":7,"day":null,"note":"a"}"#, &rule);
    assert!(same(&pool, original.clone(), by(r#"{"note":"b","day":null,"user":7}"#, &rule)).await);
    let reordered = Unique::until_finished().fields(["day", "user"]);
    assert!(same(&pool, original.clone(), by(r#"{"user":7,"day":null}"#, &reordered)).await);
    assert!(!same(&pool, original.clone(), by(r#"{"user":7}"#, &rule)).await, "absent is not null");
    assert!(!same(&pool, original, by(r#"{"user":8,"day":null}"#, &rule)).await);
}

#[tokio::test]
async fn kind_always_counts_and_queue_when_asked() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let one = unique("{}");
    let kind = PreparedJob { kind: Kind::new("other").expect("a name"), ..one.clone() };
    assert!(!same(&pool, one.clone(), kind).await);
    let elsewhere = PreparedJob { queue: queue("elsewhere"), ..one.clone() };
    assert!(same(&pool, one.clone(), elsewhere.clone()).await);
    let per_queue = |job| PreparedJob { unique: Some(Unique::until_finished().per_queue()), ..job };
    assert!(!same(&pool, per_queue(one), per_queue(elsewhere)).await);
}

#[tokio::test]
async fn period_of_the_due_time_counts() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let at = |time: &str| PreparedJob {
        due: Due::At(time.parse().expect("a time")),
        ..by("{}", &Unique::within(Duration::from_secs(3600)))
    };
    assert!(same(&pool, at("2020-01-01T10:00:00Z"), at("2020-01-01T10:59:59.999999Z")).await);
    assert!(!same(&pool, at("2020-01-01T10:00:00Z"), at("2020-01-01T11:00:00Z")).await);
}

#[tokio::test]
async fn first_of_equal_jobs_in_a_batch_is_added() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let held = new(enqueue(&pool, &unique("0")).await.expect("enqueued"));
    let batch = ["2", "0", "1", "2", "1", "2"].map(unique);
    let answers = enqueue_many(&pool, &batch).await.expect("enqueued");
    let (two, one) = (new(answers[0]), new(answers[2]));
    let duplicate = Inserted::Duplicate;
    assert_eq!(
        answers,
        [Inserted::New(two), duplicate(held), Inserted::New(one), duplicate(two), duplicate(one), duplicate(two)]
    );
    assert_eq!((count(&pool, "awa.jobs").await, count(&pool, "awa.job_unique_claims").await), (3, 3));
}

#[tokio::test]
async fn deferred_and_due_jobs_share_their_keys() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let later = PreparedJob { due: Due::In(Duration::from_secs(3600)), ..unique("{}") };
    assert!(same(&pool, later.clone(), unique("{}")).await);
    assert!(same(&pool, unique("{}"), later).await);
}

#[tokio::test]
async fn job_whose_first_state_is_not_in_its_rule_takes_no_key() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let rule = Unique::until_finished().states(UniqueStates::of(&[JobState::Retryable]));
    let batch = [by("{}", &rule), by("{}", &rule), unique("{}"), by("{}", &rule)];
    let answers = enqueue_many(&pool, &batch).await.expect("enqueued");
    assert!(answers.iter().all(Inserted::is_new));
    assert!(enqueue(&pool, &batch[0]).await.expect("enqueued").is_new());
    assert_eq!(count(&pool, "awa.job_unique_claims").await, 1);
}

#[tokio::test]
async fn key_is_free_again_once_its_job_is_finished_deleted_or_truncated() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = new(enqueue(&pool, &unique("{}")).await.expect("enqueued"));
    finish(&pool, id).await;
    let _ = new(enqueue(&pool, &unique("{}")).await.expect("enqueued"));
    sqlx::query("delete from awa.jobs_hot").execute(&pool).await.expect("the server answers");
    let _ = new(enqueue(&pool, &unique("{}")).await.expect("enqueued"));
    sqlx::query("truncate awa.jobs_hot_0").execute(&pool).await.expect("the server answers");
    let _ = new(enqueue(&pool, &unique("{}")).await.expect("enqueued"));
    assert_eq!(count(&pool, "awa.job_unique_claims").await, 1);
}

/// One transaction enqueues a key and stays open; another enqueue of the key waits. Returns its answer after the end of
/// the first, and the id that the first got.
async fn behind_an_open_transaction(commits: bool, many: bool) -> (JobId, Inserted) {
    let database = TestDatabase::new().await;
    let (mut first, mut second) = (database.connect().await, database.connect().await);
    let waiting = backend(&mut second).await;
    let mut tx = first.begin().await.expect("the server answers");
    let id = new(enqueue(&mut *tx, &unique("{}")).await.expect("enqueued"));
    let answer = tokio::spawn(async move {
        if many {
            enqueue_many(&mut second, &[unique("{}")]).await.map(|answers| answers[0])
        } else {
            enqueue(&mut second, &unique("{}")).await
        }
    });
    blocked(&database.pool(), waiting).await;
    if commits {
        tx.commit().await.expect("the server answers");
    } else {
        tx.rollback().await.expect("the server answers");
    }
    (id, answer.await.expect("no panic").expect("enqueued"))
}

#[tokio::test]
async fn enqueue_waits_for_an_open_transaction_and_then_knows_the_answer() {
    for many in [false, true] {
        let (id, answer) = behind_an_open_transaction(true, many).await;
        assert_eq!(answer, Inserted::Duplicate(id));
        let (id, answer) = behind_an_open_transaction(false, many).await;
        assert!(new(answer) > id);
    }
}

#[tokio::test]
async fn enqueue_waits_for_a_job_that_is_being_finished() {
    for commits in [true, false] {
        let database = TestDatabase::new().await;
        let (mut worker, mut producer) = (database.connect().await, database.connect().await);
        let waiting = backend(&mut producer).await;
        let id = new(enqueue(&database.pool(), &unique("{}")).await.expect("enqueued"));
        let mut tx = worker.begin().await.expect("the server answers");
        sqlx::query("delete from awa.jobs_hot").execute(&mut *tx).await.expect("the server answers");
        let answer = tokio::spawn(async move { enqueue(&mut producer, &unique("{}")).await });
        blocked(&database.pool(), waiting).await;
        if commits {
            tx.commit().await.expect("the server answers");
        } else {
            tx.rollback().await.expect("the server answers");
        }
        let answer = answer.await.expect("no panic").expect("enqueued");
        assert_eq!(answer.is_new(), commits);
        assert_eq!(answer.id() == id, !commits);
    }
}

#[tokio::test]
async fn serialization_failure_of_a_repeatable_read_caller_passes_through() {
    let database = TestDatabase::new().await;
    let mut caller = database.connect().await;
    for many in [false, true] {
        let args = format!("{many}");
        let mut tx = caller.begin_with("begin isolation level repeatable read").await.expect("the server answers");
        sqlx::query("select from awa.ring").execute(&mut *tx).await.expect("takes its snapshot");
        let _ = enqueue(&database.pool(), &unique(&args)).await.expect("enqueued");
        let error = if many {
            enqueue_many(&mut *tx, &[unique(&args)]).await.expect_err("its snapshot cannot show the holder")
        } else {
            enqueue(&mut *tx, &unique(&args)).await.expect_err("its snapshot cannot show the holder")
        };
        assert_eq!(error.sqlstate().as_deref(), Some("40001"));
        assert!(error.is_transient());
        tx.rollback().await.expect("the server answers");
    }
}

#[tokio::test]
async fn key_that_never_settles_is_an_error_of_its_own() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    // As if somebody took and gave back the key between every two looks.
    sqlx::raw_sql(
        "create function awa.vanish() returns trigger language plpgsql as 'begin return null; end';
         create trigger vanish before insert on awa.job_unique_claims for each row execute function awa.vanish();",
    )
    .execute(&pool)
    .await
    .expect("the server answers");
    let error = enqueue(&pool, &unique("{}")).await.expect_err("no answer to give");
    assert!(matches!(error, Error::UniqueKeyContended) && error.is_transient());
    assert_eq!(count(&pool, "awa.jobs").await, 0);
}

#[tokio::test]
async fn batches_with_the_same_keys_in_any_order_do_not_deadlock() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let producers = (0..6).map(|seed| {
        let pool = pool.clone();
        async move {
            let mut random = StdRng::seed_from_u64(seed);
            let mut batch: Vec<_> = (0..40).map(|n| unique(&n.to_string())).collect();
            for _ in 0..15 {
                batch.shuffle(&mut random);
                let mut connection = pool.acquire().await.expect("the server answers");
                let mut tx = connection.begin().await.expect("the server answers");
                let answers = enqueue_many(&mut *tx, &batch).await.expect("no deadlock");
                assert_eq!(answers.len(), batch.len());
                // Half of them free the keys again, so that the others go on taking them.
                if random.random_bool(0.5) {
                    tx.rollback().await.expect("the server answers");
                } else {
                    tx.commit().await.expect("the server answers");
                }
            }
        }
    });
    join_all(producers).await;
    assert_eq!(count(&pool, "awa.jobs").await, 40);
}

/// Ten keys, many producers, jobs that end while others ask for their keys (graphile/worker issue 580).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_enqueue_is_answered_while_jobs_of_the_same_keys_end() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let added = Arc::new(Mutex::new(HashSet::new()));
    let pointed_at = Arc::new(Mutex::new(HashSet::new()));
    let done = Arc::new(AtomicBool::new(false));
    let producers = (0..6).map(|seed| {
        let (pool, added, pointed_at) = (pool.clone(), Arc::clone(&added), Arc::clone(&pointed_at));
        tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed);
            for round in 0..60 {
                let mut key = || unique(&(random.next_u32() % 10).to_string());
                let answers = if round % 3 == 0 {
                    let batch = [key(), key(), key()];
                    enqueue_many(&pool, &batch).await.expect("an answer for each")
                } else {
                    vec![enqueue(&pool, &key()).await.expect("an answer")]
                };
                assert_eq!(answers.len(), if round % 3 == 0 { 3 } else { 1 });
                for answer in answers {
                    let book = if answer.is_new() { &added } else { &pointed_at };
                    book.lock().expect("no panic").insert(answer.id());
                }
            }
        })
    });
    let finishers: Vec<_> = (0..2).map(|_| tokio::spawn(finish_all(pool.clone(), Arc::clone(&done)))).collect();
    for producer in producers.collect::<Vec<_>>() {
        producer.await.expect("every enqueue is answered");
    }
    done.store(true, Ordering::SeqCst);
    for finisher in finishers {
        finisher.await.expect("no panic");
    }
    let (added, pointed_at) = (ids(&added), ids(&pointed_at));
    assert!(pointed_at.is_subset(&added), "a duplicate names a job that was added");
    let finished: i64 = sqlx::query_scalar("select count(*) from awa.jobs_hot where state = 'completed'")
        .fetch_one(&pool)
        .await
        .expect("the server answers");
    assert_eq!(usize::try_from(finished), Ok(added.len()), "each job that was added ran, the last of each key too");
    assert_eq!(count(&pool, "awa.job_unique_claims").await, 0);
}

fn ids(book: &Mutex<HashSet<JobId>>) -> HashSet<JobId> {
    book.lock().expect("no panic").clone()
}

/// Runs whatever is available, in two statements a batch as a worker does, until told that nothing more comes.
async fn finish_all(pool: PgPool, done: Arc<AtomicBool>) {
    let claim = "update awa.jobs_hot set state = 'running'
                  where id in (select id from awa.jobs_hot where state = 'available'
                                order by seq limit 5 for update skip locked)
                  returning id";
    loop {
        let last = done.load(Ordering::SeqCst);
        let claimed: Vec<JobId> = sqlx::query_scalar(claim).fetch_all(&pool).await.expect("the server answers");
        for id in &claimed {
            sqlx::query("update awa.jobs_hot set state = 'completed' where id = $1")
                .bind(id)
                .execute(&pool)
                .await
                .expect("the server answers");
        }
        if last && claimed.is_empty() {
            return;
        }
    }
}
