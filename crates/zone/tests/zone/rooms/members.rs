//! Members come in, stay, and go.

use super::*;

#[test]
fn the_first_to_join_makes_the_room_and_owns_it() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    assert_eq!(hall.listed("tea")["owner"], "ann");
    assert_eq!(hall.listed("tea")["members"], 1);
    assert_eq!(
        hall.retained("$room/tea/member/ann"),
        Some(json!({"state": "here"}))
    );
    assert_eq!(
        hall.events("tea"),
        [json!({"event": "joined", "user": "ann", "members": 1})]
    );
}

#[test]
fn an_empty_room_dissolves_without_a_trace() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.act("tea", |room, out| {
        room.set(
            user("ann"),
            "topic",
            Some(json!("oolong")),
            &Condition::Always,
            out,
        )
    })
    .unwrap();
    hall.leave("ann", 1, "tea");
    assert!(hall.rooms.is_empty());
    assert_eq!(hall.topics(), Vec::<String>::new());
}

#[test]
fn a_permanent_room_stays() {
    let mut hall = Hall::default();
    let options = RoomOptions {
        permanent: true,
        ..RoomOptions::default()
    };
    let refused = hall.create(user("ann"), "lobby", options.clone());
    assert_eq!(refused, Err(Refusal::Permanent));
    hall.create(admin(), "lobby", options).unwrap();
    hall.join("ann", 1, "lobby").unwrap();
    assert_eq!(hall.listed("lobby").get("owner"), None);
    hall.leave("ann", 1, "lobby");
    assert_eq!(hall.topics(), ["$rooms/lobby"]);
    let mut out = Vec::new();
    assert_eq!(
        hall.rooms.close(user("ann"), "lobby", &mut out),
        Err(Refusal::NotOwner)
    );
    hall.rooms.close(admin(), "lobby", &mut out).unwrap();
    hall.apply(out);
    assert_eq!(hall.topics(), Vec::<String>::new());
}

#[test]
fn who_may_come_in() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.act("tea", |room, out| {
        room.change(user("ann"), Change::Capacity(Some(2)), out)
    })
    .unwrap();
    hall.join("bob", 2, "tea").unwrap();
    assert_eq!(hall.join("cat", 3, "tea"), Err(Refusal::Full));
    // A second session of a member takes no place; an observer neither.
    hall.join("bob", 4, "tea").unwrap();
    hall.observe("cat", 3, "tea").unwrap();
    assert_eq!(hall.listed("tea")["members"], 2);
    hall.act("tea", |room, out| {
        room.change(user("ann"), Change::Capacity(None), out)?;
        room.change(user("ann"), Change::Locked(true), out)
    })
    .unwrap();
    assert_eq!(hall.join("dan", 5, "tea"), Err(Refusal::Locked));
    hall.act("tea", |room, out| {
        room.join(Tick::ZERO, admin(), session(6), Entry::Member, out)
    })
    .unwrap();
    for name in ["", "a/b", "+", "#", "$x"] {
        assert_eq!(hall.join("ann", 1, name), Err(Refusal::Name), "{name}");
    }
}

#[test]
fn users_make_rooms_only_where_the_zone_allows_it() {
    let mut hall = Hall::new(RoomsOptions {
        user_rooms: false,
        rooms_max: 1,
        ..RoomsOptions::default()
    });
    assert_eq!(hall.join("ann", 1, "tea"), Err(Refusal::NotAllowed));
    assert_eq!(hall.observe("ann", 1, "tea"), Err(Refusal::Unknown));
    let options = RoomOptions::default;
    hall.create(admin(), "tea", options()).unwrap();
    assert_eq!(hall.create(admin(), "tea", options()), Err(Refusal::Exists));
    assert_eq!(
        hall.create(admin(), "two", options()),
        Err(Refusal::TooMany)
    );
    hall.join("ann", 1, "tea").unwrap();
}

#[test]
fn only_members_speak_and_everybody_hears_who() {
    let mut hall = Hall::default();
    hall.join("a/b", 1, "tea").unwrap();
    hall.observe("eve", 2, "tea").unwrap();
    hall.say("a/b", "tea", b"hello").unwrap();
    assert_eq!(
        hall.said,
        [("$room/tea/say/a%2fb".into(), b"hello".to_vec())]
    );
    assert_eq!(hall.say("eve", "tea", b"x"), Err(Refusal::NotMember));
    assert_eq!(hall.say("dan", "tea", b"x"), Err(Refusal::NotMember));
    let large = vec![0; Bounds::default().say_bytes + 1];
    assert_eq!(hall.say("a/b", "tea", &large), Err(Refusal::TooLarge));
    assert_eq!(hall.say("a/b", "no", b"x"), Err(Refusal::Unknown));
}

