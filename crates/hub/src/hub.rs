//! The hub itself: one shard's sessions, subscriptions and timers.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::sync::atomic::AtomicU64;

use stentor_session::{Message, Tick, Wheel};
use stentor_topic::{Index, Subscriber, TopicHasher, Zone};

use crate::core::delivery::outbox::Outbox;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::acknowledge::Deferred;
use crate::core::inbound::subscribe::Slices;
use crate::core::memory::{Ledger, Relief};
use crate::core::retained::{Kept, NotKept, Retained};
use crate::core::routing::burst::{Burst, Source};
use crate::core::routing::fence::Fences;
use crate::core::routing::interest::{Interest, InterestTable};
use crate::core::routing::options::as_share;
use crate::core::routing::route::Routes;
use crate::core::routing::share::{ShareName, Shares};
use crate::core::sessions::debts::Debts;
use crate::core::sessions::departures::Departures;
use crate::core::sessions::ending::Endings;
use crate::core::sessions::permission::Reviews;
use crate::core::sessions::registry::Sessions;
use crate::core::sessions::renewal::Renewals;
use crate::core::settings::{Settings, Uses};
use crate::core::stats::{Losses, Stats, Traffic};
use crate::core::work::Turn;
use crate::effects::{ControlItem, Effects, MeshItem};
use crate::services::calls::Callees;
use crate::services::hooks::{Adaptors, Questions};
use crate::services::private::Privates;
use crate::services::rooms::{Joins, Zones};
use crate::services::serving::Serving;

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
}

/// A shard's brain: owns the sessions whose home it is, routes messages between them, and says
/// what has to go to other shards.
///
/// Call order: a turn of the shard begins with [`Hub::begin_turn`]; after every call the shard
/// drains `effects().mesh` and `lanes` and says that by [`Hub::forwarded`]; what comes from others
/// stands between [`Hub::begin_drain`] and [`Hub::end_drain`]; at the end of its turn it flushes
/// each session in `dirty` by [`Hub::transmit`], a write, and [`Hub::transmitted`], then does the
/// `closing` ones, then calls [`Hub::advance`]. A `now` never lies before an earlier one. No call
/// blocks, does I/O, or costs more than what it routes.
pub struct Hub {
    pub(crate) shard: ShardId,
    pub(crate) shards: u8,
    pub(crate) hasher: TopicHasher,
    pub(crate) settings: Arc<Settings>,
    pub(crate) uses: Uses,
    pub(crate) retained: Arc<dyn Retained>,
    pub(crate) interest: Interest,
    pub(crate) fences: Fences,
    pub(crate) index: Index,
    pub(crate) sessions: Sessions,
    pub(crate) shares: Shares,
    pub(crate) timers: Wheel<Timer>,
    pub(crate) outbox: Outbox,
    pub(crate) turn: Turn,
    pub(crate) slices: Slices,
    pub(crate) endings: Endings,
    /// Timers that have fired, and that nothing was done about yet.
    pub(crate) due: VecDeque<Timer>,
    pub(crate) routes: Routes,
    pub(crate) debts: Debts,
    pub(crate) departures: Departures,
    pub(crate) burst: Burst,
    pub(crate) deferred: Deferred,
    pub(crate) privates: Privates,
    pub(crate) zones: Zones,
    pub(crate) joins: Joins,
    pub(crate) callees: Option<Arc<dyn Callees>>,
    pub(crate) serving: Serving,
    pub(crate) adaptors: Option<Arc<dyn Adaptors>>,
    pub(crate) questions: Questions,
    /// Sessions whose connection has to be closed when the present routing is done, or in a later
    /// turn: see [`Hub::give_up`].
    pub(crate) overrun: VecDeque<SessionKey>,
    /// Whether others are being told of the end of a connection.
    pub(crate) detaching: bool,
    pub(crate) effects: Effects,
    pub(crate) stats: Stats,
    pub(crate) losses: Losses,
    pub(crate) traffic: Traffic,
    /// Used for every walk over retained messages.
    pub(crate) found: Vec<Arc<Message>>,
    pub(crate) renewals: Renewals,
    pub(crate) reviews: Reviews,
    pub(crate) random: Arc<dyn Fn() -> u128 + Send + Sync>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) relief: Relief,
}

