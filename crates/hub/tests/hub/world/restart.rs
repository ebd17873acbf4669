//! The end of a server at any moment, and its next start.

use std::collections::VecDeque;
use std::sync::Arc;

use stentor_hub::journal::{
    begin_restoring, end_restoring, give_up_rewriting, logged, restore_room, rewrite_sessions,
};
use stentor_hub::{
    Hub, Settings, Start, WrittenSession, has_untold_shares, home_of_zone, prior_message,
    prior_sessions,
};
use stentor_retained::{Bounds, MemoryStore};
use stentor_session::{CloseReason, Message, Remote, Tick};
use stentor_session_log::{JournalId, Name, Replay, Restored};
use stentor_topic::TopicHasher;

use super::{World, identity};

/// [`Tick::ZERO`] in milliseconds since 1970.
const ZERO_MS: u64 = 1_700_000_000_000;
/// Seconds after the start that wills are published, unless they are due later.
pub const GRACE_SECS: u32 = 30;

/// What the journal of one shard has got.
#[derive(Debug)]
pub struct Journal {
    id: JournalId,
    end: Name,
    batches: Vec<(Name, Vec<u8>)>,
    /// Where the present round of [`World::rewrite`] has begun, and with which session it goes on.
    round: (usize, u32),
    /// Records that wait for room.
    waiting: VecDeque<Vec<u8>>,
    disk: Disk,
    /// Whether packet ids that have arrived do not count.
    forgets_arrivals: bool,
    /// How many batches the disk has, whatever becomes of the machine.
    synced: usize,
    /// How many batches have become superfluous by rounds; `None` before the first has ended.
    superfluous: Option<usize>,
}

/// What a disk does with batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// It takes them.
    Takes,
    /// They wait.
    IsSlow,
    /// They are dropped.
    IsFull,
    /// It takes them, and all sessions are to be written again, since some were dropped.
    CatchesUp,
}

impl Journal {
    fn new(generation: u32, shard: u8) -> Self {
        Self {
            id: JournalId {
                generation,
                shard: shard.into(),
            },
            end: Name {
                file: generation * 100 + u32::from(shard),
                offset: 64,
            },
            batches: Vec::new(),
            round: (0, 0),
            waiting: VecDeque::new(),
            disk: Disk::Takes,
            forgets_arrivals: false,
            synced: 0,
            superfluous: None,
        }
    }

    /// What becomes of a batch: where it is, or that it was dropped. `None` if it waits.
    pub fn take(&mut self, batch: &[u8]) -> Option<Option<Name>> {
        match self.disk {
            Disk::IsFull => Some(None),
            Disk::Takes | Disk::CatchesUp => Some(Some(self.append(batch.to_vec()))),
            Disk::IsSlow => {
                self.waiting.push_back(batch.to_vec());
                None
            }
        }
    }

    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn append(&mut self, records: Vec<u8>) -> Name {
        const FRAME_BYTES: u32 = 16;
        let at = self.end;
        self.end = at.within(FRAME_BYTES + u32::try_from(records.len()).unwrap());
        self.batches.push((at, records));
        at
    }

    /// The bytes of each batch.
    pub fn sizes(&self) -> Vec<usize> {
        let all = self.batches.iter();
        all.map(|(_, records)| records.len()).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }
}

impl World {
    /// Hubs that write down what their sessions are.
    pub fn writing(shards: u8, settings: Settings) -> Self {
        Self::with_journals(shards, settings, (7, 1))
    }

    fn with_journals(shards: u8, settings: Settings, (hash, generation): (u64, u32)) -> Self {
        let hasher = TopicHasher::new(hash);
        let store = Arc::new(MemoryStore::new(hasher.clone(), Bounds::default()));
        let mut world = Self::with_all(shards, settings, store, (None, hasher), Some(ZERO_MS));
        let journals = (0..shards).map(|shard| Journal::new(generation, shard));
        world.journals = journals.collect();
        world
    }

