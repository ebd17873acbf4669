//! Clients that do not read what they have asked for, where memory is short.

use std::sync::Arc;

use crate::accounts::{assess, come, evicted, hold_much, leave_behind, tenants};
use crate::backlogs::receive_all;
use crate::world::{ConnectOptions, World, clean};
use stentor_hub::{ControlItem, Holding, Pressure, Settings, SpoolSettings, Tenant, TenantKind};
use stentor_mqtt::{QoS, Version};
use stentor_session::{CloseReason, Limit};

/// A shard with ten retained messages of this many bytes.
fn stored(bytes: usize) -> World {
    let mut w = World::new(1);
    for number in 0..10 {
        w.restore(&format!("r/{number}"), &"x".repeat(bytes));
    }
    w
}

/// A client that has asked for all of them, and whose socket takes this many bytes.
fn subscriber(w: &mut World, id: &str, room: usize) -> usize {
    let client = w.connect(Version::V5, id, &clean());
    w.clients[client].socket_room = room;
    w.subscribe_all_only(client, &["r/#".to_owned()]);
    w.settle();
    client
}

/// The rest of a long packet is all that waits: the next one is not taken before it is through, and
/// all of the first one counts until then.
#[test]
fn what_a_write_has_begun_counts_and_holds_up_the_next_retained_message() {
    let mut w = stored(200_000);
    let client = subscriber(&mut w, "c", 100_000);
    w.check_accounts();
    let held = w.ledger.of(Holding::Queues);
    assert!((200_000..210_000).contains(&held), "{held}");
    assert_eq!(w.hubs[0].inspect().stats().publishes_sent, 1);
    w.open_socket(client, 110_000);
    w.check_accounts();
    assert_eq!(
        w.hubs[0].inspect().stats().publishes_sent,
        2,
        "the first one is through"
    );
    w.open_socket(client, usize::MAX);
    assert_eq!(w.take_messages(client).len(), 10);
    w.check_accounts();
    assert_eq!(w.ledger.of(Holding::Queues), 0);
}

/// While memory is short, a client gets another retained message when it has read what it got.
#[test]
fn who_does_not_read_gets_no_second_retained_message_while_memory_is_short() {
    for is_short in [false, true] {
        let mut w = stored(70_000);
        let subscribers = ["reads", "sleeps"].map(|id| w.connect(Version::V5, id, &clean()));
        if is_short {
            assert_eq!(assess(&mut w, 1), Pressure::Full);
        }
        let [reads, sleeps] = subscribers;
        w.clients[sleeps].socket_room = 65_000;
        for client in subscribers {
            w.subscribe_all_only(client, &["r/#".to_owned()]);
        }
        w.settle();
        assert_eq!(w.take_messages(reads).len(), 10);
        w.check_accounts();
        let held = w.ledger.of(Holding::Queues);
        let expected = if is_short {
            70_000..71_000
        } else {
            140_000..142_000
        };
        assert!(expected.contains(&held), "{held}");
        w.open_socket(sleeps, usize::MAX);
        assert_eq!(w.take_messages(sleeps).len(), 10);
    }
}

/// The account of what is held may be beyond the budget before anybody has looked at it.
#[test]
fn nobody_waits_for_the_next_look_at_memory() {
    let mut w = stored(33_000);
    let client = w.connect(Version::V5, "c", &clean());
    w.clients[client].socket_room = 10;
    w.ledger.set_budget(10_000_000);
    w.ledger.write_common(Holding::Connections, 10_000_000);
    w.subscribe_all_only(client, &["r/#".to_owned()]);
    w.settle();
    assert_eq!(w.ledger.pressure(), Pressure::None);
    // One step, of 64 KiB.
    assert_eq!(w.hubs[0].inspect().stats().publishes_sent, 2);
}

/// A session without a connection holds messages that were acknowledged. None ends while somebody
/// else holds more by not reading.
#[test]
fn clients_that_do_not_read_give_way_before_absent_sessions() {
    let mut w = World::new(1);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (ann, hog) = (tenants(1, &zone), tenants(2, &zone));
    let publisher = w.connect(Version::V5, "p", &clean());
    leave_behind(&mut w, publisher, ("ann", &ann), (10, 10_000));
    let (live, _) = hold_much(&mut w, publisher, &hog, 20);
    let held = w.ledger.total();
    assert_eq!(assess(&mut w, held * 100 / 95), Pressure::Pressed);
    assert!(w.clients[live].link.is_some(), "it may read yet");
    assert_eq!(evicted(&mut w), [""; 0]);
    w.pass_secs(2);
    assert_eq!(assess(&mut w, held * 100 / 95), Pressure::Pressed);
    let reason = CloseReason::Limit(Limit::QueueBytes);
    assert_eq!(w.clients[live].closed, Some(reason));
    // Its session holds most now.
    assert_eq!(evicted(&mut w), ["hog"]);
    assert_eq!(ann.own.sessions(), 10);
    assert_eq!(assess(&mut w, held), Pressure::None);
}

