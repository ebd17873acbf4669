//! What the system says of this process in `/proc/self/status`.
//!
//! Two threads ask once a second, for as long as the server runs. The file stays open and is read
//! in one call, which takes a fifth of the time that `read_to_string` needs.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// The file. It stays the one of this process wherever it is read.
const PATH: &str = "/proc/self/status";

/// The bytes that one call reads. A longer file, of a user in hundreds of groups, is read as other
/// files are.
const ROOM: usize = 4_096;

static FILE: OnceLock<Option<File>> = OnceLock::new();

/// Figures of the process; `None` where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnStatus {
    /// Addresses in use, in bytes.
    pub(crate) virtual_bytes: Option<u64>,
    /// Resident memory with files that are mapped, in bytes.
    pub(crate) resident_bytes: Option<u64>,
    /// Resident memory without files, in bytes: heap and stacks.
    pub(crate) anonymous_bytes: Option<u64>,
    /// Threads.
    pub(crate) threads: Option<u64>,
}

impl OwnStatus {
    /// Asks the system. Takes about 20 µs.
    pub(crate) fn read() -> Self {
        let file = FILE.get_or_init(|| File::open(PATH).ok());
        let mut room = [0; ROOM];
        let length = file.as_ref().and_then(|it| it.read_at(&mut room, 0).ok());
        match length {
            Some(length) if length < ROOM => Self::parse(&room[..length]),
            _ => Self::parse(&fs::read(PATH).unwrap_or_default()),
        }
    }

    fn parse(text: &[u8]) -> Self {
        let mut status = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            if let Some((key, value)) = std::str::from_utf8(line)
                .ok()
                .and_then(|line| line.split_once(':'))
            {
                match key {
                    "VmSize" => status.virtual_bytes = bytes(value),
                    "VmRSS" => status.resident_bytes = bytes(value),
                    "RssAnon" => status.anonymous_bytes = bytes(value),
                    "Threads" => status.threads = value.trim().parse().ok(),
                    _ => {}
                }
            }
        }
        status
    }
}

/// A size as the system writes it.
fn bytes(value: &str) -> Option<u64> {
    let kibibytes: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    kibibytes.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_parsed() {
        let text = b"Name:\t\xFF\xFE\nVmSize:\t   40 kB\nVmRSS:\t  12 kB\nRssAnon:\t   3 kB\n\
                     RssFile:\t 9 kB\nThreads:\t7\n";
        let status = OwnStatus::parse(text);
        let is = OwnStatus {
            virtual_bytes: Some(40 << 10),
            resident_bytes: Some(12 << 10),
            anonymous_bytes: Some(3 << 10),
            threads: Some(7),
        };
        assert_eq!(status, is);
    }

    #[test]
    fn what_cannot_be_understood_is_unknown() {
        for text in [
            "",
            "RssAnon",
            "RssAnon:\t12 MB",
            "RssAnon:\t-1 kB",
            "RssAnon:\t18446744073709551615 kB",
        ] {
            assert_eq!(OwnStatus::parse(text.as_bytes()), OwnStatus::default());
        }
    }

    /// Other tests of this process take memory and give it back: only what this one holds is sure.
    #[test]
    fn this_process_has_a_status_that_counts_what_it_holds() {
        let held = vec![1_u8; 64 << 20];
        let status = OwnStatus::read();
        assert!(status.anonymous_bytes >= Some(64 << 20));
        std::hint::black_box(held);
        assert!(status.virtual_bytes > status.resident_bytes);
        assert!(status.threads > Some(0));
    }
}
