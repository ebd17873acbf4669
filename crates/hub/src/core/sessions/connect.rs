//! A login that was accepted becomes a connected session.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{ConnAck, Packet, Properties, Property, PropertyBuf, ReasonCode, Version};
use stentor_session::{CloseReason, ConnectRequest, Denied, Local, SentAliases, Tick, Violation};

use crate::core::delivery::conflate::release;
use crate::core::delivery::{pump, snapshot};
use crate::core::ids::{LinkId, SessionKey, ShardId, home_shard};
use crate::core::inbound::publish::may_publish;
use crate::core::inbound::subscribe::Element;
use crate::core::memory::{Lease, Room, Tenants, evict};
use crate::core::routing::share::ask_queues_first;
use crate::core::routing::{batch, share};
use crate::core::sessions::authenticate::Method;
use crate::core::sessions::ending::set_expiry;
use crate::core::sessions::log::forget_will;
use crate::core::sessions::queue_member::stays_for_queue;
use crate::core::sessions::quota::ConnectionQuota;
use crate::core::sessions::registry::{
    Announced, Flushing, Link, Live, Messages, Session, Sessions, mark_of,
};
use crate::core::sessions::rights::Identity;
use crate::core::sessions::state::SessionState;
use crate::core::sessions::{client_id, debts, ending, lifecycle, permission};
use crate::core::{Core, Rules, Timer};
use crate::effects::Event;
use crate::items::MeshItem;

/// The highest topic alias that the server uses towards a client that allows them.
const SENT_ALIAS_MAXIMUM: u16 = 16;

/// A client that may connect.
#[derive(Debug)]
pub struct Admitted {
    pub(crate) identity: Arc<Identity>,
    pub(crate) quota: ConnectionQuota,
    pub(crate) room: Room,
}

/// A client on its way to its session.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) link: LinkId,
    pub(crate) request: ConnectRequest,
    pub(crate) identity: Arc<Identity>,
    pub(crate) quota: ConnectionQuota,
    pub(crate) lease: Option<Lease>,
    /// Whether its client id is one that the server has made up.
    pub(crate) assigned: bool,
    /// Whether it goes on with a session.
    pub(crate) session_present: bool,
}

/// Of somebody whose connections are not counted.
impl From<Arc<Identity>> for Admitted {
    fn from(identity: Arc<Identity>) -> Self {
        let (quota, room) = (ConnectionQuota::default(), Room::default());
        Self {
            identity,
            quota,
            room,
        }
    }
}

impl Sessions {
    pub(crate) fn own_session(&self, identity: &Identity, client_id: &str) -> Option<&Session> {
        let (zone, user) = (identity.zone, identity.user.as_deref());
        self.get(self.find(zone, client_id, user)?)
    }

    /// The identity that a guest has already who goes on with its session: every login of a guest
    /// gives a new name. Guests have nothing to prove who they are, so it is the one who knows the
    /// client id and comes from the same address, or who knows an id that this server has made up.
    fn returning(&self, request: &ConnectRequest, new: &Identity) -> Option<Arc<Identity>> {
        if request.clean_start || new.guest.is_none() {
            return None;
        }
        let client_id = &request.client_id;
        let is_it = |(_, session): &(_, &Session)| match session.state.identity().guest {
            None => false,
            mark => mark == new.guest || is_assigned(client_id),
        };
        let all = self.all(new.zone, client_id).filter(is_it);
        // There may be several after a change of the address; a name is not given twice.
        let (_, session) = all.max_by_key(|(key, _)| key.generation)?;
        Some(Arc::clone(session.state.identity()))
    }
}

impl Rules {
    /// Whether a keep alive is within the maximum; 0 is none at all.
    fn takes_keep_alive(&self, secs: u16) -> bool {
        let max = self.settings.keep_alive_max_secs;
        max == 0 || (secs > 0 && secs <= max)
    }

    fn expiry_secs(&self, request: &ConnectRequest) -> u32 {
        let max = self.settings.session_expiry_max_secs;
        request.session_expiry_secs.min(max)
    }

