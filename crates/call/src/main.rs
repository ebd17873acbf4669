//! `stentor-call`: asks a server about a file and exits with the code that the caller understands.
//!
//! A mail server spawns it for each message, so what counts is the time from `exec` to `exit`:
//! one connection, one write, one read. There is no runtime, no name resolution and no
//! configuration file. Rust's own start-up is left out where that is possible (`start`). For a
//! server that speaks TLS, another program takes over (`handover`).
#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

mod handover;
#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
mod start;

use std::ffi::OsString;

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
fn main() {
    std::process::exit(run(std::env::args_os().skip(1)));
}

/// Does everything; returns the exit code.
fn run(arguments: impl Iterator<Item = OsString>) -> i32 {
    let arguments: Vec<OsString> = arguments.collect();
    stentor_call::run(&arguments, &|_| Err(handover::hand_over(&arguments)))
}
