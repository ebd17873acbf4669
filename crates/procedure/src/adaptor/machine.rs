//! One version of an adaptor: its machine, its hooks, and what a hook says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mlua::thread::ThreadStatus;
use mlua::{Error, Function, Lua, LuaSerdeExt, MultiValue, Table, Thread, Value};
use rustix::time::{ClockId, clock_gettime};

use super::http::Request;
use super::interface::{MARK, Outbox, Shared, Used, install, lock, plain};
use super::values::{bytes, pairs, request, show, text, verdict};
use super::{Action, Counters, Event, HOOKS, Options, Verdict};
use crate::luau::{Clock, Resident, Script, Trouble, message};

/// How long a file's own test may take, and its `save` and `restore`.
const TEST_TIME: Duration = Duration::from_secs(5);
/// What `save` hands on, as JSON, and what a command says.
const SAVED_BYTES_MAX: usize = 4 << 20;
const WORDS_BYTES_MAX: usize = 64 << 10;
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
    Http(Request),
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
    name: String,
    /// What it runs; the file may have another version by now.
    script: Script,
    resident: Resident,
    clock: Arc<Spent>,
    hooks: Table,
    outbox: Shared,
    hosts: Vec<String>,
    time: Duration,
    /// Between two calls of `timer`.
    pub(super) interval: Option<Duration>,
}

impl Machine {
    /// Compiles the text, runs it and its own test.
    pub(super) fn load(options: &Options, counters: &Arc<Counters>) -> Result<Self, String> {
        let script = Script::compile(&options.source.label(), &options.source.read()?)?;
        Self::start(script, options, counters)
    }

    /// Another machine of the same version, in which nothing has happened yet.
    pub(super) fn anew(&self, options: &Options, counters: &Arc<Counters>) -> Result<Self, String> {
        Self::start(self.script.clone(), options, counters)
    }

