//! The message: where it comes from, and its beginning.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use stentor_call_protocol::Format;
use stentor_call_protocol::limits::HEAD_BYTES_MAX;

use crate::args::{Options, Source};
use crate::fault::Fault;
use crate::platform::{self, Deadline, Mark};

/// The most that is taken from a pipe: it is kept in memory.
const STDIN_BYTES_MAX: u64 = 256 << 20;

/// The line of an XMail spool file after which the message begins.
const XMAIL_MARKER: &[u8] = b"<<MAIL-DATA>>";

/// An open message.
pub(crate) struct Message {
    pub(crate) file: File,
    pub(crate) size: u64,
    /// Its name, if it has one.
    pub(crate) path: Option<PathBuf>,
    /// With a name: what tells whether it has changed since.
    pub(crate) mark: Option<Mark>,
}

/// A path that is none of a pipe or a device, which may be waited for beyond a deadline. What
/// is not there is told by who opens it.
///
/// # Errors
/// When something else than a regular file is there.
pub(crate) fn regular(path: &Path) -> io::Result<&Path> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is no regular file")),
        _ => Ok(path),
    }
}

/// Opens what the options name.
///
/// # Errors
/// When it cannot be read, or is no regular file.
pub(crate) fn open(options: &Options, deadline: &Deadline) -> Result<Option<Message>, Fault> {
    match &options.source {
        Source::None => Ok(None),
        Source::File(path) => {
            let fail =
                |reason: String| Fault::File(format!("cannot read {}: {reason}", path.display()));
            let file = platform::open(path).map_err(|error| fail(error.to_string()))?;
            let metadata = file.metadata().map_err(|error| fail(error.to_string()))?;
            if !metadata.is_file() {
                return Err(fail("it is no regular file".to_owned()));
            }
            Ok(Some(Message {
                file,
                size: metadata.len(),
                path: Some(path.clone()),
                mark: Some(Mark::of(&metadata)),
            }))
        }
        Source::Stdin => {
            let (file, size) = match platform::stdin_file() {
                Some(file) => {
                    let metadata = file.metadata().map_err(|error| {
                        Fault::File(format!("cannot read standard input: {error}"))
                    })?;
                    (file, metadata.len())
                }
                None => platform::temporary_file(STDIN_BYTES_MAX, deadline)?,
            };
            Ok(Some(Message {
                file,
                size,
                path: None,
                mark: None,
            }))
        }
    }
}

impl Message {
    /// Reads a piece; shorter than asked for only at the end of the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, Fault> {
        let mut piece = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match platform::read_at(&self.file, &mut piece[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::File(format!("cannot read the message: {error}"))),
            }
        }
        piece.truncate(filled);
        Ok(piece)
    }

    /// Where the message begins: in a spool file after the marker, which there has to be.
    ///
    /// # Errors
    /// When it cannot be read, or has none.
    pub(crate) fn start(&self, format: Format) -> Result<u64, Fault> {
        if format == Format::Message {
            return Ok(0);
        }
        let head = self.read(0, HEAD_BYTES_MAX)?;
        let mut at = 0;
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            at += line.len() as u64;
            if line.trim_ascii_end() == XMAIL_MARKER {
                return Ok(at);
            }
        }
        Err(Fault::File(
            "the spool file has no <<MAIL-DATA>>".to_owned(),
        ))
    }

    /// The file up to the end of the message's headers, as far as that is allowed in a call.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn head(&self, format: Format) -> Result<Vec<u8>, Fault> {
        let len = self.size.min(HEAD_BYTES_MAX as u64) as usize;
        let mut head = self.read(0, len)?;
        let end = headers_end(&head, format);
        head.truncate(end);
        Ok(head)
    }
}

/// Where the headers end, their empty line included; all of it if that is not to be seen.
fn headers_end(head: &[u8], format: Format) -> usize {
    let mut in_headers = format == Format::Message;
    let mut at = 0;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        // A line of spaces goes on with the header before it.
        if in_headers && matches!(line, b"\n" | b"\r\n") {
            return at;
        }
        in_headers |= line.trim_ascii_end() == XMAIL_MARKER;
    }
    head.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_ends_with_the_headers() {
        for (head, format, end) in [
            (&b"a: b\r\n\r\nbody"[..], Format::Message, 8),
            (b"a: b\n\nbody", Format::Message, 6),
            (b"\nbody", Format::Message, 1),
            (b"a: b\r\n \r\nc: d\r\n\r\nbody", Format::Message, 17),
            (b"a: b\r\nbody", Format::Message, 10),
            (b"", Format::Message, 0),
            (
                b"S2\r\n\r\n<<MAIL-DATA>>\r\na: b\r\n\r\nbody",
                Format::XmailSpool,
                29,
            ),
            (b"S2\r\n\r\nno marker", Format::XmailSpool, 15),
        ] {
            assert_eq!(headers_end(head, format), end, "{}", head.escape_ascii());
        }
    }
}
