//! The sums, for all shards and for everybody who asks.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::core::ids::ShardId;

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holding {
    /// Sessions with their subscriptions, aliases and wills.
    Sessions,
    /// Messages and other packets that wait for clients or are in flight to them. A message that
    /// waits for several clients counts for each.
    Queues,
    /// Output that waits for the sockets of connections that have been disconnected.
    Draining,
    /// Connections beside their sessions: packets that have not come whole or are not applied yet,
    /// logins that are not decided, and the buffers of TLS and WebSocket. What event streams over
    /// HTTP hold for their readers is a part of it.
    Connections,
    /// Work of earlier packets that goes on in later turns, what waited for sessions that have
    /// ended and is not dropped yet, and what clients that have gone owe for work.
    Work,
    /// What is on its way to other shards.
    Mesh,
    /// Data that waits until the files of the sessions have it: records, messages of long backlogs,
    /// and the answers and messages that leave only then.
    Journal,
    /// The index of the retained topics. The messages themselves lie in files.
    Retained,
    /// Rooms with their properties, members and histories.
    Rooms,
    /// Messages that procedures are asked about, as far as they are in memory.
    Procedures,
}

impl Holding {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Sessions,
        Self::Queues,
        Self::Draining,
        Self::Connections,
        Self::Work,
        Self::Mesh,
        Self::Journal,
        Self::Retained,
        Self::Rooms,
        Self::Procedures,
    ];

    /// A word for people and for machines.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Queues => "queues",
            Self::Draining => "draining",
            Self::Connections => "connections",
            Self::Work => "work",
            Self::Mesh => "mesh",
            Self::Journal => "journal",
            Self::Retained => "retained",
            Self::Rooms => "rooms",
            Self::Procedures => "procedures",
        }
    }
}

/// How near what is held has come to the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// There is room.
    #[default]
    None,
    /// Four fifths are held: see [`crate::Operate::relieve`].
    Pressed,
    /// All of it is.
    Full,
}

impl Pressure {
    /// A word for people and for machines.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pressed => "pressed",
            Self::Full => "full",
        }
    }

    /// How many hundredths of the budget begin it.
    const PRESSED_PERCENT: u64 = 80;

    /// How many hundredths of the budget are held again when sessions no longer end for it: fewer,
    /// so that the state does not change all the time.
    const RELIEVED_PERCENT: u64 = 75;

    const fn of(used: u64, budget: u64, before: Self) -> Self {
        if used >= budget {
            return Self::Full;
        }
        let begins = match before {
            Self::None => Self::PRESSED_PERCENT,
            Self::Pressed | Self::Full => Self::RELIEVED_PERCENT,
        };
        if used >= hundredths(budget, begins) {
            Self::Pressed
        } else {
            Self::None
        }
    }
}

const fn hundredths(whole: u64, percent: u64) -> u64 {
    (whole / 100).saturating_mul(percent)
}

/// What the process may occupy beyond the hundredths of the budget: the allocator and the threads
/// keep some for themselves.
const SLACK_BYTES: u64 = 64 << 20;

/// How many hundredths of the budget the process may occupy, and how many it occupies at most when
/// it is no longer too large.
const OCCUPIED_PERCENT: (u64, u64) = (120, 100);

/// What one shard has written: on cache lines of its own, so that no shard waits for another.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Page {
    held: [AtomicU64; Holding::ALL.len()],
    /// Sessions of the tenant who has most of those that wait for their clients here.
    most_absent: AtomicU32,
    /// What the owner holds here, in connected sessions that hold much each, who holds most so.
    most_laden: AtomicU64,
    /// What sessions hold here that wait for their clients.
    absent: AtomicU64,
    /// What the shard held when [`Ledger::has_grown`] last looked at all shards, or less than that
    /// since.
    looked_at: AtomicU64,
}

impl Page {
    fn total(&self) -> u64 {
        let figure = |held: &AtomicU64| held.load(Ordering::Relaxed);
        self.held.iter().map(figure).sum()
    }
}

/// What the server holds, by kind, in bytes. Each shard writes its own figures; readers get the
/// sums as they were at the end of the shards' last turns.
#[derive(Debug)]
pub struct Ledger {
    /// One for each shard, and the last for the rest of the server.
    pages: Box<[Page]>,
    /// Bytes that may be held; `u64::MAX` for any number.
    budget: AtomicU64,
    /// A [`Pressure`].
    pressure: AtomicU8,
    /// What the process occupied before it had clients.
    own: AtomicU64,
    /// Whether the process occupies far more than the budget.
    is_overgrown: AtomicBool,
}

