//! The configuration: one table of keys, four sources, one immutable result.
//!
//! [`Config::load`] reads the file, the environment and the command line flags over the defaults
//! (flag > environment > file > default) and returns plain data, or everything that is wrong with
//! it. Nothing here touches the process: the environment, the flags and the reading of files are
//! handed in with [`Sources`], and [`Sources::from_process`] is the one place that fetches them.
//!
//! The table ([`SECTIONS`], written down in `keys.rs`) gives each key its type, range, default,
//! reload class, environment variable, flag and sentence. The sample file and the reference page
//! are written from it ([`sample()`], [`reference()`]), and a test keeps them up to date. A reload
//! calls [`Config::load`] again and asks [`diff`] what changed.

mod check;
mod choices;
mod diff;
mod document;
mod environment;
mod generate;
mod givens;
mod http;
mod keys;
mod kind;
mod listing;
mod memory_limit;
mod problem;
mod question;
mod reader;
mod secret;
pub(crate) mod suggest;
mod table;
#[cfg(test)]
mod tests;
mod units;
mod url;
mod value;
mod zone_keys;

use std::io;
use std::path::{Path, PathBuf};

pub use choices::{
    CertificateUser, ClientCertificates, Format, Level, PasswordFunction, QueueFull, SessionSync,
    SyncLevel,
};
pub use diff::{Change, Diff, diff};
pub use generate::{reference, sample};
pub use http::HttpUrl;
pub use keys::{
    Auth, Figures, General, Http, Jwt, Limits, Listener, Log, Policy, Procedures, Queue, Retained,
    SECTIONS, Sessions, Sys, Tls, User, find_key, keys,
};
pub use kind::Kind;
pub use listing::{Listed, Listing};
pub use memory_limit::MemoryLimit;
pub use problem::{ConfigError, Origin, Problem};
pub use question::Question;
pub use secret::Secret;
pub use table::{Fallback, Key, Reload, Section};
pub use units::parse_duration;
pub use url::{Asker, ListenUrl, Scheme};
pub use zone_keys::{Adaptor, OnTrouble, Room, SecondLogin, Zone};

use givens::Givens;

/// The configuration of a server: plain data that nothing changes after it was loaded.
///
/// Values that follow from others are filled in: every listener has its `anonymous` and, if it is
/// encrypted, its `certificate` and `key`; every user has a `password_hash`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The keys outside any section.
    pub general: General,
    /// The section `log`.
    pub log: Log,
    /// The entries of `listener`; the default ones if none is configured.
    pub listeners: Vec<Listener>,
    /// The section `tls`.
    pub tls: Tls,
    /// The section `auth`, with the passwords read from their files.
    pub auth: Auth,
    /// The entries of `jwt`.
    pub jwts: Vec<Jwt>,
    /// The entries of `user`.
    pub users: Vec<User>,
    /// The entries of `zone`.
    pub zones: Vec<Zone>,
    /// The entries of `room`.
    pub rooms: Vec<Room>,
    /// The entries of `adaptor`.
    pub adaptors: Vec<Adaptor>,
    /// The section `limits`.
    pub limits: Limits,
    /// The entries of `policy`; the first that matches a topic decides.
    pub policies: Vec<Policy>,
    /// The entries of `queue`.
    pub queues: Vec<Queue>,
    /// The section `retained`.
    pub retained: Retained,
    /// The section `sessions`.
    pub sessions: Sessions,
    /// The section `procedures`.
    pub procedures: Procedures,
    /// The section `sys`.
    pub sys: Sys,
    /// The section `figures`.
    pub figures: Figures,
    /// The section `http`.
    pub http: Http,
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// All values as they were given, and where.
    pub listing: Listing,
}

/// Reads a small text file.
pub type ReadFile<'a> = Box<dyn Fn(&Path) -> io::Result<String> + Send + 'a>;

/// Where a configuration comes from.
pub struct Sources<'a> {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// The variables of the environment; those that do not begin with `STENTOR_` are passed over.
    pub environment: Vec<(String, String)>,
    /// The flags of the command line: the key's dotted path and the text. `listener.url` may
    /// stand there several times.
    pub flags: Vec<(String, String)>,
    /// Reads a file: the configuration, and files with secrets that it names.
    pub read_file: ReadFile<'a>,
}

