//! `stentor sessions export` and `import`: sessions that go on in another folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stentor_tests::raw::{self, packet, string};
use stentor_tests::{Finished, Packet, Plan, Raw, Server, Version, process, server};

use crate::{come_back, with_will};

/// A command on the data folder of a stopped server.
#[track_caller]
fn sessions(plan: &Plan, args: &[&str]) -> Finished {
    let mut command = server::stentor();
    command.arg("sessions").args(args).arg("--data-dir");
    process::run(command.arg(plan.data_dir()))
}

/// Where tests put what they export.
fn file(plan: &Plan) -> PathBuf {
    plan.folder().join("sessions.jsonl")
}

/// A path as a word of a command line.
fn word(path: &Path) -> &str {
    path.to_str().expect("it is a text")
}

/// The lines of an export.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the file is there");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

/// Exports a stopped server's sessions. Returns the file, and what it was.
#[track_caller]
fn export(plan: &Plan) -> PathBuf {
    let file = file(plan);
    sessions(plan, &["export", word(&file)]).success();
    file
}

#[track_caller]
fn import(plan: &Plan, file: &Path, more: &[&str]) -> String {
    let args = [&["import", word(file)], more].concat();
    sessions(plan, &args).success()
}

/// A PUBLISH above QoS 0.
#[derive(Debug, PartialEq, Eq)]
struct Published {
    payload: Vec<u8>,
    qos: u8,
    dup: bool,
    packet_id: [u8; 2],
}

fn published(packet: &Packet) -> Published {
    assert_eq!(packet.kind(), 3, "{packet:?}");
    let topic = usize::from(u16::from_be_bytes([packet.body[0], packet.body[1]]));
    Published {
        payload: packet.message(Version::V5).1,
        qos: packet.first >> 1 & 3,
        dup: packet.first & 8 != 0,
        packet_id: [packet.body[2 + topic], packet.body[3 + topic]],
    }
}

fn answer(client: &mut Raw, first: u8, packet_id: [u8; 2]) {
    client.send(&[&[first, 2][..], &packet_id].concat());
}

/// A PUBLISH of an MQTT 5 client with properties.
fn publish(first: u8, topic: &str, packet_id: u8, properties: &[u8], payload: &[u8]) -> Vec<u8> {
    let head = [&string(topic)[..], &[0, packet_id, properties.len() as u8]].concat();
    packet(first, &[&head[..], properties, payload].concat())
}

/// Publishes at QoS 1 and 2 in turn, one after the other.
#[track_caller]
fn publish_all(server: &Server, topic: &str, payloads: &[&str]) {
    let mut publisher = server.client(Version::V5, "publisher");
    let user = [&[0x26][..], &string("unit"), &string("C")].concat();
    for (payload, id) in payloads.iter().zip(1..) {
        let is_2 = id % 2 == 0;
        let first = if is_2 { 0x34 } else { 0x32 };
        publisher.send(&publish(first, topic, id, &user, payload.as_bytes()));
        if is_2 {
            publisher.expect(5);
            answer(&mut publisher, 0x62, [0, id]);
        }
        publisher.expect(if is_2 { 7 } else { 4 });
    }
}

/// Acknowledges a message to the end.
#[track_caller]
fn take(client: &mut Raw, message: &Published) {
    if message.qos == 1 {
        return answer(client, 0x40, message.packet_id);
    }
    answer(client, 0x50, message.packet_id);
    client.expect(6);
    answer(client, 0x70, message.packet_id);
}

/// Takes this many messages, and acknowledges them to the end, in whatever order packets come.
#[track_caller]
fn take_all(client: &mut Raw, count: usize) -> Vec<Published> {
    let (mut taken, mut open) = (Vec::new(), 0);
    while taken.len() < count || open > 0 {
        let packet = client.receive();
        if packet.kind() == 6 {
            answer(client, 0x70, [packet.body[0], packet.body[1]]);
            open -= 1;
            continue;
        }
        let message = published(&packet);
        let first = if message.qos == 1 { 0x40 } else { 0x50 };
        answer(client, first, message.packet_id);
        open += usize::from(message.qos == 2);
        taken.push(message);
    }
    taken
}

