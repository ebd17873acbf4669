//! What each kind of listener, and the control socket, make of strangers.

use std::iter;

use stentor_tests::{Plan, Raw, Server, Version, raw};

use crate::Healthy;

/// A server with a listener of each kind, whose Unix sockets lie in its folder.
fn server(config: &str) -> Server {
    let (plan, _) = Plan::new().config(config).certificates();
    let socket = |scheme: &str, name: &str| {
        let path = plan.folder().join(name);
        format!("{scheme}:{}", path.display())
    };
    let (mqtt, call) = (socket("unix", "mqtt"), socket("call+unix", "call"));
    ["mqtt", "mqtts", "ws", "wss", "call"]
        .iter()
        .fold(plan, |plan, scheme| {
            plan.listen(&format!("{scheme}://127.0.0.1:0"))
        })
        .listen(&mqtt)
        .listen(&call)
        .anonymous()
        .start()
}

/// A connection to each of them, with its name.
fn listeners(server: &Server) -> impl Iterator<Item = (String, Raw)> {
    let control = server.data_dir().join("control.sock");
    let listeners = server.urls().iter().map(|url| {
        let (scheme, rest) = url.split_once(':').expect("a URL has a scheme");
        let listener = match rest.strip_prefix("//") {
            Some(address) => Raw::tcp(address),
            None => Raw::unix(rest.as_ref()),
        };
        (scheme.to_owned(), listener)
    });
    listeners.chain(iter::once_with(move || {
        ("control".to_owned(), Raw::unix(&control))
    }))
}

fn garbage() -> Vec<Vec<u8>> {
    let upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n".to_vec();
    vec![
        vec![0; 5_000],
        vec![0xFF; 5_000],
        // A remaining length that is too long, and one that is longer than anything may be.
        vec![0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        vec![0x30, 0xFF, 0xFF, 0xFF, 0x7F],
        raw::connect(Version::V4, "twice", true).repeat(2),
        raw::connect(Version::V5, "half", true)[..6].to_vec(),
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello".to_vec(),
        // A header without end, and headers without end.
        [upgrade.clone(), vec![b'a'; 300_000]].concat(),
        [upgrade, b"a: b\r\n".repeat(20_000)].concat(),
        // The first record of a TLS handshake, and it says that it is empty.
        vec![0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0],
        b"{\"v\":1,\"verb\":\"no such verb\"}\n{\"v\":99,\"verb\":\"status\"}\n{}\n[1]\n\n"
            .to_vec(),
        b"[".repeat(60_000),
        vec![b'x'; 10_000_000],
    ]
}

#[test]
fn garbage_at_any_listener_disturbs_nobody() {
    let server = server("");
    let mut healthy = Healthy::new(&server);
    for bytes in garbage() {
        for (_, mut listener) in listeners(&server) {
            // The server may close while it is sent.
            let _ = listener.try_send(&bytes);
            listener.half_close_softly();
            listener.closed();
        }
        healthy.check();
    }
    server.control(&["status"]).success();
}

/// A client that says something and then nothing is sent away, but by the control socket, which has
/// a limit of minutes and few places, and lets only the server's own user in.
#[test]
fn a_stranger_who_does_not_get_to_the_point_is_sent_away() {
    let server = server("[limits]\nlogin_timeout = \"1s\"\n");
    let mut healthy = Healthy::new(&server);
    let mut strangers: Vec<_> = listeners(&server)
        .filter(|(name, _)| !name.starts_with("call") && name != "control")
        .collect();
    for (name, listener) in &mut strangers {
        listener.send(match name.as_str() {
            "ws" => b"GET / HTTP/1.1\r\nHost: x\r\n",
            "mqtts" | "wss" => &[0x16, 3, 1, 0, 200, 1],
            _ => &[0x10, 100, 0, 4, b'M'],
        });
    }
    for (_, mut listener) in strangers {
        listener.closed();
    }
    healthy.check();
}

#[test]
fn a_subscriber_on_a_unix_socket_that_never_reads_harms_nobody() {
    let config = "shutdown_timeout = \"0s\"\n[limits]\nqueue_bytes = \"2MiB\"\n";
    let server = server(config);
    let mut healthy = Healthy::new(&server);
    let path = server.url("unix").trim_start_matches("unix:").to_owned();
    for (client_id, qos) in [("deaf-0", 0), ("deaf-1", 1)] {
        let mut deaf = Raw::unix(path.as_ref());
        deaf.login(Version::V5, client_id, true);
        deaf.subscribe("flood", qos);
        let mut publisher = Raw::unix(path.as_ref());
        publisher.login(Version::V4, "flooder", true);
        for _ in 0..60 {
            publisher.publish_surely("flood", &[b'x'; 100_000]);
        }
        healthy.check();
        if qos > 0 {
            deaf.closed();
            server.wait_log(0, "slow-client");
        }
    }
}

/// A request of any length costs the server a bounded piece of memory, and is answered or ended.
#[test]
fn the_control_socket_answers_what_it_does_not_understand() {
    let server = Server::open();
    let path = server.data_dir().join("control.sock");
    for (request, answer) in [
        ("{\"v\":1,\"verb\":\"dance\"}", "dance"),
        ("{\"v\":99,\"verb\":\"status\"}", "version"),
        ("{\"v\":1,\"verb\":5}", "a request looks like"),
        ("status", "a request looks like"),
    ] {
        let mut control = Raw::unix(&path);
        control.send(format!("{request}\n").as_bytes());
        let line = String::from_utf8(control.until(b"\n")).expect("text");
        assert!(
            line.contains("\"error\":") && line.contains(answer),
            "{line}"
        );
    }
}
