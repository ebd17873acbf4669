//! Clients that write to themselves: each message in makes two out, the response to the sender and
//! the message to the receiver, on the same connection. Or, before an audience, to all of them.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::AddAssign;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, TimerSetTimeFlags};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};

use super::crowd::Client;
use super::histogram;
use super::source::Source;
use crate::clock::{SECOND_NS, now_ns};
use crate::error::{BenchError, Doing};
use crate::link::Link;
use crate::sequence::{Arrival, Checker, Faults};
use crate::stamp::Stamp;
use crate::wire::{self, Frame, Publish, PublishTemplate, Version};

/// How long answers to the last messages are waited for.
const GRACE_NS: u64 = 5 * SECOND_NS;
/// The alarm clock's place in the poll.
const ALARM: Token = Token(usize::MAX);
/// One read takes at most this much, some messages of one client, unless one message is larger.
const READ_BYTES: usize = 64 * 1_024;

/// When who writes: the clients take turns, evenly spread over the period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// When the first message is due.
    pub(crate) start_ns: u64,
    /// From here on, latency counts and messages are counted, until the end.
    pub(crate) from_ns: u64,
    /// Nothing is due from here on.
    pub(crate) end_ns: u64,
    /// Between two messages of one client.
    pub(crate) period_ns: u64,
    /// The number of the first client of all threads, and how many there are.
    pub(crate) first: usize,
    pub(crate) clients: usize,
}

impl Schedule {
    /// When the client with this number, counted over all threads, writes for the nth time.
    fn due_ns(&self, client: usize, round: u64) -> u64 {
        let client = client.saturating_sub(self.first);
        let within = self.period_ns as f64 * client as f64 / self.clients as f64;
        self.start_ns + round * self.period_ns + within as u64
    }

    fn is_measured(&self, at_ns: u64) -> bool {
        at_ns >= self.from_ns && at_ns < self.end_ns
    }
}

/// The client of a thread that writes next, and how often all of them have written.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    index: usize,
    round: u64,
}

/// The clients of all threads where each hears all: what was written, to be compared with what each
/// has heard.
#[derive(Debug)]
pub(crate) struct Audience {
    /// Messages of each client.
    written: Box<[AtomicU64]>,
    /// Threads that have more to write.
    writing: AtomicUsize,
}

impl Audience {
    /// This many clients on this many threads.
    pub(crate) fn new(clients: usize, threads: usize) -> Self {
        Self {
            written: (0..clients).map(|_| AtomicU64::new(0)).collect(),
            writing: AtomicUsize::new(threads),
        }
    }

    /// Messages of each, once nobody writes any more.
    fn written(&self) -> Option<impl Iterator<Item = u64>> {
        let is_over = self.writing.load(Ordering::SeqCst) == 0;
        let each = self.written.iter();
        is_over.then(|| each.map(|count| count.load(Ordering::SeqCst)))
    }

    /// Messages of all, once nobody writes any more.
    fn total(&self) -> Option<u64> {
        self.written().map(Iterator::sum)
    }
}

impl Audience {
    /// Whether a message may be one of theirs; `first` is the number of the first client.
    fn has_written(&self, stamp: &Stamp, first: usize) -> bool {
        let place = (stamp.publisher as usize).checked_sub(first);
        let written = place.and_then(|place| self.written.get(place));
        written.is_some_and(|count| stamp.sequence < count.load(Ordering::SeqCst))
    }
}

/// Requests for the tally since the last request.
pub(crate) type Questions = mpsc::Receiver<mpsc::Sender<Tally>>;

