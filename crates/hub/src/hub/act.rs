//! What adaptors do of their own accord.

use stentor_session::Tick;
use stentor_zone::{Effect, inbox, topic as zone_topic};

use super::Hub;
use crate::core::heavy_hitters::count_publish_of;
use crate::core::routing::batch;
use crate::services::interface::hooks::Act;
use crate::services::interface::message::{server_message, server_parts};
use crate::services::interface::rooms::{RoomsAsk, RoomsTold};

/// Does what an adaptor does.
pub(crate) fn act(hub: &mut Hub, now: Tick, act: &Act) {
    batch::settle(&mut hub.core, now);
    match act {
        Act::Publish {
            zone,
            topic,
            payload,
            retain,
        } => {
            let is_topic = stentor_topic::validate_name(topic).is_ok();
            if !is_topic || !hub.core.settings().takes_topic(topic) {
                hub.core.count_denied();
                return;
            }
            count_publish_of(&mut hub.core, now, *zone, topic, payload, None);
            let effect = Effect::Publish {
                topic: topic.clone(),
                payload: payload.clone(),
                retain: *retain,
            };
            let effects = alloc::vec![effect];
            hub.services.perform(&mut hub.core, now, *zone, effects);
        }
        Act::Send {
            zone,
            to,
            from,
            payload,
        } => {
            let to_user = zone_topic::private_to(to);
            count_publish_of(&mut hub.core, now, *zone, &to_user, payload, None);
            let topic = zone_topic::private_from(from);
            let message = server_message(now, *zone, &server_parts(&topic, payload));
            let route = inbox::route(to, from);
            hub.services
                .send_private(&mut hub.core, now, message, &route);
        }
        Act::Command {
            zone,
            procedure,
            payload,
            number,
        } => {
            let run = RoomsAsk::Run {
                command: procedure.as_str().into(),
                words: payload.as_slice().into(),
            };
            let services = &mut hub.services;
            if let RoomsTold::Ran(json) = services.ask_rooms(&mut hub.core, now, *zone, &run) {
                services.hooks.tell_answer(*number, json);
            }
        }
    }
}
