//! Orders: how commands look at users, roles and zones, and change them.
//!
//! One order is one JSON object with a `verb`, as the control socket carries it. An order does the
//! same to a running server as a command does to the user database of a stopped one.

mod import;
mod roles;
mod test;
mod tokens;
mod users;
mod zones;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::StoreError;
use super::directory::Worker;
use crate::model::{Action, Credential, Quotas, Role, Rule, UserKey};

pub use import::Imported;

/// Users that one `user.import` carries.
pub const IMPORT_USERS_MAX: usize = 1_000;

/// Users that one page of a list has, if nothing else is asked for, and at most.
const PAGE: (usize, usize) = (1_000, 10_000);

/// The giver of an order, for the audit log.
#[derive(Clone, Debug)]
pub struct Who(Arc<str>);

impl Who {
    /// Somebody, in words: `uid 0 (control socket)`.
    #[must_use]
    pub fn new(words: impl Into<Arc<str>>) -> Self {
        Self(words.into())
    }

    /// The server itself.
    #[must_use]
    pub fn server() -> Self {
        Self::new("server")
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What can be ordered. `name` of a user is its login name: `ann` or `zone/ann`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "verb")]
pub enum Order {
    /// Adds a user.
    #[serde(rename = "user.add")]
    UserAdd {
        /// The login name.
        name: String,
        /// What it may prove itself with.
        #[serde(default)]
        credentials: Vec<Credential>,
        /// Its roles; not given, `member`.
        #[serde(default)]
        roles: Option<Vec<Arc<str>>>,
        /// Whether it may not log in yet.
        #[serde(default)]
        disabled: bool,
    },
    /// Lists users in the order of zone and name; those of the configuration beside the first.
    #[serde(rename = "user.list")]
    UserList {
        /// Only of this zone.
        #[serde(default)]
        zone: Option<String>,
        /// Only names that contain this.
        #[serde(default)]
        containing: String,
        /// Only what comes after this login name.
        #[serde(default)]
        after: Option<String>,
        /// At most this many.
        #[serde(default)]
        limit: Option<usize>,
    },
    /// Shows a user.
    #[serde(rename = "user.show")]
    UserShow {
        /// The login name.
        name: String,
    },
    /// Replaces all that a user proves itself with, except its tokens.
    #[serde(rename = "user.set-password")]
    UserSetPassword {
        /// The login name.
        name: String,
        /// The new credentials.
        credentials: Vec<Credential>,
    },
    /// Keeps a user from logging in, and ends its connections.
    #[serde(rename = "user.disable")]
    UserDisable {
        /// The login name.
        name: String,
    },
    /// Lets a user log in again.
    #[serde(rename = "user.enable")]
    UserEnable {
        /// The login name.
        name: String,
    },
    /// Deletes a user, and ends its connections.
    #[serde(rename = "user.delete")]
    UserDelete {
        /// The login name.
        name: String,
    },
    /// Answers whether a user may do something, and says which rule decides.
    #[serde(rename = "user.test")]
    UserTest {
        /// The login name.
        name: String,
        /// `publish` or `subscribe`.
        action: Action,
        /// The topic, or the filter of a subscription.
        topic: String,
        /// The client id of the connection that is meant, for rules with `{client}`.
        #[serde(default)]
        client_id: Option<String>,
    },
    /// Adds users, all or none: at most [`IMPORT_USERS_MAX`].
    #[serde(rename = "user.import")]
    UserImport {
        /// The users.
        users: Vec<Imported>,
        /// Whether users who exist are replaced, in what is given of them.
        #[serde(default)]
        replace: bool,
    },
    /// Says whether an import of these users would be refused, and changes nothing: at most
    /// [`IMPORT_USERS_MAX`].
    #[serde(rename = "user.import-check")]
    UserImportCheck {
        /// The users, with something in the place of each credential that is made later.
        users: Vec<Imported>,
        /// Whether users who exist are replaced, in what is given of them.
        #[serde(default)]
        replace: bool,
    },
    /// Lists users with what they prove themselves with.
    #[serde(rename = "user.export")]
    UserExport {
        /// Only of this zone.
        #[serde(default)]
        zone: Option<String>,
        /// Only what comes after this login name.
        #[serde(default)]
        after: Option<String>,
        /// At most this many.
        #[serde(default)]
        limit: Option<usize>,
    },
    /// Gives roles to a user.
    #[serde(rename = "grant")]
    Grant {
        /// The login name.
        name: String,
        /// The roles.
        roles: Vec<Arc<str>>,
    },
    /// Takes roles from a user.
    #[serde(rename = "revoke")]
    Revoke {
        /// The login name.
        name: String,
        /// The roles.
        roles: Vec<Arc<str>>,
    },
    /// Adds a role, or replaces it.
    #[serde(rename = "role.add")]
    RoleAdd {
        /// The zone; not given, all zones.
        #[serde(default)]
        zone: Option<Arc<str>>,
        /// The name.
        name: Arc<str>,
        /// Its rules.
        #[serde(default)]
        rules: Vec<Rule>,
        /// Its quotas.
        #[serde(default)]
        quotas: Quotas,
        /// Whether a role that exists is replaced.
        #[serde(default)]
        replace: bool,
    },
    /// Changes rules and quotas of a role.
    #[serde(rename = "role.change")]
    RoleChange {
        /// The zone; not given, all zones.
        #[serde(default)]
        zone: Option<Arc<str>>,
        /// The name.
        name: Arc<str>,
        /// Rules to add.
        #[serde(default)]
        add: Vec<Rule>,
        /// Rules to remove.
        #[serde(default)]
        remove: Vec<Rule>,
        /// Quotas to set; the others stay.
        #[serde(default)]
        quotas: Quotas,
        /// Names of the quotas to take away.
        #[serde(default)]
        unbound: Vec<String>,
    },
    /// Lists roles.
    #[serde(rename = "role.list")]
    RoleList {},
    /// Shows a role.
    #[serde(rename = "role.show")]
    RoleShow {
        /// The zone; not given, all zones.
        #[serde(default)]
        zone: Option<Arc<str>>,
        /// The name.
        name: Arc<str>,
    },
    /// Deletes a role. A name that users keep would give them whatever is added under it later, so
    /// it is taken from them first, or the role stays.
    #[serde(rename = "role.delete")]
    RoleDelete {
        /// The zone; not given, all zones.
        #[serde(default)]
        zone: Option<Arc<str>>,
        /// The name.
        name: Arc<str>,
        /// Whether it is taken from users who have it.
        #[serde(default)]
        force: bool,
    },
    /// Gives a user a token, which was made by whoever orders it.
    #[serde(rename = "token.create")]
    TokenCreate {
        /// The login name.
        name: String,
        /// The token as it is stored.
        credential: Credential,
    },
    /// Lists a user's tokens.
    #[serde(rename = "token.list")]
    TokenList {
        /// The login name.
        name: String,
    },
    /// Takes a token away.
    #[serde(rename = "token.revoke")]
    TokenRevoke {
        /// The login name.
        name: String,
        /// The token's id, as the list shows it, or its label.
        id: String,
    },
    /// Adds a zone, or changes its bounds.
    #[serde(rename = "zone.add")]
    ZoneAdd {
        /// The name.
        name: Arc<str>,
        /// Connections of all its users at the same time.
        #[serde(default)]
        connections: Option<u32>,
    },
    /// Lists zones.
    #[serde(rename = "zone.list")]
    ZoneList {},
    /// Removes a zone that has no users.
    #[serde(rename = "zone.remove")]
    ZoneRemove {
        /// The name.
        name: Arc<str>,
    },
    /// Reads everything again that is known, at once, and says what cannot be read.
    #[serde(rename = "auth.refresh")]
    AuthRefresh {},
    /// Puts a better hash in the place of an outdated one. Only the server itself does this.
    #[serde(skip)]
    Upgrade {
        /// The user.
        key: UserKey,
        /// The hash that the user has.
        outdated: Arc<str>,
        /// The better one.
        better: Arc<str>,
    },
}

