//! Room for connections: where there is none, one that asks for nothing makes room.
//!
//! A connection **rests** until it has sent a whole request, and again when its answer has gone,
//! or while its client does not take it. If [`CONNECTIONS_MAX`] connections are open, the one that
//! rests for longest ends: of the address that has most of them, so that a stranger's half-sent
//! requests end one another, and not those of others. Only if every connection is being answered
//! does a new one wait.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::bounds::CONNECTIONS_MAX;

/// How often it is looked whether all connections rest. News of that may be meant for others.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// In place of a time: the connection is being answered.
const ANSWERED: u64 = 0;

/// The connections that are open.
#[derive(Debug, Default)]
pub(crate) struct Room {
    seats: Mutex<Vec<Arc<Seat>>>,
    /// Counts the times at which connections began to rest.
    clock: AtomicU64,
    /// One has left, or rests.
    news: Notify,
}

/// The place of one connection.
#[derive(Debug)]
struct Seat {
    block: u128,
    /// Since when it rests, by the clock of the room, or [`ANSWERED`].
    rests_since: AtomicU64,
    end: Notify,
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
    /// Lets a connection in, once there is room or somebody can make room.
    pub(crate) async fn enter(self: &Arc<Self>, address: IpAddr) -> Guest {
        loop {
            if let Some(guest) = self.try_enter(address) {
                return guest;
            }
            // A notice of the meantime is kept.
            self.news.notified().await;
        }
    }

    fn try_enter(self: &Arc<Self>, address: IpAddr) -> Option<Guest> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if seats.len() >= CONNECTIONS_MAX {
            let place = who_makes_room(&seats)?;
            seats.swap_remove(place).end.notify_one();
        }
        let seat = Arc::new(Seat {
            block: block(address),
            rests_since: AtomicU64::new(self.next_time()),
            end: Notify::new(),
        });
        seats.push(Arc::clone(&seat));
        let room = Arc::clone(self);
        Some(Guest(Arc::new(Place { room, seat })))
    }

    /// Waits until no connection is being answered.
    pub(crate) async fn is_at_rest(&self) {
        while self.is_answering() {
            sleep(LOOK_AGAIN).await;
        }
    }

    fn is_answering(&self) -> bool {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seats = seats.iter();
        seats.any(|seat| seat.rests_since.load(Ordering::Relaxed) == ANSWERED)
    }

    fn next_time(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The seat of a connection that rests: the oldest one of the address that has most.
fn who_makes_room(seats: &[Arc<Seat>]) -> Option<usize> {
    let resting = |seat: &Arc<Seat>| match seat.rests_since.load(Ordering::Relaxed) {
        ANSWERED => None,
        since => Some(since),
    };
    let of_block = |block: u128| {
        let others = seats.iter().filter(|other| other.block == block);
        others.filter_map(resting).count()
    };
    let rest = seats.iter().enumerate();
    let rest = rest.filter_map(|(place, seat)| resting(seat).map(|since| (place, seat, since)));
    rest.max_by_key(|(_, seat, since)| (of_block(seat.block), u64::MAX - since))
        .map(|(place, ..)| place)
}

impl Guest {
    /// A whole request is there, or the client takes its answer again.
    pub(crate) fn is_answered(&self) {
        self.0.seat.rests_since.store(ANSWERED, Ordering::Relaxed);
    }

    /// The answer has gone, or the client does not take it.
    pub(crate) fn rests(&self) {
        let Place { room, seat } = &*self.0;
        if seat.rests_since.load(Ordering::Relaxed) == ANSWERED {
            seat.rests_since.store(room.next_time(), Ordering::Relaxed);
            room.news.notify_one();
        }
    }

    /// Waits until it has to make room for another.
    pub(crate) async fn has_to_leave(&self) {
        self.0.seat.end.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let seats = &self.room.seats;
        let mut seats = seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        self.room.news.notify_one();
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
        room.try_enter(address(last)).expect("there is room")
    }

    /// Whether a guest still has its seat.
    fn stays(guest: &Guest) -> bool {
        let Place { room, seat } = &*guest.0;
        let seats = room.seats.lock().unwrap();
        seats.iter().any(|one| Arc::ptr_eq(one, seat))
    }

    #[test]
    fn the_oldest_that_asks_for_nothing_makes_room() {
        let room = Arc::new(Room::default());
        let mut guests: Vec<Guest> = (0..CONNECTIONS_MAX).map(|_| enter(&room, 1)).collect();
        guests[0].is_answered();
        let new = enter(&room, 1);
        assert!(stays(&guests[0]) && !stays(&guests[1]) && stays(&guests[2]));
        // Its rest begins with the end of its answer.
        guests[0].rests();
        let newer = enter(&room, 1);
        assert!(stays(&guests[0]) && !stays(&guests[2]) && stays(&new));
        assert_eq!(room.seats.lock().unwrap().len(), CONNECTIONS_MAX);
        guests.clear();
        drop((new, newer));
        assert!(room.seats.lock().unwrap().is_empty());
    }

    #[test]
    fn the_connections_of_one_address_make_room_for_those_of_others() {
        let room = Arc::new(Room::default());
        let probe = enter(&room, 1);
        let strangers: Vec<Guest> = (0..500).map(|_| enter(&room, 2)).collect();
        assert!(stays(&probe));
        let left = strangers.iter().filter(|guest| stays(guest)).count();
        assert_eq!(left, CONNECTIONS_MAX - 1);
        let network = |host: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host).into();
        assert_eq!(block(network(1)), block(network(2)));
        assert_ne!(block(address(1)), block(address(2)));
    }

    #[test]
    fn nobody_who_is_answered_makes_room() {
        let room = Arc::new(Room::default());
        let guests: Vec<Guest> = (0..CONNECTIONS_MAX).map(|_| enter(&room, 1)).collect();
        guests.iter().for_each(Guest::is_answered);
        assert!(room.try_enter(address(2)).is_none());
        assert!(room.is_answering());
        guests[7].rests();
        let _new = enter(&room, 2);
        assert!(!stays(&guests[7]));
        guests.iter().for_each(Guest::rests);
        assert!(!room.is_answering());
    }
}
