//! Whatever a socket takes at a time, the bytes that leave an output queue are the packets in
//! their order, each whole.

use std::rc::Rc;
use std::sync::Arc;

use stentor_mqtt::{EncodedPublish, PacketId, PublishParts, QoS, Version, first_byte};
use stentor_session::{
    Batch, Flush, Message, MessageParts, Outgoing, Output, Publisher, Run, Tick, Wire,
};
use stentor_topic::Zone;

const fn parts(payload: &[u8]) -> PublishParts<'_> {
    PublishParts {
        topic: "a/topic",
        payload,
        properties: &[],
        added_properties: &[],
        subscription_ids: &[],
        has_expiry: false,
    }
}

fn wire(payload: &[u8], with_id: bool) -> Wire {
    Wire {
        encoded: EncodedPublish::new(Version::V311, &parts(payload), with_id).unwrap(),
        message: None,
        expires_at: Tick::NEVER,
        received_at: Tick::ZERO,
    }
}

/// The same with the payload where it is.
fn wire_of_message(payload: &[u8], with_id: bool) -> Wire {
    let message = MessageParts {
        topic: "a/topic",
        properties: &[],
        payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        expiry_secs: None,
    };
    let message = Message::new(Zone::DEFAULT, Publisher::SERVER, Tick::ZERO, &message);
    Wire {
        encoded: EncodedPublish::head(Version::V311, &parts(payload), with_id).unwrap(),
        message: Some(Arc::new(message)),
        ..wire(&[], with_id)
    }
}

/// An output queue beside the bytes that have to come out of it.
#[derive(Default)]
struct Pair {
    output: Output,
    expected: Vec<u8>,
    written: Vec<u8>,
}

impl Pair {
    fn publish(&mut self, payload: &[u8], packet_id: Option<PacketId>) {
        let wire = wire(payload, packet_id.is_some());
        let qos = if packet_id.is_some() {
            QoS::AtLeastOnce
        } else {
            QoS::AtMostOnce
        };
        let first = first_byte(qos, false, false);
        wire.encoded
            .append_to(&mut self.expected, first, packet_id, None);
        let wire = match payload.len() < Wire::SHARED_BYTES_MIN {
            true => wire,
            false => wire_of_message(payload, packet_id.is_some()),
        };
        let outgoing = Outgoing::new(Rc::new(wire), qos, false, false, packet_id);
        self.output.push_publish(outgoing);
    }

    fn run(&mut self, payloads: &[Vec<u8>]) {
        let mut run = Run::new("a/topic", Tick::ZERO);
        for payload in payloads {
            assert!(run.push(&wire(payload, false)));
        }
        self.expected.extend_from_slice(run.bytes());
        self.output.push_run(Rc::new(run));
    }

    fn stored(&mut self, payloads: &[Vec<u8>]) {
        let mut packets = Vec::new();
        let controls = self.output.control_bytes();
        for payload in payloads {
            let first = first_byte(QoS::AtMostOnce, true, false);
            let encoded = wire(payload, false).encoded;
            packets.clear();
            encoded.append_to(&mut packets, first, None, None);
            self.expected.extend_from_slice(&packets);
            self.output.push_stored(&packets);
        }
        assert_eq!(self.output.control_bytes(), controls);
    }

    fn control(&mut self, bytes: &[u8]) {
        self.expected.extend_from_slice(bytes);
        self.output.push_control(bytes);
    }

    /// Writes as much as a socket with this much room takes.
    fn write(&mut self, room: usize) -> Flush {
        self.write_cut(usize::MAX, room)
    }

    /// The same of a batch that is cut.
    fn write_cut(&mut self, cut: usize, room: usize) -> Flush {
        let mut batch = Batch::new();
        self.output.gather(Tick::ZERO, None, 64 * 1024, &mut batch);
        batch.cut(cut);
        assert!(batch.len() <= cut);
        let bytes: Vec<u8> = batch.slices().flatten().copied().collect();
        assert_eq!(bytes.len(), batch.len());
        let contiguous = batch.as_contiguous();
        assert!(contiguous.is_none_or(|contiguous| contiguous == bytes));
        let written = room.min(bytes.len());
        self.written.extend_from_slice(&bytes[..written]);
        let flush = self.output.written(&mut batch, written);
        assert_eq!(flush == Flush::Blocked, written < bytes.len());
        assert!(flush != Flush::Done || !batch.is_cut());
        flush
    }
}