/// Why an order was not carried out: a code for programs, a sentence with a remedy for people.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct OrderError {
    /// `bad-request`, `unknown-verb`, `not-found`, `exists`, `conflict`, `refused`, `unavailable`
    /// or `busy`.
    pub code: &'static str,
    /// The sentence.
    pub message: String,
}

impl OrderError {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(super) fn busy() -> Self {
        Self::new(
            "busy",
            "too many orders wait, or the server stops; try again later",
        )
    }

    fn bad(reason: impl fmt::Display) -> Self {
        Self::new("bad-request", reason.to_string())
    }
}

impl From<StoreError> for OrderError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Unavailable(_) => "unavailable",
            StoreError::Refused(_) | StoreError::Content(_) | StoreError::File { .. } => "refused",
        };
        Self::new(code, error.to_string())
    }
}

impl Order {
    /// Whether a verb of the control socket is an order.
    #[must_use]
    pub fn is_verb(verb: &str) -> bool {
        let area = verb.split('.').next().unwrap_or_default();
        matches!(
            area,
            "user" | "role" | "grant" | "revoke" | "token" | "zone" | "auth"
        )
    }

    /// Reads an order.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(request: Value) -> Result<Self, OrderError> {
        let verb = request["verb"].as_str().unwrap_or_default().to_owned();
        serde_json::from_value(request).map_err(|error| {
            let reason = error.to_string();
            match reason.starts_with(&format!("unknown variant `{verb}`")) {
                true => OrderError::new("unknown-verb", format!("there is no verb {verb:?}")),
                false => OrderError::bad(reason),
            }
        })
    }
}

