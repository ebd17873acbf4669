//! Periods of one length, and where their rows are kept.
//!
//! The row of a period has a fixed slot: its number modulo the length of the ring. So the newest
//! rows take the place of the oldest, and nothing is ever looked for to be removed.

/// Rows of a block. A block fits into a page of the file.
pub(crate) const BLOCK_ROWS: u64 = 4;

/// Days whose peaks are kept: two years.
pub(crate) const DAYS: u64 = 732;

/// Seconds of a day.
pub const DAY_SECS: u64 = 86_400;

/// Periods of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ring {
    /// Seconds, for 15 minutes, in memory only.
    Seconds,
    /// Ten seconds each, for 6 hours.
    Tens,
    /// Minutes, for 3 days.
    Minutes,
    /// Quarters of an hour, for 35 days.
    Quarters,
    /// Quarters of a day, for 2 years.
    Shifts,
}

impl Ring {
    /// All of them, the finest first.
    pub const ALL: [Self; 5] = [
        Self::Seconds,
        Self::Tens,
        Self::Minutes,
        Self::Quarters,
        Self::Shifts,
    ];

    /// Those that are in the file.
    pub(crate) const KEPT: [Self; 4] = [Self::Tens, Self::Minutes, Self::Quarters, Self::Shifts];

    /// The length of a period, in seconds.
    #[must_use]
    pub const fn step(self) -> u64 {
        match self {
            Self::Seconds => 1,
            Self::Tens => 10,
            Self::Minutes => 60,
            Self::Quarters => 900,
            Self::Shifts => 21_600,
        }
    }

    /// How many periods are kept.
    pub(crate) const fn len(self) -> u64 {
        match self {
            Self::Seconds => 900,
            Self::Tens => 2_160,
            Self::Minutes => 4_320,
            Self::Quarters => 3_360,
            Self::Shifts => 2_920,
        }
    }

    /// How far back it reaches, in seconds.
    #[must_use]
    pub const fn reach(self) -> u64 {
        self.step() * self.len()
    }

    /// Rows that may wait for the file to be written, or stay in memory without one: an hour, half
    /// a day, two days, eight days.
    pub(crate) const fn waiting_max(self) -> usize {
        match self {
            Self::Seconds => 0,
            Self::Tens => 360,
            Self::Minutes => 720,
            Self::Quarters => 192,
            Self::Shifts => 32,
        }
    }

    /// The beginning of the period with this moment.
    #[must_use]
    pub const fn start(self, secs: u64) -> u64 {
        secs - secs % self.step()
    }
}

/// A row or a day in the file: the key of its block, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) key: u32,
    pub(crate) place: usize,
}

impl Slot {
    const fn new(shelf: u32, number: u64) -> Self {
        // A ring has less than 2^16 blocks.
        Self {
            key: (shelf << 16) | (number / BLOCK_ROWS) as u32,
            place: (number % BLOCK_ROWS) as usize,
        }
    }

    /// Where the row of a period is.
    pub(crate) const fn of_row(ring: Ring, start: u64) -> Self {
        Self::new(ring as u32, start / ring.step() % ring.len())
    }

    /// Where the peaks of a day are.
    pub(crate) const fn of_day(start: u64) -> Self {
        Self::new(DAY_SHELF, start / DAY_SECS % DAYS)
    }
}

const DAY_SHELF: u32 = 15;

/// The keys of the blocks of a ring.
pub(crate) const fn keys_of(ring: Ring) -> std::ops::Range<u32> {
    (ring as u32) << 16..(ring as u32 + 1) << 16
}

/// The keys of the blocks of days.
pub(crate) const fn keys_of_days() -> std::ops::Range<u32> {
    DAY_SHELF << 16..(DAY_SHELF + 1) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_reach_from_a_quarter_of_an_hour_to_two_years() {
        let reach = Ring::ALL.map(Ring::reach);
        let day = 86_400;
        assert_eq!(reach, [900, day / 4, 3 * day, 35 * day, 730 * day]);
        for ring in Ring::ALL {
            assert_eq!(ring.len() % BLOCK_ROWS, 0);
        }
        assert_eq!(DAYS % BLOCK_ROWS, 0);
    }

    #[test]
    fn a_slot_is_used_again_after_the_length_of_its_ring() {
        let step = Ring::Tens.step();
        let slots: Vec<Slot> = (0..Ring::Tens.len())
            .map(|it| Slot::of_row(Ring::Tens, it * step))
            .collect();
        let mut keys: Vec<(u32, usize)> = slots.iter().map(|it| (it.key, it.place)).collect();
        keys.dedup();
        assert_eq!(keys.len(), 2_160);
        assert!(
            keys.iter()
                .all(|(key, _)| keys_of(Ring::Tens).contains(key))
        );
        assert_eq!(Slot::of_row(Ring::Tens, Ring::Tens.reach()), slots[0]);
        let last = Slot::of_row(Ring::Shifts, u64::MAX);
        assert!(keys_of(Ring::Shifts).contains(&last.key));
        assert!(keys_of_days().contains(&Slot::of_day(u64::MAX).key));
    }
}
