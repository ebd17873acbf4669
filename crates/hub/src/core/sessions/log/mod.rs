//! What is written down of sessions that last, so that they survive a restart.
//!
//! The state of a session changes by methods that leave a [`Record`] of the change here, in the
//! order of the changes. The shard takes the records after each call of the hub, and appends them
//! to its journal before anybody hears of the change. A session that ends with its connection has
//! no number, and nothing is written of it: that costs one test.
//! Of a session that ends with its connection, only its will is written down, if it has one.
//!
//! A subscription below a room is kept while the session is out of the room, since it comes back
//! to it with its client. Its record ends when that is over: by UNSUBSCRIBE, by a removal, or when
//! the room refuses the session.
//!
//! Not written yet: messages.

mod base;
mod prior;
mod restore;

pub(crate) use base::{write_base, write_bases};
pub use prior::{
    Owner, PriorSession, PriorSubscription, Start, WrittenSession, prior_message, prior_sessions,
};
pub(crate) use restore::{forget_will, leave};

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use stentor_session::{Tick, WillRequest};
use stentor_session_log::{
    Away, Filter, List, MILLIS_MAX, Origin, Quotas, Record, Session, Subscription, Will,
};

use crate::core::inbound::subscribe::room_of;
use crate::core::routing::options::Options;
use crate::core::sessions::rights::Identity;
use crate::core::sessions::state::Absence;

/// The records of one shard that its journal has not got yet.
#[derive(Debug, Default)]
pub(crate) struct SessionLog {
    /// Milliseconds from 1970 to [`Tick::ZERO`]; `None` while nothing is written down.
    zero_ms: Option<u64>,
    /// Whether wills are written down of sessions that end with their connection.
    keeps_wills: bool,
    /// How many sessions have got a number. None is given twice.
    numbers: u32,
    records: Vec<u8>,
}

/// What a session is called in the journal of its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(NonZeroU32);

/// What a subscription was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) options: Options,
    /// The least time between two messages of a topic that it asks for.
    pub(crate) interval: Option<Duration>,
    /// Whether stored messages are still to be sent.
    pub(crate) snapshot: bool,
}

impl Number {
    const fn get(self) -> u32 {
        self.0.get() - 1
    }
}

impl SessionLog {
    /// Nothing is written without `zero_ms`, and nothing of a session that ends with its connection
    /// without `keeps_wills`.
    pub(crate) fn new(zero_ms: Option<u64>, keeps_wills: bool) -> Self {
        Self {
            zero_ms,
            keeps_wills,
            ..Self::default()
        }
    }

    /// Moves the records to the end of `log`.
    #[inline]
    pub(crate) fn take(&mut self, log: &mut Vec<u8>) {
        if !self.records.is_empty() {
            log.append(&mut self.records);
        }
    }

    /// Bytes of the records that were not taken.
    pub(crate) const fn bytes(&self) -> usize {
        self.records.len()
    }

    pub(crate) const fn keeps_wills(&self) -> bool {
        self.keeps_wills
    }

    /// The number of another session. `None` where nothing is written down, and after 2^32 - 1 of
    /// them, which no server has between two starts.
    pub(crate) fn number(&mut self) -> Option<Number> {
        self.zero_ms?;
        self.numbers = self.numbers.checked_add(1)?;
        NonZeroU32::new(self.numbers).map(Number)
    }

    fn write(&mut self, record: &Record<'_>) {
        record.encode(&mut self.records);
    }

    /// A time of the server in milliseconds since 1970.
    pub(crate) fn ms(&self, at: Tick) -> u64 {
        let since = self.zero_ms.unwrap_or(0);
        let ms = since.saturating_add(at.as_micros() / 1_000);
        ms.min(MILLIS_MAX)
    }

    /// The same; `None` for [`Tick::NEVER`].
    fn deadline_ms(&self, at: Tick) -> Option<u64> {
        (at != Tick::NEVER).then(|| self.ms(at))
    }

