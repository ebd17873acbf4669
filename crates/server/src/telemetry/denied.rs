//! What the log says of a publish or subscription that a client has no right to: the rule that
//! decides, and the commands that help.

use std::borrow::Cow;

use stentor_auth::center::LoginRecord;
use stentor_auth::model::Effect;
use stentor_auth::rights::{Explanation, RuleRef};
use stentor_hub::{Event, Identity};
use stentor_zone::Address;
use tracing::warn;

use super::journal::{Pace, shown};
use super::remedy::word;

/// Writes a line about what a client's rights do not permit.
pub(super) fn write_denied(event: &Event, pace: &mut Pace) {
    let Some(denial) = Denial::of(event) else {
        return;
    };
    let Some(held_back) = pace.admit(denial.label()) else {
        return;
    };
    let why = denial.text();
    match event {
        Event::PublishDenied {
            client_id,
            identity,
            topic,
        } => {
            let (client, topic) = (&*shown(client_id), &*shown(topic));
            let user = &*shown(identity.user.as_deref().unwrap_or(""));
            warn!(
                client,
                user, topic, held_back, "publish not permitted: {why}"
            );
        }
        Event::SubscribeDenied {
            client_id,
            identity,
            filter,
        } => {
            let (client, filter) = (&*shown(client_id), &*shown(filter));
            let user = &*shown(identity.user.as_deref().unwrap_or(""));
            warn!(
                client,
                user, filter, held_back, "subscribe not permitted: {why}"
            );
        }
        _ => {}
    }
}

/// What a client's rights do not permit.
pub(super) enum Denial<'a> {
    /// A message of this topic.
    Publish(&'a Identity, &'a str),
    /// A subscription with this filter.
    Subscribe(&'a Identity, &'a str),
}

impl<'a> Denial<'a> {
    /// What an event says of it; `None` for other events.
    pub(super) fn of(event: &'a Event) -> Option<Self> {
        match event {
            Event::PublishDenied {
                identity, topic, ..
            } => Some(Self::Publish(identity, topic)),
            Event::SubscribeDenied {
                identity, filter, ..
            } => Some(Self::Subscribe(identity, filter)),
            _ => None,
        }
    }

    /// A word for it.
    pub(super) const fn label(&self) -> &'static str {
        match self {
            Self::Publish(..) => "publish-denied",
            Self::Subscribe(..) => "subscribe-denied",
        }
    }

    /// Which rule decides, and what helps. It takes a moment to find out.
    pub(super) fn text(&self) -> String {
        match *self {
            Self::Publish(identity, topic) => {
                let asked = Address::parse(topic).map(|address| address.right(topic));
                let asked = asked.unwrap_or(Cow::Borrowed(topic));
                why(identity, "publish", topic, |login_record| {
                    login_record.holder().explain_publish(&asked)
                })
            }
            Self::Subscribe(identity, filter) => {
                why(identity, "subscribe", filter, |login_record| {
                    login_record.holder().explain_subscribe(bare(filter))
                })
            }
        }
    }
}

/// A filter without the group that shares it.
fn bare(filter: &str) -> &str {
    let shared = filter.strip_prefix("$share/");
    shared
        .and_then(|rest| rest.split_once('/'))
        .map_or(filter, |(_, filter)| filter)
}

/// The rule that decides, and a command that asks again.
fn why(
    identity: &Identity,
    verb: &str,
    topic: &str,
    explain: impl FnOnce(&LoginRecord) -> Explanation,
) -> String {
    let login_record = identity.rights.as_any();
    let login_record = login_record.and_then(|any| any.downcast_ref::<LoginRecord>());
    let explanation = login_record.map(explain);
    let deciding = explanation.as_ref().and_then(Explanation::deciding);
    let rule = match deciding {
        Some(rule) => rule.to_string(),
        None => "no rule of its roles allows it".to_owned(),
    };
    let topic = shown(topic);
    let topic = word(&topic);
    match login_record.and_then(LoginRecord::key) {
        Some(key) => {
            let name = key.to_string();
            let name = shown(&name);
            let name = word(&name);
            format!("{rule}; `stentor user test {name} {verb} {topic}` asks again after a change")
        }
        None => format!(
            "{rule}; it is anonymous, and has the role `anonymous`: let it log in, or change that \
             role (`stentor role change anonymous {}`)",
            change(deciding, verb)
        ),
    }
}

/// The options of `stentor role change` that help: a rule that denies has to go, since it wins.
fn change(deciding: Option<&RuleRef>, verb: &str) -> String {
    match deciding.map(RuleRef::rule) {
        Some(rule) if rule.effect == Effect::Deny => format!("--remove '{rule}'"),
        _ => format!("--add 'allow {verb} FILTER'"),
    }
}
