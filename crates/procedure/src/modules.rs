//! Modules that reach out of a script: `dns`, `http`, `mail`. What they do has the deadline of the
//! call, since they run outside of the sandbox's own bounds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mlua::{Error, Lua, LuaString, Table, Value};

use crate::manifest::{Grant, Manifest};
use crate::net::http::{self, Url};
use crate::net::{dns, smtp};
use crate::outside::Outside;
use crate::pace::{LINES_PER_RUN, Lines};

/// The header that tells which procedure has sent a message: a procedure sends nothing about a
/// message that has it, so that two of them cannot answer each other for ever.
pub(crate) const LOOP_HEADER: &str = "X-Stentor-Loop";

/// What the modules have to know of the run that calls them.
#[derive(Clone, Debug)]
pub(crate) struct Moment(Arc<Mutex<Now>>);

#[derive(Debug)]
struct Now {
    end: Instant,
    /// The message that the call is about was sent by a procedure.
    is_echo: bool,
    /// What the run has asked of the modules.
    asked: u32,
    /// Lines of the run for the log.
    said: u32,
    /// Of all runs of this thread.
    lines: Lines,
}

/// What one run asks of its modules: changes of `store`, `dns`, `http` and `mail` together.
const ASKED_MAX: u32 = 1_000;

impl Moment {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Now {
            end: Instant::now(),
            is_echo: false,
            asked: 0,
            said: 0,
            lines: Lines::new(),
        })))
    }

    /// A run begins that ends at a moment.
    pub(crate) fn begin(&self, end: Instant, is_echo: bool) {
        let mut now = self.lock();
        (now.end, now.is_echo) = (end, is_echo);
        (now.asked, now.said) = (0, 0);
    }

    /// The run asks something of a module.
    ///
    /// # Errors
    /// When it has asked too often.
    pub(crate) fn ask(&self, module: &str) -> mlua::Result<()> {
        let mut now = self.lock();
        now.asked += 1;
        if now.asked <= ASKED_MAX {
            return Ok(());
        }
        Err(Error::runtime(format!(
            "{module}: one run asks its modules at most {ASKED_MAX} times"
        )))
    }

    /// Writes a line of the run to the log, unless there are too many.
    ///
    /// # Errors
    /// When the run has written too many.
    pub(crate) fn log(&self, procedure: &str, text: &str) -> mlua::Result<()> {
        let mut now = self.lock();
        now.said += 1;
        if now.said > LINES_PER_RUN {
            return Err(Error::runtime(format!(
                "log: one run writes at most {LINES_PER_RUN} lines"
            )));
        }
        let Some(suppressed) = now.lines.admit(Instant::now()) else {
            return Ok(());
        };
        if suppressed > 0 {
            tracing::warn!(procedure, "{suppressed} lines of its log suppressed");
        }
        tracing::info!(procedure, "{text}");
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Installs what the manifest grants.
pub(crate) fn install(
    lua: &Lua,
    globals: &Table,
    name: &str,
    manifest: &Manifest,
    outside: &Arc<Outside>,
    moment: &Moment,
) -> mlua::Result<()> {
    let has = |grant| manifest.grants.contains(&grant);
    if has(Grant::Dns) {
        globals.set("dns", dns(lua, outside, moment)?)?;
    }
    if has(Grant::Http) {
        globals.set("http", http(lua, &manifest.allow_urls, outside, moment)?)?;
    }
    if has(Grant::Mail) {
        globals.set("mail", mail(lua, name, outside, moment)?)?;
    }
    Ok(())
}

fn dns(lua: &Lua, outside: &Arc<Outside>, moment: &Moment) -> mlua::Result<Table> {
    let (outside, moment) = (Arc::clone(outside), moment.clone());
    let lookup = move |_: &Lua, (name, kind): (String, Option<String>)| {
        moment.ask("dns")?;
        let kind = kind.as_deref().unwrap_or("A");
        let asked = dns::Kind::of(kind).ok_or_else(|| {
            Error::runtime(format!(
                "dns.lookup: \"{kind}\" is not A, AAAA, MX, PTR or TXT"
            ))
        })?;
        let end = moment.lock().end;
        dns::ask(outside.resolver(), &name, asked, end)
            .map_err(|error| Error::runtime(format!("dns.lookup {name}: {error}")))
    };
    let table = lua.create_table()?;
    table.set("lookup", lua.create_function(lookup)?)?;
    Ok(table)
}

fn http(
    lua: &Lua,
    allowed: &[Url],
    outside: &Arc<Outside>,
    moment: &Moment,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (function, method) in [("get", "GET"), ("post", "POST")] {
        let (allowed, moment) = (allowed.to_vec(), moment.clone());
        let outside = Arc::clone(outside);
        let ask =
            move |lua: &Lua, (text, body, headers): (String, Option<LuaString>, Option<Table>)| {
                let fail =
                    |reason: &str| Error::runtime(format!("http.{function} {text}: {reason}"));
                moment.ask("http")?;
                let url = Url::parse(&text).map_err(|reason| fail(&reason))?;
                if !allowed.iter().any(|allowed| url.is_below(allowed)) {
                    return Err(fail("the manifest's `allow_urls` does not have it"));
                }
                let headers: Vec<(String, String)> = headers
                    .map(|table| table.pairs().collect::<mlua::Result<_>>())
                    .transpose()?
                    .unwrap_or_default();
                let body = body
                    .map(|body| body.as_bytes().to_vec())
                    .unwrap_or_default();
                let end = moment.lock().end;
                let request = http::Request {
                    method,
                    url: &url,
                    headers: &headers,
                    body: &body,
                };
                let response = http::exchange(&request, &outside.trust, end)
                    .map_err(|error| fail(&error.to_string()))?;
                let answer = lua.create_table()?;
                answer.set("status", response.status)?;
                answer.set("body", lua.create_string(&response.body)?)?;
                Ok(answer)
            };
        table.set(function, lua.create_function(ask)?)?;
    }
    Ok(table)
}

fn mail(lua: &Lua, name: &str, outside: &Arc<Outside>, moment: &Moment) -> mlua::Result<Table> {
    let (outside, moment, name) = (Arc::clone(outside), moment.clone(), name.to_owned());
    let send = move |_: &Lua, mail: Table| {
        let fail = |reason: &str| Error::runtime(format!("mail.send: {reason}"));
        moment.ask("mail")?;
        let Some(relay) = outside.relay() else {
            return Err(fail(
                "the server knows no relay (procedures.relay = \"127.0.0.1:25\")",
            ));
        };
        let to = match mail.get::<Value>("to")? {
            Value::String(one) => vec![one.to_string_lossy()],
            Value::Table(list) => list.sequence_values().collect::<mlua::Result<_>>()?,
            _ => return Err(fail("`to` is an address or a list of them")),
        };
        let from: String = mail.get("from")?;
        let message: LuaString = mail.get("message")?;
        let (end, is_echo) = {
            let now = moment.lock();
            (now.end, now.is_echo)
        };
        if is_echo {
            return Err(fail(
                "the message that this is about was sent by a procedure",
            ));
        }
        let mut text = format!("{LOOP_HEADER}: {name}\r\n").into_bytes();
        text.extend_from_slice(&message.as_bytes());
        let mail = smtp::Mail {
            from: &from,
            to: &to,
            text: &text,
        };
        smtp::send(relay, &mail, end).map_err(|error| fail(&error.to_string()))
    };
    let table = lua.create_table()?;
    table.set("send", lua.create_function(send)?)?;
    Ok(table)
}
