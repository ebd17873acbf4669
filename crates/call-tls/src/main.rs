//! `stentor-call-tls`: what `stentor-call` becomes for a server at `calls://`.
//!
//! It is the same program with TLS in it. The library of TLS is large and prepares itself at each
//! start, which a program pays that a mail server starts for every message. So `stentor-call` has
//! none, and becomes this program only where one is needed.
#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
#[path = "../../call/src/start.rs"]
mod start;
mod tls;

use std::ffi::OsString;

use tls::Tls;

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
fn main() {
    std::process::exit(run(std::env::args_os().skip(1)));
}

/// Does everything; returns the exit code.
fn run(arguments: impl Iterator<Item = OsString>) -> i32 {
    let arguments: Vec<OsString> = arguments.collect();
    stentor_call::run(&arguments, &|secret| {
        let tls = Tls::new(secret.name, secret.ca_file)?;
        Ok(Box::new(tls))
    })
}