    /// A session begins, or its identity or expiry has changed.
    pub(crate) fn session(
        &mut self,
        number: Number,
        (identity, client_id): (&Identity, &str),
        expiry_secs: u32,
    ) {
        let roles = identity.rights.roles();
        let session = describe(number, (identity, client_id, &roles), expiry_secs);
        self.write(&Record::Session(session));
    }

    /// What follows in this batch is all that there is to say of a session.
    pub(crate) fn base(
        &mut self,
        number: Number,
        (identity, client_id): (&Identity, &str),
        expiry_secs: u32,
    ) {
        let roles = identity.rights.roles();
        let session = describe(number, (identity, client_id, &roles), expiry_secs);
        self.write(&Record::Base(session));
    }

    /// It goes on with all that was written of it in an earlier start.
    pub(crate) fn adopted(&mut self, number: Number, origin: Origin) {
        let number = number.get();
        self.write(&Record::Adopted { number, origin });
    }

    /// It has ended.
    pub(crate) fn end(&mut self, number: Number) {
        let number = number.get();
        self.write(&Record::End { number });
    }

    /// Its client is there.
    pub(crate) fn here(&mut self, number: Number) {
        let number = number.get();
        self.write(&Record::Here { number });
    }

    /// Its client is away.
    pub(crate) fn away(&mut self, number: Number, since_ms: u64, absence: Absence) {
        self.write(&Record::Away(Away {
            number: number.get(),
            since_ms,
            until_ms: self.deadline_ms(absence.until),
            will_at_ms: self.deadline_ms(absence.will_at),
        }));
    }

    /// It has a subscription, perhaps with other options than before.
    pub(crate) fn subscribed(&mut self, number: Number, filter: Filter<'_>, terms: Terms) {
        let options = terms.options;
        let interval = terms.interval.unwrap_or_default().as_micros();
        self.write(&Record::Sub(Subscription {
            number: number.get(),
            filter,
            qos: options.qos(),
            no_local: options.no_local(),
            retain_as_published: options.retain_as_published(),
            snapshot: terms.snapshot,
            room: filter.group.is_none() && room_of(filter.filter).is_some(),
            identifier: Some(options.id()).filter(|id| *id != 0),
            interval_micros: u64::try_from(interval).unwrap_or(u64::MAX),
        }));
    }

    /// A subscription has ended.
    pub(crate) fn unsubscribed(&mut self, number: Number, filter: Filter<'_>) {
        let number = number.get();
        self.write(&Record::Unsub { number, filter });
    }

    /// All stored messages of a subscription are sent or owed.
    pub(crate) fn done(&mut self, number: Number, filter: Filter<'_>) {
        let number = number.get();
        self.write(&Record::Done { number, filter });
    }

    /// Its connection has a will.
    pub(crate) fn will(&mut self, number: Number, will: &WillRequest) {
        self.write(&Record::Will(Will {
            number: number.get(),
            topic: &will.topic,
            properties: &will.properties,
            payload: &will.payload,
            qos: will.qos,
            retain: will.retain,
            delay_secs: will.delay_secs,
            expiry_secs: will.expiry_secs,
        }));
    }

    /// Its will is published, or is not to be.
    pub(crate) fn will_gone(&mut self, number: Number) {
        let number = number.get();
        self.write(&Record::WillGone { number });
    }
}

fn describe<'a>(
    number: Number,
    (identity, client_id, roles): (&'a Identity, &'a str, &'a [&'a str]),
    expiry_secs: u32,
) -> Session<'a> {
    let quotas = identity.rights.quotas();
    Session {
        number: number.get(),
        zone: identity.zone.0,
        client_id,
        user: identity.user.as_deref(),
        guest: identity.guest.map(|mark| mark.0),
        expiry_secs,
        has_no_account: identity.rights.has_no_account(),
        roles_are_of_credential: identity.rights.roles_are_of_credential(),
        roles: List::new(roles),
        quotas: Quotas {
            messages_per_sec: quotas.messages_per_sec,
            bytes_per_sec: quotas.bytes_per_sec,
            subscriptions: quotas.subscriptions,
            queued_bytes: quotas.queued_bytes,
        },
    }
}
