//! The `stentor` command.

mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A communication server that speaks MQTT.
#[derive(Debug, Parser)]
#[command(name = "stentor", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server.
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
    }
}
