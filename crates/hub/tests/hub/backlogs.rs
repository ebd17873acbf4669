//! A publisher that is faster than the disk waits, and an owner of sessions has a part of the disk.

use std::num::NonZeroU64;
use std::sync::Arc;

use stentor_hub::connections::set_owner;
use stentor_hub::journal::set_journal_laden;
use stentor_hub::spool::tell_backlog_room;
use stentor_hub::{Settings, SpoolSettings, Tenant, TenantKind, Tenants};
use stentor_mqtt::{QoS, Version};

use crate::world::{ConnectOptions, World, clean, request};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;

/// More than may be on its way to the disk, and far more.
const MUCH: usize = 16 << 20;
const FAR_TOO_MUCH: usize = 1 << 30;

/// The messages that wait go to the disk when they are more than a few.
fn settings() -> Settings {
    Settings {
        spool: SpoolSettings {
            client_bytes_max: 1 << 30,
            memory: 0,
            share: (2_000, 2_000),
            ..SpoolSettings::default()
        },
        ..Settings::default()
    }
}

/// A name that begins so, and whose home is this shard.
fn named(w: &World, begin: &str, shard: u8) -> String {
    let mut names = (0..).map(|n| format!("{begin}{n}"));
    names.find(|name| w.home(name) == shard).unwrap()
}

/// A client whose session lasts, and which is away.
fn away(w: &mut World, shard: u8, filter: &str) -> String {
    let name = named(w, "away", shard);
    let client = w.connect(Version::V5, &name, &ConnectOptions::persistent());
    w.subscribe(client, filter, Q1);
    w.drop_link(client);
    // The memory is shared among the sessions from now on.
    w.advance();
    name
}

/// What is on its way to the disk of each shard, and what is free there.
fn tell(w: &mut World, under_way: usize, free: u64) {
    let now = w.now;
    for hub in &mut w.hubs {
        tell_backlog_room(hub, now, under_way, free);
    }
    w.advance();
}

/// Publishes, and returns whether it was taken, which PUBACK says.
fn is_taken(w: &mut World, client: usize, topic: &str) -> bool {
    w.publish(client, topic, &"x".repeat(500), Q1, false);
    w.take_packet(client, 0x40).is_some()
}

/// Publishes until a message is not taken. Returns how many were.
fn fill(w: &mut World, client: usize, topic: &str) -> usize {
    (0..20).take_while(|_| is_taken(w, client, topic)).count()
}

/// Also if another shard has the session: its message is the first one that waits there.
#[test]
fn who_adds_to_what_the_disk_has_not_got_waits_and_nobody_else() {
    for shard in [0, 1] {
        let mut w = World::writing(2, settings());
        let name = away(&mut w, shard, "flood");
        let [p, q, near] = ["p", "q", "near"].map(|begin| {
            let name = named(&w, begin, 0);
            w.connect(Version::V5, &name, &clean())
        });
        w.subscribe(near, "flood", Q0);
        assert_eq!(fill(&mut w, p, "flood"), 20);
        tell(&mut w, MUCH, u64::MAX);
        let mut taken = 20 + fill(&mut w, p, "flood");
        assert!(taken < 30, "{taken}: it shows afterwards");
        assert!(!is_taken(&mut w, p, "other"));
        assert_eq!(fill(&mut w, q, "other"), 20);
        for _ in 0..20 {
            w.publish(q, "flood", "0", Q0, false);
        }
        assert_eq!(
            w.take_payloads(near).len(),
            taken + 20,
            "QoS 0 adds nothing"
        );
        taken += fill(&mut w, q, "flood");
        assert!(taken < 40 && !is_taken(&mut w, q, "other"));
        tell(&mut w, 0, u64::MAX);
        let acks = (0..).take_while(|_| w.take_packet(p, 0x40).is_some());
        assert_eq!(acks.count(), 2, "what waited goes on");
        assert!(is_taken(&mut w, p, "flood") && is_taken(&mut w, q, "flood"));
        let options = ConnectOptions {
            clean_start: false,
            ..ConnectOptions::persistent()
        };
        let back = w.connect(Version::V5, &name, &options);
        // The one of each that waited, and the last two.
        assert_eq!(w.take_payloads(back).len(), taken + 4);
    }
}

