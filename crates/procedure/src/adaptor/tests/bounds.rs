//! What scripts ask of the server: within bounds, and refused with file and line beyond them.

use super::super::machine::{Machine, Step};
use super::*;

/// What becomes of a hook that is this, about a payload: its verdict, or its mistake.
fn judged(hook: &'static str, body: &str, change: impl FnOnce(&mut Options)) -> Verdict {
    let text = format!("return {{\n{hook} = function(event)\n{body}\nend }}");
    let mut options = options_of(&world(&text));
    options.payload_max = Arc::new(AtomicUsize::new(1_000));
    change(&mut options);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.luau");
    fs::write(&file, text).unwrap();
    options.source = Source::File(file);
    let machine = Machine::load(&options, &Arc::default()).unwrap();
    let event = Event {
        hook,
        zone: "game".into(),
        fields: vec![("user", "ann".into()), ("payload", "x".into())],
    };
    match machine.begin(&event) {
        Ok(Some(Step::Done(verdict))) => verdict,
        Ok(other) => panic!("{body}: {other:?}"),
        Err(trouble) => denied(&format!("! {trouble}")),
    }
}

#[track_caller]
fn refuses(hook: &'static str, body: &str, reason: &str) {
    let told = judged(hook, body, |_| ());
    let Verdict::Deny { text, .. } = &told else {
        panic!("{body}: {told:?}");
    };
    let is_told = text.starts_with("! a.luau:") && text.contains(reason);
    assert!(is_told, "{body}: {text}, not {reason}");
}

#[test]
fn the_trees_of_the_server_are_its_own() {
    for topic in [
        "$SYS/broker/uptime",
        "$presence/bob",
        "$reply/1",
        "$rooms/tea",
        "$room/tea/member/bob",
        "$room/tea/prop/turn",
        "$room/tea/event",
        "$room/tea/say",
        "$room/tea/say/",
        "$room//say/bob",
        "$room/tea/say/bob/x",
        "$private/to/bob",
        "$private/from/bob",
        "$call/sizecheck",
        "$share/g/t",
        "$other/x",
        "$",
    ] {
        let body = format!("publish('{topic}', 'x', {{ retain = true }})");
        refuses("publish", &body, "a.luau:3: publish: \"$");
        let body = format!("publish('{topic}', 'x')");
        refuses("publish", &body, "the server's own");
    }
    let said = judged("publish", "publish('$room/tea/say/robot', 'hello')", |_| ());
    assert_eq!(said, allowed());
    let kept = "publish('$room/tea/say/robot', 'x', { retain = true })";
    refuses("publish", kept, "not retained");
    refuses("publish", "publish('a/+', 'x')", "not a topic name");
    refuses("publish", "publish('', 'x')", "not a topic name");
    let long = "publish(string.rep('x', 70000), 'x')";
    refuses("publish", long, "65535 bytes");
}

#[test]
fn payloads_are_no_larger_than_clients_could_send() {
    let large = "string.rep('x', 1001)";
    for (hook, body) in [
        ("say", format!("return allow({{ payload = {large} }})")),
        ("say", format!("publish('a', {large})")),
        ("say", format!("send('bob', {large})")),
        (
            "publish",
            format!("return {{ verdict = 'allow', payload = {large} }}"),
        ),
    ] {
        refuses(hook, &body, "1001 bytes; at most 1000");
    }
    let fits = judged(
        "say",
        "return allow({ payload = string.rep('x', 1000) })",
        |_| (),
    );
    assert!(matches!(fits, Verdict::Allow(_)), "{fits:?}");
}

