//! The section `http`: addresses for operators, and the rules between its keys.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use super::check::{contradiction, is_flag};
use super::givens::Givens;
use super::url::split_port;
use super::{ClientCertificates, Config, Http};

/// The addresses of a configuration that names none.
const DEFAULT: [&str; 2] = ["http://127.0.0.1:18083", "http://[::1]:18083"];

/// The port of a URL that names none.
const PORT: u16 = 18_083;

/// The word for no address.
const OFF: &str = "off";

/// An address of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpUrl {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    Tcp {
        /// Whether it is encrypted.
        is_tls: bool,
        /// An address, or a name to be resolved; IPv6 addresses without brackets.
        host: String,
        /// The port; 0 asks the system for a free one.
        port: u16,
    },
    /// `http+unix:PATH`.
    Unix(PathBuf),
}

impl HttpUrl {
    /// Whether it is encrypted.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Tcp { is_tls: true, .. })
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let Self::Tcp { host, .. } = self else {
            return true;
        };
        match host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => host.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl HttpUrl {
    /// What a browser opens to come here, without a path: `names` are the names that certificates
    /// and proxies have for the server. `None` for a Unix socket.
    pub(crate) fn for_browsers(&self, names: &[String]) -> Option<String> {
        let Self::Tcp { is_tls, host, port } = self else {
            return None;
        };
        let address = host.parse::<IpAddr>().ok();
        let is_any = address.is_some_and(|address| address.is_unspecified());
        // Certificates have names more often than addresses.
        let host = match (is_any || *is_tls, names.first()) {
            (true, Some(name)) => name.clone(),
            (true, None) if is_any || self.is_local() => "localhost".to_owned(),
            _ => host.clone(),
        };
        let url = Self::Tcp {
            is_tls: *is_tls,
            host,
            port: *port,
        };
        Some(url.to_string())
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_tls, host, port) = match self {
            Self::Tcp { is_tls, host, port } => (*is_tls, host, port),
            Self::Unix(path) => return write!(f, "http+unix:{}", path.display()),
        };
        let scheme = if is_tls { "https" } else { "http" };
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{port}"),
            false => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

impl FromStr for HttpUrl {
    /// The reason, in words that follow the offending value.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("http+unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.is_empty() {
                true => Err("it names no path".to_owned()),
                false => Ok(Self::Unix(path.into())),
            };
        }
        let (is_tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => {
                let known = "http://HOST:PORT, https://HOST:PORT or http+unix:PATH";
                return Err(format!("it is none of {known}"));
            }
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '@', '?', '#']) {
            return Err("it is a host and a port, nothing else".to_owned());
        }
        let (host, port) = split_port(authority)?;
        let port = port.map_or(Ok(PORT), str::parse);
        Ok(Self::Tcp {
            is_tls,
            host: host.to_owned(),
            port: port.map_err(|_| "its port is not a port".to_owned())?,
        })
    }
}

impl Http {
    /// The addresses, and whether the configuration names them: then they have to be free.
    #[must_use]
    pub fn urls(&self) -> (Vec<HttpUrl>, bool) {
        // They were checked when the configuration was read.
        let read = |url: &str| url.parse().ok();
        match &self.listen {
            None => (DEFAULT.into_iter().filter_map(read).collect(), false),
            Some(urls) => {
                let urls = urls.iter().filter_map(|url| read(url));
                (urls.collect(), true)
            }
        }
    }
}

