//! Certificates for one test: an authority and what it signs.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

/// An authority in a folder, with a certificate for `localhost` and 127.0.0.1.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    /// Makes an authority in that folder and signs a first certificate.
    ///
    /// # Panics
    /// If the folder cannot be written.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "Stentor test authority");
        let key = KeyPair::generate().expect("a key can be made");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority can be made");
        let certificates = Self {
            folder: folder.to_owned(),
            issuer,
        };
        fs::write(certificates.authority(), certificates.issuer.pem())
            .expect("the folder of certificates can be written");
        certificates.renew();
        certificates
    }

    /// Signs a new certificate with a new key over the old one, and returns its DER bytes.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn renew(&self) -> Vec<u8> {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).expect("the names are well-formed");
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("a certificate is signed");
        fs::write(self.key(), key.serialize_pem()).expect("a key can be written");
        fs::write(self.certificate(), certificate.pem()).expect("a certificate can be written");
        certificate.der().to_vec()
    }

    /// Signs a certificate for a client of that name; returns its file and that of its key.
    ///
    /// # Panics
    /// If the folder cannot be written.
    #[must_use]
    pub fn client(&self, name: &str) -> (PathBuf, PathBuf) {
        self.client_known_as(name, Vec::new())
    }

    /// The same, with alternative names.
    ///
    /// # Panics
    /// If the folder cannot be written.
    #[must_use]
    pub fn client_known_as(&self, name: &str, others: Vec<SanType>) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = others;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("a certificate is signed");
        let file = name.replace('/', "-");
        let place = |end: &str| self.folder.join(format!("client-{file}.{end}"));
        fs::write(place("crt"), certificate.pem()).expect("a certificate can be written");
        fs::write(place("key"), key.serialize_pem()).expect("a key can be written");
        (place("crt"), place("key"))
    }

    /// The authority's own certificate: what clients trust.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The server's certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("server.crt")
    }

    /// The server's private key.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.folder.join("server.key")
    }
}
