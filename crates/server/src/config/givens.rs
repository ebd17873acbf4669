//! Everything that was given, from all sources, before it is read into types.

use std::collections::BTreeMap;

use super::keys::{SECTIONS, find_section};
use super::problem::{Origin, Problem};
use super::value::Given;

/// The given values of one section, or of one entry of a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// Where the entry begins.
    pub(super) origin: Origin,
    pub(super) values: BTreeMap<&'static str, Given>,
}

impl Entry {
    pub(super) const fn new(origin: Origin) -> Self {
        Self {
            origin,
            values: BTreeMap::new(),
        }
    }
}

/// All given values, and the problems that were met on the way.
#[derive(Debug, Default)]
pub(super) struct Givens {
    entries: BTreeMap<&'static str, Vec<Entry>>,
    pub(super) problems: Vec<Problem>,
}

impl Givens {
    /// Nothing given: each plain section has one empty entry, each list none.
    pub(super) fn new() -> Self {
        let plain = SECTIONS.iter().filter(|section| !section.repeated);
        let entries = plain.map(|section| (section.name, vec![Entry::new(Origin::Default)]));
        Self {
            entries: entries.collect(),
            problems: Vec::new(),
        }
    }

    /// The entries of a section.
    pub(super) fn entries(&self, section: &str) -> &[Entry] {
        self.entries.get(section).map_or(&[], Vec::as_slice)
    }

    /// The entries of a section, to be changed.
    pub(super) fn entries_mut(&mut self, section: &'static str) -> &mut Vec<Entry> {
        self.entries.entry(section).or_default()
    }

    /// The one entry of a section that is not a list.
    pub(super) fn plain(&mut self, section: &'static str) -> &mut Entry {
        debug_assert!(find_section(section).is_some_and(|section| !section.repeated));
        let entries = self.entries_mut(section);
        if entries.is_empty() {
            entries.push(Entry::new(Origin::Default));
        }
        &mut entries[0]
    }

    /// Records a problem.
    pub(super) fn problem(&mut self, origin: Origin, message: impl Into<String>) {
        self.problems.push(Problem {
            origin,
            message: message.into(),
        });
    }

    /// Where a value was given; for a default, where its entry begins.
    pub(super) fn origin(&self, section: &str, index: usize, key: &str) -> Origin {
        match self.entries(section).get(index) {
            None => Origin::Default,
            Some(entry) => match entry.values.get(key) {
                Some(given) => given.origin.clone(),
                None => entry.origin.clone(),
            },
        }
    }
}
