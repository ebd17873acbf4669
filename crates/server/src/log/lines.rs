//! Lines on their way to standard error.
//!
//! The reader of the log may be slow or stand still: a paused pager, a full disk behind a pipe. No
//! thread of the server waits for that. Lines go into a bounded queue, and a thread of its own
//! writes them; what finds no room, there or on the disk, is dropped and counted, and the next line
//! says so.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, warn};
use tracing_subscriber::fmt::MakeWriter;

/// Bytes of lines that wait at most.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Bytes of lines that were written and are kept for those who ask.
const TAIL_BYTES_MAX: usize = 256 << 10;

/// The queue of the process, as there is one standard error.
pub(super) static LINES: Lines = Lines::new();

/// A queue of lines.
pub(super) struct Lines {
    state: Mutex<State>,
    /// Something waits to be written.
    filled: Condvar,
    /// Everything is written.
    emptied: Condvar,
    tail: Mutex<Tail>,
}

/// The last lines that were written.
struct Tail {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Tail {
    /// Keeps a line; the oldest ones make room.
    fn keep(&mut self, line: Box<[u8]>) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > TAIL_BYTES_MAX
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }
}

struct State {
    writer: Writer,
    waiting: VecDeque<Box<[u8]>>,
    waiting_bytes: usize,
    dropped: u64,
    /// Those who wait until everything is written.
    settling: u32,
}

/// What becomes of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// There is no thread yet: whoever logs writes it.
    Caller,
    /// The thread waits for lines.
    Idle,
    /// The thread is writing lines that it has taken from the queue.
    Busy,
}

impl Lines {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                writer: Writer::Caller,
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                dropped: 0,
                settling: 0,
            }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            tail: Mutex::new(Tail {
                lines: VecDeque::new(),
                bytes: 0,
            }),
        }
    }

    /// The last lines that were handed to whoever reads the log, at most this many, the oldest
    /// first. Lines from before there was a thread are not among them.
    pub(super) fn tail(&self, at_most: usize) -> Vec<String> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let first = tail.lines.len().saturating_sub(at_most);
        let lines = tail.lines.range(first..);
        lines
            .map(|line| String::from_utf8_lossy(line).trim_end().to_owned())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line, or drops and counts it. Waits for the reader of the log only before
    /// [`Self::write_to`] runs.
    fn push(&self, line: &[u8], mut direct: impl Write) {
        let mut state = self.lock();
        if state.writer == Writer::Caller {
            drop(state);
            // There is nobody to tell that standard error is gone.
            let _ = direct.write_all(line);
            return;
        }
        if state.waiting_bytes + line.len() > WAITING_BYTES_MAX {
            state.dropped += 1;
            return;
        }
        state.waiting_bytes += line.len();
        state.waiting.push_back(line.into());
        let is_awaited = state.writer == Writer::Idle && state.waiting.len() == 1;
        drop(state);
        // Nobody is woken for nothing: it costs more than the line.
        if is_awaited {
            self.filled.notify_one();
        }
    }

    /// From now on lines are queued; called before the thread that runs [`Self::write_to`] starts.
    pub(super) fn hand_over(&self) {
        self.lock().writer = Writer::Idle;
    }

    /// Writes what is queued to `out` as long as the process lives.
    pub(super) fn write_to(&self, out: impl Write) -> ! {
        let mut out = Out::new(out);
        loop {
            let (lines, dropped) = self.take();
            // The queue has just been emptied, so that this finds room in it: behind the lines that
            // were there when others were dropped, and before those that came later.
            if dropped > 0 {
                warn!(
                    dropped,
                    "lines are missing from this log: it is read too slowly"
                );
            }
            for line in lines {
                let dropped = out.write(&line);
                if dropped > 0 {
                    warn!(
                        dropped,
                        "lines are missing from this log: it could not be written"
                    );
                }
                let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
                tail.keep(line);
            }
        }
    }

    /// Waits for lines, and takes all that wait with the number of those that found no room.
    fn take(&self) -> (VecDeque<Box<[u8]>>, u64) {
        let mut state = self.lock();
        state.writer = Writer::Idle;
        if state.settling > 0 {
            self.emptied.notify_all();
        }
        while state.waiting.is_empty() {
            state = match self.filled.wait(state) {
                Ok(state) => state,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
        state.writer = Writer::Busy;
        state.waiting_bytes = 0;
        let dropped = std::mem::take(&mut state.dropped);
        (std::mem::take(&mut state.waiting), dropped)
    }

    /// Waits until all lines are written, at most `time`.
    pub(super) fn settle(&self, time: Duration) {
        let unwritten =
            |state: &mut State| state.writer == Writer::Busy || !state.waiting.is_empty();
        let mut state = self.lock();
        state.settling += 1;
        let waited = self.emptied.wait_timeout_while(state, time, unwritten);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.settling -= 1;
    }
}

/// Where lines go, and what became of them there.
struct Out<W> {
    out: W,
    /// Half a line is the last that was written.
    is_torn: bool,
    dropped: u64,
}

impl<W: Write> Out<W> {
    const fn new(out: W) -> Self {
        Self {
            out,
            is_torn: false,
            dropped: 0,
        }
    }

    /// Writes a line; if that succeeds, returns how many before it were not written.
    fn write(&mut self, line: &[u8]) -> u64 {
        // A disk that was full: what follows half a line must not be read as its rest.
        if self.is_torn && self.put(b"\n") {
            self.is_torn = false;
        }
        if self.is_torn || !self.put(line) {
            self.dropped += 1;
            return 0;
        }
        std::mem::take(&mut self.dropped)
    }

    /// Whether all of it was written.
    fn put(&mut self, bytes: &[u8]) -> bool {
        let mut written = 0;
        while written < bytes.len() {
            match self.out.write(&bytes[written..]) {
                Ok(more) if more > 0 => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.is_torn |= written > 0;
                    return false;
                }
            }
        }
        true
    }
}

