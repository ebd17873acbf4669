//! Output to connections: one write for each that has any, per turn.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use nix::sys::uio::writev;
use socket2::SockRef;
use stentor_hub::SessionKey;
use stentor_hub::output::{has_bulk, transmit_released};
use stentor_session::{Batch, Flush, Tick};

use super::backlog::{BULK_TIME_MIN, CROWD_TIME_MIN, Fill, WRITE_TIME, WRITE_TIME_MIN};
use super::link::{Link, Phase, Reading};
use super::{Shard, Stage};

/// Pieces handed to one vectored write.
const PIECES: usize = 64;

/// What the kernel may hold unsent for a client whose messages newer ones may replace.
const CONFLATING_BYTES: u32 = 8 * 1024;

/// One flush in this many is timed.
const SAMPLE: u64 = 8;

/// What a write came to: how many bytes went, or that the connection is broken.
type Written = Result<usize, Broken>;

/// The connection is of no use any more.
#[derive(Debug)]
pub(super) struct Broken;

/// Writes some bytes; fewer, or none, when the socket is full.
pub(super) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Written {
    loop {
        match send(fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
            Ok(written) => return Ok(written),
            Err(Errno::EINTR) => {}
            // ENOBUFS and ENOMEM pass; whatever else it is does not.
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => return Ok(0),
            Err(_) => return Err(Broken),
        }
    }
}

/// Writes a batch: with a plain `send` when it lies in one piece.
#[inline]
pub(super) fn write_batch(fd: BorrowedFd<'_>, batch: &Batch) -> Written {
    match batch.as_contiguous() {
        Some([]) => Ok(0),
        Some(bytes) => write(fd, bytes),
        None => write_pieces(fd, batch),
    }
}

fn write_pieces(fd: BorrowedFd<'_>, batch: &Batch) -> Written {
    let mut pieces = batch.slices().filter(|piece| !piece.is_empty());
    let mut total = 0;
    loop {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        let mut len = 0;
        for (place, piece) in slices.iter_mut().zip(pieces.by_ref()) {
            *place = IoSlice::new(piece);
            len += piece.len();
            count += 1;
        }
        if count == 0 {
            return Ok(total);
        }
        match writev(fd, &slices[..count]) {
            Ok(written) => {
                total += written;
                if written < len {
                    return Ok(total);
                }
            }
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM | Errno::EINTR) => return Ok(total),
            Err(_) => return Err(Broken),
        }
    }
}

/// Writing in a turn, for as long as there is time. The clock is looked at only when enough was
/// written, as by [`super::pace::Part`].
pub(super) struct Writing {
    /// When it ends; known after the first look at the clock.
    until: Option<Tick>,
    /// When it ends at the earliest.
    earliest: Tick,
    /// What it gets in any case, from the first look.
    least: Duration,
    /// What had been written at the last look.
    flushes: u64,
    bytes: u64,
}

impl Writing {
    /// The flushes and the bytes after which the clock is looked at.
    const FLUSHES: u64 = 16;
    pub(super) const BYTES: u64 = 64 * 1024;

    /// Writing that ends at this time of the turn, but gets the least of time.
    pub(super) fn begin(shard: &Shard, time: Duration, least: Duration) -> Self {
        let (flushes, bytes) = Self::written(shard);
        Self {
            until: None,
            earliest: shard.now.after(time),
            least,
            flushes,
            bytes,
        }
    }

    const fn written(shard: &Shard) -> (u64, u64) {
        let figures = &shard.figures;
        (figures.flushes + figures.final_outputs, figures.bytes_sent)
    }

    /// Whether the time is over, after another flush.
    #[inline]
    pub(super) fn is_over(&mut self, shard: &Shard) -> bool {
        let (flushes, bytes) = Self::written(shard);
        if flushes - self.flushes < Self::FLUSHES && bytes - self.bytes < Self::BYTES {
            return false;
        }
        (self.flushes, self.bytes) = (flushes, bytes);
        let now = shard.context.clock.now();
        let earliest = now.after(self.least).max(self.earliest);
        now >= *self.until.get_or_insert(earliest)
    }
}

impl Shard {
    /// Writes what transports have pending, then flushes each dirty session once, as far as the
    /// turn has time. The answers to a connection that has given way wait for its next share: see
    /// [`Reading::GaveWay`].
    pub(super) fn flush_all(&mut self) {
        self.write_all_pending();
        self.bound_buffers();
        self.flush_dirty();
        self.sort_out_crowd();
        if self.backlog_fills() {
            return;
        }
        self.flush_backlog();
        self.flush_bulk();
        self.backlog.end_turn();
    }

