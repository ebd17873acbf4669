//! Filters as sets of topics: what two have in common, and whether some cover one.

use std::borrow::Cow;

use super::pattern::{Expanded, Level};
use super::who::Who;
use crate::model::{EVERY_DOLLAR, Effect, Rule};

/// The filter that a rule is about for somebody; `None` if it is about nothing.
///
/// A pattern whose name may not be used (see [`Who::new`]) allows nothing and denies every level in
/// its place. What begins with `$` must be written so in the pattern.
pub(super) fn expand<'r>(rule: &'r Rule, who: &Who) -> Option<Cow<'r, str>> {
    let pattern = &*rule.pattern;
    if !pattern.contains('{') {
        return Some(Cow::Borrowed(pattern));
    }
    let mut filter = String::with_capacity(pattern.len());
    for (at, level) in pattern.split('/').enumerate() {
        if at > 0 {
            filter.push('/');
        }
        match Level::parse(level) {
            Level::Plus | Level::Text(_) => filter.push_str(level),
            Level::Template(template) => match (template.expand(who), rule.effect) {
                (Expanded::Text(text), _) => filter.push_str(&text),
                (Expanded::Any, Effect::Deny) => filter.push('+'),
                (Expanded::Any, Effect::Allow) | (Expanded::Nothing, _) => return None,
            },
        }
    }
    let names_dollar = filter.starts_with('$') && !pattern.starts_with('$');
    (rule.effect == Effect::Deny || !names_dollar).then_some(Cow::Owned(filter))
}

/// The filter that matches exactly the topics that both match; `None` if there are none.
pub(super) fn intersect(a: &str, b: &str) -> Option<String> {
    let begins_wild = |filter: &str| filter.starts_with(['+', '#']);
    match (a, b) {
        (EVERY_DOLLAR, other) | (other, EVERY_DOLLAR) => {
            return other.starts_with('$').then(|| other.to_owned());
        }
        (a, b) if a.starts_with('$') && begins_wild(b) => return None,
        (a, b) if b.starts_with('$') && begins_wild(a) => return None,
        _ => {}
    }
    let mut common: Vec<&str> = Vec::new();
    let (mut a_levels, mut b_levels) = (a.split('/'), b.split('/'));
    loop {
        match (a_levels.next(), b_levels.next()) {
            (None, None) => break,
            // `#` stands for no level too.
            (Some("#"), None) | (None, Some("#")) => break,
            (Some("#"), Some(level)) => {
                common.push(level);
                common.extend(b_levels);
                break;
            }
            (Some(level), Some("#")) => {
                common.push(level);
                common.extend(a_levels);
                break;
            }
            (Some("+"), Some(level)) | (Some(level), Some("+")) => common.push(level),
            (Some(level), Some(other)) if level == other => common.push(level),
            _ => return None,
        }
    }
    let common = common.join("/");
    // No topic is empty [MQTT-4.7.3-1].
    (!common.is_empty()).then_some(common)
}

/// Whether every topic that a filter matches is matched by one of the patterns that `covers` knows:
/// it is asked whether any single one of them covers a filter without `#`.
///
/// `+` stands for a text that no pattern names, so that a filter without `#` is covered by all
/// patterns together only if one alone covers it. A `#` is tried for all numbers of levels up to
/// one more than the longest pattern has.
pub(super) fn is_covered(filter: &str, depth: usize, mut covers: impl FnMut(&str) -> bool) -> bool {
    let Some(parent) = filter.strip_suffix('#') else {
        return covers(filter);
    };
    let mut instance = String::with_capacity(filter.len() + 2 * depth + 2);
    instance.push_str(parent.strip_suffix('/').unwrap_or(parent));
    let levels = if filter == "#" {
        0
    } else {
        instance.split('/').count()
    };
    // No topic is empty.
    if !instance.is_empty() && !covers(&instance) {
        return false;
    }
    for level in levels..=depth.max(levels) {
        if level > 0 {
            instance.push('/');
        }
        instance.push('+');
        if !covers(&instance) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_filters_have_one_filter_in_common() {
        for (a, b, common) in [
            ("a/b", "a/b", Some("a/b")),
            ("a/b", "a/c", None),
            ("a/+", "+/b", Some("a/b")),
            ("+/+", "+/#", Some("+/+")),
            ("a/#", "a", Some("a")),
            ("a/#", "a/+/c", Some("a/+/c")),
            ("a/#", "#", Some("a/#")),
            ("a/#", "+/b/#", Some("a/b/#")),
            ("a/+/#", "a", None),
            ("a", "a/+/#", None),
            ("a/b/#", "a/+", Some("a/b")),
            ("#", "$SYS/#", None),
            ("+/x", "$SYS/x", None),
            ("$SYS/#", "$SYS/+/x", Some("$SYS/+/x")),
            ("$#", "$SYS/+", Some("$SYS/+")),
            ("$#", "#", None),
            ("$#", "a", None),
            ("$#", "$#", Some("$#")),
            ("/", "+/+", Some("/")),
            ("/", "#", Some("/")),
            ("/#", "+", None),
        ] {
            assert_eq!(intersect(a, b).as_deref(), common, "{a} {b}");
            assert_eq!(intersect(b, a).as_deref(), common, "{b} {a}");
        }
    }

    #[test]
    fn several_patterns_may_cover_what_none_covers_alone() {
        let covered = |filter: &str, patterns: &[&str]| {
            let depth = patterns.iter().map(|p| p.split('/').count()).max();
            is_covered(filter, depth.unwrap_or(0), |instance| {
                let one_covers = |pattern: &&str| {
                    // A text that no pattern names.
                    let topic = instance.replace('+', "\u{1}");
                    stentor_topic::matches(pattern, &topic)
                };
                patterns.iter().any(one_covers)
            })
        };
        for (filter, patterns, expected) in [
            ("a/#", &["a/#"][..], true),
            ("a/#", &["a", "a/+/#"], true),
            ("a/#", &["a", "a/+", "a/+/+/#"], true),
            ("a/#", &["a", "a/+", "a/+/+"], false),
            ("a/#", &["a/+/#"], false),
            ("#", &["+", "+/+/#"], true),
            ("#", &["+/#"], true),
            ("#", &["+/+/#"], false),
            ("a/+", &["a/b", "a/c"], false),
            ("a/b", &["a/+"], true),
            ("a/b/c/d/#", &["a/#"], true),
            ("a/b/c/d/#", &["a/b/c/d"], false),
        ] {
            assert_eq!(covered(filter, patterns), expected, "{filter} {patterns:?}");
        }
    }
}
