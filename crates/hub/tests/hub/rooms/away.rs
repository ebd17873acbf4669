//! Being sent out, being away for a while, and coming back.

use stentor_mqtt::Version;
use stentor_session::{CloseReason, Remote};

use super::{
    Q1, change, command, events, lasting, meet, places, received, said, tea, told_of_joins, user,
};
use crate::world::ConnectOptions;

#[test]
fn a_lost_connection_keeps_its_place_for_a_while() {
    for place @ (_, ids) in places() {
        for persistent in [false, true] {
            let base = if persistent {
                ConnectOptions::persistent()
            } else {
                ConnectOptions::default()
            };
            let options = ConnectOptions {
                user: Some("bob"),
                ..base
            };
            let (mut w, ann, bob) = meet(place, Version::V5, &options);
            w.subscribe(ann, "$room/tea/#", Q1);
            w.subscribe(bob, "$room/tea/#", Q1);
            received(&mut w, ann);
            w.drop_link(bob);
            assert_eq!(events(&mut w, ann), [r#"{"event":"away","user":"bob"}"#]);
            w.publish(ann, "$room/tea/say", "missed", Q1, false);
            w.pass_secs(20);
            let bob = w.connect(Version::V5, ids[1], &options);
            if !persistent {
                w.subscribe(bob, "$room/tea/#", Q1);
            }
            assert_eq!(events(&mut w, ann), [r#"{"event":"back","user":"bob"}"#]);
            w.publish(ann, "$room/tea/say", "heard", Q1, false);
            assert_eq!(said(&mut w, bob), ["$room/tea/say/ann heard"]);
            received(&mut w, ann);
            w.drop_link(bob);
            w.pass_secs(31);
            let told = events(&mut w, ann);
            assert_eq!(told.len(), 2, "{told:?}");
            assert_eq!(
                told[1],
                r#"{"event":"left","user":"bob","reason":"lost","members":1}"#
            );
            // A goodbye is a departure.
            let bob = w.connect(Version::V5, ids[1], &options);
            if !persistent {
                w.subscribe(bob, "$room/tea/#", Q1);
            }
            events(&mut w, ann);
            w.disconnect(bob, CloseReason::Remote(Remote::Disconnect));
            let told = events(&mut w, ann);
            assert!(told[0].contains(r#""reason":"left""#), "{told:?}");
        }
    }
}

#[test]
fn who_is_sent_out_hears_nothing_more() {
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        for client in [ann, bob] {
            w.subscribe(client, "$room/tea/#", Q1);
        }
        let kicked = command(&mut w, ann, "kick", r#"{"room":"tea","user":"bob"}"#);
        assert!(kicked.contains(r#""status":"done""#), "{kicked}");
        received(&mut w, bob);
        w.publish(ann, "$room/tea/say", "he is gone", Q1, false);
        assert!(received(&mut w, bob).is_empty());
        w.publish(bob, "$room/tea/say", "am I?", Q1, false);
        assert_eq!(w.take_packet(bob, 0x40).unwrap().get(4), Some(&0x87));
        let closed = command(&mut w, ann, "close", r#"{"room":"tea"}"#);
        assert!(closed.contains(r#""status":"done""#), "{closed}");
        w.publish(ann, "$room/tea/say", "anybody?", Q1, false);
        assert!(said(&mut w, ann).is_empty());
    }
}

/// A connection that ends while its SUBSCRIBE is under way leaves no place behind.
#[test]
fn a_join_that_nobody_waits_for_is_undone() {
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        w.subscribe(ann, "$room/tea/#", Q1);
        w.paused = true;
        w.subscribe(bob, "$room/tea/#", Q1);
        w.drop_link(bob);
        w.paused = false;
        w.settle();
        w.pass_secs(31);
        let info = tea(&mut w, ann);
        assert!(info.contains(r#""members":["ann"]"#), "{info}");
    }
}

/// A member that comes back is told what has become of its place; a room that has ended is not made
/// again.
#[test]
fn who_was_sent_out_while_away_is_told_and_stays_out() {
    for place @ (_, ids) in places() {
        for (version, command_name, error) in [
            (Version::V311, "kick", "kicked"),
            (Version::V5, "kick", "kicked"),
            (Version::V5, "close", "closed"),
        ] {
            let (mut w, ann, bob) = meet(place, version, &lasting("bob"));
            w.subscribe(ann, "$room/tea/#", Q1);
            w.subscribe(bob, "$room/tea/event", Q1);
            w.subscribe(bob, "$room/tea/say/+", Q1);
            w.drop_link(bob);
            let words = match command_name {
                "kick" => r#"{"room":"tea","user":"bob"}"#,
                _ => r#"{"room":"tea"}"#,
            };
            let done = command(&mut w, ann, command_name, words);
            assert!(done.contains(r#""status":"done""#), "{done}");
            received(&mut w, ann);
            let bob = w.connect(version, ids[1], &lasting("bob"));
            let told = received(&mut w, bob);
            assert_eq!(told.len(), 1, "{told:?}");
            let expected = format!(r#"$reply/join {{"code":152,"error":"{error}","room":"tea""#);
            assert!(told[0].starts_with(&expected), "{told:?}");
            assert!(events(&mut w, ann).is_empty());
            let info = tea(&mut w, ann);
            assert!(!info.contains("bob"), "{info}");
            let is_there = command_name == "kick";
            assert_eq!(info.contains(r#""status":"done""#), is_there, "{info}");
            // It may join again, by itself.
            assert_eq!(w.subscribe(bob, "$room/tea/#", Q1), 1);
        }
    }
}

/// After the grace period coming back is joining, which may be refused.
#[test]
fn who_comes_back_too_late_is_told_why_it_is_not_let_in() {
    for place @ (_, ids) in places() {
        for version in [Version::V311, Version::V5] {
            for (fields, code) in [(r#""locked":true"#, 0x83), (r#""capacity":1"#, 0x97)] {
                let (mut w, ann, bob) = meet(place, version, &lasting("bob"));
                w.subscribe(ann, "$room/tea/#", Q1);
                w.subscribe(bob, "$room/tea/#", Q1);
                received(&mut w, bob);
                w.drop_link(bob);
                change(&mut w, ann, fields);
                w.pass_secs(31);
                let bob = w.connect(version, ids[1], &lasting("bob"));
                let told = told_of_joins(&mut w, bob);
                assert_eq!(told.len(), 1, "{told:?}");
                let expected = format!(r#"$reply/join {{"code":{code},"#);
                assert!(told[0].starts_with(&expected), "{told:?}");
                let info = tea(&mut w, ann);
                assert!(info.contains(r#""members":["ann"]"#), "{info}");
            }
        }
    }
}

/// A client that is sent out while it comes back, or goes again while it does, loses nothing else.
#[test]
fn who_comes_back_in_between_is_told_or_comes_again() {
    for place @ (_, ids) in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &lasting("bob"));
        w.subscribe(ann, "$room/tea/#", Q1);
        w.subscribe(bob, "$room/tea/#", Q1);
        w.drop_link(bob);
        // It goes before the home has answered, and comes again at once.
        w.paused = true;
        let bob = w.connect_only(Version::V5, ids[1], &lasting("bob"));
        w.drop_link(bob);
        let bob = w.connect_only(Version::V5, ids[1], &lasting("bob"));
        w.paused = false;
        w.settle();
        received(&mut w, bob);
        let info = tea(&mut w, ann);
        assert!(info.contains(r#""members":["ann","bob"]"#), "{info}");
        w.pass_secs(31);
        w.publish(bob, "$room/tea/say", "still here", Q1, false);
        assert_eq!(said(&mut w, bob), ["$room/tea/say/bob still here"]);
        if w.clients[ann].shard != 0 || w.clients[bob].shard == 0 {
            continue;
        }
        // It is sent out while its question is on the way.
        w.drop_link(bob);
        w.paused = true;
        let bob = w.connect_only(Version::V5, ids[1], &lasting("bob"));
        w.publish(
            ann,
            "$call/room.kick/x",
            r#"{"room":"tea","user":"bob"}"#,
            Q1,
            false,
        );
        w.paused = false;
        w.settle();
        let told = told_of_joins(&mut w, bob);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("kicked"), "{told:?}");
        let info = tea(&mut w, ann);
        assert!(info.contains(r#""members":["ann"]"#), "{info}");
        w.publish(ann, "$room/tea/say", "he is out", Q1, false);
        assert!(said(&mut w, bob).is_empty());
    }
}

/// The session's own shard does not know yet that it was sent out.
#[test]
fn who_subscribes_once_more_while_sent_out_stays_out() {
    let mut tried = 0;
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        if w.clients[bob].shard == 0 {
            // The home of the room is his own shard.
            continue;
        }
        tried += 1;
        w.subscribe(ann, "$room/tea/event", Q1);
        w.subscribe(bob, "$room/tea/event", Q1);
        w.paused = true;
        let words = r#"{"room":"tea","user":"bob"}"#;
        w.publish(ann, "$call/room.kick", words, Q1, false);
        w.subscribe(bob, "$room/tea/say/+", Q1);
        w.paused = false;
        w.settle();
        let info = tea(&mut w, ann);
        assert!(!info.contains("bob"), "{info}");
        w.publish(ann, "$room/tea/say", "he has gone", Q1, false);
        assert!(said(&mut w, bob).is_empty());
    }
    assert!(tried > 0);
}
