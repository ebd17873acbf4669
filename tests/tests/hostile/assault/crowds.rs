//! Many connections that do at the same moment what is cheap for each of them.

use std::thread;
use std::time::{Duration, Instant};

use stentor_tests::raw::{connect, connect_with_will, eventually, publish};
use stentor_tests::{Raw, Server, Version};

use super::{MIB, QUEUE, by_alias, granted, login, send_and_await, set_alias, subscribe_all};
use crate::bystander::Scene;

/// Sends the same bytes by all connections before any of them is waited for.
fn send_by_all(clients: &mut [Raw], bytes: &[u8]) {
    for client in clients.iter_mut() {
        client.send(bytes);
    }
    for client in clients {
        client.ping();
    }
}

/// Clients that get what is published below `flood`.
fn flooded(server: &Server, count: usize) -> Vec<Raw> {
    let subscribe = subscribe_all(&[], ["flood/#".to_owned()]);
    let one = |number| {
        let mut client = login(server, &format!("subscriber-{number}"));
        assert_eq!(granted(&mut client, &subscribe), 1);
        client
    };
    (0..count).map(one).collect()
}

/// All filters of a session stand in the index, and are taken out when its connection ends.
#[test]
fn many_sessions_with_many_filters_end_at_once() {
    const SESSIONS: usize = 40;
    const FILTERS: usize = 5_000;
    let mut scene = Scene::new("");
    scene.endures(96 * MIB, |server| {
        let mut clients: Vec<_> = (0..SESSIONS)
            .map(|number| login(server, &format!("leaving-{number}")))
            .collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let filters = (0..FILTERS).map(|filter| format!("{number}/{filter}"));
            assert_eq!(granted(client, &subscribe_all(&[], filters)), FILTERS);
        }
        drop(clients);
        eventually("no filter is left", || {
            server.json(&["status", "--sample-ms", "0"])["subscriptions"] == 0
        });
    });
}

/// A hundred sockets connect with one client id at the same moment, again and again: with a session
/// that has filters and messages that wait, or without it.
#[test]
fn one_client_id_is_taken_over_again_and_again() {
    const ROUNDS: usize = 12;
    const SOCKETS: usize = 100;
    let mut scene = Scene::new("");
    scene.endures(96 * MIB, |server| {
        let filters = (0..500).map(|filter| format!("filter/{filter}"));
        let subscribe = subscribe_all(&[], filters.chain(["queue/#".to_owned()]));
        let mut publisher = login(server, "publisher");
        let waiting = publish(Version::V5, "queue/1", &[b'x'; 50], 0, false).repeat(200);
        for round in 0..ROUNDS {
            let mut sockets: Vec<_> = (0..SOCKETS).map(|_| server.dial()).collect();
            for (number, socket) in sockets.iter_mut().enumerate() {
                let mut bytes = connect(Version::V5, "victim", (round + number) % 2 == 0);
                if number % 4 == 0 {
                    bytes.extend(&subscribe);
                }
                // The server may have taken it over already.
                let _ = socket.try_send(&bytes);
            }
            publisher.send(&waiting);
            publisher.ping();
        }
    });
}

/// Clients that read nothing are taken over. Their queues of tiny messages are final outputs that
/// nobody reads either: they are dropped two seconds later, at the same time.
#[test]
fn many_full_queues_are_given_up_at_once() {
    const CLIENTS: usize = 24;
    const MESSAGES: usize = 12_000;
    let mut scene = Scene::new(QUEUE);
    scene.endures(256 * MIB, |server| {
        let deaf = flooded(server, CLIENTS);
        let mut publisher = login(server, "publisher");
        // To two topics in turn, so that each message is a piece of its own.
        let both = ["flood/a", "flood/b"].map(|topic| publish(Version::V5, topic, b"", 0, false));
        send_and_await(&mut publisher, &both.concat().repeat(MESSAGES / 2));
        let newcomers: Vec<_> = (0..CLIENTS)
            .map(|number| login(server, &format!("subscriber-{number}")))
            .collect();
        eventually("no final_output is left", || {
            server.json(&["status", "--sample-ms", "0"])["memory"]["by_kind"]["draining"] == 0
        });
        drop((deaf, newcomers));
    });
}

/// Messages of nine bytes that nobody gets.
#[test]
fn many_publishers_send_their_smallest_messages_at_once() {
    let mut scene = Scene::new("");
    scene.endures(64 * MIB, |server| {
        let mut clients: Vec<_> = (0..150)
            .map(|number| login(server, &format!("publisher-{number}")))
            .collect();
        for client in &mut clients {
            client.send(&set_alias("small", false, b""));
        }
        send_by_all(&mut clients, &by_alias(false, b"").repeat(12_000));
    });
}

/// Each packet has a few bytes and stands for a name of 4 KiB, which is kept and forgotten again:
/// the store has 64 MiB that wait to be freed, and segments that are half as large again.
#[test]
fn many_publishers_keep_and_clear_long_names_at_once() {
    let mut scene = Scene::new("").beside_the_disk();
    scene.endures(192 * MIB, |server| {
        let mut clients: Vec<_> = (0..48)
            .map(|number| login(server, &format!("publisher-{number}")))
            .collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let name = format!(
                "{number:02}/{}",
                "n/l".repeat(9).replace('l', &"o".repeat(420))
            );
            client.send(&set_alias(&name, true, b"v"));
        }
        let pair = [by_alias(true, b""), by_alias(true, b"v")].concat();
        send_by_all(&mut clients, &pair.repeat(3_000));
    });
}