/// Many connections with one message each do not add without end.
#[test]
fn while_the_disk_is_far_behind_messages_for_it_are_not_taken() {
    let mut w = World::writing(1, settings());
    away(&mut w, 0, "flood");
    let p = w.connect(Version::V5, "p", &clean());
    let now = w.connect(Version::V5, "now", &ConnectOptions::persistent());
    w.subscribe(now, "live", Q1);
    tell(&mut w, FAR_TOO_MUCH, u64::MAX);
    assert!(!is_taken(&mut w, p, "flood"), "not even the first one");
    let q = w.connect(Version::V5, "q", &clean());
    assert!(
        (0..5).all(|_| is_taken(&mut w, q, "live")),
        "its client is there"
    );
    assert!(!is_taken(&mut w, q, "flood"));
    tell(&mut w, 0, u64::MAX);
    let effects = w.hubs[0].effects();
    effects.yielded.append(&mut effects.awaiting_room);
    w.settle();
    assert!(w.take_packet(p, 0x40).is_some() && w.take_packet(q, 0x40).is_some());
}

/// A connection that has gone is not waited for, and a newer one of the session begins anew.
#[test]
fn who_comes_back_is_not_held_for_what_was() {
    let mut w = World::writing(1, settings());
    away(&mut w, 0, "flood");
    let p = w.connect(Version::V5, "p", &clean());
    tell(&mut w, MUCH, u64::MAX);
    assert!(fill(&mut w, p, "flood") < 10);
    let p = w.connect(Version::V5, "p", &clean());
    assert!(is_taken(&mut w, p, "other"));
    tell(&mut w, 0, u64::MAX);
    assert!(is_taken(&mut w, p, "flood"));
}

#[test]
fn only_what_a_laden_journal_would_keep_waits() {
    for shard in [0, 1] {
        let mut w = World::writing(2, Settings::default());
        away(&mut w, shard, "kept");
        let [p, now] = ["p", "now"].map(|begin| {
            let name = named(&w, begin, 0);
            w.connect(Version::V5, &name, &clean())
        });
        w.subscribe(now, "#", Q1);
        set_journal_laden(&w.hubs[usize::from(shard)], true);
        w.settle();
        assert!(is_taken(&mut w, p, "other"), "nobody would keep it");
        w.publish(p, "kept", "0", Q0, false);
        assert_eq!(w.take_payloads(now).len(), 2);
        assert!(!is_taken(&mut w, p, "kept") && !is_taken(&mut w, p, "other"));
        set_journal_laden(&w.hubs[usize::from(shard)], false);
        let effects = w.hubs[0].effects();
        effects.yielded.append(&mut effects.awaiting_room);
        w.settle();
        assert_eq!(w.take_payloads(now).len(), 2);
        assert!(is_taken(&mut w, p, "kept"));
    }
}

/// A client of an owner, whose session lasts if it has an expiry.
fn come(w: &mut World, id: &str, whose: &Tenants, expiry_secs: u32) -> usize {
    let options = ConnectOptions {
        clean_start: expiry_secs == 0,
        expiry_secs,
        ..ConnectOptions::default()
    };
    let (request, identity) = request(Version::V5, id, &options);
    let shard = w.home(id);
    let hub = &w.hubs[usize::from(shard)];
    let tenants = (expiry_secs > 0).then_some(whose);
    let admitted = hub.admit_as(&request, identity, tenants).unwrap();
    let client = w.enter(request, admitted);
    let key = w.clients[client].key.unwrap();
    set_owner(&mut w.hubs[usize::from(shard)], key, whose.owner);
    w.settle();
    client
}

fn owner(number: u32, zone: &Arc<Tenant>) -> Tenants {
    Tenants {
        own: Arc::new(Tenant::new(number.into(), TenantKind::Address)),
        zone: Arc::clone(zone),
        owner: number,
    }
}

/// How many messages come when each is acknowledged.
pub(crate) fn receive_all(w: &mut World, client: usize) -> usize {
    let mut count = 0;
    loop {
        let messages = w.take_messages(client);
        if messages.is_empty() {
            return count;
        }
        count += messages.len();
        for packet_id in messages.iter().filter_map(|it| it.packet_id) {
            w.send_ack(client, 0x40, packet_id);
        }
    }
}

