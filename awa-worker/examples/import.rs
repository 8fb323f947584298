//! A long import that goes on where it was interrupted, and whose last line and its end are one transaction.
//!
//! `DATABASE_URL=postgres://… cargo run -p awa-worker --example import -- FILE`: kill it half way and start it again. Each
//! line of the file ends up in the table `imported` once, and the sum in `imports` is written once.

use awa_worker::sqlx::{self, PgPool};
use awa_worker::{Client, Data, JobArgs, JobContext, JobError, NewJob, Outcome, ResultExt as _};
use tokio::sync::mpsc;

const LINES_PER_BATCH: usize = 100;

#[derive(serde::Serialize, serde::Deserialize, JobArgs)]
#[job(kind = "import", unique(args), output = u64)]
struct Import {
    file: String,
}

async fn import(
    job: Import,
    context: JobContext,
    pool: Data<PgPool>,
    done: Data<mpsc::UnboundedSender<()>>,
) -> Result<Outcome<u64>, JobError> {
    let text = tokio::fs::read_to_string(&job.file).await.fatal()?; // no file, no second attempt
    let lines: Vec<_> = text.lines().collect();

    // Steps are for what should not be repeated. Results are kept with the job: small ones, please.
    let import_id: i64 = context.step("begin", async || begin(&pool, &job.file).await).await?;

    // A checkpoint is for where to go on. Lines that were written after it was stored come once more.
    let first: usize = context.checkpoint("next_line")?.unwrap_or(0);
    println!("attempt {} goes on at line {first} of {}", context.attempt(), lines.len());
    for start in (first..lines.len()).step_by(LINES_PER_BATCH) {
        if context.is_cancelled() {
            return Err("asked to stop".into()); // tried again later, from the checkpoint
        }
        let end = lines.len().min(start + LINES_PER_BATCH);
        write(&pool, import_id, start, &lines[start..end]).await?;
        context.progress().set((end * 100 / lines.len()) as u64, format!("line {end} of {}", lines.len()))?;
        context.set_checkpoint("next_line", &end)?;
        context.progress().flush().await?; // without it, with the next heartbeat
    }

    // The sum and the end of the job: both, or neither.
    let mut tx = pool.begin().await?;
    let sum =
        "update imports set lines = (select count(*) from imported where import = id) where id = $1 returning lines";
    let imported: i64 = sqlx::query_scalar(sum).bind(import_id).fetch_one(&mut *tx).await?;
    let completed = context.complete_in(&mut *tx, imported.unsigned_abs()).await?;
    tx.commit().await?;
    done.send(()).ok();
    Ok(completed)
}

async fn begin(pool: &PgPool, file: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("insert into imports (file) values ($1) returning id").bind(file).fetch_one(pool).await
}

/// Writing the same lines again changes nothing.
async fn write(pool: &PgPool, import: i64, start: usize, lines: &[&str]) -> Result<(), sqlx::Error> {
    let insert = "insert into imported (import, line, content)
                  select $1, $2 + place, content from unnest($3::text[]) with ordinality as line (content, place)
                  on conflict do nothing";
    sqlx::query(insert).bind(import).bind(start as i64).bind(lines).execute(pool).await?;
    Ok(())
}

const TABLES: &str = "
    create table if not exists imports (id bigserial primary key, file text not null, lines bigint);
    create table if not exists imported (import bigint, line bigint, content text, primary key (import, line))";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("which file?")?;
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    awa_worker::migrate(&pool).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let job = awa_worker::enqueue(&pool, NewJob::new(&Import { file })).await?;
    println!("enqueued {job:?}");

    let (done, mut finished) = mpsc::unbounded_channel::<()>();
    let client = Client::builder(pool.clone()).register(import).data(pool).data(done).build()?;
    client.run_until(async { finished.recv().await.unwrap_or_default() }).await?;
    Ok(())
}
