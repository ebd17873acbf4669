//! One version of a message, as it lies in a slot.
//!
//! A record is a head of [`HEAD_BYTES`], what the flags ask for, then topic, properties and
//! payload. The checksum covers everything behind it, and is keyed with the secret of the store and
//! the place: what a client publishes can never be mistaken for a record, nor can what was copied
//! from elsewhere. An empty place has a mark that is keyed likewise, which tells an empty page
//! from a lost one.

use stentor_mqtt::QoS;
use stentor_topic::Zone;

/// Bytes of every record before its variable parts.
pub(crate) const HEAD_BYTES: usize = 48;
/// Head, zone and expiry interval.
const HEAD_BYTES_MAX: usize = HEAD_BYTES + 8;
/// The first bytes of a place: of a record, or the mark of an empty one.
pub(crate) const EMPTY_BYTES: usize = 8;
/// The last byte of the mark of an empty place, where a record has a zero.
const EMPTY_TAG: u8 = 0xE0;

/// What an empty place begins with; `key` is that of the place.
pub(crate) const fn empty_mark(key: u32) -> [u8; EMPTY_BYTES] {
    let word = key.wrapping_mul(0x9E37_79B1) ^ 0x5E17_0B5E;
    let [a, b, c, d] = word.to_le_bytes();
    [a, b, c, d, 0, 0, 0, EMPTY_TAG]
}

/// Whether a place is an empty one of whose mark a single byte was damaged since: no record begins
/// so, but by the rarest chance.
pub(crate) fn was_empty(place: &[u8], key: u32) -> bool {
    let mark = empty_mark(key);
    let differing = mark.iter().zip(place).filter(|(a, b)| a != b);
    place.len() >= EMPTY_BYTES && differing.count() == 1
}

const QOS_BITS: u8 = 0b0000_0011;
const CLEARED: u8 = 0b0000_0100;
const EXPIRES: u8 = 0b0000_1000;
const ZONED: u8 = 0b0001_0000;
const KNOWN_FLAGS: u8 = 0b0001_1111;

/// A message as it is stored, or the note that its topic was cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Counts puts to the whole store; the newest record of a topic has the highest. Never 0.
    pub(crate) version: u64,
    /// Counts messages of the topic.
    pub(crate) sequence: u64,
    /// Its publisher, if that was since the server was started.
    pub(crate) publisher: u64,
    /// Wall clock, in milliseconds since 1970; 48 bits.
    pub(crate) received_ms: u64,
    pub(crate) zone: Zone,
    pub(crate) qos: QoS,
    /// The message expiry interval, from `received_ms`.
    pub(crate) expiry_secs: Option<u32>,
    /// The topic holds nothing: there are neither properties nor a payload.
    pub(crate) cleared: bool,
    pub(crate) topic: &'a str,
    pub(crate) properties: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// A place that holds something else than a whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The fixed part of a record, read without checking the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) version: u64,
    pub(crate) sequence: u64,
    pub(crate) received_ms: u64,
    pub(crate) expiry_secs: Option<u32>,
    pub(crate) cleared: bool,
    qos: u8,
    publisher: u64,
    zone: Zone,
    topic_len: usize,
    properties_len: usize,
    payload_len: usize,
    /// Where the topic begins.
    topic_at: usize,
}

/// How many bytes a record of these parts takes.
pub(crate) const fn encoded_len(zone: Zone, expires: bool, variable_len: usize) -> usize {
    let zone_len = if zone.0 == 0 { 0 } else { 4 };
    let expiry_len = if expires { 4 } else { 0 };
    HEAD_BYTES + zone_len + expiry_len + variable_len
}

/// The first bytes of an encoded record, up to where the topic begins.
pub(crate) struct EncodedHead {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

impl EncodedHead {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Record<'_> {
    pub(crate) fn encoded_len(&self) -> usize {
        let variable = self.topic.len() + self.properties.len() + self.payload.len();
        encoded_len(self.zone, self.expiry_secs.is_some(), variable)
    }

    /// What stands before the topic, with zeros for the checksum. The caller has checked that the
    /// lengths fit.
    fn encode_unsummed(&self) -> EncodedHead {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let mut flags = self.qos as u8;
        let mut len = HEAD_BYTES;
        if self.cleared {
            flags |= CLEARED;
        }
        if self.zone.0 != 0 {
            flags |= ZONED;
            bytes[len..len + 4].copy_from_slice(&self.zone.0.to_le_bytes());
            len += 4;
        }
        if let Some(secs) = self.expiry_secs {
            flags |= EXPIRES;
            bytes[len..len + 4].copy_from_slice(&secs.to_le_bytes());
            len += 4;
        }
        bytes[4..6].copy_from_slice(&(self.topic.len() as u16).to_le_bytes());
        bytes[6] = flags;
        bytes[8..16].copy_from_slice(&self.version.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.publisher.to_le_bytes());
        bytes[32..38].copy_from_slice(&self.received_ms.to_le_bytes()[..6]);
        bytes[38..42].copy_from_slice(&(self.properties.len() as u32).to_le_bytes());
        bytes[42..46].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        EncodedHead { bytes, len }
    }

