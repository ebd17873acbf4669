//! What a room asks of whoever holds it.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::Message;

/// One session in a room. The holder chooses the number; it names a session as long as that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl SessionId {
    /// That of a virtual member, which no session has: nothing is ever sent there.
    pub(crate) const NOBODY: Self = Self(u64::MAX);
}

/// Something to do, in the order it was asked for.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Publish in the room's zone, as the server itself.
    Publish {
        /// The topic name.
        topic: String,
        /// The payload; empty with `retain` clears the topic.
        payload: Vec<u8>,
        /// The RETAIN flag.
        retain: bool,
    },
    /// Send to one session only, marked as history.
    Recall {
        /// Which session.
        session: SessionId,
        /// As it was heard.
        message: Arc<Message>,
        /// How long ago it was said, in milliseconds.
        age_millis: u64,
    },
    /// Take the session's subscriptions below the room away: it is no longer in it, though it did
    /// not ask for that. Its connection may be lost; then it does not come back to the room.
    Clear {
        /// Which session.
        session: SessionId,
        /// Why.
        why: Expelled,
    },
}

/// Why a session is out of a room that it did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expelled {
    /// Its user was sent out.
    Kicked,
    /// The room has ended, or was emptied.
    Closed,
    /// The same, of a room in which very many were: the session has not heard of it yet.
    Ended,
}

impl Expelled {
    /// A word for machines.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kicked => "kicked",
            Self::Closed | Self::Ended => "closed",
        }
    }

    /// The reason code of MQTT 5 that says it: an administrative action.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Kicked | Self::Closed | Self::Ended => 0x98,
        }
    }

    /// A sentence for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Kicked => "you were sent out of the room",
            Self::Closed | Self::Ended => "the room was closed",
        }
    }
}
