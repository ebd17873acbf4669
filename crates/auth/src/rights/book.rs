//! All roles, compiled: where a login gets its rights from.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::grant::{CompiledRole, Grant, Holder};
use super::who::Who;
use crate::model::Role;

/// Every role of a server, compiled. It is made again when a role changes; what has not changed is
/// taken over.
///
/// Users with the same list of roles share one [`Grant`], and where the roles have no placeholders
/// one [`Holder`] too: then a login costs no memory for its rights.
#[derive(Default)]
pub struct Book {
    /// By zone and name; roles for all zones stand under `None`.
    roles: HashMap<RoleKey, Arc<CompiledRole>>,
    shared: Mutex<HashMap<RoleList, Arc<Holder>>>,
}

/// The zone of a role, if it has one, and its name.
type RoleKey = (Option<Arc<str>>, Arc<str>);

/// The zone and the names of somebody's roles.
type RoleList = (Arc<str>, Box<[Arc<str>]>);

/// How many different lists of roles are remembered. More than these are compiled per login.
const LISTS_MAX: usize = 10_000;

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book")
            .field("roles", &self.roles.len())
            .finish_non_exhaustive()
    }
}

/// The client whose rights are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user name; `None` for anonymous.
    pub user: Option<Arc<str>>,
    /// The client id; `None` if the server is to choose it.
    pub client_id: Option<Arc<str>>,
    /// The zone.
    pub zone: Arc<str>,
}

impl Book {
    /// The book of these roles. Roles of `previous` that are still the same are not compiled
    /// again. Of two roles with one zone and name, the later counts.
    #[must_use]
    pub fn new(roles: impl IntoIterator<Item = Arc<Role>>, previous: Option<&Self>) -> Self {
        let compile = |role: Arc<Role>| {
            let key = (role.zone.clone(), Arc::clone(&role.name));
            let known = previous.and_then(|previous| previous.roles.get(&key));
            let compiled = match known {
                Some(known) if *known.role == *role => Arc::clone(known),
                _ => Arc::new(CompiledRole::new(role)),
            };
            (key, compiled)
        };
        Self {
            roles: roles.into_iter().map(compile).collect(),
            shared: Mutex::default(),
        }
    }

    /// A role as a user of a zone has it: the zone's own, or the one for all zones.
    #[must_use]
    pub fn role(&self, zone: &str, name: &str) -> Option<&Arc<Role>> {
        self.find(zone, name).map(|compiled| &compiled.role)
    }

    fn find(&self, zone: &str, name: &str) -> Option<&Arc<CompiledRole>> {
        let of = |zone: Option<&str>| self.roles.get(&(zone.map(Into::into), name.into()));
        of(Some(zone)).or_else(|| of(None))
    }

    /// The rights of a login with these roles. Roles that do not exist give nothing.
    #[must_use]
    pub fn holder(&self, roles: &[Arc<str>], login: Login) -> Arc<Holder> {
        let key: RoleList = (Arc::clone(&login.zone), roles.into());
        let known = self.lock().get(&key).cloned();
        let shared = known.unwrap_or_else(|| {
            let compiled = roles.iter().filter_map(|name| self.find(&login.zone, name));
            let grant = Arc::new(Grant::new(compiled.cloned()));
            let holder = Arc::new(Holder::new(grant, Who::default()));
            let mut shared = self.lock();
            if shared.len() < LISTS_MAX {
                shared.insert(key, Arc::clone(&holder));
            }
            holder
        });
        personal(shared, login)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RoleList, Arc<Holder>>> {
        // A map of what can be made again is whole after any panic.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rights of a login with roles that no book has: those of a token, for example.
#[must_use]
pub fn compile(roles: &[Arc<Role>], login: Login) -> Arc<Holder> {
    let compiled = roles.iter().cloned().map(CompiledRole::new).map(Arc::new);
    let holder = Holder::new(Arc::new(Grant::new(compiled)), Who::default());
    personal(Arc::new(holder), login)
}

/// The shared rights, with the names that their placeholders ask for.
fn personal(shared: Arc<Holder>, login: Login) -> Arc<Holder> {
    let uses = shared.grant().uses();
    if !shared.grant().is_personal() {
        return shared;
    }
    let user = login.user.filter(|_| uses.user);
    let client_id = login.client_id.filter(|_| uses.client);
    let who = Who::new(user, client_id, login.zone);
    Arc::new(Holder::new(Arc::clone(shared.grant()), who))
}
