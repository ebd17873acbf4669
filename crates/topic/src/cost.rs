//! What a subscription costs the memory of a server, whoever else has the same filter.

use crate::trie::LEVEL_IN_NODE_BYTES;

/// Bytes of an entry of the index beside its text: the entry (40), its place in a table that has
/// just grown (21), the subscription as its session remembers it (24), and what allocators add to
/// the text.
const ENTRY_BYTES: usize = 128;

/// Bytes of one node of the trie (40) with its place in a table that has just grown (21).
const NODE_BYTES: usize = 64;

/// Bytes of a level that does not lie in its node, beside its text.
const LONG_LEVEL_BYTES: usize = 32;

/// The bytes of memory that a subscription to a filter is charged with.
///
/// The charge does not depend on other subscriptions: it is what the filter costs if nobody shares
/// a part of it, so that the sum over all sessions is an upper bound of what the filters occupy.
/// It is at most some three times as much, but for what filters share. Beyond it an index occupies
/// what it keeps in reserve: 128 KiB at most while it grows, and the places that filters left,
/// which others get.
///
/// A filter without wildcards costs an entry and its text; each level of one with wildcards costs a
/// node as well, and a run of `+` costs one node. O(length of the filter).
///
/// ```
/// use stentor_topic::filter_cost;
///
/// assert!(filter_cost("a/b/c") < filter_cost("a/+/c"));
/// assert_eq!(filter_cost("a/+/+/+"), filter_cost("a/+") + 2 * "/+/+".len());
/// ```
#[must_use]
pub fn filter_cost(filter: &str) -> usize {
    let base = ENTRY_BYTES + filter.len();
    if !crate::has_wildcard(filter) {
        return base;
    }
    let mut long_levels = 0;
    let (mut nodes, mut is_run) = (0, false);
    for level in filter.split('/') {
        let is_plus = level == "+";
        if !(is_plus && is_run) {
            nodes += 1;
        }
        is_run = is_plus;
        long_levels += usize::from(level.len() > LEVEL_IN_NODE_BYTES);
    }
    // A level's own text lies in its node, or beside it where it is long.
    base + nodes * NODE_BYTES + filter.len() + long_levels * LONG_LEVEL_BYTES
}

/// How many levels of a filter are wildcards.
#[must_use]
pub fn wildcards(filter: &str) -> usize {
    filter
        .split('/')
        .filter(|level| matches!(*level, "+" | "#"))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_of_a_filter_with_wildcards_costs_a_node_and_a_run_costs_one() {
        let text = |filter: &str| 2 * filter.len();
        for (filter, nodes) in [
            ("+", 1),
            ("#", 1),
            ("a/#", 2),
            ("+/+/a/+/+", 3),
            ("a/+/b", 3),
        ] {
            let expected = ENTRY_BYTES + text(filter) + nodes * NODE_BYTES;
            assert_eq!(filter_cost(filter), expected, "{filter}");
        }
        assert_eq!(filter_cost("a/b"), ENTRY_BYTES + 3);
    }

    #[test]
    fn wildcards_are_counted_by_level() {
        for (filter, count) in [("a/b", 0), ("+/a+/#", 2), ("#", 1), ("+/+/+", 3)] {
            assert_eq!(wildcards(filter), count, "{filter}");
        }
    }
}
