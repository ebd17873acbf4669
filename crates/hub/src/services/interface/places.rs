//! Places in rooms, as far as others than the rooms ask for them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_session::Ticket;
use stentor_zone::topic;

use super::who::Who;
use crate::core::sessions::rights::Identity;

/// Rooms that one SUBSCRIBE joins.
pub(crate) const JOINED_AT_ONCE_MAX: usize = 1_000;

/// Rooms that a session is in.
pub(crate) const ROOMS_MAX: usize = 10_000;

/// What a home is asked about a user and a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    /// Whether its place is kept, though all its connections are lost.
    Kept,
    /// Whether what it says there is heard, be it that another session of it is in the room.
    Heard,
}

/// The home of a zone is to say in which of these rooms a session's user has such a place.
#[derive(Debug)]
pub(crate) struct PlacesAsked {
    /// The rooms, in order.
    pub(crate) rooms: Vec<Box<str>>,
    pub(crate) sought: Sought,
    pub(crate) who: Who,
    /// The request that waits for a [`Placed`].
    pub(crate) ticket: Ticket,
}

/// What the home of a zone says to [`PlacesAsked`].
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) ticket: Ticket,
    /// Those of the rooms, in order.
    pub(crate) rooms: Vec<Box<str>>,
}

impl Identity {
    /// Whether somebody is a member of a room that it is in, and not an observer.
    pub(crate) fn may_speak(&self, room: &str) -> bool {
        self.user.is_some() && self.rights.may_publish(&topic::say(room))
    }
}
