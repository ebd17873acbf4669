//! Histories of topics: what is kept, what is read, and what a kill or a power loss leaves.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use stentor_disk::simulated::{Operation, SimulatedDisk};
use stentor_hub::{
    Cursor, HistoryAsk, HistoryBounds, HistoryQuery, Kept, NotKept, Retained, Scope, Walk,
};
use stentor_mqtt::QoS;
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::{Zone, matches};

use super::support::{Random, get, message, options, put, walk};
use crate::history::{history_of, name_of};
use crate::{Outcome, Quota, Store, StoreOptions, Sync};

type Simulated = Store<SimulatedDisk>;

const ZONE: Zone = Zone(0);

fn bounds(messages: u32) -> HistoryBounds {
    HistoryBounds {
        messages,
        age: Duration::ZERO,
        bytes: u64::MAX,
    }
}

fn simulated(sync: Sync) -> (SimulatedDisk, Simulated) {
    let disk = SimulatedDisk::new(1);
    let store = Store::open(disk.clone(), &options(sync)).unwrap();
    (disk, store)
}

fn keep(
    store: &Simulated,
    topic: &str,
    payload: &[u8],
    bounds: HistoryBounds,
) -> Result<u64, NotKept> {
    let message = message(ZONE, topic, payload);
    store.keep(&message, bounds).map(|kept| {
        assert_eq!(kept, Kept::Now);
        message.sequence()
    })
}

/// What is read by a query, in steps of this many visits.
fn recall(store: &Simulated, filter: &str, ask: HistoryAsk, visits: usize) -> Vec<Arc<Message>> {
    let scope = Scope::until(store.mark(), Tick::from_secs(6));
    recall_in(store, filter, ask, (scope, visits))
}

fn recall_in(
    store: &Simulated,
    filter: &str,
    ask: HistoryAsk,
    (scope, visits): (Scope, usize),
) -> Vec<Arc<Message>> {
    let (mut cursor, mut found) = (Cursor::default(), Vec::new());
    let query = HistoryQuery {
        zone: ZONE,
        filter,
        ask,
    };
    let mut steps = 0;
    while store.history(query, scope, &mut cursor, visits, &mut found) == Walk::More {
        steps += 1;
        assert!(steps < 1_000_000, "it does not come to its end");
    }
    found
}

/// Topics, numbers and payloads.
fn told(found: &[Arc<Message>]) -> Vec<(&str, u64, &[u8])> {
    let tell = found
        .iter()
        .map(|it| (it.topic(), it.sequence(), it.payload()));
    tell.collect()
}

fn payloads(found: &[Arc<Message>]) -> Vec<String> {
    let text = |message: &Arc<Message>| String::from_utf8_lossy(message.payload()).into_owned();
    found.iter().map(text).collect()
}