    /// The server is gone from one moment to the next. The journals are left, and what clients
    /// have in their hands. A server with another number of shards and another hasher starts, and
    /// goes on with the sessions. Nothing else is left, no retained message either.
    pub fn crash(&mut self, shards: u8, hash: u64) {
        self.crash_onto(Disk::Takes, shards, hash);
    }

    /// The same, and the disk of the next start is so.
    pub fn crash_onto(&mut self, disk: Disk, shards: u8, hash: u64) {
        let settings = (*self.settings).clone();
        let generation = self.journals[0].id.generation + 1;
        let mut after = Self::with_journals(shards, settings, (hash, generation));
        for journal in &mut after.journals {
            journal.disk = disk;
        }
        let mut before = std::mem::replace(self, after);
        for client in &mut before.clients {
            if client.link.take().is_some() {
                client.closed = Some(CloseReason::Remote(Remote::Reset));
            }
            client.key = None;
            client.unread.clear();
        }
        self.clients = before.clients;
        self.now = before.now;
        self.next_link = before.next_link;
        self.paused = before.paused;
        self.dies_between = before.dies_between;
        self.older = before.older;
        self.owners = before.owners;
        self.spool = before.spool.survive();
        self.older.append(&mut before.journals);
        self.go_on_with_sessions();
    }

    /// The disk has all that a shard has written until now.
    pub fn sync(&mut self, shard: u8) {
        let journal = &mut self.journals[usize::from(shard)];
        journal.synced = journal.batches.len();
    }

    /// The machine loses power: as [`World::crash`], and of each journal only that is left which
    /// the disk had. A start brings what it has found to the disk. It forgets the packet ids that
    /// have arrived, unless acknowledgements have waited for the disk.
    pub fn lose_power(&mut self, shards: u8, hash: u64, forgets_arrivals: bool) {
        for journal in &mut self.journals {
            journal.batches.truncate(journal.synced);
        }
        for journal in self.older.iter_mut().chain(&mut self.journals) {
            journal.forgets_arrivals |= forgets_arrivals;
        }
        self.crash(shards, hash);
    }

    fn start(&self) -> Start {
        Start {
            now: self.now,
            zero_ms: ZERO_MS,
            will_grace_secs: GRACE_SECS,
        }
    }

    /// What the journals of earlier starts tell.
    fn replay(&self) -> Restored<Arc<Message>> {
        let mut replay = Replay::new();
        for journal in &self.older {
            replay.journal(journal.id);
            if journal.forgets_arrivals {
                replay.forget_arrivals();
            }
            for (at, records) in &journal.batches {
                replay.batch(*at, records).unwrap();
            }
        }
        let start = self.start();
        replay.finish(|name, body| prior_message(&start, name, body))
    }

    fn go_on_with_sessions(&mut self) {
        let mut restored = self.replay();
        assert_eq!(restored.damage, []);
        let rooms = std::mem::take(&mut restored.rooms);
        let start = self.start();
        let sessions = prior_sessions(restored, &start, |session| {
            let owner = session.owner.and_then(|mark| self.owners.get(&mark));
            Some((whose(session), owner.cloned()))
        });
        self.hubs.iter_mut().for_each(begin_restoring);
        for room in rooms {
            let shards = u8::try_from(self.hubs.len()).unwrap();
            let home = home_of_zone(stentor_topic::Zone(room.zone), shards).0;
            restore_room(&mut self.hubs[usize::from(home)], self.now, room);
            self.collect(home);
        }
        for mut session in sessions {
            self.spool.find(&mut session);
            let home = self.home(&session.client_id);
            session.restore(&mut self.hubs[usize::from(home)], self.now);
            self.collect(home);
        }
        // A shard may go on before it has heard of the sessions of others.
        for hub in &mut self.hubs {
            hub.advance(self.now);
        }
        self.settle();
        while self.hubs.iter().any(has_untold_shares) {
            self.tell_shares();
        }
        for shard in 0..self.hubs.len() {
            self.set_share_room(u8::try_from(shard).unwrap(), u32::MAX);
        }
        self.hubs.iter_mut().for_each(end_restoring);
    }

