//! Passwords, tokens and certificates.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::throttle::{Admission, Turn};
use super::{LoginAttempt, Proof, Shared, now_secs};
use crate::credential::{Cost, PasswordHash, Stored, TokenHash, Verdict, keep_memory};
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

/// A password on its way to a hash thread.
struct PasswordCheck {
    login: LoginAttempt,
    user: Option<Arc<User>>,
    password: Secret,
    turn: Mutex<Turn>,
    /// Taken by the first thread that comes to an end.
    answer: Mutex<Option<Answer>>,
}

impl PasswordCheck {
    fn take_answer(&self) -> Option<Answer> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.take()
    }

    /// Whether its client waits still, and no other thread has answered it.
    fn is_awaited(&self) -> bool {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.as_ref().is_some_and(Answer::is_awaited)
    }

    /// Takes its turn; false if it had.
    fn take_turn(&self) -> bool {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *turn, Turn::Taken) == Turn::Free
    }

    fn refuse(&self, refusal: Refusal) {
        if let Some(answer) = self.take_answer() {
            answer.give(Decision::Refused(refusal));
        }
    }
}

/// A credential that a password is right for.
struct Fitting {
    text: Arc<str>,
    expires_at_secs: Option<u64>,
    /// Whether a better hash is to take its place.
    is_outdated: bool,
}

impl Fitting {
    fn proof(&self) -> Proof {
        proof_by(&self.text, self.expires_at_secs)
    }
}

/// The proof of who has shown the password of a credential.
fn proof_by(text: &Arc<str>, expires_at_secs: Option<u64>) -> Proof {
    Proof {
        expires_at_secs,
        secret: Some(Arc::clone(text)),
        ..Proof::default()
    }
}

impl Shared {
    pub(super) fn begin_certificate(self: &Arc<Self>, login: LoginAttempt, answer: Answer) {
        self.find(login, answer, |shared, login, user, answer| {
            answer.give(match user {
                Some(user) => shared.accept(&login, Some(&user), Proof::default(), None),
                None => shared.fail(&login),
            });
        });
    }

