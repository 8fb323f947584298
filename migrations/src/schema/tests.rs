//! The hashes tell apart what differs, and nothing else.

use super::{Function, Migration, Schema};

fn schema(migrations: &[&'static str], functions: &[(&'static str, &'static str)]) -> Schema {
    let migrations =
        migrations.iter().zip(1..).map(|(sql, version)| Migration { version, name: "step", sql }).collect();
    let functions = functions.iter().map(|(name, sql)| Function { name, sql }).collect();
    Schema::new(migrations, functions, "1.2.3")
}

#[test]
fn line_ends_do_not_change_a_checksum() {
    let unix = Migration { version: 1, name: "a", sql: "select 1;\nselect 2;\n" };
    let windows = Migration { sql: "select 1;\r\nselect 2;\r\n", ..unix };
    assert_eq!(unix.checksum(), windows.checksum());
}

#[test]
fn text_moved_from_one_function_file_to_the_next_is_a_change() {
    let before = schema(&[], &[("a", "xy"), ("b", "z")]);
    let after = schema(&[], &[("a", "x"), ("b", "yz")]);
    assert_ne!(before.functions_checksum(), after.functions_checksum());
}

#[test]
fn fingerprint_covers_migrations_and_functions() {
    let base = schema(&["select 1"], &[("a", "x")]).fingerprint();
    assert_ne!(base, schema(&["select 2"], &[("a", "x")]).fingerprint());
    assert_ne!(base, schema(&["select 1"], &[("a", "y")]).fingerprint());
    assert_eq!(base, schema(&["select 1"], &[("a", "x")]).fingerprint());
}

#[test]
#[should_panic(expected = "numbered 1, 2, 3")]
fn a_hole_in_the_numbers_is_refused() {
    let migration = Migration { version: 2, name: "second", sql: "" };
    drop(Schema::new(vec![migration], Vec::new(), "1.0.0"));
}

#[test]
fn the_embedded_files_are_the_files_of_the_directory() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let count = |directory: std::path::PathBuf| {
        let Ok(entries) = std::fs::read_dir(directory) else {
            return 0;
        };
        entries
            .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().extension().is_some_and(|e| e == "sql")))
            .count()
    };
    let embedded = Schema::embedded();
    assert_eq!(embedded.migrations().len(), count(root.to_path_buf()));
    assert_eq!(embedded.functions().len(), count(root.join("functions")));
}
