//! What a procedure says about itself.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;
use stentor_call_protocol::Verdict;
use stentor_call_protocol::limits::VERSION_BYTES_MAX;

use crate::net::http::Url;

mod mistakes;

pub(crate) use mistakes::nearest;
use mistakes::{parse, with_line};

/// The zone that is meant where none is named.
pub(crate) const DEFAULT_ZONE: &str = "default";
/// The longest name of a zone.
const ZONE_BYTES_MAX: usize = 255;
/// What no name of a zone has in it.
const NOT_IN_ZONES: [char; 5] = ['/', '+', '#', '$', '\0'];

/// What a procedure has to see. Each one includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// The size of the message and the arguments.
    #[default]
    Size,
    /// Sender and recipients.
    Envelope,
    /// The message's headers.
    Headers,
    /// All of it.
    Body,
}

impl Need {
    /// As the manifest says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Envelope => "envelope",
            Self::Headers => "headers",
            Self::Body => "body",
        }
    }
}

/// What happens to the verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The caller gets it.
    #[default]
    Enforce,
    /// It is logged and counted, and the caller gets "accept".
    Observe,
}

/// What else a script may do. Nothing is granted by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grant {
    /// Keep keys with an expiry.
    Store,
    /// Write to the server's log.
    Log,
    /// Ask a name server.
    Dns,
    /// Ask other servers over HTTP, at the URLs that the manifest lists.
    Http,
    /// Send mail by the relay that the server is configured with.
    Mail,
}

impl Grant {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Store, Self::Log, Self::Dns, Self::Http, Self::Mail];

    /// Its name in a manifest, which is also that of what a script finds by it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Log => "log",
            Self::Dns => "dns",
            Self::Http => "http",
            Self::Mail => "mail",
        }
    }
}

/// How a procedure is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is part of the server.
    Builtin,
    /// A Luau script; its text.
    Luau(String),
    /// A program, started for each call without a shell.
    Program(Vec<String>),
    /// A running spamd.
    Spamd(SpamdOptions),
    /// An HTTP endpoint, to which messages are posted.
    Http(Url),
    /// Any connected MQTT client that serves it, of this zone.
    Client(String),
}

impl Kind {
    /// The name that `/status` shows.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Luau(_) => "luau",
            Self::Program(_) => "program",
            Self::Spamd(_) => "spamd",
            Self::Http(_) => "http",
            Self::Client(_) => "client",
        }
    }
}

/// What a procedure of kind `spamd` asks, and what it makes of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpamdOptions {
    /// `HOST:PORT` or `unix:PATH`.
    pub server: String,
    /// From this score on, in tenths of a point, a message is refused; below, spam is marked.
    pub reject_tenths: Option<i64>,
    /// The user whose preferences are used.
    pub user: Option<String>,
}

/// What a procedure says about itself, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The operator's name for this version.
    pub version: String,
    /// What it has to see.
    pub needs: Need,
    /// The longest time for one call.
    pub deadline: Duration,
    /// The most memory for one thread's scripts, or for one run of a program, in bytes.
    pub memory: u64,
    /// Calls that run at a time.
    pub concurrency: usize,
    /// Calls that wait.
    pub queue: usize,
    /// The largest message that is looked at, in bytes; larger ones get `on_large`.
    pub max_body: u64,
    /// What a message above `max_body` gets.
    pub on_large: Verdict,
    /// What a message gets when the call comes to no verdict.
    pub on_error: Verdict,
    /// What happens to the verdict.
    pub mode: Mode,
    /// What else a script may do.
    pub grants: BTreeSet<Grant>,
    /// Anybody who reaches the listener may call it.
    pub anonymous: bool,
    /// Anybody at one of these addresses may call it.
    pub allow_addresses: Vec<IpAddr>,
    /// The users who may call it; `None` for all.
    pub allow_users: Option<Vec<String>>,
    /// Where the module `http` may turn to: these URLs, and what is below them.
    pub allow_urls: Vec<Url>,
    /// Bytes that it may keep in its store.
    pub store_bytes: u64,
    /// How it is run.
    pub kind: Kind,
}