    /// The same in a turn that went on with connections: so how long it takes says how long the
    /// next turns go on.
    pub(super) fn flush_all_timed(&mut self) {
        let before = self.context.clock.now();
        self.flush_all();
        self.longer.note(self.context.clock.now().since(before));
    }

    /// Writes to those that have output, if they are few: they do not wait for connections that go
    /// on. If they are many, each should be written to once in a turn.
    pub(super) fn answer_few(&mut self) {
        /// A write takes some microseconds.
        const FEW: usize = 16;
        let holds_back = !self.policy.coalesce.is_zero();
        if self.hub.effects().dirty.len() <= FEW && !holds_back {
            self.flush_dirty();
        }
    }

    fn write_all_pending(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        for index in pending.drain(..) {
            self.write_pending(index);
        }
        self.pending = pending;
    }

    /// Whether a crowd is not written to, because more messages for it come in the next turn.
    fn backlog_fills(&mut self) -> bool {
        // Once it fills, it does so until all jobs are done: those behind the first one may serve
        // the same crowd.
        let goes_on = self.hub.turn().crowd_goes_on()
            || self.backlog.is_filling() && self.hub.turn().has_jobs();
        let goes_on = goes_on && self.stage == Stage::Serving;
        let handed = self.hub.turn().handed_over();
        let turn = Fill {
            since: self.now,
            reached: u64::from(handed.subscribers),
            bytes: handed.crowd_bytes,
        };
        self.backlog.fills(goes_on, turn)
    }

    /// Flushes the sessions that have got output by themselves, each once; those that a turn has
    /// no time for with the others, and bulk last.
    fn flush_dirty(&mut self) {
        std::mem::swap(&mut self.dirty, &mut self.hub.effects().dirty);
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut writing = Writing::begin(self, WRITE_TIME, WRITE_TIME_MIN);
        let mut is_over = false;
        for key in dirty.drain(..) {
            if self.waits_for_share(key) {
                self.hub.effects().dirty.push(key);
            } else if has_bulk(&self.hub, key) {
                self.backlog.push_bulk(key);
            } else if is_over || self.flush(key) == Flush::More {
                self.backlog.push(key);
            }
            is_over = is_over || writing.is_over(self);
        }
        self.dirty = dirty;
    }

    /// Sessions of a crowd are written to after the others.
    fn sort_out_crowd(&mut self) {
        for key in self.hub.effects().crowd.drain(..) {
            self.backlog.push(key);
        }
    }

    /// Flushes the others, each once, except bulk.
    fn flush_backlog(&mut self) {
        let mut writing = Writing::begin(self, WRITE_TIME, CROWD_TIME_MIN);
        let (sessions, _) = self.backlog.len();
        for _ in 0..sessions {
            let Some(key) = self.backlog.pop() else {
                break;
            };
            if has_bulk(&self.hub, key) {
                self.backlog.push_bulk(key);
            } else if self.flush(key) == Flush::More {
                self.backlog.push(key);
            }
            if writing.is_over(self) {
                break;
            }
        }
    }

    /// Flushes bulk: each session once, or more often to get a long packet through.
    fn flush_bulk(&mut self) {
        let (_, mut left) = self.backlog.len();
        if left == 0 {
            return;
        }
        let (beside_others, alone) = BULK_TIME_MIN;
        let has_others = self.figures.flushes > self.watch.flushes_before();
        let least = if has_others { beside_others } else { alone };
        let mut writing = Writing::begin(self, WRITE_TIME, least);
        while left > 0
            && let Some(key) = self.backlog.pop_bulk()
        {
            match self.flush(key) {
                Flush::More if self.batch.is_cut() => self.backlog.go_on_with(key),
                flush => {
                    left -= 1;
                    if flush == Flush::More {
                        self.backlog.push_bulk(key);
                    }
                }
            }
            if writing.is_over(self) {
                break;
            }
        }
    }

    /// Has the kernel hold little for those whose messages newer ones may replace.
    fn bound_buffers(&mut self) {
        while let Some(key) = self.hub.effects().conflating.pop() {
            let index = self.link_of.get(key.slot as usize).copied();
            let link = index.and_then(|index| self.links.get(index));
            if let Some(link) = link.filter(|link| link.session() == Some(key)) {
                // Unix sockets do not know it; then what is read is a little older.
                let _ = SockRef::from(&link.fd).set_tcp_notsent_lowat(CONFLATING_BYTES);
            }
        }
    }