#[test]
fn a_lost_connection_keeps_its_place_for_the_grace_period() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.join("bob", 2, "tea").unwrap();
    hall.events.clear();
    hall.lost("bob", 2, "tea");
    assert_eq!(
        hall.retained("$room/tea/member/bob").unwrap()["state"],
        "away"
    );
    assert_eq!(hall.say("bob", "tea", b"x"), Err(Refusal::NotMember));
    hall.at(29);
    hall.join("bob", 7, "tea").unwrap();
    hall.lost("bob", 7, "tea");
    hall.at(58);
    assert_eq!(hall.listed("tea")["members"], 2);
    hall.at(59);
    assert_eq!(
        hall.events("tea"),
        [
            json!({"event": "away", "user": "bob"}),
            json!({"event": "back", "user": "bob"}),
            json!({"event": "away", "user": "bob"}),
            json!({"event": "left", "user": "bob", "reason": "lost", "members": 1}),
        ]
    );
    assert_eq!(hall.retained("$room/tea/member/bob"), None);
    // The last one does not come back either: the room ends.
    hall.lost("ann", 1, "tea");
    hall.at(89);
    assert!(hall.rooms.is_empty());
    assert_eq!(hall.rooms.next_deadline(), None);
    assert_eq!(hall.topics(), Vec::<String>::new());
}

/// Whichever of its sessions it is that leaves last.
#[test]
fn a_lost_connection_keeps_its_place_when_another_leaves() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.join("bob", 2, "tea").unwrap();
    hall.join("bob", 3, "tea").unwrap();
    hall.lost("bob", 2, "tea");
    hall.at(10);
    hall.events.clear();
    hall.leave("bob", 3, "tea");
    hall.at(29);
    hall.join("bob", 2, "tea").unwrap();
    // Somebody who is back as another session leaves nobody behind who could come.
    hall.lost("bob", 2, "tea");
    hall.join("bob", 4, "tea").unwrap();
    hall.leave("bob", 4, "tea");
    // Nor does somebody who does not come in time.
    hall.join("bob", 5, "tea").unwrap();
    hall.join("bob", 6, "tea").unwrap();
    hall.lost("bob", 5, "tea");
    hall.at(58);
    hall.leave("bob", 6, "tea");
    hall.at(59);
    let event = |name: &str| json!({"event": name, "user": "bob"});
    let joined = json!({"event": "joined", "user": "bob", "members": 2});
    let left = |reason| json!({"event": "left", "user": "bob", "reason": reason, "members": 1});
    assert_eq!(
        hall.events("tea"),
        [
            event("away"),
            event("back"),
            event("away"),
            event("back"),
            left("left"),
            joined,
            event("away"),
            left("lost"),
        ]
    );
}

#[test]
fn the_oldest_member_inherits_the_room() {
    let mut hall = Hall::default();
    for (number, name) in ["ann", "bob", "cat"].into_iter().enumerate() {
        hall.join(name, number as u64, "tea").unwrap();
    }
    hall.leave("ann", 0, "tea");
    assert_eq!(hall.listed("tea")["owner"], "bob");
    assert_eq!(
        hall.act("tea", |room, out| room.kick(user("cat"), "bob", out)),
        Err(Refusal::NotOwner)
    );
    hall.act("tea", |room, out| {
        room.change(user("bob"), Change::Owner("cat"), out)
    })
    .unwrap();
    assert_eq!(hall.listed("tea")["owner"], "cat");
    assert_eq!(
        hall.act("tea", |room, out| room.change(
            user("cat"),
            Change::Owner("ann"),
            out
        )),
        Err(Refusal::Unknown)
    );
}

#[test]
fn a_user_who_is_kicked_loses_every_session() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.join("bob", 2, "tea").unwrap();
    hall.join("bob", 3, "tea").unwrap();
    hall.act("tea", |room, out| room.kick(user("ann"), "bob", out))
        .unwrap();
    assert_eq!(hall.cleared, [session(2), session(3)]);
    assert_eq!(hall.events("tea").last().unwrap()["reason"], "kicked");
    assert_eq!(
        hall.act("tea", |room, out| room.kick(user("ann"), "bob", out)),
        Err(Refusal::Unknown)
    );
}

