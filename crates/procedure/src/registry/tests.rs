use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::*;
use crate::message::{Content, Message};
use crate::script::empty_call;
use crate::{Format, Outcome};

/// A folder with procedures and a registry on it.
struct Place {
    folder: tempfile::TempDir,
    registry: Registry,
    loaded: Loaded,
}

fn place(files: &[(&str, &str)]) -> Place {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("procedures")).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join("procedures").join(name), text).unwrap();
    }
    let settings = Settings {
        folder: Some(folder.path().join("procedures")),
        store: Some(folder.path().join("store.redb")),
        outside: Outside::default(),
        clients: None,
    };
    let (registry, loaded) = Registry::open(settings).unwrap();
    Place {
        folder,
        registry,
        loaded,
    }
}

/// A registry whose procedures are all in use.
fn good(files: &[(&str, &str)]) -> Place {
    let place = place(files);
    assert_eq!(place.loaded.refused, [], "all files are good");
    place
}

impl Place {
    fn write(&self, name: &str, text: &str) -> Loaded {
        let path = self.folder.path().join("procedures").join(name);
        fs::write(path, text).unwrap();
        self.registry.refresh().unwrap()
    }

    fn start(&self, call: Call) -> Receiver<Answer> {
        let (send, receive) = channel();
        // The test may have failed already.
        self.registry
            .call(call, move |answer| drop(send.send(answer)));
        receive
    }

    fn call(&self, call: Call) -> Answer {
        self.start(call).recv().expect("every call is answered")
    }

    fn ask(&self, procedure: &str) -> Answer {
        self.call(empty_call(procedure))
    }

    fn outcome(&self, call: Call) -> Outcome {
        let answer = self.call(call);
        let shown = format!("{answer:?}");
        answer.outcome.expect(&shown)
    }
}

fn with_message(procedure: &str, message: &str) -> Call {
    let content = Content::Bytes(message.as_bytes().to_vec());
    Call {
        message: Message::new(content, 0, Format::Message).unwrap().0,
        ..empty_call(procedure)
    }
}

fn with_arguments(procedure: &str, arguments: &[(&str, &str)]) -> Call {
    let pairs = arguments
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    Call {
        arguments: pairs.collect(),
        ..empty_call(procedure)
    }
}

#[test]
fn built_in_procedures_answer() {
    let place = good(&[]);
    assert_eq!(place.outcome(empty_call("noop")).verdict, Verdict::Accept);
    let echo = place.outcome(with_arguments("echo", &[("a", "b"), ("a", "c")]));
    assert_eq!(echo.result, b"a=b\na=c\nsize=0\n");
    let small = with_message("sizecheck", "T: u\n\nbody");
    assert_eq!(place.outcome(small).verdict, Verdict::Accept);
    let mut large = with_message("sizecheck", "T: u\n\nbody");
    large.arguments = vec![("max".to_owned(), "9".to_owned())];
    let outcome = place.outcome(large);
    assert_eq!(
        (outcome.verdict, outcome.reply_code),
        (Verdict::Reject, 552)
    );
    assert_eq!(outcome.enhanced, "5.3.4");
    let wrong = place.call(with_arguments("sizecheck", &[("max", "9MB")]));
    assert_eq!(wrong.status, Status::BadCall);
}

#[test]
fn unknown_procedures_are_answered_at_once() {
    let answer = good(&[]).ask("nothing");
    assert_eq!(answer.status, Status::NotFound);
    assert_eq!(
        (answer.advice, answer.reason.as_str()),
        (None, "there is no procedure /nothing")
    );
}

#[test]
fn a_script_comes_to_a_verdict() {
    let place = good(&[(
        "policy.luau",
        "--[[ procedure\nversion = \"1.2\"\nneeds = \"headers\"\n]]
        return function(call)
            if call:header('subject') == 'spam & eggs' then
                return reject('no ' .. call.args.what, { code = 550, status = '5.7.9' })
            end
            return accept()
        end",
    )]);
    let mut call = with_message(
        "policy",
        "From: a\r\nSUBJECT: =?utf-8?q?spam?=\r\n & eggs\r\n\r\n",
    );
    call.arguments = vec![("what".to_owned(), "thanks".to_owned())];
    let answer = place.call(call);
    assert_eq!(answer.version, "1.2");
    let outcome = answer.outcome.expect("a verdict");
    assert_eq!(
        (outcome.verdict, outcome.reply_code),
        (Verdict::Reject, 550)
    );
    assert_eq!(
        (outcome.text.as_str(), outcome.enhanced.as_str()),
        ("no thanks", "5.7.9")
    );
    let other = with_message("policy", "Subject: hi\r\n\r\n");
    assert_eq!(place.outcome(other).verdict, Verdict::Accept);
}

