use std::io;
use std::sync::Arc;

use stentor_auth::rights::Unrestricted;
use stentor_hub::{
    Identity, InterestTable, Ledger, PriorDeliveries, PriorSession, Settings, ShardId, Shared,
};
use stentor_journal::Bounds;
use stentor_mqtt::QoS;
use stentor_retained::MemoryStore;
use stentor_session::{Tick, WillRequest};
use stentor_session_store::{JournalMaintenance, Opened, Options, StoreEvent, Sync, Watcher, open};
use stentor_topic::{TopicHasher, Zone};
use tempfile::TempDir;

use stentor_hub::journal::is_journal_laden;

use super::*;

/// A hub and its journal in a folder.
struct World {
    hub: Hub,
    recorder: Recorder,
    maintenance: Option<Running>,
}

type Running = JournalMaintenance<MappedDisk>;
type Found = Opened<MappedDisk>;

struct Nobody;

impl Watcher for Nobody {
    fn wake(&self, _shard: u16) {}
    fn event(&self, _event: StoreEvent) {}
}

fn opened(folder: &TempDir) -> Found {
    let options = Options {
        boot: 1,
        random: 1,
        shards: 1,
        bounds: Bounds {
            segment_bytes: 1 << 20,
            ahead: 4,
            reserve: 2,
            segments_max: 1 << 16,
        },
    };
    open(MappedDisk::new(folder.path()).unwrap(), options).unwrap()
}

fn hub() -> Hub {
    let hasher = TopicHasher::new(7);
    let store = MemoryStore::new(hasher.clone(), stentor_retained::Bounds::default());
    let shared = Shared {
        interest: Arc::new(InterestTable::new()),
        retained: Arc::new(store),
        callees: None,
        adaptors: None,
        persistent_sessions: Arc::default(),
        random: Arc::new(|| 4),
        ledger: Arc::new(Ledger::new(1)),
        sessions_zero_ms: Some(1_700_000_000_000),
        keeps_wills: true,
    };
    Hub::new(ShardId(0), 1, hasher, shared, Arc::new(Settings::default()))
}

/// A session with a will that is due in a year.
fn session(client_id: &str) -> PriorSession {
    let will = WillRequest {
        topic: "gone".into(),
        payload: client_id.as_bytes().into(),
        properties: Vec::new(),
        qos: QoS::AtLeastOnce,
        retain: false,
        delay_secs: 0,
        expiry_secs: None,
    };
    PriorSession {
        identity: Arc::new(Identity {
            user: None,
            zone: Zone::DEFAULT,
            rights: Arc::new(Unrestricted::default()),
            expires_at: Tick::NEVER,
            guest: None,
        }),
        tenants: None,
        client_id: client_id.into(),
        origin: None,
        expiry_secs: u32::MAX,
        since_ms: 1_700_000_000_000,
        until: Tick::NEVER,
        will: Some(Box::new(will)),
        will_at: Tick::from_secs(365 * 24 * 3600),
        subscriptions: Vec::new(),
        deliveries: PriorDeliveries::default(),
        arrived: Vec::new(),
        unheard: Vec::new(),
        held: Vec::new(),
    }
}

fn large(client_id: &str) -> PriorSession {
    let mut session = session(client_id);
    if let Some(will) = &mut session.will {
        will.payload = vec![b'x'; 100_000];
    }
    session
}

impl World {
    /// With a maintenance thread that does nothing yet.
    fn new(found: Found) -> (Self, impl FnOnce(&mut Self)) {
        let Opened {
            earlier,
            mut writers,
            maintenance,
            ..
        } = found;
        let world = Self {
            hub: hub(),
            recorder: Recorder::new(writers.remove(0), false, None),
            maintenance: None,
        };
        let start = |world: &mut Self| {
            let maintenance = maintenance.start(Sync::Never, earlier, Arc::new(Nobody));
            world.maintenance = Some(maintenance.unwrap());
        };
        (world, start)
    }

    fn add(&mut self, client_id: &str) {
        session(client_id).restore(&mut self.hub, Tick::ZERO);
        self.recorder.record(&mut self.hub);
    }

    /// The same with a will of 100 kB.
    fn add_large(&mut self, client_id: &str) {
        large(client_id).restore(&mut self.hub, Tick::ZERO);
        self.recorder.record(&mut self.hub);
    }

    fn tend(&mut self) {
        self.recorder.tend(&mut self.hub);
    }

    /// Turns, until a state that the maintenance thread helps to bring about.
    fn tend_until(&mut self, holds: impl Fn(&Recorder) -> bool) {
        while !holds(&self.recorder) {
            self.tend();
            std::thread::yield_now();
        }
    }

