//! What becomes of members whose rights change.

use std::sync::Arc;

use stentor_hub::{ControlItem, Identity, Renewal, Renewed};
use stentor_mqtt::Version;

use super::{
    Q1, change, command, events, lasting, meet, places, puback, received, said, tea, told_of_joins,
    user,
};
use crate::world::{ConnectOptions, TestRights, World};

/// What bob may do from now on; nothing at all if he may not be here.
#[derive(Debug)]
struct Bobs(Option<&'static [&'static str]>);

impl Renewal for Bobs {
    fn subject(&self) -> &str {
        "bob"
    }

    fn renew(&self, identity: &Arc<Identity>, _client_id: &str) -> Renewed {
        match self.0 {
            _ if identity.user.as_deref() != Some("bob") => Renewed::Keep,
            None => Renewed::Close { end_session: true },
            Some(denied) => Renewed::Replace(Arc::new(Identity {
                rights: TestRights::denying(denied),
                ..(**identity).clone()
            })),
        }
    }
}

fn renew_bob(w: &mut World, denied: Option<&'static [&'static str]>) {
    w.control_all(&ControlItem::Renew(Arc::new(Bobs(denied))));
}

const REVOKED: &str = r#"{"event":"left","user":"bob","reason":"revoked","members":1}"#;

