//! A server of procedures that runs already, as on another machine.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args as ClapArgs;

use crate::error::{BenchError, Doing};

/// The port of the call protocol over TCP, unless another one is given.
const PORT: u16 = 1889;
/// The same over TLS.
const TLS_PORT: u16 = 1892;
/// The token of `stentor-call`, unless a file has it.
const TOKEN: &str = "STENTOR_TOKEN";

/// Where the server is, and what it is called with: as options of `stentor-call`.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct Remote {
    /// Call a server that runs already, on this machine or on another one, instead of starting
    /// one. With TLS it is calls://HOST or calls://HOST:PORT [default port: 1889; with TLS 1892]
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "server")]
    target: Option<Target>,
    /// File with the token for the --target; or set STENTOR_TOKEN. Over a network only with TLS
    #[arg(long, value_name = "FILE", requires = "target")]
    token_file: Option<PathBuf>,
    /// Authorities that may have signed the certificate of a --target with TLS, in PEM format
    /// [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "target")]
    ca_file: Option<PathBuf>,
    /// Name that the certificate of a --target with TLS has [default: its HOST]
    #[arg(long, value_name = "NAME", requires = "target")]
    server_name: Option<String>,
}

/// What `--target` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    host: String,
    port: u16,
    is_tls: bool,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (is_tls, place) = match text.split_once("://") {
            None => (false, text),
            Some(("call", place)) => (false, place),
            Some(("calls", place)) => (true, place),
            Some((scheme, _)) => {
                return Err(format!(
                    "{scheme}:// is not for calls; give HOST, HOST:PORT or calls://HOST:PORT"
                ));
            }
        };
        let usual = if is_tls { TLS_PORT } else { PORT };
        let place = place.strip_suffix('/').unwrap_or(place);
        let (host, port) = match place.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, port))) => (host, port.strip_prefix(':')),
            Some(None) => return Err("the address has no ] behind it".to_owned()),
            // An address of IPv6 by itself has several.
            None if place.matches(':').count() > 1 => (place, None),
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || !host.chars().all(is_name) {
            return Err("there is no host in it; give HOST, HOST:PORT or calls://HOST:PORT".into());
        }
        let port = match port {
            None => usual,
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                Ok(_) | Err(_) => {
                    return Err(format!("{port:?} is not a port; a port is from 1 to 65535"));
                }
            },
        };
        Ok(Self {
            host: host.to_owned(),
            port,
            is_tls,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "calls" } else { "call" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

impl Target {
    pub(super) const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Looks its name up once: `stentor-call` takes addresses only.
    fn address(&self) -> Result<SocketAddr, BenchError> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let mut found = found.doing(format!("find the host of --target {self}"))?;
        found.next().ok_or_else(|| {
            let text = format!("--target {self}: the host has no address; give one instead");
            BenchError::usage(text)
        })
    }
}

impl Remote {
    pub(super) const fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// The files that are read.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.token_file, &self.ca_file].into_iter().flatten();
        files.map(PathBuf::as_path)
    }

    /// The options of `stentor-call` about this server.
    ///
    /// # Errors
    /// When the host is unknown, when a token would cross a network in the clear, or when options
    /// for TLS are given without it.
    pub(super) fn words(&self, target: &Target) -> Result<Vec<String>, BenchError> {
        let has_token = self.token_file.is_some() || std::env::var_os(TOKEN).is_some();
        self.words_at(target, target.address()?, has_token)
    }

    fn words_at(
        &self,
        target: &Target,
        address: SocketAddr,
        has_token: bool,
    ) -> Result<Vec<String>, BenchError> {
        if has_token && !target.is_tls && !address.ip().is_loopback() {
            return Err(BenchError::usage(format!(
                "--target {target}: the token of --token-file or {TOKEN} would cross the network \
                 in the clear; give a listener with TLS as calls://HOST:PORT, or no token"
            )));
        }
        if !target.is_tls && (self.ca_file.is_some() || self.server_name.is_some()) {
            return Err(BenchError::usage(format!(
                "--target {target}: --ca-file and --server-name are for TLS; give \
                 calls://HOST:PORT"
            )));
        }
        let scheme = if target.is_tls { "calls://" } else { "" };
        let mut words = vec!["-s".to_owned(), format!("{scheme}{address}")];
        if target.is_tls {
            // An address is the name already.
            let is_address = target.host.parse::<IpAddr>().is_ok();
            let host = (!is_address).then_some(&target.host);
            if let Some(name) = self.server_name.as_ref().or(host) {
                words.extend(["--server-name".into(), name.clone()]);
            }
        }
        for (option, file) in [
            ("--ca-file", &self.ca_file),
            ("--token-file", &self.token_file),
        ] {
            if let Some(file) = file {
                words.extend([option.into(), file.display().to_string()]);
            }
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> Remote {
        Remote {
            target: None,
            token_file: None,
            ca_file: None,
            server_name: None,
        }
    }

    #[test]
    fn a_target_has_a_host_and_a_port() {
        for (text, shown) in [
            ("192.0.2.7", "call://192.0.2.7:1889"),
            ("filter.example:99", "call://filter.example:99"),
            ("call://h:7/", "call://h:7"),
            ("calls://h", "calls://h:1892"),
            ("::1", "call://[::1]:1889"),
            ("calls://[::1]:99", "calls://[::1]:99"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), shown, "{text}");
            assert_eq!(shown.parse(), Ok(target), "{shown}");
        }
        for (wrong, told) in [
            ("mqtt://h", "not for calls"),
            ("", "no host"),
            ("me@h", "no host"),
            ("h h", "no host"),
            ("h:0", "not a port"),
            ("h:99999", "not a port"),
            ("[::1", "no ]"),
        ] {
            let why = wrong.parse::<Target>().unwrap_err();
            assert!(why.contains(told), "{wrong}: {why}");
        }
    }

    #[test]
    fn a_token_goes_over_a_network_by_tls_alone() {
        let with_token = Remote {
            token_file: Some("t".into()),
            ..remote()
        };
        let far: SocketAddr = "192.0.2.7:1889".parse().unwrap();
        let near: SocketAddr = "127.0.0.1:1889".parse().unwrap();
        let plain: Target = "h".parse().unwrap();
        let why = with_token.words_at(&plain, far, true).unwrap_err();
        assert!(why.to_string().contains("in the clear"), "{why}");
        // By the variable as well.
        assert!(remote().words_at(&plain, far, true).is_err());
        assert!(remote().words_at(&plain, far, false).is_ok());
        let words = with_token.words_at(&plain, near, true).unwrap();
        assert_eq!(words, ["-s", "127.0.0.1:1889", "--token-file", "t"]);
        let encrypted: Target = "calls://h".parse().unwrap();
        let words = with_token
            .words_at(&encrypted, far, true)
            .unwrap()
            .join(" ");
        assert_eq!(
            words,
            "-s calls://192.0.2.7:1889 --server-name h --token-file t"
        );
    }

    #[test]
    fn options_for_tls_need_it() {
        let with_authority = Remote {
            ca_file: Some("ca.pem".into()),
            ..remote()
        };
        let near: SocketAddr = "127.0.0.1:1889".parse().unwrap();
        let plain: Target = "127.0.0.1".parse().unwrap();
        let why = with_authority.words_at(&plain, near, false).unwrap_err();
        assert!(why.to_string().contains("calls://HOST:PORT"), "{why}");
        let encrypted: Target = "calls://127.0.0.1".parse().unwrap();
        let words = with_authority.words_at(&encrypted, near, false).unwrap();
        assert_eq!(
            words.join(" "),
            "-s calls://127.0.0.1:1889 --ca-file ca.pem"
        );
    }
}
