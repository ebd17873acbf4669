//! The index against the single matcher and against a model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use stentor_topic::{FilterId, Index, Subscriber, TopicHasher, Zone, matches, validate_filter};

const ZONE: Zone = Zone::DEFAULT;

fn index() -> Index {
    Index::new(TopicHasher::new(11))
}

/// The matching filters with their sessions, in order, each expected to be visited once.
fn matched(index: &Index, zone: Zone, name: &str) -> Vec<(String, Vec<Subscriber>)> {
    let mut found = Vec::new();
    index.for_each_match(
        zone,
        name,
        index.hasher().hash(zone, name),
        |id, subscribers| {
            let mut subscribers = subscribers.to_vec();
            subscribers.sort_by_key(|subscriber| subscriber.session);
            found.push((index.filter(id).1.to_owned(), subscribers));
        },
    );
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

fn filters_matched(index: &Index, zone: Zone, name: &str) -> Vec<String> {
    matched(index, zone, name)
        .into_iter()
        .map(|(filter, _)| filter)
        .collect()
}

fn subscriber(session: u32) -> Subscriber {
    Subscriber {
        session,
        options: session * 10,
    }
}

/// A filter or name of few letters, so that matches are frequent; levels may be empty.
fn text(level: &'static str) -> impl Strategy<Value = String> {
    let levels = proptest::collection::vec(level, 1..6);
    (levels, proptest::bool::weighted(0.2)).prop_map(|(levels, dollar)| {
        let text = levels.join("/");
        if dollar { format!("${text}") } else { text }
    })
}

fn filter() -> impl Strategy<Value = String> {
    (text("[ab+]?"), proptest::bool::weighted(0.4)).prop_map(|(text, multi)| {
        match (multi, &*text) {
            (true, "") => "#".to_owned(),
            (true, text) => format!("{text}/#"),
            (false, text) => text.to_owned(),
        }
    })
}

fn name() -> impl Strategy<Value = String> {
    text("[ab]?").prop_filter("names are not empty", |name| !name.is_empty())
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Zone, String, Subscriber),
    Remove(Zone, String, u32),
    Match(Zone, String),
}

fn step() -> impl Strategy<Value = Step> {
    let zone = || (0u32..2).prop_map(Zone);
    let filter = || filter().prop_filter("valid", |filter| validate_filter(filter).is_ok());
    let subscriber = (0u32..4, 0u32..100);
    prop_oneof![
        4 => (zone(), filter(), subscriber).prop_map(|(zone, filter, (session, options))| {
            Step::Insert(zone, filter, Subscriber { session, options })
        }),
        3 => (zone(), filter(), 0u32..4)
            .prop_map(|(zone, filter, session)| Step::Remove(zone, filter, session)),
        2 => (zone(), name()).prop_map(|(zone, name)| Step::Match(zone, name)),
    ]
}

type Model = BTreeMap<(Zone, String), BTreeMap<u32, u32>>;

