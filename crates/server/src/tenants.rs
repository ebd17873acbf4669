//! Tenants: the limits count the sessions of one [`Tenant`] together.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use stentor_hub::{Identity, Tenant, TenantKind, Tenants as Both};
use stentor_topic::Zone;

use crate::peer::{Network, Peer};

/// What makes clients one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    User(Zone, Arc<str>),
    Address(Network),
    Zone(Zone),
}

impl Key {
    /// A client that has proved a name counts as that user, any other one by its address.
    fn of(identity: &Identity, peer: Peer) -> (Self, TenantKind) {
        match (&identity.user, peer) {
            (Some(user), _) if identity.guest.is_none() => {
                let key = Self::User(identity.zone, Arc::clone(user));
                (key, TenantKind::User)
            }
            (_, peer) => (Self::Address(peer.origin()), TenantKind::Address),
        }
    }
}

/// All tenants that have sessions. Asked once per connection whose session outlives it.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    registry: Mutex<Registry>,
    /// Makes numbers of owners.
    numbers: RandomState,
}

#[derive(Debug, Default)]
struct Registry {
    known: HashMap<Key, Weak<Tenant>>,
    made: u64,
    /// With this many the registry is swept: those without sessions go.
    sweep_at: usize,
}

impl Registry {
    fn get(&mut self, key: Key, kind: TenantKind) -> Arc<Tenant> {
        const SWEEP_MIN: usize = 1_024;
        if let Some(tenant) = self.known.get(&key).and_then(Weak::upgrade) {
            return tenant;
        }
        if self.known.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.known.retain(|_, tenant| tenant.strong_count() > 0);
            self.sweep_at = 2 * self.known.len();
        }
        self.made += 1;
        let tenant = Arc::new(match &key {
            Key::Address(network) => Tenant::of_address(self.made, network.mark()),
            Key::User(..) | Key::Zone(_) => Tenant::new(self.made, kind),
        });
        self.known.insert(key, Arc::downgrade(&tenant));
        tenant
    }
}

impl Tenants {
    /// The tenants that the sessions of a client count for.
    pub(crate) fn of(&self, identity: &Identity, peer: Peer) -> Both {
        let (key, kind) = Key::of(identity, peer);
        self.get(identity, key, kind)
    }

    /// The same of a session that was written down: a client with a name counts by that, and of
    /// others the record says where they came from. `None` if it does not.
    pub(crate) fn returning(&self, identity: &Identity, mark: Option<NonZeroU64>) -> Option<Both> {
        let named = identity.user.as_ref().filter(|_| identity.guest.is_none());
        let (key, kind) = match named {
            Some(user) => (Key::User(identity.zone, Arc::clone(user)), TenantKind::User),
            None => (Key::Address(Network::of_mark(mark?)), TenantKind::Address),
        };
        Some(self.get(identity, key, kind))
    }

    fn get(&self, identity: &Identity, key: Key, kind: TenantKind) -> Both {
        let owner = self.number(&key);
        // A map is whole after any panic.
        let registry = self.registry.lock();
        let mut registry = registry.unwrap_or_else(PoisonError::into_inner);
        Both {
            owner,
            own: registry.get(key, kind),
            zone: registry.get(Key::Zone(identity.zone), TenantKind::Zone),
        }
    }

    /// What [`Both::owner`] is of a client.
    pub(crate) fn owner(&self, identity: &Identity, peer: Peer) -> u32 {
        self.number(&Key::of(identity, peer).0)
    }

    fn number(&self, key: &Key) -> u32 {
        // A session keeps three bytes of it. 0 stands for nobody.
        (self.numbers.hash_one(key) as u32 >> 8).max(1)
    }
}

#[cfg(test)]
mod tests {
    use stentor_auth::rights::Unrestricted;
    use stentor_hub::GuestMark;
    use stentor_session::Tick;

    use super::*;

    fn somebody(user: Option<&str>, guest: Option<GuestMark>) -> Identity {
        Identity {
            user: user.map(Into::into),
            zone: Zone::DEFAULT,
            rights: Arc::new(Unrestricted::default()),
            expires_at: Tick::NEVER,
            guest,
        }
    }

    fn from(address: &str) -> Peer {
        Peer::from(std::net::SocketAddr::new(address.parse().unwrap(), 1))
    }

    #[test]
    fn users_are_counted_by_name_and_others_by_network() {
        let tenants = Tenants::default();
        let of = |identity: &Identity, address| tenants.of(identity, from(address)).own;
        let same = |a: &Arc<Tenant>, b: &Arc<Tenant>| Arc::ptr_eq(a, b);
        let (ann, bob) = (somebody(Some("ann"), None), somebody(Some("bob"), None));
        let first = of(&ann, "192.0.2.1");
        assert!(same(&first, &of(&ann, "192.0.2.2")) && !same(&first, &of(&bob, "192.0.2.1")));
        let nobody = somebody(None, None);
        let guest = somebody(Some("guest/1"), Some(GuestMark(1)));
        let host = of(&nobody, "2001:db8::1");
        assert!(same(&host, &of(&nobody, "2001:db8::2:3")), "one /64");
        assert!(
            same(&host, &of(&guest, "2001:db8::9")),
            "a name that proves nothing"
        );
        assert!(!same(&host, &of(&nobody, "2001:db8:0:1::1")));
        assert!(!same(&of(&nobody, "192.0.2.1"), &of(&nobody, "192.0.2.2")));
    }

    #[test]
    fn sessions_of_earlier_starts_count_for_those_who_come_back() {
        let (ann, nobody) = (somebody(Some("ann"), None), somebody(None, None));
        let peer = from("2001:db8::1");
        let mark = Some(peer.origin().mark());
        for (identity, mark) in [(&ann, None), (&nobody, mark)] {
            let tenants = Tenants::default();
            let before = tenants.returning(identity, mark).unwrap();
            let now = tenants.of(identity, from("2001:db8::2"));
            assert!(Arc::ptr_eq(&before.own, &now.own) && before.owner == now.owner);
        }
        assert!(Tenants::default().returning(&nobody, None).is_none());
    }

    #[test]
    fn those_without_sessions_are_forgotten() {
        let tenants = Tenants::default();
        let kept = tenants.of(&somebody(Some("kept"), None), from("192.0.2.1"));
        for number in 0..10_000 {
            let name = format!("user{number}");
            drop(tenants.of(&somebody(Some(&name), None), from("192.0.2.1")));
        }
        let known = tenants.registry.lock().unwrap().known.len();
        assert!(known <= 2_048, "{known}");
        let again = tenants.of(&somebody(Some("kept"), None), from("192.0.2.1"));
        assert!(Arc::ptr_eq(&kept.own, &again.own));
    }
}
