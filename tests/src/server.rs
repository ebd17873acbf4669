//! A running `stentor serve` with a data folder of its own.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;

use crate::log::Log;
use crate::process::{self, Finished};
use crate::{DEADLINE, Raw, Version};

/// The built binary: `target/<profile>/stentor` beside the folder of the test's own executable.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn binary() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("tests run from target/<profile>/deps");
    let binary = profile.join("stentor");
    assert!(
        binary.exists(),
        "there is no {}: build it first with `cargo build --workspace` (`make test` does)",
        binary.display()
    );
    binary
}

/// The `stentor` command with an environment that configures nothing.
#[must_use]
pub fn stentor() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("STENTOR_") {
            command.env_remove(name);
        }
    }
    command
}

/// A command whose `JOURNAL_STREAM` names its own standard error.
fn into_journal(command: &Command) -> Command {
    let script = "JOURNAL_STREAM=$(stat -Lc %d:%i /dev/fd/2); export JOURNAL_STREAM; exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(command.get_program());
    shell.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// What `stentor hash-password` makes of a password.
///
/// # Panics
/// If it does not work.
#[must_use]
#[track_caller]
pub fn hash_password(password: &str) -> String {
    let mut command = stentor();
    let command = command.arg("hash-password").stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("stentor starts");
    let mut input = child.stdin.take().expect("standard input is piped");
    writeln!(input, "{password}").expect("a password can be written");
    drop(input);
    let hash = process::finish(child, DEADLINE).success();
    hash.trim().to_owned()
}

/// A port for a program that has to be told one. It lies below those that the system deals out, so
/// no other test gets it by asking for any port, and it is tried out.
///
/// # Panics
/// If all of them are taken.
#[must_use]
pub fn free_port() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let dealt_out: Option<u16> = range
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok());
    let end = dealt_out.unwrap_or(32_768).max(2_000);
    let span = u32::from(end - 1_024);
    // Tests of one process ask one after the other, those of others begin elsewhere.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let from = std::process::id().wrapping_mul(97) + ASKED.fetch_add(1, Ordering::Relaxed);
    (0..span)
        .map(|step| 1_024 + from.wrapping_add(step) % span)
        .filter_map(|port| u16::try_from(port).ok())
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a port is free")
}

/// The threads of a process and how many file descriptors each can see, in the order of their ids.
/// A thread that ends meanwhile is left out.
///
/// # Panics
/// If the process has ended.
#[must_use]
pub fn descriptors(pid: i32) -> Vec<(String, usize)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let mut threads: Vec<PathBuf> = tasks.filter_map(|task| Some(task.ok()?.path())).collect();
    threads.sort();
    let count = |task: PathBuf| {
        let name = fs::read_to_string(task.join("comm"))
            .ok()?
            .trim()
            .to_owned();
        Some((name, fs::read_dir(task.join("fd")).ok()?.count()))
    };
    threads.into_iter().filter_map(count).collect()
}

/// What a server is started with.
#[derive(Debug)]
pub struct Plan {
    folder: TempDir,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    has_usual_http: bool,
    into_journal: bool,
    listeners: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self::new()
    }
}

