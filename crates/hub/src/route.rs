//! From a message to its subscribers.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;
use stentor_mqtt::{EncodedPublish, PublishParts, QoS, Version};
use stentor_session::{Message, Tick, Wire};
use stentor_topic::{FilterId, Subscriber};

use crate::deliver::Terms;
use crate::effects::MeshItem;
use crate::hub::Hub;
use crate::key::ShardId;
use crate::options::{Options, as_share};
use crate::sessions::Session;
use crate::settings::{Settings, SlowPolicy};

/// The subscription identifiers, and the wires without and with a packet id.
type Identified = (SmallVec<[u32; 1]>, [Option<Rc<Wire>>; 2]);

/// One message on its way to the subscribers of one shard: encoded at most once per variant.
pub(crate) struct Parcel<'m> {
    pub(crate) message: &'m Arc<Message>,
    /// By version 3.x or 5.0, without and with a packet id.
    plain: [[Option<Rc<Wire>>; 2]; 2],
    /// With subscription identifiers.
    identified: SmallVec<[Identified; 2]>,
    policy: Option<SlowPolicy>,
}

impl<'m> Parcel<'m> {
    pub(crate) fn new(message: &'m Arc<Message>) -> Self {
        Self {
            message,
            plain: Default::default(),
            identified: SmallVec::new(),
            policy: None,
        }
    }

    /// The encoded form for one kind of subscriber; `None` if it is no packet, because the
    /// subscription identifiers bring it above what a packet can hold.
    #[inline]
    pub(crate) fn wire(
        &mut self,
        version: Version,
        with_id: bool,
        ids: &[u32],
    ) -> Option<&Rc<Wire>> {
        let message = self.message;
        let slot = if ids.is_empty() || !version.is_v5() {
            &mut self.plain[usize::from(version.is_v5())][usize::from(with_id)]
        } else {
            let index = self
                .identified
                .iter()
                .position(|(known, _)| known.as_slice() == ids);
            let index = index.unwrap_or_else(|| {
                self.identified
                    .push((SmallVec::from_slice(ids), [None, None]));
                self.identified.len() - 1
            });
            &mut self.identified[index].1[usize::from(with_id)]
        };
        if slot.is_none() {
            *slot = encode_wire(message, version, with_id, ids).map(Rc::new);
        }
        slot.as_ref()
    }

    /// What happens to this message where it does not fit.
    pub(crate) fn policy(&mut self, settings: &Settings, qos: QoS) -> SlowPolicy {
        *self
            .policy
            .get_or_insert_with(|| settings.slow_policy(self.message.topic(), qos))
    }
}

/// Encodes a message for one variant; `None` above the largest packet there is.
pub(crate) fn encode_wire(
    message: &Message,
    version: Version,
    with_id: bool,
    ids: &[u32],
) -> Option<Wire> {
    let v5 = version.is_v5();
    let parts = PublishParts {
        topic: message.topic(),
        payload: message.payload(),
        properties: if v5 { message.properties() } else { &[] },
        subscription_ids: if v5 { ids } else { &[] },
        has_expiry: v5 && message.expires_at != Tick::NEVER,
    };
    let encoded = EncodedPublish::new(version, &parts, with_id).ok()?;
    let (expires_at, received_at) = (message.expires_at, message.received_at);
    Some(Wire {
        encoded,
        expires_at,
        received_at,
    })
}

impl Hub {
    /// To everybody, on this shard and on the others.
    pub(crate) fn route(&mut self, now: Tick, message: &Arc<Message>) {
        let shares = self.route_locally(message);
        for share in shares {
            self.deliver_shared(now, share, message);
        }
        let mut others = self.interest.others(message.zone, message.topic());
        while others != 0 {
            let shard = others.trailing_zeros();
            others &= others - 1;
            self.effects
                .mesh
                .push((ShardId(shard as u8), MeshItem::Publish(Arc::clone(message))));
        }
    }

    /// To the subscribers of this shard, for a message that another shard took. That one serves
    /// the shared subscriptions.
    pub(crate) fn route_here(&mut self, message: &Arc<Message>) {
        let _ = self.route_locally(message);
    }

