//! A message that is dear to route goes on in later turns, and everybody else is served between
//! them.

mod elsewhere;

use std::sync::Arc;

use crate::world::{ConnectOptions, PING, Random, World, clean, encoded, run_seeds};
use stentor_hub::{AtOnce, Beside, ControlItem, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{Packet, PacketId, Properties, Publish, QoS, Version};
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;

/// What a turn does at most: its budget, one match, and what the last thing that began in it may
/// take.
const VISITS_MAX: u32 = 4_096 + 2_048 + 1_024;

/// Makes every message a job that takes several turns.
fn tiny() -> Settings {
    Settings {
        at_once: AtOnce {
            visits: 1,
            filters: 0,
            subscribers: 0,
            shares: 0,
            work: 0,
            job_visits: 8,
        },
        ..open()
    }
}

/// Serves the rest later as soon as a session has to be looked at for each of several messages.
fn halting() -> Settings {
    Settings {
        at_once: AtOnce {
            work: 1,
            ..AtOnce::default()
        },
        ..open()
    }
}

/// Takes filters that are dear.
fn open() -> Settings {
    Settings {
        topic_wildcards_max: 100,
        shares_max: 100_000,
        share_groups_max: 100_000,
        ..Settings::default()
    }
}

fn publish(topic: &str, payload: &str, qos: QoS) -> Vec<u8> {
    let publish = Publish {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id: (qos > Q0).then(|| PacketId::new(7).unwrap()),
        properties: Properties::EMPTY,
        payload: payload.as_bytes(),
    };
    encoded(Version::V5, &Packet::Publish(publish))
}

/// Turns until nothing is left to do: each is short, and in each of them a bystander is served.
fn turns(w: &mut World, bystander: usize) -> usize {
    let (_, turns) = w.turns_beside(bystander, VISITS_MAX, |_| {});
    assert_eq!(w.hubs[0].inspect().work_bytes(), 0);
    turns
}

/// Audit A2: filters that a topic nearly matches, so that all their levels are visited.
#[test]
fn filters_that_nearly_match_leave_turns_to_others() {
    const LEVELS: u32 = 12;
    let mut w = World::with_settings(1, open());
    let (bystander, s, p) = (
        w.connect(Version::V5, "b", &clean()),
        w.connect(Version::V5, "s", &clean()),
        w.connect(Version::V5, "p", &clean()),
    );
    let filter = |bits: u32, end: &str| {
        let level = |at| if bits >> at & 1 == 0 { "a/" } else { "+/" };
        (0..LEVELS).map(level).collect::<String>() + end
    };
    for bits in 0..1 << LEVELS {
        assert_eq!(w.subscribe(s, &filter(bits, "z"), Q0), 0);
    }
    w.subscribe(s, &filter(0xAAA, "y"), Q0);
    w.paused = true;
    w.hubs[0].begin_turn();
    let topic = "a/".repeat(LEVELS as usize);
    let mut bytes = Vec::new();
    for n in 0..5 {
        bytes.extend(publish(&format!("{topic}x{n}"), "none", Q0));
        bytes.extend(publish(&format!("{topic}y"), &n.to_string(), Q0));
    }
    w.send_without_settling(p, &bytes);
    assert!(w.hubs[0].turn().visits() <= VISITS_MAX);
    assert!(w.hubs[0].inspect().work_bytes() > 0);
    w.check_accounts();
    assert_eq!(w.hubs[0].turn().figures().client_id, "p");
    assert!(turns(&mut w, bystander) >= 10);
    assert_eq!(w.take_payloads(s), ["0", "1", "2", "3", "4"]);
    // Its publisher owes for it.
    let key = w.clients[p].key.unwrap();
    w.hubs[0].begin_turn();
    assert!(w.hubs[0].receive(w.now, key, &PING) == 0 || w.now > Tick::from_secs(1));
}

/// Audit A4: one message for very many groups.
#[test]
fn very_many_groups_leave_turns_to_others() {
    const GROUPS: usize = 3_000;
    let mut w = World::with_settings(1, open());
    let (bystander, s, p) = (
        w.connect(Version::V5, "b", &clean()),
        w.connect(Version::V5, "s", &clean()),
        w.connect(Version::V5, "p", &clean()),
    );
    let groups: Vec<String> = (0..GROUPS).map(|n| format!("$share/g{n}/t")).collect();
    w.subscribe_all(s, &groups);
    w.paused = true;
    for _ in 0..2 {
        w.hubs[0].begin_turn();
        w.send_without_settling(p, &[publish("t", "1", Q0), publish("t", "2", Q0)].concat());
        assert!(turns(&mut w, bystander) >= 4);
        let messages = w.take_payloads(s);
        assert_eq!(messages.len(), 2 * GROUPS);
        let ones = messages.iter().filter(|payload| *payload == "1").count();
        assert_eq!(ones, GROUPS);
    }
}

#[test]
fn very_many_subscribers_beside_the_most_leave_turns_to_others() {
    let mut w = World::with_settings(
        1,
        Settings {
            at_once: AtOnce {
                subscribers: 500,
                ..AtOnce::default()
            },
            ..open()
        },
    );
    let bystander = w.connect(Version::V5, "b", &clean());
    let p = w.connect(Version::V5, "p", &clean());
    let subscribers: Vec<_> = (0..600)
        .map(|n| {
            let s = w.connect(Version::V5, &format!("s{n}"), &clean());
            w.subscribe(s, "t", Q0);
            w.subscribe(s, "t/#", Q1);
            if n % 2 == 0 {
                w.subscribe(s, "+", Q0);
            }
            s
        })
        .collect();
    w.paused = true;
    w.send_without_settling(p, &publish("t", "x", Q1));
    w.go_on(0);
    let bytes = w.hubs[0].inspect().work_bytes();
    assert!(bytes < 64 << 10, "{bytes}");
    turns(&mut w, bystander);
    for s in subscribers {
        let messages = w.take_messages(s);
        assert_eq!(messages.len(), 1, "one copy of each");
        assert_eq!(messages[0].qos, Q1, "at the highest");
    }
}

/// Three publishers share the turns, and each has its order.
#[test]
fn each_publisher_has_its_order_and_waits_for_its_own() {
    let mut w = World::with_settings(1, tiny());
    let s = w.connect(Version::V5, "s", &clean());
    for filter in ["#", "t/+", "+/a", "t/a"] {
        w.subscribe(s, filter, Q0);
    }
    let bystander = w.connect(Version::V5, "b", &clean());
    let publishers: Vec<_> = (0..3)
        .map(|n| w.connect(Version::V5, &format!("p{n}"), &clean()))
        .collect();
    w.paused = true;
    for (n, p) in publishers.iter().enumerate() {
        let mut bytes = Vec::new();
        for at in 0..8 {
            let topic = ["t/a", "t/b", "x"][at % 3];
            bytes.extend(publish(topic, &format!("{n}.{at}"), Q0));
        }
        bytes.extend(PING);
        w.send_without_settling(*p, &bytes);
        w.flush(0);
        assert!(w.take_packet(*p, 0xD0).is_none(), "it is held");
    }
    assert!(turns(&mut w, bystander) > 24);
    let payloads = w.take_payloads(s);
    assert_eq!(payloads.len(), 24);
    for (n, p) in publishers.iter().enumerate() {
        let own = payloads
            .iter()
            .filter(|it| it.starts_with(&format!("{n}.")));
        assert!(own.is_sorted(), "{payloads:?}");
        assert!(w.take_packet(*p, 0xD0).is_some());
    }
}

#[test]
fn what_changes_meanwhile_counts() {
    let mut w = World::with_settings(1, tiny());
    let bystander = w.connect(Version::V5, "b", &clean());
    let p = w.connect(Version::V5, "p", &clean());
    let all: Vec<_> = (0..8)
        .map(|n| {
            let s = w.connect(Version::V5, &format!("s{n}"), &ConnectOptions::persistent());
            w.subscribe(s, "t", Q1);
            w.subscribe(s, "+", Q0);
            s
        })
        .collect();
    w.paused = true;
    w.send_without_settling(p, &publish("t", "x", Q1));
    w.go_on(0);
    let unsubscribe = |w: &mut World, s: usize, filter: &str| {
        let mut filters = stentor_mqtt::UnsubscribeFilterBuf::new();
        filters.push(filter).unwrap();
        let packet = Packet::Unsubscribe(stentor_mqtt::Unsubscribe {
            packet_id: PacketId::new(9).unwrap(),
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        });
        w.send_without_settling(s, &encoded(Version::V5, &packet));
    };
    // Gone from one filter, and from both.
    unsubscribe(&mut w, all[0], "t");
    unsubscribe(&mut w, all[1], "t");
    unsubscribe(&mut w, all[1], "+");
    // Away, gone for good, and anew.
    w.drop_link(all[2]);
    w.drop_link(all[3]);
    let again = w.connect_only(Version::V5, "s3", &clean());
    let late = w.connect_only(Version::V5, "late", &clean());
    let nine = PacketId::new(9).unwrap();
    for s in [again, late] {
        w.subscribe_only(s, nine, "t", crate::world::qos(Q1));
    }
    // Its publisher closes; the message is taken all the same.
    w.drop_link(p);
    assert!(w.hubs[0].inspect().work_bytes() > 0);
    turns(&mut w, bystander);
    for (at, qos) in [(0, Some(Q0)), (1, None), (4, Some(Q1)), (7, Some(Q1))] {
        let messages = w.take_messages(all[at]);
        let found = messages.first().map(|message| message.qos);
        assert_eq!(
            (messages.len(), found),
            (usize::from(qos.is_some()), qos),
            "{at}"
        );
    }
    for s in [again, late] {
        assert!(
            w.take_messages(s).is_empty(),
            "it came when it was published"
        );
    }
    w.paused = false;
    let back = w.connect(Version::V5, "s2", &ConnectOptions::persistent());
    assert_eq!(w.take_payloads(back), ["x"], "who is away gets it later");
    // Nothing is left of it.
    w.publish(late, "t", "y", Q1, false);
    for s in [again, late, back, all[0]] {
        assert_eq!(w.take_payloads(s), ["y"]);
    }
}

/// What each message of several costs, where it has to be looked at for each session: those that
/// number their subscriptions, that know aliases, or that want less than all.
#[test]
fn messages_that_do_not_go_as_one_leave_turns_to_others() {
    const SESSIONS: usize = 1_600;
    let aliases = ConnectOptions {
        alias_maximum: 10,
        ..clean()
    };
    for kind in ["identifier", "alias", "rate"] {
        let mut w = World::with_settings(1, open());
        let (bystander, p) = (
            w.connect(Version::V5, "b", &clean()),
            w.connect(Version::V5, "p", &clean()),
        );
        let subscribers: Vec<usize> = (0..SESSIONS)
            .map(|n| {
                let (filter, id) = ("t/+", format!("s{n}"));
                let options = if kind == "alias" { &aliases } else { &clean() };
                let s = w.connect(Version::V5, &id, options);
                let refused = match kind {
                    "identifier" => w.subscribe_with(s, filter, crate::world::qos(Q0), Some(7)),
                    "rate" => *w
                        .subscribe_asking(s, filter, Q0, &[("max-rate", "0.001")])
                        .last()
                        .unwrap(),
                    _ => w.subscribe(s, filter, Q0),
                };
                assert_eq!(refused, 0);
                s
            })
            .collect();
        let numbers: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| publish("t/a", n, Q0)).collect();
        w.paused = true;
        w.hubs[0].begin_turn();
        w.send_without_settling(p, &[bytes, publish("u", "after", Q0)].concat());
        w.flush(0);
        let at_once: usize = subscribers
            .iter()
            .filter(|s| !w.clients[**s].received.is_empty())
            .count();
        assert!(at_once > 0 && at_once < SESSIONS / 4, "{kind}: {at_once}");
        assert!(turns(&mut w, bystander) >= 10, "{kind}");
        for s in subscribers {
            let payloads = w.take_payloads(s);
            let expected = if kind == "rate" {
                &numbers[..1]
            } else {
                &numbers
            };
            assert_eq!(payloads, expected, "{kind}");
        }
    }
}

