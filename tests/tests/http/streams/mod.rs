//! Event streams: server-sent events, read by curl.

mod bounds;
mod events;
mod figures;
mod memory;
mod rights;
mod subscribe;
mod trace;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stentor_tests::Server;

use super::api::{get, role, token};

/// An event as it came.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) name: Option<String>,
    id: Option<String>,
    pub(super) data: Value,
}

/// A stream that curl reads.
pub(super) struct Stream {
    curl: Child,
    lines: BufReader<ChildStdout>,
}

impl Stream {
    /// The next event; nothing at the end of the stream.
    #[track_caller]
    fn try_next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("curl is read");
            if read == 0 {
                return None;
            }
            let (field, value) = line.trim_end().split_once(": ").unwrap_or_default();
            match field {
                "data" => event.data = serde_json::from_str(value).expect("data is JSON"),
                "event" => event.name = Some(value.to_owned()),
                "id" => event.id = Some(value.to_owned()),
                // The end of an event, if it has begun, or of a comment.
                "" if event != Event::default() => return Some(event),
                _ => {}
            }
        }
    }

    #[track_caller]
    pub(super) fn next(&mut self) -> Event {
        self.try_next().expect("the stream goes on")
    }

    /// The next event of this name, which others may come before.
    #[track_caller]
    fn named(&mut self, name: &str) -> Event {
        loop {
            let event = self.next();
            if event.name.as_deref() == Some(name) {
                return event;
            }
        }
    }

    /// What the last event says.
    #[track_caller]
    fn end(&mut self) -> Value {
        let end = self.named("end");
        assert_eq!(self.try_next(), None, "this was the last one");
        end.data
    }

    /// A server that stops ends its streams, and does not wait for clients that take nothing.
    #[track_caller]
    fn ends_with(&mut self, server: &mut Server) {
        let begun = Instant::now();
        assert!(server.stop().success());
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(self.end()["code"], "stopping");
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}

/// Opens a stream, with more options of curl.
#[track_caller]
fn open_with(server: &Server, path: &str, token: &str, options: &[&str]) -> Stream {
    let url = format!("{}/api/v1/{path}", server.url("http"));
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--fail",
        "--no-buffer",
        "--max-time",
        "60",
    ]);
    curl.args(options).arg("--header");
    curl.arg(format!("Authorization: Bearer {token}")).arg(url);
    let mut curl = curl.stdout(Stdio::piped()).spawn().expect("curl is there");
    let out = curl.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(out);
    // The first bytes say that it is open.
    lines.fill_buf().expect("curl is read");
    Stream { curl, lines }
}

#[track_caller]
pub(super) fn open(server: &Server, path: &str, token: &str) -> Stream {
    open_with(server, path, token, &[])
}
