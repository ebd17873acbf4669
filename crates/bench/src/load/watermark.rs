//! How far the slowest of many subscribers has come, at constant cost per arrival.

/// Counts subscribers by the number they expect next. The lowest of these numbers only rises, so
/// finding it again costs nothing on average.
#[derive(Debug)]
pub(crate) struct Watermark {
    /// Ring: how many subscribers expect the number that falls into each place.
    waiting: Box<[u32]>,
    low: u64,
    subscribers: u32,
}

impl Watermark {
    /// All subscribers expect number 0, and none will ever be `span_max` or more ahead of the
    /// slowest.
    pub(crate) fn new(subscribers: u32, span_max: u64) -> Self {
        let places = usize::try_from(span_max + 1)
            .unwrap_or(usize::MAX)
            .next_power_of_two();
        let mut waiting = vec![0; places].into_boxed_slice();
        waiting[0] = subscribers;
        Self {
            waiting,
            low: 0,
            subscribers,
        }
    }

    /// What the slowest subscriber expects next: everything below has reached all of them.
    /// `u64::MAX` when there is none.
    #[inline]
    pub(crate) fn low(&self) -> u64 {
        if self.subscribers == 0 {
            u64::MAX
        } else {
            self.low
        }
    }

    /// A subscriber that expected `from` now expects `to`.
    #[inline]
    pub(crate) fn advance(&mut self, from: u64, to: u64) {
        debug_assert!(from <= to && to - self.low < self.waiting.len() as u64);
        *self.place(from) -= 1;
        *self.place(to) += 1;
        self.settle();
    }

    /// A subscriber that expected `at` is gone.
    pub(crate) fn remove(&mut self, at: u64) {
        *self.place(at) -= 1;
        self.subscribers -= 1;
        self.settle();
    }

    #[inline]
    fn settle(&mut self) {
        while self.subscribers > 0 && *self.place(self.low) == 0 {
            self.low += 1;
        }
    }

    #[inline]
    fn place(&mut self, number: u64) -> &mut u32 {
        let mask = self.waiting.len() - 1;
        // The mask makes the truncation exact.
        &mut self.waiting[number as usize & mask]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_sets_the_mark() {
        let mut mark = Watermark::new(3, 100);
        mark.advance(0, 50);
        mark.advance(0, 7);
        assert_eq!(mark.low(), 0);
        mark.advance(0, 3);
        assert_eq!(mark.low(), 3);
        mark.advance(3, 90);
        assert_eq!(mark.low(), 7);
        mark.remove(7);
        assert_eq!(mark.low(), 50);
        mark.remove(50);
        mark.remove(90);
        assert_eq!(mark.low(), u64::MAX);
    }

    #[test]
    fn the_ring_is_reused_for_ever() {
        let mut mark = Watermark::new(2, 4);
        for number in 0..1_000 {
            mark.advance(number, number + 1);
            assert_eq!(mark.low(), number);
            mark.advance(number, number + 1);
            assert_eq!(mark.low(), number + 1);
        }
    }
}