/// One message that each session is owed.
#[test]
fn a_message_to_very_many_leaves_turns_to_others() {
    const SESSIONS: usize = 3_000;
    let mut w = World::with_settings(1, open());
    let (bystander, p) = (
        w.connect(Version::V5, "b", &clean()),
        w.connect(Version::V5, "p", &clean()),
    );
    let subscribers: Vec<usize> = (0..SESSIONS)
        .map(|n| {
            let s = w.connect(Version::V5, &format!("s{n}"), &clean());
            assert_eq!(w.subscribe(s, "t", Q1), 1);
            s
        })
        .collect();
    w.paused = true;
    w.hubs[0].begin_turn();
    w.send_without_settling(p, &publish("t", "all", Q1));
    w.flush(0);
    let has = |w: &World, s: &usize| !w.clients[*s].received.is_empty();
    let at_once = subscribers.iter().filter(|s| has(&w, s)).count();
    assert!(at_once > 100 && at_once < 2_000, "{at_once}");
    assert!(turns(&mut w, bystander) >= 3);
    for s in subscribers {
        assert_eq!(w.take_payloads(s), ["all"]);
    }
}

/// A publisher to many pays for filters that are dear to find, not for being put off.
#[test]
fn messages_to_the_subscribers_of_one_filter_are_free() {
    const SESSIONS: usize = 3_000;
    let mut w = World::with_settings(1, open());
    let (bystander, p) = (
        w.connect(Version::V5, "b", &clean()),
        w.connect(Version::V5, "p", &clean()),
    );
    for n in 0..SESSIONS {
        let s = w.connect(Version::V5, &format!("s{n}"), &clean());
        assert_eq!(w.subscribe(s, "t", Q1), 1);
    }
    w.paused = true;
    let before = w.now;
    for n in 0..60 {
        w.hubs[0].begin_turn();
        w.send_without_settling(p, &publish("t", &n.to_string(), Q1));
        assert!(turns(&mut w, bystander) >= 3, "it is put off");
    }
    let key = w.clients[p].key.unwrap();
    w.hubs[0].begin_turn();
    // By that time no debt would have been paid.
    assert_eq!(w.hubs[0].receive(before, key, &PING), PING.len());
}

