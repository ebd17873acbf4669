//! Several hubs, their mesh and their clients on a virtual clock: no socket, no thread, no time
//! but the test's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "a module of a test binary")]
#![allow(dead_code, reason = "each test uses the part that it needs")]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use stentor_hub::{
    Access, Adaptors, Admitted, Callees, ControlItem, Cursor, Event, Hub, Identity, InterestTable,
    LinkId, MeshItem, Retained, Rights, SessionKey, Settings, ShardId, Shared, Walk, home_shard,
};
use stentor_mqtt::{
    Ack, Connect, Packet, PacketId, Properties, PropertyBuf, Publish, QoS, ReasonCode, Sender,
    Subscribe, SubscribeFilterBuf, SubscribeOptions, Unsubscribe, UnsubscribeFilterBuf, Version,
    Will, decode, encode, frame,
};
use stentor_retained::{Bounds, MemoryStore};
use stentor_session::{
    Batch, CloseReason, ConnectRequest, Flush, MessageParts, Publisher, Remote, Tick,
};
use stentor_topic::{TopicHasher, Zone};

/// Everything is allowed but what begins so.
pub struct TestRights(Vec<String>);

impl TestRights {
    pub fn denying(prefixes: &[&str]) -> Arc<dyn Rights> {
        Arc::new(Self(prefixes.iter().map(ToString::to_string).collect()))
    }

    fn denies(&self, topic: &str) -> bool {
        self.0.iter().any(|prefix| topic.starts_with(prefix))
    }
}

impl Rights for TestRights {
    fn may_publish(&self, topic: &str) -> bool {
        !self.denies(topic)
    }
    fn may_subscribe(&self, filter: &str) -> Access {
        let literal = stentor_topic::literal_prefix(filter);
        let reaches = |prefix: &String| prefix.starts_with(literal);
        if self.denies(filter) {
            Access::Nothing
        } else if literal != filter && self.0.iter().any(reaches) {
            Access::Part
        } else {
            Access::All
        }
    }
    fn may_receive(&self, topic: &str) -> bool {
        !self.denies(topic)
    }
}

pub struct World {
    pub hubs: Vec<Hub>,
    pub now: Tick,
    pub hasher: TopicHasher,
    retained: Arc<dyn Retained>,
    /// Items under way, by receiving and sending shard: first in, first out for each pair.
    mesh: HashMap<(u8, u8), VecDeque<MeshItem>>,
    pub links: HashMap<(u8, u32), usize>,
    /// The newest client of each session.
    by_key: HashMap<(u8, SessionKey), usize>,
    pub clients: Vec<Client>,
    next_link: u32,
    pub events: Vec<Event>,
    /// Nothing moves by itself: the test delivers and flushes in the order that it likes.
    pub paused: bool,
}

/// A client as the test sees it.
pub struct Client {
    pub version: Version,
    pub shard: u8,
    pub link: Option<LinkId>,
    pub key: Option<SessionKey>,
    /// Bytes that its socket still takes; tests lower it to play a slow reader.
    pub socket_room: usize,
    input: Vec<u8>,
    /// Whole packets, as their bytes.
    pub received: VecDeque<Vec<u8>>,
    pub closed: Option<CloseReason>,
}

/// What a client received, owned.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Message {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: QoS,
    pub retain: bool,
    pub dup: bool,
    pub packet_id: Option<PacketId>,
    pub expiry: Option<u32>,
    pub ids: Vec<u32>,
}

#[derive(Clone, Debug)]
pub struct ConnectOptions<'a> {
    pub clean_start: bool,
    pub expiry_secs: u32,
    pub keep_alive_secs: u16,
    pub receive_maximum: u16,
    pub alias_maximum: u16,
    pub packet_bytes_max: u32,
    pub will: Option<(&'a str, &'a str, u32)>,
    pub will_retain: bool,
    pub will_user_properties: &'a [(&'a str, &'a str)],
    pub response_information: bool,
    pub user: Option<&'a str>,
    pub bridge: bool,
    /// The enhanced authentication method that let the client in.
    pub method: Option<&'a str>,
    pub expires_at: Tick,
    /// The beginnings of topics that it may neither publish nor receive.
    pub denied: &'a [&'a str],
}

