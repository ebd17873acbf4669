//! The program with TLS, which takes over for a server at `calls://`, or is missing.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::{Finished, client};

const SERVER: &str = "calls://127.0.0.1:1";

/// A folder in which the client stands alone.
struct Alone {
    folder: TempDir,
    client: PathBuf,
}

impl Alone {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let client = folder.path().join("stentor-call");
        // Another process writes it: while this one had it open, nobody could start it.
        let built = client_path();
        let copied = Command::new("cp").arg(built).arg(&client).status();
        assert!(copied.expect("cp is everywhere").success());
        Self { folder, client }
    }

    /// The program with TLS, in a folder of this folder, is that other program.
    fn tls(&self, folder: &str, program: &str) -> PathBuf {
        let folder = self.folder.path().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        symlink(program, folder.join("stentor-call-tls")).expect("a link can be made");
        folder
    }

    /// A call that finds nothing in `PATH`.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.client);
        command.env_remove("STENTOR_TOKEN").env("PATH", "");
        command.args(["-s", SERVER]).args(words);
        command.stdin(Stdio::null()).current_dir(self.folder.path());
        command
    }

    fn run(&self, words: &[&str]) -> Finished {
        finished(&mut self.command(words))
    }
}

fn client_path() -> PathBuf {
    client().get_program().into()
}

fn finished(command: &mut Command) -> Finished {
    Finished::of(&command.output().expect("the client runs"))
}

/// Runs it with that on standard input, by a pipe.
fn fed(command: &mut Command, input: &[u8]) -> (u32, std::process::Output) {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // A program that does not read has ended.
    let _ = stdin.write_all(input);
    drop(stdin);
    (child.id(), child.wait_with_output().expect("it ends"))
}

/// Without it, a call ends as with a server that is down, and says what was sought where.
#[test]
fn a_missing_program_is_told_and_leads_to_the_code_on_error() {
    let alone = Alone::new();
    for (words, code) in [
        (&["/p"][..], 2),
        (&["--profile", "sysexits", "/p"], 75),
        (&["--profile", "xmail-queue", "/p"], 0),
        (&["--on-error", "reject", "/p"], 1),
        (&["--on-error", "accept", "/p"], 0),
    ] {
        let finished = alone.run(words);
        assert_eq!(finished.code, Some(code), "{finished:?}");
        let beside = alone.folder.path().display();
        let told = format!(
            "stentor-call: TLS needs the program stentor-call-tls, which is neither in {beside} \
             nor in a folder of PATH; build both by `make call`"
        );
        assert!(finished.stderr.starts_with(&told), "{finished:?}");
    }
    // Nobody looks for it in vain where there is no TLS.
    let words = ["-s", "127.0.0.1:1", "/p"];
    let plain = finished(Command::new(&alone.client).args(words).env("PATH", ""));
    assert!(!plain.stderr.contains("stentor-call-tls"), "{plain:?}");
}

/// What is on standard input has not been read when the program turns out to be missing.
#[test]
fn a_filter_passes_a_message_on_without_the_program() {
    let alone = Alone::new();
    let mut command = alone.command(&["--filter", "--on-error", "accept", "--stdin", "/p"]);
    let (_, output) = fed(&mut command, b"a: b\r\n\r\nbody");
    let finished = Finished::of(&output);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout, "a: b\r\n\r\nbody");
}

/// A folder where strangers write may be the current one.
#[test]
fn the_current_folder_is_not_searched() {
    let alone = Alone::new();
    let hostile = alone.tls("hostile", "/bin/echo");
    for path in [".", ":", "./", "../hostile", "hostile"] {
        let mut command = alone.command(&["/p"]);
        let finished = finished(command.current_dir(&hostile).env("PATH", path));
        assert_eq!(finished.code, Some(2), "{path}: {finished:?}");
        // The other program would have printed its arguments.
        assert_eq!(finished.stdout, "the message cannot be checked now\n");
    }
}

#[test]
fn the_program_beside_goes_before_that_in_the_path() {
    let alone = Alone::new();
    let first = alone.tls("first", "/bin/echo");
    let second = alone.tls("second", "/bin/false");
    let path = std::env::join_paths([&first, &second]).expect("no colon");
    let words = ["--profile", "plain", "/p", "-key", "a b"];
    let run = || finished(alone.command(&words).env("PATH", &path));
    let by_path = run();
    assert_eq!(by_path.code, Some(0), "{by_path:?}");
    let all = format!("-s {SERVER} --profile plain /p -key a b\n");
    assert_eq!(by_path.stdout, all);
    alone.tls(".", "/bin/false");
    let beside = run();
    assert_eq!(beside.code, Some(1), "{beside:?}");
    assert_eq!(beside.stdout, "");
}

/// It has the process for itself, with the streams and the variables.
#[test]
fn the_program_is_the_same_process() {
    let alone = Alone::new();
    alone.tls(".", "/bin/sh");
    let mut command = alone.command(&["/p"]);
    command.env("STENTOR_TOKEN", "me:token");
    // With `-s`, a shell reads its standard input.
    let (pid, output) = fed(&mut command, b"echo $$ $STENTOR_TOKEN $*; kill -9 $$");
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(told, format!("{pid} me:token {SERVER} /p\n"));
    assert_eq!(output.status.signal(), Some(9));
}

/// A link to the client itself would start itself without end.
#[test]
fn a_client_under_the_other_name_does_not_go_round_in_circles() {
    let alone = Alone::new();
    let program = alone.client.display().to_string();
    alone.tls(".", &program);
    let finished = alone.run(&["--profile", "sysexits", "/p"]);
    assert_eq!(finished.code, Some(75), "{finished:?}");
    let told = "stentor-call-tls is not the program of that name: it has started stentor-call";
    assert!(finished.stderr.contains(told), "{finished:?}");
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let alone = Alone::new();
    let file = alone.folder.path().join("stentor-call-tls");
    std::fs::write(&file, "no program").expect("a file can be written");
    let finished = alone.run(&["/p"]);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let told = format!("cannot start {}: ", file.display());
    assert!(finished.stderr.contains(&told), "{finished:?}");
}
