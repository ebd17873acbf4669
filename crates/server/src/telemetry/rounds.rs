//! Asking the shards again and again, without waiting for one that is late.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::context::ServerContext;
use crate::shard::{Inquiry, ShardCommand};

/// The last answer of each shard. A shard that has not answered is not asked once more, so one that
/// is late does not find many questions when it comes back.
#[derive(Debug)]
pub(crate) struct Rounds<T> {
    shards: Vec<ShardState<T>>,
    begun: Instant,
}

#[derive(Debug)]
struct ShardState<T> {
    /// Since when an answer is waited for, and where it comes.
    asked: Option<(Instant, Receiver<T>)>,
    /// The last answer, and when it came.
    last: Option<(Instant, T)>,
}

impl<T> Rounds<T> {
    /// Nobody has been asked yet.
    pub(crate) fn new(context: &ServerContext) -> Self {
        let state = |_| ShardState {
            asked: None,
            last: None,
        };
        Self {
            shards: context.shards.iter().map(state).collect(),
            begun: Instant::now(),
        }
    }

    /// Asks each shard whose last answer is older than `fresh`, and waits for all of them for
    /// `patience` in all.
    pub(crate) fn ask(
        &mut self,
        context: &ServerContext,
        question: impl Fn(Sender<T>) -> Inquiry,
        fresh: Duration,
        patience: Duration,
    ) {
        let now = Instant::now();
        for (shard, state) in self.shards.iter_mut().enumerate() {
            let is_fresh = |(came, _): &(Instant, T)| now.duration_since(*came) < fresh;
            if state.asked.is_none() && !state.last.as_ref().is_some_and(is_fresh) {
                let (sender, answer) = channel();
                context.post(shard, ShardCommand::Inquiry(question(sender)));
                state.asked = Some((now, answer));
            }
        }
        let deadline = now + patience;
        for state in &mut self.shards {
            let Some((_, answer)) = &state.asked else {
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            // A shard that has ended stays late.
            if let Ok(answer) = answer.recv_timeout(left) {
                state.last = Some((Instant::now(), answer));
                state.asked = None;
            }
        }
    }

    /// The last answer of each shard, and its age; without one, the time since the first question.
    pub(crate) fn last(&self) -> impl Iterator<Item = (Option<&T>, Duration)> {
        self.shards.iter().map(|state| match &state.last {
            Some((came, answer)) => (Some(answer), came.elapsed()),
            None => (None, self.begun.elapsed()),
        })
    }

    /// The shards that owe an answer for this long or longer.
    pub(crate) fn late(&self, limit: Duration) -> impl Iterator<Item = (usize, Duration)> {
        let owes = |(shard, state): (usize, &ShardState<T>)| {
            let (since, _) = state.asked.as_ref()?;
            Some((shard, since.elapsed()))
        };
        let shards = self.shards.iter().enumerate();
        shards
            .filter_map(owes)
            .filter(move |(_, age)| *age >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::testing::Running;

    #[test]
    fn a_late_shard_is_asked_once_and_its_last_answer_stays() {
        let server = Running::start(&[("shards", "2")]);
        let context = server.context();
        let mut rounds = Rounds::new(context);
        let patience = Duration::from_secs(20);
        rounds.ask(context, Inquiry::Pulse, Duration::ZERO, patience);
        assert!(rounds.last().all(|(answer, _)| answer.is_some()));
        assert_eq!(rounds.late(Duration::ZERO).count(), 0);
        // A question that nobody answers: its sender stays here.
        let kept = std::cell::RefCell::new(Vec::new());
        for _ in 0..3 {
            let question = |sender: Sender<()>| {
                kept.borrow_mut().push(sender);
                Inquiry::Pulse(channel().0)
            };
            rounds.ask(context, question, Duration::ZERO, Duration::ZERO);
        }
        assert_eq!(kept.borrow().len(), 2, "each shard is asked once");
        assert_eq!(rounds.late(Duration::ZERO).count(), 2);
        assert_eq!(rounds.late(Duration::from_secs(3600)).count(), 0);
        assert!(rounds.last().all(|(answer, _)| answer.is_some()));
        for sender in kept.take() {
            sender.send(()).unwrap();
        }
        rounds.ask(context, |_| unreachable!(), Duration::MAX, patience);
        assert_eq!(rounds.late(Duration::ZERO).count(), 0);
        server.stop();
    }
}