    fn announced(&self, version: Version) -> Announced {
        let settings = &self.settings;
        let (receive_maximum, topic_alias_maximum) = if version.is_v5() {
            (settings.receive_maximum, settings.topic_alias_maximum)
        } else {
            (u16::MAX, 0)
        };
        Announced {
            packet_bytes_max: settings.packet_bytes_max,
            receive_maximum,
            topic_alias_maximum,
        }
    }
}

/// Whether a client may have the session that it asks for: there is room for it, its user and
/// zone have a place left, and its will is permitted. To be asked right before
/// [`crate::Hub::connect`], whose argument it returns: the identity as the latest changes of rights
/// have it, and the places taken.
///
/// # Errors
/// Why the client has to be refused.
pub(crate) fn admit(
    core: &Core,
    request: &ConnectRequest,
    identity: Arc<Identity>,
) -> Result<Admitted, CloseReason> {
    admit_as(core, request, identity, None)
}

/// [`admit`] of somebody whose sessions are counted.
///
/// # Errors
/// Why the client has to be refused.
pub(crate) fn admit_as(
    core: &Core,
    request: &ConnectRequest,
    identity: Arc<Identity>,
    tenants: Option<&Tenants>,
) -> Result<Admitted, CloseReason> {
    if !request.version.is_v5() && !core.rules.takes_keep_alive(request.keep_alive_secs) {
        return Err(CloseReason::Denied(Denied::KeepAlive));
    }
    let client_id = &request.client_id;
    let identity = core
        .sessions
        .returning(request, &identity)
        .unwrap_or(identity);
    let Some(identity) = core.rights.renewals.refresh(identity, client_id) else {
        return Err(CloseReason::Denied(Denied::Banned));
    };
    let will = request.will.as_ref();
    if will.is_some_and(|will| !core.rules.settings.takes_topic(&will.topic)) {
        return Err(CloseReason::Violation(Violation::TopicName));
    }
    if will.is_some_and(|will| !may_publish(&identity, &will.topic)) {
        return Err(CloseReason::Denied(Denied::Right));
    }
    client_id::may_be_called(core, client_id, &identity)?;
    let room = evict::room_for(core, request, &identity, tenants)?;
    let present = core.sessions.own_session(&identity, client_id);
    let takes_over = present.is_some_and(|own| own.live().is_some());
    let quota =
        ConnectionQuota::take(&identity.rights.needs(), takes_over).map_err(CloseReason::Limit)?;
    Ok(Admitted {
        identity,
        quota,
        room,
    })
}

/// Gives a client that has no client id one.
pub(crate) fn name_client(core: &Core, request: &mut ConnectRequest, identity: &Identity) -> bool {
    let assigned = request.client_id.is_empty();
    if assigned {
        request.client_id = assign_client_id(core, identity);
    }
    debug_assert!(
        home_shard(
            &core.place.hasher,
            identity.zone,
            &request.client_id,
            core.place.shards
        ) == core.place.shard,
        "a connection must go to its client id's home"
    );
    assigned
}

/// The session of a connection: the one that was there, or a new one. Its connection is none
/// yet: [`attach`] gives it.
pub(crate) fn open_session(
    core: &mut Core,
    now: Tick,
    opening: &Opening,
    present: Option<SessionKey>,
) -> SessionKey {
    let (request, identity) = (&opening.request, &opening.identity);
    let key = present.unwrap_or_else(|| {
        let expiry_secs = core.rules.expiry_secs(request);
        let state = SessionState::new(Arc::clone(identity), &request.client_id, expiry_secs);
        core.sessions.insert(Session::new(state))
    });
    if present.is_none() {
        lifecycle::end_oldest_namesake(core, now, key);
    }
    core.counters.stats.connects += 1;
    core.counters.stats.connected += 1;
    tell_connected(core, opening.link, request, identity, present.is_some());
    permission::adopt(core, now, key, Arc::clone(identity));
    key
}

