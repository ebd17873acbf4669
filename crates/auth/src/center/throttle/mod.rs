//! Slowing down those who fail.
//!
//! Counted are the failures of an account from one address (a *pair*), of an address with whatever
//! account, and of an account from wherever. Each allows some failures without delay; then every
//! attempt waits, longer and longer up to a bound, and attempts wait one after the other, so that
//! many connections at once guess no faster than one.
//!
//! Nobody is locked out by what a stranger does:
//!
//! - A place in a line is taken at the time of that line alone. A login that waits long for one of
//!   its lines makes nobody wait longer in the others, and no line is longer than [`WAIT_MAX`].
//! - A client that has not failed does not wait behind those that have. An address that is new to
//!   an account waits the account's delay, [`ACCOUNT`], and for nobody else; names that are new to
//!   an address have a line of their own, which is quicker.
//! - What a pair fails beyond its free failures is held against the pair alone: a device with an
//!   old password makes nobody at its address wait.
//! - Web tokens are apart, since nothing can be guessed about them: their signature is checked
//!   first. One that holds never waits. Bad signatures prove nobody, so they count against their
//!   address in a line of their own, which ends when a token that holds comes from there; a token
//!   that an issuer has signed but that does not hold counts against its bearer's pair. No other
//!   line is touched.
//! - A pair that has logged in lately waits for its own failures only; so does a client id of such
//!   a pair that has, apart from whatever else calls itself by that name there.

mod memory;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::LoginAttempt;
use crate::model::UserKey;
use memory::{Count, Key, Memory};

/// An attempt that would wait longer is refused.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// When an attempt may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// At once, since nothing has failed that it would wait for.
    Free,
    /// At once, since it is its turn.
    Now,
    /// At that time.
    At(Instant, Cause),
    /// Too many others wait already.
    Never,
}

/// Why an attempt waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// For what happens at other addresses only: there is nothing against this one.
    Others,
    /// For what has failed at its own address.
    Own,
}

/// Whether an attempt has waited for its turn already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It was admitted when there was nothing to wait for; that may have changed since.
    Free,
    /// It has, and need not again.
    Taken,
}

/// How failures of one kind are answered.
struct Rule {
    /// Failures without delay.
    free: u32,
    /// The first delay; the next ones are twice as long each.
    first: Duration,
    /// The longest delay.
    longest: Duration,
    newcomers: Newcomers,
}

/// How those wait who have not failed themselves.
enum Newcomers {
    /// One after the other, at most this long apart.
    InLine(Duration),
    /// As long as the delay is, and not for each other.
    Aside,
}

/// Failures of a pair that are free.
const FREE: u32 = 3;

/// Of an account from one address, or of one device there, which shares its line with nobody.
const PAIR: Rule = Rule {
    free: FREE,
    first: Duration::from_millis(250),
    longest: Duration::from_secs(8),
    newcomers: Newcomers::Aside,
};

/// Of an address. Names cost nothing, so those that are new have a line of bounded speed.
const ADDRESS: Rule = Rule {
    free: 20,
    first: Duration::from_millis(100),
    longest: Duration::from_secs(4),
    newcomers: Newcomers::InLine(Duration::from_millis(250)),
};

/// Of an account. Addresses cost something: who comes with many has this many first guesses.
const ACCOUNT: Rule = Rule {
    free: 50,
    first: Duration::from_millis(100),
    longest: Duration::from_secs(2),
    newcomers: Newcomers::Aside,
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

    /// The time of an attempt, whose place in the line is taken, and how long whoever asks has to
    /// leave until its next one; `None` if nothing is to wait for.
    fn line_up(
        &self,
        now: Instant,
        count: &mut Count,
        reputation: Reputation,
    ) -> Option<(Instant, Duration)> {
        let delay = self.delay(count.failures);
        if delay.is_zero() {
            return None;
        }
        let (line, apart) = match (reputation, &self.newcomers) {
            (Reputation::HasFailed, _) => (&mut count.next, delay),
            (Reputation::New, Newcomers::InLine(longest)) => {
                (&mut count.next_new, delay.min(*longest))
            }
            (Reputation::New, Newcomers::Aside) => return Some((now + delay, delay)),
        };
        let place = now.max(*line);
        *line = place + apart;
        Some((place, delay))
    }

    /// One more failure: whoever comes next waits.
    fn fail(&self, now: Instant, count: &mut Count) {
        count.failures = count.failures.saturating_add(1);
        let delay = self.delay(count.failures);
        count.next = count.next.max(now + delay);
        let apart = match self.newcomers {
            Newcomers::InLine(longest) => delay.min(longest),
            Newcomers::Aside => Duration::ZERO,
        };
        count.next_new = count.next_new.max(now + apart);
    }
}

