//! The open listeners, as the main thread keeps them.

use std::sync::Arc;

use tracing::warn;

use crate::config::{ListenUrl, Listener};
use crate::error::ServerError;
use crate::listener::{Bound, Opened, Port, Rules, bind, demand, is_unavailable, remove_unix};
use crate::transport::Certificate;

/// A configured listener with the places that it opened.
#[derive(Debug)]
pub(super) struct OpenListener {
    /// The URL as configured: what it is known by.
    pub(super) configured: ListenUrl,
    /// Several where a host name has several addresses.
    pub(super) ports: Vec<Arc<Port>>,
}

impl OpenListener {
    /// Removes the file of a Unix socket: nobody finds its way in any more.
    pub(super) fn remove_file(&self) {
        if let Some(path) = self.configured.unix_path() {
            remove_unix(path);
        }
    }
}

/// All open listeners. Dropping it removes the files of Unix sockets.
#[derive(Debug, Default)]
pub(super) struct OpenListeners {
    pub(super) mqtt: Vec<OpenListener>,
    /// Those where procedures are called.
    calls: Vec<OpenListener>,
}

/// A listener for calls, with the places that it opened.
pub(super) type Called = (Listener, Vec<Opened>);

/// Reads the certificate of a listener that needs one.
///
/// # Errors
/// When it cannot be used.
pub(super) fn certificate(listener: &Listener) -> Result<Option<Certificate>, ServerError> {
    match (&listener.certificate, &listener.key) {
        (Some(certificate), Some(key)) if listener.url.is_tls() => {
            let clients = demand(listener.client_certificates, listener.client_ca.as_deref());
            let loaded = Certificate::load(certificate, key, clients);
            loaded.map(Some).map_err(|reason| ServerError::Certificate {
                url: listener.url.clone(),
                reason,
            })
        }
        _ => Ok(None),
    }
}

/// Warns of a certificate whose handshakes keep a thread from its other clients.
pub(super) fn warn_of_slow(url: &ListenUrl, certificate: Option<&Certificate>) {
    if let Some(bits) = certificate.and_then(Certificate::slow_rsa_bits) {
        warn!(
            "the certificate of {url} has an RSA key of {bits} bits: each handshake keeps a shard \
             from its other clients for milliseconds; use a certificate with an ECDSA P-256 key"
        );
    }
}

/// The same as a sentence for those who check a configuration.
pub(super) fn slow_certificate(listener: &Listener) -> Option<String> {
    let certificate = certificate(listener).ok().flatten()?;
    let (url, bits) = (&listener.url, certificate.slow_rsa_bits()?);
    Some(format!(
        "the certificate of {url} has an RSA key of {bits} bits: each handshake keeps a shard from \
         its other clients for milliseconds; use a certificate with an ECDSA P-256 key"
    ))
}

/// Opens a configured listener for that many shards.
///
/// # Errors
/// When its certificate or its place cannot be used.
pub(super) fn open(
    listener: &Listener,
    shards: u8,
) -> Result<(OpenListener, Vec<Opened>), ServerError> {
    let certificate = certificate(listener)?;
    warn_of_slow(&listener.url, certificate.as_ref());
    let mut opened = Vec::new();
    for Bound { url, sockets } in bind(listener, shards)? {
        let rules = Rules::of(listener, &url, certificate.clone());
        opened.push((Arc::new(Port::new(url, rules)), sockets));
    }
    let ports = opened.iter().map(|(port, _)| Arc::clone(port)).collect();
    Ok((
        OpenListener {
            configured: listener.url.clone(),
            ports,
        },
        opened,
    ))
}

impl OpenListeners {
    /// Opens all configured listeners, or none. Those for MQTT come with the sockets for the
    /// shards; those for calls are opened as well and have one socket.
    ///
    /// # Errors
    /// When one of them cannot be opened.
    pub(super) fn open(
        listeners: &[Listener],
        shards: u8,
    ) -> Result<(Self, Vec<Opened>, Vec<Called>), ServerError> {
        let mut open_listeners = Self::default();
        let (mut all, mut calls) = (Vec::new(), Vec::new());
        for listener in listeners {
            if listener.url.is_call() {
                let (open_listener, opened) = open(listener, 1)?;
                open_listeners.calls.push(open_listener);
                calls.push((listener.clone(), opened));
                continue;
            }
            match open(listener, shards) {
                Ok((open_listener, opened)) => {
                    open_listeners.mqtt.push(open_listener);
                    all.extend(opened);
                }
                Err(ServerError::Bind { url, error }) if is_spare(&url, &error, listeners) => {
                    warn!("{url} is not opened: this machine has no such address");
                }
                Err(error) => return Err(error),
            }
        }
        Ok((open_listeners, all, calls))
    }

    /// The place of a configured listener for MQTT in the list.
    pub(super) fn place(&self, listeners: &[Listener], index: usize) -> Option<usize> {
        place(&self.mqtt, listeners, index)
    }

    /// The sockets of a configured listener, be it for MQTT or for calls.
    pub(super) fn find(&self, listeners: &[Listener], index: usize) -> Option<&OpenListener> {
        let open_listeners = match listeners.get(index)?.url.is_call() {
            true => &self.calls,
            false => &self.mqtt,
        };
        place(open_listeners, listeners, index).map(|place| &open_listeners[place])
    }

    /// The open places for MQTT.
    pub(super) fn ports(&self) -> impl Iterator<Item = &Arc<Port>> {
        self.mqtt
            .iter()
            .flat_map(|open_listener| &open_listener.ports)
    }

    /// The open places for calls.
    pub(super) fn call_ports(&self) -> impl Iterator<Item = &Arc<Port>> {
        self.calls
            .iter()
            .flat_map(|open_listener| &open_listener.ports)
    }

    /// Removes the files of Unix sockets, once: somebody else may make them again right after.
    pub(super) fn remove_files(&mut self) {
        let open_listeners = self.mqtt.drain(..).chain(self.calls.drain(..));
        open_listeners.for_each(|open_listener| open_listener.remove_file());
    }
}

/// The place of a configured listener in the list. Several may have one URL, with port 0: then they
/// are in the order of the configuration, since a reload opens more of them behind the
/// others, and closes the last ones (see [`crate::config::diff`]).
fn place(open_listeners: &[OpenListener], listeners: &[Listener], index: usize) -> Option<usize> {
    let url = &listeners.get(index)?.url;
    let before = listeners[..index].iter();
    let before = before.filter(|listener| listener.url == *url).count();
    let open_listeners = open_listeners.iter().enumerate();
    let mut same = open_listeners.filter(|(_, open_listener)| open_listener.configured == *url);
    same.nth(before).map(|(place, _)| place)
}

impl Drop for OpenListeners {
    fn drop(&mut self) {
        self.remove_files();
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