/// What came of it.
pub(crate) struct Tally {
    /// Messages that were due while it was measured, and left.
    pub(crate) sent: u64,
    /// Responses and messages that arrived while it was measured.
    pub(crate) received: u64,
    /// Those that were due while it was measured, and arrived later.
    pub(crate) after_end: u64,
    pub(crate) faults: Faults,
    /// Connections that the server closed.
    pub(crate) broken: u64,
    /// Responses that never came, or said no.
    pub(crate) unanswered: u64,
    /// From the intended time to the response.
    pub(crate) response: Histogram<u64>,
    /// From the intended time to the message.
    pub(crate) latency: Histogram<u64>,
    /// How much later than intended messages were handed to the kernel.
    pub(crate) lateness: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            sent: 0,
            received: 0,
            after_end: 0,
            faults: Faults::default(),
            broken: 0,
            unanswered: 0,
            response: histogram(),
            latency: histogram(),
            lateness: histogram(),
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.after_end += other.after_end;
        self.faults += other.faults;
        self.broken += other.broken;
        self.unanswered += other.unanswered;
        // All histograms have the same bounds.
        let _ = self.response.add(other.response);
        let _ = self.latency.add(other.latency);
        let _ = self.lateness.add(other.lateness);
    }
}

/// One client.
struct EchoClient {
    /// `None` if it could not be opened, and once the server has closed it.
    link: Option<Link>,
    /// Its number over all threads.
    number: usize,
    template: PublishTemplate,
    /// Number of the next message.
    sequence: u64,
    /// Packet id and intended time of what is not answered, in order.
    waiting: VecDeque<(u16, u64)>,
    checker: Checker,
    /// What it has heard of each client before an audience, as far as any has written.
    others: Vec<Checker>,
    /// Messages that it has heard before an audience, each once.
    heard: u64,
    unsent: Vec<u8>,
    carry: Vec<u8>,
}

/// The clients of one thread.
pub(crate) struct Circle {
    clients: Vec<EchoClient>,
    version: Version,
    source: Source,
    schedule: Schedule,
    audience: Option<Arc<Audience>>,
    questions: Option<Questions>,
    tally: Tally,
    scratch: Vec<u8>,
}

impl Circle {
    /// One per client, or none where a connection failed: its number over all threads, in
    /// increasing order, and what it sends; and where that arrives.
    pub(crate) fn new(
        clients: Vec<Option<Client>>,
        version: Version,
        source: Source,
        identity: impl Fn(usize) -> (usize, PublishTemplate),
        schedule: Schedule,
    ) -> Self {
        let clients = clients.into_iter().enumerate().map(|(index, client)| {
            let (number, template) = identity(index);
            let (link, carry) = client.map(|client| (client.link, client.carry)).unzip();
            EchoClient {
                link,
                number,
                template,
                sequence: 0,
                waiting: VecDeque::new(),
                checker: Checker::default(),
                others: Vec::new(),
                heard: 0,
                unsent: Vec::new(),
                carry: carry.unwrap_or_default(),
            }
        });
        Self {
            clients: clients.collect(),
            version,
            source,
            schedule,
            audience: None,
            questions: None,
            tally: Tally::default(),
            scratch: vec![0; READ_BYTES],
        }
    }

    /// Each hears what all write, if there is an audience.
    pub(crate) fn before(mut self, audience: Option<Arc<Audience>>) -> Self {
        self.audience = audience;
        self
    }

    /// It tells what has happened since it was last asked, and writes on until nobody can ask any
    /// more.
    pub(crate) fn asked_by(mut self, questions: Option<Questions>) -> Self {
        self.questions = questions;
        self
    }

