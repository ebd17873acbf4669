//! What clients owe that are not connected.
//!
//! Work is paid for by time, so whoever leaves while it owes, and comes back, owes still: a debt
//! belongs to a client id in its zone. The same holds for what is found out later, for a message
//! may be routed for long after its publisher has gone.
//!
//! A debt lasts 10 s at most, and client ids are remembered by their hash. Where very many owe at
//! once, some of them are let off.

use alloc::collections::VecDeque;

use hashbrown::HashMap;
use stentor_session::Tick;
use stentor_topic::Zone;

use crate::core::ids::SessionKey;
use crate::core::work::Debt;
use crate::core::{Core, Place};
use crate::items::Sender;

/// This many client ids without a connection are known to owe something.
const DEBTORS_MAX: usize = 65_536;
/// This many sessions are known whose connection has ended, the last ones, and messages of which
/// may still be under way.
const ENDED_MAX: usize = 4_096;
/// No session has this slot.
const NO_SLOT: u32 = u32::MAX;

type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// What client ids owe that are not connected, by the hash of the id and its zone.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    owed: Map<u64, Debt>,
    /// The keys of `owed`, each once.
    debtors: VecDeque<u64>,
    /// The client ids of sessions that have ended, or may by now.
    ended: Map<SessionKey, u64>,
    /// The keys of `ended`, in order.
    ended_order: VecDeque<SessionKey>,
    wills: u32,
}

impl Debts {
    /// What a client id owes.
    fn of(&self, client: u64) -> Debt {
        self.owed.get(&client).copied().unwrap_or_default()
    }

    /// A client id owes this much. O(1).
    fn remember(&mut self, now: Tick, client: u64, debt: Debt) {
        if !debt.is_owed(now) {
            return;
        }
        self.forget_paid(now);
        let known = self.owed.insert(client, debt);
        if known.is_none() {
            self.debtors.push_back(client);
        }
    }

    /// Makes room, and looks at two that may have been paid: so there are soon as few as owe.
    fn forget_paid(&mut self, now: Tick) {
        for _ in 0..2 {
            let Some(client) = self.debtors.pop_front() else {
                return;
            };
            let is_full = self.debtors.len() + 1 >= DEBTORS_MAX;
            if is_full || !self.of(client).is_owed(now) {
                self.owed.remove(&client);
            } else {
                self.debtors.push_back(client);
            }
        }
    }

    /// Bytes of memory that they take. O(1).
    pub(crate) fn bytes(&self) -> usize {
        let tables = self.owed.allocation_size() + self.ended.allocation_size();
        tables
            + self.debtors.capacity() * size_of::<u64>()
            + self.ended_order.capacity() * size_of::<SessionKey>()
    }

    /// A session ends, now or later.
    fn end(&mut self, key: SessionKey, client: u64) {
        if self.ended.insert(key, client).is_some() {
            return;
        }
        self.ended_order.push_back(key);
        if self.ended_order.len() > ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }
}

impl Place {
    fn client_hash(&self, zone: Zone, client_id: &str) -> u64 {
        self.hasher.hash(zone, client_id)
    }
}

/// A connection has ended that owes this much, and perhaps its session.
pub(in crate::core) fn remember(core: &mut Core, now: Tick, key: SessionKey, debt: Debt) {
    let Some(session) = core.sessions.get(key) else {
        return;
    };
    let client = core
        .place
        .client_hash(session.state.zone(), session.state.client_id());
    core.past.debts.remember(now, client, debt);
    core.past.debts.end(key, client);
}

/// What a client id owes whose connection has ended.
pub(in crate::core) fn debt_of(core: &Core, zone: Zone, client_id: &str) -> Debt {
    core.past.debts.of(core.place.client_hash(zone, client_id))
}

/// Charges a session that is not connected: its client id owes it, by whatever session.
#[cold]
pub(in crate::core) fn charge_absent(core: &mut Core, now: Tick, key: SessionKey, visits: u32) {
    let client = match core.sessions.get(key) {
        Some(session) => Some(
            core.place
                .client_hash(session.state.zone(), session.state.client_id()),
        ),
        None => core.past.debts.ended.get(&key).copied(),
    };
    let Some(client) = client else {
        return;
    };
    if let Some(live) = core.sessions.live_by_hash(client) {
        live.extras().debt.add(now, visits);
        return;
    }
    let mut debt = core.past.debts.of(client);
    debt.add(now, visits);
    core.past.debts.remember(now, client, debt);
}

/// What is published from now on is a will of a client, until [`end_will`]: its client id
/// pays for that, by whatever session.
pub(crate) fn begin_will(core: &mut Core, zone: Zone, client_id: &str) {
    core.routing.routes.will_of = Some(sender_of_will(core, zone, client_id));
}

/// The will is published.
pub(crate) const fn end_will(core: &mut Core) {
    core.routing.routes.will_of = None;
}

fn sender_of_will(core: &mut Core, zone: Zone, client_id: &str) -> Sender {
    let client = core.place.client_hash(zone, client_id);
    core.past.debts.wills = core.past.debts.wills.wrapping_add(1);
    let session = SessionKey {
        slot: NO_SLOT,
        generation: core.past.debts.wills,
    };
    core.past.debts.end(session, client);
    Sender {
        shard: core.place.shard,
        session,
        epoch: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debt(now: Tick) -> Debt {
        let mut debt = Debt::default();
        debt.add(now, 3_000_000);
        debt
    }

    #[test]
    fn debts_are_bounded_and_end_when_they_are_paid() {
        let (mut debts, now) = (Debts::default(), Tick::from_secs(100));
        for client in 0..2 * DEBTORS_MAX as u64 {
            debts.remember(now, client, debt(now));
            assert!(debts.owed.len() <= DEBTORS_MAX);
            assert_eq!(debts.owed.len(), debts.debtors.len());
            assert!(debts.of(client).is_owed(now));
        }
        assert!(debts.owed.len() > DEBTORS_MAX - 10);
        let later = Tick::from_secs(102);
        for client in 0..DEBTORS_MAX as u64 {
            debts.remember(later, client % 10, debt(later));
        }
        assert_eq!((debts.owed.len(), debts.debtors.len()), (10, 10));
        debts.remember(later, 77, debt(now));
        assert!(!debts.of(77).is_owed(now), "it was paid before");
    }

    #[test]
    fn sessions_that_ended_are_bounded() {
        let mut debts = Debts::default();
        let key = |slot| SessionKey {
            slot,
            generation: 1,
        };
        for slot in 0..2 * ENDED_MAX as u32 {
            debts.end(key(slot), u64::from(slot));
            debts.end(key(slot), u64::from(slot));
        }
        assert_eq!(debts.ended.len(), ENDED_MAX);
        assert_eq!(debts.ended_order.len(), ENDED_MAX);
        assert!(debts.ended.contains_key(&key(2 * ENDED_MAX as u32 - 1)));
    }
}
