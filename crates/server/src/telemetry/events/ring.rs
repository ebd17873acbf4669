//! The ring of events.

use std::collections::VecDeque;
use std::sync::Arc;

use super::kept::{Kept, KeptZone};
use super::shelf::Shelf;
use super::{Found, Noted, Wanted};
use crate::listener::Port;

/// Events that are kept.
pub(super) const EVENTS_MAX: usize = 10_000;

/// Bytes that they may take.
pub(super) const BYTES_MAX: usize = 4 << 20;

/// Bytes of one piece of memory. A longer event has one of its own.
const PIECE_BYTES: usize = 4 << 10;

/// Some events, one behind the other.
#[derive(Debug)]
struct Piece {
    /// The number of the first that was put in.
    first: u64,
    bytes: Vec<u8>,
}

/// Events, the oldest first, one behind the other in pieces of memory.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pieces: VecDeque<Piece>,
    /// Where the oldest begins, in the first of them.
    start: usize,
    len: usize,
    bytes: usize,
    /// The number of the newest. Those before it are numbered one after the other.
    last: u64,
    ports: Shelf<ByAddress>,
    reasons: Shelf<&'static str>,
    /// How many threads wait for the next one. Waking nobody is a system call as well.
    pub(super) waiting: usize,
}

/// A listener, which is the same as another one if it is that one.
#[derive(Debug, Clone)]
struct ByAddress(Arc<Port>);

impl PartialEq for ByAddress {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Ring {
    /// Puts in an event. The oldest make room for it.
    pub(super) fn push(&mut self, noted: &Noted) {
        let port = noted.port.as_ref();
        let port = port.map(|port| self.ports.put(&ByAddress(Arc::clone(port))));
        let kept = Kept {
            at_ms: noted.at_ms,
            kind: noted.kind,
            zone: KeptZone::from(noted.zone.as_ref()),
            peer: noted.peer,
            port,
            reason: self.reasons.put(&noted.reason),
            held_back: noted.held_back,
            client_id: &noted.client_id,
            user: &noted.user,
            text: &noted.text,
        };
        let mut record = Vec::with_capacity(128);
        kept.encode(&mut record);
        match self.pieces.back_mut() {
            Some(Piece { bytes, .. }) if bytes.len() + record.len() <= bytes.capacity() => {
                bytes.extend_from_slice(&record);
            }
            _ => {
                let mut bytes = Vec::with_capacity(PIECE_BYTES.max(record.len()));
                bytes.extend_from_slice(&record);
                let first = self.last + 1;
                self.pieces.push_back(Piece { first, bytes });
            }
        }
        self.bytes += record.len();
        self.len += 1;
        self.last += 1;
        while self.len > EVENTS_MAX || self.bytes > BYTES_MAX {
            self.pop();
        }
    }

    /// Takes out the oldest.
    fn pop(&mut self) {
        let Some(piece) = self.pieces.front() else {
            return;
        };
        let before = piece.bytes.get(self.start..).unwrap_or_default();
        let mut left = before;
        let kept = Kept::decode(&mut left);
        debug_assert!(kept.is_some(), "an event is read as it was written");
        let Some(Kept { port, reason, .. }) = kept else {
            return self.clear();
        };
        let length = before.len() - left.len();
        self.start += length;
        self.bytes -= length;
        self.len -= 1;
        if left.is_empty() {
            self.start = 0;
            self.pieces.pop_front();
        }
        self.reasons.release(reason);
        if let Some(port) = port {
            self.ports.release(port);
        }
    }

    /// Forgets everything but how many events there were.
    fn clear(&mut self) {
        *self = Self {
            last: self.last,
            waiting: self.waiting,
            ..Self::default()
        };
    }

    /// The events behind this number, with theirs, the oldest first. O(pieces) for those before it.
    fn behind(&self, after: u64) -> impl Iterator<Item = (u64, Kept<'_>)> {
        // The last piece that begins before what is wanted has some of it, perhaps.
        let known = self
            .pieces
            .partition_point(|piece| piece.first <= after + 1);
        let skipped = known.saturating_sub(1);
        let pieces = self.pieces.iter().enumerate().skip(skipped);
        let all = pieces.flat_map(move |(place, piece)| {
            let (start, first) = match place {
                0 => (self.start, self.oldest()),
                _ => (0, piece.first),
            };
            let mut left = piece.bytes.get(start..).unwrap_or_default();
            (first..).zip(std::iter::from_fn(move || Kept::decode(&mut left)))
        });
        all.skip_while(move |(seq, _)| *seq <= after)
    }

    /// The number of the oldest.
    const fn oldest(&self) -> u64 {
        self.last + 1 - self.len as u64
    }

