//! Tokens that were accepted, as far as nothing has changed since for their users.
//!
//! Every change of users, roles and zones is held against them, as it is against sessions. A change
//! of somebody else leaves them known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stentor_admin::Proof;
use stentor_auth::center::{Center, Renewals, as_of};
use stentor_auth::credential::TokenHash;
use stentor_auth::rights::Unrestricted;
use stentor_hub::{Identity, Renewal, Renewed};
use stentor_session::Tick;
use stentor_topic::Zone;

use super::meter::Meter;

/// Tokens that are remembered.
const KNOWN_MAX: usize = 1_000;

/// Somebody whose token or password was accepted.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) identity: Arc<Identity>,
    /// The maker of the link that let in the owner of the server.
    maker: Option<Arc<str>>,
    /// It counts on over changes of the user's rights.
    pub(super) meter: Arc<Meter>,
    /// The hash of a password that the user gives himself in this session, which outlives that.
    pub(super) own_password: Option<Arc<str>>,
    /// The number of the last change that it was held against.
    as_of: u64,
}

impl Known {
    pub(super) fn new(identity: Arc<Identity>) -> Self {
        let as_of = as_of(&identity);
        Self {
            identity,
            maker: None,
            meter: Arc::default(),
            own_password: None,
            as_of,
        }
    }

    /// The owner of the server, by a link that somebody has made on the control socket. No change
    /// of users touches him.
    pub(super) fn owner(maker: &str) -> Self {
        let identity = Identity {
            user: None,
            zone: Zone::DEFAULT,
            rights: Arc::new(Unrestricted::default()),
            expires_at: Tick::NEVER,
            guest: None,
        };
        Self {
            maker: Some(maker.into()),
            ..Self::new(Arc::new(identity))
        }
    }

    /// The name as at a login, or the maker of the link. `zone` is the name of the zone.
    pub(super) fn login(&self, zone: &str) -> String {
        let user = self.identity.user.as_deref();
        match (&self.maker, self.identity.zone == Zone::DEFAULT) {
            (Some(maker), _) => (**maker).to_owned(),
            (None, true) => user.unwrap_or_default().to_owned(),
            (None, false) => format!("{zone}/{}", user.unwrap_or_default()),
        }
    }

    /// Whether nothing has changed since, and no change is on its way.
    pub(super) fn is_current(&self, center: &Center) -> bool {
        center.is_current_as_of(&self.identity, self.as_of)
    }

    /// Whether a change ends it by another password than the one that the user gives himself here.
    pub(super) fn ends_by(&self, change: &Renewals) -> bool {
        let is_own = |hash: &Arc<str>| change.has_password(&self.identity, hash);
        change.ends_password(&self.identity) && !self.own_password.as_ref().is_some_and(is_own)
    }

    /// Holds a change against it; whether it is known after that.
    pub(super) fn renew(&mut self, change: &Renewals) -> bool {
        let number = change.number();
        if self.as_of >= number {
            return true;
        }
        // One that has missed a change, because it was being looked up, is asked for again.
        if self.as_of + 1 != number {
            return false;
        }
        self.as_of = number;
        match change.renew(&self.identity, "") {
            Renewed::Keep => true,
            Renewed::Replace(identity) => {
                self.identity = identity;
                true
            }
            Renewed::Close { .. } => false,
        }
    }
}

/// What a proof is remembered by.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum Mark {
    Token(TokenHash),
    /// The name in a certificate.
    Certificate(Box<str>),
}

impl Mark {
    pub(super) fn of(proof: Proof<'_>) -> Self {
        match proof {
            Proof::Token(token) => Self::Token(TokenHash::of(token.as_bytes())),
            Proof::Certificate(name) => Self::Certificate(name.into()),
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct KnownTokens(Mutex<HashMap<Mark, Known>>);

impl KnownTokens {
    /// Holds a change against all of them, before anybody else hears of it.
    pub(crate) fn renew(&self, change: &Renewals) {
        self.lock().retain(|_, known| known.renew(change));
    }

    /// The bearer of a token, if it is known and no change is on its way.
    pub(super) fn find(&self, center: &Center, mark: &Mark) -> Option<Known> {
        let known = self.lock();
        let found = known.get(mark)?;
        found.is_current(center).then(|| found.clone())
    }

    /// Remembers a token.
    pub(super) fn keep(&self, mark: Mark, bearer: Known) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(mark, bearer);
    }

    /// Each entry is put in, changed or taken out in one step.
    fn lock(&self) -> MutexGuard<'_, HashMap<Mark, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
