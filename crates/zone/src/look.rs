//! Rooms as an operator sees them, in pages.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use serde_json::{Map, Value};

use crate::room::{HistoryBounds, Room};
use crate::rooms::Rooms;

/// A room in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRoom {
    /// Its name.
    pub room: Arc<str>,
    /// How many members it has, those included who are away for a moment.
    pub members: usize,
    /// How many it may have; `None` without a bound.
    pub capacity: Option<u32>,
    /// Its owner.
    pub owner: Option<Arc<str>>,
    /// Whether nobody may come in.
    pub is_locked: bool,
    /// Whether it stays when it is empty.
    pub is_permanent: bool,
    /// How many properties it has.
    pub properties: usize,
    /// Bytes of these, and of what it keeps of what was said.
    pub bytes: usize,
}

/// Some rooms of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedRooms {
    /// The rooms, by name.
    pub rooms: Vec<ListedRoom>,
    /// Whether there may be more behind them.
    pub has_more: bool,
    /// How many rooms the zone has.
    pub total: usize,
}

/// A member of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownMember {
    /// The user.
    pub user: Arc<str>,
    /// Whether all its connections are lost, and its place is kept for a moment.
    pub is_away: bool,
    /// Whether it is there without a connection.
    pub is_virtual: bool,
}

/// A room with some of its members.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownRoom {
    /// The same as in a list.
    pub listed: ListedRoom,
    /// Its properties.
    pub properties: Map<String, Value>,
    /// The holder of the lock of each property.
    pub locks: Map<String, Value>,
    /// How much it keeps of what was said.
    pub history: HistoryBounds,
    /// Some members, by name.
    pub members: Vec<ShownMember>,
    /// Whether there are more behind them.
    pub has_more: bool,
}

/// Rooms whose names begin with a text and come after another one, at most this many.
/// O(log rooms + `at_most`).
#[must_use]
pub fn rooms_after(
    rooms: &Rooms,
    prefix: &str,
    after: Option<&str>,
    at_most: usize,
) -> ListedRooms {
    let begin = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let mut all = rooms
        .from(begin)
        .take_while(|room| room.name().starts_with(prefix));
    let found = all.by_ref().take(at_most).map(listed).collect();
    ListedRooms {
        rooms: found,
        has_more: all.next().is_some(),
        total: rooms.len(),
    }
}

/// A room, with the members whose names come after this one, at most this many.
/// O(log members + `at_most` + properties).
#[must_use]
pub fn room_shown(room: &Room, after: Option<&str>, at_most: usize) -> ShownRoom {
    let mut members = room.members_after(after, at_most.saturating_add(1));
    let has_more = members.len() > at_most;
    members.truncate(at_most);
    ShownRoom {
        listed: listed(room),
        properties: room.summary().properties,
        locks: room.locks(|_| true),
        history: room.history_bounds(),
        members,
        has_more,
    }
}

fn listed(room: &Room) -> ListedRoom {
    ListedRoom {
        room: Arc::clone(room.name()),
        members: room.member_count(),
        capacity: room.capacity(),
        owner: room.owner().cloned(),
        is_locked: room.is_locked(),
        is_permanent: room.is_permanent(),
        properties: room.properties().count(),
        bytes: room.bytes(),
    }
}
