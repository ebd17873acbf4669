//! JSON web tokens.

use std::sync::Arc;
use std::time::Instant;

use super::zones::is_reserved;
use super::{Proof, Shared, Visitor, now_secs};
use crate::credential::jwt::{Claims, check_len, verify};
use crate::model::{User, UserKey};
use crate::{Answer, Decision, JwtRefusal, Refusal, Secret};

impl Shared {
    /// Checks the signature on a thread of its own, then asks whether the bearer is known.
    pub(super) fn begin_jwt(self: &Arc<Self>, visitor: Visitor, token: Secret, answer: Answer) {
        // What waits for its signature to be checked takes memory.
        if let Err(error) = check_len(token.reveal()) {
            return answer.give(self.bar(&visitor, JwtRefusal::Token(error)));
        }
        let shared = Arc::downgrade(self);
        let luggage = (visitor, token, answer);
        let job = move |(visitor, token, answer): (Visitor, Secret, Answer)| {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let settings = shared.settings.load();
            match verify(&settings.issuers, token.reveal(), now_secs()) {
                Ok(claims) => shared.find_bearer(visitor, claims, answer),
                Err(error) => answer.give(shared.bar(&visitor, JwtRefusal::Token(error))),
            }
        };
        if let Err((_, _, answer)) = self.signatures.submit(luggage, job) {
            answer.give(Decision::Refused(Refusal::Busy));
        }
    }

    fn find_bearer(self: &Arc<Self>, visitor: Visitor, claims: Claims, answer: Answer) {
        let bearer = UserKey::new(Arc::clone(&claims.zone), Arc::clone(&claims.user));
        // A client that says its name must say the token's; the zone it may leave to it.
        let said = &visitor.key;
        let is_said = said.name == bearer.name && (!visitor.says_zone || said.zone == bearer.zone);
        let is_elsewhere = visitor
            .zone
            .as_ref()
            .is_some_and(|zone| *zone != bearer.zone);
        let is_other = !said.name.is_empty() && !is_said;
        let refusal = if is_elsewhere {
            Some(JwtRefusal::OtherZone)
        } else if is_other {
            Some(JwtRefusal::OtherUser)
        } else if is_reserved(&bearer) {
            Some(JwtRefusal::Reserved)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return answer.give(self.bar(&visitor, refusal));
        }
        let visitor = Visitor {
            key: bearer.clone(),
            ..visitor
        };
        let shared = Arc::clone(self);
        let answer = answer.or(Refusal::Busy);
        let found = Box::new(move |found: Result<Option<Arc<User>>, _>| {
            answer.give(match found {
                Ok(user) => shared.accept_bearer(&visitor, user.as_ref(), claims),
                Err(_) => Decision::Refused(Refusal::Unavailable),
            });
        });
        // If it is refused, the dropped answer has said so.
        let _ = self.accounts.look_up(bearer, found);
    }

    /// The token is genuine. Whoever is known and shut out stays out, also when somebody else does
    /// not know that user any more.
    fn accept_bearer(
        &self,
        visitor: &Visitor,
        user: Option<&Arc<User>>,
        claims: Claims,
    ) -> Decision {
        let has_home = match user {
            Some(user) => self.has_home(user),
            None => self.grants.has_zone(&claims.zone),
        };
        match user {
            _ if !has_home => return self.bar(visitor, JwtRefusal::NoZone),
            _ if self.is_shut_out(&visitor.key, user) => {
                return self.bar(visitor, JwtRefusal::Disabled);
            }
            None if claims.known_users => return self.bar(visitor, JwtRefusal::Unknown),
            Some(_) | None => {}
        }
        let proof = Proof {
            expires_at_secs: Some(claims.expires_at_secs),
            roles: claims.roles,
            rules: claims.rules,
            token: None,
            secret: None,
        };
        self.accept(visitor, user, proof, None)
    }

    /// It is not let in by its token, which counts like a wrong password.
    fn bar(&self, visitor: &Visitor, why: JwtRefusal) -> Decision {
        self.throttle.failed(Instant::now(), visitor);
        Decision::JwtRefused(why)
    }
}
