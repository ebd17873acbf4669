//! A crowd that fires all its subscriptions at once, and waits for what each of them brings.

use std::io::{self, Read, Write};
use std::time::Duration;

use mio::{Events, Poll};

use super::crowd::Client;
use crate::clock::{SECOND_NS, as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::wire::{self, Frame, Version};

/// Gives up when nothing has come for this long.
const PATIENCE: Duration = Duration::from_secs(15);

/// When a subscription is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Its own SUBACK has arrived.
    Acknowledged,
    /// After the SUBACK, the last message of its topic has arrived, whole.
    Recovered {
        /// Bytes of each message.
        payload: usize,
        /// In which they were published last.
        round: Round,
    },
}

/// When a message was published: all of a round say so, so that one that was replaced does not
/// pass for the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Never: a floor made it up.
    Canned,
    /// Without RETAIN.
    Live,
    /// Retained, the first of its topic.
    New,
    /// Retained, in the place of the first.
    Again,
    /// Retained, just before the server was to save it.
    Saved,
}

impl Round {
    const fn mark(self) -> u8 {
        match self {
            Self::Canned => b'c',
            Self::Live => b'l',
            Self::New => b'n',
            Self::Again => b'a',
            Self::Saved => b's',
        }
    }
}

/// What each user asks for.
pub(crate) struct Ask<'a> {
    pub(crate) version: Version,
    /// Subscriptions of each: at most 65,535, so that every packet id is used once.
    pub(crate) subscriptions: u16,
    /// Quality of service.
    pub(crate) qos: u8,
    /// What the filters of a user begin with; its packet id follows.
    pub(crate) prefix: &'a dyn Fn(usize) -> String,
    pub(crate) goal: Goal,
}

impl Ask<'_> {
    /// Everything one user sends.
    fn packets(&self, prefix: &str) -> Vec<u8> {
        let mut packets = Vec::new();
        for id in 1..=self.subscriptions {
            let filter = format!("{prefix}{id}");
            wire::push_subscribe(&mut packets, self.version, id, &filter, self.qos);
        }
        packets
    }
}

/// The message that a topic of a benchmark holds: the round, the topic, and dots up to the length.
pub(crate) fn fill_payload(round: Round, topic: &[u8], payload: &mut [u8]) {
    let Some((mark, payload)) = payload.split_first_mut() else {
        return;
    };
    *mark = round.mark();
    let (named, rest) = payload.split_at_mut(topic.len().min(payload.len()));
    named.copy_from_slice(&topic[..named.len()]);
    rest.fill(b'.');
}

/// Whether a payload is what [`fill_payload`] wrote.
fn is_filled(round: Round, topic: &[u8], payload: &[u8]) -> bool {
    let Some((mark, payload)) = payload.split_first() else {
        return true;
    };
    let (named, rest) = payload.split_at(topic.len().min(payload.len()));
    *mark == round.mark() && named == &topic[..named.len()] && rest.iter().all(|byte| *byte == b'.')
}

/// What came of the storm.
pub(crate) struct Outcome {
    pub(crate) completed: u64,
    /// From the common start, one for each subscription that was completed.
    pub(crate) completed_ns: Vec<u64>,
    /// Messages that were not what their topics hold, or came before the acknowledgement.
    pub(crate) wrong: u64,
    /// Why the first that was not completed was not, if somebody said so.
    pub(crate) first_failure: Option<String>,
    pub(crate) duration_ns: u64,
}

impl Outcome {
    /// How long all of this many took, in seconds. `None` where some were not completed: what the
    /// others took says nothing of all.
    pub(crate) fn whole_s(&self, total: u64) -> Option<f64> {
        let is_whole = self.completed == total && self.duration_ns > 0;
        is_whole.then(|| self.duration_ns as f64 / SECOND_NS as f64)
    }
}

/// What has to come for each subscription.
#[derive(Clone, Copy)]
struct Wanted {
    version: Version,
    qos: u8,
    goal: Goal,
}

/// What a subscription waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Suback,
    Message,
    Complete,
}

struct User {
    client: Client,
    /// What its filters begin with.
    prefix: Vec<u8>,
    packets: Vec<u8>,
    sent: usize,
    /// By packet id.
    stages: Vec<Stage>,
}

/// Users with their subscriptions.
pub(crate) struct Storm {
    users: Vec<User>,
    wanted: Wanted,
    completed_ns: Vec<u64>,
    failed: u64,
    first_failure: Option<String>,
    wrong: u64,
    total: u64,
    scratch: Vec<u8>,
}