/// A turn that has output to write hands messages to few. What others publish to many goes on in
/// later turns, so a message to one client is delivered at once.
#[test]
fn messages_to_many_are_put_off_while_output_is_left() {
    const SUBSCRIBERS: usize = 100;
    const PUBLISHERS: usize = 50;
    let mut w = World::with_settings(1, open());
    let bystander = w.connect(Version::V5, "b", &clean());
    w.subscribe(bystander, "own", Q0);
    let subscribers: Vec<usize> = (0..SUBSCRIBERS)
        .map(|n| {
            let s = w.connect(Version::V5, &format!("s{n}"), &clean());
            w.subscribe(s, "wall/#", Q0);
            s
        })
        .collect();
    let publishers: Vec<usize> = (0..PUBLISHERS)
        .map(|n| w.connect(Version::V5, &format!("p{n}"), &clean()))
        .collect();
    w.paused = true;
    w.hubs[0].begin_turn();
    w.hubs[0].turn_mut().count_beside(Beside::OutputLeft);
    for (n, p) in publishers.iter().enumerate() {
        w.send_without_settling(*p, &publish(&format!("wall/{n}"), &n.to_string(), Q0));
    }
    w.send_without_settling(bystander, &publish("own", "pong", Q0));
    assert!(
        !w.hubs[0].turn().handed_over().is_too_much
            && w.hubs[0].turn().handed_over().subscribers < 1_000
    );
    assert!(w.hubs[0].turn().has_jobs());
    w.flush(0);
    assert_eq!(w.take_payloads(bystander), ["pong"]);
    turns(&mut w, bystander);
    for s in subscribers {
        let mut payloads = w.take_payloads(s);
        payloads.sort_by_key(|payload| payload.parse::<usize>().unwrap());
        let expected: Vec<String> = (0..PUBLISHERS).map(|n| n.to_string()).collect();
        assert_eq!(payloads, expected);
    }
}

