//! Server addresses as people write them.

use std::fmt;
use std::str::FromStr;

/// How bytes travel to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `mqtt://`: plain TCP, port 1883 unless stated.
    Mqtt,
    /// `mqtts://`: TLS over TCP, port 8883 unless stated.
    Mqtts,
    /// `ws://`: WebSocket, port 80 unless stated [RFC 6455].
    Ws,
    /// `wss://`: WebSocket over TLS, port 443 unless stated [RFC 6455].
    Wss,
    /// `unix:PATH`: a Unix stream socket.
    Unix,
}

impl Scheme {
    /// The word before the colon.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mqtt => "mqtt",
            Self::Mqtts => "mqtts",
            Self::Ws => "ws",
            Self::Wss => "wss",
            Self::Unix => "unix",
        }
    }

    /// The TCP port that is meant when none is written; 0 for a Unix socket.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Mqtt => 1883,
            Self::Mqtts => 8883,
            Self::Ws => 80,
            Self::Wss => 443,
            Self::Unix => 0,
        }
    }

    /// Whether TLS is spoken.
    #[must_use]
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Mqtts | Self::Wss)
    }

    /// Whether MQTT travels in WebSocket frames.
    #[must_use]
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }

    fn parse(word: &str) -> Option<Self> {
        match word {
            "mqtt" | "tcp" => Some(Self::Mqtt),
            "mqtts" | "ssl" | "tls" => Some(Self::Mqtts),
            "ws" => Some(Self::Ws),
            "wss" => Some(Self::Wss),
            "unix" => Some(Self::Unix),
            _ => None,
        }
    }
}

/// A server's address: `mqtt://USER:PASSWORD@HOST:PORT`, `mqtts://…`, `ws://HOST:PORT/PATH`,
/// `wss://…` or `unix:PATH`. A bare `HOST` or `HOST:PORT` means `mqtt://`.
///
/// User name and password are percent-decoded. `Display` never shows the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// How to reach the server.
    pub scheme: Scheme,
    /// Host name or address, without the brackets of IPv6; empty for a Unix socket.
    pub host: String,
    /// TCP port; 0 for a Unix socket.
    pub port: u16,
    /// The Unix socket's path, or the request target of a WebSocket (`/mqtt` unless stated).
    pub path: String,
    /// User name, if one is written before the `@`.
    pub username: Option<String>,
    /// Password, if one is written after the user name.
    pub password: Option<String>,
}

/// Why a text is not a server's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The word before `:` is none of ours.
    #[error("unknown scheme {0:?}: use mqtt://, mqtts://, ws://, wss:// or unix:PATH")]
    UnknownScheme(String),
    /// No host or path follows the scheme.
    #[error("the address names no host")]
    EmptyHost,
    /// `unix:` without a path.
    #[error("unix: needs the path of a socket, as in unix:/run/stentor.sock")]
    EmptyPath,
    /// The port is not a number between 1 and 65535.
    #[error("{0:?} is not a port number (1 to 65535)")]
    Port(String),
    /// `[` without `]`, or something else than a port after `]`.
    #[error("an IPv6 address needs brackets, as in mqtt://[::1]:1883")]
    Brackets,
    /// `%` not followed by two hexadecimal digits, or the result is not UTF-8.
    #[error("broken percent-encoding in the user name or password")]
    PercentEncoding,
    /// A path where none is possible.
    #[error("{0}:// takes no path: {1:?}")]
    UnexpectedPath(&'static str, String),
}

impl Url {
    /// The address of a plain TCP server.
    #[must_use]
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::with_scheme(Scheme::Mqtt, host.into(), port, String::new())
    }

    /// The address of a Unix socket.
    #[must_use]
    pub fn unix(path: impl Into<String>) -> Self {
        Self::with_scheme(Scheme::Unix, String::new(), 0, path.into())
    }

    fn with_scheme(scheme: Scheme, host: String, port: u16, path: String) -> Self {
        Self {
            scheme,
            host,
            port,
            path,
            username: None,
            password: None,
        }
    }

    /// `HOST:PORT` as sockets and HTTP's `Host` header want it.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return parse_unix(path);
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((word, rest)) => {
                let scheme =
                    Scheme::parse(word).ok_or_else(|| UrlError::UnknownScheme(word.into()))?;
                (scheme, rest)
            }
            None => (Scheme::Mqtt, text),
        };
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(split);
        let (userinfo, hostport) = match authority.rsplit_once('@') {
            Some((userinfo, hostport)) => (Some(userinfo), hostport),
            None => (None, authority),
        };
        let (host, port) = parse_host(hostport, scheme)?;
        let mut url = Self::with_scheme(scheme, host, port, parse_path(scheme, path)?);
        if let Some(userinfo) = userinfo {
            let (user, password) = match userinfo.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (userinfo, None),
            };
            url.username = Some(percent_decode(user)?);
            url.password = password.map(percent_decode).transpose()?;
        }
        Ok(url)
    }
}

