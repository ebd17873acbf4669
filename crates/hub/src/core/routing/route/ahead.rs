//! The jobs that a snapshot waits for.
//!
//! A message is kept at once, also if it becomes a job. So a snapshot that finds it in the store
//! may have come before it is delivered live, and what was kept before it would follow. A snapshot
//! waits for the jobs that there were when it began, as far as they deliver messages that it may
//! find. It waits for no later one, so it is never put off for ever.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use stentor_session::Message;

use super::Routes;
use crate::core::ids::SessionKey;

/// This many jobs are looked at in one go.
const LOOKS_MAX: u32 = 256;

/// Jobs by number that a snapshot has not looked at, or waits for.
#[derive(Debug)]
pub(crate) struct JobsAhead(RangeInclusive<u64>);

const FIRST_KEY: SessionKey = SessionKey {
    slot: 0,
    generation: 0,
};

/// How a look at jobs ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// None of them is in the way.
    Clear,
    /// This one is.
    Behind(u64),
    /// There are more to look at.
    Unfinished,
}

impl Routes {
    /// All jobs that there are; `None` if there is none.
    pub(crate) fn ahead(&self) -> Option<JobsAhead> {
        let (first, _) = self.by_number.first_key_value()?;
        Some(JobsAhead(*first..=self.number))
    }

    /// Looks for a job in whose way something stands that `concerns` a snapshot. Returns how many
    /// were looked at too.
    pub(crate) fn look_ahead(
        &self,
        ahead: &mut JobsAhead,
        concerns: impl Fn(&Message) -> bool,
    ) -> (Look, u32) {
        let mut looks = 0;
        for (number, id) in self.by_number.range(ahead.0.clone()) {
            ahead.0 = *number..=*ahead.0.end();
            if looks == LOOKS_MAX {
                return (Look::Unfinished, looks);
            }
            looks += 1;
            let job = self.jobs.get(*id as usize);
            let message = job.and_then(|job| job.messages.first());
            // One that is being worked on is not at its place.
            if message.is_none_or(|message| concerns(message)) {
                return (Look::Behind(*number), looks);
            }
        }
        (Look::Clear, looks)
    }

    /// A session is to be told when a job is over.
    pub(crate) fn await_job(&mut self, number: u64, key: SessionKey) {
        self.waiting.insert((number, key));
    }

    /// The sessions that wait for a job that is over.
    pub(super) fn take_waiting(&mut self, number: u64) -> Vec<SessionKey> {
        let is_such = |(job, _): &(u64, SessionKey)| *job == number;
        let from = (number, FIRST_KEY);
        let waiting = self
            .waiting
            .extract_if(from..(number + 1, FIRST_KEY), is_such);
        waiting.map(|(_, key)| key).collect()
    }
}
