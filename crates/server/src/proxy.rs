//! The PROXY protocol: what a load balancer says about the client whose bytes it passes on.
//!
//! Versions 1 (a line of text) and 2 (binary), as HAProxy describes them. The header is believed
//! only from addresses that the operator has listed: to everybody else it is the beginning of a
//! broken MQTT stream. No I/O: bytes in, a header out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The longest header of version 1, its line end included.
const TEXT_BYTES_MAX: usize = 107;

/// The first bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The length of version 2 before its addresses.
const FIXED_BYTES: usize = 16;

/// The longest version 2 header that is taken; what follows its addresses is passed over.
const BINARY_BYTES_MAX: usize = 4_096;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The client's own address.
    Client(SocketAddr),
    /// Nothing about a client: the proxy itself connects, or does not know.
    Itself,
}

/// The bytes are not a PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoProxyHeader;

impl fmt::Display for NoProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is not a PROXY protocol header")
    }
}

impl std::error::Error for NoProxyHeader {}

impl ProxyHeader {
    /// Reads a header at the front of `input`. `None`: more bytes are needed; else the header and
    /// how many bytes it took.
    ///
    /// # Errors
    /// When the bytes are not a header, or the header is too long.
    pub fn read(input: &[u8]) -> Result<Option<(Self, usize)>, NoProxyHeader> {
        let common = |prefix: &[u8]| {
            let len = prefix.len().min(input.len());
            input[..len] == prefix[..len]
        };
        if common(SIGNATURE) {
            read_binary(input)
        } else if common(b"PROXY ") {
            read_text(input)
        } else {
            Err(NoProxyHeader)
        }
    }
}

fn read_text(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, NoProxyHeader> {
    let seen = &input[..input.len().min(TEXT_BYTES_MAX)];
    let Some(newline) = seen.iter().position(|byte| *byte == b'\n') else {
        return if seen.len() < TEXT_BYTES_MAX {
            Ok(None)
        } else {
            Err(NoProxyHeader)
        };
    };
    // A line that ends by LF alone is none, and nothing that follows makes it one.
    let line = seen[..newline].strip_suffix(b"\r").ok_or(NoProxyHeader)?;
    let line = std::str::from_utf8(line).map_err(|_| NoProxyHeader)?;
    let words: Vec<&str> = line.split(' ').collect();
    let header = match words[..] {
        ["PROXY", "UNKNOWN", ..] => ProxyHeader::Itself,
        ["PROXY", "TCP4", source, destination, port, other_port] => {
            text_client::<Ipv4Addr>(source, destination, port, other_port)?
        }
        ["PROXY", "TCP6", source, destination, port, other_port] => {
            text_client::<Ipv6Addr>(source, destination, port, other_port)?
        }
        _ => return Err(NoProxyHeader),
    };
    Ok(Some((header, newline + 1)))
}

fn text_client<A: FromStr + Into<IpAddr>>(
    source: &str,
    destination: &str,
    port: &str,
    other_port: &str,
) -> Result<ProxyHeader, NoProxyHeader> {
    let address = |text: &str| text.parse::<A>().map_err(|_| NoProxyHeader);
    let number = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>()
            .ok()
            .filter(|_| is_plain)
            .ok_or(NoProxyHeader)
    };
    address(destination)?;
    number(other_port)?;
    Ok(ProxyHeader::Client(SocketAddr::new(
        address(source)?.into(),
        number(port)?,
    )))
}

fn read_binary(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, NoProxyHeader> {
    let Some(&[version_command, family, high, low]) = input.get(SIGNATURE.len()..FIXED_BYTES)
    else {
        return Ok(None);
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    let total = FIXED_BYTES + len;
    if version_command >> 4 != 2 || total > BINARY_BYTES_MAX {
        return Err(NoProxyHeader);
    }
    let Some(addresses) = input.get(FIXED_BYTES..total) else {
        return Ok(None);
    };
    let header = match (version_command & 0xF, family) {
        // LOCAL: a health check of the proxy itself.
        (0, _) => ProxyHeader::Itself,
        (1, 0x11) => {
            let parts: &[u8; 12] = addresses.first_chunk().ok_or(NoProxyHeader)?;
            let [a, b, c, d, _, _, _, _, high, low, ..] = *parts;
            let port = u16::from_be_bytes([high, low]);
            ProxyHeader::Client(SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), port))
        }
        (1, 0x21) => {
            let parts: &[u8; 36] = addresses.first_chunk().ok_or(NoProxyHeader)?;
            let mut octets = [0; 16];
            octets.copy_from_slice(&parts[..16]);
            let port = u16::from_be_bytes([parts[32], parts[33]]);
            ProxyHeader::Client(SocketAddr::new(Ipv6Addr::from(octets).into(), port))
        }
        // UNSPEC, or a protocol other than TCP: the addresses mean nothing here.
        (1, 0x00 | 0x12 | 0x22 | 0x31 | 0x32) => ProxyHeader::Itself,
        _ => return Err(NoProxyHeader),
    };
    Ok(Some((header, total)))
}

