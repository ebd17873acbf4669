//! What the home shard of a zone does.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use hashbrown::HashMap;
use stentor_mqtt::{Property, PropertyBuf, forwardable};
use stentor_session::{Message, MessageParts, Publisher, Tick, Ticket};
use stentor_topic::Zone;
use stentor_zone::{
    Actor, AllRights, Effect, Entry, Refusal, Role, RoomRights, Rooms, UNCLAIMED, decode_name,
    run_command, topic,
};

use super::kept::KeptRooms;
use super::review::Absents;
use super::{Parting, RoomItem};
use crate::core::Core;
use crate::core::ids::ShardId;
use crate::core::memory::{Holding, ledger};
use crate::core::sessions::log::is_full;
use crate::core::sessions::rights::{Access, Identity};
use crate::core::settings::{Settings, ZoneSettings};
use crate::core::work::VISIT_BYTES;
use crate::effects::Event;
use crate::items::Sender;
use crate::services::interface::answer::{Answer, ReturnAddress};
use crate::services::interface::hooks::Happening;
use crate::services::interface::message::server_message;
use crate::services::interface::places::Sought;
use crate::services::interface::who::{Who, shard_of};
use crate::services::rooms::{RoomRequest, RoomService};

/// The zones whose home is this shard: their rooms, and who is there.
#[derive(Debug)]
pub(crate) struct Zones {
    pub(super) by_zone: HashMap<Zone, Rooms, foldhash::fast::FixedState>,
    /// When somebody who is away may have to be removed; [`Tick::NEVER`] if nobody is.
    pub(super) deadline: Tick,
    /// When all rooms were looked at last.
    looked_at: Tick,
    plan: Plan,
    /// The rooms that the settings had when they were applied last.
    fixed: Vec<(Zone, Box<str>)>,
    /// Those whose places are kept; some of them may have come back.
    pub(super) absent: Absents,
    /// Those that are written down.
    pub(super) kept: KeptRooms,
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
            plan: Plan::Done,
            fixed: Vec::new(),
            absent: Absents::default(),
            kept: KeptRooms::default(),
            bytes: 0,
        }
    }
}

impl Zones {
    /// When the rooms have something to do next. They are looked at all together, so those who did
    /// not come back in time may be removed a little later.
    pub(crate) fn deadline(&self) -> Tick {
        match (self.plan, self.deadline) {
            (Plan::Due, _) => Tick::ZERO,
            (Plan::Done, Tick::NEVER) => Tick::NEVER,
            (Plan::Done, deadline) => deadline.max(self.looked_at.after(LOOK_TIME)),
        }
    }

    /// Of each zone: rooms, places taken in them, bytes that they hold.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (Zone, u64, u64, u64)> {
        self.by_zone.iter().map(|(zone, rooms)| {
            let members = rooms.iter().map(|room| room.member_count() as u64).sum();
            (*zone, rooms.len() as u64, members, rooms.bytes() as u64)
        })
    }

    /// Whether a room keeps a place for a session whose connection was lost.
    pub(super) fn awaits(&self, now: Tick, who: &Who, room: &str) -> bool {
        let rooms = self.by_zone.get(&who.identity.zone);
        let room = rooms.and_then(|rooms| rooms.get(room));
        room.is_some_and(|room| room.awaits(now, who.user(), who.seat))
    }

    /// The settings are new: they are applied as soon as the hub advances.
    pub(crate) fn reconfigure(&mut self, settings: &Settings) {
        if !settings.zones.is_empty() || !self.by_zone.is_empty() {
            self.plan = Plan::Due;
            self.deadline = Tick::ZERO;
        }
    }
}

/// What it costs to send a message of a room's history to one member, and each 64 bytes of it.
const RECALL_VISITS: u32 = 2;

/// How long at least from one look at all rooms to the next: each is O(rooms + members), and
/// clients choose how many deadlines there are.
const LOOK_TIME: Duration = Duration::from_millis(100);

/// The room of every zone that is there without anybody making it.
const LOBBY: &str = "lobby";

/// The user property that marks what was said before, with its age in milliseconds as value.
const AGE: &str = "history-age-ms";

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

fn actor<'a>(who: &'a Who, room: &str) -> Actor<'a> {
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

impl RoomService {
    /// When the rooms have something to do next.
    pub(crate) fn deadline(&self) -> Tick {
        self.zones.deadline()
    }

