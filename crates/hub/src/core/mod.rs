//! The core of a shard: sessions, and the way of a message from one to the others.
//!
//! A message comes in ([`inbound`]), finds the sessions that want it ([`routing`]), and waits for
//! their sockets ([`delivery`]). What lasts from one message to the next belongs to its session
//! ([`sessions`]).

pub(crate) mod audience;
pub(crate) mod delivery;
pub(crate) mod heavy_hitters;
pub(crate) mod history;
pub(crate) mod ids;
pub(crate) mod inbound;
pub(crate) mod inspect;
pub(crate) mod interface;
pub(crate) mod memory;
pub(crate) mod queued;
pub(crate) mod retained;
pub(crate) mod routing;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod shard_set;
pub(crate) mod stats;
pub(crate) mod survey;
pub(crate) mod transitions;
pub(crate) mod upkeep;
pub(crate) mod work;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{Message, Tick, Wheel};
use stentor_topic::{Index, TopicHasher};

use crate::core::delivery::copies::Copies;
use crate::core::delivery::outbox::Outbox;
use crate::core::heavy_hitters::HeavyHitters;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::acknowledge::Deferred;
use crate::core::inbound::subscribe::Slices;
use crate::core::memory::{Ledger, Relief};
use crate::core::retained::Retained;
use crate::core::routing::batch::PublishBatch;
use crate::core::routing::fence::Fences;
use crate::core::routing::interest::Interest;
use crate::core::routing::route::Routes;
use crate::core::routing::share::Shares;
use crate::core::sessions::debts::Debts;
use crate::core::sessions::departures::Departures;
use crate::core::sessions::ending::Endings;
use crate::core::sessions::log::SessionLog;
use crate::core::sessions::permission::Reviews;
use crate::core::sessions::registry::Sessions;
use crate::core::sessions::renewal::Renewals;
use crate::core::settings::{Settings, Uses};
use crate::core::stats::{Losses, Stats, Traffic};
use crate::core::transitions::Transitions;
use crate::core::work::Turn;
use crate::effects::Effects;
use crate::hub::Shared;

/// What leads from a message to the sessions that want it.
pub(crate) struct Routing {
    pub(in crate::core) index: Index,
    pub(in crate::core) interest: Interest,
    pub(in crate::core) shares: Shares,
    pub(in crate::core) routes: Routes,
    pub(in crate::core) batch: PublishBatch,
    pub(in crate::core) fences: Fences,
}

/// What has gone through, and what was lost.
pub(crate) struct Counters {
    pub(in crate::core) stats: Stats,
    pub(in crate::core) losses: Losses,
    pub(in crate::core) traffic: Traffic,
    pub(in crate::core) heavy_hitters: HeavyHitters,
}

/// What sessions hold, and what is done where memory is short.
pub(crate) struct Memory {
    pub(in crate::core) ledger: Arc<Ledger>,
    pub(in crate::core) relief: Relief,
}

/// What is to be done later.
pub(crate) struct Clock {
    pub(in crate::core) timers: Wheel<Timer>,
    /// Timers that have fired, and that nothing was done about yet.
    pub(in crate::core) due: VecDeque<Timer>,
}

/// Changes of rights that go through sessions and subscriptions.
pub(crate) struct RightsWork {
    pub(in crate::core) renewals: Renewals,
    pub(in crate::core) reviews: Reviews,
}

/// What connections and sessions have left that have ended.
pub(crate) struct Past {
    pub(in crate::core) departures: Departures,
    pub(in crate::core) debts: Debts,
    pub(in crate::core) endings: Endings,
}

/// Packets that go on in later turns, and acknowledgements that wait.
pub(crate) struct Inbound {
    pub(in crate::core) slices: Slices,
    pub(in crate::core) deferred: Deferred,
}

/// Which shard this is.
pub(crate) struct Place {
    pub(in crate::core) shard: ShardId,
    pub(in crate::core) shards: u8,
    pub(in crate::core) hasher: TopicHasher,
    pub(in crate::core) random: Arc<dyn Fn() -> u128 + Send + Sync>,
}

