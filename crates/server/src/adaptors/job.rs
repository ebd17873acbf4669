//! A question on its way from one adaptor to the next.

use std::collections::VecDeque;
use std::sync::Arc;

use stentor_hub::{Deed, Denial, Identity, Question, Rewrite};
use stentor_mqtt::QoS;
use stentor_procedure::adaptor::{Allowed, Event, Field};
use stentor_topic::Subscription;

use super::Scoped;

/// A question, whom it still goes to, and what has come of it so far.
pub(super) struct Job {
    pub(super) question: Question,
    pub(super) zone: Arc<str>,
    /// Whom to ask, about which filter of a SUBSCRIBE.
    pub(super) steps: VecDeque<(Arc<Scoped>, usize)>,
    pub(super) rewrite: Rewrite,
    pub(super) denials: Vec<Option<Denial>>,
}

impl Job {
    /// What the next adaptor sees.
    pub(super) fn event(&self, filter: usize) -> Event {
        let mut fields = who(&self.question.identity, &self.question.client_id);
        let payload = |own: &[u8]| match &self.rewrite.payload {
            Some(payload) => Field::from(&**payload),
            None => Field::from(own),
        };
        let to = |own: &str| Field::from(self.rewrite.to.as_deref().unwrap_or(own));
        let hook = match &self.question.deed {
            Deed::Publish {
                topic,
                payload: own,
                qos,
                retain,
            } => {
                fields.push(("topic", to(topic)));
                fields.push(("payload", payload(own)));
                let qos = match qos {
                    QoS::AtMostOnce => 0.0,
                    QoS::AtLeastOnce => 1.0,
                    QoS::ExactlyOnce => 2.0,
                };
                fields.push(("qos", Field::Number(qos)));
                fields.push(("retain", Field::Flag(*retain)));
                "publish"
            }
            Deed::Say { room, payload: own } => {
                fields.push(("room", Field::from(&**room)));
                fields.push(("payload", payload(own)));
                "say"
            }
            Deed::Private {
                to: own,
                payload: text,
            } => {
                fields.push(("to", to(own)));
                fields.push(("payload", payload(text)));
                "private"
            }
            Deed::Subscribe(filters) => match filters.get(filter) {
                Some((text, Some(room))) => {
                    fields.push(("room", Field::from(&**room)));
                    fields.push(("filter", Field::from(&**text)));
                    "join"
                }
                Some((text, None)) => {
                    // What is shared is no secret way around a guard of the filter.
                    let (share, filter) = shared(text);
                    fields.push(("filter", Field::from(filter)));
                    fields.extend(share.map(|group| ("share", Field::from(group))));
                    "subscribe"
                }
                None => "subscribe",
            },
        };
        Event {
            hook,
            zone: Arc::clone(&self.zone),
            fields,
        }
    }

    /// An adaptor is against a filter of a SUBSCRIBE: against all of them, if it comes into a room.
    pub(super) fn deny(&mut self, filter: usize, denial: &Denial) {
        self.steps.retain(|(_, of)| *of != filter);
        let Deed::Subscribe(filters) = &self.question.deed else {
            return;
        };
        let room = filters.get(filter).and_then(|(_, room)| room.as_deref());
        for (at, (place, (_, other))) in self.denials.iter_mut().zip(filters).enumerate() {
            if at == filter || room.is_some() && other.as_deref() == room {
                *place = Some(denial.clone());
            }
        }
    }

    /// What an adaptor has made of it.
    pub(super) fn change(&mut self, allowed: Allowed) {
        let rewrite = &mut self.rewrite;
        if let Some(to) = allowed.to {
            rewrite.to = Some(to.into());
        }
        if let Some(payload) = allowed.payload {
            rewrite.payload = Some(payload.into());
        }
        rewrite.hides_response |= allowed.hides_response;
        rewrite.hides_notification |= allowed.hides_notification;
    }
}

/// The group and the filter of a subscription, which may be shared.
pub(super) fn shared(text: &str) -> (Option<&str>, &str) {
    match Subscription::parse(text) {
        Ok(Subscription { share, filter }) => (share, filter),
        // It is refused in any case.
        Err(_) => (None, text),
    }
}

/// Who does something.
pub(super) fn who(identity: &Identity, client_id: &str) -> Vec<(&'static str, Field)> {
    let mut fields = vec![("client_id", Field::from(client_id))];
    if let Some(user) = &identity.user {
        fields.push(("user", Field::from(&**user)));
    }
    fields
}
