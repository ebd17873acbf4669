//! Unix.

use std::fs::{File, Metadata};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketType, recv, sendmsg, sendto, sockopt,
};

use super::Deadline;
use crate::args::Server;
use crate::fault::Fault;

/// How long to wait before a Unix socket with a full queue is tried again: the kernel does not say
/// when there is room.
const RETRY: Duration = Duration::from_millis(2);

/// A connection to a server. It never blocks but in `poll`, which ends at the deadline.
pub(crate) struct Link {
    socket: OwnedFd,
    is_unix: bool,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// When nobody answers there before the deadline.
    pub(crate) fn connect(server: &Server, deadline: &Deadline) -> Result<Self, Fault> {
        let fail = |errno: Errno| {
            Fault::Unreachable(format!(
                "no server can be reached at {server}: {}",
                io::Error::from(errno)
            ))
        };
        let is_unix = matches!(server, Server::Unix(_));
        let family = match server {
            Server::Unix(_) => AddressFamily::UNIX,
            Server::Tcp(host, _) | Server::Tls { host, .. } => match host.is_ipv4() {
                true => AddressFamily::INET,
                false => AddressFamily::INET6,
            },
        };
        let socket = socket(family, SocketType::STREAM).map_err(fail)?;
        let link = Self { socket, is_unix };
        loop {
            let connected = match server {
                Server::Unix(path) => SocketAddrUnix::new(path.as_path())
                    .and_then(|address| rustix::net::connect(&link.socket, &address)),
                Server::Tcp(host, port) | Server::Tls { host, port, .. } => {
                    rustix::net::connect(&link.socket, &SocketAddr::new(*host, *port))
                }
            };
            match connected {
                Ok(()) => return Ok(link),
                Err(Errno::INPROGRESS) => break,
                Err(Errno::INTR) => {}
                // The queue of the listener is full.
                Err(Errno::AGAIN) => pause(deadline)?,
                Err(errno) => return Err(fail(errno)),
            }
        }
        link.wait(PollFlags::OUT, deadline)?;
        match sockopt::socket_error(&link.socket) {
            Ok(Ok(())) => Ok(link),
            Ok(Err(errno)) | Err(errno) => Err(fail(errno)),
        }
    }

    /// Whether a file can be passed along.
    pub(crate) const fn passes_files(&self) -> bool {
        self.is_unix
    }

    /// What is sent from here on is not held back to be sent in larger pieces.
    pub(crate) fn hurry(&self) {
        if !self.is_unix {
            // Without it the last piece comes later, but it comes.
            let _ = sockopt::set_tcp_nodelay(&self.socket, true);
        }
    }

    /// Sends everything; the file goes with the first byte.
    ///
    /// # Errors
    /// When the connection breaks or the deadline passes.
    pub(crate) fn send(
        &self,
        mut bytes: &[u8],
        file: Option<&File>,
        deadline: &Deadline,
    ) -> Result<(), Fault> {
        let files = file.map(|file| [file.as_fd()]);
        let mut files: &[BorrowedFd<'_>] = files.as_ref().map_or(&[], |files| files);
        while !bytes.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !files.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(files));
            }
            let parts = [IoSlice::new(bytes)];
            match sendmsg(&self.socket, &parts, &mut control, QUIETLY) {
                Ok(sent) => {
                    bytes = &bytes[sent..];
                    files = &[];
                }
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, deadline)?,
                Err(Errno::INTR) => {}
                // The server may have answered before it closed: that is for `receive` to find.
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(errno) => return Err(broken(errno)),
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
            self.wait(PollFlags::IN, deadline)?;
            match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(Fault::Closed),
                Ok((_, received)) => return Ok(received),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(Fault::Closed),
                Err(errno) => return Err(broken(errno)),
            }
        }
    }

    fn wait(&self, events: PollFlags, deadline: &Deadline) -> Result<(), Fault> {
        wait(self.socket.as_fd(), events, deadline)
    }
}

fn broken(errno: Errno) -> Fault {
    Fault::Broken(io::Error::from(errno).to_string())
}

/// Waits until something can be done with a descriptor.
fn wait(fd: BorrowedFd<'_>, events: PollFlags, deadline: &Deadline) -> Result<(), Fault> {
    loop {
        let left = timespec(deadline.left()?);
        let mut polled = [PollFd::from_borrowed_fd(fd, events)];
        match poll(&mut polled, Some(&left)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(broken(errno)),
        }
    }
}

