//! Bytes from connections.

use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use stentor_hub::{Beside, LinkId, SessionKey};
use stentor_session::{CloseReason, Remote, Violation};

use super::flush::Writing;
use super::link::{Entrance, LONG_CONNECT, Link, Phase, Reading, Stream};
use super::pace::{Part, READ_TIME};
use super::scratch::HEADROOM;
use super::tell::Applicant;
use super::{Applying, Shard};
use crate::proxy::ProxyHeader;

/// What one read takes of TLS or WebSocket. It may hold 300 changes of a TLS key, of 6 µs each.
const WRAPPED_BYTES: usize = 8 * 1024;

/// Time of a turn that goes to TLS handshakes, at least and at most: one takes some 0.1 ms with an
/// elliptic curve, and most of a millisecond with an RSA key of 2,048 bits.
const HANDSHAKE_TIME: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(2));

/// The work of a read that costs little is less than this, and what the layers below MQTT take:
/// a turn has time for many of these.
const LIGHT_WORK: u64 = 256;
const LIGHT_TIME: Duration = Duration::from_micros(100);

/// After this many such reads, one after the other, the next one may be expected to be one too.
pub(super) const LIGHT_READS: u8 = 4;

/// Links with bytes to read.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Those of clients whose requests have cost little.
    first: Vec<u32>,
    /// Those of all other clients.
    last: Vec<u32>,
}

impl Rows {
    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_empty() && self.last.is_empty()
    }
}

impl Shard {
    /// Adds a link to those of its kind.
    pub(super) fn push_readable(&mut self, index: u32) {
        let link = self.links.get(index);
        if link.is_some_and(|link| link.light_reads < LIGHT_READS) {
            self.readable.last.push(index);
        } else {
            self.readable.first.push(index);
        }
    }

    /// Reads once from each listed link, as far as the turn has time. Returns whether it had.
    ///
    /// The clients whose requests have cost little come first: they do not wait for a row of others
    /// of which each has a long request. One of the others is read in any case.
    pub(super) fn read_all(&mut self) -> bool {
        if self.readable.is_empty() {
            self.shake_hands();
            return true;
        }
        let Rows {
            mut first,
            mut last,
        } = std::mem::take(&mut self.readable);
        let mut part = self.begin_reading();
        if self.backlog.is_behind() {
            part.take_little(&mut self.hub);
        }
        let (first_read, is_over) = self.read_each(&first, &mut part);
        let at_most = if is_over { 1 } else { last.len() };
        let (last_read, _) = self.read_each(&last[..at_most.min(last.len())], &mut part);
        let is_through = first_read == first.len() && last_read == last.len();
        first.drain(..first_read);
        last.drain(..last_read);
        self.shake_hands();
        // The links that have more were listed in the meantime; keep the larger allocations.
        first.append(&mut self.readable.first);
        last.append(&mut self.readable.last);
        self.readable = Rows { first, last };
        is_through
    }

    /// Reads once from each of these until the part is over. Returns to how many it came, and
    /// whether the part is over.
    fn read_each(&mut self, listed: &[u32], part: &mut Part) -> (usize, bool) {
        for (place, &index) in listed.iter().enumerate() {
            if self.is_usual(index) {
                self.read_noting(index, part);
            } else {
                self.read_unless_waiting(index, part);
            }
            if part.is_over(&self.hub, &self.context.clock) {
                return (place + 1, true);
            }
        }
        (listed.len(), false)
    }

    /// Whether nothing that [`Shard::read_unless_waiting`] asks for can be true of a link: asked
    /// for each one that is read, and true of most.
    fn is_usual(&self, index: u32) -> bool {
        let link = self.links.get(index);
        let is_live = |link: &Link| link.transport.is_plain() && link.session().is_some();
        link.is_some_and(is_live)
            && self.unwritten.is_empty()
            && !self.backlog.is_behind()
            && !self.hub.turn().is_spent()
            && !self.is_overladen()
    }

    fn read_unless_waiting(&mut self, index: u32, part: &mut Part) {
        let waits = self.waits(index) || self.is_behind(index) || self.waits_to_log_in(index);
        if waits || self.is_overladen() {
            self.push_readable(index);
        } else if self.is_held(index) {
            self.unwritten.hold(index);
        } else if self.stands_in_line(index) {
            self.stand_in_line(index);
        } else {
            if self.is_unmetered(index) {
                part.look_next();
            }
            self.read_noting(index, part);
        }
    }

