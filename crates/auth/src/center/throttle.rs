//! Slowing down those who fail.
//!
//! Three things are counted: failures of an account from one address, failures of an address with
//! whatever account, and failures of an account from wherever. Each allows some failures without
//! delay; then every attempt waits, longer and longer up to a bound, and attempts wait one after
//! the other, so that many connections at once guess no faster than one. An address from which an
//! account has logged in lately does not wait for what others do to that account, nor for what
//! others at the same address fail in: so nobody is locked out by a stranger.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Visitor;
use crate::model::UserKey;

/// Counts remembered at a time, in each of two generations.
const COUNTS_MAX: usize = 200_000;

/// How long failures are remembered, at least; twice as long at most.
const MEMORY: Duration = Duration::from_secs(600);

/// How long a good address is remembered, at least; twice as long at most.
const GOOD_MEMORY: Duration = Duration::from_secs(24 * 3600);

/// An attempt that would wait longer is refused.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// When an attempt may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// At once.
    Now,
    /// At that time.
    At(Instant),
    /// Too many others wait already.
    Never,
}

/// How failures of one kind are answered.
struct Rule {
    /// Failures without delay.
    free: u32,
    /// The first delay; the next ones are twice as long each.
    first: Duration,
    /// The longest delay.
    longest: Duration,
}

/// Of an account from one address.
const PAIR: Rule = Rule {
    free: 3,
    first: Duration::from_millis(250),
    longest: Duration::from_secs(8),
};

/// Of an address.
const ADDRESS: Rule = Rule {
    free: 20,
    first: Duration::from_millis(100),
    longest: Duration::from_secs(4),
};

/// Of an account.
const ACCOUNT: Rule = Rule {
    free: 50,
    first: Duration::from_millis(100),
    longest: Duration::from_secs(2),
};

impl Rule {
    fn delay(&self, failures: u32) -> Duration {
        let Some(beyond) = failures.checked_sub(self.free) else {
            return Duration::ZERO;
        };
        self.first
            .saturating_mul(1 << beyond.min(16))
            .min(self.longest)
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Throttle {
    hasher: RandomState,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    failures: Generations<Count>,
    good: Generations<()>,
}

/// What is counted, by its keyed hash: names of any length take the same memory, and two that
/// share a hash share a delay.
type Key = u64;

#[derive(Clone, Copy)]
struct Count {
    failures: u32,
    /// When the next attempt may be made.
    next: Instant,
}

struct Generations<T> {
    now: HashMap<Key, T>,
    before: HashMap<Key, T>,
    began: Option<Instant>,
}

impl<T> Default for Generations<T> {
    fn default() -> Self {
        Self {
            now: HashMap::new(),
            before: HashMap::new(),
            began: None,
        }
    }
}

impl<T: Copy> Generations<T> {
    fn turn(&mut self, now: Instant, memory: Duration) {
        let began = *self.began.get_or_insert(now);
        let is_full = self.now.len() >= COUNTS_MAX;
        if is_full || now.saturating_duration_since(began) >= memory {
            self.before = std::mem::take(&mut self.now);
            self.began = Some(now);
        }
    }

    fn get(&self, key: Key) -> Option<T> {
        self.now
            .get(&key)
            .or_else(|| self.before.get(&key))
            .copied()
    }

    fn forget(&mut self, key: Key) {
        self.now.remove(&key);
        self.before.remove(&key);
    }
}

/// What an attempt counts for.
struct Keys {
    pair: Key,
    /// None for a Unix socket.
    address: Option<Key>,
    account: Key,
}

impl Throttle {
    fn keys(&self, visitor: &Visitor) -> Keys {
        let UserKey { zone, name } = &visitor.key;
        let network = visitor.address.map(network);
        Keys {
            pair: self.hasher.hash_one((1, network, zone, name)),
            address: network.map(|network| self.hasher.hash_one((2, network))),
            account: self.hasher.hash_one((3, zone, name)),
        }
    }

    /// When this attempt may be made. It takes its place in the queue of those who wait.
    pub(super) fn admit(&self, now: Instant, visitor: &Visitor) -> Admission {
        let keys = self.keys(visitor);
        let mut memory = self.lock();
        if memory.failures.now.is_empty() && memory.failures.before.is_empty() {
            return Admission::Now;
        }
        let is_good = memory.good.get(keys.pair).is_some();
        let others = if is_good { None } else { keys.address };
        let account = (!is_good).then_some(keys.account);
        let counted = [
            (Some(keys.pair), PAIR),
            (others, ADDRESS),
            (account, ACCOUNT),
        ];
        let mut at = now;
        let mut delayed = Vec::new();
        for (key, rule) in counted {
            let count = key.and_then(|key| Some((key, memory.failures.get(key)?)));
            if let Some((key, count)) = count {
                let delay = rule.delay(count.failures);
                if !delay.is_zero() {
                    at = at.max(count.next);
                    delayed.push((key, count, delay));
                }
            }
        }
        if at.saturating_duration_since(now) > WAIT_MAX {
            return Admission::Never;
        }
        for (key, count, delay) in delayed {
            let next = at + delay;
            memory.failures.now.insert(key, Count { next, ..count });
        }
        if at > now {
            Admission::At(at)
        } else {
            Admission::Now
        }
    }

    /// An attempt has failed.
    pub(super) fn failed(&self, now: Instant, visitor: &Visitor) {
        let keys = self.keys(visitor);
        let mut memory = self.lock();
        memory.failures.turn(now, MEMORY);
        let counted = [
            (Some(keys.pair), PAIR),
            (keys.address, ADDRESS),
            (Some(keys.account), ACCOUNT),
        ];
        for (key, rule) in counted {
            let Some(key) = key else {
                continue;
            };
            let old = memory.failures.get(key);
            let failures = old.map_or(0, |count| count.failures).saturating_add(1);
            let next = (now + rule.delay(failures)).max(old.map_or(now, |count| count.next));
            memory.failures.now.insert(key, Count { failures, next });
        }
    }

    /// An attempt has succeeded: whoever it is knows the password, and comes from a good address.
    pub(super) fn succeeded(&self, now: Instant, visitor: &Visitor) {
        let keys = self.keys(visitor);
        let mut memory = self.lock();
        memory.failures.forget(keys.pair);
        memory.good.turn(now, GOOD_MEMORY);
        memory.good.now.insert(keys.pair, ());
    }

    /// Nothing panics between two changes of the maps.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What counts as one address: of IPv6 the first half, for everybody has the other half.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(bits.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor(name: &str, address: &str) -> Visitor {
        Visitor {
            zone: None,
            key: UserKey::parse(name),
            client_id: None,
            address: (!address.is_empty()).then(|| address.parse().unwrap()),
            again: None,
        }
    }

    fn wait(throttle: &Throttle, now: Instant, visitor: &Visitor) -> Option<Duration> {
        match throttle.admit(now, visitor) {
            Admission::Now => Some(Duration::ZERO),
            Admission::At(time) => Some(time - now),
            Admission::Never => None,
        }
    }

    #[test]
    fn failures_are_slowed_after_some_and_bounded() {
        let throttle = Throttle::default();
        let mut now = Instant::now();
        let ann = visitor("ann", "192.0.2.1");
        let mut waits = Vec::new();
        for _ in 0..12 {
            let waited = wait(&throttle, now, &ann).unwrap();
            waits.push(waited.as_millis());
            now += waited;
            throttle.failed(now, &ann);
        }
        assert_eq!(waits[..7], [0, 0, 0, 250, 500, 1000, 2000]);
        assert_eq!(waits[11], 8000);
        // Who has the right password is through, and starts anew.
        throttle.succeeded(now, &ann);
        assert_eq!(wait(&throttle, now, &ann), Some(Duration::ZERO));
    }

    #[test]
    fn many_attempts_at_once_wait_one_after_the_other() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let ann = visitor("ann", "192.0.2.1");
        for _ in 0..6 {
            throttle.failed(now, &ann);
        }
        let waits: Vec<_> = (0..100).map(|_| wait(&throttle, now, &ann)).collect();
        let admitted = waits.iter().flatten().count();
        assert!((2..10).contains(&admitted), "{admitted}");
        assert!(
            waits
                .windows(2)
                .all(|pair| pair[1].is_none() || pair[0] < pair[1])
        );
    }

