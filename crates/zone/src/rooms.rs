//! All rooms of a zone.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;
use core::time::Duration;
use serde_json::{Map, Value};
use stentor_session::Tick;

use crate::deadlines::Deadlines;
use crate::effect::{Effect, SessionId};
use crate::name::check_name;
use crate::range::Range;
use crate::room::{Actor, Ending, Entry, Refusal, Role, Room, RoomOptions, is_same};
use crate::work::Work;

/// How long a room that was made by command waits for its owner to come in: then the oldest member
/// owns it, and without members it ends.
pub const UNCLAIMED: Duration = Duration::from_secs(600);

/// Steps that rooms take at once to let many go: each sends somebody out, clears a topic, or
/// publishes an event.
const STEPS_AT_ONCE: usize = 256;

/// What a zone allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomsOptions {
    /// Whether users make rooms: by joining one that does not exist, or by command.
    pub user_rooms: bool,
    /// How many rooms there may be.
    pub rooms_max: usize,
    /// How many rooms one user may own; administrators and permanent rooms are not counted.
    pub owned_max: usize,
    /// Bytes that all rooms may hold together: properties, and what is kept of what was said.
    pub bytes_max: usize,
    /// What a new room is made with.
    pub room: RoomOptions,
}

impl Default for RoomsOptions {
    fn default() -> Self {
        Self {
            user_rooms: true,
            rooms_max: 100_000,
            owned_max: 100,
            bytes_max: 256 << 20,
            room: RoomOptions::default(),
        }
    }
}

/// Why a room was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmade {
    /// The property that cannot be, if it is one.
    pub property: Option<String>,
    /// What is against it.
    pub why: Refusal,
}

impl From<Refusal> for Unmade {
    fn from(why: Refusal) -> Self {
        Self {
            property: None,
            why,
        }
    }
}

/// What a user who looks for a room wants.
#[derive(Debug)]
pub(crate) struct Wish {
    /// Properties that the room must have, with these values.
    pub(crate) properties: Map<String, Value>,
    /// Properties that it must have as numbers, in these ranges.
    pub(crate) ranges: Vec<(String, Range)>,
    /// How many members it must have.
    pub(crate) members: Range,
    /// Free places that it must have.
    pub(crate) places: u32,
    /// The user who looks, and when: places held for it are free.
    pub(crate) who: (Tick, String),
}

impl Wish {
    /// Its properties, with the bytes of each.
    fn wanted(&self) -> Vec<Wanted<'_>> {
        let bytes = |value: &Value| value.to_string().len();
        let properties = self.properties.iter();
        properties
            .map(|(name, value)| (name.as_str(), value, bytes(value)))
            .collect()
    }
}

/// Whether properties of a room are numbers in these ranges.
fn is_in_all(room: &Room, ranges: &[(String, Range)], work: &Work) -> bool {
    ranges.iter().all(|(name, range)| {
        let property = room.property(name);
        let own = property.and_then(|property| property.value.as_ref());
        work.compared(0);
        own.is_some_and(|own| range.has_value(own))
    })
}

/// The name of a property, its value and how many bytes that has.
type Wanted<'a> = (&'a str, &'a Value, usize);

