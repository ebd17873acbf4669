//! Reading: one topic, or the matches of a filter.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;

use stentor_hub::{Purpose, topic_visits};
use stentor_topic::{Zone, has_wildcard, matches};

use super::{Env, Stripe};
use crate::damage::Outcome;
use crate::history::{history_of, topic_of};
use crate::index::Entry;
use crate::names::Names;
use crate::record::{Head, Record};
use crate::space::Place;
use crate::store::Verified;
use stentor_disk::{Flusher, Region};

/// What a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Nothing that was put until then; 0 excludes nothing.
    pub(crate) after: u64,
    /// Nothing that was put later.
    pub(crate) mark: u64,
    /// Nothing that has expired by then.
    pub(crate) now_ms: u64,
}

impl View {
    fn shows(self, env: &Env, head: &Head) -> bool {
        let is_put_then = self.after < head.version && head.version <= self.mark;
        is_put_then && !env.is_expired(head, self.now_ms)
    }
}

/// How much one step of a walk may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Visits; the last topic may go beyond.
    visits: usize,
    /// Bytes of records to read; the last one may go beyond.
    bytes: usize,
    /// Visits that were spent, also beyond what there was.
    spent: usize,
}

impl Budget {
    pub(crate) const fn new(visits: usize, bytes: usize) -> Self {
        Self {
            visits,
            bytes,
            spent: 0,
        }
    }

    /// Visits that were spent.
    pub(crate) const fn spent(self) -> usize {
        self.spent
    }

    pub(crate) const fn is_spent(self) -> bool {
        self.visits == 0 || self.bytes == 0
    }

    /// A record of this many bytes was read.
    pub(super) const fn read(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(crate) const fn spend(&mut self, visits: usize) {
        self.visits = self.visits.saturating_sub(visits);
        self.spent += visits;
    }
}

/// Where a list of names goes on.
pub(crate) struct Seek {
    from: String,
    is_included: bool,
}

impl Seek {
    /// At a text, or behind it.
    pub(crate) fn to(from: &str) -> Self {
        Self {
            from: from.to_owned(),
            is_included: true,
        }
    }
}

/// Where a filter's matches can lie.
pub(super) struct Stem<'a> {
    /// What they begin with: up to the first wildcard.
    pub(super) text: &'a str,
    /// The one match that does not: `a` of `a/#`.
    pub(super) parent: Option<&'a str>,
}

pub(super) fn stem(filter: &str) -> Stem<'_> {
    let at = filter.find(['+', '#']).unwrap_or(filter.len());
    let (text, rest) = filter.split_at(at);
    let parent = text.strip_suffix('/').filter(|_| rest == "#");
    Stem { text, parent }
}

/// A filter, and the zone whose topics it is about.
#[derive(Clone, Copy)]
pub(crate) struct ZoneFilter<'f> {
    pub(crate) zone: Zone,
    pub(crate) filter: &'f str,
}

