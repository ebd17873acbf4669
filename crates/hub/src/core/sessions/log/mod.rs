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
//! ```text
//! owed      messages that sessions are owed       ways      how far shards have come with them
//! batches   records of which a shard makes one    base      all that there is to say of a session
//! queue     all that a session is owed            parts     the same, where that is much
//! round     what was written again                bequests  what sessions leave to others
//! prior     what was read back                    restore   going on with it
//! full      what is refused on a full disk        rooms     rooms that stay when they are empty
//! singular  what no base stands for               together  how far many sessions have come
//! ```

mod base;
mod batches;
mod bequests;
mod full;
mod owed;
mod parts;
mod prior;
mod queue;
mod restore;
mod rooms;
mod round;
mod short;
mod singular;
mod together;
mod ways;

pub use base::ALL_WRITTEN;
pub(crate) use base::{give_up_bases, write_base, write_bases};
use bequests::bequests_logged;
pub(crate) use bequests::{Bequest, has_given, leaves};
pub(crate) use full::{
    DISK_FULL, bytes_to_write, forget_needy, is_full, laden, may_be_kept_by, may_be_spooled,
    may_begin, refusal, set_full, set_laden, tell_full, tell_needy, turn_over_full,
};
pub use owed::WRITTEN_BYTES_MAX;
pub(crate) use owed::{JournalCopy, body as body_of};
pub(crate) use prior::message_of;
pub use prior::{
    Owner, PriorDeliveries, PriorSession, PriorSubscription, Start, WrittenSession, prior_message,
    prior_sessions,
};
pub(crate) use queue::{identifiers, terms};
pub(crate) use restore::{
    begin_restoring, end_restoring, forget_will, has_taken, leave, logged, takes, takes_mark,
    were_taken,
};
pub(crate) use rooms::{begin_bases, is_enough, write_place, write_room, writes_rooms};
pub(crate) use together::Together;
pub(crate) use ways::{Journals, SentBy};

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroU64};
use core::time::Duration;

use stentor_mqtt::PacketId;
use stentor_session::{Chunk, ChunkPlace, Message, Progress, Tick, WillRequest};
use stentor_session_log::{
    Arrival, Away, Delivery, Filter, Front, List, MILLIS_MAX, Name, Origin, Place, Quotas, Record,
    Session, Spooled, Subscription, Will,
};

use self::batches::Batches;
use self::bequests::Bequests;
use self::owed::{Nameless, Open};
use self::round::Round;
use self::singular::{Singular, Singulars, write_dropped};
use self::ways::Ways;
use crate::core::Core;
use crate::core::inbound::subscribe::room_of;
use crate::core::routing::options::Options;
use crate::core::sessions::rights::Identity;
use crate::core::sessions::state::Absence;
use crate::effects::SpoolOrder;
use crate::hub::Shared;

/// The records of one shard that its journal has not got yet.
#[derive(Debug)]
pub(crate) struct SessionLog {
    /// Milliseconds from 1970 to [`Tick::ZERO`]; `None` while nothing is written down.
    zero_ms: Option<u64>,
    /// Whether wills are written down of sessions that end with their connection.
    keeps_wills: bool,
    /// How many sessions have got a number. None is given twice.
    numbers: u32,
    batches: Batches,
    /// The shard whose journal this is.
    shard: u8,
    /// A message that is being handed out.
    open: Option<Open>,
    unnamed: Nameless,
    ways: Ways,
    round: Round,
    singulars: Singulars,
    /// Messages that are held back no longer, and have no name yet.
    let_go: Vec<(Number, Arc<Message>)>,
    pub(crate) bequests: Bequests,
    /// Places on the disk that nobody needs when what was written before is appended.
    freed: Vec<ChunkPlace>,
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
    /// Nothing is written without [`Shared::sessions_zero_ms`], and nothing of a session that ends
    /// with its connection without [`Shared::keeps_wills`].
    pub(crate) fn new(shard: u8, shared: &Shared) -> Self {
        let journals = Arc::clone(&shared.interest.journals);
        Self {
            shard,
            zero_ms: shared.sessions_zero_ms,
            keeps_wills: shared.keeps_wills,
            numbers: 0,
            batches: Batches::default(),
            open: None,
            unnamed: Nameless::default(),
            ways: Ways::new(shard, journals),
            round: Round::default(),
            singulars: Singulars::default(),
            let_go: Vec::new(),
            bequests: Bequests::default(),
            freed: Vec::new(),
        }
    }

    /// Moves the records to the end of `log`, and where they may be cut to the end of `cuts`.
    /// Returns whether an answer promises some of them.
    #[inline]
    pub(crate) fn take(&mut self, log: &mut Vec<u8>, cuts: &mut Vec<usize>) -> bool {
        if self.open.is_some() {
            self.close();
        }
        self.batches.take(log, cuts)
    }

    /// The shard has taken all of that. It reports on each batch when that is appended or dropped.
    pub(crate) fn were_taken(&mut self) {
        self.batches.were_taken();
    }

    /// Whether batches wait for room.
    pub(crate) const fn waits(&self) -> bool {
        !self.batches.is_told()
    }

