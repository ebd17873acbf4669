//! What shards and adaptors say to each other.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::QoS;
use stentor_topic::Zone;

use crate::core::ids::ShardId;
use crate::core::inbound::subscribe::{Decided, Denial};
use crate::core::sessions::rights::Identity;

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
pub enum HookRequest {
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
    /// The client's user and rights.
    pub identity: Arc<Identity>,
    /// By which client.
    pub client_id: Box<str>,
    /// What.
    pub request: HookRequest,
    /// The shard that waits, to be told by [`crate::ServiceCommand::Judged`].
    pub shard: ShardId,
    /// What it knows the question by.
    pub number: u64,
}

/// What adaptors say to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// It is done, perhaps otherwise than asked.
    Done(Rewrite),
    /// It is not done.
    Denied(Denial),
    /// Of the filters of a SUBSCRIBE, each by itself; what is missing is allowed.
    Filters(Vec<Option<Denial>>),
}

/// What becomes of a request that is done.
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
pub enum HookEvent {
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

/// What an adaptor does. Goes to the home of the zone, by [`crate::ServiceCommand::Act`].
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
    fn tell(&self, zone: Zone, event: HookEvent);

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
