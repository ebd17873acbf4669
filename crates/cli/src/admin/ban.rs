//! `stentor ban`: who may not connect.

use std::time::Duration;

use clap::{Args, Subcommand};
use stentor_auth::calendar::Utc;
use stentor_auth::counted;
use stentor_control::bans::{self, Added, Ban, List, Target};
use stentor_server::config::parse_duration;

use super::now_secs;
use super::table::{Table, duration, maybe};
use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor ban add --client pump-17 --for 10m --reason 'reconnects in a loop'
  stentor ban add --user game/bob                  a user of the zone game
  stentor ban add --address 192.0.2.0/24           a single IPv6 address means its /64
  stentor ban add --zone game --for 1h             all clients of a zone
  stentor ban rm --client pump-17

A ban closes the connections that there are, without their wills, and refuses new ones. It survives
a restart. The control socket is never banned.";

/// Keeps clients out, by client id, user, address or zone.
#[derive(Debug, Args)]
pub(crate) struct Bans {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Keep somebody out, and close the connections that there are
    Add(Add),
    /// List the bans that hold
    #[command(visible_alias = "list")]
    Ls {
        #[command(flatten)]
        which: Which,
    },
    /// Let somebody in again
    #[command(visible_aliases = ["remove", "delete"])]
    Rm {
        #[command(flatten)]
        whom: Whom,
        #[command(flatten)]
        which: Which,
    },
}

/// The target of a ban.
#[derive(Debug, Args)]
struct Whom {
    /// A client id, in all zones unless --zone names one
    #[arg(long, visible_alias = "id", value_name = "CLIENT_ID")]
    client: Option<String>,
    /// A user: NAME, or ZONE/NAME
    #[arg(long, value_name = "NAME", conflicts_with = "client")]
    user: Option<String>,
    /// An address, or a network such as 192.0.2.0/24. A single IPv6 address means its /64
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["client", "user"])]
    address: Option<String>,
    /// A zone; alone, it means all of its clients
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
}

impl Whom {
    fn target(self) -> Target {
        Target {
            client_id: self.client,
            user: self.user,
            address: self.address,
            zone: self.zone,
        }
    }
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    whom: Whom,
    /// For how long, such as 10m, 2h or 7d [default: until it is removed]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
    /// Why, for people: the log and `stentor ban ls` show it
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    /// Ban also an address of this machine itself, or the zone default
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    which: Which,
}

impl Bans {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Add(add) => {
                let told = add.which.tell(&bans::Add {
                    target: add.whom.target(),
                    // A part of a second counts as a whole one.
                    for_secs: add.time.map(|time| time.as_millis().div_ceil(1_000) as u64),
                    reason: add.reason,
                    force: add.force,
                })?;
                told.print(added)
            }
            Command::Ls { which } => which
                .tell(&bans::Ls {})?
                .print(|list| table(list, now_secs())),
            Command::Rm { whom, which } => {
                let target = whom.target();
                let told = which.tell(&bans::Rm { target })?;
                told.print(|removed| {
                    let target = shown(&removed.ban.target.to_string());
                    format!("{target} may connect again\n")
                })
            }
        }
    }
}

fn added(answer: &Added) -> String {
    let Added {
        ban,
        replaced,
        closed,
    } = answer;
    let until = ban.until.map_or_else(
        || " until `stentor ban rm`".to_owned(),
        |until| format!(" until {}", utc(until)),
    );
    let again = if *replaced {
        ", instead of an earlier ban"
    } else {
        ""
    };
    let closed = counted(*closed, "connection");
    let target = shown(&ban.target.to_string());
    format!("{target} is banned{until}{again}; closed: {closed}\n")
}

fn table(list: &List, now_secs: u64) -> String {
    if list.bans.is_empty() {
        return "nobody is banned\n".to_owned();
    }
    let heads = ["KIND", "WHO", "ZONE", "ENDS", "SINCE", "BY", "REASON"];
    let mut table = Table::new(&heads);
    for ban in &list.bans {
        let Ban {
            target,
            until,
            since,
            reason,
            by,
        } = ban;
        let (kind, who) = match (&target.client_id, &target.user, &target.address) {
            (Some(client_id), ..) => ("client", shown(client_id)),
            (_, Some(user), _) => ("user", shown(user)),
            (.., Some(address)) => ("address", shown(address)),
            (None, None, None) => ("zone", "all of its clients".to_owned()),
        };
        let ends = until.map_or_else(
            || "never".to_owned(),
            |until| format!("in {}", duration(until.saturating_sub(now_secs))),
        );
        table.row([
            kind.to_owned(),
            who,
            maybe(target.zone.as_deref()),
            ends,
            format!("{} ago", duration(now_secs.saturating_sub(*since))),
            shown(by),
            shown(reason),
        ]);
    }
    table.render()
}

/// `2026-11-27 18:50:15 UTC`.
fn utc(secs: u64) -> String {
    let utc = Utc::new(secs);
    format!("{} {} UTC", utc.date(), utc.clock())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_are_told_with_their_ends() {
        let ban = |until| Ban {
            target: Target {
                client_id: Some("pump\u{1b}".into()),
                ..Target::default()
            },
            until,
            since: 1_000,
            reason: "loops".into(),
            by: "uid 0 by the control socket".into(),
        };
        let one = Added {
            ban: ban(Some(951_782_400)),
            replaced: false,
            closed: 1,
        };
        assert_eq!(
            added(&one),
            "the client id \"pump\\u{1b}\" is banned until 2000-02-29 00:00:00 UTC; closed: 1 \
             connection\n"
        );
        let list = List {
            bans: vec![ban(Some(1_125)), ban(None)],
        };
        let text = table(&list, 1_065);
        for told in [
            "client  pump\\u{1b}  -     in 1m 0s  1m 5s ago",
            "never",
            "loops",
        ] {
            assert!(text.contains(told), "{told:?} is missing: {text}");
        }
        assert_eq!(table(&List::default(), 0), "nobody is banned\n");
    }
}
