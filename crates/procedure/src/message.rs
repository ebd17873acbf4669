//! The message that a call is about.

use std::any::Any;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

use rustix::io::{Errno, ReadWriteFlags, preadv2};
use stentor_call_protocol::limits::HEAD_BYTES_MAX;
use stentor_call_protocol::{Format, NoMessage, headers_end};

use crate::call::Envelope;
use crate::closer::Closer;

/// Recipients that are taken from a spool file.
const RECIPIENTS_MAX: usize = 10_000;
/// Files of fewer bytes are closed in no time.
const SOON_CLOSED_MAX: u64 = 16 << 20;

/// Where the bytes are.
#[derive(Debug)]
pub enum Content {
    /// There is no message.
    None,
    /// A file. It is read by position, since its own position may be shared with the caller, and
    /// never mapped, since the caller may make it shorter.
    File(File),
    /// Bytes: all of it, or its beginning.
    Bytes(Vec<u8>),
}

/// Whether reading may wait for a disk, or for somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// What is not in memory is not read.
    Never,
    Allowed,
}

/// The message that a call is about: a file of some size, in which the message begins somewhere.
pub struct Message {
    content: Content,
    /// The size of the file.
    file_size: u64,
    /// Where the message begins in the file.
    start: u64,
    /// Nothing of its file was read yet.
    unopened: Option<Unopened>,
    /// Of a file that a caller passed.
    passed: Option<Passed>,
    /// What goes with the message; see [`Message::complete`].
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

/// What is said of a file of which nothing was read yet.
#[derive(Clone, Copy, Debug)]
struct Unopened {
    format: Format,
    /// Bytes that it had when it was passed, at least.
    size: u64,
}

/// A file that a caller passed.
struct Passed {
    /// The file system that it is on never hangs.
    is_prompt: bool,
    closer: Closer,
}

impl Message {
    /// No message.
    #[must_use]
    pub const fn none() -> Self {
        Self::of(Content::None)
    }

    const fn of(content: Content) -> Self {
        Self {
            content,
            file_size: 0,
            start: 0,
            unopened: None,
            passed: None,
            _kept: None,
        }
    }

    /// The message in a file that a caller passed, of which nothing is read, not even its size,
    /// until it is opened. It is refused then if it has fewer bytes than `size`, which the caller
    /// saw: half of a message looks harmless.
    ///
    /// `is_prompt` says that the file waits for no more than a disk, so that any thread may open it
    /// as far as it is in memory. Another one is opened on the threads of its procedure, and closed
    /// by `closer`: the file system that it is on may hang.
    #[must_use]
    pub fn later(file: File, size: u64, format: Format, is_prompt: bool, closer: Closer) -> Self {
        let mut message = Self::of(Content::File(file));
        message.unopened = Some(Unopened { format, size });
        message.passed = Some(Passed { is_prompt, closer });
        message
    }

    /// Whether it still has to be opened.
    #[must_use]
    pub const fn is_unopened(&self) -> bool {
        self.unopened.is_some()
    }

    /// Reads what has to be known of its file, if that was put off; for a spool file also its
    /// envelope.
    ///
    /// # Errors
    /// As [`Message::new`].
    pub(crate) fn open(&mut self) -> io::Result<Option<Envelope>> {
        let Some(Unopened { format, size }) = self.unopened else {
            return Ok(None);
        };
        let envelope = self.lay_out(size, format, Wait::Allowed)?;
        self.unopened = None;
        Ok(Some(envelope))
    }

    /// The same where that waits for nothing; otherwise it stays as it is, and this is `None`.
    pub(crate) fn try_open(&mut self) -> Option<io::Result<Option<Envelope>>> {
        let Some(Unopened { format, size }) = self.unopened else {
            return Some(Ok(None));
        };
        if !self.passed.as_ref().is_some_and(|passed| passed.is_prompt) {
            return None;
        }
        match self.lay_out(size, format, Wait::Never) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            laid_out => {
                self.unopened = None;
                Some(laid_out.map(Some))
            }
        }
    }

