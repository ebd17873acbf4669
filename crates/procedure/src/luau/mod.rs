//! The sandbox: Luau scripts with a bound on memory and time, and no authority of their own.
//!
//! It knows nothing of procedures or zones. A user compiles a [`Script`] once, makes a [`Sandbox`]
//! on each thread that runs it, installs the functions that scripts may call, and runs the script
//! with an entry of its own choice:
//!
//! ```text
//! Script::compile(name, text)?        anywhere, once per version
//! Sandbox::new(limits, clock, install)?     on each thread
//! sandbox.run(&script, until, |lua, value| …)     for each call
//! ```
//!
//! Each run has global variables of its own and shares nothing with others but what was installed,
//! which is read-only. A run ends at its time with [`Trouble::Time`], even inside a `pcall` or a
//! pattern. After any trouble the sandbox makes its virtual machine again: one that hit its memory
//! limit stays at it.
//!
//! Functions that are installed run outside of these bounds and have to bring their own. Their
//! errors name the line that called them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mlua::chunk::{ChunkMode, Compiler};
use mlua::{Error, Lua, LuaOptions, StdLib, Table, Value, VmState};

/// The longest message of an error that is passed on.
const MESSAGE_BYTES_MAX: usize = 300;

mod named;
mod resident;
mod text;

pub use resident::Resident;

/// A clock that scripts are held to. It is read at every turn of their loops, so it has to be as
/// cheap as reading an atomic.
pub trait Clock: Send + Sync {
    /// Milliseconds since some moment.
    fn now_ms(&self) -> u64;
}

/// A script that was compiled.
#[derive(Clone, Debug)]
pub struct Script {
    /// With the `=` that makes Luau show it as it is.
    name: String,
    /// To name what an error is about.
    text: Arc<str>,
    bytecode: Vec<u8>,
}

impl Script {
    /// Compiles a text. Bytecode is refused: it is not checked by anybody and can break out.
    ///
    /// # Errors
    /// The compiler's message, with file and line.
    pub fn compile(name: &str, text: &str) -> Result<Self, String> {
        let bytecode = Compiler::new()
            .set_optimization_level(1)
            .set_debug_level(1)
            .compile(text)
            // The compiler begins with the line.
            .map_err(|error| format!("{name}:{}", message(&error)))?;
        Ok(Self {
            name: format!("={name}"),
            text: text.into(),
            bytecode,
        })
    }
}

impl Script {
    /// The name that it was compiled with.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.trim_start_matches('=')
    }
}

/// Why a run came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It went on beyond its time, and was stopped here: file and line, or nothing if that is not
    /// known.
    #[error("{}the script ran out of time", place(.0))]
    Time(String),
    /// It used more memory than it may.
    #[error("the script ran out of memory")]
    Memory,
    /// It made a mistake: file, line and message.
    #[error("{0}")]
    Mistake(String),
}

/// A place as the beginning of a message.
fn place(place: &str) -> String {
    match place {
        "" => String::new(),
        place => format!("{place}: "),
    }
}

impl Trouble {
    /// The trouble as one line that begins with the script's name, and with the line where that is
    /// known.
    #[must_use]
    pub fn told(&self, name: &str) -> String {
        let text = self.to_string();
        if text.starts_with(name) {
            return text;
        }
        format!("{name}: {text}")
    }
}

/// Installs functions: gets the virtual machine and the table of global names.
pub type Install = dyn Fn(&Lua, &Table) -> mlua::Result<()>;

/// A virtual machine with bounds, for one thread.
pub struct Sandbox {
    memory_max: usize,
    until: Arc<Until>,
    install: Box<Install>,
    machine: Option<Lua>,
}

/// When the current run ends.
struct Until {
    clock: Arc<dyn Clock>,
    ms: AtomicU64,
    is_over: AtomicBool,
    /// Where a run was when its time was over.
    stopped: Mutex<String>,
}

impl Until {
    fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            ms: AtomicU64::new(u64::MAX),
            is_over: AtomicBool::new(false),
            stopped: Mutex::default(),
        })
    }

    /// A run begins that ends when the clock shows this.
    fn begin(&self, ms: u64) {
        self.is_over.store(false, Ordering::Relaxed);
        self.ms.store(ms, Ordering::Relaxed);
    }

    /// The run has ended, one way or the other.
    fn end<R>(&self, result: mlua::Result<R>) -> Result<R, Trouble> {
        self.ms.store(u64::MAX, Ordering::Relaxed);
        result.map_err(|error| {
            if self.is_over.load(Ordering::Relaxed) {
                let stopped = self.stopped.lock();
                let place = stopped.unwrap_or_else(PoisonError::into_inner).clone();
                Trouble::Time(place)
            } else if is_memory(&error) {
                Trouble::Memory
            } else {
                Trouble::Mistake(message(&error))
            }
        })
    }

    /// A look at the clock, in the middle of a run.
    fn look(&self, lua: &Lua) -> mlua::Result<VmState> {
        if self.clock.now_ms() < self.ms.load(Ordering::Relaxed) {
            return Ok(VmState::Continue);
        }
        // A script that catches this error is stopped again; the first place tells most.
        if !self.is_over.swap(true, Ordering::Relaxed) {
            let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
            *stopped = current_place(lua).unwrap_or_default();
        }
        Err(Error::runtime("time is up"))
    }
}

