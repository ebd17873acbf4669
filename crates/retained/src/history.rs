//! Histories of topics: how their messages are named, and what there is of each topic.
//!
//! A message of a history is a record like any other, in a zone of its own beside the topic's zone,
//! and under a name of its own: the topic, a zero byte, which no topic has, and the message's
//! number in 16 hexadecimal digits. All records of a topic lie in the topic's stripe, so that they
//! change together with its last message under one lock, and are in order there.

use hashbrown::HashTable;
use stentor_topic::Zone;

/// Tells the histories of a zone from its last messages.
const HISTORY: u32 = 1 << 31;
/// What follows the topic in a name.
const SEPARATOR: char = '\0';
/// Digits of a number.
const DIGITS: usize = 16;
/// Behind all names of a topic, since it is behind every digit.
const BEHIND: &str = "\0~";
/// Bytes that a name has beside the topic.
const NAME_BYTES: usize = 1 + DIGITS;
/// Numbers of which one latest time is known. A block has 16 bytes.
const BLOCK: u64 = 64;
/// Bytes before the properties of a record: the message expiry interval, in seconds.
const EXPIRY_BYTES: usize = 4;
/// What stands there for none.
const NO_EXPIRY: u32 = u32::MAX;

/// The zone of the histories of a zone.
pub(crate) const fn history_of(zone: Zone) -> Zone {
    Zone(zone.0 | HISTORY)
}

/// The zone that a zone of histories belongs to; every other zone is its own.
pub(crate) const fn base_of(zone: Zone) -> Zone {
    Zone(zone.0 & !HISTORY)
}

/// Whether a zone is one of histories.
pub(crate) const fn is_history(zone: Zone) -> bool {
    zone.0 & HISTORY != 0
}

/// The topic of a record, for people and for its account.
pub(crate) fn topic_of(zone: Zone, name: &str) -> &str {
    match split(name) {
        Some((topic, _)) if is_history(zone) => topic,
        _ => name,
    }
}

/// The name of a message in the history of its topic.
pub(crate) fn name_of(topic: &str, number: u64) -> String {
    format!("{topic}{SEPARATOR}{number:016x}")
}

/// What is before the name of a message and all behind it, and behind those before it.
pub(crate) fn before(topic: &str, number: u64) -> String {
    match number.checked_sub(1) {
        Some(number) => name_of(topic, number),
        None => format!("{topic}{SEPARATOR}"),
    }
}

/// What is behind all names of a topic, and before those of every other topic behind it.
pub(crate) fn behind(topic: &str) -> String {
    format!("{topic}{BEHIND}")
}

/// The topic of a name, and what follows it.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once(SEPARATOR)
}

/// The topic of a name and the number of the message.
pub(crate) fn parse(name: &str) -> Option<(&str, u64)> {
    let (topic, digits) = split(name)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (digits.len() == DIGITS).then_some((topic, number))
}

/// The properties of a record: the message expiry interval, then the message's own.
pub(crate) fn prefixed(expiry_secs: Option<u32>, properties: &[u8]) -> Vec<u8> {
    let mut all = expiry_secs.unwrap_or(NO_EXPIRY).to_le_bytes().to_vec();
    all.extend_from_slice(properties);
    all
}

/// What [`prefixed`] has put together.
pub(crate) fn unprefixed(all: &[u8]) -> (Option<u32>, &[u8]) {
    let Some((expiry, properties)) = all.split_first_chunk::<EXPIRY_BYTES>() else {
        return (None, &[]);
    };
    let secs = u32::from_le_bytes(*expiry);
    (Some(secs).filter(|secs| *secs != NO_EXPIRY), properties)
}

/// Bytes of a message, from those of its record: topic, properties and payload.
pub(crate) const fn message_bytes(record_bytes: u64) -> u64 {
    record_bytes.saturating_sub((NAME_BYTES + EXPIRY_BYTES) as u64)
}

/// What there is of one topic's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// No message has a lower number.
    pub(crate) first: u64,
    /// The highest number that was given, whether its message is still there or not.
    pub(crate) last: u64,
    pub(crate) messages: u64,
    /// Bytes of topic, properties and payload of each.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
struct Log {
    zone: Zone,
    topic: Box<str>,
    hash: u64,
    extent: Extent,
    /// In the order of their numbers.
    blocks: Vec<Block>,
}

/// Up to [`BLOCK`] successive numbers, of which some have messages. Clocks are set back, so a block
/// knows its latest time, and nothing relies on times that grow.
#[derive(Clone, Copy, Debug)]
struct Block {
    number: u64,
    /// No message of it came later, in seconds since 1970.
    latest_secs: u32,
    messages: u32,
}

