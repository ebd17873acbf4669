//! What survives an orderly restart, and a kill.

use stentor_tests::raw::eventually;
use stentor_tests::{Plan, Server, Version, process, tools};

use crate::{come_back, status, with_will};

fn start() -> Server {
    Plan::new().tcp().anonymous().start()
}

/// Ends the server in order or by a kill, and starts it with another number of shards.
fn restart(server: Server, round: usize) -> Server {
    let plan = match round % 2 {
        0 => server.kill(),
        _ => server.stop_for_restart(),
    };
    plan.variable("STENTOR_SHARDS", ["3", "1", "2"][round % 3])
        .start()
}

#[test]
fn subscriptions_survive_kills_and_stops_and_other_numbers_of_shards() {
    let mut server = start();
    for (version, id) in [(Version::V4, "four"), (Version::V5, "five")] {
        let (mut client, was_there) = come_back(&server, version, id);
        assert!(!was_there);
        client.subscribe(&format!("news/{id}/+"), 1);
        client.subscribe(&format!("$share/crew/jobs/{id}"), 1);
        client.subscribe(&format!("gone/{id}"), 1);
        client.send(&unsubscribe(version, &format!("gone/{id}")));
        client.expect(11);
    }
    for round in 0..4 {
        server = restart(server, round);
        assert_eq!(status(&server)["session_store"]["found_at_start"], 2);
        let mut publisher = server.client(Version::V4, "p");
        for id in ["four", "five"] {
            for topic in ["gone/ID", "news/ID/x", "jobs/ID"] {
                publisher.publish_surely(&topic.replace("ID", id), &[b'0' + round as u8]);
            }
        }
        for (version, id) in [(Version::V4, "four"), (Version::V5, "five")] {
            let (mut client, was_there) = come_back(&server, version, id);
            assert!(was_there, "{id} in round {round}");
            let mut got = Vec::new();
            while got.len() < 2 {
                let packet = client.expect(3);
                let packet_id = packet_id(&packet.body);
                let is_again = packet.first & 8 != 0;
                let (topic, payload) = packet.message(version);
                client.send(&[&[0x40, 2][..], &packet_id].concat());
                if is_again && round > 0 && payload == [b'0' + round as u8 - 1] {
                    // The acknowledgement came just before the kill.
                    continue;
                }
                assert_eq!(payload, [b'0' + round as u8]);
                got.push(topic);
            }
            got.sort();
            assert_eq!(got, [format!("jobs/{id}"), format!("news/{id}/x")]);
            client.ping();
        }
    }
}

fn packet_id(body: &[u8]) -> [u8; 2] {
    let topic = usize::from(u16::from_be_bytes([body[0], body[1]]));
    [body[2 + topic], body[3 + topic]]
}

fn unsubscribe(version: Version, filter: &str) -> Vec<u8> {
    let mut body = vec![0, 9];
    if version == Version::V5 {
        body.push(0);
    }
    body.extend(stentor_tests::raw::string(filter));
    stentor_tests::raw::packet(0xA2, &body)
}

#[test]
fn what_has_ended_does_not_come_back() {
    let mut server = start();
    for id in ["cleaned", "kicked", "lasts"] {
        come_back(&server, Version::V5, id).0.subscribe("x", 1);
    }
    // Ended by a clean start, and by an operator.
    drop(server.client(Version::V5, "cleaned"));
    server
        .control(&["clients", "kick", "kicked", "--end-session"])
        .success();
    // It never lasted.
    server.client(Version::V4, "clean").subscribe("x", 1);
    for round in 0..2 {
        server = restart(server, round);
        for id in ["cleaned", "kicked", "clean"] {
            let mut client = server.dial();
            // Without an expiry, so that it is not there the next time either.
            let connack = client.login(Version::V5, id, true);
            assert_eq!(connack.body[0], 0, "{id}");
        }
        assert!(come_back(&server, Version::V5, "lasts").1);
        assert_eq!(status(&server)["session_store"]["found_at_start"], 1);
    }
}

/// An hour is not over, and a second is.
#[test]
fn a_session_expires_though_the_server_was_down() {
    let server = start();
    drop(with_will(&server, "short", "w", 1));
    come_back(&server, Version::V5, "long");
    let server = server.kill().start();
    eventually("the short one ends", || status(&server)["sessions"] == 1);
    assert!(come_back(&server, Version::V5, "long").1);
}

#[test]
fn users_keep_their_sessions_and_their_rights() {
    let hash = stentor_tests::server::hash_password("secret");
    let config = format!("[[user]]\nname = \"ann\"\npassword_hash = \"{hash}\"\n");
    let mut server = Plan::new().tcp().anonymous().config(&config).start();
    let login = |server: &Server| {
        let mut client = server.dial();
        client.speaks(Version::V5);
        let login = Some(("ann", "secret"));
        client.send(&stentor_tests::raw::connect_as(
            Version::V5,
            "c",
            false,
            login,
        ));
        let connack = client.expect(2);
        assert_eq!(connack.body[1], 0, "{connack:?}");
        (client, connack.body[0] == 1)
    };
    login(&server).0.subscribe("x", 1);
    for round in 0..2 {
        server = restart(server, round);
        // Somebody else has another session with this client id.
        assert!(!come_back(&server, Version::V5, "c").1);
        drop(server.client(Version::V5, "c"));
        server
            .client(Version::V4, "p")
            .publish_surely("x", b"hello");
        let (mut client, was_there) = login(&server);
        assert!(was_there);
        let packet = client.expect(3);
        client.send(&[&[0x40, 2][..], &packet_id(&packet.body)].concat());
        assert_eq!(packet.message(Version::V5).1, b"hello");
        client.ping();
    }
}

#[test]
fn mosquitto_sub_finds_its_session_after_a_kill() {
    let mut server = start();
    let sub = |server: &Server, more: &[&str]| {
        let mut command = tools::mosquitto("mosquitto_sub");
        command.args(["-h", "127.0.0.1", "-p", &server.port("mqtt")]);
        command.args(["-c", "-i", "fetcher", "-q", "1", "-t", "fetch/#"]);
        process::run(command.args(more)).success()
    };
    sub(&server, &["-E"]);
    for round in 0..2 {
        server = restart(server, round);
        let mut command = tools::mosquitto("mosquitto_pub");
        command.args(["-h", "127.0.0.1", "-p", &server.port("mqtt")]);
        command.args(["-q", "1", "-t", "fetch/it", "-m", "after the kill"]);
        process::run(&mut command).success();
        let got = sub(&server, &["-C", "1", "-F", "%t %p"]);
        assert_eq!(got, "fetch/it after the kill\n");
    }
}
