//! Orders about users.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{OrderError, Outcome, PAGE, Who};
use crate::calendar::Utc;
use crate::model::{Credential, Login, MEMBER, User, UserKey};
use crate::store::directory::Worker;
use crate::store::{Record, Store, books};

/// How often a change is tried again when somebody else changes the same user.
pub(super) const ATTEMPTS_MAX: usize = 10;

/// How a token's text begins.
pub(super) const TOKEN: &str = "token:";

/// Which part of the list of users.
pub(super) struct Page {
    zone: Option<String>,
    after: Option<UserKey>,
    limit: usize,
}

impl Page {
    pub(super) fn new(
        zone: Option<String>,
        after: Option<String>,
        limit: Option<usize>,
    ) -> Result<Self, OrderError> {
        let (usual, most) = PAGE;
        let limit = limit.unwrap_or(usual);
        if !(1..=most).contains(&limit) {
            return Err(OrderError::bad(format!(
                "limit is {limit}, and has to be from 1 to {most}; the next page follows by `after`"
            )));
        }
        Ok(Self {
            zone,
            after: after.as_deref().map(UserKey::parse),
            limit,
        })
    }

    /// Whether it is of the zone that is asked about.
    fn has(&self, user: &User) -> bool {
        self.zone.as_deref().is_none_or(|zone| *user.zone == *zone)
    }
}

/// Adds a user. Without roles, it has the role `member`.
pub(super) async fn add(
    worker: &Worker,
    who: &Who,
    name: &str,
    credentials: Vec<Credential>,
    roles: Option<Vec<Arc<str>>>,
    disabled: bool,
) -> Outcome {
    let login = Login::parse(name);
    let user = User {
        zone: login.zone.into(),
        name: login.name.into(),
        credentials,
        roles: once_each(roles.unwrap_or_else(|| vec![MEMBER.into()])),
        disabled,
        foreign: false,
    };
    check(worker, &user)?;
    let key = user.key();
    check_free(worker, &key)?;
    let is_new = worker
        .books
        .store
        .insert(std::slice::from_ref(&user))
        .await?;
    if !is_new && !replace_left(worker, &user).await? {
        return Err(exists(&key));
    }
    worker.take_over(key.clone(), Some(user.clone()));
    worker.note(who, "user.add", &key.to_string(), changed(&user));
    Ok(shown(&user))
}

/// Puts a user in the place of what was said of one whom somebody else kept and does not know any
/// more; false if there is none.
async fn replace_left(worker: &Worker, user: &User) -> Result<bool, OrderError> {
    let (store, key) = (&worker.books.store, user.key());
    let known = store.find(std::slice::from_ref(&key)).await?;
    let mut known = known.into_iter();
    let Some(Record { revision, .. }) =
        known.find(|record| record.user.foreign && record.user.key() == key)
    else {
        return Ok(false);
    };
    let is_left = foreign(worker, &key).await?.is_none();
    Ok(is_left && write(&**store, user, Some(revision)).await?)
}

/// Roles in their order, without those that stand there already.
pub(super) fn once_each(mut roles: Vec<Arc<str>>) -> Vec<Arc<str>> {
    let mut known = HashSet::new();
    roles.retain(|role| known.insert(Arc::clone(role)));
    roles
}

/// Checks a user, and that its zone and its roles exist.
pub(super) fn check(worker: &Worker, user: &User) -> Result<(), OrderError> {
    let key = user.key();
    user.check()
        .map_err(|error| OrderError::bad(format!("user {key}: {error}")))?;
    if !worker.has_zone(&user.zone) {
        return Err(OrderError::new(
            "not-found",
            format!(
                "user {key}: there is no zone {0:?}; add it first: stentor zone add {0}",
                &*user.zone
            ),
        ));
    }
    check_roles(worker, &user.zone, &user.roles).map_err(|error| {
        let message = format!("user {key}: {}", error.message);
        OrderError::new(error.code, message)
    })
}

fn check_roles(worker: &Worker, zone: &Arc<str>, names: &[Arc<str>]) -> Result<(), OrderError> {
    let roles = worker.roles();
    match names.iter().find(|name| roles.find(zone, name).is_none()) {
        None => Ok(()),
        Some(name) => Err(OrderError::new(
            "not-found",
            format!("there is no role {name:?}; `stentor role list` shows those that there are"),
        )),
    }
}