impl Default for ConnectOptions<'_> {
    fn default() -> Self {
        Self {
            clean_start: true,
            expiry_secs: 0,
            keep_alive_secs: 0,
            receive_maximum: 65_535,
            alias_maximum: 0,
            packet_bytes_max: 0,
            will: None,
            will_retain: false,
            will_user_properties: &[],
            response_information: false,
            user: None,
            bridge: false,
            method: None,
            expires_at: Tick::NEVER,
            denied: &["secret/"],
        }
    }
}

/// A small generator: reproducible, and good enough to stumble about.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a>(&mut self, from: &[&'a [u8]]) -> &'a [u8] {
        from[self.below(from.len())]
    }
}

/// A connection without a session that outlives it, and with nothing special.
pub fn clean() -> ConnectOptions<'static> {
    ConnectOptions::default()
}

/// A subscription with this QoS, and nothing special.
pub fn qos(qos: QoS) -> SubscribeOptions {
    SubscribeOptions {
        qos,
        ..Default::default()
    }
}

pub const VERSIONS: [Version; 3] = [Version::V31, Version::V311, Version::V5];

impl ConnectOptions<'_> {
    pub fn persistent() -> Self {
        Self {
            clean_start: false,
            expiry_secs: u32::MAX,
            ..Self::default()
        }
    }
}

impl World {
    pub fn new(shards: u8) -> Self {
        Self::with_settings(shards, Settings::default())
    }

    pub fn with_settings(shards: u8, settings: Settings) -> Self {
        Self::build(shards, settings, Bounds::default())
    }

    /// One shard whose store keeps that many retained messages.
    pub fn with_retained_max(messages_max: u64) -> Self {
        let bounds = Bounds {
            messages_max,
            ..Bounds::default()
        };
        Self::build(1, Settings::default(), bounds)
    }

    fn build(shards: u8, settings: Settings, bounds: Bounds) -> Self {
        let hasher = TopicHasher::new(7);
        let store = Arc::new(MemoryStore::new(hasher, bounds));
        Self::with_store(shards, settings, store)
    }

    /// Hubs over a store of the test's own.
    pub fn with_store(shards: u8, settings: Settings, retained: Arc<dyn Retained>) -> Self {
        Self::with_all(shards, settings, retained, None)
    }

    /// Hubs whose calls of procedures somebody takes.
    pub fn with_callees(shards: u8, callees: Arc<dyn Callees>) -> Self {
        let store = MemoryStore::new(TopicHasher::new(7), Bounds::default());
        Self::with_all(shards, Settings::default(), Arc::new(store), Some(callees))
    }

    fn with_all(
        shards: u8,
        settings: Settings,
        retained: Arc<dyn Retained>,
        callees: Option<Arc<dyn Callees>>,
    ) -> Self {
        let hasher = TopicHasher::new(7);
        let shared = Shared {
            interest: Arc::new(InterestTable::new()),
            retained: Arc::clone(&retained),
            adaptors: None,
            persistent_sessions: Arc::default(),
            callees,
        };
        let settings = Arc::new(settings);
        let hub = |shard| {
            let (shared, settings) = (shared.clone(), Arc::clone(&settings));
            Hub::new(ShardId(shard), shards, hasher.clone(), shared, settings)
        };
        Self {
            hubs: (0..shards).map(hub).collect(),
            now: Tick::from_secs(1),
            hasher,
            retained,
            mesh: HashMap::new(),
            links: HashMap::new(),
            by_key: HashMap::new(),
            clients: Vec::new(),
            next_link: 0,
            events: Vec::new(),
            paused: false,
        }
    }

