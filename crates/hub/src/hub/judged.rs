//! What becomes of what was asked, when adaptors have judged.

use alloc::string::String;
use alloc::sync::Arc;

use stentor_mqtt::{Packet, Publish, ReasonCode, Sender, decode, frame};
use stentor_session::{CloseReason, Outcome, Tick, TopicName, WillRequest};
use stentor_zone::{Address, Refusal, adaptor_refused, call_denied, topic as zone_topic};

use super::Hub;
use super::wills::publish_will_as;
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::Taken;
use crate::core::inbound::publish::NO_RIGHT;
use crate::core::inbound::subscribe::Denial;
use crate::core::inbound::{hold, receive};
use crate::core::routing::batch;
use crate::core::sessions::lifecycle;
use crate::core::sessions::rights::Identity;
use crate::core::work;
use crate::services::hooks::{Aside, Packed};
use crate::services::interface::answer::{Answer, ReturnAddress};
use crate::services::interface::hooks::{Consulted, HookVerdict, Hooks, Rewrite};
use crate::services::interface::places::Placed;

/// What the server says to a publish that an adaptor has where its sender may not publish. Its
/// sender knows another topic.
const NO_RIGHT_THERE: Outcome = Outcome::new(
    ReasonCode::NotAuthorized,
    "an adaptor has this go to another topic, where the right to publish is missing",
);

/// Where a request goes, if that is not where its sender had it go.
fn redirect(topic: &str, rewrite: &Rewrite) -> Option<String> {
    let to = rewrite.to.as_deref();
    match Address::parse(topic) {
        Ok(Address::Private { user, reply }) => {
            let mut topic = zone_topic::private_to(to.unwrap_or(&user));
            if let Some(id) = reply.filter(|_| !rewrite.hides_response) {
                topic.push('/');
                topic.push_str(id);
            }
            Some(topic)
        }
        Ok(_) => None,
        Err(_) => to.map(Into::into),
    }
}

/// Where the answer to a call goes by its topic, if this is one.
fn reply_of_call(topic: &str) -> Option<Option<&str>> {
    match Address::parse(topic) {
        Ok(Address::Call { reply, .. } | Address::RoomCall { reply, .. }) => Some(reply),
        _ => None,
    }
}

/// What is said against each filter.
fn denials_of(verdict: &HookVerdict) -> &[Option<Denial>] {
    match verdict {
        HookVerdict::Filters(denials) => denials,
        HookVerdict::Done(_) | HookVerdict::Denied(_) => &[],
    }
}

/// The adaptors have judged.
pub(crate) fn judged(hub: &mut Hub, now: Tick, number: u64, verdict: &HookVerdict) {
    match hub.services.hooks.take_aside(number) {
        Some(Aside::Packet(packed)) => packet_judged(hub, now, &packed, verdict),
        Some(Aside::Return {
            session,
            epoch,
            elements,
        }) => {
            let denials = denials_of(verdict);
            let services = &mut hub.services;
            services.return_judged(&mut hub.core, now, session, epoch, elements, denials);
        }
        Some(Aside::Will(identity, will)) => {
            will_judged(hub, now, &identity, will, verdict);
        }
        Some(Aside::Answer(answer)) => answer_judged(hub, now, answer, verdict),
        #[cfg(feature = "calls")]
        Some(Aside::Broadcast(part)) => {
            super::broadcast::broadcast_judged(hub, now, &part, verdict);
        }
        #[cfg(not(feature = "calls"))]
        Some(Aside::Broadcast(_)) => {}
        None => {}
    }
}

