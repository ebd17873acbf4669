//! What is said in rooms, and what was said there before.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use stentor_mqtt::{Publish, ReasonCode, forwardable};
use stentor_session::{Message, MessageParts, Outcome, Tick};
use stentor_zone::{
    Interest, Refusal, adaptor_refused, join_refused, out_of_room, refuse_unread, topic,
};

use super::{HomeCommand, RoomItem};
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::Taken;
use crate::core::inbound::subscribe::{Denial, ROOMS};
use crate::core::inbound::{acknowledge, publish};
use crate::core::routing::batch;
use crate::core::routing::route::job;
use crate::core::sessions::command_rate;
use crate::core::transitions::Unexplained;
use crate::services::interface::answer::{Answer, ReturnAddress, ShardTicket};
use crate::services::interface::who::Who;
use crate::services::rooms::{RoomRequest, RoomService};

/// How it is acknowledged that somebody may say nothing there.
const MUTE: Outcome = Outcome::new(
    ReasonCode::NotAuthorized,
    "the right to say something in this room is missing",
);

/// How it is acknowledged that something was said, or not.
pub(super) fn outcome(refusal: Option<Refusal>) -> Outcome {
    let reason = match refusal {
        None => return Outcome::SUCCESS,
        Some(Refusal::TooLarge) => ReasonCode::QuotaExceeded,
        // A session that is not in it learns nothing of a room.
        Some(_) => ReasonCode::NotAuthorized,
    };
    Outcome::new(reason, refusal.map_or("", Refusal::text))
}

impl RoomService {
    /// A publish to `$room/<room>/say`.
    pub(crate) fn take_say(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        room: &str,
    ) -> Taken {
        let Some(who) = Who::of(core, key) else {
            return Taken::done(ReasonCode::UnspecifiedError);
        };
        let to = topic::say(room);
        let Some(session) = core.session(key) else {
            return Taken::done(ReasonCode::UnspecifiedError);
        };
        let (is_v5, publisher) = (session.speaks_v5(), session.state.publisher());
        // 3.x has no reason codes.
        let told = |outcome: Outcome| {
            if is_v5 {
                Taken::Done(outcome)
            } else {
                Taken::SUCCESS
            }
        };
        if !who.identity.rights.may_publish(&to) {
            publish::deny(core, now, key, &to);
            return told(MUTE);
        }
        let Some(user) = who.identity.user.as_deref() else {
            return told(outcome(Some(Refusal::NotMember)));
        };
        let mut properties = Vec::new();
        if !publish.properties.is_empty() {
            forwardable(publish.properties, &mut properties);
        }
        let parts = MessageParts {
            topic: &topic::said(room, user),
            properties: &properties,
            payload: publish.payload,
            qos: publish.qos,
            retain: false,
            expiry_secs: publish.properties.message_expiry(),
        };
        let zone = who.identity.zone;
        let message = Arc::new(Message::new(zone, publisher, now, &parts));
        // What its speaker has published before comes before.
        batch::settle(core, now);
        let home = core.home_of(zone);
        let sender = job::sender_of(core, &message);
        if home == core.shard() {
            let refusal = self.home_say(core, now, room, &who, message, sender);
            return told(outcome(refusal));
        }
        let is_awaited = is_v5 && publish.packet_id.is_some();
        if is_awaited && acknowledge::is_deferring_much(core) {
            return told(ReasonCode::QuotaExceeded.into());
        }
        let ticket = is_awaited.then(|| acknowledge::issue_ticket(core));
        let shard = core.shard();
        let item = RoomItem::Say {
            room: room.into(),
            who,
            message,
            sender,
            answer: ticket.map(|ticket| ShardTicket { shard, ticket }),
        };
        self.send_room(core, now, home, item);
        ticket.map_or(Taken::SUCCESS, Taken::Waits)
    }

    /// A command about rooms: `$call/room.…`.
    pub(crate) fn command_room(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        procedure: &str,
        payload: &[u8],
        to: ReturnAddress,
    ) {
        let Some((who, home)) = Who::and_home(core, key) else {
            return;
        };
        command_rate::begin_command(core, key);
        if let Some(ran) = refuse_unread(procedure, payload) {
            let json = ran.answer;
            let answer = Box::new(Answer { to, json });
            self.requests.push(RoomRequest::Answer(answer));
            command_rate::charge(core, now, key, ran.work);
            return;
        }
        let (procedure, payload): (Box<str>, Box<[u8]>) = (procedure.into(), payload.into());
        let command = HomeCommand {
            procedure,
            payload,
            who,
            to,
            spent: Duration::ZERO,
        };
        self.send_room(core, now, home, RoomItem::Command(command));
    }
}

/// Tells a client that no SUBACK tells why it is not let into rooms: on `$reply/join`.
pub(super) fn explain(core: &mut Core, now: Tick, key: SessionKey, unexplained: &Unexplained) {
    for (room, refusal) in &unexplained.refusals {
        say_about_join(core, now, key, join_refused(room, *refusal));
    }
    for (filter, denial) in &unexplained.denials {
        explain_denial(core, now, key, filter, denial);
    }
    for (filter, reason, why) in &unexplained.others {
        explain_no_join(core, now, key, filter, *reason, why);
    }
}

/// Tells a client that no SUBACK tells what an adaptor has against its coming into a room: on
/// `$reply/join`.
fn explain_denial(core: &mut Core, now: Tick, key: SessionKey, filter: &str, denial: &Denial) {
    if let Interest::Room { room } = Interest::parse(filter) {
        let json = adaptor_refused(denial.reason as u8, "room", room, &denial.text);
        say_about_join(core, now, key, json);
    }
}

/// Tells a client that no SUBACK tells why a filter below `$room/` joins nothing, whatever the
/// room: on `$reply/join`.
fn explain_no_join(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    filter: &str,
    reason: ReasonCode,
    text: &str,
) {
    let error = match reason {
        ReasonCode::NotAuthorized => "not-allowed",
        ReasonCode::TopicFilterInvalid => "no-room",
        ReasonCode::QuotaExceeded => "too-many",
        _ => "refused",
    };
    let below = filter.strip_prefix(ROOMS).unwrap_or_default();
    let room = below.split('/').next().unwrap_or_default();
    let json = out_of_room(room, reason as u8, error, text);
    say_about_join(core, now, key, json);
}

/// Tells a session something about its being in a room, on `$reply/join`.
pub(super) fn say_about_join(core: &mut Core, now: Tick, key: SessionKey, json: Vec<u8>) {
    let Some(session) = core.session(key) else {
        return;
    };
    let to = ReturnAddress::own(core.shard(), key, session.state.zone(), "$reply/join");
    Answer { to, json }.deliver(core, now);
}