/// A turn ends some of them, and the next one goes on with these: not with sessions of others.
#[test]
fn absent_sessions_do_not_end_while_clients_that_do_not_read_are_left() {
    let mut w = World::new(1);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (ann, hog) = (tenants(1, &zone), tenants(2, &zone));
    let publisher = w.connect(Version::V5, "p", &clean());
    leave_behind(&mut w, publisher, ("ann", &ann), (10, 1_000));
    for number in 0..20 {
        let live = come(&mut w, &format!("hog{number}"), 0, &hog).unwrap();
        w.subscribe(live, "h", QoS::AtLeastOnce);
    }
    for _ in 0..10 {
        w.publish(publisher, "h", &"x".repeat(50_000), QoS::AtLeastOnce, false);
    }
    w.check_accounts();
    w.ledger.set_budget(w.ledger.total() / 4);
    w.ledger.assess(None);
    w.control(0, ControlItem::Relieve { bytes: 0 });
    w.pass_secs(2);
    w.paused = true;
    let bytes = w.ledger.assess(None);
    w.control(0, ControlItem::Relieve { bytes });
    w.paused = false;
    w.advance();
    assert_eq!(evicted(&mut w), [""; 0]);
    assert_eq!(ann.own.sessions(), 10);
}

/// The client that held most has come back before its sessions ended: others give nothing in its
/// place.
#[test]
fn nobody_gives_what_clients_have_come_back_for() {
    let mut w = World::new(1);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (ann, hog) = (tenants(1, &zone), tenants(2, &zone));
    let publisher = w.connect(Version::V5, "p", &clean());
    leave_behind(&mut w, publisher, ("ann", &ann), (1, 30_000));
    leave_behind(&mut w, publisher, ("hog", &hog), (20, 30_000));
    w.check_accounts();
    w.ledger.set_budget(1);
    w.ledger.assess(None);
    w.paused = true;
    let bytes = w.ledger.total() * 3 / 4;
    w.control(0, ControlItem::Relieve { bytes });
    for number in 0..20 {
        // Those that have ended find no room.
        let _ = come(&mut w, &format!("hog{number}"), 1_000, &hog);
    }
    w.paused = false;
    for _ in 0..20 {
        w.advance();
    }
    assert_eq!(evicted(&mut w).len(), 8, "those of one turn");
    assert_eq!(ann.own.sessions(), 1);
}

/// The bound of what waits in memory falls at once when the limit is reached. What waits goes to
/// the disk, then as before.
#[test]
fn no_message_for_an_absent_client_is_dropped_when_the_limit_is_reached() {
    let settings = Settings {
        spool: SpoolSettings {
            client_bytes_max: 1 << 30,
            ..SpoolSettings::default()
        },
        ..Settings::default()
    };
    let mut w = World::writing(1, settings);
    let away = w.connect(Version::V5, "away", &ConnectOptions::persistent());
    w.subscribe(away, "t", QoS::AtLeastOnce);
    w.drop_link(away);
    w.advance();
    let publisher = w.connect(Version::V5, "p", &clean());
    let publish = |w: &mut World, bytes: usize| {
        w.publish(publisher, "t", &"x".repeat(bytes), QoS::AtLeastOnce, false);
        assert_eq!(w.take_ack(publisher, 0x40).0, 0);
    };
    (0..20).for_each(|_| publish(&mut w, 30_000));
    w.check_accounts();
    w.ledger.set_budget(1);
    w.ledger.assess(None);
    w.control_all(&ControlItem::Relieve { bytes: 0 });
    publish(&mut w, 30_000);
    // The next turn.
    w.advance();
    // Longer than all that may wait.
    publish(&mut w, 400_000);
    assert_eq!(w.hubs[0].inspect().stats().publishes_dropped, 0);
    w.advance();
    let back = w.connect(Version::V5, "away", &ConnectOptions::persistent());
    assert_eq!(receive_all(&mut w, back), 22);
}

