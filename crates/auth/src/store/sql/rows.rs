//! Records as rows, and back.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::link::Param;
use crate::model::{Role, User, UserKey, ZoneRecord};
use crate::store::{Record, StoreError};

/// Columns of `stentor_user`.
pub(super) const USER_COLUMNS: usize = 7;

type Row = Vec<Option<String>>;

/// The column `login`: names contain no `/`, so this means one user.
pub(super) fn login(key: &UserKey) -> String {
    format!("{}/{}", key.zone, key.name)
}

/// login, zone, disabled, roles, credentials, is_foreign, revision
pub(super) fn user_params(user: &User, revision: i64) -> Result<[Param; USER_COLUMNS], StoreError> {
    Ok([
        Param::Text(login(&user.key())),
        Param::Text(user.zone.to_string()),
        Param::Int(i64::from(user.disabled)),
        Param::Text(json(&user.roles)?),
        Param::Text(json(&user.credentials)?),
        Param::Int(i64::from(user.foreign)),
        Param::Int(revision),
    ])
}

/// login, disabled, roles, credentials, is_foreign, revision
pub(super) fn record(row: Row) -> Result<Record, StoreError> {
    let [login, disabled, roles, credentials, is_foreign, revision] = columns(row)?;
    let login = text(login.as_ref(), "login")?;
    let (zone, name) = login
        .split_once('/')
        .ok_or_else(|| content("login", login))?;
    let user = User {
        zone: zone.into(),
        name: name.into(),
        credentials: from_json(credentials.as_ref(), "credentials")?,
        roles: from_json(roles.as_ref(), "roles")?,
        disabled: number(Some(&disabled))? != 0,
        foreign: number(Some(&is_foreign))? != 0,
    };
    let revision = text(revision.as_ref(), "revision")?;
    let revision = revision
        .parse()
        .map_err(|_| content("revision", revision))?;
    Ok(Record { user, revision })
}

/// scope, name, rules, quotas
pub(super) fn role_params(role: &Role) -> Result<Vec<Param>, StoreError> {
    Ok(vec![
        Param::Text(role.zone.as_deref().unwrap_or_default().to_owned()),
        Param::Text(role.name.to_string()),
        Param::Text(json(&role.rules)?),
        Param::Text(json(&role.quotas)?),
    ])
}

/// scope, name, rules, quotas
pub(super) fn role(row: Row) -> Result<Role, StoreError> {
    let [scope, name, rules, quotas] = columns(row)?;
    let scope = text(scope.as_ref(), "scope")?;
    let name = text(name.as_ref(), "name")?;
    // The message names the column and the role, so that an operator finds it.
    let place = |column: &str| format!("{column} of the role {name:?}");
    Ok(Role {
        zone: (!scope.is_empty()).then(|| Arc::from(scope)),
        name: name.into(),
        rules: from_json(rules.as_ref(), &place("rules"))?,
        quotas: from_json(quotas.as_ref(), &place("quotas"))?,
    })
}

/// name, connections
pub(super) fn zone(row: Row) -> Result<ZoneRecord, StoreError> {
    let [name, connections] = columns(row)?;
    let name = text(name.as_ref(), "name of a row of the table stentor_zone")?;
    // The author of a bound wants one: an unreadable bound must not become no bound.
    let bound = |text: &str| match text.parse::<u64>() {
        Ok(count) => Ok(u32::try_from(count).unwrap_or(u32::MAX)),
        Err(_) => Err(StoreError::Content(format!(
            "the table stentor_zone has {:?} for connections in the row with the name {name:?}; \
             write a whole number there, or NULL for no bound",
            short(text)
        ))),
    };
    Ok(ZoneRecord {
        name: name.into(),
        connections: connections.as_deref().map(bound).transpose()?,
    })
}

/// A column that holds a count.
pub(super) fn number(column: Option<&Option<String>>) -> Result<u64, StoreError> {
    let text = column.and_then(Option::as_deref).unwrap_or_default();
    text.parse().map_err(|_| content("a count", text))
}

fn columns<const N: usize>(row: Row) -> Result<[Option<String>; N], StoreError> {
    row.try_into()
        .map_err(|_| StoreError::Content("a row has other columns than asked for".to_owned()))
}

fn text<'a>(column: Option<&'a String>, name: &str) -> Result<&'a str, StoreError> {
    column
        .map(String::as_str)
        .ok_or_else(|| StoreError::Content(format!("{name} is missing")))
}

/// What is shown of a value is short, and never of one that may be secret.
fn content(name: &str, value: &str) -> StoreError {
    StoreError::Content(format!("{name} is {:?}", short(value)))
}

/// The beginning of a text, which may be of any length.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

fn json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Content(error.to_string()))
}

fn from_json<T: DeserializeOwned>(column: Option<&String>, name: &str) -> Result<T, StoreError> {
    serde_json::from_str(text(column, name)?)
        .map_err(|error| StoreError::Content(format!("the column {name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_that_cannot_be_read_is_named() {
        let row = ["", "boss", "allow everything", "{}"].map(|text| Some(text.to_owned()));
        let error = role(row.into())
            .expect_err("that is no list of rules")
            .to_string();
        assert!(error.contains("rules of the role \"boss\""), "{error}");
    }

    #[test]
    fn a_zone_whose_bound_makes_no_sense_is_named_with_what_helps() {
        for bound in ["-5", "many", "", "1.5"] {
            let row = ["game", bound].map(|text| Some(text.to_owned()));
            let error = zone(row.into()).expect_err("that is no bound").to_string();
            for words in ["stentor_zone", "\"game\"", &format!("{bound:?}"), "NULL"] {
                assert!(error.contains(words), "{words} is missing: {error}");
            }
        }
        let row = vec![Some("game".to_owned()), None];
        assert_eq!(zone(row).ok(), Some(ZoneRecord::new("game")));
    }
}
