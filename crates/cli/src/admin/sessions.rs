//! `stentor sessions`: sessions that outlive their connections.

mod files;
mod queue;

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde_json::json;
use stentor_auth::counted;
use stentor_control::ZoneWord;
use stentor_control::clients::{self, Client, Kick, List, Order, Show};
use stentor_server::config::parse_duration;

use super::Page;
use super::clients::{client_text, kicked, others};
use super::table::{Table, bytes, duration, maybe};
use crate::failure::Failure;
use crate::output::{print, shown};
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor sessions ls --by bytes --limit 20        the sessions that hold the most
  stentor sessions ls --away 30d --by away         forgotten ones, the oldest first
  stentor sessions queue pump-17                   the messages that wait for it
  stentor sessions end pump-17
  stentor sessions end --away 30d                  says how many that would be
  stentor sessions end --away 30d --yes

The server has to be stopped for these:
  stentor sessions verify                          which sessions may lack something
  stentor sessions export sessions.jsonl           sessions, and the messages that wait in them
  stentor sessions import sessions.jsonl           what is there already is left alone

A session that ends loses its subscriptions and what waits for its client. Its will is published.
`limits.session_expiry_max` is the longest time that a session may last without its client.";

/// Sessions that one request asks for.
const AT_ONCE: usize = 1_000;

/// Lists and ends sessions that outlive their connections; checks and copies their files.
#[derive(Debug, Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List them
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Show one with its subscriptions
    Show {
        /// Client id
        client_id: String,
        #[command(flatten)]
        zone: InZone,
        #[command(flatten)]
        which: Which,
    },
    /// Show what waits for one client: in flight, in memory, on the disk and held back
    Queue(queue::Show),
    /// End some, and disconnect their clients
    End(End),
    /// Read and check all files, and list the sessions that may lack something
    Verify(Which),
    /// Write sessions, with the messages that wait in them, as JSON lines
    Export(files::Export),
    /// Import sessions from JSON lines, into the data folder of a stopped server
    Import(files::Import),
}

#[derive(Debug, Args)]
struct InZone {
    /// Its zone [default: the default zone, or the only one that has such a client]
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
}

#[derive(Debug, Args)]
struct Ls {
    /// Only ids that contain this
    containing: Option<String>,
    /// Only those of this zone
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    /// Only those whose client has been away for as long, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    away: Option<Duration>,
    /// The order
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = By::Id)]
    by: By,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    which: Which,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// Client id
    Id,
    /// Bytes that it makes the server hold, the most first
    Bytes,
    /// Messages that wait or are in flight, the most first
    Messages,
    /// How long its client has been away, the longest first
    Away,
}

impl From<By> for Order {
    fn from(by: By) -> Self {
        match by {
            By::Id => Self::Id,
            By::Bytes => Self::Bytes,
            By::Messages => Self::Messages,
            By::Away => Self::Away,
        }
    }
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whom").required(true).args(["client_id", "away"]))]
struct End {
    /// Client id
    client_id: Option<String>,
    /// All whose client has been away for as long, such as 12h or 30d; with --yes
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    away: Option<Duration>,
    /// End them. Without it, the command says how many that would be
    #[arg(long, conflicts_with = "client_id")]
    yes: bool,
    #[command(flatten)]
    zone: InZone,
    #[command(flatten)]
    which: Which,
}

impl Sessions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Ls(ls) => {
                let told = ls.which.tell(&clients::Ls {
                    zone: ls.zone.map(ZoneWord::Name),
                    containing: ls.containing.unwrap_or_default(),
                    limit: Some(ls.page.limit),
                    offset: ls.page.offset,
                    lasting: true,
                    away_secs: ls.away.map(|away| away.as_secs()),
                    by: ls.by.into(),
                    fresh: true,
                    ..clients::Ls::default()
                })?;
                told.print(list_text)
            }
            Command::Show {
                client_id,
                zone,
                which,
            } => {
                let zone = zone.zone.map(ZoneWord::Name);
                let show = Show {
                    client_id,
                    zone,
                    offset: 0,
                };
                which.tell(&show)?.print(|told| client_text(told, 0))
            }
            Command::Queue(show) => show.run(),
            Command::End(end) => end.run(),
            Command::Verify(which) => files::verify(&which),
            Command::Export(export) => export.run(),
            Command::Import(import) => import.run(),
        }
    }
}

impl End {
    fn run(self) -> Result<(), Failure> {
        let zone = self.zone.zone.map(ZoneWord::Name);
        match (self.client_id, self.away) {
            (Some(client_id), _) => {
                let told = self.which.tell(&Kick {
                    client_id: client_id.clone(),
                    zone,
                    end_session: true,
                    away_secs: None,
                })?;
                told.print(|answer| kicked(&client_id, answer))
            }
            (None, away) => {
                let away = away.unwrap_or_default();
                end_all(&self.which, zone, away.as_secs(), self.yes)
            }
        }
    }
}

/// Ends all sessions whose clients have been away for as many seconds, or says how many there are.
fn end_all(
    which: &Which,
    zone: Option<ZoneWord>,
    away_secs: u64,
    yes: bool,
) -> Result<(), Failure> {
    let (mut ended, mut found) = (0, 0);
    let mut cursor = None;
    loop {
        let told = which.tell(&clients::Ls {
            zone: zone.clone(),
            limit: Some(AT_ONCE),
            lasting: true,
            away_secs: Some(away_secs),
            by: Order::Id,
            fresh: true,
            cursor,
            ..clients::Ls::default()
        })?;
        let list = told.answer;
        found += list.clients.len();
        if !yes && list.unsorted.is_none() {
            found = list.total;
            break;
        }
        for client in list.clients.into_iter().filter(|_| yes) {
            let answer = which.tell(&Kick {
                client_id: client.client_id,
                zone: Some(ZoneWord::Name(client.zone)),
                end_session: true,
                away_secs: Some(away_secs),
            });
            // Otherwise its client has come back, or somebody else has ended it.
            ended += usize::from(answer.is_ok());
        }
        cursor = list.cursor;
        if cursor.is_none() {
            break;
        }
    }
    match yes {
        true => say(which, "ended", ended, |sessions| {
            format!("{sessions} ended\n")
        }),
        false => say(which, "would_end", found, |sessions| {
            format!("{sessions} would end; add --yes to end them\n")
        }),
    }
}

/// Prints how many sessions there are.
fn say(
    which: &Which,
    name: &str,
    count: usize,
    text: impl FnOnce(String) -> String,
) -> Result<(), Failure> {
    print(match which.json {
        true => format!("{}\n", json!({ name: count })),
        false => text(counted(count as u64, "session")),
    })
}

fn list_text(answer: &List) -> String {
    let heads = [
        "SESSION",
        "ZONE",
        "USER",
        "AWAY",
        "ENDS IN",
        "SUBSCRIPTIONS",
        "MESSAGES",
        "BYTES",
    ];
    let mut table = Table::new(&heads);
    for client in &answer.clients {
        table.row([
            shown(&client.client_id),
            shown(&client.zone_name),
            maybe(client.user.as_deref()),
            client.away_secs.map_or_else(|| "no".into(), duration),
            ends(client),
            client.subscriptions.to_string(),
            (client.waiting + client.in_flight).to_string(),
            bytes(client.held_bytes),
        ]);
    }
    table.render() + &others(answer)
}

/// When a session ends, if its client does not come back.
fn ends(client: &Client) -> String {
    match (client.ends_in_secs, client.away_secs) {
        (Some(secs), _) => duration(secs),
        (None, Some(_)) => "never".into(),
        (None, None) => "-".into(),
    }
}
