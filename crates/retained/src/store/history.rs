//! The histories of topics, of all stripes.

use std::sync::Arc;

use stentor_disk::Disk;
use stentor_hub::{
    Cursor, HistoryBounds, HistoryQuery, Kept, NotKept, Retained, STRIPE_VISITS, Scope, Stored,
    Walk, copy_visits,
};
use stentor_session::{Message, Publisher, Tick};
use stentor_topic::{Zone, has_wildcard};

use super::{STEP_BYTES, STRIPES, Store, is_volatile};
use crate::history::{Extent, base_of, topic_of, unprefixed};
use crate::record::Record;
use crate::stripe::{Budget, PutError};

/// Messages of a history that go under one lock.
const FORGOTTEN_AT_ONCE: usize = 64;

/// A message of a history.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// The message. Its number is that of [`Message::sequence`].
    pub message: Arc<Message>,
    /// When it was received, in milliseconds since 1970.
    pub received_ms: u64,
}

/// What there is of histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryFigures {
    /// Topics that have one.
    pub topics: u64,
    /// Messages of all of them.
    pub messages: u64,
    /// Bytes of their topics, properties and payloads.
    pub bytes: u64,
}

impl<D: Disk> Store<D> {
    /// See [`Retained::keep`].
    pub(super) fn keep_in_history(
        &self,
        message: &Arc<Message>,
        bounds: HistoryBounds,
    ) -> Result<Kept, NotKept> {
        if is_volatile(message.topic()) {
            return self.put(message);
        }
        self.put_received(message, None, Some(bounds))
    }

    /// What there is of the history of a topic: its first and last number.
    #[must_use]
    pub fn history_range(&self, zone: Zone, topic: &str) -> Option<(u64, u64)> {
        let extent = self.history_extent(zone, topic)?;
        Some((extent.first, extent.last))
    }

    pub(super) fn history_extent(&self, zone: Zone, topic: &str) -> Option<Extent> {
        let (_, stripe) = self.place_of(zone, topic);
        self.lock(stripe).extent(&self.env, zone, topic)
    }

    /// What there is of all histories. Takes each stripe's lock for a moment.
    #[must_use]
    pub fn histories(&self) -> HistoryFigures {
        let mut figures = HistoryFigures::default();
        for stripe in 0..STRIPES {
            let stripe = self.lock(stripe);
            let (messages, bytes) = stripe.logs().total();
            figures.topics += stripe.logs().len() as u64;
            figures.messages += messages;
            figures.bytes += bytes;
        }
        figures
    }

    /// Reads messages of histories for who may wait for the disk, and wants to know when they were
    /// received: as [`Retained::history`] does.
    pub fn remember(
        &self,
        query: HistoryQuery<'_>,
        now: Tick,
        cursor: &mut Cursor,
        visits: usize,
        out: &mut Vec<Remembered>,
    ) -> Walk {
        let scope = Scope::until(self.mark(), now);
        self.recall(query, scope, cursor, visits, &mut |record| {
            out.push(Remembered {
                message: Arc::new(self.remembered(record)),
                received_ms: record.received_ms,
            });
        })
    }

    /// Removes the histories of topics that match a filter, and returns how many messages that
    /// were. A lock is held for a few at a time. For threads that may wait.
    ///
    /// # Errors
    /// When there is no room to note that some are gone: the rest is left.
    pub fn forget_histories(&self, zone: Zone, filter: &str) -> Result<u64, NotKept> {
        let mut forgotten = 0;
        for stripe in 0..STRIPES {
            let topics = self.lock(stripe).topics_with_history(zone, filter);
            for topic in topics {
                loop {
                    let mut stripe = self.lock(stripe);
                    let count = |messages: (u64, u64)| messages.0;
                    let before = count(stripe.logs().total());
                    let more = stripe.forget_history(&self.env, zone, &topic, FORGOTTEN_AT_ONCE);
                    forgotten += before - count(stripe.logs().total());
                    drop(stripe);
                    match more {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(_) => return Err(NotKept::DiskFull),
                    }
                }
            }
        }
        Ok(forgotten)
    }