/// The names of what is run in a machine without being the operator's.
const OWN_NAMES: [&str; 5] = [
    "prelude",
    "sandbox",
    "stage",
    // What the binding to Luau runs where a script names a field of an object.
    "__mlua_index",
    "__mlua_newindex",
];

/// Where the script is: file and line.
fn current_place(lua: &Lua) -> Option<String> {
    /// Calls of library functions that may stand above the script's own.
    const LEVELS_MAX: usize = 16;
    (0..LEVELS_MAX).find_map(|level| {
        lua.inspect_stack(level, |frame| {
            let (line, source) = (frame.current_line()?, frame.source().short_src?);
            let is_own = OWN_NAMES.contains(&&*source);
            (!is_own && source != "[C]").then(|| format!("{source}:{line}"))
        })?
    })
}

impl Sandbox {
    /// A sandbox whose scripts use at most `memory_max` bytes, what the machine itself needs
    /// included (about 300 KiB).
    ///
    /// # Errors
    /// When `install` fails.
    pub fn new(
        memory_max: usize,
        clock: Arc<dyn Clock>,
        install: Box<Install>,
    ) -> Result<Self, Trouble> {
        let mut sandbox = Self {
            memory_max,
            until: Until::new(clock),
            install,
            machine: None,
        };
        sandbox.machine = Some(make(memory_max, &sandbox.until, &sandbox.install)?);
        Ok(sandbox)
    }

    /// Runs a script until the clock shows `until_ms`: its text first, then `entry` with what the
    /// text returned.
    ///
    /// # Errors
    /// What went wrong; the next run begins with a new machine then.
    pub fn run<R>(
        &mut self,
        script: &Script,
        until_ms: u64,
        entry: impl FnOnce(&Lua, Value) -> mlua::Result<R>,
    ) -> Result<R, Trouble> {
        let lua = match self.machine.take() {
            Some(lua) => lua,
            None => make(self.memory_max, &self.until, &self.install)?,
        };
        self.until.begin(until_ms);
        let result = evaluate(&lua, script).and_then(|value| entry(&lua, value));
        let result = self.until.end(result);
        let result = result.map_err(|trouble| named::named(&lua, script, trouble))?;
        // What one run leaves behind must not count for the next one.
        if lua.used_memory() > self.memory_max / 2 && lua.gc_collect().is_err() {
            return Ok(result);
        }
        self.machine = Some(lua);
        Ok(result)
    }
}

/// A virtual machine that is confined to its bounds.
fn make(memory_max: usize, until: &Arc<Until>, install: &Install) -> Result<Lua, Trouble> {
    let mistake = |error: Error| Trouble::Mistake(message(&error));
    let libraries = StdLib::TABLE
        | StdLib::STRING
        | StdLib::UTF8
        | StdLib::BIT
        | StdLib::MATH
        | StdLib::BUFFER
        | StdLib::COROUTINE;
    let lua = Lua::new_with(libraries, LuaOptions::new()).map_err(mistake)?;
    confine(&lua).map_err(mistake)?;
    install(&lua, &lua.globals()).map_err(mistake)?;
    lua.sandbox(true).map_err(mistake)?;
    let until = Arc::clone(until);
    lua.set_interrupt(move |lua| until.look(lua));
    lua.set_memory_limit(memory_max).map_err(mistake)?;
    Ok(lua)
}

/// Runs the text of a script with global variables of its own.
fn evaluate(lua: &Lua, script: &Script) -> mlua::Result<Value> {
    let globals = lua.create_table()?;
    let fallback = lua.create_table()?;
    fallback.set("__index", lua.globals())?;
    // Nobody gets to what is behind it.
    fallback.set("__metatable", false)?;
    globals.set_metatable(Some(fallback))?;
    lua.load(&script.bytecode[..])
        .set_name(script.name.as_str())
        .set_mode(ChunkMode::Binary)
        .set_environment(globals)
        .eval()
}

