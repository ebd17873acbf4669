//! The reference of log events, `docs/reference/log-events.md`: the lines come from the macros in
//! the sources, their meaning and remedies from a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::masked::Masked;
use crate::tidy::{Finding, is_test_file};
use crate::tree::Tree;

/// The page.
pub(crate) const PAGE: &str = "docs/reference/log-events.md";

/// What the events mean, and what to do, in the order of the page.
const TABLE: &str = "xtask/log-events.toml";

/// The crates whose lines the log of the server has.
const CRATES: [&str; 5] = [
    "crates/admin/",
    "crates/auth/",
    "crates/procedure/",
    "crates/series/",
    "crates/server/",
];

/// The macros, and the levels of what they write. Two places choose the level themselves.
const MACROS: [(&str, &str); 6] = [
    ("error!", "ERROR"),
    ("warn!", "WARN"),
    ("info!", "INFO"),
    ("debug!", "DEBUG"),
    ("trace!", "TRACE"),
    ("$level!", "INFO or WARN"),
];

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from the log macros in crates/ and from xtask/log-events.toml:
     change them there. -->

# Log events

The log goes to standard error. Each line has a time, a level, a message and fields.
[`log.level`](../configuration.md) says which lines are written, [`log.format`](../configuration.md)
has them as JSON.

- **Messages:** `…` stands for a value. Long messages are cut at the end here; the log has the whole
  sentence, often with the setting or the command that helps.
- **Fields:** `held_back` and `suppressed` say how many lines like this one were not written since
  the last one. `client` is a client id, `user` a user name, and `reason` a
  [close reason](reasons.md).
- **Levels:** `ERROR` is a bug of the server. `WARN` needs a look. `INFO` is normal operation.
";

/// Something that the sources write to the log.
#[derive(Debug, Default)]
struct Event {
    levels: BTreeSet<&'static str>,
    fields: Vec<String>,
    /// Where it is written, for findings.
    path: String,
    line: usize,
}

/// What the table says of an event.
struct Entry {
    message: String,
    /// Instead of a message that is nothing but a value.
    shown: Option<String>,
    meaning: String,
    remedy: String,
}

/// Checks that the table has each event, and no other.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    // A tree without the server, as tests have, has no events.
    let events = events(tree);
    let groups = match table(tree) {
        Ok(groups) => groups,
        Err(_) if events.is_empty() => return Vec::new(),
        Err(message) => return vec![Finding::new(TABLE, 0, message)],
    };
    let mut findings = Vec::new();
    let entries: Vec<&Entry> = groups.iter().flat_map(|(_, entries)| entries).collect();
    for (message, event) in &events {
        let Some(entry) = entries.iter().find(|entry| entry.message == *message) else {
            let text = format!("say in {TABLE} what this event means: {message:?}");
            findings.push(Finding::new(&event.path, event.line, text));
            continue;
        };
        let is_trouble = event
            .levels
            .iter()
            .any(|level| *level != "INFO" && *level != "DEBUG");
        if is_trouble && entry.remedy.is_empty() {
            let text = format!("say in {TABLE} what to do about this: {message:?}");
            findings.push(Finding::new(&event.path, event.line, text));
        }
    }
    for entry in entries {
        if !events.contains_key(&entry.message) {
            let text = format!("no source writes this any more: {:?}", entry.message);
            findings.push(Finding::new(TABLE, 0, text));
        }
    }
    if findings.is_empty() && tree.text(PAGE) != Some(&page(tree).unwrap_or_default()) {
        findings.push(Finding::new(
            PAGE,
            0,
            "is out of date; run `cargo xtask gen`",
        ));
    }
    findings
}

