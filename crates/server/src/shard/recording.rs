//! What a shard writes down of its sessions, and who waits until that is done.

use stentor_hub::{PriorSession, SessionKey, begin_restoring, session_lasts};

use super::Shard;
use super::link::Link;
use crate::sessions::Recorder;

impl Shard {
    /// Goes on with sessions that were there before the start.
    pub(super) fn restore(&mut self, prior: Vec<PriorSession>) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        begin_restoring(&mut self.hub);
        for session in prior {
            session.restore(&mut self.hub, self.now);
            recorder.record_restored(&mut self.hub, false);
        }
        recorder.record_restored(&mut self.hub, true);
        self.forward();
    }

    /// Writes down what the hub has said of sessions.
    pub(super) fn record(&mut self) {
        if let Some(recorder) = &mut self.recorder
            && recorder.record(&mut self.hub)
        {
            self.hold_hearers(None);
        }
    }

    /// What was recorded waits for room. Those that would hear of it wait too: the client that has
    /// asked for it, or all that have output, and sessions that last.
    pub(super) fn hold_hearers(&mut self, client: Option<SessionKey>) {
        let (hub, unwritten) = (&mut self.hub, &mut self.unwritten);
        unwritten.extend(client);
        let mut dirty = std::mem::take(&mut hub.effects().dirty);
        let hears = |key: &&SessionKey| client.is_none() || session_lasts(hub, **key);
        unwritten.extend(dirty.iter().filter(hears));
        let crowd = std::mem::take(&mut hub.effects().crowd);
        unwritten.extend(crowd.iter().filter(|key| session_lasts(hub, **key)));
        let effects = hub.effects();
        dirty.append(&mut effects.dirty);
        (effects.dirty, effects.crowd) = (dirty, crowd);
    }

    /// Goes on with the journal, and lets answers go that waited for it.
    pub(super) fn tend_recorder(&mut self) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        recorder.tend(&mut self.hub);
        let goes_on = !self.unwritten.is_empty() && !recorder.waits();
        let effects = self.hub.effects();
        if goes_on {
            effects.dirty.extend(self.unwritten.drain());
        }
        if goes_on || !effects.mesh.is_empty() {
            self.forward();
        }
    }

    /// Whether so much waits for the journal that nobody is let in.
    pub(super) fn is_laden(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::is_laden)
    }

    /// Whether so much waits for the journal that nobody is read, no other shard either.
    pub(super) fn is_overladen(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::is_overladen)
    }

    /// Whether what a client has sent waits for the journal, or so much does that nobody is read.
    pub(super) fn waits_for_journal(&mut self, index: u32) -> bool {
        /// Items for other shards that may wait.
        const ITEMS_MAX: usize = 16 << 10;
        let Some(recorder) = self.recorder.as_ref().filter(|it| it.waits()) else {
            return false;
        };
        let key = self.links.get(index as usize).and_then(Link::session);
        recorder.is_overladen()
            || self.hub.effects().mesh.len() >= ITEMS_MAX
            || key.is_some_and(|key| self.unwritten.contains(&key))
    }
}
