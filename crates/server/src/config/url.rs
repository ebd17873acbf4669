//! Listener URLs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What is spoken on a network listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// MQTT over TCP.
    Mqtt,
    /// MQTT over TLS.
    Mqtts,
    /// MQTT over WebSocket.
    Ws,
    /// MQTT over WebSocket over TLS.
    Wss,
    /// Calls of procedures over TCP.
    Call,
    /// Calls of procedures over TLS.
    Calls,
    /// Mail servers that show messages to a filter.
    Milter,
    /// Postfix, which asks about envelopes.
    Policy,
}

/// The kind of client that calls procedures, on a listener that does not speak MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asker {
    /// `stentor-call`.
    Client,
    /// A mail server, by the milter protocol.
    Milter,
    /// Postfix, by policy delegation.
    Policy,
}

impl Asker {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Client, Self::Milter, Self::Policy];

    /// What they speak over TCP without TLS.
    #[must_use]
    pub const fn scheme(self) -> Scheme {
        match self {
            Self::Client => Scheme::Call,
            Self::Milter => Scheme::Milter,
            Self::Policy => Scheme::Policy,
        }
    }
}

impl Scheme {
    /// All of them, with the port that is taken when a URL names none.
    pub const ALL: [(Self, u16); 8] = [
        (Self::Mqtt, 1883),
        (Self::Mqtts, 8883),
        (Self::Ws, 8083),
        (Self::Wss, 8084),
        (Self::Call, 1889),
        (Self::Milter, 1890),
        (Self::Policy, 1891),
        (Self::Calls, 1892),
    ];

    /// The scheme as a URL spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mqtt => "mqtt",
            Self::Mqtts => "mqtts",
            Self::Ws => "ws",
            Self::Wss => "wss",
            Self::Call => "call",
            Self::Calls => "calls",
            Self::Milter => "milter",
            Self::Policy => "policy",
        }
    }

    /// The connection is encrypted, so the listener needs a certificate.
    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Mqtts | Self::Wss | Self::Calls)
    }

    /// Packets travel in WebSocket frames.
    #[must_use]
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// Where a listener listens, and what is spoken there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenUrl {
    /// `mqtt://HOST:PORT` and its kin.
    Net {
        /// What is spoken.
        scheme: Scheme,
        /// An address, or a name to be resolved; IPv6 addresses without brackets.
        host: String,
        /// The port; 0 asks the system for a free one.
        port: u16,
    },
    /// `unix:PATH`: MQTT over a Unix socket.
    Unix(PathBuf),
    /// `call+unix:PATH`, `milter+unix:PATH` and `policy+unix:PATH`: procedures are asked over a
    /// Unix socket.
    AskUnix(Asker, PathBuf),
}

impl Default for ListenUrl {
    /// A placeholder: a free port on 127.0.0.1.
    fn default() -> Self {
        Self::Net {
            scheme: Scheme::Mqtt,
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: 0,
        }
    }
}

