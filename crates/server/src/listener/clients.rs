//! The certificates of clients, as listeners for MQTT and for HTTP ask for them.

use std::path::Path;

use stentor_auth::credential::certificate::NameSource;

use crate::config::{CertificateUser, ClientCertificates};
use crate::transport::Demand;

/// The name in a certificate that is the user's, if one is.
pub(crate) const fn name_source(user: CertificateUser) -> Option<NameSource> {
    match user {
        CertificateUser::None => None,
        CertificateUser::Cn => Some(NameSource::CommonName),
        CertificateUser::Dns => Some(NameSource::Dns),
        CertificateUser::Email => Some(NameSource::Email),
        CertificateUser::Uri => Some(NameSource::Uri),
    }
}

/// Whether clients are asked for certificates, and the file of those who must have signed them.
pub(crate) const fn demand(
    certificates: ClientCertificates,
    authorities: Option<&Path>,
) -> Option<(Demand, &Path)> {
    match (certificates, authorities) {
        (ClientCertificates::Optional, Some(path)) => Some((Demand::Optional, path)),
        (ClientCertificates::Required, Some(path)) => Some((Demand::Required, path)),
        (ClientCertificates::Off, _) | (_, None) => None,
    }
}
