//! Writes the generated files anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tidy::layers::{LISTING, refreshed};
use crate::tree::Tree;

/// Writes everything that is generated.
///
/// # Errors
/// A sentence that says what failed.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let tree = Tree::read(root)?;
    fs::write(root.join(LISTING), refreshed(&tree))
        .map_err(|error| format!("write {LISTING}: {error}"))?;
    // The server's own tables write their documents; xtask itself stays quick to build.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "--package",
            "stentor-server",
            "--example",
            "config_documents",
        ])
        .args(["--", "docs"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("run cargo: {error}"))?;
    if !status.success() {
        return Err("the reference documents were not written".to_owned());
    }
    Ok(format!(
        "gen: {LISTING}, docs/configuration.md, docs/stentor.sample.toml, \
         docs/reference/sys-topics.md"
    ))
}
