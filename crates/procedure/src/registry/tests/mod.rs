//! The registry as its callers have it, on a folder of its own.

mod bounds;
mod callers;
mod loading;
mod messages;

use std::fs;
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
        since: Since::default(),
        forgets: false,
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
            .call(call, move |answer, _| drop(send.send(answer)));
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
    let none = place.call(empty_call("sizecheck"));
    assert_eq!(
        (none.status, none.advice),
        (Status::BadCall, Some(Verdict::Tempfail))
    );
    assert!(none.reason.contains("no message"), "{}", none.reason);
    assert_eq!(
        place.outcome(with_message("sizecheck", "")).verdict,
        Verdict::Accept,
        "an empty one is one"
    );
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
    let all = all["procedures"].as_array().unwrap();
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
