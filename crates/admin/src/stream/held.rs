//! What event streams hold, in bytes, for the sum of what the server holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Bytes;

/// The bytes that event streams hold: messages and events on their way to clients.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<AtomicU64>);

impl Held {
    /// How many there are now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts some bytes until that is dropped.
    pub(super) fn charge(&self, bytes: usize) -> Charge {
        let mut charge = Charge {
            held: self.clone(),
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
    held: Held,
    bytes: u64,
}

impl Charge {
    /// Counts this number from now on.
    pub(super) fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        let sum = &self.held.0;
        match bytes >= self.bytes {
            true => sum.fetch_add(bytes - self.bytes, Ordering::Relaxed),
            false => sum.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        };
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
        let mut charge = held.charge(5);
        let mut text = Vec::with_capacity(100);
        text.extend_from_slice(b"ab");
        let mut piece = held.piece(text);
        assert_eq!(held.bytes(), 105);
        charge.set(2);
        let rest = piece.split_off(1);
        drop(piece);
        assert_eq!(held.bytes(), 102);
        drop(rest);
        drop(charge);
        assert_eq!(held.bytes(), 0);
    }
}