    /// What stands before the topic; topic, properties and payload follow as they are. The caller
    /// has checked that the lengths fit.
    pub(crate) fn encode_head(&self, key: u32) -> EncodedHead {
        let mut head = self.encode_unsummed();
        let mut checksum = crc32fast::Hasher::new_with_initial(key);
        for part in [
            &head.bytes[4..head.len],
            self.topic.as_bytes(),
            self.properties,
            self.payload,
        ] {
            checksum.update(part);
        }
        head.bytes[..4].copy_from_slice(&checksum.finalize().to_le_bytes());
        head
    }

    /// The whole record, in a buffer; `None` if it is too short for it.
    pub(crate) fn encode<'b>(&self, key: u32, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let whole = buffer.get_mut(..self.encoded_len())?;
        let head = self.encode_unsummed();
        let mut rest = &mut whole[..];
        for part in [
            head.bytes(),
            self.topic.as_bytes(),
            self.properties,
            self.payload,
        ] {
            let (to, behind) = rest.split_at_mut_checked(part.len())?;
            to.copy_from_slice(part);
            rest = behind;
        }
        let mut checksum = crc32fast::Hasher::new_with_initial(key);
        checksum.update(&whole[4..]);
        whole[..4].copy_from_slice(&checksum.finalize().to_le_bytes());
        Some(whole)
    }
}

impl Head {
    /// Reads the head of what may be a record; `None` for an empty place. `key` is that of the
    /// place.
    ///
    /// # Errors
    /// If it cannot be the head of a record that fits into `place`.
    pub(crate) fn read(place: &[u8], key: u32) -> Result<Option<Self>, Damaged> {
        let head = place.first_chunk::<HEAD_BYTES>().ok_or(Damaged)?;
        if head[7] == EMPTY_TAG && head[..EMPTY_BYTES] == empty_mark(key) {
            return Ok(None);
        }
        let flags = head[6];
        if flags & !KNOWN_FLAGS != 0 || head[7] != 0 || head[46..] != [0; 2] {
            return Err(Damaged);
        }
        let mut topic_at = HEAD_BYTES;
        let mut optional = |flag| {
            (flags & flag != 0).then(|| {
                let at = topic_at;
                topic_at += 4;
                place.get(at..at + 4).map_or(0, u32_of)
            })
        };
        let zone = Zone(optional(ZONED).unwrap_or(0));
        let expiry_secs = optional(EXPIRES);
        let read = Self {
            version: u64_of(&head[8..16]),
            sequence: u64_of(&head[16..24]),
            publisher: u64_of(&head[24..32]),
            received_ms: u64_of(&head[32..38]),
            expiry_secs,
            cleared: flags & CLEARED != 0,
            qos: flags & QOS_BITS,
            zone,
            topic_len: usize::from(u16::from_le_bytes([head[4], head[5]])),
            properties_len: u32_of(&head[38..42]) as usize,
            payload_len: u32_of(&head[42..46]) as usize,
            topic_at,
        };
        if read.version == 0 || read.topic_len == 0 || read.end() > place.len() {
            return Err(Damaged);
        }
        Ok(Some(read))
    }

    fn end(&self) -> usize {
        self.topic_at + self.topic_len + self.properties_len + self.payload_len
    }

    /// Bytes of topic, properties and payload.
    pub(crate) fn content_len(&self) -> u64 {
        (self.topic_len + self.properties_len + self.payload_len) as u64
    }

    /// Whether the topic that lies behind this head is that one; the checksum says nothing here.
    pub(crate) fn is_for(&self, place: &[u8], zone: Zone, topic: &str) -> bool {
        self.zone == zone
            && place.get(self.topic_at..self.topic_at + self.topic_len) == Some(topic.as_bytes())
    }

