//! The question "may alice publish a/b?", with the rule that decides.

use std::sync::Arc;

use serde_json::json;
use stentor_hub::Access;
use stentor_topic::{Subscription, validate_name};
use stentor_zone::{Address, Interest, NotAddress};

use super::{OrderError, Outcome};
use crate::model::{Action, User, UserKey};
use crate::rights::{Explanation, Holder, Login, RuleRef, compile};
use crate::store::directory::Worker;

/// Answers what a user may do, as the server decides it when this user is logged in.
pub(super) async fn test(
    worker: &Worker,
    name: &str,
    action: Action,
    topic: &str,
    client_id: Option<String>,
) -> Outcome {
    let key = UserKey::parse(name);
    let user = match worker.pinned(&key) {
        Some(user) => user,
        None => Arc::new(super::users::find(worker, &key).await?),
    };
    let holder = compile(
        &worker.roles().of(&user),
        Login {
            user: Some(Arc::clone(&user.name)),
            client_id: client_id.map(Arc::from),
            zone: Arc::clone(&user.zone),
        },
    );
    let answer = explain(&holder, action, topic)?;
    let is_strict = worker.is_strict();
    let access = match &answer {
        Told::Ruled(explanation) if !user.disabled => explanation.access,
        Told::Ruled(_) | Told::Never(_) => Access::Nothing,
    };
    let deciding = answer.deciding();
    Ok(json!({
        "login": key.to_string(),
        "action": action,
        "topic": topic,
        "allowed": match access {
            Access::All => true,
            Access::Part => !is_strict,
            Access::Nothing => false,
        },
        "access": access.label(),
        "role": deciding.map(|rule| &rule.role.name),
        "rule": deciding.map(|rule| rule.rule().to_string()),
        "reason": reason(&user, &answer, access, is_strict),
    }))
}

/// What is to be told of a topic or filter.
#[derive(Debug)]
enum Told {
    /// Rules decide.
    Ruled(Explanation),
    /// Nobody may, with the reason.
    Never(&'static str),
}

impl Told {
    const fn deciding(&self) -> Option<&RuleRef> {
        match self {
            Self::Ruled(explanation) => explanation.deciding(),
            Self::Never(_) => None,
        }
    }
}

fn explain(holder: &Holder, action: Action, topic: &str) -> Result<Told, OrderError> {
    let bad = |error: &dyn std::fmt::Display| {
        let message = format!("cannot test the topic {topic:?}: {error}");
        OrderError::bad(message)
    };
    match action {
        Action::Publish => {
            validate_name(topic).map_err(|error| bad(&error))?;
            let asked = match Address::parse(topic) {
                Ok(address) => address.right(topic),
                Err(NotAddress::Elsewhere) => topic.into(),
                Err(never) => return Ok(Told::Never(never.text())),
            };
            Ok(Told::Ruled(holder.explain_publish(&asked)))
        }
        Action::Subscribe => {
            let Subscription { share, filter } =
                Subscription::parse(topic).map_err(|error| bad(&error))?;
            Ok(match Interest::parse(filter).never(share.is_some()) {
                Some(never) => Told::Never(never),
                None => Told::Ruled(holder.explain_subscribe(filter)),
            })
        }
        Action::Both => Err(OrderError::bad("ask about publish or about subscribe")),
    }
}

/// The sentence for people.
fn reason(user: &User, answer: &Told, access: Access, is_strict: bool) -> String {
    if user.disabled {
        return "the user is disabled and cannot log in".to_owned();
    }
    if let Told::Never(why) = answer {
        return (*why).to_owned();
    }
    match (answer.deciding(), access) {
        (Some(rule), Access::All | Access::Nothing) => rule.to_string(),
        (Some(rule), Access::Part) => {
            let so = match is_strict {
                true => "and auth.subscribe is \"strict\", which refuses it",
                false => "which is what is delivered",
            };
            format!("only a part of what the filter matches is permitted, {so}. {rule}")
        }
        (None, _) => format!("no rule of its roles allows it ({})", names(&user.roles)),
    }
}

fn names(roles: &[Arc<str>]) -> String {
    match roles {
        [] => "it has no role".to_owned(),
        roles => roles.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Role, initial_roles};

    fn holder(roles: &[Role]) -> Arc<Holder> {
        let roles: Vec<Arc<Role>> = roles.iter().cloned().map(Arc::new).collect();
        compile(
            &roles,
            Login {
                user: Some("ann".into()),
                client_id: None,
                zone: "default".into(),
            },
        )
    }

    fn access_of(told: Told) -> Access {
        match told {
            Told::Ruled(explanation) => explanation.access,
            Told::Never(_) => Access::Nothing,
        }
    }

    /// Rights to private messages and calls are asked about in one form, and some topics and
    /// filters are nobody's.
    #[test]
    fn topics_of_a_zone_are_explained_as_the_server_decides() {
        let mut member = initial_roles()[0].clone();
        for rule in [
            "deny publish $private/to/carol",
            "deny publish $call/room.list",
        ] {
            member.rules.push(rule.parse().unwrap());
        }
        let member = holder(&[member]);
        let access = |action, topic| access_of(explain(&member, action, topic).unwrap());
        for (topic, expected) in [
            ("$private/to/carol", Access::Nothing),
            ("$private/to/carol/7", Access::Nothing),
            ("$private/to/c%61rol", Access::Nothing),
            ("$private/to/dave/7", Access::All),
            ("$call/room.list/1", Access::Nothing),
            ("$call/room.info/1", Access::All),
            ("$room/tea/say", Access::All),
            ("$room/tea/event", Access::Nothing),
            ("$private/from/carol", Access::Nothing),
        ] {
            assert_eq!(access(Action::Publish, topic), expected, "{topic}");
        }
        for (filter, expected) in [
            ("$room/tea/#", Access::All),
            ("$room/+/#", Access::Nothing),
            ("$private/to/+", Access::Nothing),
            ("$private/from/+", Access::All),
            ("$share/g/$private/from/+", Access::Nothing),
        ] {
            assert_eq!(access(Action::Subscribe, filter), expected, "{filter}");
        }
    }

    #[test]
    fn the_question_is_checked_and_shares_are_looked_through() {
        let member = holder(&initial_roles()[..1]);
        let access = |action, topic| explain(&member, action, topic).map(access_of);
        assert_eq!(access(Action::Publish, "a/b"), Ok(Access::All));
        assert_eq!(access(Action::Subscribe, "$share/g/a/#"), Ok(Access::All));
        assert_eq!(access(Action::Subscribe, "$SYS/#"), Ok(Access::All));
        assert_eq!(access(Action::Publish, "$SYS/x"), Ok(Access::Nothing));
        for (action, topic) in [
            (Action::Publish, "a/#"),
            (Action::Publish, ""),
            (Action::Subscribe, "a#"),
            (Action::Subscribe, "$share/g"),
            (Action::Both, "a"),
        ] {
            assert!(access(action, topic).is_err(), "{topic}");
        }
        for (filter, reason) in [
            ("$share/g", "lacks its topic filter"),
            ("$share/g/", "lacks its topic filter"),
            (
                "$share//a",
                "the share name of a shared subscription is empty",
            ),
            (
                "$share/a+/b",
                "the share name of a shared subscription contains",
            ),
            ("$share/g/a#", "`#` in a topic filter must occupy"),
        ] {
            let error = access(Action::Subscribe, filter).unwrap_err();
            assert!(
                error.message.contains(reason),
                "{filter}: {}",
                error.message
            );
        }
    }
}
