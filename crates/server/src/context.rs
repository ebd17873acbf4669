//! What all shards and the control plane share: the ways to each shard, and the counters.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use stentor_auth::Authenticator;
use stentor_disk::MappedDisk;
use stentor_hub::{Ledger, ShardId, ShardItem};
use stentor_retained::Store;
use stentor_topic::{TopicHasher, Zone};

use crate::adaptors::Plane;
use crate::admission::Admission;
use crate::bans::Bans;
use crate::call::CallQueue;
use crate::clock::Clock;
use crate::http::Visitors;
use crate::inbox::{Slot, Tickets};
use crate::mesh::{ControlQueue, Gauges};
use crate::retained::TopicBounds;
use crate::sessions::Journals;
use crate::shard::{Incoming, ShardCommand};
use crate::survey::Surveys;
use crate::telemetry::Journal;
use crate::tenants::Tenants;
use crate::trace::Traces;
use crate::warden::Alarm;

/// Made once at the start, before the shards leave the main thread's descriptor table.
pub(crate) struct ServerContext {
    /// The clock that every `Tick` comes from.
    pub(crate) clock: Clock,
    /// The hash that decides homes and interest.
    pub(crate) hasher: TopicHasher,
    /// Decides who may log in.
    pub(crate) authenticator: Arc<dyn Authenticator>,
    /// Counts and limits connections.
    pub(crate) admission: Arc<Admission>,
    /// The clients that may not connect.
    pub(crate) bans: Bans,
    /// Those who come by HTTP.
    pub(crate) visitors: Visitors,
    /// Lists of what the shards have.
    pub(crate) surveys: Surveys,
    /// The traces that run.
    pub(crate) traces: Traces,
    /// The tenants: a limit counts the sessions of one tenant together.
    pub(crate) tenants: Tenants,
    /// What clients make the server hold.
    pub(crate) ledger: Arc<Ledger>,
    /// Calls the thread that looks at that.
    pub(crate) alarm: Alarm,
    /// The retained messages.
    pub(crate) retained: Arc<Store<MappedDisk>>,
    /// What is written down of sessions, if anything is.
    pub(crate) journals: Option<Journals>,
    /// What topics may be that commands put messages on.
    pub(crate) topic_bounds: TopicBounds,
    /// Where shards leave calls of procedures.
    pub(crate) call_queue: Arc<CallQueue>,
    /// The operator's own code.
    pub(crate) adaptors: Plane,
    /// Receives the events for the log and the counters.
    pub(crate) journal: Journal,
    /// The ways to each shard.
    pub(crate) shards: Vec<Way>,
    /// What each shard has descriptors for.
    pub(crate) capacity: Capacity,
    /// What is in the rings between the shards.
    pub(crate) rings: Gauges,
    /// For what the control plane sends through the inboxes.
    pub(crate) tickets: Mutex<Tickets>,
}

/// What a shard has descriptors for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Connections that are served.
    pub(crate) connections: usize,
    /// Further connections, which are accepted only to receive the reason of their refusal.
    pub(crate) refusals: usize,
}

impl Capacity {
    /// Descriptors of both together.
    pub(crate) const fn total(self) -> usize {
        self.connections + self.refusals
    }
}

/// The ways to one shard.
pub(crate) struct Way {
    /// For commands.
    pub(crate) control_queue: ControlQueue<ShardCommand>,
    /// For descriptors.
    pub(crate) slot: Slot,
    /// How many connections it holds.
    pub(crate) load: AtomicUsize,
}

impl ServerContext {
    /// How many shards there are.
    pub(crate) fn shard_count(&self) -> u8 {
        // At most `SHARDS_MAX`.
        u8::try_from(self.shards.len()).unwrap_or(u8::MAX)
    }

    /// Sends a descriptor with its state to a shard. For threads that may wait.
    ///
    /// # Errors
    /// When the shard does not take it.
    pub(crate) fn send(&self, shard: usize, incoming: Incoming, fd: OwnedFd) -> Result<(), Errno> {
        let ticket = self
            .tickets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .deal();
        let way = self.shards.get(shard).ok_or(Errno::EINVAL)?;
        way.control_queue
            .push(ShardCommand::Incoming(ticket, incoming));
        way.slot.send_waiting(ticket, fd)
    }

    /// The name of a zone, or its number where nobody knows the name.
    pub(crate) fn zone_name(&self, zone: Zone) -> String {
        if zone == Zone::DEFAULT {
            return stentor_auth::model::DEFAULT_ZONE.to_owned();
        }
        let name = self.authenticator.zone_name(zone);
        name.unwrap_or_else(|| zone.get().to_string())
    }

    /// Puts a command into a shard's control queue.
    pub(crate) fn post(&self, shard: usize, command: ShardCommand) {
        self.post_heavy(shard, command, 0);
    }

    /// Gives a shard what another one's hub tells its hub.
    pub(crate) fn post_item(&self, to: ShardId, item: ShardItem) {
        let visits = item.visits();
        self.post_heavy(usize::from(to.0), ShardCommand::Hub(item.into()), visits);
    }

    /// The same of a command that costs the shard this many visits.
    fn post_heavy(&self, shard: usize, command: ShardCommand, visits: u32) {
        match self.shards.get(shard) {
            Some(way) => way.control_queue.push_heavy(command, visits),
            None => debug_assert!(false, "there is no shard {shard}"),
        }
    }
}
