//! Enhanced authentication on the wire [MQTT-4.12].

use stentor_tests::Packet;
use stentor_tests::raw::{packet, remaining_length, string};

/// Go on with the exchange.
pub(crate) const CONTINUE: u8 = 0x18;
/// Begin again while connected.
pub(crate) const AGAIN: u8 = 0x19;

fn properties(method: &str, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).expect("tests send little");
    let mut all = vec![0x15];
    all.extend(string(method));
    all.push(0x16);
    all.extend(length.to_be_bytes());
    all.extend_from_slice(data);
    let mut bytes = remaining_length(all.len());
    bytes.extend(all);
    bytes
}

/// A CONNECT of MQTT 5 that begins an exchange.
pub(crate) fn connect(client_id: &str, method: &str, data: &[u8]) -> Vec<u8> {
    let mut body = string("MQTT");
    body.extend([5, 2, 0, 0]);
    body.extend(properties(method, data));
    body.extend(string(client_id));
    packet(0x10, &body)
}

/// An AUTH.
pub(crate) fn auth(reason: u8, method: &str, data: &[u8]) -> Vec<u8> {
    let mut body = vec![reason];
    body.extend(properties(method, data));
    packet(0xF0, &body)
}

/// The authentication data of a packet that begins with these bytes.
#[track_caller]
pub(crate) fn data(packet: &Packet, beginning: &[u8]) -> Vec<u8> {
    let body = &packet.body;
    let at = (3..body.len()).find(|at| body[*at..].starts_with(beginning) && body[at - 3] == 0x16);
    let at = at.unwrap_or_else(|| panic!("no authentication data: {packet:?}"));
    let length = usize::from(u16::from_be_bytes([body[at - 2], body[at - 1]]));
    body[at..at + length].to_vec()
}