    /// Has somebody judge what is done from now on.
    pub fn set_adaptors(&mut self, adaptors: &Arc<dyn Adaptors>) {
        for hub in &mut self.hubs {
            hub.set_adaptors(Some(Arc::clone(adaptors)));
        }
    }

    pub fn connect(&mut self, version: Version, id: &str, options: &ConnectOptions<'_>) -> usize {
        let client = self.connect_only(version, id, options);
        let connack = self.receive_packet(client).expect("a CONNACK");
        assert_eq!(connack[0], 0x20, "the first packet is CONNACK");
        client
    }

    /// Connects and leaves the CONNACK to the test.
    pub fn connect_only(
        &mut self,
        version: Version,
        id: &str,
        options: &ConnectOptions<'_>,
    ) -> usize {
        let (request, identity) = request(version, id, options);
        self.enter(request, identity.into())
    }

    /// Connects as the server does: if the hub admits the client.
    pub fn connect_as(
        &mut self,
        version: Version,
        id: &str,
        options: &ConnectOptions<'_>,
        rights: Arc<dyn Rights>,
    ) -> Result<usize, CloseReason> {
        let (request, identity) = request(version, id, options);
        let identity = Arc::new(Identity {
            rights,
            ..(*identity).clone()
        });
        let hub = &self.hubs[usize::from(self.home(id))];
        let admitted = hub.admit(&request, identity)?;
        let client = self.enter(request, admitted);
        self.receive_packet(client).expect("a CONNACK");
        Ok(client)
    }

    pub fn enter(&mut self, request: ConnectRequest, admitted: Admitted) -> usize {
        let version = request.version;
        let shard = self.home(&request.client_id);
        self.next_link += 1;
        let link = LinkId(self.next_link);
        let client = self.clients.len();
        self.clients.push(Client {
            version,
            shard,
            link: Some(link),
            key: None,
            socket_room: usize::MAX,
            input: Vec::new(),
            received: VecDeque::new(),
            closed: None,
        });
        self.links.insert((shard, link.0), client);
        let key = self.hubs[usize::from(shard)].connect(self.now, link, request, admitted);
        self.clients[client].key = Some(key);
        self.by_key.insert((shard, key), client);
        self.settle();
        client
    }

    fn home(&self, id: &str) -> u8 {
        let shards = u8::try_from(self.hubs.len()).unwrap();
        if id.is_empty() {
            return 0;
        }
        home_shard(&self.hasher, Zone(0), id, shards).0
    }

    /// Whether a hub lets this client in.
    pub fn admit(
        &self,
        version: Version,
        id: &str,
        options: &ConnectOptions<'_>,
    ) -> Result<(), CloseReason> {
        let (request, identity) = request(version, id, options);
        let hub = &self.hubs[usize::from(self.home(id))];
        hub.admit(&request, identity).map(|_| ())
    }

    /// Sends bytes from a client; what it is not connected for is ignored.
    pub fn send_bytes(&mut self, client: usize, bytes: &[u8]) {
        self.send_without_settling(client, bytes);
        self.settle();
    }

    pub fn send_without_settling(&mut self, client: usize, bytes: &[u8]) {
        let Client {
            shard,
            link: Some(_),
            key: Some(key),
            ..
        } = self.clients[client]
        else {
            return;
        };
        let hub = &mut self.hubs[usize::from(shard)];
        assert_eq!(hub.receive(self.now, key, bytes), bytes.len());
        self.collect(shard);
    }

    /// The command line keeps a message, on the shard that orders its topic.
    pub fn restore(&mut self, topic: &str, payload: &str) {
        let parts = MessageParts {
            topic,
            properties: &[],
            payload: payload.as_bytes(),
            qos: QoS::AtMostOnce,
            retain: true,
            expiry_secs: None,
        };
        let message = stentor_session::Message::new(Zone(0), Publisher::SERVER, self.now, &parts);
        let message = Arc::new(message);
        let shards = self.hubs.len() as u8;
        let home = home_shard(&self.hasher, Zone(0), topic, shards).0;
        let store = Arc::clone(&self.retained);
        let kept = Arc::clone(&message);
        self.hubs[usize::from(home)]
            .keep_by(self.now, message, |_| store.put(&kept))
            .expect("there is room");
        self.collect(home);
        self.settle();
    }