/// Be he there, away for a moment, or put out of the server.
#[test]
fn who_loses_the_right_to_a_room_is_out_of_it() {
    for place @ (shards, ids) in places() {
        for (stays, denied, expiry_secs) in [
            (true, Some(&["$room/tea", "$rooms/"][..]), u32::MAX),
            (false, Some(&["$room/tea", "$rooms/"][..]), u32::MAX),
            (false, Some(&["$room/tea", "$rooms/"][..]), 0),
            (true, None, u32::MAX),
            (false, None, 0),
        ] {
            let options = ConnectOptions {
                expiry_secs,
                ..lasting("bob")
            };
            let (mut w, ann, bob) = meet(place, Version::V5, &options);
            w.subscribe(ann, "$room/tea/#", Q1);
            change(&mut w, ann, r#""capacity":2"#);
            w.subscribe(bob, "$room/tea/#", Q1);
            command(&mut w, bob, "lock", r#"{"room":"tea","name":"cake"}"#);
            if !stays {
                w.drop_link(bob);
            }
            received(&mut w, ann);
            renew_bob(&mut w, denied);
            let told = received(&mut w, ann);
            let context = format!("{shards} {ids:?} {stays} {denied:?}: {told:?}");
            assert!(
                told.contains(&format!("$room/tea/event {REVOKED}")),
                "{context}"
            );
            assert!(told.contains(&"$room/tea/member/bob ".into()), "{context}");
            assert!(told.contains(&"$room/tea/prop/cake ".into()), "{context}");
            let cat = w.connect(Version::V5, ids[2], &user("cat"));
            assert_eq!(
                w.subscribe(cat, "$room/tea/event", Q1),
                1,
                "his place is free"
            );
            if denied.is_none() || expiry_secs == 0 {
                continue;
            }
            let bob = if stays {
                bob
            } else {
                // He came with the rights that he has now.
                let options = ConnectOptions {
                    clean_start: false,
                    denied: &["$room/tea", "$rooms/"],
                    ..lasting("bob")
                };
                w.connect(Version::V5, ids[1], &options)
            };
            let told = received(&mut w, bob).join("\n");
            assert!(
                told.contains(r#""error":"not-allowed""#),
                "{context} {told}"
            );
            w.publish(ann, "$room/tea/say", "secret", Q1, false);
            assert!(received(&mut w, bob).is_empty(), "{context}");
            assert_eq!(w.subscribe(bob, "$room/tea/#", Q1), 0x87);
        }
    }
}

/// However many rooms they are, each is told once, and the others stay.
#[test]
fn who_loses_the_right_to_many_rooms_is_out_of_them_at_once() {
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &lasting("bob"));
        for room in 0..20 {
            for below in ["event", "say/+"] {
                w.subscribe(bob, &format!("$room/tea{room}/{below}"), Q1);
            }
        }
        w.subscribe(bob, "$room/den/#", Q1);
        w.subscribe(ann, "$room/den/#", Q1);
        received(&mut w, bob);
        renew_bob(&mut w, Some(&["$room/tea", "$rooms/"]));
        let told = told_of_joins(&mut w, bob);
        let refused = told.iter().filter(|told| told.contains("not-allowed"));
        assert_eq!(refused.count(), 20, "{told:?}");
        w.publish(ann, "$room/den/say", "hi", Q1, false);
        let heard = received(&mut w, bob);
        assert!(
            heard.iter().any(|heard| heard.ends_with(" hi")),
            "{heard:?}"
        );
    }
}

/// He goes on as whoever may not speak from the beginning, and comes back to his place.
#[test]
fn who_loses_the_right_to_speak_observes() {
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        w.subscribe(ann, "$room/tea/event", Q1);
        w.subscribe(bob, "$room/tea/event", Q1);
        events(&mut w, ann);
        renew_bob(&mut w, Some(&["$room/tea/say", "$rooms/"]));
        assert_eq!(events(&mut w, ann), [REVOKED]);
        w.publish(bob, "$room/tea/say", "hello", Q1, false);
        let told = "the right to say something in this room is missing";
        assert_eq!(w.take_ack(bob, 0x40), (0x87, told.to_owned()));
        events(&mut w, bob);
        change(&mut w, ann, r#""locked":true"#);
        assert_eq!(events(&mut w, bob), [r#"{"event":"changed","by":"ann"}"#]);
        // Not into a locked room.
        renew_bob(&mut w, Some(&["$rooms/"]));
        w.publish(bob, "$room/tea/say", "hello", Q1, false);
        assert_eq!(puback(&mut w, bob), 0x87);
        renew_bob(&mut w, Some(&["$room/tea/say", "$rooms/"]));
        change(&mut w, ann, r#""locked":false"#);
        events(&mut w, ann);
        renew_bob(&mut w, Some(&["$rooms/"]));
        assert_eq!(
            events(&mut w, ann),
            [r#"{"event":"joined","user":"bob","members":2}"#]
        );
        w.publish(bob, "$room/tea/say", "hello", Q1, false);
        assert_eq!(puback(&mut w, bob), 0);
    }
}

/// It is asked for anew by whoever subscribes once more.
#[test]
fn who_may_speak_again_waits_for_a_place() {
    for place @ (_, ids) in places() {
        for version in [Version::V311, Version::V5] {
            let (mut w, ann, bob) = meet(place, version, &user("bob"));
            w.subscribe(ann, "$room/tea/event", Q1);
            change(&mut w, ann, r#""capacity":2"#);
            w.subscribe(bob, "$room/tea/event", Q1);
            renew_bob(&mut w, Some(&["$room/tea/say", "$rooms/"]));
            let cat = w.connect(Version::V5, ids[2], &user("cat"));
            assert_eq!(w.subscribe(cat, "$room/tea/event", Q1), 1);
            renew_bob(&mut w, Some(&["$rooms/"]));
            received(&mut w, bob);
            assert_eq!(w.subscribe(bob, "$room/tea/say/+", Q1), 1);
            let told = received(&mut w, bob);
            assert!(told.is_empty(), "he observes as before: {told:?}");
            assert!(!tea(&mut w, ann).contains("bob"));
            w.unsubscribe(cat, "$room/tea/event");
            events(&mut w, ann);
            assert_eq!(w.subscribe(bob, "$room/tea/say/+", Q1), 1);
            assert_eq!(
                events(&mut w, ann),
                [r#"{"event":"joined","user":"bob","members":2}"#]
            );
            w.publish(bob, "$room/tea/say", "hello", Q1, false);
            assert_eq!(said(&mut w, bob), ["$room/tea/say/bob hello"]);
        }
    }
}
