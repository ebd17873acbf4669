//! What names cost, counted for tests alone: bytes that are compared or copied, and entries.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts this many bytes or entries.
#[cfg(test)]
pub(super) fn count(steps: usize) {
    STEPS.with(|all| all.set(all.get() + steps));
}

/// Nobody counts.
#[cfg(not(test))]
#[inline]
pub(super) const fn count(_steps: usize) {}

/// What was counted since it was last asked for.
#[cfg(test)]
pub(super) fn take() -> usize {
    STEPS.with(std::cell::Cell::take)
}
