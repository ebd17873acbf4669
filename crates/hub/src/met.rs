//! Which limit a client has met, in words: the key of the configuration and its value.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use stentor_mqtt::ReasonCode;
use stentor_session::{CloseReason, Limit, Outcome, Violation};

use crate::effects::{Event, Full};
use crate::hub::Hub;
use crate::key::SessionKey;
use crate::sessions::{Link, Live, Session};
use crate::settings::Settings;
use crate::subscribe::TOO_MANY;

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
        Full::Memory => "memory is short (limits.memory), so little may wait for it".into(),
    }
}

/// The refusal of a topic that is above a bound; `None` for one that is within them.
pub(crate) fn topic(settings: &Settings, topic: &str) -> Option<Outcome> {
    if settings.takes_topic(topic) {
        return None;
    }
    let (bytes, levels) = (settings.topic_bytes_max, settings.topic_levels_max);
    let text = match topic.len() > bytes {
        true => format!("the topic is too long: limits.topic_bytes is {bytes}"),
        false => format!("the topic has too many levels: limits.topic_levels is {levels}"),
    };
    Some(Outcome {
        reason: ReasonCode::TopicNameInvalid,
        text: text.into(),
    })
}

impl Hub {
    /// Why a session gets no more subscriptions: [`TOO_MANY`] and the limit. The log says it once
    /// for each connection.
    ///
    /// It is their number if a packet had more than there may be, or none has room.
    pub(crate) fn tell_too_many(&mut self, key: SessionKey, has_surplus: bool) -> String {
        let Some(session) = self.sessions.get(key) else {
            return TOO_MANY.into();
        };
        let most = self.settings.subscriptions_max;
        let quota = session.identity.rights.quotas().subscriptions;
        let bound = match quota.map(|quota| quota as usize) {
            _ if !has_surplus && self.places_left(session) > 0 => {
                let most = self.settings.subscription_bytes_max;
                format!("limits.subscription_bytes_per_client is {most}")
            }
            Some(quota) if quota < most => {
                format!("the quota subscriptions of its roles is {quota}")
            }
            _ => format!("limits.subscriptions_per_client is {most}"),
        };
        let text = format!("{TOO_MANY}: {bound}");
        let hash = self.hasher.hash(session.zone(), TOO_MANY);
        if let Some(session) = self.sessions.get_mut(key)
            && let Link::Live(live) = &mut session.link
            && live.extras().remember_refusal(hash)
        {
            self.effects.events.push(Event::TooManySubscriptions {
                client_id: session.client_id.clone(),
                user: session.identity.user.clone(),
                bound: Box::from(bound),
            });
        }
        text
    }
}
