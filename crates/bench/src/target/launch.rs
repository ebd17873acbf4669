//! Starting servers as child processes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stentor_client::Url;
use tempfile::TempDir;

use super::{Needs, Running};
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;

/// A server may take this long until it accepts connections.
const START: Duration = Duration::from_secs(20);
/// And this long to end before it is killed.
const STOP: Duration = Duration::from_secs(5);
/// One shard has the descriptors of one process, 20,000 on many machines, less some for itself.
const CONNECTIONS_PER_SHARD: usize = 19_000;

/// A child process with its temporary folder; ended on drop.
#[derive(Debug)]
pub(super) struct Child {
    name: String,
    process: std::process::Child,
    folder: TempDir,
}

impl Child {
    /// Starts `command` with its standard error in a file of `folder`.
    pub(super) fn spawn(
        name: &str,
        command: &mut Command,
        folder: TempDir,
    ) -> Result<Self, BenchError> {
        let log = File::create(folder.path().join("stderr")).doing("create a log file")?;
        let process = command
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .doing(format!("start {name}"))?;
        Ok(Self {
            name: name.into(),
            process,
            folder,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn check_alive(&mut self) -> Result<(), BenchError> {
        let Some(status) = self
            .process
            .try_wait()
            .doing(format!("look after {}", self.name))?
        else {
            return Ok(());
        };
        let log = fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        let said = if last.is_empty() {
            "nothing".into()
        } else {
            last.join("\n  ")
        };
        Err(BenchError::server(format!(
            "{} ended with {status}; it said:\n  {said}",
            self.name
        )))
    }

    /// Waits until something accepts connections on `port`.
    pub(super) fn wait_for_port(&mut self, port: u16) -> Result<(), BenchError> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            self.check_alive()?;
            if begun.elapsed() > START {
                return Err(BenchError::server(format!("{} does not listen", self.name)));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits for the first `listening URL` line on the child's standard output.
    fn wait_for_url(&mut self) -> Result<Url, BenchError> {
        let Some(output) = self.process.stdout.take() else {
            return Err(BenchError::server(
                "the server's standard output is not captured",
            ));
        };
        let (sender, receiver) = mpsc::channel();
        // The thread reads on until the server ends, so that the pipe never fills.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(url) = line.strip_prefix("listening ") {
                    let _ = sender.send(url.to_owned());
                }
            }
        });
        let begun = Instant::now();
        loop {
            match receiver.recv_timeout(Duration::from_millis(50)) {
                Ok(url) => {
                    return url.parse().map_err(|e| {
                        BenchError::server(format!("{} listens on {url:?}: {e}", self.name))
                    });
                }
                Err(mpsc::RecvTimeoutError::Timeout) if begun.elapsed() < START => {
                    self.check_alive()?;
                }
                Err(_) => {
                    self.process
                        .wait()
                        .doing(format!("wait for {}", self.name))
                        .ok();
                    self.check_alive()?;
                    return Err(BenchError::server(format!("{} does not listen", self.name)));
                }
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.process.id().cast_signed());
        let _ = kill(pid, Signal::SIGTERM);
        let begun = Instant::now();
        while begun.elapsed() < STOP {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A temporary folder for one server.
pub(super) fn folder() -> Result<TempDir, BenchError> {
    TempDir::with_prefix("stentor-bench-").doing("create a temporary folder")
}

/// Finds a program on the PATH or in Cargo's folder.
pub(super) fn find_program(name: &str) -> Result<PathBuf, BenchError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cargo = std::env::home_dir().map(|home| home.join(".cargo/bin"));
    // Debian keeps servers where users' PATHs do not look.
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(cargo)
        .chain(system)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| BenchError::usage(format!("{name} is not installed (not on the PATH)")))
}

fn this_program() -> Result<PathBuf, BenchError> {
    std::env::current_exe().doing("find this program's file")
}

pub(super) fn floor(kind: FloorKind) -> Result<Running, BenchError> {
    let mut command = Command::new(this_program()?);
    command
        .args(["bench", "floor", kind.as_str()])
        .stdout(Stdio::piped());
    let mut child = Child::spawn("the floor", &mut command, folder()?)?;
    let url = child.wait_for_url()?;
    Running::started(child, &url)
}

pub(super) fn own(
    binary: Option<&Path>,
    shards: Option<u16>,
    needs: &Needs,
) -> Result<Running, BenchError> {
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => this_program()?,
    };
    let folder = folder()?;
    let mut command = Command::new(binary);
    command
        .arg("serve")
        .arg("--data-dir")
        .arg(folder.path().join("data"));
    command.args(["--listen", "mqtt://127.0.0.1:0", "--allow-anonymous"]);
    // The default suits the machine; more shards only where descriptors would run out.
    let least = needs.connections.div_ceil(CONNECTIONS_PER_SHARD);
    let crowded = least > thread::available_parallelism().map_or(1, usize::from);
    if let Some(shards) = shards.map(usize::from).or_else(|| crowded.then_some(least)) {
        command.arg("--shards").arg(shards.to_string());
    }
    let mut child = Child::spawn("stentor", command.stdout(Stdio::piped()), folder)?;
    let url = child.wait_for_url()?;
    Running::started(child, &url)
}
