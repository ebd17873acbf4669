//! The other end of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU64;
use std::str::FromStr;

/// The other end of a connection, in few bytes: every connection holds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An IPv4 address and port.
    V4([u8; 4], u16),
    /// An IPv6 address and port.
    V6([u8; 16], u16),
    /// A process on this machine: its user, and its id (0 if unknown).
    Unix { uid: u32, pid: u32 },
}

impl Peer {
    /// The network address; `None` for a Unix socket.
    pub(crate) const fn address(self) -> Option<IpAddr> {
        match self {
            Self::V4(octets, _) => {
                let [a, b, c, d] = octets;
                Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
            }
            Self::V6(octets, _) => Some(IpAddr::V6(Ipv6Addr::from_octets(octets))),
            Self::Unix { .. } => None,
        }
    }

    /// What is limited as one address: an IPv4 address, or an IPv6 /64, since everybody who has one
    /// address of it has all. `None` for a Unix socket.
    pub(crate) fn network(self) -> Option<Network> {
        let bits = match self {
            Self::V4(octets, _) => Network::V4 | u64::from(u32::from_be_bytes(octets)),
            Self::V6([a, b, c, d, e, f, g, h, ..], _) => {
                u64::from_be_bytes([a, b, c, d, e, f, g, h])
            }
            Self::Unix { .. } => return None,
        };
        Some(Network(NonZeroU64::new(bits).unwrap_or(Network::LOOPBACK)))
    }

    /// What counts as one address where a client has no name: its network, or the user of this
    /// machine whose process it is.
    pub(crate) fn origin(self) -> Network {
        match (self, self.network()) {
            (Self::Unix { uid, .. }, _) => Network::local(uid),
            (_, network) => network.unwrap_or(Network(Network::LOOPBACK)),
        }
    }
}

/// See [`Peer::network`] and [`Peer::origin`]. It is no longer than a pointer, since every
/// connection may hold one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Network(NonZeroU64);

impl Network {
    /// Stands before an IPv4 address: no client has an IPv6 address of ffff::/16, a multicast one.
    const V4: u64 = 0xFFFF_FFFF << 32;
    /// The /64 of `::1`, whose first half is 0; the one that this is the first half of is reserved.
    const LOOPBACK: NonZeroU64 = NonZeroU64::MIN;
    /// Stands before the number of a user of this machine, as [`Network::V4`] before an address.
    const LOCAL: u64 = 0xFFFF_FFFE << 32;

    fn local(uid: u32) -> Self {
        let bits = Self::LOCAL | u64::from(uid);
        Self(NonZeroU64::new(bits).unwrap_or(Self::LOOPBACK))
    }

    /// It as a number that stays the same for ever, as journals of sessions have it.
    pub(crate) const fn mark(self) -> NonZeroU64 {
        self.0
    }

    /// What [`Network::mark`] was made of.
    pub(crate) const fn of_mark(mark: NonZeroU64) -> Self {
        Self(mark)
    }
}

/// As people write it: an IPv4 address, an IPv6 /64, or `uid N`.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.get();
        match bits & (u64::MAX << 32) {
            Self::V4 => fmt::Display::fmt(&Ipv4Addr::from_bits(bits as u32), f),
            Self::LOCAL => write!(f, "uid {}", bits as u32),
            _ => {
                let bits = if self.0 == Self::LOOPBACK { 0 } else { bits };
                let first = Ipv6Addr::from_bits(u128::from(bits) << 64);
                write!(f, "{first}/64")
            }
        }
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some(uid) = text.strip_prefix("uid ") {
            return uid.parse().map(Self::local).map_err(|_| ());
        }
        let address: IpAddr = match text.strip_suffix("/64") {
            Some(first) => first.parse::<Ipv6Addr>().map_err(|_| ())?.into(),
            None => text.parse::<Ipv4Addr>().map_err(|_| ())?.into(),
        };
        Ok(Peer::from(SocketAddr::new(address, 0)).origin())
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.octets(), address.port()),
            IpAddr::V6(ip) => Self::V6(ip.octets(), address.port()),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.address()) {
            (Self::V4(_, port) | Self::V6(_, port), Some(ip)) => {
                fmt::Display::fmt(&SocketAddr::new(ip, *port), f)
            }
            (Self::Unix { uid, pid: 0 }, _) => write!(f, "unix uid {uid}"),
            (Self::Unix { uid, pid }, _) => write!(f, "unix uid {uid} pid {pid}"),
            // An address of an address family has one.
            (Self::V4(..) | Self::V6(..), None) => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shown_as_people_write_it() {
        for text in ["192.0.2.1:1883", "[2001:db8::1]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Peer::from(address).to_string(), text);
            assert_eq!(Peer::from(address).address(), Some(address.ip()));
        }
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:5".parse().unwrap();
        assert_eq!(Peer::from(mapped).to_string(), "192.0.2.1:5");
        assert_eq!(
            Peer::Unix { uid: 7, pid: 9 }.to_string(),
            "unix uid 7 pid 9"
        );
        assert!(size_of::<Peer>() <= 20);
    }

    #[test]
    fn addresses_of_one_64_are_one_network() {
        let network = |text: &str| Peer::from(text.parse::<SocketAddr>().unwrap()).network();
        assert_eq!(
            network("[2001:db8:1:2::1]:1"),
            network("[2001:db8:1:2:f::2]:3")
        );
        assert_ne!(
            network("[2001:db8:1:2::1]:1"),
            network("[2001:db8:1:3::1]:1")
        );
        assert_eq!(network("192.0.2.1:1"), network("[::ffff:192.0.2.1]:2"));
        assert_ne!(network("192.0.2.1:1"), network("192.0.2.2:1"));
        assert_ne!(network("[::1]:1"), network("127.0.0.1:1"));
        assert_eq!(Peer::Unix { uid: 0, pid: 0 }.network(), None);
        assert_eq!(size_of::<Option<Network>>(), 8);
    }

    #[test]
    fn an_origin_is_written_and_read() {
        let of = |text: &str| Peer::from(text.parse::<SocketAddr>().unwrap()).origin();
        let local = Peer::Unix { uid: 0, pid: 1 }.origin();
        for (origin, text) in [
            (of("192.0.2.1:1"), "192.0.2.1"),
            (of("[2001:db8:1:2:f::2]:3"), "2001:db8:1:2::/64"),
            (of("[::1]:3"), "::/64"),
            (local, "uid 0"),
        ] {
            assert_eq!(origin.to_string(), text);
            assert_eq!(text.parse(), Ok(origin));
            assert_eq!(Network::of_mark(origin.mark()), origin);
        }
        for wrong in ["", "uid ", "uid -1", "::1", "192.0.2.1/64", "host"] {
            assert_eq!(wrong.parse::<Network>(), Err(()), "{wrong}");
        }
    }
}