#[test]
fn changes_become_edits_of_the_callers_file() {
    let place = good(&[(
        "change.luau",
        "--[[ procedure\nneeds = \"body\"\n]]
        return function(call)
            call:remove_header('x-old')
            call:append('-- \\r\\nbye\\r\\n')
            call:add_header('X-New', 'yes')
            return 'accept'
        end",
    )]);
    // What is added at the top stands before the header that is taken away there.
    let text = "x-old: 0\r\nT: u\r\nX-Old: 1\r\n \r\n 2\r\nx-OLD: 3\r\nS: t\r\n\r\nbody\r\n";
    let outcome = place.outcome(with_message("change", text));
    assert_eq!(outcome.verdict, Verdict::Modified);
    let mut changed = String::new();
    let mut at = 0;
    for change in &outcome.changes {
        changed.push_str(&text[at..change.offset as usize]);
        changed.push_str(std::str::from_utf8(&change.inserted).unwrap());
        at = (change.offset + change.deleted) as usize;
    }
    changed.push_str(&text[at..]);
    let expected = "X-New: yes\r\nT: u\r\nS: t\r\n\r\nbody\r\n-- \r\nbye\r\n";
    assert_eq!(changed, expected);
    // In a spool file, offsets count from its beginning.
    let spool = format!("[::1]:1;x\r\nx\r\n<<MAIL-DATA>>\r\n{text}");
    let start = spool.len() - text.len();
    let content = Content::Bytes(spool.into_bytes());
    let mut call = empty_call("change");
    call.message = Message::new(content, 0, Format::XmailSpool).unwrap().0;
    let outcome = place.outcome(call);
    assert_eq!(outcome.changes[0].offset, start as u64);
    // One who cannot change anything makes it fail instead of passing unchanged.
    let mut call = with_message("change", text);
    call.can_edit = false;
    assert_eq!(place.call(call).status, Status::Failed);
}

#[test]
fn parts_are_shown() {
    let place = good(&[(
        "parts.luau",
        "--[[ procedure\nneeds = \"body\"\n]]
        return function(call)
            local seen = {}
            for _, part in call:parts() do
                table.insert(seen, part.type .. ' ' .. tostring(part.name) .. ' ' .. part.content)
            end
            return accept(table.concat(seen, '|'))
        end",
    )]);
    let text = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello\r\n--b\r\n\
                Content-Type: application/x-msdownload; name=a.exe\r\n\
                Content-Transfer-Encoding: base64\r\n\r\nTVo=\r\n--b--\r\n";
    let outcome = place.outcome(with_message("parts", text));
    assert_eq!(
        outcome.text,
        "text/plain nil hello|application/x-msdownload a.exe MZ"
    );
}

/// What hides in a forwarded message is shown, and no part is left out in silence.
#[test]
fn parts_of_parts_are_shown() {
    let place = good(&[(
        "parts.luau",
        "--[[ procedure\nneeds = \"body\"\n]]
        return function(call)
            local seen = {}
            for _, part in call:parts() do
                table.insert(seen, part.type .. ' ' .. tostring(part.name) .. ' '
                    .. tostring(part.to ~= nil))
            end
            return accept(table.concat(seen, '|'))
        end",
    )]);
    let inner = "Content-Type: multipart/mixed; boundary=i\r\n\r\n--i\r\n\r\nhello\r\n--i\r\n\
                 Content-Type: application/x-msdownload; name=a.exe\r\n\r\nMZ\r\n--i--\r\n";
    let text = format!(
        "Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\n\
         Content-Type: message/rfc822\r\n\r\n{inner}\r\n--o--\r\n"
    );
    let outcome = place.outcome(with_message("parts", &text));
    assert_eq!(
        outcome.text,
        "message/rfc822 nil true|text/plain nil false|application/x-msdownload a.exe false"
    );
    let many = "--o\r\n\r\nx\r\n".repeat(1001);
    let text = format!("Content-Type: multipart/mixed; boundary=o\r\n\r\n{many}--o--\r\n");
    let answer = place.call(with_message("parts", &text));
    assert_eq!(answer.status, Status::Failed);
    assert!(answer.reason.contains("more than 1000 parts"), "{answer:?}");
}

