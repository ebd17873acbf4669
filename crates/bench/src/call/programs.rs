//! What is spawned, and the servers that it asks.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::published::Measured;
use super::{CallArgs, remote};
use crate::error::{BenchError, Doing};
use crate::interrupt::{self, Kept};
use crate::report::visible::visible;
use crate::target::{server_program, without_settings};

/// How long a server may take to listen.
const START_TIME: Duration = Duration::from_secs(60);

/// A program that is called, and the server that answers it.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) command: Vec<String>,
    /// The process whose time is the server's; none for a program that asks nobody.
    pub(crate) server: Option<u32>,
    /// What it reads from its standard input, if it reads that.
    input: Option<PathBuf>,
    /// The highest exit code that is an answer.
    answers: i32,
}

impl Program {
    fn new(name: &'static str, command: Vec<String>, server: Option<u32>) -> Self {
        Self {
            name,
            command,
            server,
            input: None,
            answers: 0,
        }
    }

    /// A call that is ready to be made.
    ///
    /// # Errors
    /// When there is no such file for its standard input.
    pub(super) fn call(&self) -> io::Result<Command> {
        let (name, words) = self.command.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(name);
        // Opened for each call: each reads from the beginning.
        let input = self.input.as_ref().map(File::open).transpose()?;
        let input = input.map_or_else(Stdio::null, Stdio::from);
        command.args(words).stdin(input);
        Ok(command)
    }

    /// Whether it was answered, whatever the answer is.
    pub(super) fn is_answer(&self, status: ExitStatus) -> bool {
        status
            .code()
            .is_some_and(|code| (0..=self.answers).contains(&code))
    }

    /// spamc, which reads the message from its standard input. Ham is 0, spam 1; without -x it
    /// would exit with 0 also when it gets no answer.
    fn spamc(client: &str, port: &str, message: &Path, server: u32) -> Self {
        let command = [client, "-d", "127.0.0.1", "-p", port, "-c", "-x"];
        Self {
            input: Some(message.to_owned()),
            answers: 1,
            ..Self::new("spamc", command.map(str::to_owned).to_vec(), Some(server))
        }
    }

    /// Calls a server that runs already once, so that a wrong address or token is one clear
    /// sentence.
    fn try_call(&self, target: &remote::Target) -> Result<(), BenchError> {
        let done = self.call().and_then(|mut command| command.output());
        let done = done.doing("start stentor-call")?;
        if self.is_answer(done.status) {
            return Ok(());
        }
        // Why, and below that what the sender of a mail would read.
        let said = [done.stderr, done.stdout].concat();
        let said = String::from_utf8_lossy(&said);
        let said = said.lines().next().unwrap_or("it said nothing");
        let said = said.strip_prefix("stentor-call: ").unwrap_or(said);
        Err(BenchError::server(format!(
            "--target {target}: /sizecheck does not accept a message of the benchmark ({}): {}",
            done.status,
            visible(said)
        )))
    }

    /// Why it is not measured, if a trial of spamc comes to no score: `0/0` is what it prints when
    /// it has read nothing, or nobody has judged it.
    fn try_score(&self) -> Result<(), String> {
        let done = self.call().and_then(|mut command| command.output());
        let done = done.map_err(|e| e.to_string())?;
        let score = String::from_utf8_lossy(&done.stdout);
        let score = score.trim();
        if self.is_answer(done.status) && score.contains('/') && score != "0/0" {
            return Ok(());
        }
        let (score, status) = (visible(score), done.status);
        Err(format!(
            "its trial call printed \"{score}\", which is not a score ({status})"
        ))
    }
}

/// Everything that runs, in a folder that goes with it.
pub(crate) struct Stage {
    pub(crate) programs: Vec<Program>,
    /// What is not installed, and not measured.
    pub(crate) notes: Vec<String>,
    /// Why spamc, which is installed, cannot be measured.
    pub(crate) not_run: Option<String>,
    servers: Vec<Server>,
    folder: tempfile::TempDir,
}

/// A server that ends with this.
struct Server(
    Child,
    #[expect(dead_code, reason = "held until it is dropped")] Kept,
);