/// Several messages of one publisher to one topic go together, and would be as many later.
#[test]
fn a_burst_is_not_put_off() {
    let mut w = World::with_settings(1, open());
    for n in 0..100 {
        let s = w.connect(Version::V5, &format!("s{n}"), &clean());
        w.subscribe(s, "t", Q0);
    }
    let p = w.connect(Version::V5, "p", &clean());
    w.paused = true;
    w.hubs[0].begin_turn();
    w.hubs[0].turn_mut().count_beside(Beside::OutputLeft);
    let burst = publish("t", "x", Q0).repeat(3);
    for _ in 0..6 {
        assert!(!w.hubs[0].turn().handed_over().is_too_much);
        w.send_without_settling(p, &burst);
    }
    w.send_without_settling(p, &burst);
    assert!(w.hubs[0].turn().handed_over().is_too_much && !w.hubs[0].turn().has_jobs());
}

/// Figures of `$SYS` and what rooms tell go to all their subscribers, in their order.
#[test]
fn the_messages_of_the_server_are_put_off_in_their_order() {
    const FIGURES: usize = 300;
    let mut w = World::with_settings(1, open());
    let bystander = w.connect(Version::V5, "b", &clean());
    let subscribers: Vec<usize> = (0..100)
        .map(|n| {
            let s = w.connect(Version::V5, &format!("s{n}"), &clean());
            w.subscribe(s, "$SYS/#", Q0);
            s
        })
        .collect();
    w.paused = true;
    w.hubs[0].begin_turn();
    let now = w.now;
    for n in 0..FIGURES {
        let (topic, payload) = (format!("$SYS/{n}"), n.to_string());
        let parts = MessageParts {
            topic: &topic,
            properties: &[],
            payload: payload.as_bytes(),
            qos: Q0,
            retain: false,
            expiry_secs: None,
        };
        let message = Message::new(Zone::DEFAULT, Publisher::SERVER, now, &parts);
        w.hubs[0].control(now, ControlItem::Publish(Arc::new(message)));
    }
    assert!(
        w.hubs[0].turn().handed_over().subscribers < 10_000,
        "{}",
        w.hubs[0].turn().handed_over().subscribers
    );
    turns(&mut w, bystander);
    let expected: Vec<String> = (0..FIGURES).map(|n| n.to_string()).collect();
    for s in subscribers {
        assert_eq!(w.take_payloads(s), expected);
    }
}

