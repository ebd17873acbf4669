//! Which web pages may connect.

use alloc::string::String;
use core::net::Ipv4Addr;

/// Whether a page of this origin may open a connection.
///
/// Browsers let any page connect anywhere and send its origin along; refusing unknown origins is
/// what keeps a foreign page from using the visitor's access to this server. Clients other than
/// browsers send none. Allowed are:
///
/// - no origin at all,
/// - an origin in `allowed`, without regard to case, or any if `*` is there,
/// - the origin that `host` (the request's Host) names: same name, same port, where a missing port
///   is that of the origin's scheme, and 80 or 443 for the Host; the scheme itself does not count,
///   since a proxy may have taken TLS off,
/// - on a loopback listener, any origin on `localhost`, `127.0.0.0/8` or `[::1]`, any port and
///   scheme: a page under development.
///
/// On a loopback listener `host` must name this machine in one of these ways, too, unless `allowed`
/// has the origin. A foreign page may have its own name resolve to 127.0.0.1 (DNS rebinding): its
/// origin and `host` agree then, and only the name gives it away. A client that sends no origin is
/// not a page, so its `host` is not checked: a tunnel may have given it any name.
#[must_use]
pub fn origin_allowed(
    origin: Option<&str>,
    host: Option<&str>,
    allowed: &[String],
    loopback_listener: bool,
) -> bool {
    let Some(origin) = origin else {
        return true;
    };
    if allowed
        .iter()
        .any(|entry| entry == "*" || entry.eq_ignore_ascii_case(origin))
    {
        return true;
    }
    let Some(origin) = Authority::of_origin(origin) else {
        // `null` (a page without an origin, such as a local file) or nonsense.
        return false;
    };
    let Some(host) = host.and_then(Authority::parse) else {
        return false;
    };
    if loopback_listener {
        return host.is_localhost() && origin.is_localhost();
    }
    origin.is_same(&host)
}

/// A host name and perhaps a port.
struct Authority<'a> {
    name: &'a str,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// The authority of `scheme://host[:port]`, with the scheme's port where there is none.
    fn of_origin(origin: &'a str) -> Option<Self> {
        let (scheme, authority) = origin.split_once("://")?;
        let mut authority = Self::parse(authority)?;
        let is_scheme =
            |names: [&str; 2]| names.iter().any(|name| scheme.eq_ignore_ascii_case(name));
        if authority.port.is_none() && is_scheme(["http", "ws"]) {
            authority.port = Some(80);
        }
        if authority.port.is_none() && is_scheme(["https", "wss"]) {
            authority.port = Some(443);
        }
        Some(authority)
    }

    /// Takes `host[:port]` apart, where the host may be an IPv6 address in brackets.
    fn parse(text: &'a str) -> Option<Self> {
        let name_end = match text.strip_prefix('[') {
            Some(_) => text.find(']')? + 1,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (name, port) = text.split_at(name_end);
        let port = match port.strip_prefix(':') {
            Some(digits) => Some(digits.parse().ok()?),
            None if port.is_empty() => None,
            None => return None,
        };
        let is_name = !name.is_empty() && !name.contains(['/', '@', '?', '#', ' ']);
        is_name.then_some(Self { name, port })
    }

    /// Whether this origin is the one that a Host names.
    fn is_same(&self, host: &Self) -> bool {
        let is_same_port = match host.port {
            Some(port) => self.port == Some(port),
            None => matches!(self.port, Some(80 | 443) | None),
        };
        is_same_port && self.name.eq_ignore_ascii_case(host.name)
    }

    fn is_localhost(&self) -> bool {
        let is_loopback = |address: Ipv4Addr| address.is_loopback();
        self.name.eq_ignore_ascii_case("localhost")
            || self.name == "[::1]"
            || self.name.parse().is_ok_and(is_loopback)
    }
}
