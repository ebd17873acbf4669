//! Procedures, called by the built `stentor-call` on a running server.

mod broadcasts;
mod clients;
mod ends;
mod held;
mod https;
mod identity;
mod lines;
mod listeners;
mod many;
mod store;
mod tls;
mod trials;
mod trouble;
mod waiting;
mod xmail;
mod xmail_commands;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stentor_tests::{Finished, Plan, Server, process, server};

/// A server with procedures, called by Unix socket and by TCP.
struct Calls {
    server: Server,
}

/// A plan for a server whose folder of procedures holds these files.
fn plan(files: &[(&str, &str)]) -> Plan {
    let plan = Plan::new();
    let folder = plan.folder().join("procedures");
    fs::create_dir(&folder).expect("a folder can be made");
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("a file can be written");
    }
    let socket = format!("call+unix:{}", plan.folder().join("call.sock").display());
    plan.listen(&socket)
        .listen("call://127.0.0.1:0")
        .arg("--procedures")
        .arg(folder)
}

impl Calls {
    fn start(files: &[(&str, &str)]) -> Self {
        Self {
            server: plan(files).start(),
        }
    }

    fn procedure(&self, name: &str) -> PathBuf {
        self.server.folder().join("procedures").join(name)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.server.folder().join(name);
        fs::write(&path, content).expect("a file can be written");
        path
    }

    fn by_unix(&self, words: &[&str]) -> Finished {
        let socket = self.server.folder().join("call.sock");
        process::run(client().arg("-s").arg(socket).args(words))
    }

    fn by_tcp(&self, words: &[&str]) -> Finished {
        let port = self.server.port("call");
        process::run(client().args(["-s", "127.0.0.1", "-p", &port]).args(words))
    }
}

/// The built client.
fn client() -> Command {
    let path = server::binary().with_file_name("stentor-call");
    assert!(
        path.exists(),
        "build it first with `cargo build --workspace`"
    );
    let mut command = Command::new(path);
    command.env_remove("STENTOR_TOKEN").stdin(Stdio::null());
    command
}

fn code(finished: &Finished) -> Option<i32> {
    finished.status.code()
}

fn word(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}
