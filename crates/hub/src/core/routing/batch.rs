//! Several messages at once.
//!
//! A client that publishes faster than the shard turns leaves a burst of messages in one read.
//! Those of QoS 0 to one topic are matched together, and a subscriber that is to get all of them
//! gets them as one entry in its queue: what a delivery costs is then little more than the copying
//! of its bytes.

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{QoS, Version};
use stentor_session::{Message, Run, Tick};

use crate::core::Core;
use crate::core::delivery::deliver::DeliveryOptions;
use crate::core::ids::SessionKey;
use crate::core::routing::route::{self, EncodedVariants, Fanout, Treatment, encode_wire};
use crate::core::sessions::charge::Charge;
use crate::core::sessions::registry::{Extras, Link};
use crate::items::Sender;

/// A burst is cut when its messages cost this much: it is encoded as a whole and stays in memory
/// until the last subscriber has got it.
const BATCH_BYTES_MAX: usize = 128 * 1024;

/// The side that handed a message to this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Its publisher, or the shard where that is: other shards have to hear of it.
    Client,
    /// A shard that has told all others of it.
    Mesh,
}

/// Messages of one publisher to one topic that were taken but not routed. Empty between the calls
/// of a shard.
#[derive(Debug)]
pub(crate) struct PublishBatch {
    messages: Vec<Arc<Message>>,
    /// What they cost together.
    bytes: usize,
    source: Source,
    /// The connection of another shard that they came by.
    sender: Option<Sender>,
}

impl Default for PublishBatch {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            bytes: 0,
            source: Source::Client,
            sender: None,
        }
    }
}

/// Whether nothing in a message but its bytes matters to its subscribers.
fn is_plain(message: &Message) -> bool {
    message.qos == QoS::AtMostOnce && message.expires_at == Tick::NEVER
}

impl PublishBatch {
    /// Whether nothing waits to be routed.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn goes_with(&self, message: &Message, source: Source) -> bool {
        let Some(last) = self.messages.last() else {
            return true;
        };
        is_plain(message)
            && self.source == source
            && self.bytes + message.cost() <= BATCH_BYTES_MAX
            && last.publisher == message.publisher
            && last.retain == message.retain
            && last.zone == message.zone
            && last.topic() == message.topic()
    }
}

/// Routes a message, together with those before and after it where that makes no difference:
/// until [`settle`] at the latest.
pub(crate) fn route_soon(
    core: &mut Core,
    now: Tick,
    message: Arc<Message>,
    source: Source,
    sender: Option<Sender>,
) {
    if !core.routing.batch.goes_with(&message, source) {
        settle(core, now);
    }
    let is_plain = is_plain(&message);
    core.routing.batch.bytes += message.cost();
    core.routing.batch.source = source;
    core.routing.batch.sender = sender;
    core.routing.batch.messages.push(message);
    if !is_plain {
        settle(core, now);
    }
}

/// Routes what waits for more of its kind. To be called before anything that must not come
/// before what was published earlier.
#[inline]
pub(crate) fn settle(core: &mut Core, now: Tick) {
    if !core.routing.batch.is_empty() {
        route_batch(core, now);
    }
}

fn route_batch(core: &mut Core, now: Tick) {
    let mut messages = core::mem::take(&mut core.routing.batch.messages);
    core.routing.batch.bytes = 0;
    match core.routing.batch.source {
        Source::Client => {
            let sender = core.routing.batch.sender;
            route::everywhere_from(core, now, &messages, sender);
        }
        Source::Mesh => route::here(core, now, &messages, core.routing.batch.sender),
    }
    messages.clear();
    core.routing.batch.messages = messages;
}

/// Messages on their way to the same subscribers: usually one, or a burst.
pub(crate) struct EncodedBatch<'m> {
    messages: &'m [Arc<Message>],
    treatment: Treatment,
    variants: Variants<'m>,
    /// All of them in one, by version 3.x or 5.0.
    runs: [Option<Rc<Run>>; 2],
    payload_bytes: u64,
}

