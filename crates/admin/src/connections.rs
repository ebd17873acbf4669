//! The open connections: where there are too many, one that asks for nothing ends.
//!
//! A connection **rests** until it has sent a whole request, and again when its answer has gone,
//! or while its client does not take it. If [`CONNECTIONS_MAX`] connections are served, the one
//! that rests for longest ends: of the address that has most of them, so that a stranger's
//! half-sent requests end one another, and not those of others. Of one address, [`ADDRESS_MAX`]
//! are served at most, so that others find a place whatever it asks for.
//!
//! Where none can end, a new connection **waits**: nothing is read from it until there is a
//! place. Those of addresses with few places get one first. If too many wait, the oldest ends, of
//! the address that has most of them. So nobody waits to be accepted behind others.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::bounds::{ADDRESS_MAX, CONNECTIONS_MAX, CONNECTIONS_WAITING_MAX};

/// How often it is looked whether all connections rest. News of that may be meant for others.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// In place of a time: the connection is being answered.
const ANSWERED: u64 = 0;

/// The connections that are open.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    lists: Mutex<Lists>,
    /// Counts the times at which connections began to rest.
    clock: AtomicU64,
}

/// The places of connections.
#[derive(Debug, Default)]
struct Lists {
    /// Those that are served.
    served: Vec<Arc<Entry>>,
    /// Those that wait for that, the oldest first.
    waiting: Vec<Arc<Entry>>,
}

/// The place of one connection.
#[derive(Debug)]
struct Entry {
    block: u128,
    /// Since when it rests, by the clock of all, or [`ANSWERED`].
    rests_since: AtomicU64,
    /// Whether it is served.
    is_served: AtomicBool,
    served: Notify,
    end: Notify,
}

impl Entry {
    /// Since when it rests, if it does.
    fn rests_since(&self) -> Option<u64> {
        match self.rests_since.load(Ordering::Relaxed) {
            ANSWERED => None,
            since => Some(since),
        }
    }
}

/// A connection that is open. Dropping it takes it off the lists.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Place>);

#[derive(Debug)]
struct Place {
    all: Arc<Connections>,
    entry: Arc<Entry>,
}