/// What the manifest does not ask for is not there.
#[test]
fn nothing_is_seen_that_is_not_needed() {
    let place = good(&[
        (
            "a.luau",
            "return function(call) return accept(call.from) end",
        ),
        (
            "b.luau",
            "return function(call) return accept(call:header('from')) end",
        ),
        (
            "c.luau",
            "return function(call) return accept(store.get('x')) end",
        ),
        (
            "d.luau",
            "return function(call) log('x') return accept() end",
        ),
    ]);
    for (name, reason) in [
        ("a", "needs = \"envelope\""),
        ("b", "needs = \"headers\""),
        ("c", "c.luau:1"),
        ("d", "d.luau:1"),
    ] {
        let answer = place.call(with_message(name, "From: a\n\n"));
        assert_eq!(answer.status, Status::Failed);
        assert!(answer.reason.contains(reason), "{}", answer.reason);
        assert_eq!(answer.advice, Some(Verdict::Tempfail));
    }
}

/// Each of these ends its own call with its own status, and the next call works.
#[test]
fn hostile_scripts_end_their_call_only() {
    let place = good(&[(
        "hostile.luau",
        "--[[ procedure\ndeadline = \"100ms\"\nmemory = \"2MiB\"\non_error = \"accept\"\n]]
        local ways = {
            loop = function() while true do end end,
            stubborn = function() while true do pcall(function() while true do end end) end end,
            bomb = function() local s = 'x' while true do s = s .. s end end,
            mistake = function() error('oops') end,
            nonsense = function() return 42 end,
            unknown = function() return { verdict = 'modified' } end,
        }
        return function(call)
            local way = ways[call.args.way]
            if way then return way() end
            return accept('fine')
        end",
    )]);
    for (way, status) in [
        ("loop", Status::TimedOut),
        ("stubborn", Status::TimedOut),
        ("bomb", Status::Failed),
        ("mistake", Status::Failed),
        ("nonsense", Status::Failed),
        ("unknown", Status::Failed),
    ] {
        let answer = place.call(with_arguments("hostile", &[("way", way)]));
        assert_eq!(answer.status, status, "{way}: {}", answer.reason);
        assert_eq!(answer.advice, Some(Verdict::Accept));
    }
    assert_eq!(place.outcome(empty_call("noop")).verdict, Verdict::Accept);
}

#[test]
fn a_bad_version_keeps_the_old_one_and_says_why() {
    let place = good(&[("p.luau", "return function() return accept('one') end")]);
    assert_eq!(place.loaded.loaded, ["p"]);
    assert_eq!(place.registry.refresh().unwrap(), Loaded::default());
    for (text, reason) in [
        ("return function( return accept('two') end", "p.luau:1:"),
        ("\n\nlocal x = nil + 1 return function() end", "p.luau:3:"),
        ("return 3", "a script ends with"),
        (
            "--[[ procedure\nneeds = 3\n]] return function() end",
            "p.luau: line 2",
        ),
        (
            "return { call = function() return accept() end,
              test = function() assert(false, 'not ready') end }",
            "not ready",
        ),
    ] {
        let loaded = place.write("p.luau", text);
        assert_eq!(loaded.loaded, [""; 0], "{text}");
        assert!(loaded.refused[0].1.contains(reason), "{:?}", loaded.refused);
        assert_eq!(place.outcome(empty_call("p")).text, "one");
        let figures = place.registry.figures();
        let figures = figures
            .iter()
            .find(|figures| figures.procedure == "p")
            .unwrap();
        assert!(figures.problem.contains(reason), "{}", figures.problem);
        // It says so once.
        assert_eq!(place.registry.refresh().unwrap(), Loaded::default());
    }
    let loaded = place.write("p.luau", "return function() return accept('three') end");
    assert_eq!(
        (loaded.loaded, loaded.refused),
        (vec!["p".to_owned()], Vec::new())
    );
    assert_eq!(place.outcome(empty_call("p")).text, "three");
    fs::remove_file(place.folder.path().join("procedures/p.luau")).unwrap();
    assert_eq!(place.registry.refresh().unwrap().removed, ["p"]);
    assert_eq!(place.ask("p").status, Status::NotFound);
}