#[test]
fn closing_sends_everybody_out() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.join("bob", 2, "tea").unwrap();
    hall.observe("eve", 3, "tea").unwrap();
    let mut out = Vec::new();
    hall.rooms.close(user("ann"), "tea", &mut out).unwrap();
    hall.apply(out);
    assert_eq!(hall.cleared, [session(1), session(2), session(3)]);
    assert_eq!(hall.topics(), Vec::<String>::new());
    assert!(hall.rooms.is_empty());
}

/// A room of very many is closed for all of them at once, and lets them go in pieces.
#[test]
fn a_large_room_ends_in_pieces() {
    let mut hall = Hall::default();
    hall.create(user("ann"), "tea", RoomOptions::default())
        .expect("a room");
    for number in 0..1_000 {
        hall.join(&format!("user-{number:03}"), number, "tea")
            .expect("they are let in");
    }
    let mut out = Vec::new();
    hall.rooms.close(user("ann"), "tea", &mut out).unwrap();
    assert!(out.is_empty(), "each hears it when it is let go: {out:?}");
    assert!(hall.rooms.is_ending("tea") && hall.rooms.get("tea").is_none());
    assert_eq!(hall.rooms.members(), 0);
    assert_eq!(hall.join("bob", 2_000, "tea"), Err(Refusal::Locked));
    let again = hall.create(user("bob"), "tea", RoomOptions::default());
    assert_eq!(again, Err(Refusal::Exists));
    let mut pieces = 0;
    loop {
        let mut piece = Vec::new();
        let is_over = hall.rooms.go_on_ending("tea", &mut piece);
        assert!(piece.len() <= 257, "{} effects", piece.len());
        pieces += 1;
        out.append(&mut piece);
        if is_over {
            break;
        }
    }
    assert_eq!(pieces, 2_000_usize.div_ceil(256));
    // Nobody hears of what is cleared.
    let is_clear = |effect: &Effect| matches!(effect, Effect::Clear { .. });
    assert!(out[..1_000].iter().all(is_clear));
    hall.apply(out);
    assert_eq!(hall.cleared.len(), 1_000);
    assert_eq!(hall.topics(), Vec::<String>::new());
    hall.create(user("bob"), "tea", RoomOptions::default())
        .expect("another room");
}

/// A room that the zone always has is there again when everybody is out.
#[test]
fn a_large_room_that_stays_is_emptied_in_pieces() {
    let mut hall = Hall::default();
    let mut out = Vec::new();
    hall.rooms
        .fix("lobby", RoomOptions::default(), &mut out)
        .expect("a good name");
    hall.apply(out);
    for number in 0..300 {
        hall.join(&format!("user-{number}"), number, "lobby")
            .expect("they are let in");
    }
    let mut out = Vec::new();
    assert_eq!(hall.rooms.close(admin(), "lobby", &mut out), Ok(true));
    while !hall.rooms.go_on_ending("lobby", &mut out) {
        assert!(hall.rooms.get("lobby").is_none());
    }
    hall.apply(out);
    assert_eq!(hall.cleared.len(), 300);
    assert_eq!(hall.topics(), ["$rooms/lobby"]);
    hall.join("ann", 1_000, "lobby").expect("it is open again");
}

/// The rooms of a zone that ends go in pieces too, however many are in them.
#[test]
fn a_zone_ends_in_pieces() {
    let mut hall = Hall::default();
    for number in 0..1_000 {
        let room = format!("room-{}", number % 5);
        hall.join(&format!("user-{number}"), number, &room)
            .expect("they are let in");
    }
    let (mut out, mut pieces) = (Vec::new(), 0);
    loop {
        let mut piece = Vec::new();
        let is_over = hall.rooms.close_some(16, &mut piece);
        assert!(piece.len() <= 256 + 16, "{} effects", piece.len());
        pieces += 1;
        out.append(&mut piece);
        if is_over {
            break;
        }
    }
    assert!(pieces >= 7, "{pieces}");
    hall.apply(out);
    assert_eq!(hall.topics(), Vec::<String>::new());
}

#[test]
fn what_has_expired_is_no_history() {
    let mut hall = Hall::default();
    let mut options = RoomOptions::default();
    options.history.count = 9;
    options.history.bytes = 1_000;
    hall.create(user("ann"), "tea", options).expect("a room");
    hall.join("ann", 1, "tea").expect("she is let in");
    for (word, expiry) in [("short", Some(1)), ("long", Some(60)), ("ever", None)] {
        let said = hall.say_for("ann", "tea", (word.as_bytes(), expiry));
        said.expect("she is a member");
    }
    hall.at(2);
    hall.join("bob", 2, "tea").expect("he is let in");
    assert_eq!(
        hall.recalled(2),
        [("long".into(), 2_000), ("ever".into(), 2_000)]
    );
}

