//! Starts, stops and crashes on a simulated disk, with the maintenance thread.

mod model;
mod offline;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use stentor_disk::simulated::{Operation, SimulatedDisk};
use stentor_disk::{Disk, Region};
use stentor_journal::Bounds;
use stentor_mqtt::{PacketId, QoS};
use stentor_session_log::*;

use crate::*;

const BOUNDS: Bounds = Bounds {
    segment_bytes: 1024,
    ahead: 3,
    reserve: 1,
    segments_max: 4096,
};

fn options(boot: u64, shards: u16) -> Options {
    Options {
        boot,
        random: 7,
        shards,
        bounds: BOUNDS,
    }
}

/// Passes on what happens.
struct Told(Sender<StoreEvent>);

impl Watcher for Told {
    fn wake(&self, _: u16) {}

    fn event(&self, event: StoreEvent) {
        // The test may be over.
        let _ = self.0.send(event);
    }
}

/// A server that has started.
struct Server<D: Disk> {
    writers: Vec<Writer<D::Region>>,
    maintenance: JournalMaintenance<D>,
    events: Receiver<StoreEvent>,
    sessions: Vec<RestoredSession<String>>,
}

/// Starts, and takes over all sessions, which the shards share in turn.
fn start<D: Disk>(disk: D, boot: u64, shards: u16) -> Server<D> {
    let server = begin(disk, boot, shards);
    server.writers.iter().for_each(Writer::took_over);
    server
}

/// The same, but the maintenance thread does not hear that everything is taken over.
fn begin<D: Disk>(disk: D, boot: u64, shards: u16) -> Server<D> {
    let sync = Sync::Interval(Duration::from_millis(1));
    begin_with(disk, boot, shards, sync)
}

fn begin_with<D: Disk>(disk: D, boot: u64, shards: u16, sync: Sync) -> Server<D> {
    let opened = open(disk, options(boot, shards)).expect("the folder opens");
    assert_eq!(opened.troubles, []);
    let restored = opened.earlier.replay(sync, |_, body| body.topic.to_owned());
    assert_eq!(restored.damage, []);
    let (sender, events) = channel();
    let watcher = Arc::new(Told(sender));
    let maintenance = opened.maintenance.start(sync, opened.earlier, watcher);
    let maintenance = maintenance.expect("the system has threads");
    let mut writers = opened.writers;
    for (number, session) in (0..).zip(&restored.sessions) {
        let shard = number as usize % writers.len();
        let origin = session.origin;
        append(&mut writers[shard], &[Record::Adopted { number, origin }]);
        rebase(&mut writers[shard], number, session);
    }
    Server {
        writers,
        maintenance,
        events,
        sessions: restored.sessions,
    }
}

fn rebase<R: Region>(writer: &mut Writer<R>, number: u32, session: &RestoredSession<String>) {
    let base = Session {
        number,
        client_id: &session.client_id,
        ..session_of(number, "")
    };
    let subscriptions = session.subscriptions.iter();
    let subscriptions = subscriptions.map(|it| sub(number, &it.filter));
    let records = [Record::Base(base)].into_iter().chain(subscriptions);
    append(writer, &records.collect::<Vec<_>>());
}

/// Appends a batch, as soon as there is room.
fn append<R: Region>(writer: &mut Writer<R>, records: &[Record<'_>]) -> Name {
    let mut batch = Vec::new();
    for record in records {
        record.encode(&mut batch);
    }
    loop {
        assert_eq!(writer.tend(), Needs::Nothing);
        match writer.append(&batch) {
            Ok(name) => return name,
            Err(_) => std::thread::yield_now(),
        }
    }
}

fn session_of(number: u32, client_id: &str) -> Session<'_> {
    Session {
        number,
        zone: 0,
        client_id,
        user: None,
        guest: None,
        expiry_secs: 60,
        has_no_account: false,
        roles_are_of_credential: false,
        roles: List::default(),
        quotas: Quotas::default(),
    }
}

fn sub(number: u32, filter: &str) -> Record<'_> {
    Record::Sub(Subscription {
        number,
        filter: Filter {
            group: None,
            filter,
        },
        qos: QoS::AtLeastOnce,
        no_local: false,
        retain_as_published: false,
        snapshot: false,
        room: false,
        identifier: None,
        interval_micros: 0,
    })
}

/// Clients and what they have subscribed to.
fn told(sessions: &[RestoredSession<String>]) -> Vec<(String, Vec<String>)> {
    let session = |it: &RestoredSession<String>| {
        let filters = it.subscriptions.iter().map(|it| String::from(&*it.filter));
        (String::from(&*it.client_id), filters.collect())
    };
    let mut told: Vec<_> = sessions.iter().map(session).collect();
    told.sort();
    told
}

/// Fills two journals, some files each.
fn fill<D: Disk>(server: &mut Server<D>) -> Vec<(String, Vec<String>)> {
    let mut expected = Vec::new();
    for (shard, writer) in (0..).zip(&mut server.writers) {
        for number in 0..40 {
            let client_id = format!("c{shard}-{number:02}");
            let filter = "x".repeat(1 + number as usize * 5);
            let records = [
                Record::Session(session_of(number, &client_id)),
                sub(number, &filter),
            ];
            append(writer, &records);
            expected.push((client_id, vec![filter]));
        }
    }
    expected
}

