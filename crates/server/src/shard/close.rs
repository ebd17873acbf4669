//! The ends of connections.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use stentor_hub::LinkId;
use stentor_session::{CloseReason, Flush, Output, Remote, Timer};

use super::Shard;
use super::Stage;
use super::flush::{Broken, write_batch};
use super::link::{Link, LinkKey, Phase, Reading};
use super::pace::{Part, READ_TIME};

/// How long a peer may take to read its farewell and close its side.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// The same while the server stops.
pub(super) const STOP_TIME: Duration = Duration::from_millis(500);

/// How many reads are thrown away in the meantime: more than fits the socket's buffers is on
/// purpose.
const DRAIN_READS: u8 = 100;

/// What a farewell gathers at a time.
const FAREWELL_BYTES: usize = 256 * 1024;

/// A farewell of more bytes keeps the place of its connection until it is written: else there
/// would be more queues than connections are allowed.
const LIGHT_BYTES: u64 = 16 * 1024;

/// What waits to be written.
fn bytes_of(farewell: &Output) -> u64 {
    farewell.bytes() as u64
}

impl Shard {
    /// Parts with what the hub has disconnected: with all of it in the same turn, for a link that
    /// is named here may be another's later.
    pub(super) fn close_all(&mut self) {
        let mut closing = std::mem::take(&mut self.hub.effects().closing);
        for closing in closing.drain(..) {
            match closing.reason {
                // It is not there to be told anything.
                CloseReason::Remote(Remote::Closed | Remote::Reset) => {
                    self.hub.recycle(closing.farewell);
                    self.bury(closing.link.0);
                }
                _ => self.part(closing.link.0, Some(closing.farewell)),
            }
        }
        let effects = self.hub.effects();
        if effects.closing.is_empty() {
            effects.closing = closing;
        }
    }

    /// A connection that cannot be written to is over. The work that follows (a will, messages
    /// to others) may be large, and many connections may end at once.
    pub(super) fn end_later(&mut self, index: u32) {
        let key = self.link_key(index);
        self.broken.push_back(key);
    }

    /// Ends the connections that could not be written to, as far as the turn has time. What their
    /// clients sent last is read first: a DISCONNECT may be there.
    pub(super) fn end_broken(&mut self) {
        if self.broken.is_empty() {
            return;
        }
        let mut part = Part::begin(&self.hub, self.now, READ_TIME);
        while let Some(key) = self.broken.pop_front() {
            self.end(key);
            if part.is_over(&self.hub, &self.backplane.clock) {
                break;
            }
        }
    }

    fn end(&mut self, key: LinkKey) {
        if self.link_named(key).is_some() {
            self.read_now(key.index);
        }
        if self.link_named(key).is_some() {
            self.lost(key.index, Remote::Reset);
        }
    }

    /// The link of that name, if it is there still.
    pub(super) fn link_named(&mut self, key: LinkKey) -> Option<&mut Link> {
        let link = self.links.get_mut(key.index as usize)?;
        (link.serial == key.serial && !matches!(link.phase, Phase::Gone)).then_some(link)
    }

    /// The peer is gone.
    pub(super) fn lost(&mut self, index: u32, how: Remote) {
        if let Some(key) = self
            .links
            .get(index as usize)
            .and_then(|link| link.session())
        {
            self.hub
                .disconnected(self.now, key, LinkId(index), CloseReason::Remote(how));
            self.forward();
        }
        self.bury(index);
    }

    /// Gives a slot free at the end of this turn.
    pub(super) fn bury(&mut self, index: u32) {
        if let Some(link) = self.links.get_mut(index as usize)
            && !matches!(link.phase, Phase::Gone)
        {
            if let Phase::Draining { farewell, .. } = &link.phase {
                self.figures.draining -= farewell.as_deref().map_or(0, bytes_of);
            }
            let serial = link.serial;
            let key = LinkKey { index, serial };
            self.exchanges.remove(&key);
            self.askers.remove(&key);
            link.phase = Phase::Gone;
            link.tail.clear();
            self.gone.push(index);
            self.weigh(index);
        }
    }