    /// Answers who has asked.
    fn answer(&mut self) {
        let Some(questions) = &self.questions else {
            return;
        };
        loop {
            match questions.try_recv() {
                Ok(asker) => {
                    // An asker that has stopped listening does not need the answer.
                    let _ = asker.send(std::mem::take(&mut self.tally));
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => break,
            }
        }
        self.questions = None;
        self.schedule.end_ns = self.schedule.end_ns.min(now_ns());
    }

    /// Writes by the clock (open loop: a late message keeps its intended time), and reads what
    /// comes back. `poll` knows the clients under their index.
    pub(crate) fn run(mut self, poll: &mut Poll) -> Result<Tally, BenchError> {
        let alarm = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK)
            .doing("make a timer")?;
        let fd = std::os::fd::AsFd::as_fd(&alarm).as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&fd), ALARM, Interest::READABLE)
            .doing("watch a timer")?;
        let mut events = Events::with_capacity(1_024);
        let mut turn = (!self.clients.is_empty()).then(Turn::default);
        while now_ns() < self.schedule.end_ns.saturating_add(GRACE_NS)
            && !(turn.is_none() && self.is_answered())
        {
            self.answer();
            if let Some(due) = turn {
                turn = self.write_due(due);
                if let (None, Some(audience)) = (turn, &self.audience) {
                    audience.writing.fetch_sub(1, Ordering::SeqCst);
                }
            }
            if let Some(turn) = turn {
                wake_at(&alarm, self.due_ns(turn)).doing("set a timer")?;
            }
            match poll.poll(&mut events, Some(Duration::from_millis(100))) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                result => result.doing("wait for answers")?,
            }
            for event in events.iter().filter(|event| event.token() != ALARM) {
                self.turn(event);
            }
        }
        for client in &self.clients {
            self.tally.faults.lost += match &self.audience {
                None => client.checker.missing(client.sequence),
                Some(audience) => client.missed(audience),
            };
            self.tally.unanswered += client.waiting.len() as u64;
        }
        Ok(self.tally)
    }

    fn is_answered(&self) -> bool {
        let total = self.audience.as_ref().map(|audience| audience.total());
        let has_heard = |client: &EchoClient| match total {
            None => client.checker.next() == client.sequence,
            Some(total) => total.is_some_and(|total| client.heard >= total),
        };
        let is_done = |client: &EchoClient| {
            client.link.is_none() || client.waiting.is_empty() && has_heard(client)
        };
        self.clients.iter().all(is_done)
    }

    fn due_ns(&self, turn: Turn) -> u64 {
        let number = self.clients[turn.index].number;
        self.schedule.due_ns(number, turn.round)
    }

    /// Writes all messages that are due from a turn on. Returns the next turn; `None` at the end.
    fn write_due(&mut self, mut turn: Turn) -> Option<Turn> {
        loop {
            let due_ns = self.due_ns(turn);
            if due_ns >= self.schedule.end_ns {
                return None;
            }
            let now = now_ns();
            if due_ns > now {
                return Some(turn);
            }
            self.write(turn.index, due_ns, now);
            turn.index += 1;
            if turn.index == self.clients.len() {
                turn.index = 0;
                turn.round += 1;
            }
        }
    }

    fn write(&mut self, index: usize, due_ns: u64, now: u64) {
        let client = &mut self.clients[index];
        if client.link.is_none() {
            return;
        }
        // Packet ids are 1 to 65,535.
        let packet_id = (client.sequence % 65_535) as u16 + 1;
        let stamp = Stamp {
            publisher: client.number as u32,
            sequence: client.sequence,
            intended_ns: due_ns,
        };
        let template = &client.template;
        template.push(&mut client.unsent, packet_id, |payload| {
            stamp.write(payload)
        });
        client.sequence += 1;
        if let Some(audience) = &self.audience {
            let place = client.number - self.schedule.first;
            audience.written[place].fetch_add(1, Ordering::SeqCst);
        }
        client.waiting.push_back((packet_id, due_ns));
        if self.schedule.is_measured(due_ns) {
            self.tally.sent += 1;
            self.tally.lateness.saturating_record(now - due_ns);
        }
        client.send();
    }

    fn turn(&mut self, event: &Event) {
        let index = event.token().0;
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        if event.is_writable() {
            client.send();
        }
        let is_open = client.link.is_some();
        if is_open && event.is_readable() && !self.read(index, event.is_read_closed()) {
            self.clients[index].link = None;
            self.tally.broken += 1;
        }
    }

    /// `false` if the server has hung up or sent nonsense.
    fn read(&mut self, index: usize, is_closed: bool) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        let is_sound = self.read_into(index, is_closed, &mut scratch);
        self.scratch = scratch;
        is_sound
    }

    fn read_into(&mut self, index: usize, is_closed: bool, scratch: &mut Vec<u8>) -> bool {
        loop {
            let client = &mut self.clients[index];
            let Some(link) = &mut client.link else {
                return true;
            };
            let kept = client.carry.len();
            if kept >= scratch.len() / 2 {
                scratch.resize(kept * 4, 0);
            }
            scratch[..kept].copy_from_slice(&client.carry);
            let read = match link.read(&mut scratch[kept..]) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            let input = &scratch[..kept + read];
            let Some(used) = self.apply(index, input) else {
                return false;
            };
            let client = &mut self.clients[index];
            client.carry.clear();
            client.carry.extend_from_slice(&input[used..]);
            if kept + read < scratch.len() && !is_closed {
                return true;
            }
        }
    }

    /// Takes whole packets; the bytes used, `None` if they make no sense.
    fn apply(&mut self, index: usize, input: &[u8]) -> Option<usize> {
        let now = now_ns();
        let mut at = 0;
        loop {
            let (first, body) = match wire::frame(&input[at..]) {
                Frame::Partial => return Some(at),
                Frame::Malformed => return None,
                Frame::Whole { first, body, end } => {
                    let body = &input[at + body..at + end];
                    at += end;
                    (first, body)
                }
            };
            match first >> 4 {
                wire::PUBACK => self.answered(index, body, now)?,
                wire::PUBLISH => {
                    let publish = wire::publish(first, body, self.version)?;
                    // All of them subscribe at QoS 0.
                    self.tally.faults.corrupt += u64::from(publish.qos > 0);
                    self.arrived(index, &publish, now);
                }
                _ => return None,
            }
        }
    }

    /// A response: a PUBACK, whose reason code stands for the verdict if there is one.
    fn answered(&mut self, index: usize, body: &[u8], now: u64) -> Option<()> {
        let id = wire::u16_at(body, 0)?;
        let waiting = &mut self.clients[index].waiting;
        let place = waiting.iter().position(|(of, _)| *of == id)?;
        let (_, due_ns) = waiting.remove(place)?;
        let is_refused = body.get(2).is_some_and(|reason| *reason != 0);
        self.tally.unanswered += u64::from(is_refused);
        self.tally.received += u64::from(self.schedule.is_measured(now));
        if self.schedule.is_measured(due_ns) {
            self.tally.after_end += u64::from(now >= self.schedule.end_ns);
            let taken = now.saturating_sub(due_ns);
            self.tally.response.saturating_record(taken);
        }
        Some(())
    }

    fn arrived(&mut self, index: usize, publish: &Publish<'_>, now: u64) {
        let payload = publish.payload;
        let client = &mut self.clients[index];
        self.tally.received += u64::from(self.schedule.is_measured(now));
        let (audience, first) = (self.audience.as_deref(), self.schedule.first);
        let stamp = Stamp::read(payload).filter(|stamp| match audience {
            None => {
                let is_own = stamp.publisher as usize == client.number;
                is_own && stamp.sequence < client.sequence
            }
            Some(audience) => audience.has_written(stamp, first),
        });
        let Some(stamp) = stamp else {
            self.tally.faults.corrupt += 1;
            return;
        };
        // All of them write messages of one length.
        let is_whole = stamp.fits(payload, client.template.payload_len());
        if !is_whole || !self.source.is(publish.topic, stamp.publisher) {
            self.tally.faults.corrupt += 1;
        }
        let arrival = match audience {
            None => client.checker.arrive(stamp.sequence),
            Some(_) => client.hear(stamp.publisher as usize - first, stamp.sequence),
        };
        match arrival {
            Arrival::InOrder | Arrival::Ahead => {}
            Arrival::Late => self.tally.faults.reordered += 1,
            Arrival::Duplicate => self.tally.faults.duplicated += 1,
        }
        if self.schedule.is_measured(stamp.intended_ns) {
            self.tally.after_end += u64::from(now >= self.schedule.end_ns);
            let taken = now.saturating_sub(stamp.intended_ns);
            self.tally.latency.saturating_record(taken);
        }
    }
}

