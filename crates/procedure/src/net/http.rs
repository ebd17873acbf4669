//! A request over HTTP/1.0 and its response, with TLS or without: no redirects, no cookies.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Instant;

use super::{Stream, Trust};

/// The longest body of a response.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;
/// The longest head of a response.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Headers of a response.
const HEADERS_MAX: usize = 100;
/// The longest URL.
const URL_BYTES_MAX: usize = 2048;
/// The longest value of a header that is sent.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Where a request goes: `http://HOST[:PORT]/PATH` or `https://…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: Scheme,
    /// `HOST:PORT`.
    authority: String,
    /// With its slash, and the query.
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Url {
    /// Reads one. What would mean another place in the end is refused: `..` in the path, however it
    /// is written, a user, a fragment, spaces and control characters.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fail = |reason: &str| Err(format!("cannot request the URL \"{text}\": {reason}"));
        if text.len() > URL_BYTES_MAX {
            return fail("it is longer than 2048 bytes");
        }
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ => return fail("it begins with http:// or https://"),
        };
        let is_printable = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        if !rest.bytes().all(is_printable) || rest.contains('#') {
            return fail("it has characters that do not belong there");
        }
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        // Among others `@`, before which a user would stand.
        let is_of_host = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if !host.chars().all(is_of_host) {
            return fail("its host has characters that do not belong there");
        }
        if goes_up(path) {
            return fail("its path goes up (`..`, which may be written as %2e%2e or end in %2f)");
        }
        let name = host
            .rsplit_once(':')
            .filter(|(_, port)| !port.ends_with(']'));
        let default = match scheme {
            Scheme::Http => "80",
            Scheme::Https => "443",
        };
        let (name, port) = name.unwrap_or((host, default));
        if name.is_empty() || port.parse::<u16>().is_err() {
            return fail("its host is missing, or its port is not a number from 0 to 65535");
        }
        Ok(Self {
            scheme,
            authority: format!("{name}:{port}"),
            path: path.to_owned(),
        })
    }

    /// Whether this is another one or lies below it: the same server, and a path that goes on from
    /// its path with another part or a query.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        let rest = self.path.strip_prefix(&other.path);
        let goes_on = |rest: &str| {
            rest.is_empty() || other.path.ends_with('/') || rest.starts_with(['/', '?'])
        };
        self.scheme == other.scheme
            && self.authority.eq_ignore_ascii_case(&other.authority)
            && rest.is_some_and(goes_on)
    }

    /// Whether its server is meant by `HOST` or `HOST:PORT`.
    pub(crate) fn is_at(&self, place: &str) -> bool {
        [self.host(), self.place()]
            .iter()
            .any(|own| own.eq_ignore_ascii_case(place))
    }

    /// `HOST:PORT` of its server.
    pub(crate) fn place(&self) -> &str {
        &self.authority
    }

    /// Without the port.
    fn host(&self) -> &str {
        let parts = self.authority.rsplit_once(':');
        parts.map_or(&self.authority, |(host, _)| host)
    }
}

/// Whether some server may take a path for one that goes up. Servers differ in what they decode,
/// how often and when, in what they take for a separator, and some cut parameters off (`..;a`).
fn goes_up(path: &str) -> bool {
    let mut plain = path.as_bytes().to_vec();
    loop {
        let decoded = decoded(&plain);
        if decoded.len() == plain.len() {
            break;
        }
        plain = decoded;
    }
    // Bytes of no UTF-8, with which old servers take a dot or a slash for one.
    let is_overlong = plain.iter().any(|byte| matches!(byte, 0xC0 | 0xC1));
    let is_separator = |byte: &u8| matches!(byte, b'/' | b'\\' | b'?' | b'#');
    let is_end = |byte: &u8| *byte == b';' || *byte <= b' ' || *byte == 0x7F;
    let mut parts = plain.split(is_separator);
    let climbs = parts.any(|part| part.split(is_end).any(|name| name == b".."));
    is_overlong || climbs
}

/// Bytes with each `%` and two digits replaced by what they stand for.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        let code = match (first, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        plain.push(code.map_or(*first, |(high, low)| 16 * high + low));
        if code.is_some() {
            rest = &after[2..];
        }
    }
    plain
}

