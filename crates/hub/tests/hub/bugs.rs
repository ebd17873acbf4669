//! Broken invariants: one connection ends, and is counted; others go on.

use crate::world::{ConnectOptions, PING, World};
use stentor_mqtt::{QoS, Version};
use stentor_session::{Batch, CloseReason};

#[test]
fn a_broken_invariant_closes_one_connection_and_is_counted() {
    let mut w = World::new(1);
    let options = ConnectOptions::default();
    let victim = w.connect(Version::V5, "victim", &options);
    let other = w.connect(Version::V5, "other", &options);
    w.subscribe(other, "t", QoS::AtMostOnce);
    w.send_without_settling(victim, &PING);
    let (now, key) = (w.now, w.clients[victim].key.unwrap());
    let hub = &mut w.hubs[0];
    let mut batch = Batch::new();
    assert!(hub.transmit(now, key, &mut batch));
    // The shard says that it has written more than there was.
    let too_much = batch.len() + 1;
    hub.transmitted(now, key, &mut batch, too_much);
    assert_eq!(hub.inspect().stats().bugs, 1);
    w.settle();
    let closed = w.clients[victim].closed;
    assert!(
        matches!(closed, Some(CloseReason::Bug(what)) if what.contains("written")),
        "{closed:?}"
    );
    w.publish(other, "t", "still here", QoS::AtMostOnce, false);
    assert_eq!(w.hubs[0].inspect().stats().publishes_sent, 1);
    assert!(w.clients[other].closed.is_none());
}
