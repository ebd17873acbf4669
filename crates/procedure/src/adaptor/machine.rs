//! One version of an adaptor: its machine, its hooks, and what a hook says.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mlua::thread::ThreadStatus;
use mlua::{Error, Function, Lua, LuaSerdeExt, LuaString, MultiValue, Table, Thread, Value};
use rustix::time::{ClockId, clock_gettime};

use super::http::Request;
use super::interface::{Outbox, TEXT_BYTES_MAX, install, plain};
use super::{Action, Allowed, Event, Field, HOOKS, Options, Verdict};
use crate::luau::{Clock, Resident, Script, Trouble};

/// The longest file of an adaptor, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How long a file's own test may take, and its `save` and `restore`.
const TEST_TIME: Duration = Duration::from_secs(5);
/// What `save` hands on, as JSON, and what a command says.
const SAVED_BYTES_MAX: usize = 4 << 20;
const WORDS_BYTES_MAX: usize = 64 << 10;
/// Roles of a log-in, headers of a request, arguments of a call; and their bytes in all.
const ENTRIES_MAX: usize = 64;
const ENTRY_BYTES_MAX: usize = 64 << 10;

/// The time that this thread has spent computing, so that a busy machine takes nothing from an
/// honest script. It is read at every turn of a loop, so the costly clock is looked at only when
/// the cheap one, which moves every few milliseconds, has moved.
#[derive(Debug, Default)]
pub(super) struct Spent {
    looked_ms: AtomicU64,
    spent_ms: AtomicU64,
}

impl Clock for Spent {
    fn now_ms(&self) -> u64 {
        let looked_ms = millis(ClockId::MonotonicCoarse);
        // Only the thread of the machine writes.
        if self.looked_ms.swap(looked_ms, Ordering::Relaxed) != looked_ms {
            let spent_ms = millis(ClockId::ThreadCPUTime);
            self.spent_ms.store(spent_ms, Ordering::Relaxed);
        }
        self.spent_ms.load(Ordering::Relaxed)
    }
}

fn millis(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    secs * 1_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// When something ends that may take so long. One step of the clock is added: it may be late.
pub(super) fn end(clock: &Spent, time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 2);
    clock.now_ms() + millis + 5
}

/// What a hook waits for.
#[derive(Debug)]
pub(super) enum Wait {
    Http(Result<Request, String>),
    Command(String, Vec<u8>),
    Call(String, Vec<(String, String)>, Vec<u8>),
}

/// How far a hook has come.
#[derive(Debug)]
pub(super) enum Step {
    Done(Verdict),
    Waits(Thread, Wait),
}

/// What a hook is resumed with.
#[derive(Debug)]
pub(super) enum Resumed {
    /// Status and body.
    Http(Result<(u16, Vec<u8>), String>),
    Json(Vec<u8>),
}

/// A version of an adaptor.
pub(super) struct Machine {
    resident: Resident,
    clock: Arc<Spent>,
    hooks: Table,
    outbox: Arc<Mutex<Outbox>>,
    hosts: Vec<String>,
    time: Duration,
    /// Between two calls of `timer`.
    pub(super) interval: Option<Duration>,
}

