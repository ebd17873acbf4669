//! Sessions and connections: how they begin, pass on and end.

use stentor_hub::Settings;
use stentor_mqtt::{Disconnect, Packet, PropertyBuf, QoS, ReasonCode, Version};
use stentor_session::{CloseReason, Denied, Local, Remote, Timer};

use crate::world::{ConnectOptions, TestRights, VERSIONS, World, clean};

/// [MQTT-3.1.2-5] [MQTT-4.4.0-1]
#[test]
fn a_session_keeps_what_its_client_missed() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let p = w.connect(version, "p", &clean());
        let s = w.connect(version, "s", &ConnectOptions::persistent());
        w.subscribe(s, "t", QoS::AtLeastOnce);
        w.publish(p, "t", "seen", QoS::AtLeastOnce, false);
        let unacknowledged = w.take_messages(s);
        w.drop_link(s);
        w.publish(p, "t", "missed", QoS::AtLeastOnce, false);
        w.publish(p, "t", "gone", QoS::AtMostOnce, false);
        let again = w.connect_only(version, "s", &ConnectOptions::persistent());
        let connack = w.receive_packet(again).unwrap();
        // 3.1 has the session but no flag to say so.
        assert_eq!(
            connack[2],
            u8::from(version != Version::V31),
            "session present"
        );
        let messages = w.take_messages(again);
        let texts: Vec<_> = messages.iter().map(|m| m.payload.as_slice()).collect();
        assert_eq!(texts, [b"seen".as_slice(), b"missed"]);
        assert!(messages[0].dup && !messages[1].dup);
        assert_eq!(messages[0].packet_id, unacknowledged[0].packet_id);
    }
}

/// [MQTT-3.1.4-3] [MQTT-3.1.2-4]
#[test]
fn a_second_connection_takes_the_session_over() {
    for version in VERSIONS {
        let mut w = World::new(3);
        let p = w.connect(version, "p", &clean());
        let first = w.connect(version, "s", &ConnectOptions::persistent());
        w.subscribe(first, "t", QoS::AtLeastOnce);
        let second = w.connect_only(version, "s", &ConnectOptions::persistent());
        let present = u8::from(version != Version::V31);
        assert_eq!(w.receive_packet(second).unwrap()[2], present);
        assert_eq!(
            w.clients[first].closed,
            Some(CloseReason::Local(Local::TakenOver))
        );
        if version == Version::V5 {
            assert_eq!(
                w.take_packet(first, 0xE0).unwrap()[2],
                ReasonCode::SessionTakenOver as u8
            );
        }
        w.publish(p, "t", "x", QoS::AtLeastOnce, false);
        assert_eq!(w.take_payloads(second), ["x"]);
        let third = w.connect_only(version, "s", &clean());
        assert_eq!(
            w.receive_packet(third).unwrap()[2],
            0,
            "clean start ends the session"
        );
        w.publish(p, "t", "y", QoS::AtLeastOnce, false);
        assert!(w.take_payloads(third).is_empty());
    }
}

#[test]
fn another_user_does_not_inherit_a_session() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let alice = ConnectOptions {
        user: Some("alice"),
        ..ConnectOptions::persistent()
    };
    let s = w.connect(Version::V5, "s", &alice);
    w.subscribe(s, "t", QoS::AtLeastOnce);
    w.drop_link(s);
    w.publish(p, "t", "for alice", QoS::AtLeastOnce, false);
    let bob = ConnectOptions {
        user: Some("bob"),
        ..ConnectOptions::persistent()
    };
    let s = w.connect_only(Version::V5, "s", &bob);
    assert_eq!(w.receive_packet(s).unwrap()[2], 0);
    assert!(w.take_payloads(s).is_empty());
}

/// [MQTT-3.1.2-8] [MQTT-3.1.2-10] [MQTT-3.14.4-3]
#[test]
fn wills_are_published_unless_the_client_says_goodbye() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let watcher = w.connect(version, "watcher", &clean());
        w.subscribe(watcher, "will/#", QoS::AtLeastOnce);
        let will = ConnectOptions {
            will: Some(("will/a", "gone", 0)),
            ..clean()
        };
        let a = w.connect(version, "a", &will);
        w.drop_link(a);
        assert_eq!(w.take_payloads(watcher), ["gone"]);
        let a = w.connect(version, "a", &will);
        w.send_bytes(a, &[0xE0, 0]);
        assert_eq!(
            w.clients[a].closed,
            Some(CloseReason::Remote(Remote::Disconnect))
        );
        assert!(w.take_payloads(watcher).is_empty());
    }
}

