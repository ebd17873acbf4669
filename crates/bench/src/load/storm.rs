//! A crowd that fires all its subscriptions at once, and waits for what each of them brings.

use std::io::{self, Read, Write};
use std::time::Duration;

use mio::{Events, Poll};

use super::crowd::Client;
use crate::clock::{as_ns, now_ns};
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
        version: Version,
    },
}

/// The message that a topic of a benchmark holds: the topic, and dots up to the length.
pub(crate) fn fill_payload(topic: &[u8], payload: &mut [u8]) {
    let (named, rest) = payload.split_at_mut(topic.len().min(payload.len()));
    named.copy_from_slice(&topic[..named.len()]);
    rest.fill(b'.');
}

/// Whether a payload is what [`fill_payload`] wrote.
fn is_filled(topic: &[u8], payload: &[u8]) -> bool {
    let (named, rest) = payload.split_at(topic.len().min(payload.len()));
    named == &topic[..named.len()] && rest.iter().all(|byte| *byte == b'.')
}

/// What came of the storm.
pub(crate) struct Outcome {
    pub(crate) completed: u64,
    /// From the common start, one for each subscription that was completed.
    pub(crate) completed_ns: Vec<u64>,
    /// Messages that were not what their topics hold, or came before the acknowledgement.
    pub(crate) wrong: u64,
    pub(crate) duration_ns: u64,
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
    packets: Vec<u8>,
    sent: usize,
    /// By packet id.
    stages: Vec<Stage>,
}

/// Users with their subscriptions. The last level of each filter is its packet id.
pub(crate) struct Storm {
    users: Vec<User>,
    goal: Goal,
    completed_ns: Vec<u64>,
    failed: u64,
    wrong: u64,
    total: u64,
    scratch: Vec<u8>,
}

impl Storm {
    /// Clients, and the SUBSCRIBE packets of each with the packet ids from 1 on.
    pub(crate) fn new(
        clients: Vec<Client>,
        packets: impl Iterator<Item = Vec<u8>>,
        subscriptions: u16,
        goal: Goal,
    ) -> Self {
        let users: Vec<User> = clients
            .into_iter()
            .zip(packets)
            .map(|(client, packets)| {
                let stages = vec![Stage::Suback; usize::from(subscriptions) + 1];
                User {
                    client,
                    packets,
                    sent: 0,
                    stages,
                }
            })
            .collect();
        let total = users.len() as u64 * u64::from(subscriptions);
        let completed_ns = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
        Self {
            users,
            goal,
            completed_ns,
            failed: 0,
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
                    return Ok(self.finish(last_ns - start_ns));
                }
            }
            if self.completed_ns.len() > before {
                last_ns = now_ns();
            } else if now_ns() - last_ns > as_ns(PATIENCE) {
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
            duration_ns: duration_ns.max(1),
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
                match (kind, self.goal) {
                    (wire::SUBACK, goal) => match user.acknowledge(body, goal) {
                        Some(Stage::Complete) => self.completed_ns.push(since_start),
                        Some(Stage::Message) => {}
                        Some(Stage::Suback) => self.failed += 1,
                        None => return false,
                    },
                    (wire::PUBLISH, Goal::Recovered { payload, version }) => {
                        match user.recover(first, body, payload, version) {
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

    /// What the subscription waits for now: [`Stage::Suback`] if it was refused; `None` if nobody
    /// asked for it.
    fn acknowledge(&mut self, body: &[u8], goal: Goal) -> Option<Stage> {
        let id = usize::from(wire::u16_at(body, 0)?);
        let stage = self.stages.get_mut(id).filter(|_| id > 0)?;
        if *stage != Stage::Suback {
            return None;
        }
        if *body.last()? >= 0x80 {
            *stage = Stage::Complete;
            return Some(Stage::Suback);
        }
        *stage = match goal {
            Goal::Acknowledged => Stage::Complete,
            Goal::Recovered { .. } => Stage::Message,
        };
        Some(*stage)
    }

    /// Whether a message is the stored one that a subscription waits for; `None` if it makes no
    /// sense at all.
    fn recover(
        &mut self,
        first: u8,
        body: &[u8],
        payload: usize,
        version: Version,
    ) -> Option<bool> {
        let publish = wire::publish(first, body, version)?;
        let digits = publish.topic.rsplit(|byte| *byte == b'/').next()?;
        let id: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let stage = self.stages.get_mut(id)?;
        let is_right = *stage == Stage::Message
            && first & 1 == 1
            && publish.payload.len() == payload
            && is_filled(publish.topic, publish.payload);
        if is_right {
            *stage = Stage::Complete;
        }
        Some(is_right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_tells_its_topic() {
        for len in [0, 3, 9, 100] {
            let mut payload = vec![0; len];
            fill_payload(b"bench/1/2", &mut payload);
            assert!(is_filled(b"bench/1/2", &payload), "{len}");
            if len > 8 {
                assert!(!is_filled(b"bench/1/3", &payload), "{len}");
            }
        }
    }
}
