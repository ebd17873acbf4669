//! Which authorities are trusted about a server's certificate, and what is wrong with a certificate
//! that is not good.
//!
//! Every program of the project that connects to servers by TLS asks here, so that they trust the
//! same and say the same. The remedies are theirs: each has its own option for a file.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{CertificateError, ClientConfig, OtherError, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What to say where there is no [`system_file`]. A remedy has to follow.
pub const NOBODY: &str = "this system trusts no authorities";

/// The file of the authorities that this system trusts: `SSL_CERT_FILE` names it, else the usual
/// places are searched.
#[must_use]
pub fn system_file() -> Option<PathBuf> {
    let named = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let mut files = named.into_iter().chain(SYSTEM_FILES.map(PathBuf::from));
    files.find(|file| file.exists())
}

/// The certificates in a file in PEM format, fit or not.
///
/// # Errors
/// When it cannot be read, in words for people.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| {
            format!(
                "cannot read the certificates in {}: {error}",
                file.display()
            )
        })
}

/// The authorities among certificates that come from that place.
///
/// # Errors
/// When there are none, in words for people.
pub fn authorities(
    certificates: impl IntoIterator<Item = CertificateDer<'static>>,
    place: &Path,
) -> Result<RootCertStore, String> {
    let mut authorities = RootCertStore::empty();
    let (taken, _) = authorities.add_parsable_certificates(certificates);
    if taken == 0 {
        let place = place.display();
        return Err(format!("{place} holds no certificate of an authority"));
    }
    Ok(authorities)
}

/// What a client needs that trusts the authorities in a file and shows no certificate of its own.
///
/// # Errors
/// When there are none in it, in words for people.
pub fn config(file: &Path) -> Result<ClientConfig, String> {
    let authorities = authorities(certificates(file)?, file)?;
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(authorities);
    Ok(config.with_no_client_auth())
}

/// What is wrong with a server's certificate. Its text follows the words "the certificate", and has
/// the remedy where it is the same for every client: another certificate.
#[derive(Debug)]
pub enum Flaw {
    /// No authority that is trusted has signed it.
    Unsigned,
    /// It has not the name by which the server was called, but these, if they are known.
    OtherName(Vec<String>),
    /// It names no host, or has its name only where nobody looks any more (CN).
    Nameless,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    Early,
    /// It is an authority's own, as `openssl req -x509` makes it without more words.
    Authority,
    /// It has X.509 version 1.
    Old,
    /// It is not meant for servers.
    OtherPurpose,
    /// Something else.
    Other(CertificateError),
}

impl From<&CertificateError> for Flaw {
    fn from(error: &CertificateError) -> Self {
        match error {
            // An authority of the same name with another key is none that is known.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::Unsigned,
            CertificateError::NotValidForName => Self::OtherName(Vec::new()),
            CertificateError::NotValidForNameContext { presented, .. } => {
                let names: Vec<_> = presented.iter().filter_map(|name| host(name)).collect();
                match names.is_empty() {
                    true => Self::Nameless,
                    false => Self::OtherName(names),
                }
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::Early
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::OtherPurpose
            }
            other => match reason(other).as_str() {
                "CaUsedAsEndEntity" => Self::Authority,
                version if version.starts_with("UnsupportedCertVersion") => Self::Old,
                _ => Self::Other(other.clone()),
            },
        }
    }
}

/// The host in a name of a certificate, as errors have it: `DnsName("a.example")`. Names that are
/// not of hosts help nobody here.
fn host(name: &str) -> Option<String> {
    let inner = |kind: &str| name.strip_prefix(kind)?.strip_suffix(')');
    let text = inner("DnsName(").or_else(|| inner("IpAddress("))?;
    Some(text.trim_matches('"').to_owned())
}

/// What an error is called. Some have a name only in the library below rustls, whose types are not
/// part of what this crate sees.
fn reason(error: &CertificateError) -> String {
    match error {
        CertificateError::Other(OtherError(inner)) => format!("{inner:?}"),
        error => error.to_string(),
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned => f.write_str("is signed by no authority that is trusted here"),
            Self::OtherName(names) if names.is_empty() => f.write_str("is for another name"),
            Self::OtherName(names) => write!(f, "is for another name: {}", names.join(", ")),
            Self::Expired => f.write_str("has expired"),
            Self::Early => f.write_str("is not valid yet"),
            Self::Nameless => f.write_str(
                "names no host; make one with `-addext subjectAltName=DNS:NAME` or \
                 `subjectAltName=IP:ADDRESS`",
            ),
            Self::Authority => f.write_str(
                "is that of an authority (CA:TRUE), and a server needs one of its own; make it with \
                 `-addext basicConstraints=critical,CA:FALSE`, or let the authority sign another",
            ),
            Self::Old => f.write_str(
                "has X.509 version 1, which TLS does not take any more; make one of version 3, with \
                 `-addext subjectAltName=DNS:NAME`, or with `-extfile` where an authority signs it",
            ),
            Self::OtherPurpose => f.write_str(
                "is not for servers; make one with the extended key usage serverAuth, or without \
                 that extension",
            ),
            Self::Other(CertificateError::Revoked) => f.write_str("has been revoked"),
            Self::Other(CertificateError::BadEncoding) => {
                f.write_str("cannot be read: it is not well-formed")
            }
            Self::Other(error) => write!(f, "is not valid: {}", reason(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_authorities_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let no_authority = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (file, told) in [
            (folder.path().join("missing.pem"), "cannot read"),
            (at("empty.pem", ""), "holds no certificate of an authority"),
            (
                at("other.pem", no_authority),
                "holds no certificate of an authority",
            ),
            (
                at("torn.pem", "-----BEGIN CERTIFICATE-----\n?"),
                "cannot read",
            ),
        ] {
            let reason = config(&file).expect_err("no authority");
            assert!(reason.contains(told), "{reason}");
            assert!(reason.contains(&file.display().to_string()), "{reason}");
        }
    }

    /// An error of the library below rustls, which is known by its name.
    struct Inner(&'static str);

    impl fmt::Debug for Inner {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl fmt::Display for Inner {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Inner {}

    #[test]
    fn flaws_are_called_the_same_with_and_without_details() {
        let context = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: "a.example".try_into().unwrap(),
            presented: presented.iter().map(|name| (*name).to_owned()).collect(),
        };
        let names = [
            "DnsName(\"b.example\")",
            "IpAddress(127.0.0.1)",
            "DirectoryName",
        ];
        let inner = |text: &'static str| {
            let error = Box::<dyn std::error::Error + Send + Sync>::from(Inner(text));
            CertificateError::Other(OtherError(Arc::from(error)))
        };
        for (error, told) in [
            (CertificateError::BadSignature, "signed by no authority"),
            (CertificateError::NotValidForName, "for another name"),
            (context(&names), "for another name: b.example, 127.0.0.1"),
            (context(&["DirectoryName"]), "names no host"),
            (context(&[]), "names no host"),
            (CertificateError::Expired, "expired"),
            (CertificateError::NotValidYet, "not valid yet"),
            (CertificateError::InvalidPurpose, "not for servers"),
            (CertificateError::Revoked, "has been revoked"),
            (CertificateError::BadEncoding, "cannot be read"),
            (
                inner("CaUsedAsEndEntity"),
                "basicConstraints=critical,CA:FALSE",
            ),
            (inner("UnsupportedCertVersion"), "version 3"),
            (
                inner("PathLenConstraintViolated"),
                "not valid: PathLenConstraintViolated",
            ),
        ] {
            let flaw = Flaw::from(&error).to_string();
            assert!(flaw.contains(told), "{flaw}");
        }
    }
}
