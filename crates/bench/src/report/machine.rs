//! Where and by what a result was measured.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::utsname::uname;
use serde_json::{Map, Value, json};
use stentor_auth::calendar::Utc;

#[cfg(test)]
#[path = "../../build.rs"]
#[expect(dead_code, reason = "cargo runs it; tests look at its parts")]
mod build_script;

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
    format!("{processor}, {count} processors, kernel {kernel}")
}

fn limits() -> Value {
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let read = |(name, file): &(&str, &str)| {
        let text = fs::read_to_string(file).ok()?;
        Some(((*name).to_owned(), Value::from(words(text))))
    };
    Value::Object(LIMITS.iter().filter_map(read).collect::<Map<_, _>>())
}

/// This second, as `2026-11-21T08:15:30Z`.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Utc::new(since.unwrap_or_default().as_secs()).to_string()
}

/// The commit that this program was built from, as its builder or the build script said by
/// STENTOR_COMMIT; else that of the checkout that it lies in.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn git(folder: &Path, words: &[&str]) -> String {
        let who = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
        ];
        let mut command = Command::new("git");
        command.arg("-C").arg(folder).args(who).args(words);
        let told = command.output().expect("git runs");
        assert!(told.status.success(), "{told:?}");
        String::from_utf8(told.stdout)
            .expect("text")
            .trim()
            .to_owned()
    }

    #[test]
    fn the_build_knows_its_commit_and_nobody_elses() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let folder = folder.path();
        let manifest = folder.join("Cargo.toml");
        assert!(
            build_script::about(folder).is_empty(),
            "there is no checkout"
        );
        git(folder, &["init", "-q"]);
        git(folder, &["commit", "-q", "--allow-empty", "-m", "first"]);
        fs::write(&manifest, "a").expect("it can be written");
        assert!(
            build_script::about(folder).is_empty(),
            "it is of something else"
        );
        git(folder, &["add", "Cargo.toml"]);
        git(folder, &["commit", "-q", "-m", "second"]);
        let commit = git(folder, &["rev-parse", "--short=12", "HEAD"]);
        let told = build_script::about(folder);
        assert_eq!(told[0], format!("cargo::rustc-env=STENTOR_COMMIT={commit}"));
        let watched = told[1..]
            .iter()
            .map(|line| line.split_once('=').expect("a file").1);
        assert!(
            watched.clone().count() > 1 && watched.clone().all(|file| Path::new(file).exists())
        );
        fs::write(&manifest, "b").expect("it can be written");
        assert!(build_script::about(folder)[0].ends_with(&format!("{commit}-dirty")));
    }
}
