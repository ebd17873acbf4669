//! What is said of a manifest that is none: the line, the key, the reason, and what is allowed.

use serde::de::DeserializeOwned;

use super::ManifestError;

/// Characters of a line that a message shows.
const SHOWN_MAX: usize = 80;

/// What the value of each key is.
const SHAPES: [(&str, &str); 23] = [
    ("kind", "\"program\", \"spamd\", \"http\" or \"client\""),
    ("version", "text, as in \"1.0\""),
    ("needs", "\"size\", \"envelope\", \"headers\" or \"body\""),
    ("deadline", "a time in quotation marks, as in \"2s\""),
    ("memory", "a size in quotation marks, as in \"16MiB\""),
    ("concurrency", "a whole number from 1 to 64"),
    ("queue", "a whole number from 0 to 10000"),
    ("max_body", "a size in quotation marks, as in \"10MiB\""),
    ("on_large", "\"accept\", \"tempfail\" or \"reject\""),
    ("on_error", "\"accept\", \"tempfail\" or \"reject\""),
    ("mode", "\"enforce\" or \"observe\""),
    (
        "grants",
        "a list of \"store\", \"log\", \"dns\", \"http\" and \"mail\", as in [\"store\"]",
    ),
    ("anonymous", "true or false, without quotation marks"),
    (
        "allow_addresses",
        "a list of IP addresses, as in [\"192.0.2.1\"]",
    ),
    (
        "allow_users",
        "a list of names, as in [\"relay\", \"mail/ann\"]",
    ),
    (
        "allow_urls",
        "a list of URLs, as in [\"https://api.example/\"]",
    ),
    ("url", "a URL, as in \"https://api.example/check\""),
    ("store_bytes", "a size in quotation marks, as in \"1MiB\""),
    (
        "command",
        "a list of words, as in [\"/usr/bin/filter\", \"-x\"]",
    ),
    ("server", "HOST:PORT, as in \"127.0.0.1:783\""),
    ("reject_score", "a number, as in 6.5"),
    ("user", "the name of a user, as in \"mail\""),
    ("zone", "the name of a zone, as in \"default\""),
];

/// What somebody may call a key.
const SYNONYMS: [(&str, &str); 9] = [
    ("address", "server"),
    ("addr", "server"),
    ("host", "server"),
    ("socket", "server"),
    ("timeout", "deadline"),
    ("program", "command"),
    ("path", "command"),
    ("type", "kind"),
    ("threads", "concurrency"),
];

/// Reads the keys of a manifest that begins at this line of its file.
///
/// # Errors
/// What is wrong with the first key that is.
pub(super) fn parse<T: DeserializeOwned>(
    text: &str,
    first_line: usize,
) -> Result<T, ManifestError> {
    let table = text.parse::<toml::Table>().map_err(|error| {
        let at = line_of(text, &error);
        let mut reason = error.message().trim().replace('\n', ", ");
        let key = text.lines().nth(at).and_then(key_of);
        if let Some((key, shape)) = key.and_then(|key| Some((key, shape(key)?))) {
            reason += &format!("; `{key}` is {shape}");
        }
        told(text, at, first_line, None, &reason)
    })?;
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let reason = error.message().trim().replace('\n', ", ");
        let at = line_of(text, &error);
        if let Some(reason) = unknown_key(&reason) {
            return told(text, at, first_line, None, &reason);
        }
        let key = key_at(text, at);
        let known = key.and_then(|key| Some((key, shape(key)?)));
        let reason = match known {
            Some((key, shape)) => wrong_value(&reason, key, shape, table.get(key)),
            None => reason,
        };
        told(text, at, first_line, key, &reason)
    })
}

/// The line at which an error stands, from 0. A closing quotation mark that is missing is found at
/// the end.
fn line_of(text: &str, error: &toml::de::Error) -> usize {
    let before = error.span().map_or(0, |span| span.start.min(text.len()));
    text.get(..before).unwrap_or_default().matches('\n').count()
}

