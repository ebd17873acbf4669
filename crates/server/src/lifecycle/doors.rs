//! The open listeners, as the main thread keeps them.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tracing::warn;

use crate::config::{ClientCertificates, ListenUrl, Listener};
use crate::error::ServerError;
use crate::listener::{Bound, Port, Rules, bind, is_unavailable, remove_unix};
use crate::transport::{Certificate, Demand};

/// One configured listener with the places that it opened.
#[derive(Debug)]
pub(super) struct Door {
    /// The URL as configured: what it is known by.
    pub(super) configured: ListenUrl,
    /// Several where a host name has several addresses.
    pub(super) ports: Vec<Arc<Port>>,
}

impl Door {
    /// Removes the file of a Unix socket: nobody finds its way in any more.
    pub(super) fn remove_file(&self) {
        if let Some(path) = self.configured.unix_path() {
            remove_unix(path);
        }
    }
}

/// All open listeners.
#[derive(Debug, Default)]
pub(super) struct Doors(pub(super) Vec<Door>);

/// What is opened and not handed to the shards yet: a port with one socket per shard.
pub(super) type Opened = (Arc<Port>, Vec<OwnedFd>);

/// Reads the certificate of a listener that needs one.
///
/// # Errors
/// When it cannot be used.
pub(super) fn certificate(listener: &Listener) -> Result<Option<Certificate>, ServerError> {
    match (&listener.certificate, &listener.key) {
        (Some(certificate), Some(key)) if listener.url.is_tls() => {
            let clients = match (listener.client_certificates, &listener.client_ca) {
                (ClientCertificates::Optional, Some(ca)) => Some((Demand::Optional, ca.as_path())),
                (ClientCertificates::Required, Some(ca)) => Some((Demand::Required, ca.as_path())),
                (ClientCertificates::Off, _) | (_, None) => None,
            };
            let loaded = Certificate::load(certificate, key, clients);
            loaded.map(Some).map_err(|reason| ServerError::Certificate {
                url: listener.url.clone(),
                reason,
            })
        }
        _ => Ok(None),
    }
}

/// Opens a configured listener for that many shards.
///
/// # Errors
/// When its certificate or its place cannot be used.
pub(super) fn open(listener: &Listener, shards: u8) -> Result<(Door, Vec<Opened>), ServerError> {
    let certificate = certificate(listener)?;
    let mut opened = Vec::new();
    for Bound { url, sockets } in bind(listener, shards)? {
        let rules = Rules::of(listener, &url, certificate.clone());
        opened.push((Arc::new(Port::new(url, rules)), sockets));
    }
    let ports = opened.iter().map(|(port, _)| Arc::clone(port)).collect();
    Ok((
        Door {
            configured: listener.url.clone(),
            ports,
        },
        opened,
    ))
}

impl Doors {
    /// Opens all configured listeners, or none.
    ///
    /// # Errors
    /// When one of them cannot be opened.
    pub(super) fn open(
        listeners: &[Listener],
        shards: u8,
    ) -> Result<(Self, Vec<Opened>), ServerError> {
        let mut doors = Self::default();
        let mut all = Vec::new();
        for listener in listeners {
            match open(listener, shards) {
                Ok((door, opened)) => {
                    doors.0.push(door);
                    all.extend(opened);
                }
                Err(ServerError::Bind { url, error }) if is_spare(&url, &error, listeners) => {
                    warn!("{url} is not opened: this machine has no such address");
                }
                Err(error) => {
                    doors.remove_files();
                    return Err(error);
                }
            }
        }
        Ok((doors, all))
    }

    /// The open places.
    pub(super) fn ports(&self) -> impl Iterator<Item = &Arc<Port>> {
        self.0.iter().flat_map(|door| &door.ports)
    }

    /// Removes the files of Unix sockets.
    pub(super) fn remove_files(&self) {
        self.0.iter().for_each(Door::remove_file);
    }
}

/// Whether a listener can be done without: the IPv6 half of the local listeners, on a machine
/// without IPv6, when there is an IPv4 half.
fn is_spare(url: &ListenUrl, error: &std::io::Error, listeners: &[Listener]) -> bool {
    let is_local_v6 = matches!(url, ListenUrl::Net { host, .. } if host == "::1");
    let has_v4 = listeners.iter().any(
        |listener| matches!(&listener.url, ListenUrl::Net { host, .. } if host == "127.0.0.1"),
    );
    is_local_v6 && has_v4 && is_unavailable(error)
}
