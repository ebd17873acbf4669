//! How far shards have come with what they get from one another.
//!
//! What one shard sends another arrives in order. So the last name that a shard has taken from
//! another one says all, and is written down: see [`Record::Heard`]. A message that goes on in
//! later turns counts as taken when it is over.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

use stentor_mqtt::QoS;
use stentor_session::Message;
use stentor_session_log::{List, Mark, Name, Record};

use super::SessionLog;
use super::short::Topics;
use crate::core::ids::{SHARDS_MAX, ShardId};
use crate::core::memory::FullOwners;
use crate::core::shard_set::{AtomicShardSet, ShardSet};

/// What all shards may ask of one another's journals.
#[derive(Debug)]
pub(crate) struct Journals {
    /// The shards that have a session that outlives its connection.
    lasting: AtomicShardSet,
    /// The shards whose journal has no room for more that sessions are owed.
    full: AtomicShardSet,
    /// The shards whose journal has much that waits for room.
    laden: AtomicShardSet,
    /// The owners that have used up their part of the disk for backlogs.
    pub(crate) full_owners: FullOwners,
    /// What sessions of these owners have subscribed to that are away or behind, each owner's with
    /// a salt.
    pub(crate) topics_of_full: Topics,
    /// The owners that have such sessions, by that salt. Many filters of others do not fill it.
    pub(crate) full_with_backlogs: Topics,
    /// What sessions have subscribed to that need the disk while it refuses backlogs.
    pub(crate) topics_of_needy: Topics,
    /// For each shard, what its journal has from each other one: see [`Name::to_bits`].
    taken: Box<[AtomicU64]>,
}