/// Why a manifest is not taken: a sentence with the key, the value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ManifestError(pub String);

/// The keys as a file has them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Keys {
    kind: Option<String>,
    version: Option<String>,
    needs: Option<Need>,
    deadline: Option<String>,
    memory: Option<String>,
    concurrency: Option<usize>,
    queue: Option<usize>,
    max_body: Option<String>,
    on_large: Option<String>,
    on_error: Option<String>,
    mode: Option<Mode>,
    grants: BTreeSet<Grant>,
    anonymous: Option<bool>,
    allow_addresses: Vec<IpAddr>,
    allow_users: Option<Vec<String>>,
    allow_urls: Vec<String>,
    url: Option<String>,
    store_bytes: Option<String>,
    command: Option<Vec<String>>,
    server: Option<String>,
    reject_score: Option<f64>,
    user: Option<String>,
    zone: Option<String>,
}

impl Manifest {
    /// The manifest of something that is built in.
    pub(crate) fn builtin() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            needs: Need::Size,
            deadline: Duration::from_secs(1),
            memory: 0,
            concurrency: 1,
            queue: 0,
            max_body: u64::MAX,
            on_large: Verdict::Accept,
            on_error: Verdict::Tempfail,
            mode: Mode::Enforce,
            grants: BTreeSet::new(),
            anonymous: true,
            allow_addresses: Vec::new(),
            allow_users: None,
            allow_urls: Vec::new(),
            store_bytes: 0,
            kind: Kind::Builtin,
        }
    }

    /// Reads the manifest of a script, which is in a comment at its beginning:
    /// `--[[ procedure`, then TOML, then `]]`. Before it there may be lines that begin with `--!`.
    /// Without one, everything has its default.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_script(text: &str) -> Result<Self, ManifestError> {
        let mut trimmed = text.trim_start();
        while trimmed.starts_with("--!") {
            trimmed = trimmed
                .split_once('\n')
                .map_or("", |(_, rest)| rest)
                .trim_start();
        }
        let comment = trimmed.strip_prefix("--[[").map(str::trim_start);
        let inner = comment.and_then(|comment| comment.strip_prefix("procedure"));
        let (keys, toml, line): (Keys, _, _) = match inner {
            Some(inner) if inner.starts_with(char::is_whitespace) => {
                let Some((toml, _)) = inner.split_once("]]") else {
                    return Err(ManifestError(
                        "line 1: the manifest's comment has no end (`]]`)".to_owned(),
                    ));
                };
                let line = 1 + text[..text.len() - trimmed.len()].matches('\n').count();
                (parse(toml, line)?, toml, line)
            }
            _ => {
                check_misplaced(text)?;
                (Keys::default(), "", 1)
            }
        };
        let checked = match keys.kind.as_deref() {
            None | Some("luau") => keys.check(Kind::Luau(text.to_owned())),
            Some(kind) => Err(ManifestError(format!(
                "kind = \"{kind}\": a file that ends in .luau is of kind \"luau\"; remove `kind`"
            ))),
        };
        checked.map_err(|error| with_line(error, toml, line))
    }

    /// Reads the manifest of a procedure that is not a script: a TOML file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_file(text: &str) -> Result<Self, ManifestError> {
        Self::of_keys(parse(text, 1)?).map_err(|error| with_line(error, text, 1))
    }

    fn of_keys(keys: Keys) -> Result<Self, ManifestError> {
        let missing = |key: &str| {
            let kind = keys.kind.as_deref().unwrap_or_default();
            ManifestError(format!("kind = \"{kind}\": it needs the key `{key}`"))
        };
        let kind = match keys.kind.as_deref() {
            Some("program") => {
                let command = keys.command.clone().ok_or_else(|| missing("command"))?;
                if let Some(word) = command.iter().find(|word| word.contains('\0')) {
                    return Err(ManifestError(format!(
                        "command = {command:?}: no program can be given {word:?}, which has a NUL \
                         in it; remove that"
                    )));
                }
                match command.first() {
                    Some(program) if program.starts_with('/') => Kind::Program(command),
                    _ => {
                        return Err(ManifestError(format!(
                            "command = {command:?}: the first word is the program's full path, as \
                             in [\"/usr/bin/filter\", \"-x\"]; there is no shell"
                        )));
                    }
                }
            }
            Some("spamd") => Kind::Spamd(SpamdOptions {
                server: keys
                    .server
                    .clone()
                    .ok_or_else(|| missing("server"))
                    .and_then(spamd_server)?,
                reject_tenths: keys.reject_score.map(tenths).transpose()?,
                user: keys.user.clone(),
            }),
            Some("http") => {
                let url = keys.url.as_deref().ok_or_else(|| missing("url"))?;
                Kind::Http(
                    Url::parse(url).map_err(|reason| ManifestError(format!("url: {reason}")))?,
                )
            }
            Some("client") => {
                let zone = keys.zone.as_deref().unwrap_or(DEFAULT_ZONE);
                if zone.is_empty() || zone.len() > ZONE_BYTES_MAX || zone.contains(NOT_IN_ZONES) {
                    return Err(ManifestError(format!(
                        "zone = \"{zone}\": it is the name of the zone whose clients serve it"
                    )));
                }
                Kind::Client(zone.to_owned())
            }
            other => {
                return Err(ManifestError(format!(
                    "kind = \"{}\": it is program, spamd, http or client (scripts are files that \
                     end in .luau)",
                    other.unwrap_or_default()
                )));
            }
        };
        keys.check(kind)
    }
}

