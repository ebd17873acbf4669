//! Clients that publish, and send again what was not settled.

use std::sync::atomic::Ordering;

use stentor_tests::raw::{packet, string};
use stentor_tests::{Raw, Version};

use super::oracle::Serial;
use super::{LARGE_BYTES, Login, Shared, USER, with_id};

/// Messages on their way at a time.
const WINDOW: usize = 12;
/// The topics, of which the first are everybody's.
const TOPICS: [&str; 4] = ["t/0", "t/1", "t/2", "$private/to/ann"];

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// PUBACK or PUBREC.
    Taken,
    /// PUBCOMP.
    Completion,
}

/// A message that is not settled.
#[derive(Clone, Copy, Debug)]
struct Unsettled {
    serial: Serial,
    topic: &'static str,
    qos: u8,
    packet_id: u16,
    step: Step,
}

/// One of them, over all servers.
#[derive(Debug)]
pub(super) struct Publisher {
    number: usize,
    version: Version,
    /// What was sent.
    sent: u64,
    unsettled: Vec<Unsettled>,
}

impl Publisher {
    /// All of them.
    pub(super) fn all() -> Vec<Self> {
        let versions = [Version::V4, Version::V5, Version::V5];
        let one = |(number, version)| Self {
            number,
            version,
            sent: 0,
            unsettled: Vec::new(),
        };
        versions.into_iter().enumerate().map(one).collect()
    }

    /// Publishes until the server is gone.
    pub(super) fn run(&mut self, address: &str, shared: &Shared, has_large: bool) {
        let client_id = format!("p{}", self.number);
        let login = Login {
            version: self.version,
            client_id: &client_id,
            // The last one writes private messages too.
            user: (self.number == 2).then_some(USER),
            will: None,
        };
        let Some((mut client, _)) = login.connect(address) else {
            return;
        };
        for again in self.unsettled.clone() {
            let sent = match again.step {
                Step::Taken => self.publish(&mut client, again, true, (shared, has_large)),
                Step::Completion => client.try_send(&with_id(0x62, again.packet_id)).is_ok(),
            };
            if !sent {
                return;
            }
        }
        loop {
            let concludes = shared.concludes.load(Ordering::Relaxed);
            while self.unsettled.len() < WINDOW && !concludes {
                let next = self.next();
                self.unsettled.push(next);
                if !self.publish(&mut client, next, false, (shared, has_large)) {
                    return;
                }
            }
            if !self.hear(&mut client, shared) {
                return;
            }
        }
    }

    fn next(&mut self) -> Unsettled {
        self.sent += 1;
        let topics = if self.number == 2 { 4 } else { 3 };
        let is_free = |id: &u16| self.unsettled.iter().all(|it| it.packet_id != *id);
        let first = (self.sent % 40) as u16 + 1;
        let packet_id = (first..).find(is_free).expect("one of many is free");
        Unsettled {
            serial: (self.number, self.sent),
            topic: TOPICS[(self.sent * 7 % topics) as usize],
            qos: 1 + (self.sent / 3 % 2) as u8,
            packet_id,
            step: Step::Taken,
        }
    }

    fn publish(
        &self,
        client: &mut Raw,
        message: Unsettled,
        again: bool,
        (shared, has_large): (&Shared, bool),
    ) -> bool {
        let (number, serial) = message.serial;
        shared.with(|it| it.sends(message.serial, message.topic, message.qos));
        let mut body = [&string(message.topic)[..], &message.packet_id.to_be_bytes()].concat();
        if self.version == Version::V5 {
            body.push(0);
        }
        body.extend(format!("{number}:{serial}:").into_bytes());
        let more = match serial % 20 {
            0 if has_large => LARGE_BYTES,
            1..4 => 3_000,
            _ => serial as usize % 200,
        };
        body.resize(body.len() + more, b'.');
        let first = 0x30 | message.qos << 1 | u8::from(again) << 3;
        client.try_send(&packet(first, &body)).is_ok()
    }

    /// Takes one answer; false if the server is gone.
    fn hear(&mut self, client: &mut Raw, shared: &Shared) -> bool {
        let Some(answer) = client.try_receive() else {
            return false;
        };
        let packet_id = u16::from_be_bytes([answer.body[0], answer.body[1]]);
        let reason = answer.body.get(2).copied().unwrap_or(0);
        // A kill may have lost the PUBCOMP of what was released before.
        let is_known = answer.kind() == 7 && reason == 0x92;
        assert!(reason < 0x80 || is_known, "it was refused: {answer:?}");
        let position = self
            .unsettled
            .iter()
            .position(|it| it.packet_id == packet_id);
        let at = position.unwrap_or_else(|| panic!("nothing of {packet_id} is unsettled"));
        let message = self.unsettled[at];
        match (answer.kind(), message.step) {
            (4, Step::Taken) if message.qos == 1 => {
                shared.with(|it| it.acknowledges(message.serial));
                self.unsettled.remove(at);
            }
            (5, step) if message.qos == 2 => {
                if step == Step::Taken {
                    shared.with(|it| it.acknowledges(message.serial));
                    self.unsettled[at].step = Step::Completion;
                }
                return client.try_send(&with_id(0x62, packet_id)).is_ok();
            }
            (7, Step::Completion) => _ = self.unsettled.remove(at),
            (kind, step) => panic!("packet type {kind} came for {message:?} in {step:?}"),
        }
        true
    }
}
