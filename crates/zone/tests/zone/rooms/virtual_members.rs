//! Members without a session, which administrators make.

use super::*;

/// One command of an administrator; the answer.
fn rule(hall: &mut Hall, procedure: &str, words: &str) -> Value {
    let mut out = Vec::new();
    let call = RoomCommand {
        procedure,
        payload: words.as_bytes(),
    };
    let now = hall.now;
    let Ran { answer, .. } = run_command(&mut hall.rooms, now, "", &AllRights, call, &mut out);
    hall.apply(out);
    serde_json::from_slice(&answer).expect("the answer is JSON")
}

fn seat(hall: &mut Hall, user: &str) -> Value {
    let words = json!({ "room": "tea", "user": user });
    rule(hall, "room.seat", &words.to_string())
}

#[test]
fn a_virtual_member_takes_a_place_and_is_shown() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.act("tea", |room, out| {
        room.change(user("ann"), Change::Capacity(Some(2)), out)
    })
    .unwrap();
    hall.events.clear();
    assert_eq!(seat(&mut hall, "bot")["status"], "done");
    assert_eq!(seat(&mut hall, "bot")["status"], "done");
    let events: Vec<Value> = hall
        .events
        .iter()
        .map(|(_, it)| serde_json::from_slice(it).unwrap())
        .collect();
    assert_eq!(
        events,
        [json!({ "event": "joined", "user": "bot", "members": 2 })]
    );
    assert!(hall.retained.contains_key("$room/tea/member/bot"));
    assert_eq!(hall.join("bob", 2, "tea"), Err(Refusal::Full));
    assert_eq!(seat(&mut hall, "two")["error"], "full");
    // Sent out like any other member, and nothing goes to its seat.
    let kicked = rule(&mut hall, "room.kick", r#"{"room":"tea","user":"bot"}"#);
    assert_eq!(
        (&kicked["status"], &hall.cleared),
        (&json!("done"), &Vec::new())
    );
    hall.join("bob", 2, "tea").unwrap();
}

#[test]
fn a_virtual_member_owns_nothing_and_keeps_no_room() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    seat(&mut hall, "bot");
    hall.join("bob", 2, "tea").unwrap();
    hall.leave("ann", 1, "tea");
    assert_eq!(hall.listed("tea")["owner"], "bob");
    let words = r#"{"room":"tea","owner":"bot"}"#;
    let (refused, _) = command(&mut hall, "bob", "room.change", words);
    assert_eq!(
        (&refused["error"], &refused["part"]),
        (&json!("unknown"), &json!("owner"))
    );
    // A session of its name comes and goes beside it.
    hall.join("bot", 3, "tea").unwrap();
    hall.leave("bot", 3, "tea");
    assert!(hall.rooms.get("tea").unwrap().is_member("bot"));
    hall.leave("bob", 2, "tea");
    assert!(hall.rooms.is_empty());
    assert_eq!(hall.topics(), Vec::<String>::new());
}

#[test]
fn who_makes_virtual_members_and_how_many() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    let words = r#"{"room":"tea","user":"bot"}"#;
    let (refused, _) = command(&mut hall, "ann", "room.seat", words);
    assert_eq!(refused["error"], "not-allowed");
    let long = "x".repeat(256);
    for name in ["", &long, "\u{1}", "\u{1b}[31mred"] {
        assert_eq!(seat(&mut hall, name)["error"], "bad-name");
    }
    for number in 0..64 {
        assert_eq!(seat(&mut hall, &format!("bot{number}"))["status"], "done");
    }
    let refused = seat(&mut hall, "one more");
    assert_eq!(refused["error"], "too-many");
    assert!(
        refused["text"].as_str().unwrap().contains("64"),
        "{refused}"
    );
    let unknown = rule(&mut hall, "room.seat", r#"{"room":"none","user":"bot"}"#);
    assert_eq!(unknown["error"], "unknown");
}