#[test]
fn the_last_messages_are_kept_in_their_order_and_older_ones_go() {
    let (_, store) = simulated(Sync::Never);
    for number in 1..=300 {
        keep(&store, "t", format!("{number}").as_bytes(), bounds(100)).unwrap();
    }
    assert_eq!(get(&store, "t").as_deref(), Some(&b"300"[..]));
    let all = recall(&store, "t", HistoryAsk::ALL, 1_000);
    let expected: Vec<String> = (201..=300).map(|number| number.to_string()).collect();
    assert_eq!(payloads(&all), expected);
    let numbers: Vec<u64> = all.iter().map(|message| message.sequence()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
    assert!(
        all.iter()
            .all(|message| message.retain && message.topic() == "t")
    );
    assert!(
        all.iter()
            .all(|message| message.properties() == b"\x01\x01")
    );
    let (first, last) = store.history_range(ZONE, "t").unwrap();
    assert_eq!((first, last), (numbers[0], numbers[99]));
    for visits in [1, 3, 1_000] {
        for wanted in [1, 10, 100, 1_000] {
            let found = recall(&store, "t", HistoryAsk::Last(wanted), visits);
            let at = 100 - (wanted as usize).min(100);
            assert_eq!(payloads(&found), expected[at..], "last:{wanted}");
        }
        let found = recall(&store, "t", HistoryAsk::After(last - 3), visits);
        assert_eq!(payloads(&found), ["298", "299", "300"]);
        assert_eq!(
            recall(&store, "t", HistoryAsk::After(last), visits).len(),
            0
        );
        let none = HistoryAsk::After(u64::MAX);
        assert_eq!(recall(&store, "t", none, visits).len(), 0);
    }
    let figures = store.histories();
    assert_eq!((figures.topics, figures.messages), (1, 100));
    assert_eq!(figures.bytes, 100 * (1 + 2 + 3));
    assert_eq!((store.count(), store.status().messages), (1, 1));
    assert!(store.history_len(ZONE, "t") == 100 && store.history_len(ZONE, "u") == 0);
    assert!(store.history_len(Zone(1), "t") == 0);
}

/// An empty message clears the last one, and stands in the history as it came.
#[test]
fn an_empty_message_is_part_of_the_history() {
    let (_, store) = simulated(Sync::Never);
    let first = keep(&store, "t", b"on", bounds(10)).unwrap();
    assert_eq!(keep(&store, "t", b"", bounds(10)), Ok(first + 1));
    assert_eq!(get(&store, "t"), None);
    assert_eq!(keep(&store, "t", b"off", bounds(10)), Ok(first + 2));
    let all = recall(&store, "#", HistoryAsk::ALL, 5);
    let expected = [
        ("t", first, &b"on"[..]),
        ("t", first + 1, b""),
        ("t", first + 2, b"off"),
    ];
    assert_eq!(told(&all), expected);
}

#[test]
fn a_filter_finds_the_histories_of_all_its_topics() {
    let topics = ["a", "a!", "a/b", "a/b/c", "a/c", "ab", "b/c", "$x/a", "ä/b"];
    let (_, store) = simulated(Sync::Never);
    for round in 0..3 {
        for topic in topics {
            keep(
                &store,
                topic,
                format!("{topic}{round}").as_bytes(),
                bounds(2),
            )
            .unwrap();
        }
    }
    // In another zone, and without a history.
    let other = message(Zone(1), "a/b", b"other");
    store.keep(&other, bounds(2)).unwrap();
    put(&store, "a/plain", b"plain").unwrap();
    for filter in [
        "#", "+", "a", "a/#", "a/+", "+/b", "+/+", "a/b/#", "$x/#", "$x/a", "none",
    ] {
        let mut expected = BTreeMap::new();
        for topic in topics.iter().filter(|topic| matches(filter, topic)) {
            expected.insert(*topic, vec![format!("{topic}1"), format!("{topic}2")]);
        }
        for visits in [1, 4, 1_000] {
            let found = recall(&store, filter, HistoryAsk::ALL, visits);
            let mut by_topic: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for message in &found {
                let payload = String::from_utf8(message.payload().to_vec()).unwrap();
                by_topic.entry(message.topic()).or_default().push(payload);
            }
            assert_eq!(by_topic, expected, "{filter}");
        }
    }
    let last = payloads(&recall(&store, "a/+", HistoryAsk::Last(1), 1));
    assert_eq!(last.len(), 2, "{last:?}");
    // Those without a message for the query are passed over in bounded steps.
    assert_eq!(recall(&store, "#", HistoryAsk::After(1 << 60), 1).len(), 0);
    // Walks of the last messages see none of it.
    assert_eq!(walk(&store, "#", 3).len(), topics.len());
    assert_eq!(store.trees(ZONE), ["$x".to_owned()].into());
}

#[test]
fn a_reader_gets_what_was_put_until_its_mark_and_after_another() {
    let (_, store) = simulated(Sync::Never);
    keep(&store, "t", b"1", bounds(9)).unwrap();
    let early = store.mark();
    keep(&store, "t", b"2", bounds(9)).unwrap();
    let late = store.mark();
    keep(&store, "t", b"3", bounds(9)).unwrap();
    let read = |after, mark| {
        let now = Tick::from_secs(6);
        let scope = Scope { after, mark, now };
        payloads(&recall_in(&store, "t", HistoryAsk::ALL, (scope, 1)))
    };
    assert_eq!(read(stentor_hub::Mark(0), early), ["1"]);
    assert_eq!(read(stentor_hub::Mark(0), late), ["1", "2"]);
    assert_eq!(read(early, late), ["2"]);
    assert_eq!(read(early, store.mark()), ["2", "3"]);
}

fn at(topic: &str, payload: &[u8], secs: u64, expiry_secs: Option<u32>) -> Arc<Message> {
    let parts = MessageParts {
        topic,
        properties: b"\x01\x01",
        payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        expiry_secs,
    };
    let publisher = Publisher::client("c");
    Arc::new(Message::new(ZONE, publisher, Tick::from_secs(secs), &parts))
}

#[test]
fn messages_of_a_time_are_found_and_old_ones_go() {
    let (disk, store) = simulated(Sync::Never);
    let ten = HistoryBounds {
        age: Duration::from_secs(10),
        ..bounds(100)
    };
    let read = |store: &Simulated, ask, secs| {
        let scope = Scope::until(store.mark(), Tick::from_secs(secs));
        payloads(&recall_in(store, "t", ask, (scope, 2)))
    };
    for secs in 1..=8 {
        let message = at("t", secs.to_string().as_bytes(), secs, None);
        store.keep(&message, ten).unwrap();
    }
    // Its own interval is shorter.
    store.keep(&at("t", b"short", 8, Some(3)), ten).unwrap();
    let since = |secs: u64| HistoryAsk::Since((1_900_000_000 + secs) * 1_000);
    assert_eq!(read(&store, since(7), 8), ["7", "8", "short"]);
    assert_eq!(read(&store, since(20), 8).len(), 0);
    assert_eq!(read(&store, HistoryAsk::Since(0), 8).len(), 9);
    assert_eq!(
        read(&store, HistoryAsk::ALL, 11).len(),
        7,
        "1 is too old, short has expired"
    );
    store.expire(Tick::from_secs(13));
    assert_eq!(store.histories().messages, 5);
    assert_eq!(read(&store, HistoryAsk::ALL, 13), ["4", "5", "6", "7", "8"]);
    // The last message has expired, and numbers go on nevertheless.
    let (_, last) = store.history_range(ZONE, "t").unwrap();
    let next = at("t", b"next", 13, None);
    store.keep(&next, ten).unwrap();
    assert_eq!(next.sequence(), last + 1);
    // A restart changes none of it.
    drop(store);
    let later = StoreOptions {
        now: Tick::from_secs(13),
        ..options(Sync::Never)
    };
    let store = Store::open(disk.after_kill(), &later).unwrap();
    assert_eq!(read(&store, HistoryAsk::ALL, 13).len(), 6);
    store.expire(Tick::from_secs(100));
    assert_eq!(
        (store.histories().messages, store.histories().topics),
        (0, 0)
    );
    assert_eq!(
        get(&store, "t").as_deref(),
        Some(&b"next"[..]),
        "the last has no age"
    );
}

/// A time is found without looking at all that is older, also after the clock was set back and
/// after a start.
#[test]
fn a_time_is_found_in_a_long_history() {
    const MESSAGES: u64 = 3_000;
    let (disk, mut store) = simulated(Sync::Never);
    // It is set back by 1,000 seconds at 2,000.
    let secs = |number: u64| number + 1 - 1_000 * u64::from(number >= 2_000);
    for number in 0..MESSAGES {
        let message = at("t", number.to_string().as_bytes(), secs(number), None);
        store.keep(&message, bounds(5_000)).unwrap();
    }
    for is_new in [true, false] {
        for since in [0, 500, 1_500, 1_995, 2_000, 2_001, 9_000] {
            let query = HistoryQuery {
                zone: ZONE,
                filter: "t",
                ask: HistoryAsk::Since((1_900_000_000 + since) * 1_000),
            };
            let scope = Scope::until(store.mark(), Tick::from_secs(9_999));
            let (mut cursor, mut found) = (Cursor::default(), Vec::new());
            while store.history(query, scope, &mut cursor, 100, &mut found) == Walk::More {}
            let expected: Vec<String> = (0..MESSAGES)
                .filter(|number| secs(*number) >= since)
                .map(|number| number.to_string())
                .collect();
            assert_eq!(payloads(&found), expected, "{since}, {is_new}");
            let first = (0..MESSAGES).find(|number| secs(*number) >= since);
            let looked_at = MESSAGES - first.unwrap_or(MESSAGES);
            // Beside what a message costs to copy.
            let most = looked_at * 20 + 500;
            assert!(cursor.visits <= most, "{since}: {} visits", cursor.visits);
        }
        if is_new {
            drop(store);
            store = Store::open(disk.after_kill(), &options(Sync::Never)).unwrap();
        }
    }
}

/// The interval that the publisher has given is told, and not that of the history.
#[test]
fn the_publisher_s_expiry_interval_stays_what_it_is() {
    let (_, store) = simulated(Sync::Never);
    let ten = HistoryBounds {
        age: Duration::from_secs(10),
        ..bounds(100)
    };
    store.keep(&at("t", b"none", 1, None), ten).unwrap();
    store.keep(&at("t", b"long", 1, Some(60)), ten).unwrap();
    let found = recall(&store, "t", HistoryAsk::ALL, 9);
    let expires: Vec<Tick> = found.iter().map(|message| message.expires_at).collect();
    assert_eq!(expires, [Tick::NEVER, Tick::from_secs(61)]);
}

#[test]
fn bytes_bound_a_history_and_the_newest_message_stays() {
    let (_, store) = simulated(Sync::Never);
    let small = HistoryBounds {
        bytes: 50,
        ..bounds(100)
    };
    for number in 0..9 {
        keep(&store, "t", format!("{number}0123456").as_bytes(), small).unwrap();
    }
    // Topic, properties and payload are 11 bytes.
    assert_eq!(recall(&store, "t", HistoryAsk::ALL, 9).len(), 4);
    keep(&store, "t", &[b'x'; 200], small).unwrap();
    assert_eq!(recall(&store, "t", HistoryAsk::ALL, 9).len(), 1);
    // Lower bounds take effect with the next messages.
    for number in 0..100 {
        keep(&store, "u", &[number], bounds(100)).unwrap();
    }
    for number in 0..10 {
        keep(&store, "u", &[number], bounds(3)).unwrap();
    }
    assert_eq!(recall(&store, "u", HistoryAsk::ALL, 9).len(), 3);
}

/// Neither the last message nor the history changes.
#[test]
fn what_finds_no_room_is_refused_before_anything_changes() {
    let (disk, store) = simulated(Sync::Never);
    let quota = Quota {
        messages_max: 5,
        bytes_max: u64::MAX,
    };
    store.set_quotas(quota, Quota::UNLIMITED);
    let first = keep(&store, "t", b"1", bounds(100)).unwrap();
    for number in 2..=4 {
        let payload = number.to_string();
        keep(&store, "t", payload.as_bytes(), bounds(100)).unwrap();
    }
    assert_eq!(keep(&store, "t", b"5", bounds(100)), Err(NotKept::Full));
    assert_eq!(keep(&store, "u", b"1", bounds(100)), Err(NotKept::Full));
    let check = |store: &Simulated| {
        assert_eq!(get(store, "t").as_deref(), Some(&b"4"[..]));
        let found = recall(store, "#", HistoryAsk::ALL, 9);
        assert_eq!(payloads(&found), ["1", "2", "3", "4"]);
        assert_eq!(found[0].sequence(), first);
    };
    check(&store);
    store.set_quotas(Quota::UNLIMITED, Quota::UNLIMITED);
    disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
    let large = vec![b'x'; 9_000_000];
    assert_eq!(
        keep(&store, "t", &large, bounds(100)),
        Err(NotKept::DiskFull)
    );
    check(&store);
    let zone = Quota {
        messages_max: 5,
        bytes_max: u64::MAX,
    };
    store.set_quotas(Quota::UNLIMITED, zone);
    assert_eq!(keep(&store, "t", b"5", bounds(100)), Err(NotKept::Full));
    assert_eq!(store.status().zones, [(ZONE, 5, 5 * 4 + 4 * 21)]);
    let long = "x".repeat(65_530);
    assert_eq!(keep(&store, &long, b"1", bounds(2)), Err(NotKept::Full));
    check(&store);
}

#[test]
fn histories_are_forgotten_by_filter() {
    for sync in [Sync::Never, Sync::Interval(Duration::from_secs(1))] {
        let (disk, store) = simulated(sync);
        for topic in ["a/b", "a/c", "d"] {
            for number in 0..200_u8 {
                keep(&store, topic, &[number], bounds(1_000)).unwrap();
            }
        }
        assert_eq!(store.forget_histories(ZONE, "a/+"), Ok(400));
        assert_eq!(store.forget_histories(ZONE, "a/+"), Ok(0));
        assert_eq!(recall(&store, "#", HistoryAsk::ALL, 99).len(), 200);
        assert_eq!(get(&store, "a/b"), Some(vec![199]));
        let store = Store::open(disk.after_kill(), &options(sync)).unwrap();
        assert_eq!(recall(&store, "#", HistoryAsk::ALL, 99).len(), 200);
        assert_eq!(store.forget_histories(ZONE, "d"), Ok(200));
        assert_eq!(store.histories(), crate::HistoryFigures::default());
    }
}

/// Some tens of bytes of memory for a message, and the names of topics once.
#[test]
fn a_message_of_a_history_takes_little_memory() {
    let (_, store) = simulated(Sync::Never);
    const TOPICS: u64 = 20;
    const MESSAGES: u64 = 1_000;
    let long = "a/rather/long/name/of/a/topic/with/a/number/of";
    for number in 0..MESSAGES {
        for topic in 0..TOPICS {
            let topic = format!("{long}/{topic}");
            keep(&store, &topic, &number.to_le_bytes(), bounds(u32::MAX)).unwrap();
        }
    }
    let memory = store.heap_bytes();
    assert!(memory < TOPICS * MESSAGES * 50 + TOPICS * 400, "{memory}");
}

#[test]
fn a_damaged_message_of_a_history_is_skipped_and_told_by_its_topic() {
    let (disk, store) = simulated(Sync::Never);
    for number in 0..5 {
        let payload = format!("message {number}");
        keep(&store, "t", payload.as_bytes(), bounds(9)).unwrap();
    }
    drop(store);
    let disk = disk.after_kill();
    let name = name_of("t", 3);
    let mut spoilt = 0;
    for file in stentor_disk::Disk::names(&disk).unwrap() {
        let content = disk.content(&file);
        let place = content.windows(9).position(|part| part == b"message 2");
        let places = content.windows(name.len());
        if let Some(at) = place.filter(|_| places.clone().any(|part| part.starts_with(b"t\0"))) {
            // The first is that of the history: the topic's own record has the newest.
            disk.damage(&file, at, 1);
            spoilt += 1;
        }
    }
    assert_eq!(spoilt, 1);
    let store = Store::open(disk, &options(Sync::Never)).unwrap();
    let (count, reports) = store.damage();
    assert_eq!((count, reports[0].outcome), (1, Outcome::Lost));
    assert_eq!(reports[0].place(), Some((ZONE, "t")));
    assert_eq!(
        reports[0].topic.as_ref().map(|it| it.0),
        Some(history_of(ZONE))
    );
    let found = payloads(&recall(&store, "t", HistoryAsk::ALL, 9));
    assert_eq!(found.len(), 4);
    assert!(!found.contains(&"message 2".to_owned()));
}

/// However many bytes of a publish were written, its message is kept or it is not, and no number is
/// given to two messages that somebody may have read.
#[test]
fn a_kill_at_every_byte_leaves_all_of_a_message_or_nothing() {
    for sync in [Sync::Never, Sync::Interval(Duration::from_secs(1))] {
        for (payload, kept) in [(&b"new"[..], 2), (b"", 2), (b"new", 9)] {
            let mut outcomes = [0, 0];
            for bytes in 0.. {
                let (disk, store) = simulated(sync);
                let mut last = 0;
                for number in 1..=4 {
                    let payload = number.to_string();
                    last = keep(&store, "t", payload.as_bytes(), bounds(kept)).unwrap();
                }
                disk.kill_after(bytes);
                let _ = keep(&store, "t", payload, bounds(kept));
                let is_whole = !disk.is_killed();
                drop(store);
                let is_there = check_after_kill(&disk.after_kill(), sync, (payload, last));
                outcomes[usize::from(is_there)] += 1;
                assert!(is_there || !is_whole, "an acknowledged message is gone");
                if is_whole {
                    break;
                }
            }
            assert!(outcomes[0] > 50, "{outcomes:?}");
        }
    }
}

/// Whether the new message is there.
fn check_after_kill(disk: &SimulatedDisk, sync: Sync, (payload, last): (&[u8], u64)) -> bool {
    let store = Store::open(disk.clone(), &options(sync)).unwrap();
    assert_eq!(store.damage().1, []);
    let found = recall(&store, "t", HistoryAsk::ALL, 9);
    let newest = found.last().expect("older messages stay");
    let is_there = newest.sequence() == last + 1;
    let held = get(&store, "t");
    if is_there {
        assert_eq!(newest.payload(), payload);
        assert_eq!(held.unwrap_or_default(), payload);
    } else {
        assert_eq!((newest.sequence(), newest.payload()), (last, &b"4"[..]));
        assert_eq!(held.as_deref(), Some(&b"4"[..]));
    }
    let next = keep(&store, "t", b"next", bounds(9)).unwrap();
    assert_eq!(next, newest.sequence() + 1);
    let found = recall(&store, "t", HistoryAsk::ALL, 9);
    let numbers: Vec<u64> = found.iter().map(|message| message.sequence()).collect();
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{numbers:?}"
    );
    is_there
}