    pub(super) fn begin_token(
        self: &Arc<Self>,
        login: LoginAttempt,
        token: &Secret,
        answer: Answer,
    ) {
        let shown = TokenHash::of(token.reveal());
        self.find(login, answer, move |shared, login, user, answer| {
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
                    shared.accept(&login, Some(user), proof, None)
                }
                _ => shared.fail(&login),
            });
        });
    }

    pub(super) fn begin_password(
        self: &Arc<Self>,
        login: LoginAttempt,
        password: Secret,
        answer: Answer,
        turn: Turn,
    ) {
        self.find(login, answer, move |shared, login, user, answer| {
            if let Some(known) = &user
                && let Some(proof) = shared.recall(&login, known, &password)
                && let Some(decision) = shared.admit(&login, Some(known), proof, None)
            {
                return answer.give(decision);
            }
            shared.submit(&Arc::new(PasswordCheck {
                login,
                user,
                password,
                turn: Mutex::new(turn),
                answer: Mutex::new(Some(answer)),
            }));
        });
    }

    /// Has a password compared when a hash thread is free.
    fn submit(self: &Arc<Self>, check: &Arc<PasswordCheck>) {
        let (hashing, hashed) = (Arc::downgrade(self), Arc::clone(check));
        let job = move || {
            if let Some(shared) = hashing.upgrade() {
                shared.attempt(&hashed);
            }
        };
        if !self.hashes.submit_repeatable(Arc::new(job)) {
            check.refuse(Refusal::Busy);
        }
    }

    /// Whether an attempt may go on, now that there is a thread for it. What came at once with a
    /// thousand others was admitted before the first of them had failed.
    fn is_due(self: &Arc<Self>, check: &Arc<PasswordCheck>) -> bool {
        if !check.take_turn() {
            return true;
        }
        match self.admission(&check.login) {
            Admission::Free | Admission::Now => return true,
            Admission::Never => check.refuse(Refusal::Slowed),
            Admission::At(time, cause) => {
                let luggage = Arc::clone(check);
                let put = self.put_off(time, cause, luggage, |shared, check| {
                    shared.submit(&check);
                });
                if put.is_err() {
                    check.refuse(Refusal::Busy);
                }
            }
        }
        false
    }

    /// Whether this password was verified a while ago.
    fn recall(&self, login: &LoginAttempt, user: &User, password: &Secret) -> Option<Proof> {
        let lifetime = self.settings.load().remember;
        if lifetime.is_zero() {
            return None;
        }
        let now = Instant::now();
        let known = valid(user).find(|credential| {
            let (key, shown) = (&login.key, password.reveal());
            self.remembered
                .knows(now, lifetime, key, &credential.text, shown)
        })?;
        Some(proof_by(&known.text, known.expires_at_secs))
    }

    /// Compares a password, and answers unless another thread was quicker: on a hash thread.
    fn attempt(self: &Arc<Self>, check: &Arc<PasswordCheck>) {
        // A client that has hung up learns nothing, so no turn of it counts either.
        if !check.is_awaited() || !self.is_due(check) {
            return;
        }
        // Until nobody waits any more.
        keep_memory();
        let user = check.user.as_ref();
        let fitting = self.compare(check, user);
        let Some(answer) = check.take_answer() else {
            return;
        };
        let login = &check.login;
        let admit = |user: Option<&Arc<User>>, fitting: Fitting| {
            let decision = self.admit(login, user, fitting.proof(), None)?;
            Some((decision, fitting))
        };
        let admitted = fitting.and_then(|fitting| {
            let outdated = Arc::clone(&fitting.text);
            admit(user, fitting).or_else(|| {
                let (now, fitting) = self.compare_again(check, &outdated)?;
                admit(Some(&now), fitting)
            })
        });
        let Some((decision, fitting)) = admitted else {
            return answer.give(self.fail(login));
        };
        answer.give(decision);
        self.learn(login, &fitting.text, &check.password);
        if fitting.is_outdated {
            // Others who log in come first.
            let (shared, check) = (Arc::downgrade(self), Arc::clone(check));
            self.hashes.submit_later(Arc::new(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.replace(&check, &fitting.text);
                }
            }));
        }
    }

    /// Remembers that a password is right for this credential.
    fn learn(&self, login: &LoginAttempt, text: &Arc<str>, password: &Secret) {
        let (now, lifetime) = (Instant::now(), self.settings.load().remember);
        let (key, shown) = (&login.key, password.reveal());
        self.remembered.learn(now, lifetime, key, text, shown);
    }

    /// Compares a password that was right until its user changed with what that has now: a better
    /// hash of the same password may have taken the place of the one that it was right for.
    fn compare_again(
        &self,
        check: &PasswordCheck,
        known: &Arc<str>,
    ) -> Option<(Arc<User>, Fitting)> {
        let now = self.accounts.confirm(check.user.as_ref()?)?;
        let has_it = now.credentials.iter().any(|one| one.text == *known);
        if has_it || now.disabled {
            return None;
        }
        let fitting = self.compare(check, Some(&now))?;
        Some((now, fitting))
    }

    /// Compares a password with what a user has, or with what nobody has.
    fn compare(&self, check: &PasswordCheck, user: Option<&Arc<User>>) -> Option<Fitting> {
        let password = &check.password;
        let wanted = self.settings.load().wanted;
        let known = user.into_iter().flat_map(|user| password_credentials(user));
        let known: Vec<_> = known.collect();
        let costs: Vec<Cost> = known.iter().filter_map(|(_, one)| one.cost()).collect();
        if costs.is_empty() {
            for cost in self.decoys.costs(&check.login.key) {
                cost.spend(password.reveal());
            }
        } else {
            self.decoys.saw(&check.login.key, costs);
        }
        known.into_iter().find_map(|(credential, stored)| {
            let is_outdated = match stored.verify_password(password.reveal(), wanted) {
                Verdict::Wrong => return None,
                Verdict::Right => false,
                Verdict::RightButOutdated => {
                    user.is_some_and(|user| self.accounts.keeps(user, &credential.text))
                }
            };
            Some(Fitting {
                text: Arc::clone(&credential.text),
                expires_at_secs: credential.expires_at_secs,
                is_outdated,
            })
        })
    }

    /// Has an outdated hash replaced by one of the password that was right.
    fn replace(&self, check: &PasswordCheck, outdated: &Arc<str>) {
        keep_memory();
        let (login, password) = (&check.login, &check.password);
        let wanted = self.settings.load().wanted;
        let Ok(made) = PasswordHash::make(password.reveal(), wanted) else {
            return;
        };
        let better: Arc<str> = made.to_string().into();
        self.grants.replaced(outdated, &better);
        let (key, outdated) = (login.key.clone(), Arc::clone(outdated));
        self.accounts.upgrade(key, outdated, Arc::clone(&better));
        self.learn(login, &better, password);
    }
}
