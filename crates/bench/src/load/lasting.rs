//! Clients whose sessions last: they subscribe, leave, come back, and take what has waited.

mod peer;
mod publishing;

use std::io;
use std::time::Duration;

use mio::{Events, Poll};

use super::crowd::{self, Plan};
use crate::clock::{as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::link::Endpoint;
use crate::progress::Gauge;
use crate::sequence::Faults;
use crate::target::Running;
use crate::wire::{Lasts, Login, Version};

pub(crate) use peer::{Heard, Peer};
pub(crate) use publishing::{Published, Publishing, packet_id, push, until};

/// Gives up when nothing has come for this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Clients of a thread that are connected at once: below the 20,000 descriptors of a process, with
/// room for the connections of the batch before, which the kernel still closes.
const BATCH: usize = 5_000;
/// How often somebody looks whether nothing comes any more.
const LOOK: Duration = Duration::from_millis(100);

/// The server, and what tells this run from others.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    endpoint: Endpoint,
    login: Login,
    version: Version,
    /// Client ids and topics have it in them.
    run: String,
}

/// Clients that are numbered.
pub(crate) struct Group<'a> {
    /// What their client ids begin with.
    pub(crate) name: &'a str,
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) lasts: Lasts,
    /// The filter and QoS of the one with that number, if it subscribes.
    pub(crate) filter: &'a dyn Fn(usize) -> Option<(String, u8)>,
}

impl Place {
    pub(crate) fn of(running: &Running, version: Version, run: &str) -> Self {
        Self {
            endpoint: running.endpoint.clone(),
            login: running.login.clone(),
            version,
            run: run.to_owned(),
        }
    }

    /// A topic of this run.
    pub(crate) fn topic(&self, rest: impl std::fmt::Display) -> String {
        format!("bench/{}/{rest}", self.run)
    }

    pub(crate) const fn version(&self) -> Version {
        self.version
    }

    /// Connects and subscribes all of a group: token n of `poll` is its nth.
    ///
    /// # Errors
    /// If one of them did not come that far.
    pub(crate) fn open(&self, poll: &mut Poll, group: &Group<'_>) -> Result<Vec<Peer>, BenchError> {
        let number = |index| group.first + index;
        let crowd = crowd::open(
            poll,
            &Plan {
                endpoint: &self.endpoint,
                login: &self.login,
                version: self.version,
                count: group.count,
                first: group.first,
                at_once: 100,
                pace: None,
                patience: PATIENCE,
                client_id: &|index| format!("{}-{}-{}", group.name, self.run, number(index)),
                entry: None,
                filter: &|index| (group.filter)(number(index)),
                lasts: group.lasts,
                gauge: None,
                receive_buffer: None,
            },
        )?;
        let clients = crowd.complete()?;
        Ok(clients.into_iter().map(Peer::new).collect())
    }

    /// Makes sessions, and leaves them.
    ///
    /// # Errors
    /// If one of the clients did not get that far.
    pub(crate) fn subscribe_and_leave(
        &self,
        group: &Group<'_>,
        gauge: &Gauge,
    ) -> Result<(), BenchError> {
        for first in (0..group.count).step_by(BATCH) {
            let mut poll = Poll::new().doing("open a poll")?;
            let peers = self.open(&mut poll, &group.part(first))?;
            leave(&mut poll, peers)?;
            gauge.set(first + BATCH.min(group.count - first));
        }
        Ok(())
    }

    /// All of a group come back, in batches, take what waits for them, acknowledge it and leave.
    ///
    /// # Errors
    /// If a client could not connect, or lost its connection.
    pub(crate) fn serve(
        &self,
        group: &Group<'_>,
        waiting: &Waiting<'_>,
        gauge: &Gauge,
    ) -> Result<Served, BenchError> {
        let mut served = Served::default();
        for first in (0..group.count).step_by(BATCH) {
            let mut poll = Poll::new().doing("open a poll")?;
            let part = group.part(first);
            let peers = self.open(&mut poll, &part)?;
            served.absent += peers.iter().filter(|peer| !peer.was_present()).count() as u64;
            let mut drain = Drain::new(self.version, peers, &part, waiting);
            drain.run(&mut poll)?;
            served.received += drain.received;
            served.faults += drain.faults();
            leave(&mut poll, drain.peers)?;
            gauge.set(first + part.count);
        }
        Ok(served)
    }
}

impl<'a> Group<'a> {
    /// Those of a batch.
    fn part(&self, first: usize) -> Self {
        Group {
            first: self.first + first,
            count: BATCH.min(self.count - first),
            ..*self
        }
    }
}

/// Which messages wait for each session: numbers from the first one on, this far apart.
pub(crate) struct Waiting<'a> {
    pub(crate) first: &'a dyn Fn(usize) -> u64,
    pub(crate) step: u64,
    /// How many for the one with that number.
    pub(crate) count: &'a dyn Fn(usize) -> u64,
    /// Bytes of each.
    pub(crate) payload: usize,
}

/// What became of what has waited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    pub(crate) received: u64,
    pub(crate) faults: Faults,
    /// Clients whose session the server did not have any more.
    pub(crate) absent: u64,
}

/// How far one session is.
struct Track {
    next: u64,
    end: u64,
}

