//! Clients that connect while an earlier connection of theirs is still there.
//!
//! What a client has sent comes before its next connection: its last messages count, and its
//! DISCONNECT, if it is there, has discarded the will. So the earlier connection is read out first,
//! a share in each turn; the new one gets its CONNACK after that.

use std::sync::Arc;

use stentor_hub::{Identity, LinkId};
use stentor_session::ConnectRequest;
use stentor_topic::Zone;

use super::Shard;
use super::link::{Entrance, LinkKey, Phase, Reading};
use super::pace::{Part, READ_TIME};

/// How often an earlier connection is read, or goes on with what was read, at most: about what a
/// socket holds.
const STEPS_MAX: u8 = 32;

/// A connection that waits until its client's earlier one is read out. Its phase is
/// [`Phase::Authenticating`], which holds its CONNECT.
pub(super) struct TakeOver {
    link: LinkKey,
    identity: Arc<Identity>,
    /// The earlier connection that is read out for it.
    earlier: Option<LinkKey>,
    /// How often that has been read.
    steps: u8,
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
        self.links[index as usize].phase = Phase::Authenticating(request);
        self.taking_over.push_back(TakeOver {
            link: self.link_key(index),
            identity,
            earlier: None,
            steps: 0,
        });
    }

    /// Goes on with those who take over, as far as the turn has time.
    pub(super) fn take_over_all(&mut self) {
        if self.taking_over.is_empty() {
            return;
        }
        let mut part = Part::begin(&self.hub, self.now, READ_TIME);
        for _ in 0..self.taking_over.len() {
            let Some(next) = self.taking_over.pop_front() else {
                break;
            };
            self.take_over(next);
            if part.is_over(&self.hub, &self.backplane.clock) {
                break;
            }
        }
    }

    fn take_over(&mut self, mut next: TakeOver) {
        let index = next.link.index;
        let Some(request) = self.request_of(next.link) else {
            // Its client has gone.
            return self.let_others_read_out(&mut next);
        };
        let read_out = self.read_out_for(&mut next, &request.client_id);
        next.steps += u8::from(read_out == ReadOut::More);
        if read_out == ReadOut::Done || next.steps >= STEPS_MAX {
            self.let_others_read_out(&mut next);
            self.enter_now(index, request, next.identity);
            return self.weigh(index);
        }
        if let Some(link) = self.links.get_mut(index as usize) {
            link.phase = Phase::Authenticating(request);
            self.taking_over.push_back(next);
        }
    }

    /// Reads some of what the earlier connection has sent, unless another connection of the same
    /// client came before this one.
    fn read_out_for(&mut self, next: &mut TakeOver, client_id: &str) -> ReadOut {
        let zone = next.identity.zone;
        let Some(LinkId(earlier)) = self.hub.link(zone, client_id) else {
            return ReadOut::Done;
        };
        let earlier = self.link_key(earlier);
        if next.earlier != Some(earlier) {
            self.let_others_read_out(next);
        }
        if *self.read_out_for.entry(earlier).or_insert(next.link) != next.link {
            return ReadOut::NotNow;
        }
        next.earlier = Some(earlier);
        self.read_out(zone, client_id)
    }

    /// Nothing is read out for a connection any more.
    fn let_others_read_out(&mut self, next: &mut TakeOver) {
        if let Some(earlier) = next.earlier.take() {
            self.read_out_for.remove(&earlier);
        }
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
        if self.mesh.is_flooded() {
            return ReadOut::NotNow;
        }
        self.hub.read_last(zone, client_id, true);
        let read_out = self.read_some(zone, client_id);
        self.hub.read_last(zone, client_id, false);
        read_out
    }

    fn read_some(&mut self, zone: Zone, client_id: &str) -> ReadOut {
        let Some(LinkId(index)) = self.hub.link(zone, client_id) else {
            return ReadOut::Done;
        };
        let Some(link) = self.links.get(index as usize) else {
            return ReadOut::Done;
        };
        match link.reading {
            // Another shard takes what this connection published first.
            Reading::Stalled => return ReadOut::NotNow,
            // First what it sent before it had to wait.
            Reading::Paused | Reading::GaveWay => self.resume(index),
            Reading::Waiting | Reading::Missed | Reading::Listed => self.read_now(index),
        }
        match self.links.get(index as usize).map(|link| link.reading) {
            // A short read means that the socket is empty; one that has more is listed again, or
            // has used its share of this turn.
            Some(Reading::Listed | Reading::GaveWay | Reading::Stalled) => ReadOut::More,
            Some(Reading::Waiting | Reading::Missed | Reading::Paused) | None => ReadOut::Done,
        }
    }
}
