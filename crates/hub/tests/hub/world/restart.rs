//! The end of a server at any moment, and its next start.

use std::sync::Arc;

use stentor_hub::{
    Hub, Settings, Start, WrittenSession, has_untold_shares, prior_message, prior_sessions,
    rewrite_sessions,
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
    /// Where the present round of [`World::rewrite`] has begun, and with which session it goes on;
    /// `None` for the next one after it has been round.
    round: (usize, Option<u32>),
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
            round: (0, Some(0)),
        }
    }

    pub fn append(&mut self, records: Vec<u8>) {
        const FRAME_BYTES: u32 = 16;
        let at = self.end;
        self.end = at.within(FRAME_BYTES + u32::try_from(records.len()).unwrap());
        self.batches.push((at, records));
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
        let settings = (*self.settings).clone();
        let generation = self.journals[0].id.generation + 1;
        let after = Self::with_journals(shards, settings, (hash, generation));
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
        self.older = before.older;
        self.older.append(&mut before.journals);
        self.go_on_with_sessions();
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
            for (at, records) in &journal.batches {
                replay.batch(*at, records).unwrap();
            }
        }
        let start = self.start();
        replay.finish(|_, body| prior_message(&start, body))
    }

    fn go_on_with_sessions(&mut self) {
        let restored = self.replay();
        assert_eq!(restored.damage, []);
        let start = self.start();
        let sessions = prior_sessions(restored, &start, |session| Some((whose(session), None)));
        for hub in &mut self.hubs {
            hub.set_share_room(0);
        }
        for session in sessions {
            let home = self.home(&session.client_id);
            session.restore(&mut self.hubs[usize::from(home)], self.now);
            self.collect(home);
        }
        self.settle();
        while self.hubs.iter().any(has_untold_shares) {
            self.tell_shares();
        }
        for shard in 0..self.hubs.len() {
            self.set_share_room(u8::try_from(shard).unwrap(), u32::MAX);
        }
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
        let most = self.hubs.iter().map(Hub::turn_visits).max();
        assert!(most <= Some(2 * ROOM), "{most:?} visits in a turn");
    }

    /// Some sessions of a shard are written whole. When that has been done of all of all shards,
    /// what was written before is given up. Returns whether that is so.
    pub fn rewrite(&mut self, shard: u8, at_most: usize) -> bool {
        let at = usize::from(shard);
        if let Some(from) = self.journals[at].round.1 {
            if from == 0 {
                self.journals[at].round.0 = self.journals[at].batches.len();
            }
            let next = rewrite_sessions(&mut self.hubs[at], from, at_most);
            self.collect(shard);
            self.journals[at].round.1 = next;
        }
        if self.journals.iter().any(|it| it.round.1.is_some()) {
            return false;
        }
        self.older.clear();
        for journal in &mut self.journals {
            journal.batches.drain(..journal.round.0);
            journal.round = (0, Some(0));
        }
        true
    }
}

impl World {
    /// [`World::rewrite`] of all sessions that are left of the present round.
    pub fn rewrite_all(&mut self) -> bool {
        (0..self.hubs.len()).any(|shard| self.rewrite(u8::try_from(shard).unwrap(), usize::MAX))
    }

    /// The server stops in order.
    pub fn stop(&mut self) {
        for shard in 0..self.hubs.len() {
            self.hubs[shard].shut_down(self.now, |_| None);
            self.collect(u8::try_from(shard).unwrap());
        }
    }
}

/// Roles of the tests are named after what they deny.
fn whose(session: &WrittenSession) -> Arc<stentor_hub::Identity> {
    let denied: Vec<&str> = session.roles.iter().map(|role| &**role).collect();
    identity(session.user.as_deref(), Tick::NEVER, &denied)
}