#[test]
fn packets_leave_whole_and_in_order_whatever_the_socket_takes() {
    // A small linear congruential generator: the seed is fixed, so a failure repeats itself.
    let mut state = 11_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from((state >> 33) % below).unwrap()
    };
    for round in 0..2_000 {
        let mut pair = Pair::default();
        for step in 0..random(30) {
            let payload = |len: usize| vec![step as u8; len];
            match random(8) {
                0 => pair.publish(&payload(random(200)), None),
                1 => pair.publish(&payload(random(9_000)), PacketId::new(7)),
                2 => pair.control(&payload(1 + random(5))),
                3 => {
                    let longest = [20, 400, 5_000][random(3)];
                    let lens: Vec<_> = (0..1 + random(20)).map(|_| random(longest)).collect();
                    pair.run(&lens.into_iter().map(payload).collect::<Vec<_>>());
                }
                4 => {
                    let lens: Vec<_> = (0..1 + random(20)).map(|_| random(400)).collect();
                    pair.stored(&lens.into_iter().map(payload).collect::<Vec<_>>());
                }
                5 => drop(pair.write_cut(1 + random(9_000), random(9_000))),
                _ => drop(pair.write(random(5_000))),
            }
            let due = pair.expected.len() - pair.written.len();
            assert_eq!(pair.output.due_bytes(), due);
        }
        while pair.write_cut(1 + random(40_000), 1 + random(20_000)) != Flush::Done {}
        assert!(pair.written == pair.expected, "round {round}");
        assert_eq!((pair.output.memory(), pair.output.is_empty()), (0, true));
    }
}

/// A cut is no full socket: the client is written to again without its socket being asked.
#[test]
fn a_long_packet_goes_in_pieces() {
    let mut pair = Pair::default();
    pair.publish(&vec![1; 1_000_000], None);
    pair.publish(b"behind", None);
    let mut writes = 0;
    loop {
        writes += 1;
        match pair.write_cut(100_000, usize::MAX) {
            Flush::More => {}
            Flush::Done => break,
            Flush::Blocked => panic!("the socket has taken all"),
        }
        // What was begun is not dropped.
        pair.output.make_room(usize::MAX, 1, |_, _| panic!("lost"));
    }
    assert_eq!(writes, 11);
    assert!(pair.written == pair.expected);
}

/// What a write has begun takes as much memory as before until its last byte has gone.
#[test]
fn the_rest_of_a_long_packet_keeps_all_of_it() {
    let mut pair = Pair::default();
    pair.publish(&vec![1; 1_000_000], PacketId::new(1));
    let before = pair.output.memory();
    assert!((1_000_000..1_000_500).contains(&before), "{before}");
    for _ in 0..9 {
        assert_eq!(pair.write(100_000), Flush::Blocked);
        assert_eq!((pair.output.bytes(), pair.output.memory()), (0, 1_000_000));
    }
    assert_eq!(pair.write(200_000), Flush::Done);
    assert_eq!(pair.output.memory(), 0);
    assert!(pair.written == pair.expected);
}

/// A long payload is not copied for each kind of packet that it goes into.
#[test]
fn a_long_payload_is_written_from_its_message() {
    let wire = wire_of_message(&[1; 5_000], true);
    assert_eq!(
        (wire.tail().len(), wire.encoded.payload().len()),
        (5_000, 0)
    );
    let mut run = Run::new("a/topic", Tick::ZERO);
    assert!(run.push(&wire_of_message(&[2; 5_000], false)));
    assert!(run.push(&self::wire(&[3; 10], false)));
    let mut expected = Run::new("a/topic", Tick::ZERO);
    assert!(expected.push(&self::wire(&[2; 5_000], false)));
    assert!(expected.push(&self::wire(&[3; 10], false)));
    assert_eq!(run.bytes(), expected.bytes());
}