impl Sources<'static> {
    /// The sources of this process: its environment and the file system.
    #[must_use]
    pub fn from_process(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            let name = name
                .into_string()
                .ok()
                .filter(|name| name.starts_with("STENTOR_"))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        Self {
            file,
            environment: environment.collect(),
            flags,
            read_file: Box::new(|path| std::fs::read_to_string(path)),
        }
    }
}

impl Config {
    /// Loads a configuration from its sources, which stay usable for the next reload.
    ///
    /// # Errors
    /// Everything that is wrong, each problem with its place and a remedy.
    pub fn load(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let read_file = &*sources.read_file;
        let mut givens = gather(sources);
        let mut config = Self {
            general: givens.read_one(&General::SECTION, General::read),
            log: givens.read_one(&Log::SECTION, Log::read),
            listeners: givens.read_all(&Listener::SECTION, Listener::read),
            tls: givens.read_one(&Tls::SECTION, Tls::read),
            auth: givens.read_one(&Auth::SECTION, Auth::read),
            jwts: givens.read_all(&Jwt::SECTION, Jwt::read),
            users: givens.read_all(&User::SECTION, User::read),
            zones: givens.read_all(&Zone::SECTION, Zone::read),
            rooms: givens.read_all(&Room::SECTION, Room::read),
            adaptors: givens.read_all(&Adaptor::SECTION, Adaptor::read),
            limits: givens.read_one(&Limits::SECTION, Limits::read),
            policies: givens.read_all(&Policy::SECTION, Policy::read),
            queues: givens.read_all(&Queue::SECTION, Queue::read),
            retained: givens.read_one(&Retained::SECTION, Retained::read),
            sessions: givens.read_one(&Sessions::SECTION, Sessions::read),
            procedures: givens.read_one(&Procedures::SECTION, Procedures::read),
            sys: givens.read_one(&Sys::SECTION, Sys::read),
            figures: givens.read_one(&Figures::SECTION, Figures::read),
            http: givens.read_one(&Http::SECTION, Http::read),
            file: sources.file.clone(),
            listing: Listing::default(),
        };
        if givens.problems.is_empty() {
            check::finish(&mut config, &mut givens, read_file);
        }
        if givens.problems.is_empty() {
            config.listing = Listing::of(&givens, &config);
        }
        let mut problems = givens.problems;
        check::sort(&mut problems);
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError { problems })
        }
    }

    /// The data folder alone, for commands to a running server: those work while something else in
    /// the configuration is wrong.
    ///
    /// # Errors
    /// When the key is wrong, or when it is not given and the file cannot be read: it may have been
    /// meant to stand there.
    pub fn data_dir(sources: &Sources<'_>) -> Result<PathBuf, ConfigError> {
        let mut givens = gather(sources);
        let section = General::SECTION;
        let general = &givens.plain(section.name).values;
        let is_given = general.contains_key("data_dir");
        let elsewhere = std::mem::take(&mut givens.problems);
        let folder = givens.read_one(&section, |reader| {
            reader.value(&General::SECTION, "data_dir")
        });
        let mut problems = givens.problems;
        if !is_given && sources.file.is_some() {
            problems.extend(elsewhere);
        }
        match problems.is_empty() {
            true => Ok(folder),
            false => Err(ConfigError { problems }),
        }
    }
}

/// What all sources give, before any of it is looked at.
fn gather(sources: &Sources<'_>) -> Givens {
    let mut givens = Givens::new();
    if let Some(path) = &sources.file {
        match (sources.read_file)(path) {
            Ok(text) => document::read(path, &text, &mut givens),
            Err(error) => {
                let message = format!("the configuration file cannot be read: {error}");
                givens.problem(Origin::WholeFile(path.clone()), message);
            }
        }
    }
    let read_file = &*sources.read_file;
    environment::read_listen_flags(&sources.flags, &mut givens);
    environment::read(&sources.environment, read_file, &mut givens);
    environment::read_flags(&sources.flags, &mut givens);
    givens
}

impl Listener {
    /// Clients may log in here without a user name.
    #[must_use]
    pub fn allows_anonymous(&self) -> bool {
        self.anonymous.unwrap_or(false)
    }
}
