//! A listener as the shards know it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;

use stentor_auth::credential::certificate::NameSource;

use super::clients::name_source;
use crate::config::{ClientCertificates, ListenUrl, Listener, Scheme};
use crate::proxy::Network;
use crate::transport::Certificate;

/// One open listener. Shared by all shards and by the connections that came through it; lives as
/// long as the last of them.
#[derive(Debug)]
pub(crate) struct Port {
    /// The URL with the real port.
    pub(crate) url: ListenUrl,
    /// What may change on reload; connections use what holds when they arrive.
    pub(crate) rules: ArcSwap<Rules>,
    /// Connections now.
    pub(crate) connections: AtomicU64,
}

/// What is opened and not handed over yet: a port with one socket for each thread that accepts.
pub(crate) type Opened = (Arc<Port>, Vec<OwnedFd>);

/// What a listener asks of those who arrive.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The zone of all who come.
    pub(crate) zone: Option<Arc<str>>,
    /// Whether clients may come without a name.
    pub(crate) anonymous: bool,
    /// Connections at a time; 0 for no limit.
    pub(crate) connections_max: u64,
    /// The server that MQTT 5 clients receive as a reference when this listener refuses them.
    pub(crate) server_reference: Option<String>,
    /// For an encrypted listener.
    pub(crate) certificate: Option<Certificate>,
    /// Whether clients are asked for certificates.
    pub(crate) asks_certificates: bool,
    /// Which name in a client's certificate is its user's.
    pub(crate) certificate_name: Option<NameSource>,
    /// The balancers that report client addresses by the PROXY protocol.
    pub(crate) proxies: Vec<Network>,
    /// For a WebSocket listener.
    pub(crate) web: Option<Arc<WebRules>>,
}

/// Which WebSocket requests are let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebRules {
    /// The one path that is served; `None`: any.
    pub(crate) path: Option<String>,
    /// Origins of pages that may connect, besides the server's own.
    pub(crate) allowed_origins: Vec<String>,
    /// Whether the listener is reachable from this machine only: then any localhost origin may.
    pub(crate) is_local: bool,
    /// What the answer to a plain GET says.
    pub(crate) url: String,
}

impl Rules {
    /// The rules of a configured listener, whose certificate was loaded already.
    pub(crate) fn of(
        listener: &Listener,
        url: &ListenUrl,
        certificate: Option<Certificate>,
    ) -> Self {
        let web = url.is_websocket().then(|| {
            Arc::new(WebRules {
                path: listener.path.clone(),
                allowed_origins: listener.allowed_origins.clone(),
                is_local: url.is_local(),
                url: url.to_string(),
            })
        });
        Self {
            zone: listener.zone.as_deref().map(Into::into),
            anonymous: listener.anonymous.unwrap_or(false),
            connections_max: listener.max_connections,
            server_reference: listener.server_reference.clone(),
            certificate,
            asks_certificates: listener.client_certificates != ClientCertificates::Off,
            certificate_name: name_source(listener.certificate_user),
            // They were checked when the configuration was read.
            proxies: listener
                .proxies
                .iter()
                .flat_map(|text| text.parse())
                .collect(),
            web,
        }
    }

    /// Those of a listener without any.
    fn plain(anonymous: bool, connections_max: u64) -> Self {
        Self {
            zone: None,
            anonymous,
            connections_max,
            server_reference: None,
            certificate: None,
            asks_certificates: false,
            certificate_name: None,
            proxies: Vec::new(),
            web: None,
        }
    }
}

impl Port {
    /// A listener that was opened.
    pub(crate) fn new(url: ListenUrl, rules: Rules) -> Self {
        Self {
            url,
            rules: ArcSwap::from_pointee(rules),
            connections: AtomicU64::new(0),
        }
    }

    /// The entrance for this machine's administrator, behind the control socket.
    pub(crate) fn control() -> Self {
        let url = ListenUrl::Unix("control.sock".into());
        Self::new(url, Rules::plain(false, 0))
    }

    /// The entrance for sessions of callers that come by HTTP.
    pub(crate) fn http() -> Self {
        let url = ListenUrl::Unix("http".into());
        Self::new(url, Rules::plain(false, 0))
    }

    /// What is spoken; `None` for plain MQTT on a Unix socket.
    pub(crate) const fn scheme(&self) -> Option<Scheme> {
        match self.url {
            ListenUrl::Net { scheme, .. } => Some(scheme),
            ListenUrl::Unix(_) | ListenUrl::AskUnix(..) => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests(connections_max: u64) -> Self {
        Self::new(ListenUrl::default(), Rules::plain(true, connections_max))
    }
}
