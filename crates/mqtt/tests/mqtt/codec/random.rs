//! Bytes that nobody meant as a packet.

use proptest::prelude::*;
use stentor_mqtt::{Packet, Sender, Version, decode, encode, frame, frame_header};

fn versions() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V31), Just(Version::V311), Just(Version::V5)]
}

fn senders() -> impl Strategy<Value = Sender> {
    prop_oneof![Just(Sender::Client), Just(Sender::Server)]
}

/// Small values are likely, so that lengths fit and fields follow each other.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => 0u8..6, 1 => any::<u8>(), 1 => Just(b'a'), 1 => 0u8..43];
    proptest::collection::vec(byte, 0..80)
}

/// Uses everything that a decoded packet offers.
fn touch(packet: &Packet<'_>) {
    match packet {
        Packet::Subscribe(packet) => {
            assert_eq!(packet.filters.iter().count(), packet.filters.count());
            assert!(packet.filters.count() > 0);
        }
        Packet::Unsubscribe(packet) => {
            assert_eq!(packet.filters.iter().count(), packet.filters.count());
            assert!(packet.filters.count() > 0);
        }
        Packet::Publish(packet) => {
            assert_eq!(packet.packet_id.is_some(), packet.qos as u8 > 0);
            assert!(!packet.topic.is_empty() || packet.properties.topic_alias().is_some());
        }
        _ => {}
    }
    assert!(!format!("{packet:?}").is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Neither panics; what is accepted comes back from its own encoding.
    #[test]
    fn decode_never_panics(
        version in versions(),
        from in senders(),
        first in any::<u8>(),
        body in bytes(),
    ) {
        if let Ok(packet) = decode(version, from, first, &body) {
            touch(&packet);
            let version = match &packet {
                Packet::Connect(connect) => connect.version,
                _ => version,
            };
            let mut again = Vec::new();
            encode(version, &packet, &mut again).unwrap();
            let found = frame(&again, u32::MAX).unwrap().unwrap();
            let body = &again[found.header_len..];
            prop_assert_eq!(decode(version, from, found.first, body), Ok(packet));
        }
    }

    /// The answer to a prefix is "more", or it is final.
    #[test]
    fn frame_of_a_prefix_never_changes_its_mind(
        input in bytes(),
        max in prop_oneof![Just(u32::MAX), 0u32..90],
    ) {
        let whole = frame(&input, max);
        for len in 0..input.len() {
            match frame(&input[..len], max) {
                Ok(None) => {}
                answer => prop_assert_eq!(answer, whole, "after {} of {} bytes", len, input.len()),
            }
            if let Ok(Some(found)) = frame_header(&input[..len], max) {
                prop_assert_eq!(found.total_len > len, frame(&input[..len], max) == Ok(None));
            }
        }
    }
}
