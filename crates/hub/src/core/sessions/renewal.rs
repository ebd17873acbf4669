//! Changes of rights that reach who is connected, and who is away.
//!
//! A change visits all sessions of its shard, in each turn as many as that has room for, so that
//! no message waits for it. Logins that were decided before the change and arrive after it are
//! renewed as they arrive: each shard remembers what changed lately.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;

use stentor_session::{CloseReason, Local, Tick};

use crate::core::ids::SessionKey;
use crate::core::sessions::rights::{Access, Identity, Rights};
use crate::hub::Hub;

/// A change of rights. The same one goes to every shard.
pub trait Renewal: Send + Sync + fmt::Debug {
    /// What has changed: a later change of the same takes the place of this one.
    fn subject(&self) -> &str;
    /// What becomes of a session. Asked for every session, and it takes as long as it takes.
    fn renew(&self, identity: &Arc<Identity>, client_id: &str) -> Renewed;
}

/// What becomes of one session.
#[derive(Clone, Debug)]
pub enum Renewed {
    /// It stays as it is.
    Keep,
    /// It goes on as this.
    Replace(Arc<Identity>),
    /// Its connection is closed with 0x98, and with `end_session` it ends. Its will is not
    /// published: nobody has the right to any more.
    Close {
        /// Whether the session ends too.
        end_session: bool,
    },
}

/// What it costs to look at a session, and to do something about it, in visits.
const LOOK_VISITS: u32 = 4;
const CHANGE_VISITS: u32 = 16;
/// How many changes are remembered for logins under way, and for how long, in seconds.
const RECENT_MAX: usize = 1_000;
const RECENT_SECS: u32 = 600;

/// The changes that a shard follows.
#[derive(Default)]
pub(crate) struct Renewals {
    /// For logins that were decided before; the oldest first.
    recent: VecDeque<(Tick, Arc<dyn Renewal>)>,
    /// Under way, each with the first slot that it has not visited.
    pending: VecDeque<(Arc<dyn Renewal>, usize)>,
}

impl fmt::Debug for Renewals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewals")
            .field("recent", &self.recent.len())
            .field("pending", &self.pending.len())
            .finish()
    }
}

impl Renewals {
    fn push(&mut self, now: Tick, renewal: Arc<dyn Renewal>) {
        let is_other = |known: &Arc<dyn Renewal>| known.subject() != renewal.subject();
        self.recent
            .retain(|(until, known)| *until > now && is_other(known));
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        let until = now.after_secs(RECENT_SECS);
        self.recent.push_back((until, Arc::clone(&renewal)));
        // What was under way for the same would only undo this one.
        self.pending.retain(|(known, _)| is_other(known));
        self.pending.push_back((renewal, 0));
    }

    /// An identity of a login, as it is after the latest changes; `None` if it may not be here
    /// any more.
    pub(crate) fn refresh(
        &self,
        mut identity: Arc<Identity>,
        client_id: &str,
    ) -> Option<Arc<Identity>> {
        for (_, renewal) in &self.recent {
            match renewal.renew(&identity, client_id) {
                Renewed::Keep => {}
                Renewed::Replace(new) => identity = new,
                Renewed::Close { .. } => return None,
            }
        }
        Some(identity)
    }

    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// The rights of somebody who has none any more.
struct NoRights;

impl Rights for NoRights {
    fn may_publish(&self, _topic: &str) -> bool {
        false
    }

    fn may_subscribe(&self, _filter: &str) -> Access {
        Access::Nothing
    }

    fn may_receive(&self, _topic: &str) -> bool {
        false
    }
}

impl Hub {
    /// Begins to apply a change of rights.
    pub(crate) fn begin_renewal(&mut self, now: Tick, renewal: Arc<dyn Renewal>) {
        self.settle(now);
        self.review_absent(now, &*renewal);
        self.renewals.push(now, renewal);
        self.continue_renewals(now);
    }

    /// Visits the next sessions.
    pub(crate) fn continue_renewals(&mut self, now: Tick) {
        let Some((renewal, from)) = self.renewals.pending.pop_front() else {
            return;
        };
        // What was taken before the change is delivered before it.
        self.settle(now);
        let (before, visits) = (self.turn.spent(), self.turn.slice());
        let mut slot = from;
        while slot < self.sessions.slots() && self.turn.spent() - before < visits {
            self.turn.spend(LOOK_VISITS);
            // Slots have 32 bits.
            if let Some(key) = self.sessions.key(slot as u32) {
                self.renew(now, key, &*renewal);
            }
            slot += 1;
        }
        if slot < self.sessions.slots() {
            self.renewals.pending.push_front((renewal, slot));
        }
        self.close_overrun(now);
    }

    fn renew(&mut self, now: Tick, key: SessionKey, renewal: &dyn Renewal) {
        let Some(session) = self.sessions.get(key) else {
            return;
        };
        match renewal.renew(&session.identity, &session.client_id) {
            Renewed::Keep => {}
            Renewed::Replace(identity) => {
                self.turn.spend(CHANGE_VISITS);
                self.adopt(now, key, identity);
            }
            Renewed::Close { end_session } => {
                self.turn.spend(CHANGE_VISITS);
                self.revoke(now, key, end_session);
            }
        }
    }

    /// Closes a session's connection because its user may not be here any more.
    pub(crate) fn revoke(&mut self, now: Tick, key: SessionKey, end_session: bool) {
        let Some(session) = self.sessions.get(key) else {
            return;
        };
        let identity = Identity {
            rights: Arc::new(NoRights),
            ..(*session.identity).clone()
        };
        self.adopt(now, key, Arc::new(identity));
        if end_session {
            self.sessions.set_expiry(key, 0);
        }
        self.close(now, key, CloseReason::Local(Local::Revoked));
        if end_session {
            self.end_session(now, key);
        }
    }
}
