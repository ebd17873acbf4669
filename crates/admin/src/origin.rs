//! Whether a request comes from a page of the server itself.
//!
//! A browser adds cookies and certificates to requests that pages of others make. It says where a
//! request comes from, in headers that no page can change: `Sec-Fetch-Site`, and `Origin` where
//! something may change. A request that is known by a token needs none of this, since no page of
//! others has the token.

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a request has to say of its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Nothing, but what it says must be right: a program says nothing.
    NotAnother,
    /// It must say that it comes from a page of the server.
    Own,
}

/// Whether a method only looks.
pub(crate) fn looks(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Whether the headers fulfil the demand. `is_look` says that the request changes nothing: then an
/// address that somebody has typed may lead there too.
pub(crate) fn is_own(headers: &HeaderMap, demand: Demand, is_look: bool) -> bool {
    match (one(headers, &SEC_FETCH_SITE), one(headers, &ORIGIN)) {
        (Header::Other, _) | (_, Header::Other) => false,
        (Header::Text("same-origin"), _) => true,
        (Header::Text("none"), _) => is_look,
        (Header::Text(_), _) => false,
        (Header::Missing, Header::Text(origin)) => is_of_host(origin, headers),
        (Header::Missing, Header::Missing) => demand == Demand::NotAnother,
    }
}

/// Whether a page of https made the request: then a proxy in front of the server speaks https.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    match one(headers, &ORIGIN) {
        Header::Text(origin) => origin.starts_with("https://") && is_of_host(origin, headers),
        Header::Missing | Header::Other => false,
    }
}

/// A header that stands there once at most.
#[derive(Clone, Copy)]
enum Header<'h> {
    Missing,
    Text(&'h str),
    /// It is not a text, or stands there twice.
    Other,
}

fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Header<'h> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Header::Missing,
        (Some(one), None) => one.to_str().map_or(Header::Other, Header::Text),
        _ => Header::Other,
    }
}

/// Whether an origin is the host of the request. Browsers leave the usual ports out of both.
fn is_of_host(origin: &str, headers: &HeaderMap) -> bool {
    let host = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    match (host, one(headers, &HOST)) {
        (Some(origin), Header::Text(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "localhost:1".parse().expect("a header"));
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a header"));
        }
        headers
    }

    /// Of each request: whether it may change something with a cookie, look with a cookie, and log
    /// in.
    #[test]
    fn pages_of_others_are_told_by_their_headers() {
        let site = "sec-fetch-site";
        for (lines, changes, looks, logs_in) in [
            (&[][..], false, false, true),
            (&[(site, "same-origin")], true, true, true),
            (&[(site, "same-site")], false, false, false),
            (&[(site, "cross-site")], false, false, false),
            (&[(site, "none")], false, true, false),
            (&[(site, "")], false, false, false),
            (&[("origin", "http://localhost:1")], true, true, true),
            (&[("origin", "https://LOCALHOST:1")], true, true, true),
            (&[("origin", "http://localhost:2")], false, false, false),
            (&[("origin", "http://localhost")], false, false, false),
            (&[("origin", "localhost:1")], false, false, false),
            (&[("origin", "null")], false, false, false),
            (
                &[("origin", "http://localhost:1.evil")],
                false,
                false,
                false,
            ),
            (
                &[(site, "cross-site"), ("origin", "http://localhost:1")],
                false,
                false,
                false,
            ),
            (
                &[(site, "same-origin"), (site, "same-origin")],
                false,
                false,
                false,
            ),
            (
                &[("origin", "http://localhost:1"), ("origin", "http://a")],
                false,
                false,
                false,
            ),
        ] {
            let headers = headers(lines);
            assert_eq!(is_own(&headers, Demand::Own, false), changes, "{lines:?}");
            assert_eq!(is_own(&headers, Demand::Own, true), looks, "{lines:?}");
            let login = is_own(&headers, Demand::NotAnother, false);
            assert_eq!(login, logs_in, "{lines:?}");
        }
    }

    #[test]
    fn a_page_of_https_tells_of_a_proxy() {
        for (origin, expected) in [
            ("https://localhost:1", true),
            ("http://localhost:1", false),
            ("https://other", false),
        ] {
            let headers = headers(&[("origin", origin)]);
            assert_eq!(is_https(&headers), expected, "{origin}");
        }
    }
}
