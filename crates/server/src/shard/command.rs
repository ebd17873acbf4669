//! What a shard's control queue carries.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use stentor_auth::Decision;
use stentor_hub::{
    Adaptors, AudiencePlace, ClientInfo, ControlItem, Delivering, FoundFilters, Granted, Heaviest,
    HeavyBy, HeavyPublisher, HeavyTopic, Holder, Identity, Kept, Listener, LostBy, NotKept, Part,
    QueuePlace, QueuedPart, RoomsAsk, RoomsTold, ZoneFigures,
};
use stentor_session::{CloseReason, ConnectRequest, Message, Tick};
use stentor_topic::{Walk, Zone};

use super::Policy;
use super::link::{LinkBytes, LinkKey};
use crate::admission::Permit;
use crate::call::Reply;
use crate::http::Errand;
use crate::inbox::Ticket;
use crate::listener::Port;
use crate::peer::Peer;
use crate::survey::{FilterRows, Rows};
use crate::telemetry::ShardReport;
use crate::trace::Trace;
use crate::transport::Transport;

/// Something rare for a shard: answers, arrivals, commands.
pub(crate) enum ShardCommand {
    /// For its hub, before anything that it reads afterwards.
    Hub(ControlItem),
    /// The state of something whose descriptor comes through the inbox.
    Incoming(Ticket, Incoming),
    /// The authenticator has decided.
    Login(LinkKey, Decision),
    /// Other limits and policies.
    Configure(Arc<Policy>),
    /// Adaptors judge from now on what is done, or none.
    Adaptors(Option<Arc<dyn Adaptors>>),
    /// Close this listener; its connections stay.
    Unlisten(Arc<Port>),
    /// These traces run from now on, and no others.
    Traces(Vec<Arc<Trace>>),
    /// The answer of a procedure to a call of a client here.
    Answer(Reply),
    /// Messages published by HTTP, whose topics this shard orders.
    Publish(Vec<Errand>),
    /// A question of the control plane.
    Inquiry(Inquiry),
    /// Close everything and end, at this time at the latest.
    Stop(Tick),
}

/// What travels: the state beside a descriptor.
pub(crate) enum Incoming {
    /// A connection whose home is the receiving shard.
    Connection(Box<Handover>),
    /// A listener that was opened on reload.
    Listener(Arc<Port>),
}

/// A connection on its way to another shard.
pub(crate) struct Handover {
    pub(crate) transport: Transport,
    /// Bytes that were read and not applied.
    pub(crate) unread: Vec<u8>,
    pub(crate) peer: Peer,
    pub(crate) port: Arc<Port>,
    pub(crate) permit: Option<Permit>,
    pub(crate) purpose: Purpose,
}

/// Why a connection travels.
pub(crate) enum Purpose {
    /// It was let in and this is its session's home.
    Connect(Box<ConnectRequest>, Arc<Identity>),
    /// It comes from the control socket, as administrator of a zone, before its CONNECT.
    Administrate(Zone),
}

/// A question of the control plane. The asker waits with a time limit; an answer that comes later
/// is dropped.
pub(crate) enum Inquiry {
    /// Counters, depths and latencies.
    Report(Sender<ShardReport>),
    /// The same without what takes a walk over subscriptions or losses.
    Figures(Sender<ShardReport>),
    /// A step of a survey, from a place on.
    Survey(u64, Survey),
    /// Something about one client id of a zone.
    Client {
        zone: Zone,
        client_id: String,
        about: AboutClient,
    },
    /// Those of some zones, by number, in which a client id has a session here.
    ZonesOf {
        client_id: String,
        zones: Range<u32>,
        answer: Sender<Vec<Zone>>,
    },
    /// A step of the end of a zone, from a place on: closes connections, and ends sessions and
    /// rooms. The answer is how many sessions it has ended.
    EndZone {
        zone: Zone,
        from: u64,
        answer: Sender<Part<u64>>,
    },
    /// Closes connections of those who are banned, from this place of the list on: how many there
    /// were, and where to go on.
    CloseBanned {
        from: usize,
        answer: Sender<(u64, Option<usize>)>,
    },
    /// Filters that match a topic, or what an earlier step has left of them.
    FiltersMatching(Topic, Option<Walk>, Sender<FoundFilters>),
    /// Some of those who subscribe to a filter that matches a topic.
    Audience(Listeners, Sender<Audience>),
    /// Keep messages whose topics this shard orders, each as received at a time in milliseconds
    /// since 1970, and send them to those who are subscribed.
    Keep {
        messages: Vec<Received>,
        answer: Sender<Vec<Result<Kept, NotKept>>>,
    },
    /// Publish a message of a user without a connection, or of the server's owner, whose topic
    /// this shard orders.
    Publish {
        message: Arc<Message>,
        user: Option<Arc<str>>,
        answer: Sender<Result<Option<Kept>, NotKept>>,
    },
    /// The topics that most is published to.
    HeaviestTopics(HeavyBy, Sender<Heaviest<HeavyTopic, HeavyPublisher>>),
    /// Those who publish most.
    HeaviestPublishers(HeavyBy, Sender<Heaviest<HeavyPublisher, HeavyTopic>>),
    /// A question about the rooms of a zone whose home is here, or an order to them.
    Rooms(Zone, RoomsAsk, Sender<RoomsTold>),
    /// Whether the shard is alive.
    Pulse(Sender<()>),
}

