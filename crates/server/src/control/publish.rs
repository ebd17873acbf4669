//! The verb `publish`: a message of somebody who has no connection.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use stentor_admin::{Outcome, Reply, Taken};
use stentor_auth::rights::Unrestricted;
use stentor_auth::store::{Directory, Who};
use stentor_control::publish::{Plain, Publish, Published};
use stentor_hub::{HookRequest, HookVerdict, Identity, Kept, NotKept, Rewrite, home_shard};
use stentor_mqtt::QoS;
use stentor_session::{Message, Tick};
use stentor_topic::{Zone, validate_name};

use super::protocol::Failure;
use super::zones;
use crate::context::ServerContext;
use crate::http::Done;
use crate::retained::{plainly_published, published};
use crate::shard::Inquiry;
use crate::telemetry::collect::ask_one;
use crate::trace::Publisher;

/// Publishes a message of the server's owner.
pub(super) fn by_owner(
    context: &ServerContext,
    directory: &Directory,
    who: &Who,
    request: &Publish,
) -> Result<Published, Failure> {
    let owner = Identity {
        user: None,
        zone: Zone::DEFAULT,
        rights: Arc::new(Unrestricted::default()),
        expires_at: Tick::NEVER,
        guest: None,
    };
    publish(context, directory, who, None, &Arc::new(owner), request)
}

/// Publishes a message of somebody who has the right to its topic, in the zone that the request
/// names or else in his own. The adaptors of the zone are asked as about the publish of a client.
pub(super) fn publish(
    context: &ServerContext,
    directory: &Directory,
    who: &Who,
    address: Option<IpAddr>,
    identity: &Arc<Identity>,
    request: &Publish,
) -> Result<Published, Failure> {
    let zone = zones::named(context, request.zone.as_ref())?;
    let identity = &Arc::new(Identity {
        zone: zone.unwrap_or(identity.zone),
        ..(**identity).clone()
    });
    let message = message(context, identity.zone, request, Rewrite::default())?;
    let asked = HookRequest::Publish {
        topic: message.topic().into(),
        payload: message.payload().into(),
        qos: message.qos,
        retain: message.retain,
    };
    let zone = context.zone_name(identity.zone);
    let judged = context
        .adaptors
        .judge_publish(identity, zone.as_str().into(), asked);
    let message = match judged {
        Some(HookVerdict::Done(rewrite)) if rewrite == Rewrite::default() => message,
        // As with the publish of a client: it counts as done, and nobody gets it.
        Some(HookVerdict::Done(rewrite)) if rewrite.hides_notification => {
            let topic = message.topic().to_owned();
            return Ok(Published {
                topic,
                ..Published::default()
            });
        }
        Some(HookVerdict::Done(rewrite)) => {
            if let Some(to) = rewrite.to.as_deref().filter(|to| to.starts_with('$')) {
                let text = format!("an adaptor sends it to {to:?}, where only clients can");
                return Err(Failure::new("refused", text));
            }
            let message = self::message(context, identity.zone, request, rewrite)?;
            if !identity.rights.may_publish(message.topic()) {
                let topic = message.topic();
                let text = format!("an adaptor sends it to {topic:?}, and that right is missing");
                return Err(Failure::new("refused", text));
            }
            message
        }
        Some(HookVerdict::Denied(denial)) => {
            let text = format!("an adaptor of the zone refuses it: {}", denial.text);
            return Err(Failure::new("refused", text));
        }
        Some(HookVerdict::Filters(_)) | None => {
            let text = "the adaptors of the zone do not answer; try again";
            return Err(Failure::new("busy", text));
        }
    };
    trace(context, identity, address, &message);
    let topic = message.topic().to_owned();
    let clears = message.retain && message.payload().is_empty();
    let kept = hand_over(context, message, identity.user.clone());
    if request.retain {
        note_retained(directory, who, &topic, &zone, &kept);
    }
    let kept = kept?;
    Ok(Published {
        kept: kept && !clears,
        cleared: clears,
        topic,
    })
}

/// Writes down in the audit log what has become of a retained message.
fn note_retained(
    directory: &Directory,
    who: &Who,
    topic: &str,
    zone: &str,
    kept: &Result<bool, Failure>,
) {
    let mut detail = match kept {
        Ok(_) => json!({}),
        Err(failure) => json!({ "outcome": "refused", "reason": failure.message }),
    };
    detail["zone"] = json!(zone);
    directory.note(who, "publish.retained", topic, detail);
}

/// Notes a message in the traces that are about it.
pub(super) fn trace(
    context: &ServerContext,
    identity: &Identity,
    address: Option<IpAddr>,
    message: &Message,
) {
    let by = Publisher {
        user: identity.user.as_deref(),
        address,
    };
    let now = context.clock.now();
    context.traces.note_published(now, &by, message);
}

