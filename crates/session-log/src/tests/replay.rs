//! Single cases of what records tell.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::Range;

use stentor_mqtt::PacketId;

use super::{AN_ID, BODY, PLAIN, SESSION, SHARE};
use crate::*;

const FIRST: JournalId = JournalId {
    generation: 1,
    shard: 0,
};
const SECOND: JournalId = JournalId {
    generation: 1,
    shard: 1,
};

/// Sessions of the first shard have number 5, those of the second number 6.
const OTHER: Session<'static> = Session {
    number: 6,
    ..SESSION
};

fn batch(records: &[Record<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        record.encode(&mut out);
    }
    out
}

const fn at(file: u32, offset: u32) -> Name {
    Name { file, offset }
}

fn message<'a>(shards: u64, recipients: &'a [Group<'a>]) -> Record<'a> {
    Record::Message(Message {
        body: BODY,
        arrival: None,
        elsewhere: Elsewhere {
            shards,
            route: None,
            members: List::default(),
        },
        recipients: List::new(recipients),
    })
}

fn to(numbers: &[u32]) -> Group<'_> {
    Group {
        terms: PLAIN,
        numbers: List::new(numbers),
    }
}

/// A journal with batches, each of which is in a file of its own.
fn journal<'a>(replay: &mut Replay<'a>, id: JournalId, batches: &'a [(u32, Vec<u8>)]) {
    replay.journal(id);
    for (file, batch) in batches {
        replay.batch(at(*file, 64), batch).unwrap();
    }
}

fn finish(replay: Replay<'_>) -> Restored<Name> {
    replay.finish(|name, body| {
        assert_eq!(*body, BODY);
        name
    })
}

#[test]
fn a_message_in_a_gap_is_lost_and_told() {
    let numbers = [5];
    let groups = [to(&numbers)];
    let missing = Owe {
        name: at(1, 640),
        from: 0,
        sent_by: None,
        recipients: List::new(&groups),
    };
    let discharged = Owe {
        name: at(1, 64),
        ..missing
    };
    let records = [
        Record::Session(SESSION),
        Record::Owe(missing),
        Record::Owe(discharged),
    ];
    let first = [(2, batch(&records))];
    let mut replay = Replay::new();
    replay.journal(SECOND);
    replay.gap(1, 600, 100);
    journal(&mut replay, FIRST, &first);
    let restored = finish(replay);
    let session = &restored.sessions[0];
    assert_eq!((session.lost, session.may_lack.len()), (1, 0));
    assert_eq!((session.owed.len(), session.next), (0, 2));
    assert_eq!(
        restored.damage,
        [Damage {
            generation: Some(1),
            shard: Some(1),
            kind: DamageKind::Gap {
                file: 1,
                from: 600,
                bytes: 100,
            },
        }]
    );
}

#[test]
fn a_base_behind_a_gap_makes_a_session_whole() {
    let before = batch(&[Record::Session(SESSION), Record::Session(OTHER)]);
    let behind = batch(&[Record::Base(OTHER)]);
    let mut replay = Replay::new();
    replay.journal(FIRST);
    replay.batch(at(1, 64), &before).unwrap();
    replay.gap(1, 128, 8);
    replay.batch(at(1, 256), &behind).unwrap();
    let restored = finish(replay);
    let may_lack = restored.sessions.iter().map(|it| it.may_lack.len());
    assert!(may_lack.eq([1, 0]));
    assert_eq!(restored.sessions[0].may_lack[0], 0..1);
}

