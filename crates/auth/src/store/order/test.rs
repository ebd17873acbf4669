//! The question "may alice publish a/b?", with the rule that decides.

use std::sync::Arc;

use serde_json::json;
use stentor_hub::Access;
use stentor_topic::{validate_filter, validate_name};

use super::{OrderError, Outcome};
use crate::model::{Action, User, UserKey};
use crate::rights::{Explanation, Holder, Login, compile};
use crate::store::directory::Worker;

/// What may precede a filter that several share.
const SHARE: &str = "$share/";

/// Answers what a user may do, as the server decides it when this user is logged in.
pub(super) async fn test(
    worker: &Worker,
    name: &str,
    (action, topic): (Action, &str),
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
    let explanation = explain(&holder, action, topic)?;
    let access = match user.disabled {
        true => Access::Nothing,
        false => explanation.access,
    };
    let is_strict = worker.is_strict();
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
        "role": explanation.deciding().map(|rule| &rule.role.name),
        "rule": explanation.deciding().map(|rule| rule.rule().to_string()),
        "reason": reason(&user, &explanation, access, is_strict),
    }))
}

fn explain(holder: &Holder, action: Action, topic: &str) -> Result<Explanation, OrderError> {
    let bad = |error: &dyn std::fmt::Display| {
        let message = format!("{topic:?} is no topic that can be asked about: {error}");
        OrderError::bad(message)
    };
    match action {
        Action::Publish => {
            validate_name(topic).map_err(|error| bad(&error))?;
            Ok(holder.explain_publish(topic))
        }
        Action::Subscribe => {
            let shared = topic.strip_prefix(SHARE);
            let filter = match shared.map(|rest| rest.split_once('/')) {
                Some(Some((_, filter))) => filter,
                Some(None) => "",
                None => topic,
            };
            validate_filter(filter).map_err(|error| bad(&error))?;
            Ok(holder.explain_subscribe(filter))
        }
        Action::Both => Err(OrderError::bad("ask about publish or about subscribe")),
    }
}

/// The sentence for people.
fn reason(user: &User, explanation: &Explanation, access: Access, is_strict: bool) -> String {
    if user.disabled {
        return "the user is disabled and cannot log in".to_owned();
    }
    match (explanation.deciding(), access) {
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

    #[test]
    fn the_question_is_checked_and_shares_are_looked_through() {
        let member = holder(&initial_roles()[..1]);
        let access = |action, topic| explain(&member, action, topic).map(|told| told.access);
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
    }
}
