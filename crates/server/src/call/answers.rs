//! Answers of procedures on their way to the shards of their callers.
//!
//! A shard takes no answers while far too much waits for its journal, and callers may leave theirs
//! unread. So the bytes that are on their way have a bound, and count in the ledger. Once half of
//! it is taken, one user has a share of what is free, like the places of a queue. What a procedure
//! has answered to a user beyond that is replaced by a refusal. A user who has half as much is
//! refused before a procedure runs, for answers to earlier calls may be about to come.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stentor_call_protocol::Status;
use stentor_hub::{Answer as Answered, ReturnAddress};
use stentor_procedure::{Answer, has_share};

use super::queue::{User, json};

/// Bytes of answers that may be on their way.
const BYTES_MAX: usize = 8 << 20;
/// The part of the budget of memory that they may take, if that is less.
const BUDGET_PART: u64 = 16;
/// What an answer takes beside its bytes.
const OVERHEAD: usize = 256;

/// Why a call is not handed over.
const NOT_CALLED: &str = "too many answers to earlier calls are not delivered yet; the procedure was not called; \
     read the answers, and try again";
/// Why an answer is not told.
const NOT_TOLD: &str = "the procedure has answered, but too many answers are not delivered yet; read the answers \
     before you call again";

/// How many bytes are on their way.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Of all users.
    bytes: AtomicUsize,
    /// Of each user that has some.
    by_user: Mutex<HashMap<User, usize>>,
}

impl Answers {
    /// Bytes of memory. O(1).
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn by_user(&self) -> MutexGuard<'_, HashMap<User, usize>> {
        self.by_user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_user(&self, user: &User) -> usize {
        self.by_user().get(user).copied().unwrap_or(0)
    }

    /// The refusal of a call of this user, while much is on its way to it. The budget is that of
    /// all memory, in bytes.
    pub(super) fn refusal(&self, user: &User, budget: u64) -> Option<Answer> {
        let twice_theirs = || 2 * self.of_user(user);
        let is_much = has_share(self.bytes(), max(budget), twice_theirs);
        is_much.then(|| Answer::failed(Status::Overloaded, NOT_CALLED))
    }

    /// An answer begins its way, or a refusal in its place.
    pub(super) fn send(
        self: &Arc<Self>,
        user: User,
        to: ReturnAddress,
        answer: &Answer,
        budget: u64,
    ) -> Reply {
        let mut json = json(answer);
        if self.has_no_room(&user, json.len(), budget) {
            json = super::queue::json(&Answer::failed(Status::Overloaded, NOT_TOLD));
        }
        let bytes = json.capacity() + OVERHEAD;
        self.count(user.clone(), bytes);
        Reply {
            answer: Arc::new(Answered { to, json }),
            user,
            bytes,
            answers: Arc::clone(self),
        }
    }

    /// Whether an answer of this length is beyond what this user gets.
    fn has_no_room(&self, user: &User, bytes: usize, budget: u64) -> bool {
        let theirs = || self.of_user(user) + bytes;
        has_share(self.bytes() + bytes, max(budget), theirs)
    }

    fn count(&self, user: User, bytes: usize) {
        *self.by_user().entry(user).or_default() += bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn discount(&self, user: &User, bytes: usize) {
        let mut by_user = self.by_user();
        if let Some(theirs) = by_user.get_mut(user) {
            *theirs -= bytes;
            if *theirs == 0 {
                by_user.remove(user);
            }
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The bound within a budget of memory.
fn max(budget: u64) -> usize {
    let part = usize::try_from(budget / BUDGET_PART).unwrap_or(usize::MAX);
    BYTES_MAX.min(part)
}

/// An answer on its way. It counts until this is dropped.
pub(crate) struct Reply {
    answer: Arc<Answered>,
    user: User,
    bytes: usize,
    answers: Arc<Answers>,
}

impl Reply {
    /// What is to be delivered.
    pub(crate) fn answer(&self) -> Arc<Answered> {
        Arc::clone(&self.answer)
    }

    /// Bytes of memory that it takes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.answers.discount(&self.user, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stentor_topic::Zone;

    /// The bound is 1 MiB.
    const BUDGET: u64 = 16 << 20;

    fn user(name: &str) -> User {
        (Zone::DEFAULT, Some(name.into()))
    }

    /// As if an answer of a user were on its way.
    fn fill(answers: &Answers, name: &str, kib: usize) {
        answers.count(user(name), kib << 10);
    }

    #[test]
    fn a_user_who_reads_nothing_leaves_room_for_others() {
        let answers = Answers::default();
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(user);
        fill(&answers, "ann", 511);
        assert!(answers.refusal(&ann, BUDGET).is_none(), "half is for all");
        fill(&answers, "ann", 200);
        let refusal = answers.refusal(&ann, BUDGET).expect("it is hers alone");
        assert_eq!(refusal.text(), NOT_CALLED);
        assert!(answers.refusal(&bob, BUDGET).is_none());
        assert!(
            !answers.has_no_room(&ann, 50 << 10, BUDGET),
            "she was called before"
        );
        fill(&answers, "ann", 100);
        assert!(answers.has_no_room(&ann, 50 << 10, BUDGET));
        assert!(!answers.has_no_room(&bob, 150 << 10, BUDGET));
        // Others have a share of what is left, and then it is full.
        fill(&answers, "bob", 150);
        assert!(answers.refusal(&bob, BUDGET).is_some());
        assert!(answers.refusal(&eve, BUDGET).is_none());
        fill(&answers, "eve", 63);
        assert!(answers.refusal(&user("zoe"), BUDGET).is_some());
        answers.discount(&ann, 811 << 10);
        for user in [&ann, &bob, &eve] {
            assert!(answers.refusal(user, BUDGET).is_none());
        }
    }

    #[test]
    fn nothing_is_left_of_who_has_read_all() {
        let answers = Answers::default();
        fill(&answers, "ann", 1);
        fill(&answers, "ann", 2);
        answers.discount(&user("ann"), 1 << 10);
        assert_eq!((answers.bytes(), answers.by_user().len()), (2 << 10, 1));
        answers.discount(&user("ann"), 2 << 10);
        assert_eq!((answers.bytes(), answers.by_user().len()), (0, 0));
    }
}