impl Plan {
    /// No listeners yet, and an empty data folder.
    ///
    /// # Panics
    /// If there is no room for temporary folders.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("stentor-test-")
            .tempdir()
            .expect("a temporary folder can be made");
        Self {
            folder,
            args: Vec::new(),
            environment: Vec::new(),
            has_usual_http: false,
            into_journal: false,
            listeners: 0,
        }
    }

    /// The test's own folder; the data folder lies in it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that the server gets for its data.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Adds a listener.
    #[must_use]
    pub fn listen(mut self, url: &str) -> Self {
        self.listeners += 1;
        self.arg("--listen").arg(url)
    }

    /// Adds a TCP listener on a free port of 127.0.0.1.
    #[must_use]
    pub fn tcp(self) -> Self {
        self.listen("mqtt://127.0.0.1:0")
    }

    /// Adds HTTP for operators, on a free port of 127.0.0.1. Its URL comes after those of all
    /// listeners.
    #[must_use]
    pub fn http(mut self) -> Self {
        self.listeners += 1;
        self.arg("--http").arg("http://127.0.0.1:0")
    }

    /// Leaves the addresses of HTTP to the server.
    #[must_use]
    pub const fn usual_http(mut self) -> Self {
        self.has_usual_http = true;
        self
    }

    /// Lets everybody on this machine in.
    #[must_use]
    pub fn anonymous(self) -> Self {
        self.arg("--allow-anonymous")
    }

    /// Says that the environment adds that many listeners.
    #[must_use]
    pub const fn opens(mut self, listeners: usize) -> Self {
        self.listeners += listeners;
        self
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Sets a variable of the server's environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Has the server write to what `JOURNAL_STREAM` names, as under systemd.
    #[must_use]
    pub fn into_journal(mut self) -> Self {
        self.into_journal = true;
        self
    }

    /// Gives the server a configuration file, see [`Server::reconfigure`].
    ///
    /// # Panics
    /// If the file cannot be written.
    #[must_use]
    pub fn config(mut self, text: &str) -> Self {
        // A file without any key is not taken.
        if text.is_empty() {
            return self;
        }
        self.listeners += text.matches("[[listener]]").count();
        let path = self.folder.path().join("stentor.toml");
        fs::write(&path, text).expect("a configuration file can be written");
        self.arg("--config").arg(path)
    }

    /// Makes an authority and gives the server its certificate for all encrypted listeners.
    #[must_use]
    pub fn certificates(self) -> (Self, crate::Certificates) {
        let certificates = crate::Certificates::new(self.folder.path());
        let plan = self
            .arg("--tls-certificate")
            .arg(certificates.certificate())
            .arg("--tls-key")
            .arg(certificates.key());
        (plan, certificates)
    }

    /// The command that would start the server.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = stentor();
        command
            .arg("serve")
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(&self.args);
        if !self.has_usual_http {
            // Many servers run at once, so none opens the usual port.
            command.env("STENTOR_HTTP__LISTEN", "off");
        }
        command.envs(self.environment.iter().cloned());
        match self.into_journal {
            true => into_journal(&command),
            false => command,
        }
    }

    /// Starts the server and waits until every listener is open.
    ///
    /// # Panics
    /// If it does not say so in time.
    #[track_caller]
    pub fn start(self) -> Server {
        Server::start(self)
    }

    /// Starts a server that has to refuse to start, and returns what it says.
    ///
    /// # Panics
    /// If it starts, or opens any listener.
    #[track_caller]
    pub fn refused(&self) -> Finished {
        let finished = process::run(&mut self.command());
        assert!(
            !finished.status.success(),
            "the server was to refuse: {finished}"
        );
        assert_eq!(
            finished.stdout, "",
            "nothing is to listen when the start is refused"
        );
        finished
    }
}

/// A running server. Dropping it sends SIGTERM and asserts that it ends with exit code 0; if the
/// test has failed already, its log is printed instead.
#[derive(Debug)]
pub struct Server {
    plan: Plan,
    child: Option<Child>,
    urls: Vec<String>,
    log: Arc<Log>,
}

impl Server {
    /// A server on one TCP port that lets everybody in.
    #[must_use]
    #[track_caller]
    pub fn open() -> Self {
        Plan::new().tcp().anonymous().start()
    }

