//! How long a shard waits for events, and whether it may.

use std::time::Duration;

use mio::Events;
use stentor_session::Tick;

use super::{Patience, Shard, Stage};
use crate::sessions::Recorder;

/// How soon something that could not be done for want of room is tried again.
const RETRY: Duration = Duration::from_millis(5);

/// How soon a round of its journal looks again at what other shards have come to.
const ROUND_PATIENCE: Duration = Duration::from_millis(10);

impl Shard {
    /// Waits for events, unless there is something to do.
    pub(super) fn wait(&mut self, events: &mut Events) {
        let timeout = self.timeout();
        let sleeps = timeout != Some(Duration::ZERO)
            && self.waker.begin_sleep(|| {
                let has_come = self.mesh.has_inward() && !self.is_overladen()
                    || self.has_commands()
                    || self.recorder.as_ref().is_some_and(Recorder::is_waited_for);
                !has_come && !self.may_tell()
            });
        let timeout = if sleeps {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        // The turn has hardly taken long enough for another look at the clock.
        self.poller.wait(events, self.now, timeout);
        if sleeps {
            self.waker.end_sleep();
        }
    }

    pub(super) fn has_commands(&self) -> bool {
        self.context.shards[self.id].control_queue.is_pending()
    }

    /// How long the poll may wait; `None` for ever.
    fn timeout(&mut self) -> Option<Duration> {
        let has_reads = !self.readable.is_empty()
            || !self.strangers.line.is_empty()
            || !self.taking_over.is_empty();
        let reads = has_reads && !self.is_overfull();
        let effects = self.hub.effects();
        let flushes = effects.has_output() || !self.backlog.is_empty();
        let ends = !self.gone.is_empty() || !self.broken.is_empty() || !self.leaving.is_empty();
        let goes_on = !self.resumed.is_empty() || !self.due.is_empty() || ends;
        let accepts = !self.accepting.is_empty() && self.patience == Patience::None;
        let goes_on = goes_on || self.recorder.as_ref().is_some_and(Recorder::has_work);
        let goes_on = goes_on || self.readiness.needs_round() || self.has_questions();
        let goes_on = goes_on || self.has_errands() || self.has_replies();
        if reads || flushes || goes_on || accepts || !self.pending.is_empty() {
            return Some(Duration::ZERO);
        }
        let waits_for_shards = Recorder::waits_for_shards;
        // They have come to it in a moment.
        let round = self.recorder.as_ref().is_some_and(waits_for_shards);
        let round = round.then_some(ROUND_PATIENCE);
        let retry = self.retries().then_some(RETRY);
        [retry, round, self.until_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether something is tried again soon, because nobody says when it can be done.
    fn retries(&self) -> bool {
        self.mesh.has_overflow()
            || !self.outbox.is_empty()
            // Nobody says that a journal of another shard has room again.
            || !self.awaiting_room.is_empty()
            || self.recorder.as_ref().is_some_and(Recorder::lacks_room)
            || self.readiness.waits_for_others()
            || !self.accepting.is_empty()
            || self.hub.turn().waits_for_share_room()
    }

    /// How long it is to the next thing that has its time; `None` if nothing has.
    fn until_deadline(&self) -> Option<Duration> {
        let mut next = self.hub.next_deadline().unwrap_or(Tick::NEVER);
        next = next.min(self.timers.next().unwrap_or(Tick::NEVER));
        if let Stage::Stopping(deadline) = self.stage {
            next = next.min(deadline);
        }
        (next != Tick::NEVER).then(|| next.since(self.now))
    }
}
