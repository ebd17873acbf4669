//! Retained messages after a SUBACK.

use stentor_mqtt::{QoS, RetainHandling, SubscribeOptions, Version};

use crate::world::{World, clean};

/// [MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11] [MQTT-3.3.1-12]
#[test]
fn retained_messages_follow_the_suback_as_retain_handling_says() {
    let mut w = World::new(2);
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &clean());
    w.publish(p, "t", "kept", QoS::AtLeastOnce, true);
    let with = |retain_handling| SubscribeOptions {
        qos: QoS::AtLeastOnce,
        retain_handling,
        ..Default::default()
    };
    w.subscribe_with(s, "t", with(RetainHandling::DoNotSend), None);
    assert!(w.take_messages(s).is_empty());
    w.subscribe_with(s, "t", with(RetainHandling::SendIfNew), None);
    assert!(w.take_messages(s).is_empty(), "the subscription existed");
    w.subscribe_with(s, "t", with(RetainHandling::Send), None);
    let messages = w.take_messages(s);
    assert!(messages.len() == 1 && messages[0].retain && messages[0].payload == b"kept");
    w.publish(p, "t", "live", QoS::AtMostOnce, true);
    assert!(
        !w.take_messages(s)[0].retain,
        "RETAIN is 0 to established subscriptions"
    );
    w.publish(p, "t", "", QoS::AtMostOnce, true);
    assert_eq!(w.take_payloads(s), [""]);
    w.subscribe_with(s, "+", with(RetainHandling::Send), None);
    assert!(w.take_messages(s).is_empty(), "an empty payload clears");
}

#[test]
fn a_wildcard_gets_every_retained_match_however_slow_its_reader() {
    let mut w = World::new(2);
    let p = w.connect(Version::V311, "p", &clean());
    for i in 0..1_500 {
        w.publish(p, &format!("r/{i}"), &i.to_string(), QoS::AtMostOnce, true);
    }
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let s = w.connect(Version::V5, "s", &clean());
        w.subscribe(s, "r/#", qos);
        let mut seen = 0;
        loop {
            let messages = w.take_messages(s);
            seen += messages.len();
            if messages.is_empty() {
                break;
            }
            for id in messages.iter().filter_map(|message| message.packet_id) {
                w.send_ack(s, 0x40, id);
            }
        }
        assert_eq!(seen, 1_500);
        w.drop_link(s);
        let s = w.connect(Version::V311, "slow", &clean());
        w.clients[s].socket_room = 5;
        w.subscribe(s, "r/+", QoS::AtMostOnce);
        let mut seen = 0;
        while w.hubs[usize::from(w.clients[s].shard)]
            .inspect()
            .client(stentor_topic::Zone(0), "slow")
            .and_then(|info| info.connection)
            .is_some_and(|connection| connection.is_blocked)
        {
            let mut most = 0;
            for hub in &w.hubs {
                stentor_hub::survey::each_client_from(hub, 0, |seen| {
                    let queued = seen.info.connection.map(|it| it.queued_bytes);
                    most = most.max(queued.unwrap_or(0));
                });
            }
            assert!(most > 0 && most < 80 * 1024, "bounded memory: {most}");
            w.open_socket(s, 4_003);
            seen += w.take_messages(s).len();
        }
        assert_eq!(seen, 1_500);
        w.drop_link(s);
    }
}
