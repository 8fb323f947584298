//! The steps that take a database to a schema, as SQL: run one by one by the runner, or printed whole for psql.
//!
//! One list for both, so that what an operator runs by hand is what the runner would have run.

use std::borrow::Cow;

use crate::comments::described;
use crate::history::{FUNCTIONS_VERSION, pending};
use crate::{Function, Migration, Schema};

const BOOTSTRAP: &str = include_str!("bootstrap.sql");

const FINISH: &str = include_str!("finish.sql");

/// Settings of the migrating transaction: files must qualify what they name, and no timeout of the service applies.
/// Waits for locks are set apart: they differ between the runner and a script.
pub(crate) const SETTINGS: &str = "set local search_path = pg_catalog, pg_temp;
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = 0;
set local check_function_bodies = on;
set local client_min_messages = warning;
";

/// One file, or the bookkeeping after it.
pub(crate) struct Step {
    /// What to name when it fails.
    pub(crate) title: String,
    /// What to run.
    pub(crate) sql: Cow<'static, str>,
}

/// The steps from version `found` to the newest of `schema`, functions included.
pub(crate) fn steps(found: i32, schema: &Schema) -> Vec<Step> {
    let mut steps = vec![Step { title: "the bootstrap".to_owned(), sql: Cow::Borrowed(BOOTSTRAP) }];
    for migration in pending(found, schema) {
        // The row goes first: a script run twice then stops at a duplicate key before it does anything.
        let title = format!("migration {}", migration.title());
        steps.push(Step { title: title.clone(), sql: Cow::Owned(record_migration(migration, schema)) });
        steps.push(Step { title, sql: Cow::Borrowed(migration.sql) });
    }
    for function in schema.functions() {
        let title = format!("functions/{}", function.name);
        steps.push(Step { title: title.clone(), sql: Cow::Borrowed(function.sql) });
        steps.extend(comment_on(function).map(|sql| Step { title, sql: Cow::Owned(sql) }));
    }
    steps.push(Step { title: "the rights".to_owned(), sql: Cow::Borrowed(FINISH) });
    steps.push(Step { title: "the record of the functions".to_owned(), sql: Cow::Owned(record_functions(schema)) });
    steps
}

/// The whole schema as one transaction for an empty database: `psql -v ON_ERROR_STOP=1 -f`.
///
/// It leaves the history that the runner would have left, so later releases continue from it.
pub fn script() -> String {
    let schema = Schema::embedded();
    let mut text = format!(
        "-- Awa schema version {}, release {}, for an empty database.\n\
         -- Run with: psql -v ON_ERROR_STOP=1 -f FILE\n\nbegin;\n{SETTINGS}",
        schema.version(),
        schema.release()
    );
    for step in steps(0, &schema) {
        text.push_str(&format!("\n-- {}\n{}\n", step.title, step.sql.trim_end()));
    }
    text.push_str("\ncommit;\n");
    text
}

fn record_migration(migration: &Migration, schema: &Schema) -> String {
    format!(
        "insert into awa.schema_migrations (version, name, checksum, release) values ({}, {}, {}, {});",
        migration.version,
        literal(migration.name),
        literal(&migration.checksum()),
        literal(schema.release())
    )
}

fn record_functions(schema: &Schema) -> String {
    format!(
        "insert into awa.schema_migrations (version, name, checksum, release)\n\
         values ({FUNCTIONS_VERSION}, 'functions', {}, {})\n\
         on conflict (version) do update\n   \
         set checksum = excluded.checksum, release = excluded.release, applied_at = now();",
        literal(&schema.functions_checksum()),
        literal(schema.release())
    )
}

/// Whatever the parameters: the runner knows functions by name alone.
fn comment_on(function: &Function) -> Option<String> {
    let described = described(function);
    let values: Vec<String> =
        described.iter().map(|(name, text)| format!("({}, {})", literal(name), literal(text))).collect();
    (!values.is_empty()).then(|| {
        format!(
            "do $comments$\n\
             declare\n    told record;\n\
             begin\n    for told in\n        \
             select routine.oid::regprocedure as signature, given.text\n          \
             from (values {}) as given (name, text)\n          \
             join pg_proc as routine on routine.proname = given.name and routine.pronamespace = 'awa'::regnamespace\n    \
             loop\n        execute format('comment on function %s is %L', told.signature, told.text);\n    \
             end loop;\nend\n$comments$;",
            values.join(",\n                       ")
        )
    })
}

/// A text as SQL literal. Only texts of this repository come here.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
