//! Where and by what a result was measured.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::utsname::uname;
use serde_json::{Map, Value, json};

/// What the kernel limits that a load of many connections may meet.
const LIMITS: [(&str, &str); 5] = [
    ("listen_backlog_max", "/proc/sys/net/core/somaxconn"),
    ("local_ports", "/proc/sys/net/ipv4/ip_local_port_range"),
    ("tcp_read_buffer", "/proc/sys/net/ipv4/tcp_rmem"),
    ("tcp_write_buffer", "/proc/sys/net/ipv4/tcp_wmem"),
    ("cpu_quota", "/sys/fs/cgroup/cpu.max"),
];

/// Processor, kernel, limits, version and commit, for the JSON.
pub(crate) fn describe(descriptors: u64) -> Value {
    let system = uname().ok();
    let text = |pick: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
        system
            .as_ref()
            .map(|s| pick(s).to_string_lossy().into_owned())
    };
    json!({
        "processor": processor(),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "memory_bytes": memory_bytes(),
        "system": text(|s| s.sysname()),
        "kernel": text(|s| s.release()),
        "architecture": text(|s| s.machine()),
        "descriptors_max": descriptors,
        "limits": limits(),
        "bench_version": env!("CARGO_PKG_VERSION"),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "commit": commit(),
        "shared": "server and generator share this machine",
    })
}

/// One line for people.
pub(crate) fn line() -> String {
    let kernel = uname()
        .map(|s| s.release().to_string_lossy().into_owned())
        .unwrap_or_default();
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = processor().unwrap_or_else(|| "unknown processor".into());
    format!("{processor}, {count} processors shared by server and generator, kernel {kernel}")
}

fn limits() -> Value {
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let read = |(name, file): &(&str, &str)| {
        let text = fs::read_to_string(file).ok()?;
        Some(((*name).to_owned(), Value::from(words(text))))
    };
    Value::Object(LIMITS.iter().filter_map(read).collect::<Map<_, _>>())
}

/// The commit of the checkout that this program lies in; `None` for an installed one, unless its
/// builder said which by STENTOR_COMMIT.
fn commit() -> Option<String> {
    if let Some(commit) = option_env!("STENTOR_COMMIT") {
        return Some(commit.to_owned());
    }
    let program = std::env::current_exe().ok()?;
    let folder: PathBuf = program.parent()?.into();
    let told = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output()
        .ok()?;
    let commit = String::from_utf8(told.stdout).ok()?.trim().to_owned();
    (told.status.success() && !commit.is_empty()).then_some(commit)
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}
