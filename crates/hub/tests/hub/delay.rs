//! Messages of some topics wait in the output for others, to leave together.

use core::time::Duration;

use crate::world::{World, clean};
use stentor_hub::{Settings, TopicPolicy};
use stentor_mqtt::{QoS, Version};
use stentor_session::Tick;

const LEVELS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

/// What is below `d/` may wait for 20 ms, and below `long/` for 500 ms.
fn world(shards: u8) -> World {
    let policy = |filter: &str, millis| TopicPolicy {
        filter: filter.into(),
        delay: Duration::from_millis(millis),
        ..TopicPolicy::default()
    };
    let settings = Settings {
        policies: vec![policy("d/#", 20), policy("long/#", 500)],
        ..Settings::default()
    };
    World::with_settings(shards, settings)
}

fn pass_millis(w: &mut World, millis: u64) {
    w.now = Tick::from_micros(w.now.as_micros() + millis * 1_000);
    w.advance();
}

#[test]
fn messages_of_a_topic_with_a_delay_leave_together() {
    for (shards, qos) in [1, 2].into_iter().flat_map(|n| LEVELS.map(|qos| (n, qos))) {
        let mut w = world(shards);
        let p = w.connect(Version::V5, "p", &clean());
        let s = w.connect(Version::V311, "s", &clean());
        w.subscribe(s, "#", qos);
        w.publish(p, "d/a", "1", qos, false);
        pass_millis(&mut w, 10);
        w.publish(p, "d/b", "2", qos, false);
        assert!(w.take_payloads(s).is_empty(), "they wait");
        pass_millis(&mut w, 10);
        assert_eq!(w.take_payloads(s), ["1", "2"]);
        // What does not wait takes them along, in order.
        w.publish(p, "d/a", "3", qos, false);
        w.publish(p, "x", "4", qos, false);
        assert_eq!(w.take_payloads(s), ["3", "4"]);
        // The time of those is not that of the next ones.
        w.publish(p, "d/a", "5", qos, false);
        assert!(w.take_payloads(s).is_empty());
        pass_millis(&mut w, 20);
        assert_eq!(w.take_payloads(s), ["5"]);
        // The shortest delay counts.
        w.publish(p, "long/a", "6", qos, false);
        w.publish(p, "d/a", "7", qos, false);
        pass_millis(&mut w, 20);
        assert_eq!(w.take_payloads(s), ["6", "7"]);
        pass_millis(&mut w, 500);
        w.check_accounts();
    }
}

#[test]
fn a_member_of_a_shared_subscription_waits_too_and_a_closed_connection_gets_all() {
    let mut w = world(2);
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "$share/crew/d/#", QoS::AtLeastOnce);
    w.publish(p, "d/a", "1", QoS::AtLeastOnce, false);
    assert!(w.take_payloads(s).is_empty());
    pass_millis(&mut w, 20);
    assert_eq!(w.take_payloads(s), ["1"]);
    w.publish(p, "d/a", "2", QoS::AtLeastOnce, false);
    w.send_bytes(s, &[0xE0, 0]);
    pass_millis(&mut w, 20);
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "d/#", QoS::AtLeastOnce);
    pass_millis(&mut w, 20);
    assert!(
        w.take_payloads(s).is_empty(),
        "it was the last connection's"
    );
}
