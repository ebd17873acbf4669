//! Systems other than Unix: TCP by the standard library, no passing of files.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::SystemTime;

use super::Deadline;
use crate::args::Server;
use crate::fault::Fault;

/// A connection to a server.
pub(crate) struct Link(TcpStream);

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// When nobody answers there before the deadline.
    pub(crate) fn connect(server: &Server, deadline: &Deadline) -> Result<Self, Fault> {
        let (Server::Tcp(host, port) | Server::Tls { host, port, .. }) = server else {
            return Err(Fault::Unreachable(format!(
                "{server}: this system has no Unix sockets; give --server ADDRESS"
            )));
        };
        TcpStream::connect_timeout(&SocketAddr::new(*host, *port), deadline.left()?)
            .map(Self)
            .map_err(|error| {
                Fault::Unreachable(format!("no server can be reached at {server}: {error}"))
            })
    }

    /// Whether a file can be passed along.
    pub(crate) const fn passes_files(&self) -> bool {
        false
    }

    /// What is sent from here on is not held back to be sent in larger pieces.
    pub(crate) fn hurry(&self) {
        // Without it the last piece comes later, but it comes.
        let _ = self.0.set_nodelay(true);
    }

    /// Sends everything.
    ///
    /// # Errors
    /// When the connection breaks or the deadline passes.
    pub(crate) fn send(
        &self,
        mut bytes: &[u8],
        _file: Option<&File>,
        deadline: &Deadline,
    ) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let left = Some(deadline.left()?);
            self.0.set_write_timeout(left).map_err(broken)?;
            match (&self.0).write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if is_wait(&error) => {}
                // The server may have answered before it closed: that is for `receive` to find.
                Err(error) if is_end(&error) => return Ok(()),
                Err(error) => return Err(broken(error)),
            }
        }
        Ok(())
    }

    /// Waits for more bytes and puts them into `buffer`; returns how many.
    ///
    /// # Errors
    /// When the connection ends or breaks, or the deadline passes.
    pub(crate) fn receive(&self, buffer: &mut [u8], deadline: &Deadline) -> Result<usize, Fault> {
        loop {
            let left = Some(deadline.left()?);
            self.0.set_read_timeout(left).map_err(broken)?;
            match (&self.0).read(buffer) {
                Ok(0) => return Err(Fault::Closed),
                Ok(received) => return Ok(received),
                Err(error) if is_wait(&error) => {}
                Err(error) if is_end(&error) => return Err(Fault::Closed),
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset
    )
}

fn broken(error: io::Error) -> Fault {
    Fault::Broken(error.to_string())
}

/// Opens a file for reading.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a regular file to write it again, or makes it.
///
/// # Errors
/// When it is something else, or cannot be opened.
pub(crate) fn overwrite(path: &Path) -> io::Result<File> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        _ => File::create(path),
    }
}

/// What tells one state of a file from another.
#[derive(PartialEq, Eq)]
pub(crate) struct Mark {
    size: u64,
    modified: Option<SystemTime>,
}

impl Mark {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }

    /// Whether both are of the same content.
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        self == other
    }
}

/// How many names a file has: not known here.
pub(crate) const fn names(_metadata: &Metadata) -> u64 {
    1
}

/// Reads from a place in a file.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek(SeekFrom::Start(offset))?;
    file.read(buffer)
}

/// Standard input, if it is a file that stands at its beginning: not known here.
pub(crate) const fn stdin_file() -> Option<File> {
    None
}

/// Copies standard input into a file of the temporary folder; returns it with its size.
///
/// # Errors
/// When there are more than `max` bytes.
pub(crate) fn temporary_file(max: u64, deadline: &Deadline) -> Result<(File, u64), Fault> {
    let fail = |error: io::Error| Fault::File(format!("cannot keep standard input: {error}"));
    let path = std::env::temp_dir().join(format!("stentor-call-{}", std::process::id()));
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true);
    let mut file = options.open(path).map_err(fail)?;
    deadline.left()?;
    let mut input = io::stdin().take(max.saturating_add(1));
    let size = io::copy(&mut input, &mut file).map_err(fail)?;
    deadline.left()?;
    if size > max {
        return Err(Fault::File(format!(
            "there are more than {max} bytes on standard input; put them into a --file"
        )));
    }
    Ok((file, size))
}

/// Makes a new file.
///
/// # Errors
/// When there is one of that name.
pub(crate) fn create_like(path: &Path, _model: &File) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// Standard output.
pub(crate) struct Output<'a>(pub(crate) &'a Deadline);

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // There is no way to tell whether somebody reads.
        let _ = self.0;
        io::stdout().lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}

/// Writes to standard error. Nobody may be reading, and the exit code says it as well.
pub(crate) fn complain(line: &[u8], _deadline: &Deadline) {
    let _ = io::stderr().write_all(line);
}

/// Tells the system's log: there is none here.
pub(crate) const fn log(_text: &str) {}
