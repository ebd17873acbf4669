//! Listener URLs, as they are written in the configuration and on the command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What is spoken on a listener, below MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// MQTT over TCP.
    Mqtt,
    /// MQTT over TLS.
    Mqtts,
    /// MQTT over WebSocket.
    Ws,
    /// MQTT over WebSocket over TLS.
    Wss,
}

impl Scheme {
    const ALL: [Self; 4] = [Self::Mqtt, Self::Mqtts, Self::Ws, Self::Wss];

    /// The word before `://`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mqtt => "mqtt",
            Self::Mqtts => "mqtts",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// The port of a URL that names none.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Mqtt => 1883,
            Self::Mqtts => 8883,
            Self::Ws => 8083,
            Self::Wss => 8084,
        }
    }

    /// Whether a certificate is needed.
    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Mqtts | Self::Wss)
    }

    /// Whether MQTT is carried in WebSocket frames.
    #[must_use]
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// Where a listener listens and what it speaks: `mqtt://HOST:PORT`, `mqtts://HOST:PORT`,
/// `ws://HOST:PORT/PATH`, `wss://HOST:PORT/PATH` or `unix:PATH`.
///
/// Port 0 asks the system for a free one. A WebSocket URL without a path takes every path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenerUrl {
    /// A TCP port.
    Tcp {
        /// What is spoken there.
        scheme: Scheme,
        /// A name or an address; an IPv6 address without its brackets.
        host: String,
        /// The port; 0 picks a free one.
        port: u16,
        /// WebSocket only: the one path that is served, with its leading `/`.
        path: Option<String>,
    },
    /// A Unix socket, which speaks plain MQTT.
    Unix(PathBuf),
}

/// What is wrong with a listener URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenerUrlError {
    /// No scheme that this server knows.
    #[error(
        "\"{0}\" is not a listener URL; write mqtt://HOST:PORT, mqtts://, ws://, wss:// or unix:PATH"
    )]
    Scheme(String),
    /// Nothing where the host belongs.
    #[error("\"{0}\" names no host; 127.0.0.1 is this machine alone, 0.0.0.0 every IPv4 address")]
    Host(String),
    /// Something after the colon that is no port.
    #[error("\"{0}\" has no valid port; a port is a number from 0 (any free one) to 65535")]
    Port(String),
    /// `unix:` and nothing else, or a path that no socket can have.
    #[error("\"{0}\" is no socket path; write unix:PATH with at most 107 bytes of path")]
    UnixPath(String),
    /// A path on a listener that has none.
    #[error("\"{0}\" has a path, and only ws:// and wss:// listeners take one")]
    Path(String),
}

/// The longest path that fits into a Unix socket address, in bytes.
const UNIX_PATH_BYTES_MAX: usize = 107;

impl FromStr for ListenerUrl {
    type Err = ListenerUrlError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        if let Some(path) = url.strip_prefix("unix:") {
            return parse_unix(url, path);
        }
        let (word, rest) =
            url.split_once("://").ok_or_else(|| ListenerUrlError::Scheme(url.to_owned()))?;
        let scheme = Scheme::ALL
            .into_iter()
            .find(|scheme| scheme.word().eq_ignore_ascii_case(word))
            .ok_or_else(|| ListenerUrlError::Scheme(url.to_owned()))?;
        let (authority, path) = match rest.find('/') {
            Some(slash) => (&rest[..slash], Some(&rest[slash..])),
            None => (rest, None),
        };
        let path = path.filter(|path| *path != "/").map(str::to_owned);
        if path.is_some() && !scheme.is_websocket() {
            return Err(ListenerUrlError::Path(url.to_owned()));
        }
        let (host, port) = parse_authority(url, authority, scheme)?;
        Ok(Self::Tcp { scheme, host, port, path })
    }
}

fn parse_unix(url: &str, path: &str) -> Result<ListenerUrl, ListenerUrlError> {
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path.len() > UNIX_PATH_BYTES_MAX || path.contains('\0') {
        return Err(ListenerUrlError::UnixPath(url.to_owned()));
    }
    Ok(ListenerUrl::Unix(PathBuf::from(path)))
}

