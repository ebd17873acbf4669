//! Records: as bytes, and from any bytes.

mod model;
mod random;
mod replay;

use alloc::vec::Vec;
use core::num::NonZeroU64;

use hex_literal::hex;
use proptest::prelude::*;
use stentor_mqtt::{PacketId, QoS};

use self::random::Random;
use crate::*;

/// Where the batches of these tests stand.
const BATCH: Name = Name {
    file: 7,
    offset: 640,
};

const AN_ID: PacketId = PacketId::new(300).unwrap();

const PLAIN: Terms<'static> = Terms {
    qos: QoS::AtLeastOnce,
    retain: false,
    held: false,
    conflated: 0,
    identifiers: List::new(&[]),
    share: None,
};

const BODY: Body<'static> = Body {
    zone: 0,
    publisher: 0,
    qos: QoS::AtLeastOnce,
    retain: false,
    topic: "t/1",
    properties: &[],
    payload: b"hello",
    expires_at_ms: None,
    sequence: 0,
};

const FILTER: Filter<'static> = Filter {
    group: None,
    filter: "t/#",
};

const SHARE: Share<'static> = Share {
    group: "g",
    filter: "t/#",
};

const SESSION: Session<'static> = Session {
    number: 5,
    zone: 0,
    client_id: "c",
    user: None,
    guest: None,
    expiry_secs: 3600,
    has_no_account: false,
    roles_are_of_credential: false,
    roles: List::new(&[]),
    quotas: Quotas {
        messages_per_sec: None,
        bytes_per_sec: None,
        subscriptions: None,
        queued_bytes: None,
    },
};

fn encoded(record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

fn decoded(bytes: &[u8]) -> Result<Record<'_>, DecodeError> {
    let (name, record) = Records::new(BATCH, bytes).next().expect("bytes")?;
    assert_eq!(name, BATCH);
    Ok(record)
}

/// Checks that a record is these bytes, and that each beginning of them is none.
fn check(record: Record<'_>, bytes: &[u8]) {
    assert_eq!(encoded(&record), bytes, "{record:?}");
    assert_eq!(decoded(bytes), Ok(record));
    for len in 1..bytes.len() {
        assert!(decoded(&bytes[..len]).is_err(), "{len} bytes of {record:?}");
    }
}

#[test]
fn sessions_are_written_and_read() {
    check(
        Record::Session(SESSION),
        &hex!("01 05 00 00 01 63 90 1C 00"),
    );
    let full = Session {
        zone: 2,
        user: Some("ann"),
        guest: Some(0x0102_0304_0506_0708),
        expiry_secs: u32::MAX,
        has_no_account: true,
        roles_are_of_credential: true,
        roles: List::new(&["reader", "x"]),
        quotas: Quotas {
            messages_per_sec: Some(10),
            bytes_per_sec: Some(1 << 33),
            subscriptions: Some(0),
            queued_bytes: Some(u64::MAX),
        },
        ..SESSION
    };
    check(
        Record::Base(full),
        &hex!(
            "02 05 FF 02 01 63 03 616E6E 0807060504030201 FFFFFFFF0F 02 06 726561646572 01 78"
            "0A 8080808020 00 FFFFFFFFFFFFFFFFFF01"
        ),
    );
    let mark = NonZeroU64::new(0x0102_0304_0506_0708).unwrap();
    check(
        Record::Owner { number: 5, mark },
        &hex!("1B 05 0807060504030201"),
    );
    assert!(decoded(&hex!("1B 05 0000000000000000")).is_err());
    let origin = Origin {
        generation: 3,
        shard: 1,
        number: 200,
    };
    check(
        Record::Adopted { number: 5, origin },
        &hex!("03 05 03 01 C801"),
    );
    check(Record::End { number: 5 }, &hex!("04 05"));
    check(Record::Here { number: 128 }, &hex!("05 8001"));
    let away = Away {
        number: 5,
        since_ms: 1000,
        until_ms: None,
        will_at_ms: None,
    };
    check(Record::Away(away), &hex!("06 05 00 E807"));
    let away = Away {
        until_ms: Some(1),
        will_at_ms: Some(MILLIS_MAX),
        ..away
    };
    check(Record::Away(away), &hex!("06 05 03 E807 01 FFFFFFFFFFFF3F"));
}