/// The home has said in which rooms the user of a packet has a place: of those that it comes
/// back to no adaptor is asked, and of those that it speaks in they are.
pub(super) fn placed(hub: &mut Hub, now: Tick, placed: &Placed) {
    let Some(packed) = hub.services.hooks.take_placing(placed.ticket) else {
        return;
    };
    let found = &placed.rooms[..];
    unpack(hub, now, &packed, |hub, key, packet| {
        let zone = hub.core.session(key).map(|session| session.state.zone());
        let hooks = zone.map_or(Hooks::NONE, |zone| hub.services.hooks.hooks(zone));
        let (core, service) = (&mut hub.core, &mut hub.services.hooks);
        match packet {
            Packet::Subscribe(subscribe) => {
                let request = service.request_of_subscribe(core, key, subscribe, hooks, found);
                let packet = &packed.packet[..];
                let consulted = request.map(|(request, scope)| {
                    service.consult_about(core, key, subscribe, request, scope, packet)
                });
                match consulted {
                    Some(Consulted::Not(decided)) => {
                        hub.on_subscribe(now, key, subscribe, &[], &decided)
                    }
                    Some(Consulted::Waits) | None => Ok(()),
                }
            }
            Packet::Publish(publish) => {
                let request = service.request_of_publish(core, key, publish, hooks);
                if found.is_empty() && request.is_some() {
                    // It may be heard by now, but nobody has judged it.
                    let verdict = HookVerdict::Denied(Denial {
                        reason: ReasonCode::NotAuthorized,
                        text: Refusal::NotMember.text().into(),
                    });
                    return hub.on_publish(now, key, publish, Some(&verdict));
                }
                let packet = &packed.packet[..];
                let consulted = request.and_then(|request| {
                    service.consult_about_publish(core, key, publish, request, packet)
                });
                consulted.unwrap_or_else(|| hub.on_publish(now, key, publish, None))
            }
            _ => Ok(()),
        }
    });
}

fn packet_judged(hub: &mut Hub, now: Tick, packed: &Packed, verdict: &HookVerdict) {
    unpack(hub, now, packed, |hub, key, packet| match packet {
        Packet::Publish(publish) => hub.on_publish(now, key, publish, Some(verdict)),
        Packet::Subscribe(subscribe) => {
            let denials = packed.scope.denials(denials_of(verdict));
            hub.on_subscribe(now, key, subscribe, &denials, &packed.scope)
        }
        _ => Ok(()),
    });
}

/// Goes on with a packet that was put aside, and then with its connection.
fn unpack(
    hub: &mut Hub,
    now: Tick,
    packed: &Packed,
    f: impl FnOnce(&mut Hub, SessionKey, &Packet<'_>) -> Result<(), CloseReason>,
) {
    let (key, epoch, bytes) = (packed.session, packed.epoch, &packed.packet[..]);
    let Some(session) = hub.core.session(key) else {
        return;
    };
    // A client that has gone gets no answer, and its request ends with its connection.
    let Some(live) = session.live().filter(|_| session.epoch == epoch) else {
        return;
    };
    let (version, max) = (live.version, live.announced.packet_bytes_max);
    batch::settle(&mut hub.core, now);
    let packet = match frame(bytes, max) {
        Ok(Some(frame)) => {
            let body = bytes.get(frame.header_len..frame.total_len);
            decode(
                version,
                Sender::Client,
                frame.first,
                body.unwrap_or_default(),
            )
        }
        Ok(None) | Err(_) => {
            let what = "a packet was whole when it was put aside, and is not any more";
            return lifecycle::bug(&mut hub.core, now, key, what);
        }
    };
    let (before, mut share) = (
        hub.core.turn().spent(),
        receive::begin_reading(&mut hub.core, key),
    );
    let is_publish = matches!(packet, Ok(Packet::Publish(_)));
    let result = match packet {
        Ok(packet) => f(hub, key, &packet),
        Err(_) => {
            let what = "a packet was valid when it was put aside, and is not any more";
            Err(CloseReason::Bug(what))
        }
    };
    receive::end_reading(&mut hub.core, now);
    share.count(
        hub.core.turn(),
        is_publish,
        hub.core.turn().spent() - before,
    );
    work::charge_share(&mut hub.core, now, key, &share);
    if let Err(reason) = result {
        lifecycle::close(&mut hub.core, now, key, reason);
    }
    hold::end(&mut hub.core, now, key);
}

/// What becomes of something that nobody waits for; `None` if nothing does.
fn rewrite_of<'j>(hub: &mut Hub, verdict: &'j HookVerdict) -> Option<&'j Rewrite> {
    match verdict {
        HookVerdict::Done(rewrite) => Some(rewrite).filter(|rewrite| !rewrite.hides_notification),
        HookVerdict::Denied(_) | HookVerdict::Filters(_) => {
            hub.core.count_denied();
            None
        }
    }
}

/// An answer goes to its topic, or to another one to which its caller might publish.
fn answer_judged(hub: &mut Hub, now: Tick, mut answer: Answer, verdict: &HookVerdict) {
    let Some(rewrite) = rewrite_of(hub, verdict) else {
        return;
    };
    if let Some(payload) = &rewrite.payload {
        answer.json = payload.to_vec();
    }
    if answer
        .to
        .redirect(rewrite.to.as_deref(), hub.core.settings())
    {
        answer.publish(&mut hub.core, now);
    } else {
        hub.core.count_denied();
    }
}

