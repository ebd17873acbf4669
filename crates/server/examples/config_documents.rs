//! Writes the documents that come from the server's tables into a folder: configuration keys,
//! `$SYS` topics, metrics, reasons, and the description of the HTTP API.
//!
//! `cargo xtask gen` runs it with the project's `docs` folder.

use std::path::PathBuf;

use stentor_server::config::{reference, sample};
use stentor_server::{figures_reference, metrics_reference, openapi, reasons, sys_topics};

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("docs"), PathBuf::from);
    std::fs::write(folder.join("configuration.md"), reference())?;
    std::fs::write(folder.join("stentor.sample.toml"), sample())?;
    std::fs::write(folder.join("openapi.json"), openapi())?;
    std::fs::create_dir_all(folder.join("reference"))?;
    std::fs::write(folder.join("reference/sys-topics.md"), sys_topics())?;
    std::fs::write(folder.join("reference/metrics.md"), metrics_reference())?;
    std::fs::write(folder.join("reference/figures.md"), figures_reference())?;
    std::fs::write(folder.join("reference/reasons.md"), reasons())
}
