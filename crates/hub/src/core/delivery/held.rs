//! Output that waits for more, by the delay of its topics, so that several messages leave together.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use hashbrown::HashMap;
use stentor_session::Tick;

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::sessions::registry::{Flushing, Session};

/// The sessions with such output.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The time until which messages that are handed out now may wait, by the delay of their topic;
    /// `None` for those that leave at the end of the turn.
    pub(crate) now_until: Option<Tick>,
    /// The time until which each session waits. A session that was flushed in the meantime may
    /// stand here still, and is then flushed early.
    queue: BinaryHeap<Reverse<(Tick, SessionKey)>>,
    /// The earliest of these times of each slot.
    earliest: HashMap<u32, Tick, foldhash::fast::FixedState>,
}

impl Held {
    /// A session waits until then.
    #[cold]
    pub(crate) fn hold(&mut self, key: SessionKey, until: Tick) {
        self.queue.push(Reverse((until, key)));
        self.earliest.insert(key.slot, until);
    }

    /// Whether a session waits for longer than that.
    pub(crate) fn is_for_longer(&self, key: SessionKey, until: Tick) -> bool {
        self.earliest.get(&key.slot).is_some_and(|at| *at > until)
    }

    /// When the next session is due.
    pub(crate) fn next_at(&self) -> Option<Tick> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// The next session that is due.
    fn next(&mut self, now: Tick) -> Option<SessionKey> {
        let Reverse((at, key)) = *self.queue.peek()?;
        if at > now {
            return None;
        }
        self.queue.pop();
        if self.earliest.get(&key.slot).is_some_and(|at| *at <= now) {
            self.earliest.remove(&key.slot);
        }
        if self.queue.is_empty() {
            self.earliest = HashMap::default();
        }
        Some(key)
    }
}

/// Lists sessions whose output was held until now, as far as the turn allows.
pub(crate) fn flush_held(core: &mut Core, now: Tick) {
    let (before, slice) = (core.turn.spent(), core.turn.slice());
    while core.turn.spent() - before < slice
        && let Some(key) = core.outbox.held.next(now)
    {
        core.turn.spend(1);
        let session = core.sessions.get_mut(key);
        if let Some(live) = session.and_then(Session::live_mut)
            && live.flushing == Flushing::Held
        {
            core.outbox.revisit(key, live);
        }
    }
}
