//! What a shard writes down of its sessions, and who waits until that is done.

use stentor_hub::journal::{begin_restoring, restore_room, session_lasts};
use stentor_hub::output::{
    answer_bytes, forget_touched, has_answers, has_news, mark_output, note_touched, release_marked,
    release_output, take_touched,
};
use stentor_hub::{MeshRoom, NotKept, SessionKey, ShardId, ShardItem};
use stentor_session::Remote;

use super::Shard;
use super::link::{Link, Reading};
use super::unwritten::Leaves;
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
        if recorder.syncs_first() {
            note_touched(&mut self.hub);
        }
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
    #[inline]
    pub(super) fn record(&mut self, client: Option<SessionKey>) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        // Asked some six times a turn, mostly for nothing.
        if Recorder::is_asked(&mut self.hub) && recorder.record(&mut self.hub) {
            self.hold_hearers(client);
        }
        forget_touched(&mut self.hub);
    }

    /// What was recorded waits for room, or for the disk. Those that would hear of it wait too: the
    /// client that has asked for it, and sessions that last. If nobody has asked for it, all that
    /// have output wait for room, but only those with answers wait for the disk: the others have
    /// been promised nothing. A client that hears only that its connection is alive never waits.
    ///
    /// A session that waits for the disk may have earlier output that is not written yet. Then it
    /// is not dirty because of what it hears now.
    fn hold_hearers(&mut self, client: Option<SessionKey>) {
        let lacks_room = self.recorder.as_ref().is_some_and(Recorder::lacks_room);
        let syncs_first = self.recorder.as_ref().is_some_and(Recorder::syncs_first);
        let (hub, unwritten) = (&mut self.hub, &mut self.unwritten);
        unwritten.extend(client);
        let touched = take_touched(hub);
        let mut dirty = std::mem::take(&mut hub.effects().dirty);
        let tells = |key| match lacks_room {
            true => has_news(hub, key),
            false => has_answers(hub, key),
        };
        let may_ask = |key| client.is_none() && tells(key);
        let hears = |key: &SessionKey| may_ask(*key) || session_lasts(hub, *key);
        let heard = if syncs_first { &touched } else { &dirty };
        unwritten.extend(heard.iter().copied().filter(hears));
        let crowd = std::mem::take(&mut hub.effects().crowd);
        if !syncs_first {
            let lasting = crowd.iter().copied().filter(|key| session_lasts(hub, *key));
            unwritten.extend(lasting);
        }
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
        if turn.is_quiet() && self.unwritten.is_idle() {
            return self.forward_unsent();
        }
        let effects = self.hub.effects();
        if turn.drops {
            return self.break_off_unwritten();
        }
        let has_mesh = !effects.mesh.is_empty();
        let (mut outcomes, mut goes_on) = (Vec::new(), false);
        let (hub, backlog) = (&mut self.hub, &mut self.backlog);
        // Not among those with new output, who might have to wait for the next commit.
        let mut release = |(key, leaves)| {
            goes_on = true;
            match leaves {
                Leaves::All => release_output(hub, key),
                Leaves::Covered => release_marked(hub, key),
            }
            backlog.push(key);
        };
        if turn.ends {
            self.unwritten.commit_ends().for_each(&mut release);
            outcomes = self.unwritten.outcomes(false);
        }
        if !waits {
            let all = self.unwritten.all().map(|key| (key, Leaves::All));
            all.for_each(&mut release);
            outcomes.append(&mut self.unwritten.outcomes(true));
        }
        if turn.begins {
            let covers = self.unwritten.commit_begins();
            covers.for_each(|key| mark_output(&mut self.hub, key));
        }
        if goes_on {
            self.read_held();
        }
        for (to, item) in outcomes {
            self.context.post_item(to, item);
        }
        if goes_on || has_mesh {
            self.forward();
        }
    }

    /// Sends on what other shards get, which waited for the journal perhaps.
    fn forward_unsent(&mut self) {
        if !self.hub.effects().mesh.is_empty() {
            self.forward();
        }
    }

    /// Goes on with links that were held.
    fn read_held(&mut self) {
        for index in self.unwritten.held() {
            self.push_readable(index);
        }
        let mut paused = self.unwritten.paused();
        self.resumed.append(&mut paused);
    }

    /// What was to be written down was dropped. Clients that wait for answers are cut off rather
    /// than told that it is there: they ask again when they are back.
    fn break_off_unwritten(&mut self) {
        let all: Vec<SessionKey> = self.unwritten.all().collect();
        for key in all {
            let link = self.link_of(key);
            let its = self.links.get(link);
            let is_its = its.is_some_and(|link| link.session() == Some(key));
            if is_its && has_answers(&self.hub, key) {
                self.end_later(link);
            } else {
                self.hub.effects().dirty.push(key);
            }
        }
        self.read_held();
        // Clients of other shards do not hear either that it is there.
        let mut outcomes = self.unwritten.outcomes(true);
        let is_outcome = |(_, item): &mut (ShardId, ShardItem)| item.is_outcome();
        outcomes.extend(self.hub.effects().control_items.extract_if(.., is_outcome));
        for (to, mut item) in outcomes {
            if let ShardItem::Resolved { outcome, .. } = &mut item
                && !outcome.reason.is_error()
            {
                *outcome = NotKept::Sessions.outcome();
            }
            self.context.post_item(to, item);
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
        let outcomes = effects.control_items.len() * size_of::<(ShardId, ShardItem)>();
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

    /// Whether a client is not read because of answers that wait until what they belong to is
    /// written down: many of them, or such as wait for room.
    pub(super) fn is_held(&self, index: u32) -> bool {
        /// Some 4,000 acknowledgements: a client that sends faster than the disk takes it has them
        /// in one commit.
        const ANSWER_BYTES: usize = 16 << 10;
        let session = self.links.get(index).and_then(Link::session);
        let lacks_room = || self.recorder.as_ref().is_some_and(Recorder::lacks_room);
        session.is_some_and(|key| {
            let has_many = || answer_bytes(&self.hub, key) >= ANSWER_BYTES;
            self.unwritten.contains(key) && (has_many() || lacks_room())
        })
    }

    /// A client has closed its side of its connection. It may still read answers that wait: then
    /// the socket is read again after them, and says this again.
    pub(super) fn has_ended(&mut self, index: u32) {
        if !self.is_unwritten(index) {
            if self.recorder.as_ref().is_some_and(Recorder::syncs_first) {
                // What the last commit has covered is not written yet.
                self.flush_last(index);
            }
            return self.lost(index, Remote::Closed);
        }
        if let Some(link) = self.links.get_mut(index) {
            link.reading = Reading::Listed;
            self.unwritten.hold(index);
        }
    }

    /// Whether output for a client waits until what it belongs to is written down.
    pub(super) fn is_unwritten(&self, index: u32) -> bool {
        let session = self.links.get(index).and_then(Link::session);
        session.is_some_and(|key| self.unwritten.contains(key))
    }
}