    fn start(script: Script, options: &Options, counters: &Arc<Counters>) -> Result<Self, String> {
        let name = script.name().to_owned();
        let outbox = Arc::new(Mutex::new(Outbox::new(options, counters)));
        let own = Arc::clone(&outbox);
        let told = name.clone();
        let install = move |lua: &Lua, globals: &Table| {
            install(lua, globals, &own, &told)?;
            Ok(())
        };
        let clock = Arc::new(Spent::default());
        let started = Resident::start(
            options.memory,
            Arc::clone(&clock) as Arc<dyn Clock>,
            &install,
            &script,
            end(&clock, TEST_TIME),
        );
        let (resident, value) = started.map_err(|trouble| trouble.told(&name))?;
        let Value::Table(hooks) = value else {
            return Err(format!(
                "{name}: the file ends with `return` and a table of hooks"
            ));
        };
        check_hooks(&name, &hooks)?;
        let interval = interval(&name, &hooks)?;
        let machine = Self {
            name,
            script,
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
        let run = |_: &Lua| match self.hooks.raw_get::<Option<Function>>("test")? {
            Some(test) => test.call::<()>(()),
            None => Ok(()),
        };
        self.run_aside(run)
            .map_err(|trouble| trouble.told(&self.name))
    }

    /// Runs a function that is not a hook, and discards its actions.
    fn run_aside<R>(&self, run: impl FnOnce(&Lua) -> mlua::Result<R>) -> Result<R, Trouble> {
        lock(&self.outbox).used = Used::default();
        let result = self.resident.run(end(&self.clock, TEST_TIME), run);
        self.take();
        result
    }

    /// A bit for each of [`HOOKS`] that the file has.
    pub(super) fn bits(&self) -> u16 {
        let has = |name: &str| matches!(self.hooks.raw_get(name), Ok(Value::Function(_)));
        let bits = HOOKS.iter().enumerate().filter(|(_, name)| has(name));
        bits.fold(0, |all, (bit, _)| all | 1 << bit)
    }

    /// What the version wants to hand on to the next one.
    pub(super) fn save(&self) -> Result<Option<serde_json::Value>, String> {
        let run = |lua: &Lua| match self.hooks.raw_get::<Option<Function>>("save")? {
            Some(save) => plain(lua, &save.call(())?, SAVED_BYTES_MAX).map(Some),
            None => Ok(None),
        };
        let result = self.run_aside(run);
        result.map_err(|trouble| format!("save: {}", trouble.told(&self.name)))
    }

    /// Takes over what another version has saved.
    pub(super) fn restore(&self, saved: &serde_json::Value) -> Result<(), String> {
        let run = |lua: &Lua| match self.hooks.raw_get::<Option<Function>>("restore")? {
            Some(restore) => restore.call::<()>(lua.to_value(saved)?),
            None => Ok(()),
        };
        let result = self.run_aside(run);
        result.map_err(|trouble| format!("restore: {}", trouble.told(&self.name)))
    }

    /// Runs a hook from its beginning; `None` if there is none.
    pub(super) fn begin(&self, event: &Event) -> Result<Option<Step>, Trouble> {
        self.run(Used::default(), |lua| {
            let Some(hook) = self.hooks.raw_get::<Option<Function>>(event.hook)? else {
                return Ok(None);
            };
            let shown = show(lua, event)?;
            let thread = lua.create_thread(hook)?;
            let said: MultiValue = thread.resume(shown)?;
            self.step(lua, event.hook, thread, said).map(Some)
        })
    }

    /// Goes on with a hook that has waited.
    pub(super) fn resume(
        &self,
        hook: &'static str,
        thread: &Thread,
        used: Used,
        with: &Resumed,
    ) -> Result<Step, Trouble> {
        self.run(used, |lua| {
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
            self.step(lua, hook, thread.clone(), said)
        })
    }

    /// Runs a part of a hook, for as long as the parts before it have left.
    fn run<R>(&self, used: Used, run: impl FnOnce(&Lua) -> mlua::Result<R>) -> Result<R, Trouble> {
        lock(&self.outbox).used = used;
        let before = self.clock.now_ms();
        let left = self.time.saturating_sub(Duration::from_millis(used.millis));
        let until = end(&self.clock, left);
        self.resident.run(until, |lua| {
            let result = run(lua);
            lock(&self.outbox).used.millis += self.clock.now_ms().saturating_sub(before);
            result
        })
    }

    fn step(
        &self,
        lua: &Lua,
        hook: &'static str,
        thread: Thread,
        mut said: MultiValue,
    ) -> mlua::Result<Step> {
        let mark: Table = lua.named_registry_value(MARK)?;
        loop {
            if !matches!(thread.status(), ThreadStatus::Resumable) {
                let value = said.into_iter().next().unwrap_or(Value::Nil);
                let check = |bytes| lock(&self.outbox).check_payload("allow", bytes);
                let verdict = verdict(hook, value, check);
                return Ok(Step::Done(
                    verdict.map_err(|error| self.of_hook(hook, error))?,
                ));
            }
            let mut values = said.into_iter();
            let is_asked = matches!(values.next(), Some(Value::Table(table)) if table == mark);
            if !is_asked {
                let reason = "a hook yields by http, room and call only";
                return Err(self.of_hook(hook, Error::runtime(reason)));
            }
            match self.wait(lua, values) {
                Ok(Ok(wait)) => return Ok(Step::Waits(thread, wait)),
                // It is known at once that there will be no answer.
                Ok(Err(reason)) => said = thread.resume((Value::Nil, reason))?,
                Err(error) => return Err(self.of_hook(hook, error)),
            }
        }
    }

    /// What a hook asks of the host; the inner error is its answer.
    fn wait(
        &self,
        lua: &Lua,
        mut values: impl Iterator<Item = Value>,
    ) -> mlua::Result<Result<Wait, String>> {
        let mut next = || values.next().unwrap_or(Value::Nil);
        let what = text(&next(), "what is asked")?;
        let (first, second, third) = (next(), next(), next());
        Ok(Ok(match what.as_str() {
            "http" => return Ok(request(&first, &self.hosts)?.map(Wait::Http)),
            "room" => {
                let words: serde_json::Value = match second {
                    Value::Nil => serde_json::json!({}),
                    words => plain(lua, &words, WORDS_BYTES_MAX)?,
                };
                let name = text(&first, "the command")?;
                Wait::Command(format!("room.{name}"), words.to_string().into_bytes())
            }
            _ => {
                let arguments = match second {
                    Value::Table(table) => pairs(&table, "arguments")?,
                    _ => Vec::new(),
                };
                let payload = bytes(&third)?;
                lock(&self.outbox).check_payload("call", payload.len())?;
                Wait::Call(text(&first, "the procedure")?, arguments, payload)
            }
        }))
    }

    /// An error that the host finds when a hook has ended or waits: at the line where the hook
    /// begins, since nothing else is known of it.
    fn of_hook(&self, hook: &str, error: Error) -> Error {
        let function = self.hooks.raw_get::<Function>(hook).ok();
        let line = function.and_then(|function| function.info().line_defined);
        let line = line.unwrap_or_default();
        let reason = message(&error);
        Error::runtime(format!("{}:{line}: {hook}: {reason}", self.name))
    }

    /// What the last run has used of what it may.
    pub(super) fn used(&self) -> Used {
        lock(&self.outbox).used
    }

    /// What the run has done.
    pub(super) fn take(&self) -> Vec<Action> {
        std::mem::take(&mut lock(&self.outbox).actions)
    }

    /// Tells the log how many lines it does not have.
    pub(super) fn flush_log(&self) {
        lock(&self.outbox).flush(&self.name);
    }

    /// Whether a new machine is needed.
    pub(super) fn is_spent(&self) -> bool {
        self.resident.is_spent()
    }
}

/// Every function of the table is a hook, or one that is known otherwise; and all of those are
/// functions.
fn check_hooks(name: &str, hooks: &Table) -> Result<(), String> {
    const OTHERS: [&str; 3] = ["test", "save", "restore"];
    for pair in hooks.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        // A key that is a table could have code that makes a text of it, without an end.
        let key = match &key {
            Value::String(key) => key.to_string_lossy(),
            other => other.type_name().to_owned(),
        };
        let is_function = matches!(value, Value::Function(_));
        let is_known = HOOKS.contains(&key.as_str()) || OTHERS.contains(&key.as_str());
        if is_known && !is_function {
            return Err(format!(
                "{name}: {key} is a hook, so it is a function and no {}",
                value.type_name()
            ));
        }
        if is_function && !is_known {
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
    let has_timer = matches!(hooks.raw_get("timer"), Ok(Value::Function(_)));
    let wrong = |given: &str| {
        format!("{name}: `interval` is {given}: it has to be a number of seconds from 0.1 to 86400")
    };
    let secs = hooks
        .raw_get::<Option<f64>>("interval")
        .map_err(|_| wrong("no number"))?;
    match secs {
        Some(secs) if !(0.1..=86_400.0).contains(&secs) => Err(wrong(&secs.to_string())),
        Some(secs) => Ok(has_timer.then(|| Duration::from_secs_f64(secs))),
        None => Ok(has_timer.then_some(Duration::from_secs(1))),
    }
}

/// How long something takes in all.
pub(super) fn until(deadline: Duration) -> Instant {
    Instant::now() + deadline
}
