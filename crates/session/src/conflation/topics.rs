//! A map of topics that many sessions may have alike.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use hashbrown::HashTable;
use hashbrown::hash_table::IntoIter;
use stentor_topic::{TopicHasher, Zone};

/// Topics that one table takes alone. If there are more, [`TABLES`] tables share them.
const ALONE_MAX: usize = 256;

/// Bits in the middle of a hash choose the table: a table itself uses both ends.
const TABLES: usize = 64;

/// A topic, and the hash of its name: a search reads only the name that it finds. Names lie all
/// over the memory, and to read some of them takes longer than the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topic {
    hash: u64,
    name: Rc<str>,
}

impl Topic {
    /// How long its name is, in bytes.
    pub(super) fn len(&self) -> usize {
        self.name.len()
    }

    fn is(&self, hash: u64, name: &str) -> bool {
        self.hash == hash && *self.name == *name
    }
}

/// By hash, because a set needs some order.
impl Ord for Topic {
    fn cmp(&self, other: &Self) -> Ordering {
        let hashes = self.hash.cmp(&other.hash);
        hashes.then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Topic {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

type Table<V> = HashTable<(Topic, V)>;

/// What is known of topics. All operations cost O(1), and none moves more topics than one table
/// has: a thousand sessions may know the same topics, and would all move them on the same message.
#[derive(Debug)]
pub(super) struct Topics<V> {
    hasher: TopicHasher,
    /// One table, or [`TABLES`].
    tables: Vec<Table<V>>,
    len: usize,
    /// A table that [`Topics::pop`] empties.
    popped: IntoIter<(Topic, V)>,
}

impl<V> Topics<V> {
    pub(super) fn new(hasher: TopicHasher) -> Self {
        Self {
            hasher,
            tables: Vec::new(),
            len: 0,
            popped: Table::new().into_iter(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, name: &str) -> Option<&V> {
        self.find(name).map(|(_, value)| value)
    }

    /// The topic of this name, if something is known of it.
    pub(super) fn topic(&self, name: &str) -> Option<&Topic> {
        self.find(name).map(|(topic, _)| topic)
    }

    fn find(&self, name: &str) -> Option<&(Topic, V)> {
        let hash = self.hash(name);
        let table = self.tables.get(self.table_of(hash))?;
        table.find(hash, |(topic, _)| topic.is(hash, name))
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        let hash = self.hash(name);
        let at = self.table_of(hash);
        let found = self.tables.get_mut(at)?;
        let found = found.find_mut(hash, |(topic, _)| topic.is(hash, name));
        found.map(|(_, value)| value)
    }

    /// What is known of this topic.
    pub(super) fn known(&mut self, topic: &Topic) -> Option<&mut V> {
        let at = self.table_of(topic.hash);
        let found = self.tables.get_mut(at)?;
        let found = found.find_mut(topic.hash, |(other, _)| other == topic);
        found.map(|(_, value)| value)
    }

    /// Something is known of a topic of which nothing was.
    pub(super) fn insert(&mut self, name: &str, value: V) -> Topic {
        let topic = Topic {
            hash: self.hash(name),
            name: name.into(),
        };
        if self.len == ALONE_MAX && self.tables.len() <= 1 {
            self.share_out();
        }
        if self.tables.is_empty() {
            self.tables.push(Table::new());
        }
        let at = self.table_of(topic.hash);
        if let Some(table) = self.tables.get_mut(at) {
            put(table, topic.clone(), value);
            self.len += 1;
        }
        topic
    }

    /// Forgets a topic if `is_void` says so. Returns whether it did.
    pub(super) fn remove_if(&mut self, topic: &Topic, is_void: impl FnOnce(&V) -> bool) -> bool {
        let at = self.table_of(topic.hash);
        let Some(table) = self.tables.get_mut(at) else {
            return false;
        };
        let Ok(found) = table.find_entry(topic.hash, |(other, _)| other == topic) else {
            return false;
        };
        if !is_void(&found.get().1) {
            return false;
        }
        found.remove();
        self.len -= 1;
        if table.is_empty() {
            *table = Table::new();
        }
        true
    }

    /// Takes out any topic. Nothing else but [`Topics::len`] may be called any more.
    pub(super) fn pop(&mut self) -> Option<(Topic, V)> {
        loop {
            if let Some(next) = self.popped.next() {
                self.len -= 1;
                return Some(next);
            }
            self.popped = self.tables.pop()?.into_iter();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Topic, V)> {
        self.tables.iter().flatten()
    }

    /// How many tables there are.
    pub(super) fn tables(&self) -> usize {
        self.tables.len()
    }

    /// What one of them has.
    pub(super) fn in_table(&self, table: usize) -> impl Iterator<Item = &(Topic, V)> {
        self.tables.get(table).into_iter().flatten()
    }

    /// Has many tables share what one has.
    fn share_out(&mut self) {
        let alone = core::mem::take(&mut self.tables);
        self.tables.resize_with(TABLES, Table::new);
        for (topic, value) in alone.into_iter().flatten() {
            let at = self.table_of(topic.hash);
            if let Some(table) = self.tables.get_mut(at) {
                put(table, topic, value);
            }
        }
    }

    fn hash(&self, name: &str) -> u64 {
        // All topics of a session are of one zone.
        self.hasher.hash(Zone(0), name)
    }

    /// Where a topic stands.
    const fn table_of(&self, hash: u64) -> usize {
        match self.tables.len() {
            0 | 1 => 0,
            _ => (hash >> 32) as usize % TABLES,
        }
    }
}

fn put<V>(table: &mut Table<V>, topic: Topic, value: V) {
    table.insert_unique(topic.hash, (topic, value), |(topic, _)| topic.hash);
}