/// Whatever the bounds, each client gets the same.
#[test]
fn jobs_deliver_what_is_delivered_at_once() {
    run_seeds(30, |seed| {
        let mut random = Random(seed * 0x9E37_79B9 + 1);
        let shards = [1, 2, 3][random.below(3)];
        let mut worlds = [
            World::with_settings(shards, tiny()),
            World::with_settings(shards, halting()),
            World::with_settings(shards, open()),
        ];
        const LEVELS: [&str; 4] = ["a", "b", "+", "#"];
        let filter = |random: &mut Random| {
            let mut levels: Vec<&str> = Vec::new();
            for _ in 0..1 + random.below(3) {
                let level = LEVELS[random.below(4)];
                levels.push(level);
                if level == "#" {
                    break;
                }
            }
            let filter = levels.join("/");
            match random.below(4) {
                0 => format!("$share/g{}/{filter}", random.below(3)),
                _ => filter,
            }
        };
        let topic = |random: &mut Random| {
            let levels: Vec<_> = (0..1 + random.below(3))
                .map(|_| LEVELS[random.below(2)])
                .collect();
            levels.join("/")
        };
        let options = [clean(), ConnectOptions::persistent()];
        let clients: Vec<_> = (0..12)
            .map(|n| {
                worlds
                    .each_mut()
                    .map(|w| w.connect(Version::V5, &format!("c{n}"), &options[n % 2]))[0]
            })
            .collect();
        for number in 0..300 {
            let (client, qos) = (clients[random.below(12)], [Q0, Q1][random.below(2)]);
            match random.below(4) {
                0 => {
                    let filter = filter(&mut random);
                    let id = [None, Some(7)][random.below(2)];
                    for w in &mut worlds {
                        w.subscribe_with(client, &filter, crate::world::qos(qos), id);
                    }
                }
                1 => {
                    let filter = filter(&mut random);
                    for w in &mut worlds {
                        w.unsubscribe(client, &filter);
                    }
                }
                2 => {
                    let topic = topic(&mut random);
                    let burst = (0..3).map(|n| publish(&topic, &format!("{number}.{n}"), Q0));
                    let burst: Vec<u8> = burst.flatten().collect();
                    for w in &mut worlds {
                        w.send_bytes(client, &burst);
                    }
                }
                _ => {
                    let topic = topic(&mut random);
                    let payload = number.to_string();
                    let retain = random.below(4) == 0;
                    for w in &mut worlds {
                        w.publish(client, &topic, &payload, qos, retain);
                    }
                }
            }
            for client in &clients {
                let [some, others, all] = worlds.each_mut().map(|w| {
                    let mut messages = w.take_messages(*client);
                    for message in &mut messages {
                        if let Some(packet_id) = message.packet_id.take() {
                            w.send_ack(*client, 0x40, packet_id);
                        }
                    }
                    messages.sort_by_key(|it| {
                        (it.payload.clone(), it.ids.clone(), it.qos as u8, it.retain)
                    });
                    messages
                });
                assert_eq!(some, all, "{number}");
                assert_eq!(others, all, "{number}");
            }
        }
    });
}

/// Publishers that leave their messages behind a dear one and go, and a subscriber that goes too.
fn leave_messages(w: &mut World, publishers: usize, each: usize) {
    let s = w.connect(Version::V5, "s", &clean());
    for filter in ["t", "+"] {
        w.subscribe(s, filter, Q0);
    }
    let all: Vec<_> = (0..publishers)
        .map(|n| w.connect(Version::V5, &format!("p{n}"), &clean()))
        .collect();
    w.paused = true;
    let bytes = publish("t", "", Q0).repeat(each);
    for p in all {
        w.send_without_settling(p, &bytes);
        w.drop_link(p);
    }
    w.drop_link(s);
}