    /// A turn of all hubs before anybody is let in.
    fn tell_shares(&mut self) {
        const ROOM: u32 = 4_096;
        self.start_turns += 1;
        self.hubs.iter_mut().for_each(Hub::begin_turn);
        for shard in 0..u8::try_from(self.hubs.len()).unwrap() {
            self.set_share_room(shard, ROOM);
        }
        self.settle();
        let most = self.hubs.iter().map(|hub| hub.turn().visits()).max();
        assert!(most <= Some(2 * ROOM), "{most:?} visits in a turn");
    }

    /// Some sessions of a shard are written whole. When that has been done of all, what was written
    /// before is given up: by earlier starts when all shards are so far, and in this one then.
    /// Returns whether no earlier start counts.
    pub fn rewrite(&mut self, shard: u8, at_most: usize) -> bool {
        let at = usize::from(shard);
        if matches!(self.journals[at].disk, Disk::IsSlow | Disk::IsFull) {
            return false;
        }
        let from = self.journals[at].round.1;
        if from == 0 {
            self.journals[at].round.0 = self.journals[at].batches.len();
        }
        let next = rewrite_sessions(&mut self.hubs[at], from, at_most);
        self.collect(shard);
        let journal = &mut self.journals[at];
        journal.round.1 = next.unwrap_or(0);
        if next.is_none() {
            journal.superfluous = Some(journal.round.0);
            journal.disk = Disk::Takes;
        }
        if self.journals.iter().any(|it| it.superfluous.is_none()) {
            return false;
        }
        self.older.clear();
        for journal in &mut self.journals {
            let superfluous = journal.superfluous.replace(0).unwrap_or(0);
            journal.batches.drain(..superfluous);
            // Nothing is given up before the disk has what is in its place.
            journal.synced = journal.batches.len();
            // A full disk has given up the round that was under way.
            journal.round.0 = journal.round.0.saturating_sub(superfluous);
        }
        true
    }
}

impl World {
    /// The disk of a shard changes.
    pub fn set_disk(&mut self, shard: u8, disk: Disk) {
        let (hub, journal) = (
            &mut self.hubs[usize::from(shard)],
            &mut self.journals[usize::from(shard)],
        );
        match (journal.disk, disk) {
            (Disk::Takes, Disk::IsSlow) | (Disk::IsFull, Disk::CatchesUp) => {}
            (Disk::IsSlow, Disk::Takes) => {
                for batch in std::mem::take(&mut journal.waiting) {
                    let at = journal.append(batch);
                    logged(hub, Some(at));
                }
            }
            (Disk::Takes | Disk::IsSlow | Disk::CatchesUp, Disk::IsFull) => {
                for _ in std::mem::take(&mut journal.waiting) {
                    logged(hub, None);
                }
                give_up_rewriting(hub);
                journal.round = (0, 0);
            }
            _ => return,
        }
        journal.disk = disk;
        self.collect(shard);
    }

    /// Whether all that was acknowledged is written down.
    pub fn is_sound(&self) -> bool {
        let mut all = self.journals.iter();
        all.all(|it| matches!(it.disk, Disk::Takes | Disk::IsSlow))
    }

    /// [`World::rewrite`] of all sessions.
    pub fn rewrite_all(&mut self) -> bool {
        for _ in 0..3 {
            for shard in 0..self.hubs.len() {
                self.rewrite(u8::try_from(shard).unwrap(), usize::MAX);
            }
        }
        self.older.is_empty()
    }

    /// The server stops in order.
    pub fn stop(&mut self) {
        for shard in 0..self.hubs.len() {
            self.hubs[shard].operate().shut_down(self.now, |_| None);
            self.collect(u8::try_from(shard).unwrap());
        }
    }
}

/// Roles of the tests are named after what they deny.
fn whose(session: &WrittenSession) -> Arc<stentor_hub::Identity> {
    let denied: Vec<&str> = session.roles.iter().map(|role| &**role).collect();
    identity(session.user.as_deref(), Tick::NEVER, &denied)
}
