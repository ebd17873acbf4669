//! Which processor runs what. Without a say, the scheduler puts two processes that talk to each
//! other now on one processor, now on two, and a wake-up costs ten times more on the other one: the
//! same server then has two latencies.

use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::process;

/// Where server and generator run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Placement {
    /// On one processor: what is measured is work.
    Together,
    /// On one processor each: what is measured is mostly wake-ups.
    Apart,
    /// As the scheduler likes.
    Free,
}

impl Placement {
    /// As on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Together => "together",
            Self::Apart => "apart",
            Self::Free => "free",
        }
    }

    /// Puts the server (all threads, and its children) where it belongs; `false` if that is
    /// impossible.
    pub(crate) fn place_server(self, pid: Option<u32>) -> bool {
        let (Some(pid), Some(cpus)) = (pid, self.cpus()) else {
            return self == Self::Free;
        };
        let tasks = process::family(pid).into_iter().flat_map(|pid| {
            fs::read_dir(format!("/proc/{pid}/task"))
                .into_iter()
                .flatten()
                .flatten()
        });
        let mut placed = true;
        for task in tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()) {
            placed &= pin(Pid::from_raw(task), cpus.0);
        }
        placed
    }

    /// Puts the calling thread where the generator belongs.
    pub(crate) fn place_generator(self) -> bool {
        self.cpus().is_none_or(|cpus| pin(Pid::from_raw(0), cpus.1))
    }

    /// Processor of the server and of the generator.
    fn cpus(self) -> Option<(usize, usize)> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
        let usable: Vec<usize> = (0..CpuSet::count())
            .filter(|&cpu| allowed.is_set(cpu) == Ok(true))
            .collect();
        let (first, last) = (*usable.first()?, *usable.last()?);
        match self {
            Self::Together => Some((last, last)),
            Self::Apart => Some((first, last)),
            Self::Free => None,
        }
    }
}

fn pin(task: Pid, cpu: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(cpu)
        .and_then(|()| sched_setaffinity(task, &set))
        .is_ok()
}
