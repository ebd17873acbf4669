//! The entry point without Rust's runtime.
//!
//! The runtime reads the memory map to find the stack's end, installs signal handlers and polls
//! the standard streams: about half of the system calls of the whole program. None of it is needed
//! here. The C library has set up the environment and the arguments before `main`, which is where
//! `std::env` finds them.
#![expect(
    unsafe_code,
    reason = "exporting `main` under its C name; ignoring SIGPIPE and SIGXFSZ"
)]

// With musl, for one, the arguments are set by Rust's runtime only: `args_os` would be empty here.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
compile_error!(
    "this entry point relies on glibc, which hands the arguments out before `main`; for other \
     targets leave this module out and use the runtime's `main`"
);

/// What the C library calls.
// SAFETY: the one `main` of the program, with the signature that the C library expects (it may
// have fewer parameters than it is given).
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    // The runtime would have done this: a caller that does not read what is printed must get the
    // exit code all the same.
    // And a caller that bounds the size of files gets the code of a write that fails.
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: nothing runs beside this thread, and ignoring a signal runs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let code = crate::run(std::env::args_os().skip(1));
    std::process::exit(code)
}
