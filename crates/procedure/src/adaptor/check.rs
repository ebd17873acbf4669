//! Adaptors without a server: checking a file, and the operator's own tests of it.

use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mlua::{Error, Function, Lua, Table, Value};

use super::interface::{MARK, Outbox, Used, install, lock};
use super::machine::{Machine, Spent, end};
use super::source::{Source, label, read};
use super::values::verdict;
use super::{Counters, HOOKS, OnError, Options};
use crate::luau::{Clock, Resident, Script, Trouble};
use crate::net::Trust;

/// Type definitions of the interface, for editors.
pub const TYPES: &str = include_str!("adaptor.d.luau");

/// What a new adaptor begins as, and its tests.
pub const TEMPLATE: &str = include_str!("template.luau");
/// The tests of [`TEMPLATE`].
pub const TEMPLATE_TEST: &str = include_str!("template.test.luau");

/// How long one of the operator's tests may take.
const TEST_TIME: Duration = Duration::from_secs(10);
/// The memory of a file that is checked.
const MEMORY: usize = 64 << 20;
/// The longest payload that it makes: what a server takes by default.
const PAYLOAD_MAX: usize = 2 << 20;

/// What a file is checked with that no configuration is known of.
fn options(source: Source) -> Options {
    Options {
        id: 0,
        source,
        zone: "default".into(),
        has_timer: false,
        memory: MEMORY,
        time: Duration::from_secs(1),
        deadline: Duration::from_secs(5),
        hosts: Vec::new(),
        trust: Trust::default(),
        rate: u32::MAX,
        payload_max: Arc::new(AtomicUsize::new(PAYLOAD_MAX)),
        trials: Arc::default(),
        on_error: OnError::Deny,
    }
}

/// What became of one test: its name, and why it failed.
pub type Outcome = (String, Result<(), String>);

/// Compiles a script as a server would and runs its own test; returns the hooks that it has.
///
/// # Errors
/// What is wrong with it, with file and line.
pub fn check(source: &Source) -> Result<Vec<&'static str>, String> {
    let bits = Machine::load(&options(source.clone()), &Arc::default())?.bits();
    let has = |(bit, _): &(usize, &&str)| bits & (1 << bit) != 0;
    let hooks = HOOKS.iter().enumerate().filter(has);
    Ok(hooks.map(|(_, name)| *name).collect())
}

/// The part of the interface that tests have: what adaptors do is kept in a list.
const STAGE: &str = r#"
-- `again` begins a run, `judge` complains about a value that is not a verdict; the rest is the
-- interface as servers have it.
local MARK, resume, again, judge = ...
local check_publish, check_send = publish, send
local done, mocks = {}, {}
function publish(topic, payload, more)
    check_publish(topic, payload, more)
    table.insert(done, { what = "publish", topic = topic, payload = payload,
        retain = (more or {}).retain == true })
end
function send(to, payload, from)
    check_send(to, payload, from)
    table.insert(done, { what = "send", to = to, payload = payload, from = from or "server" })
end
function log(text) table.insert(done, { what = "log", text = text }) end
local clock = 1000000
function now() return clock end
stage = {
    mock = function(what, answer) mocks[what] = answer end,
    clock = function(seconds) clock = seconds end,
    run = function(adaptor, hook, event)
        done = {}
        again()
        local thread = coroutine.create(adaptor[hook] or error("there is no hook " .. hook, 3))
        local function step(ok, ...)
            if not ok then error((...), 0) end
            if coroutine.status(thread) == "dead" then return (...) end
            local mark, what, first, second, third = ...
            if not rawequal(mark, MARK) then
                error("a hook yields by http, room and call only", 0)
            end
            local mock = mocks[what]
            if not mock then error("the hook calls " .. what .. ": mock it first", 0) end
            return step(resume(thread, mock(first, second, third)))
        end
        local said = step(resume(thread, event or {}))
        judge(hook, said)
        if said == nil or said == true then said = allow() end
        return said, done
    end,
}
"#;

/// Runs the operator's tests of a file: a table of functions by name, each called with `run(hook,
/// event)`, which returns what the hook says and the list of what it does, and `mock(what, answer)`
/// for `http`, `room`, `call`, and `clock(seconds)`.
///
/// # Errors
/// When a file cannot be used at all.
pub fn test(path: &Path, tests: &Path) -> Result<Vec<Outcome>, String> {
    let clock = Arc::new(Spent::default());
    let end = || end(&clock, TEST_TIME);
    let script = Script::compile(&label(path), &read(path)?)?;
    let (options, name) = (options(Source::File(path.to_owned())), label(path));
    let install = move |lua: &Lua, globals: &Table| {
        let counters = Arc::<Counters>::default();
        let outbox = Arc::new(Mutex::new(Outbox::new(&options, &counters)));
        let resume = install(lua, globals, &outbox, &name)?;
        let again = move |_: &Lua, ()| {
            let mut outbox = lock(&outbox);
            outbox.actions.clear();
            outbox.used = Used::default();
            Ok(())
        };
        let mark: Table = lua.named_registry_value(MARK)?;
        let stage = lua.load(STAGE).set_name("=stage");
        let judge = |_: &Lua, (hook, said): (String, Value)| {
            verdict(&hook, said, |_| Ok(()))?;
            Ok(())
        };
        let (again, judge) = (lua.create_function(again)?, lua.create_function(judge)?);
        stage.call::<()>((mark, resume, again, judge))
    };
    let tests = Script::compile(&label(tests), &read(tests)?)?;
    let begin = || {
        let clock = Arc::clone(&clock) as Arc<dyn Clock>;
        Resident::start(MEMORY, clock, &install, &script, end())
    };
    let told = |trouble: Trouble| trouble.to_string();
    let (machine, _) = begin().map_err(told)?;
    let cases = machine.load(&tests, end()).map_err(told)?;
    let names = machine.run(end(), |_| names(cases)).map_err(told)?;
    let mut outcomes = Vec::new();
    for name in names {
        // Each test has an adaptor of its own.
        let (machine, adaptor) = begin().map_err(told)?;
        let cases = machine.load(&tests, end()).map_err(told)?;
        let result = machine.run(end(), |lua| {
            let stage: Table = lua.globals().get("stage")?;
            let run = stage.get::<Function>("run")?.bind(adaptor)?;
            let (mock, clock): (Function, Function) = (stage.get("mock")?, stage.get("clock")?);
            let case: Function = table(cases)?.get(name.as_str())?;
            case.call::<()>((run, mock, clock))
        });
        outcomes.push((name, result.map_err(told)));
    }
    Ok(outcomes)
}

fn table(value: Value) -> mlua::Result<Table> {
    match value {
        Value::Table(table) => Ok(table),
        _ => Err(Error::runtime(
            "the tests end with `return` and a table of functions",
        )),
    }
}

/// The names of the tests, sorted.
fn names(cases: Value) -> mlua::Result<Vec<String>> {
    let mut names = Vec::new();
    for pair in table(cases)?.pairs::<String, Function>() {
        names.push(pair?.0);
    }
    names.sort_unstable();
    Ok(names)
}
