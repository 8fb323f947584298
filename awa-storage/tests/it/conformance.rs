//! One table of cases through every producer: the same rows, the same outcomes, the same words of refusal, whether a job comes
//! from Rust (one, many, COPY) or from SQL (`awa.enqueue`, `awa.enqueue_many`, the view). What docs/producers.md promises to other
//! languages is checked here against Rust.

mod cases;
mod rust;

use awa_model::Inserted;
use awa_storage::{
    enqueue::{enqueue, enqueue_copy, enqueue_many},
    testing::TestDatabase,
};
use serde_json::{Value, json};
use sqlx::{PgPool, Row as _};

use self::cases::{Case, cases};
use crate::producing::{count, rows};

/// The ways in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Path {
    RustOne,
    RustMany,
    RustCopy,
    SqlOne,
    SqlMany,
    View,
}

/// What a path made of a job: the id and the outcome, or why not.
type Answer = Result<(i64, &'static str), String>;

const SQL_ONE: &str = "select job_id, outcome from (select $1::jsonb) as given (job)
    cross join lateral awa.enqueue(
        kind => job ->> 'kind', args => job -> 'args', queue => job ->> 'queue',
        priority => (job ->> 'priority')::integer, run_at => (job ->> 'run_at')::timestamptz,
        run_in => case jsonb_typeof(job -> 'run_in') when 'number' then make_interval(secs => (job ->> 'run_in')::float8)
                  else (job ->> 'run_in')::interval end,
        max_attempts => (job ->> 'max_attempts')::integer,
        timeout => case jsonb_typeof(job -> 'timeout') when 'number' then make_interval(secs => (job ->> 'timeout')::float8)
                   else (job ->> 'timeout')::interval end,
        tags => case when job ? 'tags' then array(select jsonb_array_elements_text(job -> 'tags')) end,
        metadata => job -> 'metadata', unique_by => job -> 'unique_by', on_conflict => job ->> 'on_conflict',
        trace_context => job ->> 'trace_context')";

const SQL_MANY: &str = "select job_id, outcome from awa.enqueue_many(jsonb_build_array($1::jsonb))";

const VIEW: &str = "insert into awa.jobs (kind, args, queue, priority, run_at, max_attempts, timeout, tags, metadata, trace_context)
    select job ->> 'kind', job -> 'args', job ->> 'queue', (job ->> 'priority')::integer, (job ->> 'run_at')::timestamptz,
           (job ->> 'max_attempts')::integer,
           case jsonb_typeof(job -> 'timeout') when 'number' then make_interval(secs => (job ->> 'timeout')::float8)
           else (job ->> 'timeout')::interval end,
           case when job ? 'tags' then array(select jsonb_array_elements_text(job -> 'tags')) end,
           job -> 'metadata', job ->> 'trace_context'
      from (select $1::jsonb) as given (job)
    returning id, 'inserted'";

impl Path {
    const ALL: [Self; 6] = [Self::RustOne, Self::RustMany, Self::RustCopy, Self::SqlOne, Self::SqlMany, Self::View];

    /// `None` if a job like this cannot be written down on this path.
    async fn enqueue(self, pool: &PgPool, job: &Value) -> Option<Answer> {
        match self {
            Self::SqlOne => Some(sql(pool, SQL_ONE, job, "").await),
            Self::SqlMany => Some(sql(pool, SQL_MANY, job, "jobs[0].").await),
            // A table has no column for these: the view takes a key that is computed, and a time.
            Self::View if ["unique_by", "on_conflict", "run_in"].iter().any(|key| job.get(key).is_some()) => None,
            Self::View => Some(sql(pool, VIEW, job, "").await),
            Self::RustOne | Self::RustMany | Self::RustCopy => self.by_rust(pool, job).await,
        }
    }

    async fn by_rust(self, pool: &PgPool, job: &Value) -> Option<Answer> {
        let job = match rust::prepared(job)? {
            Ok(job) => [job],
            Err(refusal) => return Some(Err(refusal.to_string())),
        };
        let answers = match self {
            Self::RustOne => enqueue(pool, &job[0]).await.map(|answer| vec![answer]),
            Self::RustMany => enqueue_many(pool, &job).await,
            _ => enqueue_copy(&mut pool.acquire().await.expect("the server answers"), &job).await,
        };
        Some(match answers.map(|answers| answers[0]) {
            Ok(Inserted::New(id)) => Ok((id.get(), "inserted")),
            Ok(Inserted::Duplicate(id)) => Ok((id.get(), "duplicate")),
            Ok(Inserted::Replaced(id)) => Ok((id.get(), "replaced")),
            Err(error) => Err(error.to_string()),
        })
    }
}

async fn sql(pool: &PgPool, statement: &'static str, job: &Value, place: &str) -> Answer {
    match sqlx::query(statement).bind(job).fetch_one(pool).await {
        Ok(row) => {
            let outcome: String = row.get(1);
            let outcome = ["inserted", "duplicate", "replaced"].into_iter().find(|known| *known == outcome);
            Ok((row.get(0), outcome.expect("an outcome that is documented")))
        }
        Err(sqlx::Error::Database(error)) => {
            assert!(matches!(error.code().as_deref(), Some("22023" | "AWA02")), "{error:?}");
            let message = error.message();
            Err(message.strip_prefix(place).unwrap_or(message).to_owned())
        }
        Err(error) => panic!("{error}"),
    }
}

/// What became of the tables, in a form that is the same for each path: ids are places in the order of insertion, and a due
/// time that the database chose counts from the start of the transaction.
async fn tables(pool: &PgPool, job: &Value) -> Vec<Value> {
    let mut rows = rows(pool).await;
    for row in &mut rows {
        let time = |column: &str| {
            let text = row[column].as_str().expect("a time");
            text.parse::<chrono::DateTime<chrono::Utc>>().expect("a time")
        };
        let delay = (time("run_at") - time("created_at")).num_microseconds();
        if job.get("run_at").is_none() {
            row["run_at"] = json!(delay);
        }
        for column in ["id", "seq", "segment", "created_at"] {
            row.as_object_mut().expect("a row").remove(column);
        }
    }
    rows
}

/// Runs a case on a path: what it answered, with the place of the job instead of its id, and the tables.
async fn run(path: Path, pool: &PgPool, case: &Case) -> Option<(Result<String, String>, Vec<Value>)> {
    if path == Path::View && (case.only_json || !case.before.is_empty()) {
        return None;
    }
    let mut ids = Vec::new();
    for job in &case.before {
        ids.push(path.enqueue(pool, job).await?.expect("enqueued").0);
    }
    // The case before this one has left nothing.
    let before = if case.before.is_empty() { Vec::new() } else { tables(pool, &case.job).await };
    let answer = path.enqueue(pool, &case.job).await?;
    let after = tables(pool, &case.job).await;
    let answer = match answer {
        Ok((id, outcome)) => Ok(match ids.iter().position(|other| *other == id) {
            Some(place) => format!("{outcome} {place}"),
            None => outcome.to_owned(),
        }),
        Err(refusal) => {
            assert_eq!(after, before, "{path:?} {}: nothing was written", case.claim);
            let held_by = ids.iter().position(|id| refusal == format!("job {id} holds the unique key"));
            Err(held_by.map_or(refusal, |place| format!("job {place} holds the unique key")))
        }
    };
    if !after.is_empty() {
        sqlx::raw_sql("delete from awa.jobs_hot; delete from awa.scheduled_jobs").execute(pool).await.expect("emptied");
    }
    assert_eq!(count(pool, "awa.job_unique_claims").await, 0);
    Some((answer, after))
}

#[tokio::test]
async fn every_path_makes_the_same_of_the_same_job() {
    let cases = cases();
    let mut made = vec![Vec::new(); cases.len()];
    for path in Path::ALL {
        let database = TestDatabase::new().await;
        for (case, made) in cases.iter().zip(&mut made) {
            made.extend(run(path, &database.pool(), case).await.map(|(answer, tables)| (path, answer, tables)));
        }
    }
    for (case, made) in cases.iter().zip(&made) {
        let functions = made.iter().filter(|(path, ..)| *path != Path::View).count();
        assert!(functions == 5 || case.only_json, "{}: {functions} paths", case.claim);
        for (path, answer, tables) in made {
            let expected = case.expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(answer, &expected, "{path:?}: {}", case.claim);
            assert_eq!(tables, &made[0].2, "{path:?} and {:?}: {}", made[0].0, case.claim);
        }
    }
}

/// What only JSON can be wrong in: an unknown key, another type, another element. Each error names its place.
#[tokio::test]
async fn what_is_no_job_at_all_is_refused_with_its_place() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (jobs, refusal) in cases::NO_JOBS {
        let answer = sqlx::query("select awa.enqueue_many($1::text::jsonb)").bind(jobs).fetch_all(&pool).await;
        let error = answer.expect_err(jobs);
        let error = error.as_database_error().expect("the server answers");
        assert_eq!((error.code().as_deref(), error.message()), (Some("22023"), *refusal), "{jobs}");
    }
    assert_eq!((count(&pool, "awa.jobs").await, count(&pool, "awa.job_unique_claims").await), (0, 0));
}
