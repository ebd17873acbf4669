//! Bounded matching: what a walk visits while the index changes under it.

use std::collections::BTreeSet;

use proptest::prelude::*;
use stentor_topic::{
    FilterId, Index, Matched, Subscriber, TopicHasher, Zone, has_wildcard, matches, validate_filter,
};

const ZONE: Zone = Zone::DEFAULT;

fn index() -> Index {
    Index::new(TopicHasher::new(11))
}

fn insert(index: &mut Index, filter: &str) -> FilterId {
    let subscriber = Subscriber {
        session: 1,
        options: 0,
    };
    index.insert(ZONE, filter, subscriber).id
}

fn remove(index: &mut Index, filter: &str) {
    let id = index.find(ZONE, filter).expect("the filter is there");
    assert!(index.remove(id, 1).is_some_and(|removed| removed.last));
}

fn begin(index: &Index, name: &str, visits_max: u32, found: &mut Vec<String>) -> Matched {
    let hash = index.hasher().hash(ZONE, name);
    index.match_some(ZONE, name, hash, visits_max, |id, subscribers| {
        assert_eq!(subscribers.len(), 1);
        found.push(index.filter(id).1.to_owned());
    })
}

/// A filter of few letters and many runs of `+`.
fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![2 => "[ab]?", 2 => Just("+".to_owned()), 1 => "\\+/\\+(/\\+){0,3}"];
    let levels = proptest::collection::vec(level, 1..5);
    (levels, proptest::bool::weighted(0.3))
        .prop_map(|(levels, multi)| levels.join("/") + if multi { "/#" } else { "" })
        .prop_filter("valid", |filter| validate_filter(filter).is_ok())
}

fn name() -> impl Strategy<Value = String> {
    let levels = proptest::collection::vec("[ab]?", 1..9);
    (levels, proptest::bool::weighted(0.1))
        .prop_map(|(levels, dollar)| if dollar { "$" } else { "" }.to_owned() + &levels.join("/"))
        .prop_filter("names are not empty", |name| !name.is_empty())
}

#[derive(Clone, Debug)]
enum Step {
    Insert(String),
    /// Takes out one of those that are there.
    Remove(prop::sample::Index),
    /// Takes out one and puts another in its place at once, so that numbers are given out again.
    Replace(prop::sample::Index, String),
    Resume(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => filter().prop_map(Step::Insert),
        2 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (any::<prop::sample::Index>(), filter())
            .prop_map(|(at, filter)| Step::Replace(at, filter)),
        2 => (0u32..4).prop_map(Step::Resume),
    ]
}

/// What is subscribed, and what a walk owes to its caller.
struct Model {
    filters: BTreeSet<String>,
    /// Matched when the walk began, stayed, and not visited yet.
    owed: BTreeSet<String>,
    /// Whether a filter with a wildcard left since the walk began.
    has_shrunk: bool,
}

impl Model {
    fn insert(&mut self, index: &mut Index, filter: String) {
        if self.filters.insert(filter.clone()) {
            insert(index, &filter);
        }
    }

    fn remove(&mut self, index: &mut Index, at: prop::sample::Index) {
        if self.filters.is_empty() {
            return;
        }
        let filter = self
            .filters
            .iter()
            .nth(at.index(self.filters.len()))
            .cloned()
            .expect("there is one");
        remove(index, &filter);
        self.filters.remove(&filter);
        self.owed.remove(&filter);
        self.has_shrunk |= has_wildcard(&filter);
    }

