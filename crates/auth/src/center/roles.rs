//! From a user who has proved itself to an identity with rights.

use std::fmt;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use stentor_hub::{Identity, Rights};
use stentor_session::Tick;
use stentor_topic::Zone;

use super::{Grants, Proof, Visitor};
use crate::model::{ANONYMOUS, DEFAULT_ZONE, Quotas, Role, Rule, User};
use crate::rights::{Book, Login, compile};
use crate::store::ZoneNumbers;

/// Gives identities the rights of their roles, and their zones numbers.
pub struct RoleGrants {
    book: ArcSwap<Book>,
    zones: ZoneNumbers,
}

impl fmt::Debug for RoleGrants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleGrants").finish_non_exhaustive()
    }
}

impl RoleGrants {
    /// With these roles and zone numbers.
    #[must_use]
    pub fn new(book: Book, zones: ZoneNumbers) -> Self {
        Self {
            book: ArcSwap::from_pointee(book),
            zones,
        }
    }

    /// Takes other roles from now on; who is connected keeps what it has until it is given others.
    pub fn set_roles(&self, roles: impl IntoIterator<Item = Arc<Role>>) {
        let previous = self.book.load();
        let book = Book::new(roles, Some(&previous));
        self.book.store(Arc::new(book));
    }

    /// All roles, compiled.
    #[must_use]
    pub fn book(&self) -> Arc<Book> {
        self.book.load_full()
    }

    /// The numbers of zones.
    #[must_use]
    pub const fn zones(&self) -> &ZoneNumbers {
        &self.zones
    }

    fn rights(&self, names: &[Arc<str>], rules: Vec<Rule>, login: Login) -> Arc<dyn Rights> {
        let book = self.book.load();
        if rules.is_empty() {
            return book.holder(names, login);
        }
        let own = Arc::new(Role {
            zone: None,
            name: "token".into(),
            rules,
            quotas: Quotas::default(),
        });
        let named = names.iter().filter_map(|name| book.role(&login.zone, name));
        let roles: Vec<Arc<Role>> = named.cloned().chain([own]).collect();
        compile(&roles, login)
    }
}

impl Grants for RoleGrants {
    fn anonymous(&self, client_id: Option<Arc<str>>) -> Arc<Identity> {
        let login = Login {
            user: None,
            client_id,
            zone: DEFAULT_ZONE.into(),
        };
        let rights = self.book.load().holder(&[ANONYMOUS.into()], login);
        Arc::new(Identity {
            user: None,
            zone: Zone::DEFAULT,
            rights,
            expires_at: Tick::NEVER,
        })
    }

    fn identity(
        &self,
        visitor: &Visitor,
        user: Option<&User>,
        proof: Proof,
        expires_at: Tick,
    ) -> io::Result<Arc<Identity>> {
        let (zone, name) = (&visitor.key.zone, &visitor.key.name);
        let login = Login {
            user: Some(Arc::clone(name)),
            client_id: visitor.client_id.clone(),
            zone: Arc::clone(zone),
        };
        let own = || user.map(|user| user.roles.clone()).unwrap_or_default();
        let roles = proof.roles.unwrap_or_else(own);
        Ok(Arc::new(Identity {
            user: Some(Arc::clone(name)),
            zone: self.zones.number(zone)?,
            rights: self.rights(&roles, proof.rules, login),
            expires_at,
        }))
    }
}
