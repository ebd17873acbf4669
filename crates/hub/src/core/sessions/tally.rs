//! What happens to few clients, counted for each: so that its operator can be told why a client
//! does not get a message, or why nothing is read from it.

use stentor_session::Tick;

use crate::core::stats::LossCause;

/// Half of what counts as lately, in seconds.
const HALF_SECS: u64 = 30;

/// How often something has happened: since the session began, and lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    total: u64,
    last: Tick,
    /// Which half minute `now` counts.
    half: u64,
    now: u32,
    before: u32,
}

impl Count {
    /// It has happened this many times more.
    pub(crate) fn add(&mut self, now: Tick, times: u64) {
        let half = now.as_secs() / HALF_SECS;
        if half != self.half {
            self.before = self.in_half(half.saturating_sub(1));
            (self.half, self.now) = (half, 0);
        }
        self.total = self.total.saturating_add(times);
        self.now = self
            .now
            .saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
        self.last = now;
    }

    const fn in_half(&self, half: u64) -> u32 {
        if half == self.half { self.now } else { 0 }
    }

    /// How often since the session began.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// How often in the last minute, of which at least the last half is looked at.
    #[must_use]
    pub fn lately(&self, now: Tick) -> u64 {
        let half = now.as_secs() / HALF_SECS;
        let count = match half.saturating_sub(self.half) {
            0 => self.now.saturating_add(self.before),
            1 => self.now,
            _ => 0,
        };
        u64::from(count)
    }

    /// When it happened last; `None` if it never did.
    #[must_use]
    pub fn last(&self) -> Option<Tick> {
        (self.total > 0).then_some(self.last)
    }
}

/// Why nothing is read from a connection for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseCause {
    /// It has published more messages than its quota allows.
    MessagesPerSec,
    /// It has published more bytes than its quota allows.
    BytesPerSec,
    /// It has given many commands about rooms.
    RoomCommands,
    /// What it did was expensive for the server.
    Work,
}

impl PauseCause {
    /// A word for machines; of a quota, its name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::MessagesPerSec => "messages_per_sec",
            Self::BytesPerSec => "bytes_per_sec",
            Self::RoomCommands => "room-commands",
            Self::Work => "work",
        }
    }
}

/// What has happened to one session since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages that matched a subscription, and that it has no right to receive.
    pub withheld: Count,
    /// Messages that it should have had and did not get.
    pub lost: Count,
    /// Why it did not get the last of those.
    pub lost_by: Option<LossCause>,
    /// Messages that newer ones of their topics replaced: no loss, since that was asked for.
    pub conflated: Count,
    /// How often nothing was read from it for a while.
    pub paused: Count,
    /// Why, the last time.
    pub paused_by: Option<PauseCause>,
    /// Messages that it published and had no right to.
    pub refused: Count,
    /// Messages that it published to topics above a limit.
    pub topics_refused: Count,
}

impl Tally {
    /// Messages are lost.
    pub(crate) fn lose(&mut self, now: Tick, cause: LossCause, messages: u64) {
        self.lost.add(now, messages);
        self.lost_by = Some(cause);
    }

    /// Nothing is read from its client for a while.
    pub(crate) fn pause(&mut self, now: Tick, cause: PauseCause) {
        self.paused.add(now, 1);
        self.paused_by = Some(cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_knows_what_was_lately() {
        let mut count = Count::default();
        let at = Tick::from_secs;
        assert_eq!((count.lately(at(0)), count.last()), (0, None));
        count.add(at(100), 2);
        count.add(at(119), 1);
        count.add(at(121), 4);
        assert_eq!((count.total(), count.last()), (7, Some(at(121))));
        for (now, lately) in [(121, 7), (149, 7), (151, 4), (179, 4), (181, 0)] {
            assert_eq!(count.lately(at(now)), lately, "{now}");
        }
        count.add(at(600), 1);
        assert_eq!((count.lately(at(600)), count.total()), (1, 8));
    }
}
