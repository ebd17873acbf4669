//! Changes of rights, on their way through the sessions.

use alloc::sync::Arc;

use stentor_session::{CloseReason, Local, Tick};

use super::Hub;
use crate::core::ids::SessionKey;
use crate::core::routing::batch;
use crate::core::sessions::ending::set_expiry;
use crate::core::sessions::renewal::{CHANGE_VISITS, LOOK_VISITS, Renewal, Renewed};
use crate::core::sessions::{ending, lifecycle, permission, renewal};

/// Begins to apply a change of rights.
pub(crate) fn begin_renewal(hub: &mut Hub, now: Tick, renewal: Arc<dyn Renewal>) {
    batch::settle(&mut hub.core, now);
    hub.services.review_absent(&mut hub.core, now, &*renewal);
    renewal::push(&mut hub.core, now, renewal);
    continue_renewals(hub, now);
}

/// Visits the next sessions.
pub(crate) fn continue_renewals(hub: &mut Hub, now: Tick) {
    let Some((renewal, from)) = renewal::next(&mut hub.core) else {
        return;
    };
    // What was taken before the change is delivered before it.
    batch::settle(&mut hub.core, now);
    let (before, visits) = (hub.core.turn().spent(), hub.core.turn().slice());
    let mut slot = from;
    while slot < hub.core.slots() && hub.core.turn().spent() - before < visits {
        hub.core.turn_mut().spend(LOOK_VISITS);
        // Slots have 32 bits.
        if let Some(key) = hub.core.session_at(slot as u32) {
            renew(hub, now, key, &*renewal);
            hub.hear(now);
        }
        slot += 1;
    }
    if slot < hub.core.slots() {
        renewal::put_back(&mut hub.core, renewal, slot);
    }
}

fn renew(hub: &mut Hub, now: Tick, key: SessionKey, renewal: &dyn Renewal) {
    match renewal::renewed(&hub.core, key, renewal) {
        Renewed::Keep => {}
        Renewed::Replace(identity) => {
            hub.core.turn_mut().spend(CHANGE_VISITS);
            permission::adopt(&mut hub.core, now, key, identity);
        }
        Renewed::Close { end_session } => {
            hub.core.turn_mut().spend(CHANGE_VISITS);
            revoke(hub, now, key, end_session);
        }
    }
}

/// Closes a session's connection because its user may not be here any more.
pub(crate) fn revoke(hub: &mut Hub, now: Tick, key: SessionKey, end_session: bool) {
    renewal::take_rights(&mut hub.core, now, key);
    // It is out of its rooms for want of rights, and not because its connection is lost.
    hub.hear(now);
    if end_session {
        set_expiry(&mut hub.core, key, 0);
    }
    lifecycle::close(&mut hub.core, now, key, CloseReason::Local(Local::Revoked));
    if end_session {
        ending::end(&mut hub.core, now, key);
    }
}