    fn visited(&mut self, name: &str, found: &[String]) {
        for filter in found {
            assert!(self.filters.contains(filter), "{filter} is not there");
            assert!(matches(filter, name), "{filter} does not match");
            self.owed.remove(filter);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Whatever comes and goes between two calls, a filter that stays is met, and what is met
    /// matches.
    #[test]
    fn a_walk_meets_what_stays(
        filters in proptest::collection::btree_set(filter(), 1..40),
        name in name(),
        visits_max in 0u32..12,
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let mut index = index();
        for filter in &filters {
            insert(&mut index, filter);
        }
        let owed = filters.iter().filter(|filter| matches(filter, &name)).cloned().collect();
        let mut model = Model { filters, owed, has_shrunk: false };
        let mut all = Vec::new();
        let mut rest = begin(&index, &name, visits_max, &mut all).rest;
        model.visited(&name, &all);
        let resumes = std::iter::repeat_n(Step::Resume(1), 1_000);
        for step in steps.into_iter().chain(resumes) {
            let Some(walk) = &mut rest else { break };
            match step {
                Step::Insert(filter) => model.insert(&mut index, filter),
                Step::Remove(at) => model.remove(&mut index, at),
                Step::Replace(at, filter) => {
                    model.remove(&mut index, at);
                    model.insert(&mut index, filter);
                }
                Step::Resume(visits_max) => {
                    let mut found = Vec::new();
                    let visits = walk.resume(&index, ZONE, &name, visits_max, |id| {
                        found.push(index.filter(id).1.to_owned());
                    });
                    prop_assert!(visits > 0);
                    model.visited(&name, &found);
                    all.append(&mut found);
                    if walk.is_done() {
                        rest = None;
                    }
                }
            }
        }
        prop_assert!(rest.is_none(), "the walk does not end");
        prop_assert!(model.owed.is_empty(), "not met: {:?}", model.owed);
        let count = all.len();
        all.sort();
        all.dedup();
        prop_assert!(model.has_shrunk || all.len() == count, "met twice");
    }

    /// A bound changes when a filter is met, and neither whether nor how often.
    #[test]
    fn a_bound_loses_nothing(
        filters in proptest::collection::btree_set(filter(), 1..80),
        name in name(),
        visits_max in 0u32..40,
    ) {
        let mut index = index();
        for filter in &filters {
            insert(&mut index, filter);
        }
        let mut found = Vec::new();
        let mut rest = begin(&index, &name, visits_max, &mut found).rest;
        while let Some(walk) = &mut rest && !walk.is_done() {
            walk.resume(&index, ZONE, &name, visits_max, |id| {
                found.push(index.filter(id).1.to_owned());
            });
        }
        found.sort();
        let expected: Vec<String> =
            filters.into_iter().filter(|filter| matches(filter, &name)).collect();
        prop_assert_eq!(found, expected);
    }
}

/// A run that a paused walk has reached is merged with the run below it, and its number is given
/// out to a node on another way that matches as well.
#[test]
fn a_walk_finds_a_run_that_was_merged() {
    let mut index = index();
    for filter in ["a/+/+/+/z", "a/+/b/c", "b/#"] {
        insert(&mut index, filter);
    }
    let name = "a/b/b/b/z";
    let mut found = Vec::new();
    for visits_max in 0..8 {
        let mut rest = begin(&index, name, visits_max, &mut found).rest;
        remove(&mut index, "a/+/b/c");
        insert(&mut index, "+/b/#");
        if let Some(walk) = &mut rest {
            walk.resume(&index, ZONE, name, u32::MAX, |id| {
                found.push(index.filter(id).1.to_owned());
            });
            assert!(walk.is_done());
        }
        assert!(found.contains(&"a/+/+/+/z".to_owned()), "{visits_max}");
        found.clear();
        remove(&mut index, "+/b/#");
        insert(&mut index, "a/+/b/c");
    }
}

/// The filters of finding A2: `{a,+}` at 13 levels, then `run` times `+`, then `z`.
fn hostile(run: usize) -> (Vec<String>, String) {
    let filters = (0u32..1 << 13).map(|mixture| {
        let level = |at: usize| if mixture & (1 << at) == 0 { "a" } else { "+" };
        let mut levels: Vec<&str> = (0..13).map(level).collect();
        levels.extend(vec!["+"; run]);
        levels.push("z");
        levels.join("/")
    });
    (filters.collect(), vec!["a"; 14 + run].join("/"))
}

/// A name that 8,192 filters of 256 levels nearly match visits some nodes for each, not one for
/// each level, and its walk stays small and within its bound.
#[test]
fn hostile_filters_cost_a_bounded_walk() {
    let (filters, name) = hostile(242);
    let mut index = index();
    for filter in &filters {
        insert(&mut index, filter);
    }
    let text: usize = filters.iter().map(String::len).sum();
    assert!(
        index.heap_bytes() < text + (3 << 20),
        "{}",
        index.heap_bytes()
    );
    let mut found = Vec::new();
    let mut matched = begin(&index, &name, 2_048, &mut found);
    let mut visits = matched.visits;
    assert!(matched.visits < 2_048 + 64, "{}", matched.visits);
    let walk = matched.rest.as_mut().expect("it is not done");
    while !walk.is_done() {
        assert!(walk.heap_bytes() < 4_096, "{}", walk.heap_bytes());
        let more = walk.resume(&index, ZONE, &name, 256, |_| panic!("nothing matches"));
        assert!(more <= 256 + 16, "{more}");
        visits += more;
    }
    assert!(found.is_empty());
    assert!(visits < 12 * filters.len() as u32, "{visits}");
}

/// Sessions that come and go do not cut the runs of others up.
#[test]
fn runs_are_merged_again() {
    let mut index = index();
    insert(&mut index, &"+/".repeat(300));
    let before = index.heap_bytes();
    for round in 0..3 {
        for run in 1..300 {
            let filter = "+/".repeat(run) + "a";
            insert(&mut index, &filter);
            remove(&mut index, &filter);
        }
        assert!(
            index.heap_bytes() <= before + 1_024,
            "round {round}: {}",
            index.heap_bytes()
        );
    }
    assert_eq!(matches_of(&index, &"/".repeat(300)), 1);
}

/// No wildcard at the first level matches a name that begins with `$` [MQTT-4.7.2-1], in a run and
/// after a pause neither.
#[test]
fn a_walk_keeps_dollar_names_apart() {
    let mut index = index();
    for filter in ["+/+/+", "+/#", "#", "+/+", "$a/+/+", "$a/#"] {
        insert(&mut index, filter);
    }
    let mut found = Vec::new();
    let mut walk = begin(&index, "$a/b/c", 0, &mut found)
        .rest
        .expect("it is not done");
    remove(&mut index, "+/+");
    while !walk.is_done() {
        walk.resume(&index, ZONE, "$a/b/c", 0, |id| {
            found.push(index.filter(id).1.to_owned());
        });
    }
    found.sort();
    assert_eq!(found, ["$a/#", "$a/+/+"]);
}

fn matches_of(index: &Index, name: &str) -> usize {
    let mut count = 0;
    index.for_each_match(ZONE, name, index.hasher().hash(ZONE, name), |_, _| {
        count += 1
    });
    count
}
