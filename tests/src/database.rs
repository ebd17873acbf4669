//! Real database servers for one test: data in its own folder, reached by a Unix socket.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Uid, User, chown};

use crate::process;

const REMEDY: &str = "run tests/install-tools.sh once (`make tools`)";

/// How long a server may take to make its tables and to start: longer than anything else here.
const START_TIME: Duration = Duration::from_secs(120);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MariaDb,
}

/// A database server that runs as long as this value, or until it is killed.
pub struct Database {
    kind: Kind,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Database {
    /// Makes a new, empty one and starts it.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    #[must_use]
    #[track_caller]
    pub fn start(kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        if let Some(nobody) = unprivileged() {
            chown(folder.path(), Some(nobody.uid), Some(nobody.gid)).expect("root may chown");
        }
        let mut database = Self {
            kind,
            folder,
            child: None,
        };
        database.prepare();
        database.restart();
        database
    }

    fn path(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        path.to_str()
            .expect("temporary folders have plain names")
            .to_owned()
    }

    /// The folder that the server may write.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    #[track_caller]
    fn prepare(&self) {
        let data = self.path("data");
        let mut command = match self.kind {
            Kind::Postgres => {
                let mut command = program("initdb");
                command.args(["-D", &data, "-U", "stentor", "--auth=trust", "-E", "UTF8"]);
                command.args(["--locale=C", "--no-sync"]);
                command
            }
            Kind::MariaDb => {
                let mut command = program("mariadb-install-db");
                command.args(["--no-defaults", "--skip-test-db"]);
                command.arg("--auth-root-authentication-method=normal");
                command.arg(format!("--datadir={data}"));
                command
            }
        };
        self.as_nobody(&mut command);
        process::run_within(&mut command, START_TIME).success();
    }

    /// Servers of databases refuse to run as root.
    fn as_nobody(&self, command: &mut Command) {
        command.current_dir(self.folder.path());
        // Several servers at once must not meet in one folder for temporary tables.
        command.env("TMPDIR", self.folder.path());
        if let Some(nobody) = unprivileged() {
            command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw());
        }
    }

    /// Starts it again after [`Database::kill`], and waits until it takes logins.
    ///
    /// # Panics
    /// If it runs, or does not start in time.
    #[track_caller]
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "the server runs");
        let (data, socket) = (self.path("data"), self.path("sock"));
        let (mut command, ready) = match self.kind {
            Kind::Postgres => {
                let mut command = program("postgres");
                command.args(["-D", &data, "-k", &self.path(""), "-c", "listen_addresses="]);
                command.args(["-c", "fsync=off"]);
                (command, "ready to accept connections")
            }
            Kind::MariaDb => {
                let mut command = program("mariadbd");
                command.args(["--no-defaults", "--skip-networking"]);
                command.arg(format!("--datadir={data}"));
                command.arg(format!("--socket={socket}"));
                command.arg(format!("--pid-file={}", self.path("pid")));
                (command, "ready for connections")
            }
        };
        self.as_nobody(&mut command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let log = BufReader::new(child.stderr.take().expect("standard error is piped"));
        self.child = Some(child);
        let (sender, lines) = mpsc::channel();
        // The log is read to its end, so that the server never waits for its reader.
        thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                // The test listens only until the server is ready.
                let _ = sender.send(line);
            }
        });
        let mut seen = String::new();
        loop {
            match lines.recv_timeout(START_TIME) {
                Ok(line) if line.contains(ready) => return,
                Ok(line) => seen += &format!("{line}\n"),
                Err(error) => panic!("{:?} does not start ({error}):\n{seen}", self.kind),
            }
        }
    }

    /// Ends it at once, as a crash would.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the server runs");
        // PostgreSQL is many processes: its own way to crash takes all of them along.
        let signal = match self.kind {
            Kind::Postgres => Signal::SIGQUIT,
            Kind::MariaDb => Signal::SIGKILL,
        };
        kill(process::pid_of(&child), signal).expect("a signal can be sent");
        let (_, in_time) = process::wait(&mut child, START_TIME);
        assert!(in_time, "{:?} did not end", self.kind);
    }

    /// Sends its process a signal: `SIGSTOP` lets it think for long.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the server runs");
        kill(process::pid_of(child), signal).expect("a signal can be sent");
    }

    /// Makes an empty database on this server and tells its URL.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    #[track_caller]
    pub fn create(&self, name: &str) -> String {
        let folder = self.path("");
        let folder = folder.trim_end_matches('/');
        match self.kind {
            Kind::Postgres => {
                let mut command = program("createdb");
                command.args(["-h", folder, "-U", "stentor", name]);
                process::run(&mut command).success();
                format!("postgres://stentor@localhost/{name}?host={folder}")
            }
            Kind::MariaDb => {
                self.sql(
                    "mysql",
                    &format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"),
                );
                format!("mysql://root@localhost/{name}?socket={folder}/sock")
            }
        }
    }

    /// Runs SQL in a database with the server's own client.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn sql(&self, name: &str, sql: &str) {
        let mut command = match self.kind {
            Kind::Postgres => {
                let mut command = program("psql");
                let folder = self.path("");
                command.args(["-h", &folder, "-U", "stentor", "-v", "ON_ERROR_STOP=1"]);
                command.args(["-c", sql, name]);
                command
            }
            Kind::MariaDb => {
                let mut command = program("mariadb");
                command
                    .arg("--no-defaults")
                    .arg(format!("--socket={}", self.path("sock")));
                command.args(["-u", "root", "-e", sql, name]);
                command
            }
        };
        process::run(&mut command).success();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// Whom the server runs as, if the test runs as root.
fn unprivileged() -> Option<User> {
    if !Uid::effective().is_root() {
        return None;
    }
    let nobody = User::from_name("nobody").expect("users can be looked up");
    Some(nobody.expect("every system has the user nobody"))
}

/// A program of a database server; Debian keeps PostgreSQL's in a folder of their version.
fn program(name: &str) -> Command {
    let mut folders: Vec<PathBuf> = ["/usr/bin", "/usr/sbin", "/usr/local/bin"]
        .map(PathBuf::from)
        .into();
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    let found = folders
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|path| path.exists());
    Command::new(found.unwrap_or_else(|| panic!("there is no {name}: {REMEDY}")))
}
