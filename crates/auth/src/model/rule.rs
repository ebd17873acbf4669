//! A rule: one sentence about what somebody may do.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stentor_topic::{FilterError, validate_filter};
use thiserror::Error;

/// Length limit of a rule's pattern, in bytes of UTF-8.
pub const PATTERN_BYTES_MAX: usize = 1_024;

/// What stands for the user name, the client id and the zone's name in a pattern. Each may be a
/// whole level or part of one.
pub const PLACEHOLDERS: [&str; 3] = ["{user}", "{client}", "{zone}"];

/// The one pattern that is not an MQTT filter: every topic that begins with `$`, which `#` leaves
/// out.
pub const EVERY_DOLLAR: &str = "$#";

/// Whether a rule allows or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It allows, unless another rule denies.
    Allow,
    /// It denies, whatever other rules allow.
    Deny,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Publishing.
    Publish,
    /// Subscribing and receiving.
    Subscribe,
    /// Both.
    Both,
}

/// One rule of a role: `allow publish sensors/{user}/#`. Deny wins; what no rule allows is denied.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Whether it allows or denies.
    pub effect: Effect,
    /// What it is about.
    pub action: Action,
    /// An MQTT topic filter with [`PLACEHOLDERS`], or [`EVERY_DOLLAR`]. As in every filter, a
    /// wildcard in the first level leaves out the topics that begin with `$`.
    pub pattern: Arc<str>,
}

/// Why a rule is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// Not of the form `EFFECT ACTION PATTERN`.
    #[error(
        "{0:?} is not a rule; a rule has three words: `allow` or `deny`, `publish`, `subscribe` or \
         `both`, and a topic filter, like: allow publish sensors/#"
    )]
    Form(String),
    /// The pattern is longer than [`PATTERN_BYTES_MAX`].
    #[error("a pattern has at most {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// The pattern is not a topic filter.
    #[error("the pattern {pattern:?} is not a topic filter: {reason}")]
    Filter {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: FilterError,
    },
    /// The pattern contains a brace that belongs to no placeholder.
    #[error(
        "the pattern {0:?} has a brace that belongs to none of the placeholders {{user}}, \
         {{client}} and {{zone}}; write one of these, or + for a level with other braces"
    )]
    Placeholder(String),
}

impl Rule {
    /// A rule of the program's own, whose pattern is known to be valid.
    pub(super) fn fixed(effect: Effect, action: Action, pattern: &str) -> Self {
        let pattern = Arc::from(pattern);
        let rule = Self {
            effect,
            action,
            pattern,
        };
        debug_assert_eq!(rule.check(), Ok(()));
        rule
    }

    /// Checks the pattern.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self) -> Result<(), RuleError> {
        let pattern = &*self.pattern;
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(RuleError::TooLong);
        }
        if pattern == EVERY_DOLLAR {
            return Ok(());
        }
        validate_filter(pattern).map_err(|reason| RuleError::Filter {
            pattern: pattern.to_owned(),
            reason,
        })?;
        if has_other_brace(pattern) {
            return Err(RuleError::Placeholder(pattern.to_owned()));
        }
        Ok(())
    }
}

/// Whether there is a brace that belongs to none of [`PLACEHOLDERS`]: most likely one was meant,
/// and a rule that denies something else than was meant denies nothing.
fn has_other_brace(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        let known = |name: &&&str| rest[at..].starts_with(**name);
        match PLACEHOLDERS.iter().find(known) {
            Some(name) => rest = &rest[at + name.len()..],
            None => return true,
        }
    }
    false
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let form = || RuleError::Form(text.chars().take(100).collect());
        // The pattern may contain spaces, so it is what remains after two words.
        let (effect, rest) = text.trim().split_once(' ').ok_or_else(form)?;
        let (action, pattern) = rest.trim_start().split_once(' ').ok_or_else(form)?;
        let effect = match effect {
            "allow" => Effect::Allow,
            "deny" => Effect::Deny,
            _ => return Err(form()),
        };
        let action = match action {
            "publish" => Action::Publish,
            "subscribe" => Action::Subscribe,
            "both" => Action::Both,
            _ => return Err(form()),
        };
        let rule = Self {
            effect,
            action,
            pattern: pattern.trim_start().into(),
        };
        rule.check()?;
        Ok(rule)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::Both => "both",
        })
    }
}

/// As its parser reads it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.effect, self.action, self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "allow publish a/b",
            "deny subscribe #",
            "allow both $#",
            "allow both {zone}/{user}/+/x-{client}",
            "deny both a topic/with spaces/#",
            "allow publish a/{user}{client}",
        ] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule);
        }
        let spaced: Rule = "  allow   publish   a/b ".parse().unwrap();
        assert_eq!(spaced.to_string(), "allow publish a/b");
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_reason() {
        let long = format!("allow publish {}", "x".repeat(PATTERN_BYTES_MAX + 1));
        for (text, reason) in [
            ("", "three words"),
            ("allow", "three words"),
            ("allow publish", "three words"),
            ("permit publish a", "three words"),
            ("allow write a", "three words"),
            ("allow publish a#", "is not a topic filter"),
            ("allow publish a/\0", "is not a topic filter"),
            ("allow publish $+", "is not a topic filter"),
            ("allow publish a/{name}", "a brace that belongs to none"),
            ("allow publish {{user}", "a brace that belongs to none"),
            ("deny both {user", "a brace that belongs to none"),
            ("deny both user}/x", "a brace that belongs to none"),
            ("deny both {user}}", "a brace that belongs to none"),
            ("deny both {User}", "a brace that belongs to none"),
            (&long, "at most 1024 bytes"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