/// Refuses a zone that is none, whose users would be an empty list. One that is no more in the
/// configuration may still have some.
async fn check_zone(worker: &Worker, page: &Page) -> Result<(), OrderError> {
    let Some(zone) = &page.zone else {
        return Ok(());
    };
    if worker.has_zone(zone) || worker.books.store.count(Some(zone)).await? > 0 {
        return Ok(());
    }
    let message =
        format!("there is no zone {zone:?}; `stentor zone list` shows those that there are");
    Err(OrderError::new("not-found", message))
}

pub(super) async fn list(worker: &Worker, page: Page, containing: &str) -> Outcome {
    check_zone(worker, &page).await?;
    let wanted = |user: &User| containing.is_empty() || user.name.contains(containing);
    let configured = match page.after {
        None => configured(worker, |user| page.has(user) && wanted(user)),
        Some(_) => Vec::new(),
    };
    let mut users: Vec<Value> = Vec::new();
    let mut after = page.after;
    let mut more = true;
    // Pages of the store are searched until enough was found.
    while more && users.len() < page.limit {
        let rows = PAGE.0;
        let found = worker
            .books
            .store
            .list(page.zone.as_deref(), after.as_ref(), rows)
            .await?;
        more = found.len() == rows;
        for (at, user) in found.iter().enumerate() {
            after = Some(user.key());
            if wanted(user) {
                users.push(shown(user));
                if users.len() == page.limit {
                    more |= at + 1 < found.len();
                    break;
                }
            }
        }
    }
    let next = after.filter(|_| more).map(|key| key.to_string());
    let total = worker.books.store.count(page.zone.as_deref()).await?;
    Ok(json!({ "configured": configured, "users": users, "next": next, "total": total }))
}

/// Users of the configuration, who are in no store and on no page of one. They are as many as
/// somebody has written into a file.
fn configured(worker: &Worker, is_asked: impl Fn(&User) -> bool) -> Vec<Value> {
    let users = worker.all_pinned();
    let asked = users.iter().filter(|user| is_asked(user));
    asked.map(|user| by_configuration(shown(user))).collect()
}

/// Says of a user who keeps it.
fn by_configuration(mut shown: Value) -> Value {
    shown["kept_by"] = "the configuration".into();
    shown
}

pub(super) async fn show(worker: &Worker, name: &str) -> Outcome {
    let key = UserKey::parse(name);
    let user = find(worker, &key).await?;
    let mut answer = shown(&user);
    if worker.pinned(&key).is_some() {
        return Ok(by_configuration(answer));
    }
    let is_foreign = !stands_alone(worker, &key).await? && foreign(worker, &key).await?.is_some();
    if is_foreign && let Some(source) = &worker.books.source {
        answer["kept_by"] = source.describe().into();
    }
    Ok(answer)
}

/// The user, wherever it is kept.
pub(super) async fn find(worker: &Worker, key: &UserKey) -> Result<User, OrderError> {
    if let Some(user) = worker.pinned(key) {
        return Ok(User::clone(&user));
    }
    let find = worker.books.find(std::slice::from_ref(key));
    let mut users = worker.in_time(find).await?;
    if let Some(user) = users.remove(key) {
        return Ok(user);
    }
    let own = worker.books.store.find(std::slice::from_ref(key)).await?;
    let is_left = own.iter().any(|record| record.user.key() == *key);
    Err(if is_left { gone(key) } else { missing(key) })
}

pub(super) async fn set_password(
    worker: &Worker,
    who: &Who,
    name: &str,
    credentials: Vec<Credential>,
) -> Outcome {
    let key = UserKey::parse(name);
    if let Some(source) = &worker.books.source
        && !stands_alone(worker, &key).await?
        && let Some(foreign) = foreign(worker, &key).await?
        && !foreign.credentials.is_empty()
    {
        let message = format!(
            "the password of {key} is kept by {}, which Stentor only reads; change it there",
            source.describe()
        );
        return Err(OrderError::new("refused", message));
    }
    let change = |user: &mut User| {
        user.credentials
            .retain(|credential| credential.text.starts_with(TOKEN));
        user.credentials.extend(credentials.iter().cloned());
        Ok(())
    };
    let user = modify(worker, &key, change).await?;
    worker.note(who, "user.set-password", &key.to_string(), Value::Null);
    Ok(shown(&whole(worker, user).await))
}

