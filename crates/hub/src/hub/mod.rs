//! The hub itself: one shard's sessions, subscriptions and timers.

#[cfg(feature = "hooks")]
mod act;
#[cfg(feature = "calls")]
mod broadcast;
mod close;
mod connect;
mod facade;
mod hear;
mod inspect;
#[cfg(feature = "hooks")]
mod judged;
mod operate;
mod publish;
mod receive;
mod renew;
mod restore;
mod subscribe;
mod survey;
mod turn;
mod wills;

pub use close::{ConnectedAs, close_banned, close_connection, connected_as};
pub use facade::{
    answer_bytes, forget_touched, has_answers, has_bulk, has_news, mark_output, note_touched,
    release_marked, release_output, session_lasts, set_owner, take_touched, transmit_released,
};
pub use inspect::{
    Inspect, audience_of, clock_ms, filters_matching, granted_from, losses_of, queued_from,
    session_of, shared_members,
};
pub use operate::{Operate, ask_rooms};
pub use publish::publish_for;
pub use restore::{
    ALL_WRITTEN, begin_restoring, bytes_to_write, end_restoring, fetched, give_up_rewriting,
    has_backlogs, has_spool_orders, has_untold_shares, is_journal_laden, logged, restore_room,
    rewrite_sessions, seal_backlogs, sealed, set_journal_full, set_journal_laden, spool_goes_on,
    take_batches, take_spool_orders, tell_backlog_room,
};
pub use survey::{
    each_client_from, filters_from, heaviest_publishers, heaviest_topics, holders_from,
    zone_figures_from,
};
pub use turn::{TurnControl, TurnView};

use alloc::sync::Arc;
use core::sync::atomic::AtomicU64;

use self::renew::{begin_renewal, continue_renewals};
use stentor_mqtt::QoS;
use stentor_session::{Message, Tick};
use stentor_topic::TopicHasher;

use crate::core::delivery::conflate::release;
use crate::core::delivery::held::flush_held;
use crate::core::delivery::spool::share_memory;
use crate::core::delivery::{pump, snapshot};
use crate::core::ids::ShardId;
use crate::core::inbound::subscribe::slice;
use crate::core::interface::take_item;
use crate::core::memory::{Ledger, relief};
use crate::core::retained::Retained;
use crate::core::routing::batch::Source;
use crate::core::routing::interest::InterestTable;
use crate::core::routing::route::job;
use crate::core::routing::share::tell;
use crate::core::routing::{batch, keep, share};
use crate::core::sessions::{self, ending, lifecycle, log, permission};
use crate::core::settings::Settings;
use crate::core::{Core, memory, transitions, upkeep};
use crate::items::{ControlItem, MeshItem, RoutedItem, ServiceCommand};
use crate::services::interface::calls::Callees;
use crate::services::interface::hooks::Adaptors;
use crate::services::{Item, Services};

/// What all shards of a server share.
#[derive(Clone)]
pub struct Shared {
    /// Which shards want to hear of which topics.
    pub interest: Arc<InterestTable>,
    /// The last message of each topic.
    pub retained: Arc<dyn Retained>,
    /// The receiver of calls of procedures; without it there are none.
    pub callees: Option<Arc<dyn Callees>>,
    /// The operator's own code; without it nobody is asked.
    pub adaptors: Option<Arc<dyn Adaptors>>,
    /// How many sessions outlive their connection, for [`Settings::sessions_max`].
    pub persistent_sessions: Arc<AtomicU64>,
    /// Draws bits that nobody can foresee: the client ids that the server makes up are of them.
    pub random: Arc<dyn Fn() -> u128 + Send + Sync>,
    /// What they hold.
    pub ledger: Arc<Ledger>,
    /// [`Tick::ZERO`] in milliseconds since 1970. With it, what changes in sessions that last is
    /// written down: see [`crate::Effects::log`]. Without it nothing is.
    pub sessions_zero_ms: Option<u64>,
    /// Whether that includes the wills of sessions that end with their connection.
    pub keeps_wills: bool,
}