    /// Delivers to the ordinary subscribers here; returns the shared subscriptions that match.
    fn route_locally(&mut self, message: &Arc<Message>) -> SmallVec<[u32; 2]> {
        let topic = message.topic();
        let hash = self.hasher.hash(message.zone, topic);
        let mut filters: SmallVec<[(FilterId, &[Subscriber]); 4]> = SmallVec::new();
        self.index
            .for_each_match(message.zone, topic, hash, |id, found| {
                filters.push((id, found));
            });
        let mut shares = SmallVec::new();
        let mut parcel = Parcel::new(message);
        let mut counter = Counter {
            sessions: &mut self.sessions,
            outbox: &mut self.outbox,
            settings: &self.settings,
            stats: &mut self.stats,
            losses: &mut self.losses,
            overrun: &mut self.overrun,
            events: &mut self.effects.events,
        };
        if let [(_, subscribers)] = filters.as_slice() {
            for subscriber in *subscribers {
                if let Some(share) = as_share(*subscriber) {
                    shares.push(share);
                } else {
                    let options = Options::from_bits(subscriber.options);
                    counter.serve(&mut parcel, self.shard, subscriber.session, options);
                }
            }
        } else if !filters.is_empty() {
            let lists = filters.iter().map(|(_, subscribers)| *subscribers);
            let (merged, found) = merge(lists, message, &counter, self.shard);
            shares = found;
            for (slot, terms) in merged {
                counter.hand_over(&mut parcel, slot, &terms);
            }
        }
        shares
    }
}

/// The parts of a hub that handing out a message changes.
pub(crate) struct Counter<'h> {
    pub(crate) sessions: &'h mut crate::sessions::Sessions,
    pub(crate) outbox: &'h mut crate::outbox::Outbox,
    pub(crate) settings: &'h Settings,
    pub(crate) stats: &'h mut crate::stats::Stats,
    pub(crate) losses: &'h mut crate::stats::Losses,
    pub(crate) overrun: &'h mut Vec<crate::key::SessionKey>,
    pub(crate) events: &'h mut Vec<crate::effects::Event>,
}

impl Counter<'_> {
    /// One subscription of one session.
    #[inline]
    fn serve(&mut self, parcel: &mut Parcel<'_>, shard: ShardId, slot: u32, options: Options) {
        if options.no_local() && is_own(self.sessions.at(slot), shard, parcel.message) {
            return;
        }
        let id = [options.id()];
        let ids = if id == [0] { &[][..] } else { &id[..] };
        self.hand_over(parcel, slot, &Terms::new(parcel.message, options, ids, 0));
    }
}

/// Whether a message was published by this session.
fn is_own(session: Option<&Session>, shard: ShardId, message: &Message) -> bool {
    session.is_some_and(|s| crate::publish::publisher(shard, s.generation) == message.publisher)
}

type Merged = Vec<(u32, Terms)>;

/// Where several subscriptions of one session match, it gets one copy, at the highest of their
/// QoS [MQTT-3.3.4-2], with all their identifiers [MQTT-3.3.4-4].
fn merge<'s>(
    lists: impl Iterator<Item = &'s [Subscriber]>,
    message: &Message,
    counter: &Counter<'_>,
    shard: ShardId,
) -> (Merged, SmallVec<[u32; 2]>) {
    let mut shares = SmallVec::new();
    let mut all: Vec<(u32, Options)> = Vec::new();
    for subscriber in lists.flatten() {
        match as_share(*subscriber) {
            Some(share) => shares.push(share),
            None => all.push((subscriber.session, Options::from_bits(subscriber.options))),
        }
    }
    all.sort_unstable_by_key(|(slot, _)| *slot);
    let mut merged = Vec::with_capacity(all.len());
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        let slot = group[0].0;
        let mut ids: SmallVec<[u32; 4]> = SmallVec::new();
        let mut best: Option<Options> = None;
        let mut as_published = false;
        for (_, options) in group {
            if options.no_local() && is_own(counter.sessions.at(slot), shard, message) {
                continue;
            }
            if options.id() != 0 {
                ids.push(options.id());
            }
            as_published |= options.retain_as_published();
            best = Some(best.map_or(
                *options,
                |b| if options.qos() > b.qos() { *options } else { b },
            ));
        }
        if let Some(options) = best {
            let mut terms = Terms::new(message, options, &ids, 0);
            terms.retain = as_published && message.retain;
            merged.push((slot, terms));
        }
    }
    (merged, shares)
}
