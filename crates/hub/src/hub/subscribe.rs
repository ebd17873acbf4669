//! A SUBSCRIBE on its way to the core: those who may have something against it are asked before.

use stentor_mqtt::{Subscribe, Version, decode_subscribe};
use stentor_session::{CloseReason, Tick, malformed};

use super::Hub;
use crate::core::ids::SessionKey;
use crate::core::inbound::receive;
use crate::core::inbound::subscribe::{Decided, Denial};
use crate::services::interface::hooks::Consulted;

impl Hub {
    /// A SUBSCRIBE, what adaptors have against its elements, and of what they were not asked; what
    /// is missing is allowed.
    pub(crate) fn on_subscribe(
        &mut self,
        now: Tick,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        denials: &[Option<Denial>],
        decided: &Decided,
    ) -> Result<(), CloseReason> {
        self.services
            .subscribe(&mut self.core, now, key, subscribe, denials, decided)
    }
}

/// A SUBSCRIBE. It stands apart from what else is received, which keeps both short in the
/// processor's cache of instructions.
#[inline(never)]
pub(super) fn take_subscribe(
    hub: &mut Hub,
    now: Tick,
    key: SessionKey,
    version: Version,
    first: u8,
    body: &[u8],
    packet: &[u8],
) -> Result<(), CloseReason> {
    let subscribe = match decode_subscribe(version, first, body) {
        Ok(subscribe) => subscribe,
        Err(error) => return Err(malformed(error)),
    };
    receive::spend_on_properties(&mut hub.core, subscribe.properties);
    let services = &mut hub.services;
    match services.consult_subscribe(&mut hub.core, key, &subscribe, packet) {
        None => hub.on_subscribe(now, key, &subscribe, &[], Decided::NOTHING),
        Some(Consulted::Not(decided)) => hub.on_subscribe(now, key, &subscribe, &[], &decided),
        Some(Consulted::Waits) => Ok(()),
    }
}
