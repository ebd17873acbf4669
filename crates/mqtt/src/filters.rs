//! The lists of topic filters in SUBSCRIBE and UNSUBSCRIBE.

use crate::encode::EncodeError;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::packet::{SubscribeFilter, SubscribeFilters, UnsubscribeFilters};
use crate::types::{QoS, RetainHandling, SubscribeOptions, Version};
use crate::wire::{Reader, Sink};
use alloc::vec::Vec;

impl SubscribeOptions {
    /// The options byte of 5.0; its low two bits are all that 3.x has.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        (self.qos as u8)
            | ((self.no_local as u8) << 2)
            | ((self.retain_as_published as u8) << 3)
            | ((self.retain_handling as u8) << 4)
    }

    /// Reads an options byte.
    ///
    /// # Errors
    ///
    /// Reserved bits, which are all but the lowest two in 3.x [MQTT-3.8.3-5] [MQTT311-3-8.3-4],
    /// QoS 3 and retain handling 3.
    #[inline]
    pub const fn from_bits(version: Version, bits: u8) -> Result<Self, DecodeError> {
        let reserved = if version.is_v5() {
            0b1100_0000
        } else {
            0b1111_1100
        };
        if bits & reserved != 0 {
            return Err(DecodeError {
                kind: DecodeErrorKind::SubscribeOptionsReserved,
            });
        }
        let Some(qos) = QoS::from_bits(bits & 0b11) else {
            return Err(DecodeError {
                kind: DecodeErrorKind::SubscribeQoSReserved,
            });
        };
        let retain_handling = match bits >> 4 {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::DoNotSend,
            _ => {
                return Err(DecodeError {
                    kind: DecodeErrorKind::RetainHandlingReserved,
                });
            }
        };
        Ok(Self {
            qos,
            no_local: bits & 0b100 != 0,
            retain_as_published: bits & 0b1000 != 0,
            retain_handling,
        })
    }
}

/// The most filters of one packet, because the time to check a list has to be bounded.
pub const FILTERS_MAX: usize = 131_072;

/// Reads a filter: any string but the empty one [MQTT-4.7.3-1]. Whether wildcards stand where they
/// may is for the server to judge, which answers each filter of a SUBSCRIBE by itself.
fn read_filter<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
    let filter = reader.string()?;
    if filter.is_empty() {
        return Err(DecodeErrorKind::FilterEmpty.into());
    }
    Ok(filter)
}

/// Takes one filter off the number that a list may still have.
#[inline]
fn count_down(left: usize) -> Result<usize, DecodeError> {
    let left = left.checked_sub(1);
    left.ok_or_else(|| DecodeErrorKind::FiltersTooMany.into())
}

#[inline]
fn read_subscription<'a>(
    version: Version,
    reader: &mut Reader<'a>,
) -> Result<SubscribeFilter<'a>, DecodeError> {
    let filter = read_filter(reader)?;
    let options = SubscribeOptions::from_bits(version, reader.u8()?)?;
    if options.no_local && filter.starts_with("$share/") {
        return Err(DecodeErrorKind::NoLocalShared.into());
    }
    Ok(SubscribeFilter { filter, options })
}

impl<'a> SubscribeFilters<'a> {
    /// Checks the payload of a SUBSCRIBE.
    #[inline]
    pub(crate) fn parse(version: Version, raw: &'a [u8]) -> Result<Self, DecodeError> {
        if raw.is_empty() {
            return Err(DecodeErrorKind::SubscribeEmpty.into());
        }
        let mut reader = Reader::new(raw);
        let first = read_subscription(version, &mut reader)?.filter;
        let mut left = FILTERS_MAX - 1;
        while !reader.is_empty() {
            left = count_down(left)?;
            read_subscription(version, &mut reader)?;
        }
        Ok(Self {
            raw,
            version,
            first,
        })
    }

    /// The filters and their options in order.
    #[inline]
    #[must_use]
    pub const fn iter(self) -> SubscribeFiltersIter<'a> {
        SubscribeFiltersIter {
            first: self.first,
            reader: Reader::new(self.raw),
            version: self.version,
        }
    }

    /// How many filters there are: at least 1 when decoded. Walks over the list.
    #[must_use]
    pub fn count(self) -> usize {
        count(self.raw, 1)
    }
}

impl<'a> IntoIterator for SubscribeFilters<'a> {
    type Item = SubscribeFilter<'a>;
    type IntoIter = SubscribeFiltersIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> UnsubscribeFilters<'a> {
    /// Checks the payload of an UNSUBSCRIBE.
    pub(crate) fn parse(raw: &'a [u8]) -> Result<Self, DecodeError> {
        if raw.is_empty() {
            return Err(DecodeErrorKind::UnsubscribeEmpty.into());
        }
        let mut reader = Reader::new(raw);
        let mut left = FILTERS_MAX;
        while !reader.is_empty() {
            left = count_down(left)?;
            read_filter(&mut reader)?;
        }
        Ok(Self { raw })
    }