/// Leaves the server, which knows that when the connection is closed.
fn leave(mut client: Raw) {
    client.send(&[0xE0, 0]);
    client.closed();
}

/// Messages that wait, messages in flight in both directions, and a will.
#[test]
fn sessions_go_on_in_an_empty_folder() {
    let plan = Plan::new().tcp().anonymous();
    let server = plan.variable("STENTOR_SHARDS", "3").start();
    let (mut away, _) = come_back(&server, Version::V5, "away");
    away.subscribe("x/+", 2);
    leave(away);
    publish_all(&server, "x/1", &["one", "two", "three", "four"]);
    let (mut flight, _) = come_back(&server, Version::V5, "flight");
    flight.subscribe("y", 2);
    publish_all(&server, "y", &["sent 1", "sent 2", "done", "received"]);
    let sent = [(); 4].map(|()| published(&flight.expect(3)));
    take(&mut flight, &sent[2]);
    answer(&mut flight, 0x50, sent[3].packet_id);
    flight.expect(6);
    flight.ping();
    // It was taken, and not released.
    let (mut sender, _) = come_back(&server, Version::V5, "sender");
    sender.send(&publish(0x34, "x/2", 9, &[], b"once"));
    sender.expect(5);
    let mourned = with_will(&server, "mourned", "x/will", 200);
    let plan = server.stop_for_restart();
    drop((flight, sender, mourned));

    let exported = export(&plan);
    let all = lines(&exported);
    let of = |id: &str, kind: &str| {
        let its = all
            .iter()
            .filter(|it| it["client_id"] == id && it["kind"] == kind);
        its.cloned().collect::<Vec<_>>()
    };
    let states = of("flight", "message")
        .into_iter()
        .map(|it| it["state"].clone());
    assert!(states.eq(["sent", "sent", "received"]));
    let waiting = of("away", "message");
    assert_eq!(waiting.len(), 5, "{waiting:#?}");
    assert_eq!(
        waiting[0]["properties"]["user_properties"],
        json!([["unit", "C"]])
    );
    assert_eq!(of("sender", "session")[0]["arrived"], json!([9]));
    assert_eq!(of("mourned", "session")[0]["will"]["topic"], "x/will");

    let plan = Plan::new().tcp().anonymous();
    let plan = plan.config("[sessions]\nwill_grace = \"1s\"\n");
    let told = import(&plan, &exported, &[]);
    assert!(
        told.starts_with("4 new, 0 replaced, 0 left alone, 0 refused; 8 messages"),
        "{told}"
    );
    // Whatever is there already is left alone.
    let told = import(&plan, &exported, &[]);
    assert!(
        told.starts_with("0 new, 0 replaced, 4 left alone, 0 refused"),
        "{told}"
    );
    let verified = sessions(&plan, &["verify"]).success();
    assert!(
        verified.starts_with("4 sessions whole, 0 that may lack"),
        "{verified}"
    );
    let again = file(&plan);
    sessions(&plan, &["export", word(&again)]).success();
    let without_sequence = |path: &Path| {
        let mut all = lines(path);
        for line in &mut all {
            line.as_object_mut().unwrap().remove("sequence");
        }
        all.sort_by_key(ToString::to_string);
        all
    };
    assert_eq!(without_sequence(&again), without_sequence(&exported));

    let server = plan.variable("STENTOR_SHARDS", "2").start();
    let (mut flight, was_there) = come_back(&server, Version::V5, "flight");
    assert!(was_there);
    for before in &sent[..2] {
        let again = published(&flight.expect(3));
        assert!(again.dup && !before.dup);
        assert_eq!(
            (&again.payload, again.packet_id),
            (&before.payload, before.packet_id)
        );
        let first = if again.qos == 1 { 0x40 } else { 0x50 };
        answer(&mut flight, first, again.packet_id);
    }
    let mut released = [0; 2].map(|_| flight.expect(6).body[..2].to_vec());
    released.sort();
    assert!(
        released.contains(&sent[3].packet_id.to_vec()),
        "{released:?}"
    );
    let (mut sender, was_there) = come_back(&server, Version::V5, "sender");
    assert!(was_there);
    sender.send(&publish(0x3C, "x/2", 9, &[], b"once"));
    sender.expect(5);
    let (mut away, was_there) = come_back(&server, Version::V5, "away");
    assert!(was_there);
    // The client with the will is not back in time.
    let expected = [
        ("one", 1),
        ("two", 2),
        ("three", 1),
        ("four", 2),
        ("once", 2),
        ("mourned", 1),
    ];
    let messages = take_all(&mut away, expected.len());
    for (message, (payload, qos)) in messages.iter().zip(expected) {
        assert_eq!(
            (&message.payload[..], message.qos),
            (payload.as_bytes(), qos)
        );
        assert!(!message.dup, "{message:?}");
    }
    // Subscriptions go on.
    publish_all(&server, "x/new", &["new"]);
    assert_eq!(take_all(&mut away, 1)[0].payload, b"new");
}

