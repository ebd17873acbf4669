//! Listeners, with the options that belong to one.

use stentor_server::config::ListenUrl;

use super::{Draft, absolute, quoted};
use crate::accounts::mosquitto::{Line, NO_TEXT, Plan};

/// A listener as it comes together.
#[derive(Clone, Debug, Default)]
pub(super) struct Listener {
    /// `None` for what is no port: the listener is not carried, and neither are its options.
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
}

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
            Err(_) => Some(format!("{bind:?} is no address to listen on")),
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
    let is_listeners = matches!(
        line.key.as_str(),
        "bind_address"
            | "protocol"
            | "certfile"
            | "keyfile"
            | "cafile"
            | "require_certificate"
            | "use_identity_as_username"
            | "max_connections"
    );
    if !is_listeners {
        return false;
    }
    if draft.listeners.is_empty() {
        draft.listeners.push(Listener {
            port: Some(1883),
            ..Listener::default()
        });
    }
    let Some(current) = draft.listeners.last_mut() else {
        return false;
    };
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
        ("protocol", "websockets") => current.is_websocket = true,
        ("protocol", "mqtt") => {}
        ("protocol", _) => leave_out(current, line, plan),
        ("certfile", _) => current.certificate = Some(absolute(value)),
        ("keyfile", _) => current.key = Some(absolute(value)),
        ("cafile", _) => current.authority = Some(absolute(value)),
        ("require_certificate", _) => current.needs_certificate = value == "true",
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
    true
}

/// Carried, but a name is worth something else here.
fn names_by_certificate(listener: &mut Listener, line: &Line, plan: &mut Plan) {
    listener.names_by_certificate = line.value == "true";
    if listener.names_by_certificate {
        plan.troubles.push(line.trouble(
            "it lets in whoever has a certificate; here each name in one has to be a user's, and \
             who is called `admin` in one is Stentor's administrator",
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
        let bind = self.bind.as_deref().unwrap_or("0.0.0.0");
        match (self.port.unwrap_or_default(), bind) {
            (0, path) if path.starts_with('/') => format!("unix:{path}"),
            (port, "localhost") => format!("{scheme}://127.0.0.1:{port}"),
            (port, host) if host.contains(':') => format!("{scheme}://[{host}]:{port}"),
            (port, host) => format!("{scheme}://{host}:{port}"),
        }
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
    /// Puts one for IPv6 beside each listener that was told no address: here an address is one
    /// family's.
    pub(super) fn open_ipv6(&mut self) {
        let both = |listener: Listener| {
            let is_everywhere = listener.bind.is_none();
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