    fn end(self) -> io::Result<()> {
        let Self {
            mut hub,
            recorder,
            maintenance,
        } = self;
        recorder.finish(&mut hub);
        maintenance.map_or(Ok(()), JournalMaintenance::end)
    }
}

/// The client ids and wills of the sessions in a folder.
fn found(folder: &TempDir) -> Vec<(String, bool)> {
    let restored = opened(folder).earlier.replay(Sync::Never, |_, _| ());
    let sessions = restored.sessions.iter();
    let mut all: Vec<_> = sessions
        .map(|it| (it.client_id.to_string(), it.will.is_some()))
        .collect();
    all.sort();
    all
}

/// A round takes as much room as there is, and leaves what is kept for changes.
#[test]
fn a_round_leaves_room_for_what_the_hub_says() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, start) = World::new(opened(&folder));
    // Some 60 bytes each: more than half of the room.
    for number in 0..40_000 {
        session(&format!("client{number:05}")).restore(&mut world.hub, Tick::ZERO);
    }
    world.recorder.record_restored(&mut world.hub, true);
    assert_eq!(world.recorder.completeness, Completeness::Complete);
    for turn in 0..1_000 {
        // A change in each turn.
        world.add(&format!("new{turn}"));
        world.tend();
    }
    assert_eq!(world.recorder.completeness, Completeness::Complete);
    assert!(
        world.recorder.round.is_some(),
        "the maintenance thread does nothing"
    );
    start(&mut world);
    world.tend_until(|recorder| recorder.round.is_none());
    assert_eq!(world.recorder.completeness, Completeness::Complete);
    world.end().unwrap();
    assert_eq!(found(&folder).len(), 41_000);
}

/// What is more than the files that there are have room for waits until there are others.
#[test]
fn a_burst_waits_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, start) = World::new(opened(&folder));
    for number in 0..250 {
        world.add_large(&format!("client{number}"));
        world.tend();
    }
    assert!(world.recorder.waits() && is_journal_laden(&world.hub));
    assert_eq!(world.recorder.completeness, Completeness::Complete);
    start(&mut world);
    world.tend_until(|recorder| !recorder.waits());
    assert!(!is_journal_laden(&world.hub));
    assert_eq!(world.recorder.completeness, Completeness::Complete);
    world.end().unwrap();
    assert_eq!(found(&folder).len(), 250);
}

#[test]
fn clients_wait_until_little_waits_for_room_or_to_be_freed() {
    assert!(!is_much(false, WAITING_MUCH - 1, UNFREED_MUCH - 1));
    assert!(is_much(false, WAITING_MUCH, 0) && is_much(false, 0, UNFREED_MUCH));
    assert!(is_much(true, WAITING_LITTLE, 0) && is_much(true, 0, UNFREED_LITTLE));
    assert!(!is_much(true, WAITING_LITTLE - 1, UNFREED_LITTLE - 1));
    let usage = |used, released_bytes| Usage {
        used,
        ready: 2,
        released: 1,
        used_bytes: 10 * used,
        released_bytes,
    };
    assert_eq!(unfreed(usage(0, 7), 4), 7);
    assert_eq!(unfreed(usage(4, 7), 4), 7);
    assert_eq!(unfreed(usage(6, 7), 4), 27);
}

/// Records that wait when the shard ends are written before it does.
#[test]
fn an_end_waits_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, start) = World::new(opened(&folder));
    for number in 0..60 {
        world.add_large(&format!("client{number}"));
    }
    assert!(world.recorder.waits());
    let all: usize = world
        .recorder
        .waiting
        .batches
        .iter()
        .map(|it| it.len())
        .sum();
    assert!(all > 0, "what waits for room");
    assert_eq!(world.recorder.bytes(), all);
    start(&mut world);
    world.tend_until(|recorder| !recorder.lacks_room());
    assert_eq!(world.recorder.bytes(), 0);
    world.end().unwrap();
    assert_eq!(found(&folder).len(), 60);
}

/// With `always`, answers wait for the commit that covers what they belong to.
#[test]
fn answers_wait_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, start) = World::new(opened(&folder));
    world.recorder.syncing = Syncing::First {
        has_news: false,
        under_way: None,
    };
    world.tend_until(|recorder| recorder.round.is_none());
    assert!(!world.recorder.waits(), "nobody is told of a round");
    let add = |world: &mut World, id: &str| {
        session(id).restore(&mut world.hub, Tick::ZERO);
        world.recorder.record(&mut world.hub)
    };
    assert!(add(&mut world, "first"));
    assert!(world.recorder.waits() && !world.recorder.lacks_room());
    let begins = Turn {
        begins: true,
        ..Turn::default()
    };
    assert_eq!(world.recorder.tend(&mut world.hub), begins);
    // The maintenance thread does nothing yet.
    assert!(add(&mut world, "second"));
    for _ in 0..100 {
        assert_eq!(world.recorder.tend(&mut world.hub), Turn::default());
    }
    start(&mut world);
    let mut ended = 0;
    while world.recorder.waits() {
        let turn = world.recorder.tend(&mut world.hub);
        ended += usize::from(turn.ends);
        // The second one waits for another commit.
        assert_eq!(turn.begins, turn.ends && ended == 1);
        std::thread::yield_now();
    }
    assert_eq!(ended, 2);
    world.end().unwrap();
}