/// Seconds since 1970, or the last one that four bytes can have.
fn secs_of(ms: u64) -> u32 {
    u32::try_from(ms / 1_000).unwrap_or(u32::MAX)
}

impl Log {
    fn add(&mut self, number: u64, received_ms: u64) {
        let (block, secs) = (number / BLOCK, secs_of(received_ms));
        match self.blocks.binary_search_by_key(&block, |it| it.number) {
            Ok(at) => {
                let known = &mut self.blocks[at];
                known.latest_secs = known.latest_secs.max(secs);
                known.messages += 1;
            }
            Err(at) => {
                if self.blocks.is_empty() {
                    // Most topics have few messages.
                    self.blocks.reserve_exact(1);
                }
                let new = Block {
                    number: block,
                    latest_secs: secs,
                    messages: 1,
                };
                self.blocks.insert(at, new);
            }
        }
    }

    fn remove(&mut self, number: u64) {
        let block = number / BLOCK;
        if let Ok(at) = self.blocks.binary_search_by_key(&block, |it| it.number) {
            let known = &mut self.blocks[at];
            known.messages = known.messages.saturating_sub(1);
            if known.messages == 0 {
                self.blocks.remove(at);
            }
        }
    }
}

/// The topics of a stripe that have a history, by the hash of zone and topic.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    table: HashTable<Log>,
    /// Bytes of their topics.
    names: usize,
    /// Bytes of their blocks.
    blocks: usize,
    messages: u64,
    bytes: u64,
}

impl Logs {
    /// What there is of a topic; `None` if there is no message. O(1).
    pub(crate) fn find(&self, hash: u64, zone: Zone, topic: &str) -> Option<Extent> {
        let is_it = |log: &Log| log.zone == zone && *log.topic == *topic;
        self.table.find(hash, is_it).map(|log| log.extent)
    }

    /// A number that no message of a topic has a lower one of, if it came at this time or later,
    /// in milliseconds since 1970. O(messages of the topic / 64).
    pub(crate) fn since(&self, hash: u64, zone: Zone, topic: &str, ms: u64) -> u64 {
        let is_it = |log: &Log| log.zone == zone && *log.topic == *topic;
        let Some(log) = self.table.find(hash, is_it) else {
            return 0;
        };
        let may_have = |block: &&Block| block.latest_secs >= secs_of(ms);
        match log.blocks.iter().find(may_have) {
            Some(block) => block.number * BLOCK,
            None => log.extent.last.saturating_add(1),
        }
    }

    /// A message has come into a history: with this number and this many bytes, at a time in
    /// milliseconds since 1970.
    pub(crate) fn add(
        &mut self,
        hash: u64,
        zone: Zone,
        topic: &str,
        number: u64,
        bytes: u64,
        received_ms: u64,
    ) {
        self.messages += 1;
        self.bytes += bytes;
        let is_it = |log: &Log| log.zone == zone && *log.topic == *topic;
        if let Some(log) = self.table.find_mut(hash, is_it) {
            let before = log.blocks.capacity();
            log.add(number, received_ms);
            self.blocks += (log.blocks.capacity() - before) * size_of::<Block>();
            let extent = &mut log.extent;
            extent.first = extent.first.min(number);
            extent.last = extent.last.max(number);
            extent.messages += 1;
            extent.bytes += bytes;
            return;
        }
        self.names += topic.len();
        let mut log = Log {
            zone,
            topic: topic.into(),
            hash,
            extent: Extent {
                first: number,
                last: number,
                messages: 1,
                bytes,
            },
            blocks: Vec::new(),
        };
        log.add(number, received_ms);
        self.blocks += log.blocks.capacity() * size_of::<Block>();
        self.table.insert_unique(hash, log, |log| log.hash);
    }

    /// A message of a history has gone.
    pub(crate) fn remove(&mut self, hash: u64, zone: Zone, topic: &str, number: u64, bytes: u64) {
        let is_it = |log: &Log| log.zone == zone && *log.topic == *topic;
        let Ok(mut entry) = self.table.find_entry(hash, is_it) else {
            return;
        };
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        let log = entry.get_mut();
        log.remove(number);
        let extent = &mut log.extent;
        extent.messages = extent.messages.saturating_sub(1);
        extent.bytes = extent.bytes.saturating_sub(bytes);
        if extent.first == number {
            extent.first = number.saturating_add(1);
        }
        if extent.messages == 0 {
            self.names -= topic.len();
            self.blocks -= log.blocks.capacity() * size_of::<Block>();
            entry.remove();
        }
    }

