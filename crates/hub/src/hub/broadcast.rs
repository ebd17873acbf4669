//! One message to many recipients: each as if the caller had published to it.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_zone::{
    Address, NAME_BYTES_MAX, NotAddress, Reach, Response, inbox, topic as zone_topic,
};

use super::Hub;
use crate::core::heavy_hitters::{By, count_publish_of};
use crate::core::inbound::receive;
use crate::core::routing::keep;
use crate::core::sessions::limits;
use crate::core::sessions::rights::Identity;
use crate::core::{Core, work};
use crate::services::interface::broadcast::{Broadcast, Fate, Origin, Part, Recipient};
use crate::services::interface::hooks::{HookVerdict, Rewrite};

/// What the header of a PUBLISH takes at most, beside its topic and payload.
const HEADER_BYTES: usize = 16;

const GONE: &str = "the caller may not use this server any more";
const NO_RIGHT: &str = "the right to publish to this topic is missing";
const NO_TOPIC: &str =
    "it is not a valid topic name: it is empty, or has +, # or a zero byte in it";
const NO_TREE: &str = "a broadcast goes to users and to topics that do not begin with $";
const NO_USER: &str = "the name of a user has 1 to 255 bytes";
const BUSY: &str = "the zone's adaptor has too much to do; try again";
const ELSEWHERE: &str = "an adaptor has this go to a topic that no broadcast goes to";

/// Sends a broadcast of this shard's client, or of a caller without a connection.
pub(crate) fn broadcast(hub: &mut Hub, now: Tick, broadcast: &Arc<Broadcast>) {
    for place in 0..broadcast.recipients.len() {
        let part = Part {
            broadcast: Arc::clone(broadcast),
            place,
        };
        let fate = charged(hub, now, &broadcast.origin, |hub| {
            let recipient = part.recipient()?;
            send(hub, now, &part, recipient, &broadcast.payload, true)
        });
        tell(hub, &part, fate);
    }
}

/// The adaptors have judged what one recipient of a broadcast receives.
pub(crate) fn broadcast_judged(hub: &mut Hub, now: Tick, part: &Part, verdict: &HookVerdict) {
    let Some(recipient) = part.recipient() else {
        return;
    };
    let fate = match verdict {
        HookVerdict::Denied(denial) => {
            hub.core.count_denied();
            Some(Fate::Refused {
                status: "refused",
                text: String::from(&*denial.text).into(),
            })
        }
        HookVerdict::Done(rewrite) if rewrite.hides_notification => Some(match recipient {
            Recipient::User(_) => Fate::Private(Response::Reached(Reach::Delivered)),
            Recipient::Topic(_) => Fate::Published,
        }),
        HookVerdict::Done(rewrite) => match redirected(recipient, rewrite) {
            None => Some(Fate::invalid(ELSEWHERE)),
            Some(recipient) => {
                let payload = rewrite.payload.as_deref();
                let payload = payload.unwrap_or(&part.broadcast.payload);
                charged(hub, now, &part.broadcast.origin, |hub| {
                    send(hub, now, part, &recipient, payload, false)
                })
            }
        },
        HookVerdict::Filters(_) => None,
    };
    tell(hub, part, fate);
}

/// Says what has become of a part, if that is known by now.
fn tell(hub: &Hub, part: &Part, fate: Option<Fate>) {
    if let Some(fate) = fate {
        hub.services.tell(part, fate);
    }
}

/// Where adaptors have a message go.
fn redirected(recipient: &Recipient, rewrite: &Rewrite) -> Option<Recipient> {
    let Some(to) = rewrite.to.as_deref() else {
        return Some(recipient.clone());
    };
    match (recipient, Address::parse(to)) {
        (Recipient::User(_), _) => Some(Recipient::User(to.into())),
        (Recipient::Topic(_), Ok(Address::Private { user, .. })) => {
            Some(Recipient::User((*user).into()))
        }
        (Recipient::Topic(_), Err(NotAddress::Elsewhere)) => Some(Recipient::Topic(to.into())),
        (Recipient::Topic(_), _) => None,
    }
}

/// Does something for a caller, who pays for it if it is a client of this shard, here or away.
fn charged<R>(hub: &mut Hub, now: Tick, origin: &Origin, f: impl FnOnce(&mut Hub) -> R) -> R {
    let known = |key: &_| hub.core.session(*key).is_some();
    let Some(key) = origin.session.filter(known) else {
        return f(hub);
    };
    let (before, mut share) = (
        hub.core.turn().spent(),
        receive::begin_reading(&mut hub.core, key),
    );
    let result = f(hub);
    receive::end_reading(&mut hub.core, now);
    let spent = hub.core.turn().spent() - before;
    share.count(hub.core.turn(), true, spent);
    work::charge_share(&mut hub.core, now, key, &share);
    result
}

