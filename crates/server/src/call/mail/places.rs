//! The connections of the listeners for mail servers, and which of them make room for others.
//!
//! Mail servers keep connections that they do not use for a long time, and open another one when
//! they are ended. So a full listener closes the connection that has been idle for longest. A
//! connection in the middle of a message or a request stays.

use std::time::Instant;

use slab::Slab;

use super::link::Link;

/// The connections of all listeners.
pub(super) struct Places {
    held: Slab<Held>,
    /// Of each listener.
    max: usize,
}

/// A connection, for those who end it.
struct Held {
    link: Link,
    /// The number of its listener.
    listener: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is under way, since then.
    Idle(Instant),
    /// In the middle of a message or a request.
    Busy,
    /// It has made room for another one, and counts no more.
    Leaving,
}

impl Places {
    /// Without connections.
    pub(super) fn new(max: usize) -> Self {
        Self {
            held: Slab::new(),
            max,
        }
    }

    /// A connection has come to a listener: its key, or nothing if there is no place, since all
    /// others are busy.
    pub(super) fn enter(&mut self, listener: usize, link: Link, now: Instant) -> Option<usize> {
        let counts = |held: &Held| held.listener == listener && held.stage != Stage::Leaving;
        let connected = self.held.iter().filter(|(_, held)| counts(held)).count();
        if connected >= self.max && !self.make_room(listener) {
            return None;
        }
        Some(self.held.insert(Held {
            link,
            listener,
            stage: Stage::Idle(now),
        }))
    }

    /// Ends the connection that has been idle for longest; whether there was one.
    fn make_room(&mut self, listener: usize) -> bool {
        let own = self.held.iter_mut().map(|(_, held)| held);
        let own = own.filter(|held| held.listener == listener);
        let mut idle: Vec<(Instant, &mut Held)> = own
            .filter_map(|held| match held.stage {
                Stage::Idle(since) => Some((since, held)),
                Stage::Busy | Stage::Leaving => None,
            })
            .collect();
        idle.sort_by_key(|(since, _)| *since);
        // What has come and was not read yet may be the beginning of a message.
        let longest = idle.into_iter().find(|(_, held)| !held.link.has_input());
        let Some((_, held)) = longest else {
            return false;
        };
        held.stage = Stage::Leaving;
        held.link.shut_down();
        true
    }

    /// Something has come on a connection, or was answered: whether it is in the middle of a
    /// message or a request now. Returns whether it goes on.
    pub(super) fn set_busy(&mut self, key: usize, is_busy: bool, now: Instant) -> bool {
        let Some(held) = self.held.get_mut(key) else {
            return false;
        };
        if held.stage == Stage::Leaving {
            return false;
        }
        held.stage = if is_busy {
            Stage::Busy
        } else {
            Stage::Idle(now)
        };
        true
    }

    /// The thread of a connection has ended.
    pub(super) fn leave(&mut self, key: usize) {
        drop(self.held.try_remove(key));
    }

    /// Nobody is connected.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Ends all connections on which nothing is under way.
    pub(super) fn end_idle(&self) {
        let idle = self
            .held
            .iter()
            .filter(|(_, held)| held.stage != Stage::Busy);
        idle.for_each(|(_, held)| held.link.shut_down());
    }

    /// Ends all connections.
    pub(super) fn end_all(&self) {
        self.held.iter().for_each(|(_, held)| held.link.shut_down());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// Connections in the order of their arrival, with the side of the mail server.
    struct Scene {
        places: Places,
        start: Instant,
        seconds: u64,
        sides: Vec<(usize, UnixStream)>,
    }

    impl Scene {
        fn new(max: usize) -> Self {
            Self {
                places: Places::new(max),
                start: Instant::now(),
                seconds: 0,
                sides: Vec::new(),
            }
        }

        /// Each thing happens a second after the last one.
        fn now(&mut self) -> Instant {
            self.seconds += 1;
            self.start + Duration::from_secs(self.seconds)
        }

        /// Somebody comes; whether there is a place.
        fn enter(&mut self, listener: usize) -> bool {
            let (here, there) = UnixStream::pair().expect("a pair of sockets");
            there.set_nonblocking(true).expect("a socket");
            let now = self.now();
            let key = self.places.enter(listener, Link::Unix(here), now);
            self.sides.extend(key.map(|key| (key, there)));
            key.is_some()
        }

        fn set_busy(&mut self, number: usize, is_busy: bool) -> bool {
            let now = self.now();
            self.places.set_busy(self.sides[number].0, is_busy, now)
        }

        fn is_open(&mut self, number: usize) -> bool {
            match self.sides[number].1.read(&mut [0]) {
                Ok(read) => read > 0,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            }
        }
    }

    #[test]
    fn the_longest_idle_one_makes_room() {
        let mut scene = Scene::new(3);
        assert!((0..3).all(|_| scene.enter(7)));
        // The first one has been busy since, and the second one has not.
        assert!(scene.set_busy(0, true) && scene.set_busy(0, false));
        assert!(scene.enter(7));
        let open = [0, 1, 2, 3].map(|number| scene.is_open(number));
        assert_eq!(open, [true, false, true, true]);
        // What comes of it when its thread notices makes no difference.
        assert!(!scene.set_busy(1, true));
        scene.places.leave(scene.sides[1].0);
        assert!(scene.enter(7));
        let open = [0, 2, 3, 4].map(|number| scene.is_open(number));
        assert_eq!(open, [true, false, true, true]);
    }

    #[test]
    fn nobody_is_ended_in_the_middle_of_something() {
        let mut scene = Scene::new(2);
        assert!(scene.enter(1) && scene.enter(1));
        assert!(scene.set_busy(0, true));
        // Its first bytes have not been read yet.
        scene.sides[1].1.write_all(b"x").expect("it is connected");
        assert!(!scene.enter(1));
        // Another listener has places of its own.
        assert!(scene.enter(2));
        assert!(scene.set_busy(0, false));
        assert!(scene.enter(1));
        let open = [0, 1, 2, 3].map(|number| scene.is_open(number));
        assert_eq!(open, [false, true, true, true]);
    }
}
