//! The last bytes of connections that the server has closed.
//!
//! Many connections may be closed in one turn, each with a full queue. So their final outputs are
//! written a piece at a time, as far as a turn has time, and the rest in later turns.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use stentor_session::{Batch, Flush, Output, Tick};

use super::flush::{Broken, Writing, write, write_batch};
use super::link::{Leaving, Link, LinkKey, Phase};
use super::{Shard, Stage};

/// How long a peer may take to read its final output and close its side.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// The same while the server stops.
pub(super) const STOP_TIME: Duration = Duration::from_millis(500);

/// How many reads are thrown away in the meantime: more than fits the socket's buffers is on
/// purpose.
const DRAIN_READS: u8 = 100;

/// What a final output gathers at a time, and what it writes of it if that has a long packet.
const FAREWELL_BYTES: usize = 64 * 1024;
const PIECE_BYTES: usize = 4 * FAREWELL_BYTES;

/// A final output of more bytes keeps the place of its connection until it is written: else there
/// would be more queues than connections are allowed.
const LIGHT_BYTES: u64 = 16 * 1024;

/// When a turn stops writing final outputs, from its beginning, and what they get in any case.
const LEAVE_TIME: Duration = Duration::from_millis(3);
const LEAVE_TIME_MIN: Duration = Duration::from_micros(500);

/// What it keeps in memory.
pub(super) fn bytes_of(final_output: &Output) -> u64 {
    final_output.memory() as u64
}

/// Writes a piece. Returns whether the socket is full, and how many bytes of the final output went.
fn write_piece(
    link: &mut Link,
    output: &mut Output,
    now: Tick,
    batch: &mut Batch,
) -> Result<(bool, usize), Broken> {
    if !link.transport.is_plain() && !link.transport.pending().is_empty() {
        // What was wrapped before goes out first.
        let written = write(link.fd.as_fd(), link.transport.pending())?;
        link.transport.forget(written);
        if !link.transport.pending().is_empty() {
            return Ok((true, 0));
        }
    }
    if output.is_empty() {
        return Ok((false, 0));
    }
    output.gather(now, None, FAREWELL_BYTES, batch);
    batch.cut(PIECE_BYTES);
    let written = if link.transport.is_plain() {
        write_batch(link.fd.as_fd(), batch)?
    } else {
        link.transport.send(batch);
        batch.len()
    };
    let is_blocked = output.written(batch, written) == Flush::Blocked;
    Ok((is_blocked, written))
}

impl Shard {
    /// Closes a connection: writes its final output as far as this and later turns have time, then
    /// closes this side. The peer has a moment to read it all and close its own.
    pub(super) fn part(&mut self, index: u32, final_output: Option<Box<Output>>) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        if matches!(link.phase, Phase::Draining(_) | Phase::Gone) {
            return;
        }
        link.tail.clear();
        let final_output = final_output.unwrap_or_default();
        let bytes = bytes_of(&final_output);
        self.figures.draining += bytes;
        if bytes <= LIGHT_BYTES {
            // Its place is free for another: what is left is only politeness.
            link.permit = None;
        }
        let until = match self.stage {
            Stage::Serving => self.now.after(DRAIN_TIME),
            Stage::Stopping(deadline) => deadline,
        };
        link.phase = Phase::Draining(Box::new(Leaving {
            final_output: Some(final_output),
            reads_left: DRAIN_READS,
            until,
        }));
        let serial = link.serial;
        let key = LinkKey { index, serial };
        self.timers.insert(until, key);
        self.leaving.push_back(key);
        self.weigh(index);
    }

    /// The socket of a connection takes more of its final output.
    pub(super) fn leave_on(&mut self, index: u32) {
        let key = self.link_key(index);
        self.leaving.push_back(key);
    }

    /// Goes on writing final outputs, a piece of each, as far as the turn has time.
    pub(super) fn write_final_outputs(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let mut writing = Writing::begin(self, LEAVE_TIME, LEAVE_TIME_MIN);
        for _ in 0..self.leaving.len() {
            let Some(key) = self.leaving.pop_front() else {
                break;
            };
            if self.link_named(key).is_none() {
                continue;
            }
            if self.drain(key.index) {
                self.leaving.push_back(key);
            }
            self.weigh(key.index);
            self.figures.final_outputs += 1;
            if writing.is_over(self) {
                break;
            }
        }
    }

    /// Writes a piece of a final output; when all of it is written, closes this side. Returns
    /// whether the socket may take more of it at once.
    fn drain(&mut self, index: u32) -> bool {
        let Some(link) = self.links.get_mut(index) else {
            return false;
        };
        let Phase::Draining(leaving) = &mut link.phase else {
            return false;
        };
        let Some(mut output) = leaving.final_output.take() else {
            return false;
        };
        // Until it is put back.
        self.figures.draining -= bytes_of(&output);
        let written = write_piece(link, &mut output, self.now, &mut self.batch);
        let (is_blocked, bytes) = match written {
            Ok(written) => written,
            Err(Broken) => {
                self.hub.recycle(output);
                self.bury(index);
                return false;
            }
        };
        self.figures.bytes_sent += bytes as u64;
        if output.is_empty() && link.transport.pending().is_empty() {
            self.hub.recycle(output);
            self.finish_writing(index);
            return false;
        }
        self.figures.draining += bytes_of(&output);
        if let Phase::Draining(leaving) = &mut link.phase {
            leaving.final_output = Some(output);
        }
        !is_blocked
    }

    /// Closes this side of a connection whose final output is written.
    fn finish_writing(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        link.permit = None;
        link.transport.close();
        // Nothing depends on the closing alert, so it may be lost when there is no room.
        let _ = write(link.fd.as_fd(), link.transport.pending());
        link.transport.forget(link.transport.pending().len());
        if shutdown(link.fd.as_raw_fd(), Shutdown::Write).is_err() {
            return self.bury(index);
        }
        if let Stage::Stopping(_) = self.stage {
            // It has its final output: a server that stops does not wait long for it to be read.
            self.hurry(index);
        }
        self.list(index);
    }

    /// Gives a connection that leaves no more time than one has whose server stops.
    pub(super) fn hurry(&mut self, index: u32) {
        let soon = self.now.after(STOP_TIME);
        if let Some(link) = self.links.get_mut(index)
            && let Phase::Draining(leaving) = &mut link.phase
        {
            leaving.until = soon.min(leaving.until);
            let serial = link.serial;
            self.timers.insert(soon, LinkKey { index, serial });
        }
    }

    /// Throws away what a leaving peer still sends, within bounds.
    pub(super) fn discard(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        if let Phase::Draining(leaving) = &mut link.phase {
            leaving.reads_left = leaving.reads_left.saturating_sub(1);
            if leaving.reads_left == 0 {
                self.bury(index);
            }
        }
    }
}