/// [MQTT-3.1.3-9], and the end of a session ends the delay.
#[test]
fn a_will_delay_runs_until_the_client_is_back_or_its_session_ends() {
    let mut w = World::new(1);
    let watcher = w.connect(Version::V5, "watcher", &clean());
    w.subscribe(watcher, "will", QoS::AtMostOnce);
    let delayed = |expiry_secs| ConnectOptions {
        will: Some(("will", "gone", 10)),
        expiry_secs,
        clean_start: false,
        ..clean()
    };
    let a = w.connect(Version::V5, "a", &delayed(60));
    w.drop_link(a);
    w.pass_secs(5);
    let a = w.connect(Version::V5, "a", &delayed(60));
    w.pass_secs(20);
    assert!(
        w.take_payloads(watcher).is_empty(),
        "the client came back in time"
    );
    w.drop_link(a);
    w.pass_secs(9);
    assert!(w.take_payloads(watcher).is_empty());
    w.pass_secs(2);
    assert_eq!(w.take_payloads(watcher), ["gone"]);
    let a = w.connect(Version::V5, "b", &delayed(3));
    w.drop_link(a);
    w.pass_secs(4);
    assert_eq!(
        w.take_payloads(watcher),
        ["gone"],
        "the session ended before the delay"
    );
}

/// 5.0 is told the server's keep alive [MQTT-3.2.2-21]; older versions cannot be, so a client that
/// asks for more, or for none, is refused.
#[test]
fn a_keep_alive_above_the_maximum_is_replaced_or_refused() {
    let settings = Settings {
        keep_alive_max_secs: 10,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    for (version, keep_alive_secs) in [
        (Version::V31, 0),
        (Version::V311, 0),
        (Version::V311, 11),
        (Version::V311, 10),
        (Version::V5, 0),
        (Version::V5, 11),
    ] {
        let options = ConnectOptions {
            keep_alive_secs,
            ..ConnectOptions::default()
        };
        let connected = w.connect_as(version, "c", &options, TestRights::denying(&[]));
        if !version.is_v5() && keep_alive_secs != 10 {
            let refused = CloseReason::Denied(Denied::KeepAlive);
            assert_eq!(connected, Err(refused), "{version:?} {keep_alive_secs}");
            continue;
        }
        let c = connected.unwrap();
        w.pass_secs(14);
        assert_eq!(w.clients[c].closed, None, "{version:?} {keep_alive_secs}");
        w.pass_secs(2);
        let late = Some(CloseReason::Timeout(Timer::KeepAlive));
        assert_eq!(w.clients[c].closed, late, "{version:?} {keep_alive_secs}");
    }
}

/// [MQTT-3.1.2-22]
#[test]
fn a_silent_client_is_closed_after_one_and_a_half_keep_alives() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        keep_alive_secs: 10,
        ..clean()
    };
    let silent = w.connect(Version::V5, "silent", &options);
    let alive = w.connect(Version::V5, "alive", &options);
    for _ in 0..14 {
        w.pass_secs(1);
        w.send_bytes(alive, &[0xC0, 0]);
    }
    assert_eq!(w.clients[silent].closed, None);
    w.pass_secs(2);
    assert_eq!(
        w.clients[silent].closed,
        Some(CloseReason::Timeout(Timer::KeepAlive))
    );
    assert_eq!(w.clients[alive].closed, None);
}

#[test]
fn a_session_expires_and_its_subscriptions_with_it() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        expiry_secs: 30,
        clean_start: false,
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &options);
    w.subscribe(s, "t", QoS::AtLeastOnce);
    w.drop_link(s);
    w.pass_secs(29);
    assert_eq!(w.hubs[0].inspect().stats().subscriptions, 1);
    w.pass_secs(2);
    let stats = w.hubs[0].inspect().stats();
    assert_eq!(
        (stats.subscriptions, stats.sessions, stats.expired),
        (0, 0, 1)
    );
}

#[test]
fn disconnect_may_change_the_session_expiry_but_not_from_zero() {
    let mut w = World::new(1);
    let disconnect = |w: &mut World, client: usize, secs: u32| {
        let mut properties = PropertyBuf::new();
        properties.push(stentor_mqtt::Property::SessionExpiryInterval(secs));
        let reason = ReasonCode::Success;
        let properties = properties.as_properties();
        w.send(
            client,
            &Packet::Disconnect(Disconnect { reason, properties }),
        );
    };
    let a = w.connect(Version::V5, "a", &clean());
    disconnect(&mut w, a, 5);
    assert!(matches!(
        w.clients[a].closed,
        Some(CloseReason::Violation(_))
    ));
    let b = w.connect(
        Version::V5,
        "b",
        &ConnectOptions {
            expiry_secs: 5,
            ..clean()
        },
    );
    disconnect(&mut w, b, 0);
    assert_eq!(w.hubs[0].inspect().stats().sessions, 0);
}
