//! Orders about tokens.

use serde_json::{Value, json};

use super::users::{TOKEN, find, modify, shown_credential};
use super::{OrderError, Outcome, Who};
use crate::model::{Credential, User, UserKey};
use crate::store::directory::Worker;

/// Characters of a token's hash that tell it from the user's others.
const ID_CHARS: usize = 12;

/// What a token is called: the beginning of its hash, which opens nothing.
pub(super) fn id(credential: &Credential) -> Option<String> {
    let hash = credential.text.strip_prefix(TOKEN)?;
    Some(hash.chars().take(ID_CHARS).collect())
}

pub(super) async fn create(
    worker: &Worker,
    who: &Who,
    name: &str,
    credential: Credential,
) -> Outcome {
    let key = UserKey::parse(name);
    let Some(id) = id(&credential) else {
        return Err(OrderError::bad("the credential is not a token"));
    };
    let change = |user: &mut User| {
        let same = |one: &Credential| !one.label.is_empty() && one.label == credential.label;
        if user.credentials.iter().any(same) {
            let message = format!("{} has a token {:?} already", user.key(), credential.label);
            return Err(OrderError::new("exists", message));
        }
        user.credentials.push(credential.clone());
        Ok(())
    };
    modify(worker, &key, change).await?;
    let detail = json!({ "id": id, "label": credential.label });
    worker.note(who, "token.create", &key.to_string(), detail);
    Ok(json!({ "id": id }))
}

pub(super) async fn list(worker: &Worker, name: &str) -> Outcome {
    let user = find(worker, &UserKey::parse(name)).await?;
    let tokens = user.credentials.iter().filter(|one| id(one).is_some());
    let tokens: Vec<Value> = tokens.map(shown_credential).collect();
    Ok(json!({ "tokens": tokens }))
}

pub(super) async fn revoke(worker: &Worker, who: &Who, name: &str, wanted: &str) -> Outcome {
    let key = UserKey::parse(name);
    let is_it = |one: &Credential| {
        let by_label = !wanted.is_empty() && *one.label == *wanted;
        id(one).is_some_and(|id| id == wanted || by_label)
    };
    let change = |user: &mut User| {
        let before = user.credentials.len();
        user.credentials.retain(|one| !is_it(one));
        if user.credentials.len() < before {
            return Ok(());
        }
        let message = format!(
            "{key} has no token {wanted:?}; `stentor token list {key}` shows those that it has"
        );
        Err(OrderError::new("not-found", message))
    };
    modify(worker, &key, change).await?;
    worker.note(
        who,
        "token.revoke",
        &key.to_string(),
        json!({ "id": wanted }),
    );
    Ok(json!({}))
}
