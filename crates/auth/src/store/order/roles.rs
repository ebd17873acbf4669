//! Orders about roles.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{OrderError, Outcome, PAGE, Who, users};
use crate::model::{ADMIN, ANONYMOUS, MEMBER, Quotas, Role, Rule, User, UserKey};
use crate::store::Record;
use crate::store::directory::Worker;

/// What a change does to a role.
pub(super) struct Edit {
    pub(super) add: Vec<Rule>,
    pub(super) remove: Vec<Rule>,
    /// Those to set.
    pub(super) quotas: Quotas,
    /// The names of those to take away.
    pub(super) unbound: Vec<String>,
}

impl Edit {
    pub(super) const fn new(
        add: Vec<Rule>,
        remove: Vec<Rule>,
        quotas: Quotas,
        unbound: Vec<String>,
    ) -> Self {
        Self {
            add,
            remove,
            quotas,
            unbound,
        }
    }
}

pub(super) async fn add(worker: &Worker, who: &Who, role: Role, replace: bool) -> Outcome {
    check_quotas(&role.name, role.quotas)?;
    if !replace && find(worker, role.zone.as_deref(), &role.name).await.is_ok() {
        let message = format!(
            "there is a role {:?} already; `stentor role change` adds and removes rules, and \
             --replace replaces it",
            &*role.name
        );
        return Err(OrderError::new("exists", message));
    }
    put(worker, who, "role.add", role).await
}

pub(super) async fn change(
    worker: &Worker,
    who: &Who,
    zone: Option<Arc<str>>,
    name: Arc<str>,
    edit: Edit,
) -> Outcome {
    let Edit {
        add,
        remove,
        quotas,
        unbound,
    } = edit;
    check_quotas(&name, quotas)?;
    let mut role = find(worker, zone.as_deref(), &name).await?;
    if let Some(rule) = remove.iter().find(|rule| !role.rules.contains(rule)) {
        let message = format!(
            "the role {name:?} has no rule `{rule}`; `stentor role show {name}` shows its rules"
        );
        return Err(OrderError::new("not-found", message));
    }
    role.rules.retain(|rule| !remove.contains(rule));
    for rule in add {
        if !role.rules.contains(&rule) {
            role.rules.push(rule);
        }
    }
    if let Some(name) = unbound
        .iter()
        .find(|name| !Quotas::NAMES.contains(&name.as_str()))
    {
        let message = format!(
            "there is no quota {name:?}; there are {}",
            Quotas::NAMES.join(", ")
        );
        return Err(OrderError::bad(message));
    }
    role.quotas = quotas.or(role.quotas.without(&unbound));
    put(worker, who, "role.change", role).await
}

/// Only what an order names is checked: a role that was written by hand can still be changed.
fn check_quotas(role: &str, quotas: Quotas) -> Result<(), OrderError> {
    quotas
        .check()
        .map_err(|error| OrderError::bad(format!("role {role:?}: {error}")))
}

async fn put(worker: &Worker, who: &Who, what: &str, role: Role) -> Outcome {
    role.check()
        .map_err(|error| OrderError::bad(format!("role {:?}: {error}", &*role.name)))?;
    if let Some(zone) = &role.zone
        && !worker.has_zone(zone)
    {
        let message = format!(
            "there is no zone {0:?}; add it first: stentor zone add {0}",
            &**zone
        );
        return Err(OrderError::new("not-found", message));
    }
    worker.books.store.put_role(&role).await?;
    let rules: Vec<String> = role.rules.iter().map(Rule::to_string).collect();
    let detail = json!({ "zone": role.zone, "rules": rules, "quotas": role.quotas });
    worker.note(who, what, &role.name, detail);
    worker.read_roles().await?;
    Ok(shown(&role))
}

pub(super) async fn list(worker: &Worker) -> Outcome {
    let roles = worker.books.store.roles().await?;
    let roles: Vec<Value> = roles.iter().map(shown).collect();
    Ok(json!({ "roles": roles }))
}

pub(super) async fn show(worker: &Worker, zone: Option<&str>, name: &str) -> Outcome {
    Ok(shown(&find(worker, zone, name).await?))
}

pub(super) async fn delete(
    worker: &Worker,
    who: &Who,
    zone: Option<Arc<str>>,
    name: Arc<str>,
    force: bool,
) -> Outcome {
    let (zone, name) = (zone.as_deref(), &*name);
    let bearers = delete_with(worker, zone, name, force).await?;
    let count = bearers.len();
    let detail = json!({ "zone": zone, "taken_from": count });
    worker.note(who, "role.delete", name, detail);
    for user in bearers {
        worker.take_over(user.key(), Some(user));
    }
    worker.read_roles().await?;
    Ok(json!({ "taken_from": count, "note": lost_with(zone, name) }))
}

