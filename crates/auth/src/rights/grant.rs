//! What the roles of somebody allow together.

use std::sync::Arc;

use stentor_hub::{Access, Rights};

use super::exact::{expand, intersect, is_covered};
use super::powers::Powers;
use super::tree::{Relation, Tree};
use super::who::{Placeholder, Who};
use crate::model::{EVERY_DOLLAR, Effect, Quotas, Role};

/// Every topic that does not begin with `$`.
const EVERY_TOPIC: &str = "#";

/// A role, compiled once for all who have it.
#[derive(Debug)]
pub(super) struct CompiledRole {
    pub(super) role: Arc<Role>,
    tree: Tree,
}

impl CompiledRole {
    pub(super) fn new(role: Arc<Role>) -> Self {
        let tree = Tree::new(&role.rules);
        Self { role, tree }
    }
}

/// A list of compiled roles, shared by everybody who has just these.
#[derive(Debug)]
pub struct Grant {
    pub(super) roles: Box<[Arc<CompiledRole>]>,
    quotas: Quotas,
    depth: usize,
    uses: Uses,
    /// Whether any rule denies subscribing to anything.
    denies_subscribe: bool,
}

/// Which names the roles ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) user: bool,
    pub(super) client: bool,
    pub(super) zone: bool,
}

impl Grant {
    pub(super) fn new(roles: impl IntoIterator<Item = Arc<CompiledRole>>) -> Self {
        let roles: Box<[_]> = roles.into_iter().collect();
        let quotas = roles.iter().fold(Quotas::default(), |sum, compiled| {
            sum.join(compiled.role.quotas)
        });
        let depth = roles.iter().map(|compiled| compiled.tree.depth()).max();
        let uses = |name| roles.iter().any(|compiled| compiled.tree.uses(name));
        let uses = Uses {
            user: uses(Placeholder::User),
            client: uses(Placeholder::Client),
            zone: uses(Placeholder::Zone),
        };
        let mut said = roles.iter().map(|compiled| compiled.tree.says());
        let denies_subscribe = said.any(|powers| powers.has(Powers::DENY_SUBSCRIBE));
        Self {
            roles,
            quotas,
            depth: depth.unwrap_or(0),
            uses,
            denies_subscribe,
        }
    }

    /// What the roles bound, each by the most generous one.
    #[must_use]
    pub const fn quotas(&self) -> Quotas {
        self.quotas
    }

    /// The role that bounds the connections of a user: of several the most generous one.
    #[must_use]
    pub fn bounds_connections(&self) -> Option<&Arc<Role>> {
        self.sets(|quotas| quotas.connections.map(u64::from))
            .map(|(role, _)| role)
    }

    /// The role that sets a quota, and how high: of several the most generous one.
    #[must_use]
    pub fn sets(&self, quota: impl Fn(&Quotas) -> Option<u64>) -> Option<(&Arc<Role>, u64)> {
        let most = quota(&self.quotas)?;
        let mut roles = self.roles.iter().map(|compiled| &compiled.role);
        let role = roles.find(|role| quota(&role.quotas) == Some(most))?;
        Some((role, most))
    }

