//! The records of the Auth Center: users, roles, rules, quotas and zones, as plain values.
//!
//! They know no database, no clock and no hash. Code that makes one from what a person or a file
//! said calls its `check` (or its parser) first; the stores and the commands do.

mod name;
mod quotas;
mod role;
mod rule;
mod user;
mod zone;

pub use name::{
    CREDENTIAL_BYTES_MAX, DEFAULT_ZONE, Login, NAME_BYTES_MAX, NameError, SERVER, check_name,
    login_name,
};
pub use quotas::Quotas;
pub use role::{
    ADMIN, ANONYMOUS, GUEST, MEMBER, OPERATOR, ROLE_RULES_MAX, Role, RoleError, VIEWER, guest_role,
    initial_roles,
};
pub use rule::{Action, EVERY_DOLLAR, Effect, PATTERN_BYTES_MAX, PLACEHOLDERS, Rule, RuleError};
pub use user::{Credential, USER_CREDENTIALS_MAX, USER_ROLES_MAX, User, UserError, UserKey};
pub use zone::{ZoneError, ZoneRecord};
