//! Handing one message to one session: straight to the socket's queue, into the in-flight
//! window, into the waiting queue, or nowhere, as QoS, limits and policies say.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;
use stentor_mqtt::{PacketId, QoS};
use stentor_session::{Delivery, Message, Outgoing, Resend, SubscriptionIds, Tick, Wire};

use crate::effects::Event;
use crate::key::SessionKey;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::route::{Counter, Parcel, encode_wire};
use crate::sessions::{Link, Live, Session};
use crate::settings::SlowPolicy;
use crate::stats::{LossCause, Stats};

/// How one session gets one message.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) ids: SmallVec<[u32; 1]>,
    /// The number of the shared subscription that chose this session; 0 for none.
    pub(crate) share: u64,
}

impl Terms {
    #[inline]
    pub(crate) fn new(message: &Message, options: Options, ids: &[u32], share: u64) -> Self {
        Self {
            qos: message.qos.min(options.qos()),
            retain: options.retain_as_published() && message.retain,
            ids: SmallVec::from_slice(ids),
            share,
        }
    }

    fn delivery(&self, message: &Arc<Message>) -> Delivery {
        Delivery {
            message: Arc::clone(message),
            qos: self.qos,
            retain: self.retain,
            subscription_ids: SubscriptionIds::new(&self.ids),
            share: self.share,
        }
    }
}

/// Whether the message does not fit, and what became of that.
enum Verdict {
    Taken,
    Lost(LossCause),
    /// Policy `drop-oldest`: the topics of what was dropped.
    Displaced(Vec<Box<str>>),
    Overrun,
}

impl Counter<'_> {
    /// Gives a message to the session in `slot`. O(1), but for dropping older ones.
    #[inline]
    pub(crate) fn hand_over(&mut self, parcel: &mut Parcel<'_>, slot: u32, terms: &Terms) {
        let Some(session) = self.sessions.at_mut(slot) else {
            return;
        };
        let key = SessionKey {
            slot,
            generation: session.generation,
        };
        let verdict = if terms.qos == QoS::AtMostOnce {
            let Link::Live(live) = &mut session.link else {
                // QoS 0 is for those who are there [MQTT-3.1.2-5].
                return;
            };
            give_now(
                self.outbox,
                self.settings,
                self.stats,
                parcel,
                key,
                live,
                terms,
            )
        } else {
            owe(
                self.outbox,
                self.settings,
                self.stats,
                parcel,
                key,
                session,
                terms,
            )
        };
        match verdict {
            Verdict::Taken => {}
            Verdict::Lost(cause) => self.lose(slot, parcel.message.topic(), cause),
            Verdict::Displaced(topics) => {
                for topic in topics {
                    self.lose(slot, &topic, LossCause::DropOldest);
                }
            }
            Verdict::Overrun => self.overrun.push(key),
        }
    }

    fn lose(&mut self, slot: u32, topic: &str, cause: LossCause) {
        self.stats.publishes_dropped += 1;
        let Some(session) = self.sessions.at(slot) else {
            return;
        };
        if self.losses.record(cause, &session.client_id, topic) {
            self.events.push(Event::Losing {
                client_id: session.client_id.clone(),
                topic: topic.into(),
                cause: cause.label(),
            });
        }
    }
}

/// QoS 0: into the socket's queue, if it fits.
#[inline]
fn give_now(
    outbox: &mut Outbox,
    settings: &crate::Settings,
    stats: &mut Stats,
    parcel: &mut Parcel<'_>,
    key: SessionKey,
    live: &mut Live,
    terms: &Terms,
) -> Verdict {
    let Some(wire) = parcel
        .wire(live.version, false, &terms.ids)
        .filter(|w| fits(live, w))
    else {
        return Verdict::Lost(LossCause::PacketTooLarge);
    };
    let wire = Rc::clone(wire);
    let len = wire.encoded.wire_len();
    let mut verdict = Verdict::Taken;
    if live.queued_bytes() + len > settings.queue_bytes_max {
        match parcel.policy(settings, QoS::AtMostOnce) {
            SlowPolicy::DropNewest => return Verdict::Lost(LossCause::DropNewest),
            SlowPolicy::Disconnect => return Verdict::Overrun,
            SlowPolicy::DropOldest => {
                let bytes = settings.queue_bytes_max.saturating_sub(len);
                let mut dropped = make_room(live, bytes);
                if live.queued_bytes() > bytes {
                    dropped.push(parcel.message.topic().into());
                    return Verdict::Displaced(dropped);
                }
                verdict = Verdict::Displaced(dropped);
            }
        }
    }
    stats.publishes_sent += 1;
    stats.publish_bytes_sent += parcel.message.payload().len() as u64;
    outbox.publish(
        key,
        live,
        Outgoing::new(wire, QoS::AtMostOnce, terms.retain, false, None),
    );
    verdict
}

/// Drops the oldest queued messages until at most `bytes` wait, as far as possible; returns their
/// topics.
fn make_room(live: &mut Live, bytes: usize) -> Vec<Box<str>> {
    let mut dropped = Vec::new();
    if let Some(output) = &mut live.output {
        while output.bytes() > bytes
            && let Some(outgoing) = output.drop_oldest()
        {
            dropped.push(outgoing.wire.encoded.topic().into());
        }
    }
    dropped
}

