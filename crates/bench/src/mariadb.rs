//! A MariaDB server that is started for a benchmark: in a temporary folder, on a Unix socket alone,
//! and ended with the benchmark.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};
use tempfile::TempDir;

use crate::error::{BenchError, Doing};
use crate::interrupt::{self, Kept};
use crate::report::visible::visible;
use crate::target::find_program;

/// How long it may take until it accepts connections.
const START: Duration = Duration::from_secs(120);
/// What it logs then.
const READY: &str = "ready for connections";
/// The database that it is started with.
const DATABASE: &str = "stentor";

/// A MariaDB server that starts when its address is asked for, once for all copies of this, and
/// ends with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct MariaDb {
    programs: Programs,
    server: Arc<Mutex<Option<Server>>>,
}

/// Where its programs are.
#[derive(Clone, Debug)]
struct Programs {
    server: PathBuf,
    install: PathBuf,
}

impl MariaDb {
    /// One that does not run yet.
    ///
    /// # Errors
    /// When it is not installed.
    pub(crate) fn find() -> Result<Self, BenchError> {
        let find = |names: [&str; 2]| {
            let found = names.iter().find_map(|name| find_program(name).ok());
            found.ok_or_else(|| {
                BenchError::usage(format!(
                    "{} is neither in a folder of PATH nor in /usr/sbin; install MariaDB's server, \
                     as by the package mariadb-server",
                    names.join(" or ")
                ))
            })
        };
        Ok(Self {
            programs: Programs {
                server: find(["mariadbd", "mysqld"])?,
                install: find(["mariadb-install-db", "mysql_install_db"])?,
            },
            server: Arc::default(),
        })
    }

    /// The address of its database, for `auth.database`; starts it if it does not run yet.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn url(&self) -> Result<String, BenchError> {
        let mut server = self.server();
        let running = match server.take() {
            Some(running) => running,
            None => Server::start(&self.programs)?,
        };
        let socket = running.folder.path().join("socket");
        *server = Some(running);
        Ok(format!(
            "mysql://root@localhost/{DATABASE}?socket={}",
            socket.display()
        ))
    }

    /// Its process, if it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.server().as_ref().map(|server| server.child.id())
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        // A thread that panicked left it whole.
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Server {
    child: Child,
    #[expect(dead_code, reason = "held until it is dropped")]
    kept: Kept,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody needs its data any more, and it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(programs: &Programs) -> Result<Self, BenchError> {
        let folder = interrupt::folder("stentor-bench-");
        let folder = folder.doing("make a folder for MariaDB")?;
        let at = |name: &str| folder.path().join(name);
        let data = format!("--datadir={}", at("data").display());
        let user = user(folder.path())?;
        let mut install = Command::new(&programs.install);
        install.args(["--no-defaults", "--skip-test-db"]);
        install.arg("--auth-root-authentication-method=normal");
        run_as(user.as_ref(), folder.path(), install.arg(&data));
        make_tables(&mut install)?;
        let first = at("first.sql");
        let sql = format!("CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;\n");
        fs::write(&first, sql).doing("write what MariaDB does first")?;
        let mut command = Command::new(&programs.server);
        command
            .args(["--no-defaults", "--skip-networking"])
            .arg(&data);
        for (option, file) in [
            ("socket", at("socket")),
            ("pid-file", at("pid")),
            ("init-file", first),
        ] {
            command.arg(format!("--{option}={}", file.display()));
        }
        run_as(user.as_ref(), folder.path(), &mut command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let (mut child, kept) = interrupt::spawn(&mut command).doing("start MariaDB")?;
        let log = child.stderr.take();
        let server = Self {
            child,
            kept,
            folder,
        };
        wait_ready(log.into_iter().flat_map(|log| BufReader::new(log).lines()))?;
        Ok(server)
    }
}

/// Runs the script that makes the tables. The script starts a server: all of them are one group,
/// which ends if the benchmark does.
fn make_tables(install: &mut Command) -> Result<(), BenchError> {
    install.process_group(0).stdin(Stdio::null());
    install.stdout(Stdio::piped()).stderr(Stdio::piped());
    let doing = "make the tables of MariaDB";
    let (child, kept) = interrupt::spawn(install).doing(doing)?;
    let made = child.wait_with_output().doing(doing)?;
    drop(kept);
    if made.status.success() {
        return Ok(());
    }
    let said = [made.stdout, made.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Err(failed("cannot make its tables", said.lines()))
}

/// Reads a log, all of it, so that its writer never waits; returns when the server is ready.
fn wait_ready(
    log: impl Iterator<Item = std::io::Result<String>> + Send + 'static,
) -> Result<(), BenchError> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in log.map_while(Result::ok) {
            // Nobody listens once it is ready.
            let _ = sender.send(line);
        }
    });
    let mut seen = Vec::new();
    let deadline = Instant::now() + START;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) if line.contains(READY) => return Ok(()),
            Ok(line) => seen.push(line),
            Err(RecvTimeoutError::Timeout) => {
                return Err(failed(
                    "is not ready in time",
                    seen.iter().map(String::as_str),
                ));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed("ended early", seen.iter().map(String::as_str)));
            }
        }
    }
}

/// An error with the last line of what it said.
fn failed<'a>(what: &str, said: impl DoubleEndedIterator<Item = &'a str>) -> BenchError {
    let last = said.rev().find(|line| !line.trim().is_empty());
    let last = visible(last.unwrap_or("it said nothing").trim());
    BenchError::server(format!("MariaDB {what}: {last}"))
}

/// The user nobody, if this process is root, as which MariaDB refuses to run. The folder then
/// belongs to nobody.
fn user(folder: &Path) -> Result<Option<User>, BenchError> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let nobody = User::from_name("nobody").doing("find the user nobody")?;
    let nobody = nobody.ok_or_else(|| {
        BenchError::server("MariaDB does not run as root, and there is no user nobody")
    })?;
    let (uid, gid) = (nobody.uid.as_raw(), nobody.gid.as_raw());
    chown(folder, Some(uid), Some(gid)).doing("give MariaDB its folder")?;
    Ok(Some(nobody))
}

fn run_as(user: Option<&User>, folder: &Path, command: &mut Command) {
    // Temporary tables of several servers must not meet.
    command.current_dir(folder).env("TMPDIR", folder);
    if let Some(user) = user {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(log: &'static [&'static str]) -> Result<(), BenchError> {
        wait_ready(log.iter().map(|line| Ok((*line).to_owned())))
    }

    #[test]
    fn a_server_is_ready_when_it_says_so() {
        assert!(ready(&["[Note] starting", "mariadbd: ready for connections."]).is_ok());
        for (log, told) in [
            (
                &["[ERROR] Aborting", ""][..],
                "MariaDB ended early: [ERROR] Aborting",
            ),
            (&[], "MariaDB ended early: it said nothing"),
        ] {
            assert_eq!(ready(log).unwrap_err().to_string(), told);
        }
    }

    /// Whether it is installed, or not: nothing runs before its address is asked for.
    #[test]
    fn it_does_not_run_before_it_is_needed() {
        match MariaDb::find() {
            Ok(database) => assert_eq!(database.pid(), None),
            Err(error) => assert!(error.to_string().contains("mariadb-server"), "{error}"),
        }
    }
}