#[test]
fn subscriptions_and_wills_are_written_and_read() {
    let sub = Subscription {
        number: 5,
        filter: FILTER,
        qos: QoS::ExactlyOnce,
        no_local: false,
        retain_as_published: false,
        snapshot: false,
        room: false,
        identifier: None,
        interval_micros: 0,
    };
    check(Record::Sub(sub), &hex!("07 05 02 00 03 742F23"));
    let filter = Filter {
        group: Some("g"),
        filter: "t/#",
    };
    let full = Subscription {
        filter,
        no_local: true,
        retain_as_published: true,
        snapshot: true,
        room: true,
        identifier: Some(IDENTIFIER_MAX),
        interval_micros: 1,
        ..sub
    };
    check(
        Record::Sub(full),
        &hex!("07 05 FE 01 67 03 742F23 FFFFFF7F 01"),
    );
    let number = 5;
    check(
        Record::Unsub { number, filter },
        &hex!("08 05 01 67 03 742F23"),
    );
    let filter = FILTER;
    check(Record::Done { number, filter }, &hex!("09 05 00 03 742F23"));
    let will = Will {
        number,
        topic: "w",
        properties: &[1],
        payload: b"bye",
        qos: QoS::AtLeastOnce,
        retain: true,
        delay_secs: 30,
        expiry_secs: Some(60),
    };
    check(
        Record::Will(will),
        &hex!("17 05 0D 01 77 01 01 03 627965 1E 3C"),
    );
    check(Record::WillGone { number }, &hex!("18 05"));
}

#[test]
fn messages_are_written_and_read() {
    let dense = Group {
        terms: PLAIN,
        numbers: List::new(&[5, 6, 8, 3]),
    };
    let recipients = [dense];
    let message = Message {
        body: BODY,
        arrival: None,
        elsewhere: Elsewhere::default(),
        recipients: List::new(&recipients),
    };
    check(
        Record::Message(message),
        &hex!("0A 01 00 03 742F31 00 05 68656C6C6F 01 00 04 0A 02 04 09"),
    );
    let terms = Terms {
        qos: QoS::ExactlyOnce,
        retain: true,
        held: true,
        conflated: 2,
        identifiers: List::new(&[Identifier(9), Identifier(128)]),
        share: Some(SHARE),
    };
    let special = Group {
        terms,
        numbers: List::new(&[7]),
    };
    let member = Member {
        shard: 2,
        share: SHARE,
    };
    let members = [member];
    let elsewhere = Elsewhere {
        shards: 0b101,
        route: Some("r"),
        members: List::new(&members),
    };
    let body = Body {
        zone: 1,
        publisher: 0xAB,
        retain: true,
        properties: &[9, 9],
        expires_at_ms: Some(5),
        sequence: 300,
        ..BODY
    };
    let number = 5;
    let both = [dense, special];
    let full = Message {
        body,
        arrival: Some(Arrival {
            number,
            packet_id: AN_ID,
        }),
        elsewhere,
        recipients: List::new(&both),
    };
    check(
        Record::Message(full),
        &hex!(
            "0A FD 01 AB00000000000000 05 AC02 03 742F31 02 0909 05 68656C6C6F"
            "05 AC02 05 01 72 01 02 01 67 03 742F23"
            "02 00 04 0A 02 04 09 3F 02 02 09 8001 01 67 03 742F23 01 0E"
        ),
    );
    let name = Name {
        file: 3,
        offset: 4096,
    };
    let carry = Carry {
        name,
        body: BODY,
        elsewhere,
    };
    check(
        Record::Carry(carry),
        &hex!("0B 03 8020 81 00 03 742F31 00 05 68656C6C6F 05 01 72 01 02 01 67 03 742F23"),
    );
    let owe = Owe {
        name,
        from: 5,
        sent_by: None,
        recipients: List::new(&recipients),
    };
    check(
        Record::Owe(owe),
        &hex!("0C 0A 03 8020 01 00 04 0A 02 04 09"),
    );
    let sent_by = Some(BATCH);
    check(
        Record::Owe(Owe { sent_by, ..owe }),
        &hex!("0C 0B 03 8020 07 8005 01 00 04 0A 02 04 09"),
    );
    check(
        Record::Heard(List::new(&[
            Mark { shard: 0, name },
            Mark {
                shard: 63,
                name: BATCH,
            },
        ])),
        &hex!("0D 02 00 03 8020 3F 07 8005"),
    );
    check(
        Record::Again(Again {
            member,
            names: List::new(&[name, BATCH]),
        }),
        &hex!("0E 02 01 67 03 742F23 02 03 8020 07 8005"),
    );
}