    pub(crate) const fn keeps_wills(&self) -> bool {
        self.keeps_wills
    }

    /// The first batch that the shard has taken was appended there, or dropped.
    pub(crate) fn logged(&mut self, at: Option<Name>) {
        let batch = self.batches.tell();
        while let Some(it) = self.unnamed.pop(batch) {
            match at {
                Some(at) => self.ways.has_name(&it.message, it.to, at.within(it.offset)),
                None => self.ways.unnamed |= it.to,
            }
        }
        bequests_logged(self, batch, at);
        self.round.logged(batch, at);
        self.singulars.logged(batch, at, self.numbers);
        if at.is_none() {
            // Other shards do not keep what they have sent until there is room here again: the
            // round that makes this journal complete writes all that is owed.
            self.ways.tell_all();
        }
        if !self.waits() {
            self.ways.publish_taken();
            for (number, message) in core::mem::take(&mut self.let_go) {
                self.lets_go(number, &message);
            }
        }
    }

    /// What follows may be in another batch than what was before.
    fn part(&mut self) {
        self.batches.part_for(0);
    }

    /// All that is written by `write` is in one batch.
    pub(crate) fn whole<R>(core: &mut Core, write: impl FnOnce(&mut Core) -> R) -> R {
        let log = &mut core.pending.log;
        log.close();
        log.part();
        let was_whole = core::mem::replace(&mut log.batches.is_whole, true);
        let result = write(core);
        let log = &mut core.pending.log;
        log.close();
        log.batches.is_whole = was_whole;
        result
    }

    /// Whether anything is written down.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.zero_ms.is_some()
    }

    /// The number of another session. `None` where nothing is written down, and after 2^32 - 1 of
    /// them, which no server has between two starts.
    pub(crate) fn number(&mut self) -> Option<Number> {
        self.zero_ms?;
        self.numbers = self.numbers.checked_add(1)?;
        NonZeroU32::new(self.numbers).map(Number)
    }

    fn write(&mut self, record: &Record<'_>) {
        self.close();
        self.part();
        record.encode(self.batches.records());
    }

    /// The same in the batch of what was written last: it must not be there without that.
    fn write_beside(&mut self, record: &Record<'_>) {
        self.close();
        record.encode(self.batches.records());
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
}

impl Number {
    /// A session begins, or its identity or expiry has changed. If it `is_base`, what follows in
    /// this batch is all that there is to say of it.
    pub(crate) fn session(
        self,
        log: &mut SessionLog,
        identity: &Identity,
        client_id: &str,
        expiry_secs: u32,
        is_base: bool,
    ) {
        let roles = identity.rights.roles();
        let session = describe(self, identity, client_id, &roles, expiry_secs);
        let record = match is_base {
            true => Record::Base,
            false => Record::Session,
        };
        log.write(&record(session));
    }

    /// It counts for this address.
    pub(crate) fn counts_for(self, log: &mut SessionLog, mark: NonZeroU64) {
        let number = self.get();
        log.write(&Record::Owner { number, mark });
    }

    /// It goes on with all that was written of it in an earlier start.
    pub(crate) fn adopted(self, log: &mut SessionLog, origin: Origin) {
        let number = self.get();
        log.write(&Record::Adopted { number, origin });
        let it = Singular::Adopted(number, origin);
        log.singulars.push(log.batches.present(), it);
    }

    /// It has ended.
    pub(crate) fn end(self, log: &mut SessionLog) {
        let number = self.get();
        log.write_beside(&Record::End { number });
        let it = Singular::End(number);
        log.singulars.push(log.batches.present(), it);
    }

    /// Its client is there.
    pub(crate) fn here(self, log: &mut SessionLog) {
        let number = self.get();
        log.write(&Record::Here { number });
    }

    /// Its client is away.
    pub(crate) fn away(self, log: &mut SessionLog, since_ms: u64, absence: Absence) {
        log.write(&Record::Away(Away {
            number: self.get(),
            since_ms,
            until_ms: log.deadline_ms(absence.until),
            will_at_ms: log.deadline_ms(absence.will_at),
        }));
    }

