//! Where an oracle differs and the specification says who is right.

use stentor_mqtt::DecodeErrorKind as K;
use stentor_mqtt::{DecodeError, Packet, ReasonCode, Version};

/// Whose verdict it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Oracle {
    /// `mqtt-protocol-core`.
    ProtocolCore,
    /// `mqtt5-protocol`.
    Mqtt5Protocol,
}

/// A rule that an oracle does not enforce, with the passage that makes it one.
pub(crate) struct Lax {
    oracle: Oracle,
    kind: K,
    /// Bits of the packet types that it concerns.
    types: u16,
    /// Why refusing is right.
    #[expect(dead_code, reason = "for the reader of the table")]
    passage: &'static str,
}

impl Lax {
    /// For kinds that could hide a fault here in other packets.
    const fn only(mut self, types: &[u8]) -> Self {
        self.types = 0;
        let mut index = 0;
        while index < types.len() {
            self.types |= 1 << types[index];
            index += 1;
        }
        self
    }
}

const fn core(kind: K, passage: &'static str) -> Lax {
    Lax {
        oracle: Oracle::ProtocolCore,
        kind,
        types: u16::MAX,
        passage,
    }
}

const fn five(kind: K, passage: &'static str) -> Lax {
    Lax {
        oracle: Oracle::Mqtt5Protocol,
        kind,
        types: u16::MAX,
        passage,
    }
}

/// What an oracle accepts and the specification forbids. It may leave the check to another layer.
pub(crate) const LAX: &[Lax] = &[
    core(
        K::AuthMethodMissing,
        "5.0 3.15.2.2.2: omitting the method is a protocol error",
    ),
    core(K::ClientIdEmpty, "[MQTT-3.1.3-8] of 3.1.1: 0x02 and close"),
    core(K::ConnAckFlagsReserved, "[MQTT-3.2.2-1]: bits 7 to 1 are 0"),
    core(
        K::ConnectFlagReserved,
        "[MQTT-3.1.2-3]: the server must validate it",
    ),
    core(K::FilterEmpty, "[MQTT-4.7.3-1]: at least one character"),
    core(K::NoLocalShared, "[MQTT-3.8.3-4]: protocol error"),
    core(K::Nul, "[MQTT-1.5.4-2]: no U+0000 in a string"),
    core(
        K::PacketIdZero,
        "[MQTT-2.2.1-3] and -4: identifiers are not zero",
    ),
    core(
        K::PropertyDuplicate,
        "5.0 3.8.2.1.2: one subscription identifier",
    )
    .only(&[8]),
    core(
        K::ReasonNotAllowed,
        "[MQTT-3.14.2-1] [MQTT-3.15.2-1]: the tables say who may send it",
    )
    .only(&[14, 15]),
    core(
        K::ResponseTopicInvalid,
        "[MQTT-3.3.2-14]: no wildcards; [MQTT-4.7.3-1]: not empty",
    ),
    core(K::SessionExpiryFromServer, "[MQTT-3.14.2-2]"),
    core(K::SessionPresentWithError, "[MQTT-3.2.2-6]: 0 in a refusal"),
    core(K::SubscribeOptionsReserved, "[MQTT-3.8.3-5]: malformed"),
    core(K::SubscriptionIdFromClient, "[MQTT-3.3.4-6]"),
    core(
        K::TopicEmpty,
        "[MQTT-4.7.3-1]; 5.0 3.3.2.1: protocol error without an alias",
    ),
    core(
        K::TopicWildcard,
        "[MQTT-3.3.2-2] [MQTT-4.7.1-1]: no wildcards in a topic name",
    ),
    core(
        K::TrailingBytes,
        "3.1.1 3.4.1: the remaining length of an acknowledgement is 2",
    )
    .only(&[4, 5, 6, 7]),
    core(
        K::Truncated,
        "[MQTT-2.2.2-1]: no properties are a length of 0, not no length",
    )
    .only(&[3, 15]),
    core(
        K::VarIntNotMinimal,
        "[MQTT-1.5.5-1]: the minimum number of bytes",
    ),
    core(K::WillQoSReserved, "[MQTT-3.1.2-12]: never 3"),
    core(K::WillQoSWithoutWill, "[MQTT-3.1.2-11]: 0 without a will"),
    core(
        K::WillRetainWithoutWill,
        "[MQTT-3.1.2-13]: 0 without a will",
    ),
    five(
        K::AuthMethodMissing,
        "5.0 3.1.2.11.10 and 3.15.2.2.2: protocol error",
    ),
    five(K::ClientIdEmpty, "[MQTT-3.1.3-8] of 3.1.1: 0x02 and close"),
    five(K::FilterEmpty, "[MQTT-4.7.3-1]: at least one character"),
    five(K::NoLocalShared, "[MQTT-3.8.3-4]: protocol error"),
    five(
        K::PacketIdZero,
        "[MQTT-2.2.1-3] and -4: identifiers are not zero",
    ),
    five(
        K::PacketNotExpected,
        "3.1.1 table 2.1: type 15 is forbidden",
    )
    .only(&[15]),
    five(
        K::PropertyNotAllowed,
        "5.0 2.2.2.2: malformed when not valid for the packet type",
    ),
    five(
        K::PropertyValue,
        "5.0 3.1.2.11 and 3.2.2.3: values other than those listed",
    ),
    five(
        K::PropertyDuplicate,
        "5.0 3.8.2.1.2: one subscription identifier",
    )
    .only(&[8]),
    five(
        K::ProtocolLevel,
        "[MQTT-3.1.2-2]: only the levels that the server speaks",
    ),
    five(
        K::ReasonNotAllowed,
        "[MQTT-3.14.2-1] [MQTT-3.15.2-1] [MQTT-3.9.3-2] of 3.1.1",
    )
    .only(&[2, 9, 14, 15]),
    five(
        K::ReasonUnknown,
        "5.0 2.4 and 3.1.1 3.2.2.3: reserved values",
    )
    .only(&[2, 15]),
    five(
        K::ResponseTopicInvalid,
        "[MQTT-3.3.2-14]: no wildcards; [MQTT-4.7.3-1]: not empty",
    ),
    five(
        K::ServerReferenceFromClient,
        "5.0 3.14.2.2.5: the server sends it",
    ),
    five(K::SessionPresentWithError, "[MQTT-3.2.2-6]: 0 in a refusal"),
    five(
        K::SubscribeOptionsReserved,
        "[MQTT-3-8.3-4] of 3.1.1: malformed",
    ),
    five(
        K::SubscribeQoSReserved,
        "[MQTT-3-8.3-4] of 3.1.1: malformed",
    ),
    five(K::SubscriptionIdFromClient, "[MQTT-3.3.4-6]"),
    five(K::TopicAliasZero, "[MQTT-3.3.2-8]"),
    five(
        K::TopicEmpty,
        "[MQTT-4.7.3-1]; 5.0 3.3.2.1: protocol error without an alias",
    ),
    five(
        K::TopicWildcard,
        "[MQTT-3.3.2-2] [MQTT-4.7.1-1]: no wildcards in a topic name",
    ),
    five(
        K::TrailingBytes,
        "3.1.1 3.2.1 and 3.14.1: the remaining length is 2, or 0",
    )
    .only(&[2, 4, 5, 6, 7, 14]),
    five(
        K::Truncated,
        "[MQTT-2.2.2-1]: CONNACK has a property length",
    )
    .only(&[2]),
    five(
        K::VarIntNotMinimal,
        "[MQTT-1.5.5-1]: the minimum number of bytes",
    ),
];

