//! The topic index against the single matcher and a plain list: lines are filters to subscribe
//! to, to unsubscribe from (`-`), or names to match (`=`).

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use stentor_topic::{
    Index, Subscriber, Subscription, TopicHasher, Zone, matches, validate_filter, validate_name,
};

const ZONE: Zone = Zone(1);
/// More would make runs slow and find no more.
const SESSIONS: u32 = 3;

/// What the index should hold: the options of each session by filter.
type Model<'a> = BTreeMap<&'a str, BTreeMap<u32, u32>>;

fuzz_target!(|text: &str| {
    let mut index = Index::new(TopicHasher::new(5));
    let mut model = Model::new();
    for (line, number) in text.lines().zip(0u32..) {
        let session = number % SESSIONS;
        match (line.strip_prefix('-'), line.strip_prefix('=')) {
            (Some(filter), _) => unsubscribe(&mut index, &mut model, filter, session),
            (None, Some(name)) => check_match(&index, &model, name),
            (None, None) => subscribe(&mut index, &mut model, line, session, number),
        }
    }
    assert_eq!(index.filters(), model.len());
    assert_eq!(
        index.subscriptions(),
        model.values().map(BTreeMap::len).sum::<usize>()
    );
});

fn subscribe<'a>(
    index: &mut Index,
    model: &mut Model<'a>,
    text: &'a str,
    session: u32,
    options: u32,
) {
    let Ok(subscription) = Subscription::parse(text) else {
        return;
    };
    assert_eq!(validate_filter(subscription.filter), Ok(()));
    let inserted = index.insert(ZONE, subscription.filter, Subscriber { session, options });
    let set = model.entry(subscription.filter).or_default();
    assert_eq!(inserted.first, set.is_empty());
    assert_eq!(inserted.previous, set.insert(session, options));
}

fn unsubscribe<'a>(index: &mut Index, model: &mut Model<'a>, filter: &'a str, session: u32) {
    let id = index.find(ZONE, filter);
    assert_eq!(id.is_some(), model.contains_key(filter));
    let (Some(id), Some(set)) = (id, model.get_mut(filter)) else {
        return;
    };
    let removed = index.remove(id, session);
    assert_eq!(removed.map(|removed| removed.options), set.remove(&session));
    if set.is_empty() {
        assert!(removed.is_some_and(|removed| removed.last));
        model.remove(filter);
    }
}

fn check_match(index: &Index, model: &Model<'_>, name: &str) {
    if validate_name(name).is_err() {
        return;
    }
    let mut looked_up = Vec::new();
    let hash = index
        .hasher()
        .for_each_prefix_hash(ZONE, name, |hash| looked_up.push(hash));
    looked_up.push(hash);
    let mut found = Vec::new();
    index.for_each_match(ZONE, name, hash, |id, subscribers| {
        let filter = index.filter(id).1;
        assert_eq!(subscribers.len(), model[filter].len());
        assert!(looked_up.contains(&index.hasher().interest(ZONE, filter)));
        found.push(filter);
    });
    found.sort_unstable();
    let expected: Vec<&str> = model
        .keys()
        .copied()
        .filter(|filter| matches(filter, name))
        .collect();
    assert_eq!(found, expected);
}