/// The message of a request, as adaptors want it.
fn message(
    context: &ServerContext,
    zone: Zone,
    request: &Publish,
    rewrite: Rewrite,
) -> Result<Message, Failure> {
    let bad = |reason: String| {
        let text = format!("the message cannot be published: {reason}");
        let failure = Failure::new("bad-request", text);
        match blamed(request, &reason) {
            Some(field) => failure.about(field),
            None => failure,
        }
    };
    let mut line = Map::new();
    let topic = rewrite.to.as_deref().unwrap_or(&request.topic);
    line.insert("topic".into(), topic.into());
    let rewritten = rewrite.payload.map(|payload| STANDARD.encode(payload));
    let (text, base64) = match &rewritten {
        Some(base64) => (None, Some(base64)),
        None => (request.payload.as_ref(), request.payload_base64.as_ref()),
    };
    for (key, text) in [("payload", text), ("payload_base64", base64)] {
        line.extend(text.map(|text| (key.to_owned(), Value::from(text.as_str()))));
    }
    line.insert("qos".into(), request.qos.into());
    let secs = request.expiry_secs.map(Value::from);
    line.extend(secs.map(|secs| ("expiry_secs".to_owned(), secs)));
    if let Some(properties) = &request.properties {
        line.insert("properties".into(), json!(properties));
    }
    let now = context.clock.now();
    let message = published(&Value::Object(line), zone, now, request.retain).map_err(bad)?;
    check_bounds(context, &message).map_err(bad)?;
    Ok(message)
}

/// The key of a request that a reason is about, if it is one.
fn blamed(request: &Publish, reason: &str) -> Option<&'static str> {
    let is_base64 = |text: &String| STANDARD.decode(text).is_ok();
    match request {
        _ if validate_name(&request.topic).is_err() => Some("topic"),
        _ if request.payload.is_some() && request.payload_base64.is_some() => Some("payload"),
        _ if !request.payload_base64.as_ref().is_none_or(is_base64) => Some("payload_base64"),
        _ if QoS::from_bits(request.qos).is_none() => Some("qos"),
        _ if reason.contains("topic") || reason.contains("subscribe") => Some("topic"),
        _ => None,
    }
}

/// Refuses a message that a client could not publish.
fn check_bounds(context: &ServerContext, message: &Message) -> Result<(), String> {
    let bounds = &context.topic_bounds;
    bounds.check(message.topic())?;
    let bytes = message.topic().len() + message.properties().len() + message.payload().len();
    bounds.check_packet(bytes)
}

/// The message of a request of somebody who has the right to its topic. `None` if it cannot be one,
/// if adaptors have to be asked, or if it is to be noted: [`publish`] does all that, and says what
/// is wrong.
pub(super) fn plain(context: &ServerContext, zone: Zone, request: &Plain<'_>) -> Option<Message> {
    if request.retain || context.adaptors.judges_publishes(zone) {
        return None;
    }
    let message = plainly_published(request, zone, context.clock.now())?;
    check_bounds(context, &message).ok().map(|()| message)
}

/// Begins to publish a message of a user: it goes to the shard that orders its topic together with
/// others.
pub(super) fn begin(
    context: &ServerContext,
    message: Message,
    user: Option<Arc<str>>,
    reply: Reply,
) {
    let home = home_of(context, &message);
    context.visitors.errands.begin(home, message, user, reply);
}

/// What has become of a message that was begun.
pub(super) fn told(context: &ServerContext, done: Done) -> Outcome {
    match done.map_err(refused)? {
        None => Ok(Taken::Passed),
        Some(Kept::Now) => Ok(Taken::Kept),
        Some(kept @ Kept::Later(_)) => {
            let store = Arc::clone(&context.retained);
            let wait = move || store.wait_for(kept).map_err(refused);
            Ok(Taken::Waits(Box::new(wait)))
        }
    }
}

/// The shard that orders the topic of a message.
fn home_of(context: &ServerContext, message: &Message) -> usize {
    let (hasher, shards) = (&context.hasher, context.shard_count());
    home_shard(hasher, message.zone, message.topic(), shards)
        .0
        .into()
}

fn refused(why: NotKept) -> Failure {
    let text = format!(
        "the message is not kept, and nobody gets it: {}",
        why.text()
    );
    Failure::new("unavailable", text)
}

/// Gives a message to the shard that orders its topic; whether the topic keeps it.
fn hand_over(
    context: &ServerContext,
    message: Message,
    user: Option<Arc<str>>,
) -> Result<bool, Failure> {
    let home = home_of(context, &message);
    let message = Arc::new(message);
    let kept = ask_one(context, home, |answer| Inquiry::Publish {
        message,
        user,
        answer,
    });
    match kept {
        Some(Ok(None)) => Ok(false),
        Some(Ok(Some(kept))) => {
            let promised = context.retained.wait_for(kept);
            promised.map(|()| true).map_err(refused)
        }
        Some(Err(why)) => Err(refused(why)),
        None => {
            let text = "the shard of this topic does not answer; see the server's log";
            Err(Failure::new("unavailable", text))
        }
    }
}