    /// Bytes of memory that the rooms take whose home is this shard. O(1).
    pub(crate) const fn bytes(&self) -> u64 {
        self.zones.bytes
    }

    /// Of each zone: rooms, places taken in them, bytes that they hold.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (Zone, u64, u64, u64)> {
        self.zones.figures()
    }

    /// The settings are new: they are applied as soon as the hub advances.
    pub(crate) fn reconfigure(&mut self, settings: &Settings) {
        self.zones.reconfigure(settings);
    }

    /// Does something with the rooms of a zone; what they ask for is returned too.
    pub(super) fn with_rooms<R>(
        &mut self,
        core: &mut Core,
        zone: Zone,
        f: impl FnOnce(&mut Rooms, &mut Vec<Effect>) -> R,
    ) -> (R, Vec<Effect>) {
        let mut out = Vec::new();
        let options = core.settings().rooms_of(zone);
        let zones = &mut self.zones;
        let before = zones.by_zone.get(&zone).map_or(0, memory);
        let rooms = zones.by_zone.entry(zone).or_insert_with(|| {
            let mut rooms = Rooms::new(options.clone());
            // The name is a good one.
            let _ = rooms.fix(LOBBY, options.room.clone(), &mut out);
            rooms
        });
        rooms.set_disk_full(is_full(core));
        rooms.set_room(room(core, memory(rooms)));
        let result = f(rooms, &mut out);
        zones.bytes = zones.bytes + memory(rooms) - before;
        zones.kept.note(core, zone, rooms, &out);
        let deadline = rooms.take_deadline().unwrap_or(Tick::NEVER);
        zones.deadline = zones.deadline.min(deadline);
        (result, out)
    }

    pub(super) fn home_join(
        &mut self,
        core: &mut Core,
        now: Tick,
        room: Box<str>,
        who: &Who,
        entry: Entry,
        (shard, ticket): (ShardId, Ticket),
    ) {
        let zone = who.identity.zone;
        let (result, effects) = self.with_rooms(core, zone, |rooms, out| {
            rooms.join(now, actor(who, &room), &room, (who.seat, entry), out)
        });
        let is_recall = |effect: &Effect| matches!(effect, Effect::Recall { .. });
        let (recalls, others): (Vec<_>, Vec<_>) = effects.into_iter().partition(is_recall);
        self.perform(core, now, zone, &room, others);
        let refusal = result.err();
        let joined = RoomItem::Joined {
            ticket,
            room: room.clone(),
            refusal,
        };
        // What was said before follows the SUBACK.
        self.send_room(core, now, shard, joined);
        self.perform(core, now, zone, &room, recalls);
    }

    /// In which of these rooms a user has such a place.
    pub(super) fn home_places(
        &self,
        who: &Who,
        mut rooms: Vec<Box<str>>,
        sought: Sought,
    ) -> Vec<Box<str>> {
        let zone = self.zones.by_zone.get(&who.identity.zone);
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

    pub(super) fn home_leave(
        &mut self,
        core: &mut Core,
        now: Tick,
        room: &str,
        who: &Who,
        parting: Parting,
    ) {
        let zone = who.identity.zone;
        if !self.zones.by_zone.contains_key(&zone) {
            // The zone has ended.
            return;
        }
        let (user, seat) = (who.user(), who.seat);
        let (away_until, effects) = self.with_rooms(core, zone, |rooms, out| {
            let left = rooms.act(room, out, |room, out| {
                Ok(match parting {
                    Parting::Left => room.leave(now, user, seat, out),
                    Parting::Lost => room.lost(now, user, seat, out),
                    Parting::Revoked => room.revoke(now, user, seat, out),
                    Parting::Muted => room.mute(now, user, seat, out),
                    Parting::Barred => {
                        room.bar(now, user, seat, out);
                        None
                    }
                })
            });
            // There may be no such room any more.
            left.ok().flatten()
        });
        if let Some(until) = away_until {
            self.zones.deadline = self.zones.deadline.min(until);
        }
        self.perform(core, now, zone, room, effects);
    }

    pub(super) fn home_say(
        &mut self,
        core: &mut Core,
        now: Tick,
        room: &str,
        who: &Who,
        (message, sender): (Arc<Message>, Option<Sender>),
    ) -> Option<Refusal> {
        let zone = who.identity.zone;
        let (result, effects) = self.with_rooms(core, zone, |rooms, out| {
            rooms.act(room, out, |room, _| {
                room.say(actor(who, room.name()), &message)
            })
        });
        match result {
            // The message itself goes out, with the properties that its speaker gave it.
            Ok(()) => core.route_of(now, &[message], sender),
            Err(refusal) => {
                self.perform(core, now, zone, room, effects);
                return Some(refusal);
            }
        }
        None
    }

    /// Tells the side that waits to acknowledge it, if there is one, what became of something said.
    pub(super) fn answer_say(
        &mut self,
        core: &mut Core,
        now: Tick,
        answer: Option<(ShardId, Ticket)>,
        refusal: Option<Refusal>,
    ) {
        if let Some((shard, ticket)) = answer {
            self.send_room(core, now, shard, RoomItem::Said { ticket, refusal });
        }
    }

    pub(super) fn home_command(
        &mut self,
        core: &mut Core,
        now: Tick,
        command: (&str, &[u8]),
        who: &Who,
        to: ReturnAddress,
    ) {
        let zone = who.identity.zone;
        let (ran, effects) = self.with_rooms(core, zone, |rooms, out| {
            run_command(rooms, (now, who.user()), &*who.identity, command, out)
        });
        let (room, json, work) = (ran.room, ran.answer, ran.work);
        core.turn_mut().spend_time(work);
        if let Some(deed) = ran.deed {
            core.log(Event::Administered {
                identity: Arc::clone(&who.identity),
                what: deed.what,
                target: room.as_str().into(),
                user: deed.user.map(Into::into),
                refused: deed.refused.map(Into::into),
            });
        }
        self.await_owner(now);
        self.perform(core, now, zone, &room, effects);
        let asker = (to.shard, to.session);
        let (shard, answer) = (to.shard, Answer { to, json });
        self.send_room(core, now, shard, RoomItem::Answer(Box::new(answer)));
        self.charge(core, now, asker, work);
    }

    /// Runs a command about rooms as the server itself; returns the answer, which is JSON.
    pub(crate) fn run_as_administrator(
        &mut self,
        core: &mut Core,
        now: Tick,
        zone: Zone,
        (procedure, payload): (&str, &[u8]),
    ) -> Vec<u8> {
        let command = (procedure, payload);
        let (ran, effects) = self.with_rooms(core, zone, |rooms, out| {
            run_command(rooms, (now, ""), &AllRights, command, out)
        });
        self.await_owner(now);
        self.perform(core, now, zone, &ran.room, effects);
        ran.answer
    }

    /// A command may have made a room, which does not wait for its owner for ever.
    fn await_owner(&mut self, now: Tick) {
        self.zones.deadline = self.zones.deadline.min(now.after(UNCLAIMED));
    }

    /// Lets go of those who did not come back in time.
    pub(crate) fn advance(&mut self, core: &mut Core, now: Tick) {
        if now < self.zones.deadline() {
            return;
        }
        self.zones.looked_at = now;
        if self.zones.plan == Plan::Due {
            self.zones.plan = Plan::Done;
            self.apply_zones(core, now);
        }
        for (zone, effects) in core::mem::take(&mut self.zones.kept.unpublished) {
            self.perform(core, now, zone, "", effects);
        }
        let zones: Vec<Zone> = self.zones.by_zone.keys().copied().collect();
        let mut next = Tick::NEVER;
        for zone in zones {
            let (deadline, effects) = self.with_rooms(core, zone, |rooms, out| {
                rooms.advance(now, out);
                rooms.next_deadline()
            });
            next = next.min(deadline.unwrap_or(Tick::NEVER));
            // Nobody has a seat here: no room has to be named.
            self.perform(core, now, zone, "", effects);
        }
        self.zones.deadline = next;
        self.forget_absent(now);
    }

    /// Makes the zones whose home is here as the settings have them: their options, and the rooms
    /// that are always there. Rooms that the settings do not have any more end when they are empty.
    fn apply_zones(&mut self, core: &mut Core, now: Tick) {
        let settings = Arc::clone(core.settings());
        let known: Vec<Zone> = self.zones.by_zone.keys().copied().collect();
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
        let before = core::mem::replace(&mut self.zones.fixed, fixed);
        for (zone, room) in before {
            if self.zones.fixed.contains(&(zone, room.clone())) {
                continue;
            }
            let usual = settings.rooms_of(zone).room.clone();
            let ((), effects) = self.with_rooms(core, zone, |rooms, out| match &*room {
                // The name is a valid one.
                LOBBY => drop(rooms.fix(LOBBY, usual, out)),
                _ => rooms.unfix(&room, out),
            });
            self.perform(core, now, zone, &room, effects);
        }
        for own in here {
            for (room, options) in &own.fixed {
                let (_, effects) = self.with_rooms(core, own.zone, |rooms, out| {
                    // The name is a valid one.
                    rooms.fix(room, options.clone(), out)
                });
                self.perform(core, now, own.zone, room, effects);
            }
        }
    }

    /// A zone ends: nothing is left of its rooms.
    pub(crate) fn end_zone(&mut self, core: &mut Core, now: Tick, zone: Zone) {
        let mut out = Vec::new();
        if let Some(mut rooms) = self.zones.by_zone.remove(&zone) {
            self.zones.bytes -= memory(&rooms);
            rooms.close_all(&mut out);
        }
        self.zones.fixed.retain(|(of, _)| *of != zone);
        self.zones.kept.end_zone(core, zone);
        self.perform(core, now, zone, "", out);
    }

    /// Somebody looks at the list of a zone's rooms: it has the lobby from now on.
    pub(super) fn home_listed(&mut self, core: &mut Core, now: Tick, zone: Zone) {
        let ((), effects) = self.with_rooms(core, zone, |_, _| ());
        self.perform(core, now, zone, LOBBY, effects);
    }

    /// Does what a room asks for.
    pub(crate) fn perform(
        &mut self,
        core: &mut Core,
        now: Tick,
        zone: Zone,
        room: &str,
        effects: Vec<Effect>,
    ) {
        if self.is_watched {
            let told = effects.iter().filter_map(happening);
            let told = told.map(|happening| RoomRequest::Tell(zone, happening));
            self.requests.extend(told);
        }
        for effect in effects {
            match effect {
                Effect::Publish {
                    topic,
                    payload,
                    retain,
                } => {
                    let message = server_message(now, zone, &topic, (&payload, &[], retain));
                    core.keep_and_route_now(now, message);
                }
                Effect::Recall {
                    seat,
                    message,
                    age_millis,
                } => {
                    let message = recalled(now, &message, age_millis);
                    core.turn_mut()
                        .spend_each(1 + message.cost() / VISIT_BYTES, RECALL_VISITS);
                    let item = RoomItem::Recall { seat, message };
                    self.send_room(core, now, shard_of(seat), item);
                }
                Effect::Clear { seat, why } => {
                    let room = room.into();
                    self.send_room(
                        core,
                        now,
                        shard_of(seat),
                        RoomItem::Clear { seat, room, why },
                    );
                }
            }
        }
    }
}

