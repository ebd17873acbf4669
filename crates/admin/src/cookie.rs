//! The cookie of a session.
//!
//! Browsers send cookies to all ports of a host. So the name has the port: servers on one machine,
//! or behind tunnels to one, do not take each other's sessions away.

use hyper::HeaderMap;
use hyper::header::{COOKIE, HOST, HeaderValue};

/// What a name begins with that browsers take by https alone, for no other host.
const SECURE_PREFIX: &str = "__Host-";

/// The longest value that is looked at, in bytes.
const VALUE_BYTES_MAX: usize = 256;

/// What all cookies of sessions say. None says when it ends: a browser forgets it as it ends.
const RULES: &str = "Path=/; HttpOnly; SameSite=Strict";

/// The name without its prefix, for the host of a request.
fn name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':'));
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
    match port {
        Some(port) => format!("stentor-{port}"),
        None => "stentor".to_owned(),
    }
}

/// The header that gives a browser its cookie. `is_secure` says that it came by https.
pub(crate) fn set(headers: &HeaderMap, is_secure: bool, value: &str) -> Option<HeaderValue> {
    header(headers, is_secure, &format!("{value}; {RULES}"))
}

/// The header that takes it away.
pub(crate) fn clear(headers: &HeaderMap, is_secure: bool) -> Option<HeaderValue> {
    header(headers, is_secure, &format!("; {RULES}; Max-Age=0"))
}

fn header(headers: &HeaderMap, is_secure: bool, rest: &str) -> Option<HeaderValue> {
    let name = name(headers);
    let text = match is_secure {
        true => format!("{SECURE_PREFIX}{name}={rest}; Secure"),
        false => format!("{name}={rest}"),
    };
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// What the cookie of a request has. A name that stands there twice was set by somebody else too,
/// and counts for nothing. `is_tls` says that the request came by https, and then only a cookie
/// counts that no plain page could set.
pub(crate) fn of(headers: &HeaderMap, is_tls: bool) -> Option<String> {
    let name = name(headers);
    let secure = one(headers, &format!("{SECURE_PREFIX}{name}"));
    match is_tls {
        true => secure,
        // A proxy in front of the server may speak https.
        false => secure.or_else(|| one(headers, &name)),
    }
}

fn one(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';'));
    let pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(key, _)| *key == name);
    match (values.next(), values.next()) {
        (Some((_, value)), None) => {
            let is_one = !value.is_empty() && value.len() <= VALUE_BYTES_MAX;
            is_one.then(|| value.to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, cookies: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().expect("a header"));
        for cookie in cookies {
            headers.append(COOKIE, cookie.parse().expect("a header"));
        }
        headers
    }

    #[test]
    fn a_cookie_says_who_may_read_it() {
        let text = |host: &str, is_secure: bool| {
            let header = set(&headers(host, &[]), is_secure, "x").expect("a header");
            header.to_str().expect("a text").to_owned()
        };
        assert_eq!(
            text("localhost:18083", false),
            "stentor-18083=x; Path=/; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            text("a.example", true),
            "__Host-stentor=x; Path=/; HttpOnly; SameSite=Strict; Secure"
        );
        let header = clear(&headers("[::1]:7", &[]), false).expect("a header");
        let expected = "stentor-7=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0";
        assert_eq!(header, expected);
        assert!(header.is_sensitive());
    }

    #[test]
    fn the_cookie_of_the_port_is_found() {
        for (cookies, plain, tls) in [
            (&["stentor-1=a"][..], Some("a"), None),
            (&["x=y; stentor-1=a; stentor-2=b"], Some("a"), None),
            (&["x=y", "stentor-1=a"], Some("a"), None),
            (&["stentor-2=b; stentor=c; Stentor-1=d"], None, None),
            (&["stentor-1=a; stentor-1=b"], None, None),
            (&["stentor-1=a", "stentor-1=a"], None, None),
            (&["stentor-1="], None, None),
            (&["stentor-1"], None, None),
            (&["__Host-stentor-1=s; stentor-1=a"], Some("s"), Some("s")),
            (&[], None, None),
        ] {
            let headers = headers("localhost:1", cookies);
            assert_eq!(of(&headers, false).as_deref(), plain, "{cookies:?}");
            assert_eq!(of(&headers, true).as_deref(), tls, "{cookies:?}");
        }
        let long = format!("stentor-1={}", "a".repeat(VALUE_BYTES_MAX + 1));
        assert_eq!(of(&headers("localhost:1", &[&long]), false), None);
    }
}
