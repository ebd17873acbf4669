//! The properties of a packet as a whole: borrowed from its bytes, or being built.

use crate::encode::EncodeError;
use crate::property::{Property, Shape, shape};
use crate::types::QoS;
use crate::wire::{Reader, Sink};
use alloc::vec::Vec;
use core::fmt;

/// The properties of a 5.0 packet, still in their bytes: always empty in 3.x.
///
/// Holds bytes that a decoder or a [`PropertyBuf`] has checked, without the property length in
/// front. A finder walks the bytes up to its property, and takes no step where that is not there.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    /// Well-formed: every identifier is defined and every value complete.
    raw: &'a [u8],
    /// A bit for each identifier that occurs: a finder looks for no other.
    known: u64,
}

macro_rules! finders {
    ($( $(#[doc = $doc:literal])+ $finder:ident => $name:ident = $id:literal, $ty:ty; )+) => {
        impl<'a> Properties<'a> {
            $(
                $(#[doc = $doc])+
                #[inline]
                #[must_use]
                pub fn $finder(self) -> Option<$ty> {
                    match self.find($id)? {
                        Property::$name(value) => Some(value),
                        _ => None,
                    }
                }
            )+
        }
    };
}

finders! {
    /// Whether the payload claims to be UTF-8.
    payload_format => PayloadFormatIndicator = 0x01, bool;
    /// Message expiry interval in seconds.
    message_expiry => MessageExpiryInterval = 0x02, u32;
    /// Content type.
    content_type => ContentType = 0x03, &'a str;
    /// Response topic: a valid topic name.
    response_topic => ResponseTopic = 0x08, &'a str;
    /// Correlation data.
    correlation_data => CorrelationData = 0x09, &'a [u8];
    /// The first subscription identifier: the only one in SUBSCRIBE.
    subscription_id => SubscriptionIdentifier = 0x0B, u32;
    /// Session expiry interval in seconds.
    session_expiry => SessionExpiryInterval = 0x11, u32;
    /// Assigned client identifier.
    assigned_client_id => AssignedClientIdentifier = 0x12, &'a str;
    /// Server keep alive in seconds.
    server_keep_alive => ServerKeepAlive = 0x13, u16;
    /// Authentication method.
    auth_method => AuthenticationMethod = 0x15, &'a str;
    /// Authentication data.
    auth_data => AuthenticationData = 0x16, &'a [u8];
    /// Request problem information.
    request_problem_info => RequestProblemInformation = 0x17, bool;
    /// Will delay interval in seconds.
    will_delay => WillDelayInterval = 0x18, u32;
    /// Request response information.
    request_response_info => RequestResponseInformation = 0x19, bool;
    /// Response information.
    response_info => ResponseInformation = 0x1A, &'a str;
    /// Server reference.
    server_reference => ServerReference = 0x1C, &'a str;
    /// Reason string.
    reason_string => ReasonString = 0x1F, &'a str;
    /// Receive maximum: at least 1.
    receive_maximum => ReceiveMaximum = 0x21, u16;
    /// Topic alias maximum.
    topic_alias_maximum => TopicAliasMaximum = 0x22, u16;
    /// Topic alias: at least 1.
    topic_alias => TopicAlias = 0x23, u16;
    /// Maximum QoS.
    maximum_qos => MaximumQoS = 0x24, QoS;
    /// Retain available.
    retain_available => RetainAvailable = 0x25, bool;
    /// Maximum packet size in bytes: at least 1.
    maximum_packet_size => MaximumPacketSize = 0x27, u32;
    /// Wildcard subscription available.
    wildcard_subscription_available => WildcardSubscriptionAvailable = 0x28, bool;
    /// Subscription identifiers available.
    subscription_ids_available => SubscriptionIdentifiersAvailable = 0x29, bool;
    /// Shared subscription available.
    shared_subscription_available => SharedSubscriptionAvailable = 0x2A, bool;
}

impl<'a> Properties<'a> {
    /// No properties.
    pub const EMPTY: Self = Self { raw: &[], known: 0 };

    /// Wraps bytes that have been checked, with a bit for each identifier that is there.
    #[inline]
    pub(crate) const fn from_checked(raw: &'a [u8], known: u64) -> Self {
        Self { raw, known }
    }

    /// The bytes, without the property length.
    #[inline]
    #[must_use]
    pub const fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// How many there are. O(bytes).
    #[must_use]
    pub fn count(self) -> usize {
        RawIter::new(self.raw).count()
    }

    /// All of them in order.
    #[inline]
    #[must_use]
    pub const fn iter(self) -> PropertiesIter<'a> {
        PropertiesIter {
            rest: RawIter::new(self.raw),
        }
    }

    /// The user properties in order.
    pub fn user_properties(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter_map(|property| match property {
            Property::UserProperty(pair) => Some(pair),
            _ => None,
        })
    }

    /// All subscription identifiers: a server's PUBLISH may carry several.
    pub fn subscription_ids(self) -> impl Iterator<Item = u32> + use<'a> {
        self.iter().filter_map(|property| match property {
            Property::SubscriptionIdentifier(id) => Some(id),
            _ => None,
        })
    }

    /// Finds the first property with this identifier. Only its own value is parsed.
    #[inline]
    fn find(self, id: u8) -> Option<Property<'a>> {
        // No identifier is above 63.
        if self.known & (1 << (id & 63)) == 0 {
            return None;
        }
        let found = RawIter::new(self.raw).find(|raw| raw.id == id)?;
        Property::parse(id, found.value)
    }
}