    /// Flushes the session of a link now, if much waits for its socket. It stays in the list of
    /// those that are flushed at the end of the turn.
    pub(super) fn flush_laden(&mut self, index: u32) {
        /// Writes for one client before others are read.
        const WRITES: usize = 4;
        let link = self.links.get(index);
        let Some(key) = link.and_then(|link| link.session()) else {
            return;
        };
        for _ in 0..WRITES {
            if !self.hub.is_laden(key) || self.flush(key) != Flush::More {
                return;
            }
        }
    }

    /// Flushes the session of a link now, unless a few answers wait for its next share. It stays in
    /// the list of those that are flushed at the end of the turn.
    pub(super) fn flush_link(&mut self, index: u32) {
        let link = self.links.get(index);
        let key = link.and_then(|link| link.session());
        if let Some(key) = key.filter(|key| !self.waits_for_share(*key)) {
            self.flush(key);
        }
    }

    /// Writes what may leave to a client that is going to be parted with.
    pub(super) fn flush_last(&mut self, index: u32) {
        /// Some 64 KiB each.
        const WRITES: usize = 16;
        let Some(key) = self.links.get(index).and_then(Link::session) else {
            return;
        };
        for _ in 0..WRITES {
            if self.flush(key) != Flush::More {
                return;
            }
        }
    }

    pub(super) fn link_of(&self, key: SessionKey) -> u32 {
        let index = self.link_of.get(key.slot as usize);
        index.copied().unwrap_or(u32::MAX)
    }

    /// Whether nothing but a few answers waits for a connection that has given way.
    fn waits_for_share(&self, key: SessionKey) -> bool {
        let link = self.links.get(self.link_of(key));
        let gave_way = link
            .is_some_and(|link| link.reading == Reading::GaveWay && link.session() == Some(key));
        gave_way && self.hub.has_few_answers_only(key)
    }

    fn flush(&mut self, key: SessionKey) -> Flush {
        let index = self.link_of(key);
        let link = match self.links.get_mut(index) {
            Some(link) if link.session() == Some(key) => link,
            // Its connection was closed after it got output.
            _ => return Flush::Done,
        };
        let gathers = if self.unwritten.contains(key) {
            // It is listed again when more of it is written down.
            transmit_released(&mut self.hub, self.now, key, &mut self.batch)
        } else {
            self.hub.transmit(self.now, key, &mut self.batch)
        };
        if !gathers {
            // It was laden, and has been flushed already.
            return Flush::Done;
        }
        let (is_plain, peer) = (link.transport.is_plain(), link.peer);
        let written = if is_plain {
            write_batch(link.fd.as_fd(), &self.batch)
        } else if link.transport.pending().is_empty() {
            link.transport.send(&self.batch);
            Ok(self.batch.len())
        } else {
            // What was wrapped before goes out first.
            Ok(0)
        };
        let Ok(written) = written else {
            self.end_later(index);
            return self.hub.transmitted(self.now, key, &mut self.batch, 0);
        };
        self.figures.bytes_sent += written as u64;
        link.bytes.sent += written as u64;
        if self.taps.is_on() {
            self.taps.look(&self.hub, index, key, self.now, peer);
            self.taps.sent(index, self.now, &self.batch, written);
        }
        let flush = self
            .hub
            .transmitted(self.now, key, &mut self.batch, written);
        // What was held back may go now. That is written down before the next write.
        self.record(None);
        if !is_plain {
            self.write_pending(index);
        }
        self.sample_latency();
        flush
    }

    #[inline]
    fn sample_latency(&mut self) {
        self.figures.flushes += 1;
        if self.figures.flushes.is_multiple_of(SAMPLE)
            && let Some(oldest) = self.batch.oldest()
        {
            let latency = self.context.clock.now().since(oldest);
            // A latency of 584,000 years is none.
            self.figures
                .latency
                .record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// Writes what a transport has pending; goes on with its session when all is gone.
    pub(super) fn write_pending(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let pending = link.transport.pending();
        if pending.is_empty() || matches!(link.phase, Phase::Gone) {
            return;
        }
        match write(link.fd.as_fd(), pending) {
            Ok(written) => {
                link.transport.forget(written);
                if link.transport.pending().is_empty()
                    && let Some(key) = link.session()
                {
                    self.hub.writable(key);
                }
                self.weigh(index);
            }
            Err(Broken) => self.end_later(index),
        }
    }

    /// The poll says that a socket takes bytes again.
    pub(super) fn writable(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        if !link.transport.pending().is_empty() {
            self.write_pending(index);
        } else if let Some(key) = link.session() {
            self.hub.writable(key);
        }
        if let Some(link) = self.links.get(index)
            && matches!(&link.phase, Phase::Draining(leaving) if leaving.final_output.is_some())
        {
            self.leave_on(index);
        }
    }
}
