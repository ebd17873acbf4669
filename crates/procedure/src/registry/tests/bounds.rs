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
