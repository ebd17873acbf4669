//! Rooms that very many leave at once: they are closed, or the connections of all are lost.

use core::time::Duration;

use stentor_mqtt::{
    Packet, PacketId, Properties, Publish, Subscribe, SubscribeFilterBuf, SubscribeOptions, Version,
};

use stentor_hub::{Holding, ShardId};
use stentor_session::{CloseReason, Remote};

use super::{Q0, command, places, received, user};
use crate::world::{World, encoded, qos};

/// Members of a large room.
const MANY: usize = 600;

/// What one turn may do where a room lets its members go: 256 steps, and what a turn does besides.
const VISITS_MAX: u32 = 20_000;

/// Ann, who owns the room `tea`, and many others who are in it.
fn party(w: &mut World, id: &str) -> (usize, Vec<usize>) {
    let ann = w.connect(Version::V5, id, &user("ann"));
    w.subscribe(ann, "$reply/+", Q0);
    w.subscribe(ann, "$room/tea/#", Q0);
    let enter = |number: usize| {
        let name = format!("user-{number:03}");
        let guest = w.connect(Version::V5, &name, &user(&name));
        w.subscribe(guest, "$reply/+", Q0);
        assert_eq!(w.subscribe(guest, "$room/tea/#", Q0), 0);
        w.take_messages(guest);
        guest
    };
    let guests: Vec<usize> = (1..MANY).map(enter).collect();
    for client in guests.iter().chain([&ann]) {
        w.take_messages(*client);
    }
    (ann, guests)
}

fn subscribe(filter: &str) -> Vec<u8> {
    let mut all = SubscribeFilterBuf::new(Version::V5);
    let options: SubscribeOptions = qos(Q0);
    all.push(filter, options).unwrap();
    let packet = Packet::Subscribe(Subscribe {
        packet_id: PacketId::new(9).unwrap(),
        properties: Properties::EMPTY,
        filters: all.as_filters(),
    });
    encoded(Version::V5, &packet)
}

fn call(name: &str, words: &str) -> Vec<u8> {
    let packet = Packet::Publish(Publish {
        dup: false,
        qos: Q0,
        retain: false,
        topic: &format!("$call/room.{name}/{name}"),
        packet_id: None,
        properties: Properties::EMPTY,
        payload: words.as_bytes(),
    });
    encoded(Version::V5, &packet)
}

const CLOSED: &str = r#"$room/tea/event {"event":"closed"}"#;
const TEA: &str = r#"{"room":"tea"}"#;

