//! A message that arrives in pieces.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use stentor_procedure::Content;

/// Messages up to this size are kept in memory, larger ones in a file without a name.
const MEMORY_BYTES_MAX: usize = 1 << 20;

/// What has come of a message.
pub(super) enum Body {
    Memory(Vec<u8>),
    File(File),
}

impl Body {
    pub(super) const fn new() -> Self {
        Self::Memory(Vec::new())
    }

    /// Takes the next piece; `folder` is where a large message goes.
    ///
    /// # Errors
    /// When the folder takes no file, or no more of it.
    pub(super) fn add(&mut self, piece: &[u8], folder: &Path) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(piece),
            Self::Memory(bytes) if bytes.len() + piece.len() <= MEMORY_BYTES_MAX => {
                bytes.extend_from_slice(piece);
                Ok(())
            }
            Self::Memory(bytes) => {
                let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
                let file = nix::fcntl::open(folder, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
                let mut file = File::from(file);
                file.write_all(bytes)?;
                file.write_all(piece)?;
                *self = Self::File(file);
                Ok(())
            }
        }
    }

    /// All of it.
    pub(super) fn content(self) -> Content {
        match self {
            Self::Memory(bytes) => Content::Bytes(bytes),
            Self::File(file) => Content::File(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stentor_procedure::{Format, Message};

    #[test]
    fn what_is_large_goes_to_a_file_and_comes_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        for pieces in [1, 20] {
            let mut body = Body::new();
            let piece = vec![b'x'; 100_000];
            for _ in 0..pieces {
                body.add(&piece, folder.path()).unwrap();
            }
            assert_eq!(matches!(body, Body::File(_)), pieces > 10);
            let (message, _) = Message::new(body.content(), 0, Format::Message).unwrap();
            assert_eq!(message.read().unwrap(), piece.repeat(pieces));
        }
    }
}