    /// Reads from a link. If much was written in the meantime, the clock is looked at next.
    fn read_noting(&mut self, index: u32, part: &mut Part) {
        let sent_before = self.figures.bytes_sent;
        self.read(index);
        if self.figures.bytes_sent - sent_before >= Writing::BYTES {
            part.look_next();
        }
    }

    /// A part of this turn that begins now.
    pub(super) fn begin_part(&self, time: Duration) -> Part {
        let now = self.context.clock.now();
        Part::begin(&self.hub, self.now, now, time)
    }

    /// The part that reads. In a turn that has done nothing before, the clock was just looked at.
    fn begin_reading(&self) -> Part {
        let has_accepted = self.figures.accepted > self.watch.accepted_before();
        if self.hub.turn().work() > 0 || has_accepted {
            return self.begin_part(READ_TIME);
        }
        Part::begin(&self.hub, self.now, self.now, READ_TIME)
    }

    /// Reads from links whose TLS handshakes or long CONNECTs wait, for as long as a turn has time
    /// for them. The bytes of the others wait in their sockets.
    fn shake_hands(&mut self) {
        if self.strangers.line.is_empty() || self.is_overladen() {
            return;
        }
        let until = self.context.clock.now().after(self.handshake_time());
        while let Some(key) = self.strangers.line.pop() {
            if self.link_named(key).is_some() {
                self.read(key.index);
            }
            if self.context.clock.now() >= until {
                break;
            }
        }
    }

    /// A third of the turn, going by the last one: half as much as everything else gets. A fixed
    /// time would be little beside long turns, and a client that waits for 10 s gives up.
    fn handshake_time(&self) -> Duration {
        let (least, most) = HANDSHAKE_TIME;
        (self.watch.last_took() / 3).clamp(least, most)
    }

    /// Whether what is read of a link is not counted as work by the hub: layers below MQTT, or a
    /// CONNECT.
    pub(super) fn is_unmetered(&self, index: u32) -> bool {
        let link = self.links.get(index);
        link.is_some_and(|link| !link.transport.is_plain() || link.session().is_none())
    }

    /// Whether a link is read only when it is its turn among the new ones: its next step may take
    /// most of a millisecond.
    fn stands_in_line(&self, index: u32) -> bool {
        let link = self.links.get(index);
        link.is_some_and(|link| link.transport.is_handshaking() || link.has_long_connect())
    }

    /// Whether a link has no session yet, and far too much waits for other shards, or for the
    /// journal: what a client that comes has them told would be more.
    fn waits_to_log_in(&self, index: u32) -> bool {
        let link = self.links.get(index);
        self.is_overfull() && link.is_some_and(|link| link.session().is_none())
    }

    /// Whether a link has to wait for the next turn, because this one is spent and its client owes
    /// for work.
    pub(super) fn waits(&self, index: u32) -> bool {
        if !self.hub.turn().is_spent() {
            return false;
        }
        let key = self.links.get(index).and_then(Link::session);
        key.is_some_and(|key| self.hub.turn().waits(self.now, key))
    }

    /// Reads from a link whether it is listed or not, unless it has to wait.
    pub(super) fn read_now(&mut self, index: u32) {
        if let Some(link) = self.links.get_mut(index)
            && matches!(
                link.reading,
                Reading::Waiting | Reading::Missed | Reading::Listed
            )
        {
            link.reading = Reading::Listed;
            self.read(index);
        }
    }

    /// Remembers of a link whether what it has sent just now went to a crowd, and whether it cost
    /// little.
    fn note_read(&mut self, index: u32, is_light: bool) {
        let serves_crowd = self.hub.turn().has_served_crowd();
        if let Some(link) = self.links.get_mut(index) {
            link.serves_crowd = serves_crowd;
            link.light_reads = if is_light {
                link.light_reads.saturating_add(1).min(LIGHT_READS)
            } else {
                0
            };
        }
    }