    /// All topics that have a history: the hash of each, with its zone.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (u64, Zone, &str, Extent)> {
        let all = self.table.iter();
        all.map(|log| (log.hash, log.zone, &*log.topic, log.extent))
    }

    /// Messages of all histories, and their bytes. O(1).
    pub(crate) const fn total(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }

    /// How many topics there are. O(1).
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory. O(1).
    pub(crate) fn memory(&self) -> usize {
        self.table.allocation_size() + self.names + self.blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_topic_are_in_order_and_lie_together() {
        let topics = ["a", "a!", "a/b", "a/b/c", "ab", "b"];
        let numbers = [0, 1, 9, 10, 15, 16, 255, 1 << 40, u64::MAX];
        let mut all = Vec::new();
        for topic in topics {
            for number in numbers {
                let name = name_of(topic, number);
                assert_eq!(parse(&name), Some((topic, number)));
                assert!(name < behind(topic) && before(topic, number) < name);
                all.push(name);
            }
        }
        assert!(all.is_sorted(), "{all:?}");
        assert!(behind("a") < name_of("a!", 0));
        for text in ["a", "a\0", "a\x00123", "a\x00000000000000000g", "a\0~"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_expiry_interval_stands_before_the_properties() {
        for expiry in [None, Some(0), Some(60), Some(u32::MAX - 1)] {
            let all = prefixed(expiry, b"\x01\x01");
            assert_eq!(unprefixed(&all), (expiry, &b"\x01\x01"[..]));
        }
        assert_eq!(unprefixed(b"\x01"), (None, &[][..]));
    }

    #[test]
    fn an_extent_follows_what_comes_and_goes() {
        let mut logs = Logs::default();
        assert_eq!(logs.find(7, Zone(1), "t"), None);
        for number in 3..6 {
            logs.add(7, Zone(1), "t", number, 10, 0);
        }
        // Another topic of the same hash.
        logs.add(7, Zone(2), "t", 1, 5, 0);
        let extent = |first, last, messages, bytes| Extent {
            first,
            last,
            messages,
            bytes,
        };
        assert_eq!(logs.find(7, Zone(1), "t"), Some(extent(3, 5, 3, 30)));
        logs.remove(7, Zone(1), "t", 3, 10);
        logs.remove(7, Zone(1), "t", 5, 10);
        assert_eq!(logs.find(7, Zone(1), "t"), Some(extent(4, 5, 1, 10)));
        assert_eq!((logs.total(), logs.len()), ((2, 15), 2));
        logs.remove(7, Zone(1), "t", 4, 10);
        logs.remove(7, Zone(1), "t", 4, 10);
        assert_eq!(logs.find(7, Zone(1), "t"), None);
        assert_eq!((logs.total(), logs.len()), ((1, 5), 1));
    }

    /// What is left out came before; and as little as possible is looked at for nothing.
    #[test]
    fn a_time_is_found_by_blocks() {
        let mut logs = Logs::default();
        // A minute between two; the clock is set back by 500 minutes at 600.
        let ms = |number: u64| (number - 500 * u64::from(number >= 600)) * 60_000;
        // A start finds them in any order.
        for number in (0..1_000).rev().chain(1_000..2_000) {
            logs.add(7, Zone(1), "t", number, 10, ms(number));
        }
        let exact = |since: u64| (0..2_000).find(|number| ms(*number) >= since);
        for since in [0, 1, 60_000, 3_000_000, 35_000_000, 35_940_000, 80_000_000] {
            let (from, exact) = (logs.since(7, Zone(1), "t", since), exact(since).unwrap());
            assert!(
                from <= exact && exact - from < BLOCK,
                "{since}: {from} {exact}"
            );
        }
        assert_eq!(logs.since(7, Zone(1), "t", ms(1_999) + 1_000), 2_000);
        assert_eq!(logs.since(7, Zone(2), "t", 1), 0);
        for number in 0..1_990 {
            logs.remove(7, Zone(1), "t", number, 10);
        }
        assert_eq!(logs.since(7, Zone(1), "t", 0), 1_990 / BLOCK * BLOCK);
        let memory = logs.memory();
        for number in 1_990..2_000 {
            logs.remove(7, Zone(1), "t", number, 10);
        }
        assert!(logs.memory() < memory && logs.blocks == 0);
    }
}
