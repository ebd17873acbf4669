//! The operator's own code between a client's packet and what follows from it.
//!
//! A shard runs no adaptor. Where a zone has one for what a client asks, the packet is put aside,
//! the question handed over without waiting, and nothing more is read from that connection until
//! the judgement is there; other connections go on. So an adaptor never reorders what one client
//! sends. What a client may not do anyway is refused without asking.
//!
//! Notices (a client left, a room was made) go to the adaptor too, and nothing waits for them.

mod act;
mod consult;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use stentor_mqtt::QoS;
use stentor_session::{Ticket, WillRequest};
use stentor_topic::Zone;
use stentor_zone::Expelled;

use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::subscribe::{Decided, Denial, Element, expel};
use crate::core::sessions::rights::Identity;
use crate::services::broadcast::Part;
use crate::services::calls::Answer;
use crate::services::rooms::RoomItem;

/// What the adaptors of a zone want to hear of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks(pub u16);

impl Hooks {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// A publish to an ordinary topic.
    pub const PUBLISH: Self = Self(1);
    /// Something said in a room.
    pub const SAY: Self = Self(1 << 1);
    /// A private message.
    pub const PRIVATE: Self = Self(1 << 2);
    /// A subscription to an ordinary filter.
    pub const SUBSCRIBE: Self = Self(1 << 3);
    /// A subscription that joins a room.
    pub const JOIN: Self = Self(1 << 4);
    /// Somebody has left a room.
    pub const LEAVE: Self = Self(1 << 5);
    /// A connection has ended.
    pub const DISCONNECT: Self = Self(1 << 6);
    /// A room was made.
    pub const CREATED: Self = Self(1 << 7);
    /// A room has ended.
    pub const CLOSED: Self = Self(1 << 8);
    /// A login.
    pub const LOGIN: Self = Self(1 << 9);

    /// A call that no command about rooms answers.
    pub const CALL: Self = Self(1 << 11);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether something of this is wanted.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What somebody asks to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// To publish to an ordinary topic.
    Publish {
        /// The topic.
        topic: Box<str>,
        /// The payload.
        payload: Box<[u8]>,
        /// The QoS.
        qos: QoS,
        /// The RETAIN flag.
        retain: bool,
    },
    /// To say something in a room.
    Say {
        /// The room.
        room: Box<str>,
        /// What.
        payload: Box<[u8]>,
    },
    /// To send a private message.
    Private {
        /// To whom.
        to: Box<str>,
        /// What.
        payload: Box<[u8]>,
    },
    /// To call something: the code of a room, or of the zone.
    Call {
        /// The room; `None` for a call to the zone.
        room: Option<Box<str>>,
        /// What is called.
        procedure: Box<str>,
        /// What the call is about.
        payload: Box<[u8]>,
        /// The user properties of the publish, in their order.
        arguments: Vec<(Box<str>, Box<str>)>,
    },
    /// To subscribe to these filters, as the packet has them, each with the room that it joins.
    /// Those that the client may not have anyway are not among them.
    Subscribe(Vec<(Box<str>, Option<Box<str>>)>),
}

/// A question to the adaptors of a zone.
#[derive(Debug)]
pub struct Question {
    /// Who asks.
    pub identity: Arc<Identity>,
    /// By which client.
    pub client_id: Box<str>,
    /// What.
    pub deed: Deed,
    /// The shard that waits, to be told by [`crate::ControlItem::Judged`].
    pub shard: ShardId,
    /// What it knows the question by.
    pub number: u64,
}

/// What adaptors say to a deed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is done, perhaps otherwise than asked.
    Done(Rewrite),
    /// It is not done.
    Denied(Denial),
    /// Of the filters of a SUBSCRIBE, each by itself; what is missing is allowed.
    Filters(Vec<Option<Denial>>),
}

/// What becomes of a deed that is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The topic that is published to instead, or the user whom a private message goes to; whoever
    /// publishes needs the right. What is said in a room stays there.
    pub to: Option<Box<str>>,
    /// What is published instead.
    pub payload: Option<Box<[u8]>>,
    /// The answer to a call, which is JSON. The call goes no further.
    pub answer: Option<Box<[u8]>>,
    /// Nobody hears of it, and its sender does not learn that.
    pub hides_notification: bool,
    /// No response is sent to `$reply/…`.
    pub hides_response: bool,
}

/// The events that adaptors receive.
#[derive(Clone, Debug)]
pub enum Happening {
    /// Somebody has left a room, or was sent out, or the room has ended.
    Left {
        /// The room.
        room: Box<str>,
        /// The user.
        user: Box<str>,
    },
    /// A connection has ended.
    Disconnected {
        /// Whose.
        identity: Arc<Identity>,
        /// By which client.
        client_id: Box<str>,
        /// Why: what `CloseReason::label` gives.
        reason: &'static str,
    },
    /// A room was made.
    Created {
        /// The room.
        room: Box<str>,
    },
    /// A room has ended.
    Closed {
        /// The room.
        room: Box<str>,
    },
}

