//! The ends of connections.

use std::sync::atomic::Ordering;
use std::time::Duration;

use stentor_hub::LinkId;
use stentor_session::{CloseReason, Remote, Timer};

use super::Shard;
use super::leave::bytes_of;
use super::link::{Link, LinkKey, Phase, Reading};
use super::pace::{Part, READ_TIME};
use super::tell::Applicant;

/// When a turn stops closing descriptors, from its beginning. To close a socket whose peer has not
/// read everything takes ten microseconds and more.
const FREE_TIME: Duration = Duration::from_millis(3);

/// Connections whose descriptors are closed in one turn: each takes some microseconds at most.
const FREED_MAX: usize = 256;

impl Shard {
    /// Parts with what the hub has disconnected: with all of it in the same turn, for a link that
    /// is named here may be another's later.
    pub(super) fn close_all(&mut self) {
        let mut closing = std::mem::take(&mut self.hub.effects().closing);
        for closing in closing.drain(..) {
            match closing.reason {
                // It is not there to be told anything.
                CloseReason::Remote(Remote::Closed | Remote::Reset) => {
                    self.hub.recycle(closing.final_output);
                    self.bury(closing.link.0);
                }
                // What it would be told, and why it is closed, is not written down yet.
                _ if self.is_unwritten(closing.link.0) => {
                    self.hub.recycle(closing.final_output);
                    self.part(closing.link.0, None);
                }
                _ => self.part(closing.link.0, Some(closing.final_output)),
            }
        }
        let effects = self.hub.effects();
        if effects.closing.is_empty() {
            effects.closing = closing;
        }
    }

    /// Frees the slots of closed connections, up to [`FREED_MAX`] of them and as far as the turn
    /// has time.
    pub(super) fn free(&mut self) {
        if self.gone.is_empty() {
            return;
        }
        let now = self.context.clock.now();
        let mut part = Part::short(&self.hub, self.now, now, FREE_TIME);
        let mut gone = std::mem::take(&mut self.gone);
        let mut done = 0;
        for &index in gone.iter().take(FREED_MAX) {
            done += 1;
            // Closing the descriptor takes it out of the poll.
            if self.take_out(index).is_some() {
                self.context.shards[self.id]
                    .load
                    .fetch_sub(1, Ordering::Relaxed);
            }
            if part.is_over(&self.hub, &self.context.clock) {
                break;
            }
        }
        gone.drain(..done);
        self.gone = gone;
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
        let mut part = self.begin_part(READ_TIME);
        while let Some(key) = self.broken.pop_front() {
            self.end(key);
            if part.is_over(&self.hub, &self.context.clock) {
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
        let link = self.links.get_mut(key.index)?;
        (link.serial == key.serial && !matches!(link.phase, Phase::Gone)).then_some(link)
    }

    /// The peer is gone.
    pub(super) fn lost(&mut self, index: u32, how: Remote) {
        if let Some(key) = self.links.get(index).and_then(|link| link.session()) {
            self.hub
                .disconnected(self.now, key, LinkId(index), CloseReason::Remote(how));
            self.forward();
        }
        self.bury(index);
    }

    /// Gives a slot free at the end of this turn.
    pub(super) fn bury(&mut self, index: u32) {
        if let Some(link) = self.links.get_mut(index)
            && !matches!(link.phase, Phase::Gone)
        {
            let serial = link.serial;
            let key = LinkKey { index, serial };
            self.exchanges.remove(&key);
            self.askers.remove(&key);
            link.tail.clear();
            // Another may have its place at once.
            link.permit = None;
            let phase = std::mem::replace(&mut link.phase, Phase::Gone);
            if let Phase::Draining(leaving) = phase
                && let Some(final_output) = leaving.final_output
            {
                self.figures.draining -= bytes_of(&final_output);
                // It may have very many messages, and many connections may end at once.
                self.hub.recycle(final_output);
            }
            self.gone.push(index);
            self.weigh(index);
        }
    }

    /// The time of a connection is over: for logging in, for authenticating again, or for closing.
    pub(super) fn expire(&mut self, key: LinkKey) {
        let now = self.now;
        let Some(link) = self.link_named(key) else {
            return;
        };
        if !link.phase.is_over(now) {
            return;
        }
        match &link.phase {
            Phase::Authenticating(_) | Phase::Gone => {}
            Phase::ExpectConnect(_) | Phase::ExpectAuth(_) => {
                let reason = CloseReason::Timeout(Timer::Login);
                self.note_refusal(key.index, Applicant::default(), reason);
                self.bury(key.index);
            }
            Phase::Draining(_) => self.bury(key.index),
            Phase::Live(session) => {
                let (session, link_is_paused) = (*session, link.reading == Reading::Paused);
                if !self.expire_exchange(key, session) && link_is_paused {
                    // There may be many of them: they take their turn.
                    self.resumed.push(key.index);
                }
            }
        }
    }
}
