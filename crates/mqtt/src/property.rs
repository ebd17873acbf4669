//! The properties of MQTT 5.0 one by one [section 2.2.2.2].

use crate::encode::EncodeError;
use crate::types::QoS;
use crate::wire::{Reader, Sink};

macro_rules! properties {
    ($( $(#[doc = $doc:literal])+ $name:ident = $id:literal, $shape:ident $(($ty:ty))?; )+) => {
        /// One property of a 5.0 packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Property<'a> {
            $( $(#[doc = $doc])+ $name(properties!(@type $shape $($ty)?)), )+
        }

        impl<'a> Property<'a> {
            /// The identifier on the wire.
            #[must_use]
            pub const fn id(self) -> u8 {
                match self {
                    $( Self::$name(..) => $id, )+
                }
            }

            /// The property of an identifier and the bytes of its value, which `shape` cut out.
            /// `None` for a value that the property's type does not have.
            pub(crate) fn parse(id: u8, value: &'a [u8]) -> Option<Self> {
                let mut reader = Reader::new(value);
                match id {
                    $( $id => properties!(@read $shape reader).map(Self::$name), )+
                    _ => None,
                }
            }

            /// Appends identifier and value.
            pub(crate) fn write<S: Sink>(self, out: &mut S) -> Result<(), EncodeError> {
                out.u8(self.id());
                match self {
                    $( Self::$name(value) => properties!(@write $shape out value), )+
                }
            }
        }

        /// The data type of each property; `None` for undefined identifiers.
        #[inline]
        pub(crate) const fn shape(id: u8) -> Option<Shape> {
            match id {
                $( $id => Some(Shape::$shape), )+
                _ => None,
            }
        }
    };
    (@type Bool) => { bool };
    (@type MaxQoS) => { QoS };
    (@type U16) => { u16 };
    (@type U32) => { u32 };
    (@type VarInt) => { u32 };
    (@type Text) => { &'a str };
    (@type Binary) => { &'a [u8] };
    (@type Pair $ty:ty) => { $ty };
    (@read Bool $r:ident) => { $r.u8().ok().and_then(bool_of) };
    (@read MaxQoS $r:ident) => { $r.u8().ok().and_then(max_qos_of) };
    (@read U16 $r:ident) => { $r.u16().ok() };
    (@read U32 $r:ident) => { $r.u32().ok() };
    (@read VarInt $r:ident) => { $r.varint().ok() };
    (@read Text $r:ident) => { $r.string().ok() };
    (@read Binary $r:ident) => { $r.binary().ok() };
    (@read Pair $r:ident) => { pair_of(&mut $r) };
    (@write Bool $out:ident $v:ident) => {{ $out.u8(u8::from($v)); Ok(()) }};
    (@write MaxQoS $out:ident $v:ident) => {{ $out.u8($v as u8); Ok(()) }};
    (@write U16 $out:ident $v:ident) => {{ $out.u16($v); Ok(()) }};
    (@write U32 $out:ident $v:ident) => {{ $out.u32($v); Ok(()) }};
    (@write VarInt $out:ident $v:ident) => { write_varint($out, $v) };
    (@write Text $out:ident $v:ident) => { $out.string($v) };
    (@write Binary $out:ident $v:ident) => { $out.binary($v) };
    (@write Pair $out:ident $v:ident) => {{ $out.string($v.0)?; $out.string($v.1) }};
}

properties! {
    /// Whether the payload is UTF-8 text (`true`) or unspecified bytes.
    PayloadFormatIndicator = 0x01, Bool;
    /// Seconds that the message stays of interest.
    MessageExpiryInterval = 0x02, U32;
    /// MIME type or whatever the applications agree on.
    ContentType = 0x03, Text;
    /// Where the answer to a request is to go: a topic name.
    ResponseTopic = 0x08, Text;
    /// Tells the requester which request an answer belongs to.
    CorrelationData = 0x09, Binary;
    /// The number that a subscription was given by its subscriber: 1 to 268,435,455.
    SubscriptionIdentifier = 0x0B, VarInt;
    /// Seconds that a session outlives its connection; 0xFFFF_FFFF is for ever.
    SessionExpiryInterval = 0x11, U32;
    /// The client identifier that the server chose.
    AssignedClientIdentifier = 0x12, Text;
    /// The keep-alive in seconds that the client has to use instead of its own.
    ServerKeepAlive = 0x13, U16;
    /// Name of the enhanced authentication method.
    AuthenticationMethod = 0x15, Text;
    /// What the authentication method exchanges.
    AuthenticationData = 0x16, Binary;
    /// Whether reason strings and user properties are welcome in every packet.
    RequestProblemInformation = 0x17, Bool;
    /// Seconds between the end of a connection and its will.
    WillDelayInterval = 0x18, U32;
    /// Whether the client asks for response information.
    RequestResponseInformation = 0x19, Bool;
    /// What the client may use as base of its response topics.
    ResponseInformation = 0x1A, Text;
    /// Another server.
    ServerReference = 0x1C, Text;
    /// A reason for people to read.
    ReasonString = 0x1F, Text;
    /// How many QoS 1 and 2 messages the receiver takes unacknowledged: at least 1.
    ReceiveMaximum = 0x21, U16;
    /// The highest topic alias that the receiver takes.
    TopicAliasMaximum = 0x22, U16;
    /// A number that stands for the topic name: at least 1.
    TopicAlias = 0x23, U16;
    /// The highest QoS that the server offers: never 2, which goes without saying.
    MaximumQoS = 0x24, MaxQoS;
    /// Whether the server keeps retained messages.
    RetainAvailable = 0x25, Bool;
    /// A name and a value; may stand any number of times, in an order that is kept.
    UserProperty = 0x26, Pair((&'a str, &'a str));
    /// The largest packet in bytes that the receiver takes: at least 1.
    MaximumPacketSize = 0x27, U32;
    /// Whether the server has wildcard subscriptions.
    WildcardSubscriptionAvailable = 0x28, Bool;
    /// Whether the server has subscription identifiers.
    SubscriptionIdentifiersAvailable = 0x29, Bool;
    /// Whether the server has shared subscriptions.
    SharedSubscriptionAvailable = 0x2A, Bool;
}

/// The data type of a property's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Bool,
    MaxQoS,
    U16,
    U32,
    VarInt,
    Text,
    Binary,
    Pair,
}

impl Shape {
    /// Cuts one value of this type off the front. Lengths are checked, contents are not.
    #[inline]
    pub(crate) fn cut<'a>(
        self,
        reader: &mut Reader<'a>,
    ) -> Result<&'a [u8], crate::error::DecodeError> {
        let mut ahead = *reader;
        match self {
            Self::Bool | Self::MaxQoS => return reader.take(1),
            Self::U16 => return reader.take(2),
            Self::U32 => return reader.take(4),
            Self::VarInt => {
                ahead.varint()?;
            }
            Self::Text | Self::Binary => {
                ahead.binary()?;
            }
            Self::Pair => {
                ahead.binary()?;
                ahead.binary()?;
            }
        }
        reader.take(reader.rest().len() - ahead.rest().len())
    }
}

fn bool_of(byte: u8) -> Option<bool> {
    match byte {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn max_qos_of(byte: u8) -> Option<QoS> {
    QoS::from_bits(byte).filter(|&qos| qos != QoS::ExactlyOnce)
}

fn pair_of<'a>(reader: &mut Reader<'a>) -> Option<(&'a str, &'a str)> {
    let name = reader.string().ok()?;
    let value = reader.string().ok()?;
    Some((name, value))
}

fn write_varint<S: Sink>(out: &mut S, value: u32) -> Result<(), EncodeError> {
    if value > crate::REMAINING_LEN_MAX {
        return Err(EncodeError::IntegerTooLarge { value });
    }
    out.varint(value);
    Ok(())
}
