//! What an administrator may see of the sessions.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::Version;
use stentor_session::owed::counts;
use stentor_session::{CloseReason, Outbound, Tick};
use stentor_topic::Zone;

use crate::core::Core;
use crate::core::delivery::snapshot::Snapshots;
use crate::core::ids::{LinkId, SessionKey};
use crate::core::inbound::subscribe::room_of;
use crate::core::memory::Account;
use crate::core::sessions::limits;
use crate::core::sessions::registry::{Flushing, Link, Messages, Session};
use crate::core::sessions::rights::Rights;
use crate::core::sessions::tally::{LostBy, PauseCause, Tallies, Tally};
use crate::core::settings::TopicPolicy;
use crate::core::stats::ZoneTraffic;

/// A session as `stentor clients` shows it, with names of its own or borrowed ones.
#[derive(Clone, Debug)]
pub struct ClientInfo<I = Box<str>, U = Arc<str>> {
    /// Its zone.
    pub zone: Zone,
    /// Its client id.
    pub client_id: I,
    /// Its user; `None` for anonymous.
    pub user: Option<U>,
    /// Whether it is the session of a queue, which no client has.
    pub is_queue: bool,
    /// Its connection, if it has one.
    pub connection: Option<ConnectionInfo>,
    /// Since when it has none, if it has none: see [`crate::survey::clock_ms`].
    pub away_since_ms: Option<u64>,
    /// When it ends if its client stays away; [`Tick::NEVER`] for never, and while it is connected.
    pub ends_at: Tick,
    /// Seconds that it outlives its connection; `u32::MAX`: for ever.
    pub expiry_secs: u32,
    /// How many subscriptions it has.
    pub subscriptions: usize,
    /// Messages in flight to it.
    pub in_flight: usize,
    /// Messages that wait for it, in memory and on the disk: those in flight do not.
    pub waiting: usize,
    /// Bytes of memory that it makes the server hold, as it is charged with them.
    pub held_bytes: u64,
    /// How many of them are for retained messages that it still has to be sent: its subscriptions,
    /// and the topics up to which some of them have come.
    pub snapshot_bytes: usize,
    /// What has happened to it that happens to few.
    pub tally: Tally,
}

impl ClientInfo {
    /// The same with borrowed names.
    #[must_use]
    pub fn borrowed(&self) -> ClientInfo<&str, &str> {
        ClientInfo {
            zone: self.zone,
            client_id: &self.client_id,
            user: self.user.as_deref(),
            is_queue: self.is_queue,
            connection: self.connection,
            away_since_ms: self.away_since_ms,
            ends_at: self.ends_at,
            expiry_secs: self.expiry_secs,
            subscriptions: self.subscriptions,
            in_flight: self.in_flight,
            waiting: self.waiting,
            held_bytes: self.held_bytes,
            snapshot_bytes: self.snapshot_bytes,
            tally: self.tally,
        }
    }
}

/// A session that somebody looks at in passing.
#[derive(Clone, Debug)]
pub struct SeenClient<'s> {
    /// Its key.
    pub key: SessionKey,
    /// Its connection, if it has one.
    pub link: Option<LinkId>,
    /// What there is to see.
    pub info: ClientInfo<&'s str, &'s str>,
}

/// What decides whether a session gets a message of a topic, besides its subscriptions.
#[derive(Clone)]
pub struct Delivering {
    /// What it may do.
    pub rights: Arc<dyn Rights>,
    /// Whether each delivery is checked, because a part of its subscriptions is not permitted.
    pub is_filtered: bool,
    /// The limit that the topic is above: nobody gets it.
    pub above_limit: Option<String>,
    /// The policy of the topic; `None`: none matches.
    pub policy: Option<TopicPolicy>,
    /// Messages of this topic that it has lost, where they are counted by topic.
    pub lost: u64,
    /// Bytes that wait for it, as they are charged, and how many may.
    pub queued_bytes: (usize, usize),
    /// Whether less may wait than is configured, because memory is short.
    pub is_tightened: bool,
    /// Messages that wait for it, and how many may.
    pub queued_messages: (usize, usize),
    /// How many messages may be in flight to its client, and how many the settings allow; `None`
    /// without a connection.
    pub window: Option<(u16, u16)>,
    /// The largest packet that its client takes, in bytes, if it has said one.
    pub packet_bytes_max: Option<u32>,
    /// Whether a message of this topic waits that a newer one would replace.
    pub holds_topic: bool,
    /// Whether its connection has a subscription below the room of this topic; `None` if the topic
    /// is of no room.
    pub is_in_room: Option<bool>,
}

impl core::fmt::Debug for Delivering {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Delivering")
            .field("is_filtered", &self.is_filtered)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// What there is of a zone on one shard; rooms and users stand at its home only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneFigures {
    /// Sessions.
    pub sessions: u64,
    /// Those of them that have a connection.
    pub connections: u64,
    /// Their subscriptions.
    pub subscriptions: u64,
    /// Rooms.
    pub rooms: u64,
    /// Places taken in all rooms.
    pub members: u64,
    /// Bytes of their properties and of what they keep of what was said.
    pub room_bytes: u64,
    /// Bytes that its sessions are charged with.
    pub session_bytes: u64,
    /// Users with a name who are connected.
    pub users: u64,
    /// Messages that its clients have sent and were sent.
    pub traffic: ZoneTraffic,
}

