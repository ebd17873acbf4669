use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use super::*;

const MINUTE: u64 = HALVING_MICROS;

fn hasher() -> TopicHasher {
    TopicHasher::new(7)
}

fn hitters() -> HeavyHitters {
    HeavyHitters::new(&hasher(), ShardId(0))
}

fn by<'a>(client_id: &'a str, user: &'a str) -> Option<By<'a>> {
    Some(By {
        client_id: Some(client_id),
        user: Some(user),
    })
}

/// Publishes once.
fn publish(all: &mut HeavyHitters, micros: u64, (topic, bytes): (&str, u64), by: Option<By<'_>>) {
    if all.is_sample() {
        let now = Tick::from_micros(micros);
        all.add(now, &hasher(), Zone::DEFAULT, topic, bytes, by);
    }
}

/// Counts a publish that is looked at.
fn look(all: &mut HeavyHitters, zone: u32, (topic, bytes): (&str, u64), by: Option<By<'_>>) {
    all.add(Tick::ZERO, &hasher(), Zone(zone), topic, bytes, by);
}

fn topics(all: &HeavyHitters, by: HeavyBy, micros: u64) -> BTreeMap<String, (u64, u64)> {
    let told = all.told(&all.topics, by, Tick::from_micros(micros));
    let row = |it: &Heavy<HeavyTopic, _>| (it.who.topic.to_string(), (it.messages, it.bytes));
    told.found.iter().map(row).collect()
}

fn first<T, O>(told: &Heaviest<T, O>, figure: impl Fn(&Heavy<T, O>) -> u64) -> &Heavy<T, O> {
    told.found.iter().max_by_key(|it| figure(it)).unwrap()
}

#[test]
fn clients_that_publish_in_turns_are_all_seen() {
    for clients in [1, 2, 16, 32, 63, 64, 65, 127, 128, 192] {
        let mut all = hitters();
        let names: Vec<String> = (0..clients).map(|n| format!("c{n}")).collect();
        let each = 64 * 400;
        for _ in 0..each {
            for name in &names {
                publish(&mut all, 0, ("t", 1), by(name, "u"));
            }
        }
        let told = all.told(&all.publishers, HeavyBy::Messages, Tick::ZERO);
        assert_eq!(told.found.len(), clients, "{clients}");
        for one in &told.found {
            // 400 samples are expected of each: 5 standard deviations are 100.
            let share = one.messages as f64 / f64::from(each);
            assert!((0.75..1.25).contains(&share), "{clients}: {share}");
        }
    }
}

/// A publish in 64 on average, and the next one is never far.
#[test]
fn steps_are_around_64() {
    for seed in 1..50 {
        let mut steps = Steps(hasher().hash(Zone(seed), ""));
        let all: Vec<u32> = (0..10_000).map(|_| steps.next()).collect();
        assert!(all.iter().all(|step| (1..=127).contains(step)));
        let mean = all.iter().sum::<u32>() / 10_000;
        assert!((62..=66).contains(&mean), "{mean}");
    }
    let drawn = |shard| {
        let mut all = HeavyHitters::new(&hasher(), ShardId(shard));
        let sampled: Vec<bool> = (0..1_000).map(|_| all.is_sample()).collect();
        sampled
    };
    assert_ne!(drawn(0), drawn(1), "each shard has its own");
}

#[test]
fn a_flood_is_named_first_with_its_topic_and_fades() {
    let mut all = hitters();
    for round in 0..100_000 {
        let quiet = format!("quiet/{}", round % 200);
        if round % 10 == 0 {
            publish(&mut all, 0, (&quiet, 10), by(&quiet, "them"));
        }
        publish(&mut all, 0, ("flood", 10), by("flooder", "bad"));
    }
    let told = all.told(&all.publishers, HeavyBy::Messages, Tick::ZERO);
    let heaviest = first(&told, |it| it.messages);
    assert_eq!(heaviest.who.client_id.as_deref(), Some("flooder"));
    assert_eq!(heaviest.who.user.as_deref(), Some("bad"));
    assert_eq!(heaviest.mostly.as_ref().unwrap().topic, "flood".into());
    assert!(
        (90_000..110_000).contains(&heaviest.messages),
        "{heaviest:?}"
    );
    let told = all.told(&all.topics, HeavyBy::Messages, Tick::ZERO);
    let topic = first(&told, |it| it.messages);
    let mostly = topic.mostly.as_ref().unwrap();
    assert_eq!(
        (&*topic.who.topic, mostly.client_id.as_deref()),
        ("flood", Some("flooder"))
    );

    // Half of it is left after each minute, whether anything comes or not.
    let at_first = topics(&all, HeavyBy::Messages, MINUTE - 1)["flood"].0;
    for minutes in 1..=6 {
        let left = topics(&all, HeavyBy::Messages, minutes * MINUTE)["flood"].0;
        assert_eq!(left, at_first >> minutes, "{minutes}");
    }
    publish_until_looked(&mut all, 3 * MINUTE, "other");
    let left = topics(&all, HeavyBy::Messages, 3 * MINUTE);
    assert_eq!((left["flood"].0, left["other"].0), (at_first >> 3, 64));
    publish_until_looked(&mut all, 30 * MINUTE, "other");
    let left = topics(&all, HeavyBy::Messages, 30 * MINUTE);
    assert_eq!(left, BTreeMap::from([("other".into(), (64, 64))]));
}

