//! mochi-mqtt's server, as `go install github.com/mochi-mqtt/server/v2/cmd@latest` builds it,
//! found as `mochi` on the PATH. Its program has options for addresses only.

use std::process::{Command, Stdio};

use stentor_client::Url;

use super::launch::{self, Child};
use super::{Running, free_port};
use crate::error::BenchError;

/// Where it listens; all other doors are on ports that the system chooses.
pub(super) fn arguments(port: u16) -> Vec<String> {
    let tcp = format!("127.0.0.1:{port}");
    let words = ["-tcp", &tcp, "-ws", "127.0.0.1:0", "-info", "127.0.0.1:0"];
    words.map(str::to_owned).to_vec()
}

/// The version that Go's tool reads from the program, where Go is installed.
pub(super) fn version() -> Option<String> {
    let program = launch::find_program("mochi").ok()?;
    let told = Command::new("go")
        .args(["version", "-m"])
        .arg(program)
        .output()
        .ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    let module = text
        .lines()
        .find(|line| line.trim_start().starts_with("mod\t"))?;
    Some(
        module
            .split_whitespace()
            .skip(1)
            .take(2)
            .collect::<Vec<_>>()
            .join(" "),
    )
}

pub(super) fn start() -> Result<Running, BenchError> {
    let program = launch::find_program("mochi")?;
    let port = free_port()?;
    let mut command = Command::new(program);
    command.args(arguments(port)).stdout(Stdio::null());
    let mut child = Child::spawn("mochi", command, launch::folder()?)?;
    child.wait_for_port(port)?;
    Running::started(child, &Url::tcp("127.0.0.1", port))
}
