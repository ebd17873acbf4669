//! JSON web tokens.

use std::sync::Arc;

use super::zones::is_reserved;
use super::{Proof, Shared, Visitor, now_secs};
use crate::credential::jwt::{Claims, verify};
use crate::model::{Login, MEMBER, User, UserKey};
use crate::{Answer, Decision, Refusal, Secret};

impl Shared {
    /// Checks the signature on a thread of its own, then asks whether the bearer is known.
    pub(super) fn begin_jwt(self: &Arc<Self>, visitor: Visitor, token: Secret, answer: Answer) {
        let shared = Arc::downgrade(self);
        let luggage = (visitor, token, answer);
        let job = move |(visitor, token, answer): (Visitor, Secret, Answer)| {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let settings = shared.settings.load();
            match verify(&settings.issuers, token.reveal(), now_secs()) {
                Ok(claims) => shared.find_bearer(visitor, claims, answer),
                Err(_) => answer.give(shared.fail(&visitor)),
            }
        };
        if let Err((_, _, answer)) = self.signatures.submit(luggage, job) {
            answer.give(Decision::Refused(Refusal::Busy));
        }
    }

    fn find_bearer(self: &Arc<Self>, visitor: Visitor, claims: Claims, answer: Answer) {
        let bearer = UserKey::new(Arc::clone(&claims.zone), Arc::clone(&claims.user));
        // A client that says its name must say the token's.
        let said = Login {
            zone: &visitor.key.zone,
            name: &visitor.key.name,
        };
        let is_elsewhere = visitor
            .zone
            .as_ref()
            .is_some_and(|zone| *zone != bearer.zone);
        let is_other = is_elsewhere || !said.name.is_empty() && visitor.key != bearer;
        if is_other || is_reserved(&bearer) {
            return answer.give(self.fail(&visitor));
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

    /// The token is genuine. Whoever is known and shut out stays out.
    fn accept_bearer(
        &self,
        visitor: &Visitor,
        user: Option<&Arc<User>>,
        claims: Claims,
    ) -> Decision {
        let is_refused = match user {
            Some(user) => user.disabled,
            None => claims.known_users,
        };
        if is_refused {
            return self.fail(visitor);
        }
        let roles = match (claims.roles, user) {
            (Some(roles), _) => Some(roles),
            (None, Some(_)) => None,
            // A token with rules of its own needs no role.
            (None, None) if claims.rules.is_empty() => Some(vec![MEMBER.into()]),
            (None, None) => Some(Vec::new()),
        };
        let proof = Proof {
            expires_at_secs: Some(claims.expires_at_secs),
            roles,
            rules: claims.rules,
            token: None,
        };
        self.accept(visitor, user, proof, None)
    }
}
