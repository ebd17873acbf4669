//! How many connections may be there, and how fast they may come.

mod pace;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stentor_session::{Limit, Tick};

use crate::config::Limits;
use crate::listener::Port;
use crate::peer::{Network, Peer};
use pace::{Bucket, Paces};

/// Counts the connections of the whole server. Shards ask once per connection, never per message.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Limits; 0 is none. Replaced on reload.
    connections_max: AtomicU64,
    per_address_max: AtomicU32,
    rate_per_sec: AtomicU32,
    rate_per_address: AtomicU32,
    connections: AtomicU64,
    /// Only filled while there is a limit per address.
    addresses: Mutex<HashMap<Network, u32>>,
    bucket: Mutex<Bucket>,
    /// Only filled while there is a rate per address.
    paces: Mutex<Paces>,
}

/// The right of one connection to be there. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    port: Arc<Port>,
    network: Option<Network>,
}

/// A map of counters is whole after any panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admission {
    /// Takes other limits. Clients that are connected stay connected.
    pub(crate) fn reconfigure(&self, limits: &Limits) {
        self.connections_max
            .store(limits.connections, Ordering::Relaxed);
        self.per_address_max
            .store(limits.connections_per_address, Ordering::Relaxed);
        self.rate_per_sec
            .store(limits.connection_rate, Ordering::Relaxed);
        self.rate_per_address
            .store(limits.connection_rate_per_address, Ordering::Relaxed);
    }

    /// Connections now.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Admits a connection or names the limit that it meets. Where the server is full,
    /// `make_room` may end another one.
    pub(crate) fn admit(
        self: &Arc<Self>,
        now: Tick,
        port: &Arc<Port>,
        peer: Peer,
        make_room: impl FnOnce() -> bool,
    ) -> Result<Permit, Limit> {
        // First its own rate: whoever is beyond it uses up nothing that others share.
        self.pass_own_rate(now, peer)?;
        self.pass_rate(now)?;
        let max = self.connections_max.load(Ordering::Relaxed);
        let count = || count_up(&self.connections, max);
        let counted = count().or_else(|| make_room().then(count).flatten());
        counted.ok_or(Limit::Connections)?;
        if count_up(&port.connections, port.rules.load().connections_max).is_none() {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return Err(Limit::ConnectionsOfListener);
        }
        let (admission, port) = (Arc::clone(self), Arc::clone(port));
        let mut permit = Permit {
            admission,
            port,
            network: None,
        };
        permit.network = self.hold_address(peer)?;
        Ok(permit)
    }

    /// How many are let in, or how many a second, by a limit of the whole server or of an address.
    pub(crate) fn max(&self, limit: Limit) -> Option<u64> {
        Some(match limit {
            Limit::Connections => self.connections_max.load(Ordering::Relaxed),
            Limit::ConnectionsPerAddress => self.per_address_max.load(Ordering::Relaxed).into(),
            Limit::ConnectionRate => self.rate_per_sec.load(Ordering::Relaxed).into(),
            Limit::ConnectionRatePerAddress => self.rate_per_address.load(Ordering::Relaxed).into(),
            _ => return None,
        })
    }

    fn hold_address(&self, peer: Peer) -> Result<Option<Network>, Limit> {
        let max = self.per_address_max.load(Ordering::Relaxed);
        let (Some(network), true) = (peer.network(), max > 0) else {
            return Ok(None);
        };
        let mut addresses = lock(&self.addresses);
        let count = addresses.entry(network).or_insert(0);
        if *count >= max {
            return Err(Limit::ConnectionsPerAddress);
        }
        *count += 1;
        Ok(Some(network))
    }

    fn pass_own_rate(&self, now: Tick, peer: Peer) -> Result<(), Limit> {
        let rate = self.rate_per_address.load(Ordering::Relaxed);
        let (Some(network), true) = (peer.network(), rate > 0) else {
            return Ok(());
        };
        match lock(&self.paces).pass(now, network, rate) {
            true => Ok(()),
            false => Err(Limit::ConnectionRatePerAddress),
        }
    }

    fn pass_rate(&self, now: Tick) -> Result<(), Limit> {
        let rate = self.rate_per_sec.load(Ordering::Relaxed);
        match rate == 0 || lock(&self.bucket).pass(now, rate) {
            true => Ok(()),
            false => Err(Limit::ConnectionRate),
        }
    }
}

