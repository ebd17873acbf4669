//! Rooms that outlive the server: those that were made permanent by a command.
//!
//! The home of their zone writes them down in its journal. What has changed follows from what a
//! room publishes of itself, so no change is missed. Places are written down too, so that they are
//! kept for a while after a start. What was said is not.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use hashbrown::HashMap;
use stentor_session::Tick;
use stentor_session_log::{Record, RestoredRoom, Room, RoomMember, RoomName, RoomProperty};
use stentor_topic::Zone;
use stentor_zone::{
    Effect, HistoryBounds, PriorRoom, Property, Room as ZoneRoom, Rooms, decode_name,
};

use super::Zones;
use crate::core::Core;
use crate::core::sessions::log::{is_enough, write_place, write_room, writes_rooms};

/// Places of one room that are written down, the rest is not kept after a start.
const PLACES_MAX: usize = 1_000;

/// How the names of guests begin. A guest is another one after a start.
const GUESTS: &str = "guest/";

/// The rooms of this shard that are written down.
#[derive(Debug, Default)]
pub(crate) struct KeptRooms {
    written: HashMap<Zone, BTreeMap<Arc<str>, Written>, foldhash::fast::FixedState>,
    /// The same by the numbers in which a round goes through them. None is given twice.
    by_number: BTreeMap<u32, (Zone, Arc<str>)>,
    numbers: u32,
    /// What rooms that go on publish of themselves as soon as the hub advances.
    pub(super) unpublished: Vec<(Zone, Vec<Effect>)>,
}

#[derive(Debug)]
struct Written {
    number: u32,
    head: Head,
}

/// What a room is, without its properties and members.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    owner: Option<Arc<str>>,
    capacity: Option<u32>,
    locked: bool,
    history: HistoryBounds,
}

impl Head {
    fn of(room: &ZoneRoom) -> Self {
        Self {
            owner: room.owner().cloned(),
            capacity: room.capacity(),
            locked: room.is_locked(),
            history: room.history_bounds(),
        }
    }
}

/// What a room says of itself by something that it publishes.
enum Said<'a> {
    Itself,
    Property(&'a str),
    Here(&'a str),
    Gone(&'a str),
}

/// Reads what a room publishes: its name, and what it says.
fn said(effect: &Effect) -> Option<(&str, Said<'_>)> {
    let Effect::Publish { topic, payload, .. } = effect else {
        return None;
    };
    if let Some(room) = topic.strip_prefix("$rooms/") {
        return Some((room, Said::Itself));
    }
    let (room, rest) = topic.strip_prefix("$room/")?.split_once('/')?;
    if let Some(property) = rest.strip_prefix("prop/") {
        return Some((room, Said::Property(property)));
    }
    let user = rest.strip_prefix("member/")?;
    Some(match payload.is_empty() {
        true => (room, Said::Gone(user)),
        false => (room, Said::Here(user)),
    })
}

const fn name_of(zone: Zone, room: &str) -> RoomName<'_> {
    let zone = zone.0;
    RoomName { zone, room }
}

fn head_record<'a>(zone: Zone, room: &'a ZoneRoom, is_base: bool) -> Record<'a> {
    let history = room.history_bounds();
    Record::Room(Room {
        name: name_of(zone, room.name()),
        is_base,
        owner: room.owner().map(|owner| &**owner),
        capacity: room.capacity(),
        locked: room.is_locked(),
        history_count: history.count as u64,
        history_bytes: history.bytes as u64,
        history_age_secs: history.age.map(|age| age.as_secs()),
        version: room.version(),
    })
}

fn property_record<'a>(
    name: RoomName<'a>,
    property: &'a str,
    it: Option<&'a Property>,
    value: Option<&'a [u8]>,
    version: u64,
) -> Record<'a> {
    Record::RoomProperty(RoomProperty {
        name,
        property,
        value,
        version: it.map_or(version, |it| it.version),
        by: it.and_then(|it| it.by.as_deref()),
        lock: it.and_then(|it| it.lock.as_deref()),
    })
}

/// Writes all that there is to say of a room. O(properties + members).
fn write_base(core: &mut Core, zone: Zone, room: &ZoneRoom) {
    let name = name_of(zone, room.name());
    let values: Vec<_> = room.properties().map(|(_, it)| it.json()).collect();
    let members = room.members();
    let mut records = Vec::with_capacity(1 + values.len());
    records.push(head_record(zone, room, true));
    let properties = room.properties().zip(&values);
    records.extend(properties.map(|((property, it), value)| {
        property_record(name, property, Some(it), value.as_deref(), room.version())
    }));
    let lasting = members.iter().filter(|user| !user.starts_with(GUESTS));
    records.extend(lasting.take(PLACES_MAX).map(|user| {
        let is_in = true;
        Record::RoomMember(RoomMember { name, user, is_in })
    }));
    write_room(core, &records);
}

