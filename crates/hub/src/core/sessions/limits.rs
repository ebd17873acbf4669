//! Which limit a client has met, in words: the key of the configuration and its value.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use stentor_mqtt::ReasonCode;
use stentor_session::{CloseReason, Limit, Outcome, Tick, Violation};

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{TOO_LONG, TOO_MANY};
use crate::core::sessions::registry::{Link, Live, Session};
use crate::core::settings::Settings;
use crate::effects::{Event, Full};

/// The limit for which the server closes a connection; `None` where no limit with a value is met.
pub(crate) fn closing(
    session: &Session,
    live: &Live,
    settings: &Settings,
    reason: CloseReason,
) -> Option<String> {
    let announced = &live.announced;
    Some(match reason {
        CloseReason::Limit(Limit::QueueBytes) => {
            format!("the client reads too slowly: {}", queue(session, settings))
        }
        CloseReason::Limit(Limit::PacketBytes) => format!(
            "a packet is too large: limits.packet_bytes is {}",
            announced.packet_bytes_max
        ),
        CloseReason::Limit(Limit::ReceiveMaximum) => format!(
            "too many messages are not acknowledged yet: limits.receive_maximum is {}",
            announced.receive_maximum
        ),
        CloseReason::Violation(Violation::TopicAlias) => format!(
            "a topic alias is 0 or too large: limits.topic_alias_maximum is {}",
            announced.topic_alias_maximum
        ),
        _ => return None,
    })
}

/// The bound of its queue that a session has met.
fn queue(session: &Session, settings: &Settings) -> String {
    match session.full(settings) {
        Full::Messages(most) => format!("limits.queue_messages is {most}"),
        Full::Bytes(most) => format!("limits.queue_bytes is {most}"),
        Full::Quota(most) => format!("the quota queued_bytes of its roles is {most}"),
        Full::Queue(messages, bytes) => {
            format!("queue.messages is {messages}, and queue.bytes is {bytes}")
        }
        Full::Memory => "memory is short (limits.memory), so little may wait for it".into(),
    }
}

/// Why nothing is published to a topic that is above a limit; `None` for one that is within them.
pub(crate) fn topic(settings: &Settings, topic: &str) -> Option<String> {
    if settings.takes_topic(topic) {
        return None;
    }
    let (bytes, levels) = (settings.topic_bytes_max, settings.topic_levels_max);
    Some(match topic.len() > bytes {
        true => format!("the topic is too long: limits.topic_bytes is {bytes}"),
        false => format!("the topic has too many levels: limits.topic_levels is {levels}"),
    })
}

/// The limit of topics that a filter is above, and its value.
fn filter_limit(settings: &Settings, filter: &str) -> String {
    let (bytes, levels) = (settings.topic_bytes_max, settings.topic_levels_max);
    match filter.len() > bytes {
        true => format!("limits.topic_bytes is {bytes}"),
        false => format!("limits.topic_levels is {levels}"),
    }
}

/// Why a session gets no more subscriptions: [`TOO_MANY`] and the limit. The log says it once
/// for each connection.
///
/// It is their number if a packet had more than there may be, or none has room.
pub(in crate::core) fn tell_too_many(
    core: &mut Core,
    key: SessionKey,
    has_surplus: bool,
) -> String {
    let Some(session) = core.sessions.get(key) else {
        return TOO_MANY.into();
    };
    let most = core.rules.settings.subscriptions_max;
    let quota = session.state.identity().rights.quotas().subscriptions;
    let bound = match quota.map(|quota| quota as usize) {
        _ if !has_surplus && core.rules.places_left(session) > 0 => {
            let most = core.rules.settings.subscription_bytes_max;
            format!("limits.subscription_bytes_per_client is {most}")
        }
        Some(quota) if quota < most => {
            format!("the quota subscriptions of its roles is {quota}")
        }
        _ => format!("limits.subscriptions_per_client is {most}"),
    };
    let text = format!("{TOO_MANY}: {bound}");
    log_limit(core, key, "a subscription", TOO_MANY, &bound);
    text
}

/// Refuses a message whose topic is above a limit; `None` if it is within them. The message
/// counts as one that was refused.
pub(crate) fn refuse_topic(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    name: &str,
) -> Option<Outcome> {
    let text = topic(&core.rules.settings, name)?;
    core.counters.stats.denied += 1;
    core.counters.stats.topics_refused += 1;
    let live = core.sessions.get_mut(key).and_then(Session::live_mut);
    if let Some(live) = live {
        live.tally().topics_refused.add(now, 1);
    }
    log_limit(core, key, "a message", "topic", &text);
    Some(Outcome {
        reason: ReasonCode::TopicNameInvalid,
        text: text.into(),
    })
}

/// Why a session does not get a subscription whose filter is above a limit.
pub(in crate::core) fn tell_filter(core: &mut Core, key: SessionKey, filter: &str) -> String {
    let limit = filter_limit(&core.rules.settings, filter);
    log_limit(core, key, "a subscription", TOO_LONG, &limit);
    format!("{TOO_LONG}: {limit}")
}

/// Has the log say that a session has met a limit, once for each connection and kind.
fn log_limit(core: &mut Core, key: SessionKey, what: &'static str, kind: &str, bound: &str) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let hash = core.place.hasher.hash(session.state.zone(), kind);
    if let Link::Live(live) = &mut session.link
        && live.extras().remember_refusal(hash)
    {
        core.effects.events.push(Event::AboveLimit {
            what,
            client_id: session.state.client_id().into(),
            user: session.state.identity().user.clone(),
            bound: Box::from(bound),
        });
    }
}
