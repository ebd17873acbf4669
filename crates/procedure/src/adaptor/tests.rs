//! Adaptors on their threads: what they answer, what they may not do, and how they are replaced.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

mod bounds;

/// Keeps what adaptors do, and answers commands.
struct Stage(Mutex<Sender<(String, Action)>>);

impl Host for Stage {
    fn act(&self, zone: &str, action: Action) {
        let sender = self.0.lock().unwrap();
        // A test may have seen enough.
        let _ = sender.send((zone.to_owned(), action));
    }
}

struct World {
    adaptor: Adaptor,
    done: Receiver<(String, Action)>,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

fn try_world(text: &str, change: impl FnOnce(&mut Options)) -> Result<World, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.luau");
    fs::write(&file, text).unwrap();
    let mut options = Options {
        id: 3,
        source: Source::File(file.clone()),
        zone: "home".into(),
        has_timer: true,
        memory: 16 << 20,
        time: Duration::from_millis(50),
        deadline: Duration::from_secs(20),
        hosts: vec!["127.0.0.1".to_owned()],
        trust: Trust::default(),
        rate: 10_000,
        payload_max: Arc::new(AtomicUsize::new(1 << 20)),
        trials: Arc::default(),
        on_error: OnError::Deny,
    };
    change(&mut options);
    let (sender, done) = channel();
    let adaptor = Adaptor::start(options, Arc::new(Stage(Mutex::new(sender))))?;
    Ok(World {
        adaptor,
        done,
        file,
        _folder: folder,
    })
}

fn world(text: &str) -> World {
    try_world(text, |_| ()).unwrap_or_else(|reason| panic!("{reason}"))
}

impl World {
    /// The number of the command that a hook waits for; what it has done before is passed over.
    fn command(&self) -> u64 {
        loop {
            if let (_, Action::Command { number, .. }) = self.done.recv().unwrap() {
                return number;
            }
        }
    }

    /// Asks about something said, and waits for nothing.
    fn begin(&self, payload: &str, verdicts: &Sender<Verdict>) {
        let sender = verdicts.clone();
        let answer = move |said| drop(sender.send(said));
        self.adaptor.ask(event("say", payload), Box::new(answer));
    }

    fn ask(&self, hook: &'static str, payload: &str) -> Verdict {
        let (sender, verdict) = channel();
        let event = event(hook, payload);
        self.adaptor
            .ask(event, Box::new(move |said| sender.send(said).unwrap()));
        verdict.recv_timeout(Duration::from_secs(30)).unwrap()
    }
}

fn event(hook: &'static str, payload: &str) -> Event {
    Event {
        hook,
        zone: "game".into(),
        fields: vec![("user", "ann".into()), ("payload", payload.into())],
    }
}

fn denied(text: &str) -> Verdict {
    Verdict::Deny {
        code: None,
        text: text.to_owned(),
    }
}

fn allowed() -> Verdict {
    Verdict::Allow(Allowed::default())
}

#[test]
fn a_hook_allows_denies_and_rewrites() {
    let world = world(
        r#"return { say = function(event)
            if event.payload == "no" then return deny("not that", 0x97) end
            if event.payload == "other" then
                return allow({ payload = event.user, notification = false })
            end
            publish("a/b", "heard", { retain = true })
            send("bob", event.payload)
        end }"#,
    );
    assert!(world.adaptor.has("say") && !world.adaptor.has("publish"));
    let no = Verdict::Deny {
        code: Some(0x97),
        text: "not that".to_owned(),
    };
    assert_eq!(world.ask("say", "no"), no);
    let other = Allowed {
        payload: Some(b"ann".to_vec()),
        hides_notification: true,
        ..Allowed::default()
    };
    assert_eq!(world.ask("say", "other"), Verdict::Allow(other));
    assert_eq!(world.ask("say", "x"), allowed());
    assert_eq!(
        world.ask("publish", "x"),
        allowed(),
        "there is no such hook"
    );
    let (zone, first) = world.done.recv().unwrap();
    assert_eq!(zone, "game");
    assert!(matches!(first, Action::Publish { retain: true, .. }));
    let (_, second) = world.done.recv().unwrap();
    assert!(matches!(second, Action::Send { to, from, .. } if to == "bob" && from == "server"));
}

