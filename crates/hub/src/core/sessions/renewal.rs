//! Changes of rights that reach who is connected, and who is away.
//!
//! A change visits all sessions of its shard, in each turn as many as that has room for, so that
//! no message waits for it. Logins that were decided before the change and arrive after it are
//! renewed as they arrive: each shard remembers what changed lately.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;

use stentor_session::Tick;

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::sessions::permission;
use crate::core::sessions::rights::{Access, Identity, Rights};

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
pub(crate) const LOOK_VISITS: u32 = 4;
pub(crate) const CHANGE_VISITS: u32 = 16;
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
    pub(crate) fn push(&mut self, now: Tick, renewal: Arc<dyn Renewal>) {
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

    /// The change that goes on, and the slot of the first session that it has not visited.
    pub(crate) fn next(&mut self) -> Option<(Arc<dyn Renewal>, usize)> {
        self.pending.pop_front()
    }

    /// It goes on from this slot in a later turn.
    pub(crate) fn put_back(&mut self, renewal: Arc<dyn Renewal>, slot: usize) {
        self.pending.push_front((renewal, slot));
    }

    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// The rights of somebody who has none any more.
pub(crate) struct NoRights;

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

/// Another change of rights is to go through the sessions.
pub(crate) fn push(core: &mut Core, now: Tick, renewal: Arc<dyn Renewal>) {
    core.rights.renewals.push(now, renewal);
}

/// The change of rights that goes on, and the slot of the first session that it has not
/// visited.
pub(crate) fn next(core: &mut Core) -> Option<(Arc<dyn Renewal>, usize)> {
    core.rights.renewals.next()
}

/// It goes on from this slot in a later turn.
pub(crate) fn put_back(core: &mut Core, renewal: Arc<dyn Renewal>, slot: usize) {
    core.rights.renewals.put_back(renewal, slot);
}

/// What a change of rights makes of a session.
pub(crate) fn renewed(core: &Core, key: SessionKey, renewal: &dyn Renewal) -> Renewed {
    core.sessions.get(key).map_or(Renewed::Keep, |session| {
        renewal.renew(session.state.identity(), session.state.client_id())
    })
}

/// Takes all rights from a session, whose user may not be here any more.
pub(crate) fn take_rights(core: &mut Core, now: Tick, key: SessionKey) {
    let Some(session) = core.sessions.get(key) else {
        return;
    };
    let identity = Identity {
        rights: Arc::new(NoRights),
        ..(**session.state.identity()).clone()
    };
    permission::adopt(core, now, key, Arc::new(identity));
}
