//! What scripts of adaptors find: functions that publish, send, tell the time, write JSON.
//!
//! All of it runs outside of the sandbox's bounds on time and memory, so it has its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mlua::{Error, Function, Lua, LuaSerdeExt, LuaString, Table, Value};
use serde_json::{Map, Number};

use super::{Action, Counters, Options};
use crate::pace::{LINES_PER_RUN, Lines, Pace};

/// The key that distinguishes `allow` from `deny`.
pub(super) const VERDICT: &str = "verdict";
/// The part of the interface that is itself Luau.
const PRELUDE: &str = include_str!("prelude.luau");
/// The name under which a machine keeps the mark before the values that hooks yield to the host.
pub(super) const MARK: &str = "mark";

/// Messages of one run, and their bytes in all.
const MESSAGES_MAX: u32 = 1_000;
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Answers that one run waits for.
const WAITS_MAX: u32 = 100;
/// The longest topic.
const TOPIC_BYTES_MAX: usize = 65_535;
/// The longest line that a script writes to the log, and the longest reason for people.
pub(super) const TEXT_BYTES_MAX: usize = 1_000;
/// The longest JSON that is read or written.
const JSON_BYTES_MAX: usize = 1 << 20;
/// Tables in tables.
const DEPTH_MAX: usize = 64;

/// What a run has used of what it may, however often it has waited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    messages: u32,
    message_bytes: usize,
    lines: u32,
    waits: u32,
    /// Milliseconds of computing.
    pub(super) millis: u64,
}

/// What the run of a machine has done, until somebody does it, and how much more it may do.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) actions: Vec<Action>,
    pub(super) used: Used,
    per_second: u32,
    pace: Pace,
    lines: Lines,
    payload_max: Arc<AtomicUsize>,
    counters: Arc<Counters>,
}

/// A machine's, shared with the functions in it.
pub(super) type Shared = Arc<Mutex<Outbox>>;

/// Every step leaves it whole.
pub(super) fn lock(outbox: &Mutex<Outbox>) -> MutexGuard<'_, Outbox> {
    outbox.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbox {
    pub(super) fn new(options: &Options, counters: &Arc<Counters>) -> Self {
        Self {
            actions: Vec::new(),
            used: Used::default(),
            per_second: options.rate,
            pace: Pace::new(options.rate),
            lines: Lines::new(),
            payload_max: Arc::clone(&options.payload_max),
            counters: Arc::clone(counters),
        }
    }

    fn put(&mut self, what: &str, action: Action, bytes: usize) -> mlua::Result<()> {
        self.used.messages += 1;
        self.used.message_bytes += bytes;
        let is_much = self.used.message_bytes > MESSAGE_BYTES_MAX;
        if self.used.messages > MESSAGES_MAX || is_much {
            return Err(self.refuse(&format!(
                "{what}: one run of a hook publishes and sends at most {MESSAGES_MAX} messages \
                 of {MESSAGE_BYTES_MAX} bytes in all"
            )));
        }
        self.count(what)?;
        self.actions.push(action);
        Ok(())
    }

    /// Something is asked of the host whose answer is waited for.
    fn wait(&mut self, what: &str) -> mlua::Result<()> {
        self.used.waits += 1;
        if self.used.waits > WAITS_MAX {
            return Err(self.refuse(&format!(
                "{what}: one run of a hook waits for at most {WAITS_MAX} answers"
            )));
        }
        self.count(what)
    }

    fn count(&mut self, what: &str) -> mlua::Result<()> {
        if self.pace.take(Instant::now()) {
            return Ok(());
        }
        let rate = self.per_second;
        Err(self.refuse(&format!(
            "{what}: more than {rate} messages and calls in a second (adaptor.rate)"
        )))
    }

    fn line(&mut self, name: &str, text: &str) -> mlua::Result<()> {
        self.used.lines += 1;
        if self.used.lines > LINES_PER_RUN {
            return Err(self.refuse(&format!(
                "log: one run of a hook writes at most {LINES_PER_RUN} lines"
            )));
        }
        match self.lines.admit(Instant::now()) {
            Some(suppressed) => {
                self.tell_suppressed(name, suppressed);
                tracing::info!(adaptor = name, "{text}");
            }
            None => drop(self.counters.suppressed.fetch_add(1, Ordering::Relaxed)),
        }
        Ok(())
    }

    /// Tells how many lines the log does not have, if there are any.
    pub(super) fn flush(&mut self, name: &str) {
        let suppressed = self.lines.take_suppressed();
        self.tell_suppressed(name, suppressed);
    }

    fn tell_suppressed(&self, name: &str, suppressed: u64) {
        if suppressed > 0 {
            tracing::warn!(adaptor = name, "{suppressed} lines of its log suppressed");
        }
    }

    fn refuse(&self, reason: &str) -> Error {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        Error::runtime(reason)
    }

    /// Complains about a payload that no client could have sent.
    pub(super) fn check_payload(&self, what: &str, bytes: usize) -> mlua::Result<()> {
        let max = self.payload_max.load(Ordering::Relaxed);
        if bytes <= max {
            return Ok(());
        }
        Err(Error::runtime(format!(
            "{what}: the payload has {bytes} bytes; at most {max} go into a packet \
             (limits.packet_bytes)"
        )))
    }
}