/// The owner who has filled the disk is refused; others go on, and its sessions lose their messages
/// when they have no memory left.
#[test]
fn an_owner_has_a_part_of_the_disk() {
    for shards in [1, 2] {
        let mut w = World::writing(
            shards,
            Settings {
                queue_bytes_max: 10_000,
                ..settings()
            },
        );
        let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
        let [ann, bob] = [1, 2].map(|number| owner(number, &zone));
        for (id, whose) in [("a", &ann), ("b", &bob)] {
            let client = come(&mut w, id, whose, 1_000);
            w.subscribe(client, "all", Q1);
            w.subscribe(client, id, Q1);
            w.drop_link(client);
        }
        let [p, q] = [("p", &ann), ("q", &bob)].map(|(id, whose)| come(&mut w, id, whose, 0));
        let publish = |w: &mut World, client, topic: &str| {
            w.publish(client, topic, &"x".repeat(1_000), Q1, false);
            w.advance();
            w.take_ack(client, 0x40)
        };
        tell(&mut w, 0, 1 << 20);
        for _ in 0..60 {
            assert_eq!(publish(&mut w, p, "a").0, 0);
        }
        let (ann_has, bob_has) = (ann.own.disk_bytes(), bob.own.disk_bytes());
        assert!(ann_has > 0 && bob_has == 0 && zone.disk_bytes() == ann_has);
        tell(&mut w, 0, ann_has / 8);
        assert_eq!(
            publish(&mut w, q, "a").0,
            0,
            "a stranger's message waits in memory"
        );
        // Others hear of that.
        tell(&mut w, 0, ann_has / 8);
        let (reason, text) = publish(&mut w, p, "a");
        assert_eq!(reason, 0x97);
        assert!(text.contains("sessions of yours"), "{text}");
        assert_eq!(publish(&mut w, p, "b").0, 0, "its owner is not full");
        let elsewhere = (w.home("p") + 1) % shards;
        let own = named(&w, "own", elsewhere);
        let own = come(&mut w, &own, &ann, 1_000);
        w.subscribe(own, "own", Q1);
        for _ in 0..3 {
            assert_eq!(publish(&mut w, p, "own").0, 0, "its client keeps up");
            // It has not acknowledged them.
            tell(&mut w, 0, ann_has / 8);
        }
        let nobody = publish(&mut w, p, "nobody").0;
        assert_eq!(nobody & 0x80, 0, "nobody is owed it");
        // What was under way, and what others publish, may have a little more.
        tell(&mut w, 0, ann_has / 13);
        for _ in 0..20 {
            assert_eq!(publish(&mut w, q, "all").0, 0);
        }
        assert!(bob.own.disk_bytes() > 0, "others have their part");
        let b = come(&mut w, "b", &bob, 1_000);
        assert_eq!(receive_all(&mut w, b), 21);
        let a = come(&mut w, "a", &ann, 1_000);
        let got = receive_all(&mut w, a);
        assert!((61..81).contains(&got), "{got}: its memory is full, too");
        // What was delivered makes room.
        let now = w.now;
        for hub in &mut w.hubs {
            tell_backlog_room(hub, now, 0, 1 << 20);
        }
        w.pass_secs(1);
        tell(&mut w, 0, 1 << 20);
        w.settle();
        assert_eq!((ann.own.disk_bytes(), zone.disk_bytes()), (0, 0));
        assert_eq!(publish(&mut w, p, "a").0, 0);
        w.check_accounts();
    }
}

#[test]
fn a_zone_has_its_bound() {
    let mut settings = settings();
    settings.spool.zone_bytes_max = 10_000;
    let mut w = World::writing(1, settings);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let ann = owner(1, &zone);
    let a = come(&mut w, "a", &ann, 1_000);
    w.subscribe(a, "a", Q1);
    w.drop_link(a);
    let p = come(&mut w, "p", &ann, 0);
    tell(&mut w, 0, u64::MAX);
    let refused = (0..400).position(|_| {
        w.publish(p, "a", &"x".repeat(1_000), Q1, false);
        w.take_ack(p, 0x40).0 == 0x97
    });
    assert!(refused.is_some_and(|taken| taken > 5), "{refused:?}");
    assert!(zone.disk_bytes() < 12_000);
    // A session that ends gives back what it had.
    w.pass_secs(1_001);
    assert_eq!((zone.disk_bytes(), ann.own.disk_bytes()), (0, 0));
}

