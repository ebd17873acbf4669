//! Acknowledgements that wait, against a naive model.

use std::collections::HashMap;

use stentor_mqtt::{PacketId, ReasonCode};
use stentor_session::{AckQueue, Arrival, Attempt, Inbound, Outcome, Receipt, Ticket};

const SUCCESS: Outcome = Outcome::SUCCESS;
const QUOTA: Outcome = Outcome::new(ReasonCode::QuotaExceeded, "too much");

fn id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

fn puback(n: u16) -> Receipt {
    Receipt::PubAck(id(n))
}

fn pubrec(n: u16) -> Receipt {
    Receipt::PubRec(id(n))
}

fn drain(inbound: &mut Inbound) -> Vec<(Receipt, Outcome)> {
    std::iter::from_fn(|| inbound.next_ack()).collect()
}

/// [MQTT-4.6.0-2] [MQTT-4.6.0-3]
#[test]
fn one_that_waits_holds_the_later_ones() {
    let mut inbound = Inbound::default();
    assert!(
        inbound.may_acknowledge(puback(1), &SUCCESS),
        "nothing waits"
    );
    let two = inbound.defer(puback(2), Ticket(7));
    assert!(!inbound.may_acknowledge(puback(3), &SUCCESS));
    let four = inbound.defer(pubrec(4), Ticket(8));
    assert_eq!(drain(&mut inbound), []);
    inbound.settle(four, Ticket(8), QUOTA);
    assert_eq!(drain(&mut inbound), [], "still behind the first");
    inbound.settle(two, Ticket(7), SUCCESS);
    let expected = [
        (puback(2), SUCCESS),
        (puback(3), SUCCESS),
        (pubrec(4), QUOTA),
    ];
    assert_eq!(drain(&mut inbound), expected);
    assert!(inbound.may_acknowledge(puback(5), &SUCCESS));
}

/// [MQTT-3.3.4-9]: what waits for its PUBACK counts, of either QoS.
#[test]
fn what_waits_counts_for_the_receive_maximum() {
    let mut inbound = Inbound::default();
    inbound.defer(puback(1), Ticket(1));
    assert_eq!(inbound.on_publish(id(2), Attempt::First, 3), Arrival::New);
    inbound.defer(pubrec(2), Ticket(1));
    assert!(!inbound.is_full(3));
    let three = inbound.defer(puback(3), Ticket(2));
    assert!(inbound.is_full(3));
    assert_eq!(
        inbound.on_publish(id(4), Attempt::First, 3),
        Arrival::TooMany
    );
    inbound.settle(three, Ticket(2), SUCCESS);
    assert!(
        inbound.is_full(3),
        "it is settled, but its client does not know"
    );
    inbound.disconnected();
    assert!(
        !inbound.is_full(3),
        "a new connection begins with all its quota"
    );
}

#[test]
fn what_is_sent_again_waits_for_the_same() {
    let mut inbound = Inbound::default();
    assert_eq!(inbound.on_publish(id(1), Attempt::First, 9), Arrival::New);
    let first = inbound.defer(pubrec(1), Ticket(5));
    inbound.disconnected();
    assert!(!inbound.is_empty(), "the message is remembered");
    assert!(
        inbound.may_acknowledge(puback(9), &SUCCESS),
        "it holds nobody"
    );
    let again = Arrival::RepeatedWaiting(Ticket(5));
    assert_eq!(inbound.on_publish(id(1), Attempt::First, 9), again);
    let second = inbound.defer(pubrec(1), Ticket(5));
    inbound.disconnected();
    assert_eq!(inbound.on_publish(id(1), Attempt::First, 9), again);
    let third = inbound.defer(pubrec(1), Ticket(5));
    for name in [first, second, third] {
        inbound.settle(name, Ticket(5), SUCCESS);
    }
    assert_eq!(drain(&mut inbound), [(pubrec(1), SUCCESS)]);
    assert_eq!(
        inbound.on_publish(id(1), Attempt::First, 9),
        Arrival::Repeated
    );
    assert!(inbound.on_pubrel(id(1)));
    assert!(inbound.is_empty());
}

