//! What goes in and out of a hook: events, verdicts, requests.

use mlua::{Error, Lua, LuaString, Table, Value};

use super::http::Request;
use super::interface::{TEXT_BYTES_MAX, VERDICT, check_keys};
use super::{Allowed, Event, Field, Verdict};

/// The longest body of a request.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Roles of a login, headers of a request, arguments of a call; and their bytes in all.
const ENTRIES_MAX: usize = 64;
const ENTRY_BYTES_MAX: usize = 64 << 10;

/// An event as a hook sees it.
pub(super) fn show(lua: &Lua, event: &Event) -> mlua::Result<Table> {
    let shown = lua.create_table()?;
    shown.set("zone", &*event.zone)?;
    for (name, field) in &event.fields {
        match field {
            Field::Bytes(bytes) => shown.set(*name, lua.create_string(bytes)?)?,
            Field::Number(number) => shown.set(*name, *number)?,
            Field::Flag(flag) => shown.set(*name, *flag)?,
            Field::Texts(texts) => {
                let table = lua.create_table()?;
                for (name, text) in texts {
                    table.set(&**name, &**text)?;
                }
                shown.set(*name, table)?;
            }
        }
    }
    Ok(shown)
}

pub(super) fn text(value: &Value, what: &str) -> mlua::Result<String> {
    match value.as_string().map(|text| text.to_string_lossy()) {
        Some(text) if text.len() <= 65_535 => Ok(text),
        _ => Err(Error::runtime(format!(
            "{what} must be a text of up to 65535 bytes"
        ))),
    }
}

pub(super) fn bytes(value: &Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        other => Err(Error::runtime(format!(
            "a payload must be a text, not a {}",
            other.type_name()
        ))),
    }
}

/// Texts by name: no more than anybody needs.
pub(super) fn pairs(table: &Table, what: &str) -> mlua::Result<Vec<(String, String)>> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    for pair in table.pairs::<LuaString, LuaString>() {
        let (name, value) = pair?;
        bytes += name.as_bytes().len() + value.as_bytes().len();
        if all.len() == ENTRIES_MAX || bytes > ENTRY_BYTES_MAX {
            let reason = format!("there are at most {ENTRIES_MAX} {what}, of 64 KiB in all");
            return Err(Error::runtime(reason));
        }
        all.push((name.to_string_lossy(), value.to_string_lossy()));
    }
    Ok(all)
}

fn roles(verdict: &Table) -> mlua::Result<Option<Vec<String>>> {
    let Some(table) = verdict.raw_get::<Option<Table>>("roles")? else {
        return Ok(None);
    };
    let mut roles = Vec::new();
    for role in table.sequence_values::<LuaString>() {
        let role = role?;
        if roles.len() == ENTRIES_MAX || role.as_bytes().len() > 1_024 {
            let reason = format!("there are at most {ENTRIES_MAX} roles, each a name");
            return Err(Error::runtime(reason));
        }
        roles.push(role.to_string_lossy());
    }
    Ok(Some(roles))
}

/// What `allow` may change of what a hook judges.
fn changes(hook: &str) -> &'static [&'static str] {
    match hook {
        "publish" => &["to", "payload", "notification", "response"],
        "say" => &["payload", "notification", "response"],
        "private" => &["to", "payload", "notification", "response"],
        "call" => &["payload", "result"],
        "login" => &["roles"],
        _ => &[],
    }
}

/// Reads what a hook returned. No code of the script runs in the meantime: its metamethods are
/// passed over.
pub(super) fn verdict(
    hook: &str,
    value: Value,
    check_payload: impl Fn(usize) -> mlua::Result<()>,
) -> mlua::Result<Verdict> {
    let wrong = || Error::runtime("a hook returns nothing, true, allow{…}, or deny(reason)");
    let table = match value {
        Value::Nil | Value::Boolean(true) => return Ok(Verdict::Allow(Allowed::default())),
        Value::Table(table) => table,
        _ => return Err(wrong()),
    };
    let name: String = table.raw_get(VERDICT).map_err(|_| wrong())?;
    if name == "deny" {
        let said: Option<LuaString> = table.raw_get("text")?;
        let said = said.map(|said| said.to_string_lossy()).unwrap_or_default();
        let code = match table.raw_get::<Option<u16>>("code")? {
            None => None,
            // Those that PUBACK and SUBACK both have.
            Some(code @ (0x80 | 0x83 | 0x87 | 0x97)) => u8::try_from(code).ok(),
            Some(code) => {
                let reason = format!("deny: the code is 0x80, 0x83, 0x87 or 0x97, not {code}");
                return Err(Error::runtime(reason));
            }
        };
        return Ok(Verdict::Deny {
            code,
            text: crate::answer::line(&said, TEXT_BYTES_MAX),
        });
    }
    if name != "allow" {
        return Err(wrong());
    }
    check_keys(&format!("allow in {hook}"), &table, changes(hook))?;
    let is_off = |key: &str| Ok::<_, Error>(table.raw_get::<Option<bool>>(key)? == Some(false));
    let payload: Option<LuaString> = table.raw_get("payload")?;
    if let Some(payload) = &payload {
        check_payload(payload.as_bytes().len())?;
    }
    let result: Option<LuaString> = table.raw_get("result")?;
    if let Some(result) = &result {
        check_payload(result.as_bytes().len())?;
    }
    let to = match table.raw_get::<Value>("to")? {
        Value::Nil => None,
        to => Some(text(&to, "allow: to")?),
    };
    Ok(Verdict::Allow(Allowed {
        to,
        payload: payload.map(|payload| payload.as_bytes().to_vec()),
        result: result.map(|result| result.as_bytes().to_vec()),
        hides_response: is_off("response")?,
        hides_notification: is_off("notification")?,
        roles: roles(&table)?,
    }))
}

/// What `http` was given; the inner error is its answer.
pub(super) fn request(value: &Value, hosts: &[String]) -> mlua::Result<Result<Request, String>> {
    let Value::Table(table) = value else {
        return Err(Error::runtime("http takes a table with url"));
    };
    check_keys("http", table, &["url", "method", "headers", "body"])?;
    let url: String = table
        .get("url")
        .map_err(|_| Error::runtime("http needs url"))?;
    let mut request = match Request::new(&url, hosts) {
        Ok(request) => request,
        Err(reason) => return Ok(Err(reason)),
    };
    if let Some(method) = table.get::<Option<String>>("method")? {
        request.method = method;
    }
    if let Some(body) = table.get::<Option<LuaString>>("body")? {
        if body.as_bytes().len() > BODY_BYTES_MAX {
            return Err(Error::runtime("http: the body is larger than 1 MiB"));
        }
        request.body = body.as_bytes().to_vec();
    }
    if let Some(headers) = table.get::<Option<Table>>("headers")? {
        request.headers = pairs(&headers, "headers")?;
    }
    Ok(Ok(request))
}
