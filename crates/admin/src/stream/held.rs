//! What event streams hold, in bytes: for the sum of what the server holds, and so that it stays
//! below a bound.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::watch;

/// What a stream may hold in any case: pieces on their way, and what one read takes.
const FREE_BYTES: u64 = 128 * 1024;

/// Of a stream that does not wait.
const NEVER: u64 = u64::MAX;

/// For how long a stream waits for others to be read before one of them ends, and for how long that
/// one has waited for its client at least.
const PATIENCE: Duration = Duration::from_secs(1);

/// For how long it waits before one ends whose client reads, but slowly.
const PATIENCE_MAX: Duration = Duration::from_secs(10);

/// How often a stream that waits for others looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The bytes that event streams hold: messages and events on their way to clients.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<Sum>);

#[derive(Debug)]
struct Sum {
    bytes: AtomicU64,
    /// How many there may be.
    bytes_max: AtomicU64,
    streams: Mutex<Vec<Arc<Stream>>>,
    begun: Instant,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(u64::MAX),
            streams: Mutex::default(),
            begun: Instant::now(),
        }
    }
}

/// What one stream holds.
#[derive(Debug)]
struct Stream {
    bytes: AtomicU64,
    /// Since when it waits for its client, in microseconds; [`NEVER`] if it does not.
    waits_since: AtomicU64,
    /// Since when it waits for others to be read.
    wants_since: AtomicU64,
    /// Whether it has to end, because there is too much.
    must_end: watch::Sender<bool>,
}

