//! TLS: whom to trust, and the connection itself.

use std::env;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::error::ClientError;
use crate::options::{TlsOptions, TlsVersion};

/// A TLS connection.
pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Where systems keep the authorities they trust.
const SYSTEM_CA_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Wraps a connected socket; the handshake happens with the first bytes.
pub(crate) fn wrap(
    socket: TcpStream,
    host: &str,
    options: &TlsOptions,
) -> Result<TlsStream, ClientError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| ClientError::Tls(format!("{host:?} is no host name")))?;
    let connection = ClientConnection::new(Arc::new(config(options)?), name)
        .map_err(|e| ClientError::Tls(e.to_string()))?;
    Ok(StreamOwned::new(connection, socket))
}

fn config(options: &TlsOptions) -> Result<ClientConfig, ClientError> {
    let failed = |e: Error| ClientError::Tls(e.to_string());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = Arc::new(roots(options.ca_file.as_deref())?);
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|e| ClientError::Tls(e.to_string()))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(options.version))
        .map_err(failed)?;
    let builder = if options.accept_any_name {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
    } else {
        builder.with_webpki_verifier(verifier)
    };
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

fn roots(file: Option<&Path>) -> Result<RootCertStore, ClientError> {
    let file = match file {
        Some(file) => file.to_owned(),
        None => env::var_os("SSL_CERT_FILE")
            .map(PathBuf::from)
            .into_iter()
            .chain(SYSTEM_CA_FILES.map(PathBuf::from))
            .find(|file| file.exists())
            .ok_or_else(|| {
                let text = "this system trusts no authorities; name a file of them";
                ClientError::Tls(text.into())
            })?,
    };
    let mut roots = RootCertStore::empty();
    let mut added = 0;
    for file in files(&file)? {
        added += roots.add_parsable_certificates(certificates(&file)?).0;
    }
    if added == 0 {
        let text = format!("{} holds no certificate of an authority", file.display());
        return Err(ClientError::Tls(text));
    }
    Ok(roots)
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
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|e| ClientError::Tls(format!("cannot read {}: {e}", file.display())))
}

/// Verifies everything but the server's name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is looked at last, so this error means that all else is well.
        match self
            .0
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
