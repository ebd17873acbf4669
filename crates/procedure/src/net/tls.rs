//! The authorities that are trusted about servers at `https://`.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, ClientConnection, Error, StreamOwned};
use rustls_pki_types::ServerName;
use stentor_trust::Flaw;

use super::Raw;

/// The authorities whose certificates are believed. Those of the system are read when they are
/// needed first.
#[derive(Clone, Default)]
pub struct Trust(Arc<OnceLock<Result<Arc<ClientConfig>, String>>>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trust").finish_non_exhaustive()
    }
}

impl Trust {
    /// The authorities in a file, in PEM format, and no others.
    ///
    /// # Errors
    /// When it cannot be read, or has none.
    pub fn of_file(file: &Path) -> Result<Self, String> {
        let config = stentor_trust::config(file)?;
        let trust = Self::default();
        // It is empty until here.
        let _ = trust.0.set(Ok(Arc::new(config)));
        Ok(trust)
    }

    fn config(&self) -> io::Result<Arc<ClientConfig>> {
        let read = self.0.get_or_init(|| {
            let file = stentor_trust::system_file().ok_or_else(|| {
                let nobody = stentor_trust::NOBODY;
                format!("{nobody}; name a file of them (procedures.ca_file)")
            })?;
            stentor_trust::config(&file).map(Arc::new)
        });
        read.clone().map_err(io::Error::other)
    }

    /// TLS on a connection to a host; the handshake happens with the first bytes.
    ///
    /// # Errors
    /// When there are no authorities, or the host has no name that a certificate could have.
    pub(super) fn wrap(
        &self,
        raw: Raw,
        host: &str,
    ) -> io::Result<StreamOwned<ClientConnection, Raw>> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| io::Error::other(format!("a certificate cannot name the host {host}")))?;
        let connection = ClientConnection::new(self.config()?, name);
        let connection = connection.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(StreamOwned::new(connection, raw))
    }
}

/// What is wrong with a server's certificate, if an error means that, in words that help.
pub(super) fn explain(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref());
    let text = match cause {
        Some(Error::InvalidCertificate(error)) => match Flaw::from(error) {
            flaw @ Flaw::Unsigned => format!("its certificate {flaw} (procedures.ca_file)"),
            flaw => format!("its certificate {flaw}"),
        },
        Some(Error::InvalidMessage(_)) => "it does not speak TLS; is it http://?".to_owned(),
        _ => return error,
    };
    io::Error::other(text)
}
