//! What adaptors are asked about, over one shard and over several.

use std::sync::{Arc, Mutex};

use crate::world::{ConnectOptions, World};
use stentor_hub::{
    Adaptors, Denial, HookEvent, HookRequest, HookVerdict, Hooks, Question, Rewrite,
    ServiceCommand, Settings,
};
use stentor_mqtt::{PacketId, QoS, ReasonCode, SubscribeOptions, Version};
use stentor_session::{CloseReason, Remote};
use stentor_topic::Zone;

const Q1: QoS = QoS::AtLeastOnce;

/// Wants to hear of everybody who joins a room, and of what is said there.
#[derive(Default)]
struct RecordingAdaptors {
    asked: Mutex<Vec<Question>>,
    /// Of this instead.
    other: Option<Hooks>,
}

impl Adaptors for RecordingAdaptors {
    fn hooks(&self, _zone: Zone) -> Hooks {
        self.other.unwrap_or(Hooks::JOIN.and(Hooks::SAY))
    }

    fn ask(&self, question: Question) -> Result<(), Box<Question>> {
        self.asked.lock().unwrap().push(question);
        Ok(())
    }

    fn tell(&self, _zone: Zone, _happening: HookEvent) {}

    fn answered(&self, _number: u64, _json: Vec<u8>) {}
}

impl RecordingAdaptors {
    /// The rooms that were asked about, by all questions. Lets everybody in, or nobody.
    fn judge(&self, w: &mut World, lets_in: bool) -> Vec<String> {
        let questions = std::mem::take(&mut *self.asked.lock().unwrap());
        let mut rooms = Vec::new();
        for question in questions {
            let HookRequest::Subscribe(filters) = question.request else {
                continue;
            };
            let denial = || Denial {
                reason: ReasonCode::ImplementationSpecificError,
                text: "not you".into(),
            };
            let judge =
                |room: &Option<Box<str>>| room.as_ref().filter(|_| !lets_in).map(|_| denial());
            let denials = filters.iter().map(|(_, room)| judge(room)).collect();
            rooms.extend(
                filters
                    .into_iter()
                    .filter_map(|(_, room)| Some(room?.into())),
            );
            let item = ServiceCommand::Judged {
                number: question.number,
                verdict: Arc::new(HookVerdict::Filters(denials)),
            };
            w.control(question.shard.0, item);
        }
        w.settle();
        rooms
    }

    /// Subscribes; what the SUBACK says, and which rooms were asked about.
    fn subscribe(
        &self,
        w: &mut World,
        (client, filter): (usize, &str),
        lets_in: bool,
    ) -> (u8, Vec<String>) {
        let options = SubscribeOptions {
            qos: Q1,
            ..SubscribeOptions::default()
        };
        w.subscribe_only(client, PacketId::new(9).unwrap(), filter, options);
        let rooms = self.judge(w, lets_in);
        let suback = w.take_packet(client, 0x90).expect("a SUBACK");
        (*suback.last().unwrap(), rooms)
    }
}

fn user(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(name),
        ..ConnectOptions::default()
    }
}

