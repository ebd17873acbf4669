//! Changes of rights, on their way through the sessions.

use alloc::sync::Arc;

use stentor_session::{CloseReason, Local, Tick};

use super::Hub;
use crate::core::ids::SessionKey;
use crate::core::sessions::ending::set_expiry;
use crate::core::sessions::renewal::{CHANGE_VISITS, LOOK_VISITS, Renewal, Renewed};

impl Hub {
    /// Begins to apply a change of rights.
    pub(crate) fn begin_renewal(&mut self, now: Tick, renewal: Arc<dyn Renewal>) {
        self.core.settle(now);
        self.services.review_absent(&mut self.core, now, &*renewal);
        self.core.push_renewal(now, renewal);
        self.continue_renewals(now);
    }

    /// Visits the next sessions.
    pub(crate) fn continue_renewals(&mut self, now: Tick) {
        let Some((renewal, from)) = self.core.next_renewal() else {
            return;
        };
        // What was taken before the change is delivered before it.
        self.core.settle(now);
        let (before, visits) = (self.core.turn().spent(), self.core.turn().slice());
        let mut slot = from;
        while slot < self.core.slots() && self.core.turn().spent() - before < visits {
            self.core.turn_mut().spend(LOOK_VISITS);
            // Slots have 32 bits.
            if let Some(key) = self.core.session_at(slot as u32) {
                self.renew(now, key, &*renewal);
                self.hear(now);
            }
            slot += 1;
        }
        if slot < self.core.slots() {
            self.core.put_back_renewal(renewal, slot);
        }
    }

    fn renew(&mut self, now: Tick, key: SessionKey, renewal: &dyn Renewal) {
        match self.core.renewed(key, renewal) {
            Renewed::Keep => {}
            Renewed::Replace(identity) => {
                self.core.turn_mut().spend(CHANGE_VISITS);
                self.core.adopt(now, key, identity);
            }
            Renewed::Close { end_session } => {
                self.core.turn_mut().spend(CHANGE_VISITS);
                self.revoke(now, key, end_session);
            }
        }
    }

    /// Closes a session's connection because its user may not be here any more.
    pub(crate) fn revoke(&mut self, now: Tick, key: SessionKey, end_session: bool) {
        self.core.take_rights(now, key);
        // It is out of its rooms for want of rights, and not because its connection is lost.
        self.hear(now);
        if end_session {
            set_expiry(&mut self.core, key, 0);
        }
        self.core
            .close(now, key, CloseReason::Local(Local::Revoked));
        if end_session {
            self.core.end_session(now, key);
        }
    }
}