/// Makes the interface of scripts. Returns `coroutine.resume` as it was, which sees what hooks
/// yield.
pub(super) fn install(
    lua: &Lua,
    globals: &Table,
    outbox: &Shared,
    name: &str,
) -> mlua::Result<Function> {
    let mark = lua.create_table()?;
    lua.set_named_registry_value(MARK, &mark)?;
    let own = Arc::clone(outbox);
    let check = move |_: &Lua, (what, payload): (String, LuaString)| {
        lock(&own).check_payload(&what, payload.as_bytes().len())
    };
    let own = Arc::clone(outbox);
    let count = move |_: &Lua, what: String| lock(&own).wait(&what);
    let (check, count) = (lua.create_function(check)?, lua.create_function(count)?);
    let prelude = lua.load(PRELUDE).set_name("=prelude");
    let resume: Function = prelude.call((mark, check, count))?;
    install_actions(lua, globals, outbox)?;
    globals.set("now", lua.create_function(|_, ()| Ok(now()))?)?;
    let (own, name) = (Arc::clone(outbox), name.to_owned());
    let log = move |_: &Lua, text: LuaString| {
        let text = crate::answer::line(&text.to_string_lossy(), TEXT_BYTES_MAX);
        lock(&own).line(&name, &text)
    };
    globals.set("log", lua.create_function(log)?)?;
    install_json(lua, globals)?;
    Ok(resume)
}

/// Complains about keys of a table that nobody reads: they are mistyped.
pub(super) fn check_keys(what: &str, table: &Table, known: &[&str]) -> mlua::Result<()> {
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        let name = match &key {
            Value::String(name) => name.to_string_lossy(),
            other => other.type_name().to_owned(),
        };
        if name != VERDICT && !known.contains(&name.as_str()) {
            let reason = match known {
                [] => format!("{what}: there is no {name:?}, nor anything else"),
                known => format!(
                    "{what}: there is no {name:?}; there is {}",
                    known.join(", ")
                ),
            };
            return Err(Error::runtime(reason));
        }
    }
    Ok(())
}

/// Complains about a topic to which adaptors cannot publish.
fn check_topic(topic: &str, retain: bool) -> mlua::Result<()> {
    let wrong = |reason: &str| Err(Error::runtime(format!("publish: {topic:?} {reason}")));
    if topic.len() > TOPIC_BYTES_MAX {
        return Err(Error::runtime(
            "publish: the topic has more than 65535 bytes",
        ));
    }
    if topic.is_empty() || topic.contains(['+', '#', '\0']) {
        return wrong("is not a topic name: it is empty, or contains +, # or NUL");
    }
    if !topic.starts_with('$') {
        return Ok(());
    }
    let speaker = topic
        .strip_prefix("$room/")
        .and_then(|rest| rest.split_once("/say/"));
    match speaker {
        Some((room, name)) if is_level(room) && is_level(name) => {
            if retain {
                return wrong("is said in a room; that is not retained");
            }
            Ok(())
        }
        _ => wrong(
            "begins with $ and is the server's own; there are send for private messages, room \
             for rooms, and $room/ROOM/say/NAME",
        ),
    }
}

