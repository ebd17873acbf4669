//! Walks: what they cost, and that they stop and go on.

use std::collections::BTreeSet;

use stentor_hub::{Cursor, Retained, STRIPE_VISITS, Scope, Walk, topic_visits};
use stentor_session::Tick;
use stentor_topic::{TopicHasher, Zone};

use super::support::{message, options, put};
use crate::{Bounds, MemoryStore, Store, Sync};
use stentor_disk::simulated::SimulatedDisk;

const ZONE: Zone = Zone(0);
/// Visits of a step.
const VISITS: usize = 256;
/// Parts of the larger kind of store.
const STRIPES: u64 = 64;

/// Steps, and all visits, of a walk over `filter`: no step has more than it may, and what it
/// finds has `each` called.
fn walk(
    store: &dyn Retained,
    filter: &str,
    topic_bytes: usize,
    mut each: impl FnMut(&str),
) -> (usize, u64) {
    let beyond = (topic_visits(&"n".repeat(topic_bytes)) + STRIPE_VISITS) as u64;
    let scope = Scope::until(store.mark(), Tick::from_secs(6));
    let (mut cursor, mut steps) = (Cursor::default(), 0);
    loop {
        let (mut found, before) = (Vec::new(), cursor.visits);
        let walk = store.walk(ZONE, filter, scope, &mut cursor, VISITS, &mut found);
        // Each of what was found is copied besides, a little more than its topic.
        let copies = found.len() as u64 * (topic_bytes / 64 + 4) as u64;
        let visits = cursor.visits - before;
        assert!(visits > 0 && visits <= VISITS as u64 + beyond + copies);
        steps += 1;
        found.iter().for_each(|message| each(message.topic()));
        if walk == Walk::Done {
            return (steps, cursor.visits);
        }
    }
}

fn stores() -> [Box<dyn Retained>; 2] {
    let store = Store::open(SimulatedDisk::new(1), &options(Sync::Never)).unwrap();
    let memory = MemoryStore::new(TopicHasher::new(1), Bounds::default());
    [Box::new(store), Box::new(memory)]
}

#[test]
fn a_walk_costs_the_names_that_it_looks_at() {
    for store in stores() {
        for (count, len) in [(2_000, 40), (100, 4_000), (20, 65_000)] {
            let stem = "n".repeat(len);
            let topic = |n: usize| format!("{stem}{n:04}");
            for n in 0..count {
                store.put(&message(ZONE, &topic(n), b"x")).unwrap();
            }
            let (_, visits) = walk(&*store, "+/zz", len + 4, |_| panic!("nothing matches"));
            let names = (count * topic_visits(&topic(0))) as u64;
            let parts = STRIPES * STRIPE_VISITS as u64;
            assert!((names..=names + 3 * parts).contains(&visits), "{visits}");
            // What begins otherwise is not looked at.
            let (_, visits) = walk(&*store, "m/+/zz", 40, |_| panic!("nothing matches"));
            assert!(visits <= parts, "{visits}");
            for n in 0..count {
                store.put(&message(ZONE, &topic(n), b"")).unwrap();
            }
        }
    }
}

/// What is there all the time is found once; what comes or goes meanwhile, once at most.
#[test]
fn a_walk_goes_on_whatever_changes() {
    for store in stores() {
        let topic = |n: usize| format!("{}/{n}", "long".repeat(1 + n % 100));
        for n in 0..1_000 {
            store.put(&message(ZONE, &topic(n), b"x")).unwrap();
        }
        let (mut found, mut at) = (BTreeSet::new(), 0);
        let (steps, _) = walk(&*store, "+/+", 500, |topic_found| {
            assert!(found.insert(topic_found.to_owned()), "{topic_found} twice");
            // The odd ones go, and others come.
            at += 1;
            let change = |n: usize, payload: &[u8]| {
                store.put(&message(ZONE, &topic(n), payload)).unwrap();
            };
            change((at * 2 + 1) % 1_000, b"");
            change(10_000 + at, b"x");
        });
        assert!(steps > 8, "{steps}");
        assert!((0..1_000).step_by(2).all(|n| found.contains(&topic(n))));
    }
}

#[test]
fn the_memory_for_finding_topics_is_told() {
    let store = Store::open(SimulatedDisk::new(1), &options(Sync::Never)).unwrap();
    let before = store.heap_bytes();
    for n in 0..10_000 {
        put(&store, &format!("a/{n}"), b"x").unwrap();
    }
    let each = (store.heap_bytes() - before) / 10_000;
    assert!((10..60).contains(&each), "{each}");
    assert_eq!(store.heap_bytes(), store.status().index_bytes);
}

/// Each name of a level comes once, whatever lies below it or stands between it and that.
#[test]
fn names_are_listed_level_by_level() {
    let store = Store::open(SimulatedDisk::new(1), &options(Sync::Never)).unwrap();
    for topic in ["a", "a-b", "a!x/y", "a0/z", "/", "ä/ö", "b//c", "$own/tea"] {
        put(&store, topic, b"x").unwrap();
    }
    for n in 0..500 {
        put(&store, &format!("a/{n}/v"), b"x").unwrap();
        put(&store, &format!("a/{n}"), b"x").unwrap();
    }
    let names = |prefix, at_most| {
        let (found, are_all) = store.children(ZONE, prefix, at_most);
        let words = found.iter().map(|(name, child)| {
            let topic = if child.is_topic { "." } else { "" };
            let below = if child.has_below { "/" } else { "" };
            format!("{name}{topic}{below}")
        });
        (words.collect::<Vec<_>>().join(" "), are_all)
    };
    let first = "/ $own/ a./ a!x/ a-b. a0/ b/ ä/";
    assert_eq!(names(None, 100), (first.to_owned(), true));
    assert_eq!(names(Some("b"), 100), ("/".to_owned(), true));
    assert_eq!(names(Some("b/"), 100), ("c.".to_owned(), true));
    assert_eq!(names(Some(""), 100), (".".to_owned(), true));
    assert_eq!(names(Some("a-b"), 100), (String::new(), true));
    let (found, are_all) = store.children(ZONE, Some("a"), 1_000);
    assert!(are_all && found.len() == 500);
    assert!(
        found
            .values()
            .all(|child| child.is_topic && child.has_below)
    );
    let (found, are_all) = store.children(ZONE, Some("a"), 7);
    assert_eq!((found.len(), are_all), (7, false));
    assert_eq!(store.children(Zone(7), None, 9), (Default::default(), true));
}
