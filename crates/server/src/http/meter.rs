//! How fast the bearer of a token publishes: the quotas of a connection hold for a token too.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stentor_hub::Quotas;
use stentor_session::Tick;

/// What may be published at once: as much as in one second.
const BURST: Duration = Duration::from_secs(1);

/// When what was published would have been published at the rate of each quota.
#[derive(Debug, Default)]
pub(super) struct Meter(Mutex<Due>);

#[derive(Clone, Copy, Debug, Default)]
struct Due {
    messages: Tick,
    bytes: Tick,
}

/// A quota that is used up, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Messages(u32),
    Bytes(u64),
}

impl Meter {
    /// Counts a message of this many bytes, unless a quota is used up.
    ///
    /// # Errors
    /// The quota: then nothing is counted.
    pub(super) fn count(&self, now: Tick, quotas: Quotas, bytes: u64) -> Result<(), Over> {
        let mut due = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = *due;
        if let Some(rate) = quotas.messages_per_sec {
            next.messages = later(now, due.messages, 1, rate.into()).ok_or(Over::Messages(rate))?;
        }
        if let Some(rate) = quotas.bytes_per_sec {
            next.bytes = later(now, due.bytes, bytes, rate).ok_or(Over::Bytes(rate))?;
        }
        *due = next;
        Ok(())
    }
}

/// When this count more would have been published; `None` if too many are ahead of now.
fn later(now: Tick, due: Tick, count: u64, rate: u64) -> Option<Tick> {
    let due = due.max(now);
    if due.since(now) > BURST {
        return None;
    }
    // A rate is not 0, and a body is far below 2^40 bytes.
    Some(due.after(Duration::from_micros(count * 1_000_000 / rate.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_messages_may_come_at_once() {
        let meter = Meter::default();
        let quotas = Quotas {
            messages_per_sec: Some(10),
            bytes_per_sec: Some(1_000),
            ..Quotas::default()
        };
        let now = Tick::from_secs(100);
        let passed = (0..100).filter(|_| meter.count(now, quotas, 10).is_ok());
        assert_eq!(passed.count(), 11);
        assert_eq!(meter.count(now, quotas, 10), Err(Over::Messages(10)));
        let later = now.after(Duration::from_secs(5));
        assert_eq!(
            meter.count(later, quotas, 2_000),
            Ok(()),
            "the last one may be large"
        );
        assert_eq!(meter.count(later, quotas, 1), Err(Over::Bytes(1_000)));
        let later = later.after(Duration::from_secs(2));
        assert_eq!(meter.count(later, quotas, 1), Ok(()));
        assert_eq!(
            Meter::default().count(now, Quotas::default(), u64::MAX),
            Ok(())
        );
    }
}
