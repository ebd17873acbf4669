//! `users.…`: who may log in, and with which roles.
//!
//! `name` is a login name, `ann` or `zone/ann`. With the key `zone`, it is the name within that
//! zone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Done, Request, Secret, Verb};

/// `users.ls`: users by zone and name; those of the configuration beside the first page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ls {
    /// The name of a zone: only its users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Only names that contain this.
    pub containing: String,
    /// Only what comes after this login name: `next` of the page before.
    pub after: Option<String>,
    /// Up to this many; 1,000 if it is not given, 10,000 at most.
    pub limit: Option<usize>,
}

impl Request for Ls {
    const VERB: Verb = Verb::UsersLs;
    type Answer = Page;
}

/// What `users.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Page {
    /// Users of the configuration, which come with the first page.
    pub configured: Vec<User>,
    /// Users of the user database.
    pub users: Vec<User>,
    /// The `after` of the next page; nothing on the last one.
    pub next: Option<String>,
    /// How many users the user database has, in the zone that was asked about.
    pub total: u64,
}

/// `users.show`: one user, without anything secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Show {
    /// The login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Request for Show {
    const VERB: Verb = Verb::UsersShow;
    type Answer = User;
}

/// `users.add`: adds a user, who can log in then. The server hashes the password.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Add {
    /// The login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The password, of 1 to 1,024 bytes. Without one, the user needs a token or a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Whether clients can prove the password by SCRAM too, without sending it.
    #[serde(default)]
    pub scram: bool,
    /// The user's roles; `member` if they are not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
    /// Whether the user may not log in yet.
    #[serde(default)]
    pub disabled: bool,
}

impl Request for Add {
    const VERB: Verb = Verb::UsersAdd;
    type Answer = User;
}

/// `users.set-password`: gives a user another password. The user's tokens stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetPassword {
    /// The login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The new password, of 1 to 1,024 bytes.
    pub password: Secret,
    /// Whether clients can prove it by SCRAM too. A user who could before still can.
    #[serde(default)]
    pub scram: bool,
}

impl Request for SetPassword {
    const VERB: Verb = Verb::UsersSetPassword;
    type Answer = User;
}

/// `users.disable`: keeps a user from logging in, and ends its connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disable {
    /// The login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Request for Disable {
    const VERB: Verb = Verb::UsersDisable;
    type Answer = User;
}

/// `users.enable`: lets a user log in again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enable {
    /// The login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Request for Enable {
    const VERB: Verb = Verb::UsersEnable;
    type Answer = User;
}

/// `users.rm`: deletes a user, and ends its connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rm {
    /// The login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Request for Rm {
    const VERB: Verb = Verb::UsersRm;
    type Answer = Done;
}

/// `users.grant`: gives roles to a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grant {
    /// The login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The names of the roles.
    pub roles: Vec<String>,
}

impl Request for Grant {
    const VERB: Verb = Verb::UsersGrant;
    type Answer = User;
}

/// `users.revoke`: takes roles from a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revoke {
    /// The login name.
    pub name: String,
    /// The name of the user's zone, if the login name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The names of the roles.
    pub roles: Vec<String>,
}

impl Request for Revoke {
    const VERB: Verb = Verb::UsersRevoke;
    type Answer = User;
}

/// A user, without anything secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct User {
    /// The login name: `ann`, or `zone/ann` outside the default zone.
    pub login: String,
    /// The name of the user's zone.
    pub zone: String,
    /// The name within the zone.
    pub name: String,
    /// The names of the user's roles.
    pub roles: Vec<String>,
    /// Whether the user may not log in.
    pub disabled: bool,
    /// What the user proves itself with.
    pub credentials: Vec<Credential>,
    /// Where the user is kept, if that is not the user database of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_by: Option<String>,
}

/// Something that a user proves itself with, without what is secret of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Credential {
    /// What it is: `argon2id` or another hash of a password, `SCRAM-SHA-256`, `token` or others.
    pub kind: String,
    /// The id of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What a token is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it was made, in UTC: `2026-11-30T12:00:00Z`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When a token expires, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_sent_and_never_shown() {
        let text = r#"{"name":"ann","password":"hunter2","scram":false,"disabled":false}"#;
        let add: Add = serde_json::from_str(text).expect("a request");
        assert_eq!(serde_json::to_string(&add).expect("it is JSON"), text);
        assert!(!format!("{add:?}").contains("hunter2"), "{add:?}");
    }
}
