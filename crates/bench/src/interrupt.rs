//! What becomes of servers and their folders when a benchmark is interrupted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

/// What would stay behind.
#[derive(Debug)]
enum Leftover {
    Process(u32),
    Folder(PathBuf),
}

static STARTED: Mutex<BTreeMap<u64, Leftover>> = Mutex::new(BTreeMap::new());

/// Ends a process or removes a folder, should the benchmark be interrupted before this is dropped.
#[derive(Debug)]
pub(crate) struct Kept(u64);

/// Of a process that was just started.
pub(crate) fn keep_process(pid: u32) -> Kept {
    keep(Leftover::Process(pid))
}

/// Of a temporary folder.
pub(crate) fn keep_folder(folder: &Path) -> Kept {
    keep(Leftover::Folder(folder.to_owned()))
}

fn keep(leftover: Leftover) -> Kept {
    let mut started = started();
    let number = started.last_key_value().map_or(0, |(last, _)| last + 1);
    started.insert(number, leftover);
    Kept(number)
}

impl Drop for Kept {
    fn drop(&mut self) {
        started().remove(&self.0);
    }
}

fn started() -> MutexGuard<'static, BTreeMap<u64, Leftover>> {
    // Whoever panicked left it whole.
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on SIGINT, SIGTERM and SIGHUP clean up, and end the process with 128 and their number.
/// To be called before other threads are started, so that they leave the signals to the one that
/// waits for them; new processes get a mask of their own.
pub(crate) fn watch() {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    if signals.thread_block().is_err() {
        return;
    }
    let waits = move || {
        if let Ok(signal) = signals.wait() {
            clean_up();
            std::process::exit(128 + signal as i32);
        }
    };
    if thread::Builder::new()
        .name("signals".into())
        .spawn(waits)
        .is_err()
    {
        // Then they end the process at once, as ever.
        let _ = signals.thread_unblock();
    }
}

fn clean_up() {
    // It stays locked: nothing is started any more.
    let started = started();
    for leftover in started.values() {
        if let Leftover::Process(pid) = leftover {
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
    }
    for leftover in started.values() {
        let Leftover::Folder(folder) = leftover else {
            continue;
        };
        // A process that is just being killed may still make a file.
        for _ in 0..100 {
            if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    std::mem::forget(started);
}
