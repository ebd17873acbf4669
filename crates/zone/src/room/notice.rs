//! The events that the members of a room receive, as JSON.

use alloc::vec::Vec;

use serde::Serialize;

/// Something that happened in a room: the payload of `$room/<room>/event`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Notice<'a> {
    /// A new member.
    Joined { user: &'a str, members: usize },
    /// A member is gone.
    Left {
        user: &'a str,
        reason: Reason,
        members: usize,
    },
    /// A member's connection was lost; its place is kept.
    Away { user: &'a str },
    /// It came back in time.
    Back { user: &'a str },
    /// The room has another owner.
    Owner { user: &'a str },
    /// Somebody changed the room itself: the list of rooms tells how it is now.
    Changed { by: &'a str },
    /// The room ends.
    Closed,
}

/// Why a member is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reason {
    /// It left.
    Left,
    /// Its connection was lost and it did not come back in time.
    Lost,
    /// It was sent out.
    Kicked,
    /// It has lost the right to be a member.
    Revoked,
}

/// The payload of `$room/<room>/member/<user>`.
#[derive(Debug, Serialize)]
pub(super) struct MemberState<'a> {
    /// `here` or `away`.
    pub(super) state: &'a str,
}

/// The payload of the event that a room ends.
#[must_use]
pub fn closed_event() -> Vec<u8> {
    json(&Notice::Closed)
}

/// Plain values with string keys always serialise.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