    /// See [`Retained::history`].
    pub(super) fn recall(
        &self,
        query: HistoryQuery<'_>,
        scope: Scope,
        cursor: &mut Cursor,
        visits: usize,
        found: &mut dyn FnMut(&Record<'_>),
    ) -> Walk {
        if is_volatile(query.filter) {
            return Walk::Done;
        }
        let view = self.view(scope);
        let mut budget = Budget::new(visits, STEP_BYTES);
        let end = self.begin_in(query, cursor);
        while usize::from(cursor.stripe) < end {
            if budget.is_spent() {
                return Walk::More;
            }
            let before = budget.spent();
            let Cursor { after, visits, .. } = cursor;
            let stripe = self.lock(usize::from(cursor.stripe));
            let mut copied = 0;
            let is_done =
                stripe.history(&self.env, query, view, after, &mut budget, &mut |record| {
                    copied += copy_visits(record.encoded_len());
                    found(record);
                });
            drop(stripe);
            budget.spend(STRIPE_VISITS);
            *visits += copied + (budget.spent() - before) as u64;
            if !is_done {
                return Walk::More;
            }
            cursor.stripe += 1;
            cursor.after = None;
        }
        Walk::Done
    }

    /// The part of the store behind the last one that a query is about. Moves a cursor that begins
    /// to the first one.
    fn begin_in(&self, query: HistoryQuery<'_>, cursor: &mut Cursor) -> usize {
        if has_wildcard(query.filter) {
            return STRIPES;
        }
        let (_, stripe) = self.place_of(query.zone, query.filter);
        // There are `STRIPES`.
        cursor.stripe = cursor.stripe.max(stripe as u16);
        stripe + 1
    }

    /// See [`Retained::is_fetching_history`].
    pub(super) fn fetch_history(
        &self,
        query: HistoryQuery<'_>,
        cursor: &Cursor,
        visits: usize,
    ) -> bool {
        if !self.reader.is_wary() || is_volatile(query.filter) {
            return false;
        }
        let mut cursor = cursor.clone();
        let end = self.begin_in(query, &mut cursor);
        let mut budget = Budget::new(visits, STEP_BYTES);
        let mut cold = Vec::new();
        let first = usize::from(cursor.stripe);
        for stripe in first..end {
            let after = cursor.after.as_deref().filter(|_| stripe == first);
            self.lock(stripe)
                .cold_history(&self.env, query, after, &mut budget, &mut cold);
            budget.spend(STRIPE_VISITS);
            if budget.is_spent() {
                break;
            }
        }
        self.reader.ask(cold)
    }

    /// The message of a record of a history.
    pub(super) fn remembered(&self, record: &Record<'_>) -> Message {
        let (expiry_secs, properties) = unprefixed(record.properties);
        let expires_ms = self
            .env
            .expires_ms(record.version, record.received_ms, expiry_secs);
        let stored = Stored {
            zone: base_of(record.zone),
            topic: topic_of(record.zone, record.topic),
            properties,
            payload: record.payload,
            qos: record.qos,
            publisher: Publisher::from_bits(record.publisher),
            received_at: self.tick(record.received_ms),
            expires_at: expires_ms.map_or(Tick::NEVER, |ms| self.tick(ms)),
            sequence: record.sequence,
        };
        stored.to_message()
    }

    /// After a start: no history goes beyond the last message of its topic.
    pub(super) fn finish_kept(&self) {
        for stripe in 0..STRIPES {
            loop {
                let finished = self.lock(stripe).finish_kept(&self.env);
                match finished {
                    Err(PutError::Grow(blocks)) if self.grow(stripe, blocks).is_ok() => {}
                    // Where there is no room, the older one stays until the next message.
                    Ok(()) | Err(_) => break,
                }
            }
        }
    }
}