/// What an adaptor does. Goes to the home of the zone, by [`crate::ControlItem::Act`].
#[derive(Debug)]
pub enum Act {
    /// Publishes as the server.
    Publish {
        /// In which zone.
        zone: Zone,
        /// A valid topic name.
        topic: String,
        /// The payload.
        payload: Vec<u8>,
        /// The RETAIN flag.
        retain: bool,
    },
    /// Sends a private message.
    Send {
        /// In which zone.
        zone: Zone,
        /// To whom.
        to: String,
        /// From whom.
        from: String,
        /// What.
        payload: Vec<u8>,
    },
    /// Runs a command about rooms, as administrator.
    Command {
        /// In which zone.
        zone: Zone,
        /// Which one: `room.set`, for example.
        procedure: String,
        /// What it says: JSON.
        payload: Vec<u8>,
        /// What the answer is known by; to be told by [`Adaptors::answered`].
        number: u64,
    },
}

/// The adaptors, as shards know them. No call may block.
pub trait Adaptors: Send + Sync {
    /// What is wanted of a zone. Asked for every publish.
    fn hooks(&self, zone: Zone) -> Hooks;

    /// Takes a question, which is answered once.
    ///
    /// # Errors
    /// The question, if too many wait.
    fn ask(&self, question: Question) -> Result<(), Box<Question>>;

    /// Takes note of something, unless too much waits.
    fn tell(&self, zone: Zone, happening: Happening);

    /// The answer of a command that an adaptor has given.
    fn answered(&self, number: u64, json: Vec<u8>);
}

/// What has come of a SUBSCRIBE that adaptors may want to hear of.
#[derive(Debug)]
pub(crate) enum Consulted {
    /// It waits, or is refused.
    Waits,
    /// There is nothing to ask about: it goes on.
    Not(Decided),
}

/// The packets that wait for a judgement, and what the adaptors of the home's zones know.
#[derive(Default)]
pub(crate) struct HookService {
    pub(crate) adaptors: Option<Arc<dyn Adaptors>>,
    /// What the homes of zones are asked.
    pub(crate) requests: VecDeque<(ShardId, RoomItem)>,
    waiting: HashMap<u64, Aside, foldhash::fast::FixedState>,
    /// Each packet of which the home is asked first: whether a SUBSCRIBE joins anything, whether
    /// what is said is heard. At most one of a connection.
    placing: HashMap<Ticket, Packed, foldhash::fast::FixedState>,
    asked: u64,
    /// The rooms that adaptors know of.
    rooms: BTreeSet<(Zone, Box<str>)>,
}

impl HookService {
    pub(crate) fn new(adaptors: Option<Arc<dyn Adaptors>>) -> Self {
        Self {
            adaptors,
            ..Self::default()
        }
    }

    /// What waits for the judgement of that number.
    pub(crate) fn take_aside(&mut self, number: u64) -> Option<Aside> {
        self.waiting.remove(&number)
    }

    /// The packet that waits for what the home says about rooms.
    pub(crate) fn take_placing(&mut self, ticket: Ticket) -> Option<Packed> {
        self.placing.remove(&ticket)
    }

    /// A connection ends before its session is back in rooms: it tries again next time.
    pub(crate) fn take_returning(&mut self, key: SessionKey) -> Vec<Element> {
        let elements = self.coming_back(key).flat_map(|elements| elements.iter());
        let undenied = |element: &Element| Element {
            denial: None,
            ..element.clone()
        };
        elements.map(undenied).collect()
    }

    /// A session is out of a room to which it is about to come back: it learns it then.
    pub(crate) fn expel(&mut self, key: SessionKey, room: &str, why: Expelled) {
        for elements in self.coming_back(key) {
            expel(elements, room, why);
        }
    }

    /// What a session that comes back to its rooms has asked about.
    fn coming_back(&mut self, key: SessionKey) -> impl Iterator<Item = &mut [Element]> {
        self.waiting
            .values_mut()
            .filter_map(move |aside| match aside {
                Aside::Return {
                    session, elements, ..
                } if *session == key => Some(&mut elements[..]),
                _ => None,
            })
    }
}

/// A packet, whose connection is not read in the meantime.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) session: SessionKey,
    /// The session's, when the packet came.
    pub(crate) epoch: u32,
    pub(crate) packet: Vec<u8>,
    pub(crate) scope: Decided,
}

/// What waits for a judgement.
#[derive(Debug)]
pub(crate) enum Aside {
    Packet(Packed),
    /// What a session was subscribed to in rooms where it has no place any more, and comes back
    /// to. Its connection is not read in the meantime.
    Return {
        session: SessionKey,
        /// The session's, when it came back.
        epoch: u32,
        elements: Vec<Element>,
    },
    /// A will that is due; its client may be gone.
    Will(Arc<Identity>, WillRequest),
    /// An answer to a call, on its way to a topic to which its caller might publish.
    Answer(Answer),
    /// What one recipient of a broadcast receives.
    Broadcast(Part),
}
