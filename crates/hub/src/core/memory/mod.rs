//! What clients make the server hold, in bytes.
//!
//! Each session is charged with what it makes the server hold, wherever that lies: see
//! [`account`]. The shard keeps the sum over its sessions, by kind, and writes it into the
//! [`Ledger`] at the end of each turn. A session that has changed is marked when it is borrowed,
//! and counted again at the end of the turn: so the way of a message pays one comparison, and no
//! change can be missed.

mod account;
mod disk;
pub(crate) mod evict;
mod laden;
mod ledger;
pub(crate) mod relief;
mod tenant;

pub(crate) use account::Account;
pub(crate) use disk::FullOwners;
pub(crate) use evict::Room;
pub(crate) use laden::Laden;
pub use ledger::{Holding, Ledger, Pressure};
pub(crate) use relief::Relief;
pub(crate) use tenant::{Absences, DiskRoom, Lease, Recharges};
pub use tenant::{Tenant, TenantKind, Tenants};

use alloc::boxed::Box;
use alloc::sync::Arc;

use stentor_topic::Zone;

use crate::core::{Core, Memory};

/// A session that makes the server hold much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its zone.
    pub zone: Zone,
    /// Its client id.
    pub client_id: Box<str>,
    /// Its user; `None` for anonymous.
    pub user: Option<Arc<str>>,
    /// Whether its client is there.
    pub is_connected: bool,
    /// Bytes that it makes the server hold. A message that waits for several sessions counts for
    /// each of them: any of them may be the last to hold it.
    pub bytes: u64,
}

/// What all shards hold.
pub(crate) fn ledger(core: &Core) -> &Ledger {
    &core.memory.ledger
}

/// How much room there is on the disk for what waits for sessions.
pub(crate) fn disk_room(core: &Core) -> DiskRoom {
    DiskRoom {
        free: core.outbox.spooling.free,
        bytes_max: core.rules.settings.spool.bytes_max,
        zone_max: core.rules.settings.spool.zone_bytes_max,
    }
}

impl Memory {
    /// Whether no more is held for clients that have not read what they got: memory is short, or it
    /// will be when it is looked at next. O(shards).
    pub(crate) fn is_short(&self) -> bool {
        let ledger = &self.ledger;
        ledger.pressure() > Pressure::None || ledger.total() >= ledger.budget()
    }
}

/// Counts the sessions again that have changed, and writes the sums into the ledger.
/// [`crate::Hub::advance`] does it; O(sessions that have changed).
pub(crate) fn settle_accounts(core: &mut Core, rooms: u64) {
    let room = disk_room(core);
    let held = core.sessions.settle_charges(&mut core.pending.log, room);
    for (kind, bytes) in [Holding::Sessions, Holding::Queues].into_iter().zip(held) {
        core.memory.ledger.write(core.place.shard, kind, bytes);
    }
    core.memory
        .ledger
        .write(core.place.shard, Holding::Rooms, rooms);
    let work = work_bytes(core) + core.past.debts.bytes() as u64;
    core.memory
        .ledger
        .write(core.place.shard, Holding::Work, work);
    let absent = core.sessions.absent_bytes();
    core.memory.ledger.write_absent(core.place.shard, absent);
    let most = core.sessions.most_absent();
    core.memory.ledger.write_most_absent(core.place.shard, most);
}

/// Bytes of memory that work holds which goes on in later turns: messages that are expensive to
/// route, with the subscribers found so far, long SUBSCRIBE and UNSUBSCRIBE packets, and what
/// waited for sessions that have ended. O(1).
pub(crate) fn work_bytes(core: &Core) -> u64 {
    (core.routing.routes.bytes() + core.inbound.slices.bytes() + core.past.endings.bytes()) as u64
}

/// The sums over all sessions and all work, counted one by one: what the ledger says of this
/// shard after [`settle_accounts`]. O(sessions + work): for tests.
pub(crate) fn recount(core: &Core) -> [(Holding, u64); 3] {
    let sums = core.sessions.recount();
    let work =
        core.routing.routes.recount() + core.inbound.slices.recount() + core.past.endings.recount();
    let work = work + core.past.debts.bytes();
    [
        (Holding::Sessions, sums[0]),
        (Holding::Queues, sums[1]),
        (Holding::Work, work as u64),
    ]
}