/// The key whose value a line belongs to: a list may go over several.
fn key_at(text: &str, at: usize) -> Option<&str> {
    let lines: Vec<&str> = text.lines().take(at + 1).collect();
    lines.into_iter().rev().find_map(key_of)
}

/// The key that a line begins with.
fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    let is_key = |c: char| c.is_ascii_lowercase() || c == '_';
    (!key.is_empty() && key.chars().all(is_key)).then_some(key)
}

fn shape(key: &str) -> Option<&'static str> {
    let known = SHAPES.iter().find(|(known, _)| *known == key);
    known.map(|(_, shape)| *shape)
}

/// An error with its line: as it is written, or with its key if that stands on a line before.
fn told(
    text: &str,
    at: usize,
    first_line: usize,
    key: Option<&str>,
    reason: &str,
) -> ManifestError {
    let written = text.lines().nth(at).unwrap_or_default().trim();
    let shown = match written.char_indices().nth(SHOWN_MAX) {
        _ if written.is_empty() => String::new(),
        None => format!("{written}: "),
        Some((end, _)) => format!("{}…: ", &written[..end]),
    };
    let key = match key {
        Some(key) if key_of(written) != Some(key) => format!("{key}: "),
        _ => String::new(),
    };
    let line = first_line + at;
    ManifestError(format!("line {line}: {key}{shown}{reason}"))
}

/// What is said of a key that does not exist, instead of a list of all that do.
fn unknown_key(reason: &str) -> Option<String> {
    let word = reason.strip_prefix("unknown field ")?.split('`').nth(1)?;
    let keys = SHAPES.iter().map(|(key, _)| *key);
    let all = keys.chain(SYNONYMS.iter().map(|(word, _)| *word));
    let remedy = match nearest(word, all) {
        Some(known) => {
            let meant = SYNONYMS.iter().find(|(word, _)| *word == known);
            let known = meant.map_or(known, |(_, key)| key);
            format!("did you mean `{known}`?")
        }
        None => "docs/procedures.md lists all keys".to_owned(),
    };
    Some(format!("there is no key `{word}`; {remedy}"))
}

/// What is said of a value that its key cannot have.
fn wrong_value(reason: &str, key: &str, shape: &str, value: Option<&toml::Value>) -> String {
    let mut quoted = reason.split('`');
    if let Some("unknown variant ") = quoted.next() {
        let word = quoted.next().unwrap_or_default();
        // Between them stand commas.
        let near = nearest(word, quoted.skip(1).step_by(2));
        let remedy = near.map_or_else(String::new, |near| format!("did you mean \"{near}\"? "));
        return format!("there is no \"{word}\"; {remedy}`{key}` is {shape}");
    }
    let kind = value.map(toml::Value::type_str).unwrap_or_default();
    // Then it is not the kind that is wrong, but how large it is or what is in it.
    let is_of_kind = match kind {
        "integer" => shape.starts_with("a whole number"),
        "array" => shape.starts_with("a list"),
        _ => kind.is_empty(),
    };
    match kind {
        _ if is_of_kind => format!("it is {shape}"),
        "integer" | "array" => format!("it is {shape}; this is an {kind}"),
        _ => format!("it is {shape}; this is a {kind}"),
    }
}

/// The word that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let reach = (word.chars().count() / 3).clamp(1, 4);
    let far = |known: &'a str| (strsim::osa_distance(word, known), known);
    let (far, known) = known.map(far).min()?;
    (far <= reach).then_some(known)
}

/// The line at which a mistake stands that was found by its meaning: such an error begins with its
/// key.
pub(super) fn with_line(error: ManifestError, text: &str, first_line: usize) -> ManifestError {
    let is_key = |c: char| c.is_ascii_lowercase() || c == '_';
    let message = error.0.trim_start_matches('`');
    let key = &message[..message.find(|c| !is_key(c)).unwrap_or(message.len())];
    let stands = |line: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    match text.lines().position(stands) {
        Some(at) if !key.is_empty() => {
            ManifestError(format!("line {}: {}", first_line + at, error.0))
        }
        _ => error,
    }
}