fn is_level(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

fn install_actions(lua: &Lua, globals: &Table, outbox: &Shared) -> mlua::Result<()> {
    let own = Arc::clone(outbox);
    let publish = move |_: &Lua, (topic, payload, more): (String, LuaString, Option<Table>)| {
        let retain = match more {
            Some(more) => {
                check_keys("publish", &more, &["retain"])?;
                more.get::<Option<bool>>("retain")?.unwrap_or(false)
            }
            None => false,
        };
        check_topic(&topic, retain)?;
        let bytes = topic.len() + payload.as_bytes().len();
        let mut outbox = lock(&own);
        outbox.check_payload("publish", payload.as_bytes().len())?;
        let action = Action::Publish {
            topic,
            payload: payload.as_bytes().to_vec(),
            retain,
        };
        outbox.put("publish", action, bytes)
    };
    globals.set("publish", lua.create_function(publish)?)?;
    let own = Arc::clone(outbox);
    let send = move |_: &Lua, (to, payload, from): (String, LuaString, Option<String>)| {
        let from = from.unwrap_or_else(|| "server".to_owned());
        if to.is_empty() || from.is_empty() || to.len().max(from.len()) > 1_024 {
            return Err(Error::runtime(
                "send: not a user: a name has 1 to 1024 bytes",
            ));
        }
        let bytes = to.len() + from.len() + payload.as_bytes().len();
        let mut outbox = lock(&own);
        outbox.check_payload("send", payload.as_bytes().len())?;
        let payload = payload.as_bytes().to_vec();
        outbox.put("send", Action::Send { to, from, payload }, bytes)
    };
    globals.set("send", lua.create_function(send)?)
}

/// Makes `json`.
fn install_json(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    let decode = |lua: &Lua, text: LuaString| {
        let text = text.as_bytes();
        if text.len() > JSON_BYTES_MAX {
            return Err(Error::runtime("json.decode: more than 1 MiB"));
        }
        match serde_json::from_slice::<serde_json::Value>(&text) {
            Ok(value) => lua.to_value(&value),
            Err(_) => Ok(Value::Nil),
        }
    };
    let encode = |lua: &Lua, value: Value| Ok(plain(lua, &value, JSON_BYTES_MAX)?.to_string());
    let json = lua.create_table()?;
    json.set("decode", lua.create_function(decode)?)?;
    json.set("encode", lua.create_function(encode)?)?;
    json.set("null", lua.null())?;
    globals.set("json", json)
}

/// A value of plain values, of at most this many bytes: a script can make a table that refers to
/// one long text a million times.
///
/// # Errors
/// When there is more to it, or a function or the like in it.
pub(super) fn plain(lua: &Lua, value: &Value, bytes_max: usize) -> mlua::Result<serde_json::Value> {
    let mut left = bytes_max;
    plain_within(lua, value, &mut left, DEPTH_MAX)
}

fn plain_within(
    lua: &Lua,
    value: &Value,
    left: &mut usize,
    depth: usize,
) -> mlua::Result<serde_json::Value> {
    use serde_json::Value as Json;
    // A value takes a few bytes however short it is.
    take(left, 8)?;
    match value {
        Value::Nil => Ok(Json::Null),
        value if value.is_null() => Ok(Json::Null),
        Value::Boolean(flag) => Ok(Json::Bool(*flag)),
        Value::Integer(number) => Ok(Json::from(*number)),
        Value::Number(number) => {
            let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
            if is_whole {
                return Ok(Json::from(*number as i64));
            }
            let number = Number::from_f64(*number);
            let number = number.ok_or_else(|| Error::runtime("JSON has no such number"))?;
            Ok(Json::Number(number))
        }
        Value::String(text) => {
            take(left, text.as_bytes().len())?;
            Ok(Json::String(text.to_string_lossy()))
        }
        Value::Table(table) if depth > 0 => table_within(lua, table, left, depth - 1),
        Value::Table(_) => Err(Error::runtime("there are too many tables in tables")),
        other => {
            let reason = format!("JSON has no {}", other.type_name());
            Err(Error::runtime(reason))
        }
    }
}

fn table_within(
    lua: &Lua,
    table: &Table,
    left: &mut usize,
    depth: usize,
) -> mlua::Result<serde_json::Value> {
    let len = table.raw_len();
    if len > 0 || table.metatable() == Some(lua.array_metatable()) {
        check_list(table, len)?;
        let mut all = Vec::new();
        for place in 1..=len {
            let value = table.raw_get::<Value>(place)?;
            all.push(plain_within(lua, &value, left, depth)?);
        }
        return Ok(all.into());
    }
    let mut all = Map::new();
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        let Value::String(name) = &name else {
            return Err(odd_key(&name));
        };
        let name = name.to_string_lossy();
        take(left, name.len())?;
        all.insert(name, plain_within(lua, &value, left, depth)?);
    }
    Ok(all.into())
}

/// Complains about what a list in JSON would leave out: other keys than 1 to `len`, and gaps.
fn check_list(table: &Table, len: usize) -> mlua::Result<()> {
    let mut count = 0;
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        let place = match &key {
            Value::Integer(number) => usize::try_from(*number).ok(),
            Value::Number(number) if number.fract() == 0.0 => Some(*number as usize),
            _ => None,
        };
        if !place.is_some_and(|place| (1..=len).contains(&place)) {
            return Err(odd_key(&key));
        }
        count += 1;
    }
    if count == len {
        return Ok(());
    }
    let is_gap = |place: &usize| matches!(table.raw_get(*place), Ok(Value::Nil));
    let gap = (1..=len).find(is_gap).unwrap_or_default();
    Err(Error::runtime(format!(
        "JSON has no list with a gap, and this one has nothing at {gap}; json.null fills it"
    )))
}

/// That a table is neither a list nor has texts as keys.
fn odd_key(key: &Value) -> Error {
    let shown = match key {
        Value::String(name) => format!("{:?}", name.to_string_lossy()),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        other => format!("that is a {}", other.type_name()),
    };
    Error::runtime(format!(
        "JSON has no table with the key {shown}: the keys are 1 to N without a gap, or all of them \
         texts; tostring makes one of a number"
    ))
}

fn take(left: &mut usize, bytes: usize) -> mlua::Result<()> {
    let Some(rest) = left.checked_sub(bytes) else {
        return Err(Error::runtime(
            "there is too much in it to be written as JSON",
        ));
    };
    *left = rest;
    Ok(())
}

/// Seconds since 1970, with a fraction.
fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}