#[test]
fn what_nobody_reads_is_refused() {
    for (hook, body, reason) in [
        (
            "say",
            "return allow({ paylod = 'x' })",
            "a.luau:3: allow: there is no \"paylod\"",
        ),
        ("say", "return allow({ 'x' })", "there is no \"number\""),
        ("say", "return allow('x')", "a.luau:3: allow takes a table"),
        (
            "say",
            "return allow({ payload = {} })",
            "payload is a string, not a table",
        ),
        (
            "say",
            "return allow({ response = 'no' })",
            "response is a boolean",
        ),
        (
            "say",
            "return allow({ roles = {} })",
            "a.luau:2: say: allow in say: there is no \"roles\"",
        ),
        ("say", "return allow({ to = 'x' })", "there is no \"to\""),
        ("join", "return allow({ payload = 'x' })", "allow in join"),
        ("login", "return allow({ payload = 'x' })", "there is roles"),
        (
            "login",
            "return allow({ roles = { {} } })",
            "a.luau:2: login",
        ),
        (
            "say",
            "return { verdict = 'allow', payloed = 'x' }",
            "there is no \"payloed\"",
        ),
        (
            "say",
            "return deny({ reason = 'x' })",
            "a.luau:3: deny takes a reason and a code",
        ),
        (
            "say",
            "return deny('x', 5)",
            "a.luau:3: deny: the code is 0x80",
        ),
        ("say", "return deny('x', 'y')", "not a string"),
        ("say", "return 7", "a.luau:2: say: a hook returns"),
        (
            "say",
            "publish('a', 'b', { retian = true })",
            "publish: there is no \"retian\"",
        ),
        (
            "say",
            "http({ url = 'x', methd = 'GET' })",
            "http: there is no \"methd\"",
        ),
        (
            "publish",
            "return allow({ to = string.rep('x', 70000) })",
            "65535",
        ),
    ] {
        refuses(hook, body, reason);
    }
}

/// A loop of anything ends, and the script learns why.
#[test]
fn every_call_of_the_server_has_a_budget() {
    for (body, done, reason) in [
        ("log('x')", 100, "at most 100 lines"),
        ("publish('a', 'b')", 1_000, "at most 1000 messages"),
        ("send('bob', 'x')", 1_000, "at most 1000 messages"),
        (
            "http('http://nowhere.example/')",
            100,
            "waits for at most 100",
        ),
    ] {
        let body = format!(
            "local n = 0
             local ok, why = pcall(function() while true do {body} n += 1 end end)
             return deny('! ' .. tostring(n) .. ' ' .. tostring(why))"
        );
        let Verdict::Deny { text, .. } = judged("say", &body, |_| ()) else {
            panic!("{body}");
        };
        let is_told = text.starts_with(&format!("! {done} ")) && text.contains(reason);
        assert!(is_told, "{body}: {text}");
    }
    let body = "for i = 1, 6 do publish('a', 'b') end";
    let slow = judged("say", body, |options| options.rate = 5);
    let Verdict::Deny { text, .. } = slow else {
        panic!("{slow:?}");
    };
    let reason = "a.luau:3: publish: more than 5 messages and calls in a second (adaptor.rate)";
    assert_eq!(text, format!("! {reason}"));
}

/// What a run has used is not forgotten while it waits.
#[test]
fn budgets_go_over_waits() {
    let world = world(
        "return { say = function(event)
            for i = 1, 600 do publish('a', 'b') end
            room('info', { room = 'tea' })
            local n = 0
            pcall(function() while true do publish('a', 'b') n += 1 end end)
            return deny(tostring(n))
        end }",
    );
    let (sender, said) = channel();
    let event = Event {
        hook: "say",
        zone: "game".into(),
        fields: Vec::new(),
    };
    let answer = Box::new(move |verdict| sender.send(verdict).unwrap());
    world.adaptor.ask(event, answer);
    let number = world.command();
    world.adaptor.answered(number, b"{}".to_vec());
    assert_eq!(said.recv().unwrap(), denied("400"));
    let figures = world.adaptor.figures();
    assert_eq!((figures.runs, figures.failures), (1, 0));
    assert_eq!(figures.refused, 1, "one call too many");
}