#[test]
fn what_was_refused_after_its_connection_went_is_new_when_it_comes_again() {
    for told in [false, true] {
        let mut inbound = Inbound::default();
        assert_eq!(inbound.on_publish(id(1), Attempt::First, 9), Arrival::New);
        let head = told.then(|| inbound.defer(puback(3), Ticket(4)));
        let name = inbound.defer(pubrec(1), Ticket(5));
        if told {
            // Settled in time, but held by the first.
            inbound.settle(name, Ticket(5), QUOTA);
        }
        inbound.disconnected();
        if let Some(head) = head {
            inbound.settle(head, Ticket(4), SUCCESS);
        }
        inbound.settle(name, Ticket(5), QUOTA);
        assert!(inbound.is_empty());
        assert_eq!(inbound.on_publish(id(1), Attempt::First, 9), Arrival::New);
    }
}

/// A queue that begins anew gives names that an earlier one has given.
#[test]
fn a_name_of_an_earlier_queue_settles_nothing() {
    let mut old = AckQueue::default();
    let name = old.push_waiting(puback(1), Ticket(1));
    old.disconnected(|_| panic!("there is nothing of QoS 2"));
    assert!(old.is_unused());
    let mut new = AckQueue::default();
    assert_eq!(new.push_waiting(puback(1), Ticket(2)), name);
    new.settle(name, Ticket(1), SUCCESS);
    assert_eq!(new.pop(), None);
    new.settle(name, Ticket(2), SUCCESS);
    assert_eq!(new.pop(), Some((puback(1), SUCCESS)));
}

/// One step of a random history, by a number.
#[test]
fn any_history_acknowledges_in_order_and_nothing_before_its_ticket() {
    for seed in 1..200_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut queue = AckQueue::default();
        // What the model expects to leave, in order; `None` waits.
        let mut model: Vec<(Receipt, Option<Outcome>)> = Vec::new();
        let mut waiting: HashMap<u64, (u64, Option<usize>)> = HashMap::new();
        let (mut tickets, mut left) = (0, 0);
        for step in 0..400_u16 {
            match below(5) {
                0 => {
                    tickets += 1;
                    let receipt = puback(step + 1);
                    let name = queue.push_waiting(receipt, Ticket(tickets));
                    waiting.insert(tickets, (name, Some(model.len())));
                    model.push((receipt, None));
                }
                1 | 2 => {
                    let receipt = pubrec(step + 1);
                    queue.push_ready(receipt, SUCCESS);
                    model.push((receipt, Some(SUCCESS)));
                }
                3 if tickets > 0 => {
                    let ticket = 1 + below(tickets);
                    if let Some((name, at)) = waiting.remove(&ticket) {
                        queue.settle(name, Ticket(ticket), QUOTA);
                        if let Some(at) = at {
                            model[at].1 = Some(QUOTA);
                        }
                    }
                }
                _ if below(20) == 0 => {
                    queue.disconnected(|_| panic!("seed {seed}: nothing of QoS 2 failed"));
                    model.truncate(left);
                    for (_, at) in waiting.values_mut() {
                        *at = None;
                    }
                }
                _ => {}
            }
            while let Some((receipt, reason)) = queue.pop() {
                assert_eq!(model[left], (receipt, Some(reason)), "seed {seed}");
                left += 1;
            }
            let next = model.get(left);
            assert!(
                next.is_none_or(|(_, reason)| reason.is_none()),
                "seed {seed}: one was held"
            );
            assert_eq!(queue.len(), model.len() - left, "seed {seed}");
        }
    }
}

/// It would be taken for one that has arrived after a restart, and never be taken.
#[test]
fn a_message_that_is_refused_behind_others_was_not_received() {
    let mut inbound = Inbound::default();
    let one = inbound.defer(puback(1), Ticket(7));
    for packet_id in [2, 3] {
        assert_eq!(
            inbound.on_publish(id(packet_id), Attempt::First, 9),
            Arrival::New
        );
    }
    assert!(!inbound.may_acknowledge(pubrec(2), &QUOTA));
    assert!(!inbound.may_acknowledge(pubrec(3), &SUCCESS));
    assert_eq!(inbound.received().collect::<Vec<_>>(), [id(3)]);
    inbound.settle(one, Ticket(7), SUCCESS);
    assert_eq!(drain(&mut inbound).len(), 3);
}
