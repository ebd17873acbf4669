//! How much a user may take.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Bounds for the sessions of one user. What is `None` is not bounded by this role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Connections of the user at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Messages that one connection publishes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_sec: Option<u32>,
    /// Payload bytes that one connection publishes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_sec: Option<u64>,
    /// Subscriptions of one session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<u32>,
    /// Bytes that wait in the output queue of one session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_bytes: Option<u64>,
}

/// A quota that is 0, which some take for nothing and others for no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{name} is 0, and a limit is at least 1; for no limit, leave it out or remove it with \
     --no-quota {name}; {instead}"
)]
pub struct ZeroQuota {
    /// Its name.
    pub name: &'static str,
    /// What does what may have been meant.
    pub instead: &'static str,
}

/// Two sets of quotas put together, quota by quota.
macro_rules! each {
    ($put:expr, $one:expr, $other:expr) => {
        Quotas {
            connections: $put($one.connections, $other.connections),
            messages_per_sec: $put($one.messages_per_sec, $other.messages_per_sec),
            bytes_per_sec: $put($one.bytes_per_sec, $other.bytes_per_sec),
            subscriptions: $put($one.subscriptions, $other.subscriptions),
            queued_bytes: $put($one.queued_bytes, $other.queued_bytes),
        }
    };
}

impl Quotas {
    /// What keeps somebody from something altogether, in the order of [`Quotas::NAMES`].
    const INSTEAD: [&'static str; 5] = [
        "to stop a user from logging in, disable it: stentor user disable",
        "to forbid publishing, use rules",
        "to forbid publishing, use rules",
        "to forbid subscribing, use rules",
        "to forbid receiving, use rules",
    ];

    /// Checks that no quota is 0.
    ///
    /// # Errors
    /// The first one that is.
    pub fn check(self) -> Result<(), ZeroQuota> {
        let is_zero = [
            self.connections == Some(0),
            self.messages_per_sec == Some(0),
            self.bytes_per_sec == Some(0),
            self.subscriptions == Some(0),
            self.queued_bytes == Some(0),
        ];
        match is_zero.iter().position(|is_zero| *is_zero) {
            None => Ok(()),
            Some(at) => Err(ZeroQuota {
                name: Self::NAMES[at],
                instead: Self::INSTEAD[at],
            }),
        }
    }

    /// The names of the quotas, as commands and files write them.
    pub const NAMES: [&'static str; 5] = [
        "connections",
        "messages_per_sec",
        "bytes_per_sec",
        "subscriptions",
        "queued_bytes",
    ];

    /// Whether nothing is bounded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These, and of the others those that are not set here.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        each!(Option::or, self, others)
    }

    /// These but for the named ones; names that are none mean nothing.
    #[must_use]
    pub fn without(mut self, names: &[String]) -> Self {
        for name in names {
            match name.as_str() {
                "connections" => self.connections = None,
                "messages_per_sec" => self.messages_per_sec = None,
                "bytes_per_sec" => self.bytes_per_sec = None,
                "subscriptions" => self.subscriptions = None,
                "queued_bytes" => self.queued_bytes = None,
                _ => {}
            }
        }
        self
    }

    /// The quotas of somebody who has both roles. A role that says nothing about a quota leaves it
    /// to the others; where several say something, the largest counts.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        // `None` is smaller than every number, so that it gives way.
        each!(Ord::max, self, other)
    }

    /// What both allow: of each quota the smaller one. A quota of 0 is not a limit and is left out.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        each!(smaller, self, other)
    }
}

fn smaller<T: Ord + Default>(a: Option<T>, b: Option<T>) -> Option<T> {
    let bounds = [a, b].into_iter().flatten();
    bounds.filter(|bound| *bound != T::default()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_generous_role_counts() {
        let small = Quotas {
            connections: Some(1),
            subscriptions: Some(10),
            ..Quotas::default()
        };
        let large = Quotas {
            connections: Some(5),
            queued_bytes: Some(9),
            ..Quotas::default()
        };
        let joined = Quotas {
            connections: Some(5),
            subscriptions: Some(10),
            queued_bytes: Some(9),
            ..Quotas::default()
        };
        assert_eq!(small.join(large), joined);
        assert_eq!(large.join(small), joined);
        assert!(Quotas::default().join(Quotas::default()).is_empty());
    }

    #[test]
    fn what_both_allow_is_the_smaller_of_two_bounds() {
        let one = Quotas {
            connections: Some(1),
            subscriptions: Some(10),
            queued_bytes: Some(0),
            ..Quotas::default()
        };
        let other = Quotas {
            connections: Some(5),
            messages_per_sec: Some(7),
            ..Quotas::default()
        };
        let both = Quotas {
            connections: Some(1),
            messages_per_sec: Some(7),
            subscriptions: Some(10),
            ..Quotas::default()
        };
        assert_eq!((one.stricter(other), other.stricter(one)), (both, both));
    }

    #[test]
    fn a_quota_of_0_is_refused_with_what_may_have_been_meant() {
        for name in Quotas::NAMES {
            let quotas = |value: u32| -> Quotas {
                serde_json::from_value(serde_json::json!({ name: value })).unwrap()
            };
            let error = quotas(0).check().unwrap_err();
            assert_eq!(error.name, name);
            assert!(error.to_string().contains("rules") || name == "connections");
            assert_eq!(quotas(1).check(), Ok(()));
        }
        assert_eq!(Quotas::default().check(), Ok(()));
    }

    #[test]
    fn a_change_leaves_the_quotas_that_it_does_not_name() {
        let before = Quotas {
            connections: Some(1),
            messages_per_sec: Some(2),
            bytes_per_sec: Some(3),
            subscriptions: Some(4),
            queued_bytes: Some(5),
        };
        let change = Quotas {
            connections: Some(9),
            ..Quotas::default()
        };
        let changed = Quotas {
            connections: Some(9),
            ..before
        };
        assert_eq!(change.or(before), changed);
        let names = Quotas::NAMES.map(str::to_owned);
        assert!(before.without(&names).is_empty());
        assert_eq!(before.without(&["other".to_owned()]), before);
    }
}