impl<R: Region> Stripe<R> {
    /// The message of one topic.
    pub(crate) fn get<T>(
        &self,
        env: &Env,
        hash: u64,
        zone: Zone,
        topic: &str,
        view: View,
        found: impl FnOnce(&Record<'_>) -> T,
    ) -> Option<T> {
        let place = self.index.first(hash)?.place();
        let (bytes, key) = self.space.keyed(place);
        if let Ok(Some(head)) = Head::read(bytes, key)
            && head.is_for(bytes, zone, topic)
        {
            if !view.shows(env, &head) {
                return None;
            }
            if let Ok(record) = head.record(bytes, key) {
                return Some(found(&record));
            }
        }
        // Two topics of one hash, or a damaged record.
        let place = self.find(hash, zone, topic)?.place();
        self.visible(env, place, view).map(|record| found(&record))
    }

    /// Whether there is no message of any topic with this hash.
    pub(crate) fn lacks(&self, hash: u64) -> bool {
        self.index.first(hash).is_none()
    }

    /// Says that the messages of topics will be read or replaced soon. `places` is a buffer.
    pub(crate) fn expect(
        &self,
        hashes: impl Iterator<Item = u64>,
        purpose: Purpose,
        places: &mut Vec<Place>,
    ) {
        places.clear();
        // In two short loops, of each of which several rounds are under way at once.
        places.extend(hashes.filter_map(|hash| self.index.first(hash).map(Entry::place)));
        for place in places {
            self.space.expect(*place);
            if purpose == Purpose::Put {
                self.space.expect(place.spare());
            }
        }
    }

    /// Reads a place, if it may be seen; damage is reported.
    pub(super) fn visible(&self, env: &Env, place: Place, view: View) -> Option<Record<'_>> {
        match self.space.head(place) {
            Ok(Some(head)) if !view.shows(env, &head) => None,
            _ => match self.space.read(place) {
                Ok(record) => record,
                Err(_) => {
                    self.report(env, place, Outcome::Lost);
                    None
                }
            },
        }
    }