    /// It has a subscription, perhaps with other options than before.
    pub(crate) fn subscribed(self, log: &mut SessionLog, filter: Filter<'_>, terms: Terms) {
        let options = terms.options;
        let interval = terms.interval.unwrap_or_default().as_micros();
        log.write(&Record::Sub(Subscription {
            number: self.get(),
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
    pub(crate) fn unsubscribed(self, log: &mut SessionLog, filter: Filter<'_>) {
        let number = self.get();
        log.write(&Record::Unsub { number, filter });
    }

    /// How far a session's deliveries have come.
    pub(crate) fn progress(self, log: &mut SessionLog, progress: &Progress) {
        let front = self.write_odd_ones(log, progress);
        log.write(&Record::Acked(List::new(&[front])));
    }

    /// Writes what does not follow from how far the deliveries have come, and returns that.
    fn write_odd_ones(self, log: &mut SessionLog, progress: &Progress) -> Front {
        let number = self.get();
        // Records count from 0 on.
        for (delivery, packet_id) in &progress.odd {
            let (delivery, packet_id) = (delivery - 1, *packet_id);
            let delivery = Delivery { number, delivery };
            log.write(&Record::Sent {
                delivery,
                packet_id,
            });
        }
        for delivery in &progress.gone {
            let delivery = delivery - 1;
            log.write(&Record::Gone(Delivery { number, delivery }));
        }
        Front {
            number,
            front: progress.front.saturating_sub(1),
            sent: progress.sent.saturating_sub(1),
        }
    }

    /// The client has received a delivery at QoS 2.
    pub(crate) fn received(self, log: &mut SessionLog, delivery: u64) {
        let (number, delivery) = (self.get(), delivery - 1);
        log.write(&Record::Received(Delivery { number, delivery }));
    }

    /// A part of what it is owed lies elsewhere.
    pub(crate) fn spooled(self, log: &mut SessionLog, chunk: &Chunk) {
        let number = self.get();
        log.write(&Record::Spooled(Spooled {
            number,
            first: chunk.first - 1,
            count: chunk.count,
            place: Place {
                file: chunk.place.file.get(),
                at: chunk.place.at,
                len: chunk.place.len,
            },
        }));
    }

    /// A message at QoS 2 was taken from the client.
    pub(crate) fn arrived(self, log: &mut SessionLog, packet_id: PacketId) {
        let number = self.get();
        log.write_beside(&Record::Arrived(Arrival { number, packet_id }));
    }

    /// The client has released its packet id.
    pub(crate) fn released(self, log: &mut SessionLog, packet_id: PacketId) {
        let number = self.get();
        log.write(&Record::Released(Arrival { number, packet_id }));
    }

    /// All stored messages of a subscription are sent or owed.
    pub(crate) fn done(self, log: &mut SessionLog, filter: Filter<'_>) {
        let number = self.get();
        log.write(&Record::Done { number, filter });
    }

    /// Its connection has a will.
    pub(crate) fn will(self, log: &mut SessionLog, will: &WillRequest) {
        log.write(&Record::Will(Will {
            number: self.get(),
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
    pub(crate) fn will_gone(self, log: &mut SessionLog) {
        let number = self.get();
        log.write(&Record::WillGone { number });
    }
}

/// Nobody needs these chunks any more.
pub(crate) fn free(log: &mut SessionLog, chunks: &[Chunk]) {
    log.freed.extend(chunks.iter().map(|chunk| chunk.place));
}

/// Whether places on the disk are free again, and the disk has not heard of it.
pub(crate) const fn has_freed(log: &SessionLog) -> bool {
    !log.freed.is_empty()
}

/// Whether there is something to take: see [`SessionLog::take`].
#[inline]
pub(crate) const fn has_records(log: &SessionLog) -> bool {
    log.open.is_some() || log.batches.has_records()
}

/// Moves them to the end of `orders`.
#[inline]
pub(crate) fn take_freed(log: &mut SessionLog, orders: &mut Vec<SpoolOrder>) {
    if has_freed(log) {
        orders.extend(log.freed.drain(..).map(SpoolOrder::Free));
    }
}

/// No answer promises what is written by `write`.
pub(crate) fn write_unpromised(log: &mut SessionLog, write: impl FnOnce(&mut SessionLog)) {
    log.close();
    let before = log.batches.bytes();
    write(log);
    log.batches.promise_nothing_since(before);
}

fn describe<'a>(
    number: Number,
    identity: &'a Identity,
    client_id: &'a str,
    roles: &'a [&'a str],
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

fn gives_up_round(log: &mut SessionLog) {
    log.round.ends();
}

/// What has to follow messages that other shards were sent without names, so that they can say
/// that they have them: a name for each.
fn marks(log: &mut SessionLog) -> Vec<(u8, Name)> {
    if log.ways.unnamed.is_empty() {
        return Vec::new();
    }
    match log.round.since() {
        Some(name) => {
            // The round waits for these, too.
            log.round.awaited = None;
            log.ways.mark_all(name)
        }
        None => {
            // There will be one when this is appended.
            log.write(&Record::Heard(List::default()));
            Vec::new()
        }
    }
}

/// A round of bases begins.
fn round_begins(log: &mut SessionLog) {
    log.round.begins();
    // Files may go that have messages of jobs: who is owed one later has to find it.
    log.ways.begin_round();
    log.tell_taken();
    write_dropped(log);
}

/// Whether everything has come, all bases of a round being written, that was under way then.
/// So nothing is needed that was written before the round.
fn round_ends(log: &mut SessionLog) -> bool {
    let awaited = log.round.awaited.take();
    let awaited = awaited.unwrap_or_else(|| log.ways.under_way());
    let has_come = log.ways.has_come(&awaited) && log.ways.may_end_round();
    if has_come {
        log.round.ends();
    } else {
        log.round.awaited = Some(awaited);
        log.tell_taken();
    }
    has_come
}

/// Whether the present round has to write the message of this name, which it does then.
fn is_carried_first(log: &mut SessionLog, from: u8, name: Name) -> bool {
    let batch = log.batches.present();
    log.round.carries(batch, from == log.shard, name)
}
