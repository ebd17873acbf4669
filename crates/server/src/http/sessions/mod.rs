//! Sessions of browsers: who has logged in by a password or a link, as far as nothing has changed
//! since for that user.
//!
//! A browser shows 256 random bits, of which only the hash is kept, in memory alone. Every change
//! of users, roles and zones is held against the sessions, as it is against MQTT sessions. So a
//! user who is disabled or has another password is out with the next request.

mod pace;
mod store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stentor_admin::NotAdmitted;
use stentor_auth::center::{Center, Renewals};
use stentor_auth::credential::{Token, TokenHash, is_token};
use stentor_control::login::Session as Told;
use stentor_session::Tick;

use super::known::Known;
use store::{AGE_MAX, Absent, IDLE_MAX, Session, Store};

/// See the module.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Store<Known>>);

/// Somebody's session.
pub(super) struct Found {
    pub(super) known: Known,
    pub(super) number: u64,
    pub(super) told: Told,
}

/// Whether a request asks, or a stream looks whether its session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    Request,
    Look,
}

impl Sessions {
    /// Begins a session of somebody: what the browser is to show. `None` if the user has changed
    /// in the meantime, or the system gives no random bytes.
    pub(super) fn begin(
        &self,
        center: &Center,
        now: Tick,
        owner: &Arc<str>,
        known: Known,
    ) -> Option<(String, Found)> {
        let secret = Token::generate().ok()?;
        let secret = secret.reveal().to_owned();
        let mut store = self.lock();
        // A change that comes later finds it here.
        if !known.is_current(center) {
            return None;
        }
        store.begin(now, mark(&secret), owner, known);
        let session = store.look(now, &mark(&secret))?;
        let found = found(session, now);
        Some((secret, found))
    }

    /// The session of somebody who shows this.
    pub(super) fn find(
        &self,
        center: &Center,
        now: Tick,
        secret: &str,
        visit: Visit,
    ) -> Result<Found, NotAdmitted> {
        if !is_token(secret.as_bytes()) {
            return Err(NotAdmitted::NoSession);
        }
        let mark = mark(secret);
        let mut store = self.lock();
        let session = match visit {
            Visit::Request => store.ask(now, &mark).map_err(|why| match why {
                Absent::Unknown => NotAdmitted::NoSession,
                Absent::TooFast(time) => NotAdmitted::TooFast(time),
            })?,
            Visit::Look => store.look(now, &mark).ok_or(NotAdmitted::NoSession)?,
        };
        if session.held.identity.expires_at <= now {
            store.end(&mark);
            return Err(NotAdmitted::NoSession);
        }
        match session.held.is_current(center) {
            true => Ok(found(session, now)),
            // A change is on its way here.
            false => Err(NotAdmitted::Unavailable),
        }
    }

    /// Ends the session of somebody who shows this.
    pub(super) fn end(&self, secret: &str) {
        self.lock().end(&mark(secret));
    }

    /// Holds a change against all of them, before anybody else hears of it.
    pub(crate) fn renew(&self, change: &Renewals) {
        self.lock()
            .retain(|known| !known.ends_by(change) && known.renew(change));
    }

    /// The owner of a session is about to have the password of this hash: that does not end the
    /// session.
    pub(super) fn outlives(&self, number: u64, hash: &Arc<str>) {
        if let Some(known) = self.lock().numbered(number) {
            known.own_password = Some(Arc::clone(hash));
        }
    }

    /// Each session is put in, changed or taken out in one step.
    fn lock(&self) -> MutexGuard<'_, Store<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn found(session: &Session<Known>, now: Tick) -> Found {
    let ends = session.left(now).min(AGE_MAX);
    let ends = ends.min(session.held.identity.expires_at.since(now));
    Found {
        known: session.held.clone(),
        number: session.number,
        told: Told {
            idle_secs: IDLE_MAX.as_secs(),
            ends_secs: ends.as_secs(),
        },
    }
}

/// What a secret is remembered by.
fn mark(secret: &str) -> String {
    TokenHash::of(secret.as_bytes()).to_string()
}