/// A manifest that is none because of its place would be a script without its bounds.
fn check_misplaced(text: &str) -> Result<(), ManifestError> {
    let is_manifest = |line: &str| {
        let comment = line.trim_start().strip_prefix("--[");
        let inner = comment.and_then(|rest| rest.trim_start_matches('=').strip_prefix('['));
        let name = inner.map(|inner| inner.trim_start().strip_prefix("procedure"));
        name.flatten().is_some_and(|rest| rest.trim().is_empty())
    };
    match text.lines().position(is_manifest) {
        Some(at) => Err(ManifestError(format!(
            "line {}: a manifest begins with `--[[ procedure`, and only lines that begin with --! \
             may be above it",
            at + 1
        ))),
        None => Ok(()),
    }
}

/// Where a spamd can be.
fn spamd_server(server: String) -> Result<String, ManifestError> {
    let is_place = match server.strip_prefix("unix:") {
        Some(path) => path.starts_with('/') && !path.contains('\0'),
        None => server.rsplit_once(':').is_some_and(|(host, port)| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let inner = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'));
            let is_host = match inner {
                Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
                None => !host.is_empty() && host.chars().all(is_name),
            };
            is_host && port.parse::<u16>().is_ok_and(|port| port != 0)
        }),
    };
    if is_place {
        return Ok(server);
    }
    Err(ManifestError(format!(
        "server = {server:?}: it is HOST:PORT, as in \"127.0.0.1:783\", or unix: and a full path, \
         as in \"unix:/run/spamd.sock\""
    )))
}

fn tenths(score: f64) -> Result<i64, ManifestError> {
    if (-1000.0..=1000.0).contains(&score) {
        Ok((score * 10.0).round() as i64)
    } else {
        Err(ManifestError(format!(
            "reject_score = {score}: it is -1000 to 1000"
        )))
    }
}