    /// Visits matches of a filter in the order of their topics, from the one after `after` on;
    /// whether all were visited. The budget says what is left of it.
    pub(crate) fn walk(
        &self,
        env: &Env,
        wanted: ZoneFilter<'_>,
        view: View,
        after: &mut Option<Box<str>>,
        budget: &mut Budget,
        found: &mut dyn FnMut(&Record<'_>),
    ) -> bool {
        let ZoneFilter { zone, filter } = wanted;
        let Some(part) = self.zones.get(&zone) else {
            return true;
        };
        let mut last = None;
        let is_done = each_name(&part.names, filter, after.as_deref(), |topic| {
            budget.spend(topic_visits(topic));
            if matches(filter, topic) {
                let hash = env.hasher.hash(zone, topic);
                let record = self
                    .find(hash, zone, topic)
                    .and_then(|entry| self.visible(env, entry.place(), view));
                if let Some(record) = record {
                    found(&record);
                    budget.read(record.encoded_len());
                }
            }
            if budget.is_spent() {
                last = Some(topic.into());
            }
            !budget.is_spent()
        });
        if last.is_some() {
            *after = last;
        }
        is_done
    }

    /// Adds the first levels that begin with `$` of a zone's topics, with those of histories.
    pub(crate) fn trees(&self, zone: Zone, found: &mut BTreeSet<String>) {
        for zone in [zone, history_of(zone)] {
            let Some(part) = self.zones.get(&zone) else {
                continue;
            };
            let mut names = part.names.range("$", true);
            while let Some(name) = names.next().filter(|name| name.starts_with('$')) {
                let topic = topic_of(zone, name);
                let (tree, _) = topic.split_once('/').unwrap_or((topic, ""));
                if !found.contains(tree) {
                    found.insert(tree.to_owned());
                }
            }
        }
    }

    /// Tells names at the level below `base`, each with whether it has a topic below it, from a
    /// place on; whether these were the last. One lock is held for 64 of them at most.
    pub(crate) fn children(
        &self,
        zone: Zone,
        base: &str,
        seek: &mut Seek,
        found: &mut dyn FnMut(&str, bool),
    ) -> bool {
        const NAMES_MAX: usize = 64;
        const BYTES_MAX: usize = 64 << 10;
        let Some(part) = self.zones.get(&zone) else {
            return true;
        };
        let mut names = part.names.range(&seek.from, seek.is_included);
        let (mut count, mut bytes) = (0, 0);
        while count < NAMES_MAX && bytes < BYTES_MAX {
            let rest = names.next().and_then(|topic| topic.strip_prefix(base));
            let Some(rest) = rest else {
                return true;
            };
            count += 1;
            bytes += base.len() + rest.len();
            let Some((name, _)) = rest.split_once('/') else {
                found(rest, false);
                (seek.from, seek.is_included) = (format!("{base}{rest}"), false);
                continue;
            };
            found(name, true);
            // The first text behind all that is below the name.
            (seek.from, seek.is_included) = (format!("{base}{name}0"), true);
            names = part.names.range(&seek.from, seek.is_included);
        }
        false
    }

    /// What the next step of a walk would read and the disk has to bring first. The budget is that
    /// of the step.
    pub(crate) fn cold_parts(
        &self,
        env: &Env,
        wanted: ZoneFilter<'_>,
        after: Option<&str>,
        budget: &mut Budget,
        cold: &mut Vec<(R::Flusher, Range<usize>)>,
    ) {
        let ZoneFilter { zone, filter } = wanted;
        if !has_wildcard(filter) {
            return self.look(env.hasher.hash(zone, filter), budget, cold);
        }
        let Some(part) = self.zones.get(&zone) else {
            return;
        };
        each_name(&part.names, filter, after, |topic| {
            budget.spend(topic_visits(topic));
            if matches(filter, topic) {
                self.look(env.hasher.hash(zone, topic), budget, cold);
            }
            !budget.is_spent()
        });
    }

    /// Whether the places of a hash are in memory, without touching them.
    pub(super) fn look(
        &self,
        hash: u64,
        budget: &mut Budget,
        cold: &mut Vec<(R::Flusher, Range<usize>)>,
    ) {
        for entry in self.index.all(hash) {
            let Some((segment, part)) = self.space.part(entry.place()) else {
                continue;
            };
            budget.read(part.len());
            let flusher = segment.flusher();
            if !flusher.is_loaded(part.clone()) {
                cold.push((flusher, part));
            }
        }
    }

    /// Whether a page of a run near some block of each segment is out of memory.
    pub(crate) fn has_cold_page(&self, random: usize) -> bool {
        self.space.segments().any(|(_, segment)| {
            let page = segment.page_near(random % segment.blocks().max(1));
            page.is_some_and(|page| !segment.flusher().is_loaded(page))
        })
    }
}

/// Visits the topics that begin as a filter does, in their order and from the one after `after`
/// on, until `visit` says no; whether all were visited.
fn each_name(
    names: &Names,
    filter: &str,
    after: Option<&str>,
    mut visit: impl FnMut(&str) -> bool,
) -> bool {
    let stem = stem(filter);
    if let (None, Some(parent)) = (after, stem.parent)
        && !visit(parent)
    {
        return false;
    }
    // After the parent, or from the beginning, or where the last step ended.
    let mut names = match after {
        Some(after) if after.cmp(stem.text) != Ordering::Less => names.range(after, false),
        _ => names.range(stem.text, true),
    };
    while let Some(topic) = names.next() {
        if !topic.starts_with(stem.text) {
            return true;
        }
        if !visit(topic) {
            return false;
        }
    }
    true
}

impl<R: Region> Stripe<R> {
    /// Checks the messages of one segment, the one at a position or the next; the position to go
    /// on from.
    pub(crate) fn verify(&self, env: &Env, from: u16, verified: &mut Verified) -> Option<u16> {
        let mut segments = self.space.segments();
        let (position, _) = segments.find(|(position, _)| *position >= from)?;
        for entry in self.index.iter() {
            let place = entry.place();
            if place.slot.segment != position {
                continue;
            }
            if matches!(self.space.read(place), Ok(Some(_))) {
                verified.whole += 1;
            } else {
                verified.damaged += 1;
                self.report(env, place, Outcome::Lost);
            }
        }
        position.checked_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_lie_behind_the_literal_levels() {
        for (filter, text, parent) in [
            ("#", "", None),
            ("+/a", "", None),
            ("/+", "/", None),
            ("/#", "/", Some("")),
            ("a/#", "a/", Some("a")),
            ("a/+/#", "a/", None),
            ("a/b/+/c", "a/b/", None),
        ] {
            let stem = stem(filter);
            assert_eq!((stem.text, stem.parent), (text, parent), "{filter}");
        }
    }
}