    /// Parts with a connection: writes the farewell as far as the socket takes it, closes this
    /// side, and gives the peer a moment to read it all and close its own.
    pub(super) fn part(&mut self, index: u32, farewell: Option<Box<Output>>) {
        let Some(link) = self.links.get_mut(index as usize) else {
            return;
        };
        if matches!(link.phase, Phase::Draining { .. } | Phase::Gone) {
            return;
        }
        link.tail.clear();
        let farewell = farewell.unwrap_or_default();
        let bytes = bytes_of(&farewell);
        self.figures.draining += bytes;
        if bytes <= LIGHT_BYTES {
            // Its place is free for another: what is left is only politeness.
            link.permit = None;
        }
        let farewell = Some(farewell);
        link.phase = Phase::Draining {
            farewell,
            reads_left: DRAIN_READS,
        };
        let deadline = match self.stage {
            Stage::Serving => self.now.after(DRAIN_TIME),
            Stage::Stopping(deadline) => deadline,
        };
        self.timers.insert(
            deadline,
            LinkKey {
                index,
                serial: link.serial,
            },
        );
        self.drain(index);
        self.weigh(index);
    }

    /// Goes on writing a farewell; when all of it is written, closes this side.
    pub(super) fn drain(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else {
            return;
        };
        let Phase::Draining { farewell, .. } = &mut link.phase else {
            return;
        };
        let Some(mut output) = farewell.take() else {
            return;
        };
        // Until it is put back.
        self.figures.draining -= bytes_of(&output);
        let is_plain = link.transport.is_plain();
        loop {
            if !is_plain && !link.transport.pending().is_empty() {
                match super::flush::write(link.fd.as_fd(), link.transport.pending()) {
                    Ok(written) => link.transport.forget(written),
                    Err(Broken) => return self.bury(index),
                }
                if !link.transport.pending().is_empty() {
                    self.figures.draining += bytes_of(&output);
                    *farewell = Some(output);
                    return;
                }
            }
            if output.is_empty() {
                break;
            }
            output.gather(self.now, None, FAREWELL_BYTES, &mut self.batch);
            let written = if is_plain {
                match write_batch(link.fd.as_fd(), &self.batch) {
                    Ok(written) => written,
                    Err(Broken) => return self.bury(index),
                }
            } else {
                link.transport.send(&self.batch);
                self.batch.len()
            };
            self.figures.bytes_sent += written as u64;
            if output.written(&mut self.batch, written) == Flush::Blocked {
                self.figures.draining += bytes_of(&output);
                *farewell = Some(output);
                return;
            }
        }
        self.hub.recycle(output);
        self.finish_writing(index);
    }

    /// Closes this side of a connection whose farewell is written.
    fn finish_writing(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else {
            return;
        };
        link.permit = None;
        link.transport.close();
        // Nothing depends on the closing alert, so it may be lost when there is no room.
        let _ = super::flush::write(link.fd.as_fd(), link.transport.pending());
        link.transport.forget(link.transport.pending().len());
        if shutdown(link.fd.as_raw_fd(), Shutdown::Write).is_err() {
            return self.bury(index);
        }
        if let Stage::Stopping(_) = self.stage {
            // It has its farewell: a server that stops does not wait long for it to be read.
            let key = LinkKey {
                index,
                serial: link.serial,
            };
            self.timers.insert(self.now.after(STOP_TIME), key);
        }
        self.list(index);
    }

    /// Throws away what a leaving peer still sends, within bounds.
    pub(super) fn discard(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else {
            return;
        };
        if let Phase::Draining { reads_left, .. } = &mut link.phase {
            *reads_left = reads_left.saturating_sub(1);
            if *reads_left == 0 {
                self.bury(index);
            }
        }
    }

    /// The time of a connection is over: for logging in, for authenticating again, or for closing.
    pub(super) fn expire(&mut self, key: LinkKey) {
        let now = self.now;
        let Some(link) = self.link_named(key) else {
            return;
        };
        match &link.phase {
            // Its time runs from the moment that the client is asked for something.
            Phase::Authenticating(_) => {}
            Phase::ExpectAuth(waiting) if waiting.deadline > now => {}
            Phase::ExpectConnect(_) | Phase::ExpectAuth(_) => {
                let reason = CloseReason::Timeout(Timer::Login);
                self.note_refusal(key.index, (None, ""), reason);
                self.bury(key.index);
            }
            Phase::Draining { .. } => self.bury(key.index),
            Phase::Live(session) => {
                let (session, link_is_paused) = (*session, link.reading == Reading::Paused);
                if !self.expire_exchange(key, session) && link_is_paused {
                    // There may be many of them: they take their turn.
                    self.resumed.push(key.index);
                }
            }
            Phase::Gone => {}
        }
    }
}