impl<'a> IntoIterator for Properties<'a> {
    type Item = Property<'a>;
    type IntoIter = PropertiesIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The properties of a packet in order.
#[derive(Clone, Debug)]
pub struct PropertiesIter<'a> {
    rest: RawIter<'a>,
}

impl<'a> Iterator for PropertiesIter<'a> {
    type Item = Property<'a>;

    fn next(&mut self) -> Option<Property<'a>> {
        let raw = self.rest.next()?;
        let property = Property::parse(raw.id, raw.value);
        debug_assert!(property.is_some(), "property bytes were checked before");
        property
    }
}

/// A property that has been found but not parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawProperty<'a> {
    pub(crate) id: u8,
    pub(crate) value: &'a [u8],
    /// Identifier and value.
    pub(crate) whole: &'a [u8],
}

/// Walks over properties by their lengths. The bytes are well-formed; if they were not, the walk
/// would end early.
#[derive(Clone, Debug)]
pub(crate) struct RawIter<'a> {
    reader: Reader<'a>,
}

impl<'a> RawIter<'a> {
    #[inline]
    pub(crate) const fn new(raw: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(raw),
        }
    }
}

impl<'a> Iterator for RawIter<'a> {
    type Item = RawProperty<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawProperty<'a>> {
        let before = self.reader.rest();
        // All identifiers are below 128: a Variable Byte Integer of one byte.
        let id = self.reader.u8().ok()?;
        let shape: Shape = shape(id)?;
        let value = shape.cut(&mut self.reader).ok()?;
        let whole = &before[..before.len() - self.reader.rest().len()];
        Some(RawProperty { id, value, whole })
    }
}

/// Properties being put together for a packet to be sent.
///
/// Nothing stops a caller from adding what the packet may not have; the receiver will.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PropertyBuf {
    raw: Vec<u8>,
    /// A bit for each identifier that is there.
    known: u64,
}

impl PropertyBuf {
    /// No properties yet; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            raw: Vec::new(),
            known: 0,
        }
    }

    /// Adds a property at the end.
    ///
    /// A value that the wire cannot hold (text or binary over 65,535 bytes, an integer over
    /// 268,435,455) is left out: use [`try_push`](Self::try_push) where values of that size can
    /// come from outside.
    pub fn push(&mut self, property: Property<'_>) {
        let pushed = self.try_push(property);
        debug_assert!(pushed.is_ok(), "property value too large for the wire");
    }

    /// Adds a property at the end.
    ///
    /// # Errors
    ///
    /// A value that the wire cannot hold; nothing is added then.
    pub fn try_push(&mut self, property: Property<'_>) -> Result<(), EncodeError> {
        let before = self.raw.len();
        let written = property.write(&mut self.raw);
        if written.is_err() {
            self.raw.truncate(before);
        } else if let Some(id) = self.raw.get(before) {
            self.known |= 1 << (id & 63);
        }
        written
    }

    /// Adds properties that are already encoded.
    pub fn extend(&mut self, properties: Properties<'_>) {
        self.raw.put(properties.raw());
        self.known |= properties.known;
    }

    /// The properties for a packet.
    #[must_use]
    pub fn as_properties(&self) -> Properties<'_> {
        Properties::from_checked(&self.raw, self.known)
    }

    /// Removes all, keeping the memory.
    pub fn clear(&mut self) {
        self.raw.clear();
        self.known = 0;
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }
}

impl fmt::Debug for PropertyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_properties().fmt(f)
    }
}
