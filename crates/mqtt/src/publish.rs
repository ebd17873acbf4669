//! The hot path: one application message encoded once and copied out for many subscribers.

use crate::encode::EncodeError;
use crate::properties::{Properties, RawIter};
use crate::rules::FORWARDABLE;
use crate::types::{PacketId, QoS, Version};
use crate::wire::{Sink, varint_len};
use crate::{REMAINING_LEN_MAX, STRING_BYTES_MAX};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// Bytes of a message expiry interval: identifier and seconds.
const EXPIRY_BYTES: usize = 5;

/// Bytes of a topic alias: identifier and number.
const ALIAS_BYTES: usize = 3;

const MESSAGE_EXPIRY: u8 = 0x02;
const SUBSCRIPTION_ID: u8 = 0x0B;
const TOPIC_ALIAS: u8 = 0x23;

/// The first byte of a PUBLISH [MQTT 5.0, section 3.3.1].
#[inline]
#[must_use]
pub const fn first_byte(qos: QoS, retain: bool, dup: bool) -> u8 {
    0x30 | ((dup as u8) << 3) | ((qos as u8) << 1) | retain as u8
}

/// Appends the properties that a server forwards with an application message, unaltered and in
/// order [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18]
/// [MQTT-3.3.2-20]: payload format indicator, content type, response topic, correlation data and
/// user properties. What belongs to one hop (alias, subscription identifiers, will delay) or is
/// counted down (expiry) is left out.
pub fn forwardable(properties: Properties<'_>, out: &mut Vec<u8>) {
    for property in RawIter::new(properties.raw()) {
        if FORWARDABLE & (1 << property.id) != 0 {
            out.extend_from_slice(property.whole);
        }
    }
}

/// What an [`EncodedPublish`] is made of.
#[derive(Clone, Copy, Debug)]
pub struct PublishParts<'a> {
    /// A valid topic name.
    pub topic: &'a str,
    /// The application message.
    pub payload: &'a [u8],
    /// As [`forwardable`] writes them: no expiry, alias or subscription identifier. Ignored in 3.x.
    pub properties: &'a [u8],
    /// More of such properties, which precede those. Ignored in 3.x.
    pub added_properties: &'a [u8],
    /// The identifiers of the subscriptions that matched, 1 to 268,435,455 each. Ignored in 3.x.
    pub subscription_ids: &'a [u32],
    /// Whether room for a message expiry interval is needed. Ignored in 3.x.
    pub has_expiry: bool,
}

/// A PUBLISH encoded once for one wire variant and shared by all subscribers that get it.
///
/// A variant is a version, with or without packet identifier, with one set of subscription
/// identifiers. What differs between its subscribers (first byte, packet identifier, the remaining
/// seconds of expiry) has a fixed place and is patched into each copy; a topic alias needs another
/// head, which [`append_head_aliased`](Self::append_head_aliased) writes. Owns one heap block.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedPublish {
    /// The whole packet, or its head, with zeros where each copy is patched.
    bytes: Box<[u8]>,
    /// Bytes of the tail, if it lies elsewhere; else 0.
    elsewhere: u32,
    /// Where the packet identifier is patched in; 0 if there is none.
    packet_id_at: u32,
    /// Where the seconds of expiry are patched in; 0 if there are none.
    expiry_at: u32,
    /// Where the properties begin, behind their length; 0 in 3.x.
    properties_at: u32,
    /// Where the payload begins in the whole packet.
    payload_at: u32,
    /// Where the topic's length stands: the end of the fixed header.
    topic_at: u32,
}

/// Where the tail of a message is to lie: see [`EncodedPublish::head`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Behind its head.
    Copied,
    /// Where it is.
    Elsewhere,
}

impl EncodedPublish {
    /// Encodes a message, for QoS 0 or (`with_packet_id`) for QoS 1 and 2.
    ///
    /// # Errors
    ///
    /// A topic over 65,535 bytes, a packet over 268,435,455 bytes, a subscription identifier over
    /// 268,435,455.
    pub fn new(
        version: Version,
        parts: &PublishParts<'_>,
        with_packet_id: bool,
    ) -> Result<Self, EncodeError> {
        Self::with_payload(version, parts, with_packet_id, Tail::Copied)
    }