#[test]
fn a_call_is_answered() {
    let world = world(
        r#"return {
            call = function(event)
                if event.payload == "table" then return allow({ result = {} }) end
                if event.payload == "no" then return nil end
                return allow({ result = event.payload .. " \255" })
            end,
            say = function() return allow({ result = "x" }) end,
        }"#,
    );
    let answered = Allowed {
        result: Some(b"hello \xFF".to_vec()),
        ..Allowed::default()
    };
    assert_eq!(world.ask("call", "hello"), Verdict::Allow(answered));
    assert_eq!(world.ask("call", "no"), allowed());
    for (hook, payload) in [("call", "table"), ("say", "x")] {
        let said = world.ask(hook, payload);
        assert!(matches!(said, Verdict::Deny { .. }), "{hook}: {said:?}");
    }
}

/// Each is stopped at its limit, its question is answered, and the next one is answered as well.
#[test]
fn hostile_scripts_are_stopped() {
    for (what, body) in [
        ("an endless loop", "while true do end"),
        (
            "one that catches",
            "while true do pcall(function() while true do end end) end",
        ),
        (
            "a pattern",
            "string.find(string.rep('a', 30), string.rep('a*', 30) .. 'b')",
        ),
        (
            "memory",
            "local t = {} while true do table.insert(t, string.rep('x', 100000)) end",
        ),
        ("recursion", "local function f() return 1 + f() end f()"),
        ("a wrong verdict", "return 7"),
        ("a wrong code", "return deny('x', 5)"),
        (
            "too many actions",
            "for i = 1, 2000 do publish('a', 'b') end",
        ),
        ("a wildcard", "publish('a/#', 'b')"),
        (
            "one text many times",
            "local s, t = string.rep('x', 100000), {}
             for i = 1, 100000 do t[i] = s end
             json.encode(t)",
        ),
        ("a table in itself", "local t = {} t.t = t json.encode(t)"),
        (
            "as many headers",
            "local s, t = string.rep('x', 100000), {}
             for i = 1, 10000 do t['h' .. i] = s end
             http({ url = 'http://127.0.0.1/', headers = t })",
        ),
        (
            "as many roles",
            "local t = {}
             for i = 1, 10000 do t[i] = 'role' end
             return allow({ roles = t })",
        ),
        ("no file system", "io.open('/etc/passwd')"),
        ("no system", "os.execute('true')"),
        ("a strange yield", "coroutine.yield('x')"),
        (
            "a spoilt interface",
            "publish = nil; deny = nil; math.abs = nil",
        ),
    ] {
        let text = format!(
            "return {{ say = function(event)
                if event.payload == 'fine' then return deny('fine') end
                {body}
            end }}"
        );
        let world = try_world(&text, |options| options.memory = 4 << 20).unwrap();
        let said = world.ask("say", "bad");
        if what == "a spoilt interface" {
            // Its own globals are its own; libraries are read-only.
            assert!(matches!(said, Verdict::Deny { .. }), "{what}: {said:?}");
            continue;
        }
        assert_eq!(said, denied("the zone's adaptor failed"), "{what}");
        assert_eq!(world.ask("say", "fine"), denied("fine"), "{what}");
    }
}

