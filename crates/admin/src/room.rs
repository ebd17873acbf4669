//! Room for connections: where there is none, one that asks for nothing makes room.
//!
//! A connection **rests** until it has sent a whole request, and again when its answer has gone,
//! or while its client does not take it. If [`CONNECTIONS_MAX`] connections have a seat, the one
//! that rests for longest ends: of the address that has most of them, so that a stranger's
//! half-sent requests end one another, and not those of others. One address has [`ADDRESS_MAX`]
//! seats at most, so that others find one whatever it asks for.
//!
//! Where nobody makes room, a new connection **stands**: nothing is read from it until there is a
//! seat. Those of addresses with few seats get one first. If too many stand, the oldest ends, of
//! the address that has most of them. So nobody waits at the door behind others.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::bounds::{ADDRESS_MAX, CONNECTIONS_MAX, STANDING_MAX};

/// How often it is looked whether all connections rest. News of that may be meant for others.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// In place of a time: the connection is being answered.
const ANSWERED: u64 = 0;

/// The connections that are open.
#[derive(Debug, Default)]
pub(crate) struct Room {
    seats: Mutex<Seats>,
    /// Counts the times at which connections began to rest.
    clock: AtomicU64,
}

/// The places of connections.
#[derive(Debug, Default)]
struct Seats {
    /// Those that are served.
    seated: Vec<Arc<Seat>>,
    /// Those that wait for that, the oldest first.
    standing: Vec<Arc<Seat>>,
}

/// The place of one connection.
#[derive(Debug)]
struct Seat {
    block: u128,
    /// Since when it rests, by the clock of the room, or [`ANSWERED`].
    rests_since: AtomicU64,
    /// Whether it is served.
    is_seated: AtomicBool,
    seated: Notify,
    end: Notify,
}

impl Seat {
    /// Since when it rests, if it does.
    fn rests_since(&self) -> Option<u64> {
        match self.rests_since.load(Ordering::Relaxed) {
            ANSWERED => None,
            since => Some(since),
        }
    }
}

/// A connection in a room. Dropping it leaves the room.
#[derive(Clone, Debug)]
pub(crate) struct Guest(Arc<Place>);

#[derive(Debug)]
struct Place {
    room: Arc<Room>,
    seat: Arc<Seat>,
}

