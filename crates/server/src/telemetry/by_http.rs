//! What is noted of requests by HTTP: refusals, and logins.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stentor_auth::store::{Directory, Who};
use stentor_control::events::Kind;
use stentor_control::{Need, Verb};
use tracing::{info, warn};

use super::events::{Noted, ZoneOf};
use super::journal::{Pace, shown};
use crate::listener::Port;
use crate::log::{Admission, RateLimit};
use crate::peer::Peer;

/// Bytes of a text that are kept: a request may have named something long.
const TEXT_BYTES_MAX: usize = 2_048;

/// Lines of the audit log about what one user was denied, in a period.
const AUDIT_MAX: u32 = 10;
const AUDIT_PERIOD: Duration = Duration::from_secs(10);

/// Users whose lines are counted. When more come, all counts begin again.
const USERS_MAX: usize = 1_000;

/// A request that was refused, or a login.
#[derive(Debug)]
pub(crate) struct ByHttp {
    /// [`Kind::Refused`], [`Kind::Denied`] or [`Kind::LoggedIn`].
    pub(crate) kind: Kind,
    /// A word of [`stentor_admin::REASONS`]; empty for a login.
    pub(crate) reason: &'static str,
    /// The user, as at a login, or whom the request names; empty if that is nobody.
    pub(crate) user: Box<str>,
    pub(crate) peer: Option<Peer>,
    /// The entrance of all that come by HTTP.
    pub(crate) port: Arc<Port>,
    pub(crate) text: Box<str>,
    /// The verb that was denied.
    pub(crate) verb: Option<Verb>,
}

impl ByHttp {
    /// The same with names and texts that are not too long.
    pub(crate) fn shortened(mut self) -> Self {
        self.user = shown(&self.user).into();
        if self.text.len() > TEXT_BYTES_MAX {
            let end = self.text.floor_char_boundary(TEXT_BYTES_MAX);
            self.text = format!("{}…", &self.text[..end]).into();
        }
        self
    }

    /// For the events, unless too many of its reason are kept already.
    pub(super) fn noted(&self, pace: &mut Pace) -> Option<Noted> {
        let held_back = pace.admit_of(self.kind.label(), self.reason)?;
        let zone = match self.user.split_once('/') {
            Some((zone, _)) => Some(zone),
            None if self.kind == Kind::Refused => None,
            None => Some(stentor_auth::model::DEFAULT_ZONE),
        };
        Some(Noted {
            zone: zone.map(|zone| ZoneOf::Name(zone.into())),
            user: self.user.clone(),
            peer: self.peer,
            port: Some(Arc::clone(&self.port)),
            reason: self.reason,
            text: format!("by HTTP: {}", self.text).into(),
            held_back,
            ..Noted::new(self.kind)
        })
    }

    /// Writes a line of the log, unless there are too many of its reason.
    pub(super) fn write(&self, pace: &mut Pace) {
        let Some(held_back) = pace.admit_of(self.kind.label(), self.reason) else {
            return;
        };
        let peer = self.peer.map(|peer| peer.to_string()).unwrap_or_default();
        let (user, reason, text) = (&*self.user, self.reason, &*self.text);
        let listener = &self.port.url;
        match self.kind {
            Kind::LoggedIn => {
                info!(peer, %listener, user, held_back, "logged in by HTTP: {text}");
            }
            Kind::Denied => {
                warn!(peer, %listener, user, reason, held_back, "not permitted by HTTP: {text}");
            }
            _ => warn!(peer, %listener, user, reason, held_back, "refused by HTTP: {text}"),
        }
    }

    /// Writes a line of the audit log, if somebody was denied a change.
    pub(super) fn audit(&self, directory: &Directory, paces: &mut AuditPaces) {
        let is_change = |verb: &Verb| matches!(verb.need(), Need::Change | Need::Administer);
        let Some(verb) = self.verb.filter(is_change) else {
            return;
        };
        let Some(held_back) = paces.admit(&self.user) else {
            return;
        };
        let address = self.peer.and_then(Peer::address);
        let address = address.map_or_else(String::new, |address| format!(" from {address}"));
        let who = Who::new(format!("{} by HTTP{address}", self.user));
        let mut detail = json!({ "outcome": "denied", "reason": &*self.text });
        if held_back > 0 {
            detail["held_back"] = json!(held_back);
        }
        directory.note(&who, verb.name(), &verb.right(), detail);
    }
}

/// Limits the lines of the audit log about what users were denied, for each user apart.
#[derive(Debug, Default)]
pub(super) struct AuditPaces(HashMap<Box<str>, RateLimit>);

impl AuditPaces {
    /// Whether a line about this user is written now, and how many were not since the last one.
    fn admit(&mut self, user: &str) -> Option<u64> {
        if !self.0.contains_key(user) && self.0.len() >= USERS_MAX {
            self.0.clear();
        }
        let limit = RateLimit::new(AUDIT_MAX, AUDIT_PERIOD);
        let limit = self.0.entry(user.into()).or_insert(limit);
        match limit.admit(Instant::now()) {
            Admission::Write { held_back } => Some(held_back),
            Admission::HoldBack => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_does_not_fill_the_audit_log_and_hides_no_other() {
        let mut paces = AuditPaces::default();
        let admitted = (0..100).filter(|_| paces.admit("ann").is_some());
        assert_eq!(admitted.count(), AUDIT_MAX as usize);
        assert_eq!(paces.admit("ben"), Some(0));
        for user in 0..USERS_MAX {
            paces.admit(&user.to_string());
        }
        assert!(paces.0.len() <= USERS_MAX);
    }

    #[test]
    fn long_texts_are_cut() {
        let long = ByHttp {
            kind: Kind::Refused,
            reason: "wrong-login",
            user: "ä".repeat(9_000).into(),
            peer: None,
            port: Arc::new(Port::http()),
            text: "ä".repeat(9_000).into(),
            verb: None,
        };
        let short = long.shortened();
        assert!(short.user.len() < 300 && short.text.len() <= TEXT_BYTES_MAX + 3);
    }
}
