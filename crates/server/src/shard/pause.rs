//! Connections that are not read for a while, and how they go on.
//!
//! **Three kinds of waiting.** A connection is paused when its client publishes faster than it may,
//! owes for work, or has asked for something that has to be decided first. A connection gives way
//! when it has used its share of a turn: then it goes on after those that have sent less. It is
//! stalled when other shards have to catch up first.
//!
//! The answers to a connection that gave way wait for those of its next shares, until they fill a
//! write. So a burst that takes several turns costs a few writes, not one for each turn. Messages
//! of others do not wait.

use stentor_hub::journal::is_journal_laden;
use stentor_hub::{Beside, LinkId, MeshRoom};
use stentor_session::Tick;

use super::Shard;
use super::link::{Link, LinkKey, Reading};
use super::pace::{LONGER_PACKETS, Part};

impl Shard {
    /// Notes which links the hub wants to be left alone.
    pub(super) fn note_pauses(&mut self) {
        while let Some((LinkId(index), until)) = self.hub.effects().paused.pop() {
            self.pause(index, until);
        }
        while let Some(LinkId(index)) = self.hub.effects().yielded.pop() {
            self.give_way(index);
        }
        while let Some(LinkId(index)) = self.hub.effects().awaiting_room.pop() {
            self.await_room(index);
        }
    }

    /// Reads nothing from a link until other shards have caught up.
    fn await_room(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        if link.reading != Reading::Stalled {
            link.reading = Reading::Stalled;
            self.awaiting_room.push(index);
        }
    }

    /// Moves what waits for other shards into rings that have room again. Links that had to wait
    /// for that go on.
    pub(super) fn refill_mesh(&mut self) {
        let stalled = &mut self.stalled;
        let mut ready = Vec::new();
        self.mesh.refill(|peer| ready.append(&mut stalled[peer]));
        let room = self.mesh_room();
        self.hub.turn_mut().count_beside(Beside::MeshRoom(room));
        if room == MeshRoom::Free && !is_journal_laden(&self.hub) {
            ready.append(&mut self.awaiting_room);
        }
        for index in ready {
            let Some(link) = self.links.get_mut(index) else {
                continue;
            };
            if link.reading != Reading::Stalled {
                continue;
            }
            if link.tail.is_empty() {
                link.reading = Reading::Listed;
                self.push_readable(index);
            } else {
                // First what it has sent already.
                link.reading = Reading::Paused;
                self.resumed.push(index);
            }
        }
    }

    /// Goes on with a link after those that have sent less.
    fn give_way(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        // A stalled one goes on when its shard has caught up.
        if link.reading != Reading::Stalled {
            link.reading = Reading::GaveWay;
            self.resumed.push(index);
        }
    }

    /// Reads nothing from a link before a time.
    fn pause(&mut self, index: u32, until: Tick) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        if link.reading != Reading::Stalled {
            link.reading = Reading::Paused;
        }
        // What has to be decided first has no time: the hub says when.
        if until != Tick::NEVER {
            let serial = link.serial;
            self.timers.insert(until, LinkKey { index, serial });
        }
    }

    /// Goes on with the links about which something was decided, or that gave way to others in an
    /// earlier turn. Those that this turn has no time for are the first of the next one.
    pub(super) fn resume_held(&mut self, held: Vec<u32>) {
        if held.is_empty() {
            return;
        }
        self.hub.turn_mut().set_packets_at_once(LONGER_PACKETS);
        let now = self.context.clock.now();
        let mut part = Part::go_on(&self.hub, self.now, now, &self.longer);
        let mut waiting = Vec::new();
        let mut held = held.into_iter();
        for index in held.by_ref() {
            if self.is_behind(index) {
                waiting.push(index);
            } else if self.is_held(index) {
                self.unwritten.hold_paused(index);
            } else if self.waits(index) {
                self.let_write(index);
                waiting.push(index);
            } else {
                if self.is_unmetered(index) {
                    part.look_next();
                }
                self.resume(index);
            }
            if part.is_over(&self.hub, &self.context.clock) {
                break;
            }
        }
        waiting.extend(held);
        if !waiting.is_empty() {
            waiting.append(&mut self.resumed);
            self.resumed = waiting;
        }
    }

    /// Whether a link has to wait until more of what its and other messages have caused is written:
    /// it has used its share of a turn, or its last messages went to a crowd.
    pub(super) fn is_behind(&self, index: u32) -> bool {
        let link = self.links.get(index);
        let causes = |link: &Link| link.serves_crowd || link.reading == Reading::GaveWay;
        self.backlog.is_behind() && link.is_some_and(causes)
    }

    /// Goes on with a link that may have been paused: first with what it has sent already.
    pub(super) fn resume(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let before = link.reading;
        if matches!(before, Reading::Paused | Reading::GaveWay) {
            link.reading = Reading::Waiting;
        }
        self.apply_tail(index);
        match before {
            Reading::Paused => self.list(index),
            Reading::GaveWay => self.go_on_reading(index),
            _ => {}
        }
    }

    /// Reads from a link that gave way and has not used up its share, and writes what waited for
    /// it.
    fn go_on_reading(&mut self, index: u32) {
        // Not by the list of those that have sent little.
        self.read_now(index);
        self.flush_link(index);
    }

    /// The next share of a link that gave way is not soon: the answers to it do not wait for that.
    fn let_write(&mut self, index: u32) {
        if let Some(link) = self.links.get_mut(index)
            && link.reading == Reading::GaveWay
        {
            link.reading = Reading::Paused;
        }
    }
}
