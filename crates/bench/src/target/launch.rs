//! Starting servers as child processes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::CpuSet;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use stentor_client::{Scheme, Url};
use tempfile::TempDir;

use super::{Needs, Running, Writes, transport};
use crate::affinity::{self, Stay};
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::interrupt::{self, Kept};

/// A server may take this long until it accepts connections.
const START: Duration = Duration::from_secs(20);
/// And this long to end before it is killed.
const STOP: Duration = Duration::from_secs(5);
/// Or this long, where it is to write down what it keeps before it is started again.
const SAVE: Duration = Duration::from_secs(120);
/// One shard has the descriptors of one process, 20,000 on many machines, less some for itself.
const CONNECTIONS_PER_SHARD: usize = 19_000;

/// How to tell that a server accepts connections, and how it is ended for a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It prints its address, and is killed.
    Own,
    /// It listens on a port that it was told, and is asked to end: it saves what it keeps then.
    Rival { port: u16 },
    /// It keeps nothing.
    Forgetful,
    /// It has canned answers.
    Floor,
}

/// How a server is ended before it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By SIGKILL.
    Kill,
    /// By SIGTERM: it may write what it keeps.
    Stop,
}

impl Ending {
    const fn signal(self) -> Signal {
        match self {
            Self::Kill => Signal::SIGKILL,
            Self::Stop => Signal::SIGTERM,
        }
    }
}

/// What a restart took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restarted {
    /// From the signal until the process was gone.
    pub(crate) ending: Duration,
    /// From the start of the new process until it accepted connections.
    pub(crate) starting: Duration,
}

/// A child process with its temporary folder; ended on drop.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    command: Command,
    kind: Kind,
    process: std::process::Child,
    kept: Kept,
    folder: TempDir,
    /// Where it was started, and is again after its end.
    processors: CpuSet,
}

impl Child {
    /// Starts `command` with its standard error in a file of `folder`.
    pub(super) fn spawn(
        name: &str,
        mut command: Command,
        folder: TempDir,
    ) -> Result<Self, BenchError> {
        let (process, kept) = spawn(name, &mut command, &folder)?;
        Ok(Self {
            kept,
            name: name.into(),
            command,
            kind: Kind::Forgetful,
            process,
            folder,
            processors: affinity::current()?,
        })
    }

    /// The server keeps retained messages over a restart.
    pub(super) fn keeps(mut self, port: u16) -> Self {
        self.kind = Kind::Rival { port };
        self
    }

    /// How it is ended where that is not what is measured; `None` if it keeps nothing.
    pub(super) const fn usual_ending(&self) -> Option<Ending> {
        match self.kind {
            Kind::Own => Some(Ending::Kill),
            Kind::Rival { .. } => Some(Ending::Stop),
            Kind::Forgetful | Kind::Floor => None,
        }
    }

    /// Ends the process and starts it again, if it keeps anything; what that took, and where it
    /// listens.
    pub(super) fn restart(
        &mut self,
        ending: Ending,
    ) -> Result<Option<(Restarted, Url)>, BenchError> {
        if self.usual_ending().is_none() {
            return Ok(None);
        }
        let signal = ending.signal();
        let begun = Instant::now();
        let pid = Pid::from_raw(self.process.id().cast_signed());
        kill(pid, signal)
            .map_err(std::io::Error::from)
            .doing(format!("end {}", self.name))?;
        if !self.ends_within(SAVE) {
            return Err(BenchError::server(format!(
                "{} still runs {} s after {signal}",
                self.name,
                SAVE.as_secs()
            )));
        }
        let ending = begun.elapsed();
        let begun = Instant::now();
        let stay = Stay::on(&self.processors)?;
        (self.process, self.kept) = spawn(&self.name, &mut self.command, &self.folder)?;
        drop(stay);
        let url = match self.kind {
            Kind::Rival { port } => {
                let url = Url::tcp("127.0.0.1", port);
                self.wait_for(&url)?;
                url
            }
            Kind::Own | Kind::Forgetful | Kind::Floor => self.wait_for_url()?,
        };
        let starting = begun.elapsed();
        Ok(Some((Restarted { ending, starting }, url)))
    }

