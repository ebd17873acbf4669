//! Orders that add many users.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::users::{TOKEN, check, check_free, exists, once_each};
use super::{IMPORT_USERS_MAX, OrderError, Outcome, Who};
use crate::model::{Credential, DEFAULT_ZONE, MEMBER, User, UserKey};
use crate::store::directory::Worker;

/// Limit of the user names in one line of the audit log.
const NOTED_USERS: usize = 200;

/// A user of an import. What is not given stays as it is where a user is replaced, and is as of an
/// added user otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    /// The zone.
    #[serde(default = "default_zone")]
    pub zone: Arc<str>,
    /// The name within the zone.
    pub name: Arc<str>,
    /// What the user may prove itself with; not given, what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Vec<Credential>>,
    /// Whether a user who is replaced keeps its tokens beside these credentials.
    #[serde(default)]
    pub keeps_tokens: bool,
    /// The names of its roles; not given, those that it has, or `member`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<Arc<str>>>,
    /// Whether it may not log in for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Whether somebody else keeps it; not given, as it is, unless credentials are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<bool>,
}

fn default_zone() -> Arc<str> {
    DEFAULT_ZONE.into()
}

/// All of a user is given.
impl From<User> for Imported {
    fn from(user: User) -> Self {
        Self {
            zone: user.zone,
            name: user.name,
            credentials: Some(user.credentials),
            keeps_tokens: false,
            roles: Some(user.roles),
            disabled: Some(user.disabled),
            foreign: Some(user.foreign),
        }
    }
}

impl Imported {
    /// Which user this is.
    #[must_use]
    pub fn key(&self) -> UserKey {
        UserKey::new(Arc::clone(&self.zone), Arc::clone(&self.name))
    }

    /// The user that becomes of it, in the place of one who is known or of nobody.
    #[must_use]
    pub fn over(self, known: Option<&User>) -> User {
        let of_known = known.map(|user| user.credentials.as_slice());
        let of_known = of_known.unwrap_or_default();
        // An import that gives credentials makes a foreign user ours.
        let stays_foreign = self.credentials.is_none() && known.is_some_and(|user| user.foreign);
        let credentials = match self.credentials {
            None => of_known.to_vec(),
            Some(given) => {
                let stays = |one: &&Credential| self.keeps_tokens && one.text.starts_with(TOKEN);
                let tokens = of_known.iter().filter(stays).cloned();
                tokens.chain(given).collect()
            }
        };
        let roles = self.roles.or_else(|| known.map(|user| user.roles.clone()));
        let disabled = self.disabled.or_else(|| known.map(|user| user.disabled));
        User {
            zone: self.zone,
            name: self.name,
            credentials,
            roles: once_each(roles.unwrap_or_else(|| vec![MEMBER.into()])),
            disabled: disabled.unwrap_or_default(),
            foreign: self.foreign.unwrap_or(stays_foreign),
        }
    }
}

/// The users that become of an import, each of whom is good.
async fn checked(
    worker: &Worker,
    users: Vec<Imported>,
    replace: bool,
) -> Result<Vec<User>, OrderError> {
    if users.len() > IMPORT_USERS_MAX {
        let message = format!("an import has at most {IMPORT_USERS_MAX} users at a time");
        return Err(OrderError::bad(message));
    }
    let mut known: HashMap<UserKey, User> = HashMap::new();
    if replace {
        let keys: Vec<UserKey> = users.iter().map(Imported::key).collect();
        let records = worker.books.store.find(&keys).await?.into_iter();
        known.extend(records.map(|record| (record.user.key(), record.user)));
    }
    let over = |one: Imported| {
        let known = known.get(&one.key());
        one.over(known)
    };
    let users: Vec<User> = users.into_iter().map(over).collect();
    for user in &users {
        check(worker, user)?;
        check_free(worker, &user.key())?;
    }
    Ok(users)
}

/// What `import` would refuse. That checks again: what is there may be something else by then.
pub(super) async fn check_only(worker: &Worker, users: Vec<Imported>, replace: bool) -> Outcome {
    let users = checked(worker, users, replace).await?;
    Ok(json!({ "checked": users.len() }))
}

