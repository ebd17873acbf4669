//! The command line.

mod old;
mod token;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::iter::Peekable;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use stentor_call_protocol::{Format, Verdict};

use crate::fault::Fault;
use crate::help;
use crate::profile::Profile;
use token::{Clear, token};

/// The socket of a server that was installed by its package.
const DEFAULT_SOCKET: &str = "/run/stentor/call.sock";
/// The port of the call protocol over TCP.
const DEFAULT_PORT: u16 = 1889;
/// The same over TLS.
const DEFAULT_TLS_PORT: u16 = 1892;
const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);
const DEADLINE_MIN: Duration = Duration::from_millis(10);
const DEADLINE_MAX: Duration = Duration::from_secs(3600);

/// What was asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    Call(Box<Options>),
}

/// Where the server is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Unix(PathBuf),
    Tcp(IpAddr, u16),
    /// The same, encrypted. Its certificate has this name.
    Tls {
        host: IpAddr,
        port: u16,
        name: String,
    },
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(IpAddr::V4(host), port) => write!(f, "{host}:{port}"),
            Self::Tcp(IpAddr::V6(host), port) => write!(f, "[{host}]:{port}"),
            Self::Tls { host, port, .. } => {
                write!(f, "calls://{}", Self::Tcp(*host, *port))
            }
        }
    }
}

/// Where the message is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    None,
    File(PathBuf),
    Stdin,
}

/// What happens to a message that the procedure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Nothing: the procedure learns that it cannot change anything.
    Refused,
    /// It takes the place of the file.
    InPlace,
    /// It is printed, and so is one that was not changed.
    Printed,
}

/// A call, as the command line says it.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) server: Server,
    /// The authorities that are trusted about a server's certificate; `None`: the system's.
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) token: Vec<u8>,
    pub(crate) procedure: String,
    /// Names and values in their order.
    pub(crate) arguments: Vec<(String, Vec<u8>)>,
    pub(crate) source: Source,
    pub(crate) format: Format,
    pub(crate) profile: Profile,
    /// `None`: what the server says, else tempfail.
    pub(crate) on_error: Option<Verdict>,
    pub(crate) deadline: Duration,
    pub(crate) changed: Changed,
    /// The file is deleted in the end.
    pub(crate) deletes: bool,
}

/// A command line that makes no sense.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) fault: Fault,
    /// As far as they could be read: whose exit codes to use, and for which verdict.
    pub(crate) options: Box<Options>,
}

/// The options that take a value; `--server` and `--port` have a short form as well.
const VALUED: [&str; 10] = [
    "--server",
    "--port",
    "--ca-file",
    "--server-name",
    "--token-file",
    "--file",
    "--format",
    "--profile",
    "--on-error",
    "--deadline",
];
/// The options that take none.
const FLAGS: [&str; 7] = [
    "--help",
    "--version",
    "--stdin",
    "--in-place",
    "--filter",
    "--delete-file",
    "--clear-token",
];

/// The spellings of options with one dash, which count before the procedure.
const ONE_DASH: [(&str, &str); 5] = [
    ("-s", "--server"),
    ("-server", "--server"),
    ("-p", "--port"),
    ("-port", "--port"),
    ("-file", "--file"),
];

/// Whether a word is the name of an option, and so never the value of another one.
fn is_option(word: &OsStr) -> bool {
    let word = word.to_str().unwrap_or_default();
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    VALUED.contains(&name) || FLAGS.contains(&word) || one_dash(word).is_some()
}

/// The option that a spelling with one dash means.
fn one_dash(word: &str) -> Option<&'static str> {
    let known = ONE_DASH.iter().find(|(spelling, _)| *spelling == word);
    known.map(|(_, option)| *option)
}

/// The words that are left.
type Rest<'a> = Peekable<std::slice::Iter<'a, OsString>>;

/// What was read so far.
#[derive(Default)]
struct Given {
    help: bool,
    version: bool,
    host: Option<OsString>,
    port: Option<u16>,
    ca_file: Option<PathBuf>,
    server_name: Option<String>,
    token_file: Option<PathBuf>,
    clear_token: Clear,
    procedure: Option<String>,
    arguments: Vec<(String, Vec<u8>)>,
    /// Arguments behind `--`, which are options in no spelling.
    literal: Vec<(String, Vec<u8>)>,
    is_literal: bool,
    old: old::Words,
    file: Option<OsString>,
    format: Option<Format>,
    profile: Option<Profile>,
    on_error: Option<Verdict>,
    deadline: Option<Duration>,
    changed: Option<Changed>,
    deletes: bool,
    /// The options with a value that were given.
    valued: Vec<&'static str>,
    /// Whether all words were understood: what is wrong then is not the command line.
    is_understood: bool,
}

