//! Rooms that have ended while very many were in them.
//!
//! Such a room is closed for everybody at once: nobody comes in, and nothing is said. Its members
//! hear it, and are sent out, in later turns. A new room of its name begins after that, or else
//! they could hear what happens there. So who wants to come into one, or to make one, waits: in the
//! order in which they came, and in turns too, for all who were sent out may come again at once.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use stentor_session::Tick;
use stentor_topic::Zone;
use stentor_zone::Entry;

use super::{HomeCommand, RoomItem};
use crate::core::Core;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::work;
use crate::services::rooms::RoomService;

/// Bytes of what waits, beyond which no command does: for commands there is no other bound.
const COMMAND_BYTES_MAX: usize = 4 << 20;

/// Of those who have waited for one room, this many are served in a turn.
const SERVED_AT_ONCE: usize = 64;

/// What it costs to send somebody out, to clear a topic, or to publish an event.
pub(super) const STEP_VISITS: u32 = 32;

/// A session, and the shard where it is.
type Caller = (ShardId, SessionKey);

/// A room, of a zone.
type Name = (Zone, Box<str>);

/// The items that wait for the end of rooms.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    by_room: BTreeMap<Name, VecDeque<RoomItem>>,
    /// Sessions with commands that wait, for which room, and how many of them. Their next ones wait
    /// too.
    callers: BTreeMap<Caller, (Name, usize)>,
    /// Bytes of everything that waits.
    bytes: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.by_room.is_empty()
    }

    /// Bytes of everything that waits. O(1).
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Whether there is room for a command that waits.
    fn takes(&self, command: &HomeCommand) -> bool {
        self.bytes + command.bytes() <= COMMAND_BYTES_MAX
    }

    /// Whether something waits for a room.
    fn is_awaited(&self, zone: Zone, room: &str) -> bool {
        !self.is_empty() && self.by_room.contains_key(&(zone, room.into()))
    }

    fn push(&mut self, name: Name, item: RoomItem) {
        self.bytes += item.bytes();
        if let RoomItem::Command(HomeCommand { to, .. }) = &item {
            let caller = self.callers.entry((to.shard, to.session));
            caller.or_insert_with(|| (name.clone(), 0)).1 += 1;
        }
        self.by_room.entry(name).or_default().push_back(item);
    }

    fn pop(&mut self, name: &Name) -> Option<RoomItem> {
        let waiting = self.by_room.get_mut(name)?;
        let item = waiting.pop_front();
        if waiting.is_empty() {
            self.by_room.remove(name);
        }
        let item = item?;
        self.bytes -= item.bytes();
        if let RoomItem::Command(HomeCommand { to, .. }) = &item {
            let caller = (to.shard, to.session);
            if let Some((_, count)) = self.callers.get_mut(&caller) {
                *count -= 1;
                if *count == 0 {
                    self.callers.remove(&caller);
                }
            }
        }
        Some(item)
    }
}

/// Whether rooms have ended, and somebody is still in them or waits for that.
pub(super) fn goes_on(rooms: &RoomService) -> bool {
    !rooms.zones.endings.is_empty() || !rooms.waiting.is_empty()
}

/// Has what came for a home wait if it has to. Gives it back if not.
pub(super) fn put_off(rooms: &mut RoomService, item: RoomItem) -> Option<RoomItem> {
    if !goes_on(rooms) {
        return Some(item);
    }
    let name = match &item {
        RoomItem::Join {
            room, who, entry, ..
        } => {
            let zone = who.identity.zone;
            let is_new = matches!(entry, Entry::Member | Entry::Observer);
            let is_early = is_new && rooms.zones.is_ending(zone, room);
            (is_early || rooms.waiting.is_awaited(zone, room)).then(|| (zone, room.clone()))
        }
        RoomItem::Leave { room, who, .. } => {
            // It may have come to get out of the new room.
            let zone = who.identity.zone;
            let is_awaited = rooms.waiting.is_awaited(zone, room);
            is_awaited.then(|| (zone, room.clone()))
        }
        // One for which there is no room runs now. If it needs what an earlier one is to do, it is
        // refused.
        RoomItem::Command(command) if rooms.waiting.takes(command) => {
            let caller = (command.to.shard, command.to.session);
            let caller = rooms.waiting.callers.get(&caller);
            caller.map(|(name, _)| name.clone())
        }
        _ => None,
    };
    let Some(name) = name else {
        return Some(item);
    };
    rooms.waiting.push(name, item);
    None
}

/// Has a command wait that would make a room which is ending. Gives it back if too much waits.
pub(super) fn put_off_command(
    rooms: &mut RoomService,
    zone: Zone,
    room: Box<str>,
    command: HomeCommand,
) -> Option<HomeCommand> {
    if !rooms.waiting.takes(&command) {
        return Some(command);
    }
    rooms.waiting.push((zone, room), RoomItem::Command(command));
    None
}

/// Goes on with rooms that have ended, the one that ended first before others, and with what
/// has waited for that.
pub(super) fn go_on(rooms: &mut RoomService, core: &mut Core, now: Tick) {
    if let Some((zone, room)) = rooms.zones.endings.pop_front() {
        let (is_over, effects) = rooms.zones.go_on_ending(core, zone, &room);
        core.turn_mut().spend_each(effects.len(), STEP_VISITS);
        rooms.perform(core, now, zone, &room, effects);
        if !is_over {
            rooms.zones.endings.push_front((zone, room));
        }
    }
    if !rooms.waiting.is_empty() {
        serve_waiting(rooms, core, now);
    }
}

/// Serves some of those who have waited for rooms, as far as the turn allows, and one in any
/// case.
fn serve_waiting(rooms: &mut RoomService, core: &mut Core, now: Tick) {
    let names = rooms.waiting.by_room.keys();
    let mut ready = names.filter(|(zone, room)| !rooms.zones.is_ending(*zone, room));
    let Some(name) = ready.next().cloned() else {
        return;
    };
    for _ in 0..SERVED_AT_ONCE {
        if rooms.zones.is_ending(name.0, &name.1) {
            return;
        }
        let Some(item) = rooms.waiting.pop(&name) else {
            return;
        };
        rooms.serve(core, now, item);
        if work::turn_is_spent(core) {
            return;
        }
    }
}