use Order as O;
use users::Page;

type Outcome = Result<Value, OrderError>;

async fn refresh(worker: &Worker) -> Outcome {
    let changed = worker.refresh().await?;
    let complaints = match &worker.books.source {
        None => Vec::new(),
        Some(source) => source.complaints().await?,
    };
    Ok(json!({ "changed": changed, "complaints": complaints }))
}

/// Carries an order out.
pub(super) async fn execute(worker: &Worker, who: &Who, order: Order) -> Outcome {
    match order {
        O::UserAdd {
            name,
            credentials,
            roles,
            disabled,
        } => users::add(worker, who, &name, credentials, roles, disabled).await,
        O::UserList {
            zone,
            containing,
            after,
            limit,
        } => users::list(worker, Page::new(zone, after, limit)?, &containing).await,
        O::UserShow { name } => users::show(worker, &name).await,
        O::UserSetPassword { name, credentials } => {
            users::set_password(worker, who, &name, credentials).await
        }
        O::UserDisable { name } => users::disable(worker, who, &name, true).await,
        O::UserEnable { name } => users::disable(worker, who, &name, false).await,
        O::UserDelete { name } => users::delete(worker, who, &name).await,
        O::UserTest {
            name,
            action,
            topic,
            client_id,
        } => test::test(worker, &name, action, &topic, client_id).await,
        O::UserImport { users, replace } => import::import(worker, who, users, replace).await,
        O::UserImportCheck { users, replace } => import::check_only(worker, users, replace).await,
        O::UserExport { zone, after, limit } => {
            users::export(worker, who, Page::new(zone, after, limit)?).await
        }
        O::Grant { name, roles } => users::grant(worker, who, &name, &roles).await,
        O::Revoke { name, roles } => users::revoke(worker, who, &name, &roles).await,
        O::RoleAdd {
            zone,
            name,
            rules,
            quotas,
            replace,
        } => roles::add(worker, who, Role::new(zone, name, rules, quotas), replace).await,
        O::RoleChange {
            zone,
            name,
            add,
            remove,
            quotas,
            unbound,
        } => {
            let edit = roles::Edit::new(add, remove, quotas, unbound);
            roles::change(worker, who, zone, name, edit).await
        }
        O::RoleList {} => roles::list(worker).await,
        O::RoleShow { zone, name } => roles::show(worker, zone.as_deref(), &name).await,
        O::RoleDelete { zone, name, force } => roles::delete(worker, who, zone, name, force).await,
        O::TokenCreate { name, credential } => tokens::create(worker, who, &name, credential).await,
        O::TokenList { name } => tokens::list(worker, &name).await,
        O::TokenRevoke { name, id } => tokens::revoke(worker, who, &name, &id).await,
        O::ZoneAdd { name, connections } => zones::add(worker, who, name, connections).await,
        O::ZoneList {} => zones::list(worker).await,
        O::ZoneRemove { name } => zones::remove(worker, who, &name).await,
        O::AuthRefresh {} => refresh(worker).await,
        O::Upgrade {
            key,
            outdated,
            better,
        } => users::upgrade(worker, who, &key, &outdated, better).await,
    }
}
