//! Three codecs on the same bytes, as in `crates/mqtt/tests/oracle`, and our own round trip.
#![no_main]

#[path = "../../crates/mqtt/tests/oracle/compare.rs"]
mod compare;
#[path = "../../crates/mqtt/tests/oracle/divergences.rs"]
#[expect(
    dead_code,
    reason = "the test also checks that no entry is out of date"
)]
mod divergences;
#[path = "../../crates/mqtt/tests/oracle/mqtt5_protocol_oracle.rs"]
mod mqtt5_protocol_oracle;
#[path = "../../crates/mqtt/tests/oracle/protocol_core_oracle.rs"]
mod protocol_core_oracle;

use compare::{Tally, compare};
use libfuzzer_sys::fuzz_target;
use stentor_mqtt::{Packet, Sender, Version, decode, encode, frame};

fuzz_target!(|data: &[u8]| {
    let [choice, first, body @ ..] = data else {
        return;
    };
    let version = [Version::V31, Version::V311, Version::V5][usize::from(choice % 3)];
    for from in [Sender::Client, Sender::Server] {
        round_trip(version, from, *first, body);
    }
    let mut packet = vec![*first];
    let mut len = body.len();
    while len >= 0x80 {
        packet.push(len as u8 | 0x80);
        len >>= 7;
    }
    packet.push(len as u8);
    packet.extend_from_slice(body);
    if let Err(difference) = compare(version, &packet, &mut Tally::default()) {
        panic!("{difference:?}");
    }
});

fn round_trip(version: Version, from: Sender, first: u8, body: &[u8]) {
    let Ok(packet) = decode(version, from, first, body) else {
        return;
    };
    let version = match &packet {
        Packet::Connect(connect) => connect.version,
        _ => version,
    };
    let mut out = Vec::new();
    encode(version, &packet, &mut out).expect("what was decoded can be encoded");
    let found = frame(&out, u32::MAX).expect("legal").expect("whole");
    let again = decode(version, from, found.first, &out[found.header_len..]);
    assert_eq!(again.as_ref(), Ok(&packet));
}