fn pause(deadline: &Deadline) -> Result<(), Fault> {
    let time = timespec(RETRY.min(deadline.left()?));
    match poll(&mut [], Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(broken(errno)),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        // Deadlines are at most an hour.
        tv_sec: duration.as_secs().try_into().unwrap_or(3600),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Opens a file for reading. Nobody has to write into a FIFO of that name for this to return.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).and_then(beyond_standard)?;
    Ok(file.into())
}

/// Opens a regular file to write it again, or makes it. One that is reached by a link, or has other
/// names, may be somebody else's, and is not touched.
///
/// # Errors
/// When it is something else, or cannot be opened.
pub(crate) fn overwrite(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
    let file: File = match opened.and_then(beyond_standard) {
        Ok(file) => file.into(),
        Err(Errno::LOOP | Errno::MLINK) => {
            return Err(io::Error::other("it is a symbolic link; remove it"));
        }
        // A pipe that nobody reads.
        Err(Errno::NXIO) => return Err(io::Error::other("it is not a regular file")),
        Err(errno) => return Err(errno.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if names(&metadata) > 1 {
        return Err(io::Error::other(
            "it has other names (hard links); remove it",
        ));
    }
    file.set_len(0)?;
    Ok(file)
}

/// What tells one state of a file from another.
#[derive(PartialEq, Eq)]
pub(crate) struct Mark {
    file: (u64, u64),
    size: u64,
    /// Of the last change of the content.
    written: (i64, i64),
    /// Of the last change, be it of the content or of anything else about the file.
    changed: (i64, i64),
}

impl Mark {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether both are of the same content. A file may get another name in the meantime, or lose
    /// its last one.
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        (self.size, self.written) == (other.size, other.written)
    }
}

/// How many names a file has.
pub(crate) fn names(metadata: &Metadata) -> u64 {
    metadata.nlink()
}

/// A write to a connection that has ended is an error, and no signal.
#[cfg(not(target_vendor = "apple"))]
const QUIETLY: SendFlags = SendFlags::NOSIGNAL;
/// The socket itself says that.
#[cfg(target_vendor = "apple")]
const QUIETLY: SendFlags = SendFlags::empty();

/// A socket that never blocks, sends no signal, and is not inherited by other programs.
#[cfg(not(target_vendor = "apple"))]
fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, kind, flags, None).and_then(beyond_standard)
}

/// The same in steps: Apple's systems have no flags for it.
#[cfg(target_vendor = "apple")]
fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::socket(family, kind, None).and_then(beyond_standard)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    sockopt::set_socket_nosigpipe(&socket, true)?;
    Ok(socket)
}

/// A descriptor that cannot be taken for a standard stream which the caller has closed.
fn beyond_standard(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    rustix::io::fcntl_dupfd_cloexec(&fd, 3)
}

/// The most that a pipe takes at once when there is room in it.
const PIPE_BYTES: usize = 4096;

/// Standard output, which nobody may be reading.
pub(crate) struct Output<'a>(pub(crate) &'a Deadline);

