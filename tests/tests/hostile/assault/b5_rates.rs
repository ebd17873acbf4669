//! What is remembered of topics of which a client wants few messages.

use stentor_tests::Version;
use stentor_tests::raw::publish;

use super::{MIB, WIDE_OPEN, granted, login, send_and_await, subscribe_all, user_property};
use crate::bystander::Scene;

const TOPICS: usize = 1_000;

/// The bound: a queue of 4 MiB, and the pieces that 65 KB are read and written in.
#[test]
fn b5_long_names_behind_a_rate() {
    let mut scene = Scene::new(WIDE_OPEN);
    scene.endures(20 * MIB, |server| {
        let mut modest = login(server, "modest");
        let subscribe = subscribe_all(&user_property("max-rate", "0.001"), ["#".to_owned()]);
        assert_eq!(granted(&mut modest, &subscribe), 1);
        let mut publisher = login(server, "publisher");
        let long = "x".repeat(65_000);
        for number in 0..TOPICS {
            let topic = format!("{number}/{long}");
            send_and_await(&mut publisher, &publish(Version::V5, &topic, b"", 0, false));
            modest.ping_among_messages();
        }
    });
}

const SESSIONS: usize = 40;
const PACED_TOPICS: usize = 16_000;

/// Room for what waits of all topics, about 8 MiB for each session.
const ROOMY: &str = "[limits]\nqueue_bytes = \"16MiB\"\n";

/// Sessions that all pace the same topics: what they remember grows on the same messages, the time
/// of all topics is over at once, and so much memory is free then. The bound is what that takes.
#[test]
fn b5_many_sessions_with_the_same_topics() {
    let mut scene = Scene::new(ROOMY);
    scene.endures(SESSIONS as u64 * 16 * MIB, |server| {
        let mut paced: Vec<_> = (0..SESSIONS)
            .map(|number| login(server, &format!("paced{number}")))
            .collect();
        let subscribe = subscribe_all(&user_property("max-rate", "0.25"), ["paced/#".to_owned()]);
        for client in &mut paced {
            assert_eq!(granted(client, &subscribe), 1);
        }
        let mut publisher = login(server, "publisher");
        for _ in 0..2 {
            for part in 0..PACED_TOPICS / 100 {
                let numbers = part * 100..(part + 1) * 100;
                // Each topic once, in an order that no two of them have beside each other.
                let topics = numbers.map(|number| number * 7_919 % PACED_TOPICS);
                let packets: Vec<u8> = topics
                    .flat_map(|topic| {
                        publish(Version::V5, &format!("paced/{topic}"), b"", 0, false)
                    })
                    .collect();
                send_and_await(&mut publisher, &packets);
                for client in &mut paced {
                    client.ping_among_messages();
                }
            }
        }
    });
}
