//! Who is at the other end of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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
}
