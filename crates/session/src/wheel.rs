//! A hierarchical timer wheel.

use alloc::vec::Vec;

use crate::Tick;

/// The finest distinction between two deadlines, in microseconds: about an eighth of a second,
/// well inside the second that keep-alive may be late.
const GRAIN_MICROS: u64 = 1 << 17;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Four levels of 64 slots reach 25 days; what lies beyond waits in the last slot and is placed
/// again when that comes round.
const LEVELS: usize = 4;

/// Deadlines of many things, of which most are moved or dropped before they are due.
///
/// There is no removal: an owner whose deadline moved later keeps the old entry and inserts again
/// when that fires ("lazy re-arming"), which costs one entry per owner and nothing per packet.
/// Insert is O(1); advance is O(entries due + slots passed). An entry fires no earlier than its
/// deadline and at most about 0.13 s after it, when `advance` is called often enough.
#[derive(Debug)]
pub struct Wheel<K> {
    levels: [Level<K>; LEVELS],
    /// The grain up to which everything has fired.
    elapsed: u64,
    len: usize,
}

#[derive(Debug)]
struct Level<K> {
    slots: [Vec<(Tick, K)>; SLOTS],
    /// Bit i is set when slot i holds something.
    occupied: u64,
}

impl<K> Level<K> {
    const fn new() -> Self {
        Self {
            slots: [const { Vec::new() }; SLOTS],
            occupied: 0,
        }
    }
}

/// The first grain at whose end a deadline is past.
const fn grain_of(at: Tick) -> u64 {
    at.as_micros().div_ceil(GRAIN_MICROS)
}

impl<K> Wheel<K> {
    /// An empty wheel whose time is `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        Self {
            levels: [const { Level::new() }; LEVELS],
            elapsed: now.as_micros() / GRAIN_MICROS,
            len: 0,
        }
    }

    /// How many deadlines are waiting.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is waiting.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a deadline. One that is already past fires at the next grain.
    pub fn insert(&mut self, at: Tick, key: K) {
        self.len += 1;
        self.place(at, key);
    }

    fn place(&mut self, at: Tick, key: K) {
        let grain = grain_of(at).max(self.elapsed + 1);
        // The highest group of bits in which the two differ. The top level goes round, so a
        // grain past its end still has a slot there, unless it is more than a round away: then
        // it waits in the slot that comes last, and is placed again.
        let level = ((grain ^ self.elapsed).ilog2() / SLOT_BITS) as usize;
        let (level, grain) = if level < LEVELS {
            (level, grain)
        } else {
            let span = SLOT_BITS * (LEVELS as u32 - 1);
            let farthest = (self.elapsed >> span) + SLOTS as u64 - 1;
            (LEVELS - 1, (grain >> span).min(farthest) << span)
        };
        let slot = slot_of(grain, level);
        self.levels[level].slots[slot].push((at, key));
        self.levels[level].occupied |= 1 << slot;
    }

    /// Fires every deadline that is past, in no particular order within one grain.
    pub fn advance(&mut self, now: Tick, mut fire: impl FnMut(K)) {
        let target = now.as_micros() / GRAIN_MICROS;
        while self.elapsed < target {
            if self.len == 0 {
                self.elapsed = target;
                return;
            }
            self.elapsed = self.next_grain().min(target);
            self.cascade();
            let slot = slot_of(self.elapsed, 0);
            self.levels[0].occupied &= !(1 << slot);
            let mut due = core::mem::take(&mut self.levels[0].slots[slot]);
            self.len -= due.len();
            for (_, key) in due.drain(..) {
                fire(key);
            }
            self.keep_capacity(slot, due);
        }
    }

    /// Gives the emptied slot its allocation back unless something was inserted in the meantime.
    fn keep_capacity(&mut self, slot: usize, emptied: Vec<(Tick, K)>) {
        const KEEP: usize = 1024;
        let slot = &mut self.levels[0].slots[slot];
        if slot.capacity() == 0 && emptied.capacity() <= KEEP {
            *slot = emptied;
        }
    }

    /// Moves the entries of the higher slots that begin at this grain to where they now belong.
    fn cascade(&mut self) {
        for level in (1..LEVELS).rev() {
            let span = SLOT_BITS * level as u32;
            if self.elapsed & ((1 << span) - 1) != 0 {
                continue;
            }
            let slot = slot_of(self.elapsed, level);
            if self.levels[level].occupied & (1 << slot) == 0 {
                continue;
            }
            self.levels[level].occupied &= !(1 << slot);
            for (at, key) in core::mem::take(&mut self.levels[level].slots[slot]) {
                if grain_of(at) <= self.elapsed {
                    let now = slot_of(self.elapsed, 0);
                    self.levels[0].slots[now].push((at, key));
                    self.levels[0].occupied |= 1 << now;
                } else {
                    self.place(at, key);
                }
            }
        }
    }

    /// When to call `advance` next; `None` when nothing waits. Never later than the first
    /// deadline plus one grain; it may be earlier, when entries only have to be moved.
    #[must_use]
    pub fn next(&self) -> Option<Tick> {
        (self.len > 0).then(|| Tick::from_micros(self.next_grain().saturating_mul(GRAIN_MICROS)))
    }

    /// The next grain at which some slot begins that holds something.
    fn next_grain(&self) -> u64 {
        let mut next = u64::MAX;
        for (level, content) in self.levels.iter().enumerate() {
            if content.occupied == 0 {
                continue;
            }
            let span = SLOT_BITS * level as u32;
            let current = slot_of(self.elapsed, level) as u32;
            // Slots after the current one come first; the current one is a whole turn away.
            let ahead = content.occupied.rotate_right((current + 1) % SLOTS as u32);
            let steps = u64::from(ahead.trailing_zeros()) + 1;
            next = next.min(((self.elapsed >> span) + steps) << span);
        }
        next
    }
}

