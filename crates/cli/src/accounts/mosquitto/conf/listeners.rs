//! Listeners, with the options that belong to one.

use stentor_server::config::ListenUrl;

use super::{Draft, absolute, quoted};
use crate::accounts::mosquitto::{Line, NO_TEXT, Plan};

/// A listener as it comes together.
#[derive(Clone, Debug, Default)]
pub(super) struct Listener {
    /// `None` for an invalid port: the listener is not carried, and neither are its options.
    pub(super) port: Option<u16>,
    pub(super) bind: Option<String>,
    pub(super) is_websocket: bool,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    pub(super) authority: Option<String>,
    pub(super) needs_certificate: bool,
    pub(super) names_by_certificate: bool,
    pub(super) connections: Option<u32>,
    pub(super) anonymous: Option<bool>,
    /// The one family of addresses that it listens on.
    pub(super) family: Option<Family>,
    /// The lines that say who may connect, which are shown where that cannot be kept.
    pub(super) bounds: Vec<Line>,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// Options that keep somebody out of a listener.
const BOUNDS: [&str; 9] = [
    "bind_interface",
    "cafile",
    "capath",
    "certfile",
    "crlfile",
    "keyfile",
    "psk_hint",
    "require_certificate",
    "use_identity_as_username",
];

pub(super) fn begins_listener(line: &Line) -> bool {
    matches!(line.key.as_str(), "listener" | "port")
}

/// Why nobody can listen there; `None` if somebody can.
fn unusable(listener: &Listener) -> Option<String> {
    let bind = listener.bind.as_deref().unwrap_or_default();
    match listener.port {
        None => Some("a port is a number from 0 to 65535".to_owned()),
        Some(0) if !bind.starts_with('/') => Some("a port of 0 needs the path of a socket".into()),
        Some(_) => match listener.url().parse::<ListenUrl>() {
            Ok(_) => None,
            Err(_) => Some(format!("{bind:?} is not an address to listen on")),
        },
    }
}

/// Takes a listener that nobody could connect to out of the count, with its options.
fn check_listener(listener: &mut Listener, line: &Line, plan: &mut Plan) {
    let reason = match line.is_text {
        true => unusable(listener),
        false => Some(NO_TEXT.0.to_owned()),
    };
    if let Some(reason) = reason {
        let reason = format!("{reason}; the listener and its options are left out");
        let remedy = "add it to the new file: [[listener]] with a url";
        plan.troubles.push(line.trouble(&reason, remedy));
        listener.port = None;
    }
}

/// Takes a listener out of the count where clients speak something else than MQTT.
fn leave_out(listener: &mut Listener, line: &Line, plan: &mut Plan) {
    let (reason, remedy) = match line.value.as_str() {
        "http_api" => (
            "Stentor has no HTTP API",
            "use the stentor command, whose --json is for programs, or the topics of $SYS",
        ),
        _ => (
            "listeners speak MQTT, over TCP or WebSocket",
            "if it does, add it to the new file: [[listener]] with a url",
        ),
    };
    let reason = format!("{reason}; the listener and its options are left out");
    plan.troubles.push(line.trouble(&reason, remedy));
    listener.port = None;
}

/// Options of the listener that was named last, or of the first one.
pub(super) fn listener(draft: &mut Draft, line: &Line, plan: &mut Plan) -> bool {
    let value = line.value.as_str();
    if begins_listener(line) {
        let (port, bind) = value.split_once([' ', '\t']).unwrap_or((value, ""));
        let mut listener = Listener {
            port: port.parse().ok(),
            bind: (!bind.is_empty()).then(|| bind.trim().to_owned()),
            ..Listener::default()
        };
        check_listener(&mut listener, line, plan);
        draft.listeners.push(listener);
        return true;
    }
    let others = [
        "bind_address",
        "max_connections",
        "protocol",
        "socket_domain",
    ];
    let is_bound = BOUNDS.contains(&line.key.as_str());
    if !is_bound && !others.contains(&line.key.as_str()) {
        return false;
    }
    if draft.listeners.is_empty() {
        draft.listeners.push(Listener {
            port: Some(1883),
            ..Listener::default()
        });
    }
    if let Some(current) = draft.listeners.last_mut() {
        if is_bound {
            current.bounds.push(line.clone());
        }
        option(current, line, plan);
    }
    true
}

/// An option of a listener.
fn option(current: &mut Listener, line: &Line, plan: &mut Plan) {
    let value = line.value.as_str();
    match (line.key.as_str(), value) {
        (_, "") => {
            let reason = "the value is missing";
            plan.troubles
                .push(line.trouble(reason, "add it, or delete the line"));
        }
        ("bind_address", _) => {
            current.bind = Some(value.to_owned());
            if current.port.is_some() {
                check_listener(current, line, plan);
            }
        }
        ("protocol", "websockets") => websocket(current, line, plan),
        ("protocol", "mqtt") => {}
        ("protocol", _) => leave_out(current, line, plan),
        ("certfile", _) => current.certificate = Some(absolute(value)),
        ("keyfile", _) => current.key = Some(absolute(value)),
        ("cafile", _) => current.authority = Some(absolute(value)),
        // What they come to is seen when all lines are read.
        ("bind_interface" | "capath" | "crlfile" | "psk_hint", _) => {}
        ("socket_domain", "ipv4") => current.family = Some(Family::V4),
        ("socket_domain", "ipv6") => current.family = Some(Family::V6),
        ("require_certificate", _) => current.needs_certificate = line.is_true(),
        ("use_identity_as_username", _) => names_by_certificate(current, line, plan),
        ("max_connections", "-1") => {}
        ("max_connections", _) if value.parse::<u32>().is_ok() => {
            let count: Option<u32> = value.parse().ok();
            current.connections = count.map(|count| count.min(CONNECTIONS_MAX));
        }
        _ => {
            let reason = "the value means nothing here";
            plan.troubles
                .push(line.trouble(reason, "see docs/configuration.md"));
        }
    }
}

/// Carried, but there pages of any origin may connect.
fn websocket(listener: &mut Listener, line: &Line, plan: &mut Plan) {
    listener.is_websocket = true;
    if listener.port.is_some() {
        plan.troubles.push(line.trouble(
            "mosquitto accepts web pages of any origin; Stentor accepts those of its own host",
            "name other origins: allowed_origins = [\"https://…\"] of the listener",
        ));
    }
}

/// Carried, but a name is worth something else here.
fn names_by_certificate(listener: &mut Listener, line: &Line, plan: &mut Plan) {
    listener.names_by_certificate = line.is_true();
    if listener.names_by_certificate {
        plan.troubles.push(line.trouble(
            "mosquitto accepts every certificate of its authority; here the name in it has to be a \
             user's, and the name `admin` is Stentor's administrator",
            "add the users that no file names: stentor user add NAME --no-password; let no \
             certificate have the name admin",
        ));
    }
}

/// The upper bound of `listener.max_connections`.
const CONNECTIONS_MAX: u32 = 10_000_000;

impl Listener {
    const fn is_tls(&self) -> bool {
        self.certificate.is_some() && self.key.is_some()
    }

