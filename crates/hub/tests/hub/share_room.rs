//! Changes of shared subscriptions reach other shards as far as their turns have room for them.

use crate::world::{ConnectOptions, World, clean, qos};
use stentor_hub::Settings;
use stentor_mqtt::{PacketId, QoS, Version};
use stentor_session::Tick;

/// What the turns of the receiver have room for.
const ROOM: u32 = 2_000;

/// Shared subscriptions of each client.
const SHARES: usize = 64;

/// What a turn of the receiver does beyond its room: the last item, or the joins of a packet or
/// slice that had room when it began.
const ITEM_MAX: u32 = 40;
const SLICE_MAX: u32 = 4_096;

/// A client on one of them.
fn client(w: &mut World, shard: u8, name: &str, options: &ConnectOptions<'_>) -> usize {
    let ids = (0..).map(|n| format!("{name}{n}"));
    let id = ids.into_iter().find(|id| w.home(id) == shard).unwrap();
    w.connect(Version::V5, &id, options)
}

fn shares(name: &str) -> Vec<String> {
    let tail = "n".repeat(400);
    let one = |n| format!("$share/{name}{n}/{name}/{n}/{tail}");
    (0..SHARES).map(one).collect()
}

/// Members on the first hub that the second knows of.
fn members(w: &mut World, count: usize, options: &ConnectOptions<'_>) -> Vec<usize> {
    let mut all = Vec::new();
    for n in 0..count {
        let name = format!("m{n}x");
        let member = client(w, 0, &name, options);
        let granted = w.subscribe_all(member, &shares(&name));
        assert_eq!(granted, [0; SHARES]);
        all.push(member);
    }
    assert_eq!(w.hubs[1].inspect().filters().count(), count * SHARES);
    all
}

/// A turn of both hubs. Returns what it has cost the second.
fn turn(w: &mut World, room: u32) -> u32 {
    w.hubs[1].begin_turn();
    w.set_share_room(0, room);
    w.go_on(0);
    w.flush(0);
    w.tick();
    w.hubs[1].turn().visits()
}

/// Turns until nothing waits.
fn turns(w: &mut World, room: u32, visits_max: u32) -> usize {
    for turns in 0..10_000 {
        if w.hubs[0].next_deadline() != Some(Tick::ZERO) && !w.hubs[0].turn().waits_for_share_room()
        {
            return turns;
        }
        let visits = turn(w, room);
        assert!(visits <= visits_max, "{visits} visits in turn {turns}");
        w.check_accounts();
    }
    panic!("it comes to an end");
}

#[test]
fn the_ends_of_many_members_reach_other_shards_over_many_turns() {
    let mut w = World::new(2);
    let all = members(&mut w, 16, &clean());
    w.paused = true;
    w.hubs[1].begin_turn();
    w.set_share_room(0, ROOM);
    for member in all {
        w.drop_link(member);
    }
    assert!(w.hubs[1].turn().visits() <= ROOM + ITEM_MAX);
    let untold = w.hubs[0].turn().untold_bytes();
    assert!(untold > 16 * 50 * 800, "they are counted: {untold}");
    assert!(turns(&mut w, ROOM, ROOM + ITEM_MAX) > 10);
    assert_eq!(w.hubs[0].turn().untold_bytes(), 0);
    for hub in &w.hubs {
        assert_eq!(hub.inspect().filters().count(), 0);
    }
}

#[test]
fn many_new_members_take_many_turns_and_are_known_when_they_are_acknowledged() {
    let mut w = World::new(2);
    let publisher = client(&mut w, 1, "p", &clean());
    let bystander = client(&mut w, 0, "b", &clean());
    let joining: Vec<_> = (0..16)
        .map(|n| client(&mut w, 0, &format!("j{n}x"), &clean()))
        .collect();
    w.paused = true;
    w.hubs[1].begin_turn();
    w.set_share_room(0, ROOM);
    for (n, member) in joining.iter().enumerate() {
        w.subscribe_all_only(*member, &shares(&format!("j{n}x")));
    }
    assert!(w.hubs[1].turn().visits() <= ROOM + SLICE_MAX);
    w.flush(0);
    let (mut acknowledged, mut most) = (0, 0);
    while acknowledged < joining.len() {
        let before = acknowledged;
        let visits = turn(&mut w, ROOM);
        assert!(visits <= ROOM + SLICE_MAX, "{visits}");
        // What is not shared does not wait.
        w.subscribe_only(
            bystander,
            PacketId::new(7).unwrap(),
            "b",
            qos(QoS::AtMostOnce),
        );
        w.flush(0);
        assert!(w.take_packet(bystander, 0x90).is_some());
        for (n, member) in joining.iter().enumerate() {
            if w.take_packet(*member, 0x90).is_some() {
                acknowledged += 1;
                let last = shares(&format!("j{n}x")).pop().unwrap();
                let topic = last.splitn(3, '/').last().unwrap();
                w.publish(publisher, topic, "now", QoS::AtMostOnce, false);
                assert!(w.deliver_one((0, 1)), "the other shard knows of {n}");
                w.flush(0);
                assert_eq!(w.take_payloads(*member), ["now"]);
            }
        }
        most = most.max(acknowledged - before);
    }
    assert!(most < joining.len() / 2, "{most} in one turn");
}