pub(super) async fn disable(worker: &Worker, who: &Who, name: &str, disabled: bool) -> Outcome {
    let key = UserKey::parse(name);
    let change = |user: &mut User| {
        user.disabled = disabled;
        Ok(())
    };
    // A disabled name is refused with a web token, too, even after the source has lost the user.
    let user = rewrite(worker, &key, true, async |user| change(user)).await?;
    let what = if disabled {
        "user.disable"
    } else {
        "user.enable"
    };
    worker.note(who, what, &key.to_string(), Value::Null);
    if disabled {
        return Ok(shown(&user));
    }
    let user = whole(worker, user).await;
    if user.disabled
        && let Some(source) = &worker.books.source
    {
        let message = format!(
            "{key} is disabled in {}; enable it there",
            source.describe()
        );
        return Err(OrderError::new("refused", message));
    }
    Ok(shown(&user))
}

pub(super) async fn delete(worker: &Worker, who: &Who, name: &str) -> Outcome {
    let key = UserKey::parse(name);
    // Its own record may be what disables it, or what narrows its roles: it stays with the user.
    if let Some(source) = &worker.books.source
        && foreign(worker, &key).await?.is_some()
    {
        let message = format!(
            "{key} is kept by {}, which Stentor only reads; delete it there, or keep it out with \
             `stentor user disable {key}`",
            source.describe()
        );
        return Err(OrderError::new("refused", message));
    }
    let deleted = worker.books.store.delete(&key).await?;
    worker.forget(key.clone());
    if !deleted {
        check_free(worker, &key)?;
        return Err(missing(&key));
    }
    worker.note(who, "user.delete", &key.to_string(), Value::Null);
    Ok(json!({}))
}

pub(super) async fn export(worker: &Worker, who: &Who, page: Page) -> Outcome {
    check_zone(worker, &page).await?;
    let store = &worker.books.store;
    let users = store
        .list(page.zone.as_deref(), page.after.as_ref(), page.limit)
        .await?;
    let last = users.last().filter(|_| users.len() == page.limit);
    let next = last.map(|user| user.key().to_string());
    let detail = json!({ "users": users.len() });
    worker.note(
        who,
        "user.export",
        page.zone.as_deref().unwrap_or("all zones"),
        detail,
    );
    Ok(json!({ "users": users, "next": next }))
}

pub(super) async fn grant(worker: &Worker, who: &Who, name: &str, roles: &[Arc<str>]) -> Outcome {
    let key = UserKey::parse(name);
    check_roles(worker, &key.zone, roles)?;
    let change = |user: &mut User| {
        for role in roles {
            if !user.roles.contains(role) {
                user.roles.push(Arc::clone(role));
            }
        }
        Ok(())
    };
    let user = modify_roles(worker, &key, change).await?;
    worker.note(who, "grant", &key.to_string(), json!({ "roles": roles }));
    Ok(shown(&user))
}

pub(super) async fn revoke(worker: &Worker, who: &Who, name: &str, roles: &[Arc<str>]) -> Outcome {
    let key = UserKey::parse(name);
    let change = |user: &mut User| {
        if let Some(role) = roles.iter().find(|role| !user.roles.contains(role)) {
            let message = format!(
                "{key} does not have the role {role:?}; it has {}",
                listed(&user.roles)
            );
            return Err(OrderError::new("not-found", message));
        }
        user.roles.retain(|role| !roles.contains(role));
        Ok(())
    };
    let user = modify_roles(worker, &key, change).await?;
    worker.note(who, "revoke", &key.to_string(), json!({ "roles": roles }));
    Ok(shown(&user))
}

/// Roles for people.
fn listed(roles: &[Arc<str>]) -> String {
    match roles {
        [] => "none".to_owned(),
        roles => roles.join(", "),
    }
}

