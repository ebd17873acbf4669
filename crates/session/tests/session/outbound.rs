//! The sender's window under acknowledgements that come late or never.

use std::sync::Arc;

use stentor_mqtt::QoS;
use stentor_session::{
    Acked, Delivery, Message, MessageParts, Outbound, Publisher, SubscriptionIds, Tick, Window,
};
use stentor_topic::Zone;

fn delivery() -> Delivery {
    let parts = MessageParts {
        topic: "t",
        properties: &[],
        payload: b"x",
        qos: QoS::AtLeastOnce,
        retain: false,
        expiry_secs: None,
    };
    let message = Message::new(Zone(0), Publisher::SERVER, Tick::ZERO, &parts);
    Delivery {
        message: Arc::new(message),
        qos: QoS::AtLeastOnce,
        retain: false,
        subscription_ids: SubscriptionIds::default(),
        share: 0,
        conflated: 0,
        number: 0,
    }
}

/// A window that is bounded by messages alone.
const fn window(messages: u16) -> Window {
    let bytes = usize::MAX;
    Window { messages, bytes }
}

/// One message is never acknowledged while the packet ids go round three times.
#[test]
fn a_message_left_behind_for_a_whole_turn_of_packet_ids_confuses_nothing() {
    const MESSAGES: u16 = 8;
    const WINDOW: Window = window(MESSAGES);
    let delivery = delivery();
    let mut outbound = Outbound::default();
    let stuck = outbound.send(WINDOW, &delivery).unwrap();
    let mut in_flight = Vec::new();
    for _ in 0..3 * 65_536 {
        if let Some(id) = outbound.send(WINDOW, &delivery) {
            assert!(id != stuck && !in_flight.contains(&id), "{id:?} is taken");
            in_flight.push(id);
        }
        if in_flight.len() >= usize::from(MESSAGES) - 1 {
            // Not in order: the second of them first.
            assert_eq!(outbound.on_puback(in_flight.remove(1)), Acked::Complete);
            assert_eq!(outbound.on_puback(in_flight.remove(0)), Acked::Complete);
        }
    }
    for id in in_flight {
        assert_eq!(outbound.on_puback(id), Acked::Complete);
    }
    assert_eq!(outbound.on_puback(stuck), Acked::Complete);
    assert!(outbound.is_empty());
}

/// Packet ids go round also where each message is acknowledged at once, and a session that owes
/// nothing in between keeps only the next one: 1 to 65,535, then 1 again.
#[test]
fn packet_ids_go_round_though_nothing_stays_in_flight() {
    let delivery = delivery();
    let mut kept = Outbound::default();
    let mut next_id = Outbound::default().next_id();
    for number in 0..2 * u32::from(u16::MAX) + 3 {
        let expected = u16::try_from(number % u32::from(u16::MAX) + 1).unwrap();
        let mut made_anew = Outbound::starting_at(next_id);
        for outbound in [&mut kept, &mut made_anew] {
            let id = outbound.send(window(10), &delivery).unwrap();
            assert_eq!(id.get(), expected, "message {number}");
            assert_eq!(outbound.on_puback(id), Acked::Complete);
            assert!(outbound.is_empty());
        }
        next_id = made_anew.next_id();
    }
}

/// [MQTT-4.4.0-1]: what is in flight is sent again in order, and no more than the window allows.
#[test]
fn a_new_connection_resends_in_order_within_its_window() {
    let delivery = delivery();
    let mut outbound = Outbound::default();
    let ids: Vec<_> = (0..5)
        .map(|_| outbound.send(window(10), &delivery).unwrap())
        .collect();
    outbound.disconnected();
    assert!(
        outbound.send(window(10), &delivery).is_none(),
        "resending goes first"
    );
    let mut again = Vec::new();
    while let Some(stentor_session::Resend::Publish(id, _)) = outbound.resend(window(3)) {
        again.push(id);
    }
    assert_eq!(again, ids[..3]);
    // One that was not sent again yet may still be acknowledged.
    assert_eq!(outbound.on_puback(ids[4]), Acked::Complete);
    assert!(outbound.resend(window(3)).is_none());
    assert_eq!(outbound.on_puback(ids[1]), Acked::Complete);
    assert!(matches!(
        outbound.resend(window(3)),
        Some(stentor_session::Resend::Publish(id, _)) if id == ids[3]
    ));
    assert!(outbound.resend(window(3)).is_none());
}