    pub fn send(&mut self, client: usize, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        encode(self.clients[client].version, packet, &mut bytes).unwrap();
        self.send_bytes(client, &bytes);
    }

    pub fn subscribe(&mut self, client: usize, filter: &str, qos: QoS) -> u8 {
        self.subscribe_with(
            client,
            filter,
            SubscribeOptions {
                qos,
                ..Default::default()
            },
            None,
        )
    }

    pub fn subscribe_with(
        &mut self,
        client: usize,
        filter: &str,
        options: SubscribeOptions,
        id: Option<u32>,
    ) -> u8 {
        let version = self.clients[client].version;
        let mut filters = SubscribeFilterBuf::new(version);
        filters.push(filter, options).unwrap();
        let mut properties = PropertyBuf::new();
        if let Some(id) = id {
            properties.push(stentor_mqtt::Property::SubscriptionIdentifier(id));
        }
        let packet = Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(9).unwrap(),
            properties: properties.as_properties(),
            filters: filters.as_filters(),
        });
        self.send(client, &packet);
        let Some(bytes) = self.take_packet(client, 0x90) else {
            return 0xFF;
        };
        *bytes.last().unwrap()
    }

    /// Sends a SUBSCRIBE and waits for nothing.
    pub fn subscribe_only(
        &mut self,
        client: usize,
        packet_id: PacketId,
        filter: &str,
        options: SubscribeOptions,
    ) {
        let version = self.clients[client].version;
        let mut filters = SubscribeFilterBuf::new(version);
        filters.push(filter, options).unwrap();
        let packet = Packet::Subscribe(Subscribe {
            packet_id,
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        });
        self.send(client, &packet);
    }

    /// What is retained that matches a filter, by topic.
    pub fn stored(&self, filter: &str) -> BTreeMap<String, String> {
        let (mut cursor, mut found) = (Cursor::default(), Vec::new());
        let scope = (self.retained.mark(), self.now);
        let zone = Zone(0);
        while self
            .retained
            .walk(zone, filter, scope, &mut cursor, 1_000, &mut found)
            == Walk::More
        {}
        let text = |payload: &[u8]| String::from_utf8_lossy(payload).into_owned();
        let entry = |message: &Arc<stentor_session::Message>| {
            (message.topic().to_owned(), text(message.payload()))
        };
        found.iter().map(entry).collect()
    }

    pub fn unsubscribe(&mut self, client: usize, filter: &str) {
        let mut filters = UnsubscribeFilterBuf::new();
        filters.push(filter).unwrap();
        let packet = Packet::Unsubscribe(Unsubscribe {
            packet_id: PacketId::new(9).unwrap(),
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        });
        self.send(client, &packet);
        assert!(self.take_packet(client, 0xB0).is_some(), "an UNSUBACK");
    }

    pub fn publish(&mut self, client: usize, topic: &str, payload: &str, qos: QoS, retain: bool) {
        self.publish_with(client, topic, payload, qos, retain, Properties::EMPTY);
    }

    pub fn publish_with(
        &mut self,
        client: usize,
        topic: &str,
        payload: &str,
        qos: QoS,
        retain: bool,
        properties: Properties<'_>,
    ) {
        let packet_id = (qos > QoS::AtMostOnce).then(|| PacketId::new(77).unwrap());
        let publish = Publish {
            dup: false,
            qos,
            retain,
            topic,
            packet_id,
            properties,
            payload: payload.as_bytes(),
        };
        self.send(client, &Packet::Publish(publish));
        if qos == QoS::ExactlyOnce && self.take_packet(client, 0x50).is_some() {
            self.send_ack(client, 0x60, packet_id.unwrap());
        }
    }

    /// PUBACK 0x40, PUBREC 0x50, PUBREL 0x60 or PUBCOMP 0x70.
    pub fn send_ack(&mut self, client: usize, kind: u8, packet_id: PacketId) {
        let ack = Ack {
            packet_id,
            reason: ReasonCode::Success,
            properties: Properties::EMPTY,
        };
        let packet = match kind {
            0x40 => Packet::PubAck(ack),
            0x50 => Packet::PubRec(ack),
            0x60 => Packet::PubRel(ack),
            _ => Packet::PubComp(ack),
        };
        self.send(client, &packet);
    }

    /// The connection breaks without DISCONNECT.
    pub fn drop_link(&mut self, client: usize) {
        self.disconnect(client, CloseReason::Remote(Remote::Reset));
    }

    pub fn disconnect(&mut self, client: usize, reason: CloseReason) {
        let Client {
            shard,
            link: Some(link),
            key: Some(key),
            ..
        } = self.clients[client]
        else {
            return;
        };
        self.links.remove(&(shard, link.0));
        self.clients[client].link = None;
        self.clients[client].closed = Some(reason);
        self.hubs[usize::from(shard)].disconnected(self.now, key, link, reason);
        self.collect(shard);
        self.settle();
    }

    pub fn pass_secs(&mut self, secs: u32) {
        for _ in 0..secs * 4 {
            self.now = Tick::from_micros(self.now.as_micros() + 250_000);
            self.advance();
        }
    }

    pub fn advance(&mut self) {
        for shard in 0..self.hubs.len() {
            self.hubs[shard].advance(self.now);
            self.collect(u8::try_from(shard).unwrap());
        }
        self.settle();
    }

    /// Delivers everything that is under way and flushes until nothing moves.
    pub fn settle(&mut self) {
        for shard in 0..self.hubs.len() {
            self.collect(u8::try_from(shard).unwrap());
        }
        while !self.paused {
            let mut moved = false;
            for shard in 0..self.hubs.len() {
                self.collect(u8::try_from(shard).unwrap());
            }
            self.hear();
            let mut pairs: Vec<_> = self.mesh.keys().copied().collect();
            pairs.sort_unstable();
            for pair in pairs {
                moved |= self.deliver_one(pair);
            }
            for shard in 0..self.hubs.len() {
                moved |= self.flush(u8::try_from(shard).unwrap());
            }
            if !moved {
                return;
            }
        }
    }

    /// Hubs that nothing is under way to have heard of everything.
    fn hear(&mut self) {
        let under_way = self.pairs_under_way();
        for shard in 0..self.hubs.len() {
            if under_way.iter().all(|(to, _)| usize::from(*to) != shard) {
                self.hubs[shard].begin_drain();
                self.hubs[shard].end_drain(self.now);
            }
        }
    }

    /// Delivers the oldest mesh item of one pair of shards.
    pub fn deliver_one(&mut self, (to, from): (u8, u8)) -> bool {
        let Some(item) = self.mesh.get_mut(&(to, from)).and_then(VecDeque::pop_front) else {
            return false;
        };
        self.hubs[usize::from(to)].apply(self.now, item);
        self.hubs[usize::from(to)].settle(self.now);
        self.collect(to);
        true
    }

    pub fn pairs_under_way(&self) -> Vec<(u8, u8)> {
        let mut pairs: Vec<_> = self
            .mesh
            .iter()
            .filter(|(_, items)| !items.is_empty())
            .map(|(pair, _)| *pair)
            .collect();
        pairs.sort_unstable();
        pairs
    }

    /// Moves a hub's mesh and lane effects on. Lanes take effect at once, as a shard applies them
    /// before any bytes that it reads afterwards.
    fn collect(&mut self, from: u8) {
        loop {
            let effects = self.hubs[usize::from(from)].effects();
            let mesh: Vec<_> = effects.mesh.drain(..).collect();
            let lanes: Vec<_> = effects.lanes.drain(..).collect();
            self.events
                .append(&mut self.hubs[usize::from(from)].effects().events);
            if mesh.is_empty() && lanes.is_empty() {
                self.hubs[usize::from(from)].forwarded();
                return;
            }
            for (to, item) in mesh {
                self.mesh.entry((to.0, from)).or_default().push_back(item);
            }
            for (to, item) in lanes {
                self.control(to.0, item);
            }
        }
    }

    pub fn control(&mut self, to: u8, item: ControlItem) {
        self.hubs[usize::from(to)].control(self.now, item);
    }

    /// Something from outside for all hubs.
    pub fn control_all(&mut self, item: &ControlItem) {
        for shard in 0..self.hubs.len() {
            self.control(u8::try_from(shard).unwrap(), item.clone());
        }
        self.settle();
    }

    pub fn flush(&mut self, shard: u8) -> bool {
        let hub = &mut self.hubs[usize::from(shard)];
        let dirty: Vec<_> = hub.effects().dirty.drain(..).collect();
        let mut moved = !dirty.is_empty();
        let mut batch = Batch::new();
        for key in dirty {
            let client = self.by_key.get(&(shard, key));
            let client = client.map(|client| &mut self.clients[*client]);
            let client = client.filter(|client| client.link.is_some());
            if !hub.transmit(self.now, key, &mut batch) {
                continue;
            }
            let room = client
                .as_ref()
                .map_or(usize::MAX, |client| client.socket_room);
            let written = batch.len().min(room);
            if let Some(client) = client {
                let bytes: Vec<u8> = batch.slices().flatten().copied().collect();
                client.socket_room -= written.min(client.socket_room);
                client.take_in(&bytes[..written]);
            }
            let flush = hub.transmitted(self.now, key, &mut batch, written);
            assert!(flush != Flush::Blocked || written < batch.len());
            if flush == Flush::More {
                hub.effects().dirty.push(key);
            }
        }
        let closing: Vec<_> = hub.effects().closing.drain(..).collect();
        moved |= !closing.is_empty();
        for closing in closing {
            if let Some(client) = self.links.remove(&(shard, closing.link.0)) {
                closing
                    .farewell
                    .gather(self.now, None, usize::MAX, &mut batch);
                let bytes: Vec<u8> = batch.slices().flatten().copied().collect();
                let client = &mut self.clients[client];
                client.take_in(&bytes[..bytes.len().min(client.socket_room)]);
                client.link = None;
                client.closed = Some(closing.reason);
            }
            hub.recycle(closing.farewell);
        }
        moved
    }

    /// The socket of a slow reader takes this many bytes more.
    pub fn open_socket(&mut self, client: usize, room: usize) {
        self.clients[client].socket_room = room;
        if let Client {
            shard,
            key: Some(key),
            link: Some(_),
            ..
        } = self.clients[client]
        {
            self.hubs[usize::from(shard)].writable(key);
        }
        self.settle();
    }

    pub fn receive_packet(&mut self, client: usize) -> Option<Vec<u8>> {
        self.clients[client].received.pop_front()
    }

    /// Takes the first packet of a type out of what a client received.
    pub fn take_packet(&mut self, client: usize, kind: u8) -> Option<Vec<u8>> {
        let received = &mut self.clients[client].received;
        let at = received
            .iter()
            .position(|packet| packet[0] & 0xF0 == kind)?;
        received.remove(at)
    }

    /// Takes all messages that a client received, without acknowledging them.
    pub fn take_messages(&mut self, client: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(bytes) = self.take_packet(client, 0x30) {
            messages.push(self.clients[client].parse(&bytes));
        }
        messages
    }

    pub fn take_payloads(&mut self, client: usize) -> Vec<String> {
        let text = |m: Message| String::from_utf8(m.payload).unwrap();
        self.take_messages(client).into_iter().map(text).collect()
    }
}

