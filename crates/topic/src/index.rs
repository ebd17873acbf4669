//! One shard's subscriptions.

use alloc::boxed::Box;
use core::num::NonZeroU32;

use hashbrown::hash_table::Entry as TableEntry;

use crate::slots::Slots;
use crate::subscribers::{Subscriber, Subscribers, Taken};
use crate::table::{TagTable, Tagged};
use crate::trie::{Matching, NodeId, Trie, VISIT_BYTES};
use crate::walk::{Matched, Walk};
use crate::{TopicHasher, Zone, has_wildcard};

/// The number of a filter in an [`Index`]: small, and given out again after the filter's last
/// subscriber left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterId(
    /// One more than the index, which makes `Option<FilterId>` as small.
    NonZeroU32,
);

impl FilterId {
    /// The number, from 0 on: fit to index an array beside the index.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get() - 1
    }

    const fn new(number: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(number))
    }
}

/// What [`Index::insert`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// The filter.
    pub id: FilterId,
    /// The options that the session had for this filter before; `None` for a new subscription.
    pub previous: Option<u32>,
    /// Whether the filter is new to the index: interest in it begins.
    pub first: bool,
    /// Whether the filter has a wildcard.
    pub has_wildcard: bool,
}

/// What [`Index::remove`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The options that the session had for the filter.
    pub options: u32,
    /// Whether the filter left the index with it, and its id became invalid: interest ends.
    pub last: bool,
}

/// A filter as [`Index::iter`] gives it.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    /// The filter's number.
    pub id: FilterId,
    /// The zone that it belongs to.
    pub zone: Zone,
    /// The filter as subscribed.
    pub text: &'a str,
    /// At least one subscriber, in no particular order.
    pub subscribers: &'a [Subscriber],
}

impl<'a> Filter<'a> {
    fn new(number: u32, entry: &'a Entry) -> Self {
        Self {
            id: FilterId::new(number),
            zone: entry.zone,
            text: &entry.text,
            subscribers: entry.subscribers.as_slice(),
        }
    }
}

/// A filter with its subscribers: 40 bytes, beside the text and 9 to 18 bytes in the table.
struct Entry {
    text: Box<str>,
    subscribers: Subscribers,
    zone: Zone,
    /// The end of the filter in the trie; [`NodeId::NONE`] for one without wildcard.
    node: NodeId,
}

/// The subscriptions of one shard.
///
/// Owns the text of every filter once. A filter has one id, whoever subscribes to it, and its
/// subscribers lie side by side. Filters without wildcards are found by one probe of a hash table;
/// filters with wildcards are in that table too (so that unsubscribing is a probe), and in a trie
/// of levels for matching.
///
/// Filters and names are expected to be valid, see [`validate_filter`](crate::validate_filter).
///
/// Costs: inserting and removing, one hash and one probe (with wildcards, one per level as well),
/// independent of the number of filters and of subscribers; matching, one probe and a walk along
/// the wildcard branches that match. Nothing is allocated while matching, unless a name has more
/// than 32 levels.
pub struct Index {
    hasher: TopicHasher,
    entries: Slots<Entry>,
    /// Numbers of `entries` by zone and text.
    table: TagTable,
    trie: Trie,
    /// Sum of the lengths of all subscriber sets.
    subscriptions: usize,
}

impl Index {
    /// An empty index.
    ///
    /// The hasher must be equal to that of the callers who hand hashes in.
    #[must_use]
    pub const fn new(hasher: TopicHasher) -> Self {
        Self {
            hasher,
            entries: Slots::new(),
            table: TagTable::new(),
            trie: Trie::new(),
            subscriptions: 0,
        }
    }

    /// The hasher that the index was made with.
    #[must_use]
    pub const fn hasher(&self) -> &TopicHasher {
        &self.hasher
    }

    /// Makes room for `additional` more filters.
    pub fn reserve(&mut self, additional: usize) {
        self.table.reserve(additional);
    }

