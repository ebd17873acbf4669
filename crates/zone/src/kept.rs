//! Rooms that outlive the server: what there is to know of one, and how it goes on.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::Tick;

use crate::effect::Effect;
use crate::name::check_name;
use crate::room::{HistoryBounds, Property, Room, RoomOptions};
use crate::rooms::Rooms;

/// A room as it was when the server ended.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorRoom {
    /// Its name.
    pub name: Arc<str>,
    /// Its owner.
    pub owner: Option<Arc<str>>,
    /// How many members it may have; `None` without a bound.
    pub capacity: Option<u32>,
    /// Whether it lets nobody in but its owner and administrators.
    pub locked: bool,
    /// How much it keeps of what is said. What was said is lost.
    pub history: HistoryBounds,
    /// The version of the property that was changed last.
    pub version: u64,
    /// Its properties, with their names.
    pub properties: Vec<(Arc<str>, Property)>,
    /// The users who had a place, in the order in which they came.
    pub members: Vec<Arc<str>>,
}

impl Rooms {
    /// A room goes on that was there before the start of the server. Its members are away from now
    /// on. Without effect if there is such a room, or none can have this name.
    pub fn restore(&mut self, now: Tick, prior: PriorRoom, out: &mut Vec<Effect>) {
        if check_name(&prior.name).is_err() || self.get(&prior.name).is_some() {
            return;
        }
        let defaults = self.defaults();
        let options = RoomOptions {
            permanent: true,
            capacity: prior.capacity,
            locked: prior.locked,
            history: defaults.bounds.limit_history(prior.history),
            ..defaults.clone()
        };
        let mut room = Room::new(
            &prior.name,
            prior.owner.as_deref(),
            options,
            &mut Vec::new(),
        );
        room.refurnish(prior.properties, prior.version, out);
        room.expect(now, prior.members, out);
        self.insert(room);
    }

    /// A room that outlives the server: it stays when it is empty, and the configuration does not
    /// have it.
    #[must_use]
    pub fn kept(&self, room: &str) -> Option<&Room> {
        let kept = self.get(room)?;
        (kept.is_permanent() && !self.is_fixed(room)).then_some(kept)
    }
}
