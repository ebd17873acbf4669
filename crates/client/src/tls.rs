//! TLS: whom to trust, and the connection itself.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::error::ClientError;
use crate::options::{TlsOptions, TlsVersion};

/// A TLS connection.
pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Wraps a connected socket; the handshake happens with the first bytes.
pub(crate) fn wrap(
    socket: TcpStream,
    host: &str,
    options: &TlsOptions,
) -> Result<TlsStream, ClientError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| ClientError::Tls(format!("{host:?} is not a host name")))?;
    let connection = ClientConnection::new(Arc::new(config(options)?), name)
        .map_err(|e| ClientError::Tls(e.to_string()))?;
    Ok(StreamOwned::new(connection, socket))
}

/// What a TLS client needs that trusts, proves and speaks as the options say.
///
/// # Errors
/// When nothing is trusted, or a file cannot be used.
pub fn config(options: &TlsOptions) -> Result<ClientConfig, ClientError> {
    let failed = |e: Error| ClientError::Tls(e.to_string());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (trusted, roots) = trusted(options.ca_file.as_deref())?;
    let chains =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|e| ClientError::Tls(e.to_string()))?;
    let verifier = Verifier {
        chains,
        // What the system trusts are authorities; a file may name a server's own certificate.
        named: options
            .ca_file
            .as_ref()
            .map(|_| trusted)
            .unwrap_or_default(),
        accept_any_name: options.accept_any_name,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(options.version))
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let Some((chain_file, key_file)) = &options.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates(chain_file)?;
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|e| ClientError::Tls(format!("cannot read {}: {e}", key_file.display())))?;
    builder.with_client_auth_cert(chain, key).map_err(failed)
}

fn versions(version: Option<TlsVersion>) -> Vec<&'static rustls::SupportedProtocolVersion> {
    match version {
        None => rustls::DEFAULT_VERSIONS.to_vec(),
        Some(TlsVersion::V12) => vec![&rustls::version::TLS12],
        Some(TlsVersion::V13) => vec![&rustls::version::TLS13],
    }
}

/// The certificates to trust, and the authorities among them; at least one is fit for it.
fn trusted(
    file: Option<&Path>,
) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), ClientError> {
    let place = file.map(Path::to_owned).or_else(stentor_trust::system_file);
    let place = place.ok_or_else(|| {
        let nobody = stentor_trust::NOBODY;
        ClientError::Tls(format!("{nobody}; name a file of them"))
    })?;
    let mut trusted = Vec::new();
    for file in files(&place)? {
        trusted.append(&mut certificates(&file)?);
    }
    let roots = stentor_trust::authorities(trusted.iter().cloned(), &place);
    Ok((trusted, roots.map_err(ClientError::Tls)?))
}

/// The files of a folder in order, or the one file.
fn files(place: &Path) -> Result<Vec<PathBuf>, ClientError> {
    if !place.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let failed = |e| ClientError::Tls(format!("cannot read {}: {e}", place.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(place).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    stentor_trust::certificates(file).map_err(ClientError::Tls)
}

/// Decides whether the server is who it should be.
#[derive(Debug)]
struct Verifier {
    /// Follows the server's certificate to an authority.
    chains: Arc<WebPkiServerVerifier>,
    /// Certificates that the user named. A server that shows one of them needs no authority: a
    /// self-signed certificate has no authority, and is still the one that is meant.
    named: Vec<CertificateDer<'static>>,
    /// Verifies everything but the server's name.
    accept_any_name: bool,
}

impl Verifier {
    /// What remains to be looked at in a certificate that the user named.
    fn verify_named(
        &self,
        certificate: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
        time: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let refused = |error| Err(Error::InvalidCertificate(error));
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return refused(CertificateError::BadEncoding);
        };
        let validity = parsed.validity();
        let at = |timestamp: i64| {
            // What is before 1970 is past in any case.
            let secs = u64::try_from(timestamp).unwrap_or(0);
            UnixTime::since_unix_epoch(Duration::from_secs(secs))
        };
        let not_before = at(validity.not_before.timestamp());
        let not_after = at(validity.not_after.timestamp());
        if time < not_before {
            return refused(CertificateError::NotValidYetContext { time, not_before });
        }
        if time > not_after {
            return refused(CertificateError::ExpiredContext { time, not_after });
        }
        let is_for_servers = match parsed.extended_key_usage() {
            Ok(None) => true,
            Ok(Some(usage)) => usage.value.server_auth || usage.value.any,
            Err(_) => false,
        };
        if !is_for_servers {
            return refused(CertificateError::InvalidPurpose);
        }
        if !self.accept_any_name {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.chains.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verdict {
            // The name is looked at last, so this error means that all else is well.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.accept_any_name => Ok(ServerCertVerified::assertion()),
            Err(_) if self.named.contains(end_entity) => {
                self.verify_named(end_entity, server_name, now)
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
