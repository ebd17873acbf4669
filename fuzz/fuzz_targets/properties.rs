//! Property bytes in the packets with the largest sets: what is accepted can be walked, found,
//! forwarded and built again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stentor_mqtt::{Packet, Properties, PropertyBuf, Sender, Version, decode, forwardable};

fuzz_target!(|raw: &[u8]| {
    let mut list = Vec::new();
    let mut len = raw.len();
    while len >= 0x80 {
        list.push(len as u8 | 0x80);
        len >>= 7;
    }
    list.push(len as u8);
    list.extend_from_slice(raw);

    let publish = [b"\0\x01t", &list[..]].concat();
    for from in [Sender::Client, Sender::Server] {
        if let Ok(Packet::Publish(packet)) = decode(Version::V5, from, 0x30, &publish) {
            check(packet.properties);
        }
    }
    let connack = [b"\0\0", &list[..]].concat();
    if let Ok(Packet::ConnAck(packet)) = decode(Version::V5, Sender::Server, 0x20, &connack) {
        check(packet.properties);
    }
    let connect = [b"\0\x04MQTT\x05\x06\0\0", &list[..], b"\0\0\0\0\x01w\0\0"].concat();
    if let Ok(Packet::Connect(packet)) = decode(Version::V5, Sender::Client, 0x10, &connect) {
        check(packet.properties);
    }
    let will = [b"\0\x04MQTT\x05\x06\0\0\0\0\0", &list[..], b"\0\x01w\0\0"].concat();
    if let Ok(Packet::Connect(packet)) = decode(Version::V5, Sender::Client, 0x10, &will) {
        packet
            .will
            .into_iter()
            .for_each(|will| check(will.properties));
    }
});

fn check(properties: Properties<'_>) {
    let mut again = PropertyBuf::new();
    for property in properties {
        again
            .try_push(property)
            .expect("what was read can be written");
    }
    assert_eq!(again.as_properties(), properties);
    let mut forwarded = Vec::new();
    forwardable(properties, &mut forwarded);
    assert!(forwarded.len() <= properties.raw().len());
    assert_eq!(
        properties.topic_alias().is_some(),
        properties.iter().any(|found| found.id() == 0x23)
    );
    assert!(properties.user_properties().count() <= properties.iter().count());
}