    /// [`EncodedPublish::new`] for a message that stays where it is: the head alone. In a packet,
    /// the **tail** follows it: [`PublishParts::properties`] (not in 3.x) and the payload behind
    /// them. [`EncodedPublish::append_to`] copies the head alone.
    ///
    /// # Errors
    ///
    /// As for [`EncodedPublish::new`].
    pub fn head(
        version: Version,
        parts: &PublishParts<'_>,
        with_packet_id: bool,
    ) -> Result<Self, EncodeError> {
        Self::with_payload(version, parts, with_packet_id, Tail::Elsewhere)
    }

    fn with_payload(
        version: Version,
        parts: &PublishParts<'_>,
        with_packet_id: bool,
        tail: Tail,
    ) -> Result<Self, EncodeError> {
        let (body_len, properties_len) = lengths(version, parts, with_packet_id)?;
        let topic_at = 1 + varint_len(body_len as u32);
        let properties = properties_len.map_or(&[][..], |_| parts.properties);
        let elsewhere = match tail {
            Tail::Copied => 0,
            Tail::Elsewhere => properties.len() + parts.payload.len(),
        };
        let mut bytes = Vec::with_capacity(topic_at + body_len - elsewhere);
        bytes.u8(0);
        bytes.varint(body_len as u32);
        bytes.u16(parts.topic.len() as u16);
        bytes.put(parts.topic.as_bytes());
        let mut packet_id_at = 0;
        if with_packet_id {
            packet_id_at = bytes.len();
            bytes.u16(0);
        }
        let (mut properties_at, mut expiry_at) = (0, 0);
        if let Some(len) = properties_len {
            bytes.varint(len as u32);
            properties_at = bytes.len();
            if parts.has_expiry {
                bytes.u8(MESSAGE_EXPIRY);
                expiry_at = bytes.len();
                bytes.u32(0);
            }
            for &id in parts.subscription_ids {
                bytes.u8(SUBSCRIPTION_ID);
                bytes.varint(id);
            }
            bytes.put(parts.added_properties);
        }
        let payload_at = bytes.len() + properties.len();
        if tail == Tail::Copied {
            bytes.put(properties);
            bytes.put(parts.payload);
        }
        let len = topic_at + body_len - elsewhere;
        debug_assert_eq!(bytes.len(), len, "the length was foreseen");
        Ok(Self {
            // A packet is at most 256 MiB.
            elsewhere: elsewhere as u32,
            // The capacity is exact, so this keeps the block.
            bytes: bytes.into_boxed_slice(),
            packet_id_at: packet_id_at as u32,
            expiry_at: expiry_at as u32,
            properties_at: properties_at as u32,
            payload_at: payload_at as u32,
            topic_at: topic_at as u32,
        })
    }

    /// Bytes of the whole packet, without topic alias.
    #[inline]
    #[must_use]
    pub fn wire_len(&self) -> usize {
        self.bytes.len() + self.elsewhere as usize
    }

    /// Bytes of the block that it owns: of the packet, but for what lies elsewhere.
    #[inline]
    #[must_use]
    pub const fn owned_len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes before the tail, without topic alias.
    #[inline]
    #[must_use]
    pub fn head_len(&self) -> usize {
        self.bytes.len().min(self.payload_at as usize)
    }

    /// Bytes of the application message.
    #[inline]
    #[must_use]
    pub fn payload_len(&self) -> usize {
        self.wire_len() - self.payload_at as usize
    }

    /// Bytes of the tail: of the payload, and of properties that lie elsewhere with it.
    #[inline]
    #[must_use]
    pub fn tail_len(&self) -> usize {
        self.wire_len() - self.head_len()
    }

