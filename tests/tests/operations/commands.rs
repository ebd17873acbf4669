//! `stentor status`, `clients` and `topics` against a running server.

use std::fs;

use stentor_tests::{Plan, Server, Version, process, raw, server};

#[test]
fn status_counts_connections_and_messages() {
    let server = Server::open();
    let mut client = server.client(Version::V5, "c");
    client.subscribe("t", 0);
    // Latencies are samples, so a few messages would yield none.
    for _ in 0..50 {
        client.publish("t", b"x");
        let _ = client.message();
    }
    let status = server.json(&["status"]);
    assert_eq!(status["clients_connected"], 1, "{status}");
    assert_eq!(status["sessions"], 1, "{status}");
    assert_eq!(status["subscriptions"], 1, "{status}");
    assert_eq!(status["messages_in"], 50, "{status}");
    assert_eq!(status["messages_out"], 50, "{status}");
    assert_eq!(status["bugs"], 0, "{status}");
    assert!(status["latency"]["samples"].as_u64() >= Some(1), "{status}");
    let first = server.control(&["status"]).success();
    for told in ["half of the messages", "memory for clients", "not needed"] {
        assert!(first.contains(told), "{told:?} is missing: {first}");
    }
    // A stranger reads it: what has to be known of the inside waits for --verbose.
    for inner in ["SHARD", "P50", "µs", "HELD", "mesh", "draining", "TURN"] {
        assert!(!first.contains(inner), "{inner:?}: {first}");
    }
    let more = server.control(&["status", "--verbose"]).success();
    assert!(more.contains("messages that wait for clients"), "{more}");
    let zone = server.json(&["status", "--zone", "default"]);
    assert_eq!(zone["zones"][0]["connections"], 1, "{zone}");
    let refused = server.control(&["status", "--zone", "gmae"]).refusal();
    assert!(refused.contains("no zone \"gmae\""), "{refused}");
}

#[test]
fn clients_are_listed_shown_and_kicked() {
    let server = Server::open();
    let mut kicked = server.client(Version::V5, "kicked");
    let mut other = server.client(Version::V4, "other");
    let clients = server.json(&["clients", "ls"]);
    assert_eq!(clients["total"], 2, "{clients}");
    let listed = server.control(&["clients", "list"]).success();
    assert!(listed.contains("kicked"), "{listed}");
    let shown = server.json(&["clients", "show", "kicked"]);
    assert!(shown.to_string().contains("kicked"), "{shown}");
    server.control(&["clients", "kick", "kicked"]).success();
    // [MQTT-3.14] 0x98, "administrative action".
    let packet = kicked.receive();
    assert_eq!(
        (packet.kind(), packet.body.first()),
        (14, Some(&0x98)),
        "{packet:?}"
    );
    kicked.closed();
    other.ping();
    server.control(&["clients", "kick", "nobody"]).refusal();
}

/// A client that is away has no connection to end.
#[test]
fn kicking_a_client_that_is_away_says_so() {
    let server = Server::open();
    let mut away = server.dial();
    away.login(Version::V4, "away", false);
    away.send(&[0xE0, 0]);
    away.closed();
    let text = server.control(&["clients", "kick", "away"]).refusal();
    assert!(
        text.contains("not connected") && text.contains("--end-session"),
        "{text}"
    );
    assert_eq!(server.json(&["clients", "ls"])["total"], 1);
    let ended = server
        .control(&["clients", "kick", "away", "--end-session"])
        .success();
    assert!(ended.contains("its session has ended"), "{ended}");
    assert_eq!(server.json(&["clients", "ls"])["total"], 0);
}

