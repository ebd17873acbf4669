//! What is owed costs what its parts cost together, whatever happens.

use alloc::vec;
use alloc::vec::Vec;

use stentor_mqtt::ReasonCode;
use stentor_topic::Zone;

mod spool;

use super::*;
use crate::message::{MessageParts, Publisher};
use crate::random::random;

fn delivery(bytes: usize, qos: QoS, expiry_secs: Option<u32>) -> Delivery {
    let parts = MessageParts {
        topic: "t",
        properties: &[],
        payload: &vec![0; bytes],
        qos,
        retain: false,
        expiry_secs,
    };
    let message = Message::new(Zone(0), Publisher::SERVER, Tick::ZERO, &parts);
    Delivery {
        message: Arc::new(message),
        qos,
        retain: false,
        subscription_ids: SubscriptionIds::new(&[7, 9]),
        share: 0,
        conflated: 0,
        number: 0,
    }
}

/// The costs of what was sent on this connection, and of everything.
fn sums(outbound: &Outbound) -> (usize, usize) {
    let sent = outbound.in_flight.iter().take(outbound.sent);
    let in_flight = outbound.in_flight.iter().map(InFlight::cost);
    let waiting = outbound.waiting.iter().map(Delivery::cost);
    (
        sent.map(InFlight::cost).sum(),
        in_flight.chain(waiting).sum(),
    )
}

#[test]
fn the_bytes_of_what_is_owed_are_the_sum_of_its_parts() {
    let mut random = random(3);
    for round in 0..300 {
        let mut outbound = Outbound::default();
        let mut clock = 0;
        for _ in 0..300 {
            let window = Window {
                messages: 1 + random(8) as u16,
                bytes: random(4_000),
            };
            let id = outbound
                .in_flight
                .get(random(outbound.in_flight.len().max(1)))
                .map(|entry| entry.packet_id);
            let qos = [QoS::AtLeastOnce, QoS::ExactlyOnce][random(2)];
            let expiry = [None, Some(random(20) as u32)][random(2)];
            match (random(10), id) {
                (0..=2, _) => {
                    let delivery = delivery(random(2_000), qos, expiry);
                    if outbound.send(window, &delivery).is_none() {
                        outbound.wait(delivery);
                    }
                }
                (3, Some(id)) => drop(outbound.on_puback(id)),
                (4, Some(id)) => drop(outbound.on_pubrec(id, ReasonCode::Success)),
                (5, Some(id)) => drop(outbound.on_pubcomp(id)),
                (6, Some(id)) => outbound.discard(id),
                (7, _) if random(5) == 0 => outbound.disconnected(),
                (7, _) => {
                    let len = random(9);
                    let before = (
                        outbound.in_flight_len() + outbound.waiting_len(),
                        outbound.bytes,
                    );
                    let gone = outbound.withdraw(|message| message.payload().len() % 9 != len);
                    let after = (
                        outbound.in_flight_len() + outbound.waiting_len(),
                        outbound.bytes,
                    );
                    let sum = (after.0 + gone.pieces(), after.1 + gone.bytes());
                    assert_eq!(sum, before, "nothing else is gone");
                }
                (8, _) => {
                    clock += random(3) as u32;
                    outbound.drop_expired_waiting(Tick::ZERO.after_secs(clock), |_| ());
                    if random(4) == 0 {
                        outbound.drop_oldest_waiting();
                    }
                }
                _ => {}
            }
            while outbound.resend(window).is_some() {}
            while outbound.advance(window).is_some() {}
            assert_eq!(
                (outbound.sent_bytes, outbound.bytes),
                sums(&outbound),
                "round {round}"
            );
            let is_stuck = outbound.sent == 0 && !outbound.is_empty();
            assert!(!is_stuck, "one gets on at least, round {round}");
        }
        let mut remains = outbound.abandon();
        while remains.next().is_some() {
            let in_flight = remains.in_flight.iter().map(InFlight::cost);
            let waiting = remains.waiting.iter().map(Delivery::cost);
            assert_eq!(remains.bytes(), in_flight.chain(waiting).sum::<usize>());
        }
        assert_eq!((remains.pieces(), remains.bytes()), (0, 0), "round {round}");
    }
}

/// The window closes by bytes as it does by messages; one that is larger alone gets on.
#[test]
fn a_window_of_bytes_closes() {
    let mut outbound = Outbound::default();
    let message = delivery(1_000, QoS::AtLeastOnce, None);
    let window = Window {
        messages: 100,
        bytes: 3 * message.cost(),
    };
    let ids: Vec<_> = (0..5)
        .map_while(|_| outbound.send(window, &message))
        .collect();
    assert_eq!(ids.len(), 3);
    outbound.wait(delivery(9_000, QoS::AtLeastOnce, None));
    for id in ids {
        // The first acknowledgement makes room.
        let had_room = outbound.advance(window).is_some();
        assert!(!had_room || outbound.in_flight_len() == 3);
        assert_eq!(outbound.on_puback(id), Acked::Complete);
    }
    assert_eq!(outbound.in_flight_len() + outbound.waiting_len(), 1);
}
