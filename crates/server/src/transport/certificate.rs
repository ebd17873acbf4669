//! Certificates of encrypted listeners.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, Error, OtherError, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{Error as PemError, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::public_key::PublicKey;

use super::chains::ShortChains;
use super::pem;

/// A certificate chain with its key, ready for handshakes. Connections keep what they began with;
/// a reload gives the next ones another.
///
/// Two are equal when their files held the same.
#[derive(Clone)]
pub(crate) struct Certificate {
    config: Arc<ServerConfig>,
    /// The chain, then the certificates that those of clients must be signed by. A key that fits
    /// the chain is not another one.
    read: Arc<[CertificateDer<'static>]>,
    /// How many of them are the chain.
    chain_len: usize,
    /// Where all that was read.
    files: Arc<Files>,
    /// When the chain's first certificate expires, in seconds since 1970.
    expires_at: Option<i64>,
    /// The bits of its key, if that is an RSA key.
    rsa_bits: Option<usize>,
}

/// The files of a certificate.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The authorities that sign certificates of clients.
    pub(crate) clients: Option<(Demand, PathBuf)>,
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.read == other.read
    }
}

impl Eq for Certificate {}

/// Whether clients must show certificates of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// They may.
    Optional,
    /// They must.
    Required,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

impl Certificate {
    /// Reads a chain and its key from PEM files, and the certificates that those of clients must
    /// be signed by.
    ///
    /// # Errors
    /// A sentence that names the file, what is wrong and what to do.
    pub(crate) fn load(
        certificate: &Path,
        key: &Path,
        clients: Option<(Demand, &Path)>,
    ) -> Result<Self, String> {
        let chain = certificates(certificate)?;
        if chain.is_empty() {
            return Err(format!(
                "{} holds no certificate; it must be a PEM file with BEGIN CERTIFICATE",
                certificate.display()
            ));
        }
        let private =
            PrivateKeyDer::from_pem_slice(&pem::read(key)?).map_err(|error| match error {
                PemError::NoItemsFound => format!(
                    "{} holds no private key; it must be a PEM file with BEGIN PRIVATE KEY",
                    key.display()
                ),
                error => no_pem(key, &error),
            })?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain_len = chain.len();
        let expires_at = chain.first().and_then(|first| expiry(first));
        let rsa_bits = chain.first().and_then(|first| rsa_bits(first));
        let mut read = chain.clone();
        let files = Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            clients: clients.map(|(demand, ca)| (demand, ca.to_owned())),
        };
        let verifier = match clients {
            Some((demand, ca)) => {
                let authorities = certificates(ca)?;
                read.extend_from_slice(&authorities);
                client_verifier(demand, ca, authorities, &provider)?
            }
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, private)
            .map_err(|error| match error {
                Error::InvalidCertificate(error) if is_old(&error) => {
                    format!("{}: {OLD_VERSION}", certificate.display())
                }
                Error::InvalidCertificate(error) => format!(
                    "{} is not a certificate that can be used ({error}); create a new one",
                    certificate.display()
                ),
                error => format!(
                    "{} and {} do not fit together ({error}); give the key that the certificate \
                     was made with",
                    certificate.display(),
                    key.display()
                ),
            })?;
        Ok(Self {
            config: Arc::new(config),
            chain_len: chain_len.min(read.len()),
            read: read.into(),
            files: Arc::new(files),
            expires_at,
            rsa_bits,
        })
    }

    /// The chain, the server's own certificate first, and the authorities of clients.
    pub(crate) fn parts(&self) -> (&[CertificateDer<'static>], &[CertificateDer<'static>]) {
        self.read.split_at(self.chain_len)
    }

    /// The files that it comes from.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// What its files hold now. It waits for the disk.
    ///
    /// # Errors
    /// The same as those of [`Certificate::load`].
    pub(crate) fn read_again(&self) -> Result<Self, String> {
        let files = &*self.files;
        let clients = files.clients.as_ref();
        let clients = clients.map(|(demand, ca)| (*demand, ca.as_path()));
        Self::load(&files.certificate, &files.key, clients)
    }

    /// When it expires, in seconds since 1970; `None` if that cannot be read.
    pub(crate) const fn expires_at(&self) -> Option<i64> {
        self.expires_at
    }

    /// The bits of its RSA key, if each handshake with it takes several milliseconds of a shard.
    pub(crate) fn slow_rsa_bits(&self) -> Option<usize> {
        self.rsa_bits.filter(|bits| *bits > RSA_BITS_MAX)
    }

    /// The settings of a connection that begins.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