/// Gives a session its connection, and queues CONNACK. Returns what it was subscribed to in
/// rooms; `None` if the client does not take a packet of the size of CONNACK.
pub(crate) fn attach(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    mut opening: Opening,
) -> Option<Vec<Element>> {
    let mut live = live(core, now, opening.link, &opening.request);
    let debt = debts::debt_of(core, opening.identity.zone, &opening.request.client_id);
    live.take_on(now, opening.quota, debt);
    core.sessions.came_back(key);
    if let Some(lease) = opening.lease {
        core.sessions.let_to(key, lease);
    }
    let mut rooms = Vec::new();
    if let Some(session) = core.sessions.get_mut(key) {
        let log = &mut core.pending.log;
        session.state.attached(opening.request.will.take(), log);
        rooms = session.attach(live);
        session.apply_quotas();
    }
    let expiry_secs = core.rules.expiry_secs(&opening.request);
    // What it is owed stays its own while it is connected, also if it ends then.
    if expiry_secs == 0 {
        stays_for_queue(core, key);
    }
    let log = &mut core.pending.log;
    core.sessions.set_expiry(key, expiry_secs, log);
    if let Some(mark) = mark_of(&core.sessions, key)
        && let Some(number) = core.sessions.get(key).and_then(|it| it.state.number())
    {
        number.counts_for(&mut core.pending.log, mark);
    }
    watch(core, now, key);
    let (assigned, present) = (opening.assigned, opening.session_present);
    let is_told = acknowledge_connect(core, key, &opening.request, assigned, present);
    is_told.then_some(rooms)
}

fn tell_connected(
    core: &mut Core,
    link: LinkId,
    request: &ConnectRequest,
    identity: &Identity,
    session_present: bool,
) {
    core.effects.events.push(Event::Connected {
        link,
        zone: identity.zone,
        client_id: request.client_id.as_str().into(),
        user: identity.user.clone(),
        version: request.version,
        session_present,
    });
}

/// Where only a user's newest connection stays, closes the one before, on whatever shard.
pub(crate) fn claim(core: &mut Core, now: Tick, key: SessionKey) {
    let Some(claim) = claim_of(core, key) else {
        return;
    };
    let live = core.sessions.get_mut(key).and_then(Session::live_mut);
    let extras = live.and_then(|live| live.extras.as_mut());
    if let Some(before) = extras.and_then(|extras| extras.quota.claim(claim)) {
        replaced(core, now, before);
    }
}

/// A connection that is there already belongs to a user of whom only the newest is to stay from
/// now on: it stays until there is a newer one.
pub(in crate::core) fn line_up(core: &mut Core, key: SessionKey) {
    let Some(claim) = claim_of(core, key) else {
        return;
    };
    let live = core.sessions.get_mut(key).and_then(Session::live_mut);
    if let Some(extras) = live.and_then(|live| live.extras.as_mut()) {
        extras.quota.line_up(claim);
    }
}

/// The number by which the present connection of a session is known to all shards; `None` for
/// a slot that has no room in it.
fn claim_of(core: &Core, key: SessionKey) -> Option<u64> {
    let slot = u64::from(key.slot);
    // A number of connections that wraps around meets none of those that are left.
    let serial = core.counters.stats.connects & u64::from(u32::MAX);
    (slot < 1 << 24).then_some(u64::from(core.place.shard.0) << 56 | slot << 32 | serial.max(1))
}

/// A newer connection of its user takes the place of one, on whatever shard that is, and of
/// those that end with it.
pub(crate) fn replaced(core: &mut Core, now: Tick, claim: u64) {
    let mut next = Some(claim);
    while let Some(claim) = next {
        let shard = ShardId((claim >> 56) as u8);
        if shard != core.place.shard {
            let item = MeshItem::Replaced { claim };
            core.effects.mesh.push((shard, item));
            return;
        }
        next = replaced_here(core, now, claim);
    }
}

