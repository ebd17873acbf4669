//! A SUBSCRIBE on its way to the core: those who may have something against it are asked before.

use stentor_mqtt::{Subscribe, Version, decode_subscribe};
use stentor_session::{CloseReason, Tick, malformed};

use super::Hub;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{Decided, Denial, Verdicts, may_name_rooms};
use crate::services::hooks::Consulted;
use crate::services::interface::places::JOINED_AT_ONCE_MAX;
use crate::services::rooms::Cause;

impl Hub {
    /// A SUBSCRIBE, what adaptors have against its elements, and of what they were not asked; what
    /// is missing is allowed.
    pub(crate) fn on_subscribe(
        &mut self,
        now: Tick,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        decided: (&[Option<Denial>], &Decided),
    ) -> Result<(), CloseReason> {
        // Made once, since it would have to be dropped for each packet.
        static NO_ROOMS: Verdicts = Verdicts::new();
        if may_name_rooms(subscribe) {
            return subscribe_to_rooms(self, now, key, subscribe, decided);
        }
        self.core.subscribe(now, key, subscribe, decided, &NO_ROOMS)
    }
}

/// A SUBSCRIBE. It stands apart from what else is received, which keeps both short in the
/// processor's cache of instructions.
#[inline(never)]
pub(super) fn take_subscribe(
    hub: &mut Hub,
    now: Tick,
    key: SessionKey,
    (version, first, body): (Version, u8, &[u8]),
    packet: &[u8],
) -> Result<(), CloseReason> {
    let subscribe = match decode_subscribe(version, first, body) {
        Ok(subscribe) => subscribe,
        Err(error) => return Err(malformed(error)),
    };
    hub.core.spend_on_properties(subscribe.properties);
    if hub.services.hooks.adaptors.is_none() {
        return hub.on_subscribe(now, key, &subscribe, (&[], Decided::NOTHING));
    }
    let hooks = &mut hub.services.hooks;
    match hooks.consult_subscribe(&mut hub.core, key, &subscribe, packet) {
        None => hub.on_subscribe(now, key, &subscribe, (&[], Decided::NOTHING)),
        Some(Consulted::Not(decided)) => hub.on_subscribe(now, key, &subscribe, (&[], &decided)),
        Some(Consulted::Waits) => Ok(()),
    }
}

/// The same of a SUBSCRIBE that may name rooms: their homes are asked before.
fn subscribe_to_rooms(
    hub: &mut Hub,
    now: Tick,
    key: SessionKey,
    subscribe: &Subscribe<'_>,
    (denials, decided): (&[Option<Denial>], &Decided),
) -> Result<(), CloseReason> {
    let filters = hub
        .core
        .rules()
        .allowed_filters(subscribe, denials, decided);
    let unasked = (&decided.unasked[..], JOINED_AT_ONCE_MAX);
    let service = &mut hub.services.rooms;
    let rooms = service.rooms_to_ask(&hub.core, key, filters, unasked);
    if !rooms.to_ask.is_empty()
        && let Some((awaited, elements, asked)) =
            hub.core.owned_request(key, subscribe, (denials, decided))
    {
        let cause = Cause::Subscribe(awaited);
        let owned = (elements, asked);
        let asked = service.ask_rooms(&mut hub.core, now, key, &rooms, cause, owned);
        if asked.is_ok() {
            return Ok(());
        }
    }
    let decided = (denials, decided);
    hub.core
        .subscribe(now, key, subscribe, decided, &rooms.verdicts)
}
