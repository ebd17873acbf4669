//! Why bytes are not a packet.

use crate::reason::ReasonCode;
use core::fmt;

macro_rules! decode_error_kinds {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $reason:ident, $requirement:literal, $text:literal;
    )+) => {
        /// What exactly is wrong, one variant for each rule.
        // A word: else what was decoded is copied in the pieces that a byte in its place leaves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u64)]
        pub enum DecodeErrorKind {
            $( $(#[doc = $doc])+ $name, )+
        }

        impl DecodeErrorKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )+ ];

            const fn entry(self) -> (ReasonCode, &'static str, &'static str) {
                match self {
                    $( Self::$name => (ReasonCode::$reason, $requirement, $text), )+
                }
            }
        }
    };
}

decode_error_kinds! {
    /// Packet type 0, or AUTH in 3.x.
    TypeReserved: MalformedPacket, "MQTT5 2.1.2", "the packet type is reserved";
    /// The low bits of the first byte are not what the packet type requires.
    FlagsReserved: MalformedPacket, "MQTT-2.1.3-1", "reserved flags in the fixed header are wrong";
    /// Both QoS bits of a PUBLISH.
    QoSReserved: MalformedPacket, "MQTT-3.3.1-4", "both QoS bits of a PUBLISH are set";
    /// DUP on a QoS 0 message.
    DupWithoutQoS: MalformedPacket, "MQTT-3.3.1-2", "DUP is set on a QoS 0 PUBLISH";
    /// A length of more than four bytes.
    VarIntTooLong: MalformedPacket, "MQTT5 1.5.5",
        "a variable byte integer has more than four bytes";
    /// A number in more bytes than it needs.
    VarIntNotMinimal: MalformedPacket, "MQTT-1.5.5-1",
        "a variable byte integer has more bytes than it needs";
    /// Over the receiver's limit.
    PacketTooLarge: PacketTooLarge, "MQTT-3.2.2-15",
        "the packet is larger than the receiver allows";
    /// Only the other side sends this packet, or not in this version.
    PacketNotExpected: ProtocolError, "MQTT5 2.1.2", "this side may not send this type of packet";
    /// A field reaches beyond the end.
    Truncated: MalformedPacket, "MQTT5 2.1.4", "a field is longer than what is left of the packet";
    /// Something follows the last field.
    TrailingBytes: MalformedPacket, "MQTT5 2.1.4", "there are bytes behind the last field";
    /// Not UTF-8, or a surrogate.
    Utf8: MalformedPacket, "MQTT-1.5.4-1", "a string is not UTF-8";
    /// U+0000 in a string.
    Nul: MalformedPacket, "MQTT-1.5.4-2", "a string contains U+0000";
    /// Packet identifier 0.
    PacketIdZero: ProtocolError, "MQTT-2.2.1-3", "the packet identifier is zero";
    /// Neither `MQTT` nor `MQIsdp`.
    ProtocolName: UnsupportedProtocolVersion, "MQTT-3.1.2-1", "the protocol name is not MQTT";
    /// A level that is not 3 (`MQIsdp`), 4 or 5, the bridge bit of 3 and 4 apart.
    ProtocolLevel: UnsupportedProtocolVersion, "MQTT-3.1.2-2",
        "the protocol version is not supported";
    /// Bit 0 of the connect flags.
    ConnectFlagReserved: MalformedPacket, "MQTT-3.1.2-3", "the reserved connect flag is set";
    /// A will QoS without a will.
    WillQoSWithoutWill: MalformedPacket, "MQTT-3.1.2-11", "a will QoS is set but there is no will";
    /// Will QoS 3.
    WillQoSReserved: MalformedPacket, "MQTT-3.1.2-12", "both will QoS bits are set";
    /// Will retain without a will.
    WillRetainWithoutWill: MalformedPacket, "MQTT-3.1.2-13",
        "will retain is set but there is no will";
    /// 3.x allows a password only with a user name.
    PasswordWithoutUserName: MalformedPacket, "MQTT311-3.1.2-22",
        "there is a password but no user name";
    /// 3.1 never, 3.1.1 only with clean session.
    ClientIdEmpty: ClientIdentifierNotValid, "MQTT311-3.1.3-8", "the client identifier is empty";
    /// Bits 7 to 1 of the acknowledge flags.
    ConnAckFlagsReserved: MalformedPacket, "MQTT-3.2.2-1", "reserved acknowledge flags are set";
    /// A refusal that claims a session.
    SessionPresentWithError: ProtocolError, "MQTT-3.2.2-6", "session present is set in a refusal";
    /// A reason or return code that is undefined.
    ReasonUnknown: MalformedPacket, "MQTT5 2.4", "the reason code is not defined";
    /// A reason code of other packets, or of the other side.
    ReasonNotAllowed: ProtocolError, "MQTT5 2.4", "the reason code is not one for this packet";
    /// `+` or `#` in a topic name.
    TopicWildcard: TopicNameInvalid, "MQTT-3.3.2-2", "a topic name contains a wildcard";
    /// No topic name, and no alias either.
    TopicEmpty: ProtocolError, "MQTT-4.7.3-1", "a topic name is empty";
    /// SUBSCRIBE without a filter.
    SubscribeEmpty: ProtocolError, "MQTT-3.8.3-2", "SUBSCRIBE has no topic filter";
    /// More filters than a list may have.
    FiltersTooMany: QuotaExceeded, "MQTT5 4.13", "the packet has more than 131,072 topic filters";
    /// UNSUBSCRIBE without a filter.
    UnsubscribeEmpty: ProtocolError, "MQTT-3.10.3-2", "UNSUBSCRIBE has no topic filter";
    /// SUBACK, or a 5.0 UNSUBACK, without a reason code.
    ReasonsEmpty: MalformedPacket, "MQTT-3.8.4-6", "there is no reason code";
    /// A filter of no characters.
    FilterEmpty: MalformedPacket, "MQTT-4.7.3-1", "a topic filter is empty";
    /// Reserved bits of the subscription options.
    SubscribeOptionsReserved: MalformedPacket, "MQTT-3.8.3-5",
        "reserved subscription options are set";
    /// Both QoS bits of the subscription options.
    SubscribeQoSReserved: ProtocolError, "MQTT5 3.8.3.1", "both QoS bits of a subscription are set";
    /// Retain handling 3.
    RetainHandlingReserved: ProtocolError, "MQTT5 3.8.3.1", "the retain handling option is 3";
    /// No Local makes no sense on a shared subscription.
    NoLocalShared: ProtocolError, "MQTT-3.8.3-4", "no local is set on a shared subscription";
    /// A property identifier that is undefined.
    PropertyUnknown: MalformedPacket, "MQTT5 2.2.2.2", "the property is not defined";
    /// A property of other packets.
    PropertyNotAllowed: MalformedPacket, "MQTT5 2.2.2.2", "the property is not one for this packet";
    /// Twice what may stand once.
    PropertyDuplicate: ProtocolError, "MQTT5 2.2.2.2", "a property is there more than once";
    /// More properties than a client's packet may have.
    PropertiesTooMany: QuotaExceeded, "MQTT5 4.13", "the packet has more than 4,096 properties";
    /// A value that the property cannot have, such as a boolean of 2 or a limit of 0.
    PropertyValue: ProtocolError, "MQTT5 2.2.2.2", "a property has a value that is not allowed";
    /// Topic alias 0.
    TopicAliasZero: TopicAliasInvalid, "MQTT-3.3.2-8", "the topic alias is zero";
    /// Wildcards in a response topic, or nothing in it.
    ResponseTopicInvalid: ProtocolError, "MQTT-3.3.2-14", "the response topic is not a topic name";
    /// Only servers attach subscription identifiers to messages.
    SubscriptionIdFromClient: ProtocolError, "MQTT-3.3.4-6",
        "a client's PUBLISH has a subscription identifier";
    /// Only clients change the session expiry interval.
    SessionExpiryFromServer: ProtocolError, "MQTT-3.14.2-2",
        "a server's DISCONNECT has a session expiry interval";
    /// Only servers send clients elsewhere.
    ServerReferenceFromClient: ProtocolError, "MQTT5 3.14.2.2.5",
        "a client's DISCONNECT has a server reference";
    /// Authentication data without a method, or an AUTH packet without one.
    AuthMethodMissing: ProtocolError, "MQTT5 3.1.2.11.10", "the authentication method is missing";
}

/// Why bytes are not a packet: the connection that they came from has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeError {
    /// Which rule was broken.
    pub kind: DecodeErrorKind,
}

impl DecodeError {
    /// The reason code for the CONNACK or DISCONNECT that ends the connection; 3.x has no such
    /// packet but for CONNACK [MQTT-4.13.1-1].
    #[must_use]
    pub const fn reason(self) -> ReasonCode {
        self.kind.entry().0
    }

    /// Where the rule stands: the identifier of a normative statement of MQTT 5.0 (of 3.1.1 with
    /// `MQTT311-` in front, where only that version has the rule), or a section of 5.0 for rules
    /// without an identifier.
    #[must_use]
    pub const fn requirement(self) -> &'static str {
        self.kind.entry().1
    }

    /// What is wrong with the packet, without the rule.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.kind.entry().2
    }
}

impl From<DecodeErrorKind> for DecodeError {
    #[inline]
    fn from(kind: DecodeErrorKind) -> Self {
        Self { kind }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, requirement, text) = self.kind.entry();
        write!(f, "{text} [{requirement}]")
    }
}

impl core::error::Error for DecodeError {}
