//! What happens to few clients, counted for each: so that its operator can be told why a client
//! does not get a message, or why nothing is read from it.

use alloc::boxed::Box;

use stentor_session::Tick;

use crate::core::settings::Settings;
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
    /// Adds this many events.
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

/// What has happened to one session since it began, as operators see it.
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

/// Messages that a session has lost by one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostBy {
    /// Why.
    pub cause: LossCause,
    /// The number of messages.
    pub messages: u64,
    /// How many of them while less might wait than is configured, because memory was short.
    pub while_memory_short: u64,
}

/// Whether a bound that a message has met is the one of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    AsConfigured,
    /// Less may wait, because memory is short.
    Tightened,
}

impl Bound {
    /// The bounds of now.
    pub(crate) const fn of(settings: &Settings) -> Self {
        match settings.is_tightened() {
            true => Self::Tightened,
            false => Self::AsConfigured,
        }
    }
}

/// What one session has lost.
#[derive(Clone, Debug)]
struct Lost {
    count: Count,
    last_by: LossCause,
    by_cause: [u64; LossCause::ALL.len()],
    while_tightened: [u64; LossCause::ALL.len()],
}

/// What has happened to one session since it began. Few have one of these, and fewer have lost
/// anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) withheld: Count,
    pub(crate) conflated: Count,
    paused: Count,
    pub(crate) refused: Count,
    pub(crate) topics_refused: Count,
    lost: Option<Box<Lost>>,
    paused_by: Option<PauseCause>,
}

impl Tallies {
    /// Messages are lost.
    pub(crate) fn lose(&mut self, now: Tick, cause: LossCause, messages: u64, bound: Bound) {
        let first = || {
            Box::new(Lost {
                count: Count::default(),
                last_by: cause,
                by_cause: Default::default(),
                while_tightened: Default::default(),
            })
        };
        let lost = self.lost.get_or_insert_with(first);
        lost.count.add(now, messages);
        lost.last_by = cause;
        let add = |sum: &mut u64| *sum = sum.saturating_add(messages);
        add(&mut lost.by_cause[cause as usize]);
        if bound == Bound::Tightened {
            add(&mut lost.while_tightened[cause as usize]);
        }
    }

    /// Nothing is read from its client for a while.
    pub(crate) fn pause(&mut self, now: Tick, cause: PauseCause) {
        self.paused.add(now, 1);
        self.paused_by = Some(cause);
    }

    /// It as operators see it.
    pub(crate) fn shown(&self) -> Tally {
        let lost = self.lost.as_ref();
        Tally {
            withheld: self.withheld,
            lost: lost.map(|lost| lost.count).unwrap_or_default(),
            lost_by: lost.map(|lost| lost.last_by),
            conflated: self.conflated,
            paused: self.paused,
            paused_by: self.paused_by,
            refused: self.refused,
            topics_refused: self.topics_refused,
        }
    }

    /// What was lost, by those causes that there were.
    pub(crate) fn losses(&self) -> impl Iterator<Item = LostBy> {
        let by_cause = |lost: &Lost, cause: LossCause| LostBy {
            cause,
            messages: lost.by_cause[cause as usize],
            while_memory_short: lost.while_tightened[cause as usize],
        };
        let lost = self.lost.iter();
        lost.flat_map(move |lost| LossCause::ALL.map(|cause| by_cause(lost, cause)))
            .filter(|by| by.messages > 0)
    }

    /// What it takes.
    pub(crate) fn bytes(&self) -> usize {
        let lost = self.lost.as_ref().map_or(0, |_| size_of::<Lost>());
        size_of::<Self>() + lost
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

    #[test]
    fn losses_are_told_by_cause_and_take_room_from_the_first_on() {
        let mut tallies = Tallies::default();
        tallies.withheld.add(Tick::from_secs(1), 1);
        assert_eq!(tallies.bytes(), size_of::<Tallies>());
        assert_eq!(tallies.losses().count(), 0);
        for (cause, messages, bound) in [
            (LossCause::Expired, 2, Bound::AsConfigured),
            (LossCause::DropNewest, 3, Bound::Tightened),
            (LossCause::DropNewest, 4, Bound::AsConfigured),
        ] {
            tallies.lose(Tick::from_secs(2), cause, messages, bound);
        }
        let by = |cause, messages, while_memory_short| LostBy {
            cause,
            messages,
            while_memory_short,
        };
        let expected = [
            by(LossCause::DropNewest, 7, 3),
            by(LossCause::Expired, 2, 0),
        ];
        assert!(tallies.losses().eq(expected));
        let shown = tallies.shown();
        assert_eq!(
            (shown.lost.total(), shown.lost_by),
            (9, Some(LossCause::DropNewest))
        );
        assert!(tallies.bytes() > size_of::<Tallies>());
    }

    /// Each session that anything rare has happened to has one: with losses apart, it is smaller
    /// than what operators see.
    #[test]
    fn a_session_that_has_lost_nothing_has_no_room_for_it() {
        assert!(size_of::<Tallies>() < size_of::<Tally>());
    }
}
