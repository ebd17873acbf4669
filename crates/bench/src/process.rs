//! What a process costs: CPU time and resident memory, from /proc.

use std::collections::HashMap;
use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::unistd::{SysconfVar, sysconf};

/// Memory of a process and all of its children at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Resident memory (VmRSS), in bytes.
    pub(crate) rss: u64,
    /// Proportional share of resident memory, in bytes; 0 where it may not be read.
    pub(crate) pss: u64,
}

/// What a process tree uses now; `None` if the process is gone or may not be looked at.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let mut total = Usage::default();
    let mut found = false;
    for pid in family(pid) {
        if Stat::read(pid).is_none() {
            continue;
        }
        found = true;
        total.rss += proc_kib(pid, "status", "VmRSS:");
        total.pss += proc_kib(pid, "smaps_rollup", "Pss:");
    }
    found.then_some(total)
}

/// One look at a process tree: the CPU seconds of its living threads, and its resident bytes.
/// Cheap enough to be taken while something is measured; `None` if the process is gone.
pub(crate) fn glance(pid: u32) -> Option<(f64, u64)> {
    glance_at(&family(pid))
}

/// The same for this process without its children.
pub(crate) fn glance_alone() -> Option<(f64, u64)> {
    glance_at(&[std::process::id()])
}

fn glance_at(members: &[u32]) -> Option<(f64, u64)> {
    let cpu_s = cpu_of(members)?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten()?;
    let pages = members.iter().filter_map(|pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Some((cpu_s, pages.sum::<u64>() * page.cast_unsigned()))
}

/// Whether there is such a process, and it has not ended yet.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim().chars().next());
    // A zombie waits only for somebody to ask how it ended.
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Measures the CPU time of a server from its making on.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    pid: Option<u32>,
    before_s: Option<f64>,
}

impl CpuMeter {
    /// Begins to measure; without a process there is nothing to measure.
    pub(crate) fn start(pid: Option<u32>) -> Self {
        Self {
            pid,
            before_s: pid.and_then(cpu_s),
        }
    }

    /// CPU seconds since the start; `None` where threads that ended took more along than was used.
    pub(crate) fn used_s(&self) -> Option<f64> {
        let after_s = self.pid.and_then(cpu_s);
        let used_s = after_s
            .zip(self.before_s)
            .map(|(after, before)| after - before);
        used_s.filter(|used_s| *used_s >= 0.0)
    }
}

/// CPU seconds of the living threads of a process tree so far, to the nanosecond: the kernel's
/// clock ticks would be too coarse for what is soon over. Time of threads that have ended is
/// missing.
pub(crate) fn cpu_s(pid: u32) -> Option<f64> {
    cpu_of(&family(pid))
}

fn cpu_of(members: &[u32]) -> Option<f64> {
    let tasks = members.iter().flat_map(|pid| {
        fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten()
    });
    let ran_ns: Vec<u64> = tasks
        .filter_map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        })
        .collect();
    (!ran_ns.is_empty()).then(|| ran_ns.iter().sum::<u64>() as f64 / 1e9)
}

/// CPU seconds of this process so far, all threads.
pub(crate) fn own_cpu_s() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

/// CPU seconds of the calling thread so far.
pub(crate) fn thread_cpu_s() -> f64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0.0, |time| {
        time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
    })
}

/// Allows as many descriptors as this user may have; returns the limit.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 1_024;
    };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

/// SYNs and finished handshakes that listeners of this machine dropped since boot, because their
/// backlog was full; `None` where the kernel does not say.
pub(crate) fn listen_drops() -> Option<u64> {
    let text = fs::read_to_string("/proc/net/netstat").ok()?;
    parse_listen_drops(&text)
}

fn parse_listen_drops(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    names
        .split_whitespace()
        .zip(values.split_whitespace())
        .find(|(name, _)| *name == "ListenDrops")
        .and_then(|(_, value)| value.parse().ok())
}

/// The fields of /proc/PID/stat that matter here.
#[derive(Debug, PartialEq)]
struct Stat {
    parent: u32,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name in parentheses may itself contain spaces and parentheses.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
        })
    }
}

/// `pid` and all of its descendants.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let child = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some((child, stat)) = child.and_then(|child| Some((child, Stat::read(child)?))) {
            children.entry(stat.parent).or_default().push(child);
        }
    }
    let mut members = vec![pid];
    let mut at = 0;
    while at < members.len() {
        members.extend(children.remove(&members[at]).unwrap_or_default());
        at += 1;
    }
    members
}

fn proc_kib(pid: u32, file: &str, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_strange_names() {
        let text = "7 (a) b (c)) S 3 7 7 0 -1 0 1 0 0 0 120 30 9 9 20 0 2 0";
        assert_eq!(Stat::parse(text), Some(Stat { parent: 3 }));
        assert_eq!(Stat::parse("7 (x"), None);
        assert_eq!(Stat::parse("7 (x) S"), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let usage = usage(std::process::id()).unwrap();
        assert!(usage.rss > 100_000, "{usage:?}");
        assert_eq!(super::usage(u32::MAX), None);
        assert!(is_alive(std::process::id()) && !is_alive(u32::MAX));
    }

    #[test]
    fn listen_drops_are_found_by_name() {
        let text = "TcpExt: A ListenDrops B\nTcpExt: 1 42 3\nIpExt: A\nIpExt: 0\n";
        assert_eq!(parse_listen_drops(text), Some(42));
        assert_eq!(parse_listen_drops("IpExt: A\nIpExt: 0\n"), None);
    }
}
