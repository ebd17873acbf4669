//! Everybody who comes by HTTP and is known: by a token, by a session, or soon by a link.

use stentor_admin::Held;
use stentor_auth::center::Renewals;

use super::errands::Errands;
use super::known::KnownTokens;
use super::links::Links;
use super::sessions::Sessions;

/// See the module.
pub(crate) struct Visitors {
    /// By a token.
    pub(super) tokens: KnownTokens,
    /// By a session.
    pub(super) sessions: Sessions,
    /// By a link that is not opened yet.
    pub(crate) links: Links,
    /// What their event streams hold.
    pub(crate) streams: Held,
    /// What they publish.
    pub(crate) errands: Errands,
}

impl Visitors {
    /// Nobody yet.
    pub(crate) fn new(errands: Errands) -> Self {
        Self {
            tokens: KnownTokens::default(),
            sessions: Sessions::default(),
            links: Links::default(),
            streams: Held::default(),
            errands,
        }
    }

    /// Holds a change of users, roles or zones against all of them, before anybody else hears of
    /// it.
    pub(crate) fn renew(&self, change: &Renewals) {
        self.tokens.renew(change);
        self.sessions.renew(change);
    }
}