/// A client for which little waits is not closed for what others hold.
#[test]
fn who_holds_little_stays_connected() {
    let mut w = World::new(1);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (little, much) = (tenants(1, &zone), tenants(2, &zone));
    let publisher = w.connect(Version::V5, "p", &clean());
    let (live, _) = hold_much(&mut w, publisher, &little, 5);
    let other = come(&mut w, "other", 1_000, &much).unwrap();
    w.check_accounts();
    let held = w.ledger.total();
    w.ledger.write_common(Holding::Connections, 100 * held);
    for _ in 0..3 {
        assert_eq!(assess(&mut w, held), Pressure::Full);
        w.pass_secs(2);
    }
    assert!(w.clients[live].link.is_some() && w.clients[other].link.is_some());
}

/// What a client has sent at QoS 2 and does not release counts, on its connection and without it.
#[test]
fn packet_ids_that_are_not_released_count() {
    let mut w = World::new(1);
    let tenant = tenants(1, &Arc::new(Tenant::new(0, TenantKind::Zone)));
    let client = come(&mut w, "c", 1_000, &tenant).unwrap();
    let before = w.ledger.of(Holding::Sessions);
    for id in 1..=1_000_u16 {
        let [high, low] = id.to_be_bytes();
        w.send_bytes(client, &[0x34, 6, 0, 1, b't', high, low, 0]);
    }
    w.advance();
    let after = w.ledger.of(Holding::Sessions);
    assert!(after >= before + 2_000, "{before} to {after}");
    w.drop_link(client);
    w.advance();
    w.check_accounts();
    let away = w.ledger.of(Holding::Sessions);
    assert!(away + 1_000 >= after, "{after} to {away}");
}

/// What sessions leave that are owed much is dropped in many turns, and no turn takes long.
#[test]
fn what_sessions_are_owed_that_end_takes_many_turns() {
    const MESSAGES: u32 = 40_000;
    let mut w = World::new(1);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let hog = tenants(1, &zone);
    let publisher = w.connect(Version::V5, "p", &clean());
    for number in 0..8 {
        let client = come(&mut w, &format!("hog{number}"), 1_000, &hog).unwrap();
        w.subscribe(client, "t", QoS::AtLeastOnce);
        w.drop_link(client);
    }
    for _ in 0..MESSAGES {
        w.publish(publisher, "t", "", QoS::AtLeastOnce, false);
    }
    w.advance();
    let before = w.ledger.total();
    w.ledger.set_budget(before / 2);
    let bytes = w.ledger.assess(None);
    w.hubs[0].begin_turn();
    w.hubs[0].control(w.now, ControlItem::Relieve { bytes });
    let mut turns = 0;
    loop {
        w.hubs[0].advance(w.now);
        let visits = w.hubs[0].turn().visits();
        assert!(visits < 25_000, "{visits} in turn {turns}");
        turns += 1;
        w.hubs[0].begin_turn();
        let left = w.ledger.total();
        if w.hubs[0].inspect().stats().evicted >= 3 && left < before / 2 {
            break;
        }
        assert!(turns < 1_000, "{left} of {before} bytes are left");
    }
    let dropped = w.hubs[0].inspect().stats().publishes_dropped;
    assert!(dropped >= 3 * u64::from(MESSAGES) && turns > 10, "{turns}");
}

/// Rooms count, and take a part of the memory at most, whatever their zone may have.
#[test]
fn rooms_take_a_part_of_the_memory() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        user: Some("ann"),
        ..clean()
    };
    let ann = w.connect(Version::V5, "ann", &options);
    w.ledger.set_budget(800_000);
    let words = r#"{"room":"r","history":{"count":1000,"bytes":1000000}}"#;
    w.publish(ann, "$call/room.create/1", words, QoS::AtLeastOnce, false);
    w.subscribe(ann, "$room/r/#", QoS::AtMostOnce);
    w.advance();
    let before = w.ledger.of(Holding::Rooms);
    assert!(before > 0);
    for _ in 0..100 {
        w.publish(
            ann,
            "$room/r/say",
            &"x".repeat(5_000),
            QoS::AtLeastOnce,
            false,
        );
        w.advance();
    }
    let held = w.ledger.of(Holding::Rooms);
    assert!((50_000..=110_000).contains(&held), "{held}");
}
