//! The histories of a stripe's topics: see [`crate::history`] for how their records are named.

use std::ops::Range;

use stentor_disk::Region;
use stentor_hub::{HistoryAsk, HistoryBounds, HistoryQuery, topic_visits};
use stentor_mqtt::QoS;
use stentor_topic::{Zone, has_wildcard, matches};

use super::walk::{Budget, Stem, View, stem};
use super::{Env, Incoming, PutError, Stamp, Stripe};
use crate::history::{
    Extent, base_of, before, behind, history_of, is_history, message_bytes, name_of, parse,
    prefixed, split, unprefixed,
};
use crate::names::Names;
use crate::record::{Head, Record};

/// Messages that go from a history at once, when its bounds were lowered.
const TRIMMED_AT_ONCE: usize = 16;

/// What a step through histories visits.
enum Step<'a> {
    /// A topic: which of its messages are wanted has to be said.
    Topic(&'a str),
    /// One of its messages: the name of the record.
    Message(&'a str),
}

/// How far a step has come.
enum Visit {
    GoOn,
    /// The budget is spent.
    Stop,
    /// On with the names behind this one.
    Behind(String),
}

impl<R: Region> Stripe<R> {
    /// What there is of the history of a topic.
    pub(crate) fn extent(&self, env: &Env, zone: Zone, topic: &str) -> Option<Extent> {
        self.logs.find(env.hasher.hash(zone, topic), zone, topic)
    }

    /// Keeps a message as the last of its topic, and at the end of its history: both, or none.
    ///
    /// A kill in between leaves a message in the history whose number is higher than that of the
    /// topic's last one: [`Stripe::finish_kept`] goes on with it.
    pub(crate) fn keep(
        &mut self,
        env: &Env,
        hash: u64,
        message: &Incoming<'_>,
        bounds: HistoryBounds,
    ) -> Result<Stamp, PutError> {
        let (zone, topic) = (message.zone, message.topic);
        let known = self.find_known(hash, zone, topic);
        let last = known.and_then(|known| Some(known.head?.sequence));
        let kept = self.extent(env, zone, topic).map(|extent| extent.last);
        let sequence = match last.max(kept) {
            Some(last) => last + 1,
            None => self.next_version(env),
        };
        let name = self.append(env, message, sequence, bounds)?;
        let stamp = self.put(
            env,
            hash,
            &Incoming {
                sequence: Some(sequence),
                ..*message
            },
        );
        if stamp.is_err() {
            // A slot that was just taken has room for the note that it is clear.
            let _ = self.clear_name(env, zone, &name);
        }
        let stamp = stamp?;
        self.trim(env, zone, topic, bounds);
        Ok(Stamp { sequence, ..stamp })
    }

    /// Adds a message to the history of its topic; the name of its record.
    fn append(
        &mut self,
        env: &Env,
        message: &Incoming<'_>,
        sequence: u64,
        bounds: HistoryBounds,
    ) -> Result<String, PutError> {
        let name = name_of(message.topic, sequence);
        if name.len() > usize::from(u16::MAX) {
            return Err(PutError::TooLarge);
        }
        let age = u32::try_from(bounds.age.as_secs()).unwrap_or(u32::MAX);
        let age = Some(age).filter(|_| !bounds.age.is_zero());
        let properties = prefixed(message.expiry_secs, message.properties);
        let entry = Incoming {
            zone: history_of(message.zone),
            topic: &name,
            properties: &properties,
            expiry_secs: age.into_iter().chain(message.expiry_secs).min(),
            sequence: Some(sequence),
            ..*message
        };
        self.add(env, env.hasher.hash(entry.zone, &name), &entry)?;
        Ok(name)
    }

    /// Removes a message of a history, if it is there.
    fn clear_name(&mut self, env: &Env, zone: Zone, name: &str) -> Result<(), PutError> {
        let zone = history_of(zone);
        let hash = env.hasher.hash(zone, name);
        if let Some(known) = self.find_known(hash, zone, name) {
            self.clear(env, known, &Incoming::clearing(zone, name))?;
        }
        Ok(())
    }

    /// Removes what is beyond the bounds from the beginning of a history.
    fn trim(&mut self, env: &Env, zone: Zone, topic: &str, bounds: HistoryBounds) {
        for _ in 0..TRIMMED_AT_ONCE {
            let Some(extent) = self.extent(env, zone, topic) else {
                return;
            };
            let is_within =
                extent.messages <= u64::from(bounds.messages) && extent.bytes <= bounds.bytes;
            let may_drop = !is_within && extent.messages > 1;
            // What cannot go now goes with the next message.
            if !may_drop || self.drop_oldest(env, zone, topic) != Ok(true) {
                return;
            }
        }
    }

    /// Removes the oldest message of a history; whether there was one.
    fn drop_oldest(&mut self, env: &Env, zone: Zone, topic: &str) -> Result<bool, PutError> {
        let (Some(extent), Some(part)) = (
            self.extent(env, zone, topic),
            self.zones.get(&history_of(zone)),
        ) else {
            return Ok(false);
        };
        let mut names = part.names.range(&name_of(topic, extent.first), true);
        let oldest = names.next().map(str::to_owned);
        let is_own = |name: &String| split(name).is_some_and(|(own, _)| own == topic);
        match oldest.filter(is_own) {
            Some(oldest) => self.clear_name(env, zone, &oldest).map(|()| true),
            None => Ok(false),
        }
    }

    /// The topics with a history that match a filter. O(topics with a history).
    pub(crate) fn topics_with_history(&self, zone: Zone, filter: &str) -> Vec<String> {
        let own = self.logs.topics().filter(|(_, own, ..)| *own == zone);
        let topics = own.map(|(_, _, topic, _)| topic);
        let matching = topics.filter(|topic| *topic == filter || matches(filter, topic));
        matching.map(str::to_owned).collect()
    }

    /// Removes the history of a topic, at most this many messages of it; whether there may be more.
    ///
    /// # Errors
    /// When there is no room for a note.
    pub(crate) fn forget_history(
        &mut self,
        env: &Env,
        zone: Zone,
        topic: &str,
        at_most: usize,
    ) -> Result<bool, PutError> {
        for _ in 0..at_most {
            if !self.drop_oldest(env, zone, topic)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// After a start: a history may go further than the last message of its topic, since a kill
    /// came in between or the newest place was damaged. Then its newest message becomes the last.
    /// Of a topic that holds nothing, nobody knows whether it was cleared or has expired since.
    ///
    /// # Errors
    /// When there is no room for one.
    pub(crate) fn finish_kept(&mut self, env: &Env) -> Result<(), PutError> {
        let mut beyond = Vec::new();
        for (hash, zone, topic, extent) in self.logs.topics() {
            let known = self.find_known(hash, zone, topic);
            let last = known.and_then(|known| Some(known.head?.sequence));
            if last.is_some_and(|last| last < extent.last) {
                beyond.push((hash, zone, topic.to_owned(), extent.last));
            }
        }
        for (hash, zone, topic, number) in beyond {
            let name = name_of(&topic, number);
            let entry = self.find(
                env.hasher.hash(history_of(zone), &name),
                history_of(zone),
                &name,
            );
            let read = entry.map(|entry| self.space.read(entry.place()));
            let Some(Ok(Some(record))) = read else {
                // It has expired, or cannot be read.
                continue;
            };
            let (expiry_secs, properties) = unprefixed(record.properties);
            let (properties, payload) = (properties.to_vec(), record.payload.to_vec());
            let last = Incoming {
                zone,
                topic: &topic,
                properties: &properties,
                payload: &payload,
                qos: record.qos,
                publisher: record.publisher,
                received_ms: record.received_ms,
                expiry_secs,
                sequence: Some(number),
            };
            self.put(env, hash, &last)?;
        }
        Ok(())
    }

    /// Visits the messages of histories that match a query, as [`Stripe::walk`] does. The budget
    /// says what is left of it.
    pub(crate) fn history(
        &self,
        env: &Env,
        query: HistoryQuery<'_>,
        view: View,
        after: &mut Option<Box<str>>,
        budget: &mut Budget,
        found: &mut dyn FnMut(&Record<'_>),
    ) -> bool {
        let since_ms = match query.ask {
            HistoryAsk::Since(ms) => ms,
            HistoryAsk::Last(_) | HistoryAsk::After(_) => 0,
        };
        self.each_message(env, query, after, budget, |name, budget| {
            let zone = history_of(query.zone);
            let hash = env.hasher.hash(zone, name);
            let record = self
                .find(hash, zone, name)
                .and_then(|entry| self.visible(env, entry.place(), view));
            if let Some(record) = record.filter(|record| record.received_ms >= since_ms) {
                found(&record);
                budget.read(record.encoded_len());
            }
        })
    }

    /// What the next step of [`Stripe::history`] would read and the disk has to bring first.
    pub(crate) fn cold_history(
        &self,
        env: &Env,
        query: HistoryQuery<'_>,
        after: Option<&str>,
        budget: &mut Budget,
        cold: &mut Vec<(R::Flusher, Range<usize>)>,
    ) {
        let mut after = after.map(Box::from);
        let zone = history_of(query.zone);
        self.each_message(env, query, &mut after, budget, |name, budget| {
            self.look(env.hasher.hash(zone, name), budget, cold);
        });
    }

    /// Visits the names of messages that match a query, from the one after `after` on; whether all
    /// were visited. `after` is the last one then, or what is behind the last topic.
    fn each_message(
        &self,
        env: &Env,
        query: HistoryQuery<'_>,
        after: &mut Option<Box<str>>,
        budget: &mut Budget,
        mut visit: impl FnMut(&str, &mut Budget),
    ) -> bool {
        let Some(part) = self.zones.get(&history_of(query.zone)) else {
            return true;
        };
        let mut last: Option<Box<str>> = None;
        let is_done = walk_names(&part.names, query.filter, after.as_deref(), |step| {
            let (next, at) = match step {
                Step::Topic(topic) => {
                    budget.spend(topic_visits(topic));
                    let is_wanted = query.filter == topic || matches(query.filter, topic);
                    let from = is_wanted.then(|| self.first_number(env, query, topic));
                    let next = from.map_or_else(|| behind(topic), |from| before(topic, from));
                    let at = next.clone();
                    (Visit::Behind(next), at)
                }
                Step::Message(name) => {
                    budget.spend(1);
                    visit(name, budget);
                    (Visit::GoOn, name.to_owned())
                }
            };
            if budget.is_spent() {
                last = Some(at.into());
                return Visit::Stop;
            }
            next
        });
        if !is_done {
            *after = last;
        }
        is_done
    }

    /// From which number on messages of a topic are wanted.
    fn first_number(&self, env: &Env, query: HistoryQuery<'_>, topic: &str) -> u64 {
        match query.ask {
            HistoryAsk::After(number) => number.saturating_add(1),
            HistoryAsk::Since(ms) => {
                let hash = env.hasher.hash(query.zone, topic);
                self.logs.since(hash, query.zone, topic, ms)
            }
            HistoryAsk::Last(messages) => {
                let extent = self.extent(env, query.zone, topic);
                let last = extent.map_or(0, |extent| extent.last);
                last.saturating_add(1).saturating_sub(messages)
            }
        }
    }

    /// A record has come, or has gone: if it is of a history, its topic's extent follows.
    pub(super) fn note_history(&mut self, env: &Env, zone: Zone, name: &str, change: Noted) {
        let Some((topic, number)) = parse(name).filter(|_| is_history(zone)) else {
            return;
        };
        let zone = base_of(zone);
        let hash = env.hasher.hash(zone, topic);
        match change {
            Noted::Added(bytes, received_ms) => {
                let bytes = message_bytes(bytes);
                self.logs.add(hash, zone, topic, number, bytes, received_ms);
            }
            Noted::Gone(bytes) => {
                let bytes = message_bytes(bytes);
                self.logs.remove(hash, zone, topic, number, bytes);
            }
        }
    }
}

/// What has become of a record, and how many bytes its content has; when it was received.
#[derive(Clone, Copy, Debug)]
pub(super) enum Noted {
    Added(u64, u64),
    Gone(u64),
}

impl Noted {
    /// A record has gone of which this is known.
    pub(super) fn gone(head: Option<Head>) -> Self {
        Self::Gone(head.map_or(0, |head| head.content_len()))
    }
}

/// Visits topics in the order of their names, and those of their messages that are wanted.
fn walk_names(
    names: &Names,
    filter: &str,
    after: Option<&str>,
    mut visit: impl FnMut(Step<'_>) -> Visit,
) -> bool {
    let is_single = !has_wildcard(filter);
    let Stem { text, parent } = match is_single {
        true => Stem {
            text: filter,
            parent: None,
        },
        false => stem(filter),
    };
    // The topic above the level of `#` lies before all others.
    if let Some(parent) = parent
        && after.is_none_or(|after| split(after).is_some_and(|(topic, _)| topic == parent))
    {
        let is_it = |topic: &str| topic == parent;
        if !walk_topics(names, parent, is_it, after, &mut visit) {
            return false;
        }
    }
    let after = after.filter(|after| *after >= text);
    match is_single {
        true => walk_topics(names, text, |topic| topic == text, after, &mut visit),
        false => walk_topics(
            names,
            text,
            |topic| topic.starts_with(text),
            after,
            &mut visit,
        ),
    }
}

/// The same of topics that lie together, the first of which begin with `text`.
fn walk_topics(
    names: &Names,
    text: &str,
    is_in: impl Fn(&str) -> bool,
    after: Option<&str>,
    visit: &mut impl FnMut(Step<'_>) -> Visit,
) -> bool {
    let mut current = after
        .and_then(split)
        .map_or_else(String::new, |(topic, _)| topic.to_owned());
    let mut has_current = after.is_some();
    let mut seek = match after {
        Some(after) => (after.to_owned(), false),
        None => (text.to_owned(), true),
    };
    loop {
        let mut range = names.range(&seek.0, seek.1);
        loop {
            let Some(name) = range.next() else {
                return true;
            };
            let Some((topic, _)) = split(name) else {
                continue;
            };
            if has_current && topic == current {
                match visit(Step::Message(name)) {
                    Visit::Stop => return false,
                    Visit::GoOn => continue,
                    Visit::Behind(name) => {
                        seek = (name, false);
                        break;
                    }
                }
            }
            if !is_in(topic) {
                return true;
            }
            topic.clone_into(&mut current);
            has_current = true;
            match visit(Step::Topic(topic)) {
                Visit::Stop => return false,
                Visit::GoOn => {}
                Visit::Behind(name) => {
                    seek = (name, false);
                    break;
                }
            }
        }
    }
}

impl<'a> Incoming<'a> {
    /// What clears a name.
    pub(super) const fn clearing(zone: Zone, topic: &'a str) -> Self {
        Self {
            zone,
            topic,
            properties: &[],
            payload: &[],
            qos: QoS::AtMostOnce,
            publisher: 0,
            received_ms: 0,
            expiry_secs: None,
            sequence: None,
        }
    }
}