/// Figures outlive versions.
#[test]
fn calls_are_counted() {
    let place = good(&[("p.luau", "return function(c) return c.args.v end")]);
    for verdict in ["accept", "reject", "reject", "wrong"] {
        place.call(with_arguments("p", &[("v", verdict)]));
    }
    place.write(
        "p.luau",
        "--[[ procedure\nversion = \"2\"\n]] return function() end",
    );
    let json = place.outcome(Call {
        caller: Caller::User {
            zone: "default".to_owned(),
            name: "admin".to_owned(),
        },
        ..with_arguments("status", &[("format", "json")])
    });
    let all: serde_json::Value = serde_json::from_slice(&json.result).unwrap();
    let all = all.as_array().unwrap();
    let p = all
        .iter()
        .find(|figures| figures["procedure"] == "p")
        .unwrap();
    assert_eq!((&p["calls"], &p["version"]), (&4.into(), &"2".into()));
    assert_eq!(
        p["verdicts"],
        serde_json::json!([["accept", 1], ["reject", 2]])
    );
    assert_eq!(p["errors"], serde_json::json!([["failed", 1]]));
    assert!(p["max_us"].as_u64() >= p["p50_us"].as_u64());
}

#[test]
fn a_call_in_flight_finishes_on_the_old_version() {
    let place = good(&[(
        "slow.luau",
        "--[[ procedure\ndeadline = \"60s\"\ngrants = [\"store\"]\n]]
        return function()
            store.set('began', '1')
            while not store.get('go') do end
            return accept('old')
        end",
    )]);
    let running = place.start(empty_call("slow"));
    let shelf = place.registry.store.as_ref().unwrap().shelf("slow", 10_000);
    while shelf.get(b"began").unwrap().is_none() {
        std::thread::yield_now();
    }
    let loaded = place.write("slow.luau", "return function() return accept('new') end");
    assert_eq!(loaded.loaded, ["slow"]);
    assert_eq!(place.outcome(empty_call("slow")).text, "new");
    shelf.set(b"go", b"1", None).unwrap();
    assert_eq!(running.recv().unwrap().text(), "old");
}

/// What a run asks of the server is bounded, and the script learns that.
#[test]
fn a_run_does_not_ask_without_end() {
    let place = good(&[(
        "busy.luau",
        "--[[ procedure\ndeadline = \"60s\"\ngrants = [\"store\", \"log\"]\n]]
        return function(call)
            local what, n = call.args.what, 0
            local ok, why = pcall(function()
                while true do
                    if what == 'log' then log('x') else store.add('n', 1) end
                    n += 1
                end
            end)
            return reject(n .. ' ' .. tostring(why))
        end",
    )]);
    for (what, done, told) in [
        ("log", "100 ", "log: one run writes at most 100 lines"),
        (
            "store",
            "1000 ",
            "store: one run asks its modules at most 1000 times",
        ),
    ] {
        // Each run begins anew.
        for _ in 0..2 {
            let text = place
                .outcome(with_arguments("busy", &[("what", what)]))
                .text;
            assert!(text.starts_with(done) && text.contains(told), "{text}");
        }
    }
}

/// A procedure has so many threads and so many places in its queue; what comes after is turned
/// away at once, and other procedures notice nothing.
#[test]
fn too_many_calls_are_turned_away() {
    let place = good(&[(
        "one.luau",
        "--[[ procedure\ndeadline = \"60s\"\nconcurrency = 1\nqueue = 2\n\
         grants = [\"store\"]\non_error = \"reject\"\n]]
        return function()
            store.add('began', 1)
            while not store.get('go') do end
            return accept()
        end",
    )]);
    let shelf = place.registry.store.as_ref().unwrap().shelf("one", 10_000);
    let first = place.start(empty_call("one"));
    while shelf.get(b"began").unwrap().is_none() {
        std::thread::yield_now();
    }
    let waiting: Vec<_> = (0..2).map(|_| place.start(empty_call("one"))).collect();
    let answer = place.ask("one");
    assert_eq!(
        (answer.status, answer.advice),
        (Status::Overloaded, Some(Verdict::Reject))
    );
    assert_eq!(place.outcome(empty_call("noop")).verdict, Verdict::Accept);
    shelf.set(b"go", b"1", None).unwrap();
    for receiver in [first].into_iter().chain(waiting) {
        assert_eq!(receiver.recv().unwrap().status, Status::Done);
    }
    assert_eq!(shelf.get(b"began").unwrap().as_deref(), Some(&b"3"[..]));
}

