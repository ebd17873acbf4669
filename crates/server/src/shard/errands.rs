//! Messages that are published by HTTP.
//!
//! A turn begins with some of them, for as long as a part that tidies up may take: each may go to
//! very many. It takes one while the hub has something left of earlier turns. The rest waits for
//! later turns, and all of them while other shards or the journal are behind.

use std::collections::VecDeque;
use std::time::Duration;

use super::Shard;
use super::pace::Part;
use super::watch::ran;
use crate::http::{Done, Errand};

/// The errands that wait, and those that are done and not reported.
#[derive(Default)]
pub(super) struct Desk {
    waiting: VecDeque<Errand>,
    /// Empty between turns: its allocation is used again.
    done: Vec<(usize, Done)>,
}

impl Shard {
    /// Takes messages in, which wait for [`Shard::run_errands`].
    pub(super) fn take_errands(&mut self, errands: Vec<Errand>) {
        self.errands.waiting.extend(errands);
    }

    /// Whether messages wait that can be published.
    pub(super) fn has_errands(&self) -> bool {
        !self.errands.waiting.is_empty() && !self.is_overfull()
    }

    /// Publishes what waits, as far as the turn has time.
    pub(super) fn run_errands(&mut self) {
        if !self.has_errands() {
            return;
        }
        let begun = ran();
        let now = self.context.clock.now();
        let mut part = Part::short(&self.hub, self.now, now, Duration::ZERO);
        while let Some(errand) = self.errands.waiting.pop_front() {
            let Errand {
                number,
                message,
                user,
            } = errand;
            let done = self.publish(message, user.as_deref());
            self.errands.done.push((number, done));
            // What the hub has left of earlier messages, to very many, is delivered first.
            if part.is_over(&self.hub, &self.context.clock) || self.hub.is_due(self.now) {
                break;
            }
        }
        self.context.visitors.errands.report(&mut self.errands.done);
        self.watch.asked_since(begun);
    }
}
