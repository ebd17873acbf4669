//! One message for many recipients: whose rights count, and what becomes of each.

use std::sync::{Arc, Mutex};

use crate::world::{ConnectOptions, World, identity};
use stentor_hub::{
    Adaptors, Broadcast, Call, Callees, Denial, Fate, HookEvent, HookRequest, HookVerdict, Hooks,
    Origin, Question, Recipient, Rewrite, Served, ServiceCommand, Settings,
};
use stentor_mqtt::{QoS, ReasonCode, SubscribeOptions, Version};
use stentor_session::Tick;
use stentor_topic::Zone;
use stentor_zone::{Reach, Response};

const Q1: QoS = QoS::AtLeastOnce;

/// Keeps calls, and what became of broadcasts.
#[derive(Default)]
struct ControlPlane {
    calls: Mutex<Vec<Call>>,
    told: Mutex<Vec<(u64, usize, Fate)>>,
}

impl Callees for ControlPlane {
    fn call(&self, call: Call) -> Result<(), Box<Call>> {
        self.calls.lock().unwrap().push(call);
        Ok(())
    }

    fn served(&self, _: u64, _: Served<'_>) -> bool {
        false
    }

    fn told(&self, number: u64, place: usize, fate: Fate) {
        self.told.lock().unwrap().push((number, place, fate));
    }
}

/// Hears of everything, and says nothing by itself.
#[derive(Default)]
struct Judge(Mutex<Vec<Question>>);

impl Adaptors for Judge {
    fn hooks(&self, _zone: Zone) -> Hooks {
        Hooks::PUBLISH.and(Hooks::PRIVATE)
    }

    fn ask(&self, question: Question) -> Result<(), Box<Question>> {
        let mut asked = self.0.lock().unwrap();
        if asked.len() >= 2 {
            return Err(Box::new(question));
        }
        asked.push(question);
        Ok(())
    }

    fn tell(&self, _zone: Zone, _happening: HookEvent) {}

    fn answered(&self, _number: u64, _json: Vec<u8>) {}
}

fn user(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(name),
        denied: &["secret/", "$private/to/eve"],
        ..ConnectOptions::default()
    }
}

fn to_user(name: &str) -> Recipient {
    Recipient::User(name.into())
}

fn to_topic(name: &str) -> Recipient {
    Recipient::Topic(name.into())
}

/// A world, and a client that has made a call: where its broadcasts go, and from whom they are.
fn caller(w: &mut World, control_plane: &ControlPlane, id: &str) -> (usize, u8, Origin) {
    let client = w.connect(Version::V5, id, &user("ann"));
    w.publish(client, "$call/broadcast/1", "x", Q1, false);
    let call = control_plane.calls.lock().unwrap().remove(0);
    (client, call.return_to.shard.0, Origin::of_call(&call))
}

/// Sends "hi" to these; what is known of each then.
fn send(
    w: &mut World,
    control_plane: &ControlPlane,
    (shard, origin): (u8, &Origin),
    recipients: Vec<Recipient>,
) -> Vec<(usize, Fate)> {
    let broadcast = Broadcast {
        number: 7,
        origin: origin.clone(),
        recipients,
        payload: b"hi".as_slice().into(),
        qos: Q1,
    };
    w.control(shard, ServiceCommand::Broadcast(Arc::new(broadcast)));
    w.settle();
    fates(control_plane)
}

fn fates(control_plane: &ControlPlane) -> Vec<(usize, Fate)> {
    let mut told = std::mem::take(&mut *control_plane.told.lock().unwrap());
    told.sort_by_key(|(_, place, _)| *place);
    let known = told.into_iter();
    known
        .map(|(number, place, fate)| {
            assert_eq!(number, 7);
            (place, fate)
        })
        .collect()
}

fn received(w: &mut World, client: usize) -> Vec<String> {
    let messages = w.take_messages(client).into_iter();
    let text =
        |m: crate::world::Message| format!("{} {}", m.topic, String::from_utf8_lossy(&m.payload));
    messages.map(text).collect()
}

fn status(fate: &Fate) -> &str {
    match fate {
        Fate::Published => "published",
        Fate::Private(response) => response.status(),
        Fate::Refused { status, .. } => status,
    }
}