/// The caller's own deadline holds when it is the shorter one, also in the queue.
#[test]
fn a_call_is_answered_by_its_deadline() {
    let place = good(&[(
        "loop.luau",
        "--[[ procedure\ndeadline = \"60s\"\nconcurrency = 1\n]]
        return function() while true do end end",
    )]);
    let soon = || Call {
        deadline: Instant::now() + Duration::from_millis(50),
        ..empty_call("loop")
    };
    let calls: Vec<_> = (0..3).map(|_| place.start(soon())).collect();
    for call in calls {
        assert_eq!(call.recv().unwrap().status, Status::TimedOut);
    }
}

#[test]
fn observing_accepts_and_says_what_it_would_have_done() {
    let text = "--[[ procedure\nmode = \"observe\"\n]]
        return function(c) if c.args.bad then error('x') end return reject('no') end";
    let place = good(&[("watch.luau", text)]);
    let outcome = place.outcome(empty_call("watch"));
    assert_eq!(
        (outcome.verdict, outcome.text.as_str()),
        (Verdict::Accept, "observed: reject")
    );
    let outcome = place.outcome(with_arguments("watch", &[("bad", "1")]));
    assert_eq!(outcome.text, "observed: tempfail");
    let figures = place.registry.figures();
    let figures = figures
        .iter()
        .find(|figures| figures.procedure == "watch")
        .unwrap();
    assert_eq!(figures.verdicts, [("reject", 1)]);
    assert_eq!(figures.errors, [("failed", 1)]);
}

#[test]
fn strangers_call_what_is_open_to_them() {
    let place = good(&[
        ("closed.luau", "return function() return accept() end"),
        (
            "open.luau",
            "--[[ procedure\nanonymous = true\n]] return function() return accept() end",
        ),
        (
            "near.luau",
            "--[[ procedure\nallow_addresses = [\"192.0.2.1\"]\n]] return function() return accept() end",
        ),
    ]);
    for (procedure, address, status) in [
        ("closed", "192.0.2.1", Status::NotAllowed),
        ("open", "192.0.2.1", Status::Done),
        ("near", "192.0.2.1", Status::Done),
        ("near", "192.0.2.2", Status::NotAllowed),
        ("status", "192.0.2.1", Status::NotAllowed),
    ] {
        let call = Call {
            caller: Caller::Anonymous(address.to_owned()),
            ..empty_call(procedure)
        };
        assert_eq!(
            place.call(call).status,
            status,
            "{procedure} from {address}"
        );
    }
    let user = Caller::User {
        zone: "default".to_owned(),
        name: "filter".to_owned(),
    };
    let call = Call {
        caller: user,
        ..empty_call("closed")
    };
    assert_eq!(place.call(call).status, Status::Done);
}

#[test]
fn messages_that_are_too_large_are_not_looked_at() {
    let text = "--[[ procedure\nneeds = \"body\"\nmax_body = \"10B\"\non_large = \"reject\"\n]]
        return function() return accept() end";
    let place = good(&[("small.luau", text)]);
    let outcome = place.outcome(with_message("small", "T: u\n\nlong"));
    assert_eq!(outcome.verdict, Verdict::Accept);
    let outcome = place.outcome(with_message("small", "T: u\n\nlonger"));
    assert_eq!(outcome.verdict, Verdict::Reject);
    assert!(outcome.text.contains("10 bytes"));
}

