//! Several hubs, their mesh and their clients on a virtual clock: no socket, no thread, no time
//! but the test's own.

#![allow(unreachable_pub, reason = "a module of a test binary")]

mod client;
mod login;
mod packets;
mod restart;
mod seeds;
mod spool;
mod turns;

#[allow(unused_imports, reason = "each test uses the part that it needs")]
use self::spool::SpoolDisk;
pub use self::{
    client::{Client, Message},
    login::{ConnectOptions, TestRights, clean, identity, request},
    packets::{encoded, encoded_publish, expiring, qos},
    restart::{Disk, GRACE_SECS, Journal},
    seeds::{Random, run_seeds, run_seeds_or},
    turns::PING,
};

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stentor_hub::journal::{logged, take_batches};
use stentor_hub::{
    Adaptors, Admitted, Callees, ControlItem, Cursor, Event, Hub, Identity, InterestTable, Ledger,
    LinkId, MeshItem, NotKept, Retained, Rights, Scope, SessionKey, Settings, ShardId, ShardItem,
    Shared, Tenants, Walk, home_shard,
};
use stentor_mqtt::{QoS, Version};
use stentor_retained::{Bounds, MemoryStore};
use stentor_session::{
    Batch, CloseReason, ConnectRequest, Flush, MessageParts, Publisher, Remote, Tick,
};
use stentor_topic::{TopicHasher, Zone};

pub const VERSIONS: [Version; 3] = [Version::V31, Version::V311, Version::V5];

/// Numbers that look random and are the same in every run.
pub fn numbers() -> Arc<dyn Fn() -> u128 + Send + Sync> {
    let (hasher, drawn) = (TopicHasher::new(9), AtomicU64::new(0));
    Arc::new(move || {
        let number = drawn.fetch_add(1, Ordering::Relaxed).to_string();
        let half = |zone| u128::from(hasher.hash(Zone(zone), &number));
        half(1) << 64 | half(2)
    })
}

