//! The zones whose home is this shard: their rooms, and who may be in them.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use hashbrown::HashMap;
use stentor_session::Tick;
use stentor_topic::Zone;
use stentor_zone::{
    Actor, Effect, Ran, Role, RoomCommand, RoomRights, Rooms, UNCLAIMED, run_command, topic,
};

use super::Parting;
use super::kept::KeptRooms;
use super::review::Absents;
use crate::core::Core;
use crate::core::memory::{Holding, ledger};
use crate::core::sessions::log::is_full;
use crate::core::sessions::rights::{Access, Identity};
use crate::core::settings::{Settings, ZoneSettings};
use crate::services::interface::places::Sought;
use crate::services::interface::who::Who;

/// Rooms of a zone that ends, which end in one turn.
const ROOMS_AT_ONCE: usize = 16;

/// The zones whose home is this shard: their rooms, and who is there.
#[derive(Debug)]
pub(crate) struct Zones {
    pub(super) by_zone: HashMap<Zone, Rooms, foldhash::fast::FixedState>,
    /// When somebody who is away may have to be removed; [`Tick::NEVER`] if nobody is.
    pub(super) deadline: Tick,
    /// When it was last looked which rooms have something to do.
    looked_at: Tick,
    /// The zones whose rooms have more to do in this look, in their order.
    pub(super) overdue: VecDeque<Zone>,
    plan: Plan,
    /// The rooms that the settings had when they were applied last.
    fixed: Vec<(Zone, Box<str>)>,
    /// Those whose places are kept; some of them may have come back.
    pub(super) absent: Absents,
    /// Those that are written down.
    pub(super) kept: KeptRooms,
    /// Rooms that have ended, from which not everybody has been sent out, in the order of that.
    pub(super) endings: VecDeque<(Zone, Arc<str>)>,
    /// Bytes of memory that all rooms take.
    bytes: u64,
}

/// Whether the zones are as the settings have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// The settings are new.
    Due,
    /// They have been applied.
    Done,
}

impl Default for Zones {
    fn default() -> Self {
        Self {
            by_zone: HashMap::default(),
            deadline: Tick::NEVER,
            looked_at: Tick::ZERO,
            overdue: VecDeque::new(),
            plan: Plan::Done,
            fixed: Vec::new(),
            absent: Absents::default(),
            kept: KeptRooms::default(),
            endings: VecDeque::new(),
            bytes: 0,
        }
    }
}

/// What a room, of a zone, asks for.
pub(super) type Asked = (Zone, Box<str>, Vec<Effect>);

impl Zones {
    /// Bytes of memory that all rooms take. O(1).
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the rooms have something to do next. They are looked at all together, so those who did
    /// not come back in time may be removed a little later.
    pub(crate) fn deadline(&self) -> Tick {
        if !self.overdue.is_empty() {
            return Tick::ZERO;
        }
        match (self.plan, self.deadline) {
            (Plan::Due, _) => Tick::ZERO,
            (Plan::Done, Tick::NEVER) => Tick::NEVER,
            (Plan::Done, deadline) => deadline.max(self.looked_at.after(LOOK_TIME)),
        }
    }

    /// Of a zone: rooms, places taken in them, bytes that they hold. O(1).
    pub(crate) fn figures(&self, zone: Zone) -> Option<(u64, u64, u64)> {
        let rooms = self.by_zone.get(&zone)?;
        let (members, bytes) = (rooms.members() as u64, rooms.bytes() as u64);
        Some((rooms.len() as u64, members, bytes))
    }

    /// Whether a room keeps a place for a session whose connection was lost.
    pub(super) fn awaits(&self, now: Tick, who: &Who, room: &str) -> bool {
        let rooms = self.by_zone.get(&who.identity.zone);
        let room = rooms.and_then(|rooms| rooms.get(room));
        room.is_some_and(|room| room.awaits(now, who.user(), who.session))
    }