impl Server {
    fn start(command: &mut Command, doing: &str) -> Result<Self, BenchError> {
        let (child, kept) = interrupt::spawn(command).doing(doing)?;
        Ok(Self(child, kept))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Starts the servers and makes the programs.
    ///
    /// # Errors
    /// When one of them cannot be had; spamd is a note.
    pub(crate) fn set(args: &CallArgs) -> Result<Self, BenchError> {
        match args.remote.target() {
            Some(target) => Self::set_remote(args, target),
            None => Self::set_here(args),
        }
    }

    /// Makes the programs that call a server which runs already. There is no floor: it would have
    /// to run where the server does.
    fn set_remote(args: &CallArgs, target: &remote::Target) -> Result<Self, BenchError> {
        let folder = interrupt::folder("stentor-bench-");
        let folder = folder.doing("make a temporary folder")?;
        let message = folder.path().join("message");
        fs::write(&message, spool(args.message as usize)).doing("write the spool file")?;
        let mut notes =
            vec!["the floor is left out: it would have to run beside the server".into()];
        let mut programs = Vec::new();
        match compile(folder.path()) {
            Ok(floor) => programs.push(Program::new("nothing", vec![floor], None)),
            Err(error) => notes.push(format!("nothing is left out: {error}")),
        }
        let place = args.remote.words(target)?;
        let message = message.display().to_string();
        let words = [vec![client(args)?], place, question(&message)].concat();
        let name = match target.is_tls() {
            true => "stentor-call, TLS",
            false => "stentor-call, TCP",
        };
        let program = Program::new(name, words, None);
        program.try_call(target)?;
        programs.push(program);
        Ok(Self {
            programs,
            notes,
            not_run: None,
            servers: Vec::new(),
            folder,
        })
    }

    /// For the sums of each program that calls.
    pub(super) fn measured(&self) -> Vec<Measured> {
        let names = self.programs.iter().map(|program| program.name);
        let calling = names.filter(|name| name.starts_with("stentor-call"));
        let none = |program| Measured {
            program,
            ..Measured::default()
        };
        calling.map(none).collect()
    }

    /// Starts the servers and makes the programs that call them.
    fn set_here(args: &CallArgs) -> Result<Self, BenchError> {
        let folder = interrupt::folder("stentor-bench-");
        let folder = folder.doing("make a temporary folder")?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        let message = at("message");
        fs::write(&message, spool(args.message as usize)).doing("write the spool file")?;
        let floor = compile(folder.path())?;
        let client = client(args)?;
        let own = env::current_exe().doing("find this program")?;
        let mut servers = Vec::new();
        let mut start = |command: &mut Command, places: usize| {
            let (server, found) = listening(command, places)?;
            let pid = server.0.id();
            servers.push(server);
            Ok::<_, BenchError>((pid, found))
        };
        let socket = at("floor.sock");
        let canned = |place: &[&str]| {
            let mut command = Command::new(&own);
            command.arg("canned").args(place);
            command
        };
        let (unix_floor, _) = start(&mut canned(&[&socket]), 1)?;
        let (tcp_floor, place) = start(&mut canned(&[]), 1)?;
        let port = place.first().cloned().unwrap_or_default();
        let call_socket = at("call.sock");
        let mut serve = Command::new(server_program(args.server.as_deref())?);
        without_settings(&mut serve, env::vars_os().map(|(name, _)| name));
        serve.args(["serve", "--log-level", "warn", "--data-dir", &at("data")]);
        serve.args(["--listen", &format!("call+unix:{call_socket}")]);
        serve.args(["--listen", "call://127.0.0.1:0"]);
        let (stentor, places) = start(&mut serve, 2)?;
        let net = places.iter().find_map(|url| url.strip_prefix("call://"));
        let net = net.and_then(|url| url.rsplit_once(':'));
        let call_port = net.map_or_else(String::new, |(_, port)| port.to_owned());
        let words = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).collect()
        };
        let ask = question(&message);
        let asking = |place: &[&str]| [&words(&[&client]), &words(place), &ask[..]].concat();
        let by_unix = asking(&["-s", &call_socket]);
        let by_tcp = asking(&["-s", "127.0.0.1", "-p", &call_port]);
        let programs = vec![
            Program::new("nothing", words(&[&floor]), None),
            Program::new(
                "floor, Unix",
                words(&[&floor, "u", &socket, &message]),
                Some(unix_floor),
            ),
            Program::new("stentor-call, Unix", by_unix, Some(stentor)),
            Program::new(
                "floor, TCP",
                words(&[&floor, "t", &port, &message]),
                Some(tcp_floor),
            ),
            Program::new("stentor-call, TCP", by_tcp, Some(stentor)),
        ];
        let mut stage = Self {
            programs,
            notes: Vec::new(),
            not_run: None,
            servers,
            folder,
        };
        stage.add_spamc(Path::new(&message));
        Ok(stage)
    }

    /// Adds spamc and its spamd, or says why they are not measured.
    fn add_spamc(&mut self, message: &Path) {
        match spamd(self.folder.path()) {
            Ok(Some((server, port, spamc))) => {
                let program = Program::spamc(&spamc, &port, message, server.0.id());
                match program.try_score() {
                    Ok(()) => {
                        self.servers.push(server);
                        self.programs.push(program);
                    }
                    Err(why) => self.not_run = Some(why),
                }
            }
            Ok(None) => {
                let note = "spamc and spamd are not installed, and not measured";
                self.notes.push(note.to_owned());
            }
            Err(error) => self.not_run = Some(error.to_string()),
        }
    }
}

/// What `stentor-call` asks, behind where the server is.
fn question(message: &str) -> Vec<String> {
    let ask = ["--format", "xmail", "--file", message];
    let words = ask.into_iter().chain(["/sizecheck", "-max", "10000000"]);
    words.map(str::to_owned).collect()
}

