//! Which processor runs what. Without a say, the scheduler puts two processes that talk to each
//! other now on one processor, now on two, and a wake-up costs ten times more on the other one: the
//! same server then has two latencies.

use std::fs;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::{BenchError, Doing};
use crate::process;
use crate::workload::Sheet;

/// Where server and generator run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Placement {
    /// On one processor: what is measured is work.
    Together,
    /// Each with processors of its own, half of those there are: with one client at a time, what
    /// is measured is mostly wake-ups.
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

    /// As titles show it.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Together => "server and clients on one processor",
            Self::Apart => "server and clients on processors of their own",
            Self::Free => "placed by the scheduler",
        }
    }

    /// A workload's sheet that says where it runs.
    pub(crate) fn mark(self, mut sheet: Sheet) -> Sheet {
        sheet.title = format!("{}, {}", sheet.title, self.describe());
        sheet
            .parameters
            .insert("placement".into(), self.as_str().into());
        sheet
    }

    /// Puts the server (all threads, and its children) and this thread, with all that it starts
    /// from now on, where they belong. They stay until the guard is dropped.
    ///
    /// # Errors
    /// When the server's process is unknown, or the system does not let us.
    pub(crate) fn place(self, server: Option<u32>) -> Result<Placed, BenchError> {
        let before = sched_getaffinity(Pid::from_raw(0)).doing("read the processors in use")?;
        let Some((server_cpus, own_cpus)) = self.split(&before) else {
            return Ok(Placed(before));
        };
        let Some(server) = server else {
            return Err(BenchError::usage(
                "cannot place a server whose process is unknown: use --placement free, or --pid",
            ));
        };
        let tasks = process::family(server).into_iter().flat_map(|pid| {
            fs::read_dir(format!("/proc/{pid}/task"))
                .into_iter()
                .flatten()
                .flatten()
        });
        for task in tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()) {
            match sched_setaffinity(Pid::from_raw(task), &server_cpus) {
                // A thread that has ended meanwhile.
                Ok(()) | Err(Errno::ESRCH) => {}
                result => result.doing("place the server on a processor")?,
            }
        }
        sched_setaffinity(Pid::from_raw(0), &own_cpus).doing("place the clients on a processor")?;
        Ok(Placed(before))
    }

    /// The processors of the server and of the generator; `None` if it is all the same.
    fn split(self, allowed: &CpuSet) -> Option<(CpuSet, CpuSet)> {
        let usable: Vec<usize> = (0..CpuSet::count())
            .filter(|&cpu| allowed.is_set(cpu) == Ok(true))
            .collect();
        let last = usable.get(usable.len().checked_sub(1)?..)?;
        match self {
            Self::Together => Some((set_of(last), set_of(last))),
            // On a single processor there is nothing to choose.
            Self::Apart if usable.len() < 2 => None,
            Self::Apart => {
                let (front, back) = usable.split_at(usable.len() / 2);
                Some((set_of(front), set_of(back)))
            }
            Self::Free => None,
        }
    }
}

/// Puts this thread back where it was when dropped.
#[derive(Debug)]
pub(crate) struct Placed(CpuSet);

impl Drop for Placed {
    fn drop(&mut self) {
        // What was allowed before still is.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.0);
    }
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        // All of them came out of such a set.
        let _ = set.set(cpu);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apart_shares_no_processor() {
        let split = |placement: Placement, cpus: &[usize]| {
            let (server, own) = placement.split(&set_of(cpus))?;
            let list = |set: CpuSet| -> Vec<usize> {
                (0..8).filter(|&cpu| set.is_set(cpu) == Ok(true)).collect()
            };
            Some((list(server), list(own)))
        };
        assert_eq!(split(Placement::Apart, &[0, 1]), Some((vec![0], vec![1])));
        assert_eq!(
            split(Placement::Apart, &[1, 3, 4]),
            Some((vec![1], vec![3, 4]))
        );
        assert_eq!(split(Placement::Apart, &[5]), None);
        assert_eq!(
            split(Placement::Together, &[1, 3]),
            Some((vec![3], vec![3]))
        );
        assert_eq!(split(Placement::Free, &[0, 1]), None);
    }
}