    /// Does something with the rooms of a zone; what they ask for is returned too.
    pub(super) fn with_rooms<R>(
        &mut self,
        core: &mut Core,
        zone: Zone,
        f: impl FnOnce(&mut Rooms, &mut Vec<Effect>) -> R,
    ) -> (R, Vec<Effect>) {
        core.note_zone(zone);
        let mut out = Vec::new();
        let options = core.settings().rooms_of(zone);
        let before = self.by_zone.get(&zone).map_or(0, memory);
        let rooms = self.by_zone.entry(zone).or_insert_with(|| {
            let mut rooms = Rooms::new(options.clone());
            // The name is a good one.
            let _ = rooms.fix(LOBBY, options.room.clone(), &mut out);
            rooms
        });
        rooms.set_disk_full(is_full(core));
        rooms.set_room(room(core, memory(rooms)));
        let result = f(rooms, &mut out);
        self.bytes = self.bytes + memory(rooms) - before;
        for room in rooms.take_newly_ended() {
            self.kept.forget(core, zone, &room);
            self.endings.push_back((zone, room));
        }
        self.kept.note(core, zone, rooms, &out);
        let deadline = rooms.take_deadline().unwrap_or(Tick::NEVER);
        self.deadline = self.deadline.min(deadline);
        (result, out)
    }

    /// In which of these rooms a user has such a place.
    pub(super) fn places(
        &self,
        who: &Who,
        mut rooms: Vec<Box<str>>,
        sought: Sought,
    ) -> Vec<Box<str>> {
        let zone = self.by_zone.get(&who.identity.zone);
        let has_place = |name: &str| {
            let room = zone.and_then(|rooms| rooms.get(name));
            room.is_some_and(|room| match sought {
                Sought::Kept => room.is_away(who.user()),
                Sought::Heard => room.may_say(actor(who, name)),
            })
        };
        rooms.retain(|room| has_place(room));
        rooms
    }

    /// A session is out of a room. Returns what the room asks for; `None` if its zone has ended.
    pub(super) fn leave(
        &mut self,
        core: &mut Core,
        now: Tick,
        room: &str,
        who: &Who,
        parting: Parting,
    ) -> Option<Vec<Effect>> {
        let zone = who.identity.zone;
        if !self.by_zone.contains_key(&zone) {
            return None;
        }
        let (user, session) = (who.user(), who.session);
        let (away_until, effects) = self.with_rooms(core, zone, |rooms, out| {
            let left = rooms.act(room, out, |room, out| {
                Ok(match parting {
                    Parting::Left => room.leave(now, user, session, out),
                    Parting::Lost => room.lost(now, user, session, out),
                    Parting::Revoked => room.revoke(now, user, session, out),
                    Parting::Muted => room.mute(now, user, session, out),
                    Parting::Barred => {
                        room.bar(now, user, session, out);
                        None
                    }
                })
            });
            // The room may have ended.
            left.ok().flatten()
        });
        if let Some(until) = away_until {
            self.deadline = self.deadline.min(until);
        }
        Some(effects)
    }

    /// Runs a command about rooms; returns what came of it, and what rooms ask for. A command may
    /// have made a room, which does not wait for its owner for ever.
    pub(super) fn run<R: RoomRights>(
        &mut self,
        core: &mut Core,
        now: Tick,
        zone: Zone,
        user: &str,
        rights: &R,
        command: RoomCommand<'_>,
    ) -> (Ran, Vec<Effect>) {
        let ran = self.with_rooms(core, zone, |rooms, out| {
            run_command(rooms, now, user, rights, command, out)
        });
        self.deadline = self.deadline.min(now.after(UNCLAIMED));
        ran
    }

