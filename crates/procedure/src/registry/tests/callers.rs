//! What a manifest says about who calls, and what comes of it.

use super::*;

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

#[test]
fn observing_accepts_and_says_what_it_would_have_done() {
    let text = "--[[ procedure\nmode = \"observe\"\n]]
        return function(c) if c.args.bad then error('x') end return reject('no') end";
    let place = good(&[("watch.luau", text)]);
    let outcome = place.outcome(empty_call("watch"));
    assert_eq!(
        (outcome.verdict, outcome.text.as_str()),
        (Verdict::Accept, "observed: reject: no")
    );
    let outcome = place.outcome(with_arguments("watch", &[("bad", "1")]));
    assert_eq!(outcome.text, "observed: tempfail: watch.luau:4: x");
    let figures = place.registry.figures();
    let figures = figures
        .iter()
        .find(|figures| figures.procedure == "watch")
        .unwrap();
    assert_eq!(figures.verdicts, [("reject", 1)]);
    assert_eq!(figures.errors, [("failed", 1)]);
    // What was only observed is told apart, also after verdicts count.
    place.write("watch.luau", "return function() return reject('no') end");
    assert_eq!(place.outcome(empty_call("watch")).verdict, Verdict::Reject);
    let all = place.registry.figures();
    let figures = all.iter().find(|one| one.procedure == "watch").unwrap();
    assert_eq!(figures.verdicts, [("reject", 2)]);
    assert_eq!(figures.observed, [("reject", 1)]);
    let status = String::from_utf8(place.outcome(empty_call("status")).result).unwrap();
    assert!(status.contains("reject 2 (1 only observed)"), "{status}");
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

/// A refusal names the key that decides.
#[test]
fn a_refusal_names_its_key() {
    let user = Caller::User {
        zone: "default".to_owned(),
        name: "mail".to_owned(),
    };
    for (caller, key) in [
        (
            Caller::Anonymous("uid 1000".to_owned()),
            "`allow_uid` or `allow_gid`",
        ),
        (
            Caller::Anonymous("192.0.2.1".to_owned()),
            "`allow_addresses`",
        ),
        (user, "`allow_users`"),
    ] {
        let told = not_admitted(&caller);
        assert!(
            told.contains(key) && told.contains("may not call"),
            "{told}"
        );
    }
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
