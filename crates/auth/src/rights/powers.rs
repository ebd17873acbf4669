//! What rules say about a topic, as a set of bits.

use std::ops::{BitAnd, BitOr, BitOrAssign};

use crate::model::{Action, Effect, Rule};

/// A set of the four things that a rule can say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Powers(u8);

impl Powers {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALLOW_PUBLISH: Self = Self(1);
    pub(super) const ALLOW_SUBSCRIBE: Self = Self(2);
    pub(super) const DENY_PUBLISH: Self = Self(4);
    pub(super) const DENY_SUBSCRIBE: Self = Self(8);
    /// Both denials.
    pub(super) const DENY: Self = Self(4 | 8);
    /// What is asked about publishing.
    pub(super) const PUBLISH: Self = Self(1 | 4);
    /// What is asked about subscribing and receiving.
    pub(super) const SUBSCRIBE: Self = Self(2 | 8);
    /// Everything.
    pub(super) const ALL: Self = Self(15);

    /// What one rule says.
    pub(super) const fn of(rule: &Rule) -> Self {
        match (rule.effect, rule.action) {
            (Effect::Allow, Action::Publish) => Self::ALLOW_PUBLISH,
            (Effect::Allow, Action::Subscribe) => Self::ALLOW_SUBSCRIBE,
            (Effect::Allow, Action::Both) => Self(1 | 2),
            (Effect::Deny, Action::Publish) => Self::DENY_PUBLISH,
            (Effect::Deny, Action::Subscribe) => Self::DENY_SUBSCRIBE,
            (Effect::Deny, Action::Both) => Self::DENY,
        }
    }

    /// Whether anything is in it.
    pub(super) const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Whether it has any of these.
    pub(super) const fn has(self, any_of: Self) -> bool {
        self.0 & any_of.0 != 0
    }

    /// It without these.
    pub(super) const fn without(self, these: Self) -> Self {
        Self(self.0 & !these.0)
    }
}

impl BitOr for Powers {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Powers {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Powers {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
