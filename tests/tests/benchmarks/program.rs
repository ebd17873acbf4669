//! `stentor bench` is the program `stentor-bench`, wherever that is installed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stentor_tests::DEADLINE;
use stentor_tests::process::{finish, run};
use stentor_tests::server::{binary, stentor};
use tempfile::TempDir;

/// A program of this name under another path, alone in its folder. The name is the file's.
fn alone(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join(name);
    let built = binary().with_file_name(name);
    // A link costs no space, where both are on one disk.
    if fs::hard_link(&built, &place).is_err() {
        fs::copy(&built, &place).unwrap();
    }
    (folder, place)
}

/// A script in a new folder that stands for a program.
fn script(name: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join(name);
    fs::write(&place, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, place)
}

/// The `stentor` at this path, with nothing but these folders in `PATH`.
fn program(place: &Path, path: &[&Path]) -> Command {
    let mut command = Command::new(place);
    command.env("PATH", std::env::join_paths(path).unwrap());
    command.env_remove("STENTOR_BENCH_SERVER");
    command
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn without_the_program_the_command_says_how_to_get_it() {
    let (folder, stentor) = alone("stentor");
    let elsewhere = tempfile::tempdir().unwrap();
    for words in [
        &["bench"][..],
        &["bench", "--help"],
        &["bench", "fanout", "ice-1"],
        &["help", "bench"],
    ] {
        let mut command = program(&stentor, &[elsewhere.path()]);
        let finished = run(command.args(words));
        assert_eq!(finished.status.code(), Some(3), "{words:?} {finished}");
        assert_eq!(finished.stdout, "", "{words:?}");
        let place = folder.path().canonicalize().unwrap();
        let place = place.display().to_string();
        for part in [
            "stentor: `stentor bench` needs the program stentor-bench",
            &place,
            "PATH",
            "cargo build --release --package stentor-bench",
        ] {
            assert!(finished.stderr.contains(part), "{part}: {finished}");
        }
    }
    // The rest of the program needs no other one.
    let page = run(program(&stentor, &[]).args(["man", "bench"])).success();
    assert!(page.contains("stentor\\-bench"), "{page}");
}

/// The arguments are those of the other program, whatever they mean to this one.
#[test]
fn arguments_streams_and_exit_code_are_passed_on() {
    let (_kept, stentor) = alone("stentor");
    let text = "for word; do echo \"<$word>\"; done\ncat\necho \"$STENTOR_BENCH_SERVER\" >&2\n\
                echo $$\nexit 7\n";
    let (folder, _) = script("stentor-bench", text);
    let mut command = program(
        &stentor,
        &[folder.path(), Path::new("/usr/bin"), Path::new("/bin")],
    );
    command.args(["bench", "idle", "--help", "-D", "a b", "--", "", "--json=-"]);
    let mut child = start(&mut command);
    let pid = child.id();
    child.stdin.take().unwrap().write_all(b"input\n").unwrap();
    let finished = finish(child, DEADLINE);
    assert_eq!(finished.status.code(), Some(7), "{finished}");
    let words = "<idle>\n<--help>\n<-D>\n<a b>\n<-->\n<>\n<--json=->\ninput\n";
    // The process is the same one, so that signals need nobody who passes them on.
    assert_eq!(finished.stdout, format!("{words}{pid}\n"));
    let server = stentor.canonicalize().unwrap();
    assert_eq!(finished.stderr, format!("{}\n", server.display()));
    let helped =
        run(program(&stentor, &[folder.path(), Path::new("/bin")]).args(["help", "bench"]));
    assert!(helped.stdout.starts_with("<help>\n"), "{helped}");
}

/// The other program decides what a signal does, as when it ends its servers.
#[test]
fn a_signal_reaches_the_program() {
    let (_kept, stentor) = alone("stentor");
    let text =
        "trap 'kill $!; exit 9' TERM\ntail -f /dev/null > /dev/null 2>&1 &\necho started\nwait\n";
    let (folder, _) = script("stentor-bench", text);
    let path = [folder.path(), Path::new("/usr/bin"), Path::new("/bin")];
    let mut child = start(program(&stentor, &path).arg("bench"));
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

/// Beside the program, not what `PATH` has; and nothing of the current folder.
#[test]
fn the_program_beside_it_comes_first_and_the_current_folder_never() {
    let (folder, stentor) = alone("stentor");
    let (other, _) = script("stentor-bench", "echo of the path\n");
    let mut command = program(&stentor, &[Path::new("."), Path::new("")]);
    let finished = run(command.arg("bench").current_dir(other.path()));
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    let (_kept, beside) = script("stentor-bench", "echo beside it\n");
    fs::copy(beside, folder.path().join("stentor-bench")).unwrap();
    let finished = run(program(&stentor, &[other.path()]).arg("bench"));
    assert_eq!(finished.success(), "beside it\n");
}

/// What is in `PATH` may have a `stentor` of its own beside it, which nobody has called.
#[test]
fn the_server_that_was_called_is_measured() {
    let (folder, called) = alone("stentor");
    let built = binary();
    let file = folder.path().join("result.json");
    let load = [
        "idle",
        "--connections",
        "2",
        "--pairs",
        "1",
        "--no-floor",
        "--json",
    ];
    let measured = |command: &mut Command| -> (PathBuf, String) {
        run(command.args(load).arg(&file)).success();
        let result = super::read(&file).unwrap();
        let program = result["system"]["program"].as_str().unwrap();
        let command = result["command"].as_str().unwrap();
        (PathBuf::from(program), command.to_owned())
    };
    let again = "idle --connections 2 --pairs 1 --no-floor";
    let path = [built.parent().unwrap(), Path::new("/usr/bin")];
    let found = measured(program(&called, &path).arg("bench"));
    let called = called.canonicalize().unwrap();
    assert_eq!(found, (called, format!("stentor bench {again}")));
    let found = measured(&mut program(&built.with_file_name("stentor-bench"), &path));
    let built = built.canonicalize().unwrap();
    assert_eq!(found, (built, format!("stentor-bench {again}")));
}

#[test]
fn the_program_works_alone_against_a_running_server() {
    let server = stentor_tests::Plan::new().tcp().anonymous().start();
    let url = format!("mqtt://{}", server.address("mqtt"));
    let (folder, bench) = alone("stentor-bench");
    let load = ["idle", "--connections", "2", "--pairs", "1", "--no-floor"];
    let run_alone = |words: &[&str]| run(program(&bench, &[folder.path()]).args(load).args(words));
    run_alone(&["--target", &url]).success();
    let refused = run_alone(&[]);
    assert_eq!(refused.status.code(), Some(3), "{refused}");
    for part in [
        "stentor-bench: ",
        "PATH has no stentor",
        "--server FILE",
        "--target URL",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused}");
    }
}

/// Usage and errors have the words that somebody typed.
#[test]
fn both_names_teach_by_themselves() {
    let bench = binary().with_file_name("stentor-bench");
    for (name, mut command) in [
        ("stentor bench", {
            let mut command = stentor();
            command.arg("bench");
            command
        }),
        ("stentor-bench", Command::new(&bench)),
    ] {
        let help = run(command.args(["fanout", "--help"])).success();
        assert!(help.contains(&format!("Usage: {name} fanout")), "{help}");
        assert!(help.contains("--against"), "{help}");
    }
    let version = run(Command::new(&bench).arg("--version")).success();
    assert_eq!(
        version,
        format!("stentor-bench {}\n", env!("CARGO_PKG_VERSION"))
    );
    let refused = run(stentor().args(["bench", "fanout", "-u", "ann"]));
    assert_eq!(refused.status.code(), Some(3), "{refused}");
    assert!(refused.stderr.contains("mqtt://USER:PW@HOST"), "{refused}");
}

/// Servers are built and installed without the benchmark.
#[test]
fn the_server_has_no_benchmark_in_it() {
    let preset = b"appwarp-heavy";
    for (name, has_it) in [("stentor", false), ("stentor-bench", true)] {
        let program = fs::read(binary().with_file_name(name)).unwrap();
        let is_there = program.windows(preset.len()).any(|it| it == preset);
        assert_eq!(is_there, has_it, "{name}");
    }
}
