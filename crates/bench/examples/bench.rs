//! `bench` alone, without the server in the same program:
//! `cargo run --release -p stentor-bench --example bench -- bench list`.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
enum Command {
    Bench(stentor_bench::Args),
}

fn main() -> ExitCode {
    let Command::Bench(args) = Command::parse();
    stentor_bench::run(args)
}