/// Lines beyond what the log takes are counted, whatever the runs are.
#[test]
fn the_log_is_not_flooded() {
    let world = world("return { say = function() for i = 1, 50 do log('x') end end }");
    for _ in 0..10 {
        assert_eq!(world.ask("say", "x"), allowed());
    }
    let suppressed = world.adaptor.figures().suppressed;
    assert!((300..=490).contains(&suppressed), "{suppressed} of 500");
}

#[test]
fn coroutines_of_a_script_may_wait() {
    let world = world(
        "local function both(a, b)
            local info = room(a, { room = 'tea' })
            return info.n .. b .. coroutine.yield('between')
        end
        return { say = function(event)
            local run = coroutine.create(both)
            local ok, between = coroutine.resume(run, 'info', '-')
            local ok2, result = coroutine.resume(run, 'after')
            local wrapped = coroutine.wrap(function()
                return pcall(function() return room('info', {}).n end)
            end)
            local fine, n = wrapped()
            return deny(`{ok} {between} {ok2} {result} {fine} {n}`)
        end }",
    );
    let (sender, said) = channel();
    let event = Event {
        hook: "say",
        zone: "game".into(),
        fields: Vec::new(),
    };
    let answer = Box::new(move |verdict| sender.send(verdict).unwrap());
    world.adaptor.ask(event, answer);
    for answer in [&br#"{"n":1}"#[..], br#"{"n":2}"#] {
        let number = world.command();
        world.adaptor.answered(number, answer.to_vec());
    }
    assert_eq!(
        said.recv().unwrap(),
        denied("true between true 1-after true 2")
    );
}

#[test]
fn nothing_waits_but_hooks() {
    for text in [
        "http('http://127.0.0.1/')\nreturn {}",
        "coroutine.wrap(function() room('info') end)()\nreturn {}",
        "return { test = function() call('x') end }",
    ] {
        let refused = try_world(text, |_| ()).err().unwrap();
        assert!(refused.starts_with("a.luau:"), "{text}: {refused}");
    }
    let sorting = "local t = { 2, 1 }
        table.sort(t, function(a, b) http('http://127.0.0.1/') return a < b end)";
    refuses("say", sorting, "nothing can wait for an answer here");
}

/// Tables of the script that are read by the server run no code of it.
#[test]
fn tables_with_code_are_only_tables() {
    for text in [
        "return setmetatable({}, { __index = function() while true do end end })",
        "return { [setmetatable({}, { __tostring = function() while true do end end })] = \
         function() end }",
    ] {
        let result = try_world(text, |_| ());
        let reason = result.err();
        assert!(
            reason.is_none_or(|reason| reason.contains("no hook")),
            "{text}"
        );
    }
    let publishes = "local t = setmetatable({}, { __index = function(t, key)
            publish('a', 'b')
            return rawget(t, key)
        end })
        t.verdict = 'allow'
        return t";
    assert_eq!(judged("say", publishes, |_| ()), allowed());
    for body in [
        "return setmetatable({}, { __index = function() while true do end end })",
        "error(setmetatable({}, { __tostring = function() while true do end end }))",
        "error(setmetatable({}, { __tostring = function() error('x') end }))",
        "local f = coroutine.wrap(function() error({}) end) f()",
        "return allow(setmetatable({}, { __iter = function() while true do end end }))",
        "coroutine.yield()",
        "coroutine.yield('http', { url = 'http://127.0.0.1/' })",
    ] {
        let said = judged("say", body, |_| ());
        let is_told = matches!(&said, Verdict::Deny { text, .. } if text.starts_with("! "));
        assert!(is_told || said == allowed(), "{body}: {said:?}");
    }
}

