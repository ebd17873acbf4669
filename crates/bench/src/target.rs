//! The servers to measure: the floor, our own server, a rival started for the purpose, or a server
//! that runs already.

mod holder;
mod keep_alive;
mod launch;
mod mochi;
mod mosquitto;
mod nats;
mod rival;
mod rumqttd;
mod transport;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use stentor_client::{Client, ClientError, Options, ReasonCode, Url};

use crate::accounts::Accounts;
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::link::Endpoint;
use crate::process::{self, Usage};
use crate::wire::{LOGIN_REMEDY, Login, Version};

use launch::Child;
pub(crate) use launch::{Ending, Restarted, find_program, server_program, without_settings};
pub(crate) use rival::Rival;
pub(crate) use transport::Transport;

/// How long a server may think about its status.
const STATUS_TIME: Duration = Duration::from_secs(10);

/// Until a server that has just started keeps no more memory than it needs.
const SETTLE: Duration = Duration::from_secs(3);

/// Something that can be measured.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// The bare program of the same system calls.
    Floor(FloorKind),
    /// This project's server, started for each measurement.
    Own {
        /// The binary; the one that [`launch::server_program`] finds if `None`.
        binary: Option<PathBuf>,
        /// Number of shards; the server's default if `None`.
        shards: Option<u16>,
        /// What it writes down of sessions.
        writes: Writes,
    },
    /// A server that runs already.
    Url {
        /// Its address.
        url: Url,
        /// Its process, to measure CPU and memory.
        pid: Option<u32>,
        /// What it is trusted by, if it is not what the system trusts.
        trusted: Option<PathBuf>,
    },
    /// Another broker that is started for the purpose.
    Rival(Rival),
}

/// What a server of ours writes down of sessions that last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// As it comes.
    Sessions,
    /// Nothing: a restart forgets them.
    Nothing,
}

/// What `--against` names: a server, or a broker in both of its configurations.
#[derive(Clone, Debug)]
pub(crate) struct Against {
    pub(crate) subjects: Vec<Subject>,
    /// As it was given, secrets included.
    word: String,
}

impl Against {
    /// Reads a rival's name or an address.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let own = |writes| Subject::Own {
            binary: None,
            shards: None,
            writes,
        };
        let subjects = match (text, Rival::parse(text)) {
            (OWN, _) => vec![own(Writes::Sessions)],
            (FORGETFUL, _) => vec![own(Writes::Nothing)],
            (_, Some(rivals)) => rivals.into_iter().map(Subject::Rival).collect(),
            (_, None) => vec![Subject::Url {
                url: read_address(text)?,
                pid: None,
                trusted: None,
            }],
        };
        Ok(Self {
            subjects,
            word: text.to_owned(),
        })
    }

    /// As on the command line.
    pub(crate) fn word(&self) -> &str {
        &self.word
    }
}

/// This project's server, as `--against` names it.
const OWN: &str = "stentor";
/// The same, with `sessions.enabled = false`.
const FORGETFUL: &str = "stentor-forgetful";

/// Words are as alike as that, on a scale to 1, if one may have been meant for the other.
const ALIKE: f64 = 0.8;

/// Reads an address. A bare word is refused, though it may be a host: more likely it is a misspelt
/// name of a server, and waiting for an unknown host takes long.
fn read_address(text: &str) -> Result<Url, String> {
    let known = format!(
        "{OWN}, {FORGETFUL}, {} (each rival also with -tuned or -defaults behind its name)",
        rival::NAMES
    );
    if text == "localhost" || text.contains([':', '.', '/', '@']) {
        return text
            .parse()
            .map_err(|e| format!("neither an address nor one of {known}: {e}"));
    }
    let names = Rival::names().chain([OWN, FORGETFUL]);
    let near = names
        .map(|name| (strsim::jaro_winkler(text, name), name))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    let meant = near.map_or_else(String::new, |(_, name)| format!(" did you mean {name}?"));
    Err(format!(
        "unknown target {text:?};{meant} known are {known}; name a host as in mqtt://{text}"
    ))
}

