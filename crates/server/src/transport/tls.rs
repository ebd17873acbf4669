//! TLS: rustls between socket bytes and the layer above.

use std::borrow::Cow;
use std::fmt;
use std::io::{Read, Write};

use rustls::crypto::aws_lc_rs;
use rustls::{AlertDescription, CertificateError, Error, ServerConnection};
use stentor_session::{CloseReason, Violation};

use super::certificate::{OLD_VERSION, is_old};
use super::records::Records;
use super::{Certificate, Fault, Pending};

/// What rustls keeps of a connection beside its buffers, about: keys, and who was asked for.
const STATE_BYTES: usize = 2 * 1024;

/// One connection's TLS state. The size of what waits inside is bounded by what one read brings
/// and one batch holds, since both are emptied right away.
pub(crate) struct Tls {
    connection: ServerConnection,
    /// What the connection keeps of what it was given.
    records: Records,
    pending: Pending,
    /// Why the handshake failed, or the connection broke.
    fault: Option<Box<Fault>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

/// Has the calling thread gather the randomness that handshakes need. The first time, a thread
/// takes some 100 ms for it: longer than clients may be kept waiting by the first handshake.
pub(super) fn gather_randomness() {
    // Without randomness the handshakes will fail, and say so.
    let _ = aws_lc_rs::default_provider().secure_random.fill(&mut [0]);
}

const BROKEN: CloseReason = CloseReason::Violation(Violation::Tls);

impl Tls {
    /// The server's side of a handshake that has not begun.
    ///
    /// # Errors
    /// When rustls refuses the configuration.
    pub(crate) fn accept(certificate: &Certificate) -> Result<Self, CloseReason> {
        let mut connection = ServerConnection::new(certificate.config())
            .map_err(|_| CloseReason::Bug("TLS configuration refused"))?;
        // Batches are bounded by the hub; a bound here would cut them in two.
        connection.set_buffer_limit(None);
        Ok(Self {
            connection,
            records: Records::default(),
            pending: Pending::default(),
            fault: None,
        })
    }

    /// Takes records and appends what they hold to `plain`.
    ///
    /// # Errors
    /// When the handshake fails or a record is broken; an alert is pending then.
    pub(crate) fn receive(
        &mut self,
        mut input: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<(), CloseReason> {
        let mut result = Ok(());
        while !input.is_empty() && result.is_ok() {
            // Reading from a slice cannot fail; refusing it means that a buffer is full.
            let before = input;
            match self.connection.read_tls(&mut input) {
                Ok(len @ 1..) => self.records.passed(&before[..len], self.is_handshaking()),
                _ => {
                    result = Err(BROKEN);
                    break;
                }
            }
            match self.connection.process_new_packets() {
                Ok(state) => {
                    let start = plain.len();
                    plain.resize(start + state.plaintext_bytes_to_read(), 0);
                    if self
                        .connection
                        .reader()
                        .read_exact(&mut plain[start..])
                        .is_err()
                    {
                        result = Err(BROKEN);
                    }
                }
                Err(error) => {
                    self.fault = Some(Box::new(Fault::Said(explain(&error))));
                    result = Err(BROKEN);
                }
            }
        }
        self.collect();
        result
    }

    /// Bytes of memory that it holds beside itself, about: rustls does not tell what it keeps.
    pub(super) const fn heap_bytes(&self) -> usize {
        STATE_BYTES + self.received_bytes() + self.pending.heap_bytes()
    }

    /// The same of its buffer for records.
    pub(super) const fn received_bytes(&self) -> usize {
        self.records.buffer_bytes()
    }

    /// Whether keys are still to be agreed on.
    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the client has not been told anything yet.
    pub(super) fn is_unanswered(&self) -> bool {
        // The first answer says which was chosen.
        self.connection.negotiated_cipher_suite().is_none()
    }

    /// What was wrong, if something was.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.as_deref()
    }

    /// The client's own certificate, once the handshake is done.
    pub(super) fn client_certificate(&self) -> Option<&[u8]> {
        let chain = self.connection.peer_certificates()?;
        chain.first().map(AsRef::as_ref)
    }

    /// Encrypts bytes. Before the end of the handshake they wait inside.
    pub(crate) fn send<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        for piece in pieces {
            // Writing into memory without a bound does not fail.
            let _ = self.connection.writer().write_all(piece);
        }
        self.collect();
    }

    /// Says that nothing more comes.
    pub(crate) fn close(&mut self) {
        self.connection.send_close_notify();
        self.collect();
    }

    fn collect(&mut self) {
        while self.connection.wants_write() {
            if self.connection.write_tls(self.pending.bytes_mut()).is_err() {
                return;
            }
        }
    }

    pub(crate) fn pending(&self) -> &[u8] {
        self.pending.as_slice()
    }

    pub(crate) fn forget(&mut self, written: usize) {
        self.pending.forget(written);
    }
}