/// What is known of those who ask, where a line is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reputation {
    /// No more failures than are free, and no other attempt that waits.
    New,
    HasFailed,
}

/// See the module.
#[derive(Default)]
pub(super) struct Throttle {
    hasher: RandomState,
    memory: Mutex<Memory>,
}

/// What an attempt counts for.
struct Keys {
    pair: Key,
    /// The pair with its client id.
    device: Key,
    /// None for a Unix socket, and for what counts for nothing that is shared.
    address: Option<Key>,
    /// None for what counts for nothing that is shared.
    account: Option<Key>,
}

/// The source of a web token that was refused.
#[derive(Clone, Debug)]
pub(super) enum Bearer {
    /// Somebody at this address whom no signature proves.
    Unproven(Option<IpAddr>),
    /// This one, by a signature of an issuer.
    Proven(LoginAttempt),
}

impl Memory {
    fn count(&self, key: Key, now: Instant) -> Count {
        self.failures.get(key).unwrap_or(Count {
            failures: 0,
            waiting: 0,
            next: now,
            next_new: now,
        })
    }

    /// What an attempt is counted for first, and whether that has logged in lately: the device if
    /// it has, else the pair.
    fn own(&self, keys: &Keys) -> (Key, bool) {
        match self.good.has(keys.device) {
            true => (keys.device, true),
            false => (keys.pair, self.good.has(keys.pair)),
        }
    }

    fn admit(&mut self, now: Instant, keys: &Keys) -> Admission {
        let (own, is_good) = self.own(keys);
        let mut own_count = self.count(own, now);
        // One at a time, so that nobody fills the line of newcomers by asking often.
        let waits_already = own_count.next_new > now;
        let reputation = match own_count.failures {
            0..FREE if !waits_already => Reputation::New,
            _ => Reputation::HasFailed,
        };
        let expected = own_count.failures.saturating_add(own_count.waiting);
        let (mut at, mut apart) = (now, PAIR.delay(expected));
        let mut cause = match reputation {
            Reputation::New => Cause::Others,
            Reputation::HasFailed => Cause::Own,
        };
        let address = self.shared(keys.address, is_good, now);
        let account = self.shared(keys.account, is_good, now);
        let mut taken = [address, account];
        for (place, rule) in taken.iter_mut().zip([&ADDRESS, &ACCOUNT]) {
            let lined_up = place
                .as_mut()
                .and_then(|(_, count)| rule.line_up(now, count, reputation));
            let Some((time, delay)) = lined_up else {
                *place = None;
                continue;
            };
            (at, apart) = (at.max(time), apart.max(delay));
        }
        if taken[0].is_some() {
            cause = Cause::Own;
        }
        // Its own line it holds up alone, so its place there is where all others let it be.
        if !apart.is_zero() {
            at = at.max(own_count.next);
            own_count.next = at + apart;
            own_count.next_new = at;
            own_count.waiting = own_count.waiting.saturating_add(1);
        }
        if at.saturating_duration_since(now) > WAIT_MAX {
            return Admission::Never;
        }
        if !apart.is_zero() {
            self.failures.put(own, own_count);
        }
        for (key, count) in taken.into_iter().flatten() {
            self.failures.put(key, count);
        }
        if at > now {
            Admission::At(at, cause)
        } else if apart.is_zero() {
            Admission::Free
        } else {
            Admission::Now
        }
    }

