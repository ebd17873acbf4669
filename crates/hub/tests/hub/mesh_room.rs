//! Work that waits while the mesh between the shards has no room, and work that goes on.

use stentor_hub::MeshRoom;
use stentor_mqtt::{Property, PropertyBuf, QoS, Version};

use crate::world::{PING, World, clean, encoded_publish};

/// A publisher and a subscriber of the first shard, and a subscriber of the second one.
fn world() -> (World, [usize; 3]) {
    let mut w = World::new(2);
    let named = |w: &World, begin: &str, shard| {
        let mut names = (0..).map(|n| format!("{begin}{n}"));
        names.find(|name| w.home(name) == shard).unwrap()
    };
    let clients = [("p", 0), ("near", 0), ("far", 1)].map(|(begin, shard)| {
        let name = named(&w, begin, shard);
        w.connect(Version::V5, &name, &clean())
    });
    w.subscribe(clients[1], "near/#", QoS::AtMostOnce);
    w.subscribe(clients[2], "far/#", QoS::AtMostOnce);
    (w, clients)
}

fn publish(topic: &str, payload: &str, alias: Option<u16>) -> Vec<u8> {
    let mut properties = PropertyBuf::new();
    if let Some(alias) = alias {
        properties.push(Property::TopicAlias(alias));
    }
    encoded_publish(topic, payload.as_bytes(), properties.as_properties())
}

/// How many answers to a PINGREQ have come.
fn answers(w: &mut World, client: usize) -> usize {
    let answer = |_: &usize| w.take_packet(client, 0xD0).is_some();
    (0..).take_while(answer).count()
}

#[test]
fn only_what_other_shards_need_waits() {
    let (mut w, [p, near, far]) = world();
    w.send_bytes(p, &publish("far/alias", "0", Some(1)));
    assert_eq!(w.take_payloads(far), ["0"]);
    w.set_mesh_room(0, MeshRoom::Full);
    w.send_bytes(p, &[publish("near/1", "1", None), PING.to_vec()].concat());
    assert_eq!(w.take_payloads(near), ["1"]);
    assert_eq!(answers(&mut w, p), 1);
    for needs in [publish("far/1", "2", None), publish("", "2", Some(1))] {
        w.set_mesh_room(0, MeshRoom::Full);
        let local = publish("near/1", "3", None);
        w.send_bytes(p, &[PING.to_vec(), needs, local, PING.to_vec()].concat());
        assert_eq!(answers(&mut w, p), 1, "what comes after it keeps its order");
        assert!(w.take_payloads(far).is_empty() && w.take_payloads(near).is_empty());
        w.set_mesh_room(0, MeshRoom::Free);
        assert_eq!(w.take_payloads(far), ["2"]);
        assert_eq!(w.take_payloads(near), ["3"]);
        assert_eq!(answers(&mut w, p), 1);
    }
}

/// Whether a member on another shard gets a message is known afterwards: it is one at most.
#[test]
fn of_a_shared_subscription_one_message_goes() {
    let (mut w, [p, _, far]) = world();
    w.subscribe(far, "$share/g/sh", QoS::AtMostOnce);
    w.set_mesh_room(0, MeshRoom::Full);
    let two = [publish("sh", "1", None), publish("sh", "2", None)].concat();
    w.send_bytes(p, &two);
    assert_eq!(w.take_payloads(far), ["1"]);
    w.set_mesh_room(0, MeshRoom::Free);
    assert_eq!(w.take_payloads(far), ["2"]);
}

#[test]
fn where_twice_as_much_waits_no_message_is_taken() {
    let (mut w, [p, near, _]) = world();
    w.set_mesh_room(0, MeshRoom::Overfull);
    let message = publish("near/1", "1", None);
    w.send_bytes(p, &[PING.to_vec(), message, PING.to_vec()].concat());
    assert_eq!(answers(&mut w, p), 1);
    assert!(w.take_payloads(near).is_empty());
    w.set_mesh_room(0, MeshRoom::Free);
    assert_eq!(w.take_payloads(near), ["1"]);
    assert_eq!(answers(&mut w, p), 1);
}
