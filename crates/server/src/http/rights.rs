//! Whether somebody has a right, and which rule says so.

use stentor_admin::Denied;
use stentor_auth::center::LoginRecord;
use stentor_auth::rights::Explanation;
use stentor_hub::{Access, Identity};

use crate::telemetry::{shown, word};

/// Something that somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish<'a> {
    /// To publish to a topic.
    Publish(&'a str),
    /// To subscribe to all that a filter matches.
    Subscribe(&'a str),
}

impl Wish<'_> {
    fn is_granted(self, identity: &Identity) -> bool {
        match self {
            Self::Publish(topic) => identity.rights.may_publish(topic),
            Self::Subscribe(filter) => identity.rights.may_subscribe(filter) == Access::All,
        }
    }

    fn explain(self, login_record: &LoginRecord) -> Explanation {
        match self {
            Self::Publish(topic) => login_record.holder().explain_publish(topic),
            Self::Subscribe(filter) => login_record.holder().explain_subscribe(filter),
        }
    }

    /// The command that asks the same.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Publish(_) => ("publish to", "publish"),
            Self::Subscribe(_) => ("subscribe to", "subscribe"),
        }
    }

    const fn topic(&self) -> &str {
        match self {
            Self::Publish(topic) | Self::Subscribe(topic) => topic,
        }
    }
}

/// Whether somebody may do this, under the login name `login`.
///
/// # Errors
/// When not: with the rule that denies it.
pub(super) fn check(identity: &Identity, login: &str, wish: Wish<'_>) -> Result<(), Denied> {
    if wish.is_granted(identity) {
        return Ok(());
    }
    let login_record = identity.rights.as_any();
    let login_record = login_record.and_then(|any| any.downcast_ref::<LoginRecord>());
    let explanation = login_record.map(|login_record| wish.explain(login_record));
    let rule = explanation.and_then(|it| it.deny).map(|it| it.to_string());
    let why = match &rule {
        Some(rule) => format!("it is denied by {rule}"),
        None => "no rule of its roles allows it".to_owned(),
    };
    let ((action, command), topic) = (wish.words(), shown(wish.topic()));
    let (user, asked) = (word(login), word(&topic));
    let detail = format!(
        "the user {login:?} may not {action} {topic:?}: {why}; `stentor user test {user} {command} \
         {asked}` asks again after a change"
    );
    Err(Denied {
        code: "denied",
        detail,
        rule,
    })
}
