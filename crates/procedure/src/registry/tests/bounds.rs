//! Scripts that go wrong or too far, and too many calls.

use super::*;

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

/// What the protocols cannot carry is a failure for everybody: caller, log and figures.
#[test]
fn an_answer_that_cannot_be_sent_is_a_failure() {
    let change = |offset, inserted| Change {
        offset,
        deleted: 0,
        inserted,
    };
    let answer = |changes| {
        let mut outcome = Outcome::of(Verdict::Modified, "");
        outcome.changes = changes;
        sendable(Answer::done(outcome))
    };
    let many = |count: u64| (0..count).map(|at| change(at, Vec::new())).collect();
    assert_eq!(answer(many(EDITS_MAX as u64)).status, Status::Done);
    assert_eq!(answer(many(EDITS_MAX as u64 + 1)).status, Status::Failed);
    let long = vec![change(0, vec![0; EDITS_MAX * INSERTED_BYTES_MAX + 1])];
    assert_eq!(answer(long).status, Status::Failed);
    let mut outcome = Outcome::of(Verdict::Accept, "");
    outcome.result = vec![0; RESULT_BYTES_MAX + 1];
    let answer = sendable(Answer::done(outcome));
    assert_eq!(answer.status, Status::Failed, "{}", answer.reason);
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

/// What cannot be a time to live, or an amount, is refused with what it is and what it has to be.
#[test]
fn what_a_store_is_told_is_in_its_bounds() {
    let place = good(&[(
        "p.luau",
        "--[[ procedure\ndeadline = \"60s\"\ngrants = [\"store\"]\n]]
        local what = {
            minus = -5, nan = 0/0, half = 0.5, inf = math.huge, none = 0, text = '60',
            long = 315360001, yes = true, least = 1, most = 315360000,
        }
        return function(call)
            local value, place = what[call.args.what], call.args.place
            local _, why = pcall(function()
                if place == 'set' then store.set('k', 'v', value) end
                if place == 'add' then store.add('n', 1, value) end
                if place == 'n' then store.add('m', value) end
            end)
            local kept = store.get('k') or store.get('n') or store.get('m')
            return accept(tostring(kept) .. ' ' .. tostring(why or 'taken'))
        end",
    )]);
    let ask = |argument: &str, what: &str| {
        let call = with_arguments("p", &[("place", argument), ("what", what)]);
        place.outcome(call).text
    };
    let refused = |argument: &str, what: &str, told: &str| {
        let text = ask(argument, what);
        assert!(text.starts_with("nil ") && text.contains(told), "{text}");
    };
    let bad = [
        ("minus", "-5"),
        ("nan", "NaN"),
        ("half", "0.5"),
        ("inf", "inf"),
        ("none", "0"),
        ("text", "the text \"60\""),
        ("long", "315360001"),
        ("yes", "a boolean"),
    ];
    for (what, shown) in bad {
        for function in ["set", "add"] {
            let told = format!(
                "store.{function}: ttl (seconds) is {shown}; it is a whole number from 1 to \
                 315360000, or nil for no end"
            );
            refused(function, what, &told);
        }
    }
    for (what, shown) in [
        ("nan", "NaN"),
        ("half", "0.5"),
        ("inf", "inf"),
        ("gone", "nil"),
    ] {
        let told = format!(
            "store.add: n is {shown}; it is a whole number from -9007199254740992 to \
             9007199254740992"
        );
        refused("n", what, &told);
    }
    // And what is within them is taken, also none.
    for (argument, what, left) in [
        ("n", "minus", "-5"),
        ("add", "most", "1"),
        ("set", "gone", "v"),
    ] {
        assert_eq!(ask(argument, what), format!("{left} taken"));
    }
    // A second may be over at once.
    assert!(ask("set", "least").ends_with(" taken"));
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
            "p.luau: the script returned a code that is 99999; it is a whole number from 400 to 599",
        ),
        (
            "return reject('x', { code = 450.5 })",
            "p.luau: the script returned a code that is 450.5; ",
        ),
        (
            "return reject('x', { code = 'y' })",
            "p.luau: the script returned a code that is the text \"y\"; ",
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
            "p.luau:2: argument 1 of :header(): expected a text, got a table",
        ),
        (
            "call:nonsense()",
            "p.luau:2: attempt to call missing method 'nonsense' of call",
        ),
        ("call.from = 'a@b'", "p.luau:2: attempt to"),
        (
            "return accept(call.from)",
            "p.luau:2: from: the manifest has to say needs = \"envelope\"",
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
            answer.reason.starts_with(expected) && !answer.reason.contains("mlua"),
            "{body}: {}",
            answer.reason
        );
    }
    let place = good(&[("p.luau", "return function() return 'discard' end")]);
    assert_eq!(place.outcome(empty_call("p")).verdict, Verdict::Discard);
}
