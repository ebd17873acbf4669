//! What rustls keeps of the bytes that it was given: it does not tell.

/// Bytes of the head of a record; the last two are the length of its body.
const HEAD_BYTES: usize = 5;

/// What the buffer has room for beside what is not whole yet.
const READ_BYTES: usize = 4 * 1024;

/// The longest message of a handshake.
const HANDSHAKE_BYTES_MAX: usize = 0xFFFF;

/// Follows the bytes of a TLS connection, to know how large the buffer for its records is. That
/// has room for a record which has not come whole and for one more read, and stays so large until
/// something is read after a whole record.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The head of the present record, as far as it has come.
    head: [u8; HEAD_BYTES],
    head_len: u8,
    /// Bytes of its body that are still to come.
    missing: u16,
    /// Bytes of it that have come.
    held: u16,
    /// Bytes of the handshake so far: a message of it may lie in several records.
    shaken: u16,
    buffer: u32,
}

impl Records {
    /// The connection was given these bytes, in one read.
    pub(super) fn passed(&mut self, mut bytes: &[u8], is_handshaking: bool) {
        let held = usize::from(self.held.max(self.shaken));
        // 64 KiB and 4 KiB at most.
        let needed = (held + READ_BYTES) as u32;
        self.buffer = match held {
            0 => needed,
            _ => self.buffer.max(needed),
        };
        self.shaken = if is_handshaking {
            let shaken = usize::from(self.shaken) + bytes.len();
            shaken.min(HANDSHAKE_BYTES_MAX) as u16
        } else {
            0
        };
        while !bytes.is_empty() {
            bytes = self.take(bytes);
        }
    }

    /// Takes the next part of a record; returns what is behind it.
    fn take<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let head_len = usize::from(self.head_len);
        let taken = if head_len < HEAD_BYTES {
            let taken = bytes.len().min(HEAD_BYTES - head_len);
            self.head[head_len..head_len + taken].copy_from_slice(&bytes[..taken]);
            self.head_len += taken as u8;
            if usize::from(self.head_len) == HEAD_BYTES {
                let [.., high, low] = self.head;
                self.missing = u16::from_be_bytes([high, low]);
            }
            taken
        } else {
            let taken = bytes.len().min(usize::from(self.missing));
            self.missing -= taken as u16;
            taken
        };
        let is_whole = usize::from(self.head_len) == HEAD_BYTES && self.missing == 0;
        if is_whole {
            (self.head_len, self.held) = (0, 0);
        } else {
            self.held = self.held.saturating_add(taken as u16);
        }
        &bytes[taken..]
    }

    /// Bytes of the buffer.
    pub(super) const fn buffer_bytes(&self) -> usize {
        self.buffer as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: usize) -> Vec<u8> {
        let len = u16::try_from(body).unwrap().to_be_bytes();
        let mut bytes = [&[23, 3, 3][..], &len].concat();
        bytes.resize(HEAD_BYTES + body, 0);
        bytes
    }

    #[test]
    fn the_buffer_grows_with_a_record_that_is_not_whole() {
        for step in [1, 3, 1_000] {
            let mut records = Records::default();
            assert_eq!(records.buffer_bytes(), 0);
            let bytes = [record(0), record(2), record(16_000)].concat();
            let (last, most) = bytes.split_last().unwrap();
            for piece in most.chunks(step) {
                records.passed(piece, false);
            }
            assert_eq!(usize::from(records.held), HEAD_BYTES + 16_000 - 1);
            let large = records.buffer_bytes();
            assert!((16_000..16_000 + READ_BYTES + HEAD_BYTES).contains(&large));
            // It is not made smaller before something else is read.
            records.passed(&[*last], false);
            assert!(records.held == 0 && records.buffer_bytes() >= large);
            records.passed(&record(9), false);
            assert_eq!(records.buffer_bytes(), READ_BYTES);
        }
    }

    #[test]
    fn a_handshake_may_hold_several_records() {
        let mut records = Records::default();
        for _ in 0..10 {
            records.passed(&record(1_000), true);
        }
        assert_eq!(
            records.buffer_bytes(),
            9 * (HEAD_BYTES + 1_000) + READ_BYTES
        );
        records.passed(&record(1), false);
        records.passed(&record(1), false);
        assert_eq!(records.buffer_bytes(), READ_BYTES);
    }
}