fn publish_until_looked(all: &mut HeavyHitters, micros: u64, topic: &str) {
    while !all.is_sample() {}
    let now = Tick::from_micros(micros);
    all.add(now, &hasher(), Zone::DEFAULT, topic, 1, None);
}

#[test]
fn by_messages_and_by_bytes_are_two_rankings() {
    let mut all = hitters();
    // Thousands of topics with little, which push everything rare out of the places by messages.
    for n in 0..6_000 {
        look(&mut all, 0, (&format!("small/{n}"), 1), by("many", "u"));
        if n % 20 == 0 {
            look(&mut all, 0, ("large", 100_000), by("few", "u"));
            look(&mut all, 0, ("empty", 0), by("none", "u"));
        }
    }
    let bytes = all.told(&all.topics, HeavyBy::Bytes, Tick::ZERO);
    let heaviest = first(&bytes, |it| it.bytes);
    assert_eq!(&*heaviest.who.topic, "large");
    assert_eq!(heaviest.bytes, 300 * 64 * 100_000);
    assert!(bytes.found.iter().all(|it| &*it.who.topic != "empty"));
    let publishers = all.told(&all.publishers, HeavyBy::Messages, Tick::ZERO);
    assert_eq!(
        first(&publishers, |it| it.messages)
            .who
            .client_id
            .as_deref(),
        Some("many")
    );
    let publishers = all.told(&all.publishers, HeavyBy::Bytes, Tick::ZERO);
    assert_eq!(
        first(&publishers, |it| it.bytes).who.client_id.as_deref(),
        Some("few")
    );
    assert_eq!(publishers.messages, 6_600 * 64);
    assert_eq!(publishers.bytes, 64 * (6_000 + 300 * 100_000));
}

#[test]
fn names_are_cut_and_still_told_apart() {
    let long = "x".repeat(65_535);
    let other = format!("{}y", &long[..65_534]);
    let mut all = hitters();
    for _ in 0..2 {
        look(&mut all, 0, (&long, 1), by(&long, &other));
    }
    look(&mut all, 0, (&other, 1), by(&other, &long));
    let told = all.told(&all.topics, HeavyBy::Messages, Tick::ZERO);
    let mut counts: Vec<u64> = told.found.iter().map(|it| it.messages).collect();
    counts.sort_unstable();
    assert_eq!(counts, [64, 128]);
    for topic in &told.found {
        assert_eq!(
            (topic.who.topic.len(), topic.who.is_cut),
            (NAME_BYTES_MAX, true)
        );
    }
    let told = all.told(&all.publishers, HeavyBy::Messages, Tick::ZERO);
    assert_eq!(told.found.len(), 2);
    for one in &told.found {
        let names = [&one.who.client_id, &one.who.user].map(|it| it.as_ref().unwrap().len());
        assert_eq!((names, one.who.is_cut), ([NAME_BYTES_MAX; 2], true));
    }
    // Not within a character.
    let (name, is_cut) = cut(&format!("{}é", "x".repeat(255)));
    assert_eq!((name.len(), is_cut), (255, true));
    assert_eq!(cut("short"), ("short".into(), false));
}

/// What a name is has two parts, and neither of them may stand for the other.
#[test]
fn publishers_are_told_apart_by_zone_client_and_user() {
    let mut all = hitters();
    let whos = [
        (0, Some("a"), Some("b")),
        (1, Some("a"), Some("b")),
        (0, Some("b"), Some("a")),
        (0, Some("a"), None),
        (0, None, Some("a")),
        (0, Some("a"), Some("")),
        (0, Some("b"), Some("b")),
        (0, None, Some("b")),
    ];
    for (zone, client_id, user) in whos {
        look(&mut all, zone, ("t", 1), Some(By { client_id, user }));
    }
    // Without a name, the topic alone counts.
    look(&mut all, 0, ("t", 1), None);
    let told = all.told(&all.publishers, HeavyBy::Messages, Tick::ZERO);
    let found: Vec<_> = told
        .found
        .iter()
        .map(|it| {
            (
                it.who.zone.get(),
                it.who.client_id.as_deref(),
                it.who.user.as_deref(),
            )
        })
        .collect();
    assert_eq!(found, whos);
    let told = all.told(&all.topics, HeavyBy::Messages, Tick::ZERO);
    let mut found: Vec<_> = told
        .found
        .iter()
        .map(|it| (it.who.zone.get(), it.messages))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(0, 8 * 64), (1, 64)]);
}