impl Ledger {
    /// Nothing is held yet.
    #[must_use]
    pub fn new(shards: u8) -> Self {
        let pages = (0..=shards).map(|_| Page::default());
        Self {
            pages: pages.collect(),
            budget: AtomicU64::new(u64::MAX),
            pressure: AtomicU8::new(0),
            own: AtomicU64::new(0),
            is_overgrown: AtomicBool::new(false),
        }
    }

    /// The process, which has no clients yet, occupies so much by the system's account.
    pub fn set_own(&self, resident: u64) {
        let own = resident.saturating_sub(self.total());
        self.own.store(own, Ordering::Relaxed);
    }

    /// The same, if it is less than was said before: the start may have left memory behind that
    /// the system got back later. It says nothing once clients hold much: a message that waits for
    /// several of them counts for each.
    pub fn lower_own(&self, resident: u64) {
        /// The figure is about this much too small at most.
        const HELD_MAX: u64 = 1 << 20;
        let held = self.total();
        if held <= HELD_MAX {
            let own = resident.saturating_sub(held);
            self.own.fetch_min(own, Ordering::Relaxed);
        }
    }

    /// What [`Ledger::set_own`] and [`Ledger::lower_own`] said, without what was held by then.
    #[must_use]
    pub fn own(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }

    /// Whether the process occupied far more than the budget when that was last looked at,
    /// whatever is held.
    #[must_use]
    pub fn is_overgrown(&self) -> bool {
        self.is_overgrown.load(Ordering::Relaxed)
    }

