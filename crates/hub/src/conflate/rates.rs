//! How often a session wants messages of one topic: the user property `max-rate` of SUBSCRIBE.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use smallvec::SmallVec;
use stentor_mqtt::Properties;
use stentor_topic::{FilterId, levels, matches_levels, split_levels};

/// Rates that one session may ask for, and bytes of their filters: each costs a comparison for
/// every message that the session gets.
const RATES_MAX: usize = 64;
const RATE_BYTES_MAX: usize = 2_048;

/// What is said to a client that asks for one more.
pub(crate) const TOO_MANY_RATES: &str = "64 subscriptions of the session have a max-rate already, \
     or their filters would have more than 2,048 bytes";

/// What is said of a `max-rate` that cannot be read.
pub(crate) const NO_RATE: &str =
    "max-rate is messages a second: digits, perhaps with a point, from 0.001 to 1000000";

/// The rates of a session's subscriptions.
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
        self.0.iter().any(|rate| rate.id == id)
    }

    /// The least time between two messages of a topic that a subscription asks for.
    pub(super) fn of(&self, id: FilterId) -> Option<Duration> {
        let rate = self.0.iter().find(|rate| rate.id == id)?;
        Some(rate.interval)
    }

    /// Whether there is room for the rate of another subscription, to this filter.
    pub(super) fn has_room(&self, filter: &str) -> bool {
        let bytes: usize = self.0.iter().map(|rate| rate.filter.len()).sum();
        self.0.len() < RATES_MAX && bytes + filter.len() <= RATE_BYTES_MAX
    }

    /// Sets the rate of a subscription, or takes it back.
    pub(super) fn set(&mut self, id: FilterId, filter: &str, interval: Option<Duration>) {
        self.0.retain(|rate| rate.id != id);
        if let Some(interval) = interval {
            self.0.push(Rate {
                id,
                filter: filter.into(),
                levels: levels(filter),
                interval,
            });
        }
    }

    /// The least time between two messages of a topic that the session's subscriptions ask for,
    /// if this many of them match it: one without a rate asks for all.
    pub(super) fn interval(&self, topic: &str, matched: u32) -> Duration {
        if self.0.is_empty() {
            return Duration::ZERO;
        }
        let rates = self.0.iter();
        let most = rates.clone().map(|rate| rate.levels).max().unwrap_or(0);
        let levels: SmallVec<[&[u8]; 16]> = split_levels(topic).take(most + 1).collect();
        let rates = rates.filter(|rate| matches_levels(&rate.filter, &levels));
        let (mut count, mut least) = (0, Duration::MAX);
        for rate in rates {
            count += 1;
            least = least.min(rate.interval);
        }
        if count == 0 || count < matched {
            Duration::ZERO
        } else {
            least
        }
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
