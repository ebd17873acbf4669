//! A process that outlives a benchmark which is killed (SIGKILL, or for want of memory), and ends
//! the servers that it has started and removes their folders.
//!
//! A server could be asked to end with its parent (`PR_SET_PDEATHSIG`) only between fork and exec,
//! for which there is no safe code, and which would take time that `recover` measures.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::unistd::Pid;

/// The reaper, with the pipe that it reads. Nobody else inherits that: it ends with this process.
static REAPER: Mutex<Option<Child>> = Mutex::new(None);

/// What has become of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Started,
    Ended,
}

/// Before the name of a folder.
const FOLDER: char = '=';

/// Starts it. Without it, servers and folders of a benchmark that is killed stay.
pub(super) fn start() {
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut command = Command::new(program);
    command.arg("reaper").stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    *reaper() = command.spawn().ok();
}

fn reaper() -> MutexGuard<'static, Option<Child>> {
    REAPER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells it of a server.
pub(super) fn tell(news: News, pid: u32) {
    let sign = match news {
        News::Started => '+',
        News::Ended => '-',
    };
    write(&format!("{sign}{pid}\n"));
}

/// Tells it of a folder that was made here. It stays on the list when it is gone: its name is
/// random, so that nobody makes another one of that name.
pub(super) fn tell_folder(folder: &Path) {
    // Half a name would be another folder's.
    if let Some(name) = folder.to_str().filter(|name| !name.contains('\n')) {
        write(&format!("{FOLDER}{name}\n"));
    }
}

fn write(line: &str) {
    let mut reaper = reaper();
    let Some(pipe) = reaper.as_mut().and_then(|reaper| reaper.stdin.as_mut()) else {
        return;
    };
    // At once: half a line would name another process.
    if pipe.write_all(line.as_bytes()).is_err() {
        // Somebody has ended it.
        *reaper = None;
    }
}

/// The reaper itself: listens until the benchmark ends, and ends and removes what it has left.
pub(crate) fn run() {
    let left = Left::read(io::stdin().lines().map_while(Result::ok));
    for pid in left.running {
        super::end(Pid::from_raw(pid));
    }
    for folder in left.folders {
        super::remove_folder(&folder);
    }
}

/// What a benchmark has left.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    /// The processes that were started and have not ended.
    running: BTreeSet<i32>,
    /// Those that were made, whether they are there still or not.
    folders: BTreeSet<PathBuf>,
}

impl Left {
    fn read(lines: impl Iterator<Item = String>) -> Self {
        let mut left = Self::default();
        for line in lines {
            match line.strip_prefix(FOLDER) {
                Some(name) => left.add_folder(Path::new(name)),
                None => left.add_news(&line),
            }
        }
        left
    }

    /// A relative name would be another folder here, and the root would be everything.
    fn add_folder(&mut self, folder: &Path) {
        if folder.is_absolute() && folder.file_name().is_some() {
            self.folders.insert(folder.to_owned());
        }
    }

    fn add_news(&mut self, line: &str) {
        let pid = line.get(1..).and_then(|pid| pid.parse().ok());
        // Anything below would be a group of processes.
        let Some(pid) = pid.filter(|pid| *pid > 1) else {
            return;
        };
        match line.as_bytes()[0] {
            b'+' => self.running.insert(pid),
            _ => self.running.remove(&pid),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_is_not_left() {
        let lines = [
            "+7", "+8", "-7", "+9", "-9", "+9", "", "+", "+0", "+-5", "é1",
        ];
        let left = Left::read(lines.iter().map(|line| (*line).to_owned()));
        assert_eq!(left.running, BTreeSet::from([8, 9]));
        assert_eq!(left.folders, BTreeSet::new());
    }

    #[test]
    fn only_whole_names_are_folders() {
        let lines = ["=/tmp/a b", "+7", "=", "=/", "=b", "=..", "=/tmp/.."];
        let left = Left::read(lines.iter().map(|line| (*line).to_owned()));
        assert_eq!(left.folders, BTreeSet::from(["/tmp/a b".into()]));
    }
}