    /// It is looked now which rooms have something to do. Returns what those ask for that new
    /// settings change.
    pub(super) fn begin_look(&mut self, core: &mut Core, now: Tick) -> Vec<Asked> {
        self.looked_at = now;
        let asked = match core::mem::replace(&mut self.plan, Plan::Done) {
            Plan::Due => self.apply_settings(core),
            Plan::Done => Vec::new(),
        };
        let is_due = |rooms: &Rooms| rooms.next_deadline().is_some_and(|at| at <= now);
        let due = self.by_zone.iter().filter(|(_, rooms)| is_due(rooms));
        self.overdue.extend(due.map(|(zone, _)| *zone));
        asked
    }

    /// Lets some of those go who did not come back in time. Returns whether that were all of the
    /// zone, and what its rooms ask for.
    pub(super) fn let_go(&mut self, core: &mut Core, now: Tick, zone: Zone) -> (bool, Vec<Effect>) {
        // It may have ended in the meantime.
        if !self.by_zone.contains_key(&zone) {
            return (true, Vec::new());
        }
        self.with_rooms(core, zone, |rooms, out| rooms.advance(now, out))
    }

    /// Nobody is left of those who did not come back in time.
    pub(super) fn end_look(&mut self, now: Tick) {
        let deadlines = self.by_zone.values().filter_map(Rooms::next_deadline);
        self.deadline = deadlines.min().unwrap_or(Tick::NEVER);
        self.forget_absent(now);
    }

    /// Makes the zones whose home is here as the settings have them: their options, and the rooms
    /// that are always there. Rooms that the settings do not have any more end when they are empty.
    /// Returns what rooms ask for.
    fn apply_settings(&mut self, core: &mut Core) -> Vec<Asked> {
        let settings = Arc::clone(core.settings());
        let known: Vec<Zone> = self.by_zone.keys().copied().collect();
        for zone in known {
            let options = settings.rooms_of(zone).clone();
            self.with_rooms(core, zone, |rooms, _| rooms.configure(options));
        }
        let is_here = |own: &&ZoneSettings| core.home_of(own.zone) == core.shard();
        let here: Vec<&ZoneSettings> = settings.zones.iter().filter(is_here).collect();
        let names = |own: &&ZoneSettings| {
            let zone = own.zone;
            let names: Vec<_> = own
                .fixed
                .iter()
                .map(|(room, _)| (zone, room.clone()))
                .collect();
            names
        };
        let fixed = here.iter().flat_map(names).collect();
        let before = core::mem::replace(&mut self.fixed, fixed);
        let mut all = Vec::new();
        for (zone, room) in before {
            if self.fixed.contains(&(zone, room.clone())) {
                continue;
            }
            let usual = settings.rooms_of(zone).room.clone();
            let ((), effects) = self.with_rooms(core, zone, |rooms, out| match &*room {
                // The name is a valid one.
                LOBBY => drop(rooms.fix(LOBBY, usual, out)),
                _ => rooms.unfix(&room, out),
            });
            all.push((zone, room, effects));
        }
        for own in here {
            for (room, options) in &own.fixed {
                let (_, effects) = self.with_rooms(core, own.zone, |rooms, out| {
                    // The name is a valid one.
                    rooms.fix(room, options.clone(), out)
                });
                all.push((own.zone, room.clone(), effects));
            }
        }
        all
    }

    /// Whether a room has ended, and not everybody has been sent out.
    pub(super) fn is_ending(&self, zone: Zone, room: &str) -> bool {
        let rooms = self.by_zone.get(&zone);
        rooms.is_some_and(|rooms| rooms.is_ending(room))
    }

    /// Sends more of those out who were in a room that has ended. Returns whether nothing is left
    /// of it, and what it asks for.
    pub(super) fn go_on_ending(
        &mut self,
        core: &mut Core,
        zone: Zone,
        room: &str,
    ) -> (bool, Vec<Effect>) {
        if !self.by_zone.contains_key(&zone) {
            return (true, Vec::new());
        }
        self.with_rooms(core, zone, |rooms, out| rooms.go_on_ending(room, out))
    }