/// Reads a file that is no larger than it may be.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(format!("{shown}: the file is larger than 1 MiB"));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// What a file is called in messages.
pub(super) fn label(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

impl Machine {
    /// Compiles a file, runs its text and its own test.
    pub(super) fn load(options: &Options) -> Result<Self, String> {
        let name = label(&options.path);
        let script = Script::compile(&name, &read(&options.path)?)?;
        let outbox = Arc::<Mutex<Outbox>>::default();
        let own = Arc::clone(&outbox);
        let told = name.clone();
        let install = move |lua: &Lua, globals: &Table| install(lua, globals, &own, &told);
        let clock = Arc::new(Spent::default());
        let started = Resident::start(
            options.memory,
            Arc::clone(&clock) as Arc<dyn Clock>,
            &install,
            &script,
            end(&clock, TEST_TIME),
        );
        let (resident, value) = started.map_err(|trouble| trouble.to_string())?;
        let Value::Table(hooks) = value else {
            return Err(format!(
                "{name}: the file ends with `return` and a table of hooks"
            ));
        };
        check_hooks(&name, &hooks)?;
        let interval = interval(&name, &hooks)?;
        let machine = Self {
            resident,
            clock,
            hooks,
            outbox,
            hosts: options.hosts.clone(),
            time: options.time,
            interval,
        };
        machine.test()?;
        Ok(machine)
    }

    fn test(&self) -> Result<(), String> {
        let run = |_: &Lua| match self.hooks.get::<Option<Function>>("test")? {
            Some(test) => test.call::<()>(()),
            None => Ok(()),
        };
        let result = self.resident.run(end(&self.clock, TEST_TIME), run);
        self.take();
        result.map_err(|trouble| trouble.to_string())
    }

    /// A bit for each of [`HOOKS`] that the file has.
    pub(super) fn bits(&self) -> u16 {
        let has = |name: &str| matches!(self.hooks.get(name), Ok(Value::Function(_)));
        let bits = HOOKS.iter().enumerate().filter(|(_, name)| has(name));
        bits.fold(0, |all, (bit, _)| all | 1 << bit)
    }

    /// What the version wants to hand on to the next one.
    pub(super) fn save(&self) -> Result<Option<serde_json::Value>, String> {
        let run = |lua: &Lua| match self.hooks.get::<Option<Function>>("save")? {
            Some(save) => plain(lua, &save.call(())?, SAVED_BYTES_MAX).map(Some),
            None => Ok(None),
        };
        let result = self.resident.run(end(&self.clock, TEST_TIME), run);
        result.map_err(|trouble| format!("save: {trouble}"))
    }

    /// Takes over what another version has saved.
    pub(super) fn restore(&self, saved: &serde_json::Value) -> Result<(), String> {
        let run = |lua: &Lua| match self.hooks.get::<Option<Function>>("restore")? {
            Some(restore) => restore.call::<()>(lua.to_value(saved)?),
            None => Ok(()),
        };
        let result = self.resident.run(end(&self.clock, TEST_TIME), run);
        result.map_err(|trouble| format!("restore: {trouble}"))
    }

    /// Runs a hook from its beginning; `None` if there is none.
    pub(super) fn begin(&self, event: &Event) -> Result<Option<Step>, Trouble> {
        self.resident.run(end(&self.clock, self.time), |lua| {
            let Some(hook) = self.hooks.get::<Option<Function>>(event.hook)? else {
                return Ok(None);
            };
            let shown = show(lua, event)?;
            let thread = lua.create_thread(hook)?;
            let said: MultiValue = thread.resume(shown)?;
            self.step(lua, thread, said).map(Some)
        })
    }

    /// Goes on with a hook that has waited.
    pub(super) fn resume(&self, thread: &Thread, with: &Resumed) -> Result<Step, Trouble> {
        self.resident.run(end(&self.clock, self.time), |lua| {
            let said: MultiValue = match with {
                Resumed::Json(json) => {
                    let value: serde_json::Value =
                        serde_json::from_slice(json).map_err(Error::external)?;
                    thread.resume(lua.to_value(&value)?)?
                }
                Resumed::Http(Ok((status, body))) => {
                    let reply = lua.create_table()?;
                    reply.set("status", *status)?;
                    reply.set("body", lua.create_string(body)?)?;
                    thread.resume(reply)?
                }
                Resumed::Http(Err(reason)) => thread.resume((Value::Nil, reason.as_str()))?,
            };
            self.step(lua, thread.clone(), said)
        })
    }

    fn step(&self, lua: &Lua, thread: Thread, said: MultiValue) -> mlua::Result<Step> {
        if !matches!(thread.status(), ThreadStatus::Resumable) {
            let verdict = verdict(said.into_iter().next().unwrap_or(Value::Nil))?;
            return Ok(Step::Done(verdict));
        }
        let mut said = said.into_iter();
        let what = said
            .next()
            .and_then(|value| value.as_string().map(|text| text.to_string_lossy()));
        let (first, second) = (said.next().unwrap_or(Value::Nil), said.next());
        let second = second.unwrap_or(Value::Nil);
        let third = said.next().unwrap_or(Value::Nil);
        let wait = match what.as_deref() {
            Some("http") => Wait::Http(self.request(&first)?),
            Some("room") => {
                let words: serde_json::Value = match second {
                    Value::Nil => serde_json::json!({}),
                    words => plain(lua, &words, WORDS_BYTES_MAX)?,
                };
                let name = text(&first, "the command")?;
                Wait::Command(format!("room.{name}"), words.to_string().into_bytes())
            }
            Some("call") => {
                let arguments = match second {
                    Value::Table(table) => pairs(&table, "arguments")?,
                    _ => Vec::new(),
                };
                let payload = bytes(&third)?;
                Wait::Call(text(&first, "the procedure")?, arguments, payload)
            }
            _ => return Err(Error::runtime("a hook yields by http, room and call only")),
        };
        Ok(Step::Waits(thread, wait))
    }

    fn request(&self, value: &Value) -> mlua::Result<Result<Request, String>> {
        let Value::Table(table) = value else {
            return Err(Error::runtime("http takes a table with url"));
        };
        let url: String = table
            .get("url")
            .map_err(|_| Error::runtime("http needs url"))?;
        let mut request = match Request::new(&url, &self.hosts) {
            Ok(request) => request,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Some(method) = table.get::<Option<String>>("method")? {
            request.method = method;
        }
        if let Some(body) = table.get::<Option<LuaString>>("body")? {
            request.body = body.as_bytes().to_vec();
        }
        if let Some(headers) = table.get::<Option<Table>>("headers")? {
            request.headers = pairs(&headers, "headers")?;
        }
        Ok(Ok(request))
    }

    /// What the run has done.
    pub(super) fn take(&self) -> Vec<Action> {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.bytes = 0;
        std::mem::take(&mut outbox.actions)
    }

    /// Whether a new machine is needed.
    pub(super) fn is_spent(&self) -> bool {
        self.resident.is_spent()
    }
}

/// Every function of the table is a hook, or one that is known otherwise.
fn check_hooks(name: &str, hooks: &Table) -> Result<(), String> {
    const OTHERS: [&str; 3] = ["test", "save", "restore"];
    for pair in hooks.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        let Value::Function(_) = value else { continue };
        let key = key.to_string().unwrap_or_default();
        if !HOOKS.contains(&key.as_str()) && !OTHERS.contains(&key.as_str()) {
            return Err(format!(
                "{name}: there is no hook {key:?}; there are {} and {}",
                HOOKS.join(", "),
                OTHERS.join(", ")
            ));
        }
    }
    Ok(())
}

fn interval(name: &str, hooks: &Table) -> Result<Option<Duration>, String> {
    let has_timer = matches!(hooks.get("timer"), Ok(Value::Function(_)));
    let wrong = || format!("{name}: `interval` is a number of seconds from 0.1 to 86400");
    let secs = hooks.get::<Option<f64>>("interval").map_err(|_| wrong())?;
    match secs {
        Some(secs) if !(0.1..=86_400.0).contains(&secs) => Err(wrong()),
        Some(secs) => Ok(has_timer.then(|| Duration::from_secs_f64(secs))),
        None => Ok(has_timer.then_some(Duration::from_secs(1))),
    }
}

/// An event as a hook sees it.
fn show(lua: &Lua, event: &Event) -> mlua::Result<Table> {
    let shown = lua.create_table()?;
    shown.set("zone", &*event.zone)?;
    for (name, field) in &event.fields {
        match field {
            Field::Bytes(bytes) => shown.set(*name, lua.create_string(bytes)?)?,
            Field::Number(number) => shown.set(*name, *number)?,
            Field::Flag(flag) => shown.set(*name, *flag)?,
        }
    }
    Ok(shown)
}

fn text(value: &Value, what: &str) -> mlua::Result<String> {
    match value.as_string().map(|text| text.to_string_lossy()) {
        Some(text) if text.len() <= 65_535 => Ok(text),
        _ => Err(Error::runtime(format!("{what} is no text"))),
    }
}

fn bytes(value: &Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        other => Err(Error::runtime(format!(
            "a payload is no {}",
            other.type_name()
        ))),
    }
}