/// With an RSA key of this size, a handshake takes most of a millisecond. It takes five with twice
/// the bits.
const RSA_BITS_MAX: usize = 2_048;

/// The bits of an RSA key.
fn rsa_bits(certificate: &[u8]) -> Option<usize> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    match parsed.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => Some(key.key_size()),
        _ => None,
    }
}

/// When a certificate expires, in seconds since 1970.
fn expiry(certificate: &[u8]) -> Option<i64> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

/// Checks the certificates of clients.
fn client_verifier(
    demand: Demand,
    ca: &Path,
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities {
        roots.add(certificate).map_err(|error| match error {
            Error::InvalidCertificate(error) if is_old(&error) => {
                format!("{}: {OLD_VERSION}", ca.display())
            }
            error => format!(
                "{} holds a certificate that cannot sign others ({error}); give the certificate \
                 of the authority that signs clients' ones",
                ca.display()
            ),
        })?;
    }
    if roots.is_empty() {
        return Err(format!(
            "{} holds no certificate; it must be a PEM file with BEGIN CERTIFICATE",
            ca.display()
        ));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
    let builder = match demand {
        Demand::Optional => builder.allow_unauthenticated(),
        Demand::Required => builder,
    };
    let verifier = builder.build();
    let verifier = verifier.map_err(|error| format!("{}: {error}", ca.display()))?;
    Ok(Arc::new(ShortChains(verifier)))
}

/// What is said about a certificate of an old version.
pub(super) const OLD_VERSION: &str = "the certificate has X.509 version 1, which TLS does not take \
    any more; make one of version 3, for example with `openssl req -x509 -addext \
    subjectAltName=DNS:NAME`, or with `-extfile` where an authority signs it";

/// Whether a certificate is refused for its version.
pub(super) fn is_old(error: &CertificateError) -> bool {
    let CertificateError::Other(OtherError(error)) = error else {
        return false;
    };
    // What checks certificates has a name for it that is not part of what this crate sees.
    format!("{error:?}").contains("UnsupportedCertVersion")
}

/// The certificates in a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = pem::read(path)?;
    let all: Result<_, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    all.map_err(|error| no_pem(path, &error))
}

fn no_pem(path: &Path, error: &PemError) -> String {
    format!("{} is not a valid PEM file ({error:?})", path.display())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A certificate for `localhost`, made for one test: (folder, chain file, key file).
    pub(crate) fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (chain, key) = (
            folder.path().join("server.crt"),
            folder.path().join("server.key"),
        );
        std::fs::write(&chain, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (folder, chain, key)
    }

    #[test]
    fn knows_long_rsa_keys() {
        let bits = |key: &rcgen::KeyPair| {
            let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
            let made = params.self_signed(key).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let (chain, private) = (folder.path().join("c"), folder.path().join("k"));
            std::fs::write(&chain, made.pem()).unwrap();
            std::fs::write(&private, key.serialize_pem()).unwrap();
            let loaded = Certificate::load(&chain, &private, None).unwrap();
            loaded.slow_rsa_bits()
        };
        let rsa = |size| rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size).unwrap();
        assert_eq!(bits(&rcgen::KeyPair::generate().unwrap()), None);
        assert_eq!(bits(&rsa(rcgen::RsaKeySize::_2048)), None);
        assert_eq!(bits(&rsa(rcgen::RsaKeySize::_3072)), Some(3_072));
    }

    #[test]
    fn says_which_file_is_wrong() {
        let (folder, chain, key) = files();
        let loaded = Certificate::load(&chain, &key, None).unwrap();
        assert!(loaded.expires_at() > Some(1_700_000_000));
        let missing = folder.path().join("missing");
        let error = Certificate::load(&missing, &key, None).unwrap_err();
        assert!(
            error.contains("cannot read") && error.contains("missing"),
            "{error}"
        );
        let error = Certificate::load(&key, &key, None).unwrap_err();
        assert!(error.contains("holds no certificate"), "{error}");
        let error = Certificate::load(&chain, &chain, None).unwrap_err();
        assert!(error.contains("holds no private key"), "{error}");
        let (_other_folder, _, other_key) = files();
        let error = Certificate::load(&chain, &other_key, None).unwrap_err();
        assert!(error.contains("do not fit together"), "{error}");
    }
}