/// The page.
///
/// # Errors
/// When the table cannot be read.
pub(crate) fn page(tree: &Tree) -> Result<String, String> {
    let events = events(tree);
    let mut out = String::from(INTRODUCTION);
    for (title, entries) in table(tree)? {
        let _ = write!(
            out,
            "\n## {title}\n\n| Level | Message | Fields | Meaning | What to do |\n|---|---|---|---|---|\n"
        );
        for entry in entries {
            let Some(event) = events.get(&entry.message) else {
                continue;
            };
            let levels = event
                .levels
                .iter()
                .copied()
                .collect::<Vec<_>>()
                .join(" or ");
            let message = match &entry.shown {
                Some(shown) => shown.clone(),
                None => format!("`{}`", shortened(&entry.message)),
            };
            let fields: Vec<String> = event
                .fields
                .iter()
                .map(|name| format!("`{name}`"))
                .collect();
            let Entry {
                meaning, remedy, ..
            } = entry;
            let _ = writeln!(
                out,
                "| {levels} | {message} | {} | {meaning} | {remedy} |",
                fields.join(", ")
            );
        }
    }
    Ok(out)
}

/// The table, by its groups.
fn table(tree: &Tree) -> Result<Vec<(String, Vec<Entry>)>, String> {
    let text = tree.text(TABLE).ok_or("the table is missing")?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    let list = |value: Option<&toml::Value>| value.and_then(toml::Value::as_array).cloned();
    let text = |value: &toml::Value, key: &str| {
        let text = value.get(key).and_then(toml::Value::as_str);
        text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let mut groups = Vec::new();
    for group in list(table.get("group")).unwrap_or_default() {
        let title = text(&group, "title").ok_or("a group has no title")?;
        let mut entries = Vec::new();
        for event in list(group.get("event")).unwrap_or_default() {
            let message = text(&event, "message").ok_or("an event has no message")?;
            entries.push(Entry {
                shown: text(&event, "shown"),
                meaning: text(&event, "meaning")
                    .ok_or_else(|| format!("{message:?} has no meaning"))?,
                remedy: text(&event, "remedy").unwrap_or_default(),
                message,
            });
        }
        groups.push((title, entries));
    }
    Ok(groups)
}

/// All events by their message, as it is in the source but in one line.
fn events(tree: &Tree) -> BTreeMap<String, Event> {
    let mut events: BTreeMap<String, Event> = BTreeMap::new();
    for (path, text) in tree.texts_with(&["rs"]) {
        if is_test_file(path) || !CRATES.iter().any(|start| path.starts_with(start)) {
            continue;
        }
        for (line, level, arguments) in calls(text) {
            let (message, fields) = parts(&arguments);
            let event = events.entry(message).or_default();
            event.levels.insert(level);
            for field in fields {
                if !event.fields.contains(&field) {
                    event.fields.push(field);
                }
            }
            (event.path, event.line) = (path.to_owned(), line);
        }
    }
    events
}

/// What is between the parentheses of a macro: each sign, with whether it is code.
type Arguments = Vec<(char, bool)>;

/// The log macros outside tests: the line, the level and the arguments.
fn calls(source: &str) -> Vec<(usize, &'static str, Arguments)> {
    let masked = Masked::new(source);
    let tests = masked.test_regions();
    let mut calls = Vec::new();
    for (name, level) in MACROS {
        for (at, _) in masked.code().match_indices(&format!("{name}(")) {
            let line = masked.line(at);
            let before = masked.code()[..at].chars().next_back().unwrap_or(' ');
            let is_test = tests.iter().any(|(a, b)| (*a..=*b).contains(&line));
            if is_test || before.is_alphanumeric() || before == '_' {
                continue;
            }
            // Masking keeps signs, not bytes.
            let open = masked.code()[..at].chars().count() + name.len() + 1;
            let signs = source.chars().zip(masked.code().chars()).skip(open);
            let mut depth = 1_usize;
            let inside = signs.take_while(|(_, code)| {
                match code {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth -= 1,
                    _ => {}
                }
                depth > 0
            });
            let inside = inside.map(|(sign, code)| (sign, sign == code));
            calls.push((line, level, inside.collect()));
        }
    }
    calls
}

/// The message and the names of the fields among the arguments of a macro.
fn parts(arguments: &[(char, bool)]) -> (String, Vec<String>) {
    let mut depth = 0_usize;
    let mut pieces: Vec<String> = vec![String::new()];
    for (sign, is_code) in arguments {
        match sign {
            '(' | '[' | '{' if *is_code => depth += 1,
            ')' | ']' | '}' if *is_code => depth -= 1,
            ',' if *is_code && depth == 0 => {
                pieces.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = pieces.last_mut() {
            last.push(*sign);
        }
    }
    let mut fields = Vec::new();
    for piece in pieces.iter().map(|piece| piece.trim()) {
        if let Some(text) = piece.strip_prefix('"') {
            let text = text.trim_end_matches('"').replace("\\\n", "");
            return (
                text.split_whitespace().collect::<Vec<_>>().join(" "),
                fields,
            );
        }
        let name = piece.split('=').next().unwrap_or_default().trim();
        if !name.is_empty() && !piece.starts_with("target:") {
            fields.push(name.trim_start_matches(['%', '?']).to_owned());
        }
    }
    (String::new(), fields)
}

/// A message with `…` for its values, and without the end of a long one.
fn shortened(message: &str) -> String {
    let mut text = String::new();
    let mut is_value = false;
    for sign in message.chars() {
        match sign {
            '{' => {
                is_value = true;
                text.push('…');
            }
            '}' => is_value = false,
            '`' => {}
            _ if is_value => {}
            _ => text.push(sign),
        }
    }
    const SHORT: usize = 70;
    if text.chars().count() <= SHORT {
        return text;
    }
    let mut ends = text.match_indices([';', ':', ',']).map(|(at, _)| at);
    let end = ends.find(|at| text[..*at].chars().count() >= 25);
    match end {
        Some(end) if end + 2 < text.len() => format!("{} …", &text[..=end]),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f() {\n    tracing::warn!(target: \"x\", client, %peer, zone = &*z, \
        \"it, {a} \\\n  broke\", why(1, 2));\n    my_warn!(\"no\");\n    // info!(\"no\")\n    \
        let _ = \"info!(…)\";\n    info!(\"started\");\n}\n#[cfg(test)]\nmod tests {\n    fn g() { \
        warn!(\"no\"); }\n}\n";

    fn tree(table: &str, page: &str) -> Tree {
        Tree::from([
            ("crates/server/src/a.rs", SOURCE),
            ("crates/hub/src/a.rs", SOURCE),
            (TABLE, table),
            (PAGE, page),
        ])
    }

    const GOOD: &str = "[[group]]\ntitle = \"All\"\n[[group.event]]\nmessage = \"it, {a} broke\"\n\
        meaning = \"It broke.\"\nremedy = \"Repair it.\"\n[[group.event]]\n\
        message = \"started\"\nmeaning = \"It runs.\"\n";

    #[test]
    fn the_page_has_each_event_with_its_fields() {
        let page = page(&tree(GOOD, "")).expect("the table is good");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(
            rows[1..],
            [
                "| WARN | `it, … broke` | `client`, `peer`, `zone` | It broke. | Repair it. |",
                "| INFO | `started` |  | It runs. |  |"
            ]
        );
        assert_eq!(check(&tree(GOOD, &page)).len(), 0);
        let stale = check(&tree(GOOD, "old"));
        assert!(
            stale.len() == 1 && stale[0].to_string().contains("out of date"),
            "{stale:?}"
        );
    }

    #[test]
    fn events_and_table_belong_together() {
        for (from, to, words) in [
            (
                "remedy = \"Repair it.\"\n",
                "",
                "a.rs:2: say in xtask/log-events.toml what to do",
            ),
            (
                "\"started\"",
                "\"begun\"",
                "what this event means: \"started\"",
            ),
            (
                "\"started\"",
                "\"begun\"",
                "no source writes this any more: \"begun\"",
            ),
        ] {
            let found = check(&tree(&GOOD.replace(from, to), ""));
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert!(
                found.iter().any(|message| message.contains(words)),
                "{found:?}"
            );
        }
        assert_eq!(check(&Tree::from([("README.md", "")])).len(), 0);
    }

    #[test]
    fn a_long_message_is_cut_where_a_part_ends() {
        let long = "the user database {shown} is gone ({reason}); who is connected stays so, new \
                    logins are told `that`";
        assert_eq!(shortened(long), "the user database … is gone (…); …");
        assert_eq!(shortened("the `{x}` of {y:?}: b"), "the … of …: b");
    }
}