impl io::Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stdout = rustix::stdio::stdout();
        loop {
            // After the deadline, what can be said without waiting is said.
            let left = timespec(self.0.left().unwrap_or_default());
            let mut polled = [PollFd::from_borrowed_fd(stdout, PollFlags::OUT)];
            match poll(&mut polled, Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            match rustix::io::write(stdout, &bytes[..bytes.len().min(PIPE_BYTES)]) {
                Err(Errno::INTR | Errno::AGAIN) => {}
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How long a complaint waits for somebody to read it, unless the deadline comes before.
const COMPLAINT_TIME: Duration = Duration::from_millis(100);

/// Writes to standard error. Nobody may be reading, and the exit code says it as well.
pub(crate) fn complain(line: &[u8], deadline: &Deadline) {
    let stderr = rustix::stdio::stderr();
    let mut polled = [PollFd::from_borrowed_fd(stderr, PollFlags::OUT)];
    // After the deadline, what can be said without waiting is said.
    let time = timespec(deadline.left().unwrap_or_default().min(COMPLAINT_TIME));
    if poll(&mut polled, Some(&time)) == Ok(1) {
        let _ = rustix::io::write(stderr, &line[..line.len().min(PIPE_BYTES)]);
    }
}

/// Where the system's log takes lines.
#[cfg(target_os = "linux")]
const LOG_SOCKET: &str = "/dev/log";
#[cfg(not(target_os = "linux"))]
const LOG_SOCKET: &str = "/var/run/log";
/// What stands before a line there: an error (3) of the mail system (2, times 8).
const LOG_PRIORITY: u8 = 2 * 8 + 3;

/// Tells the system's log. Nobody may be listening, and the exit code says it as well.
pub(crate) fn log(text: &str) {
    let _ = log_to(Path::new(LOG_SOCKET), text);
}

fn log_to(place: &Path, text: &str) -> Result<(), Errno> {
    let pid = std::process::id();
    let line = format!("<{LOG_PRIORITY}>stentor-call[{pid}]: {text}");
    let link = socket(AddressFamily::UNIX, SocketType::DGRAM)?;
    let address = SocketAddrUnix::new(place)?;
    sendto(&link, line.as_bytes(), QUIETLY, &address)?;
    Ok(())
}

/// Reads from a place in a file, without moving its position.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Standard input, if it is a file that stands at its beginning.
pub(crate) fn stdin_file() -> Option<File> {
    let stdin = rustix::stdio::stdin();
    let stat = rustix::fs::fstat(stdin).ok()?;
    let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    let at_start = is_file && rustix::fs::tell(stdin) == Ok(0);
    let own = at_start.then(|| stdin.try_clone_to_owned().ok()).flatten();
    own.map(File::from)
}

/// Waits for standard input and reads some of it.
///
/// # Errors
/// When it cannot be read, or the deadline passes.
fn read_stdin(buffer: &mut [u8], deadline: &Deadline) -> Result<usize, Fault> {
    let stdin = rustix::stdio::stdin();
    loop {
        wait(stdin, PollFlags::IN, deadline)?;
        match rustix::io::read(stdin, &mut *buffer) {
            Ok(read) => return Ok(read),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => {
                let reason = io::Error::from(errno);
                return Err(Fault::File(format!("cannot read standard input: {reason}")));
            }
        }
    }
}

/// Copies standard input into a file without a name; returns it with its size.
///
/// # Errors
/// When there are more than `max` bytes, or the deadline passes.
pub(crate) fn temporary_file(max: u64, deadline: &Deadline) -> Result<(File, u64), Fault> {
    let fail = |error: io::Error| Fault::File(format!("cannot keep standard input: {error}"));
    let mut file = nameless().map_err(fail)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut size = 0;
    loop {
        let read = read_stdin(&mut buffer, deadline)?;
        if read == 0 {
            return Ok((file, size));
        }
        size += read as u64;
        if size > max {
            return Err(Fault::File(format!(
                "there are more than {max} bytes on standard input; put them into a --file"
            )));
        }
        io::Write::write_all(&mut file, &buffer[..read]).map_err(fail)?;
    }
}

#[cfg(any(target_os = "linux", target_os = "freebsd"))]
fn nameless() -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create(c"message", flags).and_then(beyond_standard)?;
    Ok(file.into())
}

#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
fn nameless() -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("stentor-call-{}", std::process::id()));
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o600);
    let file = file.open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Makes a new file with the owner and the permissions of another one.
///
/// # Errors
/// When there is one of that name, or it cannot have that owner.
pub(crate) fn create_like(path: &Path, model: &File) -> io::Result<File> {
    let model = model.metadata()?;
    let mut options = File::options();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let own = file.metadata()?;
    let set = || {
        if (own.uid(), own.gid()) != (model.uid(), model.gid()) {
            std::os::unix::fs::fchown(&file, Some(model.uid()), Some(model.gid()))?;
        }
        file.set_permissions(std::fs::Permissions::from_mode(model.mode() & 0o7777))
    };
    set().inspect_err(|_| {
        // The reason for the failure is what counts.
        let _ = std::fs::remove_file(path);
    })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_log_gets_a_line_of_the_mail_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert!(log_to(&path, "nobody listens").is_err());
        let listener = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        log_to(&path, "p.luau:4: oops").unwrap();
        let mut line = [0; 100];
        let len = listener.recv(&mut line).unwrap();
        let expected = format!("<19>stentor-call[{}]: p.luau:4: oops", std::process::id());
        assert_eq!(std::str::from_utf8(&line[..len]), Ok(expected.as_str()));
    }
}
