//! A small client of HTTP/1.1 for the server's own HTTP side: kept connections, a request at a
//! time, and event streams.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{BenchError, Doing};
use crate::target::Running;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a reader of a stream waits before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of a line of a head, and of a body.
const LINE_BYTES_MAX: u64 = 64 * 1_024;
const BODY_BYTES_MAX: usize = 256 * 1_024 * 1_024;
/// Lines of a head.
const LINES_MAX: usize = 100;

/// The HTTP side of a server, and a token for it.
#[derive(Clone, Debug)]
pub(crate) struct HttpApi {
    /// Host and port.
    address: String,
    token: String,
}

impl HttpApi {
    /// That of a server that was started here, with the token of a new administrator.
    ///
    /// # Errors
    /// When it has none, or refuses.
    pub(crate) fn open(running: &Running) -> Result<Self, BenchError> {
        let control = running.status_at();
        let control = control.ok_or_else(|| {
            BenchError::usage("the HTTP side of a server that was not started here is not known")
        })?;
        let name = "bench-operator";
        let add = json!({ "verb": "users.add", "name": name, "roles": ["admin"] });
        control.request(&add)?;
        let made = control.request(&json!({ "verb": "tokens.create", "name": name }))?;
        let link = control.request(&json!({ "verb": "login.link" }))?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let address = text(&link["url"]).and_then(|url| {
            let rest = url.strip_prefix("http://")?;
            Some(rest.split('/').next()?.to_owned())
        });
        match (address, text(&made["token"])) {
            (Some(address), Some(token)) => Ok(Self { address, token }),
            _ => Err(BenchError::server("the server names no address of HTTP")),
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// When the server does not accept it.
    pub(crate) fn connect(&self) -> Result<Http, BenchError> {
        let doing = || format!("connect to http://{}", self.address);
        let stream = TcpStream::connect(&self.address).doing(doing())?;
        stream.set_nodelay(true).doing(doing())?;
        stream.set_read_timeout(Some(PATIENCE)).doing(doing())?;
        stream.set_write_timeout(Some(PATIENCE)).doing(doing())?;
        let (host, token) = (&self.address, &self.token);
        Ok(Http {
            stream: BufReader::new(stream),
            fields: format!("Host: {host}\r\nAuthorization: Bearer {token}\r\n"),
        })
    }
}

/// A connection that is kept.
#[derive(Debug)]
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
    /// Fields of the head of each request.
    fields: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Its body; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What the head of an answer says.
struct Head {
    status: u16,
    /// `None` if it is not said.
    length: Option<usize>,
}

impl Http {
    /// Asks for a path.
    ///
    /// # Errors
    /// When the connection breaks, or what comes is not an answer.
    pub(crate) fn get(&mut self, path: &str) -> Result<Answer, BenchError> {
        let request = self.request(path, None);
        self.send(&request)?;
        self.receive()
    }

    /// A whole request: a GET without a body, and a POST of JSON with one.
    pub(crate) fn request(&self, path: &str, body: Option<&str>) -> Vec<u8> {
        let fields = &self.fields;
        match body {
            None => format!("GET {path} HTTP/1.1\r\n{fields}\r\n"),
            Some(body) => format!(
                "POST {path} HTTP/1.1\r\n{fields}Content-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            ),
        }
        .into_bytes()
    }

    /// Sends a request, whose answer is received later.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) fn send(&mut self, request: &[u8]) -> Result<(), BenchError> {
        let sent = self.stream.get_mut().write_all(request);
        sent.over_link("send an HTTP request")
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// When the connection breaks, or what comes is not an answer.
    pub(crate) fn receive(&mut self) -> Result<Answer, BenchError> {
        let answer = self.head().and_then(|head| {
            let length = head
                .length
                .ok_or_else(|| wrong("an answer without a length"))?;
            if length > BODY_BYTES_MAX {
                return Err(wrong("an answer of more than 256 MiB"));
            }
            let mut body = vec![0; length];
            self.stream.read_exact(&mut body)?;
            let status = head.status;
            Ok(Answer { status, body })
        });
        answer.over_link("receive an HTTP answer")
    }

    /// Begins an event stream.
    ///
    /// # Errors
    /// When the server does not begin it.
    pub(crate) fn stream(mut self, path: &str) -> Result<Events, BenchError> {
        let request = self.request(path, None);
        self.send(&request)?;
        let head = self.head().over_link("begin an event stream")?;
        if head.status != 200 {
            let status = head.status;
            let why = format!("the server answers {path} with the status {status}");
            return Err(BenchError::broken(why));
        }
        let limited = self.stream.get_mut().set_read_timeout(Some(LOOK));
        limited.doing("bound the time of a read")?;
        Ok(Events {
            stream: self.stream,
            line: Vec::new(),
        })
    }

    fn head(&mut self) -> io::Result<Head> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| wrong("no status line"))?;
        let mut length = None;
        for _ in 0..LINES_MAX {
            let line = self.line()?;
            match line.split_once(':') {
                _ if line.is_empty() => return Ok(Head { status, length }),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().ok();
                }
                _ => {}
            }
        }
        Err(wrong("a head that does not end"))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.stream)
            .take(LINE_BYTES_MAX)
            .read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(text) => Ok(text.to_owned()),
            None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Err(wrong("a line that does not end")),
        }
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// An event stream.
#[derive(Debug)]
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Events {
    /// Counts what comes until somebody says that it is enough.
    ///
    /// # Errors
    /// When the stream ends or breaks before.
    pub(crate) fn count(mut self, is_enough: impl Fn() -> bool) -> Result<u64, BenchError> {
        let mut events = 0;
        while !is_enough() {
            let is_whole = self.read_line().over_link("read an event stream")?;
            if is_whole {
                events += u64::from(self.line.starts_with(b"data:"));
                self.line.clear();
            }
        }
        Ok(events)
    }

    /// Whether a line came to its end in time.
    fn read_line(&mut self) -> io::Result<bool> {
        let left = LINE_BYTES_MAX.saturating_mul(64) - self.line.len() as u64;
        let read = (&mut self.stream)
            .take(left)
            .read_until(b'\n', &mut self.line);
        match read {
            Ok(_) if self.line.ends_with(b"\n") => Ok(true),
            Ok(0) if left > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Err(wrong("a line of more than 4 MiB")),
            // What has come of the line stays.
            Err(e) if is_late(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// A server that gives this answer to each connection, after it has read something.
    fn api(answer: &'static str) -> HttpApi {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1_024]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let token = "t".to_owned();
        HttpApi { address, token }
    }

    #[test]
    fn an_answer_is_read_to_its_end() {
        let two = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\nX: y\r\n\r\n{}HTTP/1.1 503 No\r\n\
                   content-length: 0\r\n\r\n";
        let mut http = api(two).connect().unwrap();
        let answer = http.get("/a").unwrap();
        assert_eq!((answer.status, answer.json()), (200, json!({})));
        let answer = http.receive().unwrap();
        assert_eq!((answer.status, answer.body.len()), (503, 0));
        assert!(http.receive().is_err(), "it is closed");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let endless: &'static str = Box::leak(
            format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(LINES_MAX + 1)).into_boxed_str(),
        );
        let long: &'static str =
            Box::leak(format!("HTTP/1.1 {}", "2".repeat(70_000)).into_boxed_str());
        for (answer, why) in [
            ("", "unexpected end"),
            ("HTTP/1.1\r\n\r\n", "no status line"),
            ("HTTP/1.1 200 OK\r\n\r\n", "without a length"),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 268435457\r\n\r\n",
                "256 MiB",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",
                "failed to fill",
            ),
            (endless, "a head that does not end"),
            (long, "a line that does not end"),
        ] {
            let refused = api(answer).connect().unwrap().get("/").unwrap_err();
            assert!(refused.to_string().contains(why), "{why}: {refused}");
        }
    }

    #[test]
    fn events_are_counted_until_it_is_enough() {
        let stream = "HTTP/1.1 200 OK\r\n\r\nevent: a\ndata: 1\n\n: silence\n\ndata: 2\n\n";
        let http = api(stream).connect().unwrap();
        let is_enough = AtomicBool::new(false);
        let ended = http
            .stream("/s")
            .unwrap()
            .count(|| is_enough.load(Ordering::Relaxed));
        assert!(ended.is_err(), "the server has ended it");
        is_enough.store(true, Ordering::Relaxed);
        let http = api(stream).connect().unwrap();
        let events = http.stream("/s").unwrap();
        assert_eq!(events.count(|| true).unwrap(), 0);
        let refused = api("HTTP/1.1 429 No\r\n\r\n").connect().unwrap();
        let why = refused.stream("/s").unwrap_err().to_string();
        assert!(why.contains("the status 429"), "{why}");
    }
}
