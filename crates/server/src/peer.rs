//! The other end of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU64;

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
}

/// See [`Peer::network`]. It is no longer than a pointer, since every connection may hold one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Network(NonZeroU64);

impl Network {
    /// Stands before an IPv4 address: no client has an IPv6 address of ffff::/16, a multicast one.
    const V4: u64 = 0xFFFF_FFFF << 32;
    /// The /64 of `::1`, whose first half is 0; the one that this is the first half of is reserved.
    const LOOPBACK: NonZeroU64 = NonZeroU64::MIN;
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
}
