//! JSON web tokens.

use std::sync::Arc;
use std::time::Instant;

use super::throttle::{Admission, Bearer};
use super::zones::is_reserved;
use super::{LoginAttempt, Proof, Shared, now_secs};
use crate::credential::jwt::{Claims, Rejected, check_len, examine};
use crate::model::{User, UserKey};
use crate::{Answer, Decision, JwtRefusal, Refusal, Secret};

impl Shared {
    /// Checks the signature on a thread of its own, then asks whether the bearer is known.
    pub(super) fn begin_jwt(self: &Arc<Self>, login: LoginAttempt, token: Secret, answer: Answer) {
        // A token that waits for the check of its signature takes memory.
        if let Err(error) = check_len(token.reveal()) {
            let bearer = Bearer::Unproven(login.address);
            return self.bar(bearer, JwtRefusal::Token(error), answer);
        }
        let shared = Arc::downgrade(self);
        let luggage = (login, token, answer);
        let job = move |(login, token, answer): (LoginAttempt, Secret, Answer)| {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let settings = shared.settings.load();
            match examine(&settings.issuers, token.reveal(), now_secs()) {
                Ok(claims) => shared.find_bearer(login, claims, answer),
                Err(Rejected { error, bearer }) => {
                    let bearer = match bearer {
                        Some(key) => Bearer::Proven(LoginAttempt { key, ..login }),
                        None => Bearer::Unproven(login.address),
                    };
                    shared.bar(bearer, JwtRefusal::Token(error), answer);
                }
            }
        };
        if let Err((_, _, answer)) = self.signatures.submit(luggage, job) {
            answer.give(Decision::Refused(Refusal::Busy));
        }
    }

    fn find_bearer(self: &Arc<Self>, login: LoginAttempt, claims: Claims, answer: Answer) {
        let bearer = UserKey::new(Arc::clone(&claims.zone), Arc::clone(&claims.user));
        // A client that says its name must say the token's; the zone it may leave to it.
        let said = &login.key;
        let is_said = said.name == bearer.name && (!login.says_zone || said.zone == bearer.zone);
        let is_elsewhere = login.zone.as_ref().is_some_and(|zone| *zone != bearer.zone);
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
        let login = LoginAttempt {
            key: bearer.clone(),
            ..login
        };
        if let Some(refusal) = refusal {
            return self.bar(Bearer::Proven(login), refusal, answer);
        }
        let shared = Arc::clone(self);
        let answer = answer.or(Refusal::Busy);
        let found = Box::new(move |found: Result<Option<Arc<User>>, _>| match found {
            Ok(user) => match shared.bearer_refusal(&login, user.as_ref(), &claims) {
                Some(refusal) => shared.bar(Bearer::Proven(login), refusal, answer),
                None => answer.give(shared.accept_bearer(&login, user.as_ref(), claims)),
            },
            Err(_) => answer.give(Decision::Refused(Refusal::Unavailable)),
        });
        // If it is refused, the dropped answer has said so.
        let _ = self.accounts.look_up(bearer, found);
    }

    /// The token is genuine. A user who is known and disabled stays out, also when somebody else
    /// does not know that user any more.
    fn bearer_refusal(
        &self,
        login: &LoginAttempt,
        user: Option<&Arc<User>>,
        claims: &Claims,
    ) -> Option<JwtRefusal> {
        let has_home = match user {
            Some(user) => self.has_home(user),
            None => self.grants.has_zone(&claims.zone),
        };
        match user {
            _ if !has_home => Some(JwtRefusal::NoZone),
            _ if self.is_shut_out(&login.key, user) => Some(JwtRefusal::Disabled),
            None if claims.known_users => Some(JwtRefusal::Unknown),
            Some(_) | None => None,
        }
    }

    fn accept_bearer(
        &self,
        login: &LoginAttempt,
        user: Option<&Arc<User>>,
        claims: Claims,
    ) -> Decision {
        let proof = Proof {
            expires_at_secs: Some(claims.expires_at_secs),
            roles: claims.roles,
            rules: claims.rules,
            token: None,
            secret: None,
        };
        let decision = self.accept(login, user, proof, None);
        if matches!(decision, Decision::Accepted(..)) {
            self.throttle.bearer_succeeded(login.address);
        }
        decision
    }

    /// A token does not let in. The answer to one more waits, so that whoever tries again and again
    /// does so slowly.
    fn bar(self: &Arc<Self>, bearer: Bearer, why: JwtRefusal, answer: Answer) {
        let now = Instant::now();
        let admission = match self.settings.load().slow_failures {
            true => self.throttle.admit_bearer(now, &bearer),
            false => Admission::Free,
        };
        match admission {
            Admission::Free | Admission::Now => {
                self.throttle.bearer_failed(now, &bearer);
                answer.give(Decision::JwtRefused(why));
            }
            Admission::At(time, cause) => {
                let luggage = (bearer, why, answer);
                let put = self.put_off(time, cause, luggage, |shared, luggage| {
                    let (bearer, why, answer) = luggage;
                    shared.throttle.bearer_failed(Instant::now(), &bearer);
                    answer.give(Decision::JwtRefused(why));
                });
                if let Err((_, _, answer)) = put {
                    answer.give(Decision::Refused(Refusal::Busy));
                }
            }
            Admission::Never => answer.give(Decision::Refused(Refusal::Slowed)),
        }
    }
}