    /// Adds a subscription, or gives an existing one new options.
    pub fn insert(&mut self, zone: Zone, filter: &str, subscriber: Subscriber) -> Inserted {
        let hash = self.hasher.hash(zone, filter);
        self.insert_hashed(zone, filter, hash, subscriber)
    }

    /// [`Index::insert`] for a caller who has the [`TopicHasher::hash`] of the filter already.
    pub fn insert_hashed(
        &mut self,
        zone: Zone,
        filter: &str,
        hash: u64,
        subscriber: Subscriber,
    ) -> Inserted {
        debug_assert_eq!(hash, self.hasher.hash(zone, filter));
        let entries = &self.entries;
        let vacant = match self
            .table
            .entry(hash, |id| is_filter(entries, id, zone, filter))
        {
            TableEntry::Occupied(found) => {
                let number = found.get().number;
                let entry = self.entries.get_mut(number);
                let (previous, has_wildcard) = entry.map_or((None, false), |entry| {
                    let previous = entry.subscribers.insert(subscriber);
                    (previous, entry.node != NodeId::NONE)
                });
                self.subscriptions += usize::from(previous.is_none());
                return Inserted {
                    id: FilterId::new(number),
                    previous,
                    first: false,
                    has_wildcard,
                };
            }
            TableEntry::Vacant(vacant) => vacant,
        };
        let number = self.entries.insert(Entry {
            text: filter.into(),
            subscribers: Subscribers::One(subscriber),
            zone,
            node: NodeId::NONE,
        });
        vacant.insert(Tagged::new(hash, number));
        self.subscriptions += 1;
        let id = FilterId::new(number);
        let has_wildcard = has_wildcard(filter);
        if has_wildcard {
            let node = self.trie.insert(&self.hasher, zone, filter, id);
            if let Some(entry) = self.entries.get_mut(number) {
                entry.node = node;
            }
        }
        Inserted {
            id,
            previous: None,
            first: true,
            has_wildcard,
        }
    }

    /// Ends a session's subscription; `None` if there is none.
    pub fn remove(&mut self, id: FilterId, session: u32) -> Option<Removed> {
        let entry = self.entries.get_mut(id.get())?;
        let removed = match entry.subscribers.remove(session) {
            Taken::Absent => return None,
            Taken::Left(options) => Removed {
                options,
                last: false,
            },
            Taken::Emptied(options) => Removed {
                options,
                last: true,
            },
        };
        self.subscriptions -= 1;
        if removed.last {
            let entry = self.entries.remove(id.get())?;
            self.table
                .remove(self.hasher.hash(entry.zone, &entry.text), id.get());
            self.trie.remove(&self.hasher, entry.node, id);
        }
        Some(removed)
    }

    /// The id of a filter, compared by its text.
    #[must_use]
    pub fn find(&self, zone: Zone, filter: &str) -> Option<FilterId> {
        self.find_hashed(zone, filter, self.hasher.hash(zone, filter))
    }

    /// [`Index::find`] for a caller who has the [`TopicHasher::hash`] of the filter already.
    #[must_use]
    pub fn find_hashed(&self, zone: Zone, filter: &str, hash: u64) -> Option<FilterId> {
        self.table
            .find(hash, |id| is_filter(&self.entries, id, zone, filter))
            .map(FilterId::new)
    }

    /// The zone and text of a filter.
    ///
    /// # Panics
    /// If the id is not valid, because its last subscriber was removed.
    #[must_use]
    pub fn filter(&self, id: FilterId) -> (Zone, &str) {
        match self.entries.get(id.get()) {
            Some(entry) => (entry.zone, &entry.text),
            None => panic!("filter {} is not in the index", id.get()),
        }
    }

    /// The subscribers of a filter, in no particular order; none for an id that is not valid.
    #[must_use]
    pub fn subscribers(&self, id: FilterId) -> &[Subscriber] {
        self.entries
            .get(id.get())
            .map_or(&[], |entry| entry.subscribers.as_slice())
    }

