//! What the sessions of a shard are charged with, and for whom they are counted.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use stentor_mqtt::QoS;
use stentor_session::Tick;

use super::{Link, Session, Sessions, is_written};
use crate::core::ids::SessionKey;
use crate::core::memory::{
    Absences, Account, DiskRoom, FullOwners, Laden, Lease, Recharges, Tenant,
};
use crate::core::sessions::log::SessionLog;
use crate::core::sessions::state::{Owed, owner_of, write_progress_with};

/// Sessions that [`look_at_full`] has counted again at a time.
pub(crate) const RECOUNTED_AT_ONCE: usize = 256;

impl Sessions {
    /// A session takes places of those that outlive their connection.
    pub(crate) fn let_to(&mut self, key: SessionKey, lease: Lease) {
        let slot = key.slot as usize;
        if self.leases.len() <= slot {
            self.leases.resize_with(slot + 1, || None);
        }
        give_back(self, key.slot);
        self.leases[slot] = Some(Box::new(lease));
    }

    /// A session waits for its client from now on: it may be the one that goes first where there
    /// is no room.
    pub(crate) fn went_away(&mut self, key: SessionKey) {
        self.note_absence(key, Absences::add);
    }

    /// It does no longer.
    pub(crate) fn came_back(&mut self, key: SessionKey) {
        self.note_absence(key, Absences::remove);
    }

    fn note_absence(&mut self, key: SessionKey, note: fn(&mut Absences, &Tenant, Tick, u32, u64)) {
        let slot = key.slot as usize;
        let Some(Some(lease)) = self.leases.get(slot) else {
            return;
        };
        let Some(session) = self.slots.get(key.slot) else {
            return;
        };
        if let Link::Away(away) = &session.link {
            let (until, bytes) = (away.absence.until, session.account.bytes());
            note(&mut self.absences, lease.tenant(), until, key.slot, bytes);
        }
    }

    /// How many sessions the tenant has, on all shards, whose session goes first here.
    pub(crate) fn most_absent(&self) -> u32 {
        let first = self.absences.first_by_sessions();
        let lease = first.and_then(|slot| self.leases.get(slot as usize)?.as_ref());
        lease.map_or(0, |lease| lease.tenant().sessions())
    }

    /// The session that goes first where places are short.
    pub(crate) fn first_to_go(&self) -> Option<SessionKey> {
        self.key(self.absences.first_by_sessions()?)
    }

    /// The session that goes first where memory is short, and the bytes that it was charged with.
    pub(crate) fn first_to_free(&self) -> Option<(SessionKey, u64)> {
        let key = self.key(self.absences.first_by_bytes()?)?;
        Some((key, self.get(key)?.account.bytes()))
    }

    /// What the sessions hold that wait for their clients.
    pub(crate) fn absent_bytes(&self) -> u64 {
        self.absences.bytes()
    }

    /// What part of this many bytes the sessions give that wait for their clients, if the whole
    /// server holds `held`. Where it is hardly any, none: to end them would free nothing.
    pub(crate) fn absent_part(&self, bytes: u64, held: u64) -> u64 {
        part_of(self, bytes, self.absences.bytes(), held)
    }

    /// Counts the sessions again that have changed. Returns what all of them are charged with:
    /// themselves, and what waits for their clients.
    pub(crate) fn settle_charges(&mut self, log: &mut SessionLog, room: DiskRoom) -> [u64; 2] {
        let mut marked = core::mem::take(&mut self.marked);
        let mut recharges = Recharges::default();
        for slot in marked.drain(..) {
            let Some(session) = self.slots.get_mut(slot) else {
                continue;
            };
            if session.account.is_marked() {
                write_progress_with(&mut session.state, log, &mut self.together);
                let now = Account::of(session);
                let before = core::mem::replace(&mut session.account, now);
                let is_away = session.live().is_none();
                if before.is_laden() || now.is_laden() {
                    note_laden(&mut self.laden, slot, session);
                }
                if let Some(Some(lease)) = self.leases.get_mut(slot as usize) {
                    if is_away {
                        let (before, now) = (before.bytes(), now.bytes());
                        recharges.add(&mut self.absences, lease.tenant(), before, now);
                    }
                    let full = &self.lasting.journals.full_owners;
                    let has_some = now.has_queue() || session.state.owed.is_spooled();
                    if (lease.disk() > 0 || has_some)
                        && count_disk(lease, &mut session.state.owed, room, full)
                    {
                        self.of_full.push(slot);
                    }
                }
                self.recharge(before, now);
            }
        }
        recharges.write(&mut self.absences);
        self.together.write(log);
        self.marked = marked;
        self.charged
    }

    /// What [`Sessions::settle_charges`] returns, counted one by one. Sessions that have ended are
    /// in it until they are worked off.
    pub(crate) fn recount(&self) -> [u64; 2] {
        let parts = self
            .slots
            .iter()
            .map(|(_, session)| Account::of(session).parts());
        parts.fold([0; 2], |sums, (own, queued)| {
            [sums[0] + own, sums[1] + queued]
        })
    }

    pub(super) fn recharge(&mut self, before: Account, now: Account) {
        let (before, now) = (before.parts(), now.parts());
        self.charged[0] = self.charged[0] - before.0 + now.0;
        self.charged[1] = self.charged[1] - before.1 + now.1;
    }
}

