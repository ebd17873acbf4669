//! How fast the requests of a session may come.

use std::time::Duration;

use stentor_session::Tick;

/// The time of one request: 20 in a second.
const STEP: Duration = Duration::from_millis(50);

/// Requests that may come at once.
const BURST: u32 = 60;

/// When what has come would have come at that pace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace(Tick);

impl Pace {
    /// Counts a request.
    ///
    /// # Errors
    /// When it comes too early: after how long it may come. Then it does not count.
    pub(super) fn count(&mut self, now: Tick) -> Result<(), Duration> {
        let due = self.0.max(now).after(STEP);
        let ahead = due.since(now);
        match ahead.checked_sub(STEP * BURST) {
            Some(early) if !early.is_zero() => Err(early),
            _ => {
                self.0 = due;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_come_at_once_and_then_twenty_in_a_second() {
        let (mut pace, now) = (Pace::default(), Tick::from_secs(100));
        let passed = (0..100).filter(|_| pace.count(now).is_ok()).count();
        assert_eq!(passed, 60);
        assert_eq!(pace.count(now), Err(STEP));
        let second = now.after(Duration::from_secs(1));
        let passed = (0..100).filter(|_| pace.count(second).is_ok()).count();
        assert_eq!(passed, 20);
        let later = second.after(Duration::from_secs(60));
        let passed = (0..100).filter(|_| pace.count(later).is_ok()).count();
        assert_eq!(passed, 60, "what was not used is not kept for later");
    }
}