    /// Asks it to write what it keeps, if it has to be asked: mosquitto does by this signal.
    pub(super) fn save(&self) -> Result<(), BenchError> {
        let Kind::Rival { .. } = self.kind else {
            return Ok(());
        };
        kill(Pid::from_raw(self.pid().cast_signed()), Signal::SIGUSR1)
            .map_err(std::io::Error::from)
            .doing(format!("ask {} to save", self.name))
    }

    /// Looks every millisecond: the time that it takes is a result.
    fn ends_within(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if begun.elapsed() > limit {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    pub(super) fn is_own(&self) -> bool {
        self.kind == Kind::Own
    }

    pub(super) fn is_floor(&self) -> bool {
        self.kind == Kind::Floor
    }

    /// Bytes of all files: their lengths, and what the disk gives them.
    pub(super) fn file_bytes(&self) -> (u64, u64) {
        file_bytes(self.folder.path())
    }

    /// Where our own server is asked about itself.
    pub(super) fn control_socket(&self) -> PathBuf {
        self.folder.path().join("data").join("control.sock")
    }

    /// The certificate that it shows to clients, if it has one.
    pub(super) fn certificate(&self) -> Option<PathBuf> {
        transport::certificate(self.folder.path())
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
        let said = last_words(&log);
        Err(BenchError::server(format!(
            "{} ended with {status}{said}",
            self.name
        )))
    }

    /// Waits until something accepts connections there.
    pub(super) fn wait_for(&mut self, url: &Url) -> Result<(), BenchError> {
        let begun = Instant::now();
        let listens = || match url.scheme {
            Scheme::Unix => UnixStream::connect(&url.path).is_ok(),
            _ => TcpStream::connect((url.host.as_str(), url.port)).is_ok(),
        };
        while !listens() {
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

fn spawn(
    name: &str,
    command: &mut Command,
    folder: &TempDir,
) -> Result<(std::process::Child, Kept), BenchError> {
    let log = File::create(folder.path().join("stderr")).doing("create a log file")?;
    let program = Path::new(command.get_program()).display().to_string();
    interrupt::spawn(command.stdin(Stdio::null()).stderr(log))
        .doing(format!("start {name}, the program {program}"))
}

fn file_bytes(folder: &Path) -> (u64, u64) {
    let (mut length, mut given) = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() {
            let (below_length, below_given) = file_bytes(&entry.path());
            (length, given) = (length + below_length, given + below_given);
        } else {
            (length, given) = (length + metadata.len(), given + metadata.blocks() * 512);
        }
    }
    (length, given)
}

impl Drop for Child {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.process.id().cast_signed());
        let _ = kill(pid, Signal::SIGTERM);
        if self.ends_within(STOP) {
            return;
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A temporary folder for one server.
pub(super) fn folder() -> Result<TempDir, BenchError> {
    interrupt::folder("stentor-bench-").doing("create a temporary folder")
}

/// Finds a program on the PATH, or in Cargo's or Go's folder.
pub(crate) fn find_program(name: &str) -> Result<PathBuf, BenchError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let homes = [".cargo/bin", "go/bin"];
    let homes = homes.map(|folder| std::env::home_dir().map(|home| home.join(folder)));
    // Debian keeps servers where users' PATHs do not look.
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(homes.into_iter().flatten())
        .chain(system)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| BenchError::usage(format!("{name} is not installed (not on the PATH)")))
}

fn this_program() -> Result<PathBuf, BenchError> {
    std::env::current_exe().doing("find this program's file")
}

/// A variable by which `stentor bench` names itself to this program.
const SERVER: &str = "STENTOR_BENCH_SERVER";

/// The program that is started as this project's server: the one that is named, else the `stentor`
/// that has started this program, the one beside it, or one on the PATH.
pub(crate) fn server_program(named: Option<&Path>) -> Result<PathBuf, BenchError> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let caller = std::env::var_os(SERVER).map(PathBuf::from);
    if let Some(caller) = caller.filter(|caller| caller.is_absolute() && caller.is_file()) {
        return Ok(caller);
    }
    let beside = this_program()?.with_file_name("stentor");
    if beside.is_file() {
        return Ok(beside);
    }
    find_program("stentor").map_err(|_| {
        BenchError::usage(format!(
            "there is no server to measure: {} does not exist, and PATH has no stentor; name a \
             program by --server FILE, or a running server by --target URL",
            beside.display()
        ))
    })
}

pub(super) fn floor(kind: FloorKind, needs: &Needs) -> Result<Running, BenchError> {
    let mut command = Command::new(this_program()?);
    command
        .args(["floor", kind.as_str(), "--payload"])
        .arg(needs.payload.to_string())
        .stdout(Stdio::piped());
    let folder = folder()?;
    if kind.writes() {
        command.arg("--folder").arg(folder.path().join("data"));
    }
    let mut child = Child::spawn("the floor", command, folder)?;
    child.kind = Kind::Floor;
    let url = child.wait_for_url()?;
    Running::started(child, &url)
}

/// The first line of what a program says about itself.
pub(super) fn version(program: &Path, flag: &str) -> Option<String> {
    told(Command::new(program).arg(flag))?
        .lines()
        .next()
        .map(|line| line.trim().to_owned())
}

/// The module and its version that Go's tool reads from a program, where Go is installed.
pub(super) fn go_module(program: &Path) -> Option<String> {
    let text = told(Command::new("go").args(["version", "-m"]).arg(program))?;
    let mut lines = text.lines().map(str::trim_start);
    let module = lines.find(|line| line.starts_with("mod\t"))?;
    let words: Vec<&str> = module.split_whitespace().skip(1).take(2).collect();
    Some(words.join(" "))
}

/// How a program was built: the compiler and its settings as Go's tool reads them, or the package
/// that it came in.
pub(super) fn build(program: &Path) -> Option<String> {
    if let Some(text) = told(Command::new("go").args(["version", "-m"]).arg(program)) {
        let compiler = text.lines().next()?.split_whitespace().last()?.to_owned();
        let settings = text.lines().map(str::trim_start);
        let settings = settings.filter_map(|line| line.strip_prefix("build\t"));
        return Some(
            std::iter::once(&*compiler)
                .chain(settings)
                .collect::<Vec<_>>()
                .join(" "),
        );
    }
    let owner = told(Command::new("dpkg").arg("-S").arg(program))?;
    let package = owner.split(':').next()?.to_owned();
    let format = "${Package} ${Version} ${Architecture}";
    told(Command::new("dpkg-query").args(["-W", "-f", format, &package]))
}

/// What a program prints, if it ends well and prints something.
fn told(command: &mut Command) -> Option<String> {
    let told = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    // mosquitto shows its help with an exit code of its own.
    (!text.trim().is_empty()).then_some(text)
}

/// What is known of our own server before it starts. FOLDER stands for its temporary folder.
pub(super) fn identity(
    binary: Option<&Path>,
    shards: Option<u16>,
    writes: Writes,
    needs: &Needs,
) -> Value {
    let program = server_program(binary).ok();
    let version = program.as_ref().and_then(|program| {
        let told = Command::new(program).arg("--version").output().ok()?;
        Some(String::from_utf8(told.stdout).ok()?.trim().to_owned())
    });
    json!({
        "program": program,
        "version": version,
        "shards": shards,
        "allow_anonymous": needs.accounts.is_none(),
        "sessions": writes == Writes::Sessions,
        "configuration": needs.config,
    })
}

/// Keeps from a server of our own the settings that are meant for another one, in variables of
/// these names: what is measured has the configuration that the result reports.
pub(crate) fn without_settings(command: &mut Command, names: impl Iterator<Item = OsString>) {
    let is_setting = |name: &OsString| name.as_encoded_bytes().starts_with(b"STENTOR_");
    for name in names.filter(is_setting) {
        command.env_remove(name);
    }
}

pub(super) fn own(
    binary: Option<&Path>,
    shards: Option<u16>,
    writes: Writes,
    needs: &Needs,
) -> Result<Running, BenchError> {
    let binary = server_program(binary)?;
    let folder = folder()?;
    let mut command = Command::new(binary);
    without_settings(&mut command, std::env::vars_os().map(|(name, _)| name));
    command
        .arg("serve")
        .arg("--data-dir")
        .arg(folder.path().join("data"));
    command.args(needs.transport.options(folder.path())?);
    match &needs.accounts {
        None => {
            command.arg("--allow-anonymous");
        }
        Some(accounts) => {
            accounts.fill(&folder.path().join("data"))?;
            if let Some(database) = accounts.database()? {
                command.env("STENTOR_AUTH__DATABASE", database);
            }
        }
    }
    if !needs.config.is_empty() {
        let file = folder.path().join("stentor.toml");
        let own = folder.path().display().to_string();
        let config = needs.config.replace("FOLDER", &own);
        fs::write(&file, config).doing("write a configuration")?;
        for (name, content) in needs.files {
            fs::write(folder.path().join(name), content).doing(format!("write {name}"))?;
        }
        command.arg("--config").arg(file);
    }
    if needs.stored > 0 {
        // Beside its own figures.
        let messages = needs.stored + 10_000;
        command.env("STENTOR_RETAINED__MESSAGES", messages.to_string());
    }
    if writes == Writes::Nothing {
        command.env("STENTOR_SESSIONS__ENABLED", "false");
    }
    // The default suits the machine; more shards only where descriptors would run out.
    let least = needs.connections.div_ceil(CONNECTIONS_PER_SHARD);
    let crowded = least > thread::available_parallelism().map_or(1, usize::from);
    if let Some(shards) = shards.map(usize::from).or_else(|| crowded.then_some(least)) {
        command.arg("--shards").arg(shards.to_string());
    }
    command.stdout(Stdio::piped());
    let mut child = Child::spawn("stentor", command, folder)?;
    child.kind = Kind::Own;
    let url = child.wait_for_url()?;
    let mut running = Running::started(child, &url)?;
    running.writes = writes;
    Ok(running)
}

/// What a server said last that may explain its end; empty if that is nothing. Clients that
/// came and went explain nothing.
fn last_words(log: &str) -> String {
    let is_news = |line: &&str| line.split_whitespace().nth(1) == Some("INFO");
    let lines = log.lines().rev().filter(|line| !is_news(line));
    let last: Vec<&str> = lines.take(5).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    match last.is_empty() {
        true => String::new(),
        false => format!("; it said:\n  {}", last.join("\n  ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_leave_out_who_came_and_went() {
        let news = "2026-11-24T12:33:03.887913Z  INFO connected client=\"s-1\"\n";
        assert_eq!(last_words(&news.repeat(9)), "");
        assert_eq!(last_words(""), "");
        let panic = "thread 'shard' panicked at hub.rs:1:2:\nthere is no INFO\n";
        let warning = "2026-11-24T12:33:03.887914Z  WARN disk full\n";
        let log = [warning, &news.repeat(9), panic, news].concat();
        let told = "; it said:\n  2026-11-24T12:33:03.887914Z  WARN disk full\n  \
                    thread 'shard' panicked at hub.rs:1:2:\n  there is no INFO";
        assert_eq!(last_words(&log), told);
        assert_eq!(last_words(&"x\n".repeat(9)).matches('x').count(), 5);
    }

    #[test]
    fn a_server_has_no_settings_of_the_caller() {
        let names = [
            "PATH",
            "STENTOR_SHARDS",
            "STENTOR_LIMITS__CONNECTIONS",
            "MY_STENTOR_",
        ];
        let mut command = Command::new("stentor");
        without_settings(&mut command, names.iter().map(OsString::from));
        command.env("STENTOR_RETAINED__MESSAGES", "7");
        let changed: Vec<_> = command.get_envs().collect();
        let name = |name: &'static str| std::ffi::OsStr::new(name);
        let expected = [
            (name("STENTOR_LIMITS__CONNECTIONS"), None),
            (name("STENTOR_RETAINED__MESSAGES"), Some(name("7"))),
            (name("STENTOR_SHARDS"), None),
        ];
        assert_eq!(changed, expected);
    }
}