/// Sessions whose clients take what waits for them.
struct Drain {
    version: Version,
    payload: usize,
    step: u64,
    peers: Vec<Peer>,
    tracks: Vec<Track>,
    /// Sessions that lack something. Nothing is to be waited for where one is gone.
    incomplete: usize,
    received: u64,
    wrong: Faults,
}

impl Drain {
    fn new(version: Version, peers: Vec<Peer>, group: &Group<'_>, waiting: &Waiting<'_>) -> Self {
        let track = |index| {
            let number = group.first + index;
            let first = (waiting.first)(number);
            Track {
                next: first,
                end: first + (waiting.count)(number) * waiting.step,
            }
        };
        let tracks: Vec<Track> = (0..peers.len()).map(track).collect();
        Self {
            version,
            payload: waiting.payload,
            step: waiting.step,
            incomplete: (peers.iter().zip(&tracks))
                .filter(|(peer, track)| peer.was_present() && track.next < track.end)
                .count(),
            peers,
            tracks,
            received: 0,
            wrong: Faults::default(),
        }
    }

    /// Until all is there, or nothing comes any more.
    fn run(&mut self, poll: &mut Poll) -> Result<(), BenchError> {
        let mut scratch = vec![0; 256 * 1_024];
        let mut events = Events::with_capacity(1_024);
        for index in 0..self.peers.len() {
            self.read(index, &mut scratch)?;
        }
        let mut last_ns = now_ns();
        while self.incomplete > 0 && now_ns() - last_ns < as_ns(PATIENCE) {
            match poll.poll(&mut events, Some(LOOK)) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                result => result.doing("wait for messages")?,
            }
            let before = self.received;
            for event in &events {
                self.read(event.token().0, &mut scratch)?;
            }
            if self.received > before {
                last_ns = now_ns();
            }
        }
        Ok(())
    }

    fn read(&mut self, index: usize, scratch: &mut [u8]) -> Result<(), BenchError> {
        let (track, step, payload) = (&mut self.tracks[index], self.step, self.payload);
        let (wrong, was_complete) = (&mut self.wrong, track.next >= track.end);
        let mut received = 0;
        self.peers[index].receive(scratch, self.version, &mut |heard| {
            let Heard::Message { stamp, .. } = heard else {
                return;
            };
            received += 1;
            match stamp.filter(|stamp| stamp.fits(heard.payload(), payload)) {
                Some(stamp) => track.arrive(stamp.sequence, step, wrong),
                None => wrong.corrupt += 1,
            }
        })?;
        self.received += received;
        let is_complete = self.tracks[index].next >= self.tracks[index].end;
        if self.peers[index].was_present() && is_complete && !was_complete {
            self.incomplete -= 1;
        }
        Ok(())
    }

    /// What was wrong, and what has not come.
    fn faults(&self) -> Faults {
        let missing = |track: &Track| track.end.saturating_sub(track.next).div_ceil(self.step);
        let mut faults = self.wrong;
        faults.lost += self.tracks.iter().map(missing).sum::<u64>();
        faults
    }
}

impl Track {
    /// Messages come in order; what is left out is lost, unless it comes later: then it is counted
    /// as both.
    fn arrive(&mut self, sequence: u64, step: u64, wrong: &mut Faults) {
        if sequence >= self.end || !sequence.abs_diff(self.next).is_multiple_of(step) {
            wrong.corrupt += 1;
        } else if sequence < self.next {
            wrong.duplicated += 1;
        } else {
            wrong.lost += (sequence - self.next) / step;
            self.next = sequence + step;
        }
    }
}

/// All send DISCONNECT, and wait until the server has closed their connections: then it knows that
/// they are away, and has taken all that they have acknowledged.
pub(crate) fn leave(poll: &mut Poll, mut peers: Vec<Peer>) -> Result<(), BenchError> {
    let mut left = 0;
    let mut scratch = vec![0; 64 * 1_024];
    for peer in &mut peers {
        peer.disconnect()?;
        left += usize::from(!peer.is_closed(&mut scratch));
    }
    let mut events = Events::with_capacity(1_024);
    let mut last_ns = now_ns();
    while left > 0 {
        match poll.poll(&mut events, Some(LOOK)) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            result => result.doing("wait for the end of connections")?,
        }
        for event in &events {
            let peer = &mut peers[event.token().0];
            if !peer.has_ended() && peer.is_closed(&mut scratch) {
                left -= 1;
                last_ns = now_ns();
            }
        }
        if now_ns() - last_ns > as_ns(PATIENCE) {
            let text = format!("the server did not close {left} connections after DISCONNECT");
            return Err(BenchError::broken(text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_lost_and_what_comes_again_is_told() {
        let mut track = Track { next: 3, end: 33 };
        let mut wrong = Faults::default();
        for sequence in [3, 13, 13, 14, 23, 33] {
            track.arrive(sequence, 10, &mut wrong);
        }
        assert_eq!((track.next, wrong.lost), (33, 0));
        assert_eq!((wrong.duplicated, wrong.corrupt), (1, 2));
        let mut track = Track { next: 0, end: 9 };
        track.arrive(4, 1, &mut wrong);
        assert_eq!((track.next, wrong.lost), (5, 4));
    }
}