#[test]
fn a_member_that_comes_and_goes_is_told_of_once() {
    let mut w = World::new(2);
    let publisher = client(&mut w, 1, "p", &clean());
    let member = members(&mut w, 1, &ConnectOptions::persistent())[0];
    let id = (0..)
        .map(|n| format!("m0x{n}"))
        .find(|id| w.home(id) == 0)
        .unwrap();
    w.paused = true;
    w.hubs[1].begin_turn();
    w.set_share_room(0, 0);
    let mut back = member;
    for _ in 0..6 {
        w.drop_link(back);
        back = w.connect_only(Version::V5, &id, &ConnectOptions::persistent());
    }
    assert_eq!(w.hubs[1].turn().visits(), 0);
    assert!(w.hubs[0].turn().waits_for_share_room());
    assert_ne!(w.hubs[0].next_deadline(), Some(Tick::ZERO), "it would spin");
    let visits = turn(&mut w, u32::MAX - 1);
    // None makes or removes anything.
    assert_eq!(visits as usize, SHARES * (2 + 400 / 64));
    assert_eq!(turn(&mut w, u32::MAX - 1), 0);
    w.paused = false;
    w.publish(
        publisher,
        &format!("m0x/5/{}", "n".repeat(400)),
        "here",
        QoS::AtMostOnce,
        false,
    );
    assert_eq!(w.take_payloads(back), ["here"]);
}

#[test]
fn sessions_of_an_earlier_start_tell_other_shards_over_many_turns() {
    let mut w = World::writing(2, Settings::default());
    let persistent = ConnectOptions::persistent();
    members(&mut w, 16, &persistent);
    w.crash(2, 3);
    assert!(w.start_turns > 2, "{} turns", w.start_turns);
    let known = |shard: usize| w.hubs[shard].inspect().filters().count();
    assert_eq!((known(0), known(1)), (16 * SHARES, 16 * SHARES));
}

#[test]
fn only_what_is_shared_waits_for_room() {
    let mut w = World::new(2);
    let one = client(&mut w, 0, "a", &clean());
    let two = client(&mut w, 0, "b", &clean());
    w.paused = true;
    w.set_share_room(0, 0);
    w.subscribe_all_only(one, &["x".into(), "y".into()]);
    w.subscribe_all_only(two, &["x".into(), "$share/g/y".into()]);
    w.flush(0);
    assert!(w.take_packet(one, 0x90).is_some());
    assert!(w.hubs[0].turn().waits_for_share_room());
    assert_ne!(w.hubs[0].next_deadline(), Some(Tick::ZERO), "it would spin");
    for _ in 0..3 {
        turn(&mut w, 0);
        assert!(w.take_packet(two, 0x90).is_none());
    }
    turn(&mut w, 1);
    assert!(w.take_packet(two, 0x90).is_some());
    turn(&mut w, 1);
    assert!(!w.hubs[0].turn().waits_for_share_room());
}

/// What has ended is not counted with its members any more, so it is bounded by itself.
#[test]
fn nothing_new_is_shared_while_others_have_not_heard_of_16_mib_that_have_ended() {
    let mut w = World::new(2);
    let newcomer = client(&mut w, 0, "n", &clean());
    let long = "f".repeat(60_000);
    let mut members = Vec::new();
    for n in 0..4 {
        let member = client(&mut w, 0, &format!("m{n}x"), &clean());
        let filters: Vec<_> = (0..48)
            .map(|k| format!("$share/{k}/{n}/{k}/{long}"))
            .collect();
        for some in filters.chunks(8) {
            assert_eq!(w.subscribe_all(member, some), [0; 8]);
        }
        members.push(member);
    }
    w.paused = true;
    w.set_share_room(0, 0);
    for member in members {
        w.drop_link(member);
    }
    assert!(w.hubs[0].turn().untold_bytes() > 20 << 20);
    // Half of the room is left for new members.
    w.set_share_room(0, 20_000);
    w.subscribe_all_only(newcomer, &["$share/g/y".into()]);
    w.flush(0);
    assert!(w.take_packet(newcomer, 0x90).is_none());
    while w.hubs[0].turn().untold_bytes() > 16 << 20 {
        assert!(w.take_packet(newcomer, 0x90).is_none());
        turn(&mut w, 20_000);
    }
    turn(&mut w, 20_000);
    assert!(w.hubs[0].turn().untold_bytes() > 0);
    assert!(w.take_packet(newcomer, 0x90).is_some());
}