/// Somebody with the test's rights.
pub fn identity(user: Option<&str>, expires_at: Tick, denied: &[&str]) -> Arc<Identity> {
    Arc::new(Identity {
        user: user.map(Arc::from),
        zone: Zone(0),
        rights: TestRights::denying(denied),
        expires_at,
        guest: None,
    })
}

/// What a client asks for, and who it is.
pub fn request(
    version: Version,
    id: &str,
    options: &ConnectOptions<'_>,
) -> (ConnectRequest, Arc<Identity>) {
    let mut properties = PropertyBuf::new();
    let mut will_properties = PropertyBuf::new();
    if version.is_v5() {
        use stentor_mqtt::Property as P;
        properties.push(P::SessionExpiryInterval(options.expiry_secs));
        properties.push(P::ReceiveMaximum(options.receive_maximum));
        if options.alias_maximum > 0 {
            properties.push(P::TopicAliasMaximum(options.alias_maximum));
        }
        if options.response_information {
            properties.push(P::RequestResponseInformation(true));
        }
        if options.packet_bytes_max > 0 {
            properties.push(P::MaximumPacketSize(options.packet_bytes_max));
        }
        if let Some(method) = options.method {
            properties.push(P::AuthenticationMethod(method));
            properties.push(P::AuthenticationData(b"last"));
        }
        if let Some((_, _, delay)) = options.will {
            will_properties.push(P::WillDelayInterval(delay));
            for pair in options.will_user_properties {
                will_properties.push(P::UserProperty(*pair));
            }
        }
    }
    let request = ConnectRequest::new(&Connect {
        version,
        bridge: options.bridge,
        clean_start: options.clean_start,
        keep_alive_secs: options.keep_alive_secs,
        client_id: id,
        will: options.will.map(|(topic, payload, _)| Will {
            qos: QoS::AtLeastOnce,
            retain: options.will_retain,
            topic,
            payload: payload.as_bytes(),
            properties: will_properties.as_properties(),
        }),
        username: None,
        password: None,
        properties: properties.as_properties(),
    });
    let identity = identity(options.user, options.expires_at, options.denied);
    (request, identity)
}

