//! What services may ask of the core, besides what its parts offer.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{Message, Tick};
use stentor_topic::Zone;

use crate::core::ids::{SessionKey, ShardId, home_of_zone};
use crate::core::inbound::acknowledge;
use crate::core::memory::evict;
use crate::core::routing::options::as_share;
use crate::core::routing::route::job;
use crate::core::routing::share::{self, Count as ShareCount, queue_asked, queue_offered};
use crate::core::sessions::charge::Charge;
use crate::core::sessions::registry::Session;
use crate::core::sessions::rights::Identity;
use crate::core::settings::Settings;
use crate::core::shard_set::ShardSet;
use crate::core::stats::ZoneTraffic;
use crate::core::work::Turn;
use crate::core::{Core, Rules, work};
use crate::effects::Event;
use crate::items::{MeshItem, ShardItem};

impl Core {
    /// A session, unless it has ended.
    #[inline]
    pub(crate) fn session(&self, key: SessionKey) -> Option<&Session> {
        self.sessions.get(key)
    }

    /// A session, to be changed.
    #[inline]
    pub(crate) fn session_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.sessions.get_mut(key)
    }

    /// The session in a slot.
    pub(crate) fn session_at(&self, slot: u32) -> Option<SessionKey> {
        self.sessions.key(slot)
    }

    /// The session of a client id that has a connection.
    pub(crate) fn connected(&self, zone: Zone, client_id: &str) -> Option<SessionKey> {
        self.sessions.connected(zone, client_id)
    }

    /// The slots of the connected sessions that subscribe to a topic, and may receive it.
    pub(crate) fn connected_subscribers(&self, zone: Zone, topic: &str) -> Vec<u32> {
        let hash = self.place.hasher.hash(zone, topic);
        let mut slots = Vec::new();
        self.routing
            .index
            .for_each_match(zone, topic, hash, |_, found| {
                let own = found.iter().filter(|one| as_share(**one).is_none());
                slots.extend(own.map(|one| one.session));
            });
        slots.sort_unstable();
        slots.dedup();
        slots.retain(|slot| {
            let session = self.sessions.at(*slot);
            session
                .is_some_and(|session| session.live().is_some() && session.state.may_receive(topic))
        });
        slots
    }

    /// Whether a session has a subscription below a room.
    pub(crate) fn is_in_room(&self, key: SessionKey, room: &str) -> bool {
        let session = self.sessions.get(key);
        let live = session.and_then(Session::live);
        live.is_some_and(|live| live.is_in_room(room))
    }

    /// The settings in force.
    #[inline]
    pub(crate) const fn settings(&self) -> &Arc<Settings> {
        &self.rules.settings
    }

    /// What follows from the settings in force.
    #[inline]
    pub(crate) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// This shard.
    #[inline]
    pub(crate) const fn shard(&self) -> ShardId {
        self.place.shard
    }

    /// The shard where the rooms and the list of users of a zone are.
    pub(crate) fn home_of(&self, zone: Zone) -> ShardId {
        home_of_zone(zone, self.place.shards)
    }

    /// Sends something to another shard, after all that it was sent before.
    pub(crate) fn send_to_shard(&mut self, to: ShardId, item: impl Into<MeshItem>) {
        self.effects.mesh.push((to, item.into()));
    }

    /// What the present turn has cost so far.
    #[inline]
    pub(crate) const fn turn(&self) -> &Turn {
        &self.turn
    }

    /// The same, to be added to.
    #[inline]
    pub(crate) const fn turn_mut(&mut self) -> &mut Turn {
        &mut self.turn
    }

    /// Has the log tell something.
    pub(crate) fn log(&mut self, event: Event) {
        self.effects.events.push(event);
    }

    /// Counts something that was refused.
    pub(crate) const fn count_denied(&mut self) {
        self.counters.stats.denied += 1;
    }

    /// All slots of sessions are below this one.
    pub(crate) fn slots(&self) -> usize {
        self.sessions.slots()
    }

    /// The sessions of a client id, one for each user.
    pub(crate) fn sessions_of_client(&self, zone: Zone, client_id: &str) -> Vec<SessionKey> {
        let all = self.sessions.all(zone, client_id);
        all.map(|(key, _)| key).collect()
    }

    /// There is something of a zone on this shard: walks over zones come to it.
    pub(crate) fn note_zone(&mut self, zone: Zone) {
        let _ = self.counters.traffic.of(zone);
    }

    /// Nothing went through for a zone that has ended.
    pub(crate) fn forget_traffic(&mut self, zone: Zone) {
        *self.counters.traffic.of(zone) = ZoneTraffic::default();
    }

    /// Other shards send what matches a filter from now on.
    pub(crate) fn raise_interest(&mut self, zone: Zone, filter: &str) {
        self.routing.interest.raise(zone, filter, None);
    }

    /// Undoes one [`Core::raise_interest`].
    pub(crate) fn lower_interest(&mut self, zone: Zone, filter: &str) {
        self.routing.interest.lower(zone, filter);
    }

    /// The shards that may have a subscriber of a topic, without this one.
    pub(crate) fn other_shards(&mut self, zone: Zone, topic: &str) -> ShardSet {
        self.routing.interest.others(zone, topic)
    }

    /// An identity of earlier, as it is after the latest changes of rights; `None` if it may not be
    /// here any more.
    pub(crate) fn refresh(
        &self,
        identity: Arc<Identity>,
        client_id: &str,
    ) -> Option<Arc<Identity>> {
        self.rights.renewals.refresh(identity, client_id)
    }

    /// A session is out of a room that it is about to subscribe in.
    pub(crate) fn expel_subscribing(&mut self, key: SessionKey, room: &str) {
        self.inbound.slices.expel(key, room);
    }
}

/// A message is about to be handed out here to who subscribes to a route, and to be sent to
/// these other shards.
pub(crate) fn sends_by(core: &mut Core, message: &Arc<Message>, shards: ShardSet, route: &str) {
    let log = &mut core.pending.log;
    if log.writes(message.qos) {
        let lasting = log.lasting(shards);
        log.sends(message, lasting, Some(route));
    }
}

/// What the hub of another shard tells.
pub(crate) fn take_item(core: &mut Core, now: Tick, item: ShardItem) {
    match item {
        ShardItem::ShareCount {
            name,
            shard,
            live,
            away,
            keeps,
        } => {
            let count = ShareCount { live, away, keeps };
            share::count(core, &name, shard, count);
        }
        ShardItem::AskQueue {
            name,
            messages,
            bytes,
        } => {
            let messages = messages as usize;
            queue_asked(core, now, &name, Charge { bytes, messages });
        }
        ShardItem::OfferQueue(name) => queue_offered(core, now, &name),
        ShardItem::Resolved { ticket, outcome } => {
            acknowledge::resolve(core, now, ticket, &outcome)
        }
        ShardItem::MakeRoom => evict::make_room(core, now, core.shard()),
        ShardItem::HoldPublisher { session, epoch } => job::hold_publisher(core, session, epoch),
        ShardItem::ChargePublisher { session, visits } => {
            work::charge_visits(core, now, session, visits);
        }
        ShardItem::ReleasePublisher {
            session,
            epoch,
            visits,
        } => job::release_publisher(core, now, session, epoch, visits),
    }
}
