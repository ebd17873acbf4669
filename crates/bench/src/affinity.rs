//! Which processor runs what. Without a say, the scheduler puts two processes that talk to each
//! other now on one processor, now on two, and a wake-up costs ten times more on the other one: the
//! same server then has two latencies.

use std::fs;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::error::{BenchError, Doing};
use crate::interrupt::{self, Kept};
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

    /// What becomes of this placement on this machine: a single processor is shared.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(crate) fn here(self) -> Result<Self, BenchError> {
        let lonely = usable(&current()?).len() < 2;
        Ok(match self {
            Self::Apart if lonely => Self::Together,
            placement => placement,
        })
    }

    /// Divides the processors that this thread may use.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(crate) fn allot(self) -> Result<Allotment, BenchError> {
        Ok(Allotment(self.split(&current()?)))
    }

    /// The processors of the server and of the generator; `None` if it is all the same.
    fn split(self, allowed: &CpuSet) -> Option<(CpuSet, CpuSet)> {
        let usable = usable(allowed);
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

/// The processors of a server and of the generator; none if it is all the same.
#[derive(Debug)]
pub(crate) struct Allotment(Option<(CpuSet, CpuSet)>);

impl Allotment {
    /// Does something that starts a server, on the server's processors: it inherits them before
    /// its first instruction, so that it makes as many threads as fit what it gets.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn start<T>(&self, start: impl FnOnce() -> T) -> Result<T, BenchError> {
        let stay = match &self.0 {
            Some((server, _)) => Some(Stay::on(server)?),
            None => None,
        };
        let started = start();
        drop(stay);
        Ok(started)
    }

    /// Puts this thread, with all that it starts from now on, on the generator's processors, until
    /// the guard is dropped.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn generate(&self) -> Result<Option<Stay>, BenchError> {
        let own = self.0.as_ref().map(|(_, own)| Stay::on(own));
        own.transpose()
    }

    /// Moves a server that ran before (all threads, and its children) to its processors, until
    /// the guard is dropped or the benchmark is interrupted.
    ///
    /// # Errors
    /// When its process is unknown, or the system does not let us.
    pub(crate) fn move_server(&self, server: Option<u32>) -> Result<Option<Moved>, BenchError> {
        let Some((cpus, _)) = &self.0 else {
            return Ok(None);
        };
        let Some(server) = server else {
            return Err(BenchError::usage(
                "cannot place a server whose process is unknown: use --placement free, or --pid",
            ));
        };
        let moved = Moved(interrupt::keep_places(Places::of(server)));
        for task in tasks(server) {
            match sched_setaffinity(task, cpus) {
                // A thread that has ended in the meantime.
                Ok(()) | Err(Errno::ESRCH) => {}
                result => result.doing("place the server on a processor")?,
            }
        }
        Ok(Some(moved))
    }

    /// The numbers of the processors, for the JSON; null where the scheduler chooses.
    pub(crate) fn describe(&self) -> Value {
        self.0.as_ref().map_or(
            Value::Null,
            |(server, own)| json!({ "server": usable(server), "generator": usable(own) }),
        )
    }
}

/// All threads of a process and of its children.
fn tasks(server: u32) -> impl Iterator<Item = Pid> {
    let tasks = process::family(server).into_iter().flat_map(|pid| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        tasks.into_iter().flatten().flatten()
    });
    let numbers = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    numbers.map(Pid::from_raw)
}

/// Where the threads of a server ran before it was moved.
#[derive(Debug)]
pub(crate) struct Places {
    server: u32,
    before: Vec<(Pid, CpuSet)>,
}

impl Places {
    fn of(server: u32) -> Self {
        let place = |task| Some((task, sched_getaffinity(task).ok()?));
        let before = tasks(server).filter_map(place).collect();
        Self { server, before }
    }

    /// Moves them back; threads that were made in the meantime go where the first one goes.
    pub(crate) fn restore(&self) {
        let Some((_, usual)) = self.before.first() else {
            return;
        };
        for task in tasks(self.server) {
            let known = self.before.iter().find(|(known, _)| *known == task);
            // A thread that has ended in the meantime.
            let _ = sched_setaffinity(task, known.map_or(usual, |(_, cpus)| cpus));
        }
    }
}

/// A server on the processors of a benchmark; it goes back where it was when this is dropped.
#[derive(Debug)]
pub(crate) struct Moved(#[expect(dead_code, reason = "held until it is dropped")] Kept);

/// Keeps this thread on some processors; it goes back where it was when this is dropped.
#[derive(Debug)]
pub(crate) struct Stay(CpuSet);

impl Stay {
    /// Goes there.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn on(cpus: &CpuSet) -> Result<Self, BenchError> {
        let before = current()?;
        sched_setaffinity(Pid::from_raw(0), cpus).doing("place a thread on a processor")?;
        Ok(Self(before))
    }

    /// Goes where the first thread of a process is; nowhere if that is unknown or gone.
    ///
    /// # Errors
    /// When the system does not let us.
    pub(crate) fn with(process: Option<u32>) -> Result<Option<Self>, BenchError> {
        let pid = process.and_then(|pid| i32::try_from(pid).ok());
        let cpus = pid.and_then(|pid| sched_getaffinity(Pid::from_raw(pid)).ok());
        cpus.map(|cpus| Self::on(&cpus)).transpose()
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // What was allowed before still is.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.0);
    }
}

/// The processors that this thread may use.
///
/// # Errors
/// When the system does not tell.
pub(crate) fn current() -> Result<CpuSet, BenchError> {
    sched_getaffinity(Pid::from_raw(0)).doing("read the processors in use")
}

fn usable(cpus: &CpuSet) -> Vec<usize> {
    let all = 0..CpuSet::count();
    all.filter(|&cpu| cpus.is_set(cpu) == Ok(true)).collect()
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
            Some((usable(&server), usable(&own)))
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

    #[test]
    fn what_is_started_has_the_servers_processors_from_the_beginning() {
        let before = current().unwrap();
        let allotment = Placement::Apart.allot().unwrap();
        let Some((server, own)) = allotment.0 else {
            return;
        };
        // What a child process inherits, and counts its processors by.
        let started = allotment.start(|| (current(), std::thread::available_parallelism()));
        let (cpus, count) = started.unwrap();
        assert_eq!(cpus.unwrap(), server);
        assert_eq!(count.unwrap().get(), usable(&server).len());
        assert_eq!(current().unwrap(), before);
        let stay = allotment.generate().unwrap();
        assert_eq!(current().unwrap(), own);
        // This process is where its first thread is, and nobody is where no process is.
        assert!(Stay::with(Some(std::process::id())).unwrap().is_some());
        assert!(Stay::with(Some(u32::MAX)).unwrap().is_none());
        assert_eq!(current().unwrap(), own);
        drop(stay);
        assert_eq!(current().unwrap(), before);
    }
}
