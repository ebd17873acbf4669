//! What survives an orderly restart, and a kill.

use stentor_tests::{Plan, Server, Version};

use crate::support::{keep, snapshot};

fn start(sync: &str) -> Server {
    let config = format!("[retained]\nsync = \"{sync}\"\n");
    Plan::new().tcp().anonymous().config(&config).start()
}

#[test]
fn every_level_keeps_messages_over_restarts_and_kills() {
    for sync in ["never", "interval", "always"] {
        let mut server = start(sync);
        let mut expected = std::collections::BTreeMap::new();
        for round in 0..3 {
            let mut client = server.client(Version::V4, "p");
            for topic in 0..50 {
                let (topic, payload) = (format!("t/{topic}"), format!("{sync} {round} {topic}"));
                keep(&mut client, Version::V4, &topic, payload.as_bytes());
                expected.insert(topic, payload.into_bytes());
            }
            let cleared = format!("t/{round}");
            keep(&mut client, Version::V4, &cleared, b"");
            expected.remove(&cleared);
            drop(client);
            let plan = if round == 1 {
                server.kill()
            } else {
                server.stop_for_restart()
            };
            server = plan.start();
            assert_eq!(snapshot(&server, "#"), expected, "{sync}, round {round}");
        }
    }
}

#[test]
fn figures_of_the_server_itself_are_not_kept() {
    let server = Server::open();
    let mut client = server.client(Version::V4, "c");
    client.subscribe("$SYS/broker/uptime", 0);
    let _ = client.message();
    drop(client);
    let server = server.kill().arg("--shards").arg("1").start();
    let count = server.json(&["status", "--sample-ms", "0"])["retained"]["messages"].clone();
    let listed = server.json(&["topics", "$SYS", "--limit", "100000"]);
    let system = listed["retained"].as_array().map_or(0, Vec::len);
    assert!(count.as_u64() <= Some(system as u64), "{count} of {system}");
}

#[test]
fn a_message_expires_while_the_server_is_down_too() {
    let server = Server::open();
    let mut client = server.client(Version::V5, "p");
    // Expires after 1 second.
    let mut body = stentor_tests::raw::string("t/short");
    body.extend([0, 1, 5, 2, 0, 0, 0, 1]);
    body.extend(b"soon gone");
    client.send(&stentor_tests::raw::packet(0x33, &body));
    client.expect(4);
    keep(&mut client, Version::V5, "t/long", b"stays");
    drop(client);
    let server = server.kill().start();
    stentor_tests::raw::eventually("what has expired is not sent", || {
        let mut reader = server.client(Version::V5, "r");
        reader.subscribe("t/short", 0);
        reader.send(&[0xC0, 0]);
        reader.receive().kind() == 13
    });
    let mut reader = server.client(Version::V5, "r");
    reader.subscribe("t/long", 0);
    assert_eq!(reader.message().1, b"stays");
}

#[test]
fn a_second_server_on_the_folder_is_refused() {
    let server = Server::open();
    let folder = server.data_dir().join("retained");
    let config = format!("[retained]\ndir = \"{}\"\n", folder.display());
    let finished = Plan::new().tcp().anonymous().config(&config).refused();
    assert_eq!(finished.status.code(), Some(75), "{finished}");
    assert!(finished.refusal().contains("retained"));
}