#[test]
fn each_recipient_is_checked_as_for_a_publish() {
    // Bob is at home on the caller's shard, or on another one.
    for (shards, bob) in [(1, "b"), (4, "b"), (4, "e"), (4, "h"), (4, "k")] {
        let control_plane = Arc::new(ControlPlane::default());
        let mut w = World::with_callees(shards, control_plane.clone());
        let (_, shard, origin) = caller(&mut w, &control_plane, "a");
        let bob = w.connect(Version::V5, bob, &user("bob"));
        w.subscribe(bob, "$private/from/+", Q1);
        w.subscribe(bob, "#", Q1);
        let recipients = vec![
            to_user("bob"),
            to_user("carol"),
            to_user("eve"),
            to_user(""),
            to_topic("news"),
            to_topic("secret/plan"),
            to_topic("$room/tea/say"),
            to_topic("a/+"),
            to_topic(""),
        ];
        let told = send(&mut w, &control_plane, (shard, &origin), recipients);
        let told: Vec<&str> = told.iter().map(|(_, fate)| status(fate)).collect();
        let expected = [
            "delivered",
            "nobody-listening",
            "not-allowed",
            "invalid",
            "published",
            "not-allowed",
            "invalid",
            "invalid",
            "invalid",
        ];
        assert_eq!(told, expected, "{shards} shards");
        assert_eq!(received(&mut w, bob), ["$private/from/ann hi", "news hi"]);
    }
}