    /// The options of a session's subscription to a filter.
    #[must_use]
    pub fn options(&self, id: FilterId, session: u32) -> Option<u32> {
        self.entries.get(id.get())?.subscribers.options(session)
    }

    /// Calls `visit` once for each filter that matches a published name, with its subscribers.
    ///
    /// `name_hash` is the [`TopicHasher::hash`] of the name. A session with several matching
    /// filters is met once per filter [MQTT-3.3.4-2]. The order of the filters is not specified.
    pub fn for_each_match<'a>(
        &'a self,
        zone: Zone,
        name: &str,
        name_hash: u64,
        mut visit: impl FnMut(FilterId, &'a [Subscriber]),
    ) {
        let _ = self.match_some(zone, name, name_hash, u32::MAX, &mut visit);
    }

    /// [`Index::for_each_match`] within a bound: what is left at `visits_max` goes on as a
    /// [`Walk`].
    ///
    /// The name's first level is looked at whatever the bound. It may be exceeded by what one level
    /// costs: at most 32 nodes, each with a visit for 64 bytes of the level's text.
    pub fn match_some<'a>(
        &'a self,
        zone: Zone,
        name: &str,
        name_hash: u64,
        visits_max: u32,
        mut visit: impl FnMut(FilterId, &'a [Subscriber]),
    ) -> Matched {
        debug_assert_eq!(name_hash, self.hasher.hash(zone, name));
        let mut visit = |id| visit(id, self.subscribers(id));
        // A name has no wildcards, so that a filter of the same text has none and matches it.
        self.find_hashed(zone, name, name_hash).map(&mut visit);
        // The text is read for its hashes, whatever there is to match.
        let read = 1 + (name.len() / VISIT_BYTES) as u32;
        if self.trie.is_empty() {
            let (visits, rest) = (read, None);
            return Matched { visits, rest };
        }
        let begun = self.matching(name).begin(zone, visits_max, visit);
        Matched {
            visits: read + begun.visits,
            rest: begun.rest.map(Walk::new),
        }
    }

    pub(crate) const fn matching<'a>(&'a self, name: &'a str) -> Matching<'a> {
        Matching {
            trie: &self.trie,
            hasher: &self.hasher,
            name,
        }
    }

    /// Number of different filters.
    #[must_use]
    pub const fn filters(&self) -> usize {
        self.entries.len()
    }

    /// Number of pairs of filter and session.
    #[must_use]
    pub const fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    /// All filters with their subscribers, in order of numbers.
    pub fn iter(&self) -> impl Iterator<Item = Filter<'_>> {
        let entries = self.entries.iter();
        entries.map(|(number, entry)| Filter::new(number, entry))
    }

    /// The filter of a number, if there is one. A filter keeps its number for as long as it has
    /// subscribers. O(1).
    #[must_use]
    pub fn numbered(&self, number: u32) -> Option<Filter<'_>> {
        let entry = self.entries.get(number)?;
        Some(Filter::new(number, entry))
    }

    /// All numbers of filters are below this one. O(1).
    #[must_use]
    pub fn numbers_end(&self) -> u32 {
        u32::try_from(self.entries.places()).unwrap_or(u32::MAX)
    }

    /// Bytes of heap that the index asked its allocator for, unused capacity included. Walks over
    /// all filters: for statistics and tests.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let of_entry = |entry: &Entry| entry.text.len() + entry.subscribers.heap_bytes();
        let of_entries: usize = self.entries.iter().map(|(_, entry)| of_entry(entry)).sum();
        let of_tables = self.entries.heap_bytes() + self.table.heap_bytes();
        of_entries + of_tables + self.trie.heap_bytes()
    }
}

#[inline]
fn is_filter(entries: &Slots<Entry>, number: u32, zone: Zone, text: &str) -> bool {
    entries
        .get(number)
        .is_some_and(|entry| entry.zone == zone && *entry.text == *text)
}