impl Storm {
    /// One user per client.
    pub(crate) fn new(clients: Vec<Client>, ask: &Ask<'_>) -> Self {
        let users = clients.into_iter().enumerate();
        let users: Vec<User> = users
            .map(|(user, client)| {
                let prefix = (ask.prefix)(user);
                User {
                    client,
                    packets: ask.packets(&prefix),
                    prefix: prefix.into_bytes(),
                    sent: 0,
                    stages: vec![Stage::Suback; usize::from(ask.subscriptions) + 1],
                }
            })
            .collect();
        let total = users.len() as u64 * u64::from(ask.subscriptions);
        let completed_ns = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
        let &Ask {
            version, qos, goal, ..
        } = ask;
        Self {
            users,
            wanted: Wanted { version, qos, goal },
            completed_ns,
            failed: 0,
            first_failure: None,
            wrong: 0,
            total,
            scratch: vec![0; 64 * 1_024],
        }
    }

    /// Fires, and waits until all is complete or nothing comes any more.
    pub(crate) fn run(&mut self, poll: &mut Poll) -> Result<Outcome, BenchError> {
        let mut events = Events::with_capacity(1_024);
        let start_ns = now_ns();
        let mut last_ns = start_ns;
        for user in &mut self.users {
            user.send();
        }
        while (self.completed_ns.len() as u64) + self.failed < self.total {
            match poll.poll(&mut events, Some(Duration::from_millis(100))) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                result => result.doing("wait for acknowledgements")?,
            }
            let before = self.completed_ns.len();
            for event in &events {
                let index = event.token().0;
                if event.is_writable() {
                    self.users[index].send();
                }
                if event.is_readable() && !self.receive(index, start_ns, event.is_read_closed()) {
                    let why = "the server closed a connection, or sent what makes no sense";
                    self.first_failure.get_or_insert_with(|| why.into());
                    return Ok(self.finish(last_ns - start_ns));
                }
            }
            if self.completed_ns.len() > before {
                last_ns = now_ns();
            } else if now_ns() - last_ns > as_ns(PATIENCE) {
                let why = || format!("nothing came for {} s", PATIENCE.as_secs());
                self.first_failure.get_or_insert_with(why);
                break;
            }
        }
        Ok(self.finish(last_ns - start_ns))
    }

    fn finish(&mut self, duration_ns: u64) -> Outcome {
        Outcome {
            completed: self.completed_ns.len() as u64,
            completed_ns: std::mem::take(&mut self.completed_ns),
            wrong: self.wrong,
            first_failure: self.first_failure.take(),
            duration_ns,
        }
    }

    /// `false` if the server has hung up or sent nonsense.
    fn receive(&mut self, index: usize, start_ns: u64, closed: bool) -> bool {
        loop {
            let user = &mut self.users[index];
            let kept = user.client.carry.len();
            if kept >= self.scratch.len() / 2 {
                self.scratch.resize(kept * 4, 0);
            }
            self.scratch[..kept].copy_from_slice(&user.client.carry);
            let read = match user.client.link.read(&mut self.scratch[kept..]) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            let since_start = now_ns() - start_ns;
            let input = &self.scratch[..kept + read];
            let mut at = 0;
            loop {
                let (first, body, end) = match wire::frame(&input[at..]) {
                    Frame::Whole { first, body, end } => (first, at + body, at + end),
                    Frame::Partial => break,
                    Frame::Malformed => return false,
                };
                let (kind, body) = (first >> 4, &input[body..end]);
                match (kind, self.wanted.goal) {
                    (wire::SUBACK, _) => match user.acknowledge(body, self.wanted) {
                        Some(Ok(Stage::Complete)) => self.completed_ns.push(since_start),
                        Some(Ok(Stage::Message | Stage::Suback)) => {}
                        Some(Err(why)) => {
                            self.failed += 1;
                            self.first_failure.get_or_insert(why);
                        }
                        None => return false,
                    },
                    (wire::PUBLISH, Goal::Recovered { payload, round }) => {
                        match user.recover(first, body, payload, round, self.wanted) {
                            Some(true) => self.completed_ns.push(since_start),
                            _ => self.wrong += 1,
                        }
                    }
                    _ => {}
                }
                at = end;
            }
            user.client.carry.clear();
            user.client.carry.extend_from_slice(&input[at..]);
            if kept + read < self.scratch.len() && !closed {
                return true;
            }
        }
    }
}

impl User {
    fn send(&mut self) {
        while self.sent < self.packets.len() {
            match self.client.link.write(&self.packets[self.sent..]) {
                Ok(sent) => self.sent += sent,
                // A broken connection shows at the next read.
                Err(_) => return,
            }
        }
    }

    /// What the subscription waits for now, or why it was not granted as it was asked for; `None`
    /// if nobody asked.
    fn acknowledge(&mut self, body: &[u8], wanted: Wanted) -> Option<Result<Stage, String>> {
        let id = usize::from(wire::u16_at(body, 0)?);
        let stage = self.stages.get_mut(id).filter(|_| id > 0)?;
        if *stage != Stage::Suback {
            return None;
        }
        let granted = wire::granted(body, wanted.qos);
        *stage = match wanted.goal {
            Goal::Recovered { .. } if granted.is_ok() => Stage::Message,
            Goal::Recovered { .. } | Goal::Acknowledged => Stage::Complete,
        };
        Some(granted.map(|()| *stage))
    }

