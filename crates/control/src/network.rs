//! Networks by address and length.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The addresses that begin with the same bits: `192.0.2.7`, `192.0.2.0/24`, `2001:db8:1:2::/64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network {
    /// The bits behind the length are 0.
    address: IpAddr,
    len: u8,
}

/// Why a text names no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkError {
    /// It is not an address.
    Address,
    /// The number behind the stroke is not a length.
    Length,
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => {
                "it is not an address, such as 192.0.2.7, 192.0.2.0/24 or 2001:db8:1:2::/64"
            }
            Self::Length => "the number behind / has to be 0 to 32, or 0 to 128 for IPv6",
        })
    }
}

const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address without the bits behind the length.
fn masked(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

impl Network {
    /// The network of this length that an address is in. A length above that of the address counts
    /// as that one. An IPv4 address that is written as an IPv6 one counts as IPv4.
    #[must_use]
    pub fn of(address: IpAddr, len: u8) -> Self {
        let address = address.to_canonical();
        let len = len.min(bits(address));
        Self {
            address: masked(address, len),
            len,
        }
    }

    /// Its first address.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many bits all of its addresses have in common.
    #[must_use]
    pub const fn prefix(self) -> u8 {
        self.len
    }

    /// Whether it has this address.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        bits(address) == bits(self.address) && masked(address, self.len) == self.address
    }

    /// Whether the two have addresses in common.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    /// A single IPv6 address means its /64, since everybody who has one address of it has all.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Address)?;
        let own = address.to_canonical();
        let len = match (len, own) {
            (None, IpAddr::V4(_)) => 32,
            (None, IpAddr::V6(own)) if own.is_loopback() => 128,
            (None, IpAddr::V6(_)) => 64,
            (Some(len), _) => len.parse().map_err(|_| NetworkError::Length)?,
        };
        if len > bits(own) {
            return Err(NetworkError::Length);
        }
        Ok(Self::of(own, len))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == bits(self.address) {
            return self.address.fmt(f);
        }
        write!(f, "{}/{}", self.address, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_shown() {
        for (text, shown) in [
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
            ("2001:db8::1/128", "2001:db8::1"),
            ("::1", "::1"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
        }
        for (text, error) in [
            ("pump", NetworkError::Address),
            ("", NetworkError::Address),
            ("192.0.2.7/33", NetworkError::Length),
            ("192.0.2.7/x", NetworkError::Length),
            ("::/129", NetworkError::Length),
        ] {
            assert_eq!(text.parse::<Network>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let has = |network: &str, address: &str| {
            let network: Network = network.parse().unwrap();
            network.contains(address.parse().unwrap())
        };
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("10.0.0.0/8", "::ffff:10.0.0.1") && !has("0.0.0.0/0", "::1"));
        assert!(has("2001:db8::1", "2001:db8::ffff") && !has("2001:db8::1", "2001:db8:0:1::1"));
        let meets = |a: &str, b: &str| {
            let (a, b): (Network, Network) = (a.parse().unwrap(), b.parse().unwrap());
            (a.meets(b), b.meets(a))
        };
        assert_eq!(meets("127.0.0.1", "127.0.0.0/8"), (true, true));
        assert_eq!(meets("10.0.0.0/8", "127.0.0.0/8"), (false, false));
    }
}