/// Bob comes back by a session of its own: at home, elsewhere, and where it was before.
#[test]
fn coming_back_to_a_kept_place_is_no_join() {
    for (shards, id) in [(1, "b"), (4, "b"), (4, "e"), (4, "h"), (4, "k")] {
        let mut w = World::new(shards);
        let adaptors = Arc::new(RecordingAdaptors::default());
        w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
        let tea = "$room/tea/event";
        let join = (1, vec!["tea".to_owned()]);
        let ann = w.connect(Version::V5, "a", &user("ann"));
        assert_eq!(adaptors.subscribe(&mut w, (ann, tea), true), join);
        let bob = w.connect(Version::V5, "b", &user("bob"));
        assert_eq!(adaptors.subscribe(&mut w, (bob, tea), true), join);
        // Another session of somebody who is there is asked about.
        let second = w.connect(Version::V5, "s", &user("bob"));
        let denied = (0x83, join.1.clone());
        assert_eq!(adaptors.subscribe(&mut w, (second, tea), false), denied);
        w.drop_link(bob);
        w.take_messages(ann);
        let bob = w.connect(Version::V5, id, &user("bob"));
        let back = (1, Vec::new());
        assert_eq!(adaptors.subscribe(&mut w, (bob, tea), false), back);
        let payloads = w.take_payloads(ann);
        assert_eq!(payloads, [r#"{"event":"back","user":"bob"}"#]);
        // A user who went, or came too late, joins.
        w.unsubscribe(bob, tea);
        assert_eq!(adaptors.subscribe(&mut w, (bob, tea), true), join);
        w.drop_link(bob);
        w.pass_secs(31);
        let bob = w.connect(Version::V5, id, &user("bob"));
        assert_eq!(adaptors.subscribe(&mut w, (bob, tea), false), denied);
    }
}

/// A connection that ends while the home is asked has asked for nothing any more.
#[test]
fn a_connection_that_ends_meanwhile_is_forgotten() {
    let mut w = World::new(4);
    let adaptors = Arc::new(RecordingAdaptors::default());
    w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
    for id in ["b", "e", "h", "k"] {
        let bob = w.connect(Version::V5, id, &user("bob"));
        w.paused = true;
        let options = SubscribeOptions::default();
        w.subscribe_only(bob, PacketId::new(9).unwrap(), "$room/tea/#", options);
        w.drop_link(bob);
        w.paused = false;
        w.settle();
        let asked = adaptors.judge(&mut w, true);
        // At home nothing is under way: it was asked about at once.
        assert!(asked.len() <= 1, "{asked:?}");
    }
}

/// What no room takes is not asked about.
#[test]
fn too_long_a_word_is_refused_without_asking() {
    for shards in [1, 4] {
        let mut w = World::new(shards);
        let adaptors = Arc::new(RecordingAdaptors::default());
        w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
        let bob = w.connect(Version::V5, "b", &user("bob"));
        adaptors.subscribe(&mut w, (bob, "$room/tea/event"), true);
        let most = 64 << 10;
        for (bytes, asked, code) in [(most + 1, 0, Some(0x97)), (most, 1, None)] {
            w.publish(bob, "$room/tea/say", &"x".repeat(bytes), Q1, false);
            assert_eq!(adaptors.asked.lock().unwrap().len(), asked);
            let puback = w.take_packet(bob, 0x40);
            assert_eq!(puback.map(|packet| packet[4]), code);
        }
    }
}

/// Allows everything that waits to be judged; how much that was.
fn allow_all(w: &mut World, adaptors: &RecordingAdaptors) -> usize {
    allow_as(w, adaptors, &Rewrite::default())
}

/// The same, and all that is published becomes this.
fn allow_as(w: &mut World, adaptors: &RecordingAdaptors, rewrite: &Rewrite) -> usize {
    let questions = std::mem::take(&mut *adaptors.asked.lock().unwrap());
    let count = questions.len();
    for question in questions {
        let verdict = match question.request {
            HookRequest::Subscribe(_) => HookVerdict::Filters(Vec::new()),
            _ => HookVerdict::Done(rewrite.clone()),
        };
        let item = ServiceCommand::Judged {
            number: question.number,
            verdict: Arc::new(verdict),
        };
        w.control(question.shard.0, item);
    }
    w.settle();
    count
}

/// A publisher learns what it may not: where it goes itself, or where an adaptor has it go.
#[test]
fn a_publish_without_right_is_refused_with_its_reason() {
    let mut w = World::new(2);
    let adaptors = Arc::new(RecordingAdaptors {
        other: Some(Hooks::PUBLISH),
        ..RecordingAdaptors::default()
    });
    w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
    let barred = ConnectOptions {
        denied: &["secret/", "$SYS/"],
        ..user("bob")
    };
    let bob = w.connect(Version::V5, "b", &barred);
    let own = "the right to publish to this topic is missing";
    let elsewhere =
        "an adaptor has this go to another topic, where the right to publish is missing";
    for (topic, to, asked, told) in [
        ("secret/x", None, 0, own),
        ("plain", Some("secret/x"), 1, elsewhere),
        ("plain", Some("$SYS/x"), 1, elsewhere),
    ] {
        let to = to.map(Into::into);
        let rewrite = Rewrite {
            to,
            ..Rewrite::default()
        };
        w.publish(bob, topic, "x", Q1, false);
        assert_eq!(allow_as(&mut w, &adaptors, &rewrite), asked);
        assert_eq!(w.take_ack(bob, 0x40), (0x87, told.to_owned()), "{topic}");
    }
}

/// What would be heard is judged, whatever session of a member says it; what would not is not.
#[test]
fn what_another_session_of_a_member_says_is_judged() {
    for (shards, id) in [(1, "b"), (4, "b"), (4, "e"), (4, "h"), (4, "k")] {
        let mut w = World::new(shards);
        let adaptors = Arc::new(RecordingAdaptors::default());
        w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
        let inside = w.connect(Version::V5, "a", &user("ann"));
        adaptors.subscribe(&mut w, (inside, "$room/tea/#"), true);
        w.take_messages(inside);
        let beside = w.connect(Version::V5, id, &user("ann"));
        w.publish(beside, "$room/tea/say", "hi", Q1, false);
        assert_eq!(w.take_payloads(inside).len(), 0, "nobody has judged it");
        assert_eq!(allow_all(&mut w, &adaptors), 1);
        assert_eq!(w.take_packet(beside, 0x40).map(|p| p.len()), Some(4));
        assert_eq!(w.take_payloads(inside), ["hi"]);
        // A user who is no member and no administrator is not heard.
        let stranger = ConnectOptions {
            denied: &["$rooms/"],
            ..user("bob")
        };
        let outside = w.connect(Version::V5, "d", &stranger);
        w.publish(outside, "$room/tea/say", "hi", Q1, false);
        assert_eq!(allow_all(&mut w, &adaptors), 0);
        assert_eq!(w.take_packet(outside, 0x40).map(|p| p[4]), Some(0x87));
    }
}

/// A user who is sent out of a room while a SUBSCRIBE waits for adaptors, who were not asked about
/// that room, does not come back by it.
#[test]
fn who_is_sent_out_meanwhile_stays_out() {
    for (shards, id) in [(1, "b"), (4, "b"), (4, "e"), (4, "h"), (4, "k")] {
        let mut w = World::new(shards);
        let adaptors = Arc::new(RecordingAdaptors::default());
        w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
        let ann = w.connect(Version::V5, "a", &user("ann"));
        adaptors.subscribe(&mut w, (ann, "$room/tea/event"), true);
        let bob = w.connect(Version::V5, id, &user("bob"));
        adaptors.subscribe(&mut w, (bob, "$room/tea/event"), true);
        let filters = ["$room/den/event", "$room/tea/#"].map(String::from);
        w.subscribe_all_only(bob, &filters);
        let kick = r#"{"room":"tea","user":"bob"}"#;
        w.publish(ann, "$call/room.kick/1", kick, Q1, false);
        assert_eq!(
            adaptors.judge(&mut w, true),
            ["den"],
            "of tea nobody was asked"
        );
        let suback = w.take_packet(bob, 0x90).expect("a SUBACK");
        assert_eq!(suback[suback.len() - 2..], [0, 0x87]);
        w.take_messages(bob);
        w.publish(ann, "$room/tea/say", "he is gone", Q1, false);
        allow_all(&mut w, &adaptors);
        assert_eq!(w.take_payloads(bob).len(), 0);
        // By another one, of which they are asked, it may.
        let back = adaptors.subscribe(&mut w, (bob, "$room/tea/#"), true);
        assert_eq!(back, (1, vec!["tea".to_owned()]));
    }
}

/// A client that is not read cannot show that it is alive.
#[test]
fn a_client_whose_packet_is_judged_is_not_silent() {
    let mut w = World::new(1);
    let adaptors = Arc::new(RecordingAdaptors::default());
    w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
    let options = ConnectOptions {
        keep_alive_secs: 1,
        ..user("bob")
    };
    let bob = w.connect(Version::V5, "b", &options);
    w.subscribe_only(
        bob,
        PacketId::new(9).unwrap(),
        "$room/tea/#",
        SubscribeOptions::default(),
    );
    for _ in 0..5 {
        w.pass_secs(1);
    }
    assert_eq!(adaptors.judge(&mut w, true), ["tea"]);
    assert!(w.take_packet(bob, 0x90).is_some(), "it is connected still");
    // From then on it counts.
    for _ in 0..3 {
        w.pass_secs(1);
    }
    assert_eq!(w.take_packet(bob, 0xE0).map(|p| p[2]), Some(0x8D));
}

/// What a client may not do anyway is refused without asking, beside what is asked about.
#[test]
fn what_has_no_right_or_no_place_is_refused_without_asking() {
    for (shards, id) in [(1, "b"), (4, "b"), (4, "e"), (4, "h"), (4, "k")] {
        let settings = Settings {
            subscriptions_max: 4,
            ..Settings::default()
        };
        let mut w = World::with_settings(shards, settings);
        let adaptors = Arc::new(RecordingAdaptors::default());
        w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
        let barred = ConnectOptions {
            denied: &["$room/vip/"],
            ..user("bob")
        };
        let bob = w.connect(Version::V5, id, &barred);
        let vip = adaptors.subscribe(&mut w, (bob, "$room/vip/#"), true);
        assert_eq!(vip, (0x87, Vec::new()));
        let filters = ["$room/vip/#", "$room/tea/#", "plain"].map(String::from);
        w.subscribe_all_only(bob, &filters);
        assert_eq!(adaptors.judge(&mut w, true), ["tea"]);
        let suback = w.take_packet(bob, 0x90).expect("a SUBACK");
        assert_eq!(suback[suback.len() - 3..], [0x87, 0, 0]);
        // No more than it has places for.
        let one = w.connect(Version::V5, "n", &user("ann"));
        let filters: Vec<String> = (0..6)
            .map(|n| format!("$room/r{}/event", n.min(4)))
            .collect();
        w.subscribe_all_only(one, &filters);
        assert_eq!(adaptors.judge(&mut w, false), ["r0", "r1", "r2", "r3"]);
        let suback = w.take_packet(one, 0x90).expect("a SUBACK");
        assert_eq!(
            suback[suback.len() - 6..],
            [0x83, 0x83, 0x83, 0x83, 0x97, 0x97]
        );
    }
}

/// What was beyond the quota when it was looked at is refused, though the quota has been raised by
/// the time that adaptors have judged the rest, or that the home has: nobody was asked about it.
#[test]
fn a_quota_that_is_raised_meanwhile_lets_nothing_pass_unasked() {
    let narrow = |subscriptions_max, subscription_bytes_max| Settings {
        subscriptions_max,
        subscription_bytes_max,
        ..Settings::default()
    };
    // Costs more than what is left beside it, or without it.
    let long = "long/+/and/longer/+";
    let tea = "$room/tea/#";
    for (settings, hooks, filters, asked, reasons) in [
        // Beyond the end of what is looked at, beside what adaptors are asked about.
        (
            narrow(1, 9_999),
            Hooks::SUBSCRIBE,
            ["a", tea, "b"],
            1,
            [0, 0x97, 0x97],
        ),
        (
            narrow(2, 9_999),
            Hooks::JOIN,
            [tea, "$room/one/#", "$room/two/#"],
            1,
            [0, 0, 0x97],
        ),
        // Within it, but with no room left; the home of the zone is asked for the room.
        (
            narrow(3, 400),
            Hooks::SUBSCRIBE,
            [tea, long, long],
            0,
            [0, 0x97, 0x97],
        ),
        (
            narrow(2, 400),
            Hooks::SUBSCRIBE,
            [tea, long, "b"],
            0,
            [0, 0x97, 0x97],
        ),
    ] {
        for (shards, id) in [(1, "b"), (4, "b"), (4, "e"), (4, "h"), (4, "k")] {
            let mut w = World::with_settings(shards, settings.clone());
            let adaptors = Arc::new(RecordingAdaptors {
                other: Some(hooks),
                ..RecordingAdaptors::default()
            });
            w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
            let bob = w.connect(Version::V5, id, &user("bob"));
            // Adaptors are asked when the home has said which places are kept.
            w.paused = asked == 0;
            w.subscribe_all_only(bob, &filters.map(String::from));
            let wide = Arc::new(Settings::default());
            for hub in &mut w.hubs {
                hub.operate().reconfigure(Arc::clone(&wide));
            }
            w.paused = false;
            w.settle();
            let count = allow_all(&mut w, &adaptors);
            assert_eq!(count, asked, "{filters:?}");
            let suback = w.take_packet(bob, 0x90).expect("a SUBACK");
            assert_eq!(suback[suback.len() - 3..], reasons, "{filters:?}");
        }
    }
}

/// A listener has no place that could be kept: a session that comes back so joins.
#[test]
fn an_observer_that_comes_back_is_asked_about() {
    for (shards, id) in [(1, "b"), (4, "b"), (4, "e"), (4, "h"), (4, "k")] {
        let mut w = World::new(shards);
        let adaptors = Arc::new(RecordingAdaptors::default());
        w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
        let ann = w.connect(Version::V5, "a", &user("ann"));
        for room in ["tea", "den"] {
            let filter = format!("$room/{room}/#");
            adaptors.subscribe(&mut w, (ann, &filter), true);
        }
        let listener = ConnectOptions {
            denied: &["$room/tea/say", "$room/den/say"],
            expiry_secs: 300,
            clean_start: false,
            ..user("bob")
        };
        for lets_in in [false, true] {
            let bob = w.connect(Version::V5, id, &listener);
            assert_eq!(adaptors.judge(&mut w, true), Vec::<String>::new());
            for room in ["tea", "den"] {
                let filter = format!("$room/{room}/event");
                adaptors.subscribe(&mut w, (bob, &filter), true);
            }
            w.drop_link(bob);
            let bob = w.connect(Version::V5, id, &listener);
            let mut asked = adaptors.judge(&mut w, lets_in);
            asked.sort();
            assert_eq!(asked, ["den", "tea"], "{shards} {id}");
            w.take_messages(bob);
            w.unsubscribe(ann, "$room/tea/#");
            adaptors.subscribe(&mut w, (ann, "$room/tea/#"), true);
            let hears = !w.take_payloads(bob).is_empty();
            assert_eq!(hears, lets_in, "{shards} {id}");
            w.disconnect(bob, CloseReason::Remote(Remote::Disconnect));
            let clean = ConnectOptions {
                clean_start: true,
                ..listener.clone()
            };
            let bob = w.connect(Version::V5, id, &clean);
            w.disconnect(bob, CloseReason::Remote(Remote::Disconnect));
        }
    }
}

/// What the home had not heard when it was asked is not heard later without being judged, though
/// another session of its speaker came in meanwhile.
#[test]
fn who_comes_in_meanwhile_is_not_heard_unjudged() {
    let mut w = World::new(4);
    let adaptors = Arc::new(RecordingAdaptors::default());
    w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
    let stranger = ConnectOptions {
        denied: &["$rooms/"],
        ..user("ann")
    };
    let mut ids = ["a", "b", "c", "d", "e", "f", "g", "h"].iter();
    let inside = w.connect(Version::V5, ids.next().unwrap(), &stranger);
    let beside = loop {
        let client = w.connect(Version::V5, ids.next().unwrap(), &stranger);
        let shard = w.clients[client].shard;
        if shard != 0 && shard != w.clients[inside].shard {
            break client;
        }
    };
    w.paused = true;
    w.publish(beside, "$room/tea/say", "hi", Q1, false);
    let shard = w.clients[beside].shard;
    assert!(w.deliver_one((0, shard)), "the home is asked");
    let options = SubscribeOptions::default();
    w.subscribe_only(inside, PacketId::new(9).unwrap(), "$room/tea/#", options);
    for _ in 0..20 {
        allow_all(&mut w, &adaptors);
        for pair in w.pairs_under_way() {
            if pair.0 != shard {
                w.deliver_one(pair);
            }
        }
    }
    w.paused = false;
    w.settle();
    assert!(w.take_packet(inside, 0x90).is_some(), "it is in");
    assert_eq!(allow_all(&mut w, &adaptors), 0);
    assert_eq!(w.take_packet(beside, 0x40).map(|p| p[4]), Some(0x87));
    let said = w.take_payloads(inside);
    assert!(!said.iter().any(|said| said == "hi"), "{said:?}");
}

/// A call to a room waits for its adaptors, and what they answer goes to its caller. The home knows
/// whether somebody may call it who has no subscription there.
#[test]
fn a_call_is_answered_by_an_adaptor() {
    for (shards, id) in [(1, "b"), (4, "b"), (4, "e"), (4, "h"), (4, "k")] {
        let mut w = World::new(shards);
        let adaptors = Arc::new(RecordingAdaptors {
            other: Some(Hooks::CALL),
            ..RecordingAdaptors::default()
        });
        w.set_adaptors(&(Arc::clone(&adaptors) as Arc<dyn Adaptors>));
        let bob = w.connect(Version::V5, id, &member("bob"));
        w.subscribe(bob, "$reply/+", Q1);
        w.publish(bob, "$room/tea/call/move/1", "e4", Q1, false);
        assert!(
            adaptors.asked.lock().unwrap().is_empty(),
            "bob is not there"
        );
        let puback = w.take_packet(bob, 0x40).expect("a PUBACK");
        assert_eq!(puback.get(4), Some(&0x87));
        let refused = w.take_messages(bob).pop().expect("an answer");
        let text = String::from_utf8(refused.payload).unwrap();
        assert!(text.contains(r#""status":"refused""#), "{text}");
        w.subscribe(bob, "$room/tea/say/+", Q1);
        let other = w.connect(Version::V5, "o", &member("bob"));
        w.subscribe(other, "$reply/+", Q1);
        for caller in [bob, other] {
            w.publish(caller, "$room/tea/call/move/2", "e4", Q1, false);
            let question = adaptors.asked.lock().unwrap().pop().expect("a question");
            let request = HookRequest::Call {
                room: Some("tea".into()),
                procedure: "move".into(),
                payload: b"e4"[..].into(),
                arguments: Vec::new(),
            };
            assert_eq!(question.request, request);
            assert!(w.take_packet(caller, 0x40).is_none(), "it waits");
            let item = ServiceCommand::Judged {
                number: question.number,
                verdict: Arc::new(HookVerdict::Done(Rewrite {
                    answer: Some(b"check"[..].into()),
                    ..Rewrite::default()
                })),
            };
            w.control(question.shard.0, item);
            w.settle();
            let answer = w.take_messages(caller).pop().expect("an answer");
            assert_eq!(
                (&*answer.topic, &answer.payload[..]),
                ("$reply/2", &b"check"[..])
            );
            assert!(w.take_packet(caller, 0x40).is_some());
        }
        // Commands about rooms are the server's own.
        w.publish(bob, "$call/room.info/3", r#"{"room":"tea"}"#, Q1, false);
        assert!(adaptors.asked.lock().unwrap().is_empty());
        assert_eq!(
            w.take_messages(bob).pop().expect("an answer").topic,
            "$reply/3"
        );
    }
}

/// Somebody who is no administrator of rooms.
fn member(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        denied: &["$rooms/"],
        ..user(name)
    }
}
