//! Private messages: from one user to the sessions of another that subscribe to their inbox.
//!
//! An inbox is an ordinary subscription that stands under its user's name in the index (see
//! [`stentor_zone::inbox`]), so that interest, wildcards and delivery are those of every message.
//! The sender's acknowledgement is the response: where nobody on its own shard has got the message
//! it waits until the other shards with such subscriptions have said what they did.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use stentor_mqtt::{Publish, ReasonCode, forwardable};
use stentor_session::{Message, MessageParts, Outcome, Tick, Ticket};
use stentor_zone::{Reach, Response, inbox, topic};

use crate::core::Core;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::acknowledge::{Taken, issue_ticket_after_routing};
use crate::core::inbound::{acknowledge, publish};
use crate::core::interface::sends_by;
use crate::core::routing::route::{dues, job};
use crate::core::routing::{batch, route};
use crate::core::sessions::log;
use crate::items::Sender;
use crate::services::Item;
use crate::services::interface::answer::{Answer, ReturnAddress, ShardTicket};
use crate::services::interface::broadcast::Part;

/// A private message on its way between shards.
#[derive(Debug)]
pub(crate) struct PrivateMessage {
    /// As its recipients get it.
    pub(crate) message: Arc<Message>,
    /// Where it is routed.
    pub(crate) route: String,
    /// The connection that it came by, where it is there still.
    pub(crate) sender: Option<Sender>,
}

impl PrivateMessage {
    /// The bytes of memory that it holds.
    pub(crate) fn cost(&self) -> usize {
        size_of::<Self>() + self.route.len() + self.message.shared_bytes()
    }
}

/// What shards tell each other about private messages.
#[derive(Clone, Debug)]
pub(crate) enum PrivateItem {
    /// A private message for the sessions of its recipient on the receiving shard.
    Message {
        /// The message.
        private: Arc<PrivateMessage>,
        /// The side that waits for the response, a [`PrivateItem::Reached`].
        answer: Option<ShardTicket>,
        /// Whether it was written down before: see [`crate::MeshItem::seal`].
        is_named: bool,
    },
    /// How far a private message has come on the shard that says so.
    Reached {
        /// Which one.
        ticket: Ticket,
        /// How far.
        reach: Reach,
    },
}

impl PrivateItem {
    /// See [`crate::MeshItem::seal`].
    pub(crate) fn seal(&mut self) {
        if let Self::Message {
            private, is_named, ..
        } = self
        {
            *is_named = private.message.name().is_some();
        }
    }
}

impl PrivateItem {
    /// The bytes of memory that the item holds beside itself.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Message { private, .. } => private.cost(),
            Self::Reached { .. } => 0,
        }
    }
}

/// The private messages that wait for what other shards say, by the ticket that their
/// acknowledgement waits for.
#[derive(Debug, Default)]
pub(crate) struct PrivateService {
    asked: HashMap<Ticket, Asked, foldhash::fast::FixedState>,
    /// The topic and the route of the message that is sent now: two texts for all messages.
    texts: (String, String),
    /// What became of parts of broadcasts that waited for other shards.
    told: VecDeque<(Part, Response)>,
}

/// One of them.
#[derive(Debug)]
struct Asked {
    /// Where the response goes, beside the acknowledgement.
    asker: Asker,
    user: Box<str>,
    /// How many shards have not answered.
    shards: u32,
    reach: Reach,
}

/// The receiver of the response to a private message.
#[derive(Debug)]
enum Asker {
    /// The session that wants it on `$reply/<id>`, if it does.
    Session(Option<ReturnAddress>),
    /// A procedure.
    Procedure(Part),
}

/// Senders of a shard that may wait for other shards at a time.
const ASKED_MAX: usize = 1 << 20;

/// The recipient of a private message, and where its response goes.
pub(crate) struct Envelope<'a> {
    pub(crate) user: &'a str,
    pub(crate) reply: Option<&'a str>,
}

/// What sending a private message has led to.
enum Sent {
    Known(Response),
    /// Other shards were asked.
    Asked(Ticket, u32, Reach),
}

/// How a response is acknowledged.
fn outcome(response: Response) -> Outcome {
    let code = ReasonCode::from_u8(response.puback_code());
    Outcome::new(
        code.unwrap_or(ReasonCode::UnspecifiedError),
        response.text(),
    )
}

