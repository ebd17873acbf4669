//! All roles at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{Role, User};

/// All roles at one moment.
#[derive(Debug, Default)]
pub struct Roles {
    all: Vec<Arc<Role>>,
    by_name: HashMap<(Option<Arc<str>>, Arc<str>), usize>,
}

impl Roles {
    /// These roles.
    #[must_use]
    pub fn new(roles: Vec<Role>) -> Self {
        let all: Vec<Arc<Role>> = roles.into_iter().map(Arc::new).collect();
        let key = |(at, role): (usize, &Arc<Role>)| ((role.zone.clone(), role.name.clone()), at);
        let by_name = all.iter().enumerate().map(key).collect();
        Self { all, by_name }
    }

    /// The role of that name for the users of a zone: the zone's own, else the one for all zones.
    #[must_use]
    pub fn find(&self, zone: &Arc<str>, name: &Arc<str>) -> Option<&Arc<Role>> {
        let of_zone = self.by_name.get(&(Some(zone.clone()), name.clone()));
        let at = of_zone.or_else(|| self.by_name.get(&(None, name.clone())))?;
        self.all.get(*at)
    }

    /// The roles of a user. Names of roles that do not exist give nothing.
    #[must_use]
    pub fn of(&self, user: &User) -> Vec<Arc<Role>> {
        let roles = user.roles.iter();
        roles
            .filter_map(|name| self.find(&user.zone, name))
            .cloned()
            .collect()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.all.iter()
    }

    /// Whether these are the same roles.
    pub(super) fn are(&self, roles: &[Role]) -> bool {
        self.all.len() == roles.len() && self.all.iter().zip(roles).all(|(a, b)| **a == *b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DEFAULT_ZONE, initial_roles};

    #[test]
    fn a_zones_own_role_hides_the_one_for_all() {
        let mut roles = initial_roles();
        let mut own = roles[0].clone();
        own.zone = Some("game".into());
        own.rules.clear();
        roles.push(own);
        let roles = Roles::new(roles);
        let user = |zone: &str, names: &[&str]| User {
            zone: zone.into(),
            name: "ann".into(),
            credentials: Vec::new(),
            roles: names.iter().map(|name| Arc::from(*name)).collect(),
            disabled: false,
            foreign: false,
        };
        assert!(roles.of(&user("game", &["member"]))[0].rules.is_empty());
        assert!(
            !roles.of(&user(DEFAULT_ZONE, &["member"]))[0]
                .rules
                .is_empty()
        );
        assert_eq!(roles.of(&user("game", &["admin", "nobody"])).len(), 1);
    }
}
