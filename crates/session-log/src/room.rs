//! Rooms that stay when they are empty, as they are written down.
//!
//! A room is named by its zone and its name, in the journal of the shard where its zone lives. What
//! is said of it in a later generation holds for what an earlier one has told, whatever shard that
//! was.

use alloc::vec::Vec;

use crate::wire::{BODY_BYTES_MAX, Fault, Flags, Reader, put_bytes, put_varint};

/// Which room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomName<'a> {
    /// The number of its zone.
    pub zone: u32,
    /// Its name.
    pub room: &'a str,
}

impl<'a> RoomName<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.zone));
        put_bytes(out, self.room.as_bytes());
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            zone: reader.u32("zone")?,
            room: reader.text("room")?,
        })
    }
}

/// What a room is, without its properties and members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room<'a> {
    /// Which one.
    pub name: RoomName<'a>,
    /// Whether the room has what the rest of the batch says, and nothing else.
    pub is_base: bool,
    /// Its owner.
    pub owner: Option<&'a str>,
    /// How many members it may have; `None` without a bound.
    pub capacity: Option<u32>,
    /// Whether it lets nobody in but its owner and administrators.
    pub locked: bool,
    /// Messages that it keeps of what is said.
    pub history_count: u64,
    /// Bytes that it keeps of what is said.
    pub history_bytes: u64,
    /// The age of what it keeps, in seconds; `None` without a bound.
    pub history_age_secs: Option<u64>,
    /// The version of the property that was changed last.
    pub version: u64,
}

const BASE: u8 = 1;
const OWNER: u8 = 1 << 1;
const CAPACITY: u8 = 1 << 2;
const LOCKED: u8 = 1 << 3;
const AGE: u8 = 1 << 4;

impl<'a> Room<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let flags = Flags::default()
            .with(BASE, self.is_base)
            .with(OWNER, self.owner.is_some())
            .with(CAPACITY, self.capacity.is_some())
            .with(LOCKED, self.locked)
            .with(AGE, self.history_age_secs.is_some());
        out.push(flags.0);
        self.name.put(out);
        if let Some(owner) = self.owner {
            put_bytes(out, owner.as_bytes());
        }
        if let Some(capacity) = self.capacity {
            put_varint(out, u64::from(capacity));
        }
        put_varint(out, self.history_count);
        put_varint(out, self.history_bytes);
        if let Some(secs) = self.history_age_secs {
            put_varint(out, secs);
        }
        put_varint(out, self.version);
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = reader.flags("flags", BASE | OWNER | CAPACITY | LOCKED | AGE)?;
        Ok(Self {
            name: RoomName::take(reader)?,
            is_base: flags.has(BASE),
            owner: match flags.has(OWNER) {
                true => Some(reader.text("owner")?),
                false => None,
            },
            capacity: match flags.has(CAPACITY) {
                true => Some(reader.u32("capacity")?),
                false => None,
            },
            locked: flags.has(LOCKED),
            history_count: reader.varint("history_count", u64::MAX)?,
            history_bytes: reader.varint("history_bytes", u64::MAX)?,
            history_age_secs: match flags.has(AGE) {
                true => Some(reader.varint("history_age_secs", u64::MAX)?),
                false => None,
            },
            version: reader.varint("version", u64::MAX)?,
        })
    }
}

/// A property of a room, as it is from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomProperty<'a> {
    /// The room.
    pub name: RoomName<'a>,
    /// The name of the property.
    pub property: &'a str,
    /// Its value as JSON; `None` for one that is only locked, or that is gone.
    pub value: Option<&'a [u8]>,
    /// Its version; of one that is gone, the version of the room's last change.
    pub version: u64,
    /// The user who set it last.
    pub by: Option<&'a str>,
    /// The only user who may change it. The server itself is the empty text.
    pub lock: Option<&'a str>,
}

const VALUE: u8 = 1;
const BY: u8 = 1 << 1;
const LOCK: u8 = 1 << 2;

impl<'a> RoomProperty<'a> {
    /// Whether it says nothing any more.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        self.value.is_none() && self.lock.is_none()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let flags = Flags::default()
            .with(VALUE, self.value.is_some())
            .with(BY, self.by.is_some())
            .with(LOCK, self.lock.is_some());
        out.push(flags.0);
        self.name.put(out);
        put_bytes(out, self.property.as_bytes());
        if let Some(value) = self.value {
            put_bytes(out, value);
        }
        put_varint(out, self.version);
        for text in [self.by, self.lock].into_iter().flatten() {
            put_bytes(out, text.as_bytes());
        }
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = reader.flags("flags", VALUE | BY | LOCK)?;
        Ok(Self {
            name: RoomName::take(reader)?,
            property: reader.text("property")?,
            value: match flags.has(VALUE) {
                true => Some(reader.bytes("value", BODY_BYTES_MAX)?),
                false => None,
            },
            version: reader.varint("version", u64::MAX)?,
            by: match flags.has(BY) {
                true => Some(reader.text("by")?),
                false => None,
            },
            lock: match flags.has(LOCK) {
                true => Some(reader.text("lock")?),
                false => None,
            },
        })
    }
}

/// A user has a place in a room, or has none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomMember<'a> {
    /// The room.
    pub name: RoomName<'a>,
    /// The user.
    pub user: &'a str,
    /// Whether it has a place.
    pub is_in: bool,
}

const IN: u8 = 1;

impl<'a> RoomMember<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.push(Flags::default().with(IN, self.is_in).0);
        self.name.put(out);
        put_bytes(out, self.user.as_bytes());
    }

    pub(crate) fn take(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = reader.flags("flags", IN)?;
        Ok(Self {
            name: RoomName::take(reader)?,
            user: reader.text("user")?,
            is_in: flags.has(IN),
        })
    }
}