    fn url(&self) -> String {
        let scheme = match (self.is_websocket, self.is_tls()) {
            (false, false) => "mqtt",
            (false, true) => "mqtts",
            (true, false) => "ws",
            (true, true) => "wss",
        };
        let is_v6 = self.family == Some(Family::V6);
        let everywhere = if is_v6 { "::" } else { "0.0.0.0" };
        let bind = self.bind.as_deref().unwrap_or(everywhere);
        match (self.port.unwrap_or_default(), bind) {
            (0, path) if path.starts_with('/') => format!("unix:{path}"),
            (port, "localhost") if is_v6 => format!("{scheme}://[::1]:{port}"),
            (port, "localhost") => format!("{scheme}://127.0.0.1:{port}"),
            (port, host) if host.contains(':') => format!("{scheme}://[{host}]:{port}"),
            (port, host) => format!("{scheme}://{host}:{port}"),
        }
    }

    fn has(&self, key: &str) -> bool {
        self.bounds.iter().any(|line| line.key == key)
    }

    /// What it would let in that it does not let in there, if anything: the keys that say so, of
    /// which the first that is there is shown, why, and what to do.
    fn opens(&self) -> Option<(&'static [&'static str], &'static str, &'static str)> {
        if self.has("psk_hint") {
            let reason = "Stentor has no TLS by keys that both ends share";
            return Some((&["psk_hint"], reason, "get a certificate for the server"));
        }
        if self.has("bind_interface") {
            let reason = "a listener here is bound to an address, not to an interface";
            return Some((
                &["bind_interface"],
                reason,
                "find out the interface's address",
            ));
        }
        let is_half = ["cafile", "certfile", "keyfile"]
            .iter()
            .any(|key| self.has(key));
        if !self.is_tls() && (is_half || self.needs_certificate) {
            let keys = &["certfile", "keyfile", "cafile", "require_certificate"];
            let reason =
                "TLS needs both certfile and keyfile, and without it anybody could listen in";
            return Some((keys, reason, "find the certificate and its key"));
        }
        if self.needs_certificate && self.authority.is_none() {
            let reason =
                "certificates are required, and cafile is missing; Stentor does not read a folder";
            let remedy = "put the authorities into one file (client_ca)";
            return Some((&["capath", "require_certificate"], reason, remedy));
        }
        if self.needs_certificate && self.has("crlfile") {
            let reason =
                "Stentor does not read lists of revoked certificates, and would accept these";
            let remedy = "take a new authority, or let certificates name users who can be disabled";
            return Some((&["crlfile"], reason, remedy));
        }
        if self.is_tls() && self.names_by_certificate && !self.needs_certificate {
            let reason =
                "without require_certificate, clients could not log in by certificate there";
            let remedy = "set client_certificates = \"required\" with the client_ca";
            return Some((&["use_identity_as_username"], reason, remedy));
        }
        None
    }