/// Returns the claim of the connection that ends with it.
fn replaced_here(core: &mut Core, now: Tick, claim: u64) -> Option<u64> {
    let slot = (claim >> 32) as u32 & ((1 << 24) - 1);
    let key = core.sessions.key(slot)?;
    let live = core.sessions.get(key).and_then(Session::live)?;
    let extras = live.extras.as_ref();
    let quota = &extras.filter(|extras| extras.quota.has_claim(claim))?.quota;
    let older = quota.older();
    batch::settle(core, now);
    lifecycle::close(core, now, key, CloseReason::Local(Local::Replaced));
    older
}

fn live(core: &Core, now: Tick, link: LinkId, request: &ConnectRequest) -> Live {
    let keep_alive_secs = if core.rules.takes_keep_alive(request.keep_alive_secs) {
        request.keep_alive_secs
    } else {
        core.rules.settings.keep_alive_max_secs
    };
    let mut live = Live {
        link,
        version: request.version,
        flushing: Flushing::Idle,
        keep_alive_secs,
        window: request
            .receive_maximum
            .min(core.rules.settings.in_flight_max)
            .max(1),
        next_packet_id: 1,
        packet_bytes_max: request.packet_bytes_max,
        announced: core.rules.announced(request.version),
        since: now,
        last_seen: now,
        messages: Messages::default(),
        output: None,
        extras: None,
    };
    if !request.request_problem_information {
        live.extras().terse = true;
    }
    if request.bridge {
        live.extras().bridge = true;
    }
    if let Some(method) = &request.authentication_method {
        live.extras().method = Some(Method::new(method));
    }
    let aliases = request.topic_alias_maximum.min(SENT_ALIAS_MAXIMUM);
    if aliases > 0 {
        let packet_bytes_max = live.packet_bytes_max as usize;
        live.extras().sent_aliases = Some(SentAliases::new(aliases, packet_bytes_max));
    }
    live
}

/// Ends or keeps what the client id had before: one connection, and a session for each user.
/// Returns the session to go on with.
pub(crate) fn settle_predecessor(
    core: &mut Core,
    now: Tick,
    request: &ConnectRequest,
    identity: &Identity,
) -> Option<SessionKey> {
    let (zone, client_id) = (identity.zone, &request.client_id);
    let own = core
        .sessions
        .find(zone, client_id, identity.user.as_deref());
    // A will that has survived a restart is not to be published: its client is back.
    let own = own.filter(|own| !forget_will(core, now, *own));
    if let Some(own) = own.filter(|_| request.clean_start) {
        set_expiry(core, own, 0);
    }
    if let Some(connected) = core.sessions.connected(zone, client_id) {
        // A session that was not to outlive its connection ends here [MQTT-3.1.2-23]. The
        // session of another user goes on without it: its messages do not belong to the
        // newcomer, who may not destroy them either.
        lifecycle::close(core, now, connected, CloseReason::Local(Local::TakenOver));
    }
    let own = own?;
    if request.clean_start {
        ending::end(core, now, own);
        return None;
    }
    core.sessions.get(own).map(|_| own)
}