    #[test]
    fn a_stranger_does_not_lock_a_user_out() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let (ann, stranger) = (visitor("ann", "192.0.2.1"), visitor("ann", "203.0.113.9"));
        throttle.succeeded(now, &ann);
        for _ in 0..10_000 {
            throttle.failed(now, &stranger);
        }
        assert_eq!(wait(&throttle, now, &ann), Some(Duration::ZERO));
        // From an address that is not known she waits, but gets in.
        let elsewhere = visitor("ann", "198.51.100.7");
        let waited = wait(&throttle, now, &elsewhere).unwrap();
        assert!(
            waited > Duration::ZERO && waited <= ACCOUNT.longest,
            "{waited:?}"
        );
        // A neighbour behind the same address, who has logged in from there before, does not wait.
        let neighbour = visitor("bob", "203.0.113.9");
        throttle.succeeded(now, &neighbour);
        assert_eq!(wait(&throttle, now, &neighbour), Some(Duration::ZERO));
    }

    #[test]
    fn one_address_guesses_slowly_whatever_the_account() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let mut slowed = 0;
        for number in 0..60 {
            // The whole of a /64 is one address.
            let guess = visitor(&format!("user{number}"), &format!("2001:db8::{number:x}"));
            slowed += u32::from(wait(&throttle, now, &guess) != Some(Duration::ZERO));
            throttle.failed(now, &guess);
        }
        assert!(slowed >= 39, "{slowed}");
        let other = visitor("ann", "2001:db8:0:1::1");
        assert_eq!(wait(&throttle, now, &other), Some(Duration::ZERO));
    }

    #[test]
    fn failures_are_forgotten() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let ann = visitor("ann", "");
        for _ in 0..10 {
            throttle.failed(now, &ann);
        }
        let (soon, later) = (now + MEMORY, now + 2 * MEMORY);
        throttle.failed(soon, &visitor("x", ""));
        throttle.failed(later, &visitor("x", ""));
        assert_eq!(wait(&throttle, later, &ann), Some(Duration::ZERO));
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = Throttle::default();
        let now = Instant::now();
        for number in 0..COUNTS_MAX {
            throttle.failed(now, &visitor(&number.to_string(), "192.0.2.1"));
        }
        let memory = throttle.lock();
        assert!(memory.failures.now.len() <= COUNTS_MAX + 3);
        assert!(memory.failures.before.len() <= COUNTS_MAX + 3);
    }
}