/// A user without a name would otherwise have another part of the disk after each start.
#[test]
fn what_an_address_has_left_counts_for_it_after_a_restart() {
    let mut w = World::writing(2, settings());
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let mark = NonZeroU64::new(77).unwrap();
    let address = |id| Tenants {
        own: Arc::new(Tenant::of_address(id, mark)),
        zone: Arc::clone(&zone),
        owner: 7,
    };
    let before = address(1);
    let ids = ["a", "b", "c"];
    for id in ids {
        let client = come(&mut w, id, &before, 1_000);
        w.subscribe(client, "all", Q1);
        w.drop_link(client);
    }
    let p = come(&mut w, "p", &before, 0);
    // As many as this stay in memory.
    for _ in 0..8 {
        assert_eq!(fill(&mut w, p, "all"), 20);
        w.advance();
    }
    let has = before.own.disk_bytes();
    assert!(has > 0);
    for (id, is_rewritten) in [(2, false), (3, true), (4, false)] {
        let after = address(id);
        w.owners.insert(mark, after.clone());
        w.crash(2, id);
        w.advance();
        assert_eq!((after.own.sessions(), after.own.disk_bytes()), (3, has));
        assert!(!is_rewritten || w.rewrite_all());
        w.check_accounts();
    }
    // Another address takes one over, and a client with a name would have had its own.
    let other = Tenants {
        own: Arc::new(Tenant::of_address(5, NonZeroU64::MAX)),
        ..address(5)
    };
    come(&mut w, "a", &other, 1_000);
    let after = address(6);
    w.owners.insert(mark, after.clone());
    w.owners.insert(NonZeroU64::MAX, other.clone());
    w.crash(2, 6);
    assert_eq!((after.own.sessions(), other.own.sessions()), (2, 1));
}

/// Also if another shard has the sessions.
#[test]
fn a_disk_that_takes_no_backlogs_refuses_only_what_needs_it() {
    for shard in [0, 1] {
        let mut w = World::writing(2, settings());
        let name = away(&mut w, shard, "long");
        away(&mut w, 1 - shard, "short");
        let p = named(&w, "p", 0);
        let p = w.connect(Version::V5, &p, &clean());
        let here = named(&w, "here", shard);
        let here = w.connect(Version::V5, &here, &ConnectOptions::persistent());
        w.subscribe(here, "live", Q1);
        w.set_spool(true);
        let publish = |w: &mut World, topic: &str, len: usize| {
            w.publish(p, topic, &"x".repeat(len), Q1, false);
            w.advance();
            tell(w, 0, 0);
            w.take_ack(p, 0x40)
        };
        let mut taken = 0;
        let text = loop {
            let (reason, text) = publish(&mut w, "long", 500);
            if reason == 0x97 {
                break text;
            }
            taken += 1;
        };
        assert!((4..10).contains(&taken), "{taken}: its share of the memory");
        assert!(text.contains("the disk of the sessions is full"), "{text}");
        for _ in 0..20 {
            assert_eq!(publish(&mut w, "live", 500).0, 0, "its client keeps up");
        }
        assert_eq!(w.take_payloads(here).len(), 20);
        assert_eq!(publish(&mut w, "short", 500).0, 0, "memory has room for it");
        assert_eq!(publish(&mut w, "long", 500).0, 0x97);
        let new = w.connect(Version::V5, "new", &ConnectOptions::persistent());
        assert_eq!(w.subscribe(new, "more", Q1), 1);
        w.publish(p, "long", "0", Q0, false);
        w.set_spool(false);
        w.settle();
        assert_eq!(publish(&mut w, "long", 500).0, 0);
        let options = ConnectOptions {
            clean_start: false,
            ..ConnectOptions::persistent()
        };
        let back = w.connect(Version::V5, &name, &options);
        assert_eq!(receive_all(&mut w, back), taken + 1, "all that was taken");
        w.check_accounts();
    }
}

