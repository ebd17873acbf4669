//! What a call to the hub asks its shard to do.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::Version;
use stentor_session::{ChunkPlace, CloseReason, Limit, Output, Tick};
use stentor_topic::Zone;

use crate::core::ids::{LinkId, SessionKey, ShardId};
use crate::core::retained::NotKept;
use crate::core::sessions::authenticate::Authentication;
use crate::core::sessions::rights::Identity;
use crate::items::{MeshItem, ShardItem};

/// Everything that calls to the hub have asked for since it was last emptied. The shard drains
/// `log`, `mesh` and `control_items` after each call, the rest at the end of its turn.
#[derive(Debug, Default)]
pub struct Effects {
    /// What has changed in sessions that last, as records of [`stentor_session_log`]. Empty unless
    /// [`crate::Shared::sessions_zero_ms`] is there.
    ///
    /// The shard takes them first after each call, and appends them to its journal as one batch:
    /// nobody may hear of a change that is not written down. So they come before `mesh` and
    /// `control_items`, and before any output leaves. It says where the batch begins by
    /// [`crate::journal::logged`].
    pub log: Vec<u8>,
    /// Where `log` may be cut: ascending, and mostly nowhere. Each piece is a batch then.
    pub log_cuts: Vec<usize>,
    /// Whether an answer promises something that `log` says: all but how far acknowledgements have
    /// come. Cleared by [`crate::journal::take_batches`].
    pub log_is_promised: bool,
    /// Sessions with output; each stands here, or in `crowd`, once until it was flushed.
    pub dirty: Vec<SessionKey>,
    /// The same for sessions that got theirs with hundreds of others: these are not written to
    /// before the former.
    pub crowd: Vec<SessionKey>,
    /// Connections that nothing is to be read from before this time, because they publish faster
    /// than they may: what [`crate::Hub::receive`] left of their bytes comes again then.
    pub paused: Vec<(LinkId, Tick)>,
    /// Connections that nothing was read from because something they asked for had to be decided
    /// first ([`Effects::paused`] until [`Tick::NEVER`]): they go on now.
    pub resumed: Vec<LinkId>,
    /// Connections that have used their share of this turn, or wait for the next one: what
    /// [`crate::Hub::receive`] left of their bytes comes again then.
    pub yielded: Vec<LinkId>,
    /// Connections whose next packet needs other shards while the mesh has no room, or a journal in
    /// which much waits for room: what [`crate::Hub::receive`] left of their bytes comes again when
    /// there is some.
    pub awaiting_room: Vec<LinkId>,
    /// Connections to close.
    pub closing: Vec<Closing>,
    /// Messages for other shards, in order.
    pub mesh: Vec<(ShardId, MeshItem)>,
    /// Changes that other shards must know before they apply what any client sends next.
    pub control_items: Vec<(ShardId, ShardItem)>,
    /// Sessions that begin to get messages which newer ones may replace: what lies in their
    /// socket's buffer cannot be replaced, so it should be little.
    pub conflating: Vec<SessionKey>,
    /// What connected clients say to the authenticator.
    pub authentications: Vec<Authentication>,
    /// For the log.
    pub events: Vec<Event>,
}

impl Effects {
    /// Whether a session has output.
    #[must_use]
    pub const fn has_output(&self) -> bool {
        !self.dirty.is_empty() || !self.crowd.is_empty()
    }

    /// Whether there is something that does not wait for the end of the turn: for other shards, for
    /// connections that go on, for the authenticator.
    #[must_use]
    #[inline]
    pub const fn has_urgent(&self) -> bool {
        !self.mesh.is_empty()
            || !self.control_items.is_empty()
            || !self.resumed.is_empty()
            || !self.authentications.is_empty()
    }
}

/// What the store of backlogs is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolOrder {
    /// Keep messages that a session is owed. [`crate::spool::sealed`] has to follow.
    Seal {
        /// Which session.
        session: SessionKey,
        /// The number of the first message.
        first: u64,
        /// How many there are.
        count: u8,
        /// The messages: below 1 MiB.
        bytes: Vec<u8>,
    },
    /// Read them. [`crate::spool::fetched`] has to follow.
    Fetch {
        /// Which session.
        session: SessionKey,
        /// The number of the first message.
        first: u64,
        /// Where they are.
        place: ChunkPlace,
    },
    /// Nobody needs them any longer.
    Free(ChunkPlace),
}

/// A connection that the hub has disconnected: write the final output once, as far as the socket
/// takes it, then close.
#[derive(Debug)]
pub struct Closing {
    /// Which connection.
    pub link: LinkId,
    /// Why.
    pub reason: CloseReason,
    /// What was queued, with a DISCONNECT or CONNACK at its end where the protocol has one.
    pub final_output: Box<Output>,
}

