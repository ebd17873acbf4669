//! What commands do, and what they are reckoned to cost.

use core::cell::Cell;

use super::*;

/// Somebody with roles of so many rules, who counts how often it is asked about a right.
#[derive(Default)]
struct Asked {
    count: Cell<usize>,
    rules: usize,
    sees: bool,
}

impl Asked {
    fn answers(&self, answer: bool) -> bool {
        self.count.set(self.count.get() + 1);
        answer
    }
}

impl RoomRights for Asked {
    fn role(&self, _room: &str) -> Role {
        self.answers(true);
        Role::User
    }

    fn may_enter(&self, _room: &str) -> bool {
        self.answers(self.sees)
    }

    fn may_join(&self, _room: &str) -> bool {
        self.answers(true)
    }

    fn may_read(&self, _topic: &str) -> bool {
        self.answers(self.sees)
    }

    fn rules(&self) -> usize {
        self.rules
    }
}

/// A command of somebody, and what came of it.
fn ran(rooms: &mut Rooms, rights: &impl RoomRights, procedure: &str, words: &Value) -> Ran {
    let (words, mut out) = (words.to_string(), Vec::new());
    let call = RoomCommand {
        procedure,
        payload: words.as_bytes(),
    };
    run_command(rooms, Tick::ZERO, "ann", rights, call, &mut out)
}

fn answer(ran: &Ran) -> Value {
    serde_json::from_slice(&ran.answer).expect("the answer is JSON")
}

/// The properties `p0` to `p63`, of which the last has this value.
fn properties(last: usize) -> Value {
    let value = |number| if number == 63 { last } else { 1 };
    let all = (0..64).map(|number| (format!("p{number}"), json!(value(number))));
    Value::Object(all.collect())
}

fn furnished(rooms: usize) -> Rooms {
    let mut all = Rooms::new(RoomsOptions::default());
    for number in 0..rooms {
        let words = json!({"room": format!("room-{number}"), "properties": properties(number)});
        let made = answer(&ran(&mut all, &AllRights, "room.create", &words));
        assert_eq!(made["status"], "done", "{made}");
    }
    all
}

/// Rights are asked only of a room that suits and would be better than what was found, and the list
/// of rooms once for all properties.
#[test]
fn a_match_asks_as_little_as_it_can() {
    let mut rooms = furnished(99);
    for words in [json!({}), json!({"properties": properties(50)})] {
        let eve = Asked {
            sees: true,
            ..Asked::default()
        };
        let found = ran(&mut rooms, &eve, "room.match", &words);
        assert_eq!(answer(&found)["status"], "done", "{}", answer(&found));
        assert!(eve.count.get() <= 4, "{} rights", eve.count.get());
    }
}

/// In microseconds, each at least what a server needs for it.
#[test]
fn commands_cost_what_they_do() {
    let mut rooms = furnished(99);
    let wide = Asked {
        rules: 600,
        ..Asked::default()
    };
    let mut costs = |rights: &Asked, procedure: &str, words: Value| {
        ran(&mut rooms, rights, procedure, &words).work.as_micros()
    };
    let nobody = Asked::default();
    let least = costs(&nobody, "room.info", json!({}));
    assert!((20..60).contains(&least), "{least}");
    let compared = costs(
        &nobody,
        "room.match",
        json!({"properties": properties(1_000)}),
    );
    assert!(compared >= 99 * 64 / 5, "{compared}");
    let asked = costs(&nobody, "room.match", json!({}));
    assert!(asked >= 99 * 2, "{asked}");
    let weighed = costs(&wide, "room.match", json!({}));
    assert!(weighed >= 99 * 300, "{weighed}");
    let read = costs(&nobody, "room.info", json!({"zz": vec![0; 100_000]}));
    assert!(read >= 200_000 / 5, "{read}");
}

/// A list ends where it has taken long, with what to go on after.
#[test]
fn a_list_that_weighs_many_rules_comes_in_parts() {
    let mut rooms = furnished(99);
    let wide = Asked {
        rules: 600,
        ..Asked::default()
    };
    let (mut after, mut parts) = (json!({}), 0);
    loop {
        let part = ran(&mut rooms, &wide, "room.list", &after);
        assert!(part.work.as_millis() < 25, "{:?}", part.work);
        parts += 1;
        match &answer(&part)["result"]["next"] {
            Value::Null => break,
            next => after = json!({"after": next}),
        }
    }
    assert_eq!(parts, 2);
}

/// What many hear costs more than what few hear.
#[test]
fn who_speaks_to_many_pays_for_them() {
    let mut hall = Hall::default();
    for number in 0..1_500 {
        hall.join(&format!("user-{number}"), number, "tea").unwrap();
    }
    let words = json!({"room": "tea", "name": "turn", "value": 1});
    let set = ran(&mut hall.rooms, &AllRights, "room.set", &words);
    assert!(set.work >= Duration::from_millis(3), "{:?}", set.work);
    let closed = ran(
        &mut hall.rooms,
        &AllRights,
        "room.close",
        &json!({"room": "tea"}),
    );
    // Each of them hears one event, and is let go: what they hear does not grow with their square.
    assert!(closed.work >= Duration::from_millis(3), "{:?}", closed.work);
    assert!(closed.work < Duration::from_millis(15), "{:?}", closed.work);
    // They are let go later.
    let at_once = closed.work - closed.later;
    assert!(at_once < Duration::from_micros(100), "{at_once:?}");
    assert_eq!(set.later, Duration::ZERO);
}

/// Members hear once that a room is closed, and of none of its members and properties: those go
/// when nobody is in it any more.
#[test]
fn what_goes_after_the_members_is_told_to_nobody() {
    let closed = |has_properties: bool| {
        let mut hall = Hall::default();
        for number in 0..300 {
            hall.join(&format!("user-{number}"), number, "tea").unwrap();
        }
        for number in (0..64).filter(|_| has_properties) {
            let words = json!({"room": "tea", "name": format!("p{number}"), "value": 1});
            ran(&mut hall.rooms, &AllRights, "room.set", &words);
        }
        let words = json!({"room": "tea"});
        ran(&mut hall.rooms, &AllRights, "room.close", &words).work
    };
    let (bare, furnished) = (closed(false), closed(true));
    let told = Duration::from_micros(300);
    assert!((told..told * 10).contains(&bare), "{bare:?}");
    let more = furnished - bare;
    assert!(more < Duration::from_millis(1), "{more:?}");
}

#[test]
fn a_payload_has_a_bound() {
    let mut rooms = furnished(1);
    let words = |bytes| json!({"room": "room-0", "name": "p0", "value": "x".repeat(bytes)});
    let set = ran(&mut rooms, &AllRights, "room.set", &words(300_000));
    assert_eq!(answer(&set)["error"], "too-large");
    let set = ran(&mut rooms, &AllRights, "room.set", &words(2_000_000));
    let told = answer(&set);
    assert_eq!(told["status"], "bad-call", "{told}");
    let text = told["text"].as_str().unwrap();
    assert!(text.ends_with("bytes: it may have 307200"), "{text}");
    assert!(set.work < Duration::from_millis(3), "{:?}", set.work);
}
