//! How many certificates a client may send.
//!
//! A check of signatures tries each certificate as the issuer of each other one, and a client can
//! make many that all look like its issuer: a hundred took a shard 8 to 18 ms, before any login.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

/// Certificates between that of a client and that of the authority, at most. Each of them may be
/// the issuer of each other one: with three, there are up to 15 ways, and some 30 signatures.
pub(super) const BETWEEN_MAX: usize = 3;

/// Refuses longer chains, and has others checked by the inner one.
#[derive(Debug)]
pub(super) struct ShortChains(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for ShortChains {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if intermediates.len() > BETWEEN_MAX {
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        }
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes every certificate.
    #[derive(Debug)]
    struct All;

    impl ClientCertVerifier for All {
        fn root_hint_subjects(&self) -> &[DistinguishedName] {
            &[]
        }

        fn verify_client_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: UnixTime,
        ) -> Result<ClientCertVerified, Error> {
            Ok(ClientCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }

    #[test]
    fn long_chains_are_refused_before_any_signature_is_checked() {
        let verifier = ShortChains(Arc::new(All));
        let of = |between: usize| {
            let certificate = CertificateDer::from(vec![0x30, 0]);
            let chain = vec![certificate.clone(); between];
            verifier.verify_client_cert(&certificate, &chain, UnixTime::now())
        };
        assert!(of(BETWEEN_MAX).is_ok());
        let refused = of(BETWEEN_MAX + 1).unwrap_err();
        let why = CertificateError::UnknownIssuer;
        assert_eq!(refused, Error::InvalidCertificate(why));
    }
}
