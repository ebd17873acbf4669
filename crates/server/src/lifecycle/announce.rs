//! What the operator learns at the start.

use std::io::Write;

use stentor_auth::model::ADMIN;
use stentor_auth::store::{Directory, Order, Who};
use tracing::{info, warn};

use super::open_listeners::OpenListeners;
use super::start::Shards;
use crate::call::CallServer;
use crate::config::Config;
use crate::context::ServerContext;
use crate::data_dir::DataDir;
use crate::listener::Port;
use crate::shard::Survey;
use crate::telemetry::collect::survey;

/// Says what is open, who may log in, and how to open it up; then prints the lines that scripts
/// wait for.
pub(super) fn started(
    config: &Config,
    data_dir: &DataDir,
    open_listeners: &OpenListeners,
    shards: &Shards,
    directory: &Directory,
) {
    info!(
        version = env!("CARGO_PKG_VERSION"),
        shards = shards.len(),
        connections_per_shard = shards.capacity.connections,
        data_dir = %data_dir.path().display(),
        "started"
    );
    let mut is_open = false;
    let mut is_remote = false;
    for open_listener in &open_listeners.mqtt {
        is_remote |= !open_listener.configured.is_local();
        for port in &open_listener.ports {
            is_open |= opened(port);
        }
    }
    let is_closed = !is_open && !open_listeners.mqtt.is_empty();
    if is_closed && !has_users(config, directory) {
        info!(
            "to let somebody in, add a user: `stentor user add NAME --data-dir {}`; or start with \
             --allow-anonymous to let every program on this machine in",
            data_dir.path().display()
        );
    }
    if !is_remote && !open_listeners.mqtt.is_empty() {
        info!(
            "only this machine can connect; to open the server to the network, add a listener \
             such as --listen mqtts://0.0.0.0:8883"
        );
    }
    if open_listeners.mqtt.is_empty() {
        info!(
            "no listener speaks MQTT: the listeners that are named replace the default ones; to \
             let MQTT clients connect, add --listen mqtt://127.0.0.1:1883"
        );
    }
    print(open_listeners.ports().map(|port| &**port));
}

/// Whether somebody can log in besides the administrator whom the first start makes. What lies in
/// another place than the data folder is not asked: who named it knows of users.
fn has_users(config: &Config, directory: &Directory) -> bool {
    let auth = &config.auth;
    let names_others = auth.database.is_some() || auth.source.is_some() || !config.jwts.is_empty();
    if names_others || !config.users.is_empty() {
        return true;
    }
    let page = Order::UserList {
        zone: None,
        containing: String::new(),
        after: None,
        limit: Some(2),
    };
    // The Auth Center logs an unreachable database itself.
    let Ok(answer) = directory.order(Who::new("the start"), page) else {
        return true;
    };
    let users = answer["users"].as_array().into_iter().flatten();
    users.into_iter().any(|user| user["name"] != ADMIN)
}

/// Says of an MQTT listener whether clients have to log in; whether they need not.
pub(super) fn opened(port: &Port) -> bool {
    let anonymous = port.rules.load().anonymous;
    let login = if anonymous {
        "no login needed"
    } else {
        "login required"
    };
    info!("listening on {} ({login})", port.url);
    anonymous
}

/// Says how many sessions end with the server, with the messages that wait in them. They go on
/// after the next start, if they are written down.
pub(super) fn forgotten(context: &ServerContext) {
    if context.journals.is_some() {
        return;
    }
    let (mut sessions, mut messages) = (0, 0);
    survey(context, Survey::Left, |(more, owed)| {
        sessions += more;
        messages += owed;
    });
    if sessions > 0 {
        warn!(
            sessions,
            messages, "sessions end with the server: clients have to subscribe again"
        );
    }
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