    /// The application message; nothing if it lies elsewhere.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        let payload = self.bytes.get(self.payload_at as usize..);
        payload.unwrap_or_default()
    }

    /// Bytes of properties that lie elsewhere.
    #[inline]
    fn properties_elsewhere(&self) -> usize {
        self.payload_at as usize - self.head_len()
    }

    /// The topic name.
    #[must_use]
    pub fn topic(&self) -> &str {
        // The bytes were a string in `new`; without `unsafe` that has to be found out again.
        core::str::from_utf8(&self.topic_field()[2..]).unwrap_or_default()
    }

    /// Whether copies carry a packet identifier: this variant is for QoS 1 and 2.
    #[inline]
    #[must_use]
    pub const fn has_packet_id(&self) -> bool {
        self.packet_id_at != 0
    }

    /// Whether copies carry a message expiry interval.
    #[inline]
    #[must_use]
    pub const fn has_expiry(&self) -> bool {
        self.expiry_at != 0
    }

    /// Appends a copy of the whole packet.
    ///
    /// `first` comes from [`first_byte`]; `packet_id` is given exactly when the variant has one,
    /// and `expiry_secs` (seconds left) when the variant has an expiry.
    #[inline]
    pub fn append_to(
        &self,
        out: &mut Vec<u8>,
        first: u8,
        packet_id: Option<PacketId>,
        expiry_secs: Option<u32>,
    ) {
        self.append_prefix(&self.bytes, out, first, packet_id, expiry_secs);
    }

    /// Appends a copy of the head, for tails that are sent by reference.
    #[inline]
    pub fn append_head_to(
        &self,
        out: &mut Vec<u8>,
        first: u8,
        packet_id: Option<PacketId>,
        expiry_secs: Option<u32>,
    ) {
        let head = &self.bytes[..self.head_len()];
        self.append_prefix(head, out, first, packet_id, expiry_secs);
    }

    /// Copies `prefix`, which includes the head, and patches the copy.
    #[inline]
    fn append_prefix(
        &self,
        prefix: &[u8],
        out: &mut Vec<u8>,
        first: u8,
        packet_id: Option<PacketId>,
        expiry_secs: Option<u32>,
    ) {
        debug_assert_eq!(packet_id.is_some(), self.has_packet_id());
        debug_assert_eq!(expiry_secs.is_some(), self.has_expiry());
        let start = out.len();
        out.extend_from_slice(prefix);
        let copy = &mut out[start..];
        copy[0] = first;
        if let Some(packet_id) = packet_id {
            patch(
                copy,
                self.packet_id_at as usize,
                packet_id.get().to_be_bytes(),
            );
        }
        // Patched where there is no place for it, it would overwrite the fixed header.
        if let Some(expiry_secs) = expiry_secs.filter(|_| self.has_expiry()) {
            patch(copy, self.expiry_at as usize, expiry_secs.to_be_bytes());
        }
    }

    /// Bytes of the whole packet with a topic alias, and with the topic name or an empty one.
    #[must_use]
    pub fn aliased_len(&self, with_topic: bool) -> usize {
        let body_len = self.aliased_body_len(with_topic);
        1 + varint_len(body_len as u32) + body_len
    }

    fn aliased_body_len(&self, with_topic: bool) -> usize {
        let fixed_and_topic = self.topic_at as usize + self.topic_field().len();
        let topic_len = if with_topic {
            self.topic_field().len()
        } else {
            2
        };
        let packet_id_len = if self.has_packet_id() { 2 } else { 0 };
        let properties_len = self.aliased_properties_len();
        debug_assert!(fixed_and_topic <= self.bytes.len());
        topic_len
            + packet_id_len
            + varint_len(properties_len as u32)
            + properties_len
            + self.payload_len()
    }

    fn aliased_properties_len(&self) -> usize {
        self.properties().len() + self.properties_elsewhere() + ALIAS_BYTES
    }

    /// Appends the head of a packet with a topic alias: 5.0 only, and with the topic name (which
    /// teaches the receiver the alias) or without [MQTT-3.3.2-7]. The tail follows as it is.
    ///
    /// A packet that the alias makes longer than MQTT can frame does not occur below a limit of
    /// 268,435,451 bytes on what is published.
    pub fn append_head_aliased(
        &self,
        out: &mut Vec<u8>,
        first: u8,
        packet_id: Option<PacketId>,
        expiry_secs: Option<u32>,
        alias: u16,
        with_topic: bool,
    ) {
        debug_assert!(self.properties_at != 0, "3.x has no topic alias");
        debug_assert!(alias != 0, "[MQTT-3.3.2-8]");
        debug_assert_eq!(packet_id.is_some(), self.has_packet_id());
        debug_assert_eq!(expiry_secs.is_some(), self.has_expiry());
        out.u8(first);
        out.varint(self.aliased_body_len(with_topic) as u32);
        out.put(if with_topic {
            self.topic_field()
        } else {
            &[0, 0]
        });
        if let Some(packet_id) = packet_id {
            out.u16(packet_id.get());
        }
        out.varint(self.aliased_properties_len() as u32);
        out.u8(TOPIC_ALIAS);
        out.u16(alias);
        let start = out.len();
        out.put(self.properties());
        if let Some(expiry_secs) = expiry_secs.filter(|_| self.has_expiry()) {
            // The expiry interval is the first of the properties.
            patch(
                &mut out[start..],
                EXPIRY_BYTES - 4,
                expiry_secs.to_be_bytes(),
            );
        }
    }

    /// The topic with its length in front.
    #[inline]
    fn topic_field(&self) -> &[u8] {
        let at = self.topic_at as usize;
        let len = usize::from(u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]));
        &self.bytes[at..at + 2 + len]
    }

    /// The properties in the head, without their length; empty in 3.x.
    #[inline]
    fn properties(&self) -> &[u8] {
        match self.properties_at {
            0 => &[],
            at => &self.bytes[at as usize..self.head_len()],
        }
    }
}

