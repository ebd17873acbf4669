//! What scripts keep: bounded, apart from each other, and there after a restart and a kill.

use std::time::{Duration, Instant};

use stentor_tests::Plan;
use stentor_tests::raw::eventually;

use crate::{Calls, plan};

/// Does with its store what it is told; errors are its text.
const SHELF: &str = "--[[ procedure\nanonymous = true\ngrants = [\"store\"]\ndeadline = \"60s\"\n\
    store_bytes = \"1KiB\"\n]]
    return function(call)
        local args = call.args
        local _, value = pcall(function()
            if args.set then return store.set(args.set, args.value, tonumber(args.ttl)) end
            if args.add then return store.add(args.add, 1, tonumber(args.ttl)) end
            if args.delete then return store.delete(args.delete) end
            local found = store.get(args.get)
            return found and #found > 100 and #found .. ' bytes' or found
        end)
        return accept(tostring(value))
    end";

fn ask(calls: &Calls, words: &[&str]) -> String {
    let words = [&["--deadline", "60s"], words].concat();
    calls.by_unix(&words).success().trim_end().to_owned()
}

fn start(plan: Plan) -> Calls {
    Calls {
        server: plan.start(),
    }
}

#[test]
fn a_quota_holds_for_one_procedure_and_across_a_restart() {
    let calls = start(plan(&[("one.luau", SHELF), ("two.luau", SHELF)]));
    let (text, long) = ("x".repeat(600), "y".repeat(500));
    assert_eq!(ask(&calls, &["/one", "-set", "a", "-value", &text]), "nil");
    let full = "quota of 1024 bytes is used up (`store_bytes` in the manifest)";
    let more = ["/one", "-set", "b", "-value", &long];
    assert!(ask(&calls, &more).contains(full));
    assert_eq!(ask(&calls, &["/two", "-get", "a"]), "nil");
    assert_eq!(ask(&calls, &["/two", "-set", "a", "-value", "own"]), "nil");
    assert_eq!(ask(&calls, &["/one", "-add", "n"]), "1");
    let calls = start(calls.server.stop_for_restart());
    assert_eq!(ask(&calls, &["/one", "-get", "a"]), "600 bytes");
    assert_eq!(ask(&calls, &["/two", "-get", "a"]), "own");
    assert_eq!(ask(&calls, &["/one", "-add", "n"]), "2");
    assert!(ask(&calls, &more).contains(full));
    assert_eq!(ask(&calls, &["/one", "-delete", "a"]), "true");
    assert_eq!(ask(&calls, &more), "nil");
}

/// What expires makes room for others while the server runs.
#[test]
fn what_has_expired_is_gone_and_uses_no_quota() {
    let calls = start(plan(&[("one.luau", SHELF)]));
    let text = "x".repeat(600);
    ask(&calls, &["/one", "-set", "a", "-value", &text, "-ttl", "1"]);
    eventually("it has expired", || {
        ask(&calls, &["/one", "-get", "a"]) == "nil"
    });
    eventually("its bytes are free", || {
        ask(&calls, &["/one", "-set", "b", "-value", &text]) == "nil"
    });
    assert_eq!(ask(&calls, &["/one", "-get", "b"]), "600 bytes");
}

/// A killed server loses at most the last second: what is older is there.
#[test]
fn what_is_kept_survives_a_kill() {
    let mut calls = Some(start(plan(&[("one.luau", SHELF)])));
    let mut number = 0;
    eventually("what was written a while ago is there", || {
        number += 1;
        let own = calls.take().expect("a server runs");
        let value = number.to_string();
        ask(&own, &["/one", "-set", "k", "-value", &value]);
        let written = Instant::now();
        while written.elapsed() < Duration::from_secs(2) {
            ask(&own, &["/one", "-get", "k"]);
        }
        let own = start(own.server.kill());
        let kept = ask(&own, &["/one", "-get", "k"]);
        calls = Some(own);
        kept == value
    });
}