/// Whether a room has all these properties.
fn has_all(room: &Room, wanted: &[Wanted<'_>], work: &Work) -> bool {
    wanted.iter().all(|(name, value, bytes)| {
        let property = room.property(name);
        let own = property.and_then(|property| property.value.as_ref());
        work.compared(own.map_or(0, |_| *bytes));
        own.is_some_and(|own| is_same(own, value))
    })
}

/// The rooms of one zone. They live together, so that what concerns several (match-making, the
/// bound on their number) is decided at once.
#[derive(Debug, Default)]
pub struct Rooms {
    options: RoomsOptions,
    rooms: BTreeMap<Arc<str>, Room>,
    /// When they have something to do.
    deadlines: Deadlines,
    /// Rooms that have ended, from which not everybody has been sent out.
    endings: BTreeMap<Arc<str>, Ending>,
    /// Those of them that nobody has asked about yet, in the order of that.
    newly_ended: Vec<Arc<str>>,
    /// How many rooms each user owns, permanent ones aside; nobody stands here with none.
    owned: BTreeMap<Arc<str>, usize>,
    /// The users who own as many as they may.
    full: Arc<BTreeSet<Arc<str>>>,
    /// Bytes that all rooms hold.
    bytes: usize,
    /// Places taken in all rooms.
    members: usize,
    /// When a place that was held may be free again, since somebody asked last.
    deadline: Option<Tick>,
    /// Bytes that the server has for more of them, whatever the options say; `None` for any number.
    room: Option<usize>,
    /// Whether nothing can be written down of rooms that outlive the server.
    is_disk_full: bool,
    /// The rooms that the zone always has, with what they are made with.
    fixed: BTreeMap<Arc<str>, RoomOptions>,
}

impl Rooms {
    /// No rooms yet.
    #[must_use]
    pub fn new(options: RoomsOptions) -> Self {
        Self {
            options,
            rooms: BTreeMap::new(),
            deadlines: Deadlines::default(),
            endings: BTreeMap::new(),
            newly_ended: Vec::new(),
            owned: BTreeMap::new(),
            full: Arc::default(),
            bytes: 0,
            members: 0,
            room: None,
            deadline: None,
            is_disk_full: false,
            fixed: BTreeMap::new(),
        }
    }

    /// Other options from now on. Rooms that are there keep what they were made with.
    pub fn configure(&mut self, options: RoomsOptions) {
        if self.options.owned_max != options.owned_max {
            let is_full = |(_, count): &(&Arc<str>, &usize)| **count >= options.owned_max;
            let full = self.owned.iter().filter(is_full);
            self.full = Arc::new(full.map(|(user, _)| Arc::clone(user)).collect());
        }
        self.options = options;
    }

    /// The server has memory for this many bytes more, at most.
    pub const fn set_room(&mut self, bytes: usize) {
        self.room = Some(bytes);
    }

    /// Bytes that properties and histories may take in addition.
    fn spare(&self) -> usize {
        let spare = self.options.bytes_max.saturating_sub(self.bytes);
        self.room.map_or(spare, |room| spare.min(room))
    }

    /// The disk on which rooms that outlive the server are written down is full, or has room again.
    pub const fn set_disk_full(&mut self, is_full: bool) {
        self.is_disk_full = is_full;
    }

    /// Whether a room takes nothing on, because it could not be written down.
    pub(crate) fn is_frozen(&self, room: &str) -> bool {
        self.is_disk_full && self.kept(room).is_some()
    }

    /// Whether the configuration has a room.
    pub(crate) fn is_fixed(&self, room: &str) -> bool {
        self.fixed.contains_key(room)
    }

    /// A room begins.
    pub(crate) fn insert(&mut self, room: Room) {
        self.bytes += room.bytes();
        self.members += room.member_count();
        self.count_owner(None, room.counted_owner());
        self.deadlines
            .change(room.name(), None, room.next_deadline());
        self.rooms.insert(Arc::clone(room.name()), room);
    }

    /// How many rooms there may be.
    pub(crate) const fn rooms_max(&self) -> usize {
        self.options.rooms_max
    }

    /// How many rooms one user may own.
    pub(crate) const fn owned_max(&self) -> usize {
        self.options.owned_max
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rooms.len()
    }

    /// Bytes of their properties and of what they keep of what was said.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Places taken in all of them. O(1).
    #[must_use]
    pub const fn members(&self) -> usize {
        self.members
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rooms.is_empty()
    }

    /// One room.
    #[must_use]
    pub fn get(&self, room: &str) -> Option<&Room> {
        self.rooms.get(room)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Room> {
        self.rooms.values()
    }

    /// Those whose names come after this one.
    pub(crate) fn after(&self, name: Option<&str>) -> impl Iterator<Item = &Room> {
        let begin = name.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.rooms.range::<str, _>((begin, Bound::Unbounded));
        range.map(|(_, room)| room)
    }

    /// Those whose names begin there.
    pub(crate) fn from(&self, begin: Bound<&str>) -> impl Iterator<Item = &Room> {
        let range = self.rooms.range::<str, _>((begin, Bound::Unbounded));
        range.map(|(_, room)| room)
    }

    /// What a new room is made with unless its maker says otherwise.
    #[must_use]
    pub const fn defaults(&self) -> &RoomOptions {
        &self.options.room
    }

    /// Makes a room. Its maker owns it, and joins it by subscribing within [`UNCLAIMED`].
    ///
    /// # Errors
    /// [`Refusal::NotAllowed`] for users where the zone does not let them, and for who has no name;
    /// [`Refusal::Permanent`] for users; [`Refusal::Name`], [`Refusal::Exists`],
    /// [`Refusal::TooMany`]; [`Refusal::Disk`] for a room that is to outlive the server.
    pub fn create(
        &mut self,
        now: Tick,
        actor: Actor<'_>,
        room: &str,
        options: RoomOptions,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.create_with(now, actor, room, options, Map::new(), out)
            .map_err(|unmade| unmade.why)
    }

    /// Makes a room that has properties from the beginning, or nothing at all.
    ///
    /// # Errors
    /// Those of [`create`](Self::create) and, with the name of the property, [`Room::set`].
    pub fn create_with(
        &mut self,
        now: Tick,
        actor: Actor<'_>,
        room: &str,
        options: RoomOptions,
        properties: Map<String, Value>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Unmade> {
        self.may_create(actor, room, &options)?;
        let owner = (actor.role == Role::User).then_some(actor.user);
        let is_permanent = options.permanent;
        // Nobody hears of a room that cannot be.
        let mut effects = Vec::new();
        let mut made = Room::new(room, owner, options, &mut effects);
        made.spare(self.spare());
        made.furnish(actor, properties, &mut effects)
            .map_err(|(property, why)| Unmade {
                property: Some(property),
                why,
            })?;
        if !is_permanent {
            made.wait_until(now.after(UNCLAIMED));
        }
        out.append(&mut effects);
        self.insert(made);
        Ok(())
    }

    fn may_create(
        &self,
        actor: Actor<'_>,
        room: &str,
        options: &RoomOptions,
    ) -> Result<(), Refusal> {
        let is_user = actor.role == Role::User;
        let may = self.options.user_rooms && !actor.user.is_empty();
        if is_user && !may {
            return Err(Refusal::NotAllowed);
        }
        if is_user && options.permanent {
            return Err(Refusal::Permanent);
        }
        check_name(room).map_err(|_| Refusal::Name)?;
        if self.rooms.contains_key(room) || self.is_ending(room) {
            return Err(Refusal::Exists);
        }
        if options.permanent && self.is_disk_full {
            return Err(Refusal::Disk);
        }
        if self.rooms.len() >= self.options.rooms_max {
            return Err(Refusal::TooMany);
        }
        if is_user && self.full.contains(actor.user) {
            return Err(Refusal::TooMany);
        }
        Ok(())
    }

    /// Makes a room that the zone's configuration has, or gives one that is there already these
    /// options; it is permanent from now on.
    ///
    /// # Errors
    /// [`Refusal::Name`].
    pub fn fix(
        &mut self,
        room: &str,
        options: RoomOptions,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        check_name(room).map_err(|_| Refusal::Name)?;
        let options = RoomOptions {
            permanent: true,
            ..options
        };
        self.fixed.insert(room.into(), options.clone());
        if self.rooms.contains_key(room) {
            return self.act(room, out, |room, out| {
                room.settle(options, out);
                Ok(())
            });
        }
        if !self.is_ending(room) {
            self.make_fixed(room, out);
        }
        Ok(())
    }

    /// Makes a room that the zone always has, if this is one.
    fn make_fixed(&mut self, room: &str, out: &mut Vec<Effect>) {
        if let Some(options) = self.fixed.get(room) {
            let made = Room::new(room, None, options.clone(), out);
            self.rooms.insert(Arc::clone(made.name()), made);
        }
    }

    /// A room is not in the zone's configuration any more: it ends when nobody is in it.
    pub fn unfix(&mut self, room: &str, out: &mut Vec<Effect>) {
        self.fixed.remove(room);
        let Some(held) = self.rooms.get_mut(room) else {
            return;
        };
        held.unfix(out);
        let owner = held.counted_owner();
        if held.is_over() {
            self.deadlines
                .change(held.name(), held.next_deadline(), None);
            self.bytes -= held.bytes();
            self.members -= held.member_count();
            held.dissolve(out);
            self.rooms.remove(room);
        } else {
            self.count_owner(None, owner);
        }
    }

    /// The owner of a room has changed.
    fn count_owner(&mut self, before: Option<Arc<str>>, now: Option<Arc<str>>) {
        if before == now {
            return;
        }
        let max = self.options.owned_max;
        if let Some(user) = now {
            let count = self.owned.entry(Arc::clone(&user)).or_default();
            *count += 1;
            if *count >= max && !self.full.contains(&user) {
                Arc::make_mut(&mut self.full).insert(user);
            }
        }
        if let Some(user) = before
            && let Some(count) = self.owned.get_mut(&user)
        {
            *count -= 1;
            if *count < max && self.full.contains(&user) {
                Arc::make_mut(&mut self.full).remove(&user);
            }
            if *count == 0 {
                self.owned.remove(&user);
            }
        }
    }

    /// A session comes into a room; where the zone allows it, into one that this makes.
    ///
    /// # Errors
    /// Those of [`create`](Self::create) and [`Room::join`]; [`Refusal::Unknown`] if the room does
    /// not exist and `entry` is not that of a new member; [`Refusal::Locked`] while it [is
    /// ending](Self::is_ending).
    pub fn join(
        &mut self,
        now: Tick,
        actor: Actor<'_>,
        room: &str,
        session: SessionId,
        entry: Entry,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if !self.rooms.contains_key(room) {
            if self.is_ending(room) {
                return Err(Refusal::Locked);
            }
            if entry != Entry::Member {
                return Err(Refusal::Unknown);
            }
            self.create(now, actor, room, self.options.room.clone(), out)?;
        }
        self.act(room, out, |room, out| {
            room.join(now, actor, session, entry, out)
        })
    }

    /// Does something in a room, and ends the room if that left it over.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] without such a room, and those of `f`.
    pub fn act<R>(
        &mut self,
        room: &str,
        out: &mut Vec<Effect>,
        f: impl FnOnce(&mut Room, &mut Vec<Effect>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let spare = self.spare();
        let held = self.rooms.get_mut(room).ok_or(Refusal::Unknown)?;
        let (owner, before) = (held.counted_owner(), held.bytes());
        let (members_before, due_before) = (held.member_count(), held.next_deadline());
        held.spare(spare);
        held.pass_over(Some(Arc::clone(&self.full)));
        let result = f(held, out);
        held.pass_over(None);
        let mut heir = held.counted_owner();
        let is_over = held.is_over();
        if is_over {
            held.dissolve(out);
            heir = None;
        }
        self.bytes = self.bytes + held.bytes() - before;
        self.members = self.members + held.member_count() - members_before;
        self.deadlines
            .change(held.name(), due_before, held.next_deadline());
        if is_over {
            self.rooms.remove(room);
        }
        self.count_owner(owner, heir);
        result
    }

    /// The room that suits a wish best, of those that its maker may enter: the fullest, so that
    /// rooms fill up; of equals the first by name. Looks at every room, O(rooms · properties wished
    /// for, by value or range), and copies nothing. Rooms that are not better than one that was
    /// found are not compared with the wish, and only of those that suit it is `may_enter` asked.
    pub(crate) fn find(
        &self,
        work: &Work,
        wish: &Wish,
        may_enter: impl Fn(&str) -> bool,
    ) -> Option<Arc<str>> {
        work.looked_at(self.rooms.len());
        let wanted = wish.wanted();
        let mut best: Option<&Room> = None;
        for room in self.rooms.values() {
            // They come by name: of equals the first stays.
            let is_better = best.is_none_or(|best| room.member_count() > best.member_count());
            if is_better
                && room.takes(wish.who.0, &wish.who.1, wish.places)
                && wish.members.has(room.member_count() as f64)
                && has_all(room, &wanted, work)
                && is_in_all(room, &wish.ranges, work)
                && may_enter(room.name())
            {
                best = Some(room);
            }
        }
        best.map(|room| Arc::clone(room.name()))
    }

    /// Holds a place of a room for a user until then, and none in any other room. Returns whether
    /// there is one. O(rooms + places held).
    pub(crate) fn hold(
        &mut self,
        now: Tick,
        user: &str,
        until: Tick,
        room: &str,
        out: &mut Vec<Effect>,
    ) -> bool {
        let held = |held: &&Room| held.holds_for(now, user) && **held.name() != *room;
        let others = self.rooms.values().filter(held);
        let others: Vec<_> = others.map(|it| Arc::clone(it.name())).collect();
        for other in others {
            // It is there, and nothing is refused.
            let _ = self.act(&other, out, |held, _| {
                held.release_hold(user);
                Ok(())
            });
        }
        self.deadline = Some(self.deadline.map_or(until, |at| at.min(until)));
        let held = self.act(room, out, |held, _| Ok(held.hold(now, user, until)));
        held.unwrap_or(false)
    }

    /// When [`advance`](Self::advance) has something to do for places that were held since this was
    /// asked last.
    pub fn take_deadline(&mut self) -> Option<Tick> {
        self.deadline.take()
    }

    /// Ends a room. One that the zone always has is emptied instead: members, properties and
    /// history go, and it is as it was made. Returns whether it stays so. Nobody is let in from now
    /// on. Of a large room, they are sent out by [`go_on_ending`](Self::go_on_ending).
    ///
    /// # Errors
    /// [`Refusal::Unknown`], [`Refusal::NotOwner`].
    pub fn close(
        &mut self,
        actor: Actor<'_>,
        room: &str,
        out: &mut Vec<Effect>,
    ) -> Result<bool, Refusal> {
        let held = self.rooms.get_mut(room).ok_or(Refusal::Unknown)?;
        let owner = held.counted_owner();
        let (before, members_before) = (held.bytes(), held.member_count());
        let due_before = held.next_deadline();
        let ending = held.close(actor, STEPS_AT_ONCE, out)?;
        self.deadlines.change(ending.name(), due_before, None);
        self.rooms.remove(room);
        self.bytes -= before;
        self.members -= members_before;
        self.count_owner(owner, None);
        let name = Arc::clone(ending.name());
        let is_small = ending.steps() <= STEPS_AT_ONCE;
        self.endings.insert(Arc::clone(&name), ending);
        if !(is_small && self.go_on_ending(room, out)) {
            self.newly_ended.push(name);
        }
        Ok(self.fixed.contains_key(room))
    }

    /// Sends more of those out who were in a room that has ended. Returns whether nothing is left
    /// of it: only then can there be a new one of that name.
    pub fn go_on_ending(&mut self, room: &str, out: &mut Vec<Effect>) -> bool {
        let Some(ending) = self.endings.get_mut(room) else {
            return true;
        };
        let mut left = STEPS_AT_ONCE;
        let is_over = ending.go_on(&mut left, out);
        if is_over {
            self.endings.remove(room);
            self.make_fixed(room, out);
        }
        is_over
    }

    /// Rooms that have ended since this was asked last, and from which not everybody was sent out
    /// then, in the order of that.
    pub fn take_newly_ended(&mut self) -> Vec<Arc<str>> {
        core::mem::take(&mut self.newly_ended)
    }

    /// Whether a room has ended, and not everybody has been sent out.
    #[must_use]
    pub fn is_ending(&self, room: &str) -> bool {
        self.endings.contains_key(room)
    }

    /// The same, to look at.
    pub(crate) fn ending(&self, room: &str) -> Option<&Ending> {
        self.endings.get(room)
    }

    /// Ends some rooms, by name: the zone ends. Returns whether that were all. O(`at_most`), and a
    /// few hundred of those who are in them.
    pub fn close_some(&mut self, at_most: usize, out: &mut Vec<Effect>) -> bool {
        self.fixed.clear();
        let mut left = STEPS_AT_ONCE;
        self.endings
            .retain(|_, ending| !ending.go_on(&mut left, out));
        for _ in 0..at_most {
            if left == 0 {
                break;
            }
            let Some((_, mut room)) = self.rooms.pop_first() else {
                break;
            };
            self.deadlines
                .change(room.name(), room.next_deadline(), None);
            self.bytes -= room.bytes();
            self.members -= room.member_count();
            self.count_owner(room.counted_owner(), None);
            let mut ending = room.end();
            if !ending.go_on(&mut left, out) {
                self.endings.insert(Arc::clone(ending.name()), ending);
            }
        }
        self.rooms.is_empty() && self.endings.is_empty()
    }

    /// When [`advance`](Self::advance) has something to do. O(1).
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        self.deadlines.next()
    }

    /// Lets go of those who did not come back in time, a few hundred at most, the longest overdue
    /// first. Returns whether that were all. O(rooms whose time has come).
    pub fn advance(&mut self, now: Tick, out: &mut Vec<Effect>) -> bool {
        let mut left = STEPS_AT_ONCE;
        while let Some(name) = self.deadlines.due(now) {
            if left == 0 {
                return false;
            }
            let before = out.len();
            // It exists and nothing is refused.
            let _ = self.act(&name, out, |room, out| {
                room.advance(now, left, out);
                Ok(())
            });
            left = left.saturating_sub((out.len() - before).max(1));
        }
        true
    }
}
