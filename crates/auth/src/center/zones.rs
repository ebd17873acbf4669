//! What single zones do otherwise: guests, second logins, and listeners that belong to them.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stentor_hub::{GuestMark, Identity};

use super::{Center, Grants, LoginAttempt, Proof, Shared};
use crate::credential::random;
use crate::model::{GUEST, NAME_BYTES_MAX, SERVER, UserKey};
use crate::{Decision, LoginRequest, Refusal};

/// What happens when a user logs in who is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecondLogin {
    /// Both stay.
    #[default]
    Allow,
    /// The newcomer is refused, unless it takes its own session over.
    Refuse,
    /// The newcomer stays, and who is there is disconnected.
    Replace,
}

/// What one zone has of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneRule {
    /// What happens when a user logs in who is there already.
    pub second_login: SecondLogin,
    /// Connections of one user, where there may be several; a role may say less.
    pub user_connections: Option<u32>,
    /// Connections of all its users. It goes before the limit in the user database.
    pub connections: Option<u32>,
    /// Guests that come in per second; `None` lets none in.
    pub guests_per_sec: Option<u32>,
}

/// The zones that have rules of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneRules(HashMap<Arc<str>, ZoneRule>);

impl FromIterator<(Arc<str>, ZoneRule)> for ZoneRules {
    fn from_iter<T: IntoIterator<Item = (Arc<str>, ZoneRule)>>(rules: T) -> Self {
        Self(rules.into_iter().collect())
    }
}

impl ZoneRules {
    /// The rules of a zone.
    #[must_use]
    pub fn of(&self, zone: &str) -> ZoneRule {
        self.0.get(zone).copied().unwrap_or_default()
    }

    /// Whether somebody without a password who says this name gets one as a guest.
    pub(super) fn takes_guest(&self, key: &UserKey) -> bool {
        &*key.name == GUEST && self.of(&key.zone).guests_per_sec.is_some()
    }
}

/// Whether this is a name as guests get one, or the server's own: nobody else comes by it, whoever
/// vouches.
pub(super) fn is_reserved(key: &UserKey) -> bool {
    let guest = key.name.strip_prefix(GUEST);
    guest.is_some_and(|rest| rest.starts_with('/')) || *key.name == *SERVER
}

/// The user that a login name means at a listener. If the listener belongs to a zone, a name
/// without a zone is of that zone, and a name of another zone is unknown.
pub(super) fn key(login: &str, pinned: Option<&Arc<str>>) -> Result<UserKey, Refusal> {
    let Some(zone) = pinned else {
        return Ok(UserKey::parse(login));
    };
    match login.split_once('/') {
        None => Ok(UserKey::new(Arc::clone(zone), login)),
        Some((said, name)) if *said == **zone => Ok(UserKey::new(Arc::clone(zone), name)),
        Some(_) => Err(Refusal::OtherZone),
    }
}

/// Why a client without valid credentials is refused, for the log. The answer to the client tells
/// neither whether the user exists nor whether the zone does.
pub(super) fn explain(grants: &dyn Grants, key: &UserKey, is_bare: bool) -> Refusal {
    if is_bare && &*key.name == GUEST {
        Refusal::NoGuests
    } else if !grants.has_zone(&key.zone) {
        Refusal::NoZone
    } else {
        Refusal::Credentials
    }
}

/// How fast guests come in: a second's worth at once.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<HashMap<Arc<str>, Second>>);

/// When a second began, and how many came in it.
#[derive(Clone, Copy, Debug)]
struct Second {
    began: Instant,
    came: u32,
}

impl Gate {
    fn admits(&self, now: Instant, zone: &Arc<str>, per_sec: u32) -> bool {
        // Every step leaves the table whole.
        let mut seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Second {
            began: now,
            came: 0,
        };
        let second = seconds.entry(Arc::clone(zone)).or_insert(new);
        if now.duration_since(second.began).as_secs() >= 1 {
            *second = new;
        }
        let is_open = second.came < per_sec;
        second.came += u32::from(is_open);
        is_open
    }
}

impl Center {
    /// Whether a zone has a role of this name, its own or one for all zones. One that it does not
    /// have gives nothing.
    #[must_use]
    pub fn has_role(&self, zone: &str, role: &str) -> bool {
        self.0.grants.has_role(zone, role)
    }