/// A shard's brain: owns the sessions whose home it is, routes messages between them, and says
/// what has to go to other shards.
///
/// Call order: a turn of the shard begins with [`Hub::begin_turn`]; after every call the shard
/// drains `effects().log`, `mesh` and `control_items` in this order and says that by
/// [`Hub::forwarded`]; what comes from others
/// stands between [`Hub::begin_drain`] and [`Hub::end_drain`]; at the end of its turn it flushes
/// each session in `dirty` by [`Hub::transmit`], a write, and [`Hub::transmitted`], then does the
/// `closing` ones, then calls [`Hub::advance`]. A `now` never lies before an earlier one. No call
/// blocks, does I/O, or costs more than what it routes.
pub struct Hub {
    pub(crate) core: Core,
    pub(crate) services: Services,
}

impl Hub {
    /// An empty hub. `hasher` must be the same for all shards of a server.
    ///
    /// # Panics
    /// If `shard` is not one of `shards`, or there are more than [`crate::SHARDS_MAX`].
    #[must_use]
    pub fn new(
        shard: ShardId,
        shards: u8,
        hasher: TopicHasher,
        mut shared: Shared,
        settings: Arc<Settings>,
    ) -> Self {
        assert!(
            shard.0 < shards && shards <= crate::SHARDS_MAX,
            "shard {} of {shards}",
            shard.0
        );
        let mut services = Services::new(shared.callees.take(), shared.adaptors.take());
        services.reconfigure(&settings);
        Self {
            core: Core::new(shard, shards, hasher, shared, settings),
            services,
        }
    }

    /// The shard has taken what [`Hub::begin_drain`] announced.
    pub fn end_drain(&mut self, now: Tick) {
        upkeep::end_drain(&mut self.core, now);
        self.finish(now);
    }

    /// Something from another shard's ring. [`Hub::settle`] has to follow, after this or after
    /// several; [`Hub::end_drain`] does it.
    pub fn apply(&mut self, now: Tick, from: ShardId, item: MeshItem) {
        match item {
            MeshItem::Routed(item) => self.apply_routed(now, from, item),
            MeshItem::Service(item) => apply_service(self, now, from, item.0),
            MeshItem::Replaced { claim } => sessions::connect::replaced(&mut self.core, now, claim),
        }
        self.finish_unsettled(now);
    }

    #[inline]
    fn apply_routed(&mut self, now: Tick, from: ShardId, item: RoutedItem) {
        match item {
            RoutedItem::Publish {
                message,
                sender,
                is_named,
            } => {
                if message.qos == QoS::AtMostOnce {
                    batch::route_soon(&mut self.core, now, message, Source::Mesh, sender);
                } else {
                    let from = log::SentBy {
                        shard: from,
                        is_named,
                    };
                    let message = log::takes(&mut self.core, from, message);
                    let copy = Arc::clone(&message);
                    batch::route_soon(&mut self.core, now, copy, Source::Mesh, sender);
                    log::has_taken(&mut self.core, &message);
                }
            }
            RoutedItem::Mark { name } => log::takes_mark(&mut self.core, from, name),
            RoutedItem::Keep(item) => keep::keep_for(&mut self.core, now, *item),
            RoutedItem::Share {
                name,
                message,
                search,
                is_named,
            } => {
                batch::settle(&mut self.core, now);
                let from = log::SentBy {
                    shard: from,
                    is_named,
                };
                let message = log::takes(&mut self.core, from, message);
                share::deliver_here(&mut self.core, now, &name, &message, search);
                log::has_taken(&mut self.core, &message);
            }
        }
    }

    /// Something from the control queue.
    pub fn control(&mut self, now: Tick, item: impl Into<ControlItem>) {
        match item.into() {
            ControlItem::Shard(item) => take_item(&mut self.core, now, item),
            ControlItem::Service(command) => serve(self, now, command),
            ControlItem::Renew(renewal) => begin_renewal(self, now, renewal),
            ControlItem::Publish(message) => self.publish_as_server(now, &message),
            ControlItem::Relieve { bytes } => relief::begin(&mut self.core, now, bytes),
            ControlItem::Unpin => relief::unpin(&mut self.core, now),
        }
        self.finish(now);
    }

