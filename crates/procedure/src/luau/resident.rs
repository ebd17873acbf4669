//! A sandbox that keeps what its script has made: one script, one machine, many runs.

use std::sync::Arc;

use mlua::{Lua, Value};

use super::named::named;
use super::{Clock, Install, Script, Trouble, Until, evaluate, make};

/// A virtual machine with bounds that lives as long as a version of a script does.
///
/// Unlike in a [`super::Sandbox`], its runs share what the script keeps in its own variables. Each
/// run has its own time. After [`Trouble::Memory`] the machine may be [spent](Self::is_spent); then
/// it has to be made again, and what the script has kept is lost.
pub struct Resident {
    memory_max: usize,
    until: Arc<Until>,
    lua: Lua,
    script: Script,
}

impl Resident {
    /// Makes a machine and runs the text of a script in it until the clock shows `until_ms`;
    /// returns what that returned.
    ///
    /// # Errors
    /// What went wrong.
    pub fn start(
        memory_max: usize,
        clock: Arc<dyn Clock>,
        install: &Install,
        script: &Script,
        until_ms: u64,
    ) -> Result<(Self, Value), Trouble> {
        let until = Until::new(clock);
        let lua = make(memory_max, &until, install)?;
        let resident = Self {
            memory_max,
            until,
            lua,
            script: script.clone(),
        };
        let value = resident.run(until_ms, |lua| evaluate(lua, script))?;
        Ok((resident, value))
    }

    /// Runs something until the clock shows `until_ms`.
    ///
    /// # Errors
    /// What went wrong.
    pub fn run<R>(
        &self,
        until_ms: u64,
        f: impl FnOnce(&Lua) -> mlua::Result<R>,
    ) -> Result<R, Trouble> {
        self.until.begin(until_ms);
        let result = f(&self.lua);
        let result = self.until.end(result);
        result.map_err(|trouble| named(&self.lua, &self.script, trouble))
    }

    /// Runs another text in the same machine, with global variables of its own.
    ///
    /// # Errors
    /// What went wrong.
    pub fn load(&self, script: &Script, until_ms: u64) -> Result<Value, Trouble> {
        self.run(until_ms, |lua| evaluate(lua, script))
    }

    /// Throws away what nothing refers to; whether hardly any memory is left even so.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.lua.gc_collect().is_err() || self.lua.used_memory() > self.memory_max / 4 * 3
    }
}
