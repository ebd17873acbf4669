//! The space-saving sketch of Metwally, Agrawal and El Abbadi: the heaviest of any number of
//! things, counted in a fixed number of places.
//!
//! A thing without a place takes that of the lightest one and inherits its count, which from then
//! on is the most by which its own count may be too high.

use alloc::vec::Vec;

use hashbrown::HashMap;

/// How many things have a place.
pub(crate) const PLACES: usize = 256;

/// Places that are searched together: the square root of all, so that the lightest is found by
/// looking at two times as many.
const BLOCK: usize = 16;

/// A thing that has a place.
#[derive(Debug)]
struct Place<T> {
    key: u64,
    /// The most by which its count is too high.
    error: u64,
    thing: T,
}

/// A thing, and what was counted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted<'a, T> {
    /// The key that it was counted by.
    pub(crate) key: u64,
    /// What it weighs together, or more: not more than `error` above it.
    pub(crate) count: u64,
    /// The most by which `count` is too high.
    pub(crate) error: u64,
    /// The thing.
    pub(crate) thing: &'a T,
}

/// The heaviest things, by the sum of their weights.
///
/// - The counts of all places make the sum of all weights.
/// - A thing that weighs more than [`SpaceSaving::floor`] has a place, so each does that has more
///   than one part in [`PLACES`] of the whole.
/// - Halving rounds down: each time, a thing may seem lighter by less than 1.
#[derive(Debug)]
pub(crate) struct SpaceSaving<T> {
    places: Vec<Place<T>>,
    /// By place; apart from the rest, so that a search reads few bytes.
    counts: Vec<u64>,
    /// The lowest count of each block.
    lowest: [u64; PLACES / BLOCK],
    /// Where a key has its place.
    by_key: HashMap<u64, usize, foldhash::fast::FixedState>,
}

impl<T> Default for SpaceSaving<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            counts: Vec::new(),
            lowest: [u64::MAX; PLACES / BLOCK],
            by_key: HashMap::default(),
        }
    }
}

impl<T> SpaceSaving<T> {
    /// Counts a thing by its key, which stands for it: keys have to be spread evenly. Returns it as
    /// it has its place; `make` makes it if it had none.
    pub(crate) fn add(&mut self, key: u64, weight: u64, make: impl FnOnce() -> T) -> &mut T {
        let at = match self.by_key.get(&key) {
            Some(at) => *at,
            None => self.give_place(key, make),
        };
        let before = self.counts[at];
        self.counts[at] = before.saturating_add(weight);
        let block = at / BLOCK;
        if before <= self.lowest[block] {
            self.find_lowest(block);
        }
        &mut self.places[at].thing
    }

    /// Makes room for a thing that has no place, and returns where.
    fn give_place(&mut self, key: u64, make: impl FnOnce() -> T) -> usize {
        let is_full = self.places.len() >= PLACES;
        let at = match is_full {
            true => self.lightest(),
            false => self.places.len(),
        };
        let mut place = Place {
            key,
            error: 0,
            thing: make(),
        };
        if is_full {
            place.error = self.counts[at];
            self.by_key.remove(&self.places[at].key);
            self.places[at] = place;
        } else {
            self.places.push(place);
            self.counts.push(0);
        }
        self.by_key.insert(key, at);
        at
    }

    /// The place of the lightest thing; 0 while there is none.
    fn lightest(&self) -> usize {
        let blocks = self.lowest.iter().enumerate();
        let Some((block, lowest)) = blocks.min_by_key(|(_, lowest)| **lowest) else {
            return 0;
        };
        let counts = self.counts.iter().skip(block * BLOCK).take(BLOCK);
        let within = counts.into_iter().position(|count| count == lowest);
        block * BLOCK + within.unwrap_or(0)
    }

    fn find_lowest(&mut self, block: usize) {
        let counts = self.counts.iter().skip(block * BLOCK).take(BLOCK);
        self.lowest[block] = counts.copied().min().unwrap_or(u64::MAX);
    }

    /// Halves all counts some times, and forgets the things that weigh nothing any more. `halve`
    /// does the same to what a thing counts itself.
    pub(crate) fn halve(&mut self, times: u32, mut halve: impl FnMut(&mut T)) {
        let (places, counts) = (core::mem::take(&mut self.places), &mut self.counts);
        let old = core::mem::take(counts);
        self.by_key.clear();
        for (mut place, count) in places.into_iter().zip(old) {
            let (halved, error) = halved(count, place.error, times);
            if halved > 0 {
                place.error = error;
                halve(&mut place.thing);
                self.by_key.insert(place.key, self.places.len());
                self.places.push(place);
                counts.push(halved);
            }
        }
        for block in 0..self.lowest.len() {
            self.find_lowest(block);
        }
    }

    /// The most that something may weigh that has no place; 0 while there are places left.
    pub(crate) fn floor(&self) -> u64 {
        match self.places.len() < PLACES {
            true => 0,
            false => self.lowest.iter().copied().min().unwrap_or(0),
        }
    }

    /// All things that have a place, in no order: [`PLACES`] at most.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Counted<'_, T>> {
        let both = self.places.iter().zip(&self.counts);
        both.map(|(place, count)| Counted {
            key: place.key,
            count: *count,
            error: place.error,
            thing: &place.thing,
        })
    }
}