/// Neither are its properties.
#[test]
fn long_properties_are_written_from_their_message() {
    let property = [&[38, 0, 1, b'n', 0x13, 0x88][..], &[b'v'; 5_000]].concat();
    let parts = MessageParts {
        topic: "a/topic",
        properties: &property,
        payload: b"short",
        qos: QoS::AtLeastOnce,
        retain: false,
        expiry_secs: None,
    };
    let message = Message::new(Zone::DEFAULT, Publisher::SERVER, Tick::ZERO, &parts);
    let encode = |how: fn(Version, &PublishParts<'_>, bool) -> _, version, ids| {
        let properties = message.properties();
        let parts = PublishParts {
            properties,
            subscription_ids: ids,
            ..self::parts(message.payload())
        };
        let encoded: Result<EncodedPublish, _> = how(version, &parts, false);
        encoded.unwrap()
    };
    for (version, ids, tail) in [(Version::V5, &[7, 9][..], 5_011), (Version::V311, &[], 5)] {
        let whole = encode(EncodedPublish::new, version, ids);
        let head = Wire {
            encoded: encode(EncodedPublish::head, version, ids),
            message: Some(Arc::new(Message::new(
                Zone::DEFAULT,
                Publisher::SERVER,
                Tick::ZERO,
                &parts,
            ))),
            ..wire(&[], false)
        };
        assert_eq!(head.tail().len(), tail);
        let mut expected = Vec::new();
        whole.append_to(&mut expected, 0x30, None, None);
        let mut written = Vec::new();
        head.encoded.append_to(&mut written, 0x30, None, None);
        assert!(written.len() < 50);
        written.extend_from_slice(head.tail());
        assert_eq!(written, expected);
    }
}

#[test]
fn a_run_is_dropped_message_by_message() {
    let mut pair = Pair::default();
    let payloads: Vec<Vec<u8>> = (0..5).map(|number| vec![number; 10]).collect();
    pair.run(&payloads);
    let each = wire(&payloads[0], false).encoded.wire_len();
    assert_eq!(pair.write(each + 1), Flush::Blocked);
    // The second was begun, and is finished; of the others the two oldest go.
    assert_eq!(pair.output.wire_bytes(), 3 * each);
    let drop_until = |output: &mut Output, messages: usize| {
        let mut dropped = 0;
        output.make_room(usize::MAX, messages, |topic, messages| {
            assert_eq!(topic, "a/topic");
            dropped += messages;
        });
        dropped
    };
    for left in [2, 1] {
        assert_eq!(drop_until(&mut pair.output, left), 1);
        assert_eq!(pair.output.wire_bytes(), left * each);
        assert_eq!(pair.output.messages(), left);
    }
    assert_eq!(pair.write(usize::MAX), Flush::Done);
    assert_eq!(pair.written[..2 * each], pair.expected[..2 * each]);
    assert_eq!(pair.written[2 * each..], pair.expected[4 * each..]);
    assert_eq!(drop_until(&mut pair.output, 0), 0);
}

#[test]
fn what_an_abandoned_queue_loses_is_counted() {
    let mut pair = Pair::default();
    pair.run(&[vec![1; 10], vec![2; 10], vec![3; 10]]);
    pair.publish(b"owed", PacketId::new(1));
    pair.publish(b"lost", None);
    pair.stored(&[vec![4; 10], vec![5; 10]]);
    assert_eq!(pair.write(1), Flush::Blocked);
    let mut lost = Vec::new();
    pair.output
        .abandon(|topic, messages| lost.push((topic.map(str::to_owned), messages)));
    let topic = || Some("a/topic".to_owned());
    assert_eq!(lost, [(topic(), 2), (topic(), 1), (None, 2)]);
    assert_eq!(pair.write(usize::MAX), Flush::Done);
    let each = wire(&[1; 10], false).encoded.wire_len();
    assert_eq!(pair.written, pair.expected[..each]);
}

#[test]
fn a_run_takes_only_what_is_the_same_for_everybody() {
    let mut run = Run::new("a/topic", Tick::ZERO);
    assert!(run.push(&wire(b"x", false)));
    assert!(!run.push(&wire(b"x", true)));
    assert_eq!((run.len(), run.is_empty()), (1, false));
    assert_eq!(run.packet_bytes(), run.bytes().len());
}