    /// A zone ends: some of its rooms do. Returns what they ask for, and whether nothing is left of
    /// them.
    pub(super) fn end_zone(&mut self, core: &mut Core, zone: Zone) -> (Vec<Effect>, bool) {
        let (mut out, mut is_done) = (Vec::new(), true);
        if let Some(rooms) = self.by_zone.get_mut(&zone) {
            let before = memory(rooms);
            is_done = rooms.close_some(ROOMS_AT_ONCE, &mut out);
            self.bytes = self.bytes + memory(rooms) - before;
        }
        if is_done {
            self.by_zone.remove(&zone);
        }
        self.fixed.retain(|(of, _)| *of != zone);
        let is_done = self.kept.end_zone(core, zone, ROOMS_AT_ONCE) && is_done;
        (out, is_done)
    }

    /// A room may keep the place of a lost connection.
    pub(super) fn note_absent(&mut self, now: Tick, room: &str, who: &Who, client_id: &Arc<str>) {
        if !self.awaits(now, who, room) {
            return;
        }
        self.absent.note(room, who, client_id);
        if self.absent.is_large() {
            self.forget_absent(now);
        }
    }

    /// Forgets sessions that are not absent any more. O(absent places).
    pub(super) fn forget_absent(&mut self, now: Tick) {
        let mut absent = core::mem::take(&mut self.absent);
        absent.retain(|who, room| self.awaits(now, who, room));
        self.absent = absent;
    }

    /// The settings are new: they are applied as soon as the hub advances.
    pub(crate) fn reconfigure(&mut self, settings: &Settings) {
        if !settings.zones.is_empty() || !self.by_zone.is_empty() {
            self.plan = Plan::Due;
            self.deadline = Tick::ZERO;
        }
    }
}

/// How long at least from one look to the next: each is O(zones + absent places), and clients
/// choose how many deadlines there are.
const LOOK_TIME: Duration = Duration::from_millis(100);

/// The room of every zone that is there without anybody making it.
pub(super) const LOBBY: &str = "lobby";

impl RoomRights for Identity {
    /// Administrators are those who may publish where only the server does.
    fn role(&self, room: &str) -> Role {
        if self.rights.may_publish(&topic::listed(room)) {
            Role::Administrator
        } else {
            Role::User
        }
    }

    fn may_enter(&self, room: &str) -> bool {
        self.rights.may_subscribe(&super::all_below(room)) != Access::Nothing
    }

    fn may_join(&self, room: &str) -> bool {
        self.may_enter(room) && self.may_speak(room)
    }

    fn may_read(&self, topic: &str) -> bool {
        self.rights.may_receive(topic)
    }

    fn rules(&self) -> usize {
        self.rights.rules()
    }
}

/// Somebody who does something in a room.
pub(super) fn actor<'a>(who: &'a Who, room: &str) -> Actor<'a> {
    Actor {
        user: who.user(),
        role: who.identity.role(room),
    }
}

/// Bytes of memory that the rooms of a zone take. O(1).
fn memory(rooms: &Rooms) -> u64 {
    /// A room without properties and messages, with its place among the others.
    const ROOM_BYTES: usize = 512;
    (rooms.bytes() + rooms.len() * ROOM_BYTES) as u64
}

/// Bytes that a zone's rooms may take in addition to what they have: an eighth of what clients may
/// make the server hold is for one zone, and a quarter for all of them. So rooms alone never make
/// memory short.
fn room(core: &Core, held: u64) -> usize {
    const ZONE_PARTS: u64 = 8;
    const ALL_PARTS: u64 = 4;
    let ledger = ledger(core);
    let budget = ledger.budget();
    let own = (budget / ZONE_PARTS).saturating_sub(held);
    let all = (budget / ALL_PARTS).saturating_sub(ledger.of(Holding::Rooms));
    usize::try_from(own.min(all)).unwrap_or(usize::MAX)
}
