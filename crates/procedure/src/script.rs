//! Procedures in Luau.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mlua::{Error, Function, Lua, LuaString, Table, Value};
use stentor_call_protocol::limits::RESULT_BYTES_MAX;
use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Outcome};
use crate::call::Call;
use crate::luau::{Clock, Sandbox, Script, Trouble};
use crate::manifest::{Grant, Kind, Manifest};
use crate::modules::{self, LOOP_HEADER, Moment};
use crate::outside::Outside;
use crate::queue::Runner;
use crate::store::{Shelf, TTL_SECS_MAX};
use crate::view::{Changes, View};
use crate::watchdog::Time;

/// How long a script's own test may take.
pub(crate) const TEST_TIME: Duration = Duration::from_secs(5);
/// How much earlier than its call a script ends.
const MARGIN: Duration = Duration::from_millis(20);
/// The largest amount that is added to a number at once: as far as a script's numbers are exact.
const AMOUNT_MAX: i64 = 1 << 53;
/// As much as a mistake shows of a text that should be a number.
const SHOWN_BYTES_MAX: usize = 40;
/// The longest line that a script writes to the log.
const LOG_BYTES_MAX: usize = 1000;

impl Clock for Time {
    fn now_ms(&self) -> u64 {
        Self::now_ms(self)
    }
}

/// What all threads of a script share.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) script: Script,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) time: Arc<Time>,
    /// With the grant.
    pub(crate) shelf: Option<Arc<Shelf>>,
    /// The servers that modules may turn to.
    pub(crate) outside: Arc<Outside>,
}

impl Program {
    /// What went wrong, with the grant that the line may lack: without it a module is just not
    /// there.
    fn explain(&self, trouble: &Trouble) -> String {
        let told = trouble.told(self.script.name());
        let is_missing =
            told.contains("attempt to call a nil value") || told.contains("attempt to index nil");
        match self.lacking(&told).filter(|_| is_missing) {
            Some(module) => {
                format!("{told}; `{module}` needs `grants = [\"{module}\"]` in the manifest")
            }
            None => told,
        }
    }

    /// A module that is not granted and that is in the line of which a text tells.
    fn lacking(&self, told: &str) -> Option<&'static str> {
        let Kind::Luau(text) = &self.manifest.kind else {
            return None;
        };
        let mut parts = told.strip_prefix(self.script.name())?.splitn(3, ':');
        let number: usize = parts.nth(1)?.parse().ok()?;
        let line = text.lines().nth(number.checked_sub(1)?)?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut words = line.split(|c| !is_word(c));
        words.find_map(|word| {
            let grant = Grant::ALL.into_iter().find(|grant| grant.name() == word)?;
            (!self.manifest.grants.contains(&grant)).then_some(grant.name())
        })
    }

    /// Whether the message was sent by a procedure, or may have been for all that can be read of
    /// it; looked at only where mail can be sent.
    fn is_echo(&self, call: &Call) -> bool {
        let name = LOOP_HEADER.as_bytes();
        let is_mark = |line: &[u8]| {
            let start = line.get(..name.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        self.manifest.grants.contains(&Grant::Mail)
            && call.message.headers().map_or(true, |headers| {
                headers.split(|byte| *byte == b'\n').any(is_mark)
            })
    }
}

/// One thread's sandbox for a script.
pub(crate) struct ScriptRunner {
    program: Arc<Program>,
    sandbox: Sandbox,
    moment: Moment,
}

impl ScriptRunner {
    /// # Errors
    /// When the sandbox does not fit into the manifest's memory.
    pub(crate) fn new(program: &Arc<Program>) -> Result<Self, String> {
        let memory = usize::try_from(program.manifest.memory).unwrap_or(usize::MAX);
        let (own, moment) = (Arc::clone(program), Moment::new());
        let now = moment.clone();
        let install = Box::new(move |lua: &Lua, globals: &Table| {
            modules::install(lua, globals, &own.name, &own.manifest, &own.outside, &now)?;
            install(lua, globals, &own, &now)
        });
        let sandbox = Sandbox::new(memory, Arc::clone(&program.time) as _, install)
            .map_err(|trouble| trouble.told(program.script.name()))?;
        Ok(Self {
            program: Arc::clone(program),
            sandbox,
            moment,
        })
    }

    /// Runs the script's text and its own test, as before it replaces another version: with a
    /// program that shares its shelf with no other.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub(crate) fn test(&mut self) -> Result<(), String> {
        let end = Instant::now() + TEST_TIME;
        self.moment.begin(end, false);
        let until = self.program.time.at(end);
        let run = |_: &Lua, value: Value| match Entry::of(value)?.test {
            Some(test) => test.call::<()>(()),
            None => Ok(()),
        };
        self.sandbox
            .run(&self.program.script, until, run)
            .map_err(|trouble| self.program.explain(&trouble))
    }
}

/// What a script returns: its function, or a table with `call` and `test`.
struct Entry {
    call: Function,
    test: Option<Function>,
}