impl ListenUrl {
    /// Only programs on this machine can reach the listener.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) | Self::AskUnix(..) => true,
            Self::Net { host, .. } => match host.parse::<IpAddr>() {
                Ok(address) => address.to_canonical().is_loopback(),
                Err(_) => host.eq_ignore_ascii_case("localhost"),
            },
        }
    }

    /// The listener is encrypted.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Net { scheme, .. } if scheme.is_tls())
    }

    /// The kind of client that calls procedures here; `None` for a listener that speaks MQTT.
    #[must_use]
    pub const fn asker(&self) -> Option<Asker> {
        match self {
            Self::AskUnix(asker, _) => Some(*asker),
            Self::Unix(_) => None,
            Self::Net { scheme, .. } => match scheme {
                Scheme::Call | Scheme::Calls => Some(Asker::Client),
                Scheme::Milter => Some(Asker::Milter),
                Scheme::Policy => Some(Asker::Policy),
                Scheme::Mqtt | Scheme::Mqtts | Scheme::Ws | Scheme::Wss => None,
            },
        }
    }

    /// Procedures are asked here; no MQTT is spoken.
    #[must_use]
    pub const fn is_call(&self) -> bool {
        self.asker().is_some()
    }

    /// Mail servers ask a procedure here.
    #[must_use]
    pub const fn is_mail(&self) -> bool {
        matches!(self.asker(), Some(Asker::Milter | Asker::Policy))
    }

    /// The listener speaks WebSocket.
    #[must_use]
    pub const fn is_websocket(&self) -> bool {
        matches!(self, Self::Net { scheme, .. } if scheme.is_websocket())
    }

    /// The path of a Unix socket.
    #[must_use]
    pub fn unix_path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) | Self::AskUnix(_, path) => Some(path),
            Self::Net { .. } => None,
        }
    }

    /// The same URL with one of the addresses that its host stands for, and its real port.
    #[must_use]
    pub fn with_address(&self, address: SocketAddr) -> Self {
        match self {
            Self::Unix(_) | Self::AskUnix(..) => self.clone(),
            Self::Net { scheme, .. } => Self::Net {
                scheme: *scheme,
                host: address.ip().to_string(),
                port: address.port(),
            },
        }
    }

    /// The same URL with the port that the system chose.
    #[must_use]
    pub fn with_port(&self, port: u16) -> Self {
        match self {
            Self::Unix(_) | Self::AskUnix(..) => self.clone(),
            Self::Net { scheme, host, .. } => Self::Net {
                scheme: *scheme,
                host: host.clone(),
                port,
            },
        }
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::AskUnix(asker, path) => {
                write!(f, "{}+unix:{}", asker.scheme().name(), path.display())
            }
            Self::Net { scheme, host, port } if host.contains(':') => {
                write!(f, "{}://[{host}]:{port}", scheme.name())
            }
            Self::Net { scheme, host, port } => write!(f, "{}://{host}:{port}", scheme.name()),
        }
    }
}

impl FromStr for ListenUrl {
    /// The reason, in words that follow the offending value.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((spoken, path)) = split_unix(text) {
            // `unix:///run/x` is the same as `unix:/run/x`.
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path.contains('\0') {
                return Err("the path of the Unix socket is missing".to_owned());
            }
            let path = PathBuf::from(path);
            return match (
                spoken,
                Asker::ALL.iter().find(|a| a.scheme().name() == spoken),
            ) {
                ("mqtt", _) => Ok(Self::Unix(path)),
                (_, Some(asker)) => Ok(Self::AskUnix(*asker, path)),
                _ => Err(format!(
                    "\"{spoken}+unix\" is not a scheme that Stentor listens for"
                )),
            };
        }
        let Some((name, authority)) = text.split_once("://") else {
            return Err("this is not a URL".to_owned());
        };
        let known = Scheme::ALL.iter().find(|(scheme, _)| scheme.name() == name);
        let Some(&(scheme, default_port)) = known else {
            return Err(format!(
                "\"{name}\" is not a scheme that Stentor listens for"
            ));
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains('/') {
            return Err("a listener's URL has no path (WebSocket: set the key `path`)".to_owned());
        }
        if authority.contains(['@', '?', '#']) || authority.contains(char::is_whitespace) {
            return Err("a listener's URL is a host and a port, nothing else".to_owned());
        }
        let (host, port) = split_port(authority)?;
        let port = match port {
            None => default_port,
            Some(port) => port
                .parse()
                .map_err(|_| format!("\"{port}\" is not a port"))?,
        };
        Ok(Self::Net {
            scheme,
            host: host.to_owned(),
            port,
        })
    }
}

/// Splits `call+unix:PATH` into what is spoken and the path; plain `unix:PATH` speaks MQTT.
fn split_unix(text: &str) -> Option<(&str, &str)> {
    let (scheme, path) = text.split_once(':')?;
    match scheme {
        "unix" => Some(("mqtt", path)),
        _ => Some((scheme.strip_suffix("+unix")?, path)),
    }
}

