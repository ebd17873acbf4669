//! Connections that were refused or have ended, counted by reason.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use stentor_admin::REASONS;
use stentor_control::events::Kind;
use stentor_hub::Event;
use stentor_session::CloseReason;

use super::journal::Entry;
use crate::reference::close_labels;

/// The labels of all reasons, in order.
static LABELS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut labels: Vec<&'static str> = close_labels().collect();
    labels.sort_unstable();
    labels.dedup();
    labels
});

/// Counters by reason. Shards count as they leave entries for the log, so it does not matter
/// whether the log has room for them.
#[derive(Debug)]
pub(crate) struct Tallies {
    refused: Vec<AtomicU64>,
    ended: Vec<AtomicU64>,
    shed: AtomicU64,
    /// Requests by HTTP, by the words of the HTTP server.
    http: [AtomicU64; REASONS.len()],
    http_logins: AtomicU64,
}

impl Default for Tallies {
    fn default() -> Self {
        let zeros = || LABELS.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            refused: zeros(),
            ended: zeros(),
            shed: AtomicU64::new(0),
            http: [const { AtomicU64::new(0) }; REASONS.len()],
            http_logins: AtomicU64::new(0),
        }
    }
}

impl Tallies {
    /// Counts what is left for the log.
    pub(super) fn count(&self, entry: &Entry) {
        match entry {
            Entry::Refused { reason, .. } => add(&self.refused, *reason),
            Entry::Session(Event::Disconnected { reason, .. }, _) => add(&self.ended, *reason),
            Entry::ByHttp(request) if request.kind == Kind::LoggedIn => {
                self.http_logins.fetch_add(1, Ordering::Relaxed);
            }
            Entry::ByHttp(request) => {
                let place = REASONS.binary_search(&request.reason);
                debug_assert!(place.is_ok(), "{} has no counter", request.reason);
                if let Some(counter) = place.ok().and_then(|place| self.http.get(place)) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }
            Entry::Shed { .. } => {
                self.shed.fetch_add(1, Ordering::Relaxed);
            }
            Entry::Session(..)
            | Entry::Administered(..)
            | Entry::Banned(..)
            | Entry::LongTurn(..) => {}
        }
    }

    /// Connections that were refused, for every reason that there is.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        counted(&self.refused)
    }

    /// Connections of clients that have ended, for every reason that there is.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (&'static str, u64)> {
        counted(&self.ended)
    }

    /// Requests by HTTP that were refused, for every reason that there is.
    pub(crate) fn http_refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.http.iter().map(|it| it.load(Ordering::Relaxed));
        REASONS.into_iter().zip(counts)
    }

    /// Logins by HTTP.
    pub(crate) fn http_logins(&self) -> u64 {
        self.http_logins.load(Ordering::Relaxed)
    }

    /// Connections that were closed without a word, for want of a descriptor.
    pub(crate) fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }
}

fn add(counters: &[AtomicU64], reason: CloseReason) {
    let place = LABELS.binary_search(&reason.label());
    debug_assert!(place.is_ok(), "{reason:?} has no counter");
    if let Some(counter) = place.ok().and_then(|place| counters.get(place)) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn counted(counters: &[AtomicU64]) -> impl Iterator<Item = (&'static str, u64)> {
    let values = counters
        .iter()
        .map(|counter| counter.load(Ordering::Relaxed));
    LABELS.iter().copied().zip(values)
}

#[cfg(test)]
mod tests {
    use stentor_session::Denied;

    use super::*;

    #[test]
    fn each_reason_has_a_counter_and_begins_with_zero() {
        let tallies = Tallies::default();
        assert!(LABELS.len() > 60, "{LABELS:?}");
        assert!(REASONS.is_sorted(), "{REASONS:?}");
        assert!(LABELS.contains(&"malformed") && LABELS.contains(&"bug"));
        assert!(
            tallies
                .refused()
                .chain(tallies.ended())
                .all(|(_, n)| n == 0)
        );
        add(&tallies.refused, CloseReason::Denied(Denied::Credentials));
        add(&tallies.refused, CloseReason::Bug("test"));
        let counted: Vec<_> = tallies.refused().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("bad-credentials", 1), ("bug", 1)]);
        assert_eq!(tallies.ended().map(|(_, count)| count).sum::<u64>(), 0);
    }
}
