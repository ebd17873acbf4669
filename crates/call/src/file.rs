//! The message: where it comes from, and its beginning.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use stentor_call_protocol::limits::HEAD_BYTES_MAX;
use stentor_call_protocol::{Format, headers_end};

use crate::args::{Options, Source};
use crate::fault::Fault;
use crate::platform::{self, Deadline, Mark};

/// The most that is taken from a pipe: it is kept in memory.
const STDIN_BYTES_MAX: u64 = 256 << 20;

/// An open message.
pub(crate) struct Message {
    pub(crate) file: File,
    pub(crate) size: u64,
    /// Its name, if it has one.
    pub(crate) path: Option<PathBuf>,
    /// If others may have the file: what tells whether it has changed since.
    pub(crate) mark: Option<Mark>,
}

/// A path, but not of a pipe or a device, which may be waited for beyond a deadline. A file that
/// does not exist is reported by the function that opens it.
///
/// # Errors
/// When something else than a regular file is there.
pub fn regular(path: &Path) -> io::Result<&Path> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        _ => Ok(path),
    }
}

/// Opens what the options name.
///
/// # Errors
/// When it cannot be read, or is not a regular file.
pub(crate) fn open(options: &Options, deadline: &Deadline) -> Result<Option<Message>, Fault> {
    match &options.source {
        Source::None => Ok(None),
        Source::File(path) => {
            let fail =
                |reason: String| Fault::File(format!("cannot read {}: {reason}", path.display()));
            let file = platform::open(path).map_err(|error| fail(error.to_string()))?;
            let metadata = file.metadata().map_err(|error| fail(error.to_string()))?;
            if !metadata.is_file() {
                return Err(fail("it is not a regular file".to_owned()));
            }
            Ok(Some(Message {
                file,
                size: metadata.len(),
                path: Some(path.clone()),
                mark: Some(Mark::of(&metadata)),
            }))
        }
        Source::Stdin => {
            let (file, size, mark) = match platform::stdin_file() {
                Some(file) => {
                    let metadata = file.metadata().map_err(|error| {
                        Fault::File(format!("cannot read standard input: {error}"))
                    })?;
                    (file, metadata.len(), Some(Mark::of(&metadata)))
                }
                None => {
                    let (file, size) = platform::temporary_file(STDIN_BYTES_MAX, deadline)?;
                    (file, size, None)
                }
            };
            Ok(Some(Message {
                file,
                size,
                path: None,
                mark,
            }))
        }
    }
}

/// Deletes the file if the options say so.
///
/// # Errors
/// When it stays there.
pub(crate) fn delete(options: &Options) -> Result<(), Fault> {
    match &options.source {
        Source::File(path) if options.deletes => {
            let fault =
                |why: String| Fault::File(format!("cannot delete {}: {why}", path.display()));
            // Of a link itself, not of what it leads to.
            match std::fs::symlink_metadata(path).map(|it| it.file_type()) {
                Ok(kind) if kind.is_symlink() => {
                    let why = "it is a symbolic link; name the file that it leads to";
                    return Err(fault(why.to_owned()));
                }
                Ok(kind) if !kind.is_file() => {
                    return Err(fault("it is not a regular file".to_owned()));
                }
                _ => {}
            }
            std::fs::remove_file(path).map_err(|error| fault(error.to_string()))
        }
        Source::File(_) | Source::None | Source::Stdin => Ok(()),
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

    /// Where the message begins: in a spool file after the envelope.
    ///
    /// # Errors
    /// When it cannot be read, or begins nowhere.
    pub(crate) fn start(&self, format: Format) -> Result<u64, Fault> {
        let head = match format {
            Format::Message => Vec::new(),
            Format::XmailSpool => self.read(0, HEAD_BYTES_MAX)?,
        };
        let is_all = head.len() as u64 == self.size;
        match format.message_start(&head, is_all) {
            Ok(start) => Ok(start as u64),
            Err(reason) => Err(Fault::File(reason.to_string())),
        }
    }

    /// The file up to the end of the message's headers, as far as that is allowed in a call.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn head(&self, format: Format) -> Result<Vec<u8>, Fault> {
        let len = self.size.min(HEAD_BYTES_MAX as u64) as usize;
        let mut head = self.read(0, len)?;
        // What has no message goes as it is: the server says what is wrong with it.
        let start = format.message_start(&head, len as u64 == self.size);
        let end = start.ok().and_then(|start| {
            let headers = headers_end(&head[start..])?;
            Some(start + headers)
        });
        head.truncate(end.unwrap_or(len));
        Ok(head)
    }
}