/// What a measurement will ask of a server, for the limits in its configuration.
#[derive(Clone, Debug)]
pub(crate) struct Needs {
    /// Connections at once.
    pub(crate) connections: usize,
    /// Bytes of the largest payload.
    pub(crate) payload: usize,
    /// Some servers have a port for each version.
    pub(crate) version: Version,
    /// What carries MQTT to a server that is started here; floors have TCP only.
    pub(crate) transport: Transport,
    /// Topics that will hold a retained message; more than none asks for them to be kept over a
    /// restart.
    pub(crate) stored: u64,
    /// Whether sessions and what waits in them have to survive a restart.
    pub(crate) lasting: bool,
    /// More of this server's own configuration; `FOLDER` in it stands for the folder of `files`.
    pub(crate) config: Cow<'static, str>,
    /// Files that the configuration names, and what is in them.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// The accounts that may log in; `None` lets every client in.
    pub(crate) accounts: Option<Arc<Accounts>>,
    /// How long connections may be silent, their opening and their end apart.
    pub(crate) silence: Duration,
}

impl Needs {
    /// Nothing out of the ordinary.
    pub(crate) const fn new(connections: usize, payload: usize, version: Version) -> Self {
        Self {
            connections,
            payload,
            version,
            transport: Transport::Mqtt,
            stored: 0,
            lasting: false,
            config: Cow::Borrowed(""),
            files: &[],
            accounts: None,
            silence: Duration::ZERO,
        }
    }
}

impl Subject {
    /// Whether this is our own server, started here.
    pub(crate) const fn is_own(&self) -> bool {
        matches!(self, Self::Own { .. })
    }

    /// As shown in tables.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Floor(kind) => format!("floor ({})", kind.as_str()),
            Self::Own {
                writes: Writes::Nothing,
                ..
            } => FORGETFUL.into(),
            Self::Own { shards: None, .. } => "stentor".into(),
            Self::Own {
                shards: Some(1), ..
            } => "stentor (1 shard)".into(),
            Self::Own {
                shards: Some(shards),
                ..
            } => format!("stentor ({shards} shards)"),
            Self::Url { url, .. } => url.to_string(),
            Self::Rival(rival) => rival.name().into(),
        }
    }

    /// What `--explain` says about how it is started.
    pub(crate) fn explain(&self) -> String {
        match self {
            Self::Floor(_) => "this program as a process of its own, canned answers".into(),
            Self::Own { binary, .. } => format!(
                "{} serve, on a free loopback port with a temporary folder",
                binary
                    .as_ref()
                    .map_or_else(|| "stentor".into(), |b| b.display().to_string())
            ),
            Self::Url { pid: None, .. } => "already running; CPU and memory unknown".into(),
            Self::Url { pid: Some(pid), .. } => format!("already running as process {pid}"),
            Self::Rival(rival) => rival.explain(),
        }
    }

    /// Its program, version and configuration, for the JSON; null where nothing is known.
    pub(crate) fn identity(&self, needs: &Needs) -> Value {
        match self {
            Self::Floor(_) => Value::Null,
            Self::Own {
                binary,
                shards,
                writes,
            } => launch::identity(binary.as_deref(), *shards, *writes, needs),
            Self::Url { url, pid, .. } => json!({ "address": url.to_string(), "pid": pid }),
            Self::Rival(rival) => rival.identity(needs),
        }
    }

    /// Starts it (or resolves its address) and waits until it accepts connections.
    pub(crate) fn start(&self, needs: &Needs) -> Result<Running, BenchError> {
        let running = match self {
            // These let clients be silent for as long as they ask for.
            Self::Floor(kind) => return launch::floor(*kind, needs),
            Self::Own {
                binary,
                shards,
                writes,
            } => return launch::own(binary.as_deref(), *shards, *writes, needs),
            Self::Url { url, pid, trusted } => {
                if let Some(pid) = pid.filter(|pid| !process::is_alive(*pid)) {
                    let text = format!("--pid {pid}: there is no such process");
                    return Err(BenchError::usage(text));
                }
                let endpoint = probe(url, trusted.as_deref(), needs.version)?;
                let note = pid.map(|pid| holder::check(&endpoint, pid)).transpose()?;
                Running {
                    endpoint,
                    login: Login {
                        username: url.username.clone(),
                        password: url.password.clone(),
                    },
                    url: url.clone(),
                    trusted: trusted.clone(),
                    pid: *pid,
                    child: None,
                    has_served: pid.is_some_and(has_served),
                    note: note.flatten(),
                    writes: Writes::Sessions,
                }
            }
            Self::Rival(rival) => rival.start(needs)?,
        };
        keep_alive::check(&running, needs)?;
        Ok(running)
    }
}

