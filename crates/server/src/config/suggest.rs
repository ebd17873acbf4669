//! "Did you mean …": the nearest known word to a mistyped one.

/// The candidate nearest to `word`, if one is near enough to be what was meant. One that is the
/// word and more, or less, by whole parts (`keep_alive` of `keep_alive_max`) is near.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let reach = (word.chars().count() / 3).clamp(1, 4);
    candidates
        .map(|candidate| {
            let is_part = extends(word, candidate) || extends(candidate, word);
            let edits = distance(word, candidate);
            (if is_part { edits.min(reach) } else { edits }, candidate)
        })
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Whether `longer` is `word` with another part before or behind it, parted by an underscore.
fn extends(word: &str, longer: &str) -> bool {
    let is_before = |rest: &str| rest.starts_with('_');
    let is_behind = |rest: &str| rest.ends_with('_');
    !word.is_empty()
        && (longer.strip_prefix(word).is_some_and(is_before)
            || longer.strip_suffix(word).is_some_and(is_behind))
}

/// The number of insertions, deletions, substitutions and swaps of neighbours between two words.
/// Words of more than 64 characters are taken as unlike anything, which bounds the work.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    // Rows of the table of distances between the beginnings of both words.
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let substituted = above[j] + usize::from(a[i] != b[j]);
            row[j + 1] = substituted.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let words = ["packet_bytes", "inflight", "log", "level"];
        let check = |word: &str| nearest(word, words.into_iter());
        assert_eq!(check("packet_byte"), Some("packet_bytes"));
        assert_eq!(check("in_flight"), Some("inflight"));
        assert_eq!(check("Level"), Some("level"));
        assert_eq!(check("lgo"), Some("log"));
        assert_eq!(check("packet"), Some("packet_bytes"));
        assert_eq!(check("log_to_the_console"), Some("log"));
        assert_eq!(check("allow_level"), Some("level"));
        assert_eq!(check("zzz"), None);
        assert_eq!(check(""), None);
        assert_eq!(check(&"x".repeat(100_000)), None);
    }

    #[test]
    fn distance_counts_edits() {
        for (a, b, edits) in [
            ("", "", 0),
            ("abc", "", 3),
            ("abc", "abd", 1),
            ("abc", "acb", 1),
            ("listen", "silent", 4),
        ] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }
}
