//! The identity of a caller: a user of this machine, or the owner of a token.

use std::net::IpAddr;
use std::path::Path;

use nix::unistd::{Group, Uid, User};
use stentor_auth::Secret;
use stentor_auth::credential::{TokenHash, is_token};
use stentor_auth::model::{DEFAULT_ZONE, UserKey, check_name};
use stentor_procedure::Caller;

use crate::config::Listener;

/// Tokens that are kept.
const TOKENS_MAX: usize = 10_000;

/// The identity that a caller claims, before the Auth Center is asked.
#[derive(Clone, Debug)]
pub(super) enum Claim {
    /// Nobody in particular, from an address or as a user of this machine.
    Nobody(String),
    /// The owner of the server: root, or its own user.
    Owner(&'static str),
    /// The configuration says that it is this user.
    Vouched(UserKey),
    /// It shows something to be this user.
    Shown {
        /// Its login name.
        name: String,
        /// A token of the Auth Center.
        token: Secret,
        /// Where it comes from.
        address: Option<IpAddr>,
    },
}

impl Claim {
    /// The caller that this is, if the claim is true.
    pub(super) fn caller(&self) -> Caller {
        let user = |zone: &str, name: &str| Caller::User {
            zone: zone.to_owned(),
            name: name.to_owned(),
        };
        match self {
            Self::Nobody(address) => Caller::Anonymous(address.clone()),
            Self::Owner(name) => user(DEFAULT_ZONE, name),
            Self::Vouched(key) => user(&key.zone, &key.name),
            Self::Shown { name, .. } => {
                let key = UserKey::parse(name);
                user(&key.zone, &key.name)
            }
        }
    }
}

/// Which users and groups of this machine may call on a listener, and as whom.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identities {
    users: Vec<(u32, UserKey)>,
    groups: Vec<(u32, UserKey)>,
    /// Nobody is listed: root and the server's own user may do everything.
    has_owner: bool,
}

