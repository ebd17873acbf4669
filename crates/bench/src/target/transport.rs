//! What carries MQTT to a server that is started here.

use std::fs;
use std::path::{Path, PathBuf};

use stentor_client::{Scheme, Url};

use crate::error::{BenchError, Doing};

/// The certificate and its key, in a server's folder.
pub(super) const CERTIFICATE_FILES: (&str, &str) = ("server.crt", "server.key");

/// As `--transport` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Transport {
    /// TCP
    Mqtt,
    /// TLS over TCP
    Mqtts,
    /// WebSocket
    Ws,
    /// WebSocket over TLS
    Wss,
    /// A Unix socket
    Unix,
}

impl Transport {
    /// As on the command line.
    pub(crate) const fn as_str(self) -> &'static str {
        self.scheme().as_str()
    }

    const fn scheme(self) -> Scheme {
        match self {
            Self::Mqtt => Scheme::Mqtt,
            Self::Mqtts => Scheme::Mqtts,
            Self::Ws => Scheme::Ws,
            Self::Wss => Scheme::Wss,
            Self::Unix => Scheme::Unix,
        }
    }

    /// As titles show it.
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Mqtt => "TCP",
            Self::Mqtts => "TLS",
            Self::Ws => "WebSocket",
            Self::Wss => "WebSocket over TLS",
            Self::Unix => "a Unix socket",
        }
    }

    /// Makes what a server needs for it: a certificate and its key, or nothing.
    ///
    /// # Errors
    /// When they cannot be made.
    pub(super) fn make_files(self, folder: &Path) -> Result<(), BenchError> {
        if self.scheme().is_secure() {
            make_certificate(folder)?;
        }
        Ok(())
    }

    /// Where a server listens that was told this port, or the socket in this folder.
    pub(super) fn url(self, folder: &Path, port: u16) -> Url {
        match self {
            Self::Unix => Url::unix(folder.join("mqtt.sock").display().to_string()),
            _ => Url {
                scheme: self.scheme(),
                path: match self {
                    Self::Ws | Self::Wss => "/mqtt".into(),
                    Self::Mqtt | Self::Mqtts | Self::Unix => String::new(),
                },
                ..Url::tcp("127.0.0.1", port)
            },
        }
    }

    /// The options of our own server that open such a listener, with files in its folder.
    ///
    /// # Errors
    /// When a certificate is needed and cannot be made.
    pub(super) fn options(self, folder: &Path) -> Result<Vec<String>, BenchError> {
        let url = match self {
            Self::Unix => format!("unix:{}", folder.join("mqtt.sock").display()),
            _ => format!("{}://127.0.0.1:0", self.as_str()),
        };
        let mut options = vec!["--listen".into(), url];
        self.make_files(folder)?;
        if self.scheme().is_secure() {
            let (certificate, key) = CERTIFICATE_FILES;
            for (option, file) in [("--tls-certificate", certificate), ("--tls-key", key)] {
                let file = folder.join(file).display().to_string();
                options.extend([option.to_owned(), file]);
            }
        }
        Ok(options)
    }
}

/// The certificate of a server that was started in that folder, if it has one.
pub(super) fn certificate(folder: &Path) -> Option<PathBuf> {
    let file = folder.join(CERTIFICATE_FILES.0);
    file.is_file().then_some(file)
}

/// A certificate for this machine, for one run.
fn make_certificate(folder: &Path) -> Result<(), BenchError> {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|e| BenchError::server(format!("cannot make a certificate: {e}")))?;
    let (certificate, key) = CERTIFICATE_FILES;
    fs::write(folder.join(certificate), made.cert.pem()).doing("write a certificate")?;
    fs::write(folder.join(key), made.signing_key.serialize_pem()).doing("write a key")
}
