//! Clients that connect while an earlier connection of theirs is still there.
//!
//! What a client has sent comes before its next connection: its last messages count, and its
//! DISCONNECT, if it is there, has discarded the will. So the earlier connection is read out first,
//! a share in each turn; the new one gets its CONNACK after that.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use stentor_hub::{Identity, LinkId};
use stentor_session::ConnectRequest;
use stentor_topic::Zone;

use super::Shard;
use super::link::{Entrance, LinkKey, Phase, Reading};
use super::pace::READ_TIME;

/// How often an earlier connection is read, or goes on with what was read, at most: about what a
/// socket holds.
const STEPS_MAX: u8 = 32;

/// A connection that waits until its client's earlier one is read out. Its phase is
/// [`Phase::Authenticating`], which holds its CONNECT.
pub(super) struct TakeOver {
    link: LinkKey,
    identity: Arc<Identity>,
    /// The hash of its client id and zone.
    client: u64,
    /// How often the earlier connection has been read.
    steps: u8,
}

/// Those that wait, each for the earlier connection of its client. A hundred may come for the same
/// client at once: the first of them has its earlier connection read out, and nothing is done for
/// those behind it until it is through.
#[derive(Default)]
pub(super) struct TakeOvers {
    first: VecDeque<TakeOver>,
    /// Those behind the first one of a client. Each client that has a first one is here; clients
    /// with the same hash wait for each other.
    behind: HashMap<u64, VecDeque<TakeOver>>,
}

impl TakeOvers {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    fn push(&mut self, next: TakeOver) {
        match self.behind.entry(next.client) {
            Entry::Occupied(behind) => behind.into_mut().push_back(next),
            Entry::Vacant(none) => {
                none.insert(VecDeque::new());
                self.first.push_back(next);
            }
        }
    }

    /// The first one of a client is through: the next one is first, and has its turn after those
    /// of other clients. Returns whether there is one.
    fn go_on(&mut self, client: u64) -> bool {
        let next = self.behind.get_mut(&client).and_then(VecDeque::pop_front);
        let Some(next) = next else {
            self.behind.remove(&client);
            return false;
        };
        self.first.push_back(next);
        true
    }
}

/// How far an earlier connection has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadOut {
    /// Nothing more is read from it.
    Done,
    /// There is more, or there may be.
    More,
    /// It cannot be read in this turn.
    NotNow,
}

impl Shard {
    /// Has a connection wait until the earlier one of its client is read out.
    pub(super) fn take_over_later(
        &mut self,
        index: u32,
        request: Box<ConnectRequest>,
        identity: Arc<Identity>,
    ) {
        let hasher = &self.context.hasher;
        let client = hasher.hash(identity.zone, &request.client_id);
        self.links[index].phase = Phase::Authenticating(request);
        self.taking_over.push(TakeOver {
            link: self.link_key(index),
            identity,
            client,
            steps: 0,
        });
    }

    /// Goes on with those who take over, as far as the turn has time.
    pub(super) fn take_over_all(&mut self) {
        if self.taking_over.is_empty() {
            return;
        }
        let mut part = self.begin_part(READ_TIME).of_long_steps();
        let mut left = self.taking_over.first.len();
        while left > 0
            && let Some(next) = self.taking_over.first.pop_front()
        {
            left -= 1;
            let client = next.client;
            if self.take_over(next) {
                left += usize::from(self.taking_over.go_on(client));
            }
            if part.is_over(&self.hub, &self.context.clock) {
                break;
            }
        }
    }

    /// Reads some of what the earlier connection has sent. Returns whether the one that waits is
    /// through with it, or has gone.
    fn take_over(&mut self, mut next: TakeOver) -> bool {
        let index = next.link.index;
        let Some(request) = self.request_of(next.link) else {
            return true;
        };
        let read_out = self.read_out(next.identity.zone, &request.client_id);
        next.steps += u8::from(read_out == ReadOut::More);
        if read_out == ReadOut::Done || next.steps >= STEPS_MAX {
            self.enter_now(index, request, next.identity);
            self.weigh(index);
            return true;
        }
        let Some(link) = self.links.get_mut(index) else {
            return true;
        };
        link.phase = Phase::Authenticating(request);
        self.taking_over.first.push_back(next);
        false
    }

    /// Takes the CONNECT of a link that waits, unless it has gone in the meantime.
    pub(super) fn request_of(&mut self, key: LinkKey) -> Option<Box<ConnectRequest>> {
        let link = self.link_named(key)?;
        let expect = Phase::ExpectConnect(Entrance::Login);
        match std::mem::replace(&mut link.phase, expect) {
            Phase::Authenticating(request) => Some(request),
            other => {
                link.phase = other;
                None
            }
        }
    }

    /// Reads some of what the connection that a client id has now has sent already. One that has
    /// to wait itself, for its pace, is not read. Commands about rooms that it has not paid for
    /// are done, up to a bound.
    fn read_out(&mut self, zone: Zone, client_id: &str) -> ReadOut {
        self.hub.read_last(zone, client_id, true);
        let read_out = self.read_some(zone, client_id);
        self.hub.read_last(zone, client_id, false);
        read_out
    }

    fn read_some(&mut self, zone: Zone, client_id: &str) -> ReadOut {
        let Some(LinkId(index)) = self.hub.inspect().link(zone, client_id) else {
            return ReadOut::Done;
        };
        let Some(link) = self.links.get(index) else {
            return ReadOut::Done;
        };
        match link.reading {
            // Another shard takes what this connection published first.
            Reading::Stalled => return ReadOut::NotNow,
            // First what it sent before it had to wait.
            Reading::Paused | Reading::GaveWay => self.resume(index),
            Reading::Waiting | Reading::Missed | Reading::Listed => self.read_now(index),
        }
        match self.links.get(index).map(|link| link.reading) {
            // A short read means that the socket is empty; one that has more is listed again, or
            // has used its share of this turn.
            Some(Reading::Listed | Reading::GaveWay | Reading::Stalled) => ReadOut::More,
            Some(Reading::Waiting | Reading::Missed | Reading::Paused) | None => ReadOut::Done,
        }
    }
}
