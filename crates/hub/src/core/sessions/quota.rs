//! How much somebody may take: counted per connection, and per user and zone across shards.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use stentor_session::{Limit, Tick};

use crate::core::sessions::tally::PauseCause;

/// Bounds for one session; what is `None` is bounded by the settings only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Messages that one connection publishes per second.
    pub messages_per_sec: Option<u32>,
    /// Bytes of PUBLISH packets that one connection sends per second.
    pub bytes_per_sec: Option<u64>,
    /// Subscriptions.
    pub subscriptions: Option<u32>,
    /// Bytes that wait for the client.
    pub queued_bytes: Option<u64>,
}

/// How many connections one user or one zone has, on all shards, and how many it may have.
#[derive(Debug)]
pub struct Places {
    taken: AtomicU32,
    max: AtomicU32,
}

impl Places {
    /// Nobody is there yet, and this many may come.
    #[must_use]
    pub const fn new(max: u32) -> Self {
        Self {
            taken: AtomicU32::new(0),
            max: AtomicU32::new(max),
        }
    }

    /// Changes how many may be there. Those who are there stay.
    pub fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// How many are there now.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// The newest connection of a user of whom only the newest stays. A later connection puts its
/// claim into the place of the one before in one step, so that of racing logins exactly one stays.
#[derive(Debug, Default)]
pub struct Newest(AtomicU64);

/// What limits the connections of a user: the reason that a refused client gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserBound {
    /// Its roles.
    #[default]
    Roles,
    /// The zone, which lets each user in once.
    SecondLogin,
    /// The zone, which has a number for each user.
    Zone,
}

impl UserBound {
    const fn limit(self) -> Limit {
        match self {
            Self::Roles => Limit::ConnectionsPerUser,
            Self::SecondLogin => Limit::SecondLogin,
            Self::Zone => Limit::ConnectionsPerUserOfZone,
        }
    }
}

/// The places that a connection needs: its user's and its zone's, where they are counted.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Where only its user's newest connection stays.
    pub newest: Option<Arc<Newest>>,
    /// Those of its user.
    pub user: Option<Arc<Places>>,
    /// The source of the bound of its user.
    pub user_bound: UserBound,
    /// Those of its zone.
    pub zone: Option<Arc<Places>>,
}

/// A place that is held for as long as this exists.
#[derive(Debug)]
struct Held(Arc<Places>);

