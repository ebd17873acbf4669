//! Shared subscriptions.

use stentor_mqtt::{QoS, Version};

use crate::world::{World, clean};

#[test]
fn a_shared_subscription_gives_each_message_to_one_member() {
    for shards in [1, 2, 4] {
        let mut w = World::new(shards);
        let p = w.connect(Version::V311, "p", &clean());
        let members: Vec<_> = (0..6)
            .map(|i| w.connect(Version::V5, &format!("m{i}"), &clean()))
            .collect();
        for m in &members {
            assert_eq!(w.subscribe(*m, "$share/g/t/+", QoS::AtLeastOnce), 1);
        }
        for i in 0..600 {
            w.publish(p, "t/x", &i.to_string(), QoS::AtMostOnce, false);
        }
        let counts: Vec<_> = members.iter().map(|m| w.take_messages(*m).len()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 600);
        assert!(
            counts.iter().all(|count| (60..=140).contains(count)),
            "balanced: {counts:?}"
        );
        for m in &members[1..] {
            w.unsubscribe(*m, "$share/g/t/+");
        }
        w.publish(p, "t/x", "last", QoS::AtMostOnce, false);
        assert_eq!(w.take_payloads(members[0]), ["last"]);
        w.drop_link(members[0]);
        assert_eq!(
            w.hubs
                .iter()
                .map(|hub| hub.inspect().filters().count())
                .sum::<usize>(),
            0
        );
    }
}

/// [MQTT-4.8.2-4]: what a member did not acknowledge goes to another one when its session ends.
#[test]
fn a_member_that_leaves_loses_nothing() {
    for shards in [1, 3] {
        let mut w = World::new(shards);
        let p = w.connect(Version::V5, "p", &clean());
        let a = w.connect(Version::V5, "a", &clean());
        w.subscribe(a, "$share/g/t", QoS::AtLeastOnce);
        for i in 0..10 {
            w.publish(p, "t", &i.to_string(), QoS::AtLeastOnce, false);
        }
        let b = w.connect(Version::V5, "b", &clean());
        w.subscribe(b, "$share/g/t", QoS::AtLeastOnce);
        let seen = w.take_messages(a);
        w.send_ack(a, 0x40, seen[0].packet_id.unwrap());
        w.drop_link(a);
        let mut left = w.take_payloads(b);
        left.sort();
        assert_eq!(left, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    }
}
