//! `stentor zone` and `stentor auth`.

use clap::{Args, Subcommand};
use serde_json::Value;
use stentor_auth::counted;
use stentor_auth::store::Order;

use super::user::done;
use super::{WHERE, show};
use crate::admin::table::{Table, bytes, plain};
use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

/// Zones: isolated applications with users and topics of their own.
#[derive(Debug, Args)]
#[command(after_help = WHERE)]
pub(crate) struct Zone {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a zone, or change its bounds
    #[command(visible_aliases = ["create", "new"])]
    Add {
        /// Name of the zone
        name: String,
        /// Connections of all its users at the same time [default: no limit]
        #[arg(long, value_name = "N")]
        connections: Option<u32>,
        #[command(flatten)]
        which: Which,
    },
    /// List zones
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        which: Which,
    },
    /// Show the connections, rooms, messages and retained messages of each zone of the running
    /// server
    Show {
        /// Name of the zone [default: all zones]
        name: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Remove a zone that has no users, with its connections, rooms and retained messages
    #[command(visible_aliases = ["delete", "rm"])]
    Remove {
        /// Name of the zone
        name: String,
        #[command(flatten)]
        which: Which,
    },
}

impl Zone {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Add {
                name,
                connections,
                which,
            } => {
                let order = Order::ZoneAdd {
                    name: name.as_str().into(),
                    connections,
                };
                done(&which, order, &name, "is there")
            }
            Command::List { which } => {
                let answer = which.open()?.order(&Order::ZoneList {})?;
                show(which.json, &answer, || zones_text(&answer))
            }
            Command::Show { name, which } => zone_figures(name.as_deref(), &which),
            Command::Remove { name, which } => {
                let order = Order::ZoneRemove {
                    name: name.as_str().into(),
                };
                done(&which, order, &name, "is removed")
            }
        }
    }
}

fn zones_text(answer: &Value) -> String {
    let mut table = Table::new(&["ZONE", "USERS", "CONNECTIONS AT MOST", "CONFIGURED"]);
    let mut left_out = String::new();
    for zone in answer["zones"].as_array().into_iter().flatten() {
        let configured = match zone["configured"] == true {
            true => "yes",
            false => "no",
        };
        let [name, users, connections] =
            ["name", "users", "connections"].map(|name| plain(&zone[name]));
        table.row([name, users, connections, configured.to_owned()]);
        if let Some(reason) = zone["left_out"].as_str() {
            left_out += &format!("{} is left out: {reason}\n", zone["name"]);
        }
    }
    table.render() + &left_out
}

/// Shows what there is of a zone of the running server, or of each.
pub(crate) fn zone_figures(name: Option<&str>, which: &Which) -> Result<(), Failure> {
    let mut told = which.tell(&stentor_control::zones::Zones {
        fresh: true,
        zone: None,
    })?;
    if let Some(name) = name {
        told.keep("zones", |zone| zone["name"] == name);
        told.answer.zones.retain(|zone| zone.name == name);
        if told.answer.zones.is_empty() {
            let reason = format!("there is no zone {name:?}; `stentor zone list` lists them");
            return Err(Failure::new(reason));
        }
    }
    told.print(|answer| {
        let mut table = Table::new(&[
            "ZONE",
            "CONNECTIONS",
            "USERS",
            "SESSIONS",
            "SUBSCRIPTIONS",
            "ROOMS",
            "MEMBERS",
            "ROOM SIZE",
            "HELD",
            "IN",
            "IN SIZE",
            "OUT",
            "OUT SIZE",
            "DROPPED",
            "RETAINED",
            "RETAINED SIZE",
        ]);
        for zone in &answer.zones {
            let mut cells = vec![shown(&zone.name)];
            cells.extend([
                zone.connections.to_string(),
                zone.users.to_string(),
                zone.sessions.to_string(),
                zone.subscriptions.to_string(),
                zone.rooms.to_string(),
                zone.members.to_string(),
                bytes(zone.room_bytes),
                bytes(zone.held_bytes),
                zone.messages_in.to_string(),
                bytes(zone.messages_in_bytes),
                zone.messages_out.to_string(),
                bytes(zone.messages_out_bytes),
                zone.messages_dropped.to_string(),
                zone.retained_messages.to_string(),
                bytes(zone.retained_bytes),
            ]);
            table.cells(cells);
        }
        table.render()
    })
}

/// The Auth Center of the running server.
#[derive(Debug, Args)]
#[command(after_help = WHERE)]
pub(crate) struct Auth {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Read users, roles and zones again after a change in the database itself, and say which
    /// columns of a query of your own cannot be read
    Refresh {
        #[command(flatten)]
        which: Which,
    },
}

impl Auth {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let AuthCommand::Refresh { which } = self.command;
        let answer = which.open()?.order(&Order::AuthRefresh {})?;
        show(which.json, &answer, || {
            let changed = answer["changed"].as_u64().unwrap_or_default();
            format!("read again; changed: {}\n", counted(changed, "user"))
        })?;
        let complaints = answer["complaints"].as_array().into_iter().flatten();
        for complaint in complaints {
            eprintln!("stentor: {}", plain(complaint));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whether_a_zone_is_configured_is_a_word_for_people() {
        let zone = |name: &str, configured: bool| json!({ "name": name, "configured": configured });
        let text = zones_text(&json!({ "zones": [zone("game", true), zone("shop", false)] }));
        let last = |line: &str| line.split_whitespace().next_back().map(str::to_owned);
        let words: Vec<String> = text.lines().filter_map(last).collect();
        assert_eq!(words, ["CONFIGURED", "yes", "no"], "{text}");
    }
}