/// Whether a server that was not started here has been measured by this program before.
fn has_served(pid: u32) -> bool {
    static SERVED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    !served.insert(pid)
}

/// A server that accepts connections. Dropping it ends what was started.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where to connect.
    pub(crate) endpoint: Endpoint,
    /// Name and password, if it wants any.
    pub(crate) login: Login,
    /// Where that is, for another process, and what is trusted there.
    url: Url,
    trusted: Option<PathBuf>,
    pid: Option<u32>,
    child: Option<Child>,
    /// An earlier measurement, and is the same process still.
    has_served: bool,
    /// What is not known about its process.
    note: Option<String>,
    /// What it was told to write down of sessions.
    writes: Writes,
}

impl Running {
    fn started(child: Child, url: &Url) -> Result<Self, BenchError> {
        Ok(Self {
            endpoint: Endpoint::resolve(url, child.certificate().as_deref())?,
            login: Login::default(),
            url: url.clone(),
            trusted: child.certificate(),
            pid: Some(child.pid()),
            child: Some(child),
            has_served: false,
            note: None,
            writes: Writes::Sessions,
        })
    }

    /// Ends the server and starts it again with what it has kept; how long that took, from the
    /// start of the new process until it accepts connections. `None` for what was not started
    /// here, or keeps nothing.
    pub(crate) fn restart(&mut self) -> Result<Option<Restarted>, BenchError> {
        let usual = self.child.as_ref().and_then(Child::usual_ending);
        usual.map_or(Ok(None), |ending| self.restart_after(ending))
    }

    /// The same, ended in a certain way.
    pub(crate) fn restart_after(
        &mut self,
        ending: Ending,
    ) -> Result<Option<Restarted>, BenchError> {
        let Some(child) = &mut self.child else {
            return Ok(None);
        };
        let Some((restarted, url)) = child.restart(ending)? else {
            return Ok(None);
        };
        self.endpoint = Endpoint::resolve(&url, child.certificate().as_deref())?;
        self.url = url;
        self.pid = Some(child.pid());
        Ok(Some(restarted))
    }

    /// Asks a rival that keeps messages in memory to save them now. Our own server always does.
    pub(crate) fn save(&self) -> Result<(), BenchError> {
        self.child.as_ref().map_or(Ok(()), Child::save)
    }

    /// Bytes of the files in the server's folder: their lengths, and what the disk gives them.
    pub(crate) fn file_bytes(&self) -> Option<(u64, u64)> {
        self.child.as_ref().map(Child::file_bytes)
    }

    /// Waits until the server has ended what it does at its start, and has given back what it took
    /// for that: else its memory would seem to shrink under load.
    pub(crate) fn settle(&self) {
        std::thread::sleep(match self.is_floor() {
            true => Duration::from_millis(200),
            false => SETTLE,
        });
    }

    /// Its address, password included, and the certificates that are trusted there: for another
    /// process.
    pub(crate) fn place(&self) -> (String, Option<&Path>) {
        (address(&self.url), self.trusted.as_deref())
    }

