//! What `pub`, `sub` and `rr` have in common: which server, who, and how.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args};
use stentor_client::{
    Client, ClientError, Options, Property, QoS, ReasonCode, Scheme, TlsOptions, TlsVersion, Url,
    Version, Will,
};

use crate::control;
use crate::failure::Failure;
use crate::foreign::Foreign;
use crate::password;
use crate::property::Properties;
use crate::route::{self, EntryPoint, Route};
use crate::which;

/// The connection.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connect {
    /// Server's name or address [default: the server on --data-dir, else localhost]
    #[arg(short = 'h', long)]
    host: Option<String>,
    /// Port [default: 1883, with TLS 8883]
    #[arg(short, long)]
    port: Option<u16>,
    /// Address of this machine to connect from
    #[arg(
        short = 'A',
        long = "bind",
        value_name = "ADDRESS",
        conflicts_with = "unix"
    )]
    bind_address: Option<IpAddr>,
    /// Unix socket of the server
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port", "url"])]
    unix: Option<PathBuf>,
    /// mqtt://USER:PASSWORD@HOST:PORT/TOPIC, mqtts://…, ws://HOST:PORT/PATH, wss://… or unix:PATH
    #[arg(short = 'L', long, value_name = "URL", conflicts_with_all = ["host", "port"])]
    url: Option<String>,
    /// Use WebSocket, with -h and -p; the port is 8083, with TLS 443, if -p is missing
    #[arg(long, conflicts_with_all = ["unix", "url"])]
    ws: bool,
    /// Data folder of the server on this machine that the command asks. The variables
    /// STENTOR_DATA_DIR and STENTOR_CONFIG name it too [default: data, if a server runs there]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["host", "port", "unix", "url"])]
    data_dir: Option<PathBuf>,
    /// Zone, for the administrator of a server on this machine. A user name has its zone in it: -u
    /// game/bob
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["host", "port", "unix", "url", "username"]
    )]
    zone: Option<String>,
    /// User name
    #[arg(short = 'u', long)]
    username: Option<String>,
    /// Password; others can see it in the list of processes
    #[arg(
        short = 'P',
        long = "pw",
        value_name = "PASSWORD",
        conflicts_with = "password_file"
    )]
    password: Option<String>,
    /// File whose first line is the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Client id [default: the server chooses]
    #[arg(short, long)]
    id: Option<String>,
    /// Client id that consists of this prefix and the process id
    #[arg(short = 'I', long, value_name = "PREFIX", conflicts_with = "id")]
    id_prefix: Option<String>,
    /// Protocol version: 5, 311 or 31, also as mqttv5, mqttv311, mqttv31
    #[arg(
        short = 'V', long, value_name = "VERSION", default_value = "5", value_parser = version
    )]
    protocol_version: Version,
    /// Seconds of keep alive; 0 turns it off
    #[arg(short, long, value_name = "SECONDS", default_value_t = 60)]
    keepalive: u16,
    /// Continue an earlier session, and keep the session at the end
    #[arg(short = 'c', long)]
    disable_clean_session: bool,
    /// Seconds that the server keeps the session after the connection; -1 means for ever (MQTT 5)
    #[arg(
        short = 'x', long, value_name = "SECONDS", allow_negative_numbers = true,
        value_parser = expiry
    )]
    session_expiry_interval: Option<u32>,
    /// Topic of the will; the server publishes the will when the connection breaks
    #[arg(long, value_name = "TOPIC")]
    will_topic: Option<String>,
    /// Payload of the will
    #[arg(long, value_name = "TEXT", requires = "will_topic")]
    will_payload: Option<String>,
    /// QoS of the will
    #[arg(long, value_name = "QOS", default_value = "0", value_parser = qos)]
    will_qos: QoS,
    /// Set RETAIN in the will
    #[arg(long, requires = "will_topic")]
    will_retain: bool,
    /// PEM file of trusted authorities; turns TLS on
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// Folder with PEM files of trusted authorities; turns TLS on
    #[arg(long, value_name = "DIR", conflicts_with = "cafile")]
    capath: Option<PathBuf>,
    /// Trust the authorities of this system; turns TLS on
    #[arg(long, conflicts_with_all = ["cafile", "capath"])]
    tls_use_os_certs: bool,
    /// Version of TLS: tlsv1.2 or tlsv1.3 [default: the highest that both sides have]
    #[arg(long, value_name = "VERSION", value_parser = tls_version)]
    tls_version: Option<TlsVersion>,
    /// PEM file of this client's certificate; turns TLS on
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// PEM file of this client's key [default: the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Do not check the host name in the certificate; for tests only
    #[arg(long)]
    insecure: bool,
    /// Property of a packet: connect, publish, subscribe, unsubscribe, disconnect or will (MQTT 5)
    #[arg(
        short = 'D', long, value_name = "PACKET NAME VALUE", action = ArgAction::Append,
        allow_hyphen_values = true
    )]
    property: Vec<String>,
    #[command(flatten)]
    foreign: Foreign,
    /// Print the steps of the connection to standard error
    #[arg(short = 'd', long)]
    debug: bool,
    /// Do not print errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What the command line says about the way.
    wish: Route,
    /// What came of it at the first connection; it stays so for all later ones.
    route: OnceCell<Route>,
    /// How to enter the server of a data folder.
    entry_point: EntryPoint,
    /// In which zone, as administrator.
    zone: Option<String>,
    options: Options,
    /// The properties of all packets but CONNECT and the will, which are in the options.
    pub(crate) properties: Properties,
    /// The topic at the end of `-L`.
    pub(crate) url_topic: Option<String>,
    debug: bool,
}