/// A spool file of XMail with a message of about that many bytes.
fn spool(bytes: usize) -> String {
    let head = "[127.0.0.1]:19526;[127.0.0.1]:2525;Sat, 21 Nov 2026 01:32:07 -0000\r\n\
                mail.test\r\nS2\r\nMAIL FROM:<a@ext.test>\r\nRCPT TO:<b@here.test>\r\n\
                <<MAIL-DATA>>\r\nSubject: lunch\r\nFrom: a@ext.test\r\n\r\n";
    let line = "Shall we meet at noon, as we did last week, or would one be better?\r\n";
    let lines = bytes.saturating_sub(head.len()).div_ceil(line.len());
    format!("{head}{}", line.repeat(lines))
}

/// The floor's client, compiled statically.
fn compile(folder: &Path) -> Result<String, BenchError> {
    let (source, program) = (folder.join("floor.c"), folder.join("floor"));
    fs::write(&source, include_str!("floor.c")).doing("write the floor's source")?;
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-static", "-o"]).arg(&program);
    let done = command.arg(&source).output();
    let done = done.doing(format!("run the C compiler {compiler} (set CC)"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(BenchError::server(format!(
            "the floor cannot be compiled by {compiler}: {said}"
        )));
    }
    Ok(program.display().to_string())
}

/// Where `stentor-call` is: as `make call` builds it, else beside this program.
fn client(args: &CallArgs) -> Result<String, BenchError> {
    if let Some(client) = &args.client {
        return Ok(client.display().to_string());
    }
    let own = env::current_exe().doing("find this program")?;
    let target = own.parent().and_then(Path::parent);
    let hosts = target.map(fs::read_dir).and_then(Result::ok);
    let hosts = hosts.into_iter().flatten().flatten();
    let shipped = hosts.map(|host| host.path().join("call/stentor-call"));
    let mut places = shipped.chain([own.with_file_name("stentor-call")]);
    match places.find(|place| place.is_file()) {
        Some(place) => Ok(place.display().to_string()),
        None => Err(BenchError::usage(
            "there is no stentor-call beside this program; build it (make call), or give --client",
        )),
    }
}

/// Starts a server and waits for its lines `listening PLACE`.
fn listening(command: &mut Command, places: usize) -> Result<(Server, Vec<String>), BenchError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = Server::start(command, "start a server")?;
    let mut found = Vec::new();
    if let Some(stdout) = server.0.stdout.take() {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let urls = lines.filter_map(|line| Some(line.strip_prefix("listening ")?.to_owned()));
        found.extend(urls.take(places));
    }
    if found.len() < places {
        return Err(BenchError::server("a server ended before it listened"));
    }
    Ok((server, found))
}

/// A spamd without the network, its port, and its client; `None` if they are not installed.
fn spamd(home: &Path) -> Result<Option<(Server, String, String)>, BenchError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| {
        let folders = env::split_paths(&path).chain(["/usr/sbin".into()]);
        let found = folders.map(|folder: PathBuf| folder.join(name));
        found.into_iter().find(|program| program.is_file())
    };
    let (Some(server), Some(client)) = (find("spamd"), find("spamc")) else {
        return Ok(None);
    };
    let free = std::net::TcpListener::bind("127.0.0.1:0").doing("find a port for spamd")?;
    let port = free.local_addr().doing("find a port for spamd")?.port();
    drop(free);
    let mut command = Command::new(server);
    command
        .args(["--listen", &format!("127.0.0.1:{port}"), "--local"])
        .args([
            "--nouser-config",
            "--max-children",
            "2",
            "--syslog",
            "stderr",
        ])
        .arg("--pidfile")
        .arg(home.join("spamd.pid"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let server = Server::start(&mut command, "start spamd")?;
    let end = Instant::now() + START_TIME;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > end {
            return Err(BenchError::server("it does not listen"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Some((
        server,
        port.to_string(),
        client.display().to_string(),
    )))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    impl Program {
        /// One that does nothing under that name.
        pub(in crate::call) fn nothing(name: &'static str) -> Self {
            Self::new(name, Vec::new(), None)
        }
    }

    impl Stage {
        /// These, and no servers.
        pub(in crate::call) fn of(programs: Vec<Program>) -> Self {
            Self {
                programs,
                notes: Vec::new(),
                not_run: None,
                servers: Vec::new(),
                folder: tempfile::tempdir().unwrap(),
            }
        }
    }

    /// What becomes of the trial call of a spamc that does this.
    fn trial(script: &str, message: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let (client, file) = (folder.path().join("spamc"), folder.path().join("message"));
        fs::write(&client, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&file, message).unwrap();
        let program = Program::spamc(&client.display().to_string(), "9", &file, 1);
        // Each call reads all of the message.
        program.try_score()?;
        program.try_score()
    }

    #[test]
    fn spamc_reads_the_message_and_has_a_score() {
        let judge = "if grep -q lunch; then echo 5.2/5.0; exit 1; else echo 0/0; fi";
        assert_eq!(trial(judge, "Subject: lunch\n"), Ok(()));
        let why = trial(judge, "").unwrap_err();
        assert!(why.contains("printed \"0/0\""), "{why}");
        for silent in ["cat >&2", "echo 1.0/5.0; exit 69", "echo 0/0; exit 69"] {
            assert!(trial(silent, "Subject: lunch\n").is_err(), "{silent}");
        }
    }
}
