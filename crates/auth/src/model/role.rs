//! Roles: named lists of rules, and those that exist from the start.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Action, Effect, NameError, Quotas, Rule, RuleError, check_name};

/// The role of every added user.
pub const MEMBER: &str = "member";
/// The role of clients that log in without a name, where a listener lets them in.
pub const ANONYMOUS: &str = "anonymous";
/// The role of those who get a name from the server, and what they log in as.
pub const GUEST: &str = "guest";
/// The role with all rights.
pub const ADMIN: &str = "admin";
/// The role of those who look at a server.
pub const VIEWER: &str = "viewer";
/// The role of those who look after a server.
pub const OPERATOR: &str = "operator";

/// How many rules a role may have.
pub const ROLE_RULES_MAX: usize = 10_000;

/// A named list of rules, with quotas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// The zone whose users may have it; `None` for all zones. A zone's own role hides the one of
    /// the same name for all zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
    /// What whoever has it may and must not do; the order means nothing.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// How much whoever has it may take.
    #[serde(default)]
    pub quotas: Quotas,
}

/// Why a role is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RoleError {
    /// Its name or its zone's name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// One of its rules.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// It has more than [`ROLE_RULES_MAX`] rules.
    #[error("a role has at most {ROLE_RULES_MAX} rules")]
    TooManyRules,
}

impl Role {
    /// A role with these rules and quotas, which are not checked yet.
    #[must_use]
    pub const fn new(
        zone: Option<Arc<str>>,
        name: Arc<str>,
        rules: Vec<Rule>,
        quotas: Quotas,
    ) -> Self {
        Self {
            zone,
            name,
            rules,
            quotas,
        }
    }

    /// Checks names and rules.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), RoleError> {
        check_name(&self.name)?;
        if let Some(zone) = &self.zone {
            check_name(zone)?;
        }
        if self.rules.len() > ROLE_RULES_MAX {
            return Err(RoleError::TooManyRules);
        }
        for rule in &self.rules {
            rule.check()?;
        }
        Ok(())
    }
}

/// The roles that every store has from its first start. They are ordinary roles from then
/// on: an operator may change or delete them.
///
/// `member` may do everything in its zone outside `$…`, read the server's figures, keep a bridge's
/// state, send private messages and read its own inbox, use rooms and presence, and call
/// procedures and receive their answers. `anonymous` has what needs no name of that. `admin` may
/// do everything. `viewer` may have done what looks at the server and its metrics, and `operator`
/// also what changes something of its clients and its code, but not of users and rights.
#[must_use]
pub fn initial_roles() -> Vec<Role> {
    let publish = |pattern| Rule::fixed(Effect::Allow, Action::Publish, pattern);
    let subscribe = |pattern| Rule::fixed(Effect::Allow, Action::Subscribe, pattern);
    let both = |pattern| Rule::fixed(Effect::Allow, Action::Both, pattern);
    let outside_dollar = [
        both("#"),
        subscribe("$SYS/#"),
        // With which a mosquitto bridge tells that it is connected.
        publish("$SYS/broker/connection/+/state"),
    ];
    let role = |name: &str, rules: Vec<Rule>| Role {
        zone: None,
        name: name.into(),
        rules,
        quotas: Quotas::default(),
    };
    let operates = [subscribe(EVERY_VERB)].into_iter();
    let operates = operates.chain(OPERATED.map(publish));
    let mut member = outside_dollar.to_vec();
    member.push(publish("$private/to/#"));
    member.extend(with_name());
    vec![
        role(MEMBER, member),
        role(ANONYMOUS, outside_dollar.to_vec()),
        role(ADMIN, vec![both("#"), both(super::EVERY_DOLLAR)]),
        role(VIEWER, vec![subscribe(EVERY_VERB)]),
        role(OPERATOR, operates.collect()),
    ]
}

/// The topics that stand for the rights to all verbs.
const EVERY_VERB: &str = "$control/#";

/// Those for what an operator may change.
const OPERATED: [&str; 8] = [
    "$control/clients/#",
    "$control/retained/#",
    "$control/bans/#",
    "$control/traces/#",
    "$control/adaptors/#",
    "$control/procedures/#",
    "$control/rooms/#",
    "$control/reload",
];

/// What whoever has a name may do: read their own inbox, use rooms and presence, and call
/// procedures and receive their answers.
fn with_name() -> Vec<Rule> {
    let publish = |pattern| Rule::fixed(Effect::Allow, Action::Publish, pattern);
    let subscribe = |pattern| Rule::fixed(Effect::Allow, Action::Subscribe, pattern);
    vec![
        subscribe("$private/#"),
        publish("$room/+/say"),
        subscribe("$room/+/#"),
        subscribe("$rooms/#"),
        subscribe("$presence/#"),
        publish("$call/#"),
        subscribe("$reply/#"),
    ]
}

/// The role of guests, where no book has one of that name: they may use rooms and presence, read
/// their own inbox and call procedures, slowly. They write to nobody.
#[must_use]
pub fn guest_role() -> Role {
    Role {
        zone: None,
        name: GUEST.into(),
        rules: with_name(),
        quotas: Quotas {
            messages_per_sec: Some(10),
            subscriptions: Some(100),
            queued_bytes: Some(256 << 10),
            ..Quotas::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_roles_are_valid_and_have_their_names() {
        let roles = initial_roles();
        let names: Vec<&str> = roles.iter().map(|role| &*role.name).collect();
        assert_eq!(names, [MEMBER, ANONYMOUS, ADMIN, VIEWER, OPERATOR]);
        for role in roles.iter().chain([&guest_role()]) {
            assert_eq!(role.check(), Ok(()), "{}", role.name);
        }
    }

    #[test]
    fn a_role_is_checked_with_its_zone_and_its_rules() {
        let good = initial_roles().remove(0);
        let zone = Role {
            zone: Some("a/b".into()),
            ..good.clone()
        };
        assert!(matches!(zone.check(), Err(RoleError::Name(_))));
        let name = Role {
            name: "".into(),
            ..good.clone()
        };
        assert!(matches!(name.check(), Err(RoleError::Name(_))));
        let mut rule = good.clone();
        rule.rules[0].pattern = "a#".into();
        assert!(matches!(rule.check(), Err(RoleError::Rule(_))));
        let mut many = good.clone();
        many.rules = vec![good.rules[0].clone(); ROLE_RULES_MAX + 1];
        assert_eq!(many.check(), Err(RoleError::TooManyRules));
    }
}
