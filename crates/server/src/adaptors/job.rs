//! A question on its way from one adaptor to the next.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use stentor_call_protocol::Verdict;
use stentor_hub::{Denial, HookRequest, HookVerdict, Identity, Question, Rewrite};
use stentor_procedure::adaptor::{Allowed, Event, Field};
use stentor_procedure::{Answer, Outcome};
use stentor_topic::Subscription;
use stentor_zone::{Address, topic};

use super::Scoped;

/// A question, whom it still goes to, and what has come of it so far.
pub(super) struct Job {
    pub(super) question: Question,
    pub(super) zone: Arc<str>,
    /// The adaptors to ask, each with the index of a filter of a SUBSCRIBE.
    pub(super) steps: VecDeque<(Arc<Scoped>, usize)>,
    pub(super) rewrite: Rewrite,
    pub(super) denials: Vec<Option<Denial>>,
    /// Of a SUBSCRIBE: the places of the filters that come into each room.
    pub(super) by_room: HashMap<Box<str>, Vec<usize>>,
    /// Somebody who waits without a connection; otherwise a shard does.
    pub(super) asker: Option<Sender<HookVerdict>>,
    /// Of a publish that goes to one of the zone's own topics.
    pub(super) detour: Option<Detour>,
}

/// The places of the filters of a SUBSCRIBE that come into each room.
pub(super) fn by_room(request: &HookRequest) -> HashMap<Box<str>, Vec<usize>> {
    let mut places: HashMap<Box<str>, Vec<usize>> = HashMap::new();
    if let HookRequest::Subscribe(filters) = request {
        for (at, (_, room)) in filters.iter().enumerate() {
            if let Some(room) = room {
                places.entry(room.clone()).or_default().push(at);
            }
        }
    }
    places
}

/// What a publish has become that an adaptor has sent to one of the zone's own topics.
pub(super) enum Detour {
    /// A private message, with this behind its recipient: where its response goes.
    Private(Option<Box<str>>),
    /// Something said in this room.
    Say(Box<str>),
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
        let hook = match &self.question.request {
            HookRequest::Publish {
                topic,
                payload: own,
                qos,
                retain,
            } => {
                fields.push(("topic", to(topic)));
                fields.push(("payload", payload(own)));
                fields.push(("qos", Field::Number(f64::from(*qos as u8))));
                fields.push(("retain", Field::Flag(*retain)));
                "publish"
            }
            HookRequest::Say { room, payload: own } => {
                fields.push(("room", Field::from(&**room)));
                fields.push(("payload", payload(own)));
                "say"
            }
            HookRequest::Call {
                room,
                procedure,
                payload: own,
                arguments,
            } => {
                let room = room.as_deref().map(|room| ("room", Field::from(room)));
                let arguments = ("arguments", Field::Texts(arguments.clone()));
                let name = ("name", Field::from(&**procedure));
                fields.extend(room);
                fields.extend([name, ("payload", payload(own)), arguments]);
                "call"
            }
            HookRequest::Private {
                to: own,
                payload: text,
            } => {
                fields.push(("to", to(own)));
                fields.push(("payload", payload(text)));
                "private"
            }
            HookRequest::Subscribe(filters) => match filters.get(filter) {
                Some((text, Some(room))) => {
                    fields.push(("room", Field::from(&**room)));
                    fields.push(("filter", Field::from(&**text)));
                    "join"
                }
                Some((text, None)) => {
                    // A shared subscription must not bypass a guard of its filter.
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

    /// A publish that adaptors have sent to one of the zone's own topics is judged once more, as
    /// what it is there, if its sender may do that. Whether this is one.
    pub(super) fn turn_off(&mut self) -> bool {
        let identity = &self.question.identity;
        let may = |topic: &str| identity.user.is_some() && identity.rights.may_publish(topic);
        let Some(to) = self.rewrite.to.as_deref() else {
            return false;
        };
        let HookRequest::Publish { payload, .. } = &mut self.question.request else {
            return false;
        };
        if self.rewrite.hides_notification {
            return false;
        }
        let (request, detour) = match Address::parse(to) {
            Ok(Address::Private { user, reply }) if may(&topic::private_to(&user)) => {
                let payload = mem::take(payload);
                let to = user.as_ref().into();
                let detour = Detour::Private(reply.map(Into::into));
                (HookRequest::Private { to, payload }, detour)
            }
            Ok(Address::Say { room }) if may(&topic::say(room)) => {
                let (room, payload): (Box<str>, _) = (room.into(), mem::take(payload));
                let detour = Detour::Say(room.clone());
                (HookRequest::Say { room, payload }, detour)
            }
            _ => return false,
        };
        self.question.request = request;
        self.detour = Some(detour);
        self.rewrite.to = None;
        true
    }

    /// Where it goes after [`turn_off`](Self::turn_off), as the topic that it is published to.
    pub(super) fn come_back(&mut self) {
        let to = match (self.detour.take(), &self.question.request) {
            (Some(Detour::Private(reply)), HookRequest::Private { to, .. }) => {
                let to = self.rewrite.to.as_deref().unwrap_or(to);
                let reply = reply.filter(|_| !self.rewrite.hides_response);
                let reply = reply.map_or_else(String::new, |id| format!("/{id}"));
                topic::private_to(to) + &reply
            }
            (Some(Detour::Say(room)), _) => topic::say(&room),
            _ => return,
        };
        self.rewrite.to = Some(to.into());
    }

    /// An adaptor is against a filter of a SUBSCRIBE: against all of them, if it comes into a room.
    pub(super) fn deny(&mut self, filter: usize, denial: &Denial) {
        // Those who were to be asked about it too come first, for filters are asked about in order.
        while self.steps.front().is_some_and(|(_, of)| *of == filter) {
            self.steps.pop_front();
        }
        let HookRequest::Subscribe(filters) = &self.question.request else {
            return;
        };
        let room = filters.get(filter).and_then(|(_, room)| room.as_deref());
        let own = [filter];
        let places = room.and_then(|room| self.by_room.get(room));
        for at in places.map_or(&own[..], Vec::as_slice) {
            if let Some(place) = self.denials.get_mut(*at) {
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
        if let Some(result) = allowed.result {
            // It is answered: nobody else is asked.
            rewrite.answer = Some(call_answer(result).into());
            self.steps.clear();
        }
        rewrite.hides_response |= allowed.hides_response;
        rewrite.hides_notification |= allowed.hides_notification;
    }
}

/// The answer to a call with this result.
fn call_answer(result: Vec<u8>) -> Vec<u8> {
    let mut outcome = Outcome::of(Verdict::Accept, "");
    outcome.result = result;
    crate::call::answer_json(&Answer::done(outcome))
}

/// The group and the filter of a subscription, which may be shared.
pub(super) fn shared(text: &str) -> (Option<&str>, &str) {
    match Subscription::parse(text) {
        Ok(Subscription { share, filter }) => (share, filter),
        // It is refused in any case.
        Err(_) => (None, text),
    }
}

/// The fields that name the client that does something.
pub(super) fn who(identity: &Identity, client_id: &str) -> Vec<(&'static str, Field)> {
    let mut fields = vec![("client_id", Field::from(client_id))];
    if let Some(user) = &identity.user {
        fields.push(("user", Field::from(&**user)));
    }
    fields
}
