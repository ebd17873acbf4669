//! HTTP for adaptors: one request to a host on their list, one answer, within a deadline.

use std::time::Instant;

use crate::net::http::{self, Response, Url};
use crate::net::{Trust, is_late};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    url: Url,
    pub(super) method: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// A request to a URL `http://HOST[:PORT][/PATH]` or `https://…` whose host is on the list.
    pub(super) fn new(url: &str, hosts: &[String]) -> Result<Self, String> {
        let url = Url::parse(url)?;
        if !hosts.iter().any(|host| url.is_at(host)) {
            let place = url.place();
            return Err(format!("{place} is not among the adaptor's `http` hosts"));
        }
        Ok(Self {
            url,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Sends it and waits for the answer.
    pub(super) fn send(&self, trust: &Trust, deadline: Instant) -> Result<Response, String> {
        let method = self.method.to_uppercase();
        let asked = http::Request {
            method: &method,
            url: &self.url,
            headers: &self.headers,
            body: &self.body,
        };
        http::exchange(&asked, trust, deadline).map_err(|error| {
            if is_late(&error) {
                "there was no answer in time".to_owned()
            } else {
                format!("{}: {error}", self.url.place())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn hosts() -> Vec<String> {
        vec!["localhost".to_owned(), "10.0.0.1:8080".to_owned()]
    }

    #[test]
    fn only_hosts_on_the_list_are_called() {
        for (url, taken) in [
            ("http://localhost/x", true),
            ("http://localhost:81", true),
            ("https://localhost/", true),
            ("http://10.0.0.1:8080/", true),
            ("https://10.0.0.1:8080/", true),
            ("http://10.0.0.1/", false),
            ("https://10.0.0.1/", false),
            ("http://localhost.evil/", false),
            ("http://evil@localhost/", false),
            ("ftp://localhost/", false),
            ("http:///x", false),
            ("http://localhost/a b", false),
            ("http://localhost:x/", false),
        ] {
            assert_eq!(Request::new(url, &hosts()).is_ok(), taken, "{url}");
        }
    }

    #[test]
    fn nothing_begins_another_request() {
        let late = Instant::now() + Duration::from_secs(60);
        // Nobody is asked: what cannot be sent is refused before.
        let mut request = Request::new("http://localhost:1/", &hosts()).unwrap();
        let refused = |request: &Request, reason: &str| {
            let error = request.send(&Trust::default(), late).unwrap_err();
            assert!(error.contains(reason), "{error}");
        };
        request.headers.push(("X".into(), "a\r\nY: b".into()));
        refused(&request, "control character");
        request.headers[0] = ("X: y".into(), "a".into());
        refused(&request, "not the name of a header");
        request.headers[0] = ("X".into(), "a".repeat(70_000));
        refused(&request, "longer than");
        request.headers.clear();
        request.method = "GET / HTTP/1.1\r\n".into();
        refused(&request, "not a method");
    }

    #[test]
    fn an_answer_is_read_and_a_silent_server_is_given_up() {
        let (send, heard) = mpsc::channel();
        let address = crate::net::serve(move |stream| {
            let mut lines = BufReader::new(&stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if lines.read_line(&mut head).unwrap_or(0) == 0 {
                    return;
                }
            }
            if head.starts_with("GET") {
                // No answer, and the connection stays.
                return std::mem::forget(stream);
            }
            let mut body = [0; 8];
            let _ = lines.read_exact(&mut body);
            let said = b"HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nnope, and more";
            let _ = (&stream).write_all(said);
            let _ = send.send((head, body));
        });
        let url = format!("http://{address}/login?x=1");
        let mut request = Request::new(&url, &["127.0.0.1".to_owned()]).unwrap();
        let trust = Trust::default();
        let late = request.send(&trust, Instant::now() + Duration::from_millis(100));
        assert_eq!(late, Err("there was no answer in time".to_owned()));
        request.method = "post".into();
        request.body = b"name=ann".to_vec();
        let end = Instant::now() + Duration::from_secs(60);
        let reply = request.send(&trust, end).unwrap();
        assert_eq!((reply.status, &reply.body[..]), (403, &b"nope"[..]));
        let (head, body) = heard.recv().unwrap();
        assert!(head.starts_with("POST /login?x=1 HTTP/1.0\r\n"), "{head}");
        assert_eq!(&body, b"name=ann");
        assert!(request.send(&trust, Instant::now()).is_err());
    }
}