/// Some addresses: one, or all that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is one of these.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let common = |a: u128, b: u128, unused: u32| a.checked_shr(unused) == b.checked_shr(unused);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let (a, b) = (network.to_bits().into(), address.to_bits().into());
                common(a, b, 32 - u32::from(self.bits))
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => common(
                network.to_bits(),
                address.to_bits(),
                128 - u32::from(self.bits),
            ),
            _ => false,
        }
    }
}

/// Reads `192.0.2.1`, `192.0.2.0/24`, `2001:db8::/32`.
impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not an address or a network, such as 192.0.2.1, 192.0.2.0/24 or \
                 2001:db8::/32"
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let address = address.to_canonical();
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => all,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= all)
                .ok_or_else(wrong)?,
        };
        Ok(Self { address, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> ProxyHeader {
        ProxyHeader::Client(text.parse().unwrap())
    }

    fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let mut header = SIGNATURE.to_vec();
        header.extend([command, family]);
        header.extend(u16::try_from(addresses.len()).unwrap().to_be_bytes());
        header.extend(addresses);
        header
    }

    fn v6() -> Vec<u8> {
        let mut addresses = vec![0; 36];
        addresses[..4].copy_from_slice(&[0x20, 0x01, 0x0D, 0xB8]);
        addresses[15] = 7;
        addresses[32..34].copy_from_slice(&4_711_u16.to_be_bytes());
        addresses
    }

    fn good() -> Vec<(Vec<u8>, ProxyHeader)> {
        let v4 = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x67, 0x07, 0x5B];
        let with_more: Vec<u8> = v4.iter().copied().chain([3, 0, 1, 9]).collect();
        vec![
            (
                b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 1883\r\n".to_vec(),
                client("192.0.2.1:4711"),
            ),
            (
                b"PROXY TCP6 2001:db8::7 ::1 4711 1883\r\n".to_vec(),
                client("[2001:db8::7]:4711"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), ProxyHeader::Itself),
            (
                b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n".to_vec(),
                ProxyHeader::Itself,
            ),
            (binary(0x21, 0x11, &v4), client("192.0.2.1:4711")),
            (binary(0x21, 0x11, &with_more), client("192.0.2.1:4711")),
            (binary(0x21, 0x21, &v6()), client("[2001:db8::7]:4711")),
            (binary(0x20, 0x00, &[]), ProxyHeader::Itself),
            (binary(0x20, 0x11, &v4), ProxyHeader::Itself),
            (binary(0x21, 0x00, &[]), ProxyHeader::Itself),
            (binary(0x21, 0x31, &[0; 216]), ProxyHeader::Itself),
        ]
    }

    #[test]
    fn headers_are_read_in_any_pieces() {
        for (bytes, expected) in good() {
            for len in 0..bytes.len() {
                assert_eq!(
                    ProxyHeader::read(&bytes[..len]),
                    Ok(None),
                    "{bytes:?} {len}"
                );
            }
            let mut stream = bytes.clone();
            stream.extend(b"\x10\x0c");
            let read = ProxyHeader::read(&stream);
            assert_eq!(read, Ok(Some((expected, bytes.len()))), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let mut cases: Vec<Vec<u8>> = [
            "\x10\x0c\0\x04MQTT",
            "GET / HTTP/1.1\r\n",
            "PROXY\r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 4711 1883 x\r\n",
            "PROXY TCP4 192.0.2.1  10.0.0.1 4711 1883\r\n",
            "PROXY TCP4 ::1 ::2 4711 1883\r\n",
            "PROXY TCP6 192.0.2.1 10.0.0.1 4711 1883\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 65536 1883\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 +1 1883\r\n",
            "PROXY TCP4 192.0.2.256 10.0.0.1 1 1883\r\n",
            "PROXY UDP4 192.0.2.1 10.0.0.1 1 1883\r\n",
            "PROXY tcp4 192.0.2.1 10.0.0.1 1 1883\r\n",
            "PROXY \u{ff}\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 4711 1883\n",
            "PROXY UNKNOWN x\ny\r\n",
        ]
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect();
        cases.push([b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 100]].concat());
        cases.push(binary(0x11, 0x11, &[0; 12]));
        cases.push(binary(0x22, 0x11, &[0; 12]));
        cases.push(binary(0x21, 0x11, &[0; 11]));
        cases.push(binary(0x21, 0x21, &[0; 35]));
        cases.push(binary(0x21, 0x41, &[0; 12]));
        cases.push(binary(0x21, 0x11, &[0; BINARY_BYTES_MAX - FIXED_BYTES + 1]));
        for bytes in cases {
            assert_eq!(ProxyHeader::read(&bytes), Err(NoProxyHeader), "{bytes:?}");
        }
    }

    #[test]
    fn networks_contain_their_addresses() {
        for (network, address, expected) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.7/24", "192.0.2.1", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(
                network.contains(address.parse().unwrap()),
                expected,
                "{address}"
            );
        }
        for text in [
            "",
            "localhost",
            "192.0.2.1/33",
            "::/129",
            "192.0.2.1/",
            "1.2.3/8",
            "::1/-1",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