fn parse_unix(rest: &str) -> Result<Url, UrlError> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() {
        return Err(UrlError::EmptyPath);
    }
    Ok(Url::unix(path))
}

fn parse_path(scheme: Scheme, path: &str) -> Result<String, UrlError> {
    match (scheme.is_websocket(), path) {
        // Brokers that insist on a path insist on this one; the others take any.
        (true, "") => Ok("/mqtt".into()),
        (true, query) if query.starts_with('?') => Ok(format!("/{query}")),
        (true, path) => Ok(path.into()),
        (false, "" | "/") => Ok(String::new()),
        (false, path) => Err(UrlError::UnexpectedPath(scheme.as_str(), path.into())),
    }
}

fn parse_host(text: &str, scheme: Scheme) -> Result<(String, u16), UrlError> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(UrlError::Brackets)?;
        match after {
            "" => (host, None),
            after => (
                host,
                Some(after.strip_prefix(':').ok_or(UrlError::Brackets)?),
            ),
        }
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(UrlError::Brackets),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err(UrlError::EmptyHost);
    }
    let port = match port {
        None => scheme.default_port(),
        Some(digits) => match digits.parse::<u16>() {
            Ok(port) if port > 0 && digits.bytes().all(|b| b.is_ascii_digit()) => port,
            _ => return Err(UrlError::Port(digits.into())),
        },
    };
    Ok((host.into(), port))
}

fn percent_decode(text: &str) -> Result<String, UrlError> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(UrlError::PercentEncoding);
        };
        decoded.push(u8::try_from(high * 16 + low).map_err(|_| UrlError::PercentEncoding)?);
    }
    String::from_utf8(decoded).map_err(|_| UrlError::PercentEncoding)
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme == Scheme::Unix {
            return write!(f, "unix:{}", self.path);
        }
        write!(f, "{}://", self.scheme.as_str())?;
        if let Some(username) = &self.username {
            for byte in username.bytes() {
                match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                        write!(f, "{}", char::from(byte))?;
                    }
                    _ => write!(f, "%{byte:02X}")?,
                }
            }
            f.write_str("@")?;
        }
        write!(f, "{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let cases = [
            ("localhost", "mqtt://localhost:1883"),
            ("10.0.0.1:2000", "mqtt://10.0.0.1:2000"),
            ("mqtt://host", "mqtt://host:1883"),
            ("mqtt://host/", "mqtt://host:1883"),
            ("tcp://host:7", "mqtt://host:7"),
            ("mqtts://host", "mqtts://host:8883"),
            ("mqtt://[::1]:1884", "mqtt://[::1]:1884"),
            ("mqtt://[::1]", "mqtt://[::1]:1883"),
            ("ws://host", "ws://host:80/mqtt"),
            ("ws://host:8083/", "ws://host:8083/"),
            ("ws://host?x=1", "ws://host:80/?x=1"),
            ("wss://host/a/b?c", "wss://host:443/a/b?c"),
            ("unix:/run/s.sock", "unix:/run/s.sock"),
            ("unix:///run/s.sock", "unix:/run/s.sock"),
            ("unix:s.sock", "unix:s.sock"),
            (
                "mqtt://zone%2Fann:p%40ss@host",
                "mqtt://zone%2Fann@host:1883",
            ),
        ];
        for (text, shown) in cases {
            let url: Url = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(url.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn user_and_password_are_percent_decoded_and_the_password_stays_hidden() {
        let url: Url = "mqtt://zone%2Fann:p%40s:s@host:1".parse().unwrap();
        assert_eq!(url.username.as_deref(), Some("zone/ann"));
        assert_eq!(url.password.as_deref(), Some("p@s:s"));
        assert!(!url.to_string().contains("p@s"));
    }

    #[test]
    fn broken_addresses_say_what_is_wrong() {
        let cases = [
            ("", UrlError::EmptyHost),
            ("mqtt://", UrlError::EmptyHost),
            ("mqtt://:1883", UrlError::EmptyHost),
            ("http://host", UrlError::UnknownScheme("http".into())),
            ("mqtt://host:0", UrlError::Port("0".into())),
            ("mqtt://host:65536", UrlError::Port("65536".into())),
            ("mqtt://host:+5", UrlError::Port("+5".into())),
            ("mqtt://host:", UrlError::Port(String::new())),
            ("mqtt://::1", UrlError::Brackets),
            ("mqtt://[::1", UrlError::Brackets),
            ("mqtt://[::1]1883", UrlError::Brackets),
            ("unix:", UrlError::EmptyPath),
            ("mqtt://a%2@host", UrlError::PercentEncoding),
            ("mqtt://a%zz@host", UrlError::PercentEncoding),
            ("mqtt://%ff@host", UrlError::PercentEncoding),
            (
                "mqtt://host/path",
                UrlError::UnexpectedPath("mqtt", "/path".into()),
            ),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Url>(), Err(error), "{text}");
        }
    }
}