impl fmt::Debug for EncodedPublish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedPublish")
            .field("topic", &self.topic())
            .field("wire_len", &self.wire_len())
            .field("payload_len", &self.payload_len())
            .field("has_packet_id", &self.has_packet_id())
            .field("has_expiry", &self.has_expiry())
            .finish()
    }
}

/// Appends a whole PUBLISH of QoS 0 for one receiver, whose first byte comes from [`first_byte`]:
/// for what nobody else gets, without a block of its own.
///
/// # Errors
///
/// As for [`EncodedPublish::new`]; nothing is appended then.
pub fn append_publish(
    version: Version,
    first: u8,
    parts: &PublishParts<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    debug_assert!(!parts.has_expiry, "nobody fills it in");
    let (body_len, properties_len) = lengths(version, parts, false)?;
    out.reserve(1 + varint_len(body_len as u32) + body_len);
    out.u8(first);
    out.varint(body_len as u32);
    out.u16(parts.topic.len() as u16);
    out.put(parts.topic.as_bytes());
    if let Some(len) = properties_len {
        out.varint(len as u32);
        for &id in parts.subscription_ids {
            out.u8(SUBSCRIPTION_ID);
            out.varint(id);
        }
        out.put(parts.added_properties);
        out.put(parts.properties);
    }
    out.put(parts.payload);
    Ok(())
}

/// Overwrites a few bytes of a copy.
#[inline]
fn patch<const N: usize>(copy: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = copy[at..].first_chunk_mut::<N>() {
        *place = value;
    }
}

/// Bytes behind the fixed header, and of the properties without their length; `None` in 3.x.
fn lengths(
    version: Version,
    parts: &PublishParts<'_>,
    with_packet_id: bool,
) -> Result<(usize, Option<usize>), EncodeError> {
    if parts.topic.len() > STRING_BYTES_MAX {
        return Err(EncodeError::StringTooLong {
            bytes: parts.topic.len(),
        });
    }
    let properties_len = properties_len(version, parts)?;
    let properties_bytes = properties_len.map_or(0, |len| varint_len(len as u32) + len);
    let body_len = 2
        + parts.topic.len()
        + if with_packet_id { 2 } else { 0 }
        + properties_bytes
        + parts.payload.len();
    if body_len > REMAINING_LEN_MAX as usize {
        return Err(EncodeError::PacketTooLarge { bytes: body_len });
    }
    Ok((body_len, properties_len))
}

/// Bytes of the properties without their length; `None` in 3.x.
fn properties_len(
    version: Version,
    parts: &PublishParts<'_>,
) -> Result<Option<usize>, EncodeError> {
    if !version.is_v5() {
        return Ok(None);
    }
    let mut len = parts.added_properties.len();
    len += parts.properties.len() + if parts.has_expiry { EXPIRY_BYTES } else { 0 };
    for &id in parts.subscription_ids {
        if id > REMAINING_LEN_MAX {
            return Err(EncodeError::IntegerTooLarge { value: id });
        }
        len += 1 + varint_len(id);
    }
    if len > REMAINING_LEN_MAX as usize {
        return Err(EncodeError::PacketTooLarge { bytes: len });
    }
    Ok(Some(len))
}