/// A damaged batch names the sessions that it was about, though nothing of it is applied.
#[test]
fn a_damaged_batch_says_whose_it_was() {
    let before = batch(&[Record::Session(SESSION), Record::Session(OTHER)]);
    let left = batch(&[
        Record::WillGone {
            number: OTHER.number,
        },
        Record::Session(Session {
            number: 77,
            client_id: "stranger",
            ..OTHER
        }),
    ]);
    let mut replay = Replay::new();
    replay.journal(FIRST);
    replay.batch(at(1, 64), &before).unwrap();
    replay.gap(1, 128, 8);
    // A byte of the last record is missing.
    let cut = [&left[..], &left[..left.len() / 2]].concat();
    replay.remains(at(1, 152), &cut);
    replay.gap(1, 256, 8);
    let restored = finish(replay);
    let named = restored.sessions.iter().map(|it| &it.named[..]);
    let expected: [&[u32]; 2] = [&[], &[0]];
    assert!(named.eq(expected));
    assert!(
        restored
            .sessions
            .iter()
            .all(|it| it.may_lack.first() == Some(&(0..2)))
    );
    let [lost] = &restored.lost_sessions[..] else {
        panic!("{:?}", restored.lost_sessions);
    };
    assert_eq!((&*lost.client_id, lost.place), ("stranger", 0));
}

/// A file of which nobody knows whose it was may have told of any session.
#[test]
fn a_lost_file_is_everybodys_unless_a_journal_misses_it() {
    for (missed, expected) in [(false, 1), (true, 0)] {
        let before = batch(&[Record::Session(SESSION)]);
        let behind = batch(&[Record::Base(SESSION)]);
        let mut replay = Replay::new();
        replay.lost_file(2);
        replay.journal(FIRST);
        replay.batch(at(1, 64), &before).unwrap();
        if missed {
            replay.gap(2, 0, 500);
        }
        replay.batch(at(3, 64), &behind).unwrap();
        let restored = finish(replay);
        assert_eq!(restored.sessions[0].may_lack.len(), expected);
    }
}

/// So may files that are gone without a trace.
#[test]
fn missing_files_are_everybodys() {
    let begin = batch(&[Record::Session(SESSION)]);
    let mut replay = Replay::new();
    replay.missing_files(3);
    replay.journal(FIRST);
    replay.batch(at(1, 64), &begin).unwrap();
    let restored = finish(replay);
    assert_eq!(restored.damage[0].kind, DamageKind::Files(3));
    assert_eq!(restored.sessions[0].may_lack.first(), Some(&(0..1)));
}

#[test]
fn the_rest_of_a_batch_that_cannot_be_read_is_damage() {
    let mut bytes = batch(&[Record::Session(SESSION)]);
    let before = bytes.len();
    bytes.extend([99, 1, 2, 3]);
    let mut replay = Replay::new();
    replay.journal(FIRST);
    let error = replay.batch(at(1, 64), &bytes).unwrap_err();
    assert_eq!(error.at, before);
    let restored = finish(replay);
    assert_eq!(restored.sessions[0].may_lack.first(), Some(&(0..1)));
    assert_eq!(restored.damage[0].kind, DamageKind::Batch(at(1, 64), error));
}

#[test]
fn records_of_unknown_sessions_are_counted() {
    let batches = [(
        1,
        batch(&[
            Record::Here { number: 9 },
            Record::Here { number: 9 },
            // These were told in a file that was given up: one has ended, one has a base.
            Record::Here { number: 8 },
            Record::End { number: 8 },
            Record::Here { number: 7 },
            Record::Base(Session {
                number: 7,
                ..SESSION
            }),
        ]),
    )];
    let mut replay = Replay::new();
    journal(&mut replay, FIRST, &batches);
    let restored = finish(replay);
    assert_eq!(
        restored.damage[0].kind,
        DamageKind::Orphans {
            records: 2,
            sessions: 1
        }
    );
    assert_eq!((restored.damage.len(), restored.sessions.len()), (1, 1));
}

/// Another expiry leaves it, and so does another start; a base begins anew.
#[test]
fn a_session_keeps_the_address_that_it_came_from() {
    let mark = NonZeroU64::new(7).unwrap();
    let (number, longer) = (SESSION.number, Record::Session(OTHER));
    let origin = Origin {
        generation: FIRST.generation,
        shard: FIRST.shard,
        number,
    };
    let first = [
        Record::Session(SESSION),
        Record::Owner { number, mark },
        Record::Session(Session {
            expiry_secs: 9,
            ..SESSION
        }),
    ];
    let batches = [batch(&first), batch(&[Record::Adopted { number, origin }])];
    let base = batch(&[Record::Base(SESSION), longer]);
    for (is_rewritten, expected) in [(false, Some(mark)), (true, None)] {
        let mut replay = Replay::new();
        replay.journal(FIRST);
        replay.batch(at(1, 64), &batches[0]).unwrap();
        replay.journal(JournalId {
            generation: 2,
            ..FIRST
        });
        replay.batch(at(2, 64), &batches[1]).unwrap();
        if is_rewritten {
            replay.batch(at(2, 640), &base).unwrap();
        }
        assert_eq!(finish(replay).sessions[0].owner, expected);
    }
}

