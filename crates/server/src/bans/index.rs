//! Looking bans up: by hash, at each connection.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use stentor_control::Network;
use stentor_control::bans::Ban;
use stentor_session::Tick;
use stentor_topic::Zone;

/// A ban, and when it ends.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) ban: Ban,
    pub(super) until: Tick,
}

/// Somebody who connects or is connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Party<'a> {
    pub(crate) zone: Zone,
    pub(crate) client_id: &'a str,
    /// The name in the zone.
    pub(crate) user: Option<&'a str>,
}

/// What a ban is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// A client id, in one zone or in all.
    Client(String, Option<Zone>),
    User(String, Zone),
    Network(Network),
    Zone(Zone),
}

/// The bans of a name: each with its zone, or all zones.
type Named<Z> = Vec<(Z, Arc<Entry>)>;

/// All bans that hold, as they are looked up.
#[derive(Debug, Default)]
pub(super) struct Index {
    clients: HashMap<String, Named<Option<Zone>>>,
    users: HashMap<String, Named<Zone>>,
    zones: HashMap<Zone, Arc<Entry>>,
    networks: HashMap<Network, Arc<Entry>>,
    /// The lengths that there are: IPv4, and IPv6.
    lengths: [BTreeSet<u8>; 2],
}

impl Index {
    pub(super) fn of(entries: impl IntoIterator<Item = (Key, Arc<Entry>)>) -> Self {
        let mut index = Self::default();
        for (key, entry) in entries {
            match key {
                Key::Client(client_id, zone) => {
                    let all = index.clients.entry(client_id).or_default();
                    all.push((zone, entry));
                }
                Key::User(user, zone) => {
                    index.users.entry(user).or_default().push((zone, entry));
                }
                Key::Zone(zone) => drop(index.zones.insert(zone, entry)),
                Key::Network(network) => {
                    index.lengths[kind(network.address())].insert(network.prefix());
                    index.networks.insert(network, entry);
                }
            }
        }
        index
    }

    pub(super) fn by_address(&self, now: Tick, address: IpAddr) -> Option<&Arc<Entry>> {
        let address = address.to_canonical();
        let lengths = self.lengths[kind(address)].iter();
        let found = lengths.filter_map(|len| self.networks.get(&Network::of(address, *len)));
        in_force(found, now)
    }

    pub(super) fn by_party(&self, now: Tick, party: Party<'_>) -> Option<&Arc<Entry>> {
        let Party {
            zone,
            client_id,
            user,
        } = party;
        let clients = self.clients.get(client_id).into_iter().flatten();
        let clients = clients.filter(|(of, _)| of.is_none_or(|of| of == zone));
        let users = user.and_then(|user| self.users.get(user));
        let users = users.into_iter().flatten().filter(|(of, _)| *of == zone);
        let found = clients.map(|(_, entry)| entry);
        let found = found.chain(users.map(|(_, entry)| entry));
        in_force(found.chain(self.zones.get(&zone)), now)
    }
}

/// One that has not ended.
fn in_force<'a>(
    mut found: impl Iterator<Item = &'a Arc<Entry>>,
    now: Tick,
) -> Option<&'a Arc<Entry>> {
    found.find(|entry| now < entry.until)
}

const fn kind(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAME: Zone = Zone(7);

    fn index(keys: Vec<(Key, u64)>) -> Index {
        let entry = |(key, until)| {
            let until = Tick::from_secs(until);
            let ban = Ban::default();
            (key, Arc::new(Entry { ban, until }))
        };
        Index::of(keys.into_iter().map(entry))
    }

    #[test]
    fn a_party_is_found_by_client_id_user_and_zone_until_the_ban_ends() {
        let index = index(vec![
            (Key::Client("pump".into(), None), 10),
            (Key::Client("lamp".into(), Some(GAME)), 10),
            (Key::User("ann".into(), Zone::DEFAULT), 10),
            (Key::Zone(Zone(9)), 10),
        ]);
        let is = |secs, zone, client_id, user| {
            let party = Party {
                zone,
                client_id,
                user,
            };
            index.by_party(Tick::from_secs(secs), party).is_some()
        };
        assert!(is(9, GAME, "pump", None) && is(9, Zone::DEFAULT, "pump", None));
        assert!(!is(10, GAME, "pump", None), "it has ended");
        assert!(is(9, GAME, "lamp", None) && !is(9, Zone::DEFAULT, "lamp", None));
        assert!(is(9, Zone::DEFAULT, "x", Some("ann")) && !is(9, GAME, "x", Some("ann")));
        assert!(is(9, Zone(9), "x", None) && !is(9, GAME, "x", None));
    }

    #[test]
    fn an_address_is_found_by_its_networks() {
        let networks = ["192.0.2.7", "10.0.0.0/8", "2001:db8::1"];
        let key = |text: &&str| (Key::Network(text.parse().unwrap()), 10);
        let index = index(networks.iter().map(key).collect());
        let is = |text: &str| {
            let address = text.parse().unwrap();
            index.by_address(Tick::ZERO, address).is_some()
        };
        for text in ["192.0.2.7", "10.1.2.3", "::ffff:10.1.2.3", "2001:db8::9"] {
            assert!(is(text), "{text}");
        }
        for text in ["192.0.2.8", "11.0.0.1", "2001:db8:0:1::1", "::1"] {
            assert!(!is(text), "{text}");
        }
    }
}