/// What a topic's history may hold.
#[derive(Debug, Default)]
struct Told {
    /// Every message that was kept since what was found at the last start, by its number.
    kept: VecDeque<(u64, Vec<u8>)>,
    /// Every message that was ever kept.
    ever: Vec<(u64, Vec<u8>)>,
    /// The highest number that a power loss may not cost.
    promised: u64,
    /// What the topic held after the last start, and whether something was kept since.
    held: Option<Vec<u8>>,
    is_touched: bool,
}

/// Kills, power losses and failing disks against a list of what was acknowledged.
fn model(seed: u64) {
    let mut random = Random(seed);
    let sync = [Sync::Never, Sync::Interval(Duration::from_secs(1))][random.below(2)];
    let mut disk = SimulatedDisk::new(seed);
    let mut store = Store::open(disk.clone(), &options(sync)).unwrap();
    let bounds = bounds(1 + random.below(12) as u32);
    let topics = ["a", "a/b", "c/d/e", "f"];
    let mut all: BTreeMap<&str, Told> = BTreeMap::new();
    let (mut count, mut boots, mut epoch) = (0_u32, 1, store.epoch());
    for _ in 0..(2 + random.below(4)) {
        for _ in 0..random.below(120) {
            match random.below(20) {
                0 if sync != Sync::Never && store.commit() => {
                    for told in all.values_mut() {
                        told.promised = told.kept.back().map_or(told.promised, |it| it.0);
                    }
                }
                1 => store.reserve_versions(),
                2 => drop(store.compact()),
                _ => {
                    count += 1;
                    let topic = topics[random.below(topics.len())];
                    let len = [4, 60, 700, 20_000][random.below(4)];
                    let mut payload = count.to_le_bytes().repeat(len / 4);
                    if random.one_in(9) {
                        payload.clear();
                    }
                    let number = keep(&store, topic, &payload, bounds).unwrap();
                    let told = all.entry(topic).or_default();
                    told.ever.push((number, payload.clone()));
                    told.kept.push_back((number, payload));
                    told.is_touched = true;
                }
            }
        }
        let is_power_loss = sync != Sync::Never && random.one_in(2);
        let in_flight = topics[random.below(topics.len())];
        disk.kill_after(random.below(400));
        let _ = keep(&store, in_flight, b"in flight", bounds);
        drop(store);
        disk = match is_power_loss {
            true => disk.after_power_loss(),
            false => disk.after_kill(),
        };
        boots += u64::from(is_power_loss);
        let options = StoreOptions {
            boot: boots,
            ..options(sync)
        };
        store = Store::open(disk.clone(), &options).unwrap();
        assert_eq!(
            store.epoch() != epoch,
            is_power_loss,
            "numbers may have been lost"
        );
        epoch = store.epoch();
        for topic in topics {
            let told = all.entry(topic).or_default();
            check_model(&store, topic, told, (bounds, is_power_loss));
        }
    }
}

