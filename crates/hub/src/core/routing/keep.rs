//! Keeping a message and routing it, in one order for all subscribers where every message is kept.
//!
//! Messages with RETAIN are kept by the shard of their publisher, each under the lock of its
//! topic, and reach every subscriber in the order of each publisher, which is what MQTT asks for.
//! Under `keep = "last"` and `"all"` all messages of a topic go to one shard first, by the hash of
//! the topic: it keeps and routes them one after the other, so that all subscribers see one order
//! and the last one kept is the last one that each of them sees.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Property, PropertyBuf, QoS, forwardable};
use stentor_session::{Message, MessageParts, Outcome, Publisher, Tick};
use stentor_topic::Zone;

use crate::core::history::HistoryBounds;
use crate::core::ids::home_shard;
use crate::core::inbound::acknowledge::{self, Taken};
use crate::core::inbound::publish::count_received;
use crate::core::memory::relief;
use crate::core::retained::{Kept, NotKept, Retained};
use crate::core::routing::batch::Source;
use crate::core::routing::route::job;
use crate::core::routing::{batch, route};
use crate::core::sessions::log;
use crate::core::settings::{Keep, Settings, Uses};
use crate::core::stats::LossCause;
use crate::core::work::{BEHIND_VISITS, VISIT_BYTES};
use crate::core::{Core, Memory, Rules, Store, work};
use crate::effects::Event;
use crate::items::{KeepItem, RoutedItem, Sender, ShardItem};

impl Memory {
    /// How a publish is acknowledged that is refused for this. Of a limit, it tells the value.
    fn refused_for(&self, why: NotKept) -> Outcome {
        let mut outcome = why.outcome();
        if why == NotKept::Memory {
            let most = self.ledger.budget();
            outcome.text = format!("{}, which is {most} bytes", why.text()).into();
        }
        outcome
    }
}

impl Rules {
    pub(crate) fn keeps_last(&self, topic: &str) -> bool {
        let policy = self.uses.keeps_last.then(|| self.settings.policy(topic));
        policy
            .flatten()
            .is_some_and(|policy| policy.keep != Keep::Retained)
    }

    /// How much of a topic's history is kept; `None` if it has none.
    pub(crate) fn history(&self, topic: &str) -> Option<HistoryBounds> {
        let history = self.uses.histories.then(|| self.settings.history(topic));
        history.flatten()
    }
}

impl Store {
    /// Clears the topic of a message that was not kept, so that no late subscriber takes an older
    /// one for the last [3.1.1 MQTT-3.3.1-7].
    fn forget_older(&self, now: Tick, message: &Message) {
        let parts = MessageParts {
            topic: message.topic(),
            properties: &[],
            payload: &[],
            qos: QoS::AtMostOnce,
            retain: true,
            expiry_secs: None,
        };
        let clear = Message::new(message.zone, Publisher::SERVER, now, &parts);
        // Where even that fails, the store is in trouble, which it reports itself.
        let _ = self.retained.put(&Arc::new(clear));
    }
}

/// Keeps a message, if it is one to be kept, and routes it: here, or on the shard that orders
/// its topic.
pub(in crate::core) fn keep_and_route(
    core: &mut Core,
    now: Tick,
    message: Arc<Message>,
    hearer: Hearer,
) -> Taken {
    keep_and_route_as(core, now, message, hearer, Routing::Soon)
}

/// The same for a message of the server's own, or a will.
pub(crate) fn keep_and_route_now(core: &mut Core, now: Tick, message: Arc<Message>) {
    let copy = Arc::clone(&message);
    let taken = keep_and_route_as(core, now, message, Hearer::Nobody, Routing::Now);
    if let Some(why) = refusal(&taken) {
        count_unkept(core, "", copy.zone, copy.topic(), why);
    }
}

/// A message that nobody waits for was delivered and is not kept: counts it, and has the log
/// say so once for each client and topic. `client_id` is empty where it is not known here.
pub(in crate::core) fn count_unkept(
    core: &mut Core,
    client_id: &str,
    zone: Zone,
    topic: &str,
    why: NotKept,
) {
    core.counters.stats.publishes_dropped += 1;
    if core
        .counters
        .losses
        .record(LossCause::NotKept, client_id, topic)
    {
        core.effects.events.push(Event::NotKept {
            client_id: client_id.into(),
            topic: topic.into(),
            why,
            bound: bound_met(core, zone, why),
            trouble: core.store.retained.trouble(),
        });
    }
}

