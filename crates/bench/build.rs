//! Tells the release build which commit it is of, so that results name it wherever the program
//! is. Other builds do not know it: each commit would build them again, and they stay in their
//! checkout.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

fn main() -> io::Result<()> {
    let is_release = std::env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    let is_told = std::env::var_os("STENTOR_COMMIT").is_some();
    let mut lines = vec![
        "cargo::rerun-if-env-changed=STENTOR_COMMIT".to_owned(),
        "cargo::rerun-if-changed=build.rs".to_owned(),
    ];
    if is_release && !is_told {
        lines.extend(about(Path::new(env!("CARGO_MANIFEST_DIR"))));
    }
    writeln!(io::stdout(), "{}", lines.join("\n"))
}

/// The commit of the checkout that this folder is of, and the files that change with it, as lines
/// for cargo; nothing without git, and nothing where the checkout is of something else.
pub(crate) fn about(folder: &Path) -> Vec<String> {
    let git = |words: &[&str]| {
        let told = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(words)
            .output();
        let told = told.ok().filter(|told| told.status.success())?;
        let text = String::from_utf8(told.stdout).ok()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    if git(&["ls-files", "Cargo.toml"]).is_none() {
        return Vec::new();
    }
    let Some(commit) = git(&["describe", "--always", "--dirty", "--abbrev=12"]) else {
        return Vec::new();
    };
    let mut lines = vec![format!("cargo::rustc-env=STENTOR_COMMIT={commit}")];
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD", "logs/HEAD"].into_iter().chain(branch.as_deref()) {
        let file = git(&["rev-parse", "--git-path", name]).map(|file| folder.join(file));
        // One that is not there would run this again and again.
        if let Some(file) = file.filter(|file| file.exists()) {
            lines.push(format!("cargo::rerun-if-changed={}", file.display()));
        }
    }
    lines
}
