//! Child processes with a deadline.

use std::fmt;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::DEADLINE;

/// What a program that has ended left behind.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            stdout,
            stderr,
        } = self;
        write!(
            f,
            "{status}\n--- standard output\n{stdout}\n--- standard error\n{stderr}"
        )
    }
}

impl Finished {
    /// The standard output of a program that had to succeed.
    ///
    /// # Panics
    /// If it did not end with exit code 0.
    #[track_caller]
    pub fn success(self) -> String {
        assert!(self.status.success(), "a program failed: {self}");
        self.stdout
    }

    /// The standard error of a program that had to fail.
    ///
    /// # Panics
    /// If it ended with exit code 0 or by a signal.
    #[track_caller]
    pub fn refusal(self) -> String {
        assert!(
            self.status.code().is_some_and(|code| code != 0),
            "a program was to refuse: {self}"
        );
        self.stderr
    }
}

/// Runs a program to its end within [`DEADLINE`].
///
/// # Panics
/// If it cannot be started or does not end in time; it is killed then.
#[track_caller]
pub fn run(command: &mut Command) -> Finished {
    run_within(command, DEADLINE)
}

/// Runs a program to its end within a time of the caller's.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_within(command: &mut Command, deadline: Duration) -> Finished {
    let child = start(command);
    finish(child, deadline)
}

/// Starts a program with its output captured and no input.
///
/// # Panics
/// If it cannot be started.
#[track_caller]
pub fn start(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"))
}

/// Waits for a program that [`start`] started.
///
/// # Panics
/// If it does not end in time; it is killed then.
#[track_caller]
pub fn finish(mut child: Child, deadline: Duration) -> Finished {
    let stdout = gather(child.stdout.take());
    let stderr = gather(child.stderr.take());
    let (status, in_time) = wait(&mut child, deadline);
    let finished = Finished {
        status,
        stdout: stdout
            .join()
            .expect("the reader of standard output panicked"),
        stderr: stderr
            .join()
            .expect("the reader of standard error panicked"),
    };
    assert!(
        in_time,
        "a program did not end within {deadline:?}: {finished}"
    );
    finished
}

/// Waits for a child; one that does not end in time is killed. Tells whether it ended by itself.
///
/// # Panics
/// If the system cannot wait for it.
pub fn wait(child: &mut Child, deadline: Duration) -> (ExitStatus, bool) {
    // A thread of its own ends the child at the deadline: waiting itself has no time limit.
    let (done, ended) = mpsc::channel::<()>();
    let pid = pid_of(child);
    let guard = thread::spawn(move || {
        let expired = ended.recv_timeout(deadline) == Err(mpsc::RecvTimeoutError::Timeout);
        if expired {
            // An error means that the child ended in this very moment.
            let _ = kill(pid, Signal::SIGKILL);
        }
        expired
    });
    let status = child.wait().expect("a child can be waited for");
    drop(done);
    let expired = guard.join().expect("the guard of a child panicked");
    (status, !expired)
}

/// The process id in the form that signals take.
///
/// # Panics
/// Never on systems whose process ids are positive `i32`s.
#[must_use]
pub fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id fits"))
}

fn gather<R: Read + Send + 'static>(source: Option<R>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut source) = source {
            // What was read before an error is still worth showing.
            let _ = source.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
