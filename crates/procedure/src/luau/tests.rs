use std::time::Instant;

use super::*;

/// A clock that moves on by itself each time it is looked at, a thousand times as fast as the
/// real one would: a script that loops comes to its end without any waiting.
struct Looked(AtomicU64);

impl Clock for Looked {
    fn now_ms(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

const MEMORY: usize = 4 << 20;
/// Looks at the clock before time is up.
const LOOKS: u64 = 100_000;

fn sandbox() -> Sandbox {
    let clock = Arc::new(Looked(AtomicU64::new(0)));
    Sandbox::new(MEMORY, clock, Box::new(|_, _| Ok(()))).unwrap()
}

fn run(sandbox: &mut Sandbox, text: &str) -> Result<String, Trouble> {
    let script = Script::compile("test.luau", text).map_err(Trouble::Mistake)?;
    let until = sandbox.until.clock.now_ms() + LOOKS;
    sandbox.run(&script, until, |_, value| value.to_string())
}

#[test]
fn a_script_returns_a_value() {
    assert_eq!(run(&mut sandbox(), "return 6 * 7"), Ok("42".to_owned()));
}

#[test]
fn mistakes_have_a_file_and_a_line() {
    let mut sandbox = sandbox();
    for (text, expected) in [
        ("local x = \n\n)", "test.luau:3:"),
        ("\nerror('no')", "test.luau:2: no"),
        ("\n\nreturn nil + 1", "test.luau:3:"),
        ("return os.time()", "test.luau:1:"),
        (
            "local function f() return f() end return f()",
            "stack overflow",
        ),
    ] {
        match run(&mut sandbox, text) {
            Err(Trouble::Mistake(message)) => {
                assert!(message.contains(expected), "{expected} is not in {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

/// A call of something that is not there names it, where that can be known.
#[test]
fn a_call_of_nothing_has_its_name() {
    let mut sandbox = sandbox();
    let long = format!("{}('x')", "a".repeat(100));
    for (text, expected) in [
        (
            "\nreturn tostrin(1)",
            "test.luau:2: attempt to call a nil value: there is no `tostrin`; did you mean `tostring`?",
        ),
        (
            "return string.uper('a')",
            "there is no `string.uper`; did you mean `string.upper`?",
        ),
        (
            "local a = tostring(1) .. xyzzy(tostring(2))",
            "nil value: there is no `xyzzy`",
        ),
        ("x = `{xyzzy {}}`", "nil value: there is no `xyzzy`"),
        (
            "local f\nf 'a'",
            "test.luau:2: attempt to call a nil value: `f`",
        ),
        ("local t = {}\nt.a:b()", "attempt to index nil with 'b'"),
        (
            "local t = { a = {} }\nt.a.b()",
            "attempt to call a nil value: `t.a.b`",
        ),
        (
            "local function f(g: any) return g() end\nf()",
            "test.luau:1: attempt to call a nil value: `g`",
        ),
        (
            "local t = {}\nif (t) then t[1]() end",
            "test.luau:2: attempt to call a nil value",
        ),
        (
            "local f, g = tostring\nf(1, g(2))",
            "test.luau:2: attempt to call a nil value",
        ),
        ("foo(bar(1))", "test.luau:1: attempt to call a nil value"),
        (
            "local tostring\ntostring(1)",
            "test.luau:2: attempt to call a nil value: `tostring`",
        ),
        (&long, "attempt to call a nil value: there is no `aaa"),
    ] {
        match run(&mut sandbox, text) {
            Err(Trouble::Mistake(message)) => {
                let end = message.ends_with(expected) || text == long;
                assert!(end && message.contains(expected), "{text}: {message}");
                assert!(message.len() <= MESSAGE_BYTES_MAX, "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let end = format!("{}('x')", "a".repeat(1000));
    let message = run(&mut sandbox, &end).unwrap_err().to_string();
    assert!(message.len() <= MESSAGE_BYTES_MAX + 4, "{message}");
}

/// One line, whatever a script raises and wherever.
#[test]
fn errors_are_one_clean_line() {
    let mut sandbox = sandbox();
    for (text, expected) in [
        ("error('no')", "test.luau:1: no"),
        ("\nerror('no', 0)", "test.luau:2: no"),
        ("error('no\\nmore')", "test.luau:1: no"),
        (
            "error({})",
            "test.luau:1: the script raised a table as its error, not a text",
        ),
        (
            "\nerror(print)",
            "test.luau:2: the script raised an error without a text",
        ),
        (
            "error(function() end)",
            "test.luau:1: the script raised a function as its error",
        ),
        (
            "error()",
            "test.luau:1: the script raised an error without a text",
        ),
        ("error('')", "test.luau:1:"),
        (
            "local x = nil\nx.y()",
            "test.luau:2: attempt to index nil with 'y'",
        ),
        (
            "local wrap = coroutine.wrap\n\
             wrap(function() wrap(function()\nerror('deep') end)() end)()",
            "test.luau:3: deep",
        ),
        (
            "local ok, problem = coroutine.resume(coroutine.create(function() error('in') end))\n\
             error(problem, 0)",
            "test.luau:1: in",
        ),
        (
            "coroutine.wrap(function() error({}) end)()",
            "test.luau:1: the script raised a table as its error, not a text",
        ),
        (
            "local ok, problem = pcall(string.rep)\nerror(problem)",
            "test.luau:2: ",
        ),
    ] {
        let Err(trouble) = run(&mut sandbox, text) else {
            panic!("{text} is no mistake");
        };
        let told = trouble.told("test.luau");
        assert!(told.starts_with(expected), "{text}: {told}");
        assert!(
            !told.contains("0x") && !told.contains("traceback"),
            "{text}: {told}"
        );
    }
}

/// Errors that are objects run code of the script when they are told; that is bounded as well.
#[test]
fn hostile_errors_are_told() {
    let mut sandbox = sandbox();
    for body in [
        "while true do end",
        "error(setmetatable({}, getmetatable(self)))",
        "return string.rep('x', 9000000)",
        "local function f() return 1 + f() end return f()",
        "return nil",
        "return {}",
        "coroutine.yield()",
    ] {
        let text = format!(
            "local object = setmetatable({{}}, {{ __tostring = function(self) {body} end }})
             local co = coroutine.wrap(function() error(object) end)
             pcall(co)
             xpcall(function() error(object) end, function(e) return tostring(e) end)
             error(object)"
        );
        let result = run(&mut sandbox, &text);
        assert!(result.is_err(), "{body}: {result:?}");
        assert_eq!(run(&mut sandbox, "return 'well'"), Ok("well".to_owned()));
    }
}

/// What a function of the host complains about has the line that called it.
#[test]
fn complaints_have_the_line_of_the_call() {
    let install = |lua: &Lua, globals: &Table| {
        let refuse = |_: &Lua, ()| Err::<(), _>(Error::runtime("not today"));
        globals.set("refuse", lua.create_function(refuse)?)
    };
    let clock = Arc::new(Looked(AtomicU64::new(0)));
    let mut sandbox = Sandbox::new(MEMORY, clock, Box::new(install)).unwrap();
    for (text, line) in [
        ("\n\nrefuse()", 3),
        ("local function f()\n refuse() end\nf()", 2),
        ("\nlocal ok, e = pcall(refuse)\nerror(e)", 2),
        ("return coroutine.wrap(function()\n\nrefuse() end)()", 3),
    ] {
        let told = Err(Trouble::Mistake(format!("test.luau:{line}: not today")));
        assert_eq!(run(&mut sandbox, text), told, "{text}");
    }
}

/// Each of these would run for ever, or for very long.
#[test]
fn endless_scripts_end() {
    let mut sandbox = sandbox();
    for text in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "return string.find(string.rep('a', 40), string.rep('a*', 40) .. 'b')",
        "for i = 1, 1e12 do end",
        "local co = coroutine.wrap(function() while true do coroutine.yield() end end)
         while true do co() end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end})
         while true do pcall(function() return t[1] end) end",
    ] {
        let result = run(&mut sandbox, text);
        let Err(Trouble::Time(place)) = result else {
            panic!("{text}: {result:?}");
        };
        assert!(place.starts_with("test.luau:"), "{text}: {place}");
        assert_eq!(run(&mut sandbox, "return 'well'"), Ok("well".to_owned()));
    }
}

#[test]
fn hungry_scripts_end() {
    let mut sandbox = sandbox();
    for text in [
        "return string.rep('x', 9000000)",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local s = 'x' while true do s = s .. s end",
        "return buffer.create(100000000)",
        "return table.create(1e8, 0)",
        "local t = {} while true do pcall(function() while true do t = {t, t} end end) error('x') end",
    ] {
        let start = Instant::now();
        let result = run(&mut sandbox, text);
        assert!(
            matches!(
                result,
                Err(Trouble::Memory | Trouble::Mistake(_) | Trouble::Time(_))
            ),
            "{text}: {result:?} after {:?}",
            start.elapsed()
        );
        assert_eq!(run(&mut sandbox, "return 'well'"), Ok("well".to_owned()));
        let used = sandbox.machine.as_ref().unwrap().used_memory();
        assert!(used < MEMORY / 2, "{text} left {used} bytes");
    }
    let result = run(&mut sandbox, "return string.rep('x', 9000000)");
    assert_eq!(result, Err(Trouble::Memory));
}

/// Library functions that loop inside, where no clock is looked at, are bounded.
#[test]
fn long_library_calls_are_refused() {
    let mut sandbox = sandbox();
    for text in [
        "return table.move({}, 1, 1e9, 2)",
        "return string.rep('', 1e9)",
        "return ('').rep('', 1e9)",
        "return table.unpack({}, 1, 1e9)",
    ] {
        let result = run(&mut sandbox, text);
        assert!(
            matches!(result, Err(Trouble::Mistake(_))),
            "{text}: {result:?}"
        );
    }
    let moved = "return #table.move({1, 2, 3}, 1, 3, 1, {})";
    assert_eq!(run(&mut sandbox, moved), Ok("3".to_owned()));
    assert_eq!(
        run(&mut sandbox, "return ('ab'):rep(2)"),
        Ok("abab".to_owned())
    );
}

/// Nothing leads out, and nothing stays for the next run.
#[test]
fn there_is_no_way_out() {
    let mut sandbox = sandbox();
    for name in [
        "os",
        "io",
        "debug",
        "require",
        "loadstring",
        "load",
        "dofile",
        "getfenv",
        "setfenv",
        "collectgarbage",
        "print",
        "newproxy",
        "package",
    ] {
        let text = format!("return tostring({name})");
        assert_eq!(run(&mut sandbox, &text), Ok("nil".to_owned()), "{name}");
    }
    for text in [
        "string.rep = nil",
        "table.insert = nil",
        "getmetatable('').__index = {}",
        "setmetatable(string, {})",
        "rawset(math, 'pi', 3)",
    ] {
        let result = run(&mut sandbox, text);
        assert!(
            matches!(result, Err(Trouble::Mistake(_))),
            "{text}: {result:?}"
        );
    }
    assert_eq!(
        run(&mut sandbox, "leak = 1 math2 = {} return leak"),
        Ok("1".to_owned())
    );
    assert_eq!(
        run(&mut sandbox, "return leak or 'gone'"),
        Ok("gone".to_owned())
    );
    assert_eq!(run(&mut sandbox, "_G.x = 1"), run(&mut sandbox, "_G.x = 1"));
}

/// Compiled code that came from elsewhere is text like any other here, and no good one.
#[test]
fn bytecode_is_refused() {
    let bytecode = Compiler::new().compile("return 1").unwrap();
    let text = String::from_utf8_lossy(&bytecode).into_owned();
    assert!(Script::compile("x.luau", &text).is_err());
}

#[test]
fn installed_functions_are_there_and_read_only() {
    let clock = Arc::new(Looked(AtomicU64::new(0)));
    let install = |lua: &Lua, globals: &Table| {
        let table = lua.create_table()?;
        table.set("answer", lua.create_function(|_, ()| Ok(42))?)?;
        globals.set("host", table)
    };
    let mut sandbox = Sandbox::new(MEMORY, clock, Box::new(install)).unwrap();
    assert_eq!(
        run(&mut sandbox, "return host.answer()"),
        Ok("42".to_owned())
    );
    assert!(run(&mut sandbox, "host.answer = nil").is_err());
}

/// Both texts are a stranger's. Compared place by place this takes hours, without a look at the
/// clock.
#[test]
fn searches_for_long_texts_in_long_ones_end() {
    let clock = Arc::new(Looked(AtomicU64::new(0)));
    let mut sandbox = Sandbox::new(128 << 20, clock, Box::new(|_, _| Ok(()))).unwrap();
    let texts = "local text = string.rep('a', 8000000)
                 local needle = string.rep('a', 4000000) .. 'b'\n";
    for (search, expected) in [
        ("return tostring(string.find(text, needle, 1, true))", "nil"),
        ("return tostring(text:find(needle))", "nil"),
        ("return tostring(#text:split(needle))", "1"),
    ] {
        let found = run(&mut sandbox, &format!("{texts}{search}"));
        assert_eq!(found, Ok(expected.to_owned()), "{search}");
    }
}

/// Whatever way a text is searched, what comes out is what Luau's own functions say.
#[test]
fn searches_say_what_those_of_luau_say() {
    let mut sandbox = sandbox();
    let script = "
        local needle = string.rep('x', 20)
        local text = string.rep('a', 50000) .. needle .. string.rep('b', 10) .. needle
        local dotted = string.rep('.', 20)
        local out = {}
        local function add(...) table.insert(out, table.concat({...}, ',')) end
        add(text:find(needle))
        add(text:find(needle, 50002))
        add(text:find(needle, -20, true))
        add(text:find(needle, -1000000))
        add(tostring(text:find(needle, 60000)))
        add(tostring(text:find(needle, -19)))
        add(text:find(needle, '2'))
        add(text:find(dotted))
        add(tostring(text:find(dotted, 1, true)))
        local parts = text:split(needle)
        add(#parts, #parts[1], parts[2], parts[3])
        add(#text:split(needle .. 'c'))
        return table.concat(out, ' ')";
    let expected = "50001,50020 50031,50050 50031,50050 50001,50020 nil nil 50001,50020 1,20 nil \
                    3,50000,bbbbbbbbbb, 1";
    assert_eq!(run(&mut sandbox, script), Ok(expected.to_owned()));
    for (text, expected) in [
        ("\nstring.find(nil, 'x')", "test.luau:2: "),
        ("\nstring.find('x')", "test.luau:2: "),
        ("\nstring.split(nil, 'x')", "test.luau:2: "),
    ] {
        let Err(Trouble::Mistake(said)) = run(&mut sandbox, text) else {
            panic!("{text} is a mistake");
        };
        assert!(said.starts_with(expected), "{said}");
    }
}