impl Default for Journals {
    fn default() -> Self {
        let places = usize::from(SHARDS_MAX) * usize::from(SHARDS_MAX);
        Self {
            lasting: AtomicShardSet::default(),
            full: AtomicShardSet::default(),
            laden: AtomicShardSet::default(),
            full_owners: FullOwners::default(),
            topics_of_full: Topics::default(),
            full_with_backlogs: Topics::default(),
            topics_of_needy: Topics::default(),
            taken: (0..places).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Journals {
    fn taken(&self, by: u8, from: u8) -> &AtomicU64 {
        &self.taken[usize::from(by) * usize::from(SHARDS_MAX) + usize::from(from)]
    }

    /// A shard has sessions that outlive their connection, or has none any more. It says so before
    /// it acknowledges what they subscribe to.
    pub(crate) fn set_lasting(&self, shard: u8, has_some: bool) {
        self.lasting.set(ShardId(shard), has_some);
    }

    /// The journal of a shard has no room for more that sessions are owed, or has room again.
    pub(super) fn set_full(&self, shard: u8, is_full: bool) {
        self.full.set(ShardId(shard), is_full);
    }

    /// Much waits for room in the journal of a shard, or little does again.
    pub(super) fn set_laden(&self, shard: u8, is_laden: bool) {
        self.laden.set(ShardId(shard), is_laden);
    }

    /// The shards of which that is so.
    #[inline]
    pub(super) fn laden(&self) -> ShardSet {
        self.laden.get()
    }

    /// Whether the journal of any shard is full: they have one disk.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        !self.full.was_empty()
    }

    /// The shards that have some.
    #[inline]
    pub(crate) fn lasting(&self) -> ShardSet {
        self.lasting.get()
    }
}

/// The bits of an offset in what [`pack`] returns, and of a file.
const OFFSET_BITS: u32 = 28;
const FILE_BITS: u32 = 30;

/// A name and the shard that gave it, as a message keeps them. `None` if they are too large.
pub(super) fn pack(shard: u8, name: Name) -> Option<NonZeroU64> {
    let fits = name.file < 1 << FILE_BITS && name.offset < 1 << OFFSET_BITS && shard < SHARDS_MAX;
    let bits = u64::from(shard) << (OFFSET_BITS + FILE_BITS)
        | u64::from(name.file) << OFFSET_BITS
        | u64::from(name.offset);
    NonZeroU64::new(bits).filter(|_| fits)
}

/// Which shard has written a message down, and where.
pub(super) fn name_of(message: &Message) -> Option<(u8, Name)> {
    let bits = message.name()?.get();
    let name = Name {
        file: (bits >> OFFSET_BITS) as u32 & ((1 << FILE_BITS) - 1),
        offset: bits as u32 & ((1 << OFFSET_BITS) - 1),
    };
    Some(((bits >> (OFFSET_BITS + FILE_BITS)) as u8, name))
}

/// What has come from one shard, this one included.
#[derive(Debug, Default)]
pub(super) struct Way {
    last: Option<Name>,
    /// What was written of that.
    told: Option<Name>,
    /// Messages from there that go on in later turns, or wait for a first one.
    unfinished: Vec<Unfinished>,
}

/// What is waited for.
#[derive(Debug)]
enum Matter {
    Message(Arc<Message>),
    /// All that a session has left to others: see [`super::bequests`].
    Bequest(u32),
}

impl Matter {
    fn is(&self, message: &Arc<Message>) -> bool {
        matches!(self, Self::Message(it) if Arc::ptr_eq(it, message))
    }

    fn is_bequest(&self, id: u32) -> bool {
        matches!(self, Self::Bequest(it) if *it == id)
    }
}

#[derive(Debug)]
struct Unfinished {
    matter: Matter,
    /// Where it is written; `None` until this shard has appended that.
    name: Option<Name>,
    /// The last record, if it has several.
    last: Option<Name>,
    /// Whether the journal of this shard has its body.
    has_body: bool,
    /// Whether it was there when the present round of bases began.
    is_old: bool,
}

impl Way {
    fn position(&self, message: &Arc<Message>) -> Option<usize> {
        let mut all = self.unfinished.iter();
        all.position(|it| it.matter.is(message))
    }

    pub(super) fn begin_bequest(&mut self, id: u32) {
        self.unfinished.push(Unfinished {
            matter: Matter::Bequest(id),
            name: None,
            last: None,
            has_body: true,
            is_old: false,
        });
    }

    /// Its records were appended, the first and the last of a batch there.
    pub(super) fn named_bequest(&mut self, id: u32, first: Name, last: Name) {
        let mut all = self.unfinished.iter_mut();
        match all.find(|it| it.matter.is_bequest(id)) {
            Some(it) => {
                it.name.get_or_insert(first);
                it.last = Some(last);
            }
            // It is over already.
            None => self.last = self.last.max(Some(last)),
        }
    }

    pub(super) fn finish_bequest(&mut self, id: u32) {
        let mut all = self.unfinished.iter();
        let at = all.position(|it| it.matter.is_bequest(id));
        self.finish_at(at);
    }

    /// Whether nothing that has come is waited for.
    pub(super) fn is_finished(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Whether something is left to others whose records were dropped.
    fn has_dropped_bequests(&self) -> bool {
        let mut all = self.unfinished.iter();
        all.any(|it| matches!(it.matter, Matter::Bequest(_)) && it.name.is_none())
    }

    /// The files may go that have the messages, and who has them already.
    fn begin_round(&mut self) {
        self.told = None;
        for unfinished in &mut self.unfinished {
            unfinished.has_body = false;
            unfinished.is_old = true;
        }
    }

    fn finish_at(&mut self, at: Option<usize>) {
        if let Some(at) = at {
            let finished = self.unfinished.swap_remove(at);
            self.last = self.last.max(finished.name).max(finished.last);
        }
    }

    /// A message is waited for. `is_here` says that the present batch of this shard has its body.
    fn begin(&mut self, message: &Arc<Message>, name: Option<Name>, is_here: bool) {
        let has_body = is_here || self.has_body(message);
        self.unfinished.push(Unfinished {
            matter: Matter::Message(Arc::clone(message)),
            name,
            last: None,
            has_body,
            is_old: false,
        });
    }

    /// A message is not to be waited for any longer, for one of the reasons for which it was.
    fn finish(&mut self, message: &Arc<Message>) {
        self.finish_at(self.position(message));
    }

    pub(super) fn has_body(&self, message: &Arc<Message>) -> bool {
        let mut all = self.unfinished.iter();
        all.any(|it| it.has_body && it.matter.is(message))
    }

    pub(super) fn got_body(&mut self, message: &Arc<Message>) {
        let all = self.unfinished.iter_mut();
        let its = all.filter(|it| it.matter.is(message));
        its.for_each(|it| it.has_body = true);
    }

    /// All that was sent up to here has come, and is over.
    pub(super) fn mark(&self) -> Option<Name> {
        let mut mark = self.last?;
        for unfinished in &self.unfinished {
            let name = unfinished.name?;
            // A record has its frame before it.
            let before = Name {
                offset: name.offset.saturating_sub(1),
                ..name
            };
            mark = mark.min(before);
        }
        Some(mark)
    }

    /// Whether something goes on that was there when the present round began.
    fn has_old(&self) -> bool {
        self.unfinished.iter().any(|it| it.is_old)
    }

    /// A record says how far it is.
    pub(super) fn tell(&mut self) -> Option<Name> {
        let mark = self.mark();
        self.told = self.told.max(mark);
        mark
    }
}

/// What shards get from one another, as one of them knows it.
#[derive(Debug)]
pub(super) struct Ways {
    own: u8,
    journals: Arc<Journals>,
    /// What has come from each shard.
    from: Vec<Way>,
    /// The last that each shard was sent.
    sent: Vec<Option<Name>>,
    /// The shards that were sent messages without names: their records were dropped.
    pub(super) unnamed: ShardSet,
    /// From which shard a message has come that is being handed out, and whether that one had
    /// written it down when it sent it.
    taking: Option<(u8, bool)>,
    /// Whether that has recipients that are written, and counts as not taken there.
    pub(super) is_split: bool,
}

impl Ways {
    pub(super) const fn new(own: u8, journals: Arc<Journals>) -> Self {
        Self {
            own,
            journals,
            from: Vec::new(),
            sent: Vec::new(),
            unnamed: ShardSet::EMPTY,
            taking: None,
            is_split: false,
        }
    }

    /// The shards that have sessions that last.
    #[inline]
    pub(super) fn journals(&self) -> &Journals {
        &self.journals
    }

    pub(super) fn lasting(&self) -> ShardSet {
        self.journals.lasting()
    }

    pub(super) fn way(&mut self, shard: u8) -> &mut Way {
        let at = usize::from(shard);
        if self.from.len() <= at {
            self.from.resize_with(at + 1, Way::default);
        }
        &mut self.from[at]
    }

    /// Whether the journal of this shard has a message that goes on, as far as is known.
    pub(super) fn has_body(&self, from: u8, message: &Arc<Message>) -> bool {
        let way = self.from.get(usize::from(from));
        way.is_some_and(|way| way.has_body(message))
    }

    pub(super) fn begin_round(&mut self) {
        self.from.iter_mut().for_each(Way::begin_round);
    }

    /// Whether nothing goes on that was there when the round began: the older files say who has it
    /// already.
    pub(super) fn may_end_round(&self) -> bool {
        let mut all = self.from.iter();
        self.unnamed.is_empty() && !all.any(|way| way.has_old() || way.has_dropped_bequests())
    }

    /// A name is sent after what had none, to all that were sent such messages.
    pub(super) fn mark_all(&mut self, name: Name) -> Vec<(u8, Name)> {
        let to = core::mem::take(&mut self.unnamed);
        let others = to.without(ShardId(self.own)).iter();
        let marked: Vec<(u8, Name)> = others.map(|shard| (shard.0, name)).collect();
        for (shard, name) in &marked {
            self.was_sent(*shard, *name);
        }
        marked
    }

    /// How far they are, where no record has said so. A record is about to.
    fn untold(&mut self) -> Vec<Mark> {
        let mut marks = Vec::new();
        for (shard, way) in (0..).zip(&mut self.from) {
            let before = way.told;
            if let Some(name) = way.tell()
                && before < Some(name)
            {
                marks.push(Mark { shard, name });
            }
        }
        marks
    }

    /// Records that were dropped would have said how far they are.
    pub(super) fn tell_all(&mut self) {
        self.from.iter_mut().for_each(|way| _ = way.tell());
    }

    /// A message of this shard was appended there, and is sent to these shards.
    pub(super) fn has_name(&mut self, message: &Arc<Message>, to: ShardSet, name: Name) {
        if let Some(bits) = pack(self.own, name) {
            message.written(bits);
        }
        if !to.is_empty() && name_of(message) != Some((self.own, name)) {
            // It is a stored one that another shard has written first. They do not know that this
            // is meant.
            return;
        }
        for shard in to {
            self.was_sent(shard.0, name);
        }
        let own = self.own;
        if to.has(ShardId(own)) {
            let way = self.way(own);
            let all = way.unfinished.iter_mut();
            let is_it = |it: &&mut Unfinished| it.name.is_none() && it.matter.is(message);
            let its = all.filter(is_it).map(|it| it.name = Some(name));
            if its.count() == 0 {
                // It is over already.
                way.last = way.last.max(Some(name));
            }
        }
    }

    pub(super) fn was_sent(&mut self, to: u8, name: Name) {
        let at = usize::from(to);
        if self.sent.len() <= at {
            self.sent.resize(at + 1, None);
        }
        self.sent[at] = self.sent[at].max(Some(name));
    }

    /// What the records say that have been appended: others may ask for it.
    pub(super) fn publish_taken(&self) {
        for (from, way) in (0..).zip(&self.from) {
            if let Some(name) = way.told {
                let taken = self.journals.taken(self.own, from);
                taken.store(name.to_bits(), Ordering::Release);
            }
        }
    }

    /// What is on its way, or goes on here: see [`Ways::has_come`].
    pub(super) fn under_way(&self) -> Vec<(u8, Name)> {
        let sent = (0..).zip(&self.sent);
        sent.filter_map(|(shard, name)| Some((shard, (*name)?)))
            .collect()
    }

    /// Whether the journals of other shards have what was under way to them.
    pub(super) fn has_come(&self, under_way: &[(u8, Name)]) -> bool {
        under_way.iter().all(|(shard, name)| {
            let taken = self.journals.taken(*shard, self.own);
            taken.load(Ordering::Acquire) >= name.to_bits()
        })
    }
}

/// The shard that has sent a message to this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentBy {
    pub(crate) shard: ShardId,
    /// Whether the message had a name there: it was written down.
    pub(crate) is_named: bool,
}

impl SessionLog {
    /// A message has come from another shard, and is about to be handed out. Only what that one had
    /// written down when it sent it says how far this one is with it.
    ///
    /// Returns the message to hand out. If the other shard could not write it down, that is a copy,
    /// which this shard names itself: others have the same message, and name theirs.
    pub(crate) fn takes(&mut self, from: SentBy, message: Arc<Message>) -> Arc<Message> {
        if !self.is_on() || message.qos == QoS::AtMostOnce {
            return message;
        }
        let SentBy {
            shard: ShardId(from),
            is_named,
        } = from;
        let name = name_of(&message).filter(|(shard, _)| is_named && *shard == from);
        self.ways.taking = Some((from, name.is_some()));
        let Some((_, name)) = name else {
            let lasts = self.ways.lasting().has(ShardId(self.shard));
            let is_kept = lasts && self.takes_body(&message);
            return if is_kept {
                Arc::new(message.copy())
            } else {
                message
            };
        };
        let way = self.ways.way(from);
        way.last = way.last.max(Some(name));
        way.begin(&message, Some(name), false);
        message
    }

    /// All has come from another shard that it has sent before it has written something there.
    pub(crate) fn takes_mark(&mut self, from: u8, name: Name) {
        let way = self.ways.way(from);
        way.last = way.last.max(Some(name));
    }

    /// That is done, as far as it does not go on in later turns.
    pub(crate) fn has_taken(&mut self, message: &Arc<Message>) {
        // Its record is the last one about it, and can say that it is over.
        let is_open = self.opened_body(message);
        if let Some((from, true)) = self.ways.taking.take() {
            self.ways.way(from).finish(message);
        }
        self.close_with(is_open);
        // What was written of it before may say that it is not over.
        if core::mem::take(&mut self.ways.is_split) {
            self.tell_taken();
        }
    }

    /// A message goes on in later turns: until then, it counts as not taken. Returns on whose way
    /// that is.
    pub(crate) fn puts_off(&mut self, message: &Arc<Message>) -> u8 {
        let own = self.shard;
        let is_here = name_of(message).is_none();
        let (from, name) = match (name_of(message), self.ways.taking) {
            (None, _) => {
                self.sends(message, ShardSet::one(ShardId(own)), None);
                (own, None)
            }
            (Some((_, name)), Some((from, true))) => (from, Some(name)),
            // It was written down after it was sent. Nothing that follows counts as taken either.
            (Some(_), Some((from, false))) => (from, None),
            (Some((shard, name)), None) => (shard, Some(name)),
        };
        self.ways.way(from).begin(message, name, is_here);
        from
    }

    /// It is over.
    pub(crate) fn finishes(&mut self, shard: u8, message: &Arc<Message>) {
        let is_open = self.opened_body(message);
        self.ways.way(shard).finish(message);
        self.close_with(is_open);
    }

    /// Writes what has come from other shards, where that was not written with a delivery.
    pub(crate) fn tell_taken(&mut self) {
        if self.ways.from.is_empty() {
            return;
        }
        self.close();
        let marks = self.ways.untold();
        if !marks.is_empty() {
            self.write(&Record::Heard(List::new(&marks)));
        }
    }
}
