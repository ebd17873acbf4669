//! The bytes that a connection has sent and that were not applied yet.

use zeroize::Zeroize;

/// The beginning of an unfinished packet, what came after CONNECT before that was answered, or
/// whole packets whose time has not come. A tail without bytes takes no memory beside itself:
/// most connections have one most of the time.
#[derive(Default)]
pub(super) struct Tail(Option<Box<Bytes>>);

#[derive(Default)]
struct Bytes {
    bytes: Vec<u8>,
    /// This many have been applied.
    applied: usize,
}

impl Tail {
    /// What was not applied.
    pub(super) fn unread(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], |tail| {
            tail.bytes.get(tail.applied..).unwrap_or_default()
        })
    }

    /// Whether everything was applied.
    pub(super) const fn is_empty(&self) -> bool {
        // One that has nothing left is given free.
        self.0.is_none()
    }

    /// Appends what has come.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let tail = self.0.get_or_insert_default();
            tail.bytes.extend_from_slice(bytes);
        }
    }

    /// Keeps these bytes, and nothing else.
    pub(super) fn replace(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return self.clear();
        }
        let tail = self.0.get_or_insert_default();
        tail.bytes.clear();
        tail.bytes.extend_from_slice(bytes);
        tail.applied = 0;
    }

    /// This many more bytes have been applied. The rest is moved when it is the smaller part only:
    /// however many steps it takes, no byte is moved more than once on average.
    pub(super) fn has_applied(&mut self, bytes: usize) {
        let Some(tail) = &mut self.0 else {
            return;
        };
        tail.applied += bytes;
        if tail.applied >= tail.bytes.len() {
            self.clear();
        } else if tail.applied > tail.bytes.len() / 2 {
            tail.bytes.drain(..tail.applied);
            tail.applied = 0;
        }
    }

    /// This many more bytes have been applied, and may have held a password: they are overwritten.
    pub(super) fn wipe(&mut self, bytes: usize) {
        if let Some(tail) = &mut self.0 {
            let end = (tail.applied + bytes).min(tail.bytes.len());
            tail.bytes[tail.applied..end].zeroize();
        }
        self.has_applied(bytes);
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// Bytes of memory that it takes. O(1).
    pub(super) fn heap_bytes(&self) -> usize {
        let tail = self.0.as_deref();
        tail.map_or(0, |tail| size_of::<Bytes>() + tail.bytes.capacity())
    }
}

impl From<Vec<u8>> for Tail {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() {
            return Self::default();
        }
        Self(Some(Box::new(Bytes { bytes, applied: 0 })))
    }
}

impl From<Tail> for Vec<u8> {
    fn from(tail: Tail) -> Self {
        tail.0.map_or_else(Self::new, |mut tail| {
            tail.bytes.drain(..tail.applied);
            tail.bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_applied_is_gone_and_the_rest_is_kept() {
        let mut tail = Tail::default();
        assert!(tail.is_empty() && tail.heap_bytes() == 0);
        tail.extend(b"abcdef");
        tail.has_applied(2);
        assert_eq!(tail.unread(), b"cdef");
        tail.extend(b"gh");
        tail.has_applied(3);
        assert_eq!(tail.unread(), b"fgh");
        tail.replace(b"xy");
        tail.wipe(1);
        assert_eq!(tail.unread(), b"y");
        assert_eq!(Vec::from(tail), b"y");
        let mut tail = Tail::from(b"z".to_vec());
        tail.has_applied(1);
        assert!(tail.is_empty() && tail.unread().is_empty());
        assert!(Tail::from(Vec::new()).is_empty());
    }
}