impl Held {
    /// Takes a place if one is free; `beyond` more are allowed, for who takes over its own.
    fn take(places: &Arc<Places>, beyond: u32) -> Option<Self> {
        let max = places.max.load(Ordering::Relaxed).saturating_add(beyond);
        let next = |taken: u32| (taken < max).then(|| taken + 1);
        let taken = places
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.ok().map(|_| Self(Arc::clone(places)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What one connection claims: to be its user's newest. 0 until it has been claimed.
#[derive(Debug)]
pub(crate) struct Claim {
    newest: Arc<Newest>,
    number: u64,
    /// The claim that it took the place of without ending that connection, or 0: both were there
    /// when only the newest was to stay from then on. It ends with this one.
    older: u64,
}

impl Claim {
    fn new(newest: &Arc<Newest>) -> Self {
        Self {
            newest: Arc::clone(newest),
            number: 0,
            older: 0,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Where a newer one stands, nothing changes.
        let newest = &self.newest.0;
        let (mine, older) = (self.number, self.older);
        let _ = newest.compare_exchange(mine, older, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The places of one connection; they are free again when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct ConnectionQuota {
    newest: Option<Claim>,
    user: Option<Held>,
    zone: Option<Held>,
}

impl ConnectionQuota {
    /// Takes what a connection needs, or says which limit it meets. `takes_over` tells that a
    /// connection of the same user ends with it.
    pub(crate) fn take(needs: &Needs, takes_over: bool) -> Result<Self, Limit> {
        let beyond = u32::from(takes_over);
        let one = |places: &Option<Arc<Places>>, limit| match places {
            None => Ok(None),
            Some(places) => Held::take(places, beyond).map(Some).ok_or(limit),
        };
        Ok(Self {
            newest: needs.newest.as_ref().map(Claim::new),
            user: one(&needs.user, needs.user_bound.limit())?,
            zone: one(&needs.zone, Limit::ConnectionsPerZone)?,
        })
    }

    /// Takes what a connection needs that is there already: beyond any limit. `newest` is what it
    /// has claimed before.
    pub(crate) fn keep(needs: &Needs, newest: Option<Claim>) -> Self {
        let one = |places: &Option<Arc<Places>>| {
            let places = places.as_ref()?;
            Held::take(places, u32::MAX)
        };
        Self {
            newest: newest.or_else(|| needs.newest.as_ref().map(Claim::new)),
            user: one(&needs.user),
            zone: one(&needs.zone),
        }
    }

    /// Whether nothing is counted.
    pub(crate) const fn is_empty(&self) -> bool {
        self.newest.is_none() && self.user.is_none() && self.zone.is_none()
    }

    /// Claims to be the user's newest connection; returns the claim that it takes the place of.
    pub(crate) fn claim(&mut self, number: u64) -> Option<u64> {
        let claim = self.newest.as_mut()?;
        claim.number = number;
        let before = claim.newest.0.swap(number, Ordering::Relaxed);
        Some(before).filter(|before| *before != 0 && *before != number)
    }

    /// Of a connection that was there before only the newest was to stay: it is replaced like
    /// others from now on, and so is the one that stood there, but not yet.
    pub(crate) fn line_up(&mut self, number: u64) {
        if let Some(claim) = self.newest.as_mut().filter(|claim| claim.number == 0) {
            claim.number = number;
            claim.older = claim.newest.0.swap(number, Ordering::Relaxed);
        }
    }

    /// Whether it has claimed this.
    pub(crate) fn has_claim(&self, number: u64) -> bool {
        self.newest
            .as_ref()
            .is_some_and(|claim| claim.number == number)
    }

    /// The claim of the connection that ends with this one, if there is one.
    pub(crate) fn older(&self) -> Option<u64> {
        let older = self.newest.as_ref()?.older;
        (older != 0).then_some(older)
    }

    /// Frees the places; what was claimed stays so.
    pub(crate) fn give_up_claim(&mut self) -> Option<Claim> {
        let claim = self.newest.take();
        *self = Self::default();
        claim
    }
}

/// No pause is longer, in seconds, however large a message was.
const PAUSE_SECS_MAX: u64 = 60;

const SEC_NANOS: u64 = 1_000_000_000;

/// How fast one connection publishes. A second's worth may come at once; what is beyond is paid
/// for by a pause, in which nothing is read from the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    messages_per_sec: Option<u32>,
    bytes_per_sec: Option<u64>,
    /// When all messages are paid for, in nanoseconds.
    messages_paid: u64,
    /// When all bytes are.
    bytes_paid: u64,
}

impl Meter {
    /// `None` where nothing is measured.
    pub(crate) fn new(quotas: Quotas) -> Option<Self> {
        let Quotas {
            messages_per_sec,
            bytes_per_sec,
            ..
        } = quotas;
        (messages_per_sec.is_some() || bytes_per_sec.is_some()).then_some(Self {
            messages_per_sec,
            bytes_per_sec,
            messages_paid: 0,
            bytes_paid: 0,
        })
    }

    /// Counts a message of this many bytes.
    pub(crate) fn count(&mut self, now: Tick, bytes: usize) {
        if let Some(rate) = self.messages_per_sec {
            pay(&mut self.messages_paid, now, 1, u64::from(rate));
        }
        if let Some(rate) = self.bytes_per_sec {
            pay(&mut self.bytes_paid, now, bytes as u64, rate);
        }
    }

    /// From when on more is read, and which quota says so.
    pub(crate) fn paid_at(&self) -> (Tick, PauseCause) {
        let (nanos, cause) = match self.messages_paid >= self.bytes_paid {
            true => (self.messages_paid, PauseCause::MessagesPerSec),
            false => (self.bytes_paid, PauseCause::BytesPerSec),
        };
        (Tick::from_micros(nanos.div_ceil(1_000)), cause)
    }
}

/// Moves a time of payment on by `amount` units at `per_sec`; what was saved up counts for a
/// second at most.
fn pay(paid: &mut u64, now: Tick, amount: u64, per_sec: u64) {
    let now = now.as_micros().saturating_mul(1_000);
    let costs = amount.saturating_mul(SEC_NANOS) / per_sec.max(1);
    let from = (*paid).max(now.saturating_sub(SEC_NANOS));
    let until = from.saturating_add(costs);
    *paid = until.min(now.saturating_add(PAUSE_SECS_MAX * SEC_NANOS));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(messages_per_sec: Option<u32>, bytes_per_sec: Option<u64>) -> Meter {
        let quotas = Quotas {
            messages_per_sec,
            bytes_per_sec,
            ..Quotas::default()
        };
        Meter::new(quotas).unwrap_or_else(|| panic!("it measures"))
    }

    #[test]
    fn a_second_comes_at_once_and_then_the_rate_holds() {
        let mut meter = meter(Some(10), None);
        let start = Tick::from_secs(100);
        for _ in 0..10 {
            meter.count(start, 1_000);
            assert!(meter.paid_at().0 <= start);
        }
        meter.count(start, 0);
        assert_eq!(meter.paid_at().0.since(start).as_millis(), 100);
        let mut now = start;
        for _ in 0..50 {
            now = now.max(meter.paid_at().0);
            meter.count(now, 0);
        }
        // Sixty-one messages, ten of them at once, at ten per second.
        assert_eq!(meter.paid_at().0.since(start).as_millis(), 5_100);
    }

    #[test]
    fn a_large_message_is_paid_for_but_not_for_ever() {
        let start = Tick::from_secs(100);
        let mut bytes = meter(None, Some(1_000));
        bytes.count(start, 11_000);
        assert_eq!(bytes.paid_at().1, PauseCause::BytesPerSec);
        assert_eq!(bytes.paid_at().0.since(start).as_secs(), 10);
        bytes.count(start, usize::MAX);
        assert_eq!(bytes.paid_at().0.since(start).as_secs(), PAUSE_SECS_MAX);
        assert!(Meter::new(Quotas::default()).is_none());
    }

    #[test]
    fn the_newest_takes_the_place_of_the_one_before() {
        let newest = Arc::new(Newest::default());
        let needs = Needs {
            newest: Some(Arc::clone(&newest)),
            ..Needs::default()
        };
        let take = || {
            ConnectionQuota::take(&needs, false).unwrap_or_else(|_| panic!("nothing is counted"))
        };
        let (mut first, mut second) = (take(), take());
        assert_eq!(first.claim(1), None);
        assert_eq!(second.claim(2), Some(1));
        assert!(second.has_claim(2) && !second.has_claim(1));
        drop(first);
        let mut third = take();
        assert_eq!(
            third.claim(3),
            Some(2),
            "who has gone changes nothing for the newer"
        );
        let mut kept = ConnectionQuota::keep(&needs, third.give_up_claim());
        drop(third);
        assert_eq!(kept.claim(3), None, "it is its own");
        drop((second, kept));
        assert_eq!(take().claim(4), None, "nobody is left");
    }

    #[test]
    fn who_was_there_before_stands_in_line_to_be_replaced() {
        let needs = Needs {
            newest: Some(Arc::default()),
            ..Needs::default()
        };
        let mut quotas: [ConnectionQuota; 4] =
            core::array::from_fn(|_| ConnectionQuota::keep(&needs, None));
        for (number, quota) in (1..).zip(&mut quotas) {
            quota.line_up(number);
            quota.line_up(9);
        }
        let [first, second, third, last] = quotas;
        assert!(last.has_claim(4) && last.older() == Some(3));
        assert_eq!((second.older(), first.older()), (Some(1), None));
        drop(last);
        let mut newcomer = ConnectionQuota::keep(&needs, None);
        assert_eq!(newcomer.claim(5), Some(3), "who has gone is not waited for");
        assert_eq!(newcomer.older(), None);
        drop((first, second, third));
    }

    #[test]
    fn places_are_given_back_and_one_more_may_take_over() {
        let user = Arc::new(Places::new(1));
        let zone = Arc::new(Places::new(2));
        let needs = |user: &Arc<Places>| Needs {
            user: Some(Arc::clone(user)),
            zone: Some(Arc::clone(&zone)),
            ..Needs::default()
        };
        let first = ConnectionQuota::take(&needs(&user), false).ok();
        assert!(first.is_some());
        let refused = ConnectionQuota::take(&needs(&user), false).err();
        assert_eq!(refused, Some(Limit::ConnectionsPerUser));
        for (user_bound, limit) in [
            (UserBound::SecondLogin, Limit::SecondLogin),
            (UserBound::Zone, Limit::ConnectionsPerUserOfZone),
        ] {
            let needs = Needs {
                user_bound,
                ..needs(&user)
            };
            assert_eq!(ConnectionQuota::take(&needs, false).err(), Some(limit));
        }
        let other = Arc::new(Places::new(9));
        let second = ConnectionQuota::take(&needs(&other), false).ok();
        let refused = ConnectionQuota::take(&needs(&other), false).err();
        assert_eq!(refused, Some(Limit::ConnectionsPerZone));
        assert_eq!(
            other.taken(),
            1,
            "what a refused one had taken is free again"
        );
        let third = ConnectionQuota::take(&needs(&user), true).ok();
        assert!(third.is_some());
        let fourth = ConnectionQuota::keep(&needs(&user), None);
        assert_eq!((user.taken(), zone.taken()), (3, 4), "who is there stays");
        drop((first, second, third, fourth));
        assert_eq!((user.taken(), zone.taken(), other.taken()), (0, 0, 0));
    }
}
