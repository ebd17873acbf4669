//! Calls of procedures: handed to the control plane, answered by an event.
//!
//! A shard runs no procedure. It checks the caller's rights, hands the call over without waiting,
//! and acknowledges that. The answer comes back through the control queue with the address that the
//! call carried, so that nothing is kept here in the meantime.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Publish, ReasonCode};
use stentor_session::{Outcome, Tick};
use stentor_zone::{ROOM_COMMANDS, call_refused, topic};

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::publish;
use crate::core::routing::batch;
use crate::services::interface::answer::{
    Answer, Place, ReturnAddress, arguments, nowhere, place, return_address,
};
use crate::services::interface::broadcast::{Fate, Part};
use crate::services::interface::calls::{Call, Callees};

/// What has come of a call.
pub(crate) enum Called {
    /// The control plane has it.
    Taken,
    /// It is a command about rooms, whose answer goes there.
    Room(ReturnAddress),
    /// It goes no further, and this is the answer.
    Answered(Outcome, Answer),
}

/// The calls of clients, on their way to the control plane.
#[derive(Default)]
pub(crate) struct CallService {
    callees: Option<Arc<dyn Callees>>,
}

/// Why a call is not made, as acknowledgement and as answer.
struct Refused {
    reason: ReasonCode,
    status: &'static str,
    text: &'static str,
}

const NOT_ALLOWED: Refused = Refused {
    reason: ReasonCode::NotAuthorized,
    status: "not-allowed",
    text: "the right to call this procedure is missing",
};
const NO_PLACE: Refused = Refused {
    reason: ReasonCode::NotAuthorized,
    status: "not-allowed",
    text: "answers go below $reply/, or to a topic without $ where the caller may publish",
};
const NOT_FOUND: Refused = Refused {
    reason: ReasonCode::NoMatchingSubscribers,
    status: "not-found",
    text: "this server runs no procedures",
};
const NOT_TAKEN: Refused = Refused {
    reason: ReasonCode::NoMatchingSubscribers,
    status: "not-found",
    text: "no adaptor of the room answers this call",
};
const OVERLOADED: Refused = Refused {
    reason: ReasonCode::QuotaExceeded,
    status: "overloaded",
    text: "too many calls wait; try again",
};

impl CallService {
    pub(crate) const fn new(callees: Option<Arc<dyn Callees>>) -> Self {
        Self { callees }
    }

    /// Says what has become of a part of a broadcast.
    pub(crate) fn tell(&self, part: &Part, fate: Fate) {
        if let Some(callees) = &self.callees {
            callees.told(part.broadcast.number, part.place, fate);
        }
    }

    /// A publish to `$call/<procedure>`. The acknowledgement says whether the call was taken.
    /// `None` if there is no such session.
    pub(crate) fn take_call(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        procedure: &str,
        reply: Option<&str>,
    ) -> Option<Called> {
        // What the caller has published before comes before.
        batch::settle(core, now);
        let session = core.session(key)?;
        let is_v5 = session.speaks_v5();
        let identity = Arc::clone(session.state.identity());
        let client_id: Box<str> = session.state.client_id().into();
        let place = place(core, &identity, &client_id, publish, reply);
        let mut return_to = nowhere(core, key, publish)?;
        let to = topic::call(procedure);
        let refused = if !identity.rights.may_publish(&to) {
            publish::deny(core, now, key, &to);
            return_to.place = place.unwrap_or(Place::Nowhere);
            NOT_ALLOWED
        } else if let Some(place) = place {
            return_to.place = place;
            if procedure.starts_with(ROOM_COMMANDS) {
                return Some(Called::Room(return_to));
            }
            let expires_at = publish.properties.message_expiry();
            let call = Call {
                procedure: procedure.into(),
                payload: publish.payload.into(),
                arguments: arguments(publish),
                identity,
                client_id,
                expires_at: expires_at.map_or(Tick::NEVER, |secs| now.after_secs(secs)),
                return_to: return_to.clone(),
            };
            let callees = self.callees.as_ref();
            match callees.map(|callees| callees.call(call)) {
                Some(Ok(())) => return Some(Called::Taken),
                Some(Err(_)) => OVERLOADED,
                None => NOT_FOUND,
            }
        } else {
            NO_PLACE
        };
        Some(refused.called(is_v5, return_to))
    }
}

impl Refused {
    /// What becomes of a call that is refused.
    fn called(&self, is_v5: bool, to: ReturnAddress) -> Called {
        let json = call_refused(self.status, self.text);
        let outcome = Outcome::new(self.reason, self.text);
        // 3.x would be disconnected for what it cannot be told.
        let outcome = if is_v5 { outcome } else { Outcome::SUCCESS };
        Called::Answered(outcome, Answer { to, json })
    }
}

/// A call to a room that no adaptor has answered. `None` if there is no such session.
pub(crate) fn refuse_room_call(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    publish: &Publish<'_>,
    room: &str,
    reply: Option<&str>,
) -> Option<Called> {
    batch::settle(core, now);
    let session = core.session(key)?;
    let (is_v5, to) = (session.speaks_v5(), topic::say(room));
    let may = session.state.identity().rights.may_publish(&to);
    let Some(return_to) = return_address(core, key, publish, reply)? else {
        return Some(NO_PLACE.called(is_v5, nowhere(core, key, publish)?));
    };
    if !may {
        publish::deny(core, now, key, &to);
        return Some(NOT_ALLOWED.called(is_v5, return_to));
    }
    Some(NOT_TAKEN.called(is_v5, return_to))
}

/// A call that an adaptor has answered. `None` if there is no such session.
pub(crate) fn answer_call(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    publish: &Publish<'_>,
    reply: Option<&str>,
    json: Vec<u8>,
) -> Option<Called> {
    batch::settle(core, now);
    let is_v5 = core.session(key)?.speaks_v5();
    Some(match return_address(core, key, publish, reply)? {
        Some(to) => Called::Answered(Outcome::SUCCESS, Answer { to, json }),
        // The caller has lost the right in the meantime.
        None => NO_PLACE.called(is_v5, nowhere(core, key, publish)?),
    })
}