    fn noted(&self, seq: u64, kept: Kept<'_>) -> Noted {
        let port = kept.port.and_then(|port| self.ports.get(port));
        Noted {
            seq,
            at_ms: kept.at_ms,
            kind: kept.kind,
            zone: kept.zone.to_owned(),
            client_id: kept.client_id.into(),
            user: kept.user.into(),
            peer: kept.peer,
            port: port.map(|port| Arc::clone(&port.0)),
            reason: self.reasons.get(kept.reason).copied().unwrap_or_default(),
            text: kept.text.into(),
            held_back: kept.held_back,
        }
    }

    /// Events behind a cursor, or the newest. O(events that are looked at + pieces).
    pub(super) fn find(&self, wanted: &Wanted, after: Option<u64>) -> Found {
        // A cursor of an earlier run of the server says nothing.
        let after = after.filter(|after| *after <= self.last);
        let fits = |(_, kept): &(u64, Kept<'_>)| wanted.is(kept);
        let Some(after) = after else {
            let mut newest = VecDeque::new();
            for event in self.behind(0).filter(fits) {
                if newest.len() == wanted.limit {
                    newest.pop_front();
                }
                newest.push_back(event);
            }
            newest.truncate(wanted.limit);
            return Found {
                events: newest
                    .into_iter()
                    .map(|(seq, kept)| self.noted(seq, kept))
                    .collect(),
                cursor: self.last,
                missed: false,
            };
        };
        let next = self.behind(after).filter(fits).take(wanted.limit);
        let events: Vec<Noted> = next.map(|(seq, kept)| self.noted(seq, kept)).collect();
        let newest = events.last().filter(|_| events.len() == wanted.limit);
        Found {
            cursor: newest.map_or(self.last, |noted| noted.seq),
            events,
            missed: after + 1 < self.oldest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use stentor_control::events::Kind;

    use super::*;

    fn noted(text: &str) -> Noted {
        Noted {
            client_id: "a".into(),
            reason: "banned",
            text: text.into(),
            ..Noted::new(Kind::Connected)
        }
    }

    fn len(ring: &Ring) -> (usize, usize) {
        let bytes: usize = ring.pieces.iter().map(|piece| piece.bytes.len()).sum();
        (ring.behind(0).count(), bytes - ring.start)
    }

    #[test]
    fn the_ring_is_bounded_in_number_and_in_bytes() {
        let mut ring = Ring::default();
        for _ in 0..EVENTS_MAX + 5 {
            ring.push(&noted(""));
        }
        assert_eq!(len(&ring), (EVENTS_MAX, ring.bytes));
        assert_eq!(ring.oldest(), 6);
        for _ in 0..EVENTS_MAX {
            ring.push(&noted(&"x".repeat(1_000)));
        }
        assert!(ring.len < EVENTS_MAX && ring.bytes <= BYTES_MAX);
        assert_eq!(len(&ring), (ring.len, ring.bytes));
        // One that is longer than a piece.
        ring.push(&noted(&"y".repeat(100_000)));
        let newest = ring.find(
            &Wanted {
                limit: 1,
                ..Wanted::default()
            },
            None,
        );
        assert_eq!(newest.events[0].text.len(), 100_000);
        assert_eq!(len(&ring), (ring.len, ring.bytes));
    }

    #[test]
    fn a_cursor_finds_its_place_in_any_piece() {
        let mut ring = Ring::default();
        let numbers = |ring: &Ring, after| -> Vec<u64> {
            let behind = ring.behind(after).take(3);
            behind.map(|(seq, _)| seq).collect()
        };
        for last in 1..EVENTS_MAX as u64 + 3_000 {
            ring.push(&noted("text"));
            let oldest = ring.oldest();
            for after in [0, oldest - 1, oldest, (oldest + last) / 2, last - 1, last] {
                let first = oldest.max(after + 1);
                let expected: Vec<u64> = (first..=last).take(3).collect();
                assert_eq!(numbers(&ring, after), expected, "{after} of {last}");
            }
        }
    }

    #[test]
    fn an_event_of_a_usual_connection_takes_some_forty_bytes() {
        let mut ring = Ring::default();
        let usual = Noted {
            client_id: "sensor-attic-000017".into(),
            peer: Some(crate::peer::Peer::V4([10, 0, 3, 17], 51_514)),
            zone: Some(super::super::ZoneOf::Number(stentor_topic::Zone::DEFAULT)),
            at_ms: 1_800_000_000_000,
            ..Noted::new(Kind::Connected)
        };
        ring.push(&usual);
        assert!(ring.bytes <= 48, "{}", ring.bytes);
    }
}