/// The entry that explains why the oracle accepts what is refused here. `errors` are those of both
/// directions, since the oracles do not ask for it.
pub(crate) fn known_lax(oracle: Oracle, first: u8, errors: &[DecodeError; 2]) -> Option<usize> {
    let explains = |error: &DecodeError| {
        LAX.iter().position(|entry| {
            entry.oracle == oracle
                && entry.kind == error.kind
                && entry.types & (1 << (first >> 4)) != 0
        })
    };
    // "Not from a client" explains nothing when a server may send it.
    let is_decisive = |error: &&DecodeError| {
        error.kind != K::PacketNotExpected
            || errors
                .iter()
                .all(|error| error.kind == K::PacketNotExpected)
    };
    errors.iter().filter(is_decisive).find_map(explains)
}

/// How an entry is called when no packet met it.
pub(crate) fn lax_name(index: usize) -> String {
    format!("{:?} {:?}", LAX[index].oracle, LAX[index].kind)
}

/// Whether the oracle is known to refuse what is accepted here.
pub(crate) fn is_known_strict(oracle: Oracle, version: Version, packet: &Packet<'_>) -> bool {
    if !version.is_v5() {
        return false;
    }
    // 5.0 3.1.2.9, a comment: unlike 3.1.1, a password may come without a user name.
    if let Packet::Connect(connect) = packet {
        return connect.password.is_some() && connect.username.is_none();
    }
    // 5.0 2.4 lists 0x8C for DISCONNECT, table 3-10 forgets it.
    if let Packet::Disconnect(packet) = packet {
        return packet.reason == ReasonCode::BadAuthenticationMethod;
    }
    if oracle != Oracle::ProtocolCore {
        return false;
    }
    let share_is_bad = |filter: &str| {
        filter.strip_prefix("$share/").is_some_and(|rest| {
            let (name, filter) = rest.split_once('/').unwrap_or((rest, ""));
            name.is_empty() || name.contains(['+', '#']) || filter.is_empty()
        })
    };
    match packet {
        // [MQTT-4.8.2-1] and -2 are about filters, and SUBACK and UNSUBACK have a reason code,
        // 0x8F, for each filter that is correctly formed text but not accepted.
        Packet::Subscribe(packet) => packet.filters.iter().any(|item| share_is_bad(item.filter)),
        Packet::Unsubscribe(packet) => packet.filters.iter().any(share_is_bad),
        _ => false,
    }
}