impl KeptRooms {
    /// Writes down what has changed in the rooms of a zone, by what they publish of it.
    pub(super) fn note(&mut self, core: &mut Core, zone: Zone, rooms: &Rooms, effects: &[Effect]) {
        if effects.is_empty() || !writes_rooms(core) {
            return;
        }
        // What was written whole needs no more.
        let mut whole: Vec<&str> = Vec::new();
        for (room, said) in effects.iter().filter_map(said) {
            if whole.contains(&room) {
                continue;
            }
            let Some(kept) = rooms.kept(room) else {
                self.forget(core, zone, room);
                continue;
            };
            let name = name_of(zone, room);
            match said {
                Said::Itself => {
                    if self.note_head(core, zone, kept) {
                        whole.push(room);
                    }
                }
                _ if !self.is_written(zone, kept) => {
                    self.note_head(core, zone, kept);
                    whole.push(room);
                }
                Said::Property(property) => {
                    let it = kept.property(property);
                    let value = it.and_then(Property::json);
                    let value = value.as_deref();
                    let record = property_record(name, property, it, value, kept.version());
                    write_room(core, &[record]);
                }
                Said::Here(level) | Said::Gone(level) => {
                    let Some(user) = decode_name(level) else {
                        continue;
                    };
                    let is_in = matches!(said, Said::Here(_));
                    let is_beyond = is_in && kept.member_count() > PLACES_MAX;
                    if !is_beyond && !user.starts_with(GUESTS) {
                        let user = &user;
                        write_place(core, &Record::RoomMember(RoomMember { name, user, is_in }));
                    }
                }
            }
        }
    }

    fn is_written(&self, zone: Zone, room: &ZoneRoom) -> bool {
        let of_zone = self.written.get(&zone);
        of_zone.is_some_and(|written| written.contains_key(room.name()))
    }

    /// A room may be another than before. Returns whether it was written whole.
    fn note_head(&mut self, core: &mut Core, zone: Zone, room: &ZoneRoom) -> bool {
        let head = Head::of(room);
        let of_zone = self.written.entry(zone).or_default();
        if let Some(written) = of_zone.get_mut(room.name()) {
            if written.head != head {
                written.head = head;
                write_room(core, &[head_record(zone, room, false)]);
            }
            return false;
        }
        self.numbers += 1;
        let number = self.numbers;
        let name = room.name();
        self.by_number.insert(number, (zone, Arc::clone(name)));
        of_zone.insert(Arc::clone(name), Written { number, head });
        write_base(core, zone, room);
        true
    }

    /// A room does not outlive the server any more.
    pub(super) fn forget(&mut self, core: &mut Core, zone: Zone, room: &str) {
        let of_zone = self.written.get_mut(&zone);
        if let Some(written) = of_zone.and_then(|written| written.remove(room)) {
            self.by_number.remove(&written.number);
            write_room(core, &[Record::RoomGone(name_of(zone, room))]);
        }
    }

    /// A zone ends: some of its rooms are forgotten. Returns whether that were all.
    pub(super) fn end_zone(&mut self, core: &mut Core, zone: Zone, at_most: usize) -> bool {
        let of_zone = self.written.get(&zone).into_iter().flatten();
        let some = of_zone.take(at_most).map(|(room, _)| Arc::clone(room));
        for room in some.collect::<Vec<Arc<str>>>() {
            self.forget(core, zone, &room);
        }
        let is_done = self.written.get(&zone).is_none_or(|left| left.is_empty());
        if is_done {
            self.written.remove(&zone);
        }
        is_done
    }
}

impl Zones {
    /// Writes rooms down again, from a number on, until enough is written at once. Returns the
    /// number to go on with.
    pub(crate) fn rewrite(&self, core: &mut Core, from: u32) -> Option<u32> {
        for (number, (zone, room)) in self.kept.by_number.range(from..) {
            if is_enough(core) {
                return Some(*number);
            }
            let rooms = self.by_zone.get(zone);
            if let Some(room) = rooms.and_then(|rooms| rooms.kept(room)) {
                write_base(core, *zone, room);
            }
        }
        None
    }

    /// About how many bytes [`Zones::rewrite`] writes. O(such rooms).
    pub(crate) fn bytes_to_write(&self) -> u64 {
        /// Of a room beside its properties, and of a place.
        const EACH: u64 = 64;
        let all = self.kept.by_number.values();
        let rooms = all.filter_map(|(zone, room)| self.by_zone.get(zone)?.kept(room));
        let bytes = rooms.map(|room| {
            let properties = room.properties().map(|(name, it)| {
                let value = it.json().map_or(0, |value| value.len());
                EACH + (name.len() + value) as u64
            });
            let places = room.member_count().min(PLACES_MAX) as u64;
            properties.sum::<u64>() + EACH * (1 + places)
        });
        bytes.sum()
    }

    /// Has a room go on that was there before the start. The shard is the home of its zone. It is
    /// written down in the new journal. Rooms of the configuration begin as they are configured.
    pub(crate) fn restore(&mut self, core: &mut Core, now: Tick, room: RestoredRoom) {
        let zone = Zone(room.zone);
        let settings = Arc::clone(core.settings());
        let own = settings.zones.iter().find(|own| own.zone == zone);
        if own.is_some_and(|own| own.fixed.iter().any(|(name, _)| **name == *room.room)) {
            return;
        }
        let prior = prior_room(room);
        let ((), effects) =
            self.with_rooms(core, zone, |rooms, out| rooms.restore(now, prior, out));
        self.kept.unpublished.push((zone, effects));
        self.deadline = Tick::ZERO;
    }
}

fn prior_room(room: RestoredRoom) -> PriorRoom {
    let properties = room.properties.into_iter().map(|it| {
        let (by, lock) = (it.by.map(Into::into), it.lock.map(Into::into));
        let property = Property::from_json(it.value.as_deref(), it.version, by, lock);
        (it.name.into(), property)
    });
    PriorRoom {
        name: room.room.into(),
        owner: room.owner.map(Into::into),
        capacity: room.capacity,
        locked: room.locked,
        history: HistoryBounds {
            count: usize::try_from(room.history_count).unwrap_or(usize::MAX),
            bytes: usize::try_from(room.history_bytes).unwrap_or(usize::MAX),
            age: room.history_age_secs.map(Duration::from_secs),
        },
        version: room.version,
        properties: properties.collect(),
        members: room.members.into_iter().map(Into::into).collect(),
    }
}
