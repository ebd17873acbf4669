//! Passwords, tokens and certificates.

use std::sync::Arc;
use std::time::Instant;

use super::{Proof, Shared, Visitor, now_secs};
use crate::credential::{Cost, PasswordHash, Stored, TokenHash, Verdict};
use crate::model::{Credential, User};
use crate::{Answer, Decision, Refusal, Secret};

/// The credentials of a user that hold now.
pub(super) fn valid(user: &User) -> impl Iterator<Item = &Credential> {
    let now = now_secs();
    let holds = move |end: u64| end > now;
    user.credentials
        .iter()
        .filter(move |credential| credential.expires_at_secs.is_none_or(holds))
}

/// The credentials of a user that a password is compared with, parsed. One that cannot be parsed
/// proves nothing. The secrets of SCRAM are of the same password as each other and as the hash
/// beside them, if there is one: one comparison is enough.
fn password_credentials(user: &User) -> Vec<(&Credential, Stored)> {
    let parsed = valid(user).filter_map(|credential| {
        let stored = Stored::parse(&credential.text).ok()?;
        stored.cost().is_some().then_some((credential, stored))
    });
    let (mut hashes, mut secrets): (Vec<_>, Vec<_>) =
        parsed.partition(|(_, stored)| matches!(stored, Stored::Password(_)));
    if hashes.is_empty() {
        secrets.truncate(1);
        hashes = secrets;
    }
    hashes
}

/// A better hash for an outdated one.
struct Upgrade {
    outdated: Arc<str>,
    wanted: Cost,
}

impl Shared {
    pub(super) fn begin_certificate(self: &Arc<Self>, visitor: Visitor, answer: Answer) {
        self.find(visitor, answer, |shared, visitor, user, answer| {
            answer.give(match user {
                Some(user) => shared.accept(&visitor, Some(&user), Proof::default(), None),
                None => shared.fail(&visitor),
            });
        });
    }

    pub(super) fn begin_token(self: &Arc<Self>, visitor: Visitor, token: &Secret, answer: Answer) {
        let shown = TokenHash::of(token.reveal());
        self.find(visitor, answer, move |shared, visitor, user, answer| {
            let fitting = user.as_ref().and_then(|user| {
                valid(user).find(|credential| {
                    TokenHash::parse(&credential.text).is_ok_and(|stored| stored.matches(&shown))
                })
            });
            answer.give(match (fitting, &user) {
                (Some(credential), Some(user)) => {
                    let proof = Proof {
                        expires_at_secs: credential.expires_at_secs,
                        token: Some(Arc::clone(&credential.text)),
                        ..Proof::default()
                    };
                    shared.accept(&visitor, Some(user), proof, None)
                }
                _ => shared.fail(&visitor),
            });
        });
    }

    pub(super) fn begin_password(
        self: &Arc<Self>,
        visitor: Visitor,
        password: Secret,
        answer: Answer,
    ) {
        self.find(visitor, answer, move |shared, visitor, user, answer| {
            if let Some(known) = &user
                && let Some(proof) = shared.recall(&visitor, known, &password)
            {
                return answer.give(shared.accept(&visitor, Some(known), proof, None));
            }
            let hashing = Arc::downgrade(shared);
            let luggage = (visitor, user, password, answer);
            let job = move |(visitor, user, password, answer): (Visitor, _, Secret, Answer)| {
                if let Some(shared) = hashing.upgrade() {
                    shared.compare(&visitor, user, &password, answer);
                }
            };
            if let Err((_, _, _, answer)) = shared.hashes.submit(luggage, job) {
                answer.give(Decision::Refused(Refusal::Busy));
            }
        });
    }

    /// Whether this password was verified a while ago.
    fn recall(&self, visitor: &Visitor, user: &User, password: &Secret) -> Option<Proof> {
        let lifetime = self.settings.load().remember;
        if lifetime.is_zero() {
            return None;
        }
        let now = Instant::now();
        let known = valid(user).find(|credential| {
            let (key, shown) = (&visitor.key, password.reveal());
            self.remembered
                .knows(now, lifetime, key, &credential.text, shown)
        })?;
        Some(Proof {
            expires_at_secs: known.expires_at_secs,
            ..Proof::default()
        })
    }

    /// Compares a password with what its user has, or with what nobody has: on a hash thread.
    fn compare(
        &self,
        visitor: &Visitor,
        user: Option<Arc<User>>,
        password: &Secret,
        answer: Answer,
    ) {
        let settings = self.settings.load();
        let known: Vec<_> = user
            .iter()
            .flat_map(|user| password_credentials(user))
            .collect();
        let costs: Vec<Cost> = known.iter().filter_map(|(_, one)| one.cost()).collect();
        if costs.is_empty() {
            for cost in self.decoys.costs(&visitor.key) {
                cost.spend(password.reveal());
            }
        } else {
            self.decoys.saw(costs);
        }
        for (credential, stored) in known {
            let verdict = stored.verify_password(password.reveal(), settings.wanted);
            if verdict == Verdict::Wrong {
                continue;
            }
            let proof = Proof {
                expires_at_secs: credential.expires_at_secs,
                ..Proof::default()
            };
            answer.give(self.accept(visitor, user.as_ref(), proof, None));
            let mut text = Arc::clone(&credential.text);
            if verdict == Verdict::RightButOutdated {
                let upgrade = Upgrade {
                    outdated: Arc::clone(&text),
                    wanted: settings.wanted,
                };
                text = self.upgrade(visitor, upgrade, password).unwrap_or(text);
            }
            let (now, lifetime) = (Instant::now(), settings.remember);
            let (key, shown) = (&visitor.key, password.reveal());
            return self.remembered.learn(now, lifetime, key, &text, shown);
        }
        answer.give(self.fail(visitor));
    }

    /// Has an outdated hash replaced; the new one.
    fn upgrade(&self, visitor: &Visitor, upgrade: Upgrade, password: &Secret) -> Option<Arc<str>> {
        let made = PasswordHash::make(password.reveal(), upgrade.wanted).ok()?;
        let better: Arc<str> = made.to_string().into();
        let key = visitor.key.clone();
        self.accounts
            .upgrade(key, upgrade.outdated, Arc::clone(&better));
        Some(better)
    }
}