/// A machine that is full begins anew in the version that runs, also where the file has become one
/// that is refused, or is gone.
#[test]
fn a_full_machine_begins_anew() {
    let world = try_world(
        "local kept = {}
        return { say = function(event)
            if event.payload == 'fill' then
                while true do kept[#kept + 1] = string.rep('x', 1000) .. #kept end
            end
            kept.asked = (kept.asked or 0) + 1
            return deny(tostring(kept.asked))
        end }",
        |options| options.memory = 4 << 20,
    )
    .unwrap();
    let unchanged = fs::read(&world.file).unwrap();
    for on_disk in [Some(&unchanged[..]), Some(b"return {"), None] {
        match on_disk {
            Some(text) => fs::write(&world.file, text).unwrap(),
            None => fs::remove_file(&world.file).unwrap(),
        }
        let first = world.ask("say", "x");
        assert_eq!(first, denied("1"), "{on_disk:?}");
        assert_eq!(world.ask("say", "x"), denied("2"), "{on_disk:?}");
        let full = denied("the zone's adaptor failed");
        assert_eq!(world.ask("say", "fill"), full, "{on_disk:?}");
    }
    assert_eq!(world.ask("say", "x"), denied("1"));
}

#[test]
fn a_failure_may_let_pass() {
    let allow = |options: &mut Options| options.on_error = OnError::Allow;
    let world = try_world("return { say = function() error('x') end }", allow).unwrap();
    assert_eq!(world.ask("say", "x"), allowed());
}

#[test]
fn a_file_that_is_no_adaptor_is_refused_with_its_line() {
    for (text, reason) in [
        ("return {", "a.luau:1"),
        ("\n\nerror('early')", "a.luau:3: early"),
        ("return 1", "a table of hooks"),
        (
            "return { sya = function() end }",
            "there is no hook \"sya\"",
        ),
        (
            "return { test = function()\nassert(false, 'no') end }",
            "no",
        ),
        ("while true do end", "time"),
        ("return { say = 5 }", "say is a hook"),
        ("return { restore = true }", "restore is a hook"),
        (
            "return { timer = function() end, interval = 0 }",
            "interval",
        ),
    ] {
        let refused = try_world(text, |_| ()).err().unwrap();
        assert!(refused.contains(reason), "{text}: {refused}");
    }
    let missing = Options {
        source: Source::File("/nowhere/a.luau".into()),
        ..options_of(&world("return {}"))
    };
    let (sender, _) = channel();
    let refused = Adaptor::start(missing, Arc::new(Stage(Mutex::new(sender))))
        .err()
        .unwrap();
    assert!(refused.contains("/nowhere/a.luau"), "{refused}");
}

fn options_of(world: &World) -> Options {
    Options {
        id: 0,
        source: Source::File(world.file.clone()),
        zone: "home".into(),
        has_timer: true,
        memory: 16 << 20,
        time: Duration::from_millis(50),
        deadline: Duration::from_secs(20),
        hosts: Vec::new(),
        trust: Trust::default(),
        rate: 10_000,
        payload_max: Arc::new(AtomicUsize::new(1 << 20)),
        trials: Arc::default(),
        on_error: OnError::Deny,
    }
}

/// A hook that waits keeps nobody waiting, and goes on in its own version.
#[test]
fn hooks_wait_for_commands_without_keeping_others() {
    let world = world(
        r#"return { say = function(event)
            if event.payload == "quick" then return deny("quick") end
            local answer = room("info", { room = event.payload })
            return deny(answer.status)
        end }"#,
    );
    let (sender, slow) = channel();
    let event = Event {
        hook: "say",
        zone: "game".into(),
        fields: vec![("payload", "tea".into())],
    };
    world
        .adaptor
        .ask(event, Box::new(move |said| sender.send(said).unwrap()));
    let (_, action) = world.done.recv().unwrap();
    let Action::Command {
        procedure,
        payload,
        number,
    } = action
    else {
        panic!("{action:?}");
    };
    assert_eq!(
        (procedure.as_str(), &payload[..]),
        ("room.info", &br#"{"room":"tea"}"#[..])
    );
    assert_eq!(number >> 48, 3, "whose it is");
    assert_eq!(world.ask("say", "quick"), denied("quick"));
    fs::write(&world.file, "return {}").unwrap();
    // It may have looked by itself.
    assert!(world.adaptor.reload(Start::CarryOver).is_ok());
    world
        .adaptor
        .answered(number, br#"{"status":"done"}"#.to_vec());
    assert_eq!(slow.recv().unwrap(), denied("done"));
    // Answers that nobody waits for.
    world.adaptor.answered(number, b"{}".to_vec());
    world.adaptor.answered(7, b"no json".to_vec());
    assert_eq!(
        world.ask("say", "x"),
        allowed(),
        "the new version has no such hook"
    );
}

#[test]
fn a_new_version_takes_over_what_the_old_one_kept() {
    let text = |more: &str| {
        format!(
            "local count = 0
            return {{
                say = function() count += 1 return deny(tostring(count) .. '{more}') end,
                save = function() return {{ count = count }} end,
                restore = function(saved) count = saved.count end,
            }}"
        )
    };
    let world = world(&text(""));
    assert_eq!(world.ask("say", ""), denied("1"));
    assert_eq!(world.adaptor.reload(Start::CarryOver), Ok(false));
    fs::write(&world.file, "return { say = function() error }").unwrap();
    let refused = world.adaptor.reload(Start::CarryOver).unwrap_err();
    assert!(refused.contains("a.luau:1"), "{refused}");
    assert_eq!(world.ask("say", ""), denied("2"), "the old one goes on");
    fs::write(&world.file, text("!")).unwrap();
    // It may have looked by itself.
    assert!(world.adaptor.reload(Start::CarryOver).is_ok());
    assert_eq!(world.ask("say", ""), denied("3!"));
}

/// An administrator who asks learns that something else is on disk than what runs, since when, and
/// why.
#[test]
fn a_refused_version_is_known_until_a_good_one_comes() {
    let good = "return { say = function() return deny('good') end }";
    let world = world(good);
    assert_eq!(world.adaptor.refused(), None);
    let refuse = |text: &str, line: &str| {
        fs::write(&world.file, text).unwrap();
        let reason = world.adaptor.reload(Start::CarryOver).unwrap_err();
        assert!(reason.contains(line), "{reason}");
        let refused = world.adaptor.refused().unwrap();
        assert_eq!(refused.reason, reason);
        refused.since
    };
    let since = refuse("return {\n  say = 5\n  x", "a.luau:3");
    assert_eq!(world.ask("say", ""), denied("good"), "the old one goes on");
    world.adaptor.reload(Start::CarryOver).unwrap_err();
    assert_eq!(
        world.adaptor.refused().unwrap().since,
        since,
        "the same version"
    );
    assert!(refuse("return { say = function( }", "a.luau:1") > since);
    fs::write(&world.file, good).unwrap();
    // It may have looked by itself.
    assert!(world.adaptor.reload(Start::CarryOver).is_ok());
    assert_eq!(world.adaptor.refused(), None);
}

/// What was there before a version that was refused is what runs.
#[test]
fn a_file_that_is_put_back_is_not_refused_any_more() {
    let world = world("return { say = function() return deny('good') end }");
    let aside = world.file.with_extension("aside");
    fs::rename(&world.file, &aside).unwrap();
    world.adaptor.reload(Start::CarryOver).unwrap_err();
    assert!(world.adaptor.refused().is_some());
    fs::rename(&aside, &world.file).unwrap();
    assert!(world.adaptor.reload(Start::CarryOver).is_ok());
    assert_eq!(world.adaptor.refused(), None);
}

/// One that is no good is tried once, and again when somebody asks for that.
#[test]
fn a_bad_version_is_tried_once_for_all() {
    let good = "return { say = function() return deny('good') end }";
    let world = world(good);
    let trials = Arc::<Trials>::default();
    let options = Options {
        trials: Arc::clone(&trials),
        ..options_of(&world)
    };
    let start = |zone: &str| {
        let options = Options {
            zone: zone.into(),
            ..options.clone()
        };
        let (sender, _) = channel();
        Adaptor::start(options, Arc::new(Stage(Mutex::new(sender)))).unwrap()
    };
    let (first, second) = (start("one"), start("two"));
    // What another zone says of this version holds, though the file is a good one.
    fs::write(&world.file, format!("{good} -- another")).unwrap();
    let stamp = trial::Stamp::of(&options);
    let trial = trials.of(&options);
    *trial.lock().unwrap() = Some((stamp, "it loops".to_owned()));
    for one in [&first, &second] {
        let told = one.reload(Start::CarryOver);
        assert_eq!(told, Err("it loops".to_owned()));
    }
    trials.forget();
    for one in [&first, &second] {
        assert_eq!(one.reload(Start::CarryOver), Ok(true));
    }
    // And what fails in one is known to the other.
    fs::write(&world.file, "return 5").unwrap();
    let told = first.reload(Start::CarryOver).unwrap_err();
    let known = trials.of(&options).lock().unwrap().clone();
    assert_eq!(known.map(|(_, reason)| reason), Some(told));
}

#[test]
fn a_timer_runs_by_itself() {
    let world = world("return { interval = 0.1, timer = function() publish('tick', '') end }");
    for _ in 0..3 {
        let (zone, _) = world.done.recv().unwrap();
        assert_eq!(zone, "home");
    }
}

#[test]
fn http_reaches_hosts_on_the_list_only() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1_000];
        let _ = stream.read(&mut head).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
            .unwrap();
    });
    let world = world(
        "return { say = function(event)
            local reply, trouble = http(event.payload)
            return deny(reply and reply.status .. reply.body or trouble)
        end }",
    );
    let said = world.ask("say", &format!("http://127.0.0.1:{port}/x"));
    assert_eq!(said, denied("200hi"));
    server.join().unwrap();
    let Verdict::Deny { text, .. } = world.ask("say", "http://example.org/") else {
        panic!("it was denied");
    };
    assert!(text.contains("not among"), "{text}");
}