impl Connect {
    /// Makes sense of the flags, and gets the password.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        self.foreign.check()?;
        let (url, url_topic) = self.url()?;
        let is_v5 = self.protocol_version.is_v5();
        if !is_v5 && (!self.property.is_empty() || self.session_expiry_interval.is_some()) {
            return Err(Failure::usage("-D and -x need MQTT 5"));
        }
        let mut properties = Properties::parse(&self.property)?;
        let mut options = Options::new(url);
        options.version = self.protocol_version;
        options.client_id = self.client_id();
        options.clean_start = !self.disable_clean_session;
        if self.disable_clean_session && options.client_id.is_empty() {
            return Err(Failure::usage("-c needs a client id: -i ID"));
        }
        options.keep_alive = Duration::from_secs(self.keepalive.into());
        options.username.clone_from(&self.username);
        options.password = self.password(&options.url)?;
        if options.password.is_some()
            && !is_v5
            && options.username.is_none()
            && options.url.username.is_none()
        {
            return Err(Failure::usage("a password needs a user name: -u NAME"));
        }
        options.properties = std::mem::take(&mut properties.connect);
        if let Some(seconds) = self.session_expiry() {
            options
                .properties
                .push(Property::SessionExpiryInterval(seconds));
        }
        options.will = self.will_topic.as_ref().map(|topic| Will {
            topic: topic.clone(),
            payload: self.will_payload.clone().unwrap_or_default().into_bytes(),
            qos: self.will_qos,
            retain: self.will_retain,
            properties: std::mem::take(&mut properties.will),
        });
        options.bind_address = self.bind_address;
        options.tls = TlsOptions {
            ca_file: self.cafile.clone().or_else(|| self.capath.clone()),
            version: self.tls_version,
            identity: self.cert.as_ref().map(|certificate| {
                (
                    certificate.clone(),
                    self.key.clone().unwrap_or_else(|| certificate.clone()),
                )
            }),
            accept_any_name: self.insecure,
        };
        let (wish, entry_point) = self.way()?;
        Ok(Plan {
            wish,
            route: OnceCell::new(),
            entry_point,
            zone: self.zone.clone(),
            options,
            properties,
            url_topic,
            debug: self.debug,
        })
    }

    /// Which server, and how to enter it.
    fn way(&self) -> Result<(Route, EntryPoint), Failure> {
        let (wish, entry_point) = (self.route()?, self.entry_point());
        if self.zone.is_none() {
            return Ok((wish, entry_point));
        }
        if entry_point != EntryPoint::Control {
            let text = "--zone is for administrators, who come by the data folder alone; a user's \
                        name says its zone: -u ZONE/NAME";
            return Err(Failure::usage(text));
        }
        // Another server may have no such zone, or somebody else's.
        match wish {
            Route::FolderOrAddress(folder) => Ok((Route::Folder(folder), entry_point)),
            wish => Ok((wish, entry_point)),
        }
    }

    /// The address to connect to, and the topic that is part of it.
    fn url(&self) -> Result<(Url, Option<String>), Failure> {
        if let Some(path) = &self.unix {
            return Ok((Url::unix(path.to_string_lossy()), None));
        }
        if let Some(text) = &self.url {
            if text.starts_with("call:") || text.starts_with("call+unix:") {
                return Err(Failure::usage(format!(
                    "-L {text}: this listener speaks the call protocol, not MQTT; \
                     `stentor-call` speaks it, and its --help says how"
                )));
            }
            let (address, topic) = split_topic(text);
            let url = address
                .parse()
                .map_err(|error| Failure::usage(format!("-L {text}: {error}")))?;
            return Ok((url, topic.map(str::to_owned)));
        }
        let mut url = Url::tcp(self.host.as_deref().unwrap_or("localhost"), 1883);
        // 8883 is for TLS, whoever forgets to say so.
        if self.wants_tls() || self.port == Some(8883) {
            url.scheme = Scheme::Mqtts;
        }
        if self.ws {
            url.scheme = match url.scheme {
                Scheme::Mqtts => Scheme::Wss,
                _ => Scheme::Ws,
            };
            url.path = "/mqtt".into();
        }
        // Stentor's default port; the default port of the web is only for URLs.
        let default_port = match url.scheme {
            Scheme::Ws => 8083,
            scheme => scheme.default_port(),
        };
        url.port = self.port.unwrap_or(default_port);
        Ok((url, None))
    }

    const fn wants_tls(&self) -> bool {
        self.cafile.is_some()
            || self.capath.is_some()
            || self.cert.is_some()
            || self.tls_use_os_certs
            || self.tls_version.is_some()
    }

    /// Which server: the one that was named, else that of the usual folder if it runs. A variable
    /// names a folder as the flag does, but gives way to an address.
    fn route(&self) -> Result<Route, Failure> {
        let has_address =
            self.host.is_some() || self.port.is_some() || self.unix.is_some() || self.url.is_some();
        if has_address {
            return Ok(Route::Address);
        }
        let named = match &self.data_dir {
            Some(folder) => Some(folder.clone()),
            None => which::folder_of_variables()?,
        };
        Ok(match named {
            Some(folder) => Route::Folder(folder),
            // Those who ask for one of these ways mean a server that they set up for it.
            None if self.wants_tls() || self.ws || self.bind_address.is_some() => Route::Address,
            None => Route::FolderOrAddress(which::usual_folder()),
        })
    }

    /// A command that says who it is, or how to connect, does not come as administrator.
    const fn entry_point(&self) -> EntryPoint {
        match (self.wants_tls(), self.ws) {
            (true, true) => route::ENCRYPTED_WEBSOCKET,
            (true, false) => route::ENCRYPTED,
            (false, true) => route::WEBSOCKET,
            (false, false) if self.bind_address.is_some() => route::NETWORK,
            (false, false) if self.has_login() => route::ANY,
            (false, false) => EntryPoint::Control,
        }
    }

    const fn has_login(&self) -> bool {
        self.username.is_some() || self.password.is_some() || self.password_file.is_some()
    }

    fn client_id(&self) -> String {
        match (&self.id, &self.id_prefix) {
            (Some(id), _) => id.clone(),
            (None, Some(prefix)) => format!("{prefix}{}", std::process::id()),
            // 3.1 has no way to let the server choose.
            (None, None) if self.protocol_version == Version::V31 => {
                format!("stentor-{}", std::process::id())
            }
            (None, None) => String::new(),
        }
    }

    /// As mosquitto's clients do, `-c` keeps a session for ever unless something else is said.
    fn session_expiry(&self) -> Option<u32> {
        match self.session_expiry_interval {
            Some(seconds) => Some(seconds),
            None if self.disable_clean_session && self.protocol_version.is_v5() => Some(u32::MAX),
            None => None,
        }
    }

    fn password(&self, url: &Url) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(password) = &self.password {
            return Ok(Some(password.clone().into_bytes()));
        }
        if let Some(path) = &self.password_file {
            return password::from_file(path).map(Some);
        }
        let user = self.username.as_ref().or(url.username.as_ref());
        let Some(user) = user.filter(|_| url.password.is_none()) else {
            return Ok(None);
        };
        if let Ok(password) = std::env::var("STENTOR_PASSWORD") {
            return Ok(Some(password.into_bytes()));
        }
        if !password::can_ask() {
            return Ok(None);
        }
        password::ask(&format!("Password of {user}")).map(|text| Some(text.into_bytes()))
    }
}

