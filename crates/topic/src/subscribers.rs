//! The subscribers of one filter.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::slice;

use crate::table::TagTable;

/// A subscriber of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subscriber {
    /// The number of the session in its shard; a session subscribes to a filter at most once.
    pub session: u32,
    /// What the session asked for with the filter; opaque to the index.
    pub options: u32,
}

/// More subscribers than this have a map from session to position.
const MAP_ABOVE: usize = 64;
/// A set that fell to this size gives its map up; below [`MAP_ABOVE`] so that a set around the
/// limit does not build the map again and again.
const MAP_UNTIL: usize = 32;

/// At least one subscriber: a lone one in place, several in a vector of their own.
pub(crate) enum Subscribers {
    One(Subscriber),
    Many(Box<Set>),
}

/// What became of taking a session out.
pub(crate) enum Taken {
    /// The session was not there.
    Absent,
    /// It was there with these options, and others remain.
    Left(u32),
    /// It was the only one; it is still here, and the whole set is to be dropped.
    Emptied(u32),
}

impl Subscribers {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Subscriber] {
        match self {
            Self::One(subscriber) => slice::from_ref(subscriber),
            Self::Many(set) => &set.list,
        }
    }

    /// The options of a session.
    pub(crate) fn options(&self, session: u32) -> Option<u32> {
        match self {
            Self::One(only) => (only.session == session).then_some(only.options),
            Self::Many(set) => set.position(session).map(|at| set.list[at].options),
        }
    }

    /// Adds a subscriber, or gives the session new options and returns its old ones.
    pub(crate) fn insert(&mut self, subscriber: Subscriber) -> Option<u32> {
        match self {
            Self::One(only) if only.session == subscriber.session => {
                Some(core::mem::replace(&mut only.options, subscriber.options))
            }
            Self::One(only) => {
                let list = Vec::from([*only, subscriber]);
                *self = Self::Many(Box::new(Set {
                    list,
                    positions: None,
                }));
                None
            }
            Self::Many(set) => set.insert(subscriber),
        }
    }

    /// Takes a session out.
    pub(crate) fn remove(&mut self, session: u32) -> Taken {
        match self {
            Self::One(only) if only.session == session => Taken::Emptied(only.options),
            Self::One(_) => Taken::Absent,
            Self::Many(set) => {
                let Some(options) = set.remove(session) else {
                    return Taken::Absent;
                };
                if let [only] = *set.list {
                    *self = Self::One(only);
                }
                Taken::Left(options)
            }
        }
    }

    /// Bytes of heap that the set occupies.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Many(set) => {
                let positions = set.positions.as_ref().map_or(0, |positions| {
                    size_of::<TagTable>() + positions.heap_bytes()
                });
                size_of::<Set>() + set.list.capacity() * size_of::<Subscriber>() + positions
            }
        }
    }
}

/// Two or more subscribers.
pub(crate) struct Set {
    /// In no particular order.
    list: Vec<Subscriber>,
    /// The position in `list` of each session; present while the list is long, so that 100,000
    /// sessions can leave one by one.
    positions: Option<Box<TagTable>>,
}

impl Set {
    fn position(&self, session: u32) -> Option<usize> {
        match &self.positions {
            Some(positions) => positions
                .find(hash(session), |at| {
                    self.list[at as usize].session == session
                })
                .map(|at| at as usize),
            None => self.list.iter().position(|other| other.session == session),
        }
    }

    fn insert(&mut self, subscriber: Subscriber) -> Option<u32> {
        if let Some(at) = self.position(subscriber.session) {
            let options = &mut self.list[at].options;
            return Some(core::mem::replace(options, subscriber.options));
        }
        let at = self.list.len() as u32;
        self.list.push(subscriber);
        let list = &self.list;
        match &mut self.positions {
            Some(positions) => positions.insert_unique(hash(subscriber.session), at),
            None if list.len() > MAP_ABOVE => {
                let mut positions = Box::new(TagTable::new());
                positions.reserve(2 * list.len());
                for (other, at) in list.iter().zip(0u32..) {
                    positions.insert_unique(hash(other.session), at);
                }
                self.positions = Some(positions);
            }
            None => {}
        }
        None
    }

    fn remove(&mut self, session: u32) -> Option<u32> {
        let at = self.position(session)?;
        let last = self.list.len() - 1;
        if let Some(positions) = &mut self.positions {
            // Fewer than 2^32 sessions subscribe.
            positions.remove(hash(session), at as u32);
            positions.renumber(hash(self.list[last].session), last as u32, at as u32);
        }
        let removed = self.list.swap_remove(at);
        self.shrink();
        Some(removed.options)
    }

    /// Gives memory back once three quarters of it are unused, to twice the need.
    fn shrink(&mut self) {
        let len = self.list.len();
        if len <= MAP_UNTIL {
            self.positions = None;
        }
        if self.list.capacity() < 8 || len > self.list.capacity() / 4 {
            return;
        }
        self.list.shrink_to(2 * len);
    }
}

/// Session numbers are small integers of the server's own choosing, so that spreading them over
/// the bits is enough: no client can aim at them.
const fn hash(session: u32) -> u64 {
    let product = (session as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    product ^ (product >> 32)
}