/// What counts as one address: of IPv6, a network of 64 bits.
pub(crate) fn block(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

impl Room {
    /// Lets a connection in. It may have to stand for a while.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Ready<Guest> {
        ready(self.let_in(address))
    }

    fn let_in(self: &Arc<Self>, address: IpAddr) -> Guest {
        let seat = Arc::new(Seat {
            block: block(address),
            rests_since: AtomicU64::new(self.next_time()),
            is_seated: AtomicBool::new(false),
            seated: Notify::new(),
            end: Notify::new(),
        });
        let mut seats = self.seats();
        seats.standing.push(Arc::clone(&seat));
        seats.fill();
        if seats.standing.len() > STANDING_MAX {
            seats.give_up_one();
        }
        let room = Arc::clone(self);
        Guest(Arc::new(Place { room, seat }))
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no connection is being answered.
    pub(crate) async fn is_at_rest(&self) {
        while self.is_answering() {
            sleep(LOOK_AGAIN).await;
        }
    }

    fn is_answering(&self) -> bool {
        let seats = self.seats();
        seats.seated.iter().any(|seat| seat.rests_since().is_none())
    }

    fn next_time(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Seats {
    /// Gives seats to those who stand, as far as there are some.
    fn fill(&mut self) {
        while let Some(place) = self.next() {
            let seat = self.standing.remove(place);
            seat.is_seated.store(true, Ordering::Relaxed);
            seat.seated.notify_one();
            self.seated.push(seat);
        }
    }

    /// The place of the one that gets a seat now, which is free then: of the address with fewest,
    /// the oldest. O(connections).
    fn next(&mut self) -> Option<usize> {
        if self.standing.is_empty() {
            return None;
        }
        let counts = counts(self.seated.iter());
        let count = |block: &u128| counts.get(block).copied().unwrap_or(0);
        // The addresses that stand, each by its oldest connection.
        let mut firsts: HashMap<u128, usize> = HashMap::new();
        for (place, seat) in self.standing.iter().enumerate() {
            firsts.entry(seat.block).or_insert(place);
        }
        let mut firsts: Vec<(u128, usize)> = firsts.into_iter().collect();
        firsts.sort_unstable_by_key(|(block, place)| (count(block), *place));
        let is_full = self.seated.len() >= CONNECTIONS_MAX;
        for (block, place) in firsts {
            let own = count(&block);
            // A seat of its own, or one of an address with more of them.
            let may_take = |other: &u128| *other == block || own < ADDRESS_MAX.min(count(other));
            if own < ADDRESS_MAX && !is_full {
                return Some(place);
            }
            let resting = self.seated.iter().enumerate();
            let resting = resting.filter(|(_, seat)| may_take(&seat.block));
            let resting = resting.filter_map(|(at, seat)| Some((at, seat, seat.rests_since()?)));
            let oldest = resting.max_by_key(|(_, seat, at)| (count(&seat.block), u64::MAX - at));
            if let Some((at, ..)) = oldest {
                self.seated.swap_remove(at).end.notify_one();
                return Some(place);
            }
        }
        None
    }

    /// Ends the connection that stands for longest, of the address that has most of them.
    fn give_up_one(&mut self) {
        let counts = counts(self.standing.iter());
        let most = counts.values().copied().max();
        let is_such = |seat: &Arc<Seat>| counts.get(&seat.block).copied() == most;
        if let Some(place) = self.standing.iter().position(is_such) {
            self.standing.remove(place).end.notify_one();
        }
    }
}

/// How many of these each address has.
fn counts<'s>(seats: impl Iterator<Item = &'s Arc<Seat>>) -> HashMap<u128, usize> {
    let mut counts = HashMap::new();
    for seat in seats {
        *counts.entry(seat.block).or_default() += 1;
    }
    counts
}

impl Guest {
    /// A whole request is there, or the client takes its answer again.
    pub(crate) fn is_answered(&self) {
        self.0.seat.rests_since.store(ANSWERED, Ordering::Relaxed);
    }

    /// The answer has gone, or the client does not take it.
    pub(crate) fn rests(&self) {
        let Place { room, seat } = &*self.0;
        if seat.rests_since().is_none() {
            seat.rests_since.store(room.next_time(), Ordering::Relaxed);
            room.seats().fill();
        }
    }

    /// Whether nothing is read from it yet.
    pub(crate) fn stands(&self) -> bool {
        !self.0.seat.is_seated.load(Ordering::Relaxed)
    }

    /// Waits until it has a seat.
    pub(crate) async fn seated(self) {
        while self.stands() {
            self.0.seat.seated.notified().await;
        }
    }

    /// Waits until it has to make room for another.
    pub(crate) async fn has_to_leave(&self) {
        self.0.seat.end.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut seats = self.room.seats();
        let is_other = |seat: &Arc<Seat>| !Arc::ptr_eq(seat, &self.seat);
        seats.seated.retain(is_other);
        seats.standing.retain(is_other);
        seats.fill();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn enter(room: &Arc<Room>, last: u8) -> Guest {
        room.let_in(address(last))
    }

    /// Whether a guest still has its place, be it that it stands.
    fn stays(guest: &Guest) -> bool {
        let Place { room, seat } = &*guest.0;
        let seats = room.seats();
        let mut all = seats.seated.iter().chain(&seats.standing);
        all.any(|one| Arc::ptr_eq(one, seat))
    }

    #[test]
    fn the_oldest_that_asks_for_nothing_makes_room() {
        let room = Arc::new(Room::default());
        let mut guests: Vec<Guest> = (0..ADDRESS_MAX).map(|_| enter(&room, 1)).collect();
        guests[0].is_answered();
        let new = enter(&room, 1);
        assert!(stays(&guests[0]) && !stays(&guests[1]) && stays(&guests[2]));
        // Its rest begins with the end of its answer.
        guests[0].rests();
        let newer = enter(&room, 1);
        assert!(stays(&guests[0]) && !stays(&guests[2]) && stays(&new));
        assert_eq!(room.seats().seated.len(), ADDRESS_MAX);
        guests.clear();
        drop((new, newer));
        assert!(room.seats().seated.is_empty());
    }

    #[test]
    fn the_connections_of_one_address_make_room_for_those_of_others() {
        let room = Arc::new(Room::default());
        let probe = enter(&room, 1);
        let strangers: Vec<Guest> = (0..500).map(|_| enter(&room, 2)).collect();
        assert!(stays(&probe));
        let left = strangers.iter().filter(|guest| stays(guest)).count();
        assert_eq!(left, ADDRESS_MAX);
        let others: Vec<Guest> = (0..80).map(|_| enter(&room, 3)).collect();
        assert!(stays(&probe) && others.iter().all(|guest| !guest.stands()));
        let left = strangers.iter().filter(|guest| stays(guest)).count();
        assert_eq!(left, CONNECTIONS_MAX - 81);
        let network = |host: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host).into();
        assert_eq!(block(network(1)), block(network(2)));
        assert_ne!(block(address(1)), block(address(2)));
    }

    /// Whatever one address asks for, another one finds a seat at once.
    #[test]
    fn who_is_answered_takes_a_share_and_no_more() {
        let room = Arc::new(Room::default());
        let guests: Vec<Guest> = (0..2_000)
            .map(|_| {
                let guest = enter(&room, 1);
                if !guest.stands() {
                    guest.is_answered();
                }
                guest
            })
            .collect();
        let seated = guests.iter().filter(|guest| !guest.stands()).count();
        assert_eq!(seated, ADDRESS_MAX);
        let standing = guests[ADDRESS_MAX..].iter().filter(|guest| stays(guest));
        assert_eq!(standing.count(), STANDING_MAX);
        assert!(!enter(&room, 2).stands());
    }

    #[test]
    fn nobody_who_is_answered_makes_room() {
        let room = Arc::new(Room::default());
        let half = CONNECTIONS_MAX / 2;
        let guests: Vec<Guest> = (0..CONNECTIONS_MAX)
            .map(|number| enter(&room, if number < half { 1 } else { 2 }))
            .collect();
        guests.iter().for_each(Guest::is_answered);
        let (many, few) = (enter(&room, 1), enter(&room, 3));
        assert!(many.stands() && few.stands());
        assert!(room.is_answering());
        guests[7].rests();
        assert!(!stays(&guests[7]));
        assert!(many.stands() && !few.stands(), "who has fewest is first");
        drop(few);
        assert!(!many.stands());
        guests.iter().for_each(Guest::rests);
        assert!(!room.is_answering());
    }
}