/// Two zones, each with a client of its own and one whose id both have.
#[test]
fn clients_of_other_zones_are_found_and_zones_have_names() {
    let text = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n[[zone]]\nname = \"game\"\n\
                [[zone]]\nname = \"shop\"\n";
    let server = Plan::new().config(text).start();
    let mut clients = Vec::new();
    for (user, id) in [
        ("game/bob", "bobx"),
        ("game/ann", "both"),
        ("shop/ann", "both"),
    ] {
        server
            .control(&["user", "add", user, "--no-password"])
            .success();
        let token = server.json(&["token", "create", user])["token"].clone();
        let token = token.as_str().expect("a token is shown").to_owned();
        let mut client = server.dial();
        let login = Some((user, token.as_str()));
        client.send(&raw::connect_as(Version::V5, id, true, login));
        assert_eq!(client.expect(2).body[1], 0, "{user}");
        client.speaks(Version::V5);
        clients.push(client);
    }
    clients[0].subscribe("$room/tea/#", 1);
    let shown = server.control(&["clients", "show", "bobx"]).success();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["zone game", "user bob", "$room/tea/# 1"] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    let refused = server
        .control(&["clients", "show", "bobx", "--zone", "shop"])
        .refusal();
    assert!(refused.contains("\"shop\""), "{refused}");
    let refused = server.control(&["clients", "kick", "both"]).refusal();
    assert!(
        refused.contains("game, shop") && refused.contains("--zone"),
        "{refused}"
    );
    let refused = server
        .control(&["clients", "kick", "both", "--zone", "shp"])
        .refusal();
    assert!(refused.contains("no zone \"shp\""), "{refused}");
    server
        .control(&["clients", "kick", "both", "--zone", "shop"])
        .success();
    clients[2].expect(14);
    clients[1].ping();
    // The administrator acts in the zone that it names.
    let rooms = server.control(&["room", "ls", "--zone", "game"]).success();
    assert_eq!(rooms, "lobby: 0 members\ntea: 1 member\n");
    let rooms = server.control(&["room", "ls"]).success();
    assert!(!rooms.contains("tea"), "{rooms}");
    let refused = server.control(&["room", "show", "tea"]).refusal();
    assert!(refused.contains("--zone NAME"), "{refused}");
    let args = ["room", "show", "tea", "--zone", "shop"];
    let refused = server.control(&args).refusal();
    let list = "`stentor room ls --zone shop`";
    assert!(
        refused.contains(list) && !refused.contains("NAME"),
        "{refused}"
    );
    server
        .control(&["room", "kick", "--zone", "game", "tea", "bob"])
        .success();
    server.control(&["clients", "kick", "bobx"]).success();
}

/// The names that mosquitto has, some of which only a whole server can fill.
#[test]
fn sys_topics_tell_memory_and_shared_subscriptions() {
    let server = Plan::new()
        .variable("STENTOR_SYS__INTERVAL", "1s")
        .tcp()
        .anonymous()
        .start();
    let mut client = server.client(Version::V5, "c");
    for filter in ["$share/g/a", "$share/h/a", "plain"] {
        client.subscribe(filter, 0);
    }
    // Others come as well, so nothing is asked of this one afterwards.
    let mut figures = server.client(Version::V5, "figures");
    figures.subscribe("$SYS/broker/#", 0);
    let mut heap = [0, 0];
    let mut shared = String::new();
    while heap[0] == 0 || heap[1] == 0 || shared != "2" {
        let (topic, payload) = figures.message();
        let value = String::from_utf8(payload).expect("figures are text");
        match topic.as_str() {
            "$SYS/broker/heap/current" => heap[0] = value.parse().expect("a number of bytes"),
            "$SYS/broker/heap/maximum" => heap[1] = value.parse().expect("a number of bytes"),
            "$SYS/broker/shared_subscriptions/count" => shared = value,
            _ => {}
        }
    }
    // A server with nothing in it takes more than one megabyte and less than a thousand.
    assert!(
        heap.iter().all(|bytes| (1 << 20..1 << 30).contains(bytes)),
        "{heap:?}"
    );
}

#[test]
fn topics_lists_filters_and_retained_messages() {
    let server = Server::open();
    let mut client = server.client(Version::V5, "c");
    client.subscribe("a/+", 0);
    client.send(&raw::publish(Version::V5, "kept/here", b"x", 1, true));
    client.expect(4);
    let topics = server.json(&["topics"]).to_string();
    assert!(
        topics.contains("a/+") && topics.contains("kept/here"),
        "{topics}"
    );
}

#[test]
fn commands_without_a_server_say_so() {
    let plan = Plan::new();
    let mut command = server::stentor();
    let command = command.args(["status", "--data-dir"]).arg(plan.data_dir());
    let text = process::run(command).refusal();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
}

#[test]
fn the_control_socket_is_private() {
    use std::os::unix::fs::PermissionsExt;

    let server = Server::open();
    let socket = fs::metadata(server.data_dir().join("control.sock")).expect("it is there");
    assert_eq!(
        socket.permissions().mode() & 0o007,
        0,
        "everybody may use the control socket"
    );
}

#[test]
fn the_configuration_file_names_the_folder_of_the_server() {
    let server = Server::open();
    let elsewhere = tempfile::tempdir().expect("a folder can be made");
    let file = elsewhere.path().join("stentor.toml");
    // What else is wrong in it is the server's business: one command asks what it thinks of it.
    let text = format!("data_dir = {:?}\nshards = 99\n", server.data_dir());
    fs::write(&file, text).expect("a file can be written");
    for words in [
        &["reload"][..],
        &["status"],
        &["clients", "ls"],
        &["topics"],
        &["adaptor", "ls"],
        &["adaptor", "reload"],
        &["zone", "show"],
    ] {
        let command = || {
            let mut command = server::stentor();
            command.current_dir(elsewhere.path()).args(words);
            command
        };
        process::run(command().arg("--config").arg(&file)).success();
        process::run(command().env("STENTOR_CONFIG", &file)).success();
        let said = process::run(&mut command()).refusal();
        assert!(said.contains("--config"), "{words:?}: {said}");
    }
}
