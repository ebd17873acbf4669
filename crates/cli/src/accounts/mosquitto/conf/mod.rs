//! mosquitto.conf: its lines, with those of included files, and what they become.

mod limits;
mod listeners;

use std::fs;
use std::path::{Path, PathBuf};

use super::{Line, NO_TEXT, Plan};
use crate::file;
use limits::{general, tell_queue_size};
use listeners::{Listener, begins_listener, listener};

/// Files that one configuration may include.
const FILES_MAX: usize = 1_000;

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What the lines name that lies elsewhere.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    pub(super) passwords: Option<PathBuf>,
    pub(super) acl: Option<PathBuf>,
    pub(super) dynsec: Option<PathBuf>,
    /// The line by which anybody is let in, if no file or plugin knows users.
    pub(super) anybody: Option<Line>,
    has_plugin: bool,
}

/// How much the log says, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    /// As a value of `log.level`; `None` for the default.
    const fn written(self) -> Option<&'static str> {
        match self {
            Self::Error => Some("error"),
            Self::Warn => Some("warn"),
            Self::Info => None,
            Self::Debug => Some("debug"),
        }
    }
}

/// Everything that the lines say, before it is written down.
#[derive(Debug, Default)]
struct Draft {
    listeners: Vec<Listener>,
    is_local_only: bool,
    is_per_listener: bool,
    anonymous: Option<bool>,
    limits: Vec<(&'static str, String)>,
    packet_bytes: Option<u64>,
    payload_bytes: Option<u64>,
    queue_bytes: Option<u64>,
    sys: Option<String>,
    level: Option<Level>,
}

/// The lines of a text that say something.
pub(super) fn lines(file: &str, text: impl AsRef<[u8]>) -> Vec<Line> {
    let line = |(at, bytes): (usize, &[u8])| {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        let (key, value) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        Some(Line {
            file: file.to_owned(),
            number: at + 1,
            key: key.to_owned(),
            value: value.trim().to_owned(),
            is_text: std::str::from_utf8(bytes).is_ok(),
        })
    };
    let lines = text.as_ref().split(|byte| *byte == b'\n');
    lines.enumerate().filter_map(line).collect()
}

/// Reads a file of bounded size, whatever is in it.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = file::read(path, FILE_BYTES_MAX);
    bytes.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Reads a file of bounded size.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let text = file::read_text(path, FILE_BYTES_MAX);
    text.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// All lines of a configuration, those of included folders in their place.
pub(super) fn gather(path: &Path) -> Result<Vec<Line>, String> {
    let mut files = 0;
    gather_into(path, &mut files)
}

fn gather_into(path: &Path, files: &mut usize) -> Result<Vec<Line>, String> {
    *files += 1;
    if *files > FILES_MAX {
        return Err(format!("more than {FILES_MAX} files are included"));
    }
    let text = read_bytes(path)?;
    let mut all = Vec::new();
    for line in lines(&path.to_string_lossy(), text) {
        if line.key != "include_dir" {
            all.push(line);
            continue;
        }
        let folder = fs::read_dir(&line.value)
            .map_err(|error| format!("cannot read the folder {}: {error}", line.value))?;
        let mut included: Vec<PathBuf> = folder
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "conf")
            })
            .collect();
        // As mosquitto: capitals before small letters.
        included.sort();
        for path in included {
            all.extend(gather_into(&path, files)?);
        }
    }
    Ok(all)
}

/// Turns the lines into our configuration; what they name elsewhere is left to the caller.
pub(super) fn take(lines: &[Line], plan: &mut Plan) -> Elsewhere {
    let mut draft = Draft::default();
    let mut elsewhere = Elsewhere::default();
    for line in lines {
        if !line.is_text && !begins_listener(line) {
            plan.troubles.push(line.trouble(NO_TEXT.0, NO_TEXT.1));
            continue;
        }
        let is_known = bridge(line, plan)
            || listener(&mut draft, line, plan)
            || general(&mut draft, line, plan)
            || files(&mut elsewhere, line, plan);
        if !is_known {
            let (reason, remedy) = limits::elsewhere(&line.key);
            plan.troubles.push(line.trouble(reason, remedy));
        }
    }
    draft.is_local_only = draft.listeners.is_empty();
    draft.close_open(plan);
    draft.listeners.retain(|listener| listener.port.is_some());
    if draft.listeners.is_empty() {
        if !draft.is_local_only {
            // Another place than those that were meant lets in nobody without a name.
            (draft.is_per_listener, draft.anonymous) = (false, Some(false));
        }
        draft.listeners.push(Listener {
            port: Some(1883),
            bind: Some("127.0.0.1".to_owned()),
            ..Listener::default()
        });
    }
    if plan.has_ipv6 {
        draft.open_ipv6();
    }
    if !elsewhere.has_plugin && draft.is_anonymous() {
        let mut lines = lines.iter().rev();
        let says_so = |line: &&Line| line.key == "allow_anonymous" && line.is_true();
        elsewhere.anybody = lines.find(says_so).cloned();
    }
    tell_queue_size(&draft, lines, plan);
    plan.config = draft.toml();
    plan.listeners = draft.listeners.len();
    plan.has_certificate_names = draft.listeners.iter().any(|one| one.names_by_certificate);
    elsewhere
}