pub(super) async fn upgrade(
    worker: &Worker,
    who: &Who,
    key: &UserKey,
    outdated: &Arc<str>,
    better: Arc<str>,
) -> Outcome {
    let change = |user: &mut User| {
        let mut credentials = user.credentials.iter_mut();
        match credentials.find(|credential| credential.text == *outdated) {
            Some(credential) => credential.text = Arc::clone(&better),
            // It was changed in the meantime, or is kept by somebody else.
            None => return Err(missing(key)),
        }
        Ok(())
    };
    if worker
        .books
        .store
        .find(std::slice::from_ref(key))
        .await?
        .is_empty()
    {
        return Err(missing(key));
    }
    modify(worker, key, change).await?;
    worker.note(who, "user.upgrade-hash", &key.to_string(), Value::Null);
    Ok(json!({}))
}

/// Changes a user, however often others change it at the same time. For a user whom somebody else
/// keeps, a record with what differs is made in the store.
pub(super) async fn modify(
    worker: &Worker,
    key: &UserKey,
    change: impl Fn(&mut User) -> Result<(), OrderError>,
) -> Result<User, OrderError> {
    rewrite(worker, key, false, async |user| change(user)).await
}

/// The same by a change that asks somebody; `of_left` if it may be one of what was said of a user
/// whom somebody else does not know any more.
async fn rewrite(
    worker: &Worker,
    key: &UserKey,
    of_left: bool,
    change: impl AsyncFn(&mut User) -> Result<(), OrderError>,
) -> Result<User, OrderError> {
    check_free(worker, key)?;
    let store = &worker.books.store;
    for _ in 0..ATTEMPTS_MAX {
        let own = store.find(std::slice::from_ref(key)).await?;
        let own = own.into_iter().find(|record| record.user.key() == *key);
        let (mut user, revision) = match own {
            Some(Record { user, revision }) => {
                // An outage of theirs keeps nobody from being disabled.
                let may_be_left = user.foreign && !of_left;
                if may_be_left && matches!(foreign(worker, key).await, Ok(None)) {
                    return Err(gone(key));
                }
                (user, Some(revision))
            }
            None => match foreign(worker, key).await? {
                Some(foreign) => (nothing_of(foreign), None),
                None => return Err(missing(key)),
            },
        };
        change(&mut user).await?;
        user.check().map_err(OrderError::bad)?;
        if write(&**store, &user, revision).await? {
            worker.take_over(key.clone(), Some(user.clone()));
            return Ok(user);
        }
    }
    Err(contended(key))
}

/// Changes the roles of a user. Of one whom somebody else keeps and who has none in the store,
/// those from there are changed, as they are what counts.
async fn modify_roles(
    worker: &Worker,
    key: &UserKey,
    change: impl Fn(&mut User) -> Result<(), OrderError>,
) -> Result<User, OrderError> {
    let from_what_counts = async |user: &mut User| {
        if user.roles.is_empty()
            && let Some(foreign) = foreign(worker, key).await?
        {
            user.roles = foreign.roles;
        }
        change(user)?;
        check_left(worker, std::iter::once(&*user)).await
    };
    rewrite(worker, key, false, from_what_counts).await
}

/// That somebody else changes the same thing all the time.
pub(super) fn contended(what: impl fmt::Display) -> OrderError {
    let message = format!("another program keeps changing {what}; try again");
    OrderError::new("conflict", message)
}

async fn write(store: &dyn Store, user: &User, revision: Option<i64>) -> Result<bool, OrderError> {
    Ok(match revision {
        None => store.insert(std::slice::from_ref(user)).await?,
        Some(revision) => {
            let user = user.clone();
            store.update(&Record { user, revision }).await?
        }
    })
}

