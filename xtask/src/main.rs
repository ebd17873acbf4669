//! The project's own tools: `cargo xtask tidy` checks its rules, `cargo xtask gen` writes its
//! generated files, `cargo xtask pages` runs the commands of the book, `cargo xtask english`
//! measures its sentences, `cargo xtask services` compiles the hub without its services, and
//! `cargo xtask mutate` checks what the simulation finds.

#![forbid(unsafe_code)]

mod blocks;
mod events;
mod generate;
mod masked;
mod mutate;
mod pages;
mod prose;
mod services;
mod tidy;
mod tree;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy   check the project's own rules; prints what breaks them and fails
  gen    write the generated files again: layers, and the reference pages below docs/
  pages  run the commands of the pages below docs/, with the stentor that was built before
  services
         check that the hub compiles without any one of its services
  mutate [NAME…]
         leave out the rules of xtask/mutations.toml, one at a time, in a copy of the project, and
         check that the simulation of the hub finds each
  english [PATH…]
         the length of the sentences of each page, and what tidy would say of these pages
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
        ["pages"] => pages::run(&root),
        ["services"] => services::run(&root),
        ["mutate", names @ ..] => mutate::run(&root, names),
        ["english", paths @ ..] => {
            tree::Tree::read(&root).map(|tree| tidy::english::report(&tree, paths))
        }
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
