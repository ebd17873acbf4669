//! Messages that keep far more memory than they count: each is the last one in a block of the
//! allocator, whose rest is of no use for messages of other sizes.

use std::time::{Duration, Instant};

/// The time after which a step has had its effect: what sessions leave is dropped over many turns,
/// and then goes back to the system.
const STEP: Duration = Duration::from_secs(3);

/// What the process occupies, and what is held by the accounts, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) resident: u64,
    pub(super) held: u64,
}

/// How far sessions without a connection have been asked for what nobody accounts for. They end a
/// part at a time, and only as long as each part frees far more than it counted: memory that is
/// not theirs costs one part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Pins {
    /// The accounts explain what the process occupies.
    #[default]
    Explained,
    /// They have not since then, when the process occupied this many bytes: it may go by itself.
    Unexplained(Instant, u64),
    /// A part of the sessions ended then, and this was the size before.
    Tried(Instant, Size),
    /// The last part freed hardly anything.
    Useless,
}

impl Pins {
    /// Whether a part of the sessions without a connection is to end now. The process may be far
    /// larger than the budget and than what is held.
    pub(super) fn look(&mut self, now: Instant, is_unexplained: bool, size: Size) -> bool {
        if !is_unexplained {
            *self = Self::Explained;
            return false;
        }
        let is_over = |since: Instant| now.duration_since(since) >= STEP;
        match *self {
            Self::Explained => *self = Self::Unexplained(now, size.resident),
            // It goes back to the system already.
            Self::Unexplained(_, before) if size.resident < before - before / 64 => {
                *self = Self::Unexplained(now, size.resident);
            }
            Self::Unexplained(since, _) if is_over(since) => *self = Self::Tried(now, size),
            Self::Tried(since, before) if is_over(since) => {
                let freed = before.resident.saturating_sub(size.resident);
                let counted = before.held.saturating_sub(size.held);
                let helps = freed > 2 * counted && freed > before.resident / 64;
                *self = match helps {
                    true => Self::Tried(now, size),
                    false => Self::Useless,
                };
            }
            Self::Unexplained(..) | Self::Tried(..) | Self::Useless => return false,
        }
        matches!(self, Self::Tried(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    /// Looks once a second, for as long as it says: what is asked for, of a process whose size
    /// depends on how many parts have ended.
    fn parts(size: impl Fn(u64) -> (u64, u64), is_overgrown: impl Fn(u64) -> bool) -> u64 {
        let (mut pins, mut ended, start) = (Pins::default(), 0, Instant::now());
        for second in 0..100 {
            let (resident, held) = size(ended);
            let size = Size {
                resident: resident * MIB,
                held: held * MIB,
            };
            let now = start + Duration::from_secs(second);
            let ends = pins.look(now, is_overgrown(ended), size);
            assert!(!ends || second >= 3, "it may go by itself");
            ended += u64::from(ends);
        }
        ended
    }

    #[test]
    fn sessions_end_as_long_as_that_frees_more_than_they_count() {
        // Each part counts 1 MiB and keeps 50.
        let pinned = |ended| (500 - 50 * ended, 10 - ended);
        assert_eq!(parts(pinned, |ended| ended < 4), 4);
        // What is lost is not theirs.
        let leaked = |ended| (500 - ended, 10 - ended);
        assert_eq!(parts(leaked, |_| true), 1);
        // Nothing is wrong.
        assert_eq!(parts(pinned, |_| false), 0);
    }

    /// What clients have left goes back to the system over some seconds.
    #[test]
    fn a_process_that_shrinks_costs_nobody_a_session() {
        let (mut pins, now) = (Pins::default(), Instant::now());
        for second in 0..20 {
            let size = Size {
                resident: (1_000 - 20 * second) * MIB,
                held: 10 * MIB,
            };
            assert!(!pins.look(now + Duration::from_secs(second), true, size));
        }
    }

    #[test]
    fn what_is_explained_again_begins_again() {
        let (mut pins, now) = (Pins::default(), Instant::now());
        let size = Size {
            resident: 500 * MIB,
            held: 10 * MIB,
        };
        let mut look =
            |secs, is_overgrown| pins.look(now + Duration::from_secs(secs), is_overgrown, size);
        let looks = [look(0, true), look(2, true), look(3, true), look(4, true)];
        assert_eq!(looks, [false, false, true, false]);
        assert!(!look(6, true), "it did not help");
        assert!(!look(60, true));
        assert!(!look(61, false));
        assert!(!look(62, true));
        assert!(look(65, true));
    }
}
