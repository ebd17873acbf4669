//! Writes the documents that come from the table of configuration keys into a folder.
//!
//! `cargo xtask gen` runs it with the project's `docs` folder.

use std::path::PathBuf;

use stentor_server::config::{reference, sample};

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("docs"), PathBuf::from);
    std::fs::write(folder.join("configuration.md"), reference())?;
    std::fs::write(folder.join("stentor.sample.toml"), sample())
}
