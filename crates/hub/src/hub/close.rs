//! Connections that end from outside.

use stentor_mqtt::Version;
use stentor_session::{CloseReason, Local, Tick};
use stentor_topic::Zone;

use super::Hub;
use crate::core::ids::{LinkId, SessionKey};
use crate::core::sessions::lifecycle;

impl Hub {
    /// The socket of a connection is gone. Does nothing if the hub has let that connection go
    /// already.
    pub fn disconnected(&mut self, now: Tick, key: SessionKey, link: LinkId, why: CloseReason) {
        lifecycle::disconnected(&mut self.core, now, key, link, why);
        self.finish(now);
    }
}

/// Closes the connection of a session whose client is banned, by its zone, client id and user. Its
/// will is not published. The server's owner is never banned. Returns whether the client was.
pub fn close_banned(
    hub: &mut Hub,
    now: Tick,
    key: SessionKey,
    is_banned: impl FnOnce(Zone, &str, Option<&str>) -> bool,
) -> bool {
    let Some(session) = hub.core.session(key) else {
        return false;
    };
    let identity = session.state.identity();
    let user = identity.user.as_deref();
    if identity.rights.is_operator() || !is_banned(identity.zone, session.state.client_id(), user) {
        return false;
    }
    lifecycle::close(&mut hub.core, now, key, CloseReason::Local(Local::Banned));
    hub.finish(now);
    true
}

/// Closes the connection of a session for a reason of the shard's. Nothing happens if it has none.
pub fn close_connection(hub: &mut Hub, now: Tick, key: SessionKey, reason: CloseReason) {
    lifecycle::close(&mut hub.core, now, key, reason);
    hub.finish(now);
}

/// The names of a connected session.
#[derive(Debug, Clone, Copy)]
pub struct ConnectedAs<'a> {
    /// Its zone.
    pub zone: Zone,
    /// Its client id.
    pub client_id: &'a str,
    /// Its user; `None` for anonymous.
    pub user: Option<&'a str>,
    /// What it speaks.
    pub version: Version,
}

/// The names of a session; `None` if it is not connected.
#[must_use]
pub fn connected_as(hub: &Hub, key: SessionKey) -> Option<ConnectedAs<'_>> {
    let session = hub.core.session(key)?;
    Some(ConnectedAs {
        zone: session.state.zone(),
        client_id: session.state.client_id(),
        user: session.state.user(),
        version: session.live()?.version,
    })
}