/// Why there is no connection.
pub(crate) enum Attempt {
    /// The client says so.
    Failed(ClientError),
    /// No server runs on the data folder, for now.
    Away(Failure),
    /// There is more to it than a connection.
    Hopeless(Failure),
}

impl Attempt {
    /// The failure of the whole command.
    pub(crate) fn into_failure(self, plan: &Plan) -> Failure {
        match self {
            Self::Failed(error) => Failure::client(&error, plan.version()),
            Self::Away(failure) | Self::Hopeless(failure) => failure,
        }
    }
}

impl Plan {
    pub(crate) const fn version(&self) -> Version {
        self.options.version
    }

    /// How long until somebody has to look after the connection.
    pub(crate) fn keep_alive(&self) -> Duration {
        self.options.keep_alive
    }

    /// Whether it comes as administrator, in the zone that a command means without `--zone`. Known
    /// once it has connected.
    pub(crate) fn is_in_first_zone(&self) -> bool {
        let is_folder = matches!(self.route.get(), Some(Route::Folder(_)));
        is_folder && self.entry_point == EntryPoint::Control && self.zone.is_none()
    }

    /// The zone that an administrator has named.
    pub(crate) fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// Whether it says who it is.
    pub(crate) fn has_name(&self) -> bool {
        self.options.username.is_some() || self.options.url.username.is_some()
    }

