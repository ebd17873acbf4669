//! What the operator learns at the start.

use std::io::Write;

use tracing::info;

use super::doors::Doors;
use super::start::Shards;
use crate::call::CallServer;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::fdtable::Table;
use crate::listener::Port;

/// Says what is open, who may log in, and how to open it up; then prints the lines that scripts
/// wait for.
pub(super) fn started(config: &Config, data_dir: &DataDir, doors: &Doors, shards: &Shards) {
    let tables = match shards.table {
        Table::Private => "private",
        Table::Shared => "shared",
    };
    info!(
        version = env!("CARGO_PKG_VERSION"),
        shards = shards.len(),
        connections_per_shard = shards.capacity.connections,
        descriptor_tables = tables,
        data_dir = %data_dir.path().display(),
        "started"
    );
    let mut is_open = false;
    let mut is_remote = false;
    for door in &doors.mqtt {
        is_remote |= !door.configured.is_local();
        for port in &door.ports {
            is_open |= opened(port);
        }
    }
    if !is_open && config.users.is_empty() {
        info!(
            "to let somebody in, add a user: `stentor user add NAME --data-dir {}`; or start with \
             --allow-anonymous to let every program on this machine in",
            data_dir.path().display()
        );
    }
    if !is_remote {
        info!(
            "only this machine can connect; to open the server to the network, add a listener \
             such as --listen mqtts://0.0.0.0:8883"
        );
    }
    print(doors.ports().map(|port| &**port));
}

/// Says of an MQTT listener who may log in there; whether that is anybody.
pub(super) fn opened(port: &Port) -> bool {
    let anonymous = port.rules.load().anonymous;
    let who = if anonymous { "anybody" } else { "users" };
    info!("listening on {}: {who} may log in", port.url);
    anonymous
}

/// Says where procedures are called.
pub(super) fn calls(calls: &CallServer) {
    let mut out = std::io::stdout().lock();
    for url in calls.urls() {
        info!("listening on {url}: procedures are called here");
        // Nobody may be reading.
        let _ = writeln!(out, "listening {url}");
    }
    let _ = out.flush();
}

/// One line per listener on standard output: what scripts wait for.
pub(super) fn print<'a>(ports: impl Iterator<Item = &'a Port>) {
    let mut out = std::io::stdout().lock();
    for port in ports {
        // Nobody may be reading.
        let _ = writeln!(out, "listening {}", port.url);
    }
    let _ = out.flush();
}
