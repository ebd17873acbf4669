//! The topic index against the single matcher and a plain list: lines are filters to subscribe
//! to, to unsubscribe from (`-`), or names to match at once (`=`) or bit by bit between the lines
//! that follow (`~`).

#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::fuzz_target;
use stentor_topic::{
    Index, Subscriber, Subscription, TopicHasher, Walk, Zone, matches, validate_filter,
    validate_name,
};

const ZONE: Zone = Zone(1);
/// More would make runs slow and find no more.
const SESSIONS: u32 = 3;

/// What the index should hold: the options of each session by filter.
type Model<'a> = BTreeMap<&'a str, BTreeMap<u32, u32>>;

fuzz_target!(|text: &str| {
    let mut index = Index::new(TopicHasher::new(5));
    let mut model = Model::new();
    let mut walks = Vec::new();
    for (line, number) in text.lines().zip(0u32..) {
        let session = number % SESSIONS;
        let (mark, rest) = line.split_at_checked(1).unwrap_or(("", line));
        match mark {
            "-" => unsubscribe(&mut index, &mut model, rest, session),
            "=" => check_match(&index, &model, rest),
            "~" => walks.extend(Slow::begin(&index, &model, rest)),
            _ => subscribe(&mut index, &mut model, line, session, number),
        }
        walks.retain_mut(|walk| walk.go_on(&index, &model, number % 3));
    }
    for mut walk in walks {
        while walk.go_on(&index, &model, 1) {}
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

/// A name that is matched between changes of the index.
struct Slow<'a> {
    name: &'a str,
    walk: Walk,
    /// Filters that matched when it began, stayed since, and were not visited yet.
    owed: BTreeSet<&'a str>,
}

impl<'a> Slow<'a> {
    fn begin(index: &Index, model: &Model<'a>, name: &'a str) -> Option<Self> {
        validate_name(name).ok()?;
        let is_match = |filter: &&str| matches(filter, name);
        let mut owed: BTreeSet<&str> = model.keys().copied().filter(is_match).collect();
        let hash = index.hasher().hash(ZONE, name);
        let matched = index.match_some(ZONE, name, hash, 0, |id, _| {
            assert!(owed.remove(index.filter(id).1));
        });
        if matched.rest.is_none() {
            assert!(owed.is_empty());
        }
        let walk = matched.rest?;
        Some(Self { name, walk, owed })
    }

    /// Visits some nodes; whether more are left.
    fn go_on(&mut self, index: &Index, model: &Model<'_>, visits_max: u32) -> bool {
        self.owed.retain(|filter| model.contains_key(filter));
        let (name, owed) = (self.name, &mut self.owed);
        let visits = self.walk.resume(index, ZONE, name, visits_max, |id| {
            let filter = index.filter(id).1;
            assert!(matches(filter, name));
            owed.remove(filter);
        });
        assert!(visits > 0 || self.walk.is_done());
        if self.walk.is_done() {
            assert!(self.owed.is_empty());
        }
        !self.walk.is_done()
    }
}
