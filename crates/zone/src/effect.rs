//! What a room asks of whoever holds it.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// One session in a room. The holder chooses the number; it names a session as long as that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub u64);

/// Something to do, in the order it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        seat: Seat,
        /// The topic name.
        topic: Arc<str>,
        /// The payload.
        payload: Arc<[u8]>,
        /// How long ago it was said, in milliseconds.
        age_millis: u64,
    },
    /// Take the session's subscriptions below the room away: it is no longer in it.
    Clear {
        /// Which session.
        seat: Seat,
    },
}