fn check_model(
    store: &Simulated,
    topic: &str,
    told: &mut Told,
    (bounds, is_power_loss): (HistoryBounds, bool),
) {
    let found = recall(store, topic, HistoryAsk::ALL, 7);
    let found: Vec<(u64, Vec<u8>)> = found
        .iter()
        .map(|message| (message.sequence(), message.payload().to_vec()))
        .collect();
    assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{topic}");
    let most = bounds.messages as usize;
    // A kill may have come before the oldest one went, which goes with the next message.
    let left = if told.is_touched {
        most
    } else {
        told.kept.len()
    };
    let mut newest: Vec<_> = told.kept.iter().rev().take(left).cloned().collect();
    newest.reverse();
    let is_in_flight = |it: &(u64, Vec<u8>)| it.1 == b"in flight";
    if is_power_loss {
        // Of what was promised, nothing that the bounds would have left is missing; of the rest,
        // anything may be there, but nothing that nobody has put.
        // The oldest may have made room for the message that was in flight.
        let promised = newest.iter().rev().take(most - 1);
        let promised = promised.filter(|it| it.0 <= told.promised);
        for message in promised {
            let is_cut = found.iter().filter(|it| it.0 > message.0).count() >= most;
            assert!(
                found.contains(message) || is_cut,
                "{topic}: {} is lost",
                message.0
            );
        }
        // One that found no room at first may be there with the number that it had then.
        let is_put = |payload: &[u8]| told.ever.iter().any(|it| it.1 == payload);
        for message in found.iter().filter(|it| !is_in_flight(it)) {
            assert!(is_put(&message.1), "{topic}: {} was never put", message.0);
        }
    } else {
        if found.last().is_some_and(is_in_flight) && found.last() != newest.last() {
            newest.extend(found.last().cloned());
        }
        assert!(newest.ends_with(&found), "{topic} has messages of others");
        assert!(
            found.len() >= newest.len().min(most),
            "{topic} lacks messages"
        );
    }
    let held = get(store, topic);
    let last = found.last().map(|it| it.1.clone());
    let last = last.filter(|payload| !payload.is_empty());
    // A power loss may cost the newest messages, after older ones have made room for them: then the
    // last message is one that is not in the history.
    let payload = held.clone().unwrap_or_default();
    let is_it = |it: &(u64, Vec<u8>)| it.0 >= told.promised && it.1 == payload;
    let is_another = told.ever.iter().any(is_it) || payload == b"in flight";
    let is_another = is_power_loss && is_another;
    let is_older = held == told.held && (is_power_loss || !told.is_touched);
    // A topic that held nothing holds nothing of what nobody was told of.
    let is_empty = held.is_none() && found.last().is_some_and(is_in_flight);
    let end = if is_power_loss {
        "a power loss"
    } else {
        "a kill"
    };
    assert!(
        held == last || is_another || is_older || is_empty,
        "{topic} after {end}: {held:?} of {} messages, promised {}",
        found.len(),
        told.promised
    );
    told.kept = found.into();
    (told.held, told.is_touched) = (held, false);
    told.promised = if is_power_loss {
        told.kept.back().map_or(0, |it| it.0)
    } else {
        told.promised
    };
}