/// What the sessions hold here of the tenant whose sessions that wait for their clients hold most.
pub(crate) fn most_absent_bytes(sessions: &Sessions) -> u64 {
    sessions.absences.most_bytes()
}

/// See [`Absences::level`].
pub(crate) fn absent_level(sessions: &Sessions, bytes: u64) -> u64 {
    sessions.absences.level(bytes)
}

/// What part of this many bytes sessions give that hold `theirs` of all that is `held`. Where it is
/// hardly any, none.
pub(crate) fn part_of(sessions: &Sessions, bytes: u64, theirs: u64, held: u64) -> u64 {
    /// What is less than such a part is hardly any.
    const PARTS: u64 = 64;
    let [own, queued] = sessions.charged;
    let held = u128::from(held.max(own + queued).max(1));
    let part = u128::from(bytes) * u128::from(theirs) / held;
    // No larger than `bytes`, unless counts are about to be settled.
    let part = u64::try_from(part).unwrap_or(bytes);
    if part < bytes / PARTS { 0 } else { part }
}

/// The session in a slot holds much, or has held much before.
#[cold]
fn note_laden(laden: &mut Laden, slot: u32, session: &Session) {
    let is_there = session.live().is_some() && !session.is_given_up();
    if is_there && session.account.is_laden() {
        let generation = session.generation;
        let (_, queued) = session.account.parts();
        laden.note(
            SessionKey { slot, generation },
            owner_of(&session.state),
            queued,
        );
    } else {
        laden.forget(slot);
    }
}

/// The session in a slot gives its places back, if it has any.
pub(super) fn give_back(sessions: &mut Sessions, slot: u32) {
    let lease = sessions.leases.get_mut(slot as usize);
    if let Some(mut lease) = lease.and_then(Option::take) {
        lease.release_disk(&sessions.lasting.journals.full_owners);
    }
}

/// Counts what a session has on the disk. Returns whether it has to be counted again although it
/// does not change: its owner is full, and others may give room back.
fn count_disk(lease: &mut Lease, owed: &mut Owed, room: DiskRoom, full: &FullOwners) -> bool {
    let is_barred = lease.note_disk(owed.disk_bytes(), room, full);
    owed.set_barred(is_barred);
    (is_barred || lease.is_full()) && lease.list(true)
}

/// Counts what a session has on the disk, or on its way there.
pub(crate) fn count_disk_of(sessions: &mut Sessions, key: SessionKey, room: DiskRoom) {
    let slot = key.slot as usize;
    let full = &sessions.lasting.journals.full_owners;
    if let Some(session) = sessions.slots.get_mut(key.slot)
        && let Some(Some(lease)) = sessions.leases.get_mut(slot)
        && count_disk(lease, &mut session.state.owed, room, full)
    {
        sessions.of_full.push(key.slot);
    }
}

/// The number of the owner that the session in a slot counts for: see [`crate::Tenants::owner`].
pub(crate) fn owner_in(sessions: &Sessions, slot: u32) -> Option<u32> {
    let lease = sessions.leases.get(slot as usize)?;
    Some(lease.as_ref()?.owner())
}

/// The slots of sessions whose owners were full: to be counted again.
#[derive(Debug, Default)]
pub(super) struct OfFull {
    slots: VecDeque<u32>,
    /// How many of them, the last ones, have come to it since [`take_new_of_full`].
    new: usize,
}

impl OfFull {
    fn push(&mut self, slot: u32) {
        self.slots.push_back(slot);
        self.new += 1;
    }
}

/// The slots of sessions that were counted since the last time while their owner was full.
pub(crate) fn take_new_of_full(sessions: &mut Sessions) -> Vec<u32> {
    let OfFull { slots, new } = &mut sessions.of_full;
    let new = core::mem::take(new).min(slots.len());
    slots.range(slots.len() - new..).copied().collect()
}

/// Sessions whose owner was full are to be counted again: some of them, for there may be many.
/// Returns how many there are.
pub(crate) fn look_at_full(sessions: &mut Sessions) -> usize {
    let of_full = &mut sessions.of_full.slots;
    let len = of_full.len();
    let some = len.min(RECOUNTED_AT_ONCE);
    let slots: Vec<u32> = of_full.drain(..some).collect();
    for slot in slots {
        if let Some(Some(lease)) = sessions.leases.get_mut(slot as usize) {
            lease.list(false);
        }
        // It is marked, as all that may have changed.
        sessions.at_mut(slot, QoS::AtLeastOnce);
    }
    len
}

/// The address for which a session is counted, as it is written down.
pub(crate) fn mark_of(sessions: &Sessions, key: SessionKey) -> Option<NonZeroU64> {
    let lease = sessions.leases.get(key.slot as usize)?;
    lease.as_ref()?.mark()
}

/// About what is written down of all sessions that last, in bytes. O(sessions).
pub(crate) fn about_written(sessions: &Sessions) -> u64 {
    let all = sessions.slots.iter().map(|(_, session)| session);
    let lasting = all.filter(|session| is_written(&session.state));
    lasting.map(|session| session.account.about_written()).sum()
}
