//! Dropping the oldest, against a simple queue that looks from the front each time.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use stentor_mqtt::{EncodedPublish, PacketId, PublishParts, QoS, Version};

use super::*;
use crate::random::random;

fn wire(payload: &[u8], with_id: bool) -> Rc<Wire> {
    let parts = PublishParts {
        topic: "t",
        payload,
        properties: &[],
        added_properties: &[],
        subscription_ids: &[],
        has_expiry: false,
    };
    Rc::new(Wire {
        encoded: EncodedPublish::new(Version::V311, &parts, with_id).unwrap(),
        message: None,
        expires_at: Tick::NEVER,
        received_at: Tick::ZERO,
    })
}

fn outgoing(payload: &[u8], packet_id: Option<PacketId>) -> Outgoing {
    let qos = packet_id.map_or(QoS::AtMostOnce, |_| QoS::AtLeastOnce);
    let wire = wire(payload, packet_id.is_some());
    Outgoing::new(wire, qos, false, false, packet_id)
}

/// A packet as bytes.
fn packet(payload: &[u8], packet_id: Option<PacketId>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let outgoing = outgoing(payload, packet_id);
    let encoded = &outgoing.wire.encoded;
    encoded.append_to(&mut bytes, outgoing.first, packet_id, None);
    bytes
}

/// Packets, and whether each may be dropped.
#[derive(Default)]
struct Model {
    packets: Vec<(Vec<u8>, bool)>,
}

impl Model {
    fn bytes(&self) -> usize {
        self.packets.iter().map(|(packet, _)| packet.len()).sum()
    }

    fn messages(&self) -> usize {
        self.packets.iter().filter(|(_, is_free)| *is_free).count()
    }

    fn drop_oldest(&mut self, packets: u64) {
        for _ in 0..packets {
            let oldest = self.packets.iter().position(|(_, is_free)| *is_free);
            self.packets.remove(oldest.unwrap());
        }
    }
}

/// The sum over all entries.
fn load(output: &Output) -> Load {
    let mut load = Load::default();
    for entry in output.passed.iter().chain(output.entries.iter()) {
        load.add(entry.load());
    }
    load
}

fn gathered(output: &Output, budget: usize) -> (Batch, Vec<u8>) {
    let mut batch = Batch::new();
    output.gather(Tick::ZERO, None, budget, &mut batch);
    let bytes = batch.slices().flatten().copied().collect();
    (batch, bytes)
}

#[test]
fn the_same_are_dropped_as_by_looking_from_the_front() {
    let mut random = random(5);
    for round in 0..1_000 {
        let (mut output, mut model) = (Output::default(), Model::default());
        // Stored messages that wait: they count, and are never dropped.
        let mut stored = 0;
        for step in 0..random(60) {
            let payload = vec![step as u8; random(300)];
            let id = PacketId::new(7);
            match random(9) {
                0 | 1 => {
                    output.push_publish(outgoing(&payload, None));
                    model.packets.push((packet(&payload, None), true));
                }
                2 => {
                    output.push_publish(outgoing(&payload, id));
                    model.packets.push((packet(&payload, id), false));
                }
                3 => {
                    output.push_control(&payload);
                    model.packets.push((payload, false));
                }
                4 => {
                    output.push_stored(&packet(&payload, None));
                    model.packets.push((packet(&payload, None), false));
                    stored += 1;
                }
                5 => {
                    let mut run = Run::new("t", Tick::ZERO);
                    for number in 0..1 + random(9) {
                        let payload = [step as u8, number as u8].repeat(random(40));
                        assert!(run.push(&wire(&payload, false)));
                        model.packets.push((packet(&payload, None), true));
                    }
                    output.push_run(Rc::new(run));
                }
                6 => {
                    let (mut batch, bytes) = gathered(&output, 1 + random(900));
                    output.written(&mut batch, bytes.len());
                    stored =
                        output
                            .passed
                            .iter()
                            .chain(output.entries.iter())
                            .fold(0, |sum, entry| match entry {
                                Entry::Copied(copied) => sum + copied.messages as usize,
                                _ => sum,
                            });
                    let mut left = bytes.len();
                    while left > 0 {
                        left -= model.packets.remove(0).0.len();
                    }
                }
                kind => {
                    // To a number of messages, or of bytes.
                    let room = match kind {
                        7 => (usize::MAX, random(1 + output.messages())),
                        _ => (random(1 + output.bytes() * 5 / 4), usize::MAX),
                    };
                    let (before, mut dropped) = (model.messages(), 0);
                    output.make_room(room.0, room.1, |topic, messages| {
                        assert_eq!(topic, "t");
                        dropped += messages;
                    });
                    model.drop_oldest(dropped);
                    let fits = output.bytes() <= room.0 && output.messages() <= room.1;
                    assert!(fits || model.messages() == 0, "round {round}");
                    if kind == 7 {
                        let excess = (before + stored).saturating_sub(room.1);
                        assert_eq!(dropped, excess.min(before) as u64, "no more than needed");
                    }
                }
            }
            assert_eq!(output.wire_bytes(), model.bytes(), "round {round}");
            assert_eq!(output.messages(), model.messages() + stored);
            assert_eq!(output.load, load(&output), "round {round}");
            // Empty packets of no kind are only in this test.
            model.packets.retain(|(packet, _)| !packet.is_empty());
            let (_, bytes) = gathered(&output, usize::MAX);
            let expected: Vec<u8> = model.packets.iter().flat_map(|(p, _)| p.clone()).collect();
            assert!(bytes == expected, "round {round}");
        }
    }
}

