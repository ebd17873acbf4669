//! What adaptors do of their own accord, and the events that they receive.

use alloc::boxed::Box;
use alloc::sync::Arc;

use stentor_session::{CloseReason, Tick};
use stentor_topic::Zone;
use stentor_zone::{Effect, decode_name, inbox, topic as zone_topic};

use super::{Act, Happening, Hooks};
use crate::core::ids::SessionKey;
use crate::hub::Hub;

impl Hub {
    /// Does what an adaptor does.
    pub(crate) fn act(&mut self, now: Tick, act: &Act) {
        self.settle(now);
        match act {
            Act::Publish {
                zone,
                topic,
                payload,
                retain,
            } => {
                let is_topic = stentor_topic::validate_name(topic).is_ok();
                if !is_topic || !self.settings.takes_topic(topic) {
                    self.stats.denied += 1;
                    return;
                }
                let effect = Effect::Publish {
                    topic: topic.clone(),
                    payload: payload.clone(),
                    retain: *retain,
                };
                self.perform(now, *zone, "", alloc::vec![effect]);
            }
            Act::Send {
                zone,
                to,
                from,
                payload,
            } => {
                let topic = zone_topic::private_from(from);
                let parts = (payload.as_slice(), &[][..], false);
                let message = crate::services::rooms::server_message(now, *zone, &topic, parts);
                self.will_private(now, message, &inbox::route(to, from));
            }
            Act::Command {
                zone,
                procedure,
                payload,
                number,
            } => {
                let json = self.run_as_administrator(now, *zone, (procedure, payload));
                if let Some(adaptors) = &self.adaptors {
                    adaptors.answered(*number, json);
                }
            }
        }
        self.close_overrun(now);
    }

    /// Tells adaptors what the rooms of a zone have published about themselves.
    pub(crate) fn tell_of_rooms(&mut self, zone: Zone, effects: &[Effect]) {
        let wanted = Hooks::LEAVE.and(Hooks::CREATED).and(Hooks::CLOSED);
        if !self.hooks(zone).has(wanted) {
            return;
        }
        let Some(adaptors) = &self.adaptors else {
            return;
        };
        for effect in effects {
            let Effect::Publish { topic, payload, .. } = effect else {
                continue;
            };
            if let Some(room) = topic.strip_prefix("$rooms/") {
                let known = (zone, Box::<str>::from(room));
                if payload.is_empty() {
                    self.questions.rooms.remove(&known);
                    adaptors.tell(zone, Happening::Closed { room: room.into() });
                } else if self.questions.rooms.insert(known) {
                    adaptors.tell(zone, Happening::Created { room: room.into() });
                }
            } else if payload.is_empty()
                && let Some((room, user)) = topic
                    .strip_prefix("$room/")
                    .and_then(|rest| rest.split_once("/member/"))
            {
                let user: Box<str> = decode_name(user).map_or_else(|| user.into(), Into::into);
                let room = room.into();
                adaptors.tell(zone, Happening::Left { room, user });
            }
        }
    }

    /// Tells adaptors that a connection has ended.
    pub(crate) fn tell_of_end(&self, key: SessionKey, reason: CloseReason) {
        let (Some(session), Some(adaptors)) = (self.sessions.get(key), &self.adaptors) else {
            return;
        };
        if self.hooks(session.zone()).has(Hooks::DISCONNECT) {
            let happening = Happening::Disconnected {
                identity: Arc::clone(&session.identity),
                client_id: session.client_id.clone(),
                reason: reason.label(),
            };
            adaptors.tell(session.zone(), happening);
        }
    }
}