    /// A file that is laid out as `format` says; for a spool file also its envelope. A file with
    /// only an envelope is not a message.
    ///
    /// `size` is what is known of the file's size, since `content` may be only its beginning.
    ///
    /// # Errors
    /// When it cannot be read, is not a regular file, is shorter than `size`, or has another
    /// format.
    pub fn new(content: Content, size: u64, format: Format) -> io::Result<(Self, Envelope)> {
        let mut message = Self::of(content);
        let envelope = message.lay_out(size, format, Wait::Allowed)?;
        Ok((message, envelope))
    }

    /// Finds out its size and where it begins; returns what stands before it.
    fn lay_out(&mut self, size: u64, format: Format, wait: Wait) -> io::Result<Envelope> {
        self.file_size = match &self.content {
            Content::None => 0,
            Content::Bytes(bytes) => size.max(bytes.len() as u64),
            Content::File(file) => {
                let metadata = file.metadata()?;
                if !metadata.is_file() {
                    return Err(io::Error::other("the message is not a regular file"));
                }
                if metadata.len() < size {
                    return Err(is_shorter());
                }
                metadata.len()
            }
        };
        if format != Format::XmailSpool || !self.exists() {
            return Ok(Envelope::default());
        }
        let head = self.read_file(0, HEAD_BYTES_MAX, wait)?;
        let is_all = head.len() as u64 == self.file_size;
        let start = format.message_start(&head, is_all);
        let envelope = envelope_before(&head[..start.unwrap_or(head.len())]);
        match start {
            Ok(start) => self.start = start as u64,
            // XMail's filters that run before DATA see the envelope alone.
            Err(NoMessage::NoMarker) if envelope.from.is_some() => {
                self.content = Content::None;
                self.file_size = 0;
            }
            Err(reason) => return Err(io::Error::other(reason)),
        }
        Ok(envelope)
    }

    /// Whether there is one.
    #[must_use]
    pub const fn exists(&self) -> bool {
        !matches!(self.content, Content::None)
    }

    /// Whether it has to be read from a file.
    pub(crate) const fn is_file(&self) -> bool {
        matches!(self.content, Content::File(_))
    }

    /// The size of the message in bytes; of a spool file, without what stands before it.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.file_size - self.start
    }

    /// Where the message begins in the file that the caller has.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Whether all of it is here.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64 == self.file_size,
            Content::None | Content::File(_) => true,
        }
    }

    /// The bytes that are here; none of a file.
    #[must_use]
    pub fn beginning(&self) -> &[u8] {
        match &self.content {
            Content::Bytes(bytes) => bytes,
            Content::None | Content::File(_) => &[],
        }
    }

    /// Puts the whole file in the place of its beginning, and with it what is to be dropped when
    /// the message is: its room, say.
    pub fn complete(&mut self, content: Content, kept: impl Any + Send + Sync) {
        self.content = content;
        self._kept = Some(Box::new(kept));
    }

    /// The message's headers with the empty line that ends them.
    ///
    /// # Errors
    /// When it cannot be read, or has more than 64 KiB of headers: who judges by headers that are
    /// not there would be deceived.
    pub fn headers(&self) -> io::Result<Vec<u8>> {
        let mut head = self.read_file(self.start, HEAD_BYTES_MAX, Wait::Allowed)?;
        match headers_end(&head) {
            Some(end) => head.truncate(end),
            None if self.size() > head.len() as u64 => return Err(too_long()),
            None => {}
        }
        Ok(head)
    }

    /// The whole message.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.size()).map_err(io::Error::other)?;
        self.read_file(self.start, len, Wait::Allowed)
    }

    /// Reads a piece of the file; shorter than asked for only at the end that it had when it was
    /// opened.
    fn read_file(&self, offset: u64, len: usize, wait: Wait) -> io::Result<Vec<u8>> {
        match &self.content {
            Content::None => Ok(Vec::new()),
            Content::Bytes(bytes) => {
                let from = usize::try_from(offset)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                let to = from.saturating_add(len).min(bytes.len());
                Ok(bytes[from..to].to_vec())
            }
            Content::File(file) => {
                let left = self.file_size.saturating_sub(offset);
                let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
                let mut piece = vec![0; len];
                let mut filled = 0;
                while filled < len {
                    match read_at(file, &mut piece[filled..], offset + filled as u64, wait) {
                        // Half of a message looks harmless.
                        Ok(0) => return Err(is_shorter()),
                        Ok(read) => filled += read,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(piece)
            }
        }
    }
}

fn is_shorter() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter")
}