/// More requests than may be under way wait for one that ends, first come, first served.
#[test]
fn many_requests_wait_for_their_turn() {
    use std::io::{Read, Write};
    const REQUESTS: usize = 300;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it listens").port();
    let server = thread::spawn(move || {
        let mut head = [0; 1_000];
        let mut serve = |mut stream: std::net::TcpStream| {
            let _ = stream.read(&mut head).expect("a request");
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
            stream.write_all(answer).expect("it is read");
        };
        let accept = || listener.accept().expect("a connection").0;
        let first: Vec<_> = (0..64).map(|_| accept()).collect();
        first.into_iter().for_each(&mut serve);
        (64..REQUESTS).for_each(|_| serve(accept()));
    });
    let world = world(
        "return { say = function(event)
            local reply, trouble = http(event.payload)
            return deny(reply and reply.status .. reply.body or trouble)
        end }",
    );
    let (sender, verdicts) = channel();
    for _ in 0..REQUESTS {
        world.begin(&format!("http://127.0.0.1:{port}/x"), &sender);
    }
    for _ in 0..REQUESTS {
        let verdict = verdicts.recv_timeout(Duration::from_secs(30));
        assert_eq!(verdict, Ok(denied("200hi")));
    }
    server.join().expect("all were served");
}

/// Beyond that it is said that there is too much to do, which is no judgement.
#[test]
fn so_many_hooks_wait() {
    let world = world("return { say = function() room('info', { room = 'tea' }) end }");
    let (sender, verdicts) = channel();
    for _ in 0..1_001 {
        world.begin("", &sender);
    }
    let verdict = verdicts.recv_timeout(Duration::from_secs(30));
    assert_eq!(verdict, Ok(Verdict::Busy));
    world.adaptor.answered(world.command(), b"{}".to_vec());
    let verdict = verdicts.recv_timeout(Duration::from_secs(30));
    assert_eq!(verdict, Ok(allowed()));
}