const fn slot_of(grain: u64, level: usize) -> usize {
    (grain >> (SLOT_BITS * level as u32)) as usize & (SLOTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    fn slack() -> u64 {
        GRAIN_MICROS
    }

    #[test]
    fn fires_once_and_never_early() {
        let mut wheel = Wheel::new(Tick::ZERO);
        wheel.insert(Tick::from_secs(10), 'a');
        let mut fired = 0;
        for ms in (0..12_000).step_by(50) {
            wheel.advance(Tick::from_millis(ms), |_| {
                fired += 1;
                assert!((10_000..=10_200).contains(&ms), "fired at {ms} ms");
            });
        }
        assert_eq!(fired, 1);
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_past_deadline_fires_at_the_next_grain() {
        let mut wheel = Wheel::new(Tick::from_secs(100));
        wheel.insert(Tick::from_secs(1), ());
        let next = wheel.next().unwrap();
        assert!(next <= Tick::from_micros(100_000_000 + 2 * slack()));
        let mut fired = false;
        wheel.advance(next, |()| fired = true);
        assert!(fired);
    }

    /// Random inserts and jumps against an ordered map, from milliseconds to months.
    #[test]
    fn agrees_with_a_model() {
        for seed in 1..40u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut random = move |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let mut now = random(1 << 40);
            let mut wheel = Wheel::new(Tick::from_micros(now));
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for id in 0..3000u32 {
                let scale = 1 << (10 + random(36));
                let at = now + random(scale);
                wheel.insert(Tick::from_micros(at), id);
                model.insert(id, at);
                if random(3) == 0 {
                    let jump = 1 << (8 + random(32));
                    now += random(jump);
                    wheel.advance(Tick::from_micros(now), |id| {
                        let at = model.remove(&id).expect("fired twice");
                        assert!(at <= now, "seed {seed}: {id} fired {} µs early", at - now);
                    });
                    for (id, at) in &model {
                        assert!(
                            *at + 2 * slack() > now,
                            "seed {seed}: {id} is late, {at} < {now}"
                        );
                    }
                    assert_eq!(wheel.len(), model.len());
                }
            }
            while let Some(next) = wheel.next() {
                assert!(next.as_micros() > now || next.as_micros() == u64::MAX);
                now = next.as_micros();
                wheel.advance(next, |id| {
                    let at = model.remove(&id).expect("fired twice");
                    assert!(
                        at <= now && at + 2 * slack() > now,
                        "seed {seed}: {at} at {now}"
                    );
                });
            }
            assert!(model.is_empty());
        }
    }
}
