//! Answers of procedures on their way to the shards of their callers.
//!
//! A shard takes no answers while far too much waits for its journal, and callers may leave theirs
//! unread. So the bytes that are on their way have a bound, and count in the ledger. Beyond half of
//! it, calls are refused before their procedures run; beyond all of it, what a procedure has
//! answered is replaced by a refusal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stentor_call_protocol::Status;
use stentor_hub::{Answer as Answered, ReturnAddress};
use stentor_procedure::Answer;

use super::queue::json;

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
    bytes: AtomicUsize,
}

impl Answers {
    /// Bytes of memory. O(1).
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The refusal of a call, while much is on its way. The budget is that of all memory, in bytes.
    pub(super) fn refusal(&self, budget: u64) -> Option<Answer> {
        let is_much = self.bytes() > max(budget) / 2;
        is_much.then(|| Answer::failed(Status::Overloaded, NOT_CALLED))
    }

    /// An answer begins its way, or a refusal in its place.
    pub(super) fn send(self: &Arc<Self>, to: ReturnAddress, answer: &Answer, budget: u64) -> Reply {
        let mut json = json(answer);
        if self.bytes() + json.len() > max(budget) {
            json = super::queue::json(&Answer::failed(Status::Overloaded, NOT_TOLD));
        }
        let bytes = json.capacity() + OVERHEAD;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Reply {
            answer: Arc::new(Answered { to, json }),
            bytes,
            answers: Arc::clone(self),
        }
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
        self.answers.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
