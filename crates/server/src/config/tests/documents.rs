//! The generated documents.

use super::Case;
use crate::config::{keys, reference, sample};

/// The sample with its keys uncommented.
fn uncommented(keep: impl Fn(&str) -> bool) -> String {
    let text = sample();
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') && keep(key) => key,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_sample_as_it_stands_is_the_default() {
    let mut config = Case::file(&sample()).good();
    config.file = None;
    assert_eq!(config, Case::default().good());
}

#[test]
fn the_sample_shows_the_defaults() {
    let plain: Vec<&str> = keys()
        .filter(|key| !key.repeated && matches!(key.fallback, crate::config::Fallback::Value(_)))
        .map(|key| key.name)
        .collect();
    // Keys of lists have the same names as some others, so the text is cut before the lists.
    let text = uncommented(|line| {
        plain
            .iter()
            .any(|name| line.starts_with(&format!("{name} =")))
    });
    let mut in_list = false;
    let outside: Vec<&str> = text
        .lines()
        .filter(|line| {
            if line.starts_with("[[") || line.starts_with("#[[") {
                in_list = true;
            } else if line.starts_with('[') {
                in_list = false;
            }
            !in_list
        })
        .collect();
    let mut config = Case::file(&outside.join("\n")).good();
    config.file = None;
    // A relative path starts at the file's folder.
    config.general.data_dir = "data".into();
    assert_eq!(config, Case::default().good());
}

#[test]
fn the_sample_with_every_key_uncommented_is_good_but_for_its_contradictions() {
    let message = Case::file(&uncommented(|_| true)).bad();
    for line in message.lines() {
        let known = [
            "`owner`",
            "`group`",
            "`mode`",
            "`path`",
            "`allowed_origins`",
            "password_file",
            "`allow_uid`",
            "`allow_gid`",
            "`procedure`",
            "`client_ca`",
            "`key_file`",
            "`builtin`",
            "`history`",
        ];
        assert!(known.iter().any(|word| line.contains(word)), "{line}");
    }
}

#[test]
fn the_reference_names_every_key() {
    let page = reference();
    for key in keys() {
        assert!(
            page.contains(&format!("### `{}`", key.path())),
            "{}",
            key.path()
        );
        assert!(page.contains(&key.environment()), "{}", key.path());
    }
}

#[test]
fn no_line_is_too_wide() {
    for line in sample().lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn the_files_in_docs_are_up_to_date() {
    // At run time: objects may be shared between checkouts, and this one is meant.
    let crate_folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    let docs = crate_folder + "/../../docs/";
    for (name, text) in [
        ("configuration.md", reference()),
        ("stentor.sample.toml", sample()),
    ] {
        let found = std::fs::read_to_string(format!("{docs}{name}")).unwrap_or_default();
        assert!(
            found == text,
            "docs/{name} is out of date; run `cargo xtask gen`"
        );
    }
}