    /// Connects and logs in.
    pub(crate) fn open(&self) -> Result<Client, Failure> {
        self.try_open().map_err(|attempt| {
            let is_connect = matches!(attempt, Attempt::Failed(ClientError::Connect { .. }));
            let is_silent = matches!(attempt, Attempt::Failed(ClientError::Closed));
            let failure = attempt.into_failure(self);
            let failure = match is_silent {
                true => failure.with_note("perhaps this port is not for MQTT"),
                false => failure,
            };
            match (&self.wish, self.route.get()) {
                (Route::FolderOrAddress(folder), Some(Route::Address)) if is_connect => failure
                    .with_note(&format!(
                        "and no server of yours runs on the data folder {}: name a server with -h, \
                         or its folder with --data-dir",
                        folder.display()
                    )),
                _ => failure,
            }
        })
    }

    /// Connects and logs in; what the client says stays what it is.
    pub(crate) fn try_open(&self) -> Result<Client, Attempt> {
        let client = match self.route.get_or_init(|| self.wish.settle()) {
            Route::Folder(folder) => self.enter(folder)?,
            Route::Address | Route::FolderOrAddress(_) => self.dial(&self.options)?,
        };
        let accepted = client.accepted();
        let session = if accepted.session_present {
            "found"
        } else {
            "new"
        };
        self.note(&format!(
            "connected as {:?}, session {session}",
            accepted.client_id
        ));
        Ok(client)
    }

    fn dial(&self, options: &Options) -> Result<Client, Attempt> {
        self.note(&format!("connecting to {}", options.url));
        Client::connect(options).map_err(Attempt::Failed)
    }

    /// Says DISCONNECT, whatever came of the connection's work; the result of both.
    pub(crate) fn goodbye(
        &self,
        client: Client,
        result: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let goodbye = client.disconnect_with(ReasonCode::Success, &self.properties.disconnect);
        let failed = |error: ClientError| Failure::client(&error, self.version());
        result.and_then(|()| goodbye.map_err(failed))
    }