impl Entry {
    fn of(value: Value) -> mlua::Result<Self> {
        match value {
            Value::Function(call) => Ok(Self { call, test: None }),
            Value::Table(table) => Ok(Self {
                call: table.get("call").map_err(|_| wrong_entry())?,
                test: table.get("test").map_err(|_| wrong_entry())?,
            }),
            _ => Err(wrong_entry()),
        }
    }
}

fn wrong_entry() -> Error {
    Error::runtime("a script ends with `return function(call) … end`, or a table with `call`")
}

impl Runner for ScriptRunner {
    fn run(&mut self, call: &Call) -> Answer {
        let program = &self.program;
        let end = call
            .deadline
            .min(Instant::now() + program.manifest.deadline);
        // A little earlier than the watchdog, which cannot tell where the script was.
        let left = end.saturating_duration_since(Instant::now());
        let end = end.checked_sub(MARGIN.min(left / 10)).unwrap_or(end);
        self.moment.begin(end, program.is_echo(call));
        let until = program.time.at(end);
        let changes = Changes::default();
        let run = |lua: &Lua, value: Value| {
            let entry = Entry::of(value)?;
            let returned: Value = lua.scope(|scope| {
                let view = View::new(call, &program.manifest, changes.clone());
                let shown = scope.create_userdata(view)?;
                entry.call.call(shown)
            })?;
            outcome(&returned)
        };
        let file = program.script.name();
        match self.sandbox.run(&program.script, until, run) {
            Ok(outcome) => finish(outcome, &changes, file),
            // A module that waits until the end says so as a mistake.
            Err(Trouble::Mistake(text)) if Instant::now() >= end => {
                let place = text.split(": ").next().unwrap_or_default();
                let place = if place.starts_with(file) { place } else { "" };
                let late = Trouble::Time(place.to_owned());
                Answer::failed(Status::TimedOut, &late.told(file))
            }
            Err(trouble @ Trouble::Time(_)) => {
                Answer::failed(Status::TimedOut, &trouble.told(file))
            }
            Err(trouble) => Answer::failed(Status::Failed, &program.explain(&trouble)),
        }
    }
}

/// Puts the changes into the outcome.
fn finish(mut outcome: Outcome, changes: &Changes, file: &str) -> Answer {
    match changes.take() {
        // A message that does not pass needs no changes.
        Ok(changes) if outcome.verdict == Verdict::Accept && !changes.is_empty() => {
            outcome.verdict = Verdict::Modified;
            outcome.changes = changes;
            Answer::done(outcome)
        }
        Ok(_) => Answer::done(outcome),
        Err(reason) => Answer::failed(Status::Failed, &format!("{file}: {reason}")),
    }
}

