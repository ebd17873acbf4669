//! The addresses of a server, found in time.
//!
//! The system's resolver knows no deadline, and reads what only the system knows (`/etc/hosts`). So
//! it is asked on a thread of its own, which is left behind if it takes too long. There are only so
//! many of those.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use super::left;

/// Names that are looked for at once.
const LOOKING_MAX: usize = 64;

static LOOKING: Places = Places {
    taken: AtomicUsize::new(0),
    max: LOOKING_MAX,
};

/// How many look for a name.
struct Places {
    taken: AtomicUsize,
    max: usize,
}

/// The place of one; dropping it gives it back.
struct Place(&'static Places);

impl Places {
    fn take(&'static self) -> io::Result<Place> {
        let place = Place(self);
        if self.taken.fetch_add(1, Ordering::Relaxed) < self.max {
            return Ok(place);
        }
        Err(io::Error::other(format!(
            "{} names of servers are being looked for and none is found; name servers by their \
             address, or see why the system's name server does not answer",
            self.max
        )))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The addresses of `HOST:PORT`.
///
/// # Errors
/// When there is no such name, or it is not found in time.
pub(super) fn addresses(server: &str, end: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = server.parse() {
        return Ok(vec![address]);
    }
    let server = server.to_owned();
    let look = move || server.to_socket_addrs().map(Iterator::collect);
    within(&LOOKING, end, look)
}

/// What `look` finds until `end`.
fn within<T: Send + 'static>(
    places: &'static Places,
    end: Instant,
    look: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let left = left(end)?;
    let place = places.take()?;
    let (send, receive) = channel();
    thread::Builder::new()
        .name("names".to_owned())
        .spawn(move || {
            let found = look();
            drop(place);
            // Nobody may be waiting any more.
            let _ = send.send(found);
        })?;
    receive.recv_timeout(left).unwrap_or_else(|error| {
        Err(match error {
            RecvTimeoutError::Timeout => io::ErrorKind::TimedOut.into(),
            RecvTimeoutError::Disconnected => io::Error::other("its name cannot be looked for"),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net::is_late;

    #[test]
    fn names_and_addresses_lead_to_addresses() {
        let end = Instant::now() + Duration::from_secs(60);
        let found = addresses("[::1]:25", end).unwrap();
        assert_eq!(found, ["[::1]:25".parse().unwrap()]);
        let found = addresses("localhost:25", end).unwrap();
        assert!(
            found
                .iter()
                .all(|found| found.ip().is_loopback() && found.port() == 25)
        );
        assert!(!found.is_empty());
        assert!(addresses("127.0.0.1", end).is_err(), "there is no port");
    }

    /// A resolver that does not answer keeps nobody beyond the end, and only this many threads.
    #[test]
    fn a_slow_resolver_keeps_nobody() {
        static FEW: Places = Places {
            taken: AtomicUsize::new(0),
            max: 2,
        };
        let soon = || Instant::now() + Duration::from_millis(20);
        let mut hanging = Vec::new();
        for _ in 0..2 {
            let (answer, resolver) = channel::<()>();
            hanging.push(answer);
            let look = move || resolver.recv().map_err(io::Error::other);
            let error = within(&FEW, soon(), look).unwrap_err();
            assert!(is_late(&error), "{error}");
        }
        let error = within(&FEW, soon(), || Ok(())).unwrap_err();
        assert!(error.to_string().contains("2 names"), "{error}");
        hanging.clear();
        let end = Instant::now() + Duration::from_secs(60);
        while within(&FEW, end, || Ok(())).is_err() {
            assert!(Instant::now() < end, "places are given back");
            thread::yield_now();
        }
    }
}
