//! mosquitto, tuned for throughput.

use std::fs;
use std::process::{Command, Stdio};

use stentor_client::Url;

use super::launch::{self, Child};
use super::{Running, free_port};
use crate::error::{BenchError, Doing};

/// No queue limits (its default drops messages beyond 1,000 per client), no disk, no logs.
fn config(port: u16) -> String {
    format!(
        "listener {port} 127.0.0.1\n\
         allow_anonymous true\n\
         max_queued_messages 0\n\
         max_inflight_messages 0\n\
         set_tcp_nodelay true\n\
         persistence false\n\
         sys_interval 0\n\
         log_type none\n\
         connection_messages false\n"
    )
}

pub(super) fn start() -> Result<Running, BenchError> {
    let program = launch::find_program("mosquitto")?;
    let folder = launch::folder()?;
    let port = free_port()?;
    let file = folder.path().join("mosquitto.conf");
    fs::write(&file, config(port)).doing("write mosquitto's configuration")?;
    let mut command = Command::new(program);
    command.arg("-c").arg(&file).stdout(Stdio::null());
    let mut child = Child::spawn("mosquitto", &mut command, folder)?;
    child.wait_for_port(port)?;
    Running::started(child, &Url::tcp("127.0.0.1", port))
}