    /// Connects to the server of a data folder.
    fn enter(&self, folder: &Path) -> Result<Client, Attempt> {
        let mut stream = control::connect(folder).map_err(|error| {
            let failure = route::no_server(folder, &error);
            if route::is_away(&error) {
                Attempt::Away(failure)
            } else {
                Attempt::Hopeless(failure)
            }
        })?;
        self.note(&format!("using the server on {}", folder.display()));
        match self.entry_point {
            EntryPoint::Control => {
                control::upgrade(&mut stream, self.zone.as_deref()).map_err(Attempt::Hopeless)?;
                Client::over_unix(stream, &self.options).map_err(Attempt::Failed)
            }
            EntryPoint::Listener(schemes) => {
                let mut options = self.options.clone();
                options.url =
                    route::listener(stream, folder, schemes).map_err(Attempt::Hopeless)?;
                self.dial(&options)
            }
        }
    }

    /// Says what goes on, with `-d`.
    pub(crate) fn note(&self, text: &str) {
        if self.debug {
            eprintln!("stentor: {text}");
        }
    }
}

/// Tells those who wrote `$SYS/…` in double quotes, or without any, where it went.
pub(crate) fn hint_at_shell(topic: &str) {
    if topic.starts_with('/') {
        eprintln!(
            "stentor: the topic {topic:?} begins with \"/\"; if you wrote $SOMETHING/…, the shell \
             has replaced it: put the topic into single quotes"
        );
    }
}

/// `mqtt://host/a/b` is an address and the topic `a/b`; with `ws://` the path is the server's.
fn split_topic(text: &str) -> (&str, Option<&str>) {
    let Some((scheme, rest)) = text.split_once("://") else {
        return (text, None);
    };
    if matches!(scheme, "ws" | "wss" | "unix") {
        return (text, None);
    }
    match rest.split_once('/') {
        Some((_, "")) | None => (text, None),
        Some((authority, topic)) => (&text[..scheme.len() + 3 + authority.len()], Some(topic)),
    }
}

/// Reads a session's time: `-1` and the sign for infinity are for ever.
fn expiry(text: &str) -> Result<u32, String> {
    match text {
        "-1" | "∞" => Ok(u32::MAX),
        _ => text
            .parse()
            .map_err(|_| format!("it is a number of seconds up to {}, or -1", u32::MAX)),
    }
}

fn tls_version(text: &str) -> Result<TlsVersion, String> {
    match text {
        "tlsv1.2" => Ok(TlsVersion::V12),
        "tlsv1.3" => Ok(TlsVersion::V13),
        _ => Err("it is tlsv1.2 or tlsv1.3; older versions are not safe".into()),
    }
}

fn version(text: &str) -> Result<Version, String> {
    match text {
        "5" | "mqttv5" | "5.0" => Ok(Version::V5),
        "311" | "mqttv311" | "3.1.1" | "4" => Ok(Version::V311),
        "31" | "mqttv31" | "3.1" | "3" => Ok(Version::V31),
        _ => Err("it is 5, 311 or 31".into()),
    }
}