/// A barred owner loses its own messages, and stops nobody.
#[test]
fn a_session_of_an_owner_that_has_its_part_stops_no_publisher() {
    let mut w = World::writing(1, settings());
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let (ann, bob) = (owner(1, &zone), owner(2, &zone));
    let a = come(&mut w, "a", &ann, 1_000);
    w.subscribe(a, "all", Q1);
    w.drop_link(a);
    w.advance();
    let q = come(&mut w, "q", &bob, 0);
    for _ in 0..8 {
        assert_eq!(fill(&mut w, q, "all"), 20);
        w.advance();
    }
    assert!(ann.own.disk_bytes() > 0);
    w.set_spool(true);
    tell(&mut w, 0, 0);
    for _ in 0..20 {
        w.publish(q, "all", &"x".repeat(500), Q1, false);
        assert_eq!(w.take_ack(q, 0x40).0, 0, "it is barred");
    }
}

/// Each hears of its own sessions only.
#[test]
fn owners_that_are_full_do_not_stop_one_another() {
    for shards in [1, 2] {
        let mut w = World::writing(shards, settings());
        let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
        let [ann, bob, eve] = [1, 2, 3].map(|number| owner(number, &zone));
        for (begin, whose, filter) in [("a", &ann, "a"), ("b", &bob, "#")] {
            for shard in 0..shards {
                let name = named(&w, begin, shard);
                let client = come(&mut w, &name, whose, 1_000);
                w.subscribe(client, filter, Q1);
                w.drop_link(client);
            }
        }
        w.advance();
        let [p, q] = [("p", &ann), ("q", &eve)].map(|(id, whose)| come(&mut w, id, whose, 0));
        for _ in 0..8 {
            assert_eq!(fill(&mut w, q, "a"), 20);
            w.advance();
        }
        let elsewhere = (w.home("p") + 1) % shards;
        let own = named(&w, "own", elsewhere);
        let own = come(&mut w, &own, &ann, 1_000);
        w.subscribe(own, "own", Q1);
        for _ in 0..3 {
            // A client that gets something is counted again.
            tell(&mut w, 0, 0);
            assert!(is_taken(&mut w, q, "a"));
        }
        tell(&mut w, 0, 0);
        for (topic, expected) in [("a", 0x97), ("own", 0), ("a", 0x97), ("own", 0)] {
            w.publish(p, topic, &"x".repeat(500), Q1, false);
            assert_eq!(w.take_ack(p, 0x40).0, expected, "{topic}");
            tell(&mut w, 0, 0);
        }
    }
}

/// Those who have much leave something for those who have little.
#[test]
fn an_owner_with_little_has_a_floor() {
    let mut settings = settings();
    settings.spool.bytes_max = 64 << 20;
    let mut w = World::writing(1, settings);
    let zone = Arc::new(Tenant::new(0, TenantKind::Zone));
    let ann = owner(1, &zone);
    let a = come(&mut w, "a", &ann, 1_000);
    w.subscribe(a, "a", Q1);
    w.drop_link(a);
    let p = come(&mut w, "p", &ann, 0);
    // Others have all but a part of the reserve.
    tell(&mut w, 0, 4 << 20);
    let refused = (0..1_000).position(|_| {
        tell(&mut w, 0, 4 << 20);
        w.publish(p, "a", &"x".repeat(500), Q1, false);
        w.take_ack(p, 0x40).0 == 0x97
    });
    let has = ann.own.disk_bytes();
    assert!(
        (100_000..200_000).contains(&has),
        "{has}, after {refused:?}"
    );
}

/// Messages that wait for a shared subscription stay in memory.
#[test]
fn shared_subscriptions_do_not_wait_for_the_disk() {
    let mut w = World::writing(1, settings());
    away(&mut w, 0, "$share/g/flood");
    let p = w.connect(Version::V5, "p", &clean());
    tell(&mut w, FAR_TOO_MUCH, u64::MAX);
    assert!(is_taken(&mut w, p, "flood"));
    w.set_spool(true);
    for _ in 0..20 {
        w.publish(p, "flood", &"x".repeat(500), Q1, false);
        assert_eq!(w.take_ack(p, 0x40).0, 0);
    }
}