pub(super) async fn import(
    worker: &Worker,
    who: &Who,
    users: Vec<Imported>,
    replace: bool,
) -> Outcome {
    let users = checked(worker, users, replace).await?;
    let keys: Vec<UserKey> = users.iter().map(User::key).collect();
    let store = &worker.books.store;
    if replace {
        store.put(&users).await?;
    } else if !store.insert(&users).await? {
        let there = store.find(&keys).await?;
        let there = there.first().map(|record| record.user.key());
        return Err(match there {
            Some(key) => exists(&key),
            None => OrderError::new("exists", "a user is there twice"),
        });
    }
    let count = users.len();
    for some in users.chunks(NOTED_USERS) {
        let detail = json!({ "users": count, "replace": replace });
        let mut detail = detail.as_object().cloned().unwrap_or_default();
        detail.extend(noted(some));
        worker.note(who, "user.import", "users", detail.into());
    }
    for (key, user) in keys.into_iter().zip(users) {
        worker.take_over(key, Some(user));
    }
    Ok(json!({ "imported": count }))
}

/// The names of these users, and the roles of those who are not just members.
fn noted(users: &[User]) -> Map<String, Value> {
    let names: Vec<String> = users.iter().map(|user| user.key().to_string()).collect();
    let is_special = |user: &&User| user.roles.iter().map(|role| &**role).ne([MEMBER]);
    let special = users.iter().filter(is_special);
    let roles: Map<String, Value> = special
        .map(|user| (user.key().to_string(), json!(user.roles)))
        .collect();
    let mut detail = Map::new();
    detail.insert("names".into(), json!(names));
    if !roles.is_empty() {
        detail.insert("roles".into(), roles.into());
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_were_imported_are_noted_with_their_roles() {
        let user = |name: &str, roles: &[&str]| User {
            name: name.into(),
            roles: roles.iter().map(|role| Arc::from(*role)).collect(),
            ..ann()
        };
        let users = [user("a", &[MEMBER]), user("b", &["admin"]), user("c", &[])];
        let expected = json!({ "names": ["a", "b", "c"], "roles": { "b": ["admin"], "c": [] } });
        assert_eq!(Value::Object(noted(&users)), expected);
        let expected = json!({ "names": ["a"] });
        assert_eq!(Value::Object(noted(&users[..1])), expected);
    }

    fn ann() -> User {
        let credentials = ["token:abc", "$7$1$old$hash"].map(Credential::new);
        User {
            zone: DEFAULT_ZONE.into(),
            name: "ann".into(),
            credentials: credentials.into(),
            roles: vec!["boss".into()],
            disabled: true,
            foreign: true,
        }
    }

    fn imported(json: &str) -> Imported {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn what_is_not_said_is_kept() {
        let least = imported(r#"{"name": "ann"}"#);
        assert_eq!(least.clone().over(Some(&ann())), ann());
        let new = least.over(None);
        assert_eq!((&*new.roles[0], new.roles.len()), (MEMBER, 1));
        assert!(new.credentials.is_empty() && !new.disabled);
    }

    #[test]
    fn a_role_that_is_said_twice_is_there_once() {
        let twice = imported(r#"{"name": "ann", "roles": ["b", "a", "b"]}"#);
        assert_eq!(twice.over(None).roles, ["b", "a"].map(Arc::from));
    }

    #[test]
    fn what_is_said_counts() {
        let none = imported(r#"{"name": "ann", "roles": [], "disabled": false}"#);
        for known in [Some(&ann()), None] {
            let user = none.clone().over(known);
            assert!(user.roles.is_empty() && !user.disabled);
        }
        let texts = |keeps: bool| {
            let json = json!({
                "name": "ann", "credentials": [{"text": "new"}], "keeps_tokens": keeps,
            });
            let user = imported(&json.to_string()).over(Some(&ann()));
            let texts = user.credentials.iter().map(|one| one.text.to_string());
            texts.collect::<Vec<_>>()
        };
        assert_eq!(texts(true), ["token:abc", "new"]);
        assert_eq!(texts(false), ["new"]);
        assert_eq!(Imported::from(ann()).over(None), ann());
    }
}