/// Reads what a script returned: a verdict's name, or a table with `verdict`, `text`, `code`,
/// `status`, `result`.
fn outcome(value: &Value) -> mlua::Result<Outcome> {
    let wrong = |what: &str| {
        Error::runtime(format!(
            "the script returned {what}; return accept(), reject(text) and so on"
        ))
    };
    let name = |name: &str| match Verdict::from_name(name) {
        Some(Verdict::Modified) | None => Err(wrong(&format!("\"{name}\""))),
        Some(verdict) => Ok(verdict),
    };
    match value {
        Value::String(text) => Ok(Outcome::of(name(&text.to_string_lossy())?, "")),
        Value::Table(table) => {
            let bytes = |key: &str| match table.get::<Value>(key)? {
                Value::Nil => Ok(None),
                Value::String(text) => Ok(Some(text.as_bytes().to_vec())),
                Value::Integer(number) => Ok(Some(number.to_string().into_bytes())),
                Value::Number(number) => Ok(Some(number.to_string().into_bytes())),
                other => Err(wrong(&format!(
                    "a {key} that is a {}, no text",
                    other.type_name()
                ))),
            };
            let text = |key: &str| {
                let bytes = bytes(key)?;
                Ok::<_, Error>(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            };
            let verdict = text("verdict")?.ok_or_else(|| wrong("a table without a verdict"))?;
            let mut outcome = Outcome::of(name(&verdict)?, &text("text")?.unwrap_or_default());
            outcome.reply_code = reply_code(&table.get("code")?).map_err(|what| wrong(&what))?;
            if let Some(status) = text("status")? {
                outcome.set_enhanced(&status);
            }
            outcome.result = bytes("result")?.unwrap_or_default();
            if outcome.result.len() > RESULT_BYTES_MAX {
                return Err(wrong("a result of more than 1 MiB"));
            }
            Ok(outcome)
        }
        other => Err(wrong(other.type_name())),
    }
}

/// The SMTP reply code of a verdict; 0 if it has none.
fn reply_code(value: &Value) -> Result<u16, String> {
    if value.is_nil() {
        return Ok(0);
    }
    match whole(value, 400, 599) {
        Ok(code) => Ok(code as u16),
        Err(why) => Err(format!("a code that is {why}")),
    }
}

/// What scripts find: the verdicts, and the modules that the manifest grants.
fn install(
    lua: &Lua,
    globals: &Table,
    program: &Arc<Program>,
    moment: &Moment,
) -> mlua::Result<()> {
    for verdict in Verdict::ALL {
        if *verdict == Verdict::Modified {
            continue;
        }
        let make = move |lua: &Lua, (text, more): (Value, Value)| {
            let returned = match more {
                Value::Table(more) => more,
                Value::Nil => lua.create_table()?,
                other => {
                    return Err(Error::runtime(format!(
                        "{}(text, more): `more` is a table as in {{ code = 550 }}, no {}",
                        verdict.name(),
                        other.type_name()
                    )));
                }
            };
            returned.set("verdict", verdict.name())?;
            returned.set("text", text)?;
            Ok(returned)
        };
        globals.set(verdict.name(), lua.create_function(make)?)?;
    }
    globals.set(
        "now",
        lua.create_function(|_, ()| Ok(crate::store::now_secs()))?,
    )?;
    if program.manifest.grants.contains(&Grant::Log) {
        let (name, moment) = (program.name.clone(), moment.clone());
        let log = move |_: &Lua, text: String| {
            let text = crate::answer::line(&text, LOG_BYTES_MAX);
            moment.log(&name, &text)
        };
        globals.set("log", lua.create_function(log)?)?;
    }
    if let Some(shelf) = &program.shelf {
        globals.set("store", store(lua, shelf, moment)?)?;
    }
    Ok(())
}

fn store(lua: &Lua, shelf: &Arc<Shelf>, moment: &Moment) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let fail = |error: crate::store::StoreError| Error::runtime(format!("store: {error}"));
    let own = Arc::clone(shelf);
    // Reading is bounded by the time of the call; writing costs others.
    let get = move |lua: &Lua, key: LuaString| match own.get(&key.as_bytes()).map_err(fail)? {
        Some(value) => lua.create_string(value).map(Some),
        None => Ok(None),
    };
    table.set("get", lua.create_function(get)?)?;
    let (own, now) = (Arc::clone(shelf), moment.clone());
    let set = move |_: &Lua, (key, value, ttl): (LuaString, LuaString, Value)| {
        let ttl = ttl_secs("store.set", &ttl)?;
        now.ask("store")?;
        own.set(&key.as_bytes(), &value.as_bytes(), ttl)
            .map_err(fail)
    };
    table.set("set", lua.create_function(set)?)?;
    let (own, now) = (Arc::clone(shelf), moment.clone());
    let add = move |_: &Lua, (key, amount, ttl): (LuaString, Value, Value)| {
        let amount = whole(&amount, -AMOUNT_MAX, AMOUNT_MAX)
            .map_err(|why| Error::runtime(format!("store.add: n is {why}")))?;
        let ttl = ttl_secs("store.add", &ttl)?;
        now.ask("store")?;
        own.add(&key.as_bytes(), amount, ttl).map_err(fail)
    };
    table.set("add", lua.create_function(add)?)?;
    let (own, now) = (Arc::clone(shelf), moment.clone());
    let delete = move |_: &Lua, key: LuaString| {
        now.ask("store")?;
        own.delete(&key.as_bytes()).map_err(fail)
    };
    table.set("delete", lua.create_function(delete)?)?;
    Ok(table)
}

/// The time to live that a script gives a key, if it gives one.
fn ttl_secs(function: &str, value: &Value) -> mlua::Result<Option<u32>> {
    if value.is_nil() {
        return Ok(None);
    }
    match whole(value, 1, TTL_SECS_MAX.into()) {
        Ok(secs) => Ok(u32::try_from(secs).ok()),
        Err(why) => Err(Error::runtime(format!(
            "{function}: ttl (seconds) is {why}, or nil for no end"
        ))),
    }
}

/// A whole number that a script gives; otherwise what it is instead, and what it has to be.
fn whole(value: &Value, least: i64, most: i64) -> Result<i64, String> {
    let (number, shown) = match value {
        Value::Integer(number) => (*number as f64, number.to_string()),
        Value::Number(number) => (*number, number.to_string()),
        Value::String(text) => {
            let text = crate::answer::line(&text.to_string_lossy(), SHOWN_BYTES_MAX);
            (f64::NAN, format!("the text \"{text}\""))
        }
        Value::Nil => (f64::NAN, "nil".to_owned()),
        other => (f64::NAN, format!("a {}", other.type_name())),
    };
    if number.fract() == 0.0 && (least as f64..=most as f64).contains(&number) {
        return Ok(number as i64);
    }
    Err(format!(
        "{shown}; it is a whole number from {least} to {most}"
    ))
}

/// A call with nothing in it.
#[cfg(test)]
pub(crate) fn empty_call(procedure: &str) -> Call {
    Call {
        procedure: procedure.to_owned(),
        arguments: Vec::new(),
        envelope: crate::call::Envelope::default(),
        caller: crate::call::Caller::User {
            zone: "default".to_owned(),
            name: "test".to_owned(),
        },
        message: crate::message::Message::none(),
        deadline: Instant::now() + Duration::from_secs(60),
        can_edit: true,
        is_clients: false,
        outlet: None,
    }
}
