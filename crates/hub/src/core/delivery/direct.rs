//! What goes to one session alone, such as answers on `$reply/…`.

use alloc::sync::Arc;

use smallvec::SmallVec;
use stentor_mqtt::Packet;
use stentor_session::{Message, Tick};
use stentor_topic::FilterId;
use stentor_zone::Reach;

use crate::core::Core;
use crate::core::delivery::deliver::{DeliveryOptions, Matching};
use crate::core::ids::SessionKey;
use crate::core::routing::batch::EncodedBatch;
use crate::core::routing::options::Options;
use crate::core::routing::{batch, route};
use crate::core::sessions::registry::Link;

/// Queues a packet for a connected client.
pub(crate) fn send(core: &mut Core, key: SessionKey, packet: &Packet<'_>) {
    if let Some(session) = core.sessions.get_mut(key)
        && let Link::Live(live) = &mut session.link
    {
        core.outbox.packet(key, live, packet);
    }
}

/// Delivers a message to one session, and says how far it has come. Like everything, it is
/// delivered only to what the session subscribes to.
pub(crate) fn deliver(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    message: &Arc<Message>,
) -> Reach {
    // What it was sent before comes before.
    batch::settle(core, now);
    let own = own_options(core, key, message);
    let treatment = route::treatment(core, message);
    let mut batch = EncodedBatch::new(core::slice::from_ref(message), treatment);
    let mut fanout = route::fanout(core, now);
    fanout.serve(&mut batch, message, key.slot, &own);
    fanout.reach
}

/// Delivers something that was said before the session subscribed: with RETAIN, like what is
/// stored.
pub(crate) fn deliver_stored(core: &mut Core, now: Tick, key: SessionKey, message: &Arc<Message>) {
    batch::settle(core, now);
    let own = own_options(core, key, message);
    let Some((_, options)) = own.iter().copied().max_by_key(|(_, options)| options.qos()) else {
        return;
    };
    let ids: SmallVec<[u32; 4]> = own.iter().map(|(_, options)| options.id()).collect();
    let ids: SmallVec<[u32; 4]> = ids.into_iter().filter(|id| *id != 0).collect();
    let mut terms = DeliveryOptions::new(message, options, &ids, 0);
    terms.retain = true;
    terms.stored = true;
    let mut variants = route::variants(core, message);
    route::fanout(core, now).deliver(&mut variants, key.slot, &terms);
}

/// The options of a session's own subscriptions that match a message.
fn own_options(core: &Core, key: SessionKey, message: &Message) -> SmallVec<[Matching; 4]> {
    if core.sessions.get(key).is_none() {
        return SmallVec::new();
    }
    let (zone, topic) = (message.zone, message.topic());
    let hash = core.place.hasher.hash(zone, topic);
    let mut filters: SmallVec<[FilterId; 4]> = SmallVec::new();
    core.routing
        .index
        .for_each_match(zone, topic, hash, |id, _| filters.push(id));
    let own = |id: &FilterId| Some((*id, core.routing.index.options(*id, key.slot)?));
    let own = filters.iter().filter_map(own);
    own.map(|(id, bits)| (id, Options::from_bits(bits)))
        .collect()
}