/// What a timer is for: the keep-alive of a connection, or the end of an absence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) session: SessionKey,
    pub(crate) epoch: u32,
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
        shared: Shared,
        settings: Arc<Settings>,
    ) -> Self {
        assert!(
            shard.0 < shards && shards <= crate::SHARDS_MAX,
            "shard {} of {shards}",
            shard.0
        );
        let mut zones = Zones::default();
        zones.reconfigure(&settings);
        Self {
            shard,
            shards,
            uses: settings.uses(),
            settings,
            retained: shared.retained,
            fences: Fences::new(Arc::clone(&shared.interest), shard.0, shards),
            interest: Interest::new(shared.interest, hasher.clone(), shard.0, shards),
            index: Index::new(hasher.clone()),
            sessions: Sessions::new(hasher.clone(), shared.persistent_sessions),
            shares: Shares::new(hasher.clone()),
            timers: Wheel::new(Tick::ZERO),
            outbox: Outbox::new(hasher.clone()),
            turn: Turn::default(),
            slices: Slices::default(),
            endings: Endings::default(),
            due: VecDeque::new(),
            routes: Routes::default(),
            debts: Debts::default(),
            departures: Departures::default(),
            burst: Burst::default(),
            deferred: Deferred::default(),
            privates: Privates::default(),
            zones,
            joins: Joins::default(),
            callees: shared.callees,
            serving: Serving::default(),
            adaptors: shared.adaptors,
            questions: Questions::default(),
            overrun: VecDeque::new(),
            detaching: false,
            effects: Effects::default(),
            stats: Stats::default(),
            losses: Losses::default(),
            traffic: Traffic::default(),
            found: Vec::new(),
            renewals: Renewals::default(),
            reviews: Reviews::default(),
            random: shared.random,
            ledger: shared.ledger,
            relief: Relief::default(),
            hasher,
        }
    }

    /// New limits and policies; what is connected keeps what its CONNACK said.
    pub fn reconfigure(&mut self, settings: Arc<Settings>) {
        self.uses = settings.uses();
        self.settings = settings;
        self.relief.reconfigured();
        self.tighten();
        self.zones.reconfigure(&self.settings);
    }

    /// Has other adaptors judge what is done from now on, or none. What waits is judged by those
    /// who were asked.
    pub fn set_adaptors(&mut self, adaptors: Option<Arc<dyn Adaptors>>) {
        self.adaptors = adaptors;
    }

    /// What the calls since have asked for.
    pub fn effects(&mut self) -> &mut Effects {
        self.effects.dirty.append(&mut self.outbox.dirty);
        self.effects.crowd.append(&mut self.outbox.crowd);
        self.effects.conflating.append(&mut self.outbox.conflating);
        &mut self.effects
    }

    /// The shard is about to take what other shards have left in their rings until now, all of it.
    pub fn begin_drain(&mut self) {
        self.fences.begin_drain();
    }

    /// It has done that.
    pub fn end_drain(&mut self, now: Tick) {
        self.settle(now);
        self.charge_senders();
        self.fences.end_drain();
        self.continue_fenced(now);
    }

    /// Everything that was in `effects().mesh` lies in the rings of the other shards. Until then
    /// their snapshots may wait for it, so this has to be called soon after the hub was.
    pub fn forwarded(&mut self) {
        debug_assert!(self.effects.mesh.is_empty(), "what is here is not there");
        self.fences.forwarded();
    }

    /// Something from another shard's ring. [`Hub::settle`] has to follow, after this or after
    /// several; [`Hub::end_drain`] does it.
    pub fn apply(&mut self, now: Tick, item: MeshItem) {
        match item {
            MeshItem::Publish { message, sender } => {
                self.route_soon(now, message, (Source::Mesh, sender));
            }
            MeshItem::Keep(item) => self.keep_for(now, *item),
            MeshItem::Room(item) => {
                // A client that is let in subscribes now, and finds in the store what was kept
                // before.
                self.settle(now);
                self.room_item(now, *item);
            }
            MeshItem::Private { private, answer } => self.private_for(now, &private, answer),
            MeshItem::Replaced { claim } => self.replaced(now, claim),
            MeshItem::Reached { ticket, reach } => self.private_reached(now, ticket, reach),
            MeshItem::Share {
                name,
                message,
                search,
            } => {
                self.settle(now);
                self.deliver_shared_here(now, &name, &message, search);
            }
        }
        self.close_overrun(now);
    }

    /// Something from the control lane.
    pub fn control(&mut self, now: Tick, item: ControlItem) {
        match item {
            ControlItem::ShareCount {
                name,
                shard,
                live,
                away,
            } => {
                self.count_share(&name, shard, live, away);
            }
            ControlItem::Renew(renewal) => self.begin_renewal(now, renewal),
            ControlItem::Publish(message) => self.publish_as_server(now, &message),
            ControlItem::Judged { number, judgement } => self.judged(now, number, &judgement),
            ControlItem::Relieve { bytes } => self.relieve(now, bytes),
            ControlItem::Unpin => self.unpin(now),
            ControlItem::MakeRoom => self.make_room(now, self.shard),
            ControlItem::Act(act) => self.act(now, &act),
            ControlItem::Answer(answer) => self.answered(now, &answer),
            ControlItem::Ask(ask) => self.ask_client(now, &ask),
            ControlItem::Resolved { ticket, outcome } => self.resolve(now, ticket, &outcome),
            ControlItem::HoldPublisher { session, epoch } => self.hold_publisher(session, epoch),
            ControlItem::ChargePublisher { session, visits } => {
                self.charge_visits(now, session, visits);
            }
            ControlItem::ReleasePublisher {
                session,
                epoch,
                visits,
            } => self.release_publisher(now, (session, epoch), visits),
        }
    }

    /// Publishes a message of the server's own: kept if it is retained, and routed everywhere.
    pub fn publish_as_server(&mut self, now: Tick, message: &Arc<Message>) {
        // A full store keeps what it has; the server's own figures come again.
        self.keep_and_route_now(now, Arc::clone(message));
        self.close_overrun(now);
    }

    /// Has a message kept by `put`, and then routes it, after everything that came before it. Under
    /// `keep = "last"` this has to be the shard that orders its topic, see [`crate::home_shard`].
    ///
    /// # Errors
    /// When there is no memory for it, and what `put` says: then nobody gets the message.
    pub fn keep_by(
        &mut self,
        now: Tick,
        message: Arc<Message>,
        put: impl FnOnce(&Message) -> Result<Kept, NotKept>,
    ) -> Result<Kept, NotKept> {
        self.settle(now);
        if self.is_out_of_memory_for(now, &message) {
            self.stats.unkept_by_memory += 1;
            return Err(NotKept::Memory);
        }
        // As for a publish: a snapshot on another shard that finds it waits for what came before.
        self.fences.begin_put();
        let kept = put(&message)?;
        self.route(now, &[message]);
        self.close_overrun(now);
        Ok(kept)
    }

    /// Fires what is due.
    pub fn advance(&mut self, now: Tick) {
        self.fire_due(now);
        self.continue_pumps(now);
        self.release_due(now);
        self.continue_fetched(now);
        self.continue_routes(now);
        self.continue_slices(now);
        self.tell_untold(0);
        self.continue_endings(now);
        self.continue_listed(now);
        self.continue_reviews();
        self.continue_renewals(now);
        self.advance_rooms(now);
        self.continue_overrun(now);
        self.continue_relief(now);
        self.settle_accounts();
        self.tighten();
    }

    /// When to call [`Hub::advance`] next at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let is_reviewing = self.renewals.is_pending() || !self.reviews.is_empty();
        let goes_on = self.has_slices()
            || self.has_untold()
            || !self.routes.is_empty()
            || !self.endings.is_empty()
            || !self.overrun.is_empty()
            || !self.due.is_empty()
            || !self.outbox.snapshots.is_empty()
            || !self.outbox.pumps.is_empty();
        if is_reviewing || goes_on || self.relief.is_pending() {
            return Some(Tick::ZERO);
        }
        let pace = self.outbox.paces.peek().map(|Reverse((at, _))| *at);
        let fetch = self.outbox.fetches.peek().map(|Reverse((at, _))| *at);
        let rooms = Some(self.zones.deadline()).filter(|at| *at != Tick::NEVER);
        let timers = self.timers.next().into_iter();
        timers.chain(pace).chain(fetch).chain(rooms).min()
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            sessions: self.sessions.len() as u64,
            packets_sent: self.outbox.controls + self.stats.publishes_sent,
            ..self.stats
        }
    }

    /// What was lost, and by whom.
    #[must_use]
    pub const fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Every filter that this shard routes by, with the number of its own sessions that subscribe
    /// to it: 0 if there are only members of shared subscriptions, here or elsewhere.
    /// [`Hub::shared_subscriptions`] has those.
    pub fn filters(&self) -> impl Iterator<Item = (Zone, &str, usize)> {
        self.index.iter().map(|filter| {
            let own = |subscriber: &&Subscriber| as_share(**subscriber).is_none();
            let count = filter.subscribers.iter().filter(own).count();
            (filter.zone, filter.text, count)
        })
    }

    /// Every shared subscription with members on this shard, and their number.
    pub fn shared_subscriptions(&self) -> impl Iterator<Item = (&ShareName, usize)> {
        self.shares.iter().filter(|(_, members)| *members > 0)
    }
}
