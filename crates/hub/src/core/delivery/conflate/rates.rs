//! How often a session wants messages of one topic: the user property `max-rate` of SUBSCRIBE.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use smallvec::SmallVec;
use stentor_mqtt::Properties;
use stentor_topic::{FilterId, levels, matches_levels, split_levels};

/// Rates that one session may ask for, and bytes of their filters: each costs a comparison for
/// every stored message that the session gets.
const RATES_MAX: usize = 64;
const RATE_BYTES_MAX: usize = 2_048;

/// What a comparison of a filter with a topic costs, in visits: one, and one for this many bytes
/// of the filter.
const COMPARED_BYTES: usize = 16;

/// What is said to a client that asks for one more.
pub(crate) const TOO_MANY_RATES: &str = "64 subscriptions of the session have a max-rate already, \
     or their filters would have more than 2,048 bytes";

/// What is said of a `max-rate` that cannot be read.
pub(crate) const NO_RATE: &str =
    "max-rate is messages a second: digits, perhaps with a point, from 0.001 to 1000000";

/// The rates of a session's subscriptions, ordered by filter.
#[derive(Debug, Default)]
pub(super) struct Rates(Vec<Rate>);

#[derive(Debug)]
struct Rate {
    id: FilterId,
    filter: Box<str>,
    levels: usize,
    interval: Duration,
}

impl Rates {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the subscription to this filter has a rate.
    pub(super) fn has(&self, id: FilterId) -> bool {
        self.find(id).is_some()
    }

    /// The least time between two messages of a topic that a subscription asks for.
    pub(super) fn of(&self, id: FilterId) -> Option<Duration> {
        self.find(id).map(|rate| rate.interval)
    }

    /// Whether there is room for the rate of another subscription, to this filter.
    pub(super) fn has_room(&self, filter: &str) -> bool {
        let bytes: usize = self.0.iter().map(|rate| rate.filter.len()).sum();
        self.0.len() < RATES_MAX && bytes + filter.len() <= RATE_BYTES_MAX
    }

    /// Sets the rate of a subscription, or takes it back.
    pub(super) fn set(&mut self, id: FilterId, filter: &str, interval: Option<Duration>) {
        let place = self.0.binary_search_by_key(&id, |rate| rate.id);
        if let Ok(old) = place {
            self.0.remove(old);
        }
        if let Some(interval) = interval {
            let (Ok(at) | Err(at)) = place;
            let rate = Rate {
                id,
                filter: filter.into(),
                levels: levels(filter),
                interval,
            };
            self.0.insert(at, rate);
        }
    }

    /// The least time between two messages of a topic that the session's subscriptions ask for, if
    /// these match it: one without a rate asks for all. O(m log n).
    pub(super) fn interval(&self, matching: impl Iterator<Item = FilterId>) -> Duration {
        let intervals = matching.map(|filter| self.of(filter));
        let least = intervals.map(Option::unwrap_or_default).min();
        least.unwrap_or_default()
    }

    /// The same for a stored message, of which only the topic is known: what all rates ask for that
    /// match it. O(n), see [`Rates::comparing`].
    pub(super) fn interval_of_topic(&self, topic: &str) -> Duration {
        if self.0.is_empty() {
            return Duration::ZERO;
        }
        let rates = self.0.iter();
        let most = rates.clone().map(|rate| rate.levels).max().unwrap_or(0);
        let levels: SmallVec<[&[u8]; 16]> = split_levels(topic).take(most + 1).collect();
        let rates = rates.filter(|rate| matches_levels(&rate.filter, &levels));
        rates.map(|rate| rate.interval).min().unwrap_or_default()
    }

    /// What [`Rates::interval_of_topic`] costs, in visits.
    pub(super) fn comparing(&self) -> u32 {
        let visits = |rate: &Rate| 1 + rate.filter.len() / COMPARED_BYTES;
        // At most 64 rates, and 2,048 bytes.
        self.0.iter().map(visits).sum::<usize>() as u32
    }

    fn find(&self, id: FilterId) -> Option<&Rate> {
        let at = self.0.binary_search_by_key(&id, |rate| rate.id).ok()?;
        self.0.get(at)
    }
}

/// A `max-rate` that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRate;

/// The most often that a subscription wants messages of one topic, from the user property
/// `max-rate` of its SUBSCRIBE: messages per second, perhaps with a fraction.
///
/// # Errors
/// When it is there and no plain decimal from 0.001 to 1,000,000.
pub(crate) fn max_rate(properties: Properties<'_>) -> Result<Option<Duration>, NoRate> {
    let mut pairs = properties.user_properties();
    let Some((_, text)) = pairs.find(|(name, _)| *name == "max-rate") else {
        return Ok(None);
    };
    match text.parse::<f64>() {
        Ok(rate) if is_plain(text) && (0.001..=1_000_000.0).contains(&rate) => {
            // At most 10^9, and at least 1.
            let micros = 1_000_000.0 / rate;
            Ok(Some(Duration::from_micros(micros as u64)))
        }
        _ => Err(NoRate),
    }
}

/// Whether a number is written with digits, and perhaps digits behind a point: no other way of
/// writing it is the same everywhere.
fn is_plain(text: &str) -> bool {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    is_digits(whole) && is_digits(fraction)
}