/// Makes every message a job that goes as far as a turn allows.
fn dear() -> Settings {
    Settings {
        at_once: AtOnce {
            filters: 0,
            ..AtOnce::default()
        },
        ..open()
    }
}

#[test]
fn what_the_messages_of_a_job_take_is_counted() {
    const EACH: usize = 500;
    /// Its place in the job, and two blocks with two counts each: the message, and its topic.
    const LEAST: usize = size_of::<usize>() + 4 * size_of::<usize>() + size_of::<Message>() + 1;
    let mut w = World::with_settings(1, dear());
    leave_messages(&mut w, 3, EACH);
    let bytes = w.hubs[0].inspect().work_bytes();
    assert!(bytes >= (3 * EACH * LEAST) as u64, "{bytes}");
    assert!(bytes <= (6 * EACH * LEAST) as u64, "{bytes}");
    w.check_accounts();
}

/// Hundreds of messages of a publisher that has gone are dropped as a turn has room for it.
#[test]
fn messages_that_nobody_gets_any_more_leave_turns_to_others() {
    const PUBLISHERS: usize = 60;
    const EACH: usize = 500;
    let mut w = World::with_settings(1, dear());
    let bystander = w.connect(Version::V5, "b", &clean());
    leave_messages(&mut w, PUBLISHERS, EACH);
    let mut before = w.hubs[0].inspect().work_bytes();
    let all = before;
    let (_, turns) = w.turns_beside(bystander, VISITS_MAX, |w| {
        let now = w.hubs[0].inspect().work_bytes();
        assert!(before - now <= all / 10, "{before} and {now} of {all}");
        before = now;
    });
    assert!(turns >= 12, "{turns}");
    assert_eq!(w.hubs[0].inspect().work_bytes(), 0);
}

/// A long message makes room in many full queues: not in all of them at once.
#[test]
fn room_is_made_in_few_queues_at_a_time() {
    const SUBSCRIBERS: usize = 60;
    const SMALL: usize = 1_000;
    for qos in [Q0, Q1] {
        let mut w = World::with_settings(
            1,
            Settings {
                queue_bytes_max: 400_000,
                policies: vec![TopicPolicy {
                    filter: "#".into(),
                    qos0: SlowPolicy::DropOldest,
                    qos1: SlowPolicy::DropOldest,
                    ..TopicPolicy::default()
                }],
                at_once: AtOnce {
                    work: 1_000,
                    ..AtOnce::default()
                },
                ..open()
            },
        );
        let options = ConnectOptions {
            receive_maximum: 1,
            ..clean()
        };
        let bystander = w.connect(Version::V5, "bystander", &clean());
        let subscribers: Vec<usize> = (0..SUBSCRIBERS)
            .map(|n| {
                let client = w.connect(Version::V5, &format!("s{n}"), &options);
                w.subscribe(client, "t", qos);
                w.clients[client].socket_room = 0;
                client
            })
            .collect();
        let p = w.connect(Version::V5, "p", &clean());
        for _ in 0..SMALL {
            w.publish(p, "t", "x", qos, false);
        }
        w.hubs[0].begin_turn();
        w.send_without_settling(p, &publish("t", &"y".repeat(390_000), qos));
        let dropped = w.hubs[0].inspect().stats().publishes_dropped;
        assert!(dropped > 0 && dropped <= 2 * SMALL as u64, "{dropped}");
        // Two visits for a message that is dropped, and two for its work.
        let visits = 3 * 4 * SMALL as u32;
        assert!(w.hubs[0].turn().visits() <= visits);
        w.turns_beside(bystander, visits, |_| {});
        let dropped = w.hubs[0].inspect().stats().publishes_dropped;
        assert!(dropped >= (SUBSCRIBERS * SMALL / 2) as u64, "{dropped}");
        for subscriber in subscribers {
            w.open_socket(subscriber, usize::MAX);
            let mut last = Vec::new();
            loop {
                let messages = w.take_messages(subscriber);
                let Some(message) = messages.last() else {
                    break;
                };
                last = message.payload.clone();
                for id in messages.iter().filter_map(|message| message.packet_id) {
                    w.send_ack(subscriber, 0x40, id);
                }
            }
            assert_eq!(last.first(), Some(&b'y'));
        }
    }
}
