//! What stays on a server of somebody else's after a benchmark that fails in the middle.

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use stentor_tests::Plan;
use stentor_tests::process::{Finished, run};
use stentor_tests::raw::packet;
use stentor_tests::server::{Server, stentor};

use crate::faulty;

/// When it closes a connection.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// At each SUBSCRIBE, once something was retained.
    Subscriptions,
    /// All of them, and those that come later, at a message after so many retained ones.
    Everything { after: u64 },
}

/// Stands before a server, and closes connections.
struct Proxy {
    server: String,
    when: Break,
    retained: AtomicU64,
    is_closed: AtomicBool,
}

impl Proxy {
    /// Its URL. It listens until the test's process ends.
    fn start(server: &Server, when: Break) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("mqtt://{}", listener.local_addr().unwrap());
        let proxy = Arc::new(Self {
            server: server.address("mqtt"),
            when,
            retained: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        });
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let proxy = Arc::clone(&proxy);
                thread::spawn(move || proxy.serve(client));
            }
        });
        url
    }

    /// Until the client leaves, or is left.
    fn serve(&self, mut client: TcpStream) {
        let mut server = TcpStream::connect(&self.server).unwrap();
        let (mut answers, mut to_client) =
            (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || {
            // Either may be gone.
            let _ = io::copy(&mut answers, &mut to_client);
            let _ = to_client.shutdown(Shutdown::Both);
        });
        while let Ok((first, body)) = faulty::read(&mut client) {
            if self.closes(first) || server.write_all(&packet(first, &body)).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }

    /// Whether this packet is one too many.
    fn closes(&self, first: u8) -> bool {
        let is_retained = first >> 4 == 3 && first & 1 == 1;
        let count = u64::from(is_retained);
        let retained = self.retained.fetch_add(count, Ordering::Relaxed) + count;
        match self.when {
            Break::Subscriptions => first >> 4 == 8 && retained > 0,
            Break::Everything { after } => {
                if retained > after {
                    self.is_closed.store(true, Ordering::Relaxed);
                }
                self.is_closed.load(Ordering::Relaxed)
            }
        }
    }
}

fn recover(url: &str) -> Finished {
    let mut command = stentor();
    command.args(["bench", "recover", "--users", "2", "--subscriptions", "5"]);
    command.args(["--stored", "30", "--pairs", "1", "--no-floor"]);
    run(command.args(["--target", url]))
}

fn fanout(url: &str) -> Finished {
    let mut command = stentor();
    command.args(["bench", "fanout", "ice-1", "--retain", "--seconds", "1"]);
    command.args(["--warmup", "0", "--subscribers", "5", "--pairs", "1"]);
    run(command.args(["--no-floor", "--target", url]))
}

fn retained(server: &Server) -> u64 {
    let count = server.json(&["retained", "count"]);
    count["messages"].as_u64().unwrap()
}

#[test]
fn what_was_retained_is_cleared_after_a_failure() {
    let server = Plan::new().tcp().anonymous().start();
    let finished = recover(&Proxy::start(&server, Break::Subscriptions));
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    assert!(finished.stdout.contains("failed"), "{finished}");
    assert_eq!(retained(&server), 0, "{finished}");
    assert!(!finished.stderr.contains("retained clear"), "{finished}");
}

/// The server is out of reach: nobody but the reader can clear it.
#[test]
fn what_cannot_be_cleared_is_told() {
    // The fill of `recover` retains 40 messages.
    for (measure, after) in [(recover as fn(&str) -> Finished, 35), (fanout, 20)] {
        let server = Plan::new().tcp().anonymous().start();
        let finished = measure(&Proxy::start(&server, Break::Everything { after }));
        assert_eq!(finished.status.code(), Some(1), "{finished}");
        assert!(retained(&server) > 0, "{finished}");
        let told = finished.stderr.split_once("stentor retained clear '");
        let filter = told.and_then(|(_, rest)| rest.split_once('\''));
        let (filter, _) = filter.unwrap_or_else(|| panic!("{finished}"));
        server.json(&["retained", "clear", filter]);
        assert_eq!(retained(&server), 0, "{finished}");
    }
}