/// Sends to one recipient; `None` if it is not known yet what becomes of that. Adaptors are asked
/// if `asks` says so.
fn send(
    hub: &mut Hub,
    now: Tick,
    part: &Part,
    recipient: &Recipient,
    payload: &[u8],
    asks: bool,
) -> Option<Fate> {
    let origin = &part.broadcast.origin;
    let identity = Arc::clone(&origin.identity);
    let Some(identity) = hub.core.refresh(identity, &origin.client_id) else {
        return Some(Fate::not_allowed(GONE));
    };
    if asks {
        count(hub, now, &identity, recipient, payload, &origin.client_id);
    }
    if let Err(fate) = permitted(&hub.core, &identity, recipient, payload) {
        hub.core.count_denied();
        return Some(fate);
    }
    if asks {
        let services = &mut hub.services;
        match services.consult_broadcast(&mut hub.core, &identity, recipient, payload, part) {
            None => {}
            Some(true) => return None,
            Some(false) => {
                return Some(Fate::Refused {
                    status: "busy",
                    text: BUSY.into(),
                });
            }
        }
    }
    match recipient {
        Recipient::Topic(topic) => {
            let message = message(now, part, &identity, topic, payload);
            keep::keep_and_route_now(&mut hub.core, now, message);
            Some(Fate::Published)
        }
        Recipient::User(user) => {
            let sender = identity.user.as_deref().unwrap_or_default();
            let topic = zone_topic::private_from(sender);
            let message = message(now, part, &identity, &topic, payload);
            let services = &mut hub.services;
            let (route, core) = (inbox::route(user, sender), &mut hub.core);
            let response = services.send_part(core, now, message, &route, user, part);
            response.map(Fate::Private)
        }
    }
}

/// Counts what a caller publishes, like the publish of its client.
fn count(
    hub: &mut Hub,
    now: Tick,
    identity: &Identity,
    recipient: &Recipient,
    payload: &[u8],
    client_id: &str,
) {
    let to_user;
    let topic = match recipient {
        Recipient::Topic(topic) => topic,
        Recipient::User(user) => {
            to_user = zone_topic::private_to(user);
            &*to_user
        }
    };
    let by = By {
        client_id: Some(client_id).filter(|id| !id.is_empty()),
        user: identity.user.as_deref(),
    };
    count_publish_of(&mut hub.core, now, identity.zone, topic, payload, Some(by));
}

/// Whether a caller may send this, and anybody can.
fn permitted(
    core: &Core,
    identity: &Identity,
    recipient: &Recipient,
    payload: &[u8],
) -> Result<(), Fate> {
    let settings = core.settings();
    let name = match recipient {
        Recipient::Topic(topic) => {
            if topic.starts_with('$') {
                return Err(Fate::invalid(NO_TREE));
            }
            if stentor_topic::validate_name(topic).is_err() {
                return Err(Fate::invalid(NO_TOPIC));
            }
            if let Some(text) = limits::topic(settings, topic) {
                return Err(Fate::invalid(text));
            }
            if !identity.rights.may_publish(topic) {
                return Err(Fate::not_allowed(NO_RIGHT));
            }
            topic.len()
        }
        Recipient::User(user) => {
            if user.is_empty() || user.len() > NAME_BYTES_MAX {
                return Err(Fate::invalid(NO_USER));
            }
            if identity.user.is_none() {
                return Err(Fate::Private(Response::Nameless));
            }
            let topic = zone_topic::private_to(user);
            if !identity.rights.may_publish(&topic) {
                return Err(Fate::Private(Response::Denied));
            }
            topic.len()
        }
    };
    let most = settings.packet_bytes_max;
    if HEADER_BYTES + name + payload.len() > most as usize {
        let text = format!("it is too large for a packet: limits.packet_bytes is {most}");
        return Err(Fate::Refused {
            status: "too-large",
            text: text.into(),
        });
    }
    Ok(())
}

/// The message, as its recipient gets it.
fn message(
    now: Tick,
    part: &Part,
    identity: &Identity,
    topic: &str,
    payload: &[u8],
) -> Arc<Message> {
    let origin = &part.broadcast.origin;
    let parts = MessageParts {
        topic,
        properties: &[],
        payload,
        qos: part.broadcast.qos,
        retain: false,
        expiry_secs: None,
    };
    // Its own client's, for whoever has asked by No Local not to receive what it publishes.
    let publisher = match origin.session {
        Some(_) => Publisher::client(&origin.client_id),
        None => Publisher::SERVER,
    };
    Arc::new(Message::new(identity.zone, publisher, now, &parts))
}