/// What a server is asked.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a Url,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) body: &'a [u8],
}

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Sends a request and reads the response until `end`. A method that is not a word is refused, and
/// so are headers that have line ends in them, or would change how long the request is.
///
/// # Errors
/// When there is no response that makes sense, or not in time.
pub(crate) fn exchange(request: &Request<'_>, trust: &Trust, end: Instant) -> io::Result<Response> {
    let Request {
        method,
        url,
        headers,
        body,
    } = *request;
    if !(1..=20).contains(&method.len()) || !method.bytes().all(|b| b.is_ascii_uppercase()) {
        return Err(io::Error::other(format!(
            "\"{method}\" is not a method: it has 1 to 20 letters from A to Z"
        )));
    }
    let mut head = format!(
        "{method} {} HTTP/1.0\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n",
        url.path,
        url.authority,
        body.len()
    );
    for (name, value) in headers {
        check_header(name, value).map_err(io::Error::other)?;
        // Writing into a string does not fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    let mut stream = Stream::connect(&url.authority, end)?;
    if url.scheme == Scheme::Https {
        stream = stream.encrypted(trust, url.host())?;
    }
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    // A server that refuses early answers before it has read everything.
    let written = stream.write_all(&bytes).and_then(|()| stream.flush());
    let mut answer = Vec::new();
    loop {
        if let Some(response) = parse(&answer, false)? {
            return Ok(response);
        }
        if answer.len() > HEAD_BYTES_MAX + BODY_BYTES_MAX {
            return Err(io::Error::other("its answer is too long"));
        }
        // What kept the request from being sent says more than what came of that.
        let has_more = match (stream.read_more(&mut answer), &written) {
            (Err(_), Err(_)) => false,
            (read, _) => read?,
        };
        if !has_more {
            written?;
            let missing = || io::Error::other("its answer ends too early");
            return parse(&answer, true)?.ok_or_else(missing);
        }
    }
}

fn check_header(name: &str, value: &str) -> Result<(), String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let reserved = ["host", "connection", "content-length", "transfer-encoding"];
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(format!("\"{name}\" is not the name of a header"));
    }
    if reserved.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("the header {name} is set by the server"));
    }
    if value.chars().any(char::is_control) {
        return Err(format!("the header {name} has a control character in it"));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(format!("the header {name} is longer than 64 KiB"));
    }
    Ok(())
}

