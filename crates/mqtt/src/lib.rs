//! MQTT 3.1, 3.1.1 and 5.0 control packets to and from bytes.
//!
//! The crate knows what a packet looks like and nothing about what it means: no socket, no clock,
//! no session. A server or client uses it in three steps.
//!
//! 1. [`frame`] finds the end of the next packet in what has been received.
//! 2. [`decode`] turns the frame's body into a [`Packet`] that borrows from it; nothing is
//!    allocated. Whatever the specification calls malformed or a protocol error is a
//!    [`DecodeError`], which knows its reason code.
//! 3. [`encode`] appends a packet to a buffer. An application message for many subscribers is
//!    encoded once as [`EncodedPublish`] and copied out with its variable fields patched.
//!
//! `README.md` beside this crate describes frames, variants and limits.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod decode;
mod encode;
mod error;
mod filters;
mod frame;
mod packet;
mod properties;
mod property;
mod publish;
mod reason;
mod rules;
mod types;
mod wire;

pub use decode::{Sender, connect_version, decode, decode_publish, decode_subscribe, peek_topic};
pub use encode::{EncodeError, encode};
pub use error::{DecodeError, DecodeErrorKind};
pub use filters::{
    FILTERS_MAX, SubscribeFilterBuf, SubscribeFiltersIter, UnsubscribeFilterBuf,
    UnsubscribeFiltersIter,
};
pub use frame::{Frame, frame, frame_header};
pub use packet::{
    Ack, ConnAck, Connect, Disconnect, Packet, Publish, SubAck, Subscribe, SubscribeFilter,
    SubscribeFilters, Unsubscribe, UnsubscribeFilters, Will,
};
pub use properties::{Properties, PropertiesIter, PropertyBuf};
pub use property::Property;
pub use publish::{EncodedPublish, PublishParts, append_publish, first_byte, forwardable};
pub use reason::ReasonCode;
pub use rules::PROPERTIES_MAX;
pub use types::{PacketId, QoS, RetainHandling, SubscribeOptions, Version};

/// The largest value of a Variable Byte Integer, hence of a packet's Remaining Length: 256 MiB − 1
/// bytes.
pub const REMAINING_LEN_MAX: u32 = 268_435_455;

/// The longest string or binary value in bytes.
pub const STRING_BYTES_MAX: usize = 65_535;