/// Reads a QoS.
pub(crate) fn qos(text: &str) -> Result<QoS, String> {
    let bits = text.parse::<u8>().ok();
    bits.and_then(QoS::from_bits)
        .ok_or_else(|| "it is 0, 1 or 2".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(disable_help_flag = true)]
    struct Command {
        #[command(flatten)]
        connect: Connect,
    }

    fn plan(words: &str) -> Result<Plan, Failure> {
        let words = ["x"].into_iter().chain(words.split_whitespace());
        Command::try_parse_from(words).unwrap().connect.plan()
    }

    #[test]
    fn the_server_is_found_as_in_mosquitto() {
        let cases = [
            ("-h a", "mqtt://a:1883"),
            ("-h a -p 1884", "mqtt://a:1884"),
            ("-p 1884", "mqtt://localhost:1884"),
            ("-h a -p 8883", "mqtts://a:8883"),
            ("-h a --cafile x", "mqtts://a:8883"),
            ("-L mqtt://a:7/b/c", "mqtt://a:7"),
            ("-L mqtts://u:p@a/b", "mqtts://u@a:8883"),
            ("-L ws://a:8083/b", "ws://a:8083/b"),
            ("--unix /run/s", "unix:/run/s"),
            ("-L unix:/run/s", "unix:/run/s"),
            ("-u ann -P x", "mqtt://localhost:1883"),
            ("--ws", "ws://localhost:8083/mqtt"),
            ("--ws -h a -p 9001", "ws://a:9001/mqtt"),
            ("--ws -h a --capath x", "wss://a:443/mqtt"),
            ("-A 127.0.0.2", "mqtt://localhost:1883"),
            ("--tls-use-os-certs", "mqtts://localhost:8883"),
        ];
        for (words, url) in cases {
            let plan = plan(words).unwrap();
            assert_eq!(plan.options.url.to_string(), url, "{words}");
        }
        assert_eq!(
            plan("-L mqtt://a/b/c").unwrap().url_topic.as_deref(),
            Some("b/c")
        );
        assert_eq!(plan("-L mqtt://a/").unwrap().url_topic, None);
    }

    #[test]
    fn a_named_folder_is_the_only_way() {
        let folder = || Route::Folder("d".into());
        let usual = || Route::FolderOrAddress("data".into());
        let cases = [
            ("", usual(), EntryPoint::Control),
            ("-u ann -P x", usual(), route::ANY),
            ("-h a", Route::Address, EntryPoint::Control),
            ("-p 1884 -u ann", Route::Address, route::ANY),
            ("--unix /run/s", Route::Address, EntryPoint::Control),
            ("-L mqtt://a", Route::Address, EntryPoint::Control),
            ("--ws", Route::Address, route::WEBSOCKET),
            ("-A 127.0.0.2", Route::Address, route::NETWORK),
            ("--cafile x", Route::Address, route::ENCRYPTED),
            ("--data-dir d", folder(), EntryPoint::Control),
            ("--data-dir d -u ann -P x", folder(), route::ANY),
            ("--data-dir d -P x", folder(), route::ANY),
            ("--data-dir d --cafile x", folder(), route::ENCRYPTED),
            ("--data-dir d --ws", folder(), route::WEBSOCKET),
            (
                "--data-dir d -A 127.0.0.2 -u ann -P x",
                folder(),
                route::NETWORK,
            ),
        ];
        for (words, wish, entry_point) in cases {
            let plan = plan(words).unwrap();
            assert_eq!(
                (plan.wish, plan.entry_point),
                (wish, entry_point),
                "{words}"
            );
        }
        for words in ["-h a", "-p 1", "-L mqtt://a", "--unix /s"] {
            let words = format!("x --data-dir d {words}");
            assert!(
                Command::try_parse_from(words.split(' ')).is_err(),
                "{words}"
            );
        }
    }

    #[test]
    fn sessions_last_as_in_mosquitto() {
        let expiry = |words: &str| {
            plan(words)
                .unwrap()
                .options
                .properties
                .as_properties()
                .session_expiry()
        };
        assert_eq!(expiry("-h a"), None);
        assert_eq!(expiry("-h a -i x -c"), Some(u32::MAX));
        assert_eq!(expiry("-h a -i x -c -x 5"), Some(5));
        assert_eq!(expiry("-h a -x -1"), Some(u32::MAX));
        assert_eq!(expiry("-h a -x ∞"), Some(u32::MAX));
        assert_eq!(expiry("-h a -x 4294967295"), Some(u32::MAX));
        assert_eq!(expiry("-h a -i x -c -V 311"), None);
        assert!(!plan("-h a -i x -c").unwrap().options.clean_start);
    }

    #[test]
    fn nonsense_is_refused() {
        for words in ["-c", "-V 311 -x 5", "-V 31 -P x", "-L ftp://a"] {
            assert_eq!(plan(words).unwrap_err().code(), 2, "{words}");
        }
        for (words, remedy) in [("--psk 00ff", "--cert"), ("--proxy socks5h://a", "tunnel")] {
            let failure = plan(words).unwrap_err();
            assert!(failure.message().contains(remedy), "{}", failure.message());
        }
    }
}
