//! How the process takes its memory.

use stentor_hub::{Holding, Ledger};

use crate::context::ServerContext;
use crate::own_status::OwnStatus;

/// Which part of `limits.memory` all event streams may hold.
const STREAMS_PART: u64 = 8;

/// Asks the system not to back memory with huge pages, where it does so unasked.
///
/// A server with many connections holds many small things that come and go; in pages of 2 MiB the
/// gaps between them cost more than the fewer page-table look-ups save. Measured with 15,000
/// connections: 0.7 instead of 1.8 KiB each. The allocator asks for none (its feature `no_thp`),
/// but hashes of passwords do: where the system gives them to who asks alone, they get them. Where
/// it refuses, nothing changes.
pub(crate) fn prefer_small_pages() {
    #[cfg(target_os = "linux")]
    if gives_huge_pages_unasked() {
        let _ = nix::sys::prctl::set_thp_disable(true);
    }
}

/// Whether huge pages are given to all; it counts as a yes where the system does not tell.
#[cfg(target_os = "linux")]
fn gives_huge_pages_unasked() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .map_or(true, |enabled| enabled.contains("[always]"))
}

/// The anonymous memory of this process that is resident, in bytes: heap and stacks, without files
/// that it has mapped, such as the retained messages. The allocator keeps what was freed for a
/// while, so this is what the heap takes, not what is in use. `None` where the system does not
/// tell.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    OwnStatus::read().anonymous_bytes
}

/// Keeps what is in memory, passwords on their way among it, out of core dumps: there are none, and
/// one that a system makes all the same holds no memory of the process. Where the system refuses,
/// nothing changes.
pub(crate) fn keep_out_of_core_dumps() {
    use nix::sys::resource::{Resource, setrlimit};
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    // Dumps that go to a program are not bounded by the limit.
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/coredump_filter", "0");
}

/// Counts what no shard counts: what is in the rings between them, answers to calls, the index of
/// the retained topics, and what event streams hold. Gives up lists that nobody uses any more. For
/// threads that may wait.
pub(crate) fn take_stock(context: &ServerContext) {
    context.surveys.drop_old();
    let ledger = &context.ledger;
    let answers = context.call_queue.answers.bytes() as u64;
    ledger.write_common(Holding::Mesh, context.rings.bytes() + answers);
    ledger.write_common(Holding::Retained, context.retained.heap_bytes());
    let streams = &context.visitors.streams;
    streams.set_bytes_max(ledger.budget() / STREAMS_PART);
    ledger.write_common(Holding::Connections, streams.bytes());
}

/// The bytes that clients may make the server hold; 0 for any number.
pub(crate) fn limit(ledger: &Ledger) -> u64 {
    match ledger.budget() {
        u64::MAX => 0,
        bytes => bytes,
    }
}

/// The memory of the machine, or what the control group of this process may use if that is less, in
/// bytes; `None` where the system does not tell.
pub(crate) fn machine_bytes() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.as_deref().and_then(total_of);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |path: &str| std::fs::read_to_string(path).ok();
    machine.into_iter().chain(group_limit(&groups, read)).min()
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The least limit of the control groups that a process is in, version 2 or 1: each may be bounded,
/// and so may those above it.
fn group_limit(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut least = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            // "max" is not a number, and means unlimited.
            let limit = read(&format!("{root}{path}/{file}"));
            let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
            least = least.into_iter().chain(limit).min();
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_limits_counts() {
        assert_eq!(
            total_of("MemTotal:        8 kB\nMemFree: 1 kB\n"),
            Some(8_192)
        );
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "4096\n"),
            ("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "2048\n"),
        ];
        let read = |path: &str| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        assert_eq!(group_limit("0::/a/b\n", read), Some(4_096));
        assert_eq!(
            group_limit("4:cpu:/x\n3:memory,hugetlb:/c\n0::/a\n", read),
            Some(2_048)
        );
        assert_eq!(group_limit("0::/\n", read), None);
    }
}