fn will_judged(
    hub: &mut Hub,
    now: Tick,
    identity: &Arc<Identity>,
    mut will: WillRequest,
    verdict: &HookVerdict,
) {
    let Some(rewrite) = rewrite_of(hub, verdict) else {
        return;
    };
    if let Some(topic) = redirect(&will.topic, rewrite) {
        will.topic = topic;
    }
    if let Some(payload) = &rewrite.payload {
        will.payload = payload.to_vec();
    }
    batch::settle(&mut hub.core, now);
    // It may go elsewhere now, where its owner may not publish.
    let is_topic = stentor_topic::validate_name(&will.topic).is_ok();
    if is_topic && lifecycle::may_leave(&mut hub.core, identity, &will) {
        publish_will_as(hub, now, identity, &will);
    }
}

/// What becomes of a publish, as adaptors have it.
pub(crate) fn take_judged(
    hub: &mut Hub,
    now: Tick,
    key: SessionKey,
    publish: &Publish<'_>,
    name: TopicName<'_>,
    verdict: &HookVerdict,
) -> Taken {
    let topic: &str = &name;
    let rewrite = match verdict {
        HookVerdict::Done(rewrite) => rewrite,
        HookVerdict::Denied(denial) => {
            return deny_request(hub, now, key, publish, topic, denial);
        }
        HookVerdict::Filters(_) => return hub.take(now, key, publish, name),
    };
    if let (Some(reply), Some(json)) = (reply_of_call(topic), &rewrite.answer) {
        let services = &mut hub.services;
        return services.answer_call(&mut hub.core, now, key, publish, reply, json.to_vec());
    }
    let changed = redirect(topic, rewrite);
    let is_elsewhere = changed.as_deref().is_some_and(|changed| changed != topic);
    let topic = changed.as_deref().unwrap_or(topic);
    if stentor_topic::validate_name(topic).is_err() {
        return Taken::done(ReasonCode::TopicNameInvalid);
    }
    if rewrite.hides_notification {
        if let Ok(Address::Private {
            user,
            reply: Some(id),
        }) = Address::parse(topic)
            && let Some(zone) = hub.core.session(key).map(|session| session.state.zone())
        {
            let to = ReturnAddress::reply(hub.core.shard(), key, zone, publish, id);
            let delivered = stentor_zone::Reach::Delivered;
            let json = stentor_zone::Response::Reached(delivered).json(&user);
            Answer { to, json }.deliver(&mut hub.core, now);
        }
        return Taken::SUCCESS;
    }
    let payload = rewrite.payload.as_deref().unwrap_or(publish.payload);
    let publish = Publish {
        payload,
        ..publish.clone()
    };
    let name = match &changed {
        Some(changed) => TopicName::Written(changed),
        None => name,
    };
    match hub.take(now, key, &publish, name) {
        Taken::Done(refused) if is_elsewhere && refused == NO_RIGHT => Taken::Done(NO_RIGHT_THERE),
        taken => taken,
    }
}

fn deny_request(
    hub: &mut Hub,
    now: Tick,
    key: SessionKey,
    publish: &Publish<'_>,
    topic: &str,
    denial: &Denial,
) -> Taken {
    hub.core.count_denied();
    let Some(session) = hub.core.session(key) else {
        return Taken::done(denial.reason);
    };
    let (zone, is_v5) = (session.state.zone(), session.speaks_v5());
    if let Ok(Address::Private {
        user,
        reply: Some(id),
    }) = Address::parse(topic)
    {
        let to = ReturnAddress::reply(hub.core.shard(), key, zone, publish, id);
        let json = adaptor_refused(denial.reason as u8, "to", &user, &denial.text);
        Answer { to, json }.deliver(&mut hub.core, now);
    }
    if let Some(reply) = reply_of_call(topic) {
        let json = call_denied(denial.reason as u8, &denial.text);
        let services = &mut hub.services;
        services.answer_call(&mut hub.core, now, key, publish, reply, json);
    }
    // 3.x has no reason codes.
    if !is_v5 {
        return Taken::SUCCESS;
    }
    Taken::Done(Outcome {
        reason: denial.reason,
        text: String::from(&*denial.text).into(),
    })
}