/// What counts as one address: of IPv6, a network of 64 bits.
pub(crate) fn block(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

impl Connections {
    /// Lets a connection in. It may have to wait for a while.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Ready<Connection> {
        ready(self.let_in(address))
    }

    fn let_in(self: &Arc<Self>, address: IpAddr) -> Connection {
        let entry = Arc::new(Entry {
            block: block(address),
            rests_since: AtomicU64::new(self.next_time()),
            is_served: AtomicBool::new(false),
            served: Notify::new(),
            end: Notify::new(),
        });
        let mut lists = self.lists();
        lists.waiting.push(Arc::clone(&entry));
        lists.fill();
        if lists.waiting.len() > CONNECTIONS_WAITING_MAX {
            lists.give_up_one();
        }
        let all = Arc::clone(self);
        Connection(Arc::new(Place { all, entry }))
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no connection is being answered.
    pub(crate) async fn is_at_rest(&self) {
        while self.is_answering() {
            sleep(LOOK_AGAIN).await;
        }
    }

    fn is_answering(&self) -> bool {
        let lists = self.lists();
        lists
            .served
            .iter()
            .any(|entry| entry.rests_since().is_none())
    }

    fn next_time(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Lists {
    /// Serves those that wait, as far as there are places.
    fn fill(&mut self) {
        while let Some(place) = self.next() {
            let entry = self.waiting.remove(place);
            entry.is_served.store(true, Ordering::Relaxed);
            entry.served.notify_one();
            self.served.push(entry);
        }
    }

    /// The place of the one that is served now, which is free then: of the address with fewest,
    /// the oldest. O(connections).
    fn next(&mut self) -> Option<usize> {
        if self.waiting.is_empty() {
            return None;
        }
        let counts = counts(self.served.iter());
        let count = |block: &u128| counts.get(block).copied().unwrap_or(0);
        // The addresses that wait, each by its oldest connection.
        let mut firsts: HashMap<u128, usize> = HashMap::new();
        for (place, entry) in self.waiting.iter().enumerate() {
            firsts.entry(entry.block).or_insert(place);
        }
        let mut firsts: Vec<(u128, usize)> = firsts.into_iter().collect();
        firsts.sort_unstable_by_key(|(block, place)| (count(block), *place));
        let is_full = self.served.len() >= CONNECTIONS_MAX;
        for (block, place) in firsts {
            let own = count(&block);
            // A place of its own, or one of an address with more of them.
            let may_take = |other: &u128| *other == block || own < ADDRESS_MAX.min(count(other));
            if own < ADDRESS_MAX && !is_full {
                return Some(place);
            }
            let resting = self.served.iter().enumerate();
            let resting = resting.filter(|(_, entry)| may_take(&entry.block));
            let resting = resting.filter_map(|(at, entry)| Some((at, entry, entry.rests_since()?)));
            let oldest = resting.max_by_key(|(_, entry, at)| (count(&entry.block), u64::MAX - at));
            if let Some((at, ..)) = oldest {
                self.served.swap_remove(at).end.notify_one();
                return Some(place);
            }
        }
        None
    }

    /// Ends the connection that waits for longest, of the address that has most of them.
    fn give_up_one(&mut self) {
        let counts = counts(self.waiting.iter());
        let most = counts.values().copied().max();
        let is_such = |entry: &Arc<Entry>| counts.get(&entry.block).copied() == most;
        if let Some(place) = self.waiting.iter().position(is_such) {
            self.waiting.remove(place).end.notify_one();
        }
    }
}

/// How many of these each address has.
fn counts<'s>(lists: impl Iterator<Item = &'s Arc<Entry>>) -> HashMap<u128, usize> {
    let mut counts = HashMap::new();
    for entry in lists {
        *counts.entry(entry.block).or_default() += 1;
    }
    counts
}

impl Connection {
    /// A whole request is there, or the client takes its answer again.
    pub(crate) fn is_answered(&self) {
        self.0.entry.rests_since.store(ANSWERED, Ordering::Relaxed);
    }

    /// The answer has gone, or the client does not take it.
    pub(crate) fn rests(&self) {
        let Place { all, entry } = &*self.0;
        if entry.rests_since().is_none() {
            entry.rests_since.store(all.next_time(), Ordering::Relaxed);
            all.lists().fill();
        }
    }

    /// Whether nothing is read from it yet.
    pub(crate) fn waits(&self) -> bool {
        !self.0.entry.is_served.load(Ordering::Relaxed)
    }

    /// Waits until it is served.
    pub(crate) async fn served(self) {
        while self.waits() {
            self.0.entry.served.notified().await;
        }
    }

    /// Waits until it has to end for another one.
    pub(crate) async fn has_to_leave(&self) {
        self.0.entry.end.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lists = self.all.lists();
        let is_other = |entry: &Arc<Entry>| !Arc::ptr_eq(entry, &self.entry);
        lists.served.retain(is_other);
        lists.waiting.retain(is_other);
        lists.fill();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn enter(all: &Arc<Connections>, last: u8) -> Connection {
        all.let_in(address(last))
    }

    /// Whether a connection still has its place, be it that it waits.
    fn stays(connection: &Connection) -> bool {
        let Place { all, entry } = &*connection.0;
        let lists = all.lists();
        let mut all = lists.served.iter().chain(&lists.waiting);
        all.any(|one| Arc::ptr_eq(one, entry))
    }

    #[test]
    fn the_oldest_that_asks_for_nothing_makes_room() {
        let all = Arc::new(Connections::default());
        let mut connections: Vec<Connection> = (0..ADDRESS_MAX).map(|_| enter(&all, 1)).collect();
        connections[0].is_answered();
        let new = enter(&all, 1);
        assert!(stays(&connections[0]) && !stays(&connections[1]) && stays(&connections[2]));
        // Its rest begins with the end of its answer.
        connections[0].rests();
        let newer = enter(&all, 1);
        assert!(stays(&connections[0]) && !stays(&connections[2]) && stays(&new));
        assert_eq!(all.lists().served.len(), ADDRESS_MAX);
        connections.clear();
        drop((new, newer));
        assert!(all.lists().served.is_empty());
    }

    #[test]
    fn the_connections_of_one_address_make_room_for_those_of_others() {
        let all = Arc::new(Connections::default());
        let probe = enter(&all, 1);
        let strangers: Vec<Connection> = (0..500).map(|_| enter(&all, 2)).collect();
        assert!(stays(&probe));
        let left = strangers
            .iter()
            .filter(|connection| stays(connection))
            .count();
        assert_eq!(left, ADDRESS_MAX);
        let others: Vec<Connection> = (0..80).map(|_| enter(&all, 3)).collect();
        assert!(stays(&probe) && others.iter().all(|connection| !connection.waits()));
        let left = strangers
            .iter()
            .filter(|connection| stays(connection))
            .count();
        assert_eq!(left, CONNECTIONS_MAX - 81);
        let network = |host: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host).into();
        assert_eq!(block(network(1)), block(network(2)));
        assert_ne!(block(address(1)), block(address(2)));
    }

    /// Whatever one address asks for, another one finds a place at once.
    #[test]
    fn who_is_answered_takes_a_share_and_no_more() {
        let all = Arc::new(Connections::default());
        let connections: Vec<Connection> = (0..2_000)
            .map(|_| {
                let connection = enter(&all, 1);
                if !connection.waits() {
                    connection.is_answered();
                }
                connection
            })
            .collect();
        let served = connections
            .iter()
            .filter(|connection| !connection.waits())
            .count();
        assert_eq!(served, ADDRESS_MAX);
        let waiting = connections[ADDRESS_MAX..]
            .iter()
            .filter(|connection| stays(connection));
        assert_eq!(waiting.count(), CONNECTIONS_WAITING_MAX);
        assert!(!enter(&all, 2).waits());
    }

    #[test]
    fn nobody_who_is_answered_makes_room() {
        let all = Arc::new(Connections::default());
        let half = CONNECTIONS_MAX / 2;
        let connections: Vec<Connection> = (0..CONNECTIONS_MAX)
            .map(|number| enter(&all, if number < half { 1 } else { 2 }))
            .collect();
        connections.iter().for_each(Connection::is_answered);
        let (many, few) = (enter(&all, 1), enter(&all, 3));
        assert!(many.waits() && few.waits());
        assert!(all.is_answering());
        connections[7].rests();
        assert!(!stays(&connections[7]));
        assert!(many.waits() && !few.waits(), "who has fewest is first");
        drop(few);
        assert!(!many.waits());
        connections.iter().for_each(Connection::rests);
        assert!(!all.is_answering());
    }
}
