//! What a command costs who runs it.
//!
//! It is estimated from what the command did, not measured: the same command always costs the same,
//! on a virtual clock too. The prices are upper bounds, so that nobody gets time for nothing.

use core::cell::Cell;
use core::time::Duration;

use crate::command::RoomRights;
use crate::effect::Effect;
use crate::room::Role;

/// Nanoseconds that a command takes whatever it is.
const EACH: u64 = 20_000;
/// To look at a room.
const ROOM: u64 = 200;
/// To ask about a right.
const RIGHT: u64 = 2_000;
/// The same, for each rule of the roles, where a right may be weighed rule by rule.
const RULE: u64 = 500;
/// To compare a property, beside its bytes.
const PROPERTY: u64 = 200;
/// To compare a byte.
const COMPARED: u64 = 10;
/// To carry a byte of a payload.
const CARRIED: u64 = 1;
/// To read a byte of JSON.
const READ: u64 = 200;
/// To write a byte of JSON, values copied and taken down again.
const TOLD: u64 = 50;
/// To publish something, or to take a session out of a room.
const EFFECT: u64 = 2_000;
/// To send that to a member.
const MEMBER: u64 = 1_000;

/// What a command has done until now.
#[derive(Debug)]
pub(crate) struct Work {
    nanos: Cell<u64>,
    /// The part of it that comes later.
    later_nanos: Cell<u64>,
}

impl Work {
    /// A command with a payload of this many bytes begins.
    pub(crate) const fn new(payload: usize) -> Self {
        Self {
            nanos: Cell::new(EACH + CARRIED * payload as u64),
            later_nanos: Cell::new(0),
        }
    }

    /// How long it has taken, about.
    pub(crate) const fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.get())
    }

    /// How much of that comes later.
    pub(crate) const fn later(&self) -> Duration {
        Duration::from_nanos(self.later_nanos.get())
    }

    fn add(&self, price: u64, count: usize) {
        let more = price.saturating_mul(count as u64);
        self.nanos.set(self.nanos.get().saturating_add(more));
    }

    /// It has read this many bytes of JSON.
    pub(crate) fn read(&self, bytes: usize) {
        self.add(READ, bytes);
    }

    /// It has told this many bytes of JSON.
    pub(crate) fn told(&self, bytes: usize) {
        self.add(TOLD, bytes);
    }

    /// It has looked at this many rooms.
    pub(crate) fn looked_at(&self, rooms: usize) {
        self.add(ROOM, rooms);
    }

    /// It has compared a property with one of this many bytes.
    pub(crate) fn compared(&self, bytes: usize) {
        self.add(PROPERTY, 1);
        self.add(COMPARED, bytes);
    }

    /// It has ended a room, to whose end there are this many more steps, which come later.
    pub(crate) fn ends_in(&self, steps: usize) {
        let before = self.nanos.get();
        self.add(EFFECT, steps);
        let more = self.nanos.get() - before;
        self.later_nanos
            .set(self.later_nanos.get().saturating_add(more));
    }

    /// It has caused these effects, in a room where this many hear what it publishes, after that. A
    /// member whose session is taken out receives everything published before, and nothing after
    /// it.
    pub(crate) fn caused(&self, effects: &[Effect], inside: usize) {
        let is_cleared = |effect: &&Effect| matches!(effect, Effect::Clear { .. });
        let mut hearers = inside + effects.iter().filter(is_cleared).count();
        for effect in effects {
            self.add(EFFECT, 1);
            match effect {
                Effect::Publish { payload, .. } => {
                    self.told(payload.len());
                    self.add(MEMBER, hearers);
                }
                Effect::Clear { .. } => hearers -= 1,
                Effect::Recall { .. } => {}
            }
        }
    }
}

/// Somebody's rights, and how often a command has asked about them.
pub(crate) struct Counted<'a, R> {
    rights: &'a R,
    rules: usize,
    work: &'a Work,
}

impl<'a, R: RoomRights> Counted<'a, R> {
    pub(crate) fn new(rights: &'a R, work: &'a Work) -> Self {
        let rules = rights.rules();
        Self {
            rights,
            rules,
            work,
        }
    }

    fn count(&self) -> &'a R {
        self.work.add(RIGHT, 1);
        self.rights
    }

    fn weigh(&self) -> &'a R {
        self.work.add(RULE, self.rules);
        self.count()
    }
}

impl<R: RoomRights> RoomRights for Counted<'_, R> {
    fn role(&self, room: &str) -> Role {
        self.count().role(room)
    }

    fn may_enter(&self, room: &str) -> bool {
        self.weigh().may_enter(room)
    }

    fn may_join(&self, room: &str) -> bool {
        self.weigh().may_join(room)
    }

    fn may_read(&self, topic: &str) -> bool {
        self.count().may_read(topic)
    }

    fn rules(&self) -> usize {
        self.rules
    }
}