/// Reads the command line, the token's variable and its file.
///
/// # Errors
/// What is wrong with them. All that could be read besides comes along: a mail server that calls
/// with a mistake gets what its profile has for `--on-error`, as with any other failure.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command, Problem> {
    let mut given = Given::default();
    let read = given.read(arguments);
    let known = given.known();
    let result = read.and_then(|()| given.command(arguments));
    result.map_err(|text| Problem {
        fault: Fault::Usage(text),
        options: Box::new(Options {
            deletes: given.deletes && given.is_understood,
            ..known
        }),
    })
}

fn verdict_on_error(name: &str) -> Option<Verdict> {
    let verdict = Verdict::from_name(name)?;
    matches!(
        verdict,
        Verdict::Accept | Verdict::Tempfail | Verdict::Reject
    )
    .then_some(verdict)
}

/// The envelope as Exim's pipe transport says it, where no argument does: by variables, for Exim
/// lets nothing that strangers wrote into a command line.
fn with_envelope(
    mut arguments: Vec<(String, Vec<u8>)>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<(String, Vec<u8>)> {
    for (name, key) in [
        ("SENDER", "from"),
        ("RECIPIENT", "rcpt"),
        ("MESSAGE_ID", "queue-id"),
    ] {
        let is_given = arguments.iter().any(|(given, _)| given == key);
        if let (false, Some(value)) = (is_given, variable(name)) {
            arguments.push((key.to_owned(), value.into_encoded_bytes()));
        }
    }
    arguments
}

impl Given {
    /// Reads all words, whatever is wrong with some of them; the first mistake counts.
    fn read(&mut self, arguments: &[OsString]) -> Result<(), String> {
        let mut rest = arguments.iter().peekable();
        let mut result = Ok(());
        while let Some(word) = rest.next() {
            let read = self.word(word, &mut rest);
            result = result.and(read);
        }
        let old = self.understand_old();
        self.arguments.append(&mut self.literal);
        result.and(old)
    }

    fn word(&mut self, word: &OsStr, rest: &mut Rest<'_>) -> Result<(), String> {
        let Some(name) = word.to_str() else {
            return Err(format!(
                "{} is not an option of stentor-call",
                word.display()
            ));
        };
        if self.is_literal {
            return self.literal(name, rest);
        }
        match name {
            "--" => self.is_literal = true,
            "-h" | "--help" if self.procedure.is_none() => self.help = true,
            "-V" | "--version" if self.procedure.is_none() => self.version = true,
            "--stdin" => self.take_file(OsString::from("-"))?,
            "--in-place" => self.change(Changed::InPlace)?,
            "--filter" => self.change(Changed::Printed)?,
            "--delete-file" => self.deletes = true,
            "--clear-token" => self.clear_token = Clear::Allowed,
            _ if name.starts_with("--") => self.long(name, rest)?,
            _ if self.procedure.is_some() => {
                self.refuse_option(name, rest)?;
                // Whatever it is: it may come from a stranger.
                let value = rest.next().cloned().ok_or_else(|| missing(name))?;
                self.old.add(name, &value);
                self.arguments.push(argument(name, value)?);
            }
            _ if name.starts_with('/') => {
                self.procedure = Some(name.trim_start_matches('/').to_owned());
            }
            _ => match one_dash(name) {
                Some(option) => self.option(option, name, rest)?,
                None => return Err(unknown_word(name)),
            },
        }
        Ok(())
    }

    /// An option with two dashes and a value: `--file m.eml` or `--file=m.eml`.
    fn long(&mut self, word: &str, rest: &mut Rest<'_>) -> Result<(), String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        match (VALUED.iter().find(|known| **known == name), value) {
            (Some(option), None) => self.option(option, name, rest),
            (Some(option), Some(value)) => self.set(option, value.into()),
            (None, Some(_)) if FLAGS.contains(&name) => Err(format!("{name} has no value")),
            (None, Some(_)) => Err(format!("{name} is not an option of stentor-call")),
            (None, None) => {
                // It may have had a value.
                rest.next_if(|word| !matches!(word.as_encoded_bytes().first(), Some(b'-' | b'/')));
                Err(format!("{name} is not an option of stentor-call"))
            }
        }
    }

    /// What is known of the caller's wishes on a command line with a mistake.
    fn known(&self) -> Options {
        Options {
            server: Server::Unix(DEFAULT_SOCKET.into()),
            ca_file: None,
            token: Vec::new(),
            procedure: String::new(),
            arguments: Vec::new(),
            source: match &self.file {
                None => Source::None,
                Some(file) if file == "-" => Source::Stdin,
                Some(file) => Source::File(file.into()),
            },
            format: Format::Message,
            profile: self.profile.unwrap_or(Profile::Plain),
            on_error: self.on_error,
            deadline: self.deadline.unwrap_or(DEFAULT_DEADLINE),
            changed: self.changed.unwrap_or(Changed::Refused),
            // Whatever was meant, nothing was done with it.
            deletes: false,
        }
    }

    fn change(&mut self, changed: Changed) -> Result<(), String> {
        match self.changed.replace(changed) {
            Some(other) if other != changed => {
                Err("--in-place and --filter exclude each other; leave one out".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// What stands behind `--`: the procedure if it is not there yet, and arguments.
    fn literal(&mut self, name: &str, rest: &mut Rest<'_>) -> Result<(), String> {
        if self.procedure.is_some() {
            let value = rest.next().cloned().ok_or_else(|| missing(name))?;
            self.literal.push(argument(name, value)?);
            return Ok(());
        }
        let Some(procedure) = name.strip_prefix('/') else {
            return Err(format!("{name} is not a /PROCEDURE"));
        };
        self.procedure = Some(procedure.trim_start_matches('/').to_owned());
        Ok(())
    }

    /// An option whose value is the next word; `spelling` is how it is written there.
    fn option(
        &mut self,
        name: &'static str,
        spelling: &str,
        rest: &mut Rest<'_>,
    ) -> Result<(), String> {
        match rest.next_if(|word| !is_option(word)) {
            Some(value) => self.set(name, value.clone()),
            None => {
                self.note_profile(name);
                Err(missing(spelling))
            }
        }
    }

    /// Until a good profile is read: a caller without a name understands these codes best.
    fn note_profile(&mut self, name: &str) {
        if name == "--profile" {
            self.profile = self.profile.or(Some(Profile::Sysexits));
        }
    }

    /// Where the message is, by `--file` or `--stdin`.
    fn take_file(&mut self, file: OsString) -> Result<(), String> {
        match &self.file {
            Some(other) if *other != file => {
                Err("--file and --stdin exclude each other; leave one out".to_owned())
            }
            _ => {
                self.file = Some(file);
                Ok(())
            }
        }
    }

    fn set(&mut self, name: &'static str, value: OsString) -> Result<(), String> {
        // The first one counts, also for the exit code: either may be meant.
        if self.valued.contains(&name) {
            return Err(format!("{name} is given twice; leave one out"));
        }
        self.valued.push(name);
        self.note_profile(name);
        let text = || {
            let text = value.to_str();
            text.ok_or_else(|| format!("{name} {}: it is not valid UTF-8", value.display()))
        };
        match name {
            "--server" => self.host = Some(value),
            "--port" => {
                self.port = Some(port(text()?)?);
            }
            "--ca-file" => self.ca_file = Some(value.into()),
            "--server-name" => self.server_name = Some(text()?.to_owned()),
            "--token-file" => self.token_file = Some(value.into()),
            "--file" => self.take_file(value)?,
            "--format" => {
                self.format = Some(match text()? {
                    "message" => Format::Message,
                    "xmail" => Format::XmailSpool,
                    other => return Err(format!("--format {other}: it is message or xmail")),
                });
            }
            "--profile" => {
                let name = text()?;
                self.profile = Some(Profile::from_name(name).ok_or_else(|| unknown_profile(name))?);
            }
            "--on-error" => {
                let Some(verdict) = verdict_on_error(text()?) else {
                    let given = text()?;
                    return Err(format!(
                        "--on-error {given}: it is accept, tempfail or reject"
                    ));
                };
                self.on_error = Some(verdict);
            }
            "--deadline" => self.deadline = Some(duration(text()?)?),
            _ => return Err(format!("{name} is not an option of stentor-call")),
        }
        Ok(())
    }

    fn command(&mut self, arguments: &[OsString]) -> Result<Command, String> {
        if self.help {
            return Ok(Command::Help);
        }
        if arguments.is_empty() {
            return Err(help::USAGE.to_owned());
        }
        if self.version {
            return Ok(Command::Version);
        }
        let Some(procedure) = self.procedure.take() else {
            return Err("the procedure is missing, as in /sizecheck".to_owned());
        };
        let server = self.server()?;
        let profile = self.profile.unwrap_or(Profile::Plain);
        let source = match self.file.take() {
            None => Source::None,
            Some(file) if file == "-" => Source::Stdin,
            Some(file) if file.is_empty() => {
                return Err("--file is empty; name the file".to_owned());
            }
            Some(file) => Source::File(file.into()),
        };
        let changed = match self.changed {
            Some(Changed::InPlace) if !matches!(source, Source::File(_)) => {
                return Err("--in-place needs a --file other than standard input".to_owned());
            }
            Some(Changed::Printed) if source == Source::None => {
                return Err("--filter needs a message: --file or --stdin".to_owned());
            }
            Some(changed) if self.deletes => return Err(excluded(changed)),
            _ if self.deletes && !matches!(source, Source::File(_)) => {
                return Err("--delete-file needs a --file other than standard input".to_owned());
            }
            Some(changed) => changed,
            // Nobody reads a change of a copy.
            None if self.deletes => Changed::Refused,
            None if profile.lets_change() && matches!(source, Source::File(_)) => Changed::InPlace,
            None => Changed::Refused,
        };
        let format = if profile.is_xmail() {
            Format::XmailSpool
        } else {
            Format::Message
        };
        // Without a token there is no call, but it is known what is to become of the file.
        self.is_understood = true;
        Ok(Command::Call(Box::new(Options {
            token: token(self.token_file.take(), &server, self.clear_token)?,
            server,
            ca_file: self.ca_file.take(),
            procedure,
            arguments: match profile {
                Profile::Exim => with_envelope(std::mem::take(&mut self.arguments), |name| {
                    std::env::var_os(name)
                }),
                _ => std::mem::take(&mut self.arguments),
            },
            source,
            format: self.format.unwrap_or(format),
            profile,
            on_error: self.on_error,
            deadline: self.deadline.unwrap_or(DEFAULT_DEADLINE),
            changed,
            deletes: self.deletes,
        })))
    }

    fn server(&mut self) -> Result<Server, String> {
        let wants_tls = self.ca_file.is_some() || self.server_name.is_some();
        let is_for_tls = || {
            Err("--ca-file and --server-name are for TLS; give --server calls://ADDRESS".to_owned())
        };
        let Some(host) = self.host.take() else {
            return match self.port {
                _ if wants_tls => is_for_tls(),
                None => Ok(Server::Unix(DEFAULT_SOCKET.into())),
                Some(port) => Ok(Server::Tcp(Ipv4Addr::LOCALHOST.into(), port)),
            };
        };
        let bytes = host.as_encoded_bytes();
        let text = host.to_str();
        let text = text.map(|text| text.strip_prefix("call+").unwrap_or(text));
        let path = match text.and_then(|text| text.strip_prefix("unix:")) {
            Some(path) => Some(PathBuf::from(path)),
            None if bytes.first() == Some(&b'/') => Some(PathBuf::from(&host)),
            None => None,
        };
        if let Some(path) = path {
            return match self.port {
                _ if wants_tls => is_for_tls(),
                Some(_) => Err("a Unix socket has no port; leave --port out".to_owned()),
                None => Ok(Server::Unix(path)),
            };
        }
        let given = host.to_str().unwrap_or_default();
        let plain = given.strip_prefix("call://");
        if wants_tls && plain.is_some() {
            return is_for_tls();
        }
        let encrypted = given.strip_prefix("calls://");
        let is_tls = wants_tls || encrypted.is_some();
        let text = encrypted.or(plain).unwrap_or(given);
        let (address, port) = self.place(text.strip_suffix('/').unwrap_or(text), &host)?;
        if !is_tls {
            return Ok(Server::Tcp(address, port.unwrap_or(DEFAULT_PORT)));
        }
        let is_localhost = text.starts_with("localhost");
        Ok(Server::Tls {
            host: address,
            port: port.unwrap_or(DEFAULT_TLS_PORT),
            name: match self.server_name.take() {
                Some(name) => name,
                None if is_localhost => "localhost".to_owned(),
                None => address.to_string(),
            },
        })
    }

    /// The address in a server's name, and its port if it was given there or by `--port`.
    fn place(&self, text: &str, host: &OsStr) -> Result<(IpAddr, Option<u16>), String> {
        let Some((address, port)) = address_and_port(text) else {
            let address = address(text).ok_or_else(|| unknown(host))?;
            return Ok((address, self.port));
        };
        match self.port {
            Some(other) if other != port => Err(format!(
                "--server {} and --port {other} name two ports; leave one out",
                host.display()
            )),
            _ => Ok((address, Some(port))),
        }
    }
}

/// Why a word with at most one dash is not understood before the procedure.
fn unknown_word(word: &str) -> String {
    if !word.starts_with('-') {
        return format!("{word} is neither an option nor a /PROCEDURE");
    }
    if let Some((name, _)) = word.split_once('=')
        && let Some(option) = one_dash(name)
    {
        return format!("{word} is not understood: write {option}=VALUE, or `{name} VALUE`");
    }
    format!(
        "{word} is not an option of stentor-call. An argument of the procedure comes after \
         /PROCEDURE, as in `/PROCEDURE {word} VALUE`"
    )
}

fn unknown_profile(name: &str) -> String {
    let near = Profile::near(name).map(|near| format!("; did you mean {near}?"));
    format!(
        "--profile {name}: it is one of {}{}",
        Profile::ALL.map(|(_, name)| name).join(", "),
        near.unwrap_or_default()
    )
}

/// The file would be the only copy of a message that is changed.
fn excluded(changed: Changed) -> String {
    let option = match changed {
        Changed::InPlace => "--in-place",
        Changed::Printed | Changed::Refused => "--filter",
    };
    format!("{option} and --delete-file exclude each other; leave one out")
}

/// An argument for the procedure.
fn argument(name: &str, value: OsString) -> Result<(String, Vec<u8>), String> {
    let Some(key) = name.strip_prefix('-').filter(|key| !key.is_empty()) else {
        return Err(format!(
            "\"{name}\" is not a -KEY, which has to follow the procedure"
        ));
    };
    Ok((key.to_owned(), value.into_encoded_bytes()))
}

/// An address, which may have brackets around it.
fn address(text: &str) -> Option<IpAddr> {
    if text == "localhost" {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    bare.unwrap_or(text).parse().ok()
}

/// `ADDRESS:PORT`, as the server's log has it. Of an IPv6 address the brackets are needed.
fn address_and_port(text: &str) -> Option<(IpAddr, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let is_whole = !host.contains(':') || host.ends_with(']');
    let port = port.parse().ok().filter(|port| *port != 0)?;
    is_whole
        .then(|| address(host))?
        .map(|address| (address, port))
}

/// Why a server is not called: it may be the path of a socket.
fn unknown(host: &OsStr) -> String {
    let host = host.display();
    let path = host.to_string();
    let is_path = path.contains('/') && !path.contains("://");
    let told = match is_path || path.ends_with(".sock") {
        true => format!("a socket is given as unix:{path}"),
        false => "host names are not looked up; give ADDRESS, ADDRESS:PORT or unix:PATH".to_owned(),
    };
    format!("--server {host}: {told}")
}

fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| format!("--port {text}: a port is 1 to 65535"))
}

fn missing(name: &str) -> String {
    format!("{name} needs a value after it")
}

/// `500ms`, `5s`, `2m`, `1h`; a number alone means seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    let value = number
        .zip(milliseconds)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .map(Duration::from_millis)
        .filter(|value| (DEADLINE_MIN..=DEADLINE_MAX).contains(value));
    value.ok_or_else(|| format!("--deadline {text}: it is 10ms to 1h, as in 500ms or 5s"))
}

/// The name of a file with something appended: `message` becomes `message.rej`.
pub(crate) fn beside(path: &OsStr, suffix: &str) -> PathBuf {
    let mut name = path.to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests;
