//! Enhanced authentication of clients that are connected [MQTT-4.12.1-1].
//!
//! The hub knows whose turn it is and nothing of any method: what a client says goes to the shard
//! by [`Effects::authentications`](crate::Effects), what the authenticator answers comes back by
//! [`authenticated`]. In the meantime the client goes on as who it was.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Disconnect, Packet, Property, PropertyBuf, ReasonCode};
use stentor_session::{CloseReason, Denied, Limit, Tick, Violation};

use crate::core::Core;
use crate::core::ids::{LinkId, SessionKey};
use crate::core::sessions::registry::Link;
use crate::core::sessions::rights::Identity;
use crate::core::sessions::{connect, lifecycle, permission};

/// The authentication method of a connection, for as long as it lasts.
#[derive(Debug)]
pub(crate) struct Method {
    name: Box<str>,
    turn: Turn,
}

/// The side that has to say something next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nobody: the client may begin again.
    Nobody,
    /// The authenticator.
    Authenticator,
    /// The client.
    Client,
}

impl Method {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            turn: Turn::Nobody,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// What a connected client says to the authenticator.
pub struct Authentication {
    /// Its session.
    pub session: SessionKey,
    /// Its connection.
    pub link: LinkId,
    /// The identity so far.
    pub identity: Arc<Identity>,
    /// The method, the same for the whole connection.
    pub method: Box<str>,
    /// Whether it begins again, or goes on.
    pub step: Step,
    /// The data of the method.
    pub data: Vec<u8>,
}

/// Where an authentication stands when a client says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// AUTH 0x19.
    Begin,
    /// AUTH 0x18.
    Continue,
}

/// Leaves out the data, which may be secret.
impl core::fmt::Debug for Authentication {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Authentication")
            .field("session", &self.session)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// What the authenticator has decided about a connected client.
#[derive(Debug)]
pub enum Authenticated {
    /// It needs more.
    Continue(Vec<u8>),
    /// It is who it was, with these rights and until this time; perhaps with last data.
    Accepted(Arc<Identity>, Option<Vec<u8>>),
    /// It is not: the connection is closed [MQTT-4.12.1-2].
    Refused(CloseReason),
}

/// AUTH of a connected client.
pub(crate) fn on_auth(
    core: &mut Core,
    key: SessionKey,
    packet: &Disconnect<'_>,
) -> Result<(), CloseReason> {
    const UNEXPECTED: CloseReason = CloseReason::Violation(Violation::UnexpectedAuth);
    let Some(session) = core.sessions.get_mut(key) else {
        return Ok(());
    };
    let Link::Live(live) = &mut session.link else {
        return Ok(());
    };
    let link = live.link;
    // Without a method in CONNECT there is no AUTH [MQTT-4.12.0-7], with one there is no other
    // [MQTT-4.12.0-5].
    let method = live.extras.as_mut().and_then(|e| e.method.as_mut());
    let Some(method) = method.filter(|m| Some(m.name()) == packet.properties.auth_method()) else {
        return Err(UNEXPECTED);
    };
    let step = match (packet.reason, method.turn) {
        (ReasonCode::ReAuthenticate, Turn::Nobody) => Step::Begin,
        (ReasonCode::ContinueAuthentication, Turn::Client) => Step::Continue,
        _ => return Err(UNEXPECTED),
    };
    method.turn = Turn::Authenticator;
    core.effects.authentications.push(Authentication {
        session: key,
        link,
        identity: Arc::clone(session.state.identity()),
        method: method.name.clone(),
        step,
        data: packet.properties.auth_data().unwrap_or_default().to_vec(),
    });
    Ok(())
}

/// The authenticator has answered what [`Authentication`] told it. Does nothing if the
/// connection has ended in the meantime. A client that turns out to be somebody else is
/// refused: what its session holds is the first one's.
pub(crate) fn authenticated(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    link: LinkId,
    decision: Authenticated,
) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let Link::Live(live) = &mut session.link else {
        return;
    };
    if live.link != link {
        return;
    }
    let Some(method) = live.extras.as_mut().and_then(|e| e.method.as_mut()) else {
        return;
    };
    let name = method.name.clone();
    let mut renewed = None;
    let (reason, data) = match decision {
        Authenticated::Refused(reason) => return lifecycle::close(core, now, key, reason),
        Authenticated::Accepted(identity, _) if !is_same(session.state.identity(), &identity) => {
            return lifecycle::close(core, now, key, CloseReason::Denied(Denied::Right));
        }
        Authenticated::Continue(data) => {
            method.turn = Turn::Client;
            (ReasonCode::ContinueAuthentication, Some(data))
        }
        Authenticated::Accepted(identity, data) => {
            method.turn = Turn::Nobody;
            renewed = Some(identity);
            (ReasonCode::Success, data)
        }
    };
    let mut properties = PropertyBuf::new();
    properties.push(Property::AuthenticationMethod(&name));
    if let Some(data) = &data {
        properties.push(Property::AuthenticationData(data));
    }
    let packet = Packet::Auth(Disconnect {
        reason,
        properties: properties.as_properties(),
    });
    let told = core.outbox.packet(key, live, &packet);
    if !told {
        // Without the data the client cannot go on.
        let reason = CloseReason::Limit(Limit::PacketBytes);
        return lifecycle::close_saying(core, now, key, reason, reason.reason_code());
    }
    if let Some(identity) = renewed {
        permission::adopt(core, now, key, identity);
    }
    let session = core.sessions.get_mut(key);
    if let (ReasonCode::Success, Some(session)) = (reason, session) {
        // The timer of the earlier end is one of an earlier epoch from now on.
        session.epoch = session.epoch.wrapping_add(1);
        connect::watch(core, now, key);
    }
}

/// Whether a session of one may go on as the other's.
fn is_same(before: &Identity, now: &Identity) -> bool {
    before.user == now.user && before.zone == now.zone
}
