//! TLS between this program and a server: what `calls://` means.
//!
//! The token of a call is a password, so over a network it travels encrypted, to a server that has
//! shown a certificate for its name.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, Error};
use rustls_pki_types::ServerName;
use stentor_call::{Cipher, Fault, regular};
use stentor_trust::Flaw;

/// One connection's TLS state.
#[derive(Debug)]
pub(crate) struct Tls(ClientConnection);

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
        Ok(Self(connection))
    }
}

impl Cipher for Tls {
    fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    fn encrypt(&mut self, plain: &[u8]) -> Result<(), Fault> {
        self.0.writer().write_all(plain).map_err(broken)
    }

    fn take_pending(&mut self) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut out).map_err(broken)?;
        }
        Ok(out)
    }

    fn decrypt(&mut self, mut received: &[u8], plain: &mut Vec<u8>) -> Result<(), Fault> {
        while !received.is_empty() {
            self.0.read_tls(&mut received).map_err(broken)?;
            let state = self.0.process_new_packets();
            let state = state.map_err(|error| Fault::Unreachable(explain(&error)))?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            let mut reader = self.0.reader();
            reader.read_exact(&mut plain[start..]).map_err(broken)?;
            if state.peer_has_closed() && plain.is_empty() {
                return Err(Fault::Closed);
            }
        }
        Ok(())
    }
}

fn broken(error: io::Error) -> Fault {
    Fault::Broken(error.to_string())
}

/// Trust in the authorities of that file, or in those of the system.
fn config(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let read = |file: &Path| {
        // A pipe may be waited for beyond the deadline.
        regular(file).map_err(|error| format!("{}: {error}", file.display()))?;
        stentor_trust::config(file)
    };
    match ca_file {
        Some(file) => read(file).map_err(|reason| format!("--ca-file: {reason}")),
        None => stentor_trust::system_file()
            .ok_or_else(|| stentor_trust::NOBODY.to_owned())
            .and_then(|file| read(&file))
            .map_err(|reason| format!("{reason}; name a file of authorities by --ca-file")),
    }
}

/// What went wrong, in words that help.
fn explain(error: &Error) -> String {
    match error {
        Error::InvalidMessage(_) => {
            "the server does not speak TLS there; is it a listener call://?".to_owned()
        }
        Error::InvalidCertificate(error) => {
            let flaw = Flaw::from(error);
            let remedy = match flaw {
                Flaw::Unsigned => "; name the authority's file by --ca-file",
                Flaw::OtherName(_) => "; give a name that it has by --server-name",
                Flaw::Early => "; compare the clocks",
                Flaw::Nameless
                | Flaw::Expired
                | Flaw::Authority
                | Flaw::Old
                | Flaw::OtherPurpose
                | Flaw::Other(_) => "",
            };
            format!("the server's certificate {flaw}{remedy}")
        }
        other => format!("TLS with the server failed: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named_by_the_option_that_named_it() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        for (file, told) in [
            (folder.path().join("missing.pem"), "missing.pem"),
            (empty, "holds no certificate of an authority"),
            (folder.path().to_owned(), "not a regular file"),
        ] {
            let reason = config(Some(&file)).expect_err("no authority");
            assert!(reason.starts_with("--ca-file: "), "{reason}");
            assert!(reason.contains(told), "{reason}");
        }
    }

    #[test]
    fn a_name_that_no_certificate_has_is_refused() {
        let fault = Tls::new("a b", None).expect_err("no name");
        assert!(matches!(fault, Fault::Usage(_)), "{fault}");
    }
}