#[test]
fn a_pingresp_tells_nothing() {
    let mut output = Output::default();
    output.push_control(&[0xD0, 0]);
    assert!(!output.has_answers() && !output.has_news());
    // PUBACK.
    output.push_control(&[0x40, 2, 0, 1]);
    output.push_control(&[0xD0, 0]);
    assert!(output.has_answers() && output.has_news());
    let (mut batch, _) = gathered(&output, usize::MAX);
    let all = batch.len();
    output.written(&mut batch, all);
    assert!(!output.has_answers() && !output.has_news());
    output.push_control(&[0xD0, 0]);
    assert!(!output.has_answers() && !output.has_news());
    output.push_publish(outgoing(b"x", None));
    assert!(!output.has_answers() && output.has_news());
}

/// Replies that nobody reads stand between small messages, which larger ones push out.
#[test]
fn what_may_not_be_dropped_is_passed_once() {
    const SMALL: usize = 50_000;
    let mut output = Output::default();
    for _ in 0..SMALL {
        output.push_control(&[0xD0, 0]);
        output.push_publish(outgoing(b"", None));
    }
    let bound = output.bytes();
    let large = vec![0; 20_000];
    let mut dropped = 0;
    for _ in 0..1_000 {
        output.push_publish(outgoing(&large, None));
        output.make_room(bound, usize::MAX, |_, messages| dropped += messages);
        assert!(output.bytes() <= bound);
    }
    // Each reply and each message is looked at once.
    assert!(dropped > SMALL as u64);
    assert!(output.steps <= 2 * SMALL + 1_000, "{} steps", output.steps);
    // The replies stand together.
    let entries = 2 * SMALL / COPIED_BYTES_MAX as usize + 1;
    assert!(output.passed.len() <= entries, "{}", output.passed.len());
}

/// A packet of [`only_what_was_released_leaves`]: its bytes, and whether it may be dropped, is
/// marked, and may leave.
#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    is_free: bool,
    is_marked: bool,
    is_released: bool,
}

/// Takes out what was written. The rest of a packet that was begun leaves, and is not dropped.
fn take_written(packets: &mut Vec<Held>, mut written: usize) {
    while written > 0 {
        let first = packets.first_mut().unwrap();
        let taken = written.min(first.bytes.len());
        first.bytes.drain(..taken);
        first.is_free = false;
        if first.bytes.is_empty() {
            packets.remove(0);
        }
        written -= taken;
    }
}

#[test]
fn only_what_was_released_leaves() {
    let mut random = random(11);
    for round in 0..2_000 {
        let mut output = Output::default();
        let mut packets: Vec<Held> = Vec::new();
        for step in 0..random(80) {
            let payload = vec![step as u8; 1 + random(300)];
            let kind = random(10);
            match kind {
                0 => {
                    output.mark();
                    packets
                        .iter_mut()
                        .for_each(|packet| packet.is_marked = true);
                }
                1 => {
                    output.release_marked();
                    let marked = packets.iter_mut().filter(|packet| packet.is_marked);
                    marked.for_each(|packet| packet.is_released = true);
                }
                2 if random(4) == 0 => {
                    output.release();
                    packets
                        .iter_mut()
                        .for_each(|packet| packet.is_released = true);
                }
                3 | 4 => {
                    let mut batch = Batch::new();
                    output.gather_released(Tick::ZERO, None, 1 + random(900), &mut batch);
                    let written = random(batch.len() + 1);
                    output.written(&mut batch, written);
                    take_written(&mut packets, written);
                }
                5 => {
                    output.make_room(random(1 + output.bytes()), usize::MAX, |_, messages| {
                        for _ in 0..messages {
                            let oldest = packets.iter().position(|packet| packet.is_free);
                            packets.remove(oldest.unwrap());
                        }
                    });
                }
                _ => {
                    let (bytes, is_free) = if kind < 8 {
                        output.push_control(&payload);
                        (payload, false)
                    } else {
                        let id = PacketId::new(7).filter(|_| kind == 8);
                        output.push_publish(outgoing(&payload, id));
                        (packet(&payload, id), id.is_none())
                    };
                    packets.push(Held {
                        bytes,
                        is_free,
                        is_marked: false,
                        is_released: false,
                    });
                }
            }
            let mut batch = Batch::new();
            output.gather_released(Tick::ZERO, None, usize::MAX, &mut batch);
            let bytes: Vec<u8> = batch.slices().flatten().copied().collect();
            let released = packets.iter().filter(|packet| packet.is_released);
            let expected: Vec<u8> = released.flat_map(|packet| packet.bytes.clone()).collect();
            assert!(bytes == expected, "round {round}, step {step}, {kind}");
            assert_eq!(output.has_released(), !expected.is_empty(), "round {round}");
        }
    }
}
