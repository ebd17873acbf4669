//! Searches for one text in another that take time by their lengths added, not multiplied.
//!
//! The ones of Luau compare at every place, and do not look at the clock in the meantime: where a
//! stranger chooses both texts, megabytes of `a` keep a thread for hours. These ones pass once over
//! each, which the bound on memory makes short enough to need no clock. Short needles stay with
//! Luau, which is quicker at them than a call into this program.

use memchr::memmem;
use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

/// Replaces `string.find` and `string.split` by ones that are bounded.
pub(super) fn bound(lua: &Lua) -> mlua::Result<()> {
    let functions = (
        lua.create_function(
            |lua, (text, needle, init): (LuaString, LuaString, Option<f64>)| {
                find(lua, &text, &needle, init)
            },
        )?,
        lua.create_function(|lua, (text, separator): (LuaString, LuaString)| {
            split(lua, &text, &separator)
        })?,
        lua.create_function(|_, pattern: LuaString| Ok(is_plain(&pattern.as_bytes())))?,
    );
    lua.load(
        "local plain_find, plain_split, is_plain = ...
         local find, split = string.find, string.split
         local function is_dear(text, needle)
             return type(text) == 'string' and type(needle) == 'string' and #needle > 16
                 and #needle * #text > 1000000
         end
         string.find = function(text, pattern, init, plain)
             if is_dear(text, pattern) and (plain or is_plain(pattern)) then
                 return plain_find(text, pattern, init)
             end
             return find(text, pattern, init, plain)
         end
         string.split = function(text, separator)
             if is_dear(text, separator) then return plain_split(text, separator) end
             return split(text, separator)
         end",
    )
    .set_name("=sandbox")
    .call(functions)
}

/// Whether a pattern has none of the characters that mean something in it.
fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

/// As `string.find(text, needle, init, true)`: the first and the last place, or nil.
fn find(
    lua: &Lua,
    text: &LuaString,
    needle: &LuaString,
    init: Option<f64>,
) -> mlua::Result<MultiValue> {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    let from = begin(init.unwrap_or(1.0) as i64, text.len());
    let found = text
        .get(from..)
        .and_then(|rest| memmem::find(rest, &needle));
    match found.map(|at| from + at) {
        Some(at) => (at + 1, at + needle.len()).into_lua_multi(lua),
        None => Value::Nil.into_lua_multi(lua),
    }
}

/// What a script's first place means, which begins at 1 and counts from the end where it is
/// negative, as an offset.
fn begin(init: i64, len: usize) -> usize {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let place = match init {
        ..0 => init.saturating_add(len).saturating_add(1),
        _ => init,
    };
    usize::try_from(place.max(1) - 1).unwrap_or(usize::MAX)
}

/// As `string.split(text, separator)`, of a separator that is not empty.
fn split(lua: &Lua, text: &LuaString, separator: &LuaString) -> mlua::Result<Table> {
    let (text, separator) = (text.as_bytes(), separator.as_bytes());
    let parts = lua.create_table()?;
    let mut from = 0;
    for at in memmem::find_iter(&text, &separator) {
        parts.raw_push(lua.create_string(&text[from..at])?)?;
        from = at + separator.len();
    }
    parts.raw_push(lua.create_string(&text[from..])?)?;
    Ok(parts)
}