#[test]
fn what_becomes_of_deliveries_is_written_and_read() {
    let fronts = [(5, 100, 120), (6, 300, 300), (4, 0, 1)];
    let fronts = fronts.map(|(number, front, sent)| Front {
        number,
        front,
        sent,
    });
    check(
        Record::Acked(List::new(&fronts)),
        &hex!("0F 03 0A 64 14 02 AC02 00 03 00 01"),
    );
    let delivery = Delivery {
        number: 5,
        delivery: 130,
    };
    check(Record::Gone(delivery), &hex!("10 05 8201"));
    let held = Held {
        number: 5,
        name: BATCH,
    };
    let conflated = 2;
    check(Record::LetGo { held, conflated }, &hex!("11 05 07 8005 02"));
    check(Record::Dropped(held), &hex!("12 05 07 8005"));
    let packet_id = AN_ID;
    check(
        Record::Sent {
            delivery,
            packet_id,
        },
        &hex!("13 05 8201 AC02"),
    );
    check(Record::Received(delivery), &hex!("14 05 8201"));
    let number = 5;
    let arrival = Arrival { number, packet_id };
    check(Record::Arrived(arrival), &hex!("15 05 AC02"));
    check(Record::Released(arrival), &hex!("16 05 AC02"));
    let owed = [
        (4, None, Debt::Message(BATCH, PLAIN, None)),
        (5, Some(AN_ID), Debt::Release),
        (9, Some(AN_ID), Debt::Message(BATCH, PLAIN, Some(0))),
    ];
    let owed = owed.map(|(delivery, packet_id, debt)| Owed {
        delivery,
        packet_id,
        debt,
    });
    let held = [HeldBack {
        name: BATCH,
        terms: Terms {
            conflated: 3,
            ..PLAIN
        },
    }];
    let queue = Queue {
        number,
        next: 12,
        sent: 6,
        shares: List::new(&[SHARE]),
        owed: List::new(&owed),
        held: List::new(&held),
    };
    check(
        Record::Queue(queue),
        &hex!(
            "19 05 0C 06 01 01 67 03 742F23"
            "03 00 04 07 8005 C0 00 AC02 60 03 AC02 07 8005 00 01 02 07 8005 03"
        ),
    );
    let part = Part {
        number,
        place: 2,
        shares: List::new(&[SHARE]),
        owed: List::new(&owed),
        held: List::new(&held),
    };
    check(
        Record::Part(part),
        &hex!(
            "1C 05 02 01 01 67 03 742F23"
            "03 00 04 07 8005 C0 00 AC02 60 03 AC02 07 8005 00 01 02 07 8005 03"
        ),
    );
    let parts = Parts {
        number,
        count: 3,
        from: 4,
        to: 10,
    };
    check(Record::Parts(parts), &hex!("1D 05 03 04 06"));
}