/// Refuses to leave users without a role whom somebody else keeps: who has none here has those from
/// there.
pub(super) async fn check_left<'a>(
    worker: &Worker,
    users: impl Iterator<Item = &'a User>,
) -> Result<(), OrderError> {
    let left = users.filter(|user| user.roles.is_empty());
    let left: HashSet<UserKey> = left.map(User::key).collect();
    let Some(source) = worker.books.source.as_ref().filter(|_| !left.is_empty()) else {
        return Ok(());
    };
    let keys: Vec<UserKey> = left.iter().cloned().collect();
    let known = worker.in_time(source.find(&keys)).await?;
    let Some(foreign) = known.iter().find(|user| left.contains(&user.key())) else {
        return Ok(());
    };
    let key = foreign.key();
    let message = format!(
        "{key} is kept by {}, and a user without a role here has the roles from there: {}; take \
         them away there, `stentor grant` another role first, or disable the user with `stentor \
         user disable {key}`",
        source.describe(),
        foreign.roles.join(", ")
    );
    Err(OrderError::new("refused", message))
}

/// The user as somebody else keeps it, if it does.
async fn foreign(worker: &Worker, key: &UserKey) -> Result<Option<User>, OrderError> {
    let Some(source) = &worker.books.source else {
        return Ok(None);
    };
    let find = source.find(std::slice::from_ref(key));
    let users = worker.in_time(find).await?;
    Ok(users.into_iter().find(|user| user.key() == *key))
}

/// Whether a user is an administrator of ours, about whom nobody else has to say anything.
async fn stands_alone(worker: &Worker, key: &UserKey) -> Result<bool, OrderError> {
    let own = worker.books.store.find(std::slice::from_ref(key)).await?;
    let own = own.iter().find(|record| record.user.key() == *key);
    Ok(own.is_some_and(|record| books::stands_alone(&record.user)))
}

/// A user whose record was changed, with what somebody else says of it, if they answer: what was
/// done is done without them.
async fn whole(worker: &Worker, own: User) -> User {
    find(worker, &own.key()).await.unwrap_or(own)
}

/// What the store says of a user whom somebody else keeps while nothing is changed here: all that
/// counts is what stands there.
fn nothing_of(foreign: User) -> User {
    User {
        credentials: Vec::new(),
        roles: Vec::new(),
        disabled: false,
        foreign: true,
        ..foreign
    }
}

/// Refuses to say anything here of a user of the configuration, who goes before all others: it
/// would have no effect.
pub(super) fn check_free(worker: &Worker, key: &UserKey) -> Result<(), OrderError> {
    if worker.pinned(key).is_none() {
        return Ok(());
    }
    let message = format!("{key} is in the configuration; change its [[user]] there, and reload");
    Err(OrderError::new("refused", message))
}

fn missing(key: &UserKey) -> OrderError {
    let message = format!("there is no user {key}; `stentor user list` shows those that there are");
    OrderError::new("not-found", message)
}

/// The source has removed the user, and local settings do not make one.
fn gone(key: &UserKey) -> OrderError {
    let message = format!(
        "there is no user {key} any more: auth.source does not know it; `stentor user disable \
         {key}` refuses web tokens of that name, `stentor user delete {key}` removes what is \
         stored of the user here"
    );
    OrderError::new("not-found", message)
}

pub(super) fn exists(key: &UserKey) -> OrderError {
    let message = format!(
        "user {key}: there is one already; `stentor user set-password` changes its password, and an \
         import with --replace replaces it"
    );
    OrderError::new("exists", message)
}

/// A user as people see it: without anything secret.
pub(super) fn shown(user: &User) -> Value {
    let credentials: Vec<Value> = user.credentials.iter().map(shown_credential).collect();
    json!({
        "login": user.key().to_string(),
        "zone": user.zone,
        "name": user.name,
        "roles": user.roles,
        "disabled": user.disabled,
        "credentials": credentials,
    })
}

pub(super) fn shown_credential(credential: &Credential) -> Value {
    let mut shown = json!({ "kind": credential.kind() });
    if let Some(id) = super::tokens::id(credential) {
        shown["id"] = id.into();
    }
    if !credential.label.is_empty() {
        shown["label"] = json!(credential.label);
    }
    if credential.created_at_secs > 0 {
        shown["created_at"] = Utc::new(credential.created_at_secs).to_string().into();
    }
    if let Some(at) = credential.expires_at_secs {
        shown["expires_at"] = Utc::new(at).to_string().into();
    }
    shown
}

fn changed(user: &User) -> Value {
    json!({ "roles": user.roles, "disabled": user.disabled })
}