    /// Whether a message is the stored one that a subscription waits for; `None` if it makes no
    /// sense at all.
    fn recover(
        &mut self,
        first: u8,
        body: &[u8],
        payload: usize,
        round: Round,
        wanted: Wanted,
    ) -> Option<bool> {
        let publish = wire::publish(first, body, wanted.version)?;
        let digits = publish.topic.strip_prefix(&self.prefix[..])?;
        let id: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let stage = self.stages.get_mut(id)?;
        let is_right = *stage == Stage::Message
            && first & 1 == 1
            && publish.qos == wanted.qos
            && publish.payload.len() == payload
            && is_filled(round, publish.topic, publish.payload);
        if is_right {
            *stage = Stage::Complete;
        }
        Some(is_right)
    }
}

#[cfg(test)]
mod tests {
    use mio::net::UnixStream;

    use super::*;
    use crate::link::Link;
    use crate::wire::PublishTemplate;

    #[test]
    fn a_part_has_no_duration() {
        for (completed, duration_ns, expected) in [
            (3, SECOND_NS, Some(1.0)),
            (2, SECOND_NS, None),
            (0, 0, None),
            (3, 0, None),
        ] {
            let storm = Outcome {
                completed,
                completed_ns: Vec::new(),
                wrong: 0,
                first_failure: None,
                duration_ns,
            };
            assert_eq!(storm.whole_s(3), expected, "{completed} {duration_ns}");
        }
    }

    #[test]
    fn a_payload_tells_its_topic() {
        for len in [0, 3, 10, 100] {
            let mut payload = vec![0; len];
            fill_payload(Round::New, b"bench/1/2", &mut payload);
            assert!(is_filled(Round::New, b"bench/1/2", &payload), "{len}");
            if len > 9 {
                assert!(!is_filled(Round::New, b"bench/1/3", &payload), "{len}");
            }
            for round in [Round::Canned, Round::Live, Round::Again, Round::Saved] {
                let is_filled = is_filled(round, b"bench/1/2", &payload);
                assert_eq!(is_filled, len == 0, "{len} {round:?}");
            }
        }
    }

    fn user() -> User {
        let (socket, _) = UnixStream::pair().unwrap();
        User {
            client: Client {
                link: Link::Unix(socket),
                carry: Vec::new(),
                receive_maximum: 0,
                keep_alive_secs: 0,
                is_present: false,
                login_ns: 0,
            },
            prefix: b"bench/1/".to_vec(),
            packets: Vec::new(),
            sent: 0,
            stages: vec![Stage::Suback; 3],
        }
    }

    fn wanted(qos: u8, goal: Goal) -> Wanted {
        let version = Version::V311;
        Wanted { version, qos, goal }
    }

    #[test]
    fn a_subscription_that_is_not_granted_is_not_complete() {
        let wanted = wanted(1, Goal::Acknowledged);
        for (code, is_granted) in [(1, true), (0, false), (2, false), (0x80, false)] {
            let mut user = user();
            let said = user.acknowledge(&[0, 2, code], wanted).unwrap();
            assert_eq!(said.is_ok(), is_granted, "{code}: {said:?}");
            assert_eq!(user.acknowledge(&[0, 2, code], wanted), None, "once more");
        }
        assert_eq!(user().acknowledge(&[0, 3, 1], wanted), None, "unknown");
    }

    #[test]
    fn only_the_message_of_the_topic_completes_it() {
        let payload = 30;
        let round = Round::Again;
        let wanted = wanted(0, Goal::Recovered { payload, round });
        let message = |qos, retain, topic: &str, round| {
            let template = PublishTemplate::new(Version::V311, topic, qos, retain, payload);
            let mut packet = Vec::new();
            let fill = |payload: &mut [u8]| fill_payload(round, topic.as_bytes(), payload);
            template.push(&mut packet, 7, fill);
            packet
        };
        for (qos, retain, topic, expected) in [
            (0, true, "bench/1/2", Some(true)),
            (1, true, "bench/1/2", Some(false)),
            (0, false, "bench/1/2", Some(false)),
            // Not acknowledged yet.
            (0, true, "bench/1/1", Some(false)),
            (0, true, "bench/2/2", None),
            (0, true, "bench/1/7", None),
        ] {
            let mut user = user();
            let said = user.acknowledge(&[0, 2, 0], wanted);
            assert_eq!(said, Some(Ok(Stage::Message)));
            let packet = message(qos, retain, topic, round);
            let said = user.recover(packet[0], &packet[2..], payload, round, wanted);
            assert_eq!(said, expected, "{qos} {retain} {topic}");
        }
        // The one that was replaced.
        let mut user = user();
        let _ = user.acknowledge(&[0, 2, 0], wanted);
        let packet = message(0, true, "bench/1/2", Round::New);
        let said = user.recover(packet[0], &packet[2..], payload, round, wanted);
        assert_eq!(said, Some(false));
    }
}
