//! What sessions that end leave to other members of their shared subscriptions.
//!
//! The messages are in the journal already. So each is only named once more, as sent to this shard:
//! see [`Record::Again`]. All that one session leaves counts as come when the last of it has been
//! given to others.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use stentor_session::Message;
use stentor_session_log::{
    Again, Elsewhere, List, Mark, Member, Message as MessageRecord, Name, Record, Share,
};

use super::SessionLog;
use super::owed::body;
use crate::core::routing::share::ShareName;

/// Messages that one record names.
const NAMES_AT_ONCE: usize = 4_096;
/// Bytes of messages that have no name and are written again in one call.
const BODIES_BYTES_MAX: usize = 1 << 20;

/// What one session leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bequest {
    id: u32,
    /// Since when the journal has its messages: see [`super::round::Round::epoch`].
    epoch: Option<u32>,
}

/// What sessions have left, and others have not got yet.
#[derive(Debug, Default)]
pub(crate) struct Bequests {
    count: u32,
    /// Those of sessions that have not ended yet, by their slots.
    of: HashMap<u32, Bequest, FixedState>,
    /// Their records in batches that are not appended.
    unnamed: VecDeque<Unnamed>,
    /// Whether the journal has the messages that are given now.
    are_there: bool,
}

/// The records of one bequest in one batch.
#[derive(Debug)]
struct Unnamed {
    id: u32,
    batch: u32,
    /// Where the first and the last record are.
    first: u32,
    last: u32,
}

impl Bequests {
    /// The session that leaves this goes on until its connection ends.
    pub(crate) fn keep(&mut self, slot: u32, bequest: Option<Bequest>) {
        if let Some(bequest) = bequest {
            self.of.insert(slot, bequest);
        }
    }

    /// It has ended.
    pub(crate) fn take(&mut self, slot: u32) -> Option<Bequest> {
        self.of.remove(&slot)
    }

    pub(super) const fn are_there(&self) -> bool {
        self.are_there
    }
}

impl SessionLog {
    /// What follows hands out messages of this bequest; `None` for other ones.
    pub(crate) fn gives(&mut self, bequest: Option<Bequest>) {
        let epoch = bequest.and_then(|it| it.epoch);
        self.bequests.are_there = epoch.is_some() && epoch == self.round.epoch();
    }
}

/// The records of a batch were appended there, or dropped.
pub(super) fn bequests_logged(log: &mut SessionLog, batch: u32, at: Option<Name>) {
    let own = log.shard;
    while let Some(it) = { &mut log.bequests.unnamed }.pop_front_if(|it| it.batch == batch) {
        if let Some(at) = at {
            let last = at.within(it.last);
            log.ways.was_sent(own, last);
            let way = log.ways.way(own);
            way.named_bequest(it.id, at.within(it.first), last);
        }
    }
}

/// A message without a name: its record waits for room, or was dropped.
fn write_left(log: &mut SessionLog, message: &Arc<Message>, name: &ShareName) {
    let members = [Member {
        shard: log.shard,
        share: Share {
            group: &name.group,
            filter: &name.filter,
        },
    }];
    let record = MessageRecord {
        body: body(log, message),
        arrival: None,
        elsewhere: Elsewhere {
            members: List::new(&members),
            ..Elsewhere::default()
        },
        recipients: List::default(),
    };
    Record::Message(record).encode(log.batches.records());
}

fn begin_bequest(log: &mut SessionLog) -> Bequest {
    let own = log.shard;
    let epoch = log.round.epoch();
    let bequests = &mut log.bequests;
    bequests.count = bequests.count.wrapping_add(1);
    let id = bequests.count;
    log.ways.way(own).begin_bequest(id);
    Bequest { id, epoch }
}

/// All of a bequest has been given to others.
pub(crate) fn has_given(log: &mut SessionLog, bequest: Bequest) {
    log.close();
    log.part();
    let (own, id) = (log.shard, bequest.id);
    let batch = log.batches.present();
    let way = log.ways.way(own);
    way.finish_bequest(id);
    let is_all = way.is_finished();
    let mut unnamed = log.bequests.unnamed.iter().rev();
    match unnamed.find(|it| it.id == id) {
        // It has no name yet.
        Some(it) if is_all && it.batch == batch => {
            let name = Name::in_this_batch(it.last);
            let marks = [Mark { shard: own, name }];
            Record::Heard(List::new(&marks)).encode(log.batches.records());
        }
        _ => log.tell_taken(),
    }
}

/// A session that ends, or may not have them any more, leaves messages to other members of a
/// shared subscription: those with numbers, in order. What was written of them as owed to it
/// precedes this. O(messages).
pub(crate) fn leaves(
    log: &mut SessionLog,
    bequest: &mut Option<Bequest>,
    messages: &[Arc<Message>],
    name: &ShareName,
) {
    log.close();
    let mut nameless = Vec::new();
    for some in messages.chunks(NAMES_AT_ONCE) {
        log.part();
        // A name in this batch holds until the next part.
        let mut names = Vec::with_capacity(some.len());
        for message in some {
            match log.place_of(message) {
                Some((_, name)) => names.push(name),
                None => nameless.push(message),
            }
        }
        if !names.is_empty() {
            let record = |log: &mut SessionLog| write_again(log, &names, name);
            write_for(log, bequest, record);
        }
    }
    for message in nameless {
        if log.takes_body(message) && log.batches.bytes() < BODIES_BYTES_MAX {
            log.part();
            write_for(log, bequest, |log| write_left(log, message, name));
        }
    }
}

/// Writes a record of what a session leaves.
fn write_for(
    log: &mut SessionLog,
    bequest: &mut Option<Bequest>,
    write: impl FnOnce(&mut SessionLog),
) {
    let id = bequest.get_or_insert_with(|| begin_bequest(log)).id;
    let (batch, offset) = (log.batches.present(), log.batches.offset());
    write(log);
    let unnamed = &mut log.bequests.unnamed;
    match unnamed.back_mut() {
        Some(it) if it.id == id && it.batch == batch => it.last = offset,
        _ => unnamed.push_back(Unnamed {
            id,
            batch,
            first: offset,
            last: offset,
        }),
    }
}

/// Messages that the journal has, by their names.
fn write_again(log: &mut SessionLog, names: &[Name], name: &ShareName) {
    let again = Record::Again(Again {
        member: Member {
            shard: log.shard,
            share: Share {
                group: &name.group,
                filter: &name.filter,
            },
        },
        names: List::new(names),
    });
    again.encode(log.batches.records());
}
