//! The authorities that are trusted about servers at `https://`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs;
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

use super::Raw;

/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

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
        let config = read(file)?;
        let trust = Self::default();
        // It is empty until here.
        let _ = trust.0.set(Ok(config));
        Ok(trust)
    }

    fn config(&self) -> io::Result<Arc<ClientConfig>> {
        let read = self.0.get_or_init(|| {
            let mut files = SYSTEM_FILES.iter().map(PathBuf::from);
            match files.find(|file| file.exists()) {
                Some(file) => read(&file),
                None => Err("this system trusts no authorities; name a file of them \
                             (procedures.ca_file)"
                    .to_owned()),
            }
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

fn read(file: &Path) -> Result<Arc<ClientConfig>, String> {
    let shown = file.display();
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| format!("cannot read the authorities in {shown}: {error}"))?;
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(certificates);
    if taken == 0 {
        return Err(format!("{shown} holds no certificate of an authority"));
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}

/// What is wrong with a server's certificate, if an error means that, in words that help.
pub(super) fn explain(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref());
    let text = match cause {
        Some(Error::InvalidCertificate(error)) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is signed by no authority that is trusted here \
                 (procedures.ca_file)"
                    .to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name".to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet".to_owned()
            }
            other => format!("its certificate is not valid: {other:?}"),
        },
        Some(Error::InvalidMessage(_)) => "it does not speak TLS; is it http://?".to_owned(),
        _ => return error,
    };
    io::Error::other(text)
}
