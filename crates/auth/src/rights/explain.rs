//! Which rule decides, for people.

use std::fmt;
use std::sync::Arc;

use stentor_hub::Access;
use stentor_topic::matches;

use super::exact::{expand, intersect};
use super::grant::Holder;
use super::powers::Powers;
use crate::model::{EVERY_DOLLAR, Role, Rule};
use stentor_hub::Rights as _;

/// A rule in its place.
#[derive(Clone, Debug)]
pub struct RuleRef {
    /// The role that has it.
    pub role: Arc<Role>,
    /// Where it is in the role's list, from 0.
    pub index: usize,
}

impl RuleRef {
    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.role.rules[self.index]
    }
}

/// `role member: allow both #`.
impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "role {}: {}", self.role.name, self.rule())
    }
}

/// An answer with its reasons.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The answer. A topic, which is published to or received, has no part.
    pub access: Access,
    /// The rule that allows: for a filter, one that allows some of it, and all of it if one does.
    pub allow: Option<RuleRef>,
    /// The rule that denies, or denies some of what others allow.
    pub deny: Option<RuleRef>,
}

impl Explanation {
    /// The rule that decides: the one that denies where something is denied. `None` means that no
    /// rule allows it.
    #[must_use]
    pub const fn deciding(&self) -> Option<&RuleRef> {
        match &self.deny {
            Some(deny) => Some(deny),
            None => self.allow.as_ref(),
        }
    }
}

impl Holder {
    /// May this topic be published to, and which rule decides?
    #[must_use]
    pub fn explain_publish(&self, topic: &str) -> Explanation {
        let access = as_access(self.may_publish(topic));
        let says = |power| self.find(power, |filter| covers(filter, topic));
        Explanation {
            access,
            allow: says(Powers::ALLOW_PUBLISH),
            deny: says(Powers::DENY_PUBLISH),
        }
    }

    /// May this topic be received, and which rule decides?
    #[must_use]
    pub fn explain_receive(&self, topic: &str) -> Explanation {
        let access = as_access(self.may_receive(topic));
        let says = |power| self.find(power, |filter| covers(filter, topic));
        Explanation {
            access,
            allow: says(Powers::ALLOW_SUBSCRIBE),
            deny: says(Powers::DENY_SUBSCRIBE),
        }
    }

    /// How much of a filter may be subscribed to (without `$share/<group>/`), and which rules
    /// decide?
    #[must_use]
    pub fn explain_subscribe(&self, filter: &str) -> Explanation {
        let access = self.may_subscribe(filter);
        let whole = |rule: &str| intersect(rule, filter).as_deref() == Some(filter);
        let some = |rule: &str| intersect(rule, filter).is_some();
        // The rule that says something about all of it explains more than one about some of it.
        let (allow, deny) = (Powers::ALLOW_SUBSCRIBE, Powers::DENY_SUBSCRIBE);
        let denies = || {
            let permitted = self.common(allow, filter);
            // What nobody allows anyway is not denied by a rule about it.
            let bites = |rule: &str| {
                let takes = |part: &String| intersect(rule, part).is_some();
                permitted.iter().any(takes)
            };
            self.find(deny, whole).or_else(|| self.find(deny, bites))
        };
        Explanation {
            access,
            allow: self.find(allow, whole).or_else(|| self.find(allow, some)),
            deny: match access {
                Access::All => None,
                Access::Part | Access::Nothing => denies(),
            },
        }
    }

    /// What the rules that say this have in common with a filter, rule by rule.
    fn common(&self, power: Powers, filter: &str) -> Vec<String> {
        let roles = self.grant().roles.iter();
        let rules = roles.flat_map(|compiled| &compiled.role.rules);
        let rules = rules.filter(|rule| Powers::of(rule).has(power));
        let filters = rules.filter_map(|rule| expand(rule, self.who()));
        filters
            .filter_map(|rule| intersect(&rule, filter))
            .collect()
    }

    /// The first rule that says this about such a filter.
    fn find(&self, power: Powers, is_such: impl Fn(&str) -> bool) -> Option<RuleRef> {
        self.grant().roles.iter().find_map(|compiled| {
            let is_it = |rule: &Rule| {
                Powers::of(rule).has(power)
                    && expand(rule, self.who()).is_some_and(|filter| is_such(&filter))
            };
            let index = compiled.role.rules.iter().position(is_it)?;
            let role = Arc::clone(&compiled.role);
            Some(RuleRef { role, index })
        })
    }
}

/// Whether a rule's filter matches a topic.
fn covers(filter: &str, topic: &str) -> bool {
    if filter == EVERY_DOLLAR {
        topic.starts_with('$')
    } else {
        matches(filter, topic)
    }
}

const fn as_access(allowed: bool) -> Access {
    if allowed {
        Access::All
    } else {
        Access::Nothing
    }
}