#[test]
fn history_is_within_bounds() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.say("ann", "tea", b"not kept").unwrap();
    let history = |count, bytes, age: Option<u64>| HistoryBounds {
        count,
        bytes,
        age: age.map(Duration::from_secs),
    };
    let keep = |hall: &mut Hall, bounds| {
        hall.act("tea", |room, out| {
            room.change(user("ann"), Change::History(bounds), out)
        })
        .unwrap();
    };
    keep(&mut hall, history(2, 1_000, Some(60)));
    for text in ["1", "2", "3"] {
        hall.say("ann", "tea", text.as_bytes()).unwrap();
    }
    hall.at(10);
    hall.join("bob", 2, "tea").unwrap();
    assert_eq!(
        hall.recalled(2),
        [("2".into(), 10_000), ("3".into(), 10_000)]
    );
    // A second filter of the same session recalls nothing again.
    hall.join("bob", 2, "tea").unwrap();
    assert_eq!(hall.recalled(2), []);
    hall.say("ann", "tea", b"4").unwrap();
    hall.at(61);
    hall.observe("eve", 3, "tea").unwrap();
    assert_eq!(hall.recalled(3), [("4".into(), 51_000)]);
    // Fewer bytes than one message: nothing is kept.
    keep(&mut hall, history(100, 10, None));
    hall.say("ann", "tea", b"5").unwrap();
    hall.join("cat", 4, "tea").unwrap();
    assert_eq!(hall.recalled(4), []);
}

#[test]
fn a_room_of_ten_thousand() {
    let mut rooms = Rooms::default();
    let mut out = Vec::new();
    for number in 0..10_000 {
        let name = format!("user{number}");
        rooms
            .join(
                Tick::ZERO,
                user(&name),
                "hall",
                session(number),
                Entry::Member,
                &mut out,
            )
            .unwrap();
        out.clear();
    }
    assert_eq!(rooms.get("hall").unwrap().members().len(), 10_000);
    for number in 0..10_000 {
        let name = format!("user{number}");
        rooms
            .act("hall", &mut out, |room, out| {
                room.leave(Tick::ZERO, &name, session(number), out);
                Ok(())
            })
            .unwrap();
    }
    assert!(rooms.is_empty());
    // One joins and leaves without a word to anybody who is not there.
    assert!(
        !out.iter()
            .any(|effect| matches!(effect, Effect::Clear { .. }))
    );
}

/// Those who come back are told by their session's shard, which has to hear of it.
#[test]
fn lost_connections_hear_of_being_sent_out() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    for number in 2..40 {
        hall.join("bob", number, "tea").unwrap();
        hall.lost("bob", number, "tea");
    }
    // One of them is back, and only the last ones are remembered.
    hall.join("bob", 39, "tea").unwrap();
    hall.act("tea", |room, out| room.kick(admin(), "bob", out))
        .unwrap();
    let expected: Vec<_> = [39].into_iter().chain(24..39).map(session).collect();
    assert_eq!(hall.cleared, expected);
    // Nobody has a place by coming back.
    let mut out = Vec::new();
    let (session, entry) = (session(38), Entry::Kept);
    let back = hall
        .rooms
        .join(Tick::ZERO, user("bob"), "tea", session, entry, &mut out);
    assert_eq!(back, Err(Refusal::NotMember));
    let nowhere = hall
        .rooms
        .join(Tick::ZERO, user("bob"), "den", session, entry, &mut out);
    assert_eq!(nowhere, Err(Refusal::Unknown));
    assert!(out.is_empty());
}

/// A user who goes by itself may come back to the permanent room that it owns.
#[test]
fn who_loses_the_right_to_a_room_owns_it_no_more() {
    for (is_revoked, owner) in [(false, json!("ann")), (true, json!("bob"))] {
        let mut hall = Hall::default();
        let options = RoomOptions {
            permanent: true,
            ..RoomOptions::default()
        };
        hall.create(admin(), "tea", options).unwrap();
        hall.join("ann", 1, "tea").unwrap();
        hall.join("bob", 2, "tea").unwrap();
        hall.act("tea", |room, out| {
            room.change(admin(), Change::Owner("ann"), out)?;
            if is_revoked {
                room.revoke(Tick::ZERO, "ann", session(1), out);
            } else {
                room.leave(Tick::ZERO, "ann", session(1), out);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(hall.listed("tea")["owner"], owner);
    }
}