/// [MQTT-4.4.0-1]
#[test]
fn packet_ids_follow_from_numbers_but_for_those_that_are_written() {
    let numbers = [5, 5];
    let groups = [to(&numbers)];
    let delivery = Delivery {
        number: 5,
        delivery: 65_535,
    };
    let queue = Queue {
        number: 5,
        next: 65_534,
        sent: 65_534,
        shares: List::default(),
        owed: List::default(),
        held: List::default(),
    };
    let batches = [(
        1,
        batch(&[
            Record::Base(SESSION),
            Record::Queue(queue),
            message(0, &groups),
            Record::Sent {
                delivery,
                packet_id: AN_ID,
            },
        ]),
    )];
    let mut replay = Replay::new();
    journal(&mut replay, FIRST, &batches);
    let restored = finish(replay);
    let owed = &restored.sessions[0].owed;
    let ids: Vec<u16> = owed.iter().map(|it| it.packet_id.get()).collect();
    assert_eq!(ids, [65_535, 300]);
    assert_eq!(packet_id_of(65_535), PacketId::new(1).unwrap());
}

/// What lies elsewhere is known by number, and by what has become of it.
#[test]
fn deliveries_that_lie_elsewhere_are_chunks() {
    let numbers = [5; 10];
    let groups = [to(&numbers)];
    let place = Place {
        file: 3,
        at: 8,
        len: 2,
    };
    let spooled = Record::Spooled(Spooled {
        number: 5,
        first: 2,
        count: 6,
        place,
    });
    let delivery = |delivery| Delivery {
        number: 5,
        delivery,
    };
    let front = [Front {
        number: 5,
        front: 3,
        sent: 7,
    }];
    let batches = [(
        1,
        batch(&[
            Record::Session(SESSION),
            message(0, &groups),
            Record::Received(delivery(4)),
            spooled,
            Record::Acked(List::new(&front)),
            Record::Gone(delivery(5)),
            Record::Received(delivery(6)),
            Record::Sent {
                delivery: delivery(7),
                packet_id: AN_ID,
            },
        ]),
    )];
    let mut replay = Replay::new();
    journal(&mut replay, FIRST, &batches);
    let session = finish(replay).sessions.remove(0);
    let chunk = RestoredChunk {
        first: 2,
        count: 6,
        place,
        gone: Vec::from([2, 4, 5, 6]),
        odd: Vec::from([(7, AN_ID)]),
    };
    assert_eq!(session.spooled, [chunk]);
    let owed: Vec<u64> = session.owed.iter().map(|it| it.delivery).collect();
    assert_eq!(
        owed,
        [4, 6, 8, 9],
        "what was received waits for its release"
    );
    assert_eq!(session.owed[1].debt, RestoredDebt::Release);
    assert_eq!((session.next, session.sent), (10, 10));
}

#[test]
fn a_chunk_that_is_done_is_forgotten() {
    let spooled = |first, count| {
        let place = Place {
            file: 1,
            at: 0,
            len: 1,
        };
        Record::Spooled(Spooled {
            number: 5,
            first,
            count,
            place,
        })
    };
    let gone = |delivery| {
        let number = 5;
        Record::Gone(Delivery { number, delivery })
    };
    // One that overlaps with another is not of this program.
    let records = [
        Record::Session(SESSION),
        spooled(0, 2),
        spooled(2, 2),
        spooled(3, 9),
        gone(2),
        gone(3),
    ];
    let batches = [(1, batch(&records))];
    let mut replay = Replay::new();
    journal(&mut replay, FIRST, &batches);
    let session = finish(replay).sessions.remove(0);
    let firsts: Vec<u64> = session.spooled.iter().map(|it| it.first).collect();
    assert_eq!(firsts, [0]);
}

