//! HTTP for adaptors: one request to a host on their list, one answer, within a deadline.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The longest answer, head included.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    host: String,
    port: u16,
    path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// A request to a URL `http://HOST[:PORT][/PATH]` whose host is on the list.
    pub(super) fn new(url: &str, hosts: &[String]) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            format!("{url:?} is not http://…; for https put a local proxy in front of it")
        })?;
        if url.contains(|c: char| c.is_control() || c == ' ') {
            return Err("the URL has spaces or control characters".to_owned());
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') && !port.contains(']') => {
                let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
                (host, port)
            }
            _ => (authority, 80),
        };
        let exact = format!("{host}:{port}");
        if host.is_empty() || !hosts.iter().any(|known| *known == host || *known == exact) {
            return Err(format!("{exact} is not among the adaptor's `http` hosts"));
        }
        Ok(Self {
            method: "GET".to_owned(),
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Sends it and waits for the answer.
    pub(super) fn send(&self, deadline: Instant) -> Result<Reply, String> {
        let head = self.head()?;
        let failed = |error: std::io::Error| format!("{}:{}: {error}", self.host, self.port);
        let name = self.host.trim_start_matches('[').trim_end_matches(']');
        let addresses = (name, self.port).to_socket_addrs().map_err(failed)?;
        let mut last = format!("{}:{}: there is no such host", self.host, self.port);
        for address in addresses {
            match TcpStream::connect_timeout(&address, left(deadline)?) {
                Ok(stream) => return exchange(stream, &head, &self.body, deadline),
                Err(error) => last = failed(error),
            }
        }
        Err(last)
    }

    fn head(&self) -> Result<String, String> {
        let is_token = |text: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            !text.is_empty() && text.len() <= 64 && text.chars().all(fits)
        };
        if !is_token(&self.method) {
            return Err("the method is no word".to_owned());
        }
        // By 1.0 the answer is neither in chunks nor followed by another one.
        let mut head = format!(
            "{} {} HTTP/1.0\r\nHost: {}:{}\r\nContent-Length: {}\r\n",
            self.method.to_uppercase(),
            self.path,
            self.host,
            self.port,
            self.body.len()
        );
        for (name, value) in &self.headers {
            if !is_token(name) || value.contains(char::is_control) || value.len() > 8_192 {
                return Err(format!(
                    "the header {name:?} has a name or value that none has"
                ));
            }
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        Ok(head)
    }
}

/// The time that is left.
fn left(deadline: Instant) -> Result<Duration, String> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err("there was no answer in time".to_owned());
    }
    Ok(left)
}

fn exchange(
    mut stream: TcpStream,
    head: &str,
    body: &[u8],
    deadline: Instant,
) -> Result<Reply, String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            "there was no answer in time".to_owned()
        }
        _ => error.to_string(),
    };
    stream
        .set_write_timeout(Some(left(deadline)?))
        .map_err(failed)?;
    stream.write_all(head.as_bytes()).map_err(failed)?;
    stream.write_all(body).map_err(failed)?;
    let mut answer = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        stream
            .set_read_timeout(Some(left(deadline)?))
            .map_err(failed)?;
        let len = stream.read(&mut buffer).map_err(failed)?;
        if len == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..len]);
        if answer.len() > ANSWER_BYTES_MAX {
            return Err("the answer is larger than 1 MiB".to_owned());
        }
        if is_whole(&answer) {
            break;
        }
    }
    parse(&answer).ok_or_else(|| "the answer is not HTTP".to_owned())
}

fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    Some((head, answer.get(end + 4..)?))
}

fn length(head: &str) -> Option<usize> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok()).flatten()
    })
}

/// Whether an answer that says its length is all there.
fn is_whole(answer: &[u8]) -> bool {
    split(answer).is_some_and(|(head, body)| length(head).is_some_and(|len| body.len() >= len))
}

fn parse(answer: &[u8]) -> Option<Reply> {
    let (head, body) = split(answer)?;
    let mut words = head.lines().next()?.split(' ');
    if !words.next()?.starts_with("HTTP/1.") {
        return None;
    }
    let status = words.next()?.parse().ok()?;
    let body = length(head).and_then(|len| body.get(..len)).unwrap_or(body);
    Some(Reply {
        status,
        body: body.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn hosts() -> Vec<String> {
        vec!["localhost".to_owned(), "10.0.0.1:8080".to_owned()]
    }

    #[test]
    fn only_hosts_on_the_list_are_called() {
        for (url, taken) in [
            ("http://localhost/x", true),
            ("http://localhost:81", true),
            ("http://10.0.0.1:8080/", true),
            ("http://10.0.0.1/", false),
            ("http://localhost.evil/", false),
            ("http://evil@localhost/", false),
            ("https://localhost/", false),
            ("http:///x", false),
            ("http://localhost/a b", false),
            ("http://localhost:x/", false),
        ] {
            assert_eq!(Request::new(url, &hosts()).is_ok(), taken, "{url}");
        }
    }

    #[test]
    fn headers_begin_no_other_request() {
        let mut request = Request::new("http://localhost/", &hosts()).unwrap();
        request.headers.push(("X".into(), "a\r\nY: b".into()));
        assert!(request.head().is_err());
        request.headers[0] = ("X: y".into(), "a".into());
        assert!(request.head().is_err());
        request.headers.clear();
        request.method = "GET / HTTP/1.1\r\n".into();
        assert!(request.head().is_err());
    }

    #[test]
    fn an_answer_is_read_and_a_silent_server_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/login?x=1", listener.local_addr().unwrap());
        let hosts = vec!["127.0.0.1".to_owned()];
        let mut request = Request::new(&url, &hosts).unwrap();
        request.method = "post".into();
        request.body = b"name=ann".to_vec();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = Vec::new();
            let mut byte = [0];
            while !text.ends_with(b"name=ann") {
                stream.read_exact(&mut byte).unwrap();
                text.push(byte[0]);
            }
            let said = b"HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nnope, and more";
            stream.write_all(said).unwrap();
            // The next one gets no answer.
            let silent = listener.accept().unwrap();
            (String::from_utf8(text).unwrap(), silent)
        });
        let soon = || Instant::now() + Duration::from_secs(30);
        let reply = request.send(soon()).unwrap();
        assert_eq!((reply.status, &reply.body[..]), (403, &b"nope"[..]));
        let late = request.send(Instant::now() + Duration::from_millis(100));
        assert_eq!(late, Err("there was no answer in time".to_owned()));
        let (text, _) = server.join().unwrap();
        assert!(text.starts_with("POST /login?x=1 HTTP/1.0\r\n"), "{text}");
        assert!(request.send(Instant::now()).is_err());
    }

    #[test]
    fn what_is_no_http_is_told() {
        for bytes in [
            &b"hello"[..],
            b"HTTP/1.0 x\r\n\r\n",
            b"SSH-2.0\r\n\r\n",
            b"",
        ] {
            assert_eq!(parse(bytes), None);
        }
        let bare = parse(b"HTTP/1.0 200 OK\r\n\r\nall").unwrap();
        assert_eq!(bare.body, b"all");
    }
}
