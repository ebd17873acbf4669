//! One filter against one name, and what can be read off a filter's text.

use crate::word::{contains_wildcard, count, find};

/// Whether `filter` matches `name`, by the rules of section 4.7 of the specification.
///
/// `+` stands for exactly one level, an empty one included; a last `#` for any number of levels,
/// the parent level included [MQTT-4.7.1-1]. A filter that begins with a wildcard does not match a
/// name that begins with `$` [MQTT-4.7.2-1]. The comparison is by bytes: no case folding, no
/// normalisation [MQTT-4.7.3-4].
///
/// Cost: one pass over both texts, no allocation.
#[must_use]
pub fn matches(filter: &str, name: &str) -> bool {
    let (filter, name) = (filter.as_bytes(), name.as_bytes());
    if name.first() == Some(&b'$') && matches!(filter.first(), Some(b'+' | b'#')) {
        return false;
    }
    let (mut f, mut n) = (0, 0);
    loop {
        // Both stand at the beginning of a level.
        match filter.get(f) {
            Some(b'#') => return true,
            Some(b'+') => {
                f += 1;
                n += level_len(&name[n..]);
            }
            _ => {
                let pairs = filter[f..].iter().zip(&name[n..]);
                let same = pairs.take_while(|(a, b)| a == b && **a != b'/').count();
                (f, n) = (f + same, n + same);
            }
        }
        match (filter.get(f), name.get(n)) {
            (None, None) => return true,
            (Some(b'/'), Some(b'/')) => (f, n) = (f + 1, n + 1),
            (Some(b'/'), None) => return filter[f + 1..] == *b"#",
            _ => return false,
        }
    }
}

/// Bytes before the next slash, or all.
#[inline]
fn level_len(text: &[u8]) -> usize {
    /// Most levels are no longer, and a loop finds their end sooner.
    const SHORT: usize = 8;
    let (short, long) = text.split_at(text.len().min(SHORT));
    let end = short.iter().position(|byte| *byte == b'/');
    end.unwrap_or_else(|| short.len() + find(long, b'/'))
}

/// The levels of a name or filter. The first ones cost nothing for those behind them.
pub fn split_levels(text: &str) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text.as_bytes());
    core::iter::from_fn(move || {
        let text = rest?;
        let (level, behind) = text.split_at(level_len(text));
        rest = behind.get(1..);
        Some(level)
    })
}

/// [`matches()`] for a name that is cut into its levels already, to be compared with many filters.
///
/// Of the levels, one more than the filter has is enough. Cost: one pass over the filter, and over
/// the levels that it names.
#[must_use]
pub fn matches_levels(filter: &str, levels: &[&[u8]]) -> bool {
    let filter = filter.as_bytes();
    let is_special = levels.first().and_then(|first| first.first()) == Some(&b'$');
    if is_special && matches!(filter.first(), Some(b'+' | b'#')) {
        return false;
    }
    let mut name_levels = levels.iter().copied();
    let mut filter_levels = filter.split(|&byte| byte == b'/');
    loop {
        match (filter_levels.next(), name_levels.next()) {
            (Some(b"#"), _) | (None, None) => return true,
            (Some(b"+"), Some(_)) => {}
            (Some(wanted), Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
}

/// Whether the filter contains a wildcard.
#[must_use]
pub fn has_wildcard(filter: &str) -> bool {
    // A valid filter has wildcards as whole levels only, so that any occurrence is one.
    contains_wildcard(filter.as_bytes())
}

/// The levels of a filter before its first wildcard, without the slash that ends them.
///
/// `""` where a wildcard stands first (and for `/+`, whose only literal level is empty); the whole
/// filter where there is none.
#[must_use]
pub fn literal_prefix(filter: &str) -> &str {
    if !has_wildcard(filter) {
        return filter;
    }
    match filter.find(['+', '#']) {
        None => filter,
        // The byte before a wildcard of a valid filter is a slash.
        Some(at) => &filter[..at.saturating_sub(1)],
    }
}

/// The number of levels of a name or filter: one more than it has slashes.
///
/// The index spends a node per level of a filter with wildcards, so that a server bounds this.
#[must_use]
pub fn levels(text: &str) -> usize {
    1 + count(text.as_bytes(), b'/')
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_name_in_levels_matches_as_the_whole_one_does() {
        let texts = [
            "", "a", "/", "a/b", "a//b", "$a/b", "+", "#", "+/+", "a/#", "/+", "a/+/b",
        ];
        for name in texts.iter().filter(|text| !has_wildcard(text)) {
            let all: Vec<&[u8]> = split_levels(name).collect();
            assert_eq!(all.len(), levels(name));
            let levels = all;
            for filter in texts {
                let (one, other) = (matches(filter, name), matches_levels(filter, &levels));
                assert_eq!(one, other, "{filter} {name}");
            }
        }
        for len in 0..60 {
            let level = "x".repeat(len);
            let name = ["a", &level, "b"].join("/");
            assert!(matches("a/+/b", &name) && !matches("a/+/c", &name), "{len}");
            assert!(matches(&name, &name) && matches("a/+/b/#", &name), "{len}");
            assert!(!matches("a/+", &name) && !matches("+/b", &name), "{len}");
        }
        assert!(matches_levels("a/#", &[b"a"]) && !matches_levels("+/b", &[b"$a", b"b"]));
    }
}