    /// Whether this program started it; otherwise it ran before.
    pub(crate) fn was_started_here(&self) -> bool {
        self.child.is_some()
    }

    /// Whether this is a bare program with canned answers.
    pub(crate) fn is_floor(&self) -> bool {
        self.child.as_ref().is_some_and(Child::is_floor)
    }

    /// Whether this is our own server, started here with the accounts that it needs.
    pub(crate) fn has_accounts(&self) -> bool {
        self.child.as_ref().is_some_and(Child::is_own)
    }

    /// Whether this is a server of ours that was told to forget sessions.
    pub(crate) fn forgets(&self) -> bool {
        self.writes == Writes::Nothing
    }

    /// What a reader has to know about the process that was named.
    pub(crate) fn note(&self) -> Option<String> {
        self.note.clone()
    }

    /// The server's process, if it is known.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Memory now; `None` if its process is unknown.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.pid.and_then(process::usage)
    }

    /// By how many bytes its memory has grown. `None` where that says nothing of what was opened
    /// in the meantime: one that has memory left of earlier connections gives that to new ones, and
    /// grows by less, if at all.
    pub(crate) fn grown(&self, before: Option<u64>, after: Option<u64>) -> Option<f64> {
        let grown = after?.checked_sub(before?)?;
        (grown > 0 && !self.has_served).then_some(grown as f64)
    }

    /// What the server says about itself, if it is our own and was started here.
    pub(crate) fn status(&self) -> Option<Value> {
        self.status_at()?.ask()
    }

    /// Where it says that, for another thread.
    pub(crate) fn status_at(&self) -> Option<StatusAt> {
        self.child.as_ref().map(|it| StatusAt(it.control_socket()))
    }

    /// Says so if the server has died, as far as its process is known.
    pub(crate) fn check_alive(&mut self) -> Result<(), BenchError> {
        match (&mut self.child, self.pid) {
            (Some(child), _) => child.check_alive(),
            (None, Some(pid)) if !process::is_alive(pid) => Err(BenchError::server(format!(
                "the server, process {pid}, has ended"
            ))),
            (None, _) => Ok(()),
        }
    }
}

/// The control socket of our own server.
#[derive(Clone, Debug)]
pub(crate) struct StatusAt(PathBuf);

impl StatusAt {
    /// What the server says about itself; `None` if it does not answer.
    pub(crate) fn ask(&self) -> Option<Value> {
        self.request(&json!({ "verb": "status" })).ok()
    }

    /// What the server answers to a verb with its keys.
    ///
    /// # Errors
    /// When it does not answer in time, or refuses.
    pub(crate) fn request(&self, request: &Value) -> Result<Value, BenchError> {
        let mut line = request.clone();
        line["v"] = json!(1);
        let line = self.exchange(&format!("{line}\n"));
        let line = line.doing("ask the server by its control socket")?;
        let mut answer: Value = serde_json::from_str(&line).unwrap_or_default();
        match answer["ok"].take() {
            Value::Null => Err(BenchError::server(format!(
                "the server refuses {}: {}",
                request["verb"], answer["error"]
            ))),
            told => Ok(told),
        }
    }

    fn exchange(&self, line: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.0)?;
        stream.set_read_timeout(Some(STATUS_TIME))?;
        stream.write_all(line.as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer)
    }
}

/// An address with its password, for this process alone: `Display` leaves it out.
pub(crate) fn address(url: &Url) -> String {
    let text = url.to_string();
    match (&url.password, text.split_once('@')) {
        (Some(password), Some((user, host))) => {
            let bytes = password.bytes();
            let encoded: String = bytes.map(|byte| format!("%{byte:02X}")).collect();
            format!("{user}:{encoded}@{host}")
        }
        _ => text,
    }
}