/// Takes away what reaches out of the sandbox, and bounds what could run long without a look at
/// the clock.
fn confine(lua: &Lua) -> mlua::Result<()> {
    let globals = lua.globals();
    for name in [
        "loadstring",
        "load",
        "dofile",
        "loadfile",
        "require",
        "getfenv",
        "setfenv",
        "collectgarbage",
        "newproxy",
        "print",
        "os",
        "io",
        "debug",
        "package",
    ] {
        globals.raw_remove(name)?;
    }
    lua.load(
        "local move, rep = table.move, string.rep
         table.move = function(from, first, last, at, to)
             if last - first > 1000000 then error('table.move: too many elements', 2) end
             return move(from, first, last, at, to)
         end
         string.rep = function(text, count)
             if count > 10000000 then error('string.rep: too often', 2) end
             return rep(text, count)
         end",
    )
    .set_name("=sandbox")
    .exec()?;
    text::bound(lua)
}

fn is_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => is_memory(cause),
        // What a script made of it with `error(...)`, or a `pcall` returned.
        Error::RuntimeError(text) => text.contains("not enough memory"),
        _ => false,
    }
}

/// An error as one line: file, line, message.
pub(crate) fn message(error: &Error) -> String {
    let text = match error {
        Error::CallbackError { traceback, cause } => return placed(traceback, message(cause)),
        Error::WithContext { cause, .. } => return message(cause),
        Error::RuntimeError(text) | Error::MemoryError(text) => return described(text),
        Error::SyntaxError { message, .. } => message.clone(),
        Error::BadArgument { to, pos, cause, .. } => {
            let cause = message(cause);
            match to.as_deref().map(|to| (to, to.split_once('.'))) {
                // The object before the colon is the first.
                Some((_, Some((_, method)))) => {
                    format!("argument {} of :{method}(): {cause}", pos.saturating_sub(1))
                }
                Some((function, None)) => format!("argument {pos} of {function}(): {cause}"),
                None => format!("argument {pos}: {cause}"),
            }
        }
        Error::FromLuaConversionError { from, to, .. } => {
            format!("expected a {}, got a {from}", kind_of(to))
        }
        other => other.to_string(),
    };
    one_line(&text)
}

fn one_line(text: &str) -> String {
    crate::answer::line(text.lines().next().unwrap_or_default(), MESSAGE_BYTES_MAX)
}

/// What scripts call a type of this program.
fn kind_of(to: &str) -> &str {
    match to {
        "i64" | "u64" | "u32" | "u16" | "usize" => "whole number",
        "f64" => "number",
        "String" | "LuaString" | "string" => "text",
        "Table" => "table",
        other => other,
    }
}

/// What a script complained about: its first line, at the line that it names or that the traceback
/// behind it does.
fn described(text: &str) -> String {
    let (said, traceback) = text.split_once("\nstack traceback:").unwrap_or((text, ""));
    // Errors of installed functions that a script has made a text of.
    let said = one_line(said).replace("runtime error: ", "");
    let said = match split_place(&said) {
        Some((file, rest)) if OWN_NAMES.contains(&file) => rest.to_owned(),
        _ => said,
    };
    let is_address = |kind: &&str| {
        let rest = said.strip_prefix(kind);
        rest.is_some_and(|rest| rest.starts_with(": 0x"))
    };
    let kinds = ["table", "function", "userdata", "thread", "buffer"];
    let said = match kinds.iter().find(|kind| is_address(kind)) {
        Some(kind) => format!("the script raised a {kind} as its error, not a text"),
        None if said.is_empty() || said == "nil" => {
            "the script raised an error without a text".into()
        }
        None => innermost(&said).to_owned(),
    };
    placed(traceback, said)
}

/// An error that passed through coroutines without the place of each of them: only the first place
/// counts.
fn innermost(text: &str) -> &str {
    let mut text = text;
    while let Some((file, rest)) = split_place(text)
        && split_place(rest).is_some_and(|(inner, _)| inner == file)
    {
        text = rest;
    }
    text
}

/// `FILE:LINE: REST` as the file and the rest.
fn split_place(text: &str) -> Option<(&str, &str)> {
    let (file, rest) = text.split_once(':')?;
    let (line, rest) = rest.split_once(": ")?;
    is_number(line).then_some((file, rest))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What an installed function complains about, at the line that called it.
fn placed(traceback: &str, text: String) -> String {
    let caller = traceback.lines().find_map(|frame| {
        let (file, rest) = frame.trim().split_once(':')?;
        let line = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        (is_number(line) && !OWN_NAMES.contains(&file)).then_some((file, line))
    });
    match caller {
        Some((file, line)) if !text.starts_with(&format!("{file}:")) => {
            crate::answer::line(&format!("{file}:{line}: {text}"), MESSAGE_BYTES_MAX)
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests;