/// The response, once it is complete: by its length, or at the end of the connection.
pub(crate) fn parse(answer: &[u8], is_over: bool) -> io::Result<Option<Response>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let wrong = |what: &str| io::Error::other(format!("its answer makes no sense: {what}"));
    let start = match parsed.parse(answer) {
        Ok(httparse::Status::Complete(start)) => start,
        Ok(httparse::Status::Partial) if answer.len() <= HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(wrong("its head is too long")),
        Err(_) => return Err(wrong("it is not HTTP")),
    };
    let status = parsed.code.unwrap_or(0);
    let mut length = None;
    for header in parsed.headers.iter() {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(wrong("it comes in chunks, which HTTP/1.0 does not have"));
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).unwrap_or_default();
            let value = text.trim().parse::<usize>();
            length = Some(value.map_err(|_| wrong("its length is not a number"))?);
        }
    }
    if length.unwrap_or(0).max(answer.len() - start) > BODY_BYTES_MAX && length != Some(0) {
        return Err(io::Error::other("its body is longer than 1 MiB"));
    }
    let body = match length {
        Some(length) => answer.get(start..start + length),
        None => is_over.then(|| &answer[start..]),
    };
    Ok(body.map(|body| Response {
        status,
        body: body.to_vec(),
    }))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_url_means_one_place() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert_eq!(url("http://a").authority, "a:80");
        assert_eq!(url("https://a").authority, "a:443");
        assert_eq!(url("https://[::1]/").host(), "[::1]");
        assert_eq!(url("http://[::1]:8080/x?y").authority, "[::1]:8080");
        assert!(url("http://a:80/api/x").is_below(&url("http://A/api/")));
        for text in ["http://a/api", "http://a/api/x", "http://a/api?x"] {
            assert!(url(text).is_below(&url("http://a/api")), "{text}");
        }
        assert_eq!(url("http://a/?to=b@c").path, "/?to=b@c");
        for (text, base) in [
            ("http://a/ap", "http://a/api/"),
            ("http://a/apis", "http://a/api"),
            ("http://a:81/api/", "http://a/api/"),
            ("http://a.evil/api/", "http://a/api/"),
            ("https://a:80/api/", "http://a/api/"),
            ("http://a/api/", "https://a/api/"),
        ] {
            assert!(!url(text).is_below(&url(base)), "{text}");
        }
        for text in [
            "https:///",
            "https:/a",
            "HTTP://a",
            "ftp://a",
            "http://",
            "http://:80/",
            "http://a:x/",
            "http://u@a/",
            "http://a?x",
            "http://a%00/",
            "http://a/b c",
            "http://a/\r\nX: y",
            "http://a/api/../b",
            "http://a/%2E%2e/b",
            "http://a/#b",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    /// No path below `/api/` leads out of it, whatever the server decodes.
    #[test]
    fn no_path_goes_up() {
        for path in [
            "/api/..%2fadmin/s",
            "/api/..%2Fadmin",
            "/api/%2e%2e%2fadmin/s",
            "/api/x/..%2F..%2Fadmin/s",
            "/api/..%5cadmin",
            "/api/%2e.%5C",
            "/api/x%2f..",
            "/api/x%2f%2e%2e/y",
            "/api/..;/admin",
            "/api/..;a=b/admin",
            "/api/..%3b/admin",
            "/api/%252e%252e/admin",
            "/api/..%252fadmin",
            "/api/..%25252fadmin",
            "/api/..%00/admin",
            "/api/..%20/admin",
            "/api/..%3fx",
            "/api/..%23x",
            "/api/%c0%ae%c0%ae/admin",
            "/api/..%c0%afadmin",
        ] {
            let error = Url::parse(&format!("http://a{path}")).unwrap_err();
            assert!(error.contains("goes up"), "{path}: {error}");
        }
        for path in [
            "/api/a%2fb",
            "/api/a..b",
            "/api/...",
            "/api/.",
            "/api/x;y=..z",
            "/api/100%",
            "/api/%2",
            "/api/%zz..",
            "/api/caf%c3%a9?to=a%2fb&x=..y",
        ] {
            let url = Url::parse(&format!("http://a{path}")).unwrap();
            assert_eq!(url.path, path, "it is sent as it was written");
        }
    }

    fn request<'a>(
        method: &'a str,
        url: &'a Url,
        headers: &'a [(String, String)],
        body: &'a [u8],
    ) -> Request<'a> {
        Request {
            method,
            url,
            headers,
            body,
        }
    }

    /// A server that reads one request and says `answer`; the request's first line.
    fn ask(answer: &'static str) -> io::Result<Response> {
        let address = crate::net::serve(move |stream| {
            let mut lines = BufReader::new(&stream);
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let mut body = [0; 2];
            let _ = lines.read_exact(&mut body);
            assert_eq!(&body, b"hi");
            let _ = (&stream).write_all(answer.as_bytes());
        });
        let url = Url::parse(&format!("http://{address}/x")).unwrap();
        let headers = [("X-A".to_owned(), "b".to_owned())];
        let end = Instant::now() + Duration::from_secs(60);
        exchange(
            &request("POST", &url, &headers, b"hi"),
            &Trust::default(),
            end,
        )
    }

    #[test]
    fn a_response_is_read_by_its_length_or_its_end() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyesand more",
            "HTTP/1.0 200 OK\r\n\r\nyes",
        ] {
            let response = ask(answer).unwrap();
            assert_eq!((response.status, &response.body[..]), (200, &b"yes"[..]));
        }
        for (answer, reason) in [
            ("SSH-2.0\r\n", "not HTTP"),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nyes",
                "too early",
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: x\r\n\r\n",
                "not a number",
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 9999999\r\n\r\n",
                "1 MiB",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "chunks",
            ),
            ("", "too early"),
        ] {
            let error = ask(answer).unwrap_err().to_string();
            assert!(error.contains(reason), "{answer:?}: {error}");
        }
    }

    #[test]
    fn headers_stay_headers() {
        let end = Instant::now() + Duration::from_secs(60);
        let url = Url::parse("http://127.0.0.1:1/").unwrap();
        for (name, value) in [("A", "b\r\nC: d"), ("A b", "c"), ("Host", "x"), ("", "")] {
            let headers = [(name.to_owned(), value.to_owned())];
            let asked = request("GET", &url, &headers, b"");
            let error = exchange(&asked, &Trust::default(), end).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Other, "{name}: {error}");
        }
    }

    #[test]
    fn silence_ends_in_time() {
        let address = crate::net::serve(std::mem::forget);
        let url = Url::parse(&format!("http://{address}/")).unwrap();
        let end = Instant::now() + Duration::from_millis(50);
        let asked = request("GET", &url, &[], b"");
        let error = exchange(&asked, &Trust::default(), end).unwrap_err();
        assert!(crate::net::is_late(&error), "{error}");
    }
}
