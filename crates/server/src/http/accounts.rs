//! The rights that it takes to change users, roles, tokens and zones.
//!
//! A user that can give roles can give any right, so this takes all rights: those of the role
//! `admin`, in the zone of the user who asks. Nobody takes away the rights by which he asks: so one
//! administrator at least is left.

use serde_json::{Map, Value};
use stentor_admin::Denied;
use stentor_auth::center::LoginRecord;
use stentor_auth::model::{GUEST, USER_ROLES_MAX, UserKey, initial_roles};
use stentor_control::{Failure, Verb};
use stentor_hub::Identity;

use crate::control::login;

/// Whether somebody has all rights, under the login name `login`, or is the server's owner.
///
/// # Errors
/// When not.
pub(super) fn check_everything(identity: &Identity, login: &str, verb: Verb) -> Result<(), Denied> {
    let login_record = identity.rights.as_any();
    let login_record = login_record.and_then(|any| any.downcast_ref::<LoginRecord>());
    let has_all =
        login_record.is_some_and(|login_record| login_record.holder().grant().is_everything());
    if has_all || identity.rights.is_operator() {
        return Ok(());
    }
    let roles = identity.rights.roles().join(", ");
    Err(Denied {
        code: "denied",
        detail: format!(
            "the user {login:?} may not do {}, which needs all rights here (`allow both #` and \
             `allow both $#`, and no rule that denies): its roles ({roles}) do not give them; ask \
             as a user with the role admin",
            verb.name()
        ),
        rule: None,
    })
}

/// Somebody who changes users or roles.
pub(super) struct Changer<'a> {
    /// The name of the user's zone.
    pub(super) zone: &'a str,
    /// The name within the zone.
    pub(super) user: &'a str,
    /// The names of the user's roles.
    pub(super) roles: Vec<&'a str>,
}

impl Changer<'_> {
    /// Refuses what would take away the rights by which it is asked for.
    ///
    /// # Errors
    /// `refused`, with a sentence.
    pub(super) fn check(&self, verb: Verb, request: &Map<String, Value>) -> Result<(), Failure> {
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        let name = text("name").unwrap_or_default();
        let what = match verb {
            Verb::UsersDisable | Verb::UsersRm if self.is_he(name, text("zone")) => {
                "this is the user who asks for it"
            }
            Verb::UsersGrant | Verb::UsersRevoke if self.is_he(name, text("zone")) => {
                "these are roles of the user who asks for it"
            }
            Verb::RolesAdd | Verb::RolesChange | Verb::RolesRm if self.has(name, text("zone")) => {
                "this is a role of the user who asks for it"
            }
            _ => return Ok(()),
        };
        let message = format!(
            "{what}, who could lose the right to undo it; ask as another administrator, or use the \
             command `stentor` on the machine of the server"
        );
        Err(Failure::new("refused", message))
    }

    fn is_he(&self, name: &str, zone: Option<&str>) -> bool {
        let named = login(name, zone).map(|login| UserKey::parse(&login));
        named.is_ok_and(|key| *key.zone == *self.zone && *key.name == *self.user)
    }

    /// Whether a role of this name, of a zone or of all, is or would be one of his.
    fn has(&self, role: &str, zone: Option<&str>) -> bool {
        zone.is_none_or(|zone| zone == self.zone) && self.roles.contains(&role)
    }
}

/// The roles that users of a zone see, other than the default one: those of the zone, and those for
/// all zones that every server has from the start. The names and rules of the others are for the
/// administrators of the server, who may give them to users of any zone.
pub(super) struct Shown<'z> {
    /// The name of the zone.
    pub(super) zone: &'z str,
}

impl Shown<'_> {
    fn has(&self, role: &Value) -> bool {
        let name = role["name"].as_str().unwrap_or_default();
        match role["zone"].as_str() {
            Some(zone) => zone == self.zone,
            None => is_from_the_start(name),
        }
    }

    /// Leaves out of an answer what is not shown.
    ///
    /// # Errors
    /// `not-found`, when the answer is about a role that is not.
    pub(super) fn keep(&self, verb: Verb, answer: &mut Value) -> Result<(), Failure> {
        match verb {
            Verb::RolesLs => {
                if let Some(roles) = answer.get_mut("roles").and_then(Value::as_array_mut) {
                    roles.retain(|role| self.has(role));
                }
                Ok(())
            }
            Verb::RolesShow if !self.has(answer) => Err(self.missing()),
            _ => Ok(()),
        }
    }

    /// The names in a request that gives roles, as far as they have to be looked up: those from the
    /// start need not.
    pub(super) fn given(verb: Verb, request: &Map<String, Value>) -> Vec<&str> {
        if !matches!(verb, Verb::UsersAdd | Verb::UsersGrant) {
            return Vec::new();
        }
        let roles = request.get("roles").and_then(Value::as_array);
        let names = roles.into_iter().flatten().filter_map(Value::as_str);
        let names = names.filter(|name| !is_from_the_start(name));
        names.take(USER_ROLES_MAX).collect()
    }

    /// What is said of a role that is not shown, and of one that does not exist.
    pub(super) fn missing(&self) -> Failure {
        let message = format!("there is nothing of this name in the zone {:?}", self.zone);
        Failure::new("not-found", message)
    }
}

fn is_from_the_start(name: &str) -> bool {
    name == GUEST || initial_roles().iter().any(|role| *role.name == *name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nobody_takes_his_own_rights_away() {
        let root = Changer {
            zone: "default",
            user: "root",
            roles: vec!["admin"],
        };
        let is_refused = |verb: Verb, request: Value| {
            let Value::Object(request) = request else {
                panic!("a request is an object");
            };
            root.check(verb, &request).is_err()
        };
        for (verb, request, expected) in [
            (Verb::UsersRm, json!({ "name": "root" }), true),
            (Verb::UsersRm, json!({ "name": "default/root" }), true),
            (
                Verb::UsersDisable,
                json!({ "name": "root", "zone": "default" }),
                true,
            ),
            (
                Verb::UsersDisable,
                json!({ "name": "root", "zone": "game" }),
                false,
            ),
            (Verb::UsersDisable, json!({ "name": "ann" }), false),
            (Verb::UsersEnable, json!({ "name": "root" }), false),
            (Verb::UsersSetPassword, json!({ "name": "root" }), false),
            (Verb::UsersRevoke, json!({ "name": "root" }), true),
            (Verb::UsersGrant, json!({ "name": "root" }), true),
            (Verb::RolesRm, json!({ "name": "admin" }), true),
            (
                Verb::RolesAdd,
                json!({ "name": "admin", "zone": "default" }),
                true,
            ),
            (
                Verb::RolesAdd,
                json!({ "name": "admin", "zone": "game" }),
                false,
            ),
            (Verb::RolesChange, json!({ "name": "member" }), false),
        ] {
            assert_eq!(
                is_refused(verb, request.clone()),
                expected,
                "{verb:?} {request}"
            );
        }
    }
}