    fn read(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        if link.reading != Reading::Listed {
            return;
        }
        link.reading = Reading::Waiting;
        if !link.phase.reads() {
            link.reading = Reading::Missed;
            return self.part_if_absent(index);
        }
        let is_plain = link.transport.is_plain();
        let is_first = matches!(link.phase, Phase::ExpectConnect(_)) && !link.has_long_connect();
        let space = match (is_plain, is_first) {
            (true, false) => self.scratch.space(),
            (true, true) => &mut self.scratch.space()[..LONG_CONNECT],
            (false, _) => &mut self.scratch.space()[..WRAPPED_BYTES],
        };
        let capacity = space.len();
        match recv(link.fd.as_raw_fd(), space, MsgFlags::empty()) {
            Ok(0) => self.has_ended(index),
            Ok(len) => {
                self.figures.bytes_received += len as u64;
                link.bytes.received += len as u64;
                // A short read means that the socket is empty: no need to ask again.
                let may_have_more = len == capacity || link.stream == Stream::Ended;
                let before = self.hub.turn().work();
                let layers = if is_plain {
                    self.take_in_order(index, len);
                    Duration::ZERO
                } else {
                    self.take_timed(index, len)
                };
                self.weigh(index);
                self.bound_long();
                let work = self.hub.turn().work().saturating_sub(before);
                self.note_read(index, work < LIGHT_WORK && layers < LIGHT_TIME);
                self.flush_laden(index);
                if may_have_more {
                    self.list(index);
                }
            }
            Err(Errno::EAGAIN) => {}
            Err(Errno::EINTR) => self.list(index),
            Err(_) => self.lost(index, Remote::Reset),
        }
    }

    /// Takes the bytes in the scratch buffer. What another shard announced before they were sent
    /// must be known before they are applied.
    fn take_in_order(&mut self, index: u32, len: usize) {
        if self.has_commands() {
            self.take_after_commands(index, len);
        } else {
            self.take(index, len);
        }
    }

    /// The same for a connection with layers below MQTT, which the hub does not count as work: the
    /// clock says what they take, and that is returned.
    fn take_timed(&mut self, index: u32, len: usize) -> Duration {
        let serial = self.links.get(index).map(|link| link.serial);
        let began = self.context.clock.now();
        self.take_in_order(index, len);
        let link = self.links.get(index);
        let link = link.filter(|link| Some(link.serial) == serial);
        let key = link.and_then(Link::session);
        let took = self.context.clock.now().since(began);
        self.hub.turn_mut().count_beside(Beside::Layers(key, took));
        took
    }

    /// Applies the commands that have come before the bytes in the scratch buffer are taken. One
    /// may need the buffer for another connection, so the bytes lie beside it in the meantime:
    /// nobody's may be taken for somebody else's.
    #[cold]
    fn take_after_commands(&mut self, index: u32, len: usize) {
        if !matches!(self.applying, Applying::Idle) {
            // This read is a part of that: commands that have come since must not overtake others.
            return self.take(index, len);
        }
        let bytes: Box<[u8]> = self.scratch.read(len).into();
        self.drain_commands();
        self.scratch.space()[..len].copy_from_slice(&bytes);
        self.take(index, len);
    }

