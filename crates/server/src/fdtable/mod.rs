//! Private tables of file descriptors, one per shard thread.
//!
//! With a table of its own, a shard's small system calls take no lock that another thread holds,
//! and the limit on open descriptors counts per shard. The price: **a descriptor number means
//! nothing outside the thread whose table it is in.** These rules keep that safe:
//!
//! 1. What several threads name (polls, wakers, inboxes, listeners) is made on the main thread
//!    before the first shard leaves the shared table, so it has the same number everywhere.
//! 2. Right after [`make_private`], a shard closes everything in its table but a short list:
//!    a stray copy would keep a stranger's dead socket alive.
//! 3. Later descriptors come by `SCM_RIGHTS` only ([`passing`]).
//! 4. What only shards use is closed in the main table when all shards have confirmed.
//!
//! Where the system refuses `unshare` (some container profiles), all threads keep one table: the
//! same code runs, nothing is closed, and the limit counts for all shards together.
#![allow(unsafe_code)]

pub(crate) mod passing;

use std::os::fd::RawFd;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Which descriptor table the shards use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// One per shard.
    Private,
    /// One for the whole process: `unshare` was refused.
    Shared,
}

/// Finds out, on a thread made for it, whether this system allows private tables.
pub(crate) fn probe() -> Table {
    let probe = std::thread::Builder::new()
        .name("fd-probe".into())
        .spawn(|| unshare(CloneFlags::CLONE_FILES).is_ok());
    match probe.map(std::thread::JoinHandle::join) {
        Ok(Ok(true)) => Table::Private,
        _ => Table::Shared,
    }
}

/// Gives the calling thread its own copy of the descriptor table and closes everything in it but
/// `keep` and the three standard streams.
///
/// To be called once per shard thread, before that thread owns any descriptor that is not in
/// `keep`.
///
/// # Errors
/// When the system refuses; the table is then still shared and nothing was closed.
pub(crate) fn make_private(keep: &[RawFd]) -> Result<(), Errno> {
    unshare(CloneFlags::CLONE_FILES)?;
    // SAFETY: the table was copied by the call above, so it belongs to this thread alone, which
    // owns nothing in it but `keep`: owners in other threads refer to the numbers in their own
    // table, which this does not touch.
    unsafe { close_all_but(keep) };
    Ok(())
}

/// Closes descriptors in the calling thread's table by number. Used for what the main thread made
/// for the shards, whose owning values moved into their threads.
///
/// The caller must know that in *this* table nothing owns these numbers: that is so on the main
/// thread, for what moved into shards that have confirmed [`make_private`].
pub(crate) fn close_moved(moved: &[RawFd]) {
    for fd in moved {
        // SAFETY: see above; the owning value lives in a thread with another table, where the
        // number refers to another entry.
        unsafe { libc::close(*fd) };
    }
}

/// # Safety
/// Nothing in the calling thread's table other than `keep` and the standard streams may be owned
/// by a value that this thread, or a thread that shares its table, still uses.
unsafe fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<u32> = keep
        .iter()
        .filter_map(|fd| u32::try_from(*fd).ok())
        .collect();
    keep.extend([0, 1, 2]);
    keep.sort_unstable();
    let mut from = 0;
    for fd in keep {
        if fd > from {
            // SAFETY: passed on from the caller.
            unsafe { close_range(from, fd - 1) };
        }
        from = from.max(fd + 1);
    }
    // SAFETY: passed on from the caller.
    unsafe { close_range(from, u32::MAX) };
}

/// # Safety
/// As [`close_all_but`], for the numbers `first..=last`.
unsafe fn close_range(first: u32, last: u32) {
    // SAFETY: the system call takes three integers and touches nothing but the table.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 {
        return;
    }
    // Kernels before 5.9: walk the table. The directory's own descriptor is among what is listed,
    // so collect first and let closing it twice fail.
    for fd in open_descriptors("/proc/thread-self/fd") {
        if u32::try_from(fd).is_ok_and(|fd| (first..=last).contains(&fd)) {
            // SAFETY: passed on from the caller.
            unsafe { libc::close(fd) };
        }
    }
}

/// The descriptors that a directory like `/proc/self/task/TID/fd` lists.
pub(crate) fn open_descriptors(directory: &str) -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Raises the limit on open descriptors to what this process may have, and returns it.
pub(crate) fn raise_limit() -> u64 {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) if soft < hard => {
            if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
                hard
            } else {
                soft
            }
        }
        Ok((soft, _)) => soft,
        Err(_) => 1024,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::sync::{Arc, Barrier, mpsc};

    fn descriptors_of(tid: i32) -> Vec<RawFd> {
        let mut fds = open_descriptors(&format!("/proc/self/task/{tid}/fd"));
        fds.sort_unstable();
        fds
    }

    /// Each thread keeps exactly its list, and what one closes stays open in the others.
    #[test]
    fn each_thread_holds_only_its_own() {
        if probe() == Table::Shared {
            eprintln!("skipped: this system refuses private descriptor tables");
            return;
        }
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let stray = File::open("/proc/self/stat").unwrap();
        let keep = [theirs.as_raw_fd()];
        let barrier = Arc::new(Barrier::new(3));
        let (tids, tid_of) = mpsc::channel();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (barrier, tids) = (Arc::clone(&barrier), tids.clone());
                std::thread::spawn(move || {
                    make_private(&keep).unwrap();
                    tids.send(nix::unistd::gettid().as_raw()).unwrap();
                    barrier.wait();
                    barrier.wait();
                })
            })
            .collect();
        barrier.wait();
        for _ in 0..2 {
            let mut expected = vec![0, 1, 2, keep[0]];
            // A test runner may have closed its standard input.
            expected.retain(|fd| {
                *fd > 2 || descriptors_of(nix::unistd::gettid().as_raw()).contains(fd)
            });
            assert_eq!(descriptors_of(tid_of.recv().unwrap()), expected);
        }
        barrier.wait();
        for thread in threads {
            thread.join().unwrap();
        }
        // The main table lost nothing.
        (&ours).write_all(b"x").unwrap();
        theirs.read_exact(&mut [0]).unwrap();
        assert!(stray.metadata().is_ok());
    }

    /// After `close_moved`, the only copy is the shard's, so the peer sees its end.
    #[test]
    fn no_stray_copy_keeps_a_socket_alive() {
        if probe() == Table::Shared {
            return;
        }
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let number = theirs.as_raw_fd();
        let (go, wait) = mpsc::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            make_private(&[number]).unwrap();
            ready.send(()).unwrap();
            wait.recv().unwrap();
            drop(theirs);
        });
        is_ready.recv().unwrap();
        close_moved(&[number]);
        go.send(()).unwrap();
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        thread.join().unwrap();
    }

    #[test]
    fn the_limit_is_raised_to_the_hard_one() {
        let limit = raise_limit();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0, limit);
    }
}
