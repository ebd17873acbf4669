//! Very many whose time is over at once: they go in pieces.

use super::*;

/// What one piece has to tell at most: the step that makes it full may have some more.
const EFFECTS_MAX: usize = 256 + 4;

/// The time is over for all of them. Returns what each piece has to tell.
fn pieces(hall: &mut Hall, secs: u64) -> Vec<Vec<Effect>> {
    let mut pieces = Vec::new();
    loop {
        let mut piece = Vec::new();
        let is_over = hall.rooms.advance(Tick::from_secs(secs), &mut piece);
        assert!(piece.len() <= EFFECTS_MAX, "{} effects", piece.len());
        pieces.push(piece.clone());
        hall.apply(piece);
        if is_over {
            return pieces;
        }
        assert!(hall.rooms.next_deadline() <= Some(Tick::from_secs(secs)));
    }
}

fn count(piece: &[Effect], text: &str) -> usize {
    let is_such = |effect: &&Effect| {
        matches!(effect, Effect::Publish { topic, payload, .. }
            if topic == text || String::from_utf8_lossy(payload).contains(text))
    };
    piece.iter().filter(is_such).count()
}

/// Each goes once, and what concerns the room is told once for all who go together.
#[test]
fn a_large_room_lets_the_overdue_go_in_pieces() {
    const LOST: u64 = 1_000;
    let mut hall = Hall::default();
    for number in 0..=LOST {
        hall.join(&format!("user-{number:04}"), number, "tea")
            .expect("they are let in");
    }
    (0..LOST).for_each(|number| hall.lost(&format!("user-{number:04}"), number, "tea"));
    assert_eq!(hall.rooms.next_deadline(), Some(Tick::from_secs(30)));
    hall.events.clear();
    let pieces = pieces(&mut hall, 30);
    // A topic is cleared, and an event is told.
    assert_eq!(pieces.len(), (2 * LOST as usize).div_ceil(256));
    for piece in &pieces {
        assert_eq!(count(piece, "$rooms/tea"), 1);
        assert_eq!(count(piece, r#""event":"owner""#), 1);
    }
    let events = hall.events("tea");
    let left = events.iter().filter(|it| it["event"] == "left");
    let counts: Vec<_> = left.map(|it| it["members"].as_u64()).collect();
    assert_eq!(counts, (1..=LOST).rev().map(Some).collect::<Vec<_>>());
    assert_eq!(hall.listed("tea")["owner"], "user-1000");
    assert_eq!(hall.rooms.members(), 1);
    assert_eq!(hall.rooms.next_deadline(), None);
}

/// Who comes back while others go has a place again.
#[test]
fn who_is_back_in_time_stays() {
    let mut hall = Hall::default();
    for number in 0..600 {
        hall.join(&format!("user-{number:03}"), number, "tea")
            .expect("they are let in");
    }
    (0..600).for_each(|number| hall.lost(&format!("user-{number:03}"), number, "tea"));
    hall.now = Tick::from_secs(30);
    let mut piece = Vec::new();
    assert!(!hall.rooms.advance(hall.now, &mut piece));
    hall.apply(piece);
    hall.join("user-599", 599, "tea")
        .expect("the place is kept");
    pieces(&mut hall, 31);
    let tea = hall.rooms.get("tea").expect("somebody is there");
    assert_eq!(tea.members(), ["user-599".into()]);
    assert!(tea.is_owned_by("user-599"));
    assert!(!tea.is_away("user-599"));
}

/// Rooms that nobody came into end in pieces too.
#[test]
fn unclaimed_rooms_end_in_pieces() {
    let mut hall = Hall::new(RoomsOptions {
        owned_max: 1_000,
        ..RoomsOptions::default()
    });
    for number in 0..1_000 {
        hall.create(
            user("ann"),
            &format!("room-{number}"),
            RoomOptions::default(),
        )
        .expect("a room");
    }
    assert!(pieces(&mut hall, 599).concat().is_empty());
    assert!(pieces(&mut hall, 600).len() >= 1_000 / 256);
    assert!(hall.rooms.is_empty());
    assert_eq!(hall.topics(), Vec::<String>::new());
    assert_eq!(hall.rooms.next_deadline(), None);
}

/// Nothing is due any more of a room that is closed, or of a zone that ends.
#[test]
fn what_has_ended_is_never_due() {
    let mut hall = Hall::default();
    for (number, room) in ["tea", "den"].iter().enumerate() {
        hall.create(user("ann"), room, RoomOptions::default())
            .expect("a room");
        hall.join("bob", number as u64, room).expect("he is let in");
        hall.lost("bob", number as u64, room);
    }
    let mut out = Vec::new();
    hall.rooms
        .close(user("ann"), "tea", &mut out)
        .expect("it is hers");
    assert_eq!(hall.rooms.next_deadline(), Some(Tick::from_secs(30)));
    while !hall.rooms.close_some(16, &mut out) {}
    assert_eq!(hall.rooms.next_deadline(), None);
    assert!(hall.rooms.advance(Tick::from_secs(1_000), &mut out));
}
