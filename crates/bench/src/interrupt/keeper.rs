//! A process that outlives a benchmark which is killed (SIGKILL, or for want of memory), and ends
//! the servers that it has started.
//!
//! A server could be asked to end with its parent (`PR_SET_PDEATHSIG`) only between fork and exec,
//! for which there is no safe code, and which would take time that `recover` measures.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The keeper, with the pipe that it reads. Nobody else inherits that: it ends with this process.
static KEEPER: Mutex<Option<Child>> = Mutex::new(None);

/// What has become of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Started,
    Ended,
}

/// Starts it. Without it, servers of a benchmark that is killed stay.
pub(super) fn start() {
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut command = Command::new(program);
    command.args(["bench", "keeper"]).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    *keeper() = command.spawn().ok();
}

fn keeper() -> MutexGuard<'static, Option<Child>> {
    KEEPER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells it of a server.
pub(super) fn tell(news: News, pid: u32) {
    let sign = match news {
        News::Started => '+',
        News::Ended => '-',
    };
    let mut keeper = keeper();
    let Some(pipe) = keeper.as_mut().and_then(|keeper| keeper.stdin.as_mut()) else {
        return;
    };
    // At once: half a line would name another process.
    let told = pipe.write_all(format!("{sign}{pid}\n").as_bytes());
    if told.is_err() {
        // Somebody has ended it.
        *keeper = None;
    }
}

/// The keeper itself: listens until the benchmark ends, and ends what it has left.
pub(crate) fn run() {
    for pid in left(io::stdin().lines().map_while(Result::ok)) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Who was started and has not ended.
fn left(lines: impl Iterator<Item = String>) -> BTreeSet<i32> {
    let mut running = BTreeSet::new();
    for line in lines {
        let pid = line.get(1..).and_then(|pid| pid.parse().ok());
        // Anything below would be a group of processes.
        let Some(pid) = pid.filter(|pid| *pid > 1) else {
            continue;
        };
        match line.as_bytes()[0] {
            b'+' => running.insert(pid),
            _ => running.remove(&pid),
        };
    }
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_is_not_left() {
        let lines = [
            "+7", "+8", "-7", "+9", "-9", "+9", "", "+", "+0", "+-5", "é1",
        ];
        let left = left(lines.iter().map(|line| (*line).to_owned()));
        assert_eq!(left, BTreeSet::from([8, 9]));
    }
}