    /// Takes the bytes that are in the scratch buffer.
    fn take(&mut self, index: u32, len: usize) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        if let Phase::Draining(_) = link.phase {
            return self.discard(index);
        }
        if let Phase::ExpectConnect(Entrance::Proxied) = link.phase {
            return self.expect_proxy_header(index, len);
        }
        if link.transport.is_plain() {
            match &link.phase {
                Phase::Live(key) => {
                    let key = *key;
                    self.apply_plain(index, key, len);
                }
                Phase::ExpectConnect(_) | Phase::Authenticating(_) | Phase::ExpectAuth(_) => {
                    link.tail.extend(self.scratch.read(len));
                    self.apply_tail(index);
                }
                Phase::Draining(_) | Phase::Gone => {}
            }
            return;
        }
        self.unwrap(index, len);
    }

    /// Takes bytes in the scratch buffer through the layers below MQTT.
    fn unwrap(&mut self, index: u32, len: usize) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let (input, unwrapped) = self.scratch.read_mut(len);
        unwrapped.clear();
        let received = link.transport.receive(input, unwrapped);
        if !link.transport.pending().is_empty() {
            self.pending.push(index);
        }
        let serial = link.serial;
        if !unwrapped.is_empty() {
            link.tail.extend(unwrapped);
            self.apply_tail(index);
        }
        // The connection may have gone home in the meantime; what is broken will show there too.
        if let Err(reason) = received
            && self
                .links
                .get(index)
                .is_some_and(|link| link.serial == serial)
        {
            self.broken(index, reason);
        }
    }

    /// Collects the header of a proxy, then goes on with what is behind it as the client's own.
    fn expect_proxy_header(&mut self, index: u32, len: usize) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        link.tail.extend(self.scratch.read(len));
        let rest = match ProxyHeader::read(link.tail.unread()) {
            Ok(None) => return,
            Ok(Some((header, consumed))) => {
                if let ProxyHeader::Client(address) = header {
                    link.peer = address.into();
                }
                link.tail.has_applied(consumed);
                std::mem::take(&mut link.tail)
            }
            Err(_) => {
                let reason = CloseReason::Violation(Violation::Proxy);
                self.note_refusal(index, Applicant::default(), reason);
                return self.bury(index);
            }
        };
        self.greet_again(index);
        if rest.is_empty() {
            return;
        }
        let link = &mut self.links[index];
        if link.transport.is_plain() {
            link.tail = rest;
            return self.apply_tail(index);
        }
        // No longer than what was just read into the same place.
        let rest = rest.unread();
        let len = rest.len();
        self.scratch.space()[..len].copy_from_slice(rest);
        self.unwrap(index, len);
    }

    /// Applies what was read from a plain connection, without copying it where it is whole.
    fn apply_plain(&mut self, index: u32, key: SessionKey, len: usize) {
        if !self.holds(index, key) {
            return;
        }
        let link = &mut self.links[index];
        if link.tail.unread().len() > HEADROOM {
            link.tail.extend(self.scratch.read(len));
            return self.apply_tail(index);
        }
        let (mut tail, peer) = (std::mem::take(&mut link.tail), link.peer);
        let input = self.scratch.joined(tail.unread(), len);
        let is_traced = self.taps.is_on();
        if is_traced {
            self.taps.look(&self.hub, index, key, self.now, peer);
        }
        let consumed = self.hub.receive(self.now, key, input);
        if is_traced {
            self.taps.received(index, self.now, &input[..consumed]);
        }
        if let Some(rest) = input.get(consumed..).filter(|rest| !rest.is_empty()) {
            tail.replace(rest);
            self.links[index].tail = tail;
        }
        self.after_receive(index);
    }

    /// Applies what has been collected of a connection.
    pub(super) fn apply_tail(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        match &link.phase {
            Phase::Live(key) => {
                let key = *key;
                if self.link_of.get(key.slot as usize) != Some(&index) {
                    return;
                }
                let is_traced = self.taps.is_on();
                if is_traced {
                    self.taps.look(&self.hub, index, key, self.now, link.peer);
                }
                let input = link.tail.unread();
                let consumed = self.hub.receive(self.now, key, input);
                if is_traced {
                    self.taps.received(index, self.now, &input[..consumed]);
                }
                link.tail.has_applied(consumed);
                self.after_receive(index);
            }
            Phase::ExpectConnect(_) => self.expect_connect(index),
            Phase::ExpectAuth(_) => self.expect_auth(index),
            Phase::Authenticating(_) => {}
            Phase::Draining(_) | Phase::Gone => link.tail.clear(),
        }
        self.weigh(index);
    }

    /// Whether a session's connection is this one: another may have taken it over in this turn,
    /// and what the old one sent must not count as the new one's.
    fn holds(&self, index: u32, key: SessionKey) -> bool {
        self.link_of.get(key.slot as usize) == Some(&index)
    }

    /// Sends on what the bytes of a link caused; if a shard cannot keep up, the link waits for it.
    fn after_receive(&mut self, index: u32) {
        let key = self.links.get(index).and_then(Link::session);
        if let Some(behind) = self.forward_for(key) {
            self.links[index].reading = Reading::Stalled;
            self.stalled[behind].push(index);
        }
        self.note_pauses();
    }

    /// The layers below MQTT failed.
    fn broken(&mut self, index: u32, reason: CloseReason) {
        match self.links.get(index).map(|link| link.session()) {
            Some(Some(key)) => {
                let link = LinkId(index);
                self.hub.disconnected(self.now, key, link, reason);
                self.forward();
            }
            Some(None) if reason != CloseReason::Remote(Remote::Closed) => {
                self.note_refusal(index, Applicant::default(), reason);
            }
            _ => {}
        }
        self.part(index, None);
    }
}