/// What adaptors may want to hear of something that a room publishes.
fn happening(effect: &Effect) -> Option<Happening> {
    let Effect::Publish { topic, payload, .. } = effect else {
        return None;
    };
    if let Some(room) = topic.strip_prefix("$rooms/") {
        let room = room.into();
        return Some(match payload.is_empty() {
            true => Happening::Closed { room },
            false => Happening::Created { room },
        });
    }
    let (room, user) = topic.strip_prefix("$room/")?.split_once("/member/")?;
    let user: Box<str> = decode_name(user).map_or_else(|| user.into(), Into::into);
    let room = room.into();
    payload.is_empty().then_some(Happening::Left { room, user })
}

/// What was said before, as it was, marked as history.
fn recalled(now: Tick, said: &Message, age_millis: u64) -> Arc<Message> {
    let age = alloc::format!("{age_millis}");
    let mut mark = PropertyBuf::new();
    mark.push(Property::UserProperty((AGE, &age)));
    let mut properties = said.properties().to_vec();
    forwardable(mark.as_properties(), &mut properties);
    let parts = MessageParts {
        topic: said.topic(),
        properties: &properties,
        payload: said.payload(),
        qos: said.qos,
        retain: false,
        expiry_secs: None,
    };
    let mut message = Message::new(said.zone, Publisher::SERVER, now, &parts);
    message.expires_at = said.expires_at;
    Arc::new(message)
}
