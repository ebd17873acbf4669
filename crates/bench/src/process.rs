//! What a process costs: CPU time and resident memory, from /proc.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::sync::{Mutex, PoisonError};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};

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
        // One that has ended has no memory, though its parent may not have asked for it yet.
        let Some(rss) = proc_bytes(pid, "status", "VmRSS:") else {
            continue;
        };
        found = true;
        total.rss += rss;
        total.pss += proc_bytes(pid, "smaps_rollup", "Pss:").unwrap_or(0);
    }
    found.then_some(total)
}

/// One look at a process tree: its CPU seconds, and its resident bytes. Cheap enough to be taken
/// while something is measured; `None` if the process is gone.
pub(crate) fn glance(pid: u32) -> Option<(f64, u64)> {
    let members = family(pid);
    Some((cpu_of(&members)?, resident(&members)?))
}

/// The same for this process without its children.
pub(crate) fn glance_alone() -> Option<(f64, u64)> {
    let pid = std::process::id();
    Some((clock_s(pid)?, resident(&[pid])?))
}

/// Processes that are part of the generator, beside this one.
static HELPERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Counts a process as part of the generator from now on.
pub(crate) fn note_helper(pid: u32) {
    let mut helpers = HELPERS.lock().unwrap_or_else(PoisonError::into_inner);
    helpers.insert(pid);
}

/// Counts it no longer.
pub(crate) fn forget_helper(pid: u32) {
    let mut helpers = HELPERS.lock().unwrap_or_else(PoisonError::into_inner);
    helpers.remove(&pid);
}

/// The same for the generator: this process and its helpers.
pub(crate) fn glance_generator() -> Option<(f64, u64)> {
    let helpers = HELPERS.lock().unwrap_or_else(PoisonError::into_inner);
    let members: Vec<u32> = helpers.iter().copied().collect();
    drop(helpers);
    let (cpu_s, rss) = glance_alone()?;
    let helped_s: f64 = members.iter().filter_map(|pid| clock_s(*pid)).sum();
    Some((cpu_s + helped_s, rss + resident(&members)?))
}

/// Resident bytes of those together; `None` if they have all ended.
fn resident(members: &[u32]) -> Option<u64> {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten()?;
    let pages = members.iter().filter_map(|pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    let pages: u64 = pages.sum();
    let is_there = pages > 0 || members.is_empty();
    is_there.then_some(pages * page.cast_unsigned())
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

    /// CPU seconds since the start; `None` where a process that ended took more along than was
    /// used.
    pub(crate) fn used_s(&self) -> Option<f64> {
        let after_s = self.pid.and_then(cpu_s);
        let used_s = after_s
            .zip(self.before_s)
            .map(|(after, before)| after - before);
        used_s.filter(|used_s| *used_s >= 0.0)
    }
}

/// CPU seconds of a process tree so far, to the nanosecond: the kernel's clock ticks would be too
/// coarse for what is soon over. Threads that have ended count, and so do, by those ticks, children
/// that were waited for.
pub(crate) fn cpu_s(pid: u32) -> Option<f64> {
    cpu_of(&family(pid))
}

fn cpu_of(members: &[u32]) -> Option<f64> {
    let each = members.iter().filter_map(|pid| {
        // What a child has used goes over to its parent when it has ended and was waited for.
        let ended_s = Stat::read(*pid).map_or(0.0, |stat| stat.children_s());
        Some(clock_s(*pid)? + ended_s)
    });
    each.reduce(|sum, each_s| sum + each_s)
}

/// CPU seconds of all threads that a process has or had.
fn clock_s(pid: u32) -> Option<f64> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into().ok()?)).ok()?;
    let time = clock_gettime(clock).ok()?;
    Some(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
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
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0.0, |time| {
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
    /// Clock ticks of children that were waited for, and of theirs.
    children_ticks: u64,
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
            // In user mode, and in the kernel.
            children_ticks: fields.get(13)?.parse::<u64>().ok()?
                + fields.get(14)?.parse::<u64>().ok()?,
        })
    }

    fn children_s(&self) -> f64 {
        let second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
        self.children_ticks as f64 / second as f64
    }
}

/// All processes that this one can see.
pub(crate) fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// `pid` and all of its descendants.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for child in all() {
        if let Some(stat) = Stat::read(child) {
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

/// A figure that the kernel gives in KiB.
fn proc_bytes(pid: u32, file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_strange_names() {
        let text = "7 (a) b (c)) S 3 7 7 0 -1 0 1 0 0 0 120 30 9 8 20 0 2 0";
        let stat = Stat {
            parent: 3,
            children_ticks: 17,
        };
        assert_eq!(Stat::parse(text), Some(stat));
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
    fn a_process_that_has_ended_has_no_memory() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        assert_eq!(usage(child.id()), None);
        assert_eq!(glance(child.id()), None);
        assert!(child.wait().unwrap().success());
    }

    /// Uses the processor for so long.
    fn burn(seconds: f64) {
        let begun_s = thread_cpu_s();
        while thread_cpu_s() - begun_s < seconds {
            std::hint::black_box(begun_s);
        }
    }

    /// Other tests in this process may add to it.
    #[test]
    fn threads_and_children_that_ended_have_used_something() {
        let meter = CpuMeter::start(Some(std::process::id()));
        for _ in 0..10 {
            let thread = std::thread::spawn(|| burn(0.1));
            thread.join().unwrap();
        }
        let used_s = meter.used_s().unwrap();
        assert!(used_s >= 0.99, "{used_s}");
        let before_s = cpu_s(std::process::id()).unwrap() - clock_s(std::process::id()).unwrap();
        let loops = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        let mut child = std::process::Command::new("sh");
        assert!(child.args(["-c", loops]).status().unwrap().success());
        let after_s = cpu_s(std::process::id()).unwrap() - clock_s(std::process::id()).unwrap();
        // Some tenths of a second; a loop of that length takes 20 ms at the very least.
        assert!(after_s - before_s > 0.01, "{before_s} {after_s}");
    }

    #[test]
    fn listen_drops_are_found_by_name() {
        let text = "TcpExt: A ListenDrops B\nTcpExt: 1 42 3\nIpExt: A\nIpExt: 0\n";
        assert_eq!(parse_listen_drops(text), Some(42));
        assert_eq!(parse_listen_drops("IpExt: A\nIpExt: 0\n"), None);
    }
}