#[test]
fn what_lies_elsewhere_is_read_as_it_was_written() {
    let delivery = SpooledDelivery {
        terms: PLAIN,
        body: BODY,
    };
    let three = [delivery; 3];
    let chunk = Chunk {
        zone: 3,
        client_id: "c",
        first: 77,
        deliveries: List::new(&three),
    };
    let mut bytes = Vec::new();
    chunk.encode_to(three.into_iter(), &mut bytes);
    assert_eq!(Chunk::decode(&bytes), Ok(chunk));
    for len in 0..bytes.len() {
        assert!(
            Chunk::decode(&bytes[..len]).is_err(),
            "{len} bytes are none"
        );
    }
    bytes.push(0);
    assert!(Chunk::decode(&bytes).is_err());
}

#[test]
fn only_what_has_not_come_is_routed_again() {
    let name = |batch: u32| at(batch, 64);
    let none = [];
    let first: Vec<_> = (1..5)
        .map(|file| (file, batch(&[message(0b10, &none)])))
        .collect();
    let heard = [Mark {
        shard: 0,
        name: name(2),
    }];
    let second = [(
        9,
        batch(&[Record::Session(OTHER), Record::Heard(List::new(&heard))]),
    )];
    let mut replay = Replay::new();
    journal(&mut replay, FIRST, &first);
    journal(&mut replay, SECOND, &second);
    let restored = finish(replay);
    let unheard: Vec<_> = restored
        .unheard
        .iter()
        .map(|it| (it.name, it.shard))
        .collect();
    assert_eq!(unheard, [(name(3), 1), (name(4), 1)]);
    assert_eq!(restored.unheard[0].to, Target::Subscribers(None));
}

#[test]
fn nothing_is_routed_to_where_nobody_is_left() {
    let none = [];
    let first = [(1, batch(&[message(0b10, &none)]))];
    let second = [(2, batch(&[Record::Session(OTHER)]))];
    let number = 0;
    let origin = Origin {
        generation: 1,
        shard: 1,
        number: 6,
    };
    let third = [(3, batch(&[Record::Adopted { number, origin }]))];
    let later = JournalId {
        generation: 2,
        shard: 0,
    };
    let mut replay = Replay::new();
    journal(&mut replay, FIRST, &first);
    journal(&mut replay, SECOND, &second);
    journal(&mut replay, later, &third);
    let restored = finish(replay);
    assert_eq!(restored.unheard, []);
    assert_eq!(restored.sessions.len(), 1);
    assert_eq!(restored.sessions[0].origin.generation, 2);
}

/// What an ended session leaves goes to another member, and is routed again if that has not had it.
#[test]
fn a_message_for_another_member_is_routed_again_by_its_own_place() {
    let numbers = [5];
    let groups = [to(&numbers)];
    let names = [at(1, 64)];
    let again = Record::Again(Again {
        member: Member {
            shard: 1,
            share: SHARE,
        },
        names: List::new(&names),
    });
    let none = [];
    let first = [
        (1, batch(&[message(0, &groups)])),
        (2, batch(&[message(0b10, &none)])),
        (3, batch(&[again])),
    ];
    // The later message has come, the one that was sent again has not.
    let heard = [Mark {
        shard: 0,
        name: at(2, 64),
    }];
    let heard = batch(&[Record::Session(OTHER), Record::Heard(List::new(&heard))]);
    let has_come = Record::Owe(Owe {
        name: at(1, 64),
        from: 0,
        sent_by: Some(at(3, 64)),
        recipients: List::default(),
    });
    for (record, expected) in [(None, 1), (Some(has_come), 0)] {
        let mut second = heard.clone();
        if let Some(record) = record {
            record.encode(&mut second);
        }
        let begin = [(0xFF, batch(&[Record::Session(SESSION)]))];
        let second = [(9, second)];
        let mut replay = Replay::new();
        journal(&mut replay, FIRST, &begin);
        journal(&mut replay, FIRST, &first);
        journal(&mut replay, SECOND, &second);
        let restored = finish(replay);
        assert_eq!(restored.unheard.len(), expected);
        for unheard in &restored.unheard {
            assert_eq!(unheard.name, at(1, 64));
            assert_eq!(unheard.to, Target::Member(SHARE.into()));
        }
    }
}