    /// The topic as it stands there, if it is text: for telling what was damaged.
    pub(crate) fn topic<'a>(&self, place: &'a [u8]) -> Option<(Zone, &'a str)> {
        let bytes = place.get(self.topic_at..self.topic_at + self.topic_len)?;
        Some((self.zone, std::str::from_utf8(bytes).ok()?))
    }

    /// The whole record.
    ///
    /// # Errors
    /// If the checksum is not that of the content.
    pub(crate) fn record<'a>(&self, place: &'a [u8], key: u32) -> Result<Record<'a>, Damaged> {
        let bytes = place.get(..self.end()).ok_or(Damaged)?;
        let mut checksum = crc32fast::Hasher::new_with_initial(key);
        checksum.update(&bytes[4..]);
        if checksum.finalize() != u32_of(&bytes[..4]) {
            return Err(Damaged);
        }
        let (topic, body) = bytes[self.topic_at..].split_at(self.topic_len);
        let (properties, payload) = body.split_at(self.properties_len);
        let record = Record {
            version: self.version,
            sequence: self.sequence,
            publisher: self.publisher,
            received_ms: self.received_ms,
            zone: self.zone,
            qos: QoS::from_bits(self.qos).ok_or(Damaged)?,
            expiry_secs: self.expiry_secs,
            cleared: self.cleared,
            topic: std::str::from_utf8(topic).map_err(|_| Damaged)?,
            properties,
            payload,
        };
        Ok(record)
    }
}

/// Reads what lies in a place; `None` if it is empty.
///
/// # Errors
/// If it is not a whole record.
pub(crate) fn read(place: &[u8], key: u32) -> Result<Option<Record<'_>>, Damaged> {
    match Head::read(place, key)? {
        None => Ok(None),
        Some(head) => head.record(place, key).map(Some),
    }
}

/// The whole record at the beginning of some bytes under another key; `None` if there is none.
pub(crate) fn rekeyed(bytes: &[u8], key: u32, other: impl FnOnce() -> u32) -> Option<Vec<u8>> {
    let record = read(bytes, key).ok().flatten()?;
    let mut buffer = vec![0; record.encoded_len()];
    record.encode(other(), &mut buffer)?;
    Some(buffer)
}

fn u32_of(bytes: &[u8]) -> u32 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Reads up to eight bytes.
fn u64_of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u32 = 0x1234_5678;

    fn sample(zone: u32, expiry_secs: Option<u32>) -> Record<'static> {
        Record {
            version: 7,
            sequence: 3,
            publisher: 0x0100_0000_0000_0009,
            received_ms: 1_900_000_000_123,
            zone: Zone(zone),
            qos: QoS::ExactlyOnce,
            expiry_secs,
            cleared: false,
            topic: "a/b",
            properties: b"\x01\x01",
            payload: b"hello",
        }
    }

    fn encoded(record: &Record<'_>) -> Vec<u8> {
        let head = record.encode_head(KEY);
        let mut bytes = head.bytes().to_vec();
        for part in [record.topic.as_bytes(), record.properties, record.payload] {
            bytes.extend_from_slice(part);
        }
        assert_eq!(bytes.len(), record.encoded_len());
        let mut buffer = [0xFF; 256];
        assert_eq!(record.encode(KEY, &mut buffer), Some(&bytes[..]));
        assert_eq!(record.encode(KEY, &mut buffer[..bytes.len() - 1]), None);
        bytes
    }

    #[test]
    fn what_is_written_is_read_back() {
        for zone in [0, 9] {
            for expiry_secs in [None, Some(60)] {
                let record = sample(zone, expiry_secs);
                let mut bytes = encoded(&record);
                bytes.extend_from_slice(&[0xFF; 9]);
                assert_eq!(read(&bytes, KEY), Ok(Some(record)));
            }
        }
    }

    #[test]
    fn every_flipped_bit_shows() {
        let bytes = encoded(&sample(9, Some(60)));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&damaged, KEY), Err(Damaged), "bit {bit}");
        }
    }

    #[test]
    fn every_torn_write_over_an_older_record_shows() {
        let (old, new) = (encoded(&sample(9, Some(60))), {
            let mut record = sample(9, Some(61));
            record.version = 8;
            encoded(&record)
        });
        for at in 1..new.len() {
            let torn = [&new[..at], &old[at..]].concat();
            if torn != new && torn != old {
                assert_eq!(read(&torn, KEY), Err(Damaged), "torn at {at}");
            }
        }
    }

    #[test]
    fn another_store_s_record_is_none_of_ours() {
        assert_eq!(read(&encoded(&sample(0, None)), KEY + 1), Err(Damaged));
    }

    #[test]
    fn an_empty_place_is_empty_and_a_short_one_is_damaged() {
        let mut place = [0; HEAD_BYTES];
        assert_eq!(read(&place, KEY), Err(Damaged), "a lost page");
        place[..EMPTY_BYTES].copy_from_slice(&empty_mark(KEY));
        assert_eq!(read(&place, KEY), Ok(None));
        assert_eq!(read(&place, KEY + 1), Err(Damaged), "of another place");
        assert_eq!(read(&place[1..], KEY), Err(Damaged));
        let bytes = encoded(&sample(0, None));
        assert_eq!(read(&bytes[..bytes.len() - 1], KEY), Err(Damaged));
    }
}