    /// Whether the rules name everything as allowed, and deny nothing: what the role `admin` has
    /// from the start.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        let rules = || self.roles.iter().flat_map(|compiled| &compiled.role.rules);
        let allows = |pattern: &str, power: Powers| {
            rules().any(|rule| *rule.pattern == *pattern && Powers::of(rule).has(power))
        };
        let all = |pattern| {
            allows(pattern, Powers::ALLOW_PUBLISH) && allows(pattern, Powers::ALLOW_SUBSCRIBE)
        };
        let denies = rules().any(|rule| rule.effect == Effect::Deny);
        all(EVERY_TOPIC) && all(EVERY_DOLLAR) && !denies
    }

    /// Whether any rule allows to publish messages: topics below `$control/` only name rights.
    #[must_use]
    pub fn allows_publish(&self) -> bool {
        let mut rules = self.roles.iter().flat_map(|compiled| &compiled.role.rules);
        rules.any(|rule| {
            let is_verb = rule.pattern.starts_with("$control/");
            Powers::of(rule).has(Powers::ALLOW_PUBLISH) && !is_verb
        })
    }

    /// How many rules its roles have.
    fn rules(&self) -> usize {
        let roles = self.roles.iter();
        roles.map(|compiled| compiled.role.rules.len()).sum()
    }

    pub(super) const fn uses(&self) -> Uses {
        self.uses
    }

    /// Whether it makes a difference who has it.
    #[must_use]
    pub const fn is_personal(&self) -> bool {
        self.uses.user || self.uses.client || self.uses.zone
    }

    /// Whether it is the same list of the same roles.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let mut roles = self.roles.iter().zip(&other.roles);
        self.roles.len() == other.roles.len() && roles.all(|(a, b)| a.role == b.role)
    }

    fn ask(&self, filter: &str, relation: Relation, who: &Who, wanted: Powers) -> Powers {
        let mut found = Powers::NONE;
        for compiled in &self.roles {
            let wanted = wanted.without(found);
            found |= compiled.tree.ask(filter, relation, who, wanted);
        }
        found
    }

    /// Whether a topic may be published to.
    pub(super) fn may_publish(&self, topic: &str, who: &Who) -> bool {
        self.ask(topic, Relation::Covers, who, Powers::PUBLISH) == Powers::ALLOW_PUBLISH
    }

    /// Whether a topic's messages may be received.
    pub(super) fn may_receive(&self, topic: &str, who: &Who) -> bool {
        self.ask(topic, Relation::Covers, who, Powers::SUBSCRIBE) == Powers::ALLOW_SUBSCRIBE
    }

    /// How much of what a filter matches may be received.
    pub(super) fn may_subscribe(&self, filter: &str, who: &Who) -> Access {
        let cover = self.ask(filter, Relation::Covers, who, Powers::SUBSCRIBE);
        if cover == Powers::ALLOW_SUBSCRIBE && !self.denies_subscribe {
            return Access::All;
        }
        let over = self.ask(filter, Relation::Overlaps, who, Powers::SUBSCRIBE);
        if !over.has(Powers::ALLOW_SUBSCRIBE) {
            return Access::Nothing;
        }
        if cover.has(Powers::DENY_SUBSCRIBE) {
            return Access::Nothing;
        }
        if cover.has(Powers::ALLOW_SUBSCRIBE) && !over.has(Powers::DENY_SUBSCRIBE) {
            return Access::All;
        }
        self.weigh(filter, who)
    }

    /// [`Grant::may_subscribe`] where one look at the trees does not decide. O(rules), and it
    /// allocates: for filters that lie across the edge of what is allowed.
    fn weigh(&self, filter: &str, who: &Who) -> Access {
        if !self.overlaps(filter, who, Powers::DENY_SUBSCRIBE) {
            return if self.covers(filter, who, Powers::ALLOW_SUBSCRIBE) {
                Access::All
            } else if self.overlaps(filter, who, Powers::ALLOW_SUBSCRIBE) {
                Access::Part
            } else {
                Access::Nothing
            };
        }
        // Something is left if anything that is allowed is not denied in full.
        let left = |common: String| !self.covers(&common, who, Powers::DENY_SUBSCRIBE);
        let allowed = &mut self.common(filter, who, Powers::ALLOW_SUBSCRIBE);
        if allowed.any(left) {
            Access::Part
        } else {
            Access::Nothing
        }
    }

    /// What a filter has in common with each rule that says this.
    fn common<'g>(
        &'g self,
        filter: &'g str,
        who: &'g Who,
        power: Powers,
    ) -> impl Iterator<Item = String> + 'g {
        let rules = self.roles.iter().flat_map(|compiled| &compiled.role.rules);
        rules
            .filter(move |rule| Powers::of(rule).has(power))
            .filter_map(move |rule| intersect(filter, &expand(rule, who)?))
    }

    fn overlaps(&self, filter: &str, who: &Who, power: Powers) -> bool {
        self.common(filter, who, power).next().is_some()
    }

    /// Whether the rules that say this cover a filter together.
    fn covers(&self, filter: &str, who: &Who, power: Powers) -> bool {
        let one_covers = |filter: &str| self.ask(filter, Relation::Covers, who, power).is_some();
        one_covers(filter) || is_covered(filter, self.depth, one_covers)
    }
}

/// The rights of one login: the shared roles, with the names that their placeholders stand for.
#[derive(Debug)]
pub struct Holder {
    grant: Arc<Grant>,
    who: Who,
}

impl Holder {
    /// Somebody with these roles.
    #[must_use]
    pub const fn new(grant: Arc<Grant>, who: Who) -> Self {
        Self { grant, who }
    }

    /// The roles.
    #[must_use]
    pub const fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    /// The names.
    #[must_use]
    pub const fn who(&self) -> &Who {
        &self.who
    }
}

impl Rights for Holder {
    fn may_publish(&self, topic: &str) -> bool {
        self.grant.may_publish(topic, &self.who)
    }

    fn may_subscribe(&self, filter: &str) -> Access {
        self.grant.may_subscribe(filter, &self.who)
    }

    fn may_receive(&self, topic: &str) -> bool {
        self.grant.may_receive(topic, &self.who)
    }

    fn rules(&self) -> usize {
        self.grant.rules()
    }

    fn roles(&self) -> Vec<&str> {
        let roles = self.grant.roles.iter();
        roles.map(|compiled| &*compiled.role.name).collect()
    }
}