fn parse_authority(
    url: &str,
    authority: &str,
    scheme: Scheme,
) -> Result<(String, u16), ListenerUrlError> {
    let bad_port = || ListenerUrlError::Port(url.to_owned());
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) =
            rest.split_once(']').ok_or_else(|| ListenerUrlError::Host(url.to_owned()))?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(bad_port()),
        }
    } else {
        match authority.rsplit_once(':') {
            // A bare IPv6 address, whose last group is no port.
            Some((host, _)) if host.contains(':') => {
                return Err(ListenerUrlError::Host(url.to_owned()));
            }
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(ListenerUrlError::Host(url.to_owned()));
    }
    let port = match port {
        None => scheme.default_port(),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_err(|_| bad_port())?
        }
        Some(_) => return Err(bad_port()),
    };
    Ok((host.to_owned(), port))
}

impl fmt::Display for ListenerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { scheme, host, port, path } => {
                write!(f, "{}://", scheme.word())?;
                if host.contains(':') {
                    write!(f, "[{host}]:{port}")?;
                } else {
                    write!(f, "{host}:{port}")?;
                }
                f.write_str(path.as_deref().unwrap_or(""))
            }
        }
    }
}

impl ListenerUrl {
    /// Whether only this machine can reach it. A host name other than `localhost` counts as
    /// reachable from elsewhere, since what it resolves to may change.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                host.eq_ignore_ascii_case("localhost")
                    || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }

    /// Whether it needs a certificate.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp { scheme, .. } => scheme.is_tls(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(scheme: Scheme, host: &str, port: u16, path: Option<&str>) -> ListenerUrl {
        ListenerUrl::Tcp { scheme, host: host.into(), port, path: path.map(str::to_owned) }
    }

    #[test]
    fn reads_every_form() {
        let cases = [
            ("mqtt://127.0.0.1:1883", tcp(Scheme::Mqtt, "127.0.0.1", 1883, None)),
            ("mqtt://localhost", tcp(Scheme::Mqtt, "localhost", 1883, None)),
            ("MQTTS://[::1]:0", tcp(Scheme::Mqtts, "::1", 0, None)),
            ("mqtts://[::]", tcp(Scheme::Mqtts, "::", 8883, None)),
            ("ws://0.0.0.0:8083/", tcp(Scheme::Ws, "0.0.0.0", 8083, None)),
            ("wss://example.org/mqtt", tcp(Scheme::Wss, "example.org", 8084, Some("/mqtt"))),
            ("unix:/run/stentor.sock", ListenerUrl::Unix("/run/stentor.sock".into())),
            ("unix:///run/stentor.sock", ListenerUrl::Unix("/run/stentor.sock".into())),
            ("unix:relative", ListenerUrl::Unix("relative".into())),
        ];
        for (text, expected) in cases {
            let parsed: ListenerUrl = text.parse().expect(text);
            assert_eq!(parsed, expected, "{text}");
            assert_eq!(parsed.to_string().parse::<ListenerUrl>().as_ref(), Ok(&parsed), "{text}");
        }
    }

    #[test]
    fn refuses_with_a_remedy() {
        let long = format!("unix:/{}", "x".repeat(UNIX_PATH_BYTES_MAX));
        for text in [
            "",
            "1883",
            "tcp://127.0.0.1:1883",
            "mqtt:127.0.0.1",
            "mqtt://",
            "mqtt://:1883",
            "mqtt://::1:1883",
            "mqtt://host:65536",
            "mqtt://host:+1",
            "mqtt://host:",
            "mqtt://[::1",
            "mqtt://[::1]1883",
            "mqtt://host:1883/path",
            "unix:",
            &long,
        ] {
            let error = text.parse::<ListenerUrl>().expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn knows_what_is_local() {
        for (text, local) in [
            ("mqtt://127.0.0.1", true),
            ("mqtt://127.8.9.1", true),
            ("mqtt://[::1]", true),
            ("ws://localhost", true),
            ("unix:a", true),
            ("mqtt://0.0.0.0", false),
            ("mqtt://[::]", false),
            ("mqtt://example.org", false),
        ] {
            assert_eq!(text.parse::<ListenerUrl>().expect(text).is_local(), local, "{text}");
        }
    }
}