/// A backlog that lies on the disk does so after the import, in its order.
#[test]
fn a_long_backlog_goes_on_in_its_order() {
    const MESSAGES: usize = 3_000;
    let config = "[sessions]\nmemory = 0\n";
    let server = Plan::new().tcp().anonymous().config(config).start();
    let (mut absent, _) = come_back(&server, Version::V5, "absent");
    absent.subscribe("log", 1);
    leave(absent);
    let mut publisher = server.client(Version::V4, "publisher");
    let payload = |number: usize| format!("{number} {}", "x".repeat(500));
    for number in 0..MESSAGES {
        publisher.publish_surely("log", payload(number).as_bytes());
    }
    let plan = server.stop_for_restart();
    let exported = export(&plan);
    assert_eq!(lines(&exported).len(), 1 + MESSAGES);
    let plan = Plan::new().tcp().anonymous();
    import(&plan, &exported, &[]);
    let spool = plan.data_dir().join("sessions/spool");
    let names = fs::read_dir(spool)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        names
            .map(|name| name.into_string().unwrap())
            .any(|it| it.ends_with(".spool"))
    );
    let verified = sessions(&plan, &["verify"]).success();
    assert!(
        verified.contains(&format!("{MESSAGES} messages")),
        "{verified}"
    );
    let server = plan.start();
    let (mut absent, was_there) = come_back(&server, Version::V5, "absent");
    assert!(was_there);
    for number in 0..MESSAGES {
        let message = published(&absent.expect(3));
        assert_eq!(message.payload, payload(number).as_bytes());
        answer(&mut absent, 0x40, message.packet_id);
    }
    absent.ping();
}

/// What is there is left alone or replaced, whole.
#[test]
fn a_session_is_replaced_whole() {
    let server = Plan::new().tcp().anonymous().start();
    let (mut client, _) = come_back(&server, Version::V5, "c");
    client.subscribe("old", 1);
    leave(client);
    publish_all(&server, "old", &["exported"]);
    let plan = server.stop_for_restart();
    let exported = export(&plan);
    let server = plan.start();
    let (mut client, _) = come_back(&server, Version::V5, "c");
    let message = published(&client.expect(3));
    take(&mut client, &message);
    client.subscribe("new", 1);
    leave(client);
    come_back(&server, Version::V5, "other")
        .0
        .subscribe("other", 1);
    let plan = server.stop_for_restart();
    let told = import(&plan, &exported, &[]);
    assert!(
        told.starts_with("0 new, 0 replaced, 1 left alone"),
        "{told}"
    );
    let told = import(&plan, &exported, &["--replace"]);
    assert!(
        told.starts_with("0 new, 1 replaced, 0 left alone"),
        "{told}"
    );
    let server = plan.start();
    let shown = server.json(&["sessions", "show", "c"]);
    assert_eq!(shown["filters"], json!(["old"]));
    assert!(come_back(&server, Version::V5, "other").1);
    let (mut client, was_there) = come_back(&server, Version::V5, "c");
    assert!(was_there);
    assert_eq!(published(&client.expect(3)).payload, b"exported");
}

