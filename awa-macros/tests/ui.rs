//! Each mistake in `#[job(…)]` gives an error at its place that says what is allowed. Only this crate's own messages
//! are compared: those of the compiler change with it.

#[test]
fn mistakes_are_explained_where_they_are() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