impl PrivateService {
    /// Whether it is known what became of parts of broadcasts.
    #[inline]
    pub(crate) fn has_responses(&self) -> bool {
        !self.told.is_empty()
    }

    /// What became of a part of a broadcast.
    pub(crate) fn next_response(&mut self) -> Option<(Part, Response)> {
        self.told.pop_front()
    }

    /// A publish to `$private/to/<user>`. The response is its acknowledgement, and with a reply id
    /// a message to its sender too.
    pub(crate) fn take_private(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        envelope: &Envelope<'_>,
    ) -> Taken {
        let Some(session) = core.session(key) else {
            return Taken::done(ReasonCode::UnspecifiedError);
        };
        // 3.x has no reason codes: there is nothing to wait for.
        let is_told = publish.packet_id.is_some() && session.speaks_v5();
        let zone = session.state.zone();
        let shard = core.shard();
        let address = |id| ReturnAddress::reply(shard, key, zone, publish, id);
        let caller = envelope.reply.map(address);
        let is_awaited = is_told || caller.is_some();
        let taken = match self.send_private(core, now, key, publish, envelope.user, is_awaited) {
            Sent::Known(response) => {
                self.respond(core, now, caller.as_ref(), envelope.user, response);
                Taken::Done(outcome(response))
            }
            Sent::Asked(ticket, shards, reach) => {
                let asked = Asked {
                    asker: Asker::Session(caller),
                    user: envelope.user.into(),
                    shards,
                    reach,
                };
                self.asked.insert(ticket, asked);
                Taken::Waits(ticket)
            }
        };
        if is_told { taken } else { Taken::SUCCESS }
    }

    fn send_private(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        user: &str,
        is_awaited: bool,
    ) -> Sent {
        let Some(session) = core.session(key) else {
            return Sent::Known(Response::Denied);
        };
        let to = topic::private_to_as(user, publish.topic);
        if !session.state.identity().rights.may_publish(&to) {
            publish::deny(core, now, key, &to);
            return Sent::Known(Response::Denied);
        }
        let Some(sender) = session.state.user() else {
            return Sent::Known(Response::Nameless);
        };
        // It would be thrown away wherever it waits [MQTT-3.3.2-5].
        if publish.properties.message_expiry() == Some(0) {
            return Sent::Known(Response::Expired);
        }
        if is_awaited && (self.asked.len() >= ASKED_MAX || acknowledge::is_deferring_much(core)) {
            return Sent::Known(Response::Busy);
        }
        let mut properties = Vec::new();
        if !publish.properties.is_empty() {
            forwardable(publish.properties, &mut properties);
        }
        let (mut from, mut route) = core::mem::take(&mut self.texts);
        topic::write_private_from(sender, &mut from);
        inbox::write_route(user, sender, &mut route);
        let parts = MessageParts {
            topic: &from,
            properties: &properties,
            payload: publish.payload,
            qos: publish.qos,
            retain: false,
            expiry_secs: publish.properties.message_expiry(),
        };
        let message = Arc::new(Message::new(
            session.state.zone(),
            session.state.publisher(),
            now,
            &parts,
        ));
        core.turn_mut().spend_on_names(from.len() + route.len());
        let sent = match is_awaited && log::refusal(core, &message, &route).is_some() {
            true => Sent::Known(Response::Busy),
            false => self.route_private(core, now, message, &route, is_awaited),
        };
        self.texts = (from, route);
        sent
    }

    /// Delivers a private message here and passes it to the shards that may have a subscriber.
    fn route_private(
        &mut self,
        core: &mut Core,
        now: Tick,
        message: Arc<Message>,
        route: &str,
        is_awaited: bool,
    ) -> Sent {
        // What its sender has published before comes before.
        batch::settle(core, now);
        let sender = job::sender_of(core, &message);
        let others = core.other_shards(message.zone, route);
        sends_by(core, &message, others, route);
        let reach = self.deliver_private(core, now, &message, sender, route);
        if others.is_empty() {
            return Sent::Known(Response::Reached(reach));
        }
        let shards = others.len();
        let asks = is_awaited && reach < Reach::Delivered;
        let ticket = asks.then(|| issue_ticket_after_routing(core));
        let route = route.into();
        let private = Arc::new(PrivateMessage {
            message,
            route,
            sender,
        });
        for shard in others {
            let item = PrivateItem::Message {
                private: Arc::clone(&private),
                answer: ticket.map(|ticket| ShardTicket {
                    shard: core.shard(),
                    ticket,
                }),
                is_named: false,
            };
            core.send_to_shard(shard, Item::Private(item));
        }
        match ticket {
            Some(ticket) => Sent::Asked(ticket, shards, reach),
            None => Sent::Known(Response::Reached(reach)),
        }
    }