/// Checks what a record is refused for.
#[track_caller]
fn refused(bytes: &[u8], field: &'static str, why: Why) {
    let error = decoded(bytes).expect_err("it is to be refused");
    let fault = Fault { field, why };
    let tag = bytes[0];
    assert_eq!(error.kind, DecodeErrorKind::Field { tag, fault });
}

#[test]
fn bad_fields_are_refused_by_name() {
    refused(&hex!("04"), "number", Why::Truncated);
    refused(&hex!("04 8000"), "number", Why::Padded);
    refused(&hex!("04 8080808010"), "number", Why::TooLarge);
    refused(&hex!("04 FFFFFFFFFFFFFFFFFFFF01"), "number", Why::TooLarge);
    refused(&hex!("01 05 00 00 01 FF 00 00"), "client_id", Why::Text);
    refused(&hex!("01 05 00 00 01 00 00 00"), "client_id", Why::Text);
    refused(
        &hex!("01 05 00 00 808004 00 00"),
        "client_id",
        Why::TooLarge,
    );
    refused(&hex!("01 05 00 00 02 63"), "client_id", Why::Truncated);
    refused(&hex!("01 05 00 00 01 63 00 7F 00"), "roles", Why::Truncated);
    refused(&hex!("06 05 00 80808080808040"), "since_ms", Why::TooLarge);
    refused(&hex!("07 05 03 00 01 74"), "qos", Why::Value);
    refused(&hex!("07 05 41 00 01 74 00"), "identifier", Why::Value);
    refused(&hex!("07 05 81 00 01 74 00"), "interval_micros", Why::Value);
    refused(&hex!("0A 03 00 00 00 00 00"), "qos", Why::Value);
    refused(&hex!("0A 01 00 00 00 00 01 02 00"), "conflated", Why::Value);
    refused(&hex!("0A 01 00 00 00 00 01 40 00"), "flags", Why::Value);
    refused(&hex!("0A 81 00 00 00 00 00 00 00"), "shards", Why::Value);
    refused(&hex!("0A 01 00 00 00 8080808001"), "payload", Why::TooLarge);
    refused(&hex!("0E 40 01 67 00 00"), "shard", Why::TooLarge);
    refused(&hex!("0E 00 00 00"), "group", Why::Value);
    refused(&hex!("0E 00 01 67 00 03 00 00"), "names", Why::Truncated);
    refused(&hex!("15 05 00"), "packet_id", Why::Value);
    refused(&hex!("15 05 808004"), "packet_id", Why::TooLarge);
    refused(&hex!("19 05 00 00 00 01 81 00"), "flags", Why::Value);
    refused(
        &hex!("19 05 00 00 00 02 80 FFFFFFFFFFFFFF7F 80 00"),
        "delivery",
        Why::TooLarge,
    );
    refused(
        &hex!("19 05 00 00 00 01 20 00 03 AC02 00 00"),
        "share",
        Why::TooLarge,
    );
    refused(
        &hex!("1C 05 00 00 01 20 00 03 AC02 00 00"),
        "share",
        Why::TooLarge,
    );
    refused(&hex!("1D 05 01 FFFFFFFFFFFFFF7F 01"), "to", Why::TooLarge);
    assert_eq!(decoded(&[0]).unwrap_err().kind, DecodeErrorKind::Tag(0));
    assert_eq!(decoded(&[200]).unwrap_err().kind, DecodeErrorKind::Tag(200));
}

#[test]
fn a_record_can_name_another_one_of_its_batch() {
    let mut batch = encoded(&Record::End { number: 1 });
    let at = batch.len() as u32;
    Record::Message(Message {
        body: BODY,
        arrival: None,
        elsewhere: Elsewhere::default(),
        recipients: List::default(),
    })
    .encode(&mut batch);
    let held = Held {
        number: 5,
        name: Name::in_this_batch(at),
    };
    Record::Dropped(held).encode(&mut batch);
    let records: Vec<_> = Records::new(BATCH, &batch).collect();
    let name = Name {
        file: 7,
        offset: 642,
    };
    assert_eq!(records.len(), 3);
    assert!(matches!(records[1], Ok((it, Record::Message(_))) if it == name));
    let held = Held { number: 5, name };
    assert!(matches!(records[2], Ok((_, Record::Dropped(it))) if it == held));
}