/// Clients do not get answers to what was dropped, and the hub takes nothing on until all of it is
/// written down.
#[test]
fn what_is_dropped_is_not_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, start) = World::new(opened(&folder));
    world.add("known");
    for number in 0..60 {
        world.add_large(&format!("client{number}"));
    }
    assert!(world.recorder.lacks_room());
    world.recorder.fall_behind(Why::Slow);
    assert!(world.recorder.tend(&mut world.hub).drops);
    assert_eq!(world.recorder.tend(&mut world.hub), Turn::default());
    assert!(world.recorder.is_full);
    start(&mut world);
    world.tend_until(|it| it.completeness == Completeness::Complete && it.round.is_none());
    world.tend_until(|it| !it.is_full);
    world.end().unwrap();
    assert_eq!(found(&folder).len(), 61);
}

/// However large sessions are, few of them are written in one turn.
#[test]
fn a_round_stops_after_some_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, _) = World::new(opened(&folder));
    for number in 0..20 {
        world.add_large(&format!("client{number}"));
    }
    let (mut next, mut steps) = (Some(0), 0);
    while let Some(from) = next {
        next = rewrite_sessions(&mut world.hub, from, PIECES_AT_ONCE);
        let bytes = world.hub.effects().log.len();
        assert!(bytes < 3 * 100_000, "{bytes}");
        let mut batches = 0;
        take_batches(&mut world.hub, |_| batches += 1);
        (0..batches).for_each(|_| logged(&mut world.hub, None));
        steps += 1;
    }
    assert!(steps >= 10, "{steps}");
}

/// A small disk may never have room for the whole reserve.
#[test]
fn few_sessions_catch_up_with_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, start) = World::new(opened(&folder));
    world.add("stays");
    world.tend_until(|recorder| recorder.round.is_none());
    let mut number = 0;
    while world.recorder.writer.usage().ready > 1 {
        world
            .hub
            .operate()
            .kick(Tick::ZERO, Zone::DEFAULT, "large", true);
        world.add_large("large");
        number += 1;
    }
    assert!(number > 10, "{number}");
    world.recorder.fall_behind(Why::Refused);
    world.add("new");
    // The maintenance thread does nothing yet.
    for _ in 0..100 {
        world.tend();
    }
    assert_eq!(world.recorder.completeness, Completeness::Complete);
    start(&mut world);
    world.end().unwrap();
    let all: Vec<_> = found(&folder).into_iter().map(|(id, _)| id).collect();
    assert_eq!(all, ["large", "new", "stays"]);
}

/// What has ended while nothing could be written is over when the journal is complete again.
#[test]
fn an_end_that_was_dropped_is_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, start) = World::new(opened(&folder));
    world.recorder.waiting.max = 0;
    world.add("ends");
    world.add("stays");
    let mut filler = 0;
    while world.recorder.completeness == Completeness::Complete {
        world.add(&format!("filler{filler}"));
        filler += 1;
    }
    assert!(world.recorder.has_told, "no file has failed");
    let now = Tick::from_secs(1);
    world.hub.operate().kick(now, Zone::DEFAULT, "ends", true);
    world.recorder.record(&mut world.hub);
    start(&mut world);
    world.tend_until(|it| it.completeness == Completeness::Complete && it.round.is_none());
    assert!(!world.recorder.has_told);
    world.end().unwrap();
    let all = found(&folder);
    let has = |id: &str| all.iter().any(|(client_id, _)| client_id == id);
    assert_eq!(
        (all.len(), has("ends"), has("stays")),
        (filler + 1, false, true)
    );
}

/// Wills are put off then, and are for the next start.
#[test]
fn a_round_does_not_go_on_while_the_shard_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (mut world, start) = World::new(opened(&folder));
    let ids: Vec<String> = (0..2_000).map(|number| format!("c{number:04}")).collect();
    for id in &ids {
        world.add(id);
    }
    world.tend();
    assert!(world.recorder.round.is_some(), "it takes several turns");
    world.recorder.stop();
    world.hub.operate().shut_down(Tick::from_secs(1), |_| None);
    start(&mut world);
    for _ in 0..1_000 {
        world.tend();
    }
    world.end().unwrap();
    let expected: Vec<_> = ids.into_iter().map(|id| (id, true)).collect();
    assert_eq!(found(&folder), expected);
}