#[test]
fn queues_and_permanent_rooms_are_copied_too() {
    let queue = "[[queue]]\nname = \"jobs\"\nfilter = \"jobs/#\"\n";
    let plan = || Plan::new().tcp().anonymous().config(queue);
    let server = plan().start();
    publish_all(&server, "jobs/1", &["first", "second"]);
    let create = ["room", "create", "hall", "--permanent", "--capacity", "7"];
    server.control(&create).success();
    let plan_of_old = server.stop_for_restart();
    let exported = export(&plan_of_old);
    let kinds: Vec<Value> = lines(&exported)
        .iter()
        .map(|it| it["kind"].clone())
        .collect();
    assert_eq!(kinds, ["session", "message", "message", "room"]);
    let plan = plan();
    let told = import(&plan, &exported, &[]);
    assert_eq!(
        told,
        "1 new, 0 replaced, 0 left alone, 0 refused; 2 messages, 1 permanent room\n"
    );
    let server = plan.start();
    let room = server.json(&["room", "show", "hall"]);
    assert_eq!(room["room"]["capacity"], 7, "{room:#}");
    let mut member = server.client(Version::V5, "member");
    member.subscribe("$queue/jobs/jobs/#", 1);
    for expected in ["first", "second"] {
        let message = published(&member.expect(3));
        assert_eq!(message.payload, expected.as_bytes());
        take(&mut member, &message);
    }
}

#[test]
fn zones_are_named_and_new_ones_are_taken_if_that_is_wanted() {
    let session =
        r#"{"kind":"session","client_id":"c","zone":"game","user":"ann","expiry_secs":60}"#;
    let plan = Plan::new().tcp().anonymous();
    let path = file(&plan);
    fs::write(&path, session).unwrap();
    let refused = sessions(&plan, &["import", word(&path)]).refusal();
    assert!(refused.contains("nothing of a zone \"game\""), "{refused}");
    let told = import(&plan, &path, &["--new-zones"]);
    assert!(told.starts_with("1 new"), "{told}");
    fs::remove_file(&path).unwrap();
    let line = &lines(&export(&plan))[0];
    assert_eq!(
        (&line["zone"], &line["user"]),
        (&json!("game"), &json!("ann"))
    );
}