    /// Bytes that may be held from now on; `u64::MAX` for any number.
    pub fn set_budget(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that may be held.
    #[must_use]
    pub fn budget(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    /// How near what was held had come to the budget, when that was last looked at.
    #[inline]
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        match self.pressure.load(Ordering::Relaxed) {
            0 => Pressure::None,
            1 => Pressure::Pressed,
            _ => Pressure::Full,
        }
    }

    /// Looks at what is held. `resident` is what the process occupies by the system's account:
    /// where that is less, it is right, for a message that waits for several clients counts for
    /// each in the ledger. Where it is more than the budget by a fifth and 64 MiB, beside
    /// what the server itself takes, the budget is used up whatever the ledger says. Returns how
    /// many bytes are to be freed: of what is held, since nothing else can be. One thread calls it.
    pub fn assess(&self, resident: Option<u64>) -> u64 {
        let used = self.total().min(resident.unwrap_or(u64::MAX));
        let budget = self.budget();
        let percent = match self.is_overgrown() {
            false => OCCUPIED_PERCENT.0,
            true => OCCUPIED_PERCENT.1,
        };
        let is_overgrown = self.exceeds(resident.unwrap_or(0), budget, percent);
        self.is_overgrown.store(is_overgrown, Ordering::Relaxed);
        let pressure = match is_overgrown {
            false => Pressure::of(used, budget, self.pressure()),
            true => Pressure::Full,
        };
        self.pressure.store(pressure as u8, Ordering::Relaxed);
        if pressure == Pressure::None {
            return 0;
        }
        used.saturating_sub(hundredths(budget, Pressure::RELIEVED_PERCENT))
    }

    /// Whether a process that occupies so much by the system's account is far larger than what is
    /// held: by a fifth and 64 MiB, beside what the server itself takes.
    #[must_use]
    pub fn is_unexplained(&self, resident: u64) -> bool {
        self.exceeds(resident, self.total(), OCCUPIED_PERCENT.0)
    }

    /// Whether the process occupies more than this part of `bytes`, and some, beside what the
    /// server itself takes.
    fn exceeds(&self, resident: u64, bytes: u64, percent: u64) -> bool {
        let occupied = resident.saturating_sub(self.own());
        occupied > hundredths(bytes, percent).saturating_add(SLACK_BYTES)
    }

    /// A shard's own figure of one kind.
    pub fn write(&self, shard: ShardId, kind: Holding, bytes: u64) {
        if let Some(page) = self.pages.get(usize::from(shard.0)) {
            page.held[kind as usize].store(bytes, Ordering::Relaxed);
        }
    }

    /// The figure of one kind that belongs to no shard.
    pub fn write_common(&self, kind: Holding, bytes: u64) {
        if let Some(page) = self.pages.last() {
            page.held[kind as usize].store(bytes, Ordering::Relaxed);
        }
    }

    /// How many sessions the tenant has, on all shards, who has most on this one of those that wait
    /// for their clients.
    pub fn write_most_absent(&self, shard: ShardId, sessions: u32) {
        if let Some(page) = self.pages.get(usize::from(shard.0)) {
            page.most_absent.store(sessions, Ordering::Relaxed);
        }
    }

    /// What [`Ledger::write_most_absent`] wrote.
    #[must_use]
    pub fn most_absent(&self, shard: ShardId) -> u32 {
        let page = self.pages.get(usize::from(shard.0));
        page.map_or(0, |page| page.most_absent.load(Ordering::Relaxed))
    }

    /// What sessions of this shard hold that wait for their clients.
    pub fn write_absent(&self, shard: ShardId, bytes: u64) {
        if let Some(page) = self.pages.get(usize::from(shard.0)) {
            page.absent.store(bytes, Ordering::Relaxed);
        }
    }

    /// What such sessions of all shards hold beyond one in `parts` of the budget.
    #[must_use]
    pub fn absent_beyond(&self, parts: u64) -> u64 {
        let figure = |page: &Page| page.absent.load(Ordering::Relaxed);
        let all: u64 = self.pages.iter().map(figure).sum();
        all.saturating_sub(self.budget() / parts)
    }

    /// What the owner holds, in connected sessions of this shard that hold much each, who holds
    /// most in that way.
    pub fn write_most_laden(&self, shard: ShardId, bytes: u64) {
        if let Some(page) = self.pages.get(usize::from(shard.0)) {
            page.most_laden.store(bytes, Ordering::Relaxed);
        }
    }

    /// The most of what [`Ledger::write_most_laden`] wrote.
    #[must_use]
    pub fn most_laden(&self) -> u64 {
        let figure = |page: &Page| page.most_laden.load(Ordering::Relaxed);
        self.pages.iter().map(figure).max().unwrap_or(0)
    }

    /// What one shard holds of a kind.
    #[must_use]
    pub fn of_shard(&self, shard: ShardId, kind: Holding) -> u64 {
        let page = self.pages.get(usize::from(shard.0));
        page.map_or(0, |page| page.held[kind as usize].load(Ordering::Relaxed))
    }

    /// Whether a shard holds so much more than before that somebody should look, for all shards
    /// hold half of the budget. O(1), and O(shards) once in a while. The shard itself calls it.
    pub fn has_grown(&self, shard: ShardId) -> bool {
        /// Shards look at all of them when they hold this part of the budget more, together.
        const PARTS: u64 = 32;
        let Some(page) = self.pages.get(usize::from(shard.0)) else {
            return false;
        };
        let (held, budget) = (page.total(), self.budget());
        // Nobody else writes it.
        let before = page.looked_at.load(Ordering::Relaxed);
        if held < before {
            page.looked_at.store(held, Ordering::Relaxed);
        }
        if held.saturating_sub(before) < budget / PARTS / self.pages.len() as u64 {
            return false;
        }
        page.looked_at.store(held, Ordering::Relaxed);
        self.total() >= budget / 2
    }

    /// What is held of a kind.
    #[must_use]
    pub fn of(&self, kind: Holding) -> u64 {
        let figure = |page: &Page| page.held[kind as usize].load(Ordering::Relaxed);
        self.pages.iter().map(figure).sum()
    }

    /// What is held of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.pages.iter().map(Page::total).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_begins_at_four_fifths_and_ends_below_three_quarters() {
        let ledger = Ledger::new(2);
        let hold = |bytes| ledger.write(ShardId(1), Holding::Queues, bytes);
        hold(1 << 40);
        assert_eq!(ledger.assess(None), 0, "any number may be held");
        ledger.set_budget(1_000);
        for (bytes, pressure, excess) in [
            (799, Pressure::None, 0),
            (800, Pressure::Pressed, 50),
            (760, Pressure::Pressed, 10),
            (1_000, Pressure::Full, 250),
            (750, Pressure::Pressed, 0),
            (749, Pressure::None, 0),
            (799, Pressure::None, 0),
        ] {
            hold(bytes);
            assert_eq!(ledger.assess(None), excess, "{bytes}");
            assert_eq!(ledger.pressure(), pressure, "{bytes}");
        }
        hold(5_000);
        assert_eq!(
            ledger.assess(Some(100)),
            0,
            "messages that are shared count once"
        );
        assert_eq!(ledger.assess(Some(900)), 150);
    }

