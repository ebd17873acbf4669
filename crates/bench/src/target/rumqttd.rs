//! rumqttd with its limits raised, or as its sample file has them.

use std::fs;
use std::process::{Command, Stdio};

use stentor_client::Url;

use super::launch::{self, Child};
use super::rival::Tuning;
use super::{Needs, Running, free_port};
use crate::error::{BenchError, Doing};

/// The sample file's values where it has any. Tuned are connections, payload and the delay between
/// accepts, which its defaults would stumble over.
pub(super) fn config(tuning: Tuning, port: u16, needs: &Needs) -> String {
    let section = if needs.version.is_v5() { "v5" } else { "v4" };
    let (connections, delay_ms, payload) = match tuning {
        Tuning::Tuned => (
            needs.connections + 100,
            0,
            needs.payload.max(20_480) + 1_024,
        ),
        Tuning::Defaults => (10_010, 1, 20_480),
    };
    format!(
        "id = 0\n\
         [router]\n\
         id = 0\n\
         max_connections = {connections}\n\
         max_outgoing_packet_count = 200\n\
         max_segment_size = 104857600\n\
         max_segment_count = 10\n\
         [{section}.1]\n\
         name = \"bench\"\n\
         listen = \"127.0.0.1:{port}\"\n\
         next_connection_delay_ms = {delay_ms}\n\
         [{section}.1.connections]\n\
         connection_timeout_ms = 60000\n\
         max_payload_size = {payload}\n\
         max_inflight_count = 100\n\
         dynamic_filters = true\n"
    )
}

pub(super) fn start(tuning: Tuning, needs: &Needs) -> Result<Running, BenchError> {
    let program = launch::find_program("rumqttd")?;
    let folder = launch::folder()?;
    let port = free_port()?;
    let file = folder.path().join("rumqttd.toml");
    fs::write(&file, config(tuning, port, needs)).doing("write rumqttd's configuration")?;
    let mut command = Command::new(program);
    command
        .arg("-c")
        .arg(&file)
        .arg("-q")
        .stdout(Stdio::null())
        .current_dir(folder.path());
    let mut child = Child::spawn("rumqttd", command, folder)?;
    child.wait_for_port(port)?;
    Running::started(child, &Url::tcp("127.0.0.1", port))
}
