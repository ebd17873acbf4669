//! Rights: what the rules of somebody's roles allow.
//!
//! Rules allow or deny publishing, subscribing or both on topic patterns. Deny wins; what no rule
//! allows is denied; topics that begin with `$` are only covered by patterns that say so. A
//! [`Book`] holds all roles compiled, and gives each login a [`Holder`]: the [`Rights`] that a
//! shard asks for every publish, without lock or allocation.
//!
//! A subscription may be wider than what is allowed. [`Access`] says whether all, part or nothing
//! of it is: the answer is exact, by reasoning about filters as sets of topics.

mod book;
mod exact;
mod explain;
mod grant;
mod pattern;
mod powers;
#[cfg(test)]
mod tests;
mod tree;
mod who;

pub use book::{Book, Login, compile};
pub use explain::{Explanation, RuleRef};
pub use grant::{Grant, Holder};
pub use who::Who;

use stentor_hub::{Access, Rights};

/// All rights, whatever the roles say: for whoever owns the server, through its control socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unrestricted {
    /// The system's user at the other end, where that is known.
    pub uid: Option<u32>,
}

impl Rights for Unrestricted {
    fn may_publish(&self, _topic: &str) -> bool {
        true
    }

    fn may_subscribe(&self, _filter: &str) -> Access {
        Access::All
    }

    fn may_receive(&self, _topic: &str) -> bool {
        true
    }

    fn is_operator(&self) -> bool {
        true
    }

    fn operator_uid(&self) -> Option<u32> {
        self.uid
    }
}