/// A count and its error after some halvings. What is certain is halved by itself, so that
/// rounding makes nothing certain that is not.
pub(crate) fn halved(count: u64, error: u64, times: u32) -> (u64, u64) {
    let half = |value: u64| value.checked_shr(times).unwrap_or(0);
    (half(count), half(count) - half(count - error))
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    /// Numbers that look like chance, from a seed.
    fn chance(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
        }
    }

    fn counted(sketch: &SpaceSaving<u64>) -> BTreeMap<u64, (u64, u64)> {
        let all = sketch.iter();
        all.map(|it| (*it.thing, (it.count, it.error))).collect()
    }

    /// All that the type promises, against exact sums.
    fn check(sketch: &SpaceSaving<u64>, exact: &BTreeMap<u64, u64>, halvings: u64) {
        let found = counted(sketch);
        let whole: u64 = exact.values().sum();
        let sum: u64 = found.values().map(|(count, _)| count).sum();
        assert!(found.len() <= PLACES);
        assert!(sum.abs_diff(whole) <= halvings * exact.len() as u64);
        assert!(sketch.floor() <= whole / PLACES as u64 + halvings);
        for (thing, weight) in exact {
            match found.get(thing) {
                Some((count, error)) => {
                    assert!(*weight <= count + 2 * halvings, "{thing}: {weight} {count}");
                    assert!(
                        count - error <= *weight,
                        "{thing}: {weight} {count}-{error}"
                    );
                }
                None => assert!(
                    *weight <= sketch.floor() + 2 * halvings,
                    "{thing} is missing"
                ),
            }
        }
        let lowest = found.values().map(|(count, _)| *count).min();
        let is_full = found.len() == PLACES;
        assert_eq!(sketch.floor(), lowest.filter(|_| is_full).unwrap_or(0));
    }

    #[test]
    fn as_many_things_as_places_are_counted_exactly() {
        let (mut sketch, mut exact) = (SpaceSaving::default(), BTreeMap::new());
        for round in 1..=3 {
            for thing in 0..PLACES as u64 {
                sketch.add(thing, thing * round, || thing);
                *exact.entry(thing).or_insert(0) += thing * round;
            }
        }
        let is_exact = |(thing, (count, error)): (u64, (u64, u64))| {
            assert_eq!((count, error), (exact[&thing], 0), "{thing}");
        };
        counted(&sketch).into_iter().for_each(is_exact);
        check(&sketch, &exact, 0);
    }

    #[test]
    fn a_new_thing_takes_the_place_of_the_lightest_and_inherits_its_count() {
        let mut sketch = SpaceSaving::default();
        for thing in 0..PLACES as u64 {
            let weight = if thing == 77 { 5 } else { 10 };
            sketch.add(thing, weight, || thing);
        }
        assert_eq!(sketch.floor(), 5);
        sketch.add(1_000, 3, || 1_000);
        let found = counted(&sketch);
        assert_eq!(found.get(&77), None);
        assert_eq!(found[&1_000], (8, 5));
        assert_eq!(sketch.floor(), 8);
    }

    #[test]
    fn promises_hold_for_any_stream() {
        for seed in 0..60 {
            let mut next = chance(seed);
            let (mut sketch, mut exact) = (SpaceSaving::default(), BTreeMap::new());
            let (things, weights) = (
                [10, 300, 5_000][seed as usize % 3],
                [1, 50][seed as usize % 2],
            );
            for _ in 0..4_000 {
                // Some are much more frequent than others.
                let thing = (next() % things).min(next() % things).min(next() % things);
                let weight = 1 + next() % weights;
                sketch.add(thing, weight, || thing);
                *exact.entry(thing).or_insert(0) += weight;
            }
            check(&sketch, &exact, 0);
        }
    }

    #[test]
    fn promises_hold_across_halvings() {
        for seed in 0..30 {
            let mut next = chance(seed);
            let (mut sketch, mut exact) = (SpaceSaving::default(), BTreeMap::<u64, u64>::new());
            for halvings in 0..9 {
                for _ in 0..1_000 {
                    let thing = (next() % 2_000).min(next() % 2_000);
                    sketch.add(thing, 64, || thing);
                    *exact.entry(thing).or_insert(0) += 64;
                }
                check(&sketch, &exact, halvings);
                sketch.halve(1, |_| ());
                exact.values_mut().for_each(|weight| *weight /= 2);
                check(&sketch, &exact, halvings + 1);
            }
        }
    }

    #[test]
    fn halving_several_times_is_halving_once_several_times() {
        let (mut once, mut often) = (SpaceSaving::default(), SpaceSaving::default());
        for thing in 0..PLACES as u64 {
            once.add(thing, thing * 97, || thing);
            often.add(thing, thing * 97, || thing);
        }
        once.halve(5, |_| ());
        (0..5).for_each(|_| often.halve(1, |_| ()));
        assert_eq!(counted(&once), counted(&often));
    }

    #[test]
    fn what_weighs_nothing_any_more_leaves_its_place() {
        let mut sketch = SpaceSaving::default();
        sketch.add(1, 64, || 1);
        sketch.add(2, 64_000, || 2);
        sketch.halve(7, |_| ());
        assert_eq!(counted(&sketch), BTreeMap::from([(2, (500, 0))]));
        sketch.halve(200, |_| ());
        assert_eq!(counted(&sketch), BTreeMap::new());
        sketch.add(3, 1, || 3);
        assert_eq!(counted(&sketch), BTreeMap::from([(3, (1, 0))]));
    }
}