/// The messages of a batch one by one.
enum Variants<'m> {
    One(EncodedVariants<'m>),
    /// Made when the first subscriber needs them.
    Many(Vec<EncodedVariants<'m>>),
}

impl<'m> EncodedBatch<'m> {
    /// All `messages` are of one publisher to one topic; none, or several plain ones, if it is
    /// not one.
    pub(crate) fn new(messages: &'m [Arc<Message>], treatment: Treatment) -> Self {
        let variants = match messages {
            [message] => Variants::One(EncodedVariants::new(message, treatment)),
            _ => Variants::Many(Vec::new()),
        };
        let payload = |message: &Arc<Message>| message.payload().len() as u64;
        Self {
            messages,
            treatment,
            variants,
            runs: Default::default(),
            payload_bytes: messages.iter().map(payload).sum(),
        }
    }

    /// All in one; `None` if one of them is too large for a packet.
    fn run(&mut self, version: Version) -> Option<&Rc<Run>> {
        let slot = &mut self.runs[usize::from(version.is_v5())];
        if slot.is_none() {
            let first = self.messages.first()?;
            let mut run = Run::new(first.topic(), first.received_at);
            for message in self.messages {
                if !run.push(&encode_wire(message, version, false, &[], &[])?) {
                    return None;
                }
            }
            *slot = Some(Rc::new(run));
        }
        slot.as_ref()
    }
}

impl Fanout<'_> {
    /// Gives all messages of a batch to the session in `slot`.
    #[inline]
    pub(crate) fn deliver_batch(
        &mut self,
        batch: &mut EncodedBatch<'_>,
        slot: u32,
        terms: &DeliveryOptions<'_>,
    ) {
        match &mut batch.variants {
            Variants::One(variants) => return self.deliver(variants, slot, terms),
            Variants::Many(_) => {}
        }
        if self.deliver_run(batch, slot, terms) {
            return;
        }
        if let Variants::Many(variants) = &mut batch.variants {
            if variants.is_empty() {
                let treatment = batch.treatment;
                let encoded = |message| EncodedVariants::new(message, treatment);
                variants.extend(batch.messages.iter().map(encoded));
            }
            // The first of them counts as all do that go together.
            self.turn.hand_over(variants.len() - 1);
            for one in variants {
                self.deliver(one, slot, terms);
            }
        }
    }

    /// The same as one entry of its queue; `false`, and nothing done, if each message has to be
    /// looked at.
    #[inline]
    fn deliver_run(
        &mut self,
        batch: &mut EncodedBatch<'_>,
        slot: u32,
        terms: &DeliveryOptions<'_>,
    ) -> bool {
        let Some(session) = self.sessions.at_mut(slot, QoS::AtMostOnce) else {
            return true;
        };
        let key = SessionKey {
            slot,
            generation: session.generation,
        };
        let bound = Charge {
            bytes: session
                .state
                .queue_bytes_max_at(QoS::AtMostOnce, self.settings),
            messages: self.settings.queue_messages_max,
        };
        let Link::Live(live) = &mut session.link else {
            return false;
        };
        let is_filtered = session.state.subscriptions.are_filtered();
        let looks_at_each =
            |extras: &Extras| extras.sent_aliases.is_some() || extras.conflating.is_some();
        if terms.qos != QoS::AtMostOnce
            || terms.retain
            || !terms.ids.is_empty()
            || is_filtered
            || live.is_given_up()
            || batch.treatment != Treatment::default()
            || live.extras.as_deref().is_some_and(looks_at_each)
        {
            return false;
        }
        let count = batch.messages.len() as u64;
        let payload_bytes = batch.payload_bytes;
        let Some(run) = batch.run(live.version) else {
            return false;
        };
        let more = Charge {
            bytes: run.bytes().len(),
            messages: run.len(),
        };
        if run.packet_bytes() > live.packet_bytes_max as usize
            || live.is_full(bound, &session.state.owed, more)
        {
            return false;
        }
        self.stats.publishes_sent += count;
        self.stats.publish_bytes_sent += payload_bytes;
        let zone = session.state.zone();
        self.traffic.sent(zone, count, payload_bytes);
        self.outbox.run(key, live, Rc::clone(run));
        true
    }
}