impl Client {
    fn take_in(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while let Some(frame) = frame(&self.input, u32::MAX).unwrap() {
            let rest = self.input.split_off(frame.total_len);
            let packet = std::mem::replace(&mut self.input, rest);
            decode(
                self.version,
                Sender::Server,
                packet[0],
                &packet[frame.header_len..],
            )
            .expect("the hub sends valid packets");
            self.received.push_back(packet);
        }
    }

    pub fn parse(&self, bytes: &[u8]) -> Message {
        let frame = frame(bytes, u32::MAX).unwrap().unwrap();
        let body = &bytes[frame.header_len..];
        match decode(self.version, Sender::Server, frame.first, body).unwrap() {
            Packet::Publish(publish) => Message {
                topic: publish.topic.to_owned(),
                payload: publish.payload.to_vec(),
                qos: publish.qos,
                retain: publish.retain,
                dup: publish.dup,
                packet_id: publish.packet_id,
                expiry: publish.properties.message_expiry(),
                ids: publish.properties.subscription_ids().collect(),
            },
            other => panic!("expected PUBLISH, got {other:?}"),
        }
    }
}

/// Runs a random test with each seed up to `seeds`: with 2,000 under `STENTOR_SOAK`, and with the
/// one of `STENTOR_SEED` alone.
pub fn run_seeds(seeds: u64, run: impl Fn(u64)) {
    run_seeds_or(seeds, 2_000, run);
}

/// Runs so many seeds, or so many others where there is time, or the one that is asked for.
pub fn run_seeds_or(seeds: u64, soak_seeds: u64, run: impl Fn(u64)) {
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        return run(seed.parse().expect("STENTOR_SEED is a number"));
    }
    let soak = std::env::var_os("STENTOR_SOAK").is_some();
    for seed in 1..=(if soak { soak_seeds } else { seeds }) {
        run(seed);
    }
}
