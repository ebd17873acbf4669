//! What the caller of a command about rooms may do.

use crate::room::Role;

/// What a user may do with the rooms of its zone. A command tells no more than the topics below
/// `$room/` and `$rooms/` do.
pub trait RoomRights {
    /// What the user is to a room.
    fn role(&self, room: &str) -> Role;
    /// Whether it may subscribe to something below a room.
    fn may_enter(&self, room: &str) -> bool;
    /// Whether it may come into a room as a member.
    fn may_join(&self, room: &str) -> bool;
    /// Whether it may receive a topic.
    fn may_read(&self, topic: &str) -> bool;

    /// How many rules have to be looked at to answer, where one look does not decide.
    fn rules(&self) -> usize {
        0
    }
}

/// The rights of the server itself.
#[derive(Clone, Copy, Debug)]
pub struct AllRights;

impl RoomRights for AllRights {
    fn role(&self, _room: &str) -> Role {
        Role::Administrator
    }

    fn may_enter(&self, _room: &str) -> bool {
        true
    }

    fn may_join(&self, _room: &str) -> bool {
        true
    }

    fn may_read(&self, _topic: &str) -> bool {
        true
    }
}