/// What is asked about a client, or done to it.
pub(crate) enum AboutClient {
    /// Its session, with some of its subscriptions from a number on.
    Shown {
        from: usize,
        answer: Sender<Option<Found>>,
    },
    /// What decides whether it gets a message of a topic, or may publish it; of its subscriptions,
    /// some from a number on are looked at.
    Why {
        topic: String,
        from: usize,
        answer: Sender<Option<Reasons>>,
    },
    /// Pieces of what waits for it, from a place on; `None` without a session.
    Queue {
        from: QueuePlace,
        at_most: usize,
        answer: Sender<Option<QueueSeen>>,
    },
    /// When and why the server has ended its last connection, while it remembers that.
    Departure(Sender<Option<(Tick, CloseReason)>>),
    /// Close its connection, and its session too if asked; answers whether it was connected, or
    /// `None` without a session.
    Kick {
        end_session: bool,
        answer: Sender<Option<bool>>,
    },
    /// Close its connection: its event stream holds too much memory.
    Cut(Sender<()>),
}

/// What a survey looks for, in steps over all places of a shard. A shard makes one step in a turn.
pub(crate) enum Survey {
    /// Sessions, in rows that come empty and with room.
    Clients {
        rows: Box<Rows>,
        answer: Sender<Part<Box<Rows>>>,
    },
    /// What there is of each zone.
    Zones(Sender<Part<Vec<(Zone, ZoneFigures)>>>),
    /// Subscribed filters, in rows as well.
    Filters {
        rows: Box<FilterRows>,
        answer: Sender<Part<Box<FilterRows>>>,
    },
    /// The sessions that hold most, at most this many of each step.
    Holders {
        at_most: usize,
        answer: Sender<Part<Vec<Holder>>>,
    },
    /// How many sessions would outlive their connections, and how many messages wait in them or are
    /// in flight.
    Left(Sender<Part<(u64, u64)>>),
}

/// A message, and when it was received, in milliseconds since 1970.
pub(super) type Received = (Arc<Message>, Option<u64>);

/// A topic that is asked about.
pub(crate) type Topic = (Zone, Arc<str>);

/// Which subscribers are asked for: of a filter that matches a topic, from a place on.
pub(crate) struct Listeners {
    pub(crate) topic: Topic,
    pub(crate) filter: Arc<str>,
    pub(crate) from: AudiencePlace,
    pub(crate) at_most: usize,
}

/// Some who subscribe to a filter, and where the next ones are.
pub(crate) type Audience = (Vec<Listener>, Option<AudiencePlace>);

/// A session, some of its subscriptions, and what it has lost.
pub(crate) struct Found {
    pub(crate) entry: ClientEntry,
    pub(crate) granted: Vec<Granted>,
    /// With which subscription to go on.
    pub(crate) next: Option<usize>,
    pub(crate) lost: Vec<LostBy>,
}

/// Some of what waits for a client.
pub(crate) struct QueueSeen {
    pub(crate) is_connected: bool,
    /// Where it begins.
    pub(crate) from: QueuePlace,
    pub(crate) part: QueuedPart,
    /// The time of the shard, and in milliseconds on the clock of what is on the disk.
    pub(crate) now: Tick,
    pub(crate) now_ms: u64,
}

/// What decides whether a client gets a message of a topic.
pub(crate) struct Reasons {
    pub(crate) entry: ClientEntry,
    pub(crate) delivering: Delivering,
    /// Those that match, of the subscriptions that were looked at.
    pub(crate) matching: Vec<Granted>,
    /// With which subscription to go on.
    pub(crate) next: Option<usize>,
}

/// A session as a shard sees it.
pub(crate) struct ClientEntry {
    /// For how many seconds its client has been away; `None` while it is connected.
    pub(crate) away_secs: Option<u64>,
    /// What the hub knows.
    pub(crate) info: ClientInfo,
    /// Where its connection comes from, and through which listener.
    pub(crate) origin: Option<(Peer, String)>,
    /// What has gone over its connection.
    pub(crate) bytes: LinkBytes,
}

/// A descriptor with what it is for.
pub(super) type Arrived = (Incoming, OwnedFd);