    /// To the sessions of this shard. Returns how far it has come.
    ///
    /// A route has five levels, and only its recipient has subscriptions that match it. So it is
    /// found at once; that recipient's sessions are what may be many.
    fn deliver_private(
        &mut self,
        core: &mut Core,
        now: Tick,
        message: &Arc<Message>,
        sender: Option<Sender>,
        route: &str,
    ) -> Reach {
        let messages = core::slice::from_ref(message);
        let before = core.turn().spent();
        let (_, reach) = route::deliver_to(core, now, messages, route);
        dues::charge_sender(core, now, sender, core.turn().spent() - before);
        reach
    }

    /// What another shard sends.
    pub(crate) fn receive(&mut self, core: &mut Core, now: Tick, from: ShardId, item: PrivateItem) {
        match item {
            PrivateItem::Message {
                private,
                answer,
                is_named,
            } => {
                batch::settle(core, now);
                let by = log::SentBy {
                    shard: from,
                    is_named,
                };
                let message = log::takes(core, by, Arc::clone(&private.message));
                let (sender, route) = (private.sender, &private.route);
                let reach = self.deliver_private(core, now, &message, sender, route);
                log::has_taken(core, &message);
                if let Some(ShardTicket { shard, ticket }) = answer {
                    let item = PrivateItem::Reached { ticket, reach };
                    core.send_to_shard(shard, Item::Private(item));
                }
            }
            PrivateItem::Reached { ticket, reach } => {
                self.private_reached(core, now, ticket, reach);
            }
        }
    }

    /// Another shard says how far a private message has come there.
    pub(crate) fn private_reached(
        &mut self,
        core: &mut Core,
        now: Tick,
        ticket: Ticket,
        reach: Reach,
    ) {
        let Some(asked) = self.asked.get_mut(&ticket) else {
            return;
        };
        asked.reach = asked.reach.max(reach);
        asked.shards = asked.shards.saturating_sub(1);
        if asked.shards > 0 && asked.reach < Reach::Delivered {
            return;
        }
        let Some(asked) = self.asked.remove(&ticket) else {
            return;
        };
        let response = Response::Reached(asked.reach);
        match asked.asker {
            Asker::Session(caller) => {
                self.respond(core, now, caller.as_ref(), &asked.user, response);
            }
            Asker::Procedure(part) => self.told.push_back((part, response)),
        }
        acknowledge::resolve(core, now, ticket, &outcome(response));
    }

    /// Sends a response as a message, to a sender that asked for that.
    fn respond(
        &mut self,
        core: &mut Core,
        now: Tick,
        caller: Option<&ReturnAddress>,
        user: &str,
        response: Response,
    ) {
        if let Some(to) = caller {
            let (to, json) = (to.clone(), response.json(user));
            Answer { to, json }.deliver(core, now);
        }
    }

    /// Sends a message to one recipient of a broadcast. `None` if other shards have to say what
    /// became of it.
    pub(crate) fn send_part(
        &mut self,
        core: &mut Core,
        now: Tick,
        message: Arc<Message>,
        route: &str,
        user: &str,
        part: &Part,
    ) -> Option<Response> {
        if self.asked.len() >= ASKED_MAX {
            return Some(Response::Busy);
        }
        match self.route_private(core, now, message, route, true) {
            Sent::Known(response) => Some(response),
            Sent::Asked(ticket, shards, reach) => {
                let asked = Asked {
                    asker: Asker::Procedure(part.clone()),
                    user: user.into(),
                    shards,
                    reach,
                };
                self.asked.insert(ticket, asked);
                None
            }
        }
    }

    /// Sends a message of the server's own, or a will. Nobody waits for a response.
    pub(crate) fn send(&mut self, core: &mut Core, now: Tick, message: Arc<Message>, route: &str) {
        self.route_private(core, now, message, route, false);
    }
}