#[test]
fn histories_survive_kills_and_keep_their_promises_over_power_losses() {
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        return model(seed.parse().expect("STENTOR_SEED is a number"));
    }
    let runs = match std::env::var_os("STENTOR_SOAK") {
        Some(_) => 20_000,
        None => 300,
    };
    for seed in 0..runs {
        if std::panic::catch_unwind(|| model(seed)).is_err() {
            panic!("seed {seed} fails: STENTOR_SEED={seed} runs it alone");
        }
    }
}

/// What is not in memory is asked for, a step at a time, and read in the meantime.
#[test]
fn what_lies_on_the_disk_is_fetched_before_it_is_read() {
    let (disk, store) = simulated(Sync::Interval(Duration::from_secs(1)));
    for number in 0..500_u32 {
        let payload = number.to_le_bytes().repeat(100);
        keep(&store, "t", &payload, bounds(1_000)).unwrap();
    }
    assert!(store.commit());
    let query = HistoryQuery {
        zone: ZONE,
        filter: "#",
        ask: HistoryAsk::ALL,
    };
    let (mut cursor, mut found) = (Cursor::default(), Vec::new());
    assert!(
        !store.is_fetching_history(query, &cursor, 50),
        "all is there"
    );
    disk.evict();
    (0..64).for_each(|random| store.sample(random));
    let (mut fetches, mut steps) = (0, 0);
    let scope = Scope::until(store.mark(), Tick::from_secs(6));
    loop {
        while store.is_fetching_history(query, &cursor, 50) {
            store.read_now();
            fetches += 1;
        }
        steps += 1;
        if store.history(query, scope, &mut cursor, 50, &mut found) == Walk::Done {
            break;
        }
    }
    assert_eq!(found.len(), 500);
    assert!(fetches > 5 && steps > 5, "{fetches} {steps}");
}
