//! What event streams hold, in bytes: for the sum of what the server holds, and so that it stays
//! below a bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use tokio::sync::watch;

/// What a stream may hold in any case: pieces on their way, and what one read takes.
const FREE_BYTES: u64 = 128 * 1024;

/// The bytes that event streams hold: messages and events on their way to clients.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<Sum>);

#[derive(Debug)]
struct Sum {
    bytes: AtomicU64,
    /// How many there may be.
    bytes_max: AtomicU64,
    streams: Mutex<Vec<Arc<Stream>>>,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(u64::MAX),
            streams: Mutex::default(),
        }
    }
}

/// What one stream holds.
#[derive(Debug)]
struct Stream {
    bytes: AtomicU64,
    /// Whether it has to end, because it holds most of what is too much.
    must_end: watch::Sender<bool>,
}

impl Held {
    /// How many there are now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// How many there may be from now on. While there are more, the stream that holds most ends,
    /// unless it holds no more than 128 KiB.
    pub fn set_bytes_max(&self, bytes: u64) {
        self.0.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Counts for another stream, until that is dropped.
    pub(super) fn stream(&self) -> StreamHeld {
        let stream = Arc::new(Stream {
            bytes: AtomicU64::new(0),
            must_end: watch::Sender::new(false),
        });
        self.streams().push(Arc::clone(&stream));
        StreamHeld {
            place: Arc::new(Place {
                held: self.clone(),
                stream,
            }),
        }
    }

    /// While there is too much, lets the streams end that hold most.
    fn bound(&self) {
        let most = self.0.bytes_max.load(Ordering::Relaxed);
        if self.bytes() <= most {
            return;
        }
        let streams = self.streams();
        let bytes = |stream: &Stream| stream.bytes.load(Ordering::Relaxed);
        let (ending, mut left): (Vec<_>, Vec<_>) =
            streams.iter().partition(|it| *it.must_end.borrow());
        // What these hold goes as soon as their tasks run.
        let freed: u64 = ending.into_iter().map(|stream| bytes(stream)).sum();
        let mut sum = self.bytes().saturating_sub(freed);
        left.sort_by_key(|stream| bytes(stream));
        while sum > most
            && let Some(stream) = left.pop()
            && bytes(stream) > FREE_BYTES
        {
            sum = sum.saturating_sub(bytes(stream));
            stream.must_end.send_replace(true);
        }
    }

    /// The list is changed in one step.
    fn streams(&self) -> MutexGuard<'_, Vec<Arc<Stream>>> {
        self.0
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The account of one stream.
#[derive(Clone, Debug)]
pub(super) struct StreamHeld {
    place: Arc<Place>,
}

/// A stream among all that are counted.
#[derive(Debug)]
struct Place {
    held: Held,
    stream: Arc<Stream>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut streams = self.held.streams();
        streams.retain(|stream| !Arc::ptr_eq(stream, &self.stream));
    }
}

impl StreamHeld {
    /// Waits until the stream has to end: see [`Held::set_bytes_max`].
    pub(super) fn has_to_end(&self) -> impl Future<Output = ()> + use<> {
        let mut told = self.place.stream.must_end.subscribe();
        // The sender is in `self`.
        let place = Arc::clone(&self.place);
        async move {
            let _ = told.wait_for(|must_end| *must_end).await;
            drop(place);
        }
    }

    /// Counts some bytes until that is dropped.
    pub(super) fn charge(&self, bytes: usize) -> Charge {
        let mut charge = Charge {
            of: self.clone(),
            bytes: 0,
        };
        charge.set(bytes);
        charge
    }

    /// Bytes that count until hyper has written them.
    pub(super) fn piece(&self, bytes: Vec<u8>) -> Bytes {
        let charge = self.charge(bytes.capacity());
        Bytes::from_owner(Piece {
            bytes,
            _charge: charge,
        })
    }
}

/// Bytes that count.
#[derive(Debug)]
pub(super) struct Charge {
    of: StreamHeld,
    bytes: u64,
}

impl Charge {
    /// Counts this number from now on.
    pub(super) fn set(&mut self, bytes: usize) {
        let (before, bytes) = (self.bytes, bytes as u64);
        let place = &self.of.place;
        for count in [&place.held.0.bytes, &place.stream.bytes] {
            match bytes >= before {
                true => count.fetch_add(bytes - before, Ordering::Relaxed),
                false => count.fetch_sub(before - bytes, Ordering::Relaxed),
            };
        }
        self.bytes = bytes;
        if bytes > before {
            place.held.bound();
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Bytes with their charge.
struct Piece {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_counts_until_its_last_part_has_gone() {
        let held = Held::default();
        let stream = held.stream();
        let mut charge = stream.charge(5);
        let mut text = Vec::with_capacity(100);
        text.extend_from_slice(b"ab");
        let mut piece = stream.piece(text);
        assert_eq!(held.bytes(), 105);
        charge.set(2);
        let rest = piece.split_off(1);
        drop(piece);
        assert_eq!(held.bytes(), 102);
        drop(rest);
        drop(charge);
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn those_that_hold_most_end_until_the_rest_is_little_enough() {
        const KIB: usize = 1024;
        let held = Held::default();
        held.set_bytes_max(1_000 * KIB as u64);
        let sizes = [100, 400, 128, 300];
        let streams = sizes.map(|kibibytes| {
            let stream = held.stream();
            let charge = stream.charge(kibibytes * KIB);
            (stream, charge)
        });
        let has_to_end = |stream: &StreamHeld| *stream.place.stream.must_end.borrow();
        let ended = || streams.each_ref().map(|(stream, _)| has_to_end(stream));
        assert_eq!(ended(), [false; 4]);
        // One more has too much: the largest goes, and that is enough.
        let late = held.stream();
        let mut charge = late.charge(100 * KIB);
        assert_eq!(ended(), [false, true, false, false]);
        charge.set(500 * KIB);
        assert!(has_to_end(&late), "now it has most itself");
        assert_eq!(ended(), [false, true, false, false]);
        // What is ending does not count: those that are left have enough room.
        charge.set(600 * KIB);
        assert_eq!(ended(), [false, true, false, false]);
        held.set_bytes_max(0);
        charge.set(601 * KIB);
        assert_eq!(ended(), [false, true, false, true], "little is always free");
        drop((charge, late, streams));
        assert_eq!((held.bytes(), held.streams().len()), (0, 0));
    }
}
