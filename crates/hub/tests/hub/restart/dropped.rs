//! Records that a full disk has dropped: when the journal is complete again, nothing is lost by a
//! kill that was dropped before.

use stentor_hub::Settings;
use stentor_mqtt::{QoS, Version};

use super::messages::dear;
use super::{come_back, restart};
use crate::world::{ConnectOptions, Disk, World, clean};

const Q1: QoS = QoS::AtLeastOnce;

/// A client id whose home is this shard.
fn at_home(w: &World, shard: u8, what: &str) -> String {
    let mut ids = (0..100).map(|number| format!("{what}{number}"));
    ids.find(|id| w.home(id) == shard)
        .expect("some client is at home there")
}

/// A client whose session lasts, which is away, and which has subscribed to `t`, twice.
fn with_lasting(w: &mut World, shard: u8) -> String {
    let id = at_home(w, shard, "lasting");
    let lasting = w.connect(Version::V5, &id, &ConnectOptions::persistent());
    for filter in ["t", "#"] {
        assert_eq!(w.subscribe(lasting, filter, Q1), 1);
    }
    w.drop_link(lasting);
    id
}

/// The disk of shard 0 is full while a client there publishes, and what it has published is on its
/// way to the other shards.
fn publish_on_a_full_disk(w: &mut World) {
    let id = at_home(w, 0, "p");
    let publisher = w.connect(Version::V5, &id, &clean());
    w.paused = true;
    w.set_disk(0, Disk::IsFull);
    w.publish(publisher, "t", "x", Q1, false);
    w.flush(0);
    w.set_disk(0, Disk::CatchesUp);
}

/// These shards write all sessions again, and give up what they had written before.
fn mend(w: &mut World, shards: &[u8]) {
    w.paused = false;
    for _ in 0..10 {
        w.settle();
        for shard in shards {
            w.rewrite(*shard, usize::MAX);
        }
    }
    assert!(w.is_sound(), "the journals are complete");
}

fn payloads_of(w: &mut World, id: &str) -> Vec<String> {
    let (client, was_there) = come_back(w, id);
    assert!(was_there, "{id}");
    w.take_payloads(client)
}

/// Its shard has not taken it yet, so only the memory has it.
#[test]
fn a_journal_is_not_complete_before_others_have_what_it_has_dropped() {
    let mut w = World::writing(2, Settings::default());
    let lasting = with_lasting(&mut w, 1);
    publish_on_a_full_disk(&mut w);
    for _ in 0..5 {
        w.rewrite(0, usize::MAX);
        assert!(!w.is_sound(), "a kill would lose the message");
    }
    mend(&mut w, &[0, 1]);
    restart(&mut w, 2);
    assert_eq!(payloads_of(&mut w, &lasting), ["x"]);
}

/// Its own shard has written it down in the meantime, for a client that has it now, and gives that
/// file up.
#[test]
fn a_shard_writes_a_message_that_had_no_name_when_it_was_sent() {
    let settings = Settings {
        // It is handed out over several turns, on both shards.
        at_once: dear(),
        ..Settings::default()
    };
    let mut w = World::writing(2, settings);
    let [here, there] = [0, 1].map(|shard| with_lasting(&mut w, shard));
    let (here, _) = come_back(&mut w, &here);
    publish_on_a_full_disk(&mut w);
    for _ in 0..100 {
        w.go_on(0);
        w.flush(0);
    }
    let message = w.take_messages(here).pop().expect("the message");
    w.send_ack(here, 0x40, message.packet_id.expect("a packet id"));
    w.rewrite(1, usize::MAX);
    mend(&mut w, &[0]);
    restart(&mut w, 2);
    assert_eq!(payloads_of(&mut w, &there), ["x"]);
}

/// The other shard has not written its sessions again, so the older files are there.
#[test]
fn a_session_that_ends_on_a_full_disk_does_not_come_back() {
    for was_restarted in [false, true] {
        let mut w = World::writing(2, Settings::default());
        if was_restarted {
            let id = at_home(&w, 0, "early");
            w.connect(Version::V5, &id, &ConnectOptions::persistent());
            restart(&mut w, 2);
        }
        let id = with_lasting(&mut w, 0);
        w.set_disk(0, Disk::IsFull);
        let ended = w.connect(Version::V5, &id, &clean());
        w.drop_link(ended);
        w.set_disk(0, Disk::CatchesUp);
        w.rewrite(0, usize::MAX);
        assert!(w.is_sound());
        restart(&mut w, 2);
        assert!(!come_back(&mut w, &id).1, "it has ended");
    }
}

/// Nor does one that has gone on with one of an earlier start, which is there as well otherwise. It
/// ends while the disk is full, before it is written again, or after that.
#[test]
fn a_session_that_goes_on_from_a_full_disk_is_there_once() {
    for ends_at in 0..3 {
        let mut w = World::writing(1, Settings::default());
        let id = with_lasting(&mut w, 0);
        w.crash_onto(Disk::IsFull, 2, 3);
        let shard = w.home(&id);
        for step in 0..3 {
            if step == ends_at {
                let ended = w.connect(Version::V5, &id, &clean());
                w.drop_link(ended);
            }
            match step {
                0 => w.set_disk(shard, Disk::CatchesUp),
                _ => _ = w.rewrite(shard, usize::MAX),
            }
        }
        restart(&mut w, 2);
        assert!(!come_back(&mut w, &id).1, "it has ended: {ends_at}");
    }
}

/// The disk of one of the other shards is slow, so that the other one comes first.
#[test]
fn shards_that_get_a_message_without_a_name_name_it_each_for_itself() {
    let settings = Settings {
        // It is handed out over several turns.
        at_once: dear(),
        ..Settings::default()
    };
    let mut w = World::writing(3, settings);
    let all = [1, 2].map(|shard| with_lasting(&mut w, shard));
    publish_on_a_full_disk(&mut w);
    w.set_disk(2, Disk::IsSlow);
    for shard in [2, 1] {
        assert!(w.deliver_one((shard, 0)), "it is under way");
    }
    w.set_disk(2, Disk::Takes);
    mend(&mut w, &[0]);
    restart(&mut w, 2);
    for lasting in all {
        assert_eq!(payloads_of(&mut w, &lasting), ["x"], "{lasting}");
    }
}
