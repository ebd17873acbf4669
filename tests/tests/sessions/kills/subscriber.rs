//! Clients that take messages, and remember what QoS 2 has them remember.

use std::collections::BTreeSet;

use stentor_tests::raw::subscribe;
use stentor_tests::{Packet, Raw, Version};

use super::oracle::Serial;
use super::{Login, Shared, USER, with_id};

/// Whose a message is that its filter matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its own.
    Own,
    /// That of one member of the group.
    Shared,
}

/// A subscriber, which has one subscription all the time.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) id: &'static str,
    version: Version,
    filter: &'static str,
    qos: u8,
    pub(super) kind: Kind,
}

const fn own(id: &'static str, version: Version, filter: &'static str, qos: u8) -> Who {
    let kind = Kind::Own;
    Who {
        id,
        version,
        filter,
        qos,
        kind,
    }
}

const fn member(id: &'static str, version: Version, qos: u8) -> Who {
    let (filter, kind) = ("$share/crew/t/#", Kind::Shared);
    Who {
        id,
        version,
        filter,
        qos,
        kind,
    }
}

const V4: Version = Version::V4;
const V5: Version = Version::V5;

/// All of them. The watcher reads wills alone.
pub(super) const SUBSCRIBERS: [Who; 12] = [
    own("s0", V4, "t/0", 1),
    own("s1", V5, "t/+", 2),
    own("s2", V5, "#", 1),
    own("s3", V4, "t/1", 2),
    own("s4", V4, "t/#", 1),
    own("s5", V5, "t/2", 2),
    member("m0", V4, 1),
    member("m1", V5, 2),
    member("m2", V5, 1),
    own("u0", V5, "$private/#", 2),
    own("u1", V4, "$private/from/+", 1),
    own("watcher", V5, "wills", 2),
];

impl Who {
    /// Whether its filter matches a topic that is published to.
    pub(super) fn takes(&self, topic: &str) -> bool {
        let is_private = topic.starts_with("$private");
        match self.filter.trim_start_matches("$share/crew/") {
            "$private/#" | "$private/from/+" => is_private,
            "wills" => false,
            "#" | "t/#" | "t/+" => !is_private,
            filter => filter == topic,
        }
    }

    fn login(&self) -> Login<'static> {
        Login {
            version: self.version,
            client_id: self.id,
            user: self.filter.starts_with("$private").then_some(USER),
            will: None,
        }
    }
}

/// One of them, over all servers.
#[derive(Debug)]
pub(super) struct Subscriber {
    who: &'static Who,
    /// Messages at QoS 2 that it has received and that were not released.
    unreleased: BTreeSet<u16>,
    /// Packets until it leaves; 0 if it does not come at all.
    pub(super) patience: u64,
}

impl Subscriber {
    pub(super) const fn new(who: &'static Who) -> Self {
        let unreleased = BTreeSet::new();
        Self {
            who,
            unreleased,
            patience: 0,
        }
    }

    /// It subscribes, and leaves.
    ///
    /// # Panics
    /// If the server refuses.
    pub(super) fn begin(&self, address: &str) {
        let (mut client, _) = self.who.login().connect(address).expect("the server runs");
        client.send(&subscribe(
            self.who.version,
            1,
            self.who.filter,
            self.who.qos,
        ));
        assert_eq!(
            client.expect(9).body.last(),
            Some(&self.who.qos),
            "{self:?}"
        );
        client.send(&[0xE0, 0]);
        client.closed();
    }

    /// Takes messages until the server is gone, or it has no patience any more.
    pub(super) fn run(&mut self, index: usize, address: &str, shared: &Shared) {
        if self.patience == 0 {
            return;
        }
        let Some((mut client, was_present)) = self.who.login().connect(address) else {
            return;
        };
        if !was_present {
            let told = format!("the session of {} is gone", self.who.id);
            return shared.with(|it| it.is_not_so(told));
        }
        for _ in 0..self.patience {
            let Some(packet) = client.try_receive() else {
                return;
            };
            let is_there = match packet.kind() {
                3 => self.take(index, &packet, &mut client, shared),
                6 => {
                    let packet_id = u16::from_be_bytes([packet.body[0], packet.body[1]]);
                    self.unreleased.remove(&packet_id);
                    client.try_send(&with_id(0x70, packet_id)).is_ok()
                }
                kind => panic!("{} got a packet of type {kind}", self.who.id),
            };
            if !is_there {
                return;
            }
        }
    }

    /// A message has come; false if the server is gone.
    fn take(&mut self, index: usize, packet: &Packet, client: &mut Raw, shared: &Shared) -> bool {
        let qos = packet.first >> 1 & 3;
        let topic_len = usize::from(u16::from_be_bytes([packet.body[0], packet.body[1]]));
        let id_at = 2 + topic_len;
        let packet_id = u16::from_be_bytes([packet.body[id_at], packet.body[id_at + 1]]);
        let is_new = qos == 1 || self.unreleased.insert(packet_id);
        let (topic, payload) = packet.message(self.who.version);
        let is_will = topic == "wills";
        if is_new && self.who.id == "watcher" {
            let will = String::from_utf8(payload).expect("wills are text");
            shared.with(|it| it.publishes_will(will));
        } else if is_new && !is_will {
            let serial = serial_of(&payload);
            shared.with(|it| it.receives(index, serial, qos));
        }
        let first = if qos == 1 { 0x40 } else { 0x50 };
        client.try_send(&with_id(first, packet_id)).is_ok()
    }
}

fn serial_of(payload: &[u8]) -> Serial {
    let mut parts = payload.split(|byte| *byte == b':');
    let mut number = || {
        let text = std::str::from_utf8(parts.next()?).ok()?;
        text.parse::<u64>().ok()
    };
    let serial = number()
        .zip(number())
        .map(|(who, number)| (who as usize, number));
    serial.unwrap_or_else(|| panic!("{:?} is no message", String::from_utf8_lossy(payload)))
}
