//! Who calls: a user of this machine, or who shows a token.

use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};
use stentor_auth::credential::TokenHash;
use stentor_procedure::Caller;

use crate::config::Listener;

/// The zone of callers, until listeners and tokens name one.
const ZONE: &str = "default";
/// Tokens that are kept.
const TOKENS_MAX: usize = 10_000;

/// Which users and groups of this machine may call on a listener, and as whom.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identities {
    users: Vec<(u32, String)>,
    groups: Vec<(u32, String)>,
}

impl Identities {
    /// Those of a listener.
    ///
    /// # Errors
    /// When a user or group is unknown.
    pub(super) fn of(listener: &Listener) -> Result<Self, String> {
        let users = match (&listener.allow_uid, &listener.allow_gid) {
            (None, None) => vec![
                (0, "root".to_owned()),
                (Uid::effective().as_raw(), "server".to_owned()),
            ],
            (text, _) => entries(text.as_deref().unwrap_or_default(), "allow_uid", |name| {
                match User::from_name(name) {
                    Ok(Some(user)) => Ok(user.uid.as_raw()),
                    _ => Err(format!(
                        "allow_uid: there is no user {name} on this machine"
                    )),
                }
            })?,
        };
        let text = listener.allow_gid.as_deref().unwrap_or_default();
        let groups = entries(text, "allow_gid", |name| match Group::from_name(name) {
            Ok(Some(group)) => Ok(group.gid.as_raw()),
            _ => Err(format!(
                "allow_gid: there is no group {name} on this machine"
            )),
        })?;
        Ok(Self { users, groups })
    }

    /// Who a program of this machine is, by what the system says about it.
    pub(super) fn caller(&self, uid: Uid, gid: Gid) -> Caller {
        let find = |list: &[(u32, String)], id: u32| {
            let found = list.iter().find(|(known, _)| *known == id);
            found.map(|(_, name)| name.clone())
        };
        let name = find(&self.users, uid.as_raw()).or_else(|| find(&self.groups, gid.as_raw()));
        match name {
            Some(name) => user(name),
            None => Caller::Anonymous(format!("uid {uid}")),
        }
    }
}

fn user(name: String) -> Caller {
    Caller::User {
        zone: ZONE.to_owned(),
        name,
    }
}

/// Reads `mail, 1000=filter`.
fn entries(
    text: &str,
    key: &str,
    find: impl Fn(&str) -> Result<u32, String>,
) -> Result<Vec<(u32, String)>, String> {
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    items
        .map(|item| {
            let (id, name) = item.split_once('=').unwrap_or((item, item));
            let (id, name) = (id.trim(), name.trim());
            if name.is_empty() || name.contains(['/', '+', '#', '$']) {
                return Err(format!("{key}: \"{name}\" cannot be the name of a user"));
            }
            let number = match id.parse() {
                Ok(number) => number,
                Err(_) => find(id)?,
            };
            Ok((number, name.to_owned()))
        })
        .collect()
}

/// Who calls with which token.
#[derive(Default)]
pub(super) struct Tokens(Vec<(String, TokenHash)>);

impl Tokens {
    /// Reads the file, if one is configured: lines `NAME token:HASH`, empty lines and comments
    /// (`#`).
    ///
    /// # Errors
    /// With the file, the line and what is wrong.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, String> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the tokens {shown}: {error}"))?;
        Self::parse(&text).map_err(|reason| format!("{shown}: {reason}"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index + 1;
            let Some((name, hash)) = line.split_once(char::is_whitespace) else {
                return Err(format!("line {number}: it is NAME token:HASH"));
            };
            let hash =
                TokenHash::parse(hash.trim()).map_err(|error| format!("line {number}: {error}"))?;
            tokens.push((name.to_owned(), hash));
            if tokens.len() > TOKENS_MAX {
                return Err(format!("line {number}: more than {TOKENS_MAX} tokens"));
            }
        }
        Ok(Self(tokens))
    }

    /// Who shows a token; `None` if nobody has this one. Without a token, nobody in particular.
    pub(super) fn caller(&self, token: &[u8], address: String) -> Option<Caller> {
        if token.is_empty() {
            return Some(Caller::Anonymous(address));
        }
        let shown = TokenHash::of(token);
        let found = self.0.iter().find(|(_, known)| known.matches(&shown));
        found.map(|(name, _)| user(name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(uid: Option<&str>, gid: Option<&str>) -> Listener {
        Listener {
            allow_uid: uid.map(str::to_owned),
            allow_gid: gid.map(str::to_owned),
            ..crate::listener::configured()
        }
    }

    fn name(identities: &Identities, uid: u32, gid: u32) -> String {
        let caller = identities.caller(Uid::from_raw(uid), Gid::from_raw(gid));
        caller.name().to_owned()
    }

    #[test]
    fn users_of_this_machine_are_known_by_number_name_and_group() {
        let listed = Identities::of(&listener(Some("root, 1000=filter"), Some("12=post"))).unwrap();
        assert_eq!(name(&listed, 0, 0), "root");
        assert_eq!(name(&listed, 1000, 1000), "filter");
        assert_eq!(name(&listed, 1001, 12), "post");
        assert_eq!(name(&listed, 1001, 1000), "");
        let default = Identities::of(&listener(None, None)).unwrap();
        assert_eq!(name(&default, 0, 0), "root");
        assert_eq!(name(&default, 54_321, 54_321), "");
        // Whoever names a group names all who may.
        let group = Identities::of(&listener(None, Some("12"))).unwrap();
        assert_eq!(
            (name(&group, 0, 0), name(&group, 0, 12)),
            (String::new(), "12".to_owned())
        );
    }

    #[test]
    fn mistakes_name_the_key_and_the_value() {
        for (uid, gid, words) in [
            (Some("no such user"), None, ["allow_uid", "no such user"]),
            (None, Some("no such group"), ["allow_gid", "no such group"]),
            (Some("0=a/b"), None, ["allow_uid", "a/b"]),
            (Some("0="), None, ["allow_uid", "name"]),
        ] {
            let error = Identities::of(&listener(uid, gid)).unwrap_err();
            for word in words {
                assert!(error.contains(word), "{word} is not in {error}");
            }
        }
    }

    #[test]
    fn a_token_is_a_user_and_a_wrong_one_is_nobody() {
        let token = stentor_auth::credential::Token::generate().unwrap();
        let text = format!("# filters\n\npostfix {}\n", token.hash());
        let tokens = Tokens::parse(&text).unwrap();
        let caller = |shown: &[u8]| tokens.caller(shown, "192.0.2.1".to_owned());
        assert_eq!(caller(token.reveal().as_bytes()).unwrap().name(), "postfix");
        assert_eq!(caller(b"guess"), None);
        assert_eq!(caller(b""), Some(Caller::Anonymous("192.0.2.1".to_owned())));
        for (text, line) in [("postfix", "line 1"), ("#\npostfix secret", "line 2")] {
            let error = Tokens::parse(text).err().expect("a mistake");
            assert!(error.contains(line), "{error}");
        }
    }
}
