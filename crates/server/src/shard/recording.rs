//! What a shard writes down of its sessions, and who waits until that is done.

use stentor_hub::{
    ControlItem, MeshRoom, NotKept, SessionKey, ShardId, begin_restoring, has_answers,
    restore_room, session_lasts,
};

use super::Shard;
use super::link::Link;
use crate::sessions::{Prior, Recorder};

/// Items for other shards, and their bytes, that may wait for the journal of this one before
/// connections wait that have more of them: as many as a mesh without room.
const UNSENT_MAX: (usize, usize) = (16 << 10, 16 << 20);

impl Shard {
    /// Goes on with rooms and sessions that were there before the start.
    pub(super) fn restore(&mut self, prior: Prior) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        begin_restoring(&mut self.hub);
        for room in prior.rooms {
            restore_room(&mut self.hub, self.now, room);
            recorder.record_restored(&mut self.hub, false);
        }
        for session in prior.sessions {
            session.restore(&mut self.hub, self.now);
            recorder.record_restored(&mut self.hub, false);
        }
        recorder.record_restored(&mut self.hub, true);
        self.forward();
    }

    /// Writes down what the hub has said of sessions: after a call for one of them, which alone
    /// hears of it, beside sessions that last; or after any other call.
    pub(super) fn record(&mut self, client: Option<SessionKey>) {
        if let Some(recorder) = &mut self.recorder
            && recorder.record(&mut self.hub)
        {
            self.hold_hearers(client);
        }
    }

    /// What was recorded waits for room, or for the disk. Those that would hear of it wait too: the
    /// client that has asked for it, and sessions that last. If nobody has asked for it, all that
    /// have output wait for room, but only those with answers wait for the disk: the others have
    /// been promised nothing.
    fn hold_hearers(&mut self, client: Option<SessionKey>) {
        let lacks_room = self.recorder.as_ref().is_some_and(Recorder::lacks_room);
        let (hub, unwritten) = (&mut self.hub, &mut self.unwritten);
        unwritten.extend(client);
        let mut dirty = std::mem::take(&mut hub.effects().dirty);
        let may_ask = |key| client.is_none() && (lacks_room || has_answers(hub, key));
        let hears = |key: &SessionKey| may_ask(*key) || session_lasts(hub, *key);
        unwritten.extend(dirty.iter().copied().filter(hears));
        let crowd = std::mem::take(&mut hub.effects().crowd);
        let lasting = crowd.iter().copied().filter(|key| session_lasts(hub, *key));
        unwritten.extend(lasting);
        let effects = hub.effects();
        dirty.append(&mut effects.dirty);
        (effects.dirty, effects.crowd) = (dirty, crowd);
    }

    /// Goes on with the journal, and lets answers go that waited for it.
    pub(super) fn tend_recorder(&mut self) {
        // How far acknowledgements have come, before anything that takes time.
        self.record(None);
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if recorder.hear_spool(&mut self.hub, self.now) {
            self.forward();
        }
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let turn = recorder.tend(&mut self.hub);
        let waits = recorder.waits();
        let effects = self.hub.effects();
        if turn.drops {
            return self.break_off_unwritten();
        }
        let has_mesh = !effects.mesh.is_empty();
        let (mut outcomes, mut goes_on) = (Vec::new(), false);
        // Not among those with new output, who might have to wait for the next commit.
        let mut release = |key| {
            goes_on = true;
            self.backlog.push(key);
        };
        if turn.ends {
            self.unwritten.commit_ends().for_each(&mut release);
            outcomes = self.unwritten.outcomes(false);
        }
        if turn.begins {
            self.unwritten.commit_begins();
        }
        if !waits {
            self.unwritten.all().for_each(&mut release);
            outcomes.append(&mut self.unwritten.outcomes(true));
        }
        if goes_on {
            for index in self.unwritten.held() {
                self.push_readable(index);
            }
        }
        for (to, item) in outcomes {
            self.backplane.post_item(to, item);
        }
        if goes_on || has_mesh {
            self.forward();
        }
    }

    /// What was to be written down was dropped. Clients that wait for answers are cut off rather
    /// than told that it is there: they ask again when they are back.
    fn break_off_unwritten(&mut self) {
        let all: Vec<SessionKey> = self.unwritten.all().collect();
        for key in all {
            let link = self.link_of(key);
            let its = self.links.get(link as usize);
            let is_its = its.is_some_and(|link| link.session() == Some(key));
            if is_its && has_answers(&self.hub, key) {
                self.end_later(link);
            } else {
                self.hub.effects().dirty.push(key);
            }
        }
        for index in self.unwritten.held() {
            self.push_readable(index);
        }
        // Clients of other shards do not hear either that it is there.
        let mut outcomes = self.unwritten.outcomes(true);
        let is_outcome = |(_, item): &mut (ShardId, ControlItem)| item.is_outcome();
        outcomes.extend(self.hub.effects().lanes.extract_if(.., is_outcome));
        for (to, mut item) in outcomes {
            if let ControlItem::Resolved { outcome, .. } = &mut item
                && !outcome.reason.is_error()
            {
                *outcome = NotKept::Sessions.outcome();
            }
            self.backplane.post_item(to, item);
        }
        self.forward();
    }

    /// Bytes of what waits for the journal, for its disk, or for that of long backlogs. O(1), or
    /// O(n) of what is for other shards while the journal lacks room.
    pub(super) fn unwritten_bytes(&mut self) -> u64 {
        let Some(recorder) = &self.recorder else {
            return 0;
        };
        let effects = self.hub.effects();
        let unsent = effects.mesh.iter().map(|(_, item)| item.bytes()).sum();
        self.unsent = (effects.mesh.len(), unsent);
        let outcomes = effects.lanes.len() * size_of::<(ShardId, ControlItem)>();
        (recorder.bytes() + self.unwritten.bytes() + outcomes + unsent) as u64
    }

    /// Whether so much waits for room in the journal that nobody is read, no other shard either.
    pub(super) fn is_overladen(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::is_overladen)
    }

    /// How much room is left for what other shards get. What the journal has to have first counts
    /// as well.
    pub(super) fn mesh_room(&self) -> MeshRoom {
        let (items, bytes) = self.unsent;
        let unsent = match (items / UNSENT_MAX.0).max(bytes / UNSENT_MAX.1) {
            0 => MeshRoom::Free,
            1 => MeshRoom::Full,
            _ => MeshRoom::Overfull,
        };
        unsent.max(self.mesh.room())
    }

    /// Whether answers to a client wait until what they belong to is written down. It is not read
    /// in the meantime.
    pub(super) fn is_unwritten(&self, index: u32) -> bool {
        let session = self.links.get(index as usize).and_then(Link::session);
        session.is_some_and(|key| self.unwritten.contains(key))
    }
}