/// Closing a file may take long, or for ever: for a file system that asks somebody else, and for
/// large files that have no name any more.
impl Drop for Message {
    fn drop(&mut self) {
        let Some(Passed { is_prompt, closer }) = self.passed.take() else {
            return;
        };
        let is_soon_closed = is_prompt && !self.is_unopened() && self.file_size < SOON_CLOSED_MAX;
        if let Content::File(file) = std::mem::replace(&mut self.content, Content::None)
            && !is_soon_closed
        {
            closer.close(file.into());
        }
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Message")
            .field("content", &self.content)
            .field("file_size", &self.file_size)
            .field("start", &self.start)
            .field("unopened", &self.unopened)
            .finish_non_exhaustive()
    }
}

/// Reads some of a file.
///
/// # Errors
/// Among others `WouldBlock`, if it must not wait and would have to.
fn read_at(file: &File, piece: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
    if wait == Wait::Never {
        let read = preadv2(
            file,
            &mut [IoSliceMut::new(piece)],
            offset,
            ReadWriteFlags::NOWAIT,
        );
        match read {
            // File systems that are in memory anyway do not know it.
            Err(Errno::OPNOTSUPP) => {}
            Ok(read) => return Ok(read),
            // Whatever it is, whoever may wait will see it too, or read.
            Err(_) => return Err(io::ErrorKind::WouldBlock.into()),
        }
    }
    file.read_at(piece, offset)
}