/// Logs in and out once, so that a wrong address or password is one clear sentence.
fn probe(url: &Url, trusted: Option<&Path>, version: Version) -> Result<Endpoint, BenchError> {
    let endpoint = Endpoint::resolve(url, trusted)?;
    let mut options = Options::new(url.clone());
    options.tls.ca_file = trusted.map(Path::to_owned);
    options.client_id = "stentor-bench-probe".into();
    options.version = match version {
        Version::V311 => stentor_client::Version::V311,
        Version::V5 => stentor_client::Version::V5,
    };
    Client::connect(&options)
        .and_then(Client::disconnect)
        .map_err(|error| BenchError::server(refused(&error)))?;
    Ok(endpoint)
}

/// Why a server cannot be measured, and what helps if it is about who logs in.
fn refused(error: &ClientError) -> String {
    let is_about_user = matches!(
        error,
        ClientError::Refused {
            reason: ReasonCode::NotAuthorized | ReasonCode::BadUserNameOrPassword,
            ..
        }
    );
    let remedy = if is_about_user { LOGIN_REMEDY } else { "" };
    format!("{error}{remedy}")
}

/// A loopback port that nobody uses right now, for servers that cannot pick one themselves.
fn free_port() -> Result<u16, BenchError> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).doing("find a free port")?;
    Ok(listener.local_addr().doing("find a free port")?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_password() {
        let url: Url = "mqtt://me:p%40ss@h:9".parse().unwrap();
        assert_eq!(address(&url).parse(), Ok(url));
    }

    #[test]
    fn a_refused_login_says_how_to_give_a_user() {
        let told = |reason| refused(&ClientError::Refused { reason, text: None });
        for reason in [ReasonCode::NotAuthorized, ReasonCode::BadUserNameOrPassword] {
            let text = told(reason);
            assert!(text.contains("--target mqtt://USER:PW@HOST:PORT"), "{text}");
        }
        assert!(!told(ReasonCode::ServerBusy).contains("--target"));
    }

    #[test]
    fn a_server_that_has_served_before_tells_nothing_by_its_growth() {
        let mut running = Running {
            endpoint: Endpoint::Unix("none".into()),
            login: Login::default(),
            url: "mqtt://h".parse().unwrap(),
            trusted: None,
            pid: None,
            child: None,
            has_served: false,
            note: None,
            writes: Writes::Sessions,
        };
        assert_eq!(running.grown(Some(7), Some(10)), Some(3.0));
        for (before, after) in [(Some(7), Some(7)), (Some(7), Some(6)), (None, Some(7))] {
            assert_eq!(running.grown(before, after), None, "{before:?} {after:?}");
        }
        running.has_served = true;
        assert_eq!(running.grown(Some(7), Some(10)), None);
        assert_eq!((has_served(u32::MAX), has_served(u32::MAX)), (false, true));
    }

    #[test]
    fn rivals_are_names_or_addresses() {
        for (name, count) in [("mosquitto", 2), ("nats-defaults", 1), ("mqtt://h:9", 1)] {
            let against = Against::parse(name).unwrap();
            assert_eq!(against.subjects.len(), count, "{name}");
            assert_eq!(against.word(), name);
        }
        for (wrong, told) in [
            ("http://h", "nats"),
            ("mosqitto", "did you mean mosquitto?"),
            ("mosquitto-tuend", "did you mean mosquitto-tuned?"),
            ("Rumqttd", "did you mean rumqttd?"),
            ("stentro", "did you mean stentor?"),
            ("emqx", "as in mqtt://emqx"),
        ] {
            let refused = Against::parse(wrong).unwrap_err();
            assert!(refused.contains(told), "{wrong}: {refused}");
        }
        assert!(!Against::parse("emqx").unwrap_err().contains("did you"));
        for host in ["localhost", "broker.example", "10.0.0.1", "h:9", "me@h"] {
            assert!(Against::parse(host).is_ok(), "{host}");
        }
    }
}