/// The connection of a session.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionInfo {
    /// What it speaks.
    pub version: Version,
    /// Seconds; 0 for none.
    pub keep_alive_secs: u16,
    /// When it began.
    pub since: Tick,
    /// When its last packet arrived.
    pub last_seen: Tick,
    /// The messages that have come and gone.
    pub messages: Messages,
    /// Bytes that wait for its socket.
    pub queued_bytes: usize,
    /// Whether its socket is full.
    pub is_blocked: bool,
    /// The time until which nothing is or was read from it, and the cause.
    pub paused_until: Option<(Tick, PauseCause)>,
}

/// The client id of a session that exists.
pub(crate) fn client_id(core: &Core, key: SessionKey) -> Option<&str> {
    core.sessions
        .get(key)
        .map(|session| session.state.client_id())
}

/// The connection that a session has, by its client id: the one that is taken over when its
/// client connects again.
pub(crate) fn link(core: &Core, zone: Zone, client_id: &str) -> Option<LinkId> {
    let key = core.sessions.connected(zone, client_id)?;
    Some(core.sessions.get(key)?.live()?.link)
}

/// What there is to see of a session, by its client id.
pub(crate) fn client(core: &Core, zone: Zone, client_id: &str) -> Option<ClientInfo> {
    let key = session_of(core, zone, client_id)?;
    core.sessions.get(key).map(info)
}

/// When and why the server has ended the last connection of a client, while it remembers that.
pub(crate) fn departure(core: &Core, zone: Zone, client_id: &str) -> Option<(Tick, CloseReason)> {
    core.past.departures.of(zone, client_id)
}

/// What decides whether a session gets a message of a topic. As quick as finding its policy.
pub(crate) fn delivering(core: &Core, key: SessionKey, topic: &str) -> Option<Delivering> {
    let session = core.sessions.get(key)?;
    let charge = session.charge();
    let live = session.live();
    let packet_bytes_max = live.map(|live| live.packet_bytes_max);
    let messages_max = core.rules.settings.queue_messages_max;
    let of_queue = session.state.queue().map(|queue| queue.messages as usize);
    Some(Delivering {
        rights: Arc::clone(&session.state.identity().rights),
        is_filtered: session.state.subscriptions.are_filtered(),
        above_limit: limits::topic(&core.rules.settings, topic),
        policy: core.rules.settings.policy(topic).cloned(),
        lost: core.counters.losses.of(session.state.client_id(), topic),
        queued_bytes: (
            charge.bytes,
            session.state.queue_bytes_max(&core.rules.settings),
        ),
        is_tightened: core.rules.settings.is_tightened(),
        queued_messages: (charge.messages, of_queue.unwrap_or(messages_max)),
        window: live.map(|live| (live.window, core.rules.settings.in_flight_max)),
        packet_bytes_max: packet_bytes_max.filter(|max| *max < u32::MAX),
        holds_topic: session.holds_back(topic),
        is_in_room: room_of(topic).map(|room| live.is_some_and(|live| live.is_in_room(room))),
    })
}

/// The session of a client id: of several users, the one that is connected.
pub(crate) fn session_of(core: &Core, zone: Zone, client_id: &str) -> Option<SessionKey> {
    core.sessions.main(zone, client_id)
}

/// What a session has lost, by cause.
pub(crate) fn losses_of(core: &Core, key: SessionKey) -> Vec<LostBy> {
    let tallies = core.sessions.get(key).and_then(Session::tallied);
    tallies.into_iter().flat_map(Tallies::losses).collect()
}

/// See [`crate::survey::clock_ms`].
pub(crate) fn clock_ms(core: &Core, now: Tick) -> u64 {
    core.pending.log.ms(now)
}

/// What there is to see of a session.
pub(super) fn info(session: &Session) -> ClientInfo {
    let user = session.state.identity().user.clone();
    info_with(session, session.state.client_id().into(), user)
}

/// A session in passing: nothing is copied.
pub(super) fn seen(key: SessionKey, session: &Session) -> SeenClient<'_> {
    let user = session.state.identity().user.as_deref();
    SeenClient {
        key,
        link: session.live().map(|live| live.link),
        info: info_with(session, session.state.client_id(), user),
    }
}

fn info_with<I, U>(session: &Session, client_id: I, user: Option<U>) -> ClientInfo<I, U> {
    let connection = match &session.link {
        Link::Away(_) => None,
        Link::Live(live) => Some(ConnectionInfo {
            version: live.version,
            keep_alive_secs: live.keep_alive_secs,
            since: live.since,
            last_seen: live.last_seen,
            messages: live.messages,
            queued_bytes: live.queued_bytes(),
            is_blocked: live.flushing == Flushing::Blocked,
            paused_until: live.paused_until(Tick::ZERO),
        }),
    };
    let away = match &session.link {
        Link::Away(away) => Some((away.since_ms, away.absence.until)),
        Link::Live(_) => None,
    };
    ClientInfo {
        zone: session.state.zone(),
        client_id,
        user,
        is_queue: session.state.queue().is_some(),
        connection,
        away_since_ms: away.map(|(since_ms, _)| since_ms),
        ends_at: away.map_or(Tick::NEVER, |(_, until)| until),
        expiry_secs: session.state.expiry_secs(),
        subscriptions: session.state.subscriptions.len(),
        in_flight: session.state.owed.get().map_or(0, Outbound::in_flight_len),
        waiting: session.charge().messages + on_the_disk(session),
        held_bytes: Account::of(session).bytes(),
        snapshot_bytes: session.snapshots().map_or(0, Snapshots::bytes),
        tally: session.tallied().map(Tallies::shown).unwrap_or_default(),
    }
}

/// How many of its messages wait on the disk, or on their way there.
fn on_the_disk(session: &Session) -> usize {
    let owed = session.state.owed.get();
    owed.map_or(0, |owed| counts(owed).on_the_disk)
}