/// Has the shards tend to their journals until this is told, and nothing else before.
fn await_event<D: Disk>(server: &mut Server<D>, expected: &StoreEvent) {
    loop {
        for writer in &mut server.writers {
            writer.tend();
        }
        match server.events.try_recv() {
            Ok(event) => break assert_eq!(event, *expected),
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// Has the shards commit until the earlier generations are gone.
fn forget<D: Disk>(server: &mut Server<D>) {
    await_event(server, &StoreEvent::Forgotten);
}

fn stop<D: Disk>(server: Server<D>) {
    for writer in server.writers {
        writer.finish();
    }
    server.maintenance.end().expect("the disk works");
}

#[test]
fn sessions_survive_a_kill_and_another_number_of_shards() {
    let disk = SimulatedDisk::new(1);
    let mut server = start(disk.clone(), 1, 2);
    assert!(server.sessions.is_empty());
    let expected = fill(&mut server);
    let killed = disk.after_kill();
    stop(server);
    for shards in [1, 3] {
        let mut server = start(killed.after_kill(), 1, shards);
        assert_eq!(told(&server.sessions), expected);
        forget(&mut server);
        stop(server);
    }
}

/// Has everything brought to the disk, as a shard does that answers only then.
fn commit<D: Disk>(server: &mut Server<D>, shard: usize) {
    let place = server.writers[shard].commit();
    while !server.writers[shard].is_committed(place) {
        assert_eq!(server.writers[shard].tend(), Needs::Nothing);
        std::thread::yield_now();
    }
}

/// A power loss between any two commits leaves all that was committed.
#[test]
fn what_was_committed_survives_a_power_loss() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let mut server = begin_with(disk.clone(), 1, 2, Sync::Always);
        server.writers.iter().for_each(Writer::took_over);
        let mut expected = Vec::new();
        for number in 0..20 {
            let shard = number as usize % 2;
            let client_id = format!("c{number:02}");
            let record = Record::Session(session_of(number, &client_id));
            append(&mut server.writers[shard], &[record]);
            commit(&mut server, shard);
            expected.push((client_id, Vec::new()));
            // It may be there or not.
            append(&mut server.writers[shard], &[Record::Here { number }]);
            let found = begin(disk.after_power_loss(), 2, 1);
            assert_eq!(told(&found.sessions), expected, "seed {seed}");
            stop(found);
        }
        stop(server);
    }
}

/// After a power loss, the release of a packet id may be missing, unless answers wait for the disk.
#[test]
fn packet_ids_that_have_arrived_are_forgotten_after_a_power_loss() {
    let second = Duration::from_secs(1);
    for (boot, sync, is_kept) in [
        (1, Sync::Never, true),
        (2, Sync::Never, false),
        (2, Sync::Interval(second), false),
        (2, Sync::Always, true),
    ] {
        let disk = SimulatedDisk::new(5);
        let mut server = begin_with(disk.clone(), 1, 1, sync);
        let packet_id = PacketId::new(9).expect("an id");
        let arrival = Arrival {
            number: 0,
            packet_id,
        };
        let records = [
            Record::Session(session_of(0, "c")),
            Record::Arrived(arrival),
        ];
        append(&mut server.writers[0], &records);
        commit(&mut server, 0);
        let disk = if boot == 1 {
            disk.after_kill()
        } else {
            disk.after_power_loss()
        };
        let found = begin_with(disk, boot, 1, sync);
        let arrived = &found.sessions[0].arrived;
        let expected = if is_kept { &[packet_id][..] } else { &[] };
        assert_eq!(arrived, expected, "{boot} {sync:?}");
        stop(found);
        stop(server);
    }
}

/// A kill before the earlier generation is forgotten leaves both.
#[test]
fn a_kill_while_sessions_are_taken_over_loses_none() {
    let disk = SimulatedDisk::new(1);
    let mut server = start(disk.clone(), 1, 2);
    let expected = fill(&mut server);
    let mut disk = disk.after_kill();
    stop(server);
    for shards in [3, 1, 2] {
        let server = start(disk.clone(), 1, shards);
        assert_eq!(told(&server.sessions), expected);
        disk = disk.after_kill();
        stop(server);
    }
}

#[test]
fn a_stop_brings_everything_to_the_disk() {
    let disk = SimulatedDisk::new(3);
    let mut server = start(disk.clone(), 1, 2);
    let expected = fill(&mut server);
    stop(server);
    let mut server = start(disk.after_power_loss(), 2, 2);
    assert_eq!(told(&server.sessions), expected);
    forget(&mut server);
    stop(server);
    let server = start(disk.after_power_loss(), 3, 1);
    assert_eq!(told(&server.sessions), expected);
    stop(server);
}

/// A file that is given up is used again, also without commits at intervals.
#[test]
fn files_go_round() {
    let disk = SimulatedDisk::new(1);
    let mut server = start(disk.clone(), 1, 1);
    append(
        &mut server.writers[0],
        &[Record::Session(session_of(0, "c"))],
    );
    forget(&mut server);
    let writer = &mut server.writers[0];
    for _ in 0..400 {
        append(writer, &[sub(0, &"x".repeat(200))]);
        let base = append(writer, &[Record::Base(session_of(0, "c"))]);
        writer.release_before(base.file);
    }
    let files = disk.names().expect("a simulated disk has names").len();
    assert!(files < 40, "{files} files");
    stop(server);
    let server = start(disk.after_kill(), 1, 1);
    assert_eq!(told(&server.sessions), [("c".to_owned(), Vec::new())]);
    stop(server);
}

#[test]
fn a_full_disk_is_told_and_recovers() {
    let disk = SimulatedDisk::new(1);
    let mut server = start(disk.clone(), 1, 1);
    forget(&mut server);
    let monitor = server.maintenance.monitor();
    assert_eq!(monitor.troubles(), [""; 0]);
    disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
    let writer = &mut server.writers[0];
    let record = |number| [Record::Session(session_of(number, "c"))];
    let mut batch = Vec::new();
    record(0)[0].encode(&mut batch);
    let mut appended = 0;
    while writer.append(&batch).is_ok() {
        appended += 1;
        writer.tend();
    }
    assert!(appended >= 3 * BOUNDS.segment_bytes / (2 * batch.len() + 48));
    let event = loop {
        server.writers[0].tend();
        match server.events.try_recv() {
            Ok(event) => break event,
            Err(_) => std::thread::yield_now(),
        }
    };
    let StoreEvent::Trouble(trouble) = event else {
        panic!("{event:?}");
    };
    let full = std::io::Error::from(ErrorKind::StorageFull).to_string();
    assert!(trouble.contains(&full), "{trouble}");
    assert!(monitor.troubles()[0].contains(&full));
    disk.break_down(None);
    append(&mut server.writers[0], &record(0));
    await_event(&mut server, &StoreEvent::Recovered);
    assert_eq!(monitor.troubles(), [""; 0]);
    stop(server);
    let server = start(disk.after_power_loss(), 2, 1);
    assert_eq!(told(&server.sessions), [("c".to_owned(), Vec::new())]);
    stop(server);
}

/// What a disk has failed to sync is not there after a power loss. So the earlier generation stays
/// until the sessions have been written again.
#[test]
fn earlier_generations_stay_while_the_disk_fails() {
    let disk = SimulatedDisk::new(1);
    let mut server = start(disk.clone(), 1, 1);
    forget(&mut server);
    append(
        &mut server.writers[0],
        &[Record::Session(session_of(0, "c"))],
    );
    stop(server);
    let expected = [("c".to_owned(), Vec::new())];
    let mut server = begin(disk.clone(), 1, 1);
    assert_eq!(told(&server.sessions), expected);
    disk.break_down(Some((Operation::Flush, ErrorKind::Other)));
    append(&mut server.writers[0], &[Record::Here { number: 0 }]);
    server.writers[0].took_over();
    while server.writers[0].tend() != Needs::Rewriting {
        std::thread::yield_now();
    }
    let troubled = server
        .events
        .recv()
        .expect("the maintenance thread tells it");
    assert!(matches!(troubled, StoreEvent::Trouble(_)), "{troubled:?}");
    for _ in 0..20 {
        let server = start(disk.after_power_loss(), 2, 1);
        assert_eq!(told(&server.sessions), expected);
        stop(server);
    }
    disk.break_down(None);
    let mut base = Vec::new();
    Record::Base(session_of(0, "c")).encode(&mut base);
    while server.writers[0].append(&base).is_err() {
        server.writers[0].tend();
    }
    server.writers[0].rewritten();
    await_event(&mut server, &StoreEvent::Recovered);
    forget(&mut server);
    stop(server);
    let server = start(disk.after_power_loss(), 2, 2);
    assert_eq!(told(&server.sessions), expected);
    stop(server);
}

/// An end in order promises everything, also what a killed server had left to the system.
#[test]
fn an_end_in_order_brings_what_was_killed_to_the_disk() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let mut server = start(disk.clone(), 1, 2);
        let expected = fill(&mut server);
        let killed = disk.after_kill();
        stop(server);
        stop(begin(killed.clone(), 1, 2));
        let server = start(killed.after_power_loss(), 2, 1);
        assert_eq!(told(&server.sessions), expected, "seed {seed}");
        stop(server);
    }
}

#[test]
fn a_batch_that_is_larger_than_a_file_gets_one_of_its_own() {
    let disk = SimulatedDisk::new(1);
    let mut server = start(disk.clone(), 1, 1);
    let filter = "x".repeat(3 * BOUNDS.segment_bytes);
    let records = [Record::Session(session_of(0, "c")), sub(0, &filter)];
    append(&mut server.writers[0], &records);
    stop(server);
    let server = start(disk, 1, 1);
    assert_eq!(told(&server.sessions), [("c".to_owned(), vec![filter])]);
    stop(server);
}