const TEA: RoomName<'static> = RoomName {
    zone: 3,
    room: "tea",
};

const fn room(is_base: bool, owner: Option<&str>) -> Record<'_> {
    Record::Room(Room {
        name: TEA,
        is_base,
        owner,
        capacity: Some(2),
        locked: false,
        history_count: 0,
        history_bytes: 0,
        history_age_secs: None,
        version: 4,
    })
}

const fn property<'a>(name: &'a str, value: Option<&'a [u8]>, version: u64) -> Record<'a> {
    Record::RoomProperty(RoomProperty {
        name: TEA,
        property: name,
        value,
        version,
        by: None,
        lock: None,
    })
}

const fn place(user: &str, is_in: bool) -> Record<'_> {
    Record::RoomMember(RoomMember {
        name: TEA,
        user,
        is_in,
    })
}

/// A room moves to another shard with its zone, and the journal of the earlier start counts on.
#[test]
fn a_room_goes_on_in_a_later_generation() {
    let before = [
        room(true, None),
        property("a", Some(b"1"), 3),
        property("b", Some(b"2"), 4),
        place("ann", true),
        place("bob", true),
    ];
    let after = [
        room(false, Some("ann")),
        property("a", None, 9),
        place("ann", false),
        place("cy", true),
        place("bob", true),
    ];
    let (before, after) = ([(1, batch(&before))], [(2, batch(&after))]);
    let mut replay = Replay::new();
    journal(&mut replay, FIRST, &before);
    let later = JournalId {
        generation: 2,
        shard: 1,
    };
    journal(&mut replay, later, &after);
    let restored = replay.finish(|_, _| ());
    assert_eq!(restored.damage, []);
    let [room] = &restored.rooms[..] else {
        panic!("{:?}", restored.rooms);
    };
    assert_eq!((room.zone, &*room.room, room.version), (3, "tea", 9));
    assert_eq!(room.owner.as_deref(), Some("ann"));
    let names: Vec<&str> = room.properties.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["b"]);
    assert_eq!(room.members, ["bob".into(), "cy".into()]);
}

/// What is said of a room without its base lay after a file that was given up: it is over, or its
/// base follows.
#[test]
fn a_room_without_its_base_is_none() {
    let records = [
        property("a", Some(b"1"), 3),
        room(false, None),
        place("ann", true),
        Record::RoomGone(TEA),
    ];
    let batches = [(1, batch(&records))];
    let mut replay = Replay::new();
    journal(&mut replay, FIRST, &batches);
    let restored = replay.finish(|_, _| ());
    assert_eq!((restored.rooms, restored.damage), (Vec::new(), Vec::new()));
}

#[test]
fn a_base_forgets_what_was_said_before_and_an_end_all() {
    let first = [
        room(true, None),
        property("a", Some(b"1"), 3),
        place("ann", true),
    ];
    let again = [room(true, None)];
    let end = [Record::RoomGone(TEA)];
    let batches = [(1, batch(&first)), (2, batch(&again)), (3, batch(&end))];
    for (count, rooms) in [(2, 1), (3, 0)] {
        let mut replay = Replay::new();
        journal(&mut replay, FIRST, &batches[..count]);
        let restored = replay.finish(|_, _| ());
        assert_eq!(restored.rooms.len(), rooms);
        let is_bare = |it: &RestoredRoom| it.properties.is_empty() && it.members.is_empty();
        assert!(restored.rooms.iter().all(is_bare));
    }
}