#[test]
fn what_is_new_in_the_name_of_each_message_does_not_count() {
    let mut all = hitters();
    for n in 1..=300 {
        for topic in [
            format!("$private/to/bob/{n}"),
            format!("$private/to/user{n}"),
            format!("$private/to/bob/{n}/more"),
            format!("$call/square/{n}"),
            format!("$answer/{n}"),
            format!("$room/tea/call/pour/{n}"),
            "$room/tea/say".into(),
            "$room".into(),
            "$SYS/forged".into(),
        ] {
            look(&mut all, 0, (&topic, 1), by("c", "u"));
        }
    }
    let found = topics(&all, HeavyBy::Messages, 0);
    let names: Vec<&str> = found.keys().map(|name| &**name).collect();
    let expected = [
        "$SYS/forged",
        "$answer",
        "$call/square",
        "$private",
        "$room",
        "$room/tea/say",
    ];
    assert_eq!(names, expected);
    assert_eq!(found["$private"].0, 900 * 64);
}

#[test]
fn mostly_names_nobody_without_a_large_share() {
    let mostly = |shares: &[u64]| {
        let mut all = hitters();
        for round in 0..120 {
            for (n, share) in shares.iter().enumerate() {
                if round % 12 < *share {
                    look(&mut all, 0, ("t", 1), by(&format!("c{n}"), "u"));
                }
            }
        }
        let told = all.told(&all.topics, HeavyBy::Messages, Tick::from_micros(MINUTE));
        let who = told.found[0].mostly.clone();
        who.map(|who| who.client_id.clone().unwrap().to_string())
    };
    assert_eq!(mostly(&[12]).as_deref(), Some("c0"));
    assert_eq!(mostly(&[1, 12, 1, 1]).as_deref(), Some("c1"));
    assert_eq!(mostly(&[6, 6, 6, 6]), None);
    assert_eq!(mostly(&[6, 5, 5, 5, 5]), None);
}

/// A steady rate is told as it is, at any time: counts and the time they stand for are halved
/// together.
#[test]
fn a_steady_rate_is_the_same_at_any_time() {
    let mut all = hitters();
    let step = 100;
    for micros in (0..5 * MINUTE).step_by(step) {
        publish(&mut all, micros, ("t", 10), None);
        if micros % (MINUTE / 4) == MINUTE / 8 {
            let told = all.told(&all.topics, HeavyBy::Bytes, Tick::from_micros(micros));
            let secs = told.window_micros as f64 / 1e6;
            let [messages, bytes] = [told.messages, told.bytes].map(|it| it as f64 / secs);
            assert!(
                (9_300.0..10_700.0).contains(&messages),
                "{micros}: {messages}"
            );
            assert!((93_000.0..107_000.0).contains(&bytes), "{micros}: {bytes}");
            assert!(secs <= 120.0);
        }
    }
    let window = |micros| window_micros(Tick::from_micros(micros));
    assert_eq!(window(0), 0);
    assert_eq!(window(MINUTE - 1), MINUTE - 1);
    assert_eq!(window(MINUTE), MINUTE / 2);
    assert_eq!(window(2 * MINUTE + 5), MINUTE / 2 + MINUTE / 4 + 5);
    assert_eq!(window(1_000 * MINUTE), MINUTE);
}

#[test]
fn a_shard_answers_with_256_places_whatever_comes() {
    let mut all = hitters();
    for n in 0..10_000 {
        let name = format!("{n}");
        look(&mut all, 0, (&name, 5), by(&name, "u"));
    }
    for by in [HeavyBy::Messages, HeavyBy::Bytes] {
        let told = all.told(&all.publishers, by, Tick::ZERO);
        assert_eq!(told.found.len(), 256);
        assert!(told.floor > 0);
        // The figure that was not ranked by is not inherited.
        let other = |it: &Heavy<_, _>| match by {
            HeavyBy::Messages => it.bytes / 5,
            HeavyBy::Bytes => it.messages,
        };
        assert!(told.found.iter().all(|it| other(it) == 64));
    }
}