/// Fills in what follows from other keys, then checks the section.
pub(super) fn finish(config: &mut Config, givens: &mut Givens) {
    let http = &mut config.http;
    if http.certificate.is_none() && http.key.is_none() {
        http.certificate.clone_from(&config.tls.certificate);
        http.key.clone_from(&config.tls.key);
    }
    let has_certificate = http.certificate.is_some() && http.key.is_some();
    client_certificates(config, givens);
    let http = &mut config.http;
    let Some(listen) = &mut http.listen else {
        // The defaults are left out beside `--listen`.
        http.listen = is_flag(givens, "listener", "url").then(Vec::new);
        return;
    };
    if listen.as_slice() == [OFF] {
        listen.clear();
    }
    for text in listen.iter() {
        let message = match text.parse::<HttpUrl>() {
            Err(reason) => format!("http.listen = {text:?}: {reason}"),
            Ok(url) if url.is_tls() && !has_certificate => format!(
                "{url} needs a certificate; give `certificate` and `key` in [http] or [tls]"
            ),
            Ok(url) if !(url.is_tls() || url.is_local() || http.insecure) => format!(
                "{url} can be reached by other machines without encryption; make it https://, or \
                 set `insecure = true` in [http] (STENTOR_HTTP__INSECURE=true) if this is meant"
            ),
            Ok(_) => continue,
        };
        givens.problem(givens.origin("http", 0, "listen"), message);
    }
}

/// Certificates of clients are asked for where that can be, or not mentioned.
fn client_certificates(config: &Config, givens: &mut Givens) {
    let http = &config.http;
    let asks = http.client_certificates != ClientCertificates::Off;
    let is_https = |text: &String| text.parse().is_ok_and(|url: HttpUrl| url.is_tls());
    let has_https = http.listen.iter().flatten().any(is_https);
    let problem = match asks && !has_https {
        true => Some((
            "client_certificates",
            "is of no use; name an address https:// in `listen`",
        )),
        false => contradiction(
            http.client_certificates,
            http.client_ca.is_some(),
            http.certificate_user,
        ),
    };
    if let Some((key, reason)) = problem {
        let message = format!("[http]: `{key}` {reason}");
        givens.problem(givens.origin("http", 0, key), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_gets_a_host_that_it_can_open() {
        let name = ["stentor.example".to_owned()];
        for (url, names, expected) in [
            ("http://127.0.0.1:1", &[][..], Some("http://127.0.0.1:1")),
            ("http://127.0.0.1:1", &name[..], Some("http://127.0.0.1:1")),
            ("http://[::1]:1", &[], Some("http://[::1]:1")),
            ("https://127.0.0.1:1", &[], Some("https://localhost:1")),
            ("https://0.0.0.0:1", &[], Some("https://localhost:1")),
            (
                "https://0.0.0.0:1",
                &name,
                Some("https://stentor.example:1"),
            ),
            ("https://192.0.2.7:1", &[], Some("https://192.0.2.7:1")),
            (
                "https://192.0.2.7:1",
                &name,
                Some("https://stentor.example:1"),
            ),
            ("http://[::]:1", &[], Some("http://localhost:1")),
            ("http+unix:/s", &[], None),
        ] {
            let url: HttpUrl = url.parse().expect(url);
            assert_eq!(url.for_browsers(names).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn urls_are_read_and_shown() {
        for (text, shown, is_local) in [
            ("http://127.0.0.1:18083", "http://127.0.0.1:18083", true),
            ("http://localhost", "http://localhost:18083", true),
            ("http://[::1]:0/", "http://[::1]:0", true),
            ("https://0.0.0.0", "https://0.0.0.0:18083", false),
            ("https://[::]:443", "https://[::]:443", false),
            ("http+unix:/run/s.sock", "http+unix:/run/s.sock", true),
            ("http+unix:///run/s.sock", "http+unix:/run/s.sock", true),
            ("http+unix:s.sock", "http+unix:s.sock", true),
        ] {
            let url: HttpUrl = text.parse().expect(text);
            assert_eq!(
                (url.to_string().as_str(), url.is_local()),
                (shown, is_local)
            );
        }
        for text in [
            "",
            "18083",
            "localhost:18083",
            "mqtt://localhost",
            "http://",
            "http://a:99999",
            "http://a/metrics",
            "http://user@a",
            "http+unix:",
            "https+unix:/run/s.sock",
        ] {
            assert!(text.parse::<HttpUrl>().is_err(), "{text}");
        }
    }
}