/// What the log should tell.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client is connected.
    Connected {
        /// Its connection.
        link: LinkId,
        /// Its zone.
        zone: Zone,
        /// Its client id.
        client_id: Box<str>,
        /// Its user; `None` for anonymous.
        user: Option<Arc<str>>,
        /// What it speaks.
        version: Version,
        /// Whether it found its session.
        session_present: bool,
    },
    /// A connection has ended.
    Disconnected {
        /// Which one.
        link: LinkId,
        /// Its zone.
        zone: Zone,
        /// The client id of the session.
        client_id: Box<str>,
        /// Its user; `None` for anonymous.
        user: Option<Arc<str>>,
        /// How long it lasted.
        connected_secs: u64,
        /// Why.
        reason: CloseReason,
        /// The limit that it met, as the client was told.
        limit: Option<Box<str>>,
    },
    /// A session asked for something above a limit: told once for each connection and kind.
    AboveLimit {
        /// What was refused: `a subscription` or `a message`.
        what: &'static str,
        /// The client id of the session.
        client_id: Box<str>,
        /// Its user; `None` for anonymous.
        user: Option<Arc<str>>,
        /// The limit and its value.
        bound: Box<str>,
    },
    /// Messages that waited on the disk for a client are lost: nobody can read them.
    Unreadable {
        /// The client id of the session.
        client_id: Box<str>,
        /// The number of messages.
        messages: u64,
    },
    /// A session that waited for its client has expired.
    SessionExpired {
        /// The client id of the session.
        client_id: Box<str>,
    },
    /// A session that waited for its client has ended early: there are as many as there may be, or
    /// memory is short, and its user or address holds most.
    SessionEvicted {
        /// The client id of the session.
        client_id: Box<str>,
        /// Its user; `None` for anonymous.
        user: Option<Arc<str>>,
        /// Which limit: of sessions, or of memory.
        limit: Limit,
        /// Its value.
        most: u64,
        /// Messages that waited in it, and are lost.
        messages: u64,
    },
    /// A publish was refused by rights: told once for each client and topic.
    PublishDenied {
        /// The client id of the session.
        client_id: Box<str>,
        /// Its identity, and what it may do.
        identity: Arc<Identity>,
        /// The topic that it was for.
        topic: Box<str>,
    },
    /// A subscribe was refused by rights.
    SubscribeDenied {
        /// The client id of the session.
        client_id: Box<str>,
        /// Its identity, and what it may do.
        identity: Arc<Identity>,
        /// The filter that it asked for.
        filter: Box<str>,
    },
    /// Messages of a client are delivered, but not kept for late subscribers: the retained store
    /// has no room or cannot write, and nobody waits for an answer. Told once for each client and
    /// topic.
    NotKept {
        /// The client id of the publisher; empty for those of the server, wills, and clients of
        /// other shards.
        client_id: Box<str>,
        /// The topic.
        topic: Box<str>,
        /// Why.
        why: NotKept,
        /// The bound that was met, and its value.
        bound: Option<Box<str>>,
        /// What is wrong with the disk, if something is.
        trouble: Option<Box<str>>,
    },
    /// A message that its publisher waits for is refused, since the retained store has no room or
    /// cannot write.
    NotTaken {
        /// The client id of the publisher; empty for those of clients of other shards.
        client_id: Box<str>,
        /// The topic.
        topic: Box<str>,
        /// Why.
        why: NotKept,
        /// The bound that was met, and its value.
        bound: Option<Box<str>>,
        /// What is wrong with the disk, if something is.
        trouble: Option<Box<str>>,
    },
    /// Somebody used the authority of an administrator, or tried to: for the audit log.
    Administered {
        /// The administrator.
        identity: Arc<Identity>,
        /// What was done: the name of a command, or `publish.retained`.
        what: &'static str,
        /// The room or topic.
        target: Box<str>,
        /// The member of the room whom it is about.
        user: Option<Box<str>>,
        /// Why it was refused, if it was.
        refused: Option<Box<str>>,
    },
    /// A client begins to lose messages because it reads too slowly.
    Losing {
        /// Which one.
        client_id: Box<str>,
        /// The topic of the first message lost.
        topic: Box<str>,
        /// What was done: the name of the policy or limit.
        cause: &'static str,
        /// Which bound of its queue was met, if one was.
        full: Option<Full>,
    },
}

/// The bound of a queue that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// `limits.queue_messages`, and its value.
    Messages(usize),
    /// `limits.queue_bytes`, and its value.
    Bytes(usize),
    /// The quota of queued bytes of the client's roles, and its value.
    Quota(usize),
    /// Less may wait for each client, because memory is short.
    Memory,
    /// What a queue of the server may hold: messages and bytes.
    Queue(u32, u64),
}