fn apply(index: &mut Index, model: &mut Model, step: Step) {
    match step {
        Step::Insert(zone, filter, subscriber) => {
            let set = model.entry((zone, filter.clone())).or_default();
            let first = set.is_empty();
            let previous = set.insert(subscriber.session, subscriber.options);
            let inserted = index.insert(zone, &filter, subscriber);
            assert_eq!((inserted.first, inserted.previous), (first, previous));
            assert_eq!(index.find(zone, &filter), Some(inserted.id));
            assert_eq!(index.filter(inserted.id), (zone, &*filter));
        }
        Step::Remove(zone, filter, session) => {
            let Some(set) = model.get_mut(&(zone, filter.clone())) else {
                assert_eq!(index.find(zone, &filter), None);
                return;
            };
            let id = index.find(zone, &filter).expect("the model has the filter");
            assert_eq!(index.options(id, session), set.get(&session).copied());
            let removed = index.remove(id, session);
            assert_eq!(removed.map(|removed| removed.options), set.remove(&session));
            if set.is_empty() {
                assert!(removed.is_some_and(|removed| removed.last));
                assert_eq!(index.find(zone, &filter), None);
                assert!(index.subscribers(id).is_empty());
                model.remove(&(zone, filter));
            } else {
                assert!(removed.is_none_or(|removed| !removed.last));
            }
        }
        Step::Match(zone, name) => {
            let matching = model
                .iter()
                .filter(|((other, filter), _)| *other == zone && matches(filter, &name));
            let expected: Vec<(String, Vec<Subscriber>)> = matching
                .map(|((_, filter), set)| {
                    let subscribers = set.iter();
                    let to_subscriber = |(&session, &options)| Subscriber { session, options };
                    (filter.clone(), subscribers.map(to_subscriber).collect())
                })
                .collect();
            assert_eq!(matched(index, zone, &name), expected, "{name:?}");
        }
    }
    assert_eq!(index.filters(), model.len());
    assert_eq!(
        index.subscriptions(),
        model.values().map(BTreeMap::len).sum::<usize>()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Any sequence of inserts and removes leaves what a map would hold, and matches find it.
    #[test]
    fn behaves_like_a_map(steps in proptest::collection::vec(step(), 1..120)) {
        let (mut index, mut model) = (index(), Model::new());
        for step in steps {
            apply(&mut index, &mut model, step);
        }
        let mut listed: Vec<_> =
            index.iter().map(|filter| (filter.zone, filter.text.to_owned())).collect();
        listed.sort();
        prop_assert_eq!(listed, model.keys().cloned().collect::<Vec<_>>());
        // All that was inserted can be taken out, and nothing is left behind.
        for ((zone, filter), set) in model {
            let id = index.find(zone, &filter).unwrap();
            for session in set.into_keys() {
                prop_assert!(index.remove(id, session).is_some());
            }
        }
        prop_assert_eq!((index.filters(), index.subscriptions()), (0, 0));
        prop_assert!(index.heap_bytes() <= 2048, "{}", index.heap_bytes());
    }

    /// The filters that the index finds are those that the single matcher accepts.
    #[test]
    fn agrees_with_the_matcher(
        filters in proptest::collection::btree_set(filter(), 1..60),
        names in proptest::collection::vec(name(), 1..20),
    ) {
        let mut index = index();
        let filters: Vec<String> =
            filters.into_iter().filter(|filter| validate_filter(filter).is_ok()).collect();
        for filter in &filters {
            index.insert(ZONE, filter, subscriber(1));
        }
        for name in names {
            let expected: Vec<&String> =
                filters.iter().filter(|filter| matches(filter, &name)).collect();
            let found = filters_matched(&index, ZONE, &name);
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
    }

    /// Sets of all sizes, with the map from session to position and without.
    #[test]
    fn sets_grow_and_shrink(
        sessions in proptest::collection::vec((0u32..200, proptest::bool::weighted(0.65)), 1..600),
    ) {
        let (mut index, mut model) = (index(), Model::new());
        for (session, inserts) in sessions {
            let filter = "a/+".to_owned();
            apply(&mut index, &mut model, match inserts {
                true => Step::Insert(ZONE, filter, subscriber(session)),
                false => Step::Remove(ZONE, filter, session),
            });
        }
        apply(&mut index, &mut model, Step::Match(ZONE, "a/b".to_owned()));
    }
}

/// [MQTT-4.7.2-1]
#[test]
fn wildcards_do_not_reach_dollar_names() {
    let mut index = index();
    for filter in ["#", "+/x", "$a/#", "$a/+", "$a/x"] {
        index.insert(ZONE, filter, subscriber(1));
    }
    assert_eq!(
        filters_matched(&index, ZONE, "$a/x"),
        ["$a/#", "$a/+", "$a/x"]
    );
    assert_eq!(filters_matched(&index, ZONE, "$a"), ["$a/#"]);
    assert_eq!(filters_matched(&index, ZONE, "a/x"), ["#", "+/x"]);
}

#[test]
fn zones_do_not_meet() {
    let mut index = index();
    for (zone, session) in [(Zone(0), 1), (Zone(7), 2)] {
        for filter in ["a/b", "a/+", "#"] {
            index.insert(zone, filter, subscriber(session));
        }
    }
    for (zone, session) in [(Zone(0), 1), (Zone(7), 2)] {
        let found = matched(&index, zone, "a/b");
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|(_, set)| *set == [subscriber(session)]));
    }
    assert!(matched(&index, Zone(1), "a/b").is_empty());
}