/// A message that the store refused: its publisher and the operator learn it.
pub(in crate::core) fn tell_not_taken(
    core: &mut Core,
    client_id: Box<str>,
    zone: Zone,
    topic: &str,
    why: NotKept,
) {
    core.effects.events.push(Event::NotTaken {
        client_id,
        topic: topic.into(),
        why,
        bound: bound_met(core, zone, why),
        trouble: core.store.retained.trouble(),
    });
}

/// The bound for which a message is not kept, and its value, as far as that is known.
fn bound_met(core: &Core, zone: Zone, why: NotKept) -> Option<Box<str>> {
    match why {
        NotKept::Memory => {
            let most = core.memory.ledger.budget();
            Some(format!("limits.memory is {most} bytes").into())
        }
        NotKept::Full => core.store.retained.bound_met(zone),
        NotKept::DiskFull | NotKept::Failed | NotKept::Sessions | NotKept::Backlogs => None,
    }
}

fn keep_and_route_as(
    core: &mut Core,
    now: Tick,
    message: Arc<Message>,
    hearer: Hearer,
    routing: Routing,
) -> Taken {
    if !core.rules.keeps_last(message.topic()) {
        let stay = Stay::of(&message);
        return put_and_route(core, now, message, None, stay, hearer, routing);
    }
    let owner = home_shard(
        &core.place.hasher,
        message.zone,
        message.topic(),
        core.place.shards,
    );
    if owner == core.place.shard {
        return put_and_route(core, now, message, None, Stay::Kept, hearer, routing);
    }
    let ticket = (hearer == Hearer::Publisher).then(|| acknowledge::issue_ticket(core));
    let answer = ticket.map(|ticket| (core.place.shard, ticket));
    let item = KeepItem {
        sender: job::sender_of(core, &message),
        message,
        answer,
    };
    core.effects
        .mesh
        .push((owner, RoutedItem::Keep(Box::new(item)).into()));
    ticket.map_or(Taken::SUCCESS, Taken::Waits)
}

/// A message of a topic that this shard orders, for a publisher on another one.
pub(crate) fn keep_for(core: &mut Core, now: Tick, item: KeepItem) {
    let KeepItem {
        message,
        sender,
        answer,
    } = item;
    let copy = Arc::clone(&message);
    let hearer = match answer {
        Some(_) => Hearer::Publisher,
        None => Hearer::Nobody,
    };
    let (stay, routing) = (Stay::Kept, Routing::Soon);
    let taken = put_and_route(core, now, message, sender, stay, hearer, routing);
    match answer {
        Some((shard, ticket)) => {
            if let Some(why) = refusal(&taken) {
                tell_not_taken(core, Box::default(), copy.zone, copy.topic(), why);
            }
            acknowledge::tell_shard(core, shard, ticket, taken);
        }
        None => {
            if let Some(why) = refusal(&taken) {
                count_unkept(core, "", copy.zone, copy.topic(), why);
            }
        }
    }
}

/// What cannot be kept is refused, if its publisher hears of it: he sends it again, so nobody
/// gets it now. If he does not, those who are there get it, and nothing is kept. `sender` is
/// the connection of another shard that it came by.
fn put_and_route(
    core: &mut Core,
    now: Tick,
    message: Arc<Message>,
    sender: Option<Sender>,
    stay: Stay,
    hearer: Hearer,
    routing: Routing,
) -> Taken {
    let is_awaited = hearer == Hearer::Publisher;
    if is_awaited && let Some(why) = log::refusal(core, &message, message.topic()) {
        return Taken::Done(why.outcome());
    }
    let mut taken = Taken::SUCCESS;
    if stay == Stay::Kept {
        core.turn.store(message.cost(), put_visits(&message));
        core.routing.fences.begin_put();
        let kept = if relief::is_out_of_memory_for(core, now, &message) {
            core.counters.stats.unkept_by_memory += 1;
            Err(NotKept::Memory)
        } else {
            match core.rules.history(message.topic()) {
                Some(bounds) => core.store.retained.keep(&message, bounds),
                None => core.store.retained.put(&message),
            }
        };
        match kept {
            Ok(Kept::Now) => {}
            Ok(Kept::Later(ticket)) => taken = Taken::Waits(ticket),
            Err(why) if is_awaited => return Taken::Done(core.memory.refused_for(why)),
            Err(why) => {
                core.store.forget_older(now, &message);
                taken = Taken::Done(core.memory.refused_for(why));
            }
        }
    }
    if stay == Stay::Kept && core.store.retained.is_behind() {
        wait_for_store(core, now, sender);
    }
    match routing {
        Routing::Soon => batch::route_soon(core, now, message, Source::Client, sender),
        Routing::Now => {
            batch::settle(core, now);
            route::everywhere(core, now, &[message]);
        }
    }
    taken
}

