//! What the home shard of a zone does.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Property, PropertyBuf, forwardable};
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;
use stentor_zone::{AllRights, Effect, Entry, Refusal, RoomCommand, decode_name};

use super::ending::{self, STEP_VISITS};
use super::zones::{LOBBY, actor};
use super::{HomeCommand, Parting, RoomItem};
use crate::core::Core;
use crate::core::routing::{keep, route};
use crate::core::work::{self, VISIT_BYTES};
use crate::effects::Event;
use crate::items::Sender;
use crate::services::interface::answer::{Answer, ShardTicket};
use crate::services::interface::hooks::HookEvent;
use crate::services::interface::message::{server_message, server_parts};
use crate::services::interface::who::{Who, shard_of};
use crate::services::rooms::{RoomRequest, RoomService};

/// What it costs to send a message of a room's history to one member, and each 64 bytes of it.
const RECALL_VISITS: u32 = 2;

/// The user property that marks what was said before, with its age in milliseconds as value.
const AGE: &str = "history-age-ms";

impl RoomService {
    pub(super) fn home_join(
        &mut self,
        core: &mut Core,
        now: Tick,
        room: Box<str>,
        who: &Who,
        entry: Entry,
        answer: ShardTicket,
    ) {
        let zone = who.identity.zone;
        let (result, effects) = self.zones.with_rooms(core, zone, |rooms, out| {
            rooms.join(now, actor(who, &room), &room, who.session, entry, out)
        });
        let is_recall = |effect: &Effect| matches!(effect, Effect::Recall { .. });
        let (recalls, others): (Vec<_>, Vec<_>) = effects.into_iter().partition(is_recall);
        self.perform(core, now, zone, &room, others);
        let refusal = result.err();
        let joined = RoomItem::Joined {
            ticket: answer.ticket,
            room: room.clone(),
            refusal,
        };
        // What was said before follows the SUBACK.
        self.send_room(core, now, answer.shard, joined);
        self.perform(core, now, zone, &room, recalls);
    }

    pub(super) fn home_leave(
        &mut self,
        core: &mut Core,
        now: Tick,
        room: &str,
        who: &Who,
        parting: Parting,
    ) {
        if let Some(effects) = self.zones.leave(core, now, room, who, parting) {
            self.perform(core, now, who.identity.zone, room, effects);
        }
    }

    pub(super) fn home_say(
        &mut self,
        core: &mut Core,
        now: Tick,
        room: &str,
        who: &Who,
        message: Arc<Message>,
        sender: Option<Sender>,
    ) -> Option<Refusal> {
        let zone = who.identity.zone;
        let (result, effects) = self.zones.with_rooms(core, zone, |rooms, out| {
            rooms.act(room, out, |room, _| {
                room.say(actor(who, room.name()), &message)
            })
        });
        match result {
            // The message itself goes out, with the properties that its speaker gave it.
            Ok(()) => route::everywhere_from(core, now, &[message], sender),
            Err(refusal) => {
                self.perform(core, now, zone, room, effects);
                return Some(refusal);
            }
        }
        None
    }

    pub(super) fn home_command(&mut self, core: &mut Core, now: Tick, command: HomeCommand) {
        let zone = command.who.identity.zone;
        let (user, rights) = (command.who.user(), &*command.who.identity);
        let asked = RoomCommand {
            procedure: &command.procedure,
            payload: &command.payload,
        };
        let (ran, effects) = self.zones.run(core, now, zone, user, rights, asked);
        // What comes later counts in its own turns.
        let now_done = ran.work.saturating_sub(ran.later);
        core.turn_mut().spend_time(now_done);
        let work = ran.work + command.spent;
        let answered = match ran.waits_for {
            Some(room) => {
                let waiting = HomeCommand {
                    spent: work,
                    ..command
                };
                match ending::put_off_command(self, zone, room.into(), waiting) {
                    Some(is_back) => is_back,
                    None => return,
                }
            }
            None => command,
        };
        let HomeCommand { who, to, .. } = answered;
        let (room, json) = (ran.room, ran.answer);
        if let Some(deed) = ran.deed {
            core.log(Event::Administered {
                identity: Arc::clone(&who.identity),
                what: deed.what,
                target: room.as_str().into(),
                user: deed.user.map(Into::into),
                refused: deed.refused.map(Into::into),
            });
        }
        self.perform(core, now, zone, &room, effects);
        let (shard, session) = (to.shard, to.session);
        let answer = Box::new(Answer { to, json });
        self.send_room(core, now, shard, RoomItem::Answer(answer));
        // The shard of the session learns how long its command has kept this one busy.
        self.send_room(core, now, shard, RoomItem::Charge { session, work });
    }

