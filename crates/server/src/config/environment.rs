//! Environment variables and command line flags, laid over what the file gives.

use std::io;
use std::path::Path;

use super::givens::{Entry, Givens};
use super::keys::{Listener, find_key, find_section, keys};
use super::problem::Origin;
use super::suggest::nearest;
use super::table::Key;
use super::value::{Given, Raw};

const PREFIX: &str = "STENTOR_";

/// Reads a small text file; handed in, so that tests need none.
pub(super) type FileReader<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Variables that other commands read, that programs of procedures get, or that tests look at.
const ELSEWHERE: &[&str] = &[
    "CLIENT",
    "CONFIG",
    "FROM",
    "HELO",
    "PASSWORD",
    "PROCEDURE",
    "QUEUE_ID",
    "RCPT",
    "SEED",
    "SIZE",
    "SOAK",
    "TOKEN",
    "USER",
];

/// Lays the variables that name a key over `givens`. One that names none is an error, unless it is
/// known to be meant for somebody else.
pub(super) fn read(
    environment: &[(String, String)],
    read_file: FileReader<'_>,
    givens: &mut Givens,
) {
    let mut targets = Vec::new();
    for (variable, value) in environment {
        let Some(name) = variable.strip_prefix(PREFIX) else {
            continue;
        };
        let origin = Origin::Environment(variable.clone());
        match target(name) {
            Ok(target) => targets.push((target, value, origin)),
            Err(_) if is_elsewhere(name, value) => {}
            Err(hint) => {
                let hint = hint
                    .or_else(|| {
                        nearest_variable(name).map(|near| format!("; did you mean {near}?"))
                    })
                    .unwrap_or_else(|| "; docs/configuration.md lists all".to_owned());
                givens.problem(origin, format!("there is no such key{hint}"));
            }
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

/// Whether a variable, its prefix removed, is none of the configuration's business.
fn is_elsewhere(name: &str, value: &str) -> bool {
    ELSEWHERE.contains(&name) || name.starts_with("ARG_") || is_service_link(name, value)
}

/// Whether Kubernetes made the variable: it puts the place of each service into the environment of
/// all containers, under the name of the service, which may well be `stentor` or `stentor-web`.
fn is_service_link(name: &str, value: &str) -> bool {
    const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];
    let lower = name.to_lowercase();
    let parts: Vec<&str> = lower.split('_').collect();
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    match parts.as_slice() {
        [.., "service", "host"] => true,
        [.., "service", "port"] => is_port(value),
        [.., "port", number, protocol]
        | [.., "port", number, protocol, "proto" | "port" | "addr"] => {
            is_port(number) && PROTOCOLS.contains(protocol)
        }
        [.., "port"] => value
            .split_once("://")
            .is_some_and(|(protocol, _)| PROTOCOLS.contains(&protocol)),
        // A port with a name: `STENTOR_SERVICE_PORT_MQTT`.
        _ => lower.contains("service_port_") && is_port(value),
    }
}

/// The variable that was probably meant by one that names no key, its prefix removed. Underscores
/// do not count: they are what is mistyped most.
fn nearest_variable(name: &str) -> Option<String> {
    let folded = |name: &str| {
        let parts = name.split('_');
        let number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let fold = |part: &str| {
            if number(part) && !part.is_empty() {
                "n".to_owned()
            } else {
                part.to_lowercase()
            }
        };
        parts.map(fold).collect::<String>()
    };
    let known: Vec<(String, String)> = keys()
        .flat_map(|key| {
            let variable = key.environment();
            let in_file = key.is_secret().then(|| format!("{variable}_FILE"));
            [Some(variable), in_file].into_iter().flatten()
        })
        .map(|variable| {
            (
                folded(variable.strip_prefix(PREFIX).unwrap_or(&variable)),
                variable,
            )
        })
        .collect();
    let near = nearest(
        &folded(name),
        known.iter().map(|(folded, _)| folded.as_str()),
    )?;
    let (_, variable) = known.iter().find(|(folded, _)| folded == near)?;
    let number = name
        .split('_')
        .find(|part| part.parse::<u16>().is_ok())
        .unwrap_or("N");
    Some(variable.replace("__N__", &format!("__{number}__")))
}

/// The key that a variable names, its prefix removed; or, as an error, how to write it if that is
/// known for certain.
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
    Err(None)
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