/// Writes one line into [`LINES`], perhaps with its priority in front.
pub(super) struct Line {
    /// What systemd's journal takes for the priority of a line, as sd-daemon(3) has it.
    priority: Option<&'static str>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.priority {
            None => LINES.push(bytes, io::stderr()),
            Some(priority) => LINES.push(&with_priority(priority, bytes), io::stderr()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The text with the priority before each of its lines: the journal takes them apart.
fn with_priority(priority: &str, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + priority.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        out.extend(priority.as_bytes());
        out.extend(line);
    }
    out
}

/// Writes lines into [`LINES`].
pub(super) struct Lined {
    /// Whether each is to begin with its priority, for systemd's journal.
    pub(super) has_priority: bool,
}

impl<'a> MakeWriter<'a> for Lined {
    type Writer = Line;

    fn make_writer(&'a self) -> Self::Writer {
        Line { priority: None }
    }

    fn make_writer_for(&'a self, line: &tracing::Metadata<'_>) -> Self::Writer {
        let priority = match *line.level() {
            Level::ERROR => "<3>",
            Level::WARN => "<4>",
            Level::INFO => "<6>",
            Level::DEBUG | Level::TRACE => "<7>",
        };
        let priority = self.has_priority.then_some(priority);
        Line { priority }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes a line only when it is told to.
    struct Slow(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The test ends when the other side is gone.
            let _ = self.0.recv();
            let _ = self.1.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_by_the_caller_until_there_is_a_thread() {
        let lines = Lines::new();
        let mut out = Vec::new();
        lines.push(b"early\n", &mut out);
        lines.hand_over();
        lines.push(b"late\n", &mut out);
        assert_eq!(out, b"early\n");
        assert_eq!(lines.take().0, [Box::from(*b"late\n")]);
    }

    #[test]
    fn each_line_of_a_text_gets_the_priority() {
        let text = with_priority("<4>", b"WARN one\ntwo\n");
        assert_eq!(text, b"<4>WARN one\n<4>two\n");
    }

    /// A disk with so much room.
    struct Full(Vec<u8>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.1);
            if len == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1 -= len;
            self.0.extend(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_disk_did_not_take_is_counted_and_no_line_is_glued_to_half_of_another() {
        let mut out = Out::new(Full(Vec::new(), 10));
        assert_eq!(out.write(b"one\n"), 0);
        for lost in [b"two two\n", b"three 3\n"] {
            assert_eq!(out.write(lost), 0);
        }
        out.out.1 = 100;
        assert_eq!(out.write(b"four\n"), 2);
        assert_eq!(out.write(b"five\n"), 0);
        assert_eq!(out.out.0, b"one\ntwo tw\nfour\nfive\n");
    }

    #[test]
    fn a_reader_that_stands_still_costs_lines_and_no_time() {
        let lines = Arc::new(Lines::new());
        lines.hand_over();
        let line = vec![b'x'; WAITING_BYTES_MAX / 4];
        for _ in 0..4 {
            lines.push(&line, io::sink());
        }
        lines.push(b"one too many\n", io::sink());
        assert_eq!(lines.lock().dropped, 1);
        let ((go, gone), (written, read)) = (channel(), channel());
        let writer = Arc::clone(&lines);
        std::thread::spawn(move || writer.write_to(Slow(gone, written)));
        lines.settle(Duration::ZERO);
        for _ in 0..4 {
            go.send(()).expect("the writer waits");
            assert_eq!(read.recv().expect("a line").len(), line.len());
        }
        lines.settle(Duration::MAX);
        assert!(lines.lock().waiting.is_empty());
    }
}