/// Counts up unless the limit is reached; 0 means unlimited.
fn count_up(counter: &AtomicU64, max: u64) -> Option<()> {
    counter
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (max == 0 || count < max).then_some(count + 1)
        })
        .ok()
        .map(|_| ())
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.connections.fetch_sub(1, Ordering::Relaxed);
        self.port.connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(network) = self.network.take() {
            let mut addresses = lock(&self.admission.addresses);
            if let Some(count) = addresses.get_mut(&network) {
                *count -= 1;
                if *count == 0 {
                    addresses.remove(&network);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(connections: u64, per_address: u32, rate: u32) -> Arc<Admission> {
        let admission = Admission::default();
        admission
            .connections_max
            .store(connections, Ordering::Relaxed);
        admission
            .per_address_max
            .store(per_address, Ordering::Relaxed);
        admission.rate_per_sec.store(rate, Ordering::Relaxed);
        Arc::new(admission)
    }

    fn from(last: u8) -> Peer {
        Peer::V4([192, 0, 2, last], 1)
    }

    /// Nobody makes room.
    const fn full() -> bool {
        false
    }

    #[test]
    fn a_full_server_asks_for_room() {
        let admission = admission(1, 0, 0);
        let port = Arc::new(Port::for_tests(0));
        let mut first = Some(admission.admit(Tick::ZERO, &port, from(1), full).unwrap());
        let leave = || first.take().is_some();
        let second = admission.admit(Tick::ZERO, &port, from(2), leave);
        assert!(second.is_ok());
        // Another shard was faster.
        let refused = admission.admit(Tick::ZERO, &port, from(3), || true);
        assert!(matches!(refused, Err(Limit::Connections)));
        assert_eq!(admission.connections(), 1);
    }

    #[test]
    fn places_are_given_back() {
        let admission = admission(2, 0, 0);
        let port = Arc::new(Port::for_tests(0));
        let first = admission.admit(Tick::ZERO, &port, from(1), full).unwrap();
        let second = admission.admit(Tick::ZERO, &port, from(1), full).unwrap();
        let refused = admission.admit(Tick::ZERO, &port, from(1), full);
        assert!(matches!(refused, Err(Limit::Connections)));
        drop(first);
        let third = admission.admit(Tick::ZERO, &port, from(1), full).unwrap();
        drop((second, third));
        assert_eq!(admission.connections(), 0);
        assert_eq!(port.connections.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_listener_has_a_limit_of_its_own() {
        let admission = admission(0, 0, 0);
        let narrow = Arc::new(Port::for_tests(1));
        let _held = admission.admit(Tick::ZERO, &narrow, from(1), full).unwrap();
        let refused = admission.admit(Tick::ZERO, &narrow, from(2), full);
        assert!(matches!(refused, Err(Limit::ConnectionsOfListener)));
        assert_eq!(narrow.connections.load(Ordering::Relaxed), 1);
        assert_eq!(admission.connections(), 1);
    }

    #[test]
    fn an_address_is_counted_while_it_is_limited() {
        let admission = admission(0, 1, 0);
        let port = Arc::new(Port::for_tests(0));
        let held = admission.admit(Tick::ZERO, &port, from(1), full).unwrap();
        let refused = admission.admit(Tick::ZERO, &port, from(1), full);
        assert!(matches!(refused, Err(Limit::ConnectionsPerAddress)));
        let _other = admission.admit(Tick::ZERO, &port, from(2), full).unwrap();
        let _local = admission
            .admit(Tick::ZERO, &port, Peer::Unix { uid: 0, pid: 0 }, full)
            .unwrap();
        let _local = admission
            .admit(Tick::ZERO, &port, Peer::Unix { uid: 0, pid: 0 }, full)
            .unwrap();
        drop(held);
        assert_eq!(lock(&admission.addresses).len(), 1);
        let _again = admission.admit(Tick::ZERO, &port, from(1), full).unwrap();
    }

    fn from_v6(network: u16, last: u8) -> Peer {
        let text = format!("[2001:db8:0:{network:x}::{last:x}]:1");
        Peer::from(text.parse::<std::net::SocketAddr>().unwrap())
    }

    #[test]
    fn a_64_of_version_6_is_one_address() {
        let admission = admission(0, 1, 0);
        let port = Arc::new(Port::for_tests(0));
        let _held = admission
            .admit(Tick::ZERO, &port, from_v6(1, 1), full)
            .unwrap();
        let refused = admission.admit(Tick::ZERO, &port, from_v6(1, 2), full);
        assert!(matches!(refused, Err(Limit::ConnectionsPerAddress)));
        let _other = admission
            .admit(Tick::ZERO, &port, from_v6(2, 1), full)
            .unwrap();
    }

    /// One address that comes as fast as it can, and somebody else.
    #[test]
    fn an_address_uses_up_its_own_rate_only() {
        let admission = admission(0, 0, 10);
        admission.rate_per_address.store(4, Ordering::Relaxed);
        let port = Arc::new(Port::for_tests(0));
        let admit = |peer| admission.admit(Tick::ZERO, &port, peer, full).err();
        let refused: Vec<_> = (1..=100)
            .filter_map(|last| admit(from_v6(1, last)))
            .collect();
        assert_eq!(refused.len(), 96);
        assert!(
            refused
                .iter()
                .all(|limit| *limit == Limit::ConnectionRatePerAddress)
        );
        assert_eq!(admit(from_v6(2, 1)), None);
        assert_eq!(admit(from(1)), None);
        assert_eq!(admit(Peer::Unix { uid: 0, pid: 0 }), None);
    }

    #[test]
    fn the_rate_lets_a_second_through_at_once_and_then_paces() {
        let admission = admission(0, 0, 10);
        let port = Arc::new(Port::for_tests(0));
        let mut admitted = 0;
        let mut try_at = |ms| {
            if admission
                .admit(Tick::from_millis(ms), &port, from(1), full)
                .is_ok()
            {
                admitted += 1;
            }
            admitted
        };
        for _ in 0..30 {
            try_at(0);
        }
        assert_eq!(try_at(0), 10, "the server has just started");
        assert_eq!(try_at(50), 10);
        assert_eq!(try_at(100), 11);
        assert_eq!(try_at(100), 11);
        for _ in 0..30 {
            try_at(10_000);
        }
        assert_eq!(try_at(10_000), 21);
    }
}
