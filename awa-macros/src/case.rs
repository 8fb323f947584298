//! The kind of a type that names none: its own name in snake case. The table of the tests is a contract: a kind that
//! changed with a new version would leave the jobs of the old one without a handler.

/// `ResizeImage` as `resize_image`.
///
/// A word begins at an upper-case letter that follows a lower-case letter or a digit, and at the last of several
/// upper-case letters if a lower-case one follows.
pub(crate) fn snake_case(name: &str) -> String {
    let name = name.trim_start_matches("r#");
    let characters: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 8);
    for (index, &character) in characters.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| characters[index]);
        let after = characters.get(index + 1);
        if character.is_uppercase() && before.is_some_and(|before| begins_word(before, after)) {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

fn begins_word(before: char, after: Option<&char>) -> bool {
    let follows_lower = before.is_lowercase() || before.is_numeric();
    follows_lower || (before.is_uppercase() && after.is_some_and(|after| after.is_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::snake_case;

    const GOLDEN: &[(&str, &str)] = &[
        ("A", "a"),
        ("ABCd", "ab_cd"),
        ("HTTP", "http"),
        ("HTTPServer", "http_server"),
        ("MP3", "mp3"),
        ("Order66", "order66"),
        ("Order66Now", "order66_now"),
        ("ResizeImage", "resize_image"),
        ("S3Upload", "s3_upload"),
        ("SendEMail", "send_e_mail"),
        ("SendHTTP2Request", "send_http2_request"),
        ("Send_Mail", "send_mail"),
        ("Sha256Sum", "sha256_sum"),
        ("UploadToS3", "upload_to_s3"),
        ("V2Import", "v2_import"),
        ("_Hidden", "_hidden"),
        ("already_snake", "already_snake"),
        ("r#type", "type"),
        ("ÉtatCivil", "état_civil"),
        ("Straße", "straße"),
    ];

    #[test]
    fn kinds_of_types_never_change() {
        for (name, kind) in GOLDEN {
            assert_eq!(snake_case(name), *kind, "{name}");
        }
    }
}
