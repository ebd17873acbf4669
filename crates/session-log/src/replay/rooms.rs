//! Rooms while their records are applied.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::room::{Room, RoomMember, RoomName, RoomProperty};

/// The rooms that stay. Records of a room may precede its base, or stand alone before its end: what
/// told of it lay in a file that was given up. They say nothing.
#[derive(Debug, Default)]
pub(super) struct Rooms<'a>(BTreeMap<RoomName<'a>, RoomProgress<'a>>);

#[derive(Debug)]
struct RoomProgress<'a> {
    room: Room<'a>,
    properties: BTreeMap<&'a str, RoomProperty<'a>>,
    /// In the order in which they came.
    members: Vec<&'a str>,
}

impl<'a> Rooms<'a> {
    pub(super) fn room(&mut self, room: &Room<'a>) {
        match self.0.get_mut(&room.name) {
            Some(known) if !room.is_base => {
                let version = room.version.max(known.room.version);
                known.room = Room { version, ..*room };
            }
            None if !room.is_base => {}
            _ => {
                let progress = RoomProgress {
                    room: *room,
                    properties: BTreeMap::new(),
                    members: Vec::new(),
                };
                self.0.insert(room.name, progress);
            }
        }
    }

    pub(super) fn property(&mut self, property: &RoomProperty<'a>) {
        let Some(known) = self.0.get_mut(&property.name) else {
            return;
        };
        known.room.version = known.room.version.max(property.version);
        match property.is_gone() {
            true => known.properties.remove(property.property),
            false => known.properties.insert(property.property, *property),
        };
    }

    pub(super) fn member(&mut self, member: &RoomMember<'a>) {
        let Some(known) = self.0.get_mut(&member.name) else {
            return;
        };
        let is_known = known.members.contains(&member.user);
        match member.is_in {
            true if !is_known => known.members.push(member.user),
            true => {}
            false => known.members.retain(|user| *user != member.user),
        }
    }

    pub(super) fn gone(&mut self, name: RoomName<'a>) {
        self.0.remove(&name);
    }

    pub(super) fn finish(self) -> Vec<RestoredRoom> {
        self.0.into_values().map(RestoredRoom::from).collect()
    }
}

/// A room as it was: see [`Room`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredRoom {
    /// The number of its zone.
    pub zone: u32,
    /// Its name.
    pub room: Box<str>,
    /// Its owner.
    pub owner: Option<Box<str>>,
    /// How many members it may have.
    pub capacity: Option<u32>,
    /// Whether it lets nobody in but its owner and administrators.
    pub locked: bool,
    /// Messages that it keeps of what is said.
    pub history_count: u64,
    /// Bytes that it keeps of what is said.
    pub history_bytes: u64,
    /// The age of what it keeps, in seconds.
    pub history_age_secs: Option<u64>,
    /// The version of the property that was changed last.
    pub version: u64,
    /// Its properties, by name.
    pub properties: Vec<RestoredProperty>,
    /// The users who had a place, in the order in which they came.
    pub members: Vec<Box<str>>,
}

/// A property of a room as it was: see [`RoomProperty`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredProperty {
    /// Its name.
    pub name: Box<str>,
    /// Its value as JSON; `None` for one that is only locked.
    pub value: Option<Vec<u8>>,
    /// Its version.
    pub version: u64,
    /// The user who set it last.
    pub by: Option<Box<str>>,
    /// The only user who may change it.
    pub lock: Option<Box<str>>,
}

impl From<RoomProgress<'_>> for RestoredRoom {
    fn from(progress: RoomProgress<'_>) -> Self {
        let room = progress.room;
        let properties = progress.properties.into_values();
        let properties = properties.map(|property| RestoredProperty {
            name: property.property.into(),
            value: property.value.map(Into::into),
            version: property.version,
            by: property.by.map(Into::into),
            lock: property.lock.map(Into::into),
        });
        Self {
            zone: room.name.zone,
            room: room.name.room.into(),
            owner: room.owner.map(Into::into),
            capacity: room.capacity,
            locked: room.locked,
            history_count: room.history_count,
            history_bytes: room.history_bytes,
            history_age_secs: room.history_age_secs,
            version: room.version,
            properties: properties.collect(),
            members: progress.members.into_iter().map(Into::into).collect(),
        }
    }
}