/// The settings in force, and what of them is used.
pub(crate) struct Rules {
    pub(in crate::core) settings: Arc<Settings>,
    pub(in crate::core) uses: Uses,
}

/// Retained messages.
pub(crate) struct Store {
    pub(in crate::core) retained: Arc<dyn Retained>,
    /// Used for every walk over retained messages.
    pub(in crate::core) found: Vec<Arc<Message>>,
    /// Those that sessions hold.
    pub(in crate::core) copies: Copies,
}

/// What is left to be done before a call ends, and written down by the shard after it.
pub(crate) struct Pending {
    /// Sessions whose connection has to be closed when the present routing is done, or in a later
    /// turn: see [`lifecycle::give_up`].
    pub(in crate::core) overrun: VecDeque<SessionKey>,
    pub(in crate::core) transitions: Transitions,
    pub(in crate::core) log: SessionLog,
}

impl Pending {
    fn new(log: SessionLog) -> Self {
        Self {
            overrun: VecDeque::new(),
            transitions: Transitions::default(),
            log,
        }
    }
}

/// The sessions of one shard, and the way of a message between them.
pub(crate) struct Core {
    pub(in crate::core) routing: Routing,
    pub(in crate::core) counters: Counters,
    pub(in crate::core) memory: Memory,
    pub(in crate::core) clock: Clock,
    pub(in crate::core) rights: RightsWork,
    pub(in crate::core) past: Past,
    pub(in crate::core) inbound: Inbound,
    pub(in crate::core) place: Place,
    pub(in crate::core) rules: Rules,
    pub(in crate::core) store: Store,
    pub(in crate::core) pending: Pending,
    pub(in crate::core) sessions: Sessions,
    pub(in crate::core) outbox: Outbox,
    pub(in crate::core) turn: Turn,
    pub(in crate::core) effects: Effects,
}

/// What a timer is for: the keep-alive of a connection, or the end of an absence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) session: SessionKey,
    pub(crate) epoch: u32,
}

impl Core {
    pub(crate) fn new(
        shard: ShardId,
        shards: u8,
        hasher: TopicHasher,
        shared: Shared,
        settings: Arc<Settings>,
    ) -> Self {
        let uses = settings.uses();
        let journals = Arc::clone(&shared.interest.journals);
        let log = SessionLog::new(shard.0, &shared);
        Self {
            routing: Routing {
                fences: Fences::new(Arc::clone(&shared.interest), shard.0, shards),
                index: Index::new(hasher.clone()),
                interest: Interest::new(shared.interest, hasher.clone(), shard.0, shards),
                shares: Shares::new(hasher.clone()),
                routes: Routes::default(),
                batch: PublishBatch::default(),
            },
            counters: Counters {
                stats: Stats::default(),
                losses: Losses::default(),
                traffic: Traffic::default(),
                heavy_hitters: HeavyHitters::new(&hasher, shard),
            },
            memory: Memory {
                ledger: shared.ledger,
                relief: Relief::default(),
            },
            clock: Clock {
                timers: Wheel::new(Tick::ZERO),
                due: VecDeque::new(),
            },
            rights: RightsWork {
                renewals: Renewals::default(),
                reviews: Reviews::default(),
            },
            past: Past {
                departures: Departures::default(),
                debts: Debts::default(),
                endings: Endings::default(),
            },
            inbound: Inbound {
                slices: Slices::default(),
                deferred: Deferred::default(),
            },
            store: Store {
                retained: shared.retained,
                found: Vec::new(),
                copies: Copies::default(),
            },
            pending: Pending::new(log),
            sessions: Sessions::new(
                hasher.clone(),
                shared.persistent_sessions,
                journals,
                shard.0,
            ),
            outbox: Outbox::new(hasher.clone()),
            turn: Turn::default(),
            effects: Effects::default(),
            rules: Rules { settings, uses },
            place: Place {
                shard,
                shards,
                hasher,
                random: shared.random,
            },
        }
    }
}