/// A packet id may be that of another message by now, if its release was lost with the power.
#[test]
fn packet_ids_of_a_journal_that_lost_its_end_are_forgotten() {
    let arrival = Arrival {
        number: 5,
        packet_id: AN_ID,
    };
    let first = batch(&[Record::Session(SESSION), Record::Arrived(arrival)]);
    let others = Arrival {
        number: 6,
        ..arrival
    };
    let second = batch(&[Record::Session(OTHER), Record::Arrived(others)]);
    for forgets in [false, true] {
        let mut replay = Replay::new();
        replay.journal(FIRST);
        if forgets {
            replay.forget_arrivals();
        }
        replay.batch(at(1, 64), &first).unwrap();
        // That holds for one journal alone.
        replay.journal(SECOND);
        replay.batch(at(2, 64), &second).unwrap();
        let restored = finish(replay);
        let arrived = restored.sessions.iter().map(|it| it.arrived.len());
        assert!(arrived.eq([usize::from(!forgets), 1]), "{forgets}");
    }
}

/// The parts of a queue count with the base that names them, and what became of their deliveries in
/// between.
#[test]
fn a_queue_in_parts_is_whole_with_its_base() {
    let message_at = |offset| Name { file: 9, offset };
    let owed = |numbers: Range<u64>| -> Vec<Owed<'static>> {
        let all = numbers.map(|delivery| Owed {
            delivery,
            packet_id: None,
            debt: Debt::Message(message_at(delivery as u32), PLAIN, None),
        });
        all.collect()
    };
    let part = |place, owed: &[Owed<'static>]| {
        let part = Part {
            number: 5,
            place,
            shares: List::default(),
            owed: List::new(owed),
            held: List::default(),
        };
        batch(&[Record::Part(part)])
    };
    let queue = Queue {
        number: 5,
        next: 12,
        sent: 3,
        shares: List::default(),
        owed: List::default(),
        held: List::default(),
    };
    let base = |count| {
        let parts = Parts {
            number: 5,
            count,
            from: 3,
            to: 9,
        };
        batch(&[
            Record::Base(SESSION),
            Record::Queue(queue),
            Record::Parts(parts),
        ])
    };
    let gone = |delivery| {
        let it = Delivery {
            number: 5,
            delivery,
        };
        batch(&[Record::Gone(it)])
    };
    let chunk = Record::Spooled(Spooled {
        number: 5,
        first: 7,
        count: 2,
        place: Place {
            file: 3,
            at: 8,
            len: 2,
        },
    });
    let bodies: Vec<Vec<u8>> = (0..12)
        .map(|offset| {
            let name = message_at(offset);
            batch(&[Record::Carry(Carry {
                name,
                body: BODY,
                elsewhere: Elsewhere::default(),
            })])
        })
        .collect();
    let read = |batches: &[Vec<u8>]| {
        let all = bodies.iter().chain(batches).cloned();
        let all: Vec<_> = (1..).map(|at| at * 1_000).zip(all).collect();
        let mut replay = Replay::new();
        journal(&mut replay, FIRST, &all);
        let restored = finish(replay);
        let it = &restored.sessions[0];
        let owed: Vec<u64> = it.owed.iter().map(|it| it.delivery).collect();
        let chunks: Vec<u64> = it.spooled.iter().map(|it| it.first).collect();
        (owed, chunks, it.lost)
    };
    let [first, second] = [owed(0..5), owed(5..10)];
    let all = [
        part(0, &first),
        gone(4),
        part(1, &second),
        batch(&[chunk]),
        gone(6),
        base(2),
    ];
    assert_eq!(read(&all), (vec![3, 5], vec![7], 0));
    let [a, b, c, d, e, _] = all.clone();
    // The first part begins anew.
    let again = [a.clone(), c.clone(), a.clone(), b, c, d, e, base(2)];
    assert_eq!(read(&again), (vec![3, 5], vec![7], 0));
    // A part is missing, or the one before it.
    assert_eq!(read(&[a.clone(), base(2)]), (vec![], vec![], 1));
    assert_eq!(read(&[a, base(0)]), (vec![], vec![], 1));
    assert_eq!(read(&[base(1)]), (vec![], vec![], 1));
}