/// Queues CONNACK; `false` if the client does not take a packet of its size.
fn acknowledge_connect(
    core: &mut Core,
    key: SessionKey,
    request: &ConnectRequest,
    assigned: bool,
    session_present: bool,
) -> bool {
    let mut properties = PropertyBuf::new();
    let Some(session) = core.sessions.get_mut(key) else {
        return true;
    };
    let state = &session.state;
    let Link::Live(live) = &mut session.link else {
        return true;
    };
    if request.version.is_v5() {
        let settings = &core.rules.settings;
        if state.expiry_secs() != request.session_expiry_secs {
            properties.push(Property::SessionExpiryInterval(state.expiry_secs()));
        }
        let announced = live.announced;
        if announced.receive_maximum != u16::MAX {
            properties.push(Property::ReceiveMaximum(announced.receive_maximum));
        }
        properties.push(Property::MaximumPacketSize(announced.packet_bytes_max));
        if assigned {
            properties.push(Property::AssignedClientIdentifier(state.client_id()));
        }
        if announced.topic_alias_maximum > 0 {
            properties.push(Property::TopicAliasMaximum(announced.topic_alias_maximum));
        }
        if live.keep_alive_secs != request.keep_alive_secs {
            properties.push(Property::ServerKeepAlive(live.keep_alive_secs));
        }
        // Only clients that came by a method get its name [MQTT-4.12.0-5],
        // [MQTT-4.12.0-6].
        // A client that chose another name, or none, gets the one that it has.
        let said = request.username.as_deref().unwrap_or_default();
        if let Some(user) = state.user().filter(|user| !names(said, user)) {
            properties.push(Property::UserProperty(("user", user)));
        }
        if let Some(method) = &request.authentication_method {
            properties.push(Property::AuthenticationMethod(method));
            if let Some(data) = &request.authentication_data {
                properties.push(Property::AuthenticationData(data));
            }
        }
        if let (true, Some(information)) = (
            request.request_response_information,
            &settings.response_information,
        ) {
            properties.push(Property::ResponseInformation(information));
        }
    }
    let packet = Packet::ConnAck(ConnAck {
        session_present,
        reason: ReasonCode::Success,
        properties: if request.version.is_v5() {
            properties.as_properties()
        } else {
            Properties::EMPTY
        },
    });
    core.outbox.packet(key, live, &packet)
}

/// Goes on where the session's last connection ended.
pub(crate) fn resume(core: &mut Core, now: Tick, key: SessionKey) {
    pump::begin(core, now, key);
    release::begin(core, now, key);
    if core.sessions.get(key).is_none() {
        return;
    }
    for slot in core.routing.shares.of_member(key.slot) {
        share::member_changed(core, slot, key.slot, true);
    }
    snapshot::go_on(core, now, key);
    ask_queues_first(core, now, key);
}

/// Starts watching the keep-alive of a connection, and the end of what its client has logged
/// in with: one timer for both.
pub(in crate::core) fn watch(core: &mut Core, now: Tick, key: SessionKey) {
    if let Some(session) = core.sessions.get(key)
        && let Some(live) = session.live()
    {
        let silence = keep_alive_deadline(live.last_seen, live.keep_alive_secs);
        let deadline = silence.min(session.state.identity().expires_at);
        let timer = Timer {
            session: key,
            epoch: session.epoch,
        };
        if deadline != Tick::NEVER {
            core.clock.arm(now, deadline, timer);
        }
    }
}

/// A client id that nobody has and whose home is this shard.
fn assign_client_id(core: &Core, identity: &Identity) -> String {
    loop {
        // A client that knows it may continue a guest's session, so it must be as hard to guess
        // as a key, and must tell nothing about the secrets of the index.
        let id = format!("{ASSIGNED}{:032x}", (core.place.random)());
        if home_shard(&core.place.hasher, identity.zone, &id, core.place.shards) == core.place.shard
            && core.sessions.main(identity.zone, &id).is_none()
        {
            return id;
        }
    }
}

/// How the client ids begin that the server makes up.
const ASSIGNED: &str = "auto-";

/// Whether a client id looks like one that nobody can guess.
pub(crate) fn is_assigned(client_id: &str) -> bool {
    let random = client_id.strip_prefix(ASSIGNED);
    random.is_some_and(|random| random.len() == 32)
}

/// Whether a login name names this user, with a zone or without.
fn names(login: &str, user: &str) -> bool {
    let without_zone = login.split_once('/').map(|(_, name)| name);
    login == user || without_zone == Some(user)
}

/// One and a half times the keep-alive time after the last packet [MQTT-3.1.2-22]; never without a
/// keep-alive.
pub(crate) fn keep_alive_deadline(last_seen: Tick, keep_alive_secs: u16) -> Tick {
    if keep_alive_secs == 0 {
        return Tick::NEVER;
    }
    let micros = u64::from(keep_alive_secs) * 1_500_000;
    Tick::from_micros(last_seen.as_micros() + micros)
}