impl EchoClient {
    /// Takes note of a message of the client in this place.
    fn hear(&mut self, place: usize, sequence: u64) -> Arrival {
        if self.others.len() <= place {
            self.others.resize_with(place + 1, Checker::default);
        }
        let arrival = self.others[place].arrive(sequence);
        if arrival != Arrival::Duplicate {
            self.heard += 1;
        }
        arrival
    }

    /// Messages of all that it has not heard. None where another thread has failed, which tells
    /// why.
    fn missed(&self, audience: &Audience) -> u64 {
        let written = audience.written().into_iter().flatten().enumerate();
        let each = written.map(|(place, written)| match self.others.get(place) {
            Some(checker) => checker.missing(written),
            None => written,
        });
        each.sum()
    }

    /// Sends what the kernel takes. An error shows at the next read.
    fn send(&mut self) {
        if let Some(link) = &mut self.link {
            let _ = link.send(&mut self.unsent);
        }
    }
}

/// Makes the poll report the alarm at a time of [`now_ns`], or at once if it has passed.
fn wake_at(alarm: &TimerFd, at_ns: u64) -> nix::Result<()> {
    let at = TimeSpec::from_duration(Duration::from_nanos(at_ns));
    let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
    alarm.set(Expiration::OneShot(at), flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came twice does not stand for what was lost, not even of another writer.
    #[test]
    fn before_an_audience_each_writer_is_followed() {
        let audience = Audience::new(2, 1);
        for (count, written) in audience.written.iter().zip([3, 2]) {
            count.store(written, Ordering::SeqCst);
        }
        assert_eq!(audience.total(), None, "somebody writes");
        audience.writing.store(0, Ordering::SeqCst);
        assert_eq!(audience.total(), Some(5));
        let topic = |_| (7, PublishTemplate::new(Version::V311, "t", 1, false, 24));
        let mut circle = Circle::new(
            vec![None],
            Version::V311,
            Source::Shared("t".into()),
            topic,
            Schedule {
                start_ns: 0,
                from_ns: 0,
                end_ns: 0,
                period_ns: 1,
                first: 7,
                clients: 2,
            },
        );
        let client = &mut circle.clients[0];
        let heard = [(0, 0), (0, 2), (0, 2), (0, 2), (1, 1), (1, 0)];
        let arrivals = heard.map(|(place, sequence)| client.hear(place, sequence));
        use Arrival::{Ahead, Duplicate, InOrder, Late};
        assert_eq!(
            arrivals,
            [InOrder, Ahead, Duplicate, Duplicate, Ahead, Late]
        );
        assert_eq!((client.heard, client.missed(&audience)), (4, 1));
    }

    /// The sender's name is in the topic: another one's is wrong, whatever the payload says.
    #[test]
    fn a_message_on_another_topic_is_a_fault() {
        let template = |_| (7, PublishTemplate::new(Version::V311, "t", 1, false, 24));
        for (topic, expected) in [("from/7", 0), ("from/8", 1), ("to/7", 1)] {
            let schedule = Schedule {
                start_ns: 0,
                from_ns: 0,
                end_ns: 0,
                period_ns: 1,
                first: 7,
                clients: 1,
            };
            let source = Source::Numbered("from/".into());
            let mut circle = Circle::new(vec![None], Version::V311, source, template, schedule);
            circle.clients[0].sequence = 1;
            let stamp = Stamp {
                publisher: 7,
                sequence: 0,
                intended_ns: 0,
            };
            let mut packet = Vec::new();
            let back = PublishTemplate::new(Version::V311, topic, 0, false, 24);
            back.push(&mut packet, 0, |payload| stamp.write(payload));
            assert_eq!(circle.apply(0, &packet), Some(packet.len()), "{topic}");
            assert_eq!(circle.tally.faults.corrupt, expected, "{topic}");
        }
    }

    #[test]
    fn clients_take_turns_over_the_period() {
        let schedule = Schedule {
            start_ns: 1_000,
            from_ns: 1_500,
            end_ns: 3_000,
            period_ns: 400,
            first: 30,
            clients: 4,
        };
        let due: Vec<u64> = (30..34).map(|client| schedule.due_ns(client, 0)).collect();
        assert_eq!(due, [1_000, 1_100, 1_200, 1_300]);
        assert_eq!(schedule.due_ns(32, 3), 2_400);
        assert!(!schedule.is_measured(1_499) && schedule.is_measured(1_500));
        assert!(schedule.is_measured(2_999) && !schedule.is_measured(3_000));
    }
}