/// Deletes a role and takes it from its bearers, who are returned as they are then, all or nothing:
/// however often others change one of them at the same time.
async fn delete_with(
    worker: &Worker,
    zone: Option<&str>,
    name: &str,
    force: bool,
) -> Result<Vec<User>, OrderError> {
    for _ in 0..users::ATTEMPTS_MAX {
        find(worker, zone, name).await?;
        let mut bearers = bearers(worker, zone, name).await?;
        let keys: Vec<UserKey> = bearers.iter().map(|record| record.user.key()).collect();
        if !keys.is_empty() && !force {
            return Err(still_had(name, &keys));
        }
        for record in &mut bearers {
            record.user.roles.retain(|role| **role != *name);
        }
        for some in bearers.chunks(PAGE.0) {
            users::check_left(worker, some.iter().map(|record| &record.user)).await?;
        }
        if worker.books.store.delete_role(zone, name, &bearers).await? {
            return Ok(bearers.into_iter().map(|record| record.user).collect());
        }
    }
    Err(users::contended(format_args!("the role {name:?}")))
}

/// What goes with a role that is there from the start.
fn lost_with(zone: Option<&str>, name: &str) -> Option<&'static str> {
    if zone.is_some() {
        return None;
    }
    Some(match name {
        ADMIN => {
            "no user has all rights now; `stentor role add admin --rule 'allow both #' \
             --rule 'allow both $#'` and `stentor grant USER admin` bring them back"
        }
        MEMBER => "add users with --role from now on: without it, they get this role",
        ANONYMOUS => "clients without a name may do nothing now",
        _ => return None,
    })
}

/// The users of the store who would be left with the name of a role that is deleted. Those of a
/// zone that has another role of that name lose nothing.
async fn bearers(
    worker: &Worker,
    zone: Option<&str>,
    name: &str,
) -> Result<Vec<Record>, OrderError> {
    let store = &worker.books.store;
    let roles = store.roles().await?;
    let has_other = |of: &str| {
        let is_other = |role: &Role| match (zone, role.zone.as_deref()) {
            // Its own, or the one for all zones.
            (None, Some(other)) => other == of,
            (Some(_), other) => other.is_none(),
            (None, None) => false,
        };
        let named = roles.iter().filter(|role| *role.name == *name);
        named.into_iter().any(is_other)
    };
    let mut bearers = Vec::new();
    let mut after: Option<UserKey> = None;
    loop {
        let users = store.list(zone, after.as_ref(), PAGE.0).await?;
        after = users.last().map(User::key);
        let is_last = users.len() < PAGE.0;
        let is_left =
            |user: &User| user.roles.iter().any(|role| **role == *name) && !has_other(&user.zone);
        let left = users.iter().filter(|user| is_left(user));
        let left: Vec<UserKey> = left.map(User::key).collect();
        // With their revisions; whoever has lost it in the meantime has.
        let found = store.find(&left).await?.into_iter();
        bearers.extend(found.filter(|record| is_left(&record.user)));
        if is_last {
            return Ok(bearers);
        }
    }
}

fn still_had(name: &str, bearers: &[UserKey]) -> OrderError {
    let some: Vec<String> = bearers.iter().take(10).map(UserKey::to_string).collect();
    let more = match bearers.len() - some.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let some = some.join(", ");
    OrderError::new(
        "conflict",
        format!(
            "users have the role {name:?}: {some}{more}; take it from them first, with `stentor \
             revoke USER {name}`, or from all of them at once, with --force"
        ),
    )
}

async fn find(worker: &Worker, zone: Option<&str>, name: &str) -> Result<Role, OrderError> {
    let roles = worker.books.store.roles().await?;
    let is_it = |role: &Role| role.zone.as_deref() == zone && *role.name == *name;
    roles.into_iter().find(is_it).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> OrderError {
    let message = format!("there is no role {name:?}; `stentor role list` shows those there are");
    OrderError::new("not-found", message)
}

/// A role as people see it: rules as sentences.
fn shown(role: &Role) -> Value {
    let rules: Vec<String> = role.rules.iter().map(Rule::to_string).collect();
    json!({ "name": role.name, "zone": role.zone, "rules": rules, "quotas": role.quotas })
}
