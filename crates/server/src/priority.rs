//! Threads that give way to others.
#![allow(unsafe_code)]

/// How nice a thread is that does work which can wait; 0 is normal, 19 the nicest.
const NICE: libc::c_int = 10;

/// Lowers the priority of the calling thread below that of the shards, for work like password
/// hashing. Where the system refuses, the thread runs as before.
pub(crate) fn lower() {
    // SAFETY: three integers go in, one comes out; on Linux 0 names the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}