#[test]
fn files_that_cannot_be_procedures_are_refused() {
    let place = place(&[
        ("noop.luau", "return function() end"),
        ("two.luau", "return function() end"),
        ("two.toml", "kind = \"program\"\ncommand = [\"/bin/true\"]"),
        ("a b.luau", "return function() end"),
        (
            "gone.toml",
            "kind = \"program\"\ncommand = [\"/nonexistent/program\"]",
        ),
        (
            "data.toml",
            "kind = \"program\"\ncommand = [\"/etc/passwd\"]",
        ),
        (
            "late.luau",
            "-- mine\n--[[ procedure\nanonymous = true\n]]\nreturn function() end",
        ),
        ("notes.txt", "no procedure"),
        (".hidden.luau", "no"),
    ]);
    let refused: BTreeMap<_, _> = place.loaded.refused.iter().cloned().collect();
    assert_eq!(refused.len(), 6, "{refused:?}");
    assert!(refused["noop"].contains("built in"));
    assert!(refused["two"].contains("remove one"));
    assert!(refused["a b"].contains("letters"));
    assert!(refused["gone"].contains("/nonexistent/program"));
    assert!(refused["data"].contains("may not run it"));
    assert!(refused["late"].contains("late.luau: line 2: a manifest begins"));
    assert_eq!(place.outcome(empty_call("noop")).verdict, Verdict::Accept);
    let nowhere = Settings {
        folder: Some(place.folder.path().join("missing")),
        store: None,
        outside: Outside::default(),
        ..Settings::default()
    };
    assert!(Registry::open(nowhere).is_err());
}

#[test]
fn a_program_is_a_procedure() {
    let place = good(&[(
        "true.toml",
        "kind = \"program\"\ncommand = [\"/bin/sh\", \"-c\", \"echo 5.7.1 no; exit 69\"]\n\
         deadline = \"60s\"\nmemory = \"512MiB\"",
    )]);
    let outcome = place.outcome(with_message("true", "T: u\n\n"));
    assert_eq!(
        (outcome.verdict, outcome.text.as_str()),
        (Verdict::Reject, "no")
    );
}

/// Modules that reach out: what is granted works, within the call's deadline.
#[test]
fn modules_reach_where_the_manifest_lets_them() {
    use std::io::{Read, Write};
    let address = crate::net::serve(|mut stream| {
        let mut request = [0; 1024];
        let read = stream.read(&mut request).unwrap_or(0);
        let first = String::from_utf8_lossy(&request[..read]);
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let _ = stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{path}").as_bytes());
    });
    let silent = crate::net::serve(std::mem::forget);
    let manifest = format!(
        "--[[ procedure\ngrants = [\"http\", \"dns\", \"mail\"]\ndeadline = \"60s\"\n\
         allow_urls = [\"http://{address}/api/\"]\n]]\n"
    );
    let good = format!(
        "{manifest}return function(call)
            local answer = http.post('http://{address}/api/x', 'hi', {{ ['X-A'] = 'b' }})
            local ok, other = pcall(http.get, 'http://{address}/other')
            assert(not ok and string.find(tostring(other), 'allow_urls'))
            local sent, relay = pcall(mail.send, {{ from = '', to = 'a@b', message = 'A: b' }})
            assert(not sent and string.find(tostring(relay), 'procedures.relay'))
            local known, kind = pcall(dns.lookup, 'a.test', 'SOA')
            assert(not known and string.find(tostring(kind), 'PTR or TXT'))
            return accept(answer.status .. ' ' .. answer.body)
        end"
    );
    let slow = manifest
        .replace("60s", "50ms")
        .replace(&address.to_string(), &silent.to_string())
        + &format!("return function() http.get('http://{silent}/api/') end");
    let bare = "return function() return accept(tostring(http or dns or mail)) end";
    let place = self::good(&[
        ("good.luau", &good),
        ("slow.luau", &slow),
        ("bare.luau", bare),
    ]);
    assert_eq!(place.ask("good").text(), "200 /api/x");
    assert_eq!(place.ask("bare").text(), "nil");
    assert_eq!(place.ask("slow").status, Status::TimedOut);
}

/// A manifest can name who may call.
#[test]
fn users_may_be_named() {
    let text =
        "--[[ procedure\nallow_users = [\"mail\"]\n]]\nreturn function() return accept() end";
    let place = good(&[("p.luau", text)]);
    let mut call = empty_call("p");
    assert_eq!(place.call(call).status, Status::NotAllowed);
    call = empty_call("p");
    call.caller = Caller::User {
        zone: "default".to_owned(),
        name: "mail".to_owned(),
    };
    assert_eq!(place.call(call).status, Status::Done);
}

