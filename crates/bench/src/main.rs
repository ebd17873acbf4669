//! The `stentor-bench` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// The server has the same one. A generator of load has to be as fast as what it measures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    stentor_bench::main()
}