impl Keys {
    fn check(self, kind: Kind) -> Result<Manifest, ManifestError> {
        self.check_fit(&kind)?;
        // What has to read a message is given all of it.
        let whole = !matches!(kind, Kind::Builtin | Kind::Luau(_));
        let default_need = if whole { Need::Body } else { Need::Size };
        let version = self.version.unwrap_or_else(|| "0".to_owned());
        if version.len() > VERSION_BYTES_MAX || version.chars().any(char::is_control) {
            return Err(ManifestError(format!(
                "version = {version:?}: it has at most {VERSION_BYTES_MAX} bytes in one line"
            )));
        }
        let allow_urls = self.allow_urls.iter().map(|text| Url::parse(text));
        let allow_urls: Vec<Url> = allow_urls
            .collect::<Result<_, _>>()
            .map_err(|reason| ManifestError(format!("allow_urls: {reason}")))?;
        if self.grants.contains(&Grant::Http) == allow_urls.is_empty() {
            let key = if allow_urls.is_empty() {
                "grants"
            } else {
                "allow_urls"
            };
            return Err(ManifestError(format!(
                "{key}: the grant \"http\" and `allow_urls`, where it may turn to, belong together; \
                 give both or none"
            )));
        }
        Ok(Manifest {
            version,
            needs: self.needs.unwrap_or(default_need),
            deadline: duration("deadline", self.deadline.as_deref().unwrap_or("2s"))?,
            memory: size("memory", self.memory.as_deref(), "16MiB", 1 << 20, 1 << 32)?,
            concurrency: bounded("concurrency", self.concurrency.unwrap_or(4), 1, 64)?,
            queue: bounded("queue", self.queue.unwrap_or(100), 0, 10_000)?,
            max_body: size("max_body", self.max_body.as_deref(), "10MiB", 0, 1 << 30)?,
            on_large: verdict("on_large", self.on_large.as_deref().unwrap_or("accept"))?,
            on_error: verdict("on_error", self.on_error.as_deref().unwrap_or("tempfail"))?,
            mode: self.mode.unwrap_or_default(),
            grants: self.grants,
            anonymous: self.anonymous.unwrap_or(false),
            allow_addresses: self.allow_addresses,
            allow_users: self.allow_users,
            allow_urls,
            store_bytes: size(
                "store_bytes",
                self.store_bytes.as_deref(),
                "1MiB",
                0,
                1 << 32,
            )?,
            kind,
        })
    }

    /// Keys that mean nothing for a kind are mistakes.
    fn check_fit(&self, kind: &Kind) -> Result<(), ManifestError> {
        let is = kind.name();
        for (key, given, wanted) in [
            ("command", self.command.is_some(), "program"),
            ("server", self.server.is_some(), "spamd"),
            ("reject_score", self.reject_score.is_some(), "spamd"),
            ("user", self.user.is_some(), "spamd"),
            ("url", self.url.is_some(), "http"),
            ("zone", self.zone.is_some(), "client"),
            ("allow_urls", !self.allow_urls.is_empty(), "luau"),
            ("grants", !self.grants.is_empty(), "luau"),
            ("store_bytes", self.store_bytes.is_some(), "luau"),
        ] {
            if given && wanted != is {
                return Err(ManifestError(format!(
                    "`{key}` is for kind \"{wanted}\", and this is \"{is}\"; remove it"
                )));
            }
        }
        Ok(())
    }
}

fn bounded(key: &str, value: usize, min: usize, max: usize) -> Result<usize, ManifestError> {
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(ManifestError(format!(
            "{key} = {value}: it is {min} to {max}"
        )))
    }
}

/// `accept`, `tempfail` or `reject`.
fn verdict(key: &str, name: &str) -> Result<Verdict, ManifestError> {
    match Verdict::from_name(name) {
        Some(verdict @ (Verdict::Accept | Verdict::Tempfail | Verdict::Reject)) => Ok(verdict),
        _ => Err(ManifestError(format!(
            "{key} = \"{name}\": it is accept, tempfail or reject"
        ))),
    }
}

/// `500ms`, `2s`; 10 ms to 5 minutes.
fn duration(key: &str, text: &str) -> Result<Duration, ManifestError> {
    let (number, unit) = split_unit(text);
    let milliseconds = match unit {
        "ms" => number,
        "s" => number.and_then(|number| number.checked_mul(1000)),
        _ => None,
    };
    match milliseconds {
        Some(milliseconds @ 10..=300_000) => Ok(Duration::from_millis(milliseconds)),
        _ => Err(ManifestError(format!(
            "{key} = \"{text}\": it is 10ms to 300s, as in \"500ms\""
        ))),
    }
}

/// `10MiB`, `64KiB`, `100B`.
fn size(
    key: &str,
    text: Option<&str>,
    default: &str,
    min: u64,
    max: u64,
) -> Result<u64, ManifestError> {
    let text = text.unwrap_or(default);
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes = number
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor));
    match bytes {
        Some(bytes) if (min..=max).contains(&bytes) => Ok(bytes),
        _ => Err(ManifestError(format!(
            "{key} = \"{text}\": it is {min}B to {}MiB, as in \"10MiB\"",
            max >> 20
        ))),
    }
}