/// They hear one event, and learn that they are out. What the room was is gone.
#[test]
fn everybody_hears_once_that_a_large_room_is_closed() {
    for (shards, [id, ..]) in places().take(2) {
        let mut w = World::new(shards);
        let (ann, guests) = party(&mut w, id);
        let done = command(&mut w, ann, "close", TEA);
        assert!(done.contains(r#""stays":false"#), "{done}");
        for guest in guests {
            let heard = received(&mut w, guest);
            assert_eq!(heard.len(), 2, "{heard:?}");
            assert_eq!(heard[0], CLOSED);
            assert!(heard[1].contains(r#""error":"closed""#), "{heard:?}");
        }
        assert_eq!(w.stored("$room/#").len(), 0);
        assert_eq!(w.stored("$rooms/tea").len(), 0);
        w.check_accounts();
    }
}

/// A large room that its owner begins to close while two users are there who are not in it. The
/// world is paused: nobody has heard of the end. The second one of them reads answers.
fn closed_beside(names: [&str; 2]) -> (World, usize, Vec<usize>, [usize; 2]) {
    let mut w = World::new(1);
    let (ann, guests) = party(&mut w, "a");
    let others = names.map(|it| w.connect(Version::V5, it, &user(it)));
    w.subscribe(others[1], "$reply/+", Q0);
    w.paused = true;
    w.hubs[0].begin_turn();
    w.send_without_settling(ann, &call("close", TEA));
    (w, ann, guests, others)
}

/// No turn is long. A user who comes to a new room of the name waits until the old one is gone, and
/// those who were in that hear nothing of the new one.
#[test]
fn a_large_room_lets_its_members_go_over_turns() {
    let (mut w, ann, guests, [bystander, bob]) = closed_beside(["eve", "bob"]);
    let visits = w.hubs[0].turn().visits();
    assert!(visits <= VISITS_MAX, "{visits} before the first is out");
    // Both come while the room lets them go.
    w.send_without_settling(bob, &call("create", r#"{"room":"tea","capacity":30}"#));
    w.send_without_settling(bob, &call("info", TEA));
    let (mut out, mut turns) = (0, 0);
    w.turns_beside(bystander, VISITS_MAX, |w| {
        let mut more = 0;
        for (number, &guest) in guests.iter().enumerate() {
            let heard = received(w, guest);
            let is_out = heard.iter().any(|it| it.starts_with("$reply/join"));
            if is_out {
                assert_eq!(heard.len(), 2, "{heard:?}");
                assert_eq!(heard[0], CLOSED);
                more += 1;
                // Some come again as soon as they know.
                if number < 20 {
                    w.send_without_settling(guest, &subscribe("$room/tea/event"));
                }
            } else if number >= 20 {
                assert!(heard.is_empty(), "{heard:?}");
            }
            let has_come = w.clients[guest].received.iter().any(|it| it[0] == 0x90);
            assert!(!has_come || out == guests.len(), "{out} are out");
        }
        assert!(more <= 256, "{more} in a turn");
        out += more;
        turns += 1;
    });
    assert!(turns > 2 * MANY / 256, "{turns}");
    assert_eq!(out, guests.len());
    w.paused = false;
    w.settle();
    for &guest in &guests[..20] {
        let suback = w.take_packet(guest, 0x90).expect("a SUBACK");
        assert_eq!(suback.last(), Some(&0));
    }
    assert!(received(&mut w, ann).contains(&CLOSED.to_owned()));
    let answers = received(&mut w, bob);
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert!(answers[0].starts_with("$reply/create"), "{answers:?}");
    assert!(answers.iter().all(|it| it.contains("done")), "{answers:?}");
    // The new room, and nothing of the old one.
    assert!(answers[1].contains(r#""capacity":30"#), "{answers:?}");
    let info = command(&mut w, bob, "info", TEA);
    assert!(info.contains(r#""members":20"#), "{info}");
    w.check_accounts();
}

/// A session that was in the room and leaves before it is let in again is not in the new one.
#[test]
fn who_waits_for_a_new_room_may_go() {
    let (mut w, ann, guests, [stays, goes]) = closed_beside(["stays", "goes"]);
    for client in [stays, goes] {
        w.send_without_settling(client, &subscribe("$room/tea/event"));
    }
    w.disconnect(goes, CloseReason::Remote(Remote::Disconnect));
    w.paused = false;
    w.settle();
    let info = command(&mut w, ann, "info", TEA);
    assert!(info.contains(r#""members":["stays"]"#), "{info}");
    assert!(received(&mut w, guests[0]).contains(&CLOSED.to_owned()));
}

/// Commands that wait for the end of a room take so much memory at most. Those beyond that run at
/// once, and each is answered.
#[test]
fn commands_that_wait_have_a_bound() {
    const CALLERS: usize = 20;
    /// 4 MiB of what waits, and the rooms.
    const BYTES_MAX: u64 = 5 << 20;
    let mut w = World::new(1);
    let (ann, _) = party(&mut w, "a");
    let callers: Vec<usize> = (0..CALLERS)
        .map(|number| {
            let name = format!("caller-{number}");
            let caller = w.connect(Version::V5, &name, &user(&name));
            w.subscribe(caller, "$reply/+", Q0);
            caller
        })
        .collect();
    w.paused = true;
    w.hubs[0].begin_turn();
    w.send_without_settling(ann, &call("close", TEA));
    let value = "x".repeat(250_000);
    let set = format!(r#"{{"room":"tea","name":"p","value":"{value}"}}"#);
    for &caller in &callers {
        w.send_without_settling(caller, &call("create", TEA));
        for _ in 0..4 {
            w.send_without_settling(caller, &call("set", &set));
        }
    }
    w.hubs[0].settle_accounts();
    let held = w.ledger.of_shard(ShardId(0), Holding::Rooms);
    assert!((1 << 20..BYTES_MAX).contains(&held), "{held} B");
    w.paused = false;
    w.settle();
    let mut made = 0;
    for caller in callers {
        let answers = received(&mut w, caller);
        assert_eq!(answers.len(), 5, "{answers:?}");
        let is_made = |it: &&String| it.starts_with("$reply/create") && it.contains("done");
        made += answers.iter().filter(is_made).count();
    }
    assert_eq!(made, 1);
    w.check_accounts();
}

/// Those who did not come back in time go over turns, and who stays hears of each of them once.
#[test]
fn a_large_room_lets_lost_members_go_over_turns() {
    for (shards, [id, ..]) in places().take(2) {
        let mut w = World::new(shards);
        let (ann, guests) = party(&mut w, id);
        let bystander = w.connect(Version::V5, "eve", &user("eve"));
        for guest in guests {
            w.drop_link(guest);
        }
        received(&mut w, ann);
        w.paused = shards == 1;
        w.now = w.now.after(Duration::from_secs(31));
        let mut left = Vec::new();
        if shards == 1 {
            w.turns_beside(bystander, VISITS_MAX, |w| {
                let more = events_of(w, ann, "left");
                assert!(more.len() <= 128, "{} in a turn", more.len());
                left.extend(more);
            });
        }
        w.paused = false;
        w.advance();
        left.extend(events_of(&mut w, ann, "left"));
        let counts = (1..MANY)
            .rev()
            .map(|members| format!(r#""members":{members}}}"#));
        assert!(
            left.iter()
                .map(|it| &it[it.find(r#""members""#).unwrap()..])
                .eq(counts)
        );
        assert_eq!(left.len(), MANY - 1);
        let info = command(&mut w, ann, "info", TEA);
        assert!(info.contains(r#""members":["ann"]"#), "{info}");
        assert_eq!(w.stored("$room/tea/member/#").len(), 1);
        w.check_accounts();
    }
}

/// The events of this kind that a client has received.
fn events_of(w: &mut World, client: usize, kind: &str) -> Vec<String> {
    let all = received(w, client).into_iter();
    let event = format!(r#"{{"event":"{kind}""#);
    all.filter(|text| text.contains(&event)).collect()
}