#[test]
fn nothing_is_read_behind_an_error() {
    let mut batch = encoded(&Record::End { number: 1 });
    batch.push(99);
    batch.extend(encoded(&Record::End { number: 2 }));
    let records: Vec<_> = Records::new(BATCH, &batch).collect();
    let kind = DecodeErrorKind::Tag(99);
    assert_eq!(records.len(), 2);
    assert!(records[0].is_ok());
    assert_eq!(
        records[1].as_ref().err(),
        Some(&DecodeError { at: 2, kind })
    );
}

#[test]
fn names_sort_as_their_numbers_do() {
    let names = [(1, 0), (1, 4), (2, 0), (u32::MAX, u32::MAX)];
    let names = names.map(|(file, offset)| Name { file, offset });
    assert!(names.is_sorted());
    assert!(names.is_sorted_by_key(|name| name.to_bits()));
    for name in names {
        assert_eq!(Name::from_bits(name.to_bits()), Some(name));
    }
    assert_eq!(Name::from_bits(0), None);
}

/// What 1,000 recipients in a row take.
#[test]
fn a_dense_recipient_takes_a_byte() {
    let numbers: Vec<u32> = (10_000..11_000).collect();
    let sizes = [1, 2, 40, 90].map(|step: usize| {
        let numbers: Vec<u32> = numbers.iter().map(|number| number * step as u32).collect();
        let group = Group {
            terms: PLAIN,
            numbers: List::new(&numbers),
        };
        let message = Message {
            body: BODY,
            arrival: None,
            elsewhere: Elsewhere::default(),
            recipients: List::default(),
        };
        let mut out = Vec::new();
        message.encode_to([group].into_iter(), &mut out);
        out.len()
    });
    assert_eq!(sizes, [1020, 1020, 1020, 2019]);
}

proptest! {
    #[test]
    fn what_is_written_is_read(seed: u64) {
        let mut random = Random::new(seed);
        let records: Vec<_> = (0..8).map(|_| random.record()).collect();
        let mut batch = Vec::new();
        for record in &records {
            record.encode(&mut batch);
        }
        let read: Result<Vec<_>, _> = Records::new(BATCH, &batch).collect();
        let read: Vec<_> = read.unwrap().into_iter().map(|(_, record)| record).collect();
        prop_assert_eq!(&read, &records);
        // What was read is written as it was.
        let mut again = Vec::new();
        for record in &read {
            record.encode(&mut again);
        }
        prop_assert_eq!(again, batch);
    }

    #[test]
    fn damage_is_a_record_or_an_error(seed: u64, at: prop::sample::Index, to: u8) {
        let mut batch = Vec::new();
        let mut random = Random::new(seed);
        for _ in 0..4 {
            random.record().encode(&mut batch);
        }
        let at = at.index(batch.len());
        batch[at] = to;
        walk(&batch);
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error(bytes: Vec<u8>) {
        walk(&bytes);
    }
}

/// Reads all that can be read, to the last item of each list, and checks that it is written back
/// in as many bytes.
fn walk(bytes: &[u8]) {
    let mut again = Vec::new();
    for record in Records::new(BATCH, bytes) {
        let Ok((name, record)) = record else { return };
        assert_eq!(again.len() as u32, name.offset - BATCH.offset);
        // A name of the same batch has become another one, of other bytes.
        let before = again.len();
        record.encode(&mut again);
        assert!(again.len() > before);
        let is_same = bytes.get(before..again.len()) == Some(&again[before..]);
        if !is_same {
            return;
        }
    }
}
