//! Where a result was measured.

use std::fs;

use nix::sys::utsname::uname;
use serde_json::{Value, json};

/// Processor, kernel, limits and version, for the JSON.
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
        "bench_version": env!("CARGO_PKG_VERSION"),
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
