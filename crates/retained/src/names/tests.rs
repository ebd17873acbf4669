use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn all(names: &Names, from: &str, included: bool) -> Vec<String> {
    let mut range = names.range(from, included);
    let mut found = Vec::new();
    while let Some(name) = range.next() {
        found.push(name.to_owned());
    }
    found
}

#[derive(Clone, Debug)]
enum Step {
    Insert(String),
    Remove(String),
}

/// Short ones; long ones that share much, on both sides of [`LONG_BYTES`]; and such with characters
/// of which only a part is the same.
fn name() -> impl Strategy<Value = String> {
    let prefix = |len: usize, fill: &str| fill.repeat(len);
    prop_oneof![
        "[ab]{1,3}(/[0-9ü]{1,2}){0,3}",
        "[äöü€😀😁]{1,4}",
        "long/[ab]{100,300}/[0-9]{1,2}",
        "[0-9]{1,3}".prop_map(move |tail| prefix(250, "p") + &tail),
        "[ab]{0,2}[0-9äöü]{1,3}".prop_map(move |tail| prefix(700, "ö") + &tail),
        (0_usize..2_000).prop_map(move |len| prefix(len, "q")),
        (0_usize..1_000, "[az]").prop_map(move |(len, tail)| prefix(len, "q") + &tail),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => name().prop_map(Step::Insert),
        2 => name().prop_map(Step::Remove),
    ]
}

fn memory_by_hand(names: &Names) -> usize {
    let chunks = names.chunks.iter().map(Chunk::memory);
    chunks.sum::<usize>() + names.chunks.capacity() * size_of::<Chunk>()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn names_are_an_ordered_set(steps in prop::collection::vec(step(), 1..400),
                                from in name(), included: bool) {
        let (mut names, mut model) = (Names::default(), BTreeSet::new());
        for step in &steps {
            match step {
                Step::Insert(name) => {
                    prop_assert_eq!(names.insert(name), model.insert(name.clone()));
                }
                Step::Remove(name) => {
                    prop_assert_eq!(names.remove(name), model.remove(name));
                }
            }
            prop_assert_eq!(names.len(), model.len());
            prop_assert_eq!(names.memory(), memory_by_hand(&names));
        }
        prop_assert!(!names.chunks.iter().any(Chunk::is_full));
        let expected: Vec<_> = model.iter().cloned().collect();
        prop_assert_eq!(all(&names, "", true), expected.clone());
        let later: Vec<_> = expected
            .iter()
            .filter(|name| **name > from || (included && **name == from))
            .cloned()
            .collect();
        prop_assert_eq!(all(&names, &from, included), later);
        let mut pushed = Names::default();
        let mut before = "";
        for name in &expected {
            pushed.push_last(name, before);
            before = name;
        }
        prop_assert_eq!(all(&pushed, "", true), expected.clone());
        for name in &expected {
            prop_assert!(pushed.remove(name));
        }
        prop_assert_eq!((pushed.len(), pushed.chunks.len(), pushed.held), (0, 0, 0));
    }
}

#[test]
fn a_hundred_thousand_names_take_little_memory() {
    let mut names = Names::default();
    for i in 0..100_000 {
        names.insert(&format!("plant/{}/line/{}/sensor/{i}", i % 10, i % 100));
    }
    let each = names.memory() / 100_000;
    assert!(each < 12, "{each} bytes for a name, in any order");
}

/// 7,600 names of 65 KB, of which all but the end is the same.
#[test]
fn long_names_cost_their_length_and_take_little_memory() {
    const LEN: usize = 65_400;
    let stem = "p".repeat(LEN);
    let mut names = Names::default();
    for (at, n) in (0..7_600).map(|n| (n, n * 4_999 % 7_600)) {
        cost::take();
        assert!(names.insert(&format!("{stem}{n:04}")));
        // Each some times: both ends of what there is, the entry itself, and now and then a split.
        let cost = cost::take();
        assert!(cost < 10 * LEN, "{cost} for name {at}");
    }
    assert!(names.memory() < 200 * LEN, "{}", names.memory());
    for n in [0, 1, 3_800, 3_801, 7_598, 7_599] {
        let name = format!("{stem}{n:04}");
        cost::take();
        assert!(names.remove(&name) && names.insert(&name));
        let cost = cost::take();
        assert!(cost < 20 * LEN, "{cost} to clear and set {n}");
        assert_eq!(all(&names, &name, true).len(), 7_600 - n);
        cost::take();
        let mut range = names.range(&name, false);
        let cost = cost::take();
        assert!(cost < 8 * LEN, "{cost} to begin after {n}");
        let steps = (0..50).map_while(|_| range.next().map(str::len)).count();
        let cost = cost::take();
        assert!(cost < 3 * LEN, "{cost} for {steps} steps");
    }
}

/// Others on both sides do not make it dearer.
#[test]
fn long_names_among_short_ones_cost_little_more() {
    const LEN: usize = 65_400;
    let stem = "p".repeat(LEN);
    let mut names = Names::default();
    for n in 0..20_000 {
        names.insert(&format!("a/{n}"));
        names.insert(&format!("z/{n}"));
    }
    for n in 0..2_000 {
        names.insert(&format!("{stem}{n:04}"));
    }
    let mut most = 0;
    for n in 0..2_000 {
        let name = format!("{stem}{n:04}");
        cost::take();
        assert!(names.remove(&name) && names.insert(&name));
        most = most.max(cost::take());
    }
    assert!(most < 24 * LEN, "{most}");
    cost::take();
    assert!(names.insert("a/x") && names.remove("a/x"));
    let cost = cost::take();
    assert!(cost < 8_192, "{cost} for a short one");
}