    /// Publishes a message of the server's own: kept if it is retained, and routed everywhere.
    pub fn publish_as_server(&mut self, now: Tick, message: &Arc<Message>) {
        // A full store keeps what it has; the server's own figures come again.
        keep::keep_and_route_now(&mut self.core, now, Arc::clone(message));
        self.finish(now);
    }

    /// Fires what is due, goes on with what earlier turns have left, and settles the accounts of
    /// the turn. Returns whether something was due: only then may it have left anything in
    /// [`Hub::effects`], except for the log.
    pub fn advance(&mut self, now: Tick) -> bool {
        // Asked in each turn, mostly for nothing.
        let is_due = self.is_due(now);
        if is_due {
            go_on(self, now);
        }
        memory::settle_accounts(&mut self.core, self.services.room_bytes());
        relief::tighten(&mut self.core);
        share_memory(&mut self.core);
        is_due
    }

    /// Whether something is to be done that a call or an earlier turn has left, or whose time has
    /// come.
    #[must_use]
    pub fn is_due(&self, now: Tick) -> bool {
        let has_news = transitions::has_news(&self.core) || self.services.has_requests();
        has_news || self.next_deadline().is_some_and(|at| at <= now)
    }

    /// When to call [`Hub::advance`] next at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let at = upkeep::next_deadline(&self.core).min(self.services.deadline());
        (at != Tick::NEVER).then_some(at)
    }
}

/// Does what timers have fired for, as far as the turn allows, and a little in any case.
fn fire_due(hub: &mut Hub, now: Tick) {
    lifecycle::collect_due(&mut hub.core, now);
    let budget = lifecycle::timer_budget(&hub.core);
    while lifecycle::fire_next(&mut hub.core, now, &budget) {
        hub.hear(now);
    }
}

/// Does what is due.
fn go_on(hub: &mut Hub, now: Tick) {
    fire_due(hub, now);
    pump::go_on(&mut hub.core, now);
    release::go_on(&mut hub.core, now);
    flush_held(&mut hub.core, now);
    snapshot::continue_fetched(&mut hub.core, now);
    job::go_on(&mut hub.core, now);
    slice::go_on(&mut hub.core, now);
    hub.hear(now);
    tell::tell_untold(&mut hub.core, 0);
    ending::go_on(&mut hub.core, now);
    snapshot::continue_listed(&mut hub.core, now);
    permission::continue_reviews(&mut hub.core);
    continue_renewals(hub, now);
    hub.services.advance(&mut hub.core, now);
    lifecycle::continue_overrun(&mut hub.core, now);
    relief::go_on(&mut hub.core, now);
    hub.finish(now);
}

fn apply_service(hub: &mut Hub, now: Tick, from: ShardId, item: Item) {
    let (core, services) = (&mut hub.core, &mut hub.services);
    // A client that is let into a room subscribes now, and finds in the store what was kept
    // before.
    batch::settle(core, now);
    core.turn_mut().serve();
    services.receive(core, now, from, item);
}

/// Something from the control plane or an adaptor. A service that is left out takes nothing.
fn serve(hub: &mut Hub, now: Tick, command: ServiceCommand) {
    let (core, services) = (&mut hub.core, &mut hub.services);
    match command {
        ServiceCommand::Answer(answer) => services.answered(core, now, &answer),
        ServiceCommand::Ask(ask) => services.ask_client(core, now, &ask),
        #[cfg(feature = "hooks")]
        ServiceCommand::Judged { number, verdict } => judged::judged(hub, now, number, &verdict),
        #[cfg(feature = "hooks")]
        ServiceCommand::Act(act) => act::act(hub, now, &act),
        #[cfg(feature = "calls")]
        ServiceCommand::Broadcast(one) => broadcast::broadcast(hub, now, &one),
        #[cfg(not(all(feature = "calls", feature = "hooks")))]
        _ => {}
    }
}