    /// The filters in order.
    #[must_use]
    pub const fn iter(self) -> UnsubscribeFiltersIter<'a> {
        UnsubscribeFiltersIter {
            reader: Reader::new(self.raw),
        }
    }

    /// How many filters there are: at least 1 when decoded. Walks over the list.
    #[must_use]
    pub fn count(self) -> usize {
        count(self.raw, 0)
    }
}

impl<'a> IntoIterator for UnsubscribeFilters<'a> {
    type Item = &'a str;
    type IntoIter = UnsubscribeFiltersIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Counts strings that are each followed by `extra` bytes.
fn count(raw: &[u8], extra: usize) -> usize {
    let mut reader = Reader::new(raw);
    let mut found = 0;
    while reader.binary().and_then(|_| reader.take(extra)).is_ok() {
        found += 1;
    }
    found
}

/// The filters of a SUBSCRIBE in order.
#[derive(Clone, Debug)]
pub struct SubscribeFiltersIter<'a> {
    /// The text of the next filter, if it was checked already, or empty.
    first: &'a str,
    reader: Reader<'a>,
    version: Version,
}

impl<'a> SubscribeFiltersIter<'a> {
    /// The bytes of the filters that were not given yet, to go on with by [`resume`](Self::resume).
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// The version of the packet.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Goes on with what is left of a list that was checked before.
    #[must_use]
    pub const fn resume(version: Version, rest: &'a [u8]) -> Self {
        let (first, reader) = ("", Reader::new(rest));
        Self {
            first,
            reader,
            version,
        }
    }
}

impl<'a> Iterator for SubscribeFiltersIter<'a> {
    type Item = SubscribeFilter<'a>;

    #[inline]
    fn next(&mut self) -> Option<SubscribeFilter<'a>> {
        // The list was checked before, so the only error is its end.
        if self.first.is_empty() {
            return read_subscription(self.version, &mut self.reader).ok();
        }
        let filter = core::mem::take(&mut self.first);
        self.reader.binary().ok()?;
        let options = SubscribeOptions::from_bits(self.version, self.reader.u8().ok()?).ok()?;
        Some(SubscribeFilter { filter, options })
    }
}

/// The filters of an UNSUBSCRIBE in order.
#[derive(Clone, Debug)]
pub struct UnsubscribeFiltersIter<'a> {
    reader: Reader<'a>,
}

impl<'a> UnsubscribeFiltersIter<'a> {
    /// The bytes of the filters that were not given yet, to go on with by [`resume`](Self::resume).
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// Goes on with what is left of a list that was checked before.
    #[must_use]
    pub const fn resume(rest: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(rest),
        }
    }
}

impl<'a> Iterator for UnsubscribeFiltersIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        read_filter(&mut self.reader).ok()
    }
}

/// The filters of a SUBSCRIBE being put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscribeFilterBuf {
    raw: Vec<u8>,
    version: Version,
}

impl SubscribeFilterBuf {
    /// No filter yet, which a packet may not have.
    #[must_use]
    pub const fn new(version: Version) -> Self {
        Self {
            raw: Vec::new(),
            version,
        }
    }

    /// Adds a filter. In 3.x only the QoS of its options counts.
    ///
    /// # Errors
    ///
    /// A filter over 65,535 bytes; nothing is added then.
    pub fn push(&mut self, filter: &str, options: SubscribeOptions) -> Result<(), EncodeError> {
        self.raw.string(filter)?;
        self.raw.u8(if self.version.is_v5() {
            options.to_bits()
        } else {
            options.qos as u8
        });
        Ok(())
    }

    /// The filters for a packet of the version that [`new`](Self::new) was told.
    #[must_use]
    pub fn as_filters(&self) -> SubscribeFilters<'_> {
        SubscribeFilters {
            raw: &self.raw,
            version: self.version,
            first: read_subscription(self.version, &mut Reader::new(&self.raw))
                .map_or("", |first| first.filter),
        }
    }
}

/// The filters of an UNSUBSCRIBE being put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnsubscribeFilterBuf {
    raw: Vec<u8>,
}

impl UnsubscribeFilterBuf {
    /// No filter yet, which a packet may not have.
    #[must_use]
    pub const fn new() -> Self {
        Self { raw: Vec::new() }
    }

    /// Adds a filter.
    ///
    /// # Errors
    ///
    /// A filter over 65,535 bytes; nothing is added then.
    pub fn push(&mut self, filter: &str) -> Result<(), EncodeError> {
        self.raw.string(filter)
    }

    /// The filters for a packet.
    #[must_use]
    pub fn as_filters(&self) -> UnsubscribeFilters<'_> {
        UnsubscribeFilters { raw: &self.raw }
    }
}
