//! A `.tar.gz` of small texts.
//!
//! The files are kept whole (deflate's stored blocks): a bundle is small, and any program that
//! knows gzip and tar reads it.

use std::io::{self, Write};

/// Bytes of a block of tar, of which headers and contents are multiples.
const BLOCK: usize = 512;

/// The most that a stored block of deflate has.
const STORED_MAX: usize = 65_535;

/// The header of gzip: deflate, no name, no time, made on Unix.
const GZIP: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3];

/// An archive that is being made.
#[derive(Debug, Default)]
pub(super) struct Archive {
    tar: Vec<u8>,
}

impl Archive {
    /// Adds a file that only its owner may read. Its name has up to 100 bytes; `time` is in seconds
    /// since 1970.
    pub(super) fn add(&mut self, name: &str, content: &[u8], time: u64) {
        self.tar
            .extend_from_slice(&header(name, content.len(), time));
        self.tar.extend_from_slice(content);
        let padding = content.len().next_multiple_of(BLOCK) - content.len();
        self.tar.resize(self.tar.len() + padding, 0);
    }

    /// Writes it; how many bytes it has.
    ///
    /// # Errors
    /// When that fails.
    pub(super) fn write(mut self, mut out: impl Write) -> io::Result<u64> {
        // Two empty blocks are the end of an archive.
        self.tar.resize(self.tar.len() + 2 * BLOCK, 0);
        out.write_all(&GZIP)?;
        let mut pieces = self.tar.chunks(STORED_MAX).peekable();
        let mut written = GZIP.len();
        while let Some(piece) = pieces.next() {
            let is_last = u8::from(pieces.peek().is_none());
            // At most `STORED_MAX`.
            let len = piece.len() as u16;
            out.write_all(&[is_last])?;
            out.write_all(&len.to_le_bytes())?;
            out.write_all(&(!len).to_le_bytes())?;
            out.write_all(piece)?;
            written += 5 + piece.len();
        }
        out.write_all(&crc32fast::hash(&self.tar).to_le_bytes())?;
        // The length modulo 2^32, as gzip has it.
        out.write_all(&(self.tar.len() as u32).to_le_bytes())?;
        out.flush()?;
        Ok(written as u64 + 8)
    }
}

/// The header of a file, as POSIX has it since 1988.
fn header(name: &str, len: usize, time: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &str| {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    debug_assert!(name.len() <= 100, "{name}");
    put(0, name);
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{len:011o}\0"));
    put(136, &format!("{time:011o}\0"));
    // The sum counts itself as blanks.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let sum = format!("{sum:06o}\0 ");
    header[148..156].copy_from_slice(sum.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs of others are asked in `tests/operations`.
    #[test]
    fn what_is_stored_has_its_lengths_and_sums() {
        let mut archive = Archive::default();
        let large = vec![b'x'; 2 * STORED_MAX];
        archive.add("d/a.txt", b"hello\n", 1);
        archive.add("d/b.txt", &large, 2);
        let tar_len = archive.tar.len() + 2 * BLOCK;
        assert_eq!(archive.tar.len() % BLOCK, 0);
        assert_eq!(&archive.tar[124..135], b"00000000006");
        let mut out = Vec::new();
        let written = archive.write(&mut out).unwrap();
        assert_eq!(written, out.len() as u64);
        assert_eq!(out[..10], GZIP);
        assert_eq!(out[10], 0, "more blocks follow");
        let pieces = tar_len.div_ceil(STORED_MAX);
        assert_eq!(out.len(), 10 + 5 * pieces + tar_len + 8);
        let len = u32::from_le_bytes(out[out.len() - 4..].try_into().unwrap());
        assert_eq!(len as usize, tar_len);
    }
}