/// Calls whose callers have given up keep nobody out of the queue.
#[test]
fn who_has_given_up_takes_no_place_in_the_queue() {
    let place = good(&[(
        "one.luau",
        "--[[ procedure\nconcurrency = 1\nqueue = 1\ndeadline = \"1s\"\n]]
        return function(call)
            while call.args.way == 'loop' do end
            return accept('fine')
        end",
    )]);
    let running = place.start(with_arguments("one", &[("way", "loop")]));
    // The first is not late before its deadline of 1 s, nor on the thread yet, perhaps; then this
    // one finds no place.
    let hasty = Call {
        deadline: Instant::now() + Duration::from_millis(20),
        ..empty_call("one")
    };
    let status = place.call(hasty).status;
    assert!(matches!(status, Status::TimedOut | Status::Overloaded));
    assert_eq!(running.recv().unwrap().status, Status::TimedOut);
    assert_eq!(place.outcome(empty_call("one")).text, "fine");
}

/// Opening a FIFO waits for somebody who writes.
#[test]
fn what_is_no_file_is_not_waited_for() {
    let place = good(&[]);
    let path = place.folder.path().join("procedures/pipe.luau");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let loaded = place.registry.refresh().unwrap();
    assert_eq!(loaded.refused.len(), 1, "{loaded:?}");
    assert!(
        loaded.refused[0]
            .1
            .contains("pipe.luau: it is no regular file")
    );
}

/// A script whose test takes long keeps nobody else waiting: not those who ask for figures.
#[test]
fn figures_are_there_while_a_script_is_tested() {
    let place = good(&[]);
    let path = place.folder.path().join("procedures/slow.luau");
    let text = "return { call = function() end, test = function() while true do end end }";
    fs::write(path, text).unwrap();
    std::thread::scope(|scope| {
        let look = scope.spawn(|| place.registry.refresh().unwrap());
        let mut asked = 0;
        while !look.is_finished() {
            assert!(!place.registry.figures().is_empty());
            asked += 1;
        }
        assert_eq!(look.join().unwrap().refused.len(), 1);
        // The test ran for seconds.
        assert!(asked > 10, "{asked}");
    });
}

#[test]
fn message_ids_are_found_on_the_line_after_their_name() {
    for (headers, id) in [
        ("A: b\r\nMessage-ID: <1@a>\r\nC: d", Some("<1@a>")),
        ("message-id:\r\n <1@a>\r\nC: d", Some("<1@a>")),
        ("Message-Id:\n\t<1\n @a>\n", Some("<1 @a>")),
        ("X-Message-ID: <1@a>\n", None),
        ("Message", None),
    ] {
        assert_eq!(message_id(headers.as_bytes()).as_deref(), id, "{headers:?}");
    }
}

/// What a script did wrong is one line with its file; where it was, if that is known.
#[test]
fn mistakes_of_scripts_are_told() {
    for (body, expected) in [
        (
            "error({})",
            "p.luau:2: the script raised a table as its error, not a text",
        ),
        (
            "return reject('x', { code = 99999 })",
            "p.luau: the script returned the code 99999, ",
        ),
        (
            "return reject('x', { code = 450.5 })",
            "p.luau: the script returned the code 450.5, ",
        ),
        (
            "return reject('x', { code = 'y' })",
            "p.luau: the script returned a code that is a ",
        ),
        (
            "return reject({})",
            "p.luau: the script returned a text that is a table, no text",
        ),
        (
            "return reject('x', 5)",
            "p.luau:2: reject(text, more): `more` is a table as in ",
        ),
        (
            "return 'ok'",
            "p.luau: the script returned \"ok\"; return accept()",
        ),
        (
            "return nil",
            "p.luau: the script returned nil; return accept()",
        ),
        (
            "call:header({})",
            "p.luau:2: argument 1 of :header(): a table is no text",
        ),
        (
            "call:nonsense()",
            "p.luau:2: attempt to call missing method 'nonsense' of call",
        ),
        (
            "call:header('x')",
            "p.luau:2: headers: the manifest has to say needs = \"headers\"",
        ),
        (
            "local _, e = pcall(function() call:header('x') end) error(e, 0)",
            "p.luau:2: headers: the manifest has to say",
        ),
        (
            "local s = 'x' while true do s = s .. s end",
            "p.luau: the script ran out of memory",
        ),
    ] {
        let place = good(&[("p.luau", &format!("return function(call)\n{body}\nend"))]);
        let answer = place.ask("p");
        assert_eq!(answer.status, Status::Failed, "{body}: {answer:?}");
        assert!(
            answer.reason.starts_with(expected),
            "{body}: {}",
            answer.reason
        );
    }
    let place = good(&[("p.luau", "return function() return 'discard' end")]);
    assert_eq!(place.outcome(empty_call("p")).verdict, Verdict::Discard);
}
