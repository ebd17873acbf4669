//! What scripts of adaptors find: functions that publish, send, tell the time, write JSON.
//!
//! All of it runs outside of the sandbox's bounds on time and memory, so it has its own.

use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Error, Lua, LuaSerdeExt, LuaString, Table, Value};
use serde_json::{Map, Number};

use super::Action;

/// The part of the interface that is itself Luau.
pub(super) const PRELUDE: &str = include_str!("prelude.luau");

/// Actions of one run, and their bytes in all.
const ACTIONS_MAX: usize = 1_000;
const ACTION_BYTES_MAX: usize = 4 << 20;
/// The longest line that a script writes to the log, and the longest reason for people.
pub(super) const TEXT_BYTES_MAX: usize = 1_000;
/// The longest JSON that is read or written.
const JSON_BYTES_MAX: usize = 1 << 20;
/// Tables in tables.
const DEPTH_MAX: usize = 64;

/// What a run has done, until somebody does it.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) actions: Vec<Action>,
    pub(super) bytes: usize,
}

impl Outbox {
    fn put(&mut self, action: Action, bytes: usize) -> mlua::Result<()> {
        self.bytes += bytes;
        if self.actions.len() >= ACTIONS_MAX || self.bytes > ACTION_BYTES_MAX {
            let reason = "one run publishes and sends no more than this";
            return Err(Error::runtime(reason));
        }
        self.actions.push(action);
        Ok(())
    }
}

/// Makes the interface of scripts.
pub(super) fn install(
    lua: &Lua,
    globals: &Table,
    outbox: &Arc<Mutex<Outbox>>,
    name: &str,
) -> mlua::Result<()> {
    lua.load(PRELUDE).set_name("=prelude").exec()?;
    install_actions(lua, globals, outbox)?;
    globals.set("now", lua.create_function(|_, ()| Ok(now()))?)?;
    let name = name.to_owned();
    let log = move |_: &Lua, text: LuaString| {
        let text = crate::answer::line(&text.to_string_lossy(), TEXT_BYTES_MAX);
        tracing::info!(adaptor = name, "{text}");
        Ok(())
    };
    globals.set("log", lua.create_function(log)?)?;
    install_json(lua, globals)
}

fn install_actions(lua: &Lua, globals: &Table, outbox: &Arc<Mutex<Outbox>>) -> mlua::Result<()> {
    // Every step leaves it whole.
    let put = |outbox: &Mutex<Outbox>, action, bytes| {
        let mut outbox = outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.put(action, bytes)
    };
    let own = Arc::clone(outbox);
    let publish = move |_: &Lua, (topic, payload, more): (String, LuaString, Option<Table>)| {
        let is_wrong = topic.contains(['+', '#', '\0']) || topic.is_empty();
        if is_wrong || topic.len() > 65_535 {
            return Err(Error::runtime("publish: this is no topic name"));
        }
        let retain = match more {
            Some(more) => more.get::<Option<bool>>("retain")?.unwrap_or(false),
            None => false,
        };
        let payload = payload.as_bytes().to_vec();
        let bytes = topic.len() + payload.len();
        let action = Action::Publish {
            topic,
            payload,
            retain,
        };
        put(&own, action, bytes)
    };
    globals.set("publish", lua.create_function(publish)?)?;
    let own = Arc::clone(outbox);
    let send = move |_: &Lua, (to, payload, from): (String, LuaString, Option<String>)| {
        let from = from.unwrap_or_else(|| "server".to_owned());
        if to.is_empty() || from.is_empty() || to.len().max(from.len()) > 1_024 {
            return Err(Error::runtime("send: this is no user"));
        }
        let payload = payload.as_bytes().to_vec();
        let bytes = to.len() + from.len() + payload.len();
        put(&own, Action::Send { to, from, payload }, bytes)
    };
    globals.set("send", lua.create_function(send)?)
}

/// Makes `json`.
pub(super) fn install_json(lua: &Lua, globals: &Table) -> mlua::Result<()> {
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
    globals.set("json", json)
}

/// A value of plain values, of at most so many bytes: a script can make a table that refers to one
/// long text a million times.
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
    let is_array = table.raw_len() > 0 || table.metatable() == Some(lua.array_metatable());
    if is_array {
        let mut all = Vec::new();
        for value in table.sequence_values::<Value>() {
            all.push(plain_within(lua, &value?, left, depth)?);
        }
        return Ok(all.into());
    }
    let mut all = Map::new();
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        let name = match &name {
            Value::String(name) => name.to_string_lossy(),
            Value::Integer(number) => number.to_string(),
            Value::Number(number) => number.to_string(),
            _ => return Err(Error::runtime("names in JSON are texts")),
        };
        take(left, name.len())?;
        all.insert(name, plain_within(lua, &value, left, depth)?);
    }
    Ok(all.into())
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
