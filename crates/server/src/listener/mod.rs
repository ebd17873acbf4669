//! Where clients arrive.
//!
//! Sockets are bound on the main thread: before the shards leave its descriptor table at the
//! start, and passed to them later on a reload. A TCP listener is one socket per shard, between
//! which the kernel spreads the connections; a Unix socket is one, of which every shard has a
//! descriptor and accepts when it is free.

mod bind;
mod clients;
mod port;
mod unix;

pub(crate) use bind::{Bound, bind, bind_tcp, is_shortage, is_unavailable};
pub(crate) use clients::{demand, name_source};
pub(crate) use port::{Opened, Port, Rules, WebRules};
pub(crate) use unix::{
    Access, PATH_BYTES_MAX, bind_plain as bind_unix, check as check_unix, remove as remove_unix,
};

/// A listener entry with nothing but defaults.
#[cfg(test)]
pub(crate) fn configured() -> crate::config::Listener {
    crate::config::Listener {
        url: crate::config::ListenUrl::default(),
        anonymous: None,
        zone: None,
        certificate: None,
        key: None,
        client_certificates: crate::config::ClientCertificates::Off,
        client_ca: None,
        certificate_user: crate::config::CertificateUser::None,
        proxies: Vec::new(),
        path: None,
        allowed_origins: Vec::new(),
        owner: None,
        group: None,
        mode: 0o660,
        max_connections: 0,
        server_reference: None,
        allow_uid: None,
        allow_gid: None,
        procedure: None,
    }
}
