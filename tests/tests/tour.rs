//! The README's tour, typed as it stands.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use stentor_tests::{DEADLINE, process, server, tools};

/// The mark of what is typed in the second terminal.
const TYPED: &str = "<!-- tour -->";
/// The mark of the server in the first one.
const SERVER: &str = "<!-- not run: terminal 1, a server that the tour starts by itself -->";

/// What the reader's machine has and the test's has not: free standard ports.
const MACHINE: &str = r#"
stentor() {
    if [ "$1" = serve ]; then
        shift
        set -- serve --listen "mqtt://127.0.0.1:$PORT" "$@"
    fi
    command stentor "$@"
}
mosquitto_pub() { command mosquitto_pub -p "$PORT" "$@"; }
mosquitto_sub() { command mosquitto_sub -p "$PORT" "$@"; }
"#;

/// Both terminals as one script: a server runs from its block to `stentor stop`.
fn script(blocks: Vec<Block>, port: u16) -> String {
    let mut script = MACHINE.to_owned();
    for Block { mark, code, .. } in blocks {
        let code = code.replace("port=1883", &format!("port={port}"));
        if mark == SERVER {
            script += &format!(
                "\n{code} > serve.out & server=$!\n\
                 until grep -q listening serve.out; do kill -0 $server; done\n"
            );
        } else if mark == TYPED {
            script += &format!("\n{code}\n");
            if code.contains("stentor stop") {
                script += "wait $server\nrm serve.out\n";
            }
        }
    }
    script
}

/// A fenced block of shell code, with the comment on the line before it.
struct Block {
    line: usize,
    mark: String,
    code: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut mark = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line == "```sh" {
            let code: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```")
                .collect();
            blocks.push(Block {
                line: number + 1,
                mark,
                code: code.join("\n"),
            });
            mark = String::new();
        } else {
            mark = line.to_owned();
        }
    }
    blocks
}

fn readme() -> Vec<Block> {
    let text =
        fs::read_to_string(tools::project().join("README.md")).expect("the README can be read");
    blocks(&text)
}

#[test]
fn every_command_of_the_readme_is_run_or_says_why_not() {
    for Block { line, mark, .. } in readme() {
        assert!(
            mark == TYPED || mark == SERVER || mark.starts_with("<!-- not run: "),
            "the commands in line {line} of the README need `{TYPED}` or `{SERVER}`, or a reason \
             not to be run, on the line before"
        );
    }
}

#[test]
fn the_tour_works_as_it_stands() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // The reader's folder is that of the project, which the tour must not write to.
    let deploy = tools::project().join("deploy");
    std::os::unix::fs::symlink(deploy, folder.path().join("deploy")).expect("a link can be made");
    let port = server::free_port();
    let mut path: Vec<PathBuf> = Vec::new();
    path.extend(server::binary().parent().map(PathBuf::from));
    path.extend(tools::python("").get_program().to_str().and_then(|python| {
        let python = PathBuf::from(python);
        python.parent().map(PathBuf::from)
    }));
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));

    let mut shell = Command::new("sh");
    shell
        .args(["-eu", "-c", &script(readme(), port)])
        .current_dir(folder.path())
        .env(
            "PATH",
            env::join_paths(path).expect("folders have no colons"),
        )
        .env("PORT", port.to_string())
        // A group of its own, so that nothing that the tour started outlives a failure.
        .process_group(0);
    // Files and no pipes: a pipe ends only with the last program that holds it.
    let (printed, logged) = (folder.path().join("printed"), folder.path().join("logged"));
    let file = |path| fs::File::create(path).expect("a file can be made");
    shell
        .stdin(Stdio::null())
        .stdout(file(&printed))
        .stderr(file(&logged));
    let mut child = shell.spawn().expect("a shell starts");
    let group = Group(process::pid_of(&child));
    // Several programs one after the other.
    let (status, in_time) = process::wait(&mut child, 3 * DEADLINE);
    drop(group);
    let output = fs::read_to_string(&printed).expect("the output can be read");
    assert!(
        in_time && status.success(),
        "the tour ended with {status}:\n{output}"
    );
    for wanted in [
        "kitchen/temperature 21.5",
        // A useful screen about a client that is there.
        "\"display\" gets messages of \"kitchen/oven\" when it comes back",
        "1 of 100000 messages",
        "kitchen/oven on",
        "hello world",
    ] {
        assert!(
            output.contains(wanted),
            "the tour never printed {wanted:?}:\n{output}"
        );
    }
}

/// A process group that ends with this value.
struct Group(nix::unistd::Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // An error means that nothing is left of it.
        let _ = killpg(self.0, Signal::SIGKILL);
    }
}