    #[track_caller]
    fn start(plan: Plan) -> Self {
        let mut child = plan
            .command()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("stentor starts");
        let stdout = child.stdout.take();
        let stderr = child.stderr.take().expect("standard error is captured");
        let log = Log::follow(stderr);
        let (lines, opened) = mpsc::channel();
        thread::spawn(move || {
            let stdout = BufReader::new(stdout.expect("standard output is captured"));
            for line in stdout.lines().map_while(Result::ok) {
                // Nobody listens any more once all listeners are open.
                let _ = lines.send(line);
            }
        });
        let mut server = Self {
            plan,
            child: Some(child),
            urls: Vec::new(),
            log,
        };
        let end = Instant::now() + DEADLINE;
        while server.urls.len() < server.plan.listeners {
            match opened.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => match line.strip_prefix("listening ") {
                    Some(url) => server.urls.push(url.to_owned()),
                    None => panic!("unexpected line on standard output: {line}"),
                },
                Err(error) => panic!("the server did not open its listeners: {error}"),
            }
        }
        // The log comes by a thread of the server's own, later perhaps; what it says of the start
        // shall not pass for what happens from now on.
        for url in &server.urls {
            server.log.wait(0, &format!("listening on {url}"));
        }
        server
    }

    /// The URLs it listens on, in the order of its listeners.
    #[must_use]
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The first URL with that scheme, for example `wss`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn url(&self, scheme: &str) -> &str {
        self.urls
            .iter()
            .find(|url| url.split(':').next() == Some(scheme))
            .unwrap_or_else(|| panic!("the server listens on {:?}, not on {scheme}", self.urls))
    }

    /// `HOST:PORT` of the first listener with that scheme.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn address(&self, scheme: &str) -> String {
        let url = self.url(scheme);
        let (_, rest) = url.split_once("://").expect("the URL has an authority");
        rest.split('/').next().unwrap_or_default().to_owned()
    }

    /// The port of the first listener with that scheme.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn port(&self, scheme: &str) -> String {
        let address = self.address(scheme);
        address
            .rsplit(':')
            .next()
            .expect("the URL names its port")
            .to_owned()
    }

    /// A connection to the first TCP listener, with nothing sent yet.
    #[must_use]
    #[track_caller]
    pub fn dial(&self) -> Raw {
        Raw::tcp(&self.address("mqtt"))
    }

    /// A client that is logged in at the first TCP listener with a clean session.
    #[must_use]
    #[track_caller]
    pub fn client(&self, version: Version, client_id: &str) -> Raw {
        let mut client = self.dial();
        client.login(version, client_id, true);
        client
    }

    /// The test's own folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.plan.folder()
    }

    /// The server's data folder.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.plan.data_dir()
    }

    /// The server's process id.
    ///
    /// # Panics
    /// If it has been stopped.
    #[must_use]
    pub fn pid(&self) -> i32 {
        process::pid_of(self.child.as_ref().expect("the server runs")).as_raw()
    }

    /// Sends the server a signal.
    ///
    /// # Panics
    /// If it has ended.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the server runs");
        kill(process::pid_of(child), signal).expect("a signal can be sent");
    }

    /// Writes the configuration file anew without telling the server.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn reconfigure(&self, text: &str) {
        // A rename, as careful editors do it, so that the server never reads half a file.
        let path = self.folder().join("stentor.toml");
        let draft = self.folder().join("stentor.toml.new");
        fs::write(&draft, text).expect("a configuration file can be written");
        fs::rename(draft, path).expect("a configuration file can be replaced");
    }

    /// Everything that the server has logged up to now.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Waits until the log contains a text past that many bytes, and returns the log.
    ///
    /// # Panics
    /// If the text does not come in time.
    #[track_caller]
    pub fn wait_log(&self, from: usize, text: &str) -> String {
        self.log.wait(from, text)
    }

    /// Waits until that many lines of the log contain all of these texts, and returns the log.
    ///
    /// # Panics
    /// If they do not come in time.
    #[track_caller]
    pub fn wait_lines(&self, count: usize, parts: &[&str]) -> String {
        let is_one = |line: &&str| parts.iter().all(|part| line.contains(part));
        self.log.when(&format!("{parts:?} {count} times"), |log| {
            log.lines().filter(is_one).count() >= count
        })
    }

    /// Runs a `stentor` command against this server's control socket.
    #[track_caller]
    pub fn control(&self, args: &[&str]) -> Finished {
        let mut command = stentor();
        command.args(args).arg("--data-dir").arg(self.data_dir());
        process::run(&mut command)
    }

    /// The answer to a `stentor … --json` command.
    ///
    /// # Panics
    /// If the command fails or its answer is no JSON.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let text = self.control(&args).success();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON ({error}): {text}"))
    }

    /// Stops the server with SIGTERM and returns how it ended.
    ///
    /// # Panics
    /// If it does not end in time.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ended()
    }

    /// Kills the server with SIGKILL; the plan starts another one on the same folder.
    ///
    /// # Panics
    /// If it has ended before.
    #[track_caller]
    pub fn kill(mut self) -> Plan {
        let mut child = self.child.take().expect("the server runs");
        child.kill().expect("a server can be killed");
        child.wait().expect("a killed server ends");
        std::mem::take(&mut self.plan)
    }

    /// Stops the server in order; the plan starts another one on the same folder.
    ///
    /// # Panics
    /// If it does not end well.
    #[track_caller]
    pub fn stop_for_restart(mut self) -> Plan {
        let status = self.stop();
        assert!(status.success(), "the server ended with {status}");
        std::mem::take(&mut self.plan)
    }

    /// Waits for a server that has been told to stop in some other way.
    ///
    /// # Panics
    /// If it does not end in time.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the server runs");
        let (status, in_time) = process::wait(&mut child, DEADLINE);
        assert!(
            in_time,
            "the server did not stop within {DEADLINE:?}:\n{}",
            self.log()
        );
        status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            if let Some(mut child) = self.child.take() {
                // An error means that it has ended already.
                let _ = child.kill();
                let _ = child.wait();
            }
            eprintln!("--- log of the server\n{}", self.log());
            return;
        }
        if self.child.is_some() {
            let status = self.stop();
            assert!(
                status.success(),
                "the server ended with {status}:\n{}",
                self.log()
            );
        }
    }
}
