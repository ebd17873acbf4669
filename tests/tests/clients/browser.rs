//! The README's page with MQTT.js in a real browser.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use nix::sys::signal::{Signal, killpg};
use stentor_tests::{DEADLINE, Plan, Server, Version, process, tools};

/// The page that the README shows, with another server in it.
fn page(url: &str) -> String {
    let text = fs::read_to_string(tools::project().join("README.md"));
    let text = text.expect("the README can be read");
    let (_, rest) = text.split_once("```html\n").expect("it shows a page");
    let (page, _) = rest.split_once("```").expect("the page ends");
    let default = "ws://localhost:8083";
    assert!(page.contains(default), "{page}");
    page.replace(default, url)
}

/// Serves the page at `/` and MQTT.js beside it, as any web server would; returns its address.
fn serve(page: String) -> String {
    let library = tools::folder().join("js/node_modules/mqtt/dist/mqtt.esm.js");
    let library = fs::read_to_string(library).expect("tests/install-tools.sh installs MQTT.js");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("a listener has an address");
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let body = |path: &str| match path {
                "/" => Some(("text/html", page.clone())),
                "/mqtt.esm.js" => Some(("text/javascript", library.clone())),
                _ => None,
            };
            // A browser that has gone is told nothing.
            let _ = answer(client, body);
        }
    });
    format!("http://localhost:{}/", address.port())
}

fn answer(
    mut client: TcpStream,
    body: impl Fn(&str) -> Option<(&'static str, String)>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or("/");
    let (status, (kind, text)) = match body(path) {
        Some(found) => ("200 OK", found),
        None => ("404 Not Found", ("text/plain", String::new())),
    };
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    )
}

/// A browser with one page open, and what that page writes to its console.
struct Browser {
    child: Child,
    lines: Receiver<String>,
    seen: String,
}

impl Browser {
    fn open(url: &str, profile: &std::path::Path) -> Self {
        let mut command: Command = tools::browser();
        let profile = format!("--user-data-dir={}", profile.display());
        // A port for a debugger keeps the page open; it is not used.
        let mut child = command
            .args([&profile, "--remote-debugging-port=0", url])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A browser is many processes: they end as a group.
            .process_group(0)
            .spawn()
            .expect("a browser starts");
        let output = child.stderr.take().expect("its output is captured");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The test may be over.
                let _ = sender.send(line);
            }
        });
        Self {
            child,
            lines,
            seen: String::new(),
        }
    }

    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + DEADLINE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no {text:?} came:\n{}", self.seen));
            self.seen.push_str(&line);
            self.seen.push('\n');
            if line.contains(text) {
                return;
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = killpg(process::pid_of(&self.child), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

fn server() -> Server {
    let plan = Plan::new().tcp().listen("ws://127.0.0.1:0");
    plan.anonymous().start()
}

#[test]
fn the_page_of_the_readme_hears_and_speaks() {
    let server = server();
    let mut here = server.client(Version::V5, "here");
    here.subscribe("greeting", 0);
    let url = format!("ws://localhost:{}", server.port("ws"));
    let mut browser = Browser::open(&serve(page(&url)), &server.folder().join("profile"));
    let (topic, greeting) = here.message();
    assert_eq!(
        (topic.as_str(), greeting.as_slice()),
        ("greeting", &b"hello from a page"[..])
    );
    // It subscribes before it publishes, so this reaches it.
    here.publish("hello", b"from the test");
    browser.wait_for("hello from the test");
}

/// The browser itself says whose page it is, and the server refuses strangers.
#[test]
fn a_page_from_elsewhere_is_refused_and_the_log_says_how_to_let_it_in() {
    let server = server();
    let url = format!("ws://localhost:{}", server.port("ws"));
    let page = serve(page(&url)).replace("localhost", "elsewhere.localhost.test");
    let profile = server.folder().join("profile");
    let _browser = Browser::open(&page, &profile);
    let log = server.wait_log(0, "allowed_origins");
    assert!(log.contains("http://elsewhere.localhost.test:"), "{log}");
}