pub struct World {
    pub hubs: Vec<Hub>,
    pub now: Tick,
    pub hasher: TopicHasher,
    retained: Arc<dyn Retained>,
    pub ledger: Arc<Ledger>,
    /// Items under way, by receiving and sending shard: first in, first out for each pair.
    mesh: HashMap<(u8, u8), VecDeque<MeshItem>>,
    pub links: HashMap<(u8, u32), usize>,
    /// The newest client of each session.
    by_key: HashMap<(u8, SessionKey), usize>,
    pub clients: Vec<Client>,
    next_link: u32,
    /// How many turns it took before somebody was let in.
    pub start_turns: usize,
    pub events: Vec<Event>,
    /// Connections that nothing is read from before a time.
    pauses: Vec<((u8, u32), Tick)>,
    /// Nothing moves by itself: the test delivers and flushes in the order that it likes.
    pub paused: bool,
    settings: Arc<Settings>,
    /// Whether the server is killed when it has appended the first of several batches.
    pub dies_between: bool,
    /// Whether that has happened.
    pub is_dead: bool,
    /// By shard; empty if nothing is written down.
    pub journals: Vec<Journal>,
    /// Those of earlier starts that are still needed.
    older: Vec<Journal>,
    /// The disk for backlogs.
    pub spool: SpoolDisk,
    /// The owners of sessions after the next start, by what is written down of them.
    pub owners: BTreeMap<NonZeroU64, Tenants>,
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
        Self::with_all(
            shards,
            settings,
            retained,
            (None, TopicHasher::new(7)),
            None,
        )
    }

    /// Hubs whose calls of procedures somebody takes.
    pub fn with_callees(shards: u8, callees: Arc<dyn Callees>) -> Self {
        let store = MemoryStore::new(TopicHasher::new(7), Bounds::default());
        let own = (Some(callees), TopicHasher::new(7));
        Self::with_all(shards, Settings::default(), Arc::new(store), own, None)
    }

    fn with_all(
        shards: u8,
        settings: Settings,
        retained: Arc<dyn Retained>,
        (callees, hasher): (Option<Arc<dyn Callees>>, TopicHasher),
        sessions_zero_ms: Option<u64>,
    ) -> Self {
        let ledger = Arc::new(Ledger::new(shards));
        let shared = Shared {
            interest: Arc::new(InterestTable::new()),
            retained: Arc::clone(&retained),
            adaptors: None,
            persistent_sessions: Arc::default(),
            random: numbers(),
            ledger: Arc::clone(&ledger),
            callees,
            sessions_zero_ms,
            keeps_wills: true,
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
            ledger,
            mesh: HashMap::new(),
            links: HashMap::new(),
            by_key: HashMap::new(),
            clients: Vec::new(),
            next_link: 0,
            start_turns: 0,
            events: Vec::new(),
            pauses: Vec::new(),
            paused: false,
            settings,
            dies_between: false,
            is_dead: false,
            journals: Vec::new(),
            older: Vec::new(),
            spool: SpoolDisk::default(),
            owners: BTreeMap::new(),
        }
    }

    /// Has somebody judge what is done from now on.
    pub fn set_adaptors(&mut self, adaptors: &Arc<dyn Adaptors>) {
        for hub in &mut self.hubs {
            hub.operate().set_adaptors(Some(Arc::clone(adaptors)));
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
        let shard = self.home(&request.client_id);
        self.next_link += 1;
        let link = LinkId(self.next_link);
        let client = self.clients.len();
        self.clients.push(Client::new(request.version, shard, link));
        self.links.insert((shard, link.0), client);
        let key = self.hubs[usize::from(shard)].connect(self.now, link, request, admitted);
        self.clients[client].key = Some(key);
        self.by_key.insert((shard, key), client);
        self.settle();
        client
    }

    pub fn home(&self, id: &str) -> u8 {
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
        if !self.clients[client].unread.is_empty() {
            self.clients[client].unread.extend(bytes);
            return;
        }
        let hub = &mut self.hubs[usize::from(shard)];
        let read = hub.receive(self.now, key, bytes);
        if read < bytes.len() {
            let paused: Vec<_> = hub.effects().paused.drain(..).collect();
            let effects = hub.effects();
            let waits = effects.yielded.iter().chain(&effects.awaiting_room).next();
            assert!(!paused.is_empty() || waits.is_some());
            let timed = paused.iter().filter(|(_, until)| *until != Tick::NEVER);
            let timed = timed.map(|(link, until)| ((shard, link.0), *until));
            self.pauses.extend(timed);
            self.clients[client].unread.extend(&bytes[read..]);
        }
        self.collect(shard);
    }

    /// Reads what connections have sent while they were held, or beyond their share of a turn.
    fn read_on(&mut self, shard: u8) -> bool {
        let effects = self.hubs[usize::from(shard)].effects();
        let mut ready: Vec<_> = effects.yielded.drain(..).collect();
        let (links, clients) = (&self.links, &self.clients);
        let is_behind = |link: &LinkId| {
            let client = links.get(&(shard, link.0));
            client.is_some_and(|client| !clients[*client].unread.is_empty())
        };
        // Others are for the test to see.
        ready.extend(effects.resumed.extract_if(.., |link| is_behind(link)));
        let now = self.now;
        self.pauses.retain(|((of, link), until)| {
            let is_over = *of == shard && *until <= now;
            if is_over {
                ready.push(LinkId(*link));
            }
            !is_over
        });
        for link in &ready {
            if let Some(&client) = self.links.get(&(shard, link.0)) {
                let bytes = std::mem::take(&mut self.clients[client].unread);
                if !bytes.is_empty() {
                    self.send_without_settling(client, &bytes);
                }
            }
        }
        !ready.is_empty()
    }

    /// A turn of one hub, which goes on with what was too much for earlier ones.
    pub fn go_on(&mut self, shard: u8) -> bool {
        let hub = &mut self.hubs[usize::from(shard)];
        hub.begin_turn();
        let has_work = hub.next_deadline() == Some(Tick::ZERO);
        let has_read = self.read_on(shard);
        if has_work {
            self.hubs[usize::from(shard)].advance(self.now);
            self.collect(shard);
        }
        has_read || has_work || !self.pauses.is_empty()
    }

    /// Lets time pass until the next pause is over.
    fn end_pause(&mut self) {
        if let Some(until) = self.pauses.iter().map(|(_, until)| *until).min() {
            self.now = self.now.max(until);
        }
    }

    /// The command line keeps a message, on the shard that orders its topic.
    pub fn restore(&mut self, topic: &str, payload: &str) {
        self.try_restore(topic, payload).expect("there is room");
    }

    /// The same where there may be no room.
    pub fn try_restore(&mut self, topic: &str, payload: &str) -> Result<(), NotKept> {
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
        let done = self.hubs[usize::from(home)]
            .operate()
            .keep_by(self.now, message, |_| store.put(&kept));
        self.collect(home);
        self.settle();
        done.map(|_| ())
    }

    /// What is retained that matches a filter, by topic.
    pub fn stored(&self, filter: &str) -> BTreeMap<String, String> {
        let (mut cursor, mut found) = (Cursor::default(), Vec::new());
        let scope = Scope::until(self.retained.mark(), self.now);
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
        self.hubs.iter_mut().for_each(Hub::begin_turn);
        for shard in 0..self.hubs.len() {
            self.hubs[shard].advance(self.now);
            self.collect(u8::try_from(shard).unwrap());
        }
        self.settle();
    }

    /// What the ledger says is what there is, counted one by one.
    pub fn check_accounts(&mut self) {
        for (hub, shard) in self.hubs.iter_mut().zip(0..) {
            hub.settle_accounts();
            let members = hub.inspect().shared_subscriptions();
            let shared: usize = members.map(|(_, members)| members).sum();
            assert_eq!(
                stentor_hub::survey::shared_members(hub),
                shared,
                "shard {shard}"
            );
            for (kind, bytes) in hub.inspect().recount() {
                let written = self.ledger.of_shard(ShardId(shard), kind);
                assert_eq!(written, bytes, "{} of shard {shard}", kind.label());
            }
        }
    }

    /// Delivers everything that is under way and flushes until nothing moves.
    pub fn settle(&mut self) {
        for shard in 0..self.hubs.len() {
            self.collect(u8::try_from(shard).unwrap());
        }
        while !self.paused {
            self.end_pause();
            let mut moved = false;
            self.hubs.iter_mut().for_each(Hub::begin_turn);
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
                moved |= self.go_on(u8::try_from(shard).unwrap());
                moved |= self.flush(u8::try_from(shard).unwrap());
            }
            if !moved && !self.spool.is_slow {
                moved = self.spool_one();
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
        if self.is_dead {
            return false;
        }
        let Some(item) = self.mesh.get_mut(&(to, from)).and_then(VecDeque::pop_front) else {
            return false;
        };
        self.hubs[usize::from(to)].apply(self.now, ShardId(from), item);
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

    /// Moves a hub's mesh and control items on. Control items take effect at once, as a shard
    /// applies them before any bytes that it reads afterwards.
    fn collect(&mut self, from: u8) {
        while !self.is_dead {
            // First, so that nobody hears of what is not written down.
            self.write_down(from);
            if self.is_dead {
                return;
            }
            self.take_orders(from);
            let journal = self.journals.get(usize::from(from));
            let waits = journal.is_some_and(Journal::waits);
            let effects = self.hubs[usize::from(from)].effects();
            let sent = if waits { 0 } else { effects.mesh.len() };
            let mesh: Vec<_> = effects.mesh.drain(..sent).collect();
            let goes = |(_, item): &mut (ShardId, ShardItem)| !waits || !item.is_outcome();
            let control_items: Vec<_> = effects.control_items.extract_if(.., goes).collect();
            self.events
                .append(&mut self.hubs[usize::from(from)].effects().events);
            if mesh.is_empty() && control_items.is_empty() {
                if !waits {
                    self.hubs[usize::from(from)].forwarded();
                }
                return;
            }
            for (to, mut item) in mesh {
                item.seal();
                self.mesh.entry((to.0, from)).or_default().push_back(item);
            }
            for (to, item) in control_items {
                self.control(to.0, item);
            }
        }
    }

    fn write_down(&mut self, shard: u8) {
        let (at, mut fates) = (usize::from(shard), Vec::new());
        let (journals, is_dead) = (&mut self.journals, &mut self.is_dead);
        let dies_between = self.dies_between;
        take_batches(&mut self.hubs[at], |batch| {
            *is_dead |= dies_between && !fates.is_empty();
            if !*is_dead {
                fates.extend(journals[at].take(batch));
            }
        });
        for fate in fates {
            logged(&mut self.hubs[at], fate);
        }
    }

    pub fn control(&mut self, to: u8, item: impl Into<ControlItem>) {
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
        self.collect(shard);
        let journal = self.journals.get(usize::from(shard));
        if self.is_dead || journal.is_some_and(Journal::waits) {
            return false;
        }
        let hub = &mut self.hubs[usize::from(shard)];
        let mut dirty = std::mem::take(&mut hub.effects().dirty);
        dirty.append(&mut hub.effects().crowd);
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
                    .final_output
                    .gather(self.now, None, usize::MAX, &mut batch);
                let bytes: Vec<u8> = batch.slices().flatten().copied().collect();
                let client = &mut self.clients[client];
                client.take_in(&bytes[..bytes.len().min(client.socket_room)]);
                client.link = None;
                client.closed = Some(closing.reason);
            }
            hub.recycle(closing.final_output);
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
}