    /// Runs a command about rooms as the server itself; returns the answer, which is JSON.
    pub(crate) fn run_as_administrator(
        &mut self,
        core: &mut Core,
        now: Tick,
        zone: Zone,
        procedure: &str,
        payload: &[u8],
    ) -> Vec<u8> {
        let command = RoomCommand { procedure, payload };
        let (ran, effects) = self.zones.run(core, now, zone, "", &AllRights, command);
        self.perform(core, now, zone, &ran.room, effects);
        ran.answer
    }

    /// Lets go of those who did not come back in time, as far as the turn allows, and of the others
    /// in the next turns.
    pub(crate) fn advance(&mut self, core: &mut Core, now: Tick) {
        ending::go_on(self, core, now);
        if now < self.zones.deadline() {
            return;
        }
        if self.zones.overdue.is_empty() {
            begin_look(self, core, now);
        }
        while let Some(zone) = self.zones.overdue.pop_front() {
            let (is_done, effects) = self.zones.let_go(core, now, zone);
            core.turn_mut().spend_each(effects.len(), STEP_VISITS);
            // Nobody is in a room here: no room has to be named.
            self.perform(core, now, zone, "", effects);
            if !is_done {
                self.zones.overdue.push_back(zone);
                return;
            }
            if work::turn_is_spent(core) {
                break;
            }
        }
        if self.zones.overdue.is_empty() {
            self.zones.end_look(now);
        }
    }

    /// A zone ends: some of its rooms do. Returns whether nothing is left of them.
    pub(crate) fn end_zone(&mut self, core: &mut Core, now: Tick, zone: Zone) -> bool {
        let (effects, is_done) = self.zones.end_zone(core, zone);
        self.perform(core, now, zone, "", effects);
        is_done
    }

    /// Somebody looks at the list of a zone's rooms: it has the lobby from now on.
    pub(super) fn home_listed(&mut self, core: &mut Core, now: Tick, zone: Zone) {
        let ((), effects) = self.zones.with_rooms(core, zone, |_, _| ());
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
        if self.requests.is_watched() {
            for event in effects.iter().filter_map(hook_event) {
                self.requests.push(RoomRequest::Tell(zone, event));
            }
        }
        for effect in effects {
            match effect {
                Effect::Publish {
                    topic,
                    payload,
                    retain,
                } => {
                    let parts = MessageParts {
                        retain,
                        ..server_parts(&topic, &payload)
                    };
                    let message = server_message(now, zone, &parts);
                    keep::keep_and_route_now(core, now, message);
                }
                Effect::Recall {
                    session,
                    message,
                    age_millis,
                } => {
                    let message = recalled(now, &message, age_millis);
                    core.turn_mut()
                        .spend_each(1 + message.cost() / VISIT_BYTES, RECALL_VISITS);
                    let item = RoomItem::Recall { session, message };
                    self.send_room(core, now, shard_of(session), item);
                }
                Effect::Clear { session, why } => {
                    let room = room.into();
                    self.send_room(
                        core,
                        now,
                        shard_of(session),
                        RoomItem::Clear { session, room, why },
                    );
                }
            }
        }
    }
}

/// Finds the zones whose rooms have something to do, and publishes what new settings change, and
/// what rooms are since the start.
fn begin_look(service: &mut RoomService, core: &mut Core, now: Tick) {
    for (zone, room, effects) in service.zones.begin_look(core, now) {
        service.perform(core, now, zone, &room, effects);
    }
    for (zone, effects) in core::mem::take(&mut service.zones.kept.unpublished) {
        service.perform(core, now, zone, "", effects);
    }
}

/// What adaptors may want to hear of something that a room publishes.
fn hook_event(effect: &Effect) -> Option<HookEvent> {
    let Effect::Publish { topic, payload, .. } = effect else {
        return None;
    };
    if let Some(room) = topic.strip_prefix("$rooms/") {
        let room = room.into();
        return Some(match payload.is_empty() {
            true => HookEvent::Closed { room },
            false => HookEvent::Created { room },
        });
    }
    let (room, user) = topic.strip_prefix("$room/")?.split_once("/member/")?;
    let user: Box<str> = decode_name(user).map_or_else(|| user.into(), Into::into);
    let room = room.into();
    payload.is_empty().then_some(HookEvent::Left { room, user })
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