/// Each line that is wrong is named, and its session is refused whole.
#[test]
fn lines_that_are_wrong_are_refused_with_their_numbers() {
    let good = r#"{"kind":"session","client_id":"good","expiry_secs":60,"messages":1}"#;
    let its = r#"{"kind":"message","client_id":"good","topic":"a","payload":"x","qos":1}"#;
    let bad = r#"{"kind":"session","client_id":"bad","expiry_secs":60}"#;
    let of_bad = |field: &str| {
        format!(r#"{{"kind":"message","client_id":"bad","topic":"a","qos":1{field}}}"#)
    };
    let session = |field: &str| format!(r#"{{"kind":"session","client_id":"s"{field}}}"#);
    let cases = [
        ("not json".to_owned(), "not a JSON object"),
        (r#"{"kind":"other"}"#.to_owned(), "session, message or room"),
        (
            session(r#","expiry_secs":1,"expiry_secs":2"#),
            "given twice",
        ),
        (session(""), "has no expiry_secs"),
        (session(r#","expiry_secs":4294967296"#), "4294967295"),
        (session(r#","expiry_secs":1,"colour":1"#), "\"colour\""),
        (
            session(r#","expiry_secs":1,"subscriptions":[{"filter":"a/#/b","qos":1}]"#),
            "a/#/b",
        ),
        (session(r#","expiry_secs":1,"arrived":[7,7]"#), "twice"),
        (
            session(r#","expiry_secs":1,"user":"$queue""#),
            "the server's own",
        ),
        (of_bad(r#","packet_id":0"#), "from 1 to 65535"),
        (
            of_bad(r#","state":"sent","delivery":3,"packet_id":4"#),
            "sent_before",
        ),
        (of_bad(r#","delivery":3,"payload_base64":"?""#), "base 64"),
        (of_bad(r#","properties":{"colour":1}"#), "colour"),
        (
            its.replace("good", "stranger"),
            "session \"stranger\" does not precede",
        ),
    ];
    for (line, reason) in cases {
        let plan = Plan::new().tcp().anonymous();
        let path = file(&plan);
        let is_message = line.contains("message");
        let before = if is_message { bad } else { "" };
        fs::write(&path, format!("{good}\n{its}\n{before}\n{line}\n")).unwrap();
        let done = sessions(&plan, &["import", word(&path)]);
        assert_eq!(done.status.code(), Some(1), "{line}: {done}");
        assert!(done.stderr.contains("line 4: "), "{line}: {done}");
        assert!(done.stderr.contains(reason), "{reason}: {done}");
        assert!(
            done.stdout
                .starts_with("1 new, 0 replaced, 0 left alone, 1 refused"),
            "{done}"
        );
    }
}

/// A file that was cut off in the middle of a session is noticed.
#[test]
fn a_session_without_all_of_its_messages_is_refused() {
    let plan = Plan::new().tcp().anonymous();
    let path = file(&plan);
    let session = r#"{"kind":"session","client_id":"c","expiry_secs":60,"messages":2}"#;
    let message = r#"{"kind":"message","client_id":"c","topic":"a","payload":"x","qos":1}"#;
    fs::write(&path, format!("{session}\n{message}\n")).unwrap();
    let done = sessions(&plan, &["import", word(&path)]);
    assert!(
        done.stderr
            .contains("line 1: \"c\" has 2 messages, and 1 of them"),
        "{done}"
    );
    assert!(
        done.stdout
            .starts_with("0 new, 0 replaced, 0 left alone, 1 refused"),
        "{done}"
    );
}

/// Of many lines that are wrong, the first are told, and the others are counted.
#[test]
fn wrong_lines_without_end_are_counted() {
    const LINES: usize = 1_000;
    let plan = Plan::new().tcp().anonymous();
    let path = file(&plan);
    fs::write(&path, "nonsense\n".repeat(LINES)).unwrap();
    let done = sessions(&plan, &["import", word(&path)]);
    assert_eq!(done.status.code(), Some(1));
    assert!(done.stdout.contains("1000 refused"), "{done}");
    let told: Vec<_> = done.stderr.lines().collect();
    assert!(told.len() < 110, "{} lines", told.len());
    assert!(told.contains(&"refused: 900 more"), "{done}");
    // It would take gigabytes of memory.
    let line = format!(r#"{{"kind":"session","x":[{}0]}}"#, "0,".repeat(10_000_001));
    fs::write(&path, line).unwrap();
    let done = sessions(&plan, &["import", word(&path)]);
    assert!(
        done.stderr
            .contains("line 1: it has more than 10000000 commas"),
        "{done}"
    );
}

/// A wrong name of the data folder makes no sessions in a stranger's one. A new one is made.
#[test]
fn an_import_goes_into_no_strangers_folder() {
    let plan = Plan::new().tcp().anonymous();
    let path = file(&plan);
    let line = r#"{"kind":"session","client_id":"c","expiry_secs":60}"#;
    fs::write(&path, line).unwrap();
    let strange = plan.folder();
    let mut command = server::stentor();
    command.args(["sessions", "import", word(&path), "--data-dir"]);
    let refused = process::run(command.arg(strange)).refusal();
    assert!(refused.contains("nothing of a server"), "{refused}");
    assert!(!strange.join("sessions").exists() && !strange.join("lock").exists());
    assert!(!plan.data_dir().exists());
    assert!(import(&plan, &path, &[]).starts_with("1 new"));
}

/// A client id that turns the direction of what follows does not reach a terminal as it is.
#[test]
fn names_play_no_tricks_on_a_terminal() {
    let plan = Plan::new().tcp().anonymous();
    let path = file(&plan);
    let id = "pump-\u{202e}71\u{200b}";
    let line = json!({"kind": "session", "client_id": id, "expiry_secs": 60, "zone": "gone"});
    fs::write(&path, format!("{line}\n{line}\n")).unwrap();
    let done = sessions(&plan, &["import", word(&path), "--new-zones"]);
    assert!(done.stderr.contains(r"pump-\u{202e}71\u{200b}"), "{done}");
    // The file that names zones is lost, so the session will end.
    for name in ["zones", "retained/zones"] {
        let _ = fs::remove_file(plan.data_dir().join(name));
    }
    let done = sessions(&plan, &["verify"]);
    assert!(done.stdout.contains(r"pump-\u{202e}71\u{200b}"), "{done}");
    for text in [done.stdout, done.stderr] {
        assert!(!text.contains(['\u{202e}', '\u{200b}']), "{text}");
    }
}

/// Messages are on their way from one shard to another when the server is killed: only a start
/// hands them out.
#[test]
fn what_was_on_its_way_is_handed_out_before_an_export() {
    const ATTEMPTS: usize = 30;
    for _ in 0..ATTEMPTS {
        let plan = Plan::new().tcp().anonymous();
        let server = plan.variable("STENTOR_SHARDS", "2").start();
        for id in ["a", "b", "c", "d"] {
            let (mut client, _) = come_back(&server, Version::V5, id);
            client.subscribe("on/the/way", 1);
            client.send(&[0xE0, 0]);
            client.closed();
        }
        let message = raw::publish(Version::V4, "on/the/way", &[b'x'; 2_000], 1, false);
        let mut publishers = ["p", "q", "r", "s"].map(|id| server.client(Version::V4, id));
        for publisher in &mut publishers {
            publisher.send(&message.repeat(20));
        }
        publishers[0].expect(4);
        let plan = server.kill();
        let told = sessions(&plan, &["verify"]);
        if !told
            .stdout
            .contains("messages were on their way between shards")
        {
            continue;
        }
        let path = file(&plan);
        let refused = sessions(&plan, &["export", word(&path)]).refusal();
        assert!(refused.contains("stop it with `stentor stop`"), "{refused}");
        assert!(!path.exists(), "nothing is made for what is refused");
        let plan = plan.start().stop_for_restart();
        let all = lines(&export(&plan));
        let messages = |id: &str| {
            let its = all
                .iter()
                .filter(|line| line["kind"] == "message" && line["client_id"] == id);
            its.count()
        };
        // As many for each of them, and what was acknowledged for certain.
        assert!(messages("a") > 0);
        assert!(
            ["b", "c", "d"]
                .iter()
                .all(|id| messages(id) == messages("a"))
        );
        return;
    }
    panic!("{ATTEMPTS} kills found nothing on its way");
}

/// What the disk does not take ends an import. A session of which a part was read is not there.
#[test]
fn an_import_that_ends_early_leaves_no_part_of_a_session() {
    const MESSAGES: usize = 400;
    let plan = Plan::new().tcp().anonymous();
    let (path, config) = (file(&plan), plan.folder().join("few.toml"));
    fs::write(&config, "[sessions]\nbytes = \"4MiB\"\n").unwrap();
    let mut text = r#"{"kind":"session","client_id":"c","expiry_secs":60}"#.to_owned();
    let payload = "x".repeat(16_000);
    for _ in 0..MESSAGES {
        text += "\n";
        text += &json!({
            "kind": "message", "client_id": "c", "topic": "a", "qos": 1, "payload": payload,
        })
        .to_string();
    }
    fs::write(&path, text).unwrap();
    let done = sessions(&plan, &["import", word(&path), "--config", word(&config)]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert!(done.stderr.contains("sessions.bytes"), "{done}");
    let verified = sessions(&plan, &["verify"]).success();
    assert!(verified.contains("0 sessions"), "{verified}");
}

/// A client was connected when its server was killed: what it was sent is as long as a backlog.
#[test]
fn a_long_backlog_that_was_sent_goes_to_the_disk() {
    const MESSAGES: usize = 1_000;
    let plan = Plan::new().tcp().anonymous();
    let path = file(&plan);
    let mut text = json!({
        "kind": "session", "client_id": "c", "expiry_secs": 600, "messages": MESSAGES,
        "next_delivery": MESSAGES, "sent_before": MESSAGES,
    })
    .to_string();
    for number in 0..MESSAGES {
        text += "\n";
        text += &json!({
            "kind": "message", "client_id": "c", "state": "sent", "delivery": number,
            "packet_id": number + 1, "topic": "a", "qos": 1,
            "payload": format!("{number} {}", "x".repeat(500)),
        })
        .to_string();
    }
    fs::write(&path, text).unwrap();
    import(&plan, &path, &[]);
    let names = fs::read_dir(plan.data_dir().join("sessions/spool")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.any(|it| it.ends_with(".spool")));
    let server = plan.start();
    let (mut client, was_there) = come_back(&server, Version::V5, "c");
    assert!(was_there);
    for number in 0..MESSAGES {
        let message = published(&client.expect(3));
        let begin = format!("{number} ");
        assert!(message.payload.starts_with(begin.as_bytes()), "{number}");
        answer(&mut client, 0x40, message.packet_id);
    }
    client.ping();
}

#[test]
fn a_message_of_a_queue_names_the_shared_subscription() {
    let plan = Plan::new().tcp().anonymous();
    let path = file(&plan);
    let whose = r#""client_id":"$queue/jobs","user":"$queue""#;
    let session = format!(r#"{{"kind":"session",{whose},"expiry_secs":4294967295}}"#);
    let message = format!(r#"{{"kind":"message",{whose},"topic":"jobs/a","qos":1}}"#);
    fs::write(&path, format!("{session}\n{message}\n")).unwrap();
    let done = sessions(&plan, &["import", word(&path)]);
    assert!(done.stderr.contains("`share` is missing"), "{done}");
}

#[test]
fn a_running_server_keeps_its_files() {
    let server = Server::open();
    let (mut client, _) = come_back(&server, Version::V5, "c");
    client.subscribe("x", 1);
    let path = server.folder().join("import.jsonl");
    fs::write(
        &path,
        r#"{"kind":"session","client_id":"d","expiry_secs":60}"#,
    )
    .unwrap();
    let import = ["sessions", "import", word(&path)];
    for (args, remedy) in [
        (&["sessions", "verify"][..], "stentor stop"),
        (&["sessions", "export"][..], "stentor stop"),
        (&import[..], "a server is running"),
    ] {
        let refused = server.control(args).refusal();
        assert!(refused.contains(remedy), "{refused}");
    }
    client.ping();
    let nowhere = Plan::new().tcp().anonymous();
    for verb in ["verify", "export"] {
        let refused = sessions(&nowhere, &[verb]).refusal();
        assert!(refused.contains("there are no sessions in"), "{refused}");
    }
    assert!(!nowhere.data_dir().exists());
}
