//! The servers that procedures may turn to, as the operator has named them.

use std::net::SocketAddr;

use crate::net::{Trust, dns};

/// The servers that modules of scripts use.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// Where messages are handed in: `HOST:PORT`; without it no script can send any.
    pub relay: Option<String>,
    /// The name server that is asked; without it the first one of this machine.
    pub resolver: Option<SocketAddr>,
    /// The authorities whose certificates are trusted at `https://`.
    pub trust: Trust,
}

impl Outside {
    pub(crate) fn relay(&self) -> Option<&str> {
        self.relay.as_deref()
    }

    pub(crate) fn resolver(&self) -> SocketAddr {
        self.resolver.unwrap_or_else(dns::default_server)
    }
}
