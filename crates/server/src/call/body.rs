//! Messages that arrive in pieces, and the room that all of them have together.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use stentor_call_protocol::Status;
use stentor_hub::{Holding, Ledger};
use stentor_procedure::{Caller, Content};

/// Messages up to this size are kept in memory while there is room, and all others in files without
/// a name.
const MEMORY_BYTES_MAX: usize = 1 << 20;

/// Which part of `limits.memory` those in memory may take.
const MEMORY_PART: u64 = 8;

/// Where messages are kept until they are answered, and how many bytes of them. Callers whom nobody
/// knows have half of it, so that they keep nobody else's out.
pub(super) struct Bodies {
    folder: PathBuf,
    max: u64,
    ledger: Arc<Ledger>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: u64,
    of_strangers: u64,
    /// What the lists of those in memory take.
    in_memory: u64,
}

impl Bodies {
    /// Room for this many bytes; large messages go into the folder. What is in memory counts in the
    /// ledger.
    pub(super) fn new(folder: PathBuf, max: u64, ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self {
            folder,
            max,
            ledger,
            held: Mutex::default(),
        })
    }

    /// A message of this caller, of which nothing has come.
    pub(super) fn begin(self: &Arc<Self>, caller: &Caller) -> Body {
        Body {
            kept: Kept::Memory(Vec::new()),
            len: 0,
            share: Share {
                bodies: Arc::clone(self),
                bytes: 0,
                in_memory: 0,
                is_strangers: matches!(caller, Caller::Anonymous(_)),
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a message has of the room, until this is dropped.
pub(super) struct Share {
    bodies: Arc<Bodies>,
    bytes: u64,
    in_memory: u64,
    is_strangers: bool,
}

impl Share {
    /// Takes this many bytes of memory instead of those that it has; whether there was room.
    fn hold(&mut self, bytes: usize) -> bool {
        let (bytes, ledger) = (bytes as u64, &self.bodies.ledger);
        let mut held = self.bodies.lock();
        let in_memory = held.in_memory - self.in_memory + bytes;
        if bytes > self.in_memory && in_memory > ledger.budget() / MEMORY_PART {
            return false;
        }
        held.in_memory = in_memory;
        ledger.write_common(Holding::Procedures, in_memory);
        self.in_memory = bytes;
        true
    }

    /// Takes what is missing to this many bytes; whether there was room.
    fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let max = self.bodies.max;
        let mut held = self.bodies.lock();
        let all = held.all.saturating_add(more);
        let of_strangers = held.of_strangers.saturating_add(more);
        if all > max || (self.is_strangers && of_strangers > max / 2) {
            return false;
        }
        held.all = all;
        if self.is_strangers {
            held.of_strangers = of_strangers;
        }
        self.bytes += more;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(0);
        let mut held = self.bodies.lock();
        held.all -= self.bytes;
        if self.is_strangers {
            held.of_strangers -= self.bytes;
        }
    }
}

/// Why a message is not kept.
#[derive(Debug)]
pub(super) enum Unkept {
    /// Others have the room.
    Full,
    /// The folder takes no file, or no more of it.
    Folder(io::Error),
}

impl Unkept {
    /// What becomes of the call, and what is said about it.
    pub(super) fn why(&self) -> (Status, String) {
        match self {
            Self::Full => {
                let reason = "too many messages are held at once (procedures.bodies)";
                (Status::Overloaded, reason.to_owned())
            }
            Self::Folder(error) => {
                let reason = format!("the message cannot be kept in the data folder: {error}");
                (Status::Failed, reason)
            }
        }
    }
}

impl From<io::Error> for Unkept {
    fn from(error: io::Error) -> Self {
        Self::Folder(error)
    }
}

/// Makes room in memory for more of a message; whether there is any.
fn has_room(share: &mut Share, bytes: &mut Vec<u8>, more: usize) -> bool {
    let len = bytes.len() + more;
    if len > MEMORY_BYTES_MAX {
        return false;
    }
    if len > bytes.capacity() {
        let capacity = len.next_power_of_two();
        if !share.hold(capacity) {
            return false;
        }
        bytes.reserve_exact(capacity - bytes.len());
    }
    true
}

/// What has come of a message.
pub(super) struct Body {
    kept: Kept,
    len: u64,
    share: Share,
}

enum Kept {
    Memory(Vec<u8>),
    File(File),
}

impl Body {
    /// Takes room for all of it, where its size is known.
    ///
    /// # Errors
    /// When others have the room.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<(), Unkept> {
        if self.share.grow_to(bytes) {
            Ok(())
        } else {
            Err(Unkept::Full)
        }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// When others have the room, or the folder takes no more.
    pub(super) fn add(&mut self, piece: &[u8]) -> Result<(), Unkept> {
        self.len += piece.len() as u64;
        self.reserve(self.len)?;
        match &mut self.kept {
            Kept::File(file) => file.write_all(piece)?,
            Kept::Memory(bytes) => {
                if has_room(&mut self.share, bytes, piece.len()) {
                    bytes.extend_from_slice(piece);
                    return Ok(());
                }
                let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
                let mode = Mode::S_IRUSR | Mode::S_IWUSR;
                let file = nix::fcntl::open(&self.share.bodies.folder, flags, mode);
                let mut file = File::from(file.map_err(io::Error::from)?);
                file.write_all(bytes)?;
                file.write_all(piece)?;
                self.kept = Kept::File(file);
                self.share.hold(0);
            }
        }
        Ok(())
    }

    /// How much has come.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// All of it, with the room that it takes for as long as anybody has it.
    pub(super) fn content(self) -> (Content, Share) {
        let content = match self.kept {
            Kept::Memory(bytes) => Content::Bytes(bytes),
            Kept::File(file) => Content::File(file),
        };
        (content, self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stentor_procedure::{Format, Message};

    fn ledger() -> Arc<Ledger> {
        Arc::new(Ledger::new(1))
    }

    /// Those in memory take an eighth of what may be held, and the others go into files.
    #[test]
    fn messages_in_memory_have_a_share_of_it() {
        const KIB: usize = 1024;
        let folder = tempfile::tempdir().unwrap();
        let ledger = ledger();
        ledger.set_budget(8 * 64 * KIB as u64);
        let bodies = Bodies::new(folder.path().to_owned(), 1 << 30, Arc::clone(&ledger));
        let held = || ledger.of(Holding::Procedures);
        let mut first = bodies.begin(&stranger());
        first.add(&[1; 20 * KIB]).unwrap();
        assert_eq!(held(), 32 * KIB as u64);
        let mut second = bodies.begin(&stranger());
        second.add(&[2; 32 * KIB]).unwrap();
        assert_eq!(held(), 64 * KIB as u64);
        // One that grows gives up its place.
        first.add(&[1; 20 * KIB]).unwrap();
        assert!(matches!(first.kept, Kept::File(_)));
        assert_eq!((first.len(), held()), (40 * KIB as u64, 32 * KIB as u64));
        let mut third = bodies.begin(&stranger());
        third.add(&[3; 33 * KIB]).unwrap();
        assert!(matches!(third.kept, Kept::File(_)));
        let (content, share) = second.content();
        assert!(matches!(&content, Content::Bytes(bytes) if bytes.len() == 32 * KIB));
        assert_eq!(held(), 32 * KIB as u64, "it is there until its answer");
        drop(share);
        assert_eq!(held(), 0);
    }

    fn stranger() -> Caller {
        Caller::Anonymous("192.0.2.1".to_owned())
    }

    #[test]
    fn what_is_large_goes_to_a_file_and_comes_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = Bodies::new(folder.path().to_owned(), 1 << 30, ledger());
        for pieces in [1, 20] {
            let mut body = bodies.begin(&stranger());
            let piece = vec![b'x'; 100_000];
            for _ in 0..pieces {
                body.add(&piece).unwrap();
            }
            assert_eq!(body.len(), 100_000 * pieces as u64);
            assert_eq!(matches!(body.kept, Kept::File(_)), pieces > 10);
            let (content, _share) = body.content();
            let (message, _) = Message::new(content, 0, Format::Message).unwrap();
            assert_eq!(message.read().unwrap(), piece.repeat(pieces));
        }
    }

    #[test]
    fn strangers_have_half_of_the_room() {
        let bodies = Bodies::new(PathBuf::new(), 100, ledger());
        let known = Caller::User {
            zone: "default".to_owned(),
            name: "a".to_owned(),
        };
        let mut first = bodies.begin(&stranger());
        first.reserve(40).unwrap();
        // What is counted already is not counted again.
        first.add(&[0; 40]).unwrap();
        first.add(&[0; 10]).unwrap();
        let mut second = bodies.begin(&stranger());
        let (status, reason) = second.add(&[0]).unwrap_err().why();
        assert_eq!(status, Status::Overloaded, "{reason}");
        let mut own = bodies.begin(&known);
        own.reserve(50).unwrap();
        assert!(own.reserve(51).is_err());
        let (_, share) = first.content();
        assert!(own.reserve(51).is_err(), "somebody has it still");
        drop(share);
        own.reserve(51).unwrap();
        bodies.begin(&stranger()).reserve(50).unwrap_err();
        bodies.begin(&stranger()).reserve(49).unwrap();
        drop((second, own));
        let held = bodies.lock();
        assert_eq!((held.all, held.of_strangers), (0, 0));
    }

    #[test]
    fn a_folder_that_takes_nothing_fails_the_message() {
        let bodies = Bodies::new(PathBuf::from("/nonexistent"), 1 << 30, ledger());
        let mut body = bodies.begin(&stranger());
        let (status, reason) = body.add(&vec![0; 2 << 20]).unwrap_err().why();
        assert_eq!(status, Status::Failed);
        assert!(reason.contains("data folder"), "{reason}");
    }
}