/// Texts by name: no more than anybody needs.
fn pairs(table: &Table, what: &str) -> mlua::Result<Vec<(String, String)>> {
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
    let Some(table) = verdict.get::<Option<Table>>("roles")? else {
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

/// Reads what a hook returned.
pub(super) fn verdict(value: Value) -> mlua::Result<Verdict> {
    let wrong = || Error::runtime("a hook returns nothing, allow{…}, or deny(reason)");
    let table = match value {
        Value::Nil | Value::Boolean(true) => return Ok(Verdict::Allow(Allowed::default())),
        Value::Table(table) => table,
        _ => return Err(wrong()),
    };
    let name: String = table.get("verdict").map_err(|_| wrong())?;
    if name == "deny" {
        let said: Option<String> = table.get("text")?;
        let code = match table.get::<Option<u16>>("code")? {
            None => None,
            // Those that PUBACK and SUBACK both have.
            Some(code @ (0x80 | 0x83 | 0x87 | 0x97)) => u8::try_from(code).ok(),
            Some(code) => {
                let reason = format!("deny: the code is 0x80, 0x83, 0x87 or 0x97, not {code}");
                return Err(Error::runtime(reason));
            }
        };
        let said = said.unwrap_or_default();
        return Ok(Verdict::Deny {
            code,
            text: crate::answer::line(&said, TEXT_BYTES_MAX),
        });
    }
    if name != "allow" {
        return Err(wrong());
    }
    let is_off = |key: &str| Ok::<_, Error>(table.get::<Option<bool>>(key)? == Some(false));
    let payload: Option<LuaString> = table.get("payload")?;
    Ok(Verdict::Allow(Allowed {
        to: table.get("to")?,
        payload: payload.map(|payload| payload.as_bytes().to_vec()),
        hides_response: is_off("response")?,
        hides_notification: is_off("notification")?,
        roles: roles(&table)?,
    }))
}

/// How long something takes in all.
pub(super) fn until(deadline: Duration) -> Instant {
    Instant::now() + deadline
}
