//! Writes the generated files again.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::events;
use crate::tidy::layers::{LISTING, refreshed};
use crate::tree::Tree;

/// The reference pages that the command line writes.
const CLI_PAGES: [&str; 2] = ["commands", "exit-codes"];

/// The one that the command line of the benchmarks writes.
const BENCH_PAGE: &str = "docs/reference/bench.md";

/// Writes everything that is generated.
///
/// # Errors
/// A sentence that says what failed.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let tree = Tree::read(root)?;
    fs::write(root.join(LISTING), refreshed(&tree))
        .map_err(|error| format!("write {LISTING}: {error}"))?;
    let log_events = events::page(&tree).map_err(|error| format!("{}: {error}", events::PAGE))?;
    fs::write(root.join(events::PAGE), log_events)
        .map_err(|error| format!("write {}: {error}", events::PAGE))?;
    // The tables of the server and the command line write their documents; xtask itself stays
    // quick to build.
    let example = ["stentor-server", "--example", "config_documents"];
    cargo_run(root, &example, &["docs"])?;
    let cli = ["stentor-cli", "--bin", "stentor"];
    for page in CLI_PAGES {
        let text = cargo_run(root, &cli, &["man", "--markdown", page])?;
        let path = format!("docs/reference/{page}.md");
        fs::write(root.join(&path), text).map_err(|error| format!("write {path}: {error}"))?;
    }
    let bench = ["stentor-bench", "--example", "bench_reference"];
    let text = cargo_run(root, &bench, &[])?;
    fs::write(root.join(BENCH_PAGE), text)
        .map_err(|error| format!("write {BENCH_PAGE}: {error}"))?;
    Ok(format!(
        "gen: {LISTING}, docs/configuration.md, docs/stentor.sample.toml, \
         docs/openapi.json, docs/reference/*.md"
    ))
}

/// Runs a program of the project; returns what it prints.
fn cargo_run(root: &Path, program: &[&str], arguments: &[&str]) -> Result<Vec<u8>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--package"])
        .args(program)
        .arg("--")
        .args(arguments)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("run cargo: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err("the reference documents were not written".to_owned()),
    }
}