/// What belongs to a bridge, beside what begins with `bridge_`, `local_`, `notification` or
/// `remote_`. Other options behind `connection` are as general as anywhere else.
const OF_BRIDGES: [&str; 15] = [
    "connection",
    "address",
    "addresses",
    "cleansession",
    "clientid",
    "idle_timeout",
    "keepalive_interval",
    "password",
    "restart_timeout",
    "round_robin",
    "start_type",
    "threshold",
    "topic",
    "try_private",
    "username",
];

/// A bridge and its options.
fn bridge(line: &Line, plan: &mut Plan) -> bool {
    let key = line.key.as_str();
    let starts = ["bridge_", "local_", "notification", "remote_"];
    let is_of_bridge =
        OF_BRIDGES.contains(&key) || starts.iter().any(|start| key.starts_with(start));
    if is_of_bridge {
        let (reason, remedy) = match key {
            "connection" => (
                "Stentor makes no bridges",
                "let the other server connect to this one (bridges of mosquitto are welcome here), \
                 or run a small mosquitto beside it that bridges the two",
            ),
            _ => ("it belongs to a bridge", "see its line `connection`"),
        };
        plan.troubles.push(line.trouble(reason, remedy));
    }
    is_of_bridge
}

/// Files with users and rules.
fn files(elsewhere: &mut Elsewhere, line: &Line, plan: &mut Plan) -> bool {
    let place = match line.key.as_str() {
        "password_file" => &mut elsewhere.passwords,
        "acl_file" => &mut elsewhere.acl,
        "plugin_opt_config_file" => &mut elsewhere.dynsec,
        "plugin" | "auth_plugin" => {
            elsewhere.has_plugin = true;
            if !line.value.contains("dynamic_security") {
                let reason = "plugins of mosquitto do not work in Stentor";
                let remedy = "name their database in auth.source, or import its users";
                plan.troubles.push(line.trouble(reason, remedy));
            }
            return true;
        }
        _ => return false,
    };
    let path = PathBuf::from(&line.value);
    match place {
        Some(known) if *known != path => {
            let reason = "Stentor has one set of users for all listeners; the first file counts";
            let remedy = "import the second one into a zone of its own";
            plan.troubles.push(line.trouble(reason, remedy));
        }
        _ => *place = Some(path),
    }
    true
}

/// A path as it was meant where the command was run.
fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path);
    absolute.map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

impl Draft {
    /// Whether a listener lets in clients without a name.
    fn is_open_to_nameless(&self, listener: &Listener) -> bool {
        match self.is_per_listener {
            true => listener.anonymous.unwrap_or(false),
            false => self.anonymous.unwrap_or(self.is_local_only),
        }
    }

    /// Whether any listener does.
    fn is_anonymous(&self) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|listener| self.is_open_to_nameless(listener))
    }

    /// Our configuration file.
    fn toml(&self) -> String {
        let mut out = String::from("# Made from mosquitto's configuration.\n");
        for listener in &self.listeners {
            out += &listener.toml(self.is_open_to_nameless(listener));
        }
        let bytes = [
            ("packet_bytes", self.packet_bytes()),
            ("queue_bytes", self.queue_bytes()),
        ];
        let bytes = bytes.into_iter();
        let bytes = bytes.filter_map(|(key, bytes)| Some((key, bytes?.to_string())));
        let mut limits = self.limits.iter().cloned().chain(bytes).peekable();
        if limits.peek().is_some() {
            out += "\n[limits]\n";
            for (key, value) in limits {
                out += &format!("{key} = {value}\n");
            }
        }
        if let Some(interval) = &self.sys {
            out += &format!("\n[sys]\ninterval = {interval}\n");
        }
        if let Some(level) = self.level.and_then(Level::written) {
            out += &format!("\n[log]\nlevel = \"{level}\"\n");
        }
        out
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
