//! mosquitto, tuned for throughput or as it comes; with persistence where messages have to survive.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use stentor_client::Url;

use super::launch::{self, Child};
use super::rival::Tuning;
use super::{Needs, Running, free_port};
use crate::error::{BenchError, Doing};

/// Tuned: no queue limits (its default drops messages beyond 1,000 per client), no logs, and a disk
/// only where a folder is given: it saves at the end, and every `autosave` seconds.
pub(super) fn config(tuning: Tuning, port: u16, persistence: Option<&Path>) -> String {
    let persistence = match persistence {
        None => "persistence false".into(),
        Some(folder) => format!(
            "persistence true\npersistence_location {}/\nautosave_interval 1800",
            folder.display()
        ),
    };
    if tuning == Tuning::Defaults {
        return format!("listener {port} 127.0.0.1\nallow_anonymous true\n");
    }
    format!(
        "listener {port} 127.0.0.1\n\
         allow_anonymous true\n\
         max_queued_messages 0\n\
         max_inflight_messages 0\n\
         set_tcp_nodelay true\n\
         {persistence}\n\
         sys_interval 0\n\
         log_type none\n\
         connection_messages false\n"
    )
}

pub(super) fn start(tuning: Tuning, needs: &Needs) -> Result<Running, BenchError> {
    let program = launch::find_program("mosquitto")?;
    let folder = launch::folder()?;
    let port = free_port()?;
    let file = folder.path().join("mosquitto.conf");
    let keeps = (needs.stored > 0).then(|| folder.path());
    fs::write(&file, config(tuning, port, keeps)).doing("write mosquitto's configuration")?;
    let mut command = Command::new(program);
    command.arg("-c").arg(&file).stdout(Stdio::null());
    if needs.stored > 0 && nix::unistd::geteuid().is_root() {
        // As root it becomes the user mosquitto, who could not write into the folder.
        fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .and_then(|mut file| file.write_all(b"user root\n"))
            .doing("write mosquitto's configuration")?;
    }
    let mut child = Child::spawn("mosquitto", command, folder)?;
    if needs.stored > 0 {
        child = child.keeps(port);
    }
    child.wait_for_port(port)?;
    Running::started(child, &Url::tcp("127.0.0.1", port))
}