    /// What nobody's account explains is not freed by ending sessions.
    #[test]
    fn a_process_that_is_far_larger_than_the_budget_takes_nobody_new() {
        const BUDGET: u64 = 1 << 30;
        let ledger = Ledger::new(1);
        ledger.write(ShardId(0), Holding::Connections, 1_000);
        ledger.set_own(6_001_000);
        assert_eq!(ledger.own(), 6_000_000);
        for resident in [5_001_000, 9_000_000] {
            ledger.lower_own(resident);
            assert_eq!(ledger.own(), 5_000_000);
        }
        assert_eq!(ledger.assess(Some(u64::MAX)), 0, "any number may be held");
        assert_eq!(ledger.pressure(), Pressure::None);
        ledger.set_budget(BUDGET);
        let most = hundredths(BUDGET, 120) + SLACK_BYTES + 5_000_000;
        let least = hundredths(BUDGET, 100) + SLACK_BYTES + 5_000_000;
        for (resident, pressure) in [
            (most, Pressure::None),
            (most + 1, Pressure::Full),
            (least + 1, Pressure::Full),
            (least, Pressure::None),
            (most, Pressure::None),
        ] {
            assert_eq!(ledger.assess(Some(resident)), 0, "{resident}");
            assert_eq!(ledger.pressure(), pressure, "{resident}");
            assert_eq!(ledger.is_overgrown(), pressure == Pressure::Full);
        }
        assert_eq!(ledger.assess(None), 0);
        assert_eq!(ledger.pressure(), Pressure::None);
    }

    /// What connected clients hold is no reason to end sessions of others whose messages are small.
    #[test]
    fn what_is_held_explains_what_the_process_occupies() {
        let ledger = Ledger::new(1);
        ledger.set_own(5_000_000);
        ledger.set_budget(1 << 30);
        ledger.write(ShardId(0), Holding::Queues, 2 << 30);
        let most = hundredths(2 << 30, 120) + SLACK_BYTES + 5_000_000;
        assert!(!ledger.is_unexplained(most));
        assert!(ledger.is_unexplained(most + 1));
        ledger.write(ShardId(0), Holding::Queues, 0);
        assert!(ledger.is_unexplained(SLACK_BYTES + 5_000_001));
    }

    #[test]
    fn a_shard_calls_when_it_has_grown_and_all_hold_half_of_the_budget() {
        let ledger = Ledger::new(1);
        let hold = |bytes| ledger.write(ShardId(0), Holding::Queues, bytes);
        hold(1 << 40);
        assert!(!ledger.has_grown(ShardId(0)), "any number may be held");
        hold(0);
        assert!(!ledger.has_grown(ShardId(0)));
        ledger.set_budget(6_400);
        ledger.write_common(Holding::Retained, 1_000);
        for (bytes, has_grown) in [
            (2_199, false),
            (2_200, false),
            (2_298, false),
            (2_299, true),
            (2_300, false),
            (2_399, true),
            (2_100, false),
            (2_199, false),
            (2_200, true),
        ] {
            hold(bytes);
            assert_eq!(ledger.has_grown(ShardId(0)), has_grown, "{bytes}");
        }
        assert!(!ledger.has_grown(ShardId(7)), "there is no such shard");
    }

    #[test]
    fn half_of_the_budget_is_for_sessions_that_wait_for_their_clients() {
        let ledger = Ledger::new(2);
        ledger.write_absent(ShardId(0), 300);
        ledger.write_absent(ShardId(1), 400);
        assert_eq!(ledger.absent_beyond(2), 0, "any number may be held");
        ledger.set_budget(1_000);
        assert_eq!(
            (ledger.absent_beyond(2), ledger.absent_beyond(10)),
            (200, 600)
        );
        ledger.write_absent(ShardId(1), 200);
        assert_eq!(ledger.absent_beyond(2), 0);
    }

    /// Each shard says what its own owners hold.
    #[test]
    fn who_holds_most_on_any_shard_is_known_to_all() {
        let ledger = Ledger::new(2);
        assert_eq!(ledger.most_laden(), 0);
        for (shard, bytes) in [(0, 7), (1, 9), (0, 8)] {
            ledger.write_most_laden(ShardId(shard), bytes);
        }
        assert_eq!(ledger.most_laden(), 9);
    }

    #[test]
    fn every_kind_has_a_figure_and_a_word_of_its_own() {
        let ledger = Ledger::new(1);
        for (kind, bytes) in Holding::ALL.into_iter().zip(1..) {
            ledger.write(ShardId(0), kind, bytes);
            ledger.write_common(kind, 100);
        }
        for (kind, bytes) in Holding::ALL.into_iter().zip(1..) {
            assert_eq!(ledger.of(kind), bytes + 100);
            let labels = Holding::ALL.map(Holding::label);
            let same = labels.iter().filter(|label| **label == kind.label());
            assert_eq!(same.count(), 1);
        }
        assert_eq!(ledger.total(), 1_000 + 55);
    }
}