    /// A line that an attempt may have to wait in: who is good waits in none that it shares.
    fn shared(&self, key: Option<Key>, is_good: bool, now: Instant) -> Option<(Key, Count)> {
        let key = key.filter(|_| !is_good)?;
        Some((key, self.count(key, now)))
    }

    fn fail(&mut self, now: Instant, keys: &Keys) {
        self.failures.turn(now);
        let (own, _) = self.own(keys);
        let mut count = self.count(own, now);
        let is_free = count.failures < FREE;
        count.waiting = count.waiting.saturating_sub(1);
        PAIR.fail(now, &mut count);
        self.failures.put(own, count);
        if !is_free {
            return;
        }
        for (key, rule) in [(keys.address, &ADDRESS), (keys.account, &ACCOUNT)] {
            let Some(key) = key else { continue };
            let mut count = self.count(key, now);
            rule.fail(now, &mut count);
            self.failures.put(key, count);
        }
    }
}

impl Throttle {
    fn keys(&self, login: &LoginAttempt) -> Keys {
        let UserKey { zone, name } = &login.key;
        let network = login.address.map(network);
        let client_id = &login.client_id;
        Keys {
            pair: self.hasher.hash_one((1, network, zone, name)),
            device: self.hasher.hash_one((4, network, zone, name, client_id)),
            address: network.map(|network| self.hasher.hash_one((2, network))),
            account: Some(self.hasher.hash_one((3, zone, name))),
        }
    }

    /// What counts the tokens of one address that prove nobody.
    fn unproven(&self, address: Option<IpAddr>) -> Key {
        self.hasher.hash_one((5, address.map(network)))
    }

    fn bearer_keys(&self, bearer: &Bearer) -> Keys {
        let own = match bearer {
            Bearer::Proven(login) => self.keys(login),
            Bearer::Unproven(address) => {
                let key = self.unproven(*address);
                Keys {
                    pair: key,
                    device: key,
                    address: None,
                    account: None,
                }
            }
        };
        Keys {
            address: None,
            account: None,
            ..own
        }
    }

    /// When this attempt may be made. It takes its place in the lines of those who wait.
    pub(super) fn admit(&self, now: Instant, login: &LoginAttempt) -> Admission {
        let mut memory = self.lock();
        if memory.failures.is_empty() {
            return Admission::Free;
        }
        memory.admit(now, &self.keys(login))
    }

    /// An attempt has failed.
    pub(super) fn failed(&self, now: Instant, login: &LoginAttempt) {
        self.lock().fail(now, &self.keys(login));
    }

    /// When a token that does not let its bearer in may be answered. It takes a place in the line.
    pub(super) fn admit_bearer(&self, now: Instant, bearer: &Bearer) -> Admission {
        self.lock().admit(now, &self.bearer_keys(bearer))
    }

    /// A token has not let its bearer in.
    pub(super) fn bearer_failed(&self, now: Instant, bearer: &Bearer) {
        self.lock().fail(now, &self.bearer_keys(bearer));
    }

    /// A token has let its bearer in, which makes amends for those at its address that proved
    /// nobody.
    pub(super) fn bearer_succeeded(&self, address: Option<IpAddr>) {
        let key = self.unproven(address);
        self.lock().failures.forget(key);
    }

    /// An attempt has succeeded: whoever it is knows the password, and comes from a good address.
    pub(super) fn succeeded(&self, now: Instant, login: &LoginAttempt) {
        let keys = self.keys(login);
        let mut memory = self.lock();
        let (own, _) = memory.own(&keys);
        memory.failures.forget(own);
        memory.good.turn(now);
        memory.good.put(keys.pair, ());
        if login.client_id.is_some() {
            memory.good.put(keys.device, ());
        }
    }

    /// Nothing panics between two changes of the tables.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What counts as one address: of IPv6 the first half, for everybody has the other half.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(bits.into())
        }
        address => address,
    }
}