impl Identities {
    /// Those of a listener.
    ///
    /// # Errors
    /// When a user or group is unknown.
    pub(super) fn of(listener: &Listener) -> Result<Self, String> {
        let users = match (&listener.allow_uid, &listener.allow_gid) {
            (None, None) => Vec::new(),
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
        Ok(Self {
            users,
            groups,
            has_owner: listener.allow_uid.is_none() && listener.allow_gid.is_none(),
        })
    }

    /// The claim of a program of this machine, by what the system reports about it: its user, and
    /// its groups if they matter.
    pub(super) fn claim(&self, uid: Uid, groups: impl FnOnce() -> Vec<u32>) -> Claim {
        let find = |list: &[(u32, UserKey)], id: u32| {
            let found = list.iter().find(|(known, _)| *known == id);
            found.map(|(_, key)| key.clone())
        };
        if self.has_owner && uid.is_root() {
            return Claim::Owner("root");
        }
        if self.has_owner && uid == Uid::effective() {
            return Claim::Owner("server");
        }
        let by_group = || {
            // The first matching entry of the file counts, whatever the order of the groups.
            let has = if self.groups.is_empty() {
                Vec::new()
            } else {
                groups()
            };
            let entry = self.groups.iter().find(|(known, _)| has.contains(known));
            entry.map(|(_, key)| key.clone())
        };
        let key = find(&self.users, uid.as_raw()).or_else(by_group);
        match key {
            Some(key) => Claim::Vouched(key),
            None => Claim::Nobody(format!("uid {uid}")),
        }
    }
}

/// The user of a login name, `NAME` or `ZONE/NAME`.
fn user_of(name: &str) -> Option<UserKey> {
    let key = UserKey::parse(name);
    let is_valid = check_name(&key.zone).is_ok() && check_name(&key.name).is_ok();
    is_valid.then_some(key)
}

/// Reads `mail, 1000=filter`.
fn entries(
    text: &str,
    key: &str,
    find: impl Fn(&str) -> Result<u32, String>,
) -> Result<Vec<(u32, UserKey)>, String> {
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    items
        .map(|item| {
            let (id, name) = item.split_once('=').unwrap_or((item, item));
            let (id, name) = (id.trim(), name.trim());
            let user = user_of(name)
                .ok_or_else(|| format!("{key}: \"{name}\" cannot be the name of a user"))?;
            let number = match id.parse() {
                Ok(number) => number,
                Err(_) => find(id)?,
            };
            Ok((number, user))
        })
        .collect()
}

/// The users, each with the hash of a token.
#[derive(Default)]
pub(super) struct Tokens(Vec<(UserKey, TokenHash)>);

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
            let user = user_of(name)
                .ok_or_else(|| format!("line {number}: \"{name}\" cannot be the name of a user"))?;
            tokens.push((user, hash));
            if tokens.len() > TOKENS_MAX {
                return Err(format!("line {number}: more than {TOKENS_MAX} tokens"));
            }
        }
        Ok(Self(tokens))
    }

    /// The claim of a caller that shows a token; `None` if nobody can have this one. A token that
    /// is not in the file may be one of the Auth Center, with the name of its user before it:
    /// `NAME:TOKEN`.
    pub(super) fn claim(&self, token: &[u8], address: Option<IpAddr>) -> Option<Claim> {
        let shown = TokenHash::of(token);
        let found = self.0.iter().find(|(_, known)| known.matches(&shown));
        if let Some((key, _)) = found {
            return Some(Claim::Vouched(key.clone()));
        }
        let (name, token) = std::str::from_utf8(token).ok()?.rsplit_once(':')?;
        user_of(name)?;
        is_token(token.as_bytes()).then(|| Claim::Shown {
            name: name.to_owned(),
            token: Secret::new(token.as_bytes().to_vec()),
            address,
        })
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
        // A supplementary group comes after the first.
        let claim = identities.claim(Uid::from_raw(uid), || vec![54_321, gid]);
        claim.caller().name().into_owned()
    }

    #[test]
    fn users_of_this_machine_are_known_by_number_name_and_group() {
        let uid = Some("root, 1000=filter, 1002=game/filter");
        let listed = Identities::of(&listener(uid, Some("12=post"))).unwrap();
        assert_eq!(name(&listed, 0, 0), "root");
        assert_eq!(name(&listed, 1000, 1000), "filter");
        assert_eq!(name(&listed, 1002, 12), "game/filter");
        assert_eq!(name(&listed, 1001, 12), "post");
        assert_eq!(name(&listed, 1001, 1000), "");
        let root = listed.claim(Uid::from_raw(0), || vec![0]);
        assert!(matches!(root, Claim::Vouched(_)), "who is listed is a user");
        let default = Identities::of(&listener(None, None)).unwrap();
        let root = default.claim(Uid::from_raw(0), || vec![0]);
        assert!(matches!(root, Claim::Owner("root")));
        assert_eq!(name(&default, 54_321, 54_321), "");
        // An operator that names a group names all users that may.
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
            (Some("0=a/b/c"), None, ["allow_uid", "a/b/c"]),
            (Some("0=a+"), None, ["allow_uid", "a+"]),
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
        let claim = |shown: &[u8]| tokens.claim(shown, None);
        let shown = token.reveal();
        let vouched = claim(shown.as_bytes()).unwrap();
        assert_eq!(vouched.caller().name(), "postfix");
        assert!(matches!(vouched, Claim::Vouched(_)));
        // Whose that is, the Auth Center has to say.
        let named = claim(format!("game/filter:{shown}").as_bytes()).unwrap();
        assert_eq!(named.caller().name(), "game/filter");
        assert!(matches!(named, Claim::Shown { .. }));
        assert!(!format!("{named:?}").contains(shown));
        for guess in ["guess", "postfix:guess", &format!(":{shown}"), "", ":"] {
            assert!(claim(guess.as_bytes()).is_none(), "{guess}");
        }
        for (text, line) in [
            ("postfix", "line 1"),
            ("#\npostfix secret", "line 2"),
            (&*format!("a+ {}", token.hash()), "line 1"),
        ] {
            let error = Tokens::parse(text).err().expect("a mistake");
            assert!(error.contains(line), "{error}");
        }
    }
}
