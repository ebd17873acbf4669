//! Environment variables and command line flags, laid over what the file gives.

use std::io;
use std::path::Path;

use super::document::suggestion;
use super::givens::{Entry, Givens};
use super::keys::{Listener, find_key, find_section, keys};
use super::problem::Origin;
use super::suggest::nearest;
use super::table::Key;
use super::value::{Given, Raw};

const PREFIX: &str = "STENTOR_";

/// Reads a small text file; handed in, so that tests need none.
pub(super) type FileReader<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Lays the variables that name a key over `givens`. A variable without `__` that names no key is
/// somebody else's (`STENTOR_PORT` by Kubernetes, for example): it is passed over, with a warning
/// if it looks like a mistyped key.
pub(super) fn read(
    environment: &[(String, String)],
    read_file: FileReader<'_>,
    givens: &mut Givens,
    warnings: &mut Vec<String>,
) {
    let mut targets = Vec::new();
    for (variable, value) in environment {
        let Some(name) = variable.strip_prefix(PREFIX) else {
            continue;
        };
        let origin = Origin::Environment(variable.clone());
        match target(name) {
            Ok(target) => targets.push((target, value, origin)),
            Err(hint) if name.contains("__") => {
                let hint = hint.unwrap_or_else(|| "; docs/configuration.md lists all".to_owned());
                givens.problem(origin, format!("there is no such key{hint}"));
            }
            Err(Some(hint)) => warnings.push(format!("{origin} names no key{hint}")),
            Err(None) => {}
        }
    }
    // The entries of a list are made in order, whatever the order of the variables.
    targets.sort_by_key(|(target, _, _)| target.index);
    for (target, value, origin) in targets {
        lay(&target, value, origin, read_file, givens);
    }
}

struct Target {
    key: &'static Key,
    index: usize,
    /// The variable ends in `_FILE`: the value is the path of a file that holds the secret.
    in_file: bool,
}

/// The key that a variable names, its prefix removed; or, as an error, a suggestion.
fn target(name: &str) -> Result<Target, Option<String>> {
    let lower = name.to_lowercase();
    let parts: Vec<&str> = lower.split("__").collect();
    let (section, index, leaf) = match parts.as_slice() {
        [leaf] => ("", None, *leaf),
        [section, leaf] => (*section, None, *leaf),
        [section, index, leaf] => match index.parse::<usize>() {
            Ok(number) if number <= 9999 => (*section, Some(number), *leaf),
            _ => return Err(Some(format!("; {index:?} is not the number of an entry"))),
        },
        _ => return Err(None),
    };
    // "" is the section of the keys at the top, and no part of a name with two underscores.
    let found = find_section(section).filter(|found| found.name.is_empty() == (parts.len() == 1));
    let Some(found) = found else {
        return Err(None);
    };
    if found.repeated != index.is_some() {
        let example = found.keys.first().map(Key::environment).unwrap_or_default();
        return Err(Some(format!("; write it like {example}")));
    }
    let index = index.unwrap_or(0);
    if let Some(key) = found.key(leaf) {
        return Ok(Target {
            key,
            index,
            in_file: false,
        });
    }
    let in_file = leaf.strip_suffix("_file").and_then(|leaf| found.key(leaf));
    if let Some(key) = in_file.filter(|key| key.is_secret()) {
        return Ok(Target {
            key,
            index,
            in_file: true,
        });
    }
    let near = if section.is_empty() {
        let tops = keys()
            .filter(|key| key.section.is_empty())
            .map(|key| key.name);
        nearest(leaf, tops)
            .map(str::to_uppercase)
            .map(|name| format!("{PREFIX}{name}"))
    } else {
        suggestion(section, leaf)
    };
    Err(near.map(|near| format!("; did you mean {near}?")))
}

fn lay(
    target: &Target,
    value: &str,
    origin: Origin,
    read_file: FileReader<'_>,
    givens: &mut Givens,
) {
    let key = target.key;
    let text = if target.in_file {
        match read_file(Path::new(value)) {
            Ok(text) => text.lines().next().unwrap_or_default().to_owned(),
            Err(error) => {
                return givens.problem(origin, format!("cannot read the file {value:?}: {error}"));
            }
        }
    } else {
        value.to_owned()
    };
    let entries = givens.entries_mut(key.section);
    let flags_rule = entries.iter().any(|entry| {
        entry
            .values
            .values()
            .any(|given| matches!(given.origin, Origin::Flag(_)))
    });
    if flags_rule && (key.name == "url" || target.index >= entries.len()) {
        // Listeners of the command line: a variable changes what they are, not which they are.
        return;
    }
    if target.index > entries.len() {
        let message = format!(
            "entry {} of {} would leave a gap; the next one is number {}",
            target.index,
            key.section,
            entries.len()
        );
        return givens.problem(origin, message);
    }
    if target.index == entries.len() {
        entries.push(Entry::new(origin.clone()));
    }
    let values = &mut entries[target.index].values;
    let twice = values.get(key.name).is_some_and(
        // Only a variable and its `_FILE` twin can name one key twice.
        |given| matches!(given.origin, Origin::Environment(_)),
    );
    values.insert(
        key.name,
        Given {
            raw: Raw::Words(text),
            origin: origin.clone(),
        },
    );
    if twice {
        let message = "the variable is given with and without _FILE; remove one of them";
        givens.problem(origin, message);
    }
}

/// Lays the listeners of the command line over `givens`, before the environment: they replace the
/// list of the file, and an entry of the file with the same URL lends its other keys.
pub(super) fn read_listen_flags(flags: &[(String, String)], givens: &mut Givens) {
    let section = Listener::SECTION.name;
    let url = |entry: &Entry| match entry.values.get("url").map(|given| &given.raw) {
        Some(Raw::Text(text) | Raw::Words(text)) => Some(canonical(text)),
        _ => None,
    };
    let mut entries = Vec::new();
    for (path, text) in flags.iter().filter(|(path, _)| path == "listener.url") {
        let origin = origin_of_flag(path);
        let lender = givens
            .entries(section)
            .iter()
            .find(|e| url(e) == Some(canonical(text)));
        let mut entry = lender
            .cloned()
            .unwrap_or_else(|| Entry::new(origin.clone()));
        entry.values.insert(
            "url",
            Given {
                raw: Raw::Words(text.clone()),
                origin,
            },
        );
        entries.push(entry);
    }
    if !entries.is_empty() {
        *givens.entries_mut(section) = entries;
    }
}

fn canonical(url: &str) -> String {
    url.parse::<super::ListenUrl>()
        .map_or_else(|_| url.to_owned(), |url| url.to_string())
}

/// Lays the other flags over `givens`, after the environment.
pub(super) fn read_flags(flags: &[(String, String)], givens: &mut Givens) {
    for (path, text) in flags {
        let origin = origin_of_flag(path);
        match find_key(path) {
            Some(key) if key.repeated && path == "listener.url" => {
                // The environment may not undo a flag.
            }
            Some(key) if !key.repeated => {
                let given = Given {
                    raw: Raw::Words(text.clone()),
                    origin,
                };
                givens.plain(key.section).values.insert(key.name, given);
            }
            _ => givens.problem(origin, format!("there is no key {path:?}")),
        }
    }
}

fn origin_of_flag(path: &str) -> Origin {
    Origin::Flag(find_key(path).and_then(|key| key.flag).unwrap_or("?"))
}