fn split_unit(text: &str) -> (Option<u64>, &str) {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    (number.parse().ok(), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_without_a_manifest_has_defaults() {
        let manifest = Manifest::of_script("return function() end").unwrap();
        assert_eq!(manifest.needs, Need::Size);
        assert_eq!(manifest.deadline, Duration::from_secs(2));
        assert_eq!(manifest.on_error, Verdict::Tempfail);
        assert!(!manifest.anonymous && manifest.grants.is_empty());
    }

    #[test]
    fn the_manifest_stands_in_a_comment() {
        let text = "\n--[[ procedure\nversion = \"1.2\"\nneeds = \"body\"\nmemory = \"2MiB\"\n\
                    grants = [\"store\", \"log\"]\nmode = \"observe\"\n]]\nreturn 1";
        let manifest = Manifest::of_script(text).unwrap();
        assert_eq!(manifest.version, "1.2");
        assert_eq!((manifest.needs, manifest.mode), (Need::Body, Mode::Observe));
        assert_eq!(manifest.memory, 2 << 20);
        assert_eq!(manifest.grants, BTreeSet::from([Grant::Store, Grant::Log]));
    }

    #[test]
    fn a_manifest_is_not_passed_over() {
        let strict = "--!strict\n--!optimize 2\n--[[ procedure\nversion = \"2\"\nx\n]]\nreturn 1";
        let error = Manifest::of_script(strict).unwrap_err().to_string();
        assert!(error.contains("line 5"), "{error}");
        let manifest = Manifest::of_script(&strict.replace("x\n", "")).unwrap();
        assert_eq!(manifest.version, "2");
        for text in [
            "-- mine\n--[[ procedure\n]]",
            "--[==[ procedure\nversion = \"2\"\n]==]",
            "return 1 \n  --[[procedure  \n]]",
        ] {
            let error = Manifest::of_script(text).unwrap_err().to_string();
            assert!(error.contains("may be above it"), "{error}");
        }
        assert!(Manifest::of_script("--[[ procedures are fine ]]\nreturn 1").is_ok());
    }

    #[test]
    fn mistakes_name_the_line_the_key_and_what_is_allowed() {
        let script = |inner: &str| Manifest::of_script(&format!("--[[ procedure\n{inner}\n]]"));
        for (result, words) in [
            (
                script("needs = \"all\""),
                &["line 2: needs = \"all\": there is no \"all\"; `needs` is \"size\", "]
                    as &[&str],
            ),
            (script("needs = \"heders\""), &["did you mean \"headers\"?"]),
            (
                script("grants = [\"stor\"]"),
                &[
                    "line 2: grants = [\"stor\"]: there is no \"stor\"; did you mean \"store\"?",
                    "`grants` is a list of \"store\", \"log\", \"dns\", \"http\" and \"mail\"",
                ],
            ),
            (
                script("grants = [\n    \"log\",\n    \"htp\",\n]"),
                &["line 4: grants: \"htp\",: ", "did you mean \"http\"?"],
            ),
            (
                script("grants = \"store\""),
                &[
                    "line 2: grants = \"store\": it is a list",
                    "this is a string",
                ],
            ),
            (
                script("concurrency = \"4\""),
                &["concurrency = \"4\": it is a whole number from 1 to 64; this is a string"],
            ),
            (
                script("queue = -1"),
                &["line 2: queue = -1: it is a whole number from 0 to 10000"],
            ),
            (
                script("anonymous = \"yes\""),
                &["anonymous = \"yes\": it is true or false, without quotation marks"],
            ),
            (
                script("mode = 5"),
                &["mode = 5: it is \"enforce\" or \"observe\""],
            ),
            (
                script("grants = [5]"),
                &["grants = [5]: it is a list of \"store\", "],
            ),
            (
                script("deadline = 5s"),
                &[
                    "line 2: deadline = 5s: ",
                    "`deadline` is a time in quotation marks",
                ],
            ),
            (script("grant = [\"log\"]"), &["did you mean `grants`?"]),
            (script("version = \"1\"\nspeed = 3"), &["line 3", "speed"]),
            (
                script("deadline = \"5m\""),
                &["line 2: deadline = \"5m\"", "10ms to 300s"],
            ),
            (script("deadline = \"9ms\""), &["deadline", "10ms to 300s"]),
            (
                script("\ndeadline = 5"),
                &[
                    "line 3: deadline = 5: it is a time in quotation marks",
                    "an integer",
                ],
            ),
            (
                Manifest::of_file("kind = \"http\"\nurl = \"ftp://a/\""),
                &["line 2: url", "ftp://a/"],
            ),
            (script("memory = \"1KiB\""), &["memory", "1KiB"]),
            (script("memory = \"99999999999999999999GiB\""), &["memory"]),
            (script("concurrency = 0"), &["concurrency = 0", "1 to 64"]),
            (script("queue = 10001"), &["queue", "0 to 10000"]),
            (script("on_error = \"discard\""), &["on_error", "tempfail"]),
            (script("grants = [\"files\"]"), &["line 2: grants", "files"]),
            (
                script("server = \"x\""),
                &["line 2: `server`", "spamd", "remove"],
            ),
            (script("grants = [\"http\"]"), &["allow_urls"]),
            (
                script("allow_urls = [\"http://a/\"]"),
                &["http", "together"],
            ),
            (
                script("grants = [\"http\"]\nallow_urls = [\"ftp://a/\"]"),
                &["allow_urls", "ftp://a/", "https://"],
            ),
            (Manifest::of_file("kind = \"http\""), &["http", "url"]),
            (script("kind = \"program\""), &["kind"]),
            (
                script("allow_addresses = [\"x\"]"),
                &["line 2: allow_addresses = [\"x\"]: it is a list of IP addresses"],
            ),
            (Manifest::of_script("--[[ procedure\n"), &["line 1", "]]"]),
            (
                Manifest::of_file("kind = \"program\""),
                &["program", "command"],
            ),
            (
                Manifest::of_file("kind = \"program\"\ncommand = [\"sh\"]"),
                &["full path"],
            ),
            (
                Manifest::of_file("kind = \"program\"\ncommand = []"),
                &["full path"],
            ),
            (
                Manifest::of_file("kind = \"program\"\ncommand = [\"/bin/x\", \"a\\u0000\"]"),
                &["line 2: command", "NUL", "remove"],
            ),
            (Manifest::of_file("kind = \"spamd\""), &["spamd", "server"]),
            (Manifest::of_file("kind = \"wasm\""), &["wasm", "spamd"]),
            (
                Manifest::of_file("kind = \"client\"\nzone = \"a/b\""),
                &["zone", "a/b"],
            ),
            (script("zone = \"x\""), &["zone", "client", "remove"]),
            (Manifest::of_file("needs = \"body\""), &["kind"]),
            (
                Manifest::of_file("kind = \"spamd\"\nserver = \"a:783\"\nreject_score = 1e9"),
                &["reject_score"],
            ),
        ] {
            let error = result.expect_err("a mistake").to_string();
            for word in words {
                assert!(error.contains(word), "{word:?} is not in {error:?}");
            }
        }
    }

    #[test]
    fn a_spamd_is_at_a_place() {
        let manifest =
            |server: &str| Manifest::of_file(&format!("kind = \"spamd\"\nserver = \"{server}\"\n"));
        for server in ["127.0.0.1:783", "[::1]:783", "spam_d.test:1", "unix:/run/s"] {
            manifest(server).expect(server);
        }
        for server in [
            "",
            ":783",
            "127.0.0.1",
            "localhost",
            "localhost:",
            "localhost:0",
            "localhost:65536",
            "::1:783",
            "[::1]",
            "a b:783",
            "unix:",
            "unix:run/s",
            "unix:/run/\\u0000",
        ] {
            let error = manifest(server).expect_err(server).to_string();
            assert!(error.starts_with("line 2: server = "), "{error}");
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }
}