/// QoS 1 and 2: owed until it is acknowledged.
fn owe(
    outbox: &mut Outbox,
    settings: &crate::Settings,
    stats: &mut Stats,
    parcel: &mut Parcel<'_>,
    key: SessionKey,
    session: &mut Session,
    terms: &Terms,
) -> Verdict {
    let outbound = session.outbound.get_or_insert_default();
    let waiting = outbound.waiting_bytes() + parcel.message.cost();
    if let Link::Live(live) = &mut session.link {
        let queued = live.queued_bytes();
        if queued + waiting <= settings.queue_bytes_max {
            let delivery = terms.delivery(parcel.message);
            if let Some(packet_id) = outbound.send(live.window, &delivery) {
                let wire = parcel.wire(live.version, true, &terms.ids);
                let Some(wire) = wire.filter(|wire| fits(live, wire)).map(Rc::clone) else {
                    outbound.discard(packet_id);
                    return Verdict::Lost(LossCause::PacketTooLarge);
                };
                stats.publishes_sent += 1;
                stats.publish_bytes_sent += parcel.message.payload().len() as u64;
                let outgoing = Outgoing::new(wire, terms.qos, terms.retain, false, Some(packet_id));
                outbox.publish(key, live, outgoing);
                return Verdict::Taken;
            }
        }
    }
    let mut verdict = Verdict::Taken;
    let queued = session.live().map_or(0, Live::queued_bytes);
    let is_live = session.live().is_some();
    let Some(outbound) = &mut session.outbound else {
        return Verdict::Taken;
    };
    let fits = |outbound: &stentor_session::Outbound| {
        queued + outbound.waiting_bytes() + parcel.message.cost() <= settings.queue_bytes_max
            && outbound.waiting_len() < settings.queue_messages_max
    };
    if !fits(outbound) {
        match settings.slow_policy(parcel.message.topic(), terms.qos) {
            SlowPolicy::Disconnect if is_live => {
                outbound.wait(terms.delivery(parcel.message));
                return Verdict::Overrun;
            }
            SlowPolicy::DropNewest | SlowPolicy::Disconnect => {
                return Verdict::Lost(LossCause::DropNewest);
            }
            SlowPolicy::DropOldest => {
                let mut dropped = Vec::new();
                while !fits(outbound) {
                    let oldest = outbound.drop_oldest_waiting();
                    let message = oldest.as_ref().map_or(parcel.message, |d| &d.message);
                    dropped.push(message.topic().into());
                    if oldest.is_none() {
                        return Verdict::Displaced(dropped);
                    }
                }
                verdict = Verdict::Displaced(dropped);
            }
        }
    }
    outbound.wait(terms.delivery(parcel.message));
    verdict
}

/// Sends what a session owes and its window allows: first what has to be sent again, then what
/// waits. Called when a connection begins and whenever a packet id becomes free.
pub(crate) fn pump(
    outbox: &mut Outbox,
    stats: &mut Stats,
    now: Tick,
    key: SessionKey,
    session: &mut Session,
) {
    let (Link::Live(live), Some(outbound)) = (&mut session.link, &mut session.outbound) else {
        return;
    };
    let window = live.window;
    while let Some(resend) = outbound.resend(window) {
        match resend {
            Resend::Publish(packet_id, delivery) => {
                if let Some(outgoing) = outgoing(live, delivery, packet_id, true) {
                    stats.publishes_sent += 1;
                    outbox.publish(key, live, outgoing);
                } else {
                    // The client takes smaller packets than it did before.
                    outbound.discard(packet_id);
                    stats.publishes_dropped += 1;
                }
            }
            Resend::PubRel(packet_id) => {
                outbox.packet(key, live, &crate::receive::pubrel(packet_id));
            }
        }
    }
    while let Some((packet_id, delivery)) = outbound.advance(window) {
        let outgoing = outgoing(live, &delivery, packet_id, false);
        let Some(outgoing) = outgoing.filter(|_| !delivery.message.is_expired(now)) else {
            outbound.discard(packet_id);
            stats.publishes_dropped += 1;
            continue;
        };
        stats.publishes_sent += 1;
        stats.publish_bytes_sent += delivery.message.payload().len() as u64;
        outbox.publish(key, live, outgoing);
    }
    if outbound.is_empty() {
        session.outbound = None;
    }
}

/// Whether the client takes a packet of this size [MQTT-3.1.2-24].
#[inline]
fn fits(live: &Live, wire: &Wire) -> bool {
    wire.encoded.wire_len() <= live.packet_bytes_max as usize
}

/// A PUBLISH of an owed message; `None` if the client does not take it.
fn outgoing(live: &Live, delivery: &Delivery, packet_id: PacketId, dup: bool) -> Option<Outgoing> {
    let ids = delivery.subscription_ids.as_slice();
    let wire = encode_wire(&delivery.message, live.version, true, ids)?;
    fits(live, &wire).then(|| {
        Outgoing::new(
            Rc::new(wire),
            delivery.qos,
            delivery.retain,
            dup,
            Some(packet_id),
        )
    })
}
