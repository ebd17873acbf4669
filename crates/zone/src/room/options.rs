//! What a room is made with.

use core::time::Duration;

/// How a room behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomOptions {
    /// Whether it stays when it is empty.
    pub permanent: bool,
    /// How many members it may have; `None` without a bound.
    pub capacity: Option<u32>,
    /// Whether nobody but owner and administrators may come in.
    pub locked: bool,
    /// What is kept of what was said.
    pub history: HistoryBounds,
    /// How long the place of a lost connection is kept.
    pub grace: Duration,
    /// What users cannot change.
    pub bounds: Bounds,
}

impl Default for RoomOptions {
    /// A room that dissolves when it is empty, without bound and history, with 30 s of grace.
    fn default() -> Self {
        Self {
            permanent: false,
            capacity: None,
            locked: false,
            history: HistoryBounds::default(),
            grace: Duration::from_secs(30),
            bounds: Bounds::default(),
        }
    }
}

/// How much is kept of what was said. The default keeps nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Messages.
    pub count: usize,
    /// Bytes of topics and payloads.
    pub bytes: usize,
    /// Age; `None` without a bound.
    pub age: Option<Duration>,
}

/// Bounds for what users do, set by the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of one thing said.
    pub say_bytes: usize,
    /// Properties of a room.
    pub properties: usize,
    /// Bytes of one property's value, as JSON.
    pub property_bytes: usize,
    /// The longest history that an owner may ask for.
    pub history: HistoryBounds,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            say_bytes: 64 << 10,
            properties: 64,
            property_bytes: 4 << 10,
            history: HistoryBounds {
                count: 1_000,
                bytes: 1 << 20,
                age: None,
            },
        }
    }
}

impl Bounds {
    /// What is granted of a history asked for.
    pub(crate) fn limit_history(&self, wanted: HistoryBounds) -> HistoryBounds {
        let age = match (wanted.age, self.history.age) {
            (Some(wanted), Some(bound)) => Some(wanted.min(bound)),
            (wanted, bound) => wanted.or(bound),
        };
        HistoryBounds {
            count: wanted.count.min(self.history.count),
            bytes: wanted.bytes.min(self.history.bytes),
            age,
        }
    }
}

/// What an owner can change of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// How many members it may have. Those who are there stay.
    Capacity(Option<u32>),
    /// Whether nobody may come in.
    Locked(bool),
    /// What is kept of what is said, within the zone's bounds.
    History(HistoryBounds),
    /// Another owner, who must be a member.
    Owner(&'a str),
}