#[test]
fn what_is_stopped_is_told_with_its_line() {
    let refused = try_world("local x = 1\nwhile true do\nx += 1\nend", |_| ());
    let refused = refused.err().unwrap();
    let is_told = refused.starts_with("a.luau:2:") || refused.starts_with("a.luau:3:");
    assert!(is_told && refused.contains("ran out of time"), "{refused}");
    let told = judged(
        "say",
        "\nlocal function f() while true do end end\nf()",
        |_| (),
    );
    assert_eq!(told, denied("! a.luau:4: the script ran out of time"));
    let pattern = "string.find(string.rep('a', 30), string.rep('a*', 30) .. 'b')";
    assert_eq!(
        judged("say", pattern, |_| ()),
        denied("! a.luau:3: the script ran out of time")
    );
    let hungry = "local t = {} for i = 1, 1e9 do t[i] = { i } end return t";
    let refused = try_world(hungry, |_| ()).err().unwrap();
    assert_eq!(refused, "a.luau: the script ran out of memory");
}

/// A version that cannot hand over what it has kept is not there for ever.
#[test]
fn a_save_that_fails_can_be_passed_over() {
    let text = |count: u32, save: &str| {
        format!(
            "local count = {count}
            return {{
                say = function() count += 1 return deny(tostring(count)) end,
                save = function()
{save}
                end,
                restore = function(saved) count = saved.count end,
            }}"
        )
    };
    let world = world(&text(0, "error('no such luck')"));
    assert_eq!(world.ask("say", ""), denied("1"));
    let good = text(100, "return { count = count }");
    fs::write(&world.file, &good).unwrap();
    for _ in 0..2 {
        // It says so each time that somebody asks.
        let refused = world.adaptor.reload(Start::CarryOver).unwrap_err();
        assert!(
            refused.contains("save: a.luau:5: no such luck"),
            "{refused}"
        );
        assert!(
            refused.contains("stentor adaptor reload a.luau --fresh"),
            "{refused}"
        );
    }
    assert_eq!(world.ask("say", ""), denied("2"), "the old one goes on");
    assert_eq!(world.adaptor.reload(Start::Afresh), Ok(true));
    assert_eq!(world.ask("say", ""), denied("101"));
    fs::write(&world.file, format!("{good}\n")).unwrap();
    // It may have looked by itself.
    assert!(world.adaptor.reload(Start::CarryOver).is_ok());
    assert_eq!(world.ask("say", ""), denied("102"), "carried over again");
    fs::write(&world.file, good.replace("saved.count", "saved.no.count")).unwrap();
    let refused = world.adaptor.reload(Start::CarryOver).unwrap_err();
    let is_told = refused.contains("new version's restore: a.luau:7:");
    assert!(is_told && refused.contains("--fresh"), "{refused}");
    assert_eq!(world.adaptor.reload(Start::Afresh), Ok(true));
    assert_eq!(world.ask("say", ""), denied("101"));
}

/// Other options hold from then on, and what was kept stays.
#[test]
fn options_change_while_it_runs() {
    let world = world(
        "local count = 0
        return {
            say = function(event)
                count += 1
                if event.payload == 'fail' then error('x') end
                return deny(tostring(count))
            end,
            save = function() return count end,
            restore = function(saved) count = saved end,
        }",
    );
    assert_eq!(world.ask("say", ""), denied("1"));
    assert_eq!(
        world.ask("say", "fail"),
        denied("the zone's adaptor failed")
    );
    let mut options = options_of(&world);
    options.on_error = OnError::Allow;
    // One that is not taken changes nothing.
    drop(world.adaptor.prepare(options.clone()).unwrap());
    assert_ne!(world.ask("say", "fail"), allowed());
    assert_eq!(world.adaptor.change(options.clone()), Ok(()));
    assert_eq!(world.ask("say", "fail"), allowed());
    assert_eq!(world.ask("say", ""), denied("5"));
    fs::write(&world.file, "return {").unwrap();
    options.on_error = OnError::Deny;
    assert!(world.adaptor.change(options).is_err());
    assert_eq!(world.ask("say", "fail"), allowed(), "it goes on as it was");
}

