//! Files that commands read, with a bound: a device or a pipe may never end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// All bytes of a file; an error if there are more than `bytes_max`.
///
/// # Errors
/// When it cannot be read, or is larger than that.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_all(File::open(path)?, bytes_max)
}

/// All bytes up to the end; an error if there are more than `bytes_max`.
///
/// # Errors
/// When they cannot be read, or are more than that.
pub(crate) fn read_all(source: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::Error::other(format!(
            "it has more than {}",
            size(bytes_max)
        ))),
        false => Ok(bytes),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// The text of a file of UTF-8.
///
/// # Errors
/// When it cannot be read, is larger than that, or is not UTF-8; then the error names the line.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    decode(read(path, bytes_max)?)
}

fn decode(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        io::Error::other(format!(
            "line {line} is not valid UTF-8; save the file as UTF-8"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused() {
        let error = read(Path::new("/dev/zero"), 64 << 10).unwrap_err();
        assert!(error.to_string().contains("more than 64 KiB"), "{error}");
        let error = read_all(io::repeat(b'x'), 2 << 20).unwrap_err();
        assert!(error.to_string().contains("more than 2 MiB"), "{error}");
        assert_eq!(read_all(&b"abc"[..], 3).unwrap(), b"abc");
        assert!(read_all(&b"abcd"[..], 3).is_err());
    }

    #[test]
    fn a_line_that_is_no_text_is_named() {
        let error = decode(b"ann,x\nbob,\xff\n".to_vec()).unwrap_err();
        assert!(
            error.to_string().contains("line 2 is not valid UTF-8"),
            "{error}"
        );
    }
}