    pub(super) fn toml(&self, anonymous: bool) -> String {
        let is_tls = self.is_tls();
        let mut out = format!("\n[[listener]]\nurl = {}\n", quoted(&self.url()));
        if anonymous {
            out += "anonymous = true\n";
        }
        if let (true, Some(certificate), Some(key)) = (is_tls, &self.certificate, &self.key) {
            out += &format!(
                "certificate = {}\nkey = {}\n",
                quoted(certificate),
                quoted(key)
            );
        }
        if let (true, true, Some(authority)) = (is_tls, self.needs_certificate, &self.authority) {
            out += &format!(
                "client_certificates = \"required\"\nclient_ca = {}\n",
                quoted(authority)
            );
            if self.names_by_certificate {
                out += "certificate_user = \"cn\"\n";
            }
        }
        if let Some(connections) = self.connections {
            out += &format!("max_connections = {connections}\n");
        }
        out
    }
}

impl Draft {
    /// Takes those listeners out of the count that would let in here whom they keep out there.
    pub(super) fn close_open(&mut self, plan: &mut Plan) {
        let listeners = self.listeners.iter_mut();
        for listener in listeners.filter(|listener| listener.port.is_some()) {
            let Some((keys, reason, remedy)) = listener.opens() else {
                continue;
            };
            let last = |key: &&str| listener.bounds.iter().rfind(|line| line.key == **key);
            if let Some(line) = keys.iter().find_map(last) {
                let reason = format!("{reason}; the listener and its options are left out");
                let remedy =
                    format!("{remedy}, and add the listener to the new file: [[listener]]");
                plan.troubles.push(line.trouble(&reason, &remedy));
                listener.port = None;
            }
        }
    }

    /// Puts one for IPv6 beside each listener that was told no address: here an address is one
    /// family's.
    pub(super) fn open_ipv6(&mut self) {
        let both = |listener: Listener| {
            let is_everywhere = listener.bind.is_none() && listener.family.is_none();
            let other = is_everywhere.then(|| Listener {
                bind: Some("::".to_owned()),
                ..listener.clone()
            });
            std::iter::once(listener).chain(other)
        };
        let listeners = std::mem::take(&mut self.listeners);
        self.listeners = listeners.into_iter().flat_map(both).collect();
    }
}