/// The store is behind: nothing more is read from the publisher for a moment.
#[cold]
fn wait_for_store(core: &mut Core, now: Tick, sender: Option<Sender>) {
    let visits = BEHIND_VISITS;
    match sender.filter(|sender| sender.shard != core.place.shard) {
        Some(Sender { shard, session, .. }) => {
            let item = ShardItem::ChargePublisher { session, visits };
            core.effects.control_items.push((shard, item));
        }
        None => {
            if let Some(session) = core.routing.routes.reading {
                work::charge_visits(core, now, session, visits);
            }
        }
    }
}

/// Counts a message of somebody without a connection, keeps it if it is one to be kept, and routes
/// it: by the shard that orders its topic. What the store keeps is promised only when it says so.
pub(crate) fn keep_and_route_for(
    core: &mut Core,
    now: Tick,
    message: Arc<Message>,
) -> Result<Option<Kept>, NotKept> {
    let bytes = message.payload().len() as u64;
    count_received(&mut core.counters, Some(message.zone), bytes);
    let stay = match core.rules.keeps_last(message.topic()) {
        true => Stay::Kept,
        false => Stay::of(&message),
    };
    let (hearer, routing) = (Hearer::Publisher, Routing::Now);
    let taken = put_and_route(core, now, message, None, stay, hearer, routing);
    match (refusal(&taken), taken) {
        (Some(why), _) => Err(why),
        (None, Taken::Waits(ticket)) => Ok(Some(Kept::Later(ticket))),
        (None, Taken::Done(_)) => Ok((stay == Stay::Kept).then_some(Kept::Now)),
    }
}

/// Whether somebody is to hear what became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Hearer {
    /// Its publisher, or who publishes for it.
    Publisher,
    Nobody,
}

/// Whether a message stays in the store when it is routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    Kept,
    Passing,
}

impl Stay {
    /// In a topic that does not keep its last message by itself.
    fn of(message: &Message) -> Self {
        match message.retain {
            true => Self::Kept,
            false => Self::Passing,
        }
    }
}

/// When a message is routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Routing {
    /// Together with others of its kind, where there are any.
    Soon,
    /// By itself, after what waits.
    Now,
}

/// What it costs to keep a message, in visits: its name is hashed, compared and copied.
fn put_visits(message: &Message) -> u32 {
    let names = 2 * message.topic().len();
    let bytes = names + message.properties().len() + message.payload().len();
    // A packet has far less than 2^32 bytes.
    (bytes / VISIT_BYTES) as u32
}

/// Why a message was not taken; `None` if it was.
pub(crate) fn refusal(taken: &Taken) -> Option<NotKept> {
    match taken {
        Taken::Done(outcome) if outcome.reason.is_error() => {
            Some(NotKept::of(outcome).unwrap_or(NotKept::Failed))
        }
        Taken::Done(_) | Taken::Waits(_) => None,
    }
}

/// The epoch of the numbers that MQTT 5 subscribers of a topic receive; `None` if they receive
/// none.
pub(crate) fn epoch(
    uses: Uses,
    settings: &Settings,
    store: &dyn Retained,
    message: &Message,
) -> Option<u64> {
    if !uses.sequences || message.sequence() == 0 {
        return None;
    }
    let policy = settings.policy(message.topic())?;
    policy.has_numbers().then(|| store.epoch())
}

/// The user properties `seq`, `epoch` and `conflated`, as on the wire.
pub(crate) fn numbers(message: &Message, epoch: u64, conflated: u32) -> Vec<u8> {
    let (seq, epoch) = (format!("{}", message.sequence()), format!("{epoch:016x}"));
    let conflated = (conflated > 0).then(|| format!("{conflated}"));
    let mut properties = PropertyBuf::new();
    properties.push(Property::UserProperty(("seq", &seq)));
    properties.push(Property::UserProperty(("epoch", &epoch)));
    if let Some(conflated) = &conflated {
        properties.push(Property::UserProperty(("conflated", conflated)));
    }
    let mut raw = Vec::new();
    forwardable(properties.as_properties(), &mut raw);
    raw
}
