//! Numbers that follow from a seed.

/// SplitMix64.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Less than the bound.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("64 bits");
        usize::try_from(self.next() % bound).expect("64 bits")
    }

    /// One case of so many.
    pub(super) fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    /// From 1 to `max`: small numbers as often as large ones, and the largest now and then.
    pub(super) fn size(&mut self, max: usize) -> usize {
        if self.one_in(8) {
            return max;
        }
        let bits = self.below(max.ilog2() as usize + 1);
        (1 + self.below(2 << bits)).min(max)
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
