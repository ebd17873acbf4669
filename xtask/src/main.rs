//! The project's own tools: `cargo xtask tidy` checks its rules, `cargo xtask gen` writes its
//! generated files anew.

#![forbid(unsafe_code)]

mod generate;
mod masked;
mod tidy;
mod tree;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy   check the project's own rules; prints what breaks them and fails
  gen    write the generated files anew: configuration documents, layers
";

fn main() -> ExitCode {
    // The manifest's folder is xtask/, one below the root. Asked at run time: objects may be shared
    // between checkouts, and this one is meant.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    let manifest = manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&manifest).join("..");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["gen"] => generate::run(&root),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(summary) => {
            eprintln!("{summary}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}
