//! The COMMENT of each function: the first sentence of the text that stands above it in its file, so that psql's `\df+`
//! says what the file says and nothing is written twice.

use crate::Function;

/// How the text that creates a function begins, also inside a text that is executed.
const CREATES: &str = "create or replace function awa.";

/// Name and first sentence of each function of a file, for those that have one.
pub(crate) fn described(function: &Function) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut above = String::new();
    let mut in_comment = false;
    for line in function.sql.lines() {
        if let Some(text) = line.strip_prefix("--") {
            if !in_comment {
                above.clear();
            }
            above.push_str(text.trim_end());
            in_comment = true;
            continue;
        }
        in_comment = false;
        if let Some(rest) = line.strip_prefix(CREATES) {
            let name = rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
            // A name that is only made when the file runs is described by the file itself.
            if let Some(sentence) = first_sentence(&above).filter(|_| !name.is_empty()) {
                found.push((name, sentence));
            }
        }
    }
    found
}

/// Up to the first full stop or question mark that ends a sentence.
fn first_sentence(text: &str) -> Option<String> {
    let text = text.trim();
    let ends = [". ", "? "].into_iter().filter_map(|end| text.find(end));
    let end = ends.min().map_or(text.len(), |stop| stop + 1);
    (end > 0).then(|| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    //! Files as they are written, and what is told of them.

    use super::described;
    use crate::{Function, Schema};

    fn check(sql: &'static str, expected: &[(&str, &str)]) {
        let found = described(&Function { name: "file", sql });
        let found: Vec<(&str, &str)> = found.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn first_sentence_above_a_function_describes_it() {
        check("create or replace function awa.bare() returns void", &[]);
        check("-- One thing.\ncreate or replace function awa.one() …", &[("one", "One thing.")]);
        check(
            "-- On two\n-- lines. More.\n--   p_a  this\ndo $$\n    -- inside\nbegin\ncreate or replace function awa.two(",
            &[("two", "On two lines.")],
        );
        check(
            "-- The file.\n\n-- A.\ncreate or replace function awa.a()\n\n-- B: b\n-- c\ncreate or replace function awa.b()",
            &[("a", "A."), ("b", "B: b c")],
        );
    }

    #[test]
    fn every_function_of_this_build_is_described() {
        for function in Schema::embedded().functions() {
            let created = function.sql.matches(super::CREATES).count() - function.sql.matches("function awa.@").count();
            assert_eq!(described(function).len(), created, "functions/{}.sql", function.name);
        }
    }
}