/// Questions that wait take memory, so large ones are fewer.
#[test]
fn large_questions_are_not_kept_without_end() {
    let stuck = |options: &mut Options| options.time = Duration::from_secs(2);
    let text = "return { say = function(event)
        if event.payload == 'stuck' then while true do end end
        return deny('taken')
    end }";
    let world = try_world(text, stuck).unwrap();
    let (sender, said) = channel();
    let large = vec![b'x'; 2 << 20];
    let payloads = std::iter::once(&b"stuck"[..]).chain(std::iter::repeat_n(&large[..], 40));
    for payload in payloads {
        let sender = sender.clone();
        let event = Event {
            hook: "say",
            zone: "game".into(),
            fields: vec![("payload", payload.into())],
        };
        let answer = Box::new(move |verdict| sender.send(verdict).unwrap());
        world.adaptor.ask(event, answer);
    }
    let verdicts: Vec<Verdict> = said.iter().take(41).collect();
    let count = |verdict| verdicts.iter().filter(|said| **said == verdict).count();
    let refused = count(Verdict::Busy);
    // 40 of 2 MiB are 80 MiB; whether the first one still waits makes a difference of one.
    assert!((8..=9).contains(&refused), "{refused}");
    assert_eq!(count(denied("taken")), 40 - refused);
    assert_eq!(world.ask("say", "after"), denied("taken"));
}

/// Nobody is left without an answer by an adaptor that ends.
#[test]
fn who_waits_for_an_adaptor_that_ends_is_answered() {
    let world = world("return { say = function() room('info', { room = 'tea' }) end }");
    let (sender, said) = channel();
    let event = Event {
        hook: "say",
        zone: "game".into(),
        fields: Vec::new(),
    };
    let answer = Box::new(move |verdict| sender.send(verdict).unwrap());
    world.adaptor.ask(event, answer);
    world.command();
    drop(world);
    assert_eq!(said.recv().unwrap(), denied("the adaptor has ended"));
}

/// What JSON would leave out is an error, with the key.
#[test]
fn what_json_has_no_place_for_is_refused() {
    for (table, reason) in [
        ("{ 1, 2, nil, 4 }", "nothing at 3"),
        ("{ 1, 2, x = 3 }", "the key \"x\""),
        ("{ [7] = 1 }", "the key 7"),
        ("{ [0] = 1 }", "the key 0"),
        ("{ 1, [1.5] = 2 }", "the key 1.5"),
        ("{ [true] = 1 }", "that is a boolean"),
    ] {
        refuses("say", &format!("json.encode({table})"), reason);
        refuses("say", &format!("room('set', {table})"), reason);
    }
    for (table, text) in [
        ("{}", "{}"),
        ("{ 1, json.null, 3 }", "[1,null,3]"),
        ("{ a = json.null }", r#"{"a":null}"#),
        ("json.decode('[]')", "[]"),
        ("json.decode('{\"a\":[null]}')", r#"{"a":[null]}"#),
        ("{ 1, 2, nil }", "[1,2]"),
    ] {
        let body = format!("return deny(json.encode({table}))");
        assert_eq!(judged("say", &body, |_| ()), denied(text), "{table}");
    }
    let is_null = "return deny(tostring(json.decode('[null]')[1] == json.null))";
    assert_eq!(judged("say", is_null, |_| ()), denied("true"));
    assert_eq!(judged("say", "return true", |_| ()), allowed());
    refuses("say", "return false", "a hook returns nothing, true");
}

/// State that would come back otherwise keeps the version that has it.
#[test]
fn state_that_json_has_no_place_for_is_not_lost() {
    let text = |reason: &str| {
        format!(
            "local scores = {{ [3] = 1 }}
            return {{
                say = function() return deny('{reason}' .. scores[3]) end,
                save = function() return scores end,
            }}"
        )
    };
    let world = world(&text("old"));
    fs::write(&world.file, text("new")).unwrap();
    let refused = world.adaptor.reload(Start::CarryOver).unwrap_err();
    assert!(
        refused.contains("save") && refused.contains("the key 3"),
        "{refused}"
    );
    assert_eq!(world.ask("say", ""), denied("old1"));
}