/// What nobody waits for is told later, and all of it: at a start, each permanent room is created.
#[test]
fn news_waits_until_fewer_hooks_wait() {
    let world =
        world("return { created = function(event) room('info', { room = event.room }) end }");
    const ROOMS: usize = 12_000;
    for room in 0..ROOMS {
        world.adaptor.tell(Event {
            hook: "created",
            zone: "game".into(),
            fields: vec![("room", room.to_string().as_str().into())],
        });
    }
    // A question is asked at once.
    assert_eq!(world.ask("say", "tea"), allowed());
    for _ in 0..ROOMS {
        world.adaptor.answered(world.command(), b"{}".to_vec());
    }
    assert_eq!(world.adaptor.figures().failures, 0);
}

/// Nobody writes to it, so opening it would take for ever.
#[test]
fn a_file_that_is_none_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("x.luau");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    let (told, result) = channel();
    thread::spawn(move || told.send(check(&Source::File(pipe))));
    let reason = result
        .recv_timeout(Duration::from_secs(20))
        .expect("it is answered");
    let reason = reason.expect_err("it is no file");
    assert!(reason.contains("not a regular file"), "{reason}");
}

/// What is shipped compiles and passes its tests, and so does what `new` writes.
#[test]
fn what_is_shipped_is_good() {
    // At run time: objects may be shared between checkouts, and this one is meant.
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    let folder = PathBuf::from(crate_folder).join("../../deploy/adaptors");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_string_lossy().into_owned();
        if name.ends_with(".test.luau") {
            continue;
        }
        count += 1;
        check(&Source::File(path.clone())).unwrap_or_else(|reason| panic!("{name}: {reason}"));
        let outcomes = test(&path, &path.with_extension("test.luau"));
        let outcomes = outcomes.unwrap_or_else(|reason| panic!("{name}: {reason}"));
        assert!(!outcomes.is_empty(), "{name}");
        for (case, result) in outcomes {
            assert_eq!(result, Ok(()), "{name}: {case}");
        }
    }
    assert_eq!(count, 5);
    let folder = tempfile::tempdir().unwrap();
    let (file, tests) = (
        folder.path().join("x.luau"),
        folder.path().join("x.test.luau"),
    );
    fs::write(&file, TEMPLATE).unwrap();
    fs::write(&tests, TEMPLATE_TEST).unwrap();
    assert_eq!(
        check(&Source::File(file.clone())).unwrap(),
        ["say", "private"]
    );
    assert!(
        test(&file, &tests)
            .unwrap()
            .iter()
            .all(|(_, result)| result.is_ok())
    );
    fs::write(
        &tests,
        "return { bad = function() assert(false, 'as it should') end }",
    )
    .unwrap();
    let bad = test(&file, &tests).unwrap();
    assert!(bad[0].1.as_ref().unwrap_err().contains("as it should"));
}
