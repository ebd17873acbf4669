//! TLS between this program and a server: what `calls://` means.
//!
//! The token of a call is a password, so over a network it travels encrypted, to a server that has
//! shown a certificate for its name.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

use crate::fault::Fault;
use crate::file::regular;
use crate::platform::{Deadline, Link};

/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Room for one reading of what is encrypted.
const READ_BYTES: usize = 4096;

/// One connection's TLS state.
pub(crate) struct Tls {
    connection: ClientConnection,
    /// What the server has said and nobody has taken.
    plain: Vec<u8>,
}

impl Tls {
    /// The client's side of a handshake with a server of this name. It has not begun.
    ///
    /// # Errors
    /// When no authority is trusted, or a certificate cannot have this name.
    pub(crate) fn new(name: &str, ca_file: Option<&Path>) -> Result<Self, Fault> {
        let server = ServerName::try_from(name.to_owned()).map_err(|_| {
            Fault::Usage(format!(
                "--server-name {name}: no certificate has this name"
            ))
        })?;
        let config = config(ca_file).map_err(Fault::Usage)?;
        let mut connection = ClientConnection::new(Arc::new(config), server)
            .map_err(|error| Fault::Broken(error.to_string()))?;
        // What is sent before the end of the handshake waits: a call and its message's headers.
        connection.set_buffer_limit(None);
        Ok(Self {
            connection,
            plain: Vec::new(),
        })
    }

    /// Sends everything, to a server that has shown who it is.
    ///
    /// # Errors
    /// When the server's certificate is not good, or as those of the link.
    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        link: &Link,
        deadline: &Deadline,
    ) -> Result<(), Fault> {
        self.connection.writer().write_all(bytes).map_err(broken)?;
        self.write(link, deadline)?;
        while self.connection.is_handshaking() {
            self.take(link, deadline)?;
        }
        Ok(())
    }

    /// Waits for more bytes and puts them into `buffer`; returns how many.
    ///
    /// # Errors
    /// As those of the link, or when what comes is not TLS.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        link: &Link,
        deadline: &Deadline,
    ) -> Result<usize, Fault> {
        while self.plain.is_empty() {
            self.take(link, deadline)?;
        }
        let len = self.plain.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.plain[..len]);
        self.plain.drain(..len);
        Ok(len)
    }

    /// Takes what comes next, and answers it where a handshake wants that.
    fn take(&mut self, link: &Link, deadline: &Deadline) -> Result<(), Fault> {
        let mut input = [0; READ_BYTES];
        let received = link.receive(&mut input, deadline)?;
        let mut rest = &input[..received];
        while !rest.is_empty() {
            self.connection.read_tls(&mut rest).map_err(broken)?;
            match self.connection.process_new_packets() {
                Ok(state) => {
                    let start = self.plain.len();
                    self.plain
                        .resize(start + state.plaintext_bytes_to_read(), 0);
                    let mut reader = self.connection.reader();
                    reader
                        .read_exact(&mut self.plain[start..])
                        .map_err(broken)?;
                    if state.peer_has_closed() && self.plain.is_empty() {
                        return Err(Fault::Closed);
                    }
                }
                Err(error) => {
                    // The alert: without it, the server's log does not say what is wrong.
                    let _ = self.write(link, deadline);
                    return Err(Fault::Unreachable(explain(&error)));
                }
            }
        }
        self.write(link, deadline)
    }

    fn write(&mut self, link: &Link, deadline: &Deadline) -> Result<(), Fault> {
        let mut out = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut out).map_err(broken)?;
        }
        link.send(&out, None, deadline)
    }
}

fn broken(error: io::Error) -> Fault {
    Fault::Broken(error.to_string())
}

/// The authorities of that file, or those of the system.
fn config(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let system = || {
        let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let mut files = named.into_iter().chain(SYSTEM_FILES.map(PathBuf::from));
        files.find(|file| file.exists())
    };
    let file = ca_file.map(Path::to_owned).or_else(system);
    let file = file.ok_or("this system trusts no authorities; name a file of them by --ca-file")?;
    let shown = file.display();
    let pem = regular(&file).and_then(std::fs::read);
    let pem = pem.map_err(|error| format!("--ca-file {shown}: {error}"))?;
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("--ca-file {shown}: {error}"))?;
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(certificates);
    if taken == 0 {
        return Err(format!(
            "--ca-file {shown}: it holds no certificate of an authority"
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// What went wrong, in words that help.
fn explain(error: &Error) -> String {
    match error {
        Error::InvalidMessage(_) => {
            "the server does not speak TLS there; is it a listener call://?".to_owned()
        }
        Error::InvalidCertificate(error) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the server's certificate is signed by no authority that is trusted here; name \
                 the authority's file by --ca-file"
                    .to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the server's certificate is for another name; give the name that it has by \
                 --server-name"
                    .to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired".to_owned()
            }
            other => format!("the server's certificate is not valid: {other:?}"),
        },
        other => format!("TLS with the server failed: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_authorities_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        for (file, told) in [
            (folder.path().join("missing.pem"), "missing.pem"),
            (empty, "holds no certificate of an authority"),
            (folder.path().to_owned(), "not a regular file"),
        ] {
            let reason = config(Some(&file)).expect_err("no authority");
            assert!(reason.contains(told), "{reason}");
        }
    }

    #[test]
    fn a_name_that_no_certificate_has_is_refused() {
        let fault = Tls::new("a b", None).err().expect("no name");
        assert!(matches!(fault, Fault::Usage(_)), "{fault}");
    }
}
