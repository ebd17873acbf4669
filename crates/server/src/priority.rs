//! Threads that give way to others.
#![allow(unsafe_code)]

/// How nice a thread is that does work which can wait, where it cannot be idle; 0 is normal, 19
/// the nicest.
const NICE: libc::c_int = 19;

/// How nice a thread is that gives way, but gets on beside others that never rest: about a tenth
/// of what each of those gets.
const SOMEWHAT_NICE: libc::c_int = 10;

/// Gives the calling thread only the time that nobody else wants, for work like password hashing.
/// Where the system refuses, the thread is as nice as it gets.
pub(crate) fn lower() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure outlives the call; on Linux 0 names the calling thread alone.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &param) };
    if result != 0 {
        // SAFETY: three integers go in, one comes out; 0 names the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    }
}

/// Gives the calling thread about a tenth of the time that one of the others wants, so that work
/// which waits is done at last on a machine that is never idle.
pub(crate) fn lower_somewhat() {
    // SAFETY: three integers go in, one comes out; 0 names the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, SOMEWHAT_NICE) };
}
