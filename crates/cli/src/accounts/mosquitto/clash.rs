//! What an import would be refused for is found before anything is written.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use stentor_auth::model::{ADMIN, ANONYMOUS, MEMBER, Role, initial_roles};
use stentor_auth::store::Order;

use super::{AccountsClient, Plan, Trouble, of_user};
use crate::failure::Failure;

/// Users and roles that a refusal names.
const TOLD_MAX: usize = 20;

/// Refuses a plan with users or roles that exist, or whose deletion it would undo. The names of the
/// roles that exist just as the plan has them are returned: an earlier import may have made them,
/// and there is nothing to do.
pub(super) fn check(
    accounts: &mut AccountsClient,
    plan: &Plan,
) -> Result<HashSet<Arc<str>>, Failure> {
    let mut same = HashSet::new();
    if !accounts.has_books() {
        return Ok(same);
    }
    let mut clashes = Vec::new();
    let roles = accounts.order(&Order::RoleList {})?;
    let roles: HashMap<&str, &Value> = list(&roles["roles"])
        .filter(|role| role["zone"].is_null())
        .filter_map(|role| Some((role["name"].as_str()?, role)))
        .collect();
    let shipped = initial_roles();
    for role in &plan.roles {
        let clash = format!("role {:?}", &*role.name);
        match roles.get(&*role.name) {
            Some(listed) if is_same(listed, role) => {
                same.insert(Arc::clone(&role.name));
            }
            Some(listed) if is_untouched_anonymous(listed) => {}
            Some(_) if !clashes.contains(&clash) => clashes.push(clash),
            // It was there at the first start, and somebody did not want it.
            None if shipped.iter().any(|it| it.name == role.name) => {
                clashes.push(format!("{clash} (deleted here)"));
            }
            Some(_) | None => {}
        }
    }
    let users: HashSet<String> = plan
        .users
        .iter()
        .map(|user| user.key().to_string())
        .collect();
    if !users.is_empty() {
        let known = accounts.users_among(|login| users.contains(login))?;
        clashes.extend(known.iter().map(|name| format!("user {name:?}")));
    }
    if clashes.is_empty() {
        return Ok(same);
    }
    let count = clashes.len();
    let mut told = clashes[..count.min(TOLD_MAX)].join(", ");
    if count > TOLD_MAX {
        told += &format!(" and {} more", count - TOLD_MAX);
    }
    Err(Failure::new(format!(
        "nothing is taken over, because these exist or were changed already: {told}; --replace \
         replaces them by those of mosquitto"
    )))
}

/// Whether a role, as it is listed, is `anonymous` as every store has it from its first start: that
/// holds no work of anybody's.
fn is_untouched_anonymous(role: &Value) -> bool {
    let mut shipped = initial_roles().into_iter();
    let shipped = shipped.find(|role| *role.name == *ANONYMOUS);
    role["name"] == ANONYMOUS && shipped.is_some_and(|shipped| is_same(role, &shipped))
}

/// Whether a role, as it is listed, gives what this one gives: the rules, in whatever order, and no
/// quotas, as no role of mosquitto has any.
fn is_same(listed: &Value, role: &Role) -> bool {
    let rules: BTreeSet<String> = role.rules.iter().map(ToString::to_string).collect();
    let has: BTreeSet<String> = list(&listed["rules"])
        .filter_map(|rule| rule.as_str().map(str::to_owned))
        .collect();
    let quotas = listed["quotas"].as_object();
    rules == has && role.quotas.is_empty() && quotas.is_none_or(|all| all.is_empty())
}

/// What an answer lists.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl Plan {
    /// Leaves out what would be refused, with a reason, and keeps the name of Stentor's
    /// administrator free.
    pub(super) fn settle(&mut self, file: &str) {
        let troubles = &mut self.troubles;
        let mut tell = |text: String, reason: &str, remedy: &str| {
            troubles.push(Trouble {
                file: file.to_owned(),
                number: 0,
                text,
                reason: reason.to_owned(),
                remedy: remedy.to_owned(),
            });
        };
        let mut names: HashSet<Arc<str>> = HashSet::new();
        self.roles.retain(|role| {
            let text = || format!("role {}", role.name);
            if let Err(error) = role.check() {
                let remedy = "give what it allows to another role: stentor role add";
                tell(text(), &error.to_string(), remedy);
                return false;
            }
            // That one is replaced, whoever speaks of it.
            let is_new = names.insert(Arc::clone(&role.name)) || *role.name == *ANONYMOUS;
            if !is_new {
                tell(text(), TWICE, "nothing has to be done");
            }
            is_new
        });
        let other = of_user(ADMIN);
        let mut known: BTreeSet<_> = self.users.iter().map(|user| user.key()).collect();
        let is_free = !known.iter().any(|key| *key.name == *other);
        self.users.retain_mut(|user| {
            // A name that is not a role of mosquitto granted no rights there.
            user.roles
                .retain(|role| names.contains(role) || **role == *MEMBER);
            let text = format!("user {}", user.name);
            if let Err(error) = user.check() {
                let remedy = "give the user another name: stentor user add";
                tell(text, &error.to_string(), remedy);
                return false;
            }
            if !known.remove(&user.key()) {
                tell(text, TWICE, "nothing has to be done");
                return false;
            }
            if *user.name == *ADMIN {
                let remedy = "give the user another name: stentor user add";
                let reason = "that is the name of Stentor's own administrator";
                if !is_free {
                    tell(text, reason, remedy);
                    return false;
                }
                user.name = other.as_str().into();
                let reason = format!("{reason}; the user is carried as {other}");
                let remedy =
                    format!("change the user name to {other} in its clients; the password stays");
                tell(text, &reason, &remedy);
            }
            true
        });
    }
}

const TWICE: &str = "the name is there twice; the first one counts";
