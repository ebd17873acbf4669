//! Which requests are answered.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::{HeaderMap, Request, Uri, Version};

use crate::api;
use crate::bounds::{API_BODY_BYTES_MAX, BODY_BYTES_MAX};

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No host is named, or several.
    NoHost,
    /// The host is not this machine.
    OtherHost,
    /// The path takes no body, and one is announced that is more than a few words.
    NoBody,
    /// The body is too large.
    TooLarge,
}

/// Checks what every request has to fulfil.
///
/// A page of the web can make a browser of this machine ask 127.0.0.1, under a name that its owner
/// lets point there. The browser names that host, so a listener of this machine takes only hosts
/// that mean this machine, and those that the configuration names.
pub(crate) fn check<B>(
    request: &Request<B>,
    is_local: bool,
    names: &[String],
) -> Result<(), Refusal> {
    check_body(request.uri().path(), request.headers())?;
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) if request.version() < Version::HTTP_11 => return Ok(()),
        (Some(host), None) => host.to_str().map_err(|_| Refusal::NoHost)?,
        _ => return Err(Refusal::NoHost),
    };
    let is_known = |host: &str| !is_local || is_own(host, names);
    // A request line may name a host too.
    let named = request.uri().authority().map(|it| it.as_str());
    match is_known(host) && named.is_none_or(is_known) {
        true => Ok(()),
        false => Err(Refusal::OtherHost),
    }
}

/// Checks what the headers announce. Where a body is read, it is counted as it comes: one of
/// unknown length may come there, and nowhere else.
fn check_body(path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    let is_read = path.starts_with(api::ROOT);
    if headers.contains_key(TRANSFER_ENCODING) {
        return is_read.then_some(()).ok_or(Refusal::NoBody);
    }
    let announced = headers.get(CONTENT_LENGTH).map_or(0, |length| {
        let number = length.to_str().ok().and_then(|text| text.parse().ok());
        number.unwrap_or(u64::MAX)
    });
    match is_read {
        true if announced > API_BODY_BYTES_MAX as u64 => Err(Refusal::TooLarge),
        false if announced > BODY_BYTES_MAX => Err(Refusal::NoBody),
        _ => Ok(()),
    }
}

/// Whether a host, with or without a port, means this machine or is one of these names.
fn is_own(authority: &str, names: &[String]) -> bool {
    // No browser names a user here; what stands behind one is not what the request says it is for.
    if authority.contains('@') {
        return false;
    }
    let Ok(uri) = authority.parse::<Uri>() else {
        return false;
    };
    let Some(host) = uri.host() else {
        return false;
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.to_canonical().is_loopback() || names.iter().any(|name| name == bare);
    }
    let bare = bare.trim_end_matches('.');
    bare.eq_ignore_ascii_case("localhost")
        || names.iter().any(|name| name.eq_ignore_ascii_case(bare))
}

/// The token of a header `Authorization: Bearer`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: &[&str], uri: &str) -> Request<()> {
        let mut request = Request::builder().uri(uri);
        for host in host {
            request = request.header(HOST, *host);
        }
        request.body(()).expect("a request")
    }

    #[test]
    fn a_local_listener_answers_hosts_of_this_machine() {
        let names = ["stentor.example".to_owned(), "192.0.2.7".to_owned()];
        for (host, is_own) in [
            ("localhost", true),
            ("LOCALHOST:18083", true),
            ("localhost.:1", true),
            ("127.0.0.1:18083", true),
            ("127.9.9.9", true),
            ("[::1]:18083", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("stentor.example:443", true),
            ("Stentor.Example", true),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("evil.example:18083", false),
            ("evil.example@127.0.0.1", false),
            ("", false),
            ("a b", false),
        ] {
            let asked = request(&[host], "/metrics");
            assert_eq!(check(&asked, true, &names).is_ok(), is_own, "{host}");
            let refused = check(&asked, false, &names);
            assert!(refused.is_ok(), "elsewhere any host will do: {host}");
        }
    }

    #[test]
    fn the_host_of_the_request_line_counts_as_well() {
        let own = ["localhost"];
        for (uri, is_own) in [
            ("http://localhost/metrics", true),
            ("http://evil.example/metrics", false),
        ] {
            assert_eq!(check(&request(&own, uri), true, &[]).is_ok(), is_own);
        }
        let none = check(&request(&[], "/"), true, &[]);
        assert_eq!(none, Err(Refusal::NoHost));
        let two = check(&request(&["localhost", "localhost"], "/"), true, &[]);
        assert_eq!(two, Err(Refusal::NoHost));
        let mut old = request(&[], "/");
        *old.version_mut() = Version::HTTP_10;
        assert_eq!(check(&old, true, &[]), Ok(()), "no browser asks like that");
    }

    #[test]
    fn bodies_are_bounded() {
        let with = |path: &str, name, value: &str| {
            let builder = Request::builder().uri(path).header(HOST, "localhost");
            let request = builder.header(name, value).body(()).expect("a request");
            check(&request, true, &[])
        };
        let most = BODY_BYTES_MAX.to_string();
        assert_eq!(with("/metrics", CONTENT_LENGTH, &most), Ok(()));
        let more = (BODY_BYTES_MAX + 1).to_string();
        for (name, value) in [
            (CONTENT_LENGTH, more.as_str()),
            (CONTENT_LENGTH, "99999999999999999999999"),
            (TRANSFER_ENCODING, "chunked"),
        ] {
            assert_eq!(
                with("/metrics", name, value),
                Err(Refusal::NoBody),
                "{value}"
            );
        }
        let path = "/api/v1/reload";
        for (name, value, result) in [
            (CONTENT_LENGTH, "1048576", Ok(())),
            (CONTENT_LENGTH, "1048577", Err(Refusal::TooLarge)),
            (CONTENT_LENGTH, "x", Err(Refusal::TooLarge)),
            (TRANSFER_ENCODING, "chunked", Ok(())),
        ] {
            assert_eq!(with(path, name, value), result, "{value}");
        }
    }

    #[test]
    fn a_bearer_shows_its_token() {
        for (header, token) in [
            ("Bearer x.y", Some("x.y")),
            ("bearer  x.y ", Some("x.y")),
            ("Basic YTpi", None),
            ("Bearer", None),
            ("Bearer ", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, header.parse().expect("a header"));
            assert_eq!(bearer(&headers), token, "{header}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
