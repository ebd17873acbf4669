//! Names in client certificates. Whether a certificate is genuine is the business of TLS; here it
//! is only read.

use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::model::NAME_BYTES_MAX;

/// Names of one kind that are looked at in a certificate.
const NAMES_MAX: usize = 64;

/// Which name in a certificate is the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameSource {
    /// The common name of the subject.
    CommonName,
    /// The first DNS name among the subject's alternative names.
    Dns,
    /// The first mail address among the subject's alternative names.
    Email,
    /// The first URI among the subject's alternative names.
    Uri,
}

/// Why a certificate names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CertificateError {
    /// It is none.
    #[error("its certificate cannot be read")]
    Malformed,
    /// It has no such name.
    #[error(
        "its certificate has no name of the kind that `certificate_user` of the [[listener]] says"
    )]
    Missing,
    /// It has several, so that it is not clear whose it is.
    #[error("its certificate has several common names, so that it is not clear whose it is")]
    Ambiguous,
    /// The name is empty or too long, or contains control characters.
    #[error(
        "the name in its certificate is none that a user can have: it is empty, longer than \
         {NAME_BYTES_MAX} bytes, or has control characters"
    )]
    Name,
}

/// The user's name in a certificate in DER form.
///
/// # Errors
/// When it cannot be read, or does not name one user.
pub fn user_name(der: &[u8], source: NameSource) -> Result<String, CertificateError> {
    let (rest, certificate) =
        X509Certificate::from_der(der).map_err(|_| CertificateError::Malformed)?;
    if !rest.is_empty() {
        return Err(CertificateError::Malformed);
    }
    let name = match source {
        NameSource::CommonName => common_name(&certificate)?,
        NameSource::Dns | NameSource::Email | NameSource::Uri => {
            alternative_name(&certificate, source)?
        }
    };
    // A zero byte in a name has fooled others: what follows it must count.
    let is_bad = name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control);
    if is_bad {
        return Err(CertificateError::Name);
    }
    Ok(name)
}

fn common_name(certificate: &X509Certificate<'_>) -> Result<String, CertificateError> {
    let mut names = certificate.subject().iter_common_name();
    let name = names.next().ok_or(CertificateError::Missing)?;
    if names.next().is_some() {
        return Err(CertificateError::Ambiguous);
    }
    let text = name.as_str().map_err(|_| CertificateError::Name)?;
    Ok(text.to_owned())
}

fn alternative_name(
    certificate: &X509Certificate<'_>,
    source: NameSource,
) -> Result<String, CertificateError> {
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| CertificateError::Malformed)?
        .ok_or(CertificateError::Missing)?;
    let wanted = |name: &GeneralName<'_>| match (name, source) {
        (GeneralName::DNSName(name), NameSource::Dns)
        | (GeneralName::RFC822Name(name), NameSource::Email)
        | (GeneralName::URI(name), NameSource::Uri) => Some((*name).to_owned()),
        _ => None,
    };
    let mut names = names.value.general_names.iter().take(NAMES_MAX);
    names.find_map(wanted).ok_or(CertificateError::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn certificate(common_names: &[&str], alternative: Vec<SanType>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in common_names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.subject_alt_names = alternative;
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn names_are_found_by_their_kind() {
        let der = certificate(
            &["ann"],
            vec![
                SanType::URI("urn:device:7".try_into().unwrap()),
                SanType::DnsName("ann.example".try_into().unwrap()),
                SanType::DnsName("other.example".try_into().unwrap()),
                SanType::Rfc822Name("ann@example.org".try_into().unwrap()),
            ],
        );
        for (source, name) in [
            (NameSource::CommonName, "ann"),
            (NameSource::Dns, "ann.example"),
            (NameSource::Email, "ann@example.org"),
            (NameSource::Uri, "urn:device:7"),
        ] {
            assert_eq!(user_name(&der, source).as_deref(), Ok(name));
        }
    }

    #[test]
    fn certificates_that_name_nobody_are_refused() {
        let empty = certificate(&[], Vec::new());
        for source in [NameSource::CommonName, NameSource::Dns, NameSource::Uri] {
            assert_eq!(user_name(&empty, source), Err(CertificateError::Missing));
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "ann\0evil", "a\nb", &long] {
            let der = certificate(&[name], Vec::new());
            let refused = user_name(&der, NameSource::CommonName);
            assert_eq!(refused, Err(CertificateError::Name), "{name:?}");
        }
        let mut der = certificate(&["ann"], Vec::new());
        for source in [NameSource::CommonName, NameSource::Email] {
            assert_eq!(
                user_name(&der[1..], source),
                Err(CertificateError::Malformed)
            );
            assert_eq!(user_name(b"", source), Err(CertificateError::Malformed));
        }
        der.push(0);
        let trailing = user_name(&der, NameSource::CommonName);
        assert_eq!(trailing, Err(CertificateError::Malformed));
    }
}
