//! What an operator asks about the rooms of a zone.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_zone::{ListedRooms, ShownRoom};

/// A question about rooms, or an order to them, for the home shard of their zone.
#[derive(Clone, Debug)]
pub enum RoomsAsk {
    /// Some rooms, by name.
    List {
        /// How their names begin.
        prefix: Box<str>,
        /// Only those behind this name.
        after: Option<Box<str>>,
        /// At most this many.
        at_most: usize,
    },
    /// One room with some of its members, by name.
    Show {
        /// Which one.
        room: Box<str>,
        /// Only members behind this name.
        after: Option<Box<str>>,
        /// At most this many of them.
        at_most: usize,
    },
    /// A command, as the server's own.
    Run {
        /// Which one: `room.kick`, for example.
        command: Box<str>,
        /// Its fields, as JSON.
        words: Box<[u8]>,
    },
}

/// The answer.
#[derive(Clone, Debug)]
pub enum RoomsTold {
    /// Rooms.
    List(ListedRooms),
    /// The room, if there is one of that name.
    Shown(Option<Box<ShownRoom>>),
    /// What a command answers, as JSON.
    Ran(Vec<u8>),
}

impl RoomsTold {
    /// The answer of a server without rooms.
    #[cfg(not(feature = "rooms"))]
    pub(crate) fn none(ask: &RoomsAsk) -> Self {
        match ask {
            RoomsAsk::List { .. } => Self::List(ListedRooms::default()),
            RoomsAsk::Show { .. } => Self::Shown(None),
            RoomsAsk::Run { .. } => Self::Ran(stentor_zone::call_refused(
                "not-found",
                "this server is built without rooms",
            )),
        }
    }
}
