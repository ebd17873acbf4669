//! Connections that end from outside.

use alloc::string::String;

use stentor_mqtt::Version;
use stentor_session::{CloseReason, Local, Tick};
use stentor_topic::Zone;

use super::Hub;
use crate::core::ids::{LinkId, SessionKey};

impl Hub {
    /// The socket of a connection is gone. Does nothing if the hub has let that connection go
    /// already.
    pub fn disconnected(&mut self, now: Tick, key: SessionKey, link: LinkId, why: CloseReason) {
        self.core.disconnected(now, key, link, why);
        self.finish(now);
    }

    /// Closes the connection of a client, and with `end_session` the sessions of all users under
    /// its id too, but for that of a queue. Returns whether there was one.
    pub fn kick(&mut self, now: Tick, zone: Zone, client_id: &str, end_session: bool) -> bool {
        let mut keys = self.core.sessions_of_client(zone, client_id);
        let is_queue = |key| (self.core.session(key)).is_some_and(|it| it.state.queue().is_some());
        keys.retain(|key| !is_queue(*key));
        for &key in &keys {
            self.core.close(now, key, CloseReason::Local(Local::Kicked));
            if end_session {
                self.core.end_session(now, key);
            }
        }
        self.finish(now);
        !keys.is_empty()
    }

    /// A zone ends: closes its connections, ends its sessions, and its rooms if this is their
    /// home. Wills are not published. Returns how many sessions there were. O(sessions).
    pub fn end_zone(&mut self, now: Tick, zone: Zone) -> u64 {
        self.core.settle(now);
        let keys = self.core.sessions_of(zone);
        for &key in &keys {
            self.revoke(now, key, true);
        }
        self.hear(now);
        self.services.end_zone(&mut self.core, now, zone);
        self.core.forget_traffic(zone);
        self.finish(now);
        keys.len() as u64
    }

    /// Closes all connections because the server stops. Wills stay unpublished: their readers
    /// are disconnected too. `elsewhere` names the server that the client of a connection may use
    /// instead. An MQTT 5 client receives it with 0x9C, if its maximum packet size allows that.
    pub fn shut_down(&mut self, now: Tick, elsewhere: impl Fn(LinkId) -> Option<String>) {
        self.core.shut_down(now, elsewhere);
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
    hub.core.close(now, key, CloseReason::Local(Local::Banned));
    hub.finish(now);
    true
}

/// Closes the connection of a session for a reason of the shard's. Nothing happens if it has none.
pub fn close_connection(hub: &mut Hub, now: Tick, key: SessionKey, reason: CloseReason) {
    hub.core.close(now, key, reason);
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
