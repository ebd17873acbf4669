//! Users and what they prove themselves with.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{CREDENTIAL_BYTES_MAX, DEFAULT_ZONE, Login, NameError, SERVER, check_name, login_name};

/// How many credentials a user may have, expired tokens included.
pub const USER_CREDENTIALS_MAX: usize = 64;
/// How many roles a user may have.
pub const USER_ROLES_MAX: usize = 256;

/// Which user: a name within a zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UserKey {
    /// The zone.
    pub zone: Arc<str>,
    /// The name within the zone.
    pub name: Arc<str>,
}

impl UserKey {
    /// The user of a zone.
    #[must_use]
    pub fn new(zone: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            zone: zone.into(),
            name: name.into(),
        }
    }

    /// The user that a login name means.
    #[must_use]
    pub fn parse(login: &str) -> Self {
        let login = Login::parse(login);
        Self::new(login.zone, login.name)
    }
}

/// The login name, as short as it can be written.
impl fmt::Display for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&login_name(&self.zone, &self.name))
    }
}

/// Something that proves who a user is, as it is stored: a hash in a standard form, never a
/// password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The standard string: `$argon2id$…`, `$7$…`, `$2b$…`, `token:…` and so on. What it means is
    /// the business of the module `credential`.
    pub text: Arc<str>,
    /// What the user calls it, for tokens; empty for a password.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub label: Arc<str>,
    /// When it was made, in seconds since 1970; 0 if nobody knows.
    #[serde(default)]
    pub created_at_secs: u64,
    /// From when on it proves nothing any more, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_secs: Option<u64>,
    /// Whether somebody else keeps it, beside what Stentor's own store says of the user. Never
    /// written down.
    #[serde(skip)]
    pub foreign: bool,
}

impl Credential {
    /// A credential without label, date and end.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            label: Arc::default(),
            created_at_secs: 0,
            expires_at_secs: None,
            foreign: false,
        }
    }

    /// Its kind, for people: what stands before the first `$` or `:` of the text.
    #[must_use]
    pub fn kind(&self) -> &str {
        let text = &*self.text;
        let bare = text.strip_prefix('$').unwrap_or(text);
        let kind = bare.split_once(['$', ':']).map(|(kind, _)| kind);
        kind.unwrap_or("unknown")
    }
}

/// Leaves out the secret.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("kind", &self.kind())
            .field("label", &self.label)
            .field("expires_at_secs", &self.expires_at_secs)
            .finish_non_exhaustive()
    }
}

/// Somebody, or something, that may log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The zone.
    #[serde(default = "default_zone")]
    pub zone: Arc<str>,
    /// The name within the zone.
    pub name: Arc<str>,
    /// What the user may prove itself with: any one of these is enough.
    #[serde(default)]
    pub credentials: Vec<Credential>,
    /// The names of its roles.
    #[serde(default)]
    pub roles: Vec<Arc<str>>,
    /// Whether it may not log in for now.
    #[serde(default)]
    pub disabled: bool,
    /// Whether somebody else keeps it: then a record of ours only says what is different here, and
    /// is nobody where they do not know the user any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

fn default_zone() -> Arc<str> {
    DEFAULT_ZONE.into()
}

/// Why a user is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UserError {
    /// Its name, or that of its zone or of a role.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A credential is longer than [`CREDENTIAL_BYTES_MAX`].
    #[error("a credential has at most {CREDENTIAL_BYTES_MAX} bytes")]
    CredentialTooLong,
    /// It has more than [`USER_CREDENTIALS_MAX`] credentials.
    #[error("a user has at most {USER_CREDENTIALS_MAX} credentials; revoke tokens it does not use")]
    TooManyCredentials,
    /// It has more than [`USER_ROLES_MAX`] roles.
    #[error("a user has at most {USER_ROLES_MAX} roles")]
    TooManyRoles,
}

impl User {
    /// Which user this is.
    #[must_use]
    pub fn key(&self) -> UserKey {
        UserKey::new(Arc::clone(&self.zone), Arc::clone(&self.name))
    }

    /// Checks names and bounds.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), UserError> {
        check_name(&self.zone)?;
        check_name(&self.name)?;
        if *self.name == *SERVER {
            return Err(NameError::Server.into());
        }
        self.roles.iter().try_for_each(|role| check_name(role))?;
        if self.roles.len() > USER_ROLES_MAX {
            return Err(UserError::TooManyRoles);
        }
        if self.credentials.len() > USER_CREDENTIALS_MAX {
            return Err(UserError::TooManyCredentials);
        }
        for credential in &self.credentials {
            if credential.text.len() > CREDENTIAL_BYTES_MAX {
                return Err(UserError::CredentialTooLong);
            }
            if !credential.label.is_empty() {
                check_name(&credential.label)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MEMBER;

    fn ann() -> User {
        User {
            zone: DEFAULT_ZONE.into(),
            name: "ann".into(),
            credentials: vec![Credential::new("$argon2id$v=19$secret")],
            roles: vec![MEMBER.into()],
            disabled: false,
            foreign: false,
        }
    }

    #[test]
    fn a_user_is_checked_with_all_it_has() {
        assert_eq!(ann().check(), Ok(()));
        let refused = |change: fn(&mut User)| {
            let mut user = ann();
            change(&mut user);
            user.check().unwrap_err()
        };
        assert!(matches!(
            refused(|u| u.name = "a/b".into()),
            UserError::Name(_)
        ));
        assert!(matches!(
            refused(|u| u.zone = "".into()),
            UserError::Name(_)
        ));
        assert!(matches!(
            refused(|u| u.roles[0] = "#".into()),
            UserError::Name(_)
        ));
        let roles = refused(|u| u.roles = vec![MEMBER.into(); USER_ROLES_MAX + 1]);
        assert_eq!(roles, UserError::TooManyRoles);
        let credentials = refused(|u| {
            u.credentials = vec![u.credentials[0].clone(); USER_CREDENTIALS_MAX + 1];
        });
        assert_eq!(credentials, UserError::TooManyCredentials);
        let long = refused(|u| {
            u.credentials[0].text = "x".repeat(CREDENTIAL_BYTES_MAX + 1).into();
        });
        assert_eq!(long, UserError::CredentialTooLong);
        let label = refused(|u| u.credentials[0].label = "a\nb".into());
        assert!(matches!(label, UserError::Name(_)));
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", ann());
        assert!(
            shown.contains("argon2id") && !shown.contains("secret"),
            "{shown}"
        );
    }

    #[test]
    fn kinds_are_told_for_people() {
        for (text, kind) in [
            ("$argon2id$v=19$x", "argon2id"),
            ("$7$101$x$y", "7"),
            ("token:abc", "token"),
            ("SCRAM-SHA-256$4096:x$y:z", "SCRAM-SHA-256"),
            ("plain", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(Credential::new(text).kind(), kind, "{text}");
        }
    }

    #[test]
    fn users_survive_json_and_unknown_fields_do_not() {
        let json = serde_json::to_string(&ann()).unwrap();
        assert_eq!(serde_json::from_str::<User>(&json).unwrap(), ann());
        let least: User = serde_json::from_str(r#"{"name":"bob"}"#).unwrap();
        assert_eq!((&*least.zone, least.disabled), (DEFAULT_ZONE, false));
        assert!(serde_json::from_str::<User>(r#"{"name":"bob","admin":true}"#).is_err());
    }
}
