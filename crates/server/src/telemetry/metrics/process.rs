//! Figures of the process, under the names that Prometheus gives them everywhere.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};

use crate::own_status::OwnStatus;

/// What the system says of this process; `None` where it does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::telemetry) struct Process {
    /// Processor time, of the program and of the system on its behalf.
    pub(in crate::telemetry) cpu_secs: Option<f64>,
    /// Memory in use, with files that are mapped.
    pub(in crate::telemetry) resident_bytes: Option<u64>,
    /// The part of it that is in no file: heap and stacks.
    pub(in crate::telemetry) anonymous_bytes: Option<u64>,
    /// Addresses in use.
    pub(in crate::telemetry) virtual_bytes: Option<u64>,
    /// Open descriptors, those of the shards excepted where they have tables of their own.
    pub(in crate::telemetry) descriptors: Option<u64>,
    /// How many descriptors a table may have.
    pub(in crate::telemetry) descriptors_max: Option<u64>,
    /// Threads.
    pub(in crate::telemetry) threads: Option<u64>,
}

impl Process {
    /// Asks the system. `with_descriptors` says whether they are few enough to be counted.
    pub(in crate::telemetry) fn read(with_descriptors: bool) -> Self {
        let status = OwnStatus::read();
        let limit = getrlimit(Resource::RLIMIT_NOFILE).ok();
        Self {
            cpu_secs: cpu_secs(),
            resident_bytes: status.resident_bytes,
            anonymous_bytes: status.anonymous_bytes,
            virtual_bytes: status.virtual_bytes,
            descriptors: with_descriptors.then(descriptors).flatten(),
            descriptors_max: limit.map(|(soft, _)| soft),
            threads: status.threads,
        }
    }
}

fn cpu_secs() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let secs = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Some(secs(usage.user_time()) + secs(usage.system_time()))
}

fn descriptors() -> Option<u64> {
    // The one that reads the folder is gone afterwards.
    let count = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    Some(count.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_figures() {
        let process = Process::read(true);
        assert!(process.cpu_secs.is_some_and(|secs| secs > 0.0));
        assert!(process.resident_bytes > Some(1 << 20));
        assert!(process.virtual_bytes >= process.resident_bytes);
        assert!(process.descriptors > Some(2));
        assert!(process.threads > Some(0));
        assert_eq!(Process::read(false).descriptors, None);
    }
}
