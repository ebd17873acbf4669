//! The section `auth`: where users are.

use super::Case;

fn auth(text: &str) -> Case {
    Case::file(&format!("[auth]\n{text}\n"))
}

#[test]
fn passwords_come_from_files_and_the_environment() {
    let config = auth("database = \"postgres://a@b/c\"\npassword_file = \"secret\"")
        .with("etc/secret", "hush\nmore\n")
        .variable("STENTOR_AUTH__SOURCE", "mysql://a@b/c")
        .variable("STENTOR_AUTH__QUERY", "SELECT 1 WHERE x IN (?)")
        .variable("STENTOR_AUTH__SOURCE_PASSWORD", "psst")
        .good();
    let revealed = |secret: &Option<crate::config::Secret>| {
        secret.as_ref().map(|secret| secret.reveal().to_owned())
    };
    assert_eq!(revealed(&config.auth.password).as_deref(), Some("hush"));
    assert_eq!(
        revealed(&config.auth.source_password).as_deref(),
        Some("psst")
    );
    let shown = format!("{:?}", config.auth);
    assert!(
        !shown.contains("hush") && !shown.contains("psst"),
        "{shown}"
    );
}

#[test]
fn what_does_not_fit_together_is_told() {
    for (text, reason) in [
        ("database = \"redis://x\"", "this does not name a database"),
        (
            "database = \"mosquitto:/etc/passwd\"",
            "give it as auth.source",
        ),
        ("source = \"file:users.toml\"", "as auth.database"),
        ("source = \"mysql://a@b/c\"", "auth.source needs auth.query"),
        ("query = \"SELECT 1\"", "auth.query needs auth.source"),
        (
            "source = \"mosquitto:x\"\nquery = \"SELECT 1\"",
            "mosquitto's password file has none",
        ),
        (
            "password = \"x\"\npassword_file = \"y\"",
            "remove one of them",
        ),
        ("password_file = \"missing\"", "cannot read"),
        ("queue = 0", "auth.queue = 0"),
        ("role = \"a/b\"", "auth.role"),
    ] {
        let message = auth(text).bad();
        assert!(message.contains(reason), "{text}: {message}");
    }
}

#[test]
fn a_password_in_a_url_is_refused_and_not_shown() {
    for (key, remedy) in [
        (
            "database",
            "file of auth.password_file, or to auth.password;",
        ),
        (
            "source",
            "file of auth.source_password_file, or to auth.source_password;",
        ),
    ] {
        let message = auth(&format!("{key} = \"postgres://ann:hush@b/c\"")).bad();
        for words in ["does not belong into the URL", remedy] {
            assert!(message.contains(words), "{message}");
        }
        assert!(!message.contains("hush"), "{message}");
    }
}