/// What went wrong, as the operator can use it.
fn explain(error: &Error) -> Cow<'static, str> {
    let remedy = match error {
        Error::InvalidMessage(_) => {
            "the client does not speak TLS, or something else does; plain MQTT has a listener \
             mqtt://, plain WebSocket one of ws://"
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            // An authority of the right name with another key.
            | AlertDescription::DecryptError
            | AlertDescription::UnsupportedCertificate,
        ) => {
            "the client does not accept this server's certificate: give it the authority that \
             signed it (--cafile, of stentor-call --ca-file), and compare names and dates"
        }
        Error::NoCertificatesPresented => {
            "the client showed no certificate; give it one (--cert and --key), or set \
             `client_certificates = \"optional\"`"
        }
        Error::InvalidCertificate(error) if is_old(error) => return OLD_VERSION.into(),
        // An authority of the same name with another key is none that is known.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "the client's certificate must be signed by an authority in `client_ca`",
        Error::InvalidCertificate(_) => "the client's certificate is not valid; give it another",
        Error::PeerIncompatible(_) => {
            "the client knows no version of TLS or no cipher that is spoken here: TLS 1.2 or 1.3"
        }
        _ => return error.to_string().into(),
    };
    format!("{error}; {remedy}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Demand;
    use crate::transport::certificate::tests::files;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::sync::Arc;

    fn pair() -> (ClientConnection, Tls) {
        let (_folder, chain, key) = files();
        let server = Tls::accept(&Certificate::load(&chain, &key, None).unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&chain).unwrap())
            .unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        (
            ClientConnection::new(Arc::new(config), name).unwrap(),
            server,
        )
    }

    /// Carries bytes both ways, `step` at a time, until nobody has any.
    fn exchange(
        client: &mut ClientConnection,
        server: &mut Tls,
        step: usize,
    ) -> (Vec<u8>, Vec<u8>) {
        let mut plain = Vec::new();
        let mut decrypted = Vec::new();
        loop {
            let mut to_server = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut to_server).unwrap();
            }
            for piece in to_server.chunks(step) {
                server.receive(piece, &mut plain).unwrap();
            }
            let mut to_client = server.pending();
            let len = to_client.len();
            while !to_client.is_empty() {
                client.read_tls(&mut to_client).unwrap();
                let len = client
                    .process_new_packets()
                    .unwrap()
                    .plaintext_bytes_to_read();
                let start = decrypted.len();
                decrypted.resize(start + len, 0);
                client.reader().read_exact(&mut decrypted[start..]).unwrap();
            }
            server.forget(len);
            if to_server.is_empty() && len == 0 {
                return (plain, decrypted);
            }
        }
    }

    #[test]
    fn bytes_pass_both_ways_in_any_pieces() {
        for step in [1, 7, 100_000] {
            let (mut client, mut server) = pair();
            let message: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
            exchange(&mut client, &mut server, step);
            client.set_buffer_limit(None);
            client.writer().write_all(&message).unwrap();
            assert!(exchange(&mut client, &mut server, step).0 == message);
            server.send([&message[..60_000], &message[60_000..]]);
            assert!(exchange(&mut client, &mut server, step).1 == message);
            assert!(server.pending().is_empty());
        }
    }

    #[test]
    fn what_is_no_tls_is_answered_with_an_alert() {
        let (_, mut server) = pair();
        let mut plain = Vec::new();
        let connect = b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0";
        assert_eq!(server.receive(connect, &mut plain), Err(BROKEN));
        assert!(plain.is_empty());
        assert_eq!(server.pending().first(), Some(&0x15));
    }

    /// An authority with a certificate that it has signed for a client called `ann`: the file of
    /// the authority, and the client's chain and key.
    fn authority(
        folder: &std::path::Path,
    ) -> (std::path::PathBuf, CertificateDer<'static>, rcgen::KeyPair) {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let issuer = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
        let file = folder.join("clients-ca.crt");
        std::fs::write(&file, issuer.pem()).unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "ann");
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (file, certificate.der().clone(), key)
    }

    /// What a server that makes this demand gets from a client that shows this: whether the
    /// handshake succeeds, and the certificate that it knows then.
    fn shown(demand: Demand, shows: Option<bool>) -> (bool, Option<Vec<u8>>) {
        let (folder, chain, key) = files();
        let (ca, certificate, client_key) = authority(folder.path());
        let other = tempfile::tempdir().unwrap();
        let (_, strange, strange_key) = authority(other.path());
        let loaded = Certificate::load(&chain, &key, Some((demand, &ca))).unwrap();
        let mut server = Tls::accept(&loaded).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&chain).unwrap())
            .unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let der = |key: rcgen::KeyPair| key.serialize_der().try_into().unwrap();
        let config = match shows {
            None => builder.with_no_client_auth(),
            Some(true) => builder
                .with_client_auth_cert(vec![certificate], der(client_key))
                .unwrap(),
            Some(false) => builder
                .with_client_auth_cert(vec![strange], der(strange_key))
                .unwrap(),
        };
        let name = "localhost".try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut accepted = true;
        while accepted && server.connection.is_handshaking() {
            let mut to_server = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut to_server).unwrap();
            }
            accepted = server.receive(&to_server, &mut Vec::new()).is_ok();
            let mut to_client = server.pending();
            while !to_client.is_empty() {
                client.read_tls(&mut to_client).unwrap();
                accepted &= client.process_new_packets().is_ok();
            }
            let len = server.pending().len();
            server.forget(len);
        }
        (accepted, server.client_certificate().map(<[u8]>::to_vec))
    }

    #[test]
    fn clients_show_certificates_of_the_right_authority_or_none() {
        use stentor_auth::credential::certificate::{NameSource, user_name};
        for demand in [Demand::Optional, Demand::Required] {
            let (accepted, certificate) = shown(demand, Some(true));
            assert!(accepted);
            let name = user_name(&certificate.unwrap(), NameSource::CommonName);
            assert_eq!(name.as_deref(), Ok("ann"));
            assert!(!shown(demand, Some(false)).0);
        }
        assert_eq!(shown(Demand::Optional, None), (true, None));
        assert!(!shown(Demand::Required, None).0);
    }
}