/// Splits `[::1]:1883`, `127.0.0.1:1883` or `localhost` into host and port.
pub(super) fn split_port(authority: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(bracketed) = authority.strip_prefix('[') {
        let Some((host, rest)) = bracketed.split_once(']') else {
            return Err("the bracket after the IPv6 address is missing".to_owned());
        };
        if !matches!(host.parse(), Ok(IpAddr::V6(_))) {
            return Err(format!("\"{host}\" is not an IPv6 address"));
        }
        return match (rest, rest.strip_prefix(':')) {
            ("", _) => Ok((host, None)),
            (_, Some(port)) => Ok((host, Some(port))),
            _ => Err("after the IPv6 address only a port may follow".to_owned()),
        };
    }
    let (host, port) = match authority.split_once(':') {
        None => (authority, None),
        Some((host, port)) => (host, Some(port)),
    };
    if port.is_some_and(|port| port.contains(':')) {
        return Err("an IPv6 address needs brackets, as in mqtt://[::1]:1883".to_owned());
    }
    if host.is_empty() {
        return Err("the host is missing (0.0.0.0 and [::] are all addresses)".to_owned());
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !host.chars().all(allowed) {
        return Err(format!("\"{host}\" is neither an address nor a host name"));
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown() {
        for (text, shown, local) in [
            ("mqtt://127.0.0.1:1883", "mqtt://127.0.0.1:1883", true),
            ("mqtt://127.0.0.1", "mqtt://127.0.0.1:1883", true),
            ("mqtts://0.0.0.0", "mqtts://0.0.0.0:8883", false),
            ("ws://[::1]:0", "ws://[::1]:0", true),
            ("wss://[::]/", "wss://[::]:8084", false),
            (
                "mqtt://[::ffff:127.0.0.1]:1",
                "mqtt://[::ffff:127.0.0.1]:1",
                true,
            ),
            ("mqtt://localhost:65535", "mqtt://localhost:65535", true),
            (
                "mqtt://broker.example:1883",
                "mqtt://broker.example:1883",
                false,
            ),
            ("unix:/run/stentor.sock", "unix:/run/stentor.sock", true),
            ("unix:///run/stentor.sock", "unix:/run/stentor.sock", true),
            ("unix:stentor.sock", "unix:stentor.sock", true),
            ("call+unix:/a/b", "call+unix:/a/b", true),
            ("call+unix:///a/b", "call+unix:/a/b", true),
            ("call://0.0.0.0", "call://0.0.0.0:1889", false),
            ("calls://0.0.0.0", "calls://0.0.0.0:1892", false),
            ("milter+unix:/a/b", "milter+unix:/a/b", true),
            ("policy+unix:///a/b", "policy+unix:/a/b", true),
            ("milter://localhost", "milter://localhost:1890", true),
            ("policy://127.0.0.1", "policy://127.0.0.1:1891", true),
        ] {
            let url: ListenUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), shown);
            assert_eq!(url.is_local(), local, "{text}");
        }
    }

    #[test]
    fn broken_urls_are_refused() {
        for text in [
            "",
            "1883",
            "localhost:1883",
            "tcp://127.0.0.1:1883",
            "http://127.0.0.1:80",
            "mqtt://",
            "mqtt://:1883",
            "mqtt://*:1883",
            "mqtt://::1:1883",
            "mqtt://[::1:1883",
            "mqtt://[127.0.0.1]:1883",
            "mqtt://[::1]1883",
            "mqtt://127.0.0.1:65536",
            "mqtt://127.0.0.1:-1",
            "mqtt://127.0.0.1:",
            "mqtt://user@127.0.0.1:1883",
            "mqtt://127.0.0.1:1883?x=1",
            "ws://127.0.0.1:8083/mqtt",
            "mqtt://a b:1883",
            "unix:",
            "unix://",
            "call+unix:",
            "mqtts+unix:/a",
            "calls+unix:/a",
            "call+tcp://127.0.0.1:1",
        ] {
            assert!(text.parse::<ListenUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_real_port_replaces_port_zero() {
        let url: ListenUrl = "ws://[::1]:0".parse().expect("valid");
        assert_eq!(url.with_port(4711).to_string(), "ws://[::1]:4711");
        let url = url.with_address(([127, 0, 0, 1], 4712).into());
        assert_eq!(url.to_string(), "ws://127.0.0.1:4712");
        assert!(url.is_websocket() && !url.is_tls());
    }
}