impl Held {
    /// How many there are now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// How many there may be from now on, beside 128 KiB of each stream. A stream with a long
    /// message waits for room. If there is none for a second, the stream ends that has waited for
    /// its client for longest.
    pub fn set_bytes_max(&self, bytes: u64) {
        self.0.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Counts for another stream, until that is dropped.
    pub(super) fn stream(&self) -> StreamHeld {
        let stream = Arc::new(Stream {
            bytes: AtomicU64::new(0),
            waits_since: AtomicU64::new(NEVER),
            wants_since: AtomicU64::new(NEVER),
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

    fn now(&self) -> u64 {
        self.0.begun.elapsed().as_micros() as u64
    }

    /// Lets streams end that have waited for their clients since then, until there is room for a
    /// number of bytes more.
    fn make_room(&self, more: u64, since: u64) {
        let most = self.0.bytes_max.load(Ordering::Relaxed);
        let streams = self.streams();
        let bytes = |stream: &Stream| stream.bytes.load(Ordering::Relaxed);
        let waits_since = |stream: &Stream| stream.waits_since.load(Ordering::Relaxed);
        let (ending, left): (Vec<_>, Vec<_>) = streams.iter().partition(|it| *it.must_end.borrow());
        // What these hold goes as soon as their tasks run.
        let freed: u64 = ending.into_iter().map(|stream| bytes(stream)).sum();
        let mut sum = self.bytes().saturating_sub(freed).saturating_add(more);
        let is_late = |it: &Stream| waits_since(it) <= since && bytes(it) > FREE_BYTES;
        let mut late: Vec<_> = left.into_iter().filter(|it| is_late(it)).collect();
        late.sort_by_key(|it| (waits_since(it), Reverse(bytes(it))));
        for stream in late {
            if sum <= most {
                break;
            }
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
    /// The stream waits for its client from now on, or does not any more.
    pub(super) fn waits(&self, is_so: bool) {
        let since = match is_so {
            true => self.place.held.now(),
            false => NEVER,
        };
        self.place
            .stream
            .waits_since
            .store(since, Ordering::Relaxed);
    }

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

    /// Waits until there is room for a number of bytes more of this stream, but not for longer than
    /// it takes to let others end that are not read. It may be given up at any time, and begun
    /// again.
    pub(super) async fn room_for(&self, bytes: usize) {
        while !self.has_room_for(bytes as u64) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn has_room_for(&self, more: u64) -> bool {
        let (held, stream) = (&self.place.held, &self.place.stream);
        let most = held.0.bytes_max.load(Ordering::Relaxed);
        let is_small = stream.bytes.load(Ordering::Relaxed) + more <= FREE_BYTES;
        if is_small || held.bytes().saturating_add(more) <= most || self.is_alone() {
            stream.wants_since.store(NEVER, Ordering::Relaxed);
            return true;
        }
        let now = held.now();
        let since = stream
            .wants_since
            .fetch_min(now, Ordering::Relaxed)
            .min(now);
        let before = |time: Duration| now.saturating_sub(time.as_micros() as u64);
        if since <= before(PATIENCE_MAX) && now >= PATIENCE_MAX.as_micros() as u64 {
            held.make_room(more, NEVER);
        } else if since <= before(PATIENCE) {
            held.make_room(more, before(PATIENCE));
        }
        false
    }

    /// Whether no other stream holds much: then it is not a matter of room.
    fn is_alone(&self) -> bool {
        let streams = self.place.held.streams();
        let is_large = |it: &Stream| it.bytes.load(Ordering::Relaxed) > FREE_BYTES;
        let mut others = streams
            .iter()
            .filter(|it| !Arc::ptr_eq(it, &self.place.stream));
        !others.any(|it| is_large(it))
    }

    /// Counts a long text that is there already: others end for it at once, if that is needed.
    pub(super) fn charge_text(&self, bytes: usize) -> Charge {
        let charge = self.charge(bytes);
        self.place.held.make_room(0, NEVER);
        charge
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

    const KIB: usize = 1024;

    fn has_to_end(stream: &StreamHeld) -> bool {
        *stream.place.stream.must_end.borrow()
    }

    #[test]
    fn those_that_wait_for_longest_end_until_the_rest_is_little_enough() {
        let held = Held::default();
        held.set_bytes_max(1_000 * KIB as u64);
        // Kibibytes, and since when it waits.
        let sizes = [(100, 1), (400, 3), (128, 2), (300, 4), (72, NEVER)];
        let streams = sizes.map(|(kibibytes, since)| {
            let stream = held.stream();
            let waits = &stream.place.stream.waits_since;
            waits.store(since, Ordering::Relaxed);
            let charge = stream.charge(kibibytes * KIB);
            (stream, charge)
        });
        let ended = || streams.each_ref().map(|(stream, _)| has_to_end(stream));
        held.make_room(0, NEVER);
        assert_eq!(ended(), [false; 5], "there is as much as there may be");
        // Those that hold little stay, and so do those that are read.
        held.make_room(500 * KIB as u64, 3);
        assert_eq!(ended(), [false, true, false, false, false]);
        // What is ending does not count.
        held.make_room(400 * KIB as u64, 4);
        assert_eq!(ended(), [false, true, false, false, false]);
        held.make_room(500 * KIB as u64, 4);
        assert_eq!(ended(), [false, true, false, true, false]);
        drop(streams);
        assert_eq!((held.bytes(), held.streams().len()), (0, 0));
    }

    /// A stream waits while others are read, and does not end them for that.
    #[test]
    fn a_long_message_waits_for_room() {
        let held = Held::default();
        held.set_bytes_max(1_000 * KIB as u64);
        let [first, second] = [held.stream(), held.stream()];
        assert!(first.has_room_for(2_000 * KIB as u64), "it is alone");
        let mut charge = first.charge(900 * KIB);
        assert!(second.has_room_for(100 * KIB as u64));
        assert!(!second.has_room_for(200 * KIB as u64));
        second.place.stream.wants_since.store(0, Ordering::Relaxed);
        assert!(!second.has_room_for(200 * KIB as u64));
        assert!(!has_to_end(&first), "its client reads");
        charge.set(800 * KIB);
        assert!(second.has_room_for(200 * KIB as u64));
        let since = second.place.stream.wants_since.load(Ordering::Relaxed);
        assert_eq!(since, NEVER, "it does not wait any more");
    }
}
