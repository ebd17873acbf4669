//! `login.link`, and what a login by HTTP takes and answers.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Secret, Verb};

/// `login.link`: makes a link that logs a browser in as the owner of the server. It works once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {}

/// The link.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    /// The whole link, by the address of HTTP that a browser on this machine reaches best.
    pub url: String,
    /// Its part behind the address, for another address of the same server.
    pub path: String,
    /// For how many seconds it works, if nobody opens it before.
    pub expires_secs: u64,
}

/// Leaves out the secret.
impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made")
            .field("expires_secs", &self.expires_secs)
            .finish_non_exhaustive()
    }
}

impl Request for Link {
    const VERB: Verb = Verb::LoginLink;
    type Answer = Made;
}

/// The body of `/api/v1/login`.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The user: `name`, or `zone/name`.
    #[schemars(length(min = 1, max = 511))]
    pub user: String,
    /// The password, or a token of the user.
    #[schemars(length(min = 1))]
    pub password: String,
    /// The zone of the user, if the name does not say it; the default zone if it is not given.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    pub zone: Option<String>,
}

/// Leaves out the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("zone", &self.zone)
            .finish_non_exhaustive()
    }
}

/// The body of `/api/v1/me/password`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// The password as it is.
    #[schemars(length(min = 1))]
    pub password: Secret,
    /// The password from now on, of 1 to 1,024 bytes.
    #[schemars(length(min = 1, max = 1_024))]
    pub new_password: Secret,
}

/// The answer of `/api/v1/me`: what the server knows of the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Me {
    /// The name as at a login: `zone/name` outside the default zone. For somebody who came by a
    /// link of `stentor console`, the maker of the link.
    pub name: String,
    /// The name within the zone; nothing for somebody who came by a link.
    pub user: Option<String>,
    /// The zone.
    pub zone: String,
    /// The names of the roles.
    pub roles: Vec<String>,
    /// The verbs that may be asked. What a request names may need another right besides.
    pub may: Vec<String>,
    /// The session, for a request with a cookie.
    pub session: Option<Session>,
}

/// A session of a browser.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Session {
    /// After how many seconds without a request it ends.
    pub idle_secs: u64,
    /// In how many seconds it ends in any case.
    pub ends_secs: u64,
}
