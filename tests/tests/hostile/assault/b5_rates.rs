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