#[test]
fn what_is_above_a_limit_is_refused_with_its_name() {
    let control_plane = Arc::new(ControlPlane::default());
    let mut w = World::with_callees(1, control_plane.clone());
    let (_, shard, origin) = caller(&mut w, &control_plane, "a");
    let settings = Settings {
        packet_bytes_max: 30,
        topic_levels_max: 3,
        ..Settings::default()
    };
    for hub in &mut w.hubs {
        hub.operate().reconfigure(Arc::new(settings.clone()));
    }
    let long = to_topic("a-topic-of-20-bytes-");
    let told = send(
        &mut w,
        &control_plane,
        (shard, &origin),
        vec![long, to_topic("a/b/c/d")],
    );
    let text = |at: usize| match &told[at].1 {
        Fate::Refused { status, text } => format!("{status}: {text}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        text(0),
        "too-large: it is too large for a packet: limits.packet_bytes is 30"
    );
    assert!(text(1).contains("limits.topic_levels is 3"), "{}", text(1));
}

#[test]
fn a_caller_without_a_session_has_its_rights_too() {
    let control_plane = Arc::new(ControlPlane::default());
    let mut w = World::with_callees(2, control_plane.clone());
    let bob = w.connect(Version::V5, "b", &user("bob"));
    w.subscribe(bob, "$private/from/+", Q1);
    w.subscribe(bob, "#", Q1);
    let known = identity(Some("ann"), Tick::NEVER, &["secret/"]);
    let nameless = identity(None, Tick::NEVER, &[]);
    for (who, expected) in [
        (known, ["delivered", "not-allowed", "published"]),
        (nameless, ["not-allowed", "published", "published"]),
    ] {
        let origin = Origin::without_session(who);
        let recipients = vec![to_user("bob"), to_topic("secret/x"), to_topic("news")];
        let told = send(&mut w, &control_plane, (0, &origin), recipients);
        let told: Vec<&str> = told.iter().map(|(_, fate)| status(fate)).collect();
        assert_eq!(told, expected);
    }
}

/// The message is the caller's own: one who has asked by No Local does not receive it.
#[test]
fn no_local_holds_for_the_caller() {
    let control_plane = Arc::new(ControlPlane::default());
    let mut w = World::with_callees(1, control_plane.clone());
    let (ann, shard, origin) = caller(&mut w, &control_plane, "a");
    w.subscribe(ann, "with/echo", Q1);
    let options = SubscribeOptions {
        qos: Q1,
        no_local: true,
        ..SubscribeOptions::default()
    };
    let id = stentor_mqtt::PacketId::new(5).unwrap();
    w.subscribe_only(ann, id, "without/echo", options);
    w.take_packet(ann, 0x90).expect("a SUBACK");
    let topics = ["with/echo", "without/echo"].map(to_topic).to_vec();
    send(&mut w, &control_plane, (shard, &origin), topics);
    assert_eq!(received(&mut w, ann), ["with/echo hi"]);
}

/// A client that has sent its call and gone is not charged, and its message is sent.
#[test]
fn a_caller_that_has_gone_sends_all_the_same() {
    let control_plane = Arc::new(ControlPlane::default());
    let mut w = World::with_callees(1, control_plane.clone());
    let bob = w.connect(Version::V5, "b", &user("bob"));
    w.subscribe(bob, "#", Q1);
    let (ann, shard, origin) = caller(&mut w, &control_plane, "a");
    w.drop_link(ann);
    let told = send(
        &mut w,
        &control_plane,
        (shard, &origin),
        vec![to_topic("news")],
    );
    assert_eq!(told, [(0, Fate::Published)]);
    assert_eq!(received(&mut w, bob), ["news hi"]);
}

#[test]
fn adaptors_judge_each_recipient() {
    let control_plane = Arc::new(ControlPlane::default());
    let mut w = World::with_callees(1, control_plane.clone());
    let judge = Arc::new(Judge::default());
    w.set_adaptors(&(Arc::clone(&judge) as Arc<dyn Adaptors>));
    let bob = w.connect(Version::V5, "b", &user("bob"));
    w.subscribe(bob, "$private/from/+", Q1);
    w.subscribe(bob, "#", Q1);
    let (_, shard, origin) = caller(&mut w, &control_plane, "a");
    let to = |names: [Recipient; 2]| names.to_vec();
    let judged = |w: &mut World, verdicts: [HookVerdict; 2]| {
        let questions = std::mem::take(&mut *judge.0.lock().unwrap());
        assert_eq!(questions.len(), 2);
        for (question, verdict) in questions.into_iter().zip(verdicts) {
            let item = ServiceCommand::Judged {
                number: question.number,
                verdict: Arc::new(verdict),
            };
            w.control(question.shard.0, item);
        }
        w.settle();
        fates(&control_plane)
    };
    let rewrite = |rewrite: Rewrite| HookVerdict::Done(rewrite);
    let denied = HookVerdict::Denied(Denial {
        reason: ReasonCode::NotAuthorized,
        text: "mind your words".into(),
    });

    // One is denied, the other goes elsewhere with other words. The third finds no place, and who
    // may not is not asked about.
    let recipients = vec![
        to_user("bob"),
        to_topic("news"),
        to_topic("more"),
        to_topic("secret/x"),
    ];
    let told = send(&mut w, &control_plane, (shard, &origin), recipients);
    assert_eq!(told.len(), 2);
    assert_eq!((told[0].0, status(&told[0].1)), (2, "busy"));
    assert_eq!((told[1].0, status(&told[1].1)), (3, "not-allowed"));
    let requests: Vec<HookRequest> = {
        let asked = judge.0.lock().unwrap();
        asked
            .iter()
            .map(|question| question.request.clone())
            .collect()
    };
    assert!(matches!(&requests[0], HookRequest::Private { to, .. } if &**to == "bob"));
    assert!(matches!(&requests[1], HookRequest::Publish { topic, .. } if &**topic == "news"));
    let elsewhere = Rewrite {
        to: Some("$private/to/bob".into()),
        payload: Some(b"ho".as_slice().into()),
        ..Rewrite::default()
    };
    let told = judged(&mut w, [denied, rewrite(elsewhere)]);
    let refused = Fate::Refused {
        status: "refused",
        text: "mind your words".into(),
    };
    let delivered = Fate::Private(Response::Reached(Reach::Delivered));
    assert_eq!(told, [(0, refused), (1, delivered.clone())]);
    assert_eq!(received(&mut w, bob), ["$private/from/ann ho"]);

    // Where an adaptor has it go, the caller needs the right too; what is hidden is as good as
    // sent.
    send(
        &mut w,
        &control_plane,
        (shard, &origin),
        to([to_user("bob"), to_topic("news")]),
    );
    let hidden = Rewrite {
        hides_notification: true,
        ..Rewrite::default()
    };
    let forbidden = Rewrite {
        to: Some("secret/x".into()),
        ..Rewrite::default()
    };
    let told = judged(&mut w, [rewrite(hidden), rewrite(forbidden)]);
    assert_eq!((told[0].clone(), told[1].0), ((0, delivered), 1));
    assert_eq!(status(&told[1].1), "not-allowed");
    send(
        &mut w,
        &control_plane,
        (shard, &origin),
        to([to_topic("news"), to_topic("more")]),
    );
    let room = Rewrite {
        to: Some("$room/tea/say".into()),
        ..Rewrite::default()
    };
    let told = judged(&mut w, [rewrite(room), rewrite(Rewrite::default())]);
    assert_eq!(status(&told[0].1), "invalid");
    assert_eq!(told[1], (1, Fate::Published));
    assert_eq!(received(&mut w, bob), ["more hi"]);
}