/// The refusal of headers that are longer than anybody reads.
pub(crate) fn too_long() -> io::Error {
    let reason = format!("it has more than {HEAD_BYTES_MAX} bytes of headers");
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// The envelope, which stands before the message of a spool file.
fn envelope_before(preamble: &[u8]) -> Envelope {
    let mut envelope = Envelope::default();
    for (number, line) in preamble.split(|byte| *byte == b'\n').enumerate() {
        let text = String::from_utf8_lossy(line.trim_ascii_end());
        if number == 0 {
            // [client]:port;[server]:port;date
            let address = text.strip_prefix('[').and_then(|text| text.split_once(']'));
            envelope.client = address.map(|(address, _)| address.to_owned());
        } else if let Some(address) = path_after(&text, "mail from:") {
            envelope.from.get_or_insert(address);
        } else if let Some(address) = path_after(&text, "rcpt to:")
            && envelope.recipients.len() < RECIPIENTS_MAX
        {
            envelope.recipients.push(address);
        }
    }
    envelope
}

/// The address between angle brackets after an SMTP command in any case; what follows it
/// (parameters, XMail's own notes) is left out.
fn path_after(line: &str, command: &str) -> Option<String> {
    let start = line.get(..command.len())?;
    if !start.eq_ignore_ascii_case(command) {
        return None;
    }
    let rest = line[command.len()..].trim_start();
    let address = match rest.strip_prefix('<') {
        Some(rest) => &rest[..address_end(rest)],
        None => rest.split_whitespace().next().unwrap_or_default(),
    };
    Some(address.to_owned())
}

/// Where the `>` after an address is: the first one outside of a quoted string, in which a name may
/// have one. A quotation mark that is never closed quotes nothing.
fn address_end(text: &str) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'>' if !is_quoted => return at,
            _ => {}
        }
    }
    text.find('>').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const SPOOL: &str = "[127.0.0.1]:19526;[127.0.0.1]:2525;Sat, 21 Nov 2026 01:32:07 -0000\r\n\
        xmailserver.test\r\nS2\r\nmail FROM:<a@ext.test> size=86\r\n\
        RCPT TO:<x@xmailserver.test> {ra=y@z.test}\r\nrcpt to: <q@w>\r\n<<MAIL-DATA>>\r\n\
        Subject: hi\r\nTo: x\r\n\r\nbody\r\n";

    fn spooled(content: Content) -> (Message, Envelope) {
        Message::new(content, 0, Format::XmailSpool).unwrap()
    }

    #[test]
    fn a_spool_file_has_an_envelope_and_a_message() {
        let (message, envelope) = spooled(Content::Bytes(SPOOL.into()));
        assert_eq!(envelope.from.as_deref(), Some("a@ext.test"));
        assert_eq!(envelope.recipients, ["x@xmailserver.test", "q@w"]);
        assert_eq!(envelope.client.as_deref(), Some("127.0.0.1"));
        assert_eq!(message.headers().unwrap(), b"Subject: hi\r\nTo: x\r\n\r\n");
        assert_eq!(
            message.read().unwrap(),
            b"Subject: hi\r\nTo: x\r\n\r\nbody\r\n"
        );
        assert_eq!(message.size(), 28);
        assert_eq!(message.start(), SPOOL.len() as u64 - 28);
        assert!(message.is_whole());
    }

    /// A message as a caller passes it.
    fn passed(path: &Path, is_prompt: bool) -> Message {
        let closer = Closer::new();
        Message::later(
            File::open(path).unwrap(),
            0,
            Format::XmailSpool,
            is_prompt,
            closer,
        )
    }

    #[test]
    fn a_file_may_be_opened_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        std::fs::write(&path, SPOOL).unwrap();
        for is_prompt in [false, true] {
            let mut message = passed(&path, is_prompt);
            assert!(message.is_unopened() && message.exists());
            if is_prompt {
                // What was just written is in memory.
                let envelope = message.try_open().expect("nothing to wait for").unwrap();
                assert_eq!(envelope.unwrap().from.as_deref(), Some("a@ext.test"));
            } else {
                assert!(message.try_open().is_none());
                assert!(message.is_unopened());
                let envelope = message.open().unwrap().expect("it was not open");
                assert_eq!(envelope.from.as_deref(), Some("a@ext.test"));
            }
            assert_eq!((message.size(), message.is_unopened()), (28, false));
            assert_eq!(message.open().unwrap(), None);
            let mut folder = passed(folder.path(), is_prompt);
            let opened = folder.try_open();
            assert!(opened.unwrap_or_else(|| folder.open()).is_err());
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_is_no_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        std::fs::write(&path, "T: u\r\n\r\nbody").unwrap();
        for (size, is_good) in [(0, true), (12, true), (13, false), (u64::MAX, false)] {
            for is_prompt in [false, true] {
                let (file, closer) = (File::open(&path).unwrap(), Closer::new());
                let mut message = Message::later(file, size, Format::Message, is_prompt, closer);
                let opened = message.try_open().unwrap_or_else(|| message.open());
                let kind = opened.map_err(|error| error.kind());
                assert_eq!(kind.is_ok(), is_good, "{size}");
                assert!(is_good || kind == Err(io::ErrorKind::UnexpectedEof));
            }
        }
    }

    /// Closing waits for a file system that may hang, so whoever drops a message does not.
    #[test]
    fn files_of_others_are_closed_by_a_thread_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        std::fs::write(&path, SPOOL).unwrap();
        let handed_over = |is_prompt, opens| {
            let closer = Closer::new();
            let file = File::open(&path).unwrap();
            let format = Format::XmailSpool;
            let mut message = Message::later(file, 0, format, is_prompt, closer.clone());
            if opens {
                message.try_open().expect("nothing to wait for").unwrap();
            }
            drop(message);
            closer.has_had_files()
        };
        assert!(handed_over(false, false), "it may hang");
        assert!(handed_over(true, false), "nobody knows how large it is");
        assert!(!handed_over(true, true), "it is closed at once");
    }

    #[test]
    fn an_address_ends_where_it_ends() {
        for (line, address) in [
            (r#"<"a>b"@x.test>"#, r#""a>b"@x.test"#),
            (r#"<"a\">b"@x.test> {ra=<c>}"#, r#""a\">b"@x.test"#),
            (r#"<"a b\\"@x.test> "SIZE>1""#, r#""a b\\"@x.test"#),
            (r#"<a"@x.test> c"#, r#"a"@x.test"#),
            (r"<a\>b", r"a\"),
            ("<a@b", "a@b"),
            ("<>", ""),
            ("a@b c>", "a@b"),
        ] {
            let found = path_after(&format!("RCPT TO:{line}"), "rcpt to:");
            assert_eq!(found.as_deref(), Some(address), "{line}");
        }
    }

    #[test]
    fn a_bounce_has_an_empty_sender() {
        let text = SPOOL.replace("<a@ext.test>", "<>");
        let (_, envelope) = spooled(Content::Bytes(text.into()));
        assert_eq!(envelope.from.as_deref(), Some(""));
    }

    /// As filters that run at RCPT and before DATA see it.
    #[test]
    fn an_envelope_alone_is_no_message() {
        let (envelope, _) = SPOOL.split_once("<<MAIL").unwrap();
        let (message, envelope) = spooled(Content::Bytes(envelope.into()));
        assert_eq!(envelope.from.as_deref(), Some("a@ext.test"));
        assert_eq!(envelope.recipients.len(), 2);
        assert!(!message.exists() && message.is_whole());
        assert_eq!((message.size(), message.start()), (0, 0));
        assert_eq!(message.headers().unwrap(), b"");
    }

    #[test]
    fn what_is_no_spool_file_is_refused() {
        let long = format!("MAIL FROM:<a@b>\r\n{}", "x".repeat(HEAD_BYTES_MAX));
        let recipients = "RCPT TO:<somebody@xmailserver.test>\r\n".repeat(2_000);
        let crowded = SPOOL.replace("rcpt to:", &format!("{recipients}rcpt to:"));
        for (bytes, reason) in [
            ("Subject: hi\r\n\r\n", "it has no line <<MAIL-DATA>>"),
            ("", "it has no line <<MAIL-DATA>>"),
            ("<<MAIL-DATA>>", "ends in the middle of its line"),
            (
                "MAIL FROM:<a@b>\r\n<<MAIL-DATA>>",
                "ends in the middle of its line",
            ),
            (
                long.as_str(),
                "is not in its first 65536 bytes, the most that may",
            ),
            (
                crowded.as_str(),
                "is not in its first 65536 bytes, the most that may",
            ),
        ] {
            let content = Content::Bytes(bytes.into());
            let error = Message::new(content, 0, Format::XmailSpool).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn a_file_is_read_by_position() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        std::fs::write(&path, SPOOL).unwrap();
        let mut file = File::open(&path).unwrap();
        // As after the caller has read it.
        io::Seek::seek(&mut file, io::SeekFrom::End(0)).unwrap();
        let (message, _) = spooled(Content::File(file));
        assert_eq!(message.size(), 28);
        // Half of one that becomes shorter is not taken for all of it.
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(10)
            .unwrap();
        let torn = io::ErrorKind::UnexpectedEof;
        assert_eq!(message.read().unwrap_err().kind(), torn);
        assert_eq!(message.headers().unwrap_err().kind(), torn);
        let folder = File::open(folder.path()).unwrap();
        assert!(Message::new(Content::File(folder), 0, Format::Message).is_err());
    }

    #[test]
    fn a_beginning_is_not_the_whole() {
        let content = Content::Bytes(b"a: b\n\nbo".to_vec());
        let (mut message, _) = Message::new(content, 10, Format::Message).unwrap();
        assert!(!message.is_whole());
        assert_eq!(message.size(), 10);
        let room = std::sync::Arc::new(());
        message.complete(Content::Bytes(b"a: b\n\nbody".to_vec()), room.clone());
        assert!(message.is_whole());
        assert_eq!(message.read().unwrap(), b"a: b\n\nbody");
        assert_eq!(std::sync::Arc::strong_count(&room), 2);
        drop(message);
        assert_eq!(std::sync::Arc::strong_count(&room), 1);
    }
}
