//! What users, roles and zones may be called, and how a login name says its zone.

use std::fmt;

use thiserror::Error;

/// The zone of logins that name none.
pub const DEFAULT_ZONE: &str = "default";

/// The sender of the server's own messages, which adaptors send. No user can have this name.
pub const SERVER: &str = "server";

/// Length limit of the names of users, roles and zones, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 255;

/// Length limit of one stored credential, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 1_024;

/// Why a text cannot be a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// It has no character.
    #[error("a name needs at least one character")]
    Empty,
    /// It is longer than [`NAME_BYTES_MAX`].
    #[error("a name has at most {NAME_BYTES_MAX} bytes")]
    TooLong,
    /// It contains a character that means something in topics.
    #[error("a name must not contain {0:?}: the characters / + # $ mean something in topics")]
    Reserved(char),
    /// It contains a control character.
    #[error("a name must not contain the control character U+{:04X}", u32::from(*.0))]
    Control(char),
    /// It begins or ends with white space.
    #[error("a name must not begin or end with white space")]
    Space,
    /// A user would have the name of [`SERVER`].
    #[error("no user is called {SERVER}: messages of the server's own are from that name")]
    Server,
}

/// Checks a name that somebody gives to a new user, role or zone. Names of users in an operator's
/// own tables are taken as they are, but for [`SERVER`].
///
/// # Errors
/// The first rule that the name breaks.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    if name.trim().len() != name.len() {
        return Err(NameError::Space);
    }
    let reserved = |c: &char| matches!(c, '/' | '+' | '#' | '$');
    if let Some(c) = name.chars().find(reserved) {
        return Err(NameError::Reserved(c));
    }
    match name.chars().find(|c| c.is_control()) {
        Some(c) => Err(NameError::Control(c)),
        None => Ok(()),
    }
}

/// A login name, split: `zone/user`, or `user` of the zone [`DEFAULT_ZONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Login<'a> {
    /// The zone.
    pub zone: &'a str,
    /// The name within the zone.
    pub name: &'a str,
}

impl<'a> Login<'a> {
    /// Splits at the first `/`.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        let (zone, name) = text.split_once('/').unwrap_or((DEFAULT_ZONE, text));
        Self { zone, name }
    }
}

/// As short as it can be written: without the zone [`DEFAULT_ZONE`].
impl fmt::Display for Login<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.zone == DEFAULT_ZONE && !self.name.contains('/') {
            f.write_str(self.name)
        } else {
            write!(f, "{}/{}", self.zone, self.name)
        }
    }
}

/// The login name of a user of a zone, as short as it can be written.
#[must_use]
pub fn login_name(zone: &str, name: &str) -> String {
    Login { zone, name }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_in_topics_are_refused() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for (name, expected) in [
            ("ann", Ok(())),
            ("Ann Lee", Ok(())),
            ("ann@example.org", Ok(())),
            ("用戶", Ok(())),
            (&long[1..], Ok(())),
            ("", Err(NameError::Empty)),
            (&long, Err(NameError::TooLong)),
            ("a/b", Err(NameError::Reserved('/'))),
            ("a+", Err(NameError::Reserved('+'))),
            ("#", Err(NameError::Reserved('#'))),
            ("$SYS", Err(NameError::Reserved('$'))),
            ("a\0b", Err(NameError::Control('\0'))),
            ("a\nb", Err(NameError::Control('\n'))),
            (" ann", Err(NameError::Space)),
            ("ann\n", Err(NameError::Space)),
        ] {
            assert_eq!(check_name(name), expected, "{name:?}");
        }
    }

    #[test]
    fn a_login_name_says_its_zone_or_means_the_default() {
        for (text, zone, name, shown) in [
            ("ann", DEFAULT_ZONE, "ann", "ann"),
            ("default/ann", DEFAULT_ZONE, "ann", "ann"),
            ("game/ann", "game", "ann", "game/ann"),
            ("game/a/b", "game", "a/b", "game/a/b"),
            ("default/a/b", DEFAULT_ZONE, "a/b", "default/a/b"),
            ("/ann", "", "ann", "/ann"),
            ("", DEFAULT_ZONE, "", ""),
        ] {
            let login = Login::parse(text);
            assert_eq!((login.zone, login.name), (zone, name), "{text:?}");
            assert_eq!(login.to_string(), shown);
        }
    }
}