    /// Lets somebody in with these roles, for whom the operator's own code vouches: nobody else is
    /// asked. The name need not be a user's.
    #[must_use]
    pub fn vouch(&self, request: &LoginRequest, roles: Vec<Arc<str>>) -> Decision {
        let name = request.username.as_deref().unwrap_or_default();
        let key = match key(name, request.zone.as_ref()) {
            Ok(key) => key,
            Err(refusal) => return Decision::Refused(refusal),
        };
        let fits = |name: &str| (1..=NAME_BYTES_MAX).contains(&name.len());
        if !fits(&key.zone) || !fits(&key.name) || name.contains('\n') || is_reserved(&key) {
            return Decision::Refused(Refusal::Credentials);
        }
        if !self.0.grants.has_zone(&key.zone) {
            return Decision::Refused(Refusal::NoZone);
        }
        let login = LoginAttempt {
            key,
            says_zone: name.contains('/'),
            zone: request.zone.clone(),
            client_id: request.client_id.clone(),
            address: request.address,
            again: None,
            is_disabled: false,
        };
        let proof = Proof {
            roles: Some(roles),
            ..Proof::default()
        };
        self.0.accept(&login, None, proof, None)
    }
}

impl Shared {
    /// Gives somebody a name that nobody has: `guest/` and a random number. No added user has one
    /// with a slash.
    pub(super) fn let_in_guest(&self, login: LoginAttempt) -> Decision {
        let zone = Arc::clone(&login.key.zone);
        let per_sec = self.settings.load().zones.of(&zone).guests_per_sec;
        if !per_sec.is_some_and(|per_sec| self.gate.admits(Instant::now(), &zone, per_sec)) {
            return Decision::Refused(Refusal::GuestRate);
        }
        let Ok(bytes) = random::<8>() else {
            return Decision::Refused(Refusal::Unavailable);
        };
        let name = format!("{GUEST}/{:016x}", u64::from_le_bytes(*bytes));
        let login = LoginAttempt {
            key: UserKey::new(zone, name),
            ..login
        };
        let proof = Proof {
            roles: Some(vec![GUEST.into()]),
            ..Proof::default()
        };
        // The mark by which a guest is recognised when it comes back. Others may know its address,
        // which is not a secret, but they do not come from it.
        let mark = GuestMark(self.marks.hash_one((&login.key.zone, login.address)));
        match self.accept(&login, None, proof, None) {
            Decision::Accepted(identity, data) => {
                let guest = Some(mark);
                let identity = Arc::new(Identity {
                    guest,
                    ..(*identity).clone()
                });
                Decision::Accepted(identity, data)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_listener_of_a_zone_lets_nobody_else_in() {
        let game: Arc<str> = "game".into();
        let named = |login: &str| key(login, Some(&game)).map(|key| key.name.to_string());
        assert_eq!(named("ann").as_deref(), Ok("ann"));
        assert_eq!(named("game/ann").as_deref(), Ok("ann"));
        assert_eq!(named("default/ann"), Err(Refusal::OtherZone));
        assert_eq!(named("").as_deref(), Ok(""));
        assert_eq!(key("chat/ann", None).map(|key| key.zone), Ok("chat".into()));
    }

    #[test]
    fn a_name_of_guests_or_the_server_is_nobody_elses() {
        let is_taken = |login: &str| is_reserved(&UserKey::parse(login));
        assert!(is_taken("game/guest/3ac9"));
        assert!(is_taken("server") && is_taken("game/server") && !is_taken("game/servers"));
        assert!(!is_taken("game/guest"), "who asks for a name says this");
        assert!(!is_taken("game/guests/3ac9") && !is_taken("guest/ann"));
    }

    #[test]
    fn guests_come_in_at_their_rate() {
        let (gate, zone, start) = (Gate::default(), "game".into(), Instant::now());
        let came = |at| (0..10).filter(|_| gate.admits(at, &zone, 3)).count();
        assert_eq!(came(start), 3);
        assert_eq!(came(start + Duration::from_millis(900)), 0);
        assert_eq!(came(start + Duration::from_millis(1_100)), 3);
        assert!(
            gate.admits(start, &"chat".into(), 1),
            "each zone has its own"
        );
    }
}