/// Ids are given out again, and an id whose filter left does nothing.
#[test]
fn ids_are_reused() {
    let mut index = index();
    let first = index.insert(ZONE, "a", subscriber(1)).id;
    let second = index.insert(ZONE, "b", subscriber(1)).id;
    assert_eq!((first.get(), second.get()), (0, 1));
    assert!(index.remove(first, 2).is_none());
    assert!(index.remove(first, 1).unwrap().last);
    assert!(index.remove(first, 1).is_none());
    assert!(index.subscribers(first).is_empty());
    assert_eq!(index.options(first, 1), None);
    assert_eq!(index.insert(ZONE, "c/#", subscriber(3)).id, first);
    assert_eq!(index.filter(first), (ZONE, "c/#"));
}

/// The deepest filters and names that MQTT allows neither overflow the stack nor take long.
#[test]
fn deep_topics() {
    let mut index = index();
    let deep = "/".repeat(65_534);
    let filters = [
        format!("{deep}#"),
        format!("{deep}+"),
        "+/".repeat(32_766) + "#",
        deep.clone(),
    ];
    for filter in &filters {
        validate_filter(filter).unwrap();
        index.insert(ZONE, filter, subscriber(1));
    }
    let name = "/".repeat(65_534);
    assert_eq!(matched(&index, ZONE, &name).len(), 4);
    for filter in &filters {
        let id = index.find(ZONE, filter).unwrap();
        assert!(index.remove(id, 1).unwrap().last);
    }
    assert!(matched(&index, ZONE, &name).is_empty());
    assert!(index.heap_bytes() < 4096);
}

/// All 2^12 mixtures of `+` and `a` match, each once: the worst that 12 levels can hold.
#[test]
fn nested_wildcards_are_visited_once() {
    let mut index = index();
    let depth = 12;
    for mixture in 0u32..1 << depth {
        let level = |at: usize| {
            if mixture & (1u32 << at) == 0 {
                "a"
            } else {
                "+"
            }
        };
        let filter: Vec<&str> = (0..depth).map(level).collect();
        index.insert(ZONE, &filter.join("/"), subscriber(1));
    }
    let name = vec!["a"; depth].join("/");
    assert_eq!(matched(&index, ZONE, &name).len(), 1 << depth);
    assert_eq!(matched(&index, ZONE, &name.replace('a', "b")).len(), 1);
}

/// 100,000 sessions leave a filter one by one; quadratic work would take minutes.
#[test]
fn leaving_a_crowd_is_cheap() {
    let mut index = index();
    let count = 100_000;
    let mut id: Option<FilterId> = None;
    for session in 0..count {
        id = Some(index.insert(ZONE, "news/#", subscriber(session)).id);
    }
    let id = id.unwrap();
    assert_eq!(index.subscribers(id).len(), count as usize);
    assert!(index.heap_bytes() < 3 << 20, "{}", index.heap_bytes());
    for session in 0..count - 1 {
        let removed = index.remove(id, session).unwrap();
        assert_eq!((removed.options, removed.last), (session * 10, false));
    }
    assert!(index.heap_bytes() < 1024, "{}", index.heap_bytes());
    assert!(index.remove(id, count - 1).unwrap().last);
}

/// A table that was large gives its memory back.
#[test]
fn memory_is_given_back() {
    let mut index = index();
    let ids: Vec<FilterId> = (0..50_000)
        .map(|number| {
            index
                .insert(ZONE, &format!("clients/{number}/+"), subscriber(1))
                .id
        })
        .collect();
    let full = index.heap_bytes();
    for id in ids {
        index.remove(id, 1).unwrap();
    }
    assert!(full > 1 << 20);
    assert!(index.heap_bytes() < 4096, "{}", index.heap_bytes());
}
