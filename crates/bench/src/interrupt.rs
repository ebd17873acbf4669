//! What becomes of servers and their folders when a benchmark is interrupted.

pub(crate) mod reaper;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::affinity::Places;
use reaper::News;

/// What would stay behind.
#[derive(Debug)]
enum Leftover {
    Process(u32),
    Folder(PathBuf),
    /// A file that was made here, as long as nothing is in it.
    Empty(PathBuf),
    /// A server that ran before, and is elsewhere now.
    Places(Places),
    /// Retained messages below these topics, on somebody else's server: clearing them would take
    /// longer than a user who interrupts wants to wait, so they are printed.
    Retained(String),
}

static STARTED: Mutex<BTreeMap<u64, Leftover>> = Mutex::new(BTreeMap::new());

/// Ends a process, should the benchmark be interrupted before this is dropped; moves one back, and
/// removes an empty file, in any case.
#[derive(Debug)]
pub(crate) struct Kept(u64);

/// Starts a process. There is no moment in which it runs and would be left behind.
pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Kept)> {
    let mut started = started();
    let child = command.spawn()?;
    reaper::tell(News::Started, child.id());
    let number = put(&mut started, Leftover::Process(child.id()));
    Ok((child, Kept(number)))
}

/// Makes a temporary folder. It stays on the list: nobody else gets its random name, and to remove
/// what is gone does no harm.
pub(crate) fn folder(prefix: &str) -> io::Result<TempDir> {
    let mut started = started();
    let folder = TempDir::with_prefix(prefix)?;
    reaper::tell_folder(folder.path());
    put(&mut started, Leftover::Folder(folder.path().to_owned()));
    Ok(folder)
}

/// Moves a server back where it was, when this is dropped or the benchmark is interrupted.
pub(crate) fn keep_places(places: Places) -> Kept {
    Kept(put(&mut started(), Leftover::Places(places)))
}

/// Removes a new file that nothing was written to, when this is dropped or the benchmark is
/// interrupted.
pub(crate) fn keep_filled(file: PathBuf) -> Kept {
    Kept(put(&mut started(), Leftover::Empty(file)))
}

/// Prints the retained messages below these topics if the benchmark is interrupted before this is
/// dropped.
pub(crate) fn keep_retained(below: String) -> Kept {
    Kept(put(&mut started(), Leftover::Retained(below)))
}

/// Ends a process that was started here, and its group if it has one of its own.
fn end(pid: Pid) {
    // The process may be gone already, and it may have no group of its own.
    let _ = kill(pid, Signal::SIGKILL);
    let _ = killpg(pid, Signal::SIGKILL);
}

/// Nothing is lost with an empty file, and to fail leaves it as it is.
fn remove_empty(file: &Path) {
    if std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() == 0) {
        let _ = std::fs::remove_file(file);
    }
}

fn remove_folder(folder: &Path) {
    // A process that is just being killed may still make a file.
    for _ in 0..100 {
        if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn tell_retained(why: &str, below: &str) {
    let program = crate::report::command::program();
    let text = format!(
        "{program}: {why}; the measured server keeps retained messages below {below}, \
         which can be removed by: stentor retained clear '{below}#', or mosquitto_sub -t \
         '{below}#' --remove-retained --retained-only\n"
    );
    // A thread that no longer reads it is not told.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn put(started: &mut BTreeMap<u64, Leftover>, leftover: Leftover) -> u64 {
    let number = started.last_key_value().map_or(0, |(last, _)| last + 1);
    started.insert(number, leftover);
    number
}

impl Kept {
    /// Reports retained messages that stay, and why; no interrupt reports them again.
    pub(crate) fn leave(self, why: &str) {
        let leftover = started().remove(&self.0);
        if let Some(Leftover::Retained(below)) = leftover {
            tell_retained(why, &below);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let leftover = started().remove(&self.0);
        match leftover {
            Some(Leftover::Places(places)) => places.restore(),
            Some(Leftover::Process(pid)) => reaper::tell(News::Ended, pid),
            Some(Leftover::Empty(file)) => remove_empty(&file),
            Some(Leftover::Folder(_) | Leftover::Retained(_)) | None => {}
        }
    }
}

fn started() -> MutexGuard<'static, BTreeMap<u64, Leftover>> {
    // A thread that panicked left it whole.
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on SIGINT, SIGTERM and SIGHUP clean up, and end the process with 128 and their number.
/// They are caught, not blocked: what is started would inherit a mask, and a server that leaves it
/// as it is could not be ended by them any more. After SIGKILL, the reaper ends the
/// servers and removes the folders.
pub(crate) fn watch() {
    reaper::start();
    // Without them, signals end the process at once, as ever.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
        return;
    };
    let handle = signals.handle();
    let waits = move || {
        if let Some(signal) = signals.forever().next() {
            clean_up();
            std::process::exit(128 + signal);
        }
    };
    if thread::Builder::new()
        .name("signals".into())
        .spawn(waits)
        .is_err()
    {
        handle.close();
    }
}

fn clean_up() {
    // It stays locked: nothing is started any more.
    let started = started();
    for leftover in started.values() {
        match leftover {
            Leftover::Process(pid) => end(Pid::from_raw(pid.cast_signed())),
            Leftover::Places(places) => places.restore(),
            Leftover::Empty(file) => remove_empty(file),
            Leftover::Retained(below) => tell_retained("interrupted", below),
            Leftover::Folder(_) => {}
        }
    }
    for leftover in started.values() {
        let Leftover::Folder(folder) = leftover else {
            continue;
        };
        remove_folder(folder);
    }
    std::mem::forget(started);
}