/// A publisher changes its topic with each message, so that none goes with another, and has more
/// subscribers than a machine's connections to one process usually are.
#[test]
fn a_publisher_floods_many_subscribers() {
    let mut scene = Scene::new("");
    scene.endures(256 * MIB, |server| {
        let _subscribers = flooded(server, 400);
        let mut publisher = login(server, "publisher");
        for round in 0..4 {
            let flood: Vec<u8> = (0..1_000)
                .flat_map(|number| {
                    let topic = format!("flood/{}", number % 7);
                    publish(Version::V5, &topic, format!("{round}").as_bytes(), 0, false)
                })
                .collect();
            publisher.send(&flood);
        }
        publisher.ping();
    });
}

/// Each will goes to all that are there still, and the end of each of these has one to be sent.
#[test]
fn many_clients_whose_wills_go_to_all_of_them_end_at_once() {
    const CLIENTS: usize = 1_500;
    let mut scene = Scene::new("");
    scene.endures(96 * MIB, |server| {
        let mut witness = login(server, "witness");
        witness.subscribe("will/#", 0);
        let mut clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut client = server.dial();
                client.send(&connect_with_will(&format!("leaving-{number}"), "will/x"));
                assert_eq!(client.expect(2).body[1], 0, "{number} is let in");
                client
            })
            .collect();
        for client in &mut clients {
            let filters = ["will/#".to_owned()];
            assert_eq!(granted(client, &subscribe_all(&[], filters)), 1);
        }
        drop(clients);
        for _ in 0..CLIENTS {
            assert_eq!(witness.message(), ("will/x".to_owned(), b"gone".to_vec()));
        }
    });
}

/// What each has sent before is read first, and goes to many, who read nothing of it.
#[test]
fn many_publishers_connect_again_at_once() {
    const PUBLISHERS: usize = 12;
    let mut scene = Scene::new("");
    scene.endures(512 * MIB, |server| {
        let _subscribers = flooded(server, 300);
        let flood = [
            publish(Version::V5, "flood/a", b"1", 0, false),
            publish(Version::V5, "flood/b", b"2", 0, false),
        ];
        let flood = flood.concat().repeat(3_000);
        let ids: Vec<_> = (0..PUBLISHERS)
            .map(|number| format!("again-{number}"))
            .collect();
        let mut publishers: Vec<_> = ids.iter().map(|id| login(server, id)).collect();
        for publisher in &mut publishers {
            publisher.send(&flood);
        }
        let mut successors: Vec<_> = ids.iter().map(|id| login(server, id)).collect();
        for successor in &mut successors {
            successor.ping();
        }
    });
}

/// A message that takes long to write, because it is large and goes to very many.
#[test]
fn large_messages_to_many_subscribers() {
    const SUBSCRIBERS: usize = 1_200;
    const MESSAGES: usize = 3;
    let mut scene = Scene::new("");
    scene.endures(64 * MIB, |server| {
        let mut subscribers = flooded(server, SUBSCRIBERS);
        let mut publisher = login(server, "publisher");
        let large = vec![b'x'; 100_000];
        let message = publish(Version::V5, "flood/a", &large, 0, false);
        for _ in 0..MESSAGES {
            send_and_await(&mut publisher, &message);
            for client in &mut subscribers {
                assert_eq!(client.expect(3).body.len(), 2 + 7 + 1 + large.len());
            }
        }
    });
}

/// A message of the largest size takes many turns to write to all. Nobody else waits until that is
/// done.
#[test]
fn the_largest_messages_to_many_subscribers() {
    const SUBSCRIBERS: usize = 300;
    const MESSAGES: usize = 6;
    const READERS: usize = 4;
    /// What a busy machine makes of some turns.
    const FLOOR: Duration = Duration::from_millis(50);
    let mut scene = Scene::new("").however_long();
    let took = scene.endures(64 * MIB, |server| {
        let mut subscribers = flooded(server, SUBSCRIBERS);
        let mut publisher = login(server, "publisher");
        let large = vec![b'x'; 1_500_000];
        let message = publish(Version::V5, "flood/a", &large, 0, false);
        let mut took = Duration::ZERO;
        for _ in 0..MESSAGES {
            send_and_await(&mut publisher, &message);
            let began = Instant::now();
            thread::scope(|scope| {
                for clients in subscribers.chunks_mut(SUBSCRIBERS / READERS) {
                    let len = 2 + 7 + 1 + large.len();
                    scope.spawn(move || {
                        for client in clients {
                            assert_eq!(client.expect(3).body.len(), len);
                        }
                    });
                }
            });
            took += began.elapsed();
        }
        took / MESSAGES as u32
    });
    let slow = scene.slow();
    eprintln!("a message takes {took:?}");
    assert!(
        slow <= FLOOR.max(took / 2),
        "pings {slow:?}, a message {took:?}"
    );
}
