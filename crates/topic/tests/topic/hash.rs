//! The hash: equal everywhere, keyed, and right for every prefix.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use stentor_topic::{TopicHasher, Zone, literal_prefix, matches};

const ZONE: Zone = Zone(3);

/// The prefix hashes of a name, taken one by one.
fn expected(hasher: &TopicHasher, name: &str) -> Vec<u64> {
    let mut prefixes: Vec<&str> = name.match_indices('/').map(|(at, _)| &name[..at]).collect();
    if !name.starts_with('$') && prefixes.first() != Some(&"") {
        prefixes.insert(0, "");
    }
    prefixes
        .into_iter()
        .map(|prefix| hasher.hash(ZONE, prefix))
        .collect()
}

fn check(name: &str) {
    let hasher = TopicHasher::new(7);
    let mut visited = Vec::new();
    let full = hasher.for_each_prefix_hash(ZONE, name, |hash| visited.push(hash));
    assert_eq!(full, hasher.hash(ZONE, name), "{name:?}");
    assert_eq!(visited, expected(&hasher, name), "{name:?}");
}

#[test]
fn every_prefix_is_visited() {
    for name in [
        "a", "a/b", "/", "//", "/a", "a/", "$SYS", "$SYS/a/b", "$", "/$a",
    ] {
        check(name);
    }
    // A slash at each offset of a block and across blocks.
    for len in 1..50 {
        for at in 0..len {
            let mut name = vec![b'x'; len];
            name[at] = b'/';
            check(std::str::from_utf8(&name).unwrap());
        }
    }
}

/// Bytes that differ from a slash by one bit or by a carry are not taken for one.
#[test]
fn neighbours_of_the_slash_are_text() {
    for byte in 1u8..128 {
        let byte = char::from(byte);
        check(&format!(
            "{byte}/{byte}{byte}//{byte}0123456789{byte}/{byte}"
        ));
    }
    check("ä/ü/ÿ/日本/語/🦀🦀🦀🦀/🦀");
}

/// The zone, the seed and each byte change the hash.
#[test]
fn hashes_differ() {
    let (one, two) = (TopicHasher::new(1), TopicHasher::new(2));
    assert_eq!(one.hash(ZONE, "a/b"), TopicHasher::new(1).hash(ZONE, "a/b"));
    assert_ne!(one.hash(ZONE, "a/b"), two.hash(ZONE, "a/b"));
    assert_ne!(one.hash(ZONE, "a/b"), one.hash(Zone::DEFAULT, "a/b"));
    let mut seen = BTreeMap::new();
    for len in 1..100 {
        for text in [
            "a".repeat(len),
            "\u{1}".repeat(len),
            format!("b{}", "a".repeat(len)),
        ] {
            assert_eq!(
                seen.insert(one.hash(ZONE, &text), text.clone()),
                None,
                "{text:?}"
            );
        }
    }
}

/// The low and the high bits of the hashes of similar topics spread evenly.
#[test]
fn buckets_fill_evenly() {
    let hasher = TopicHasher::new(42);
    let count = 1 << 16;
    let hashes: Vec<u64> = (0..count)
        .map(|number| hasher.hash(ZONE, &format!("clients/{number}/in")))
        .collect();
    for shift in [0, 8, 24, 32, 52] {
        let buckets: BTreeSet<u64> = hashes.iter().map(|hash| (hash >> shift) & 0xFFF).collect();
        assert_eq!(buckets.len(), 4096);
        let mut fill = vec![0; 4096];
        hashes
            .iter()
            .for_each(|hash| fill[(hash >> shift) as usize & 0xFFF] += 1);
        // 16 are expected per bucket; more than 48 would be eight standard deviations.
        assert!(fill.iter().all(|&fill| fill < 48), "shift {shift}");
    }
}

/// The names of the longest kind, all slashes, are hashed in one pass: this ends at once.
#[test]
fn deep_names_are_linear() {
    let hasher = TopicHasher::new(7);
    let name = "/".repeat(65_535);
    let mut count = 0;
    hasher.for_each_prefix_hash(ZONE, &name, |_| count += 1);
    assert_eq!(count, 65_535);
}

proptest! {
    /// Whatever filter matches a name, its interest hash is among those looked up for the name.
    #[test]
    fn interest_is_found(filter in "[$ab/]{0,3}(\\+|#|a)?(/[ab+]{1}){0,4}(/#)?", name in "[$ab/]{1,12}") {
        let hasher = TopicHasher::new(9);
        check(&name);
        if stentor_topic::validate_filter(&filter).is_ok() && matches(&filter, &name) {
            let interest = hasher.interest(ZONE, &filter);
            prop_assert_eq!(interest, hasher.hash(ZONE, literal_prefix(&filter)));
            let mut looked_up = Vec::new();
            let full = hasher.for_each_prefix_hash(ZONE, &name, |hash| looked_up.push(hash));
            looked_up.push(full);
            prop_assert!(looked_up.contains(&interest));
        }
    }

    #[test]
    fn prefixes_of_any_text(name in "\\PC{1,80}") {
        check(&name);
    }
}
