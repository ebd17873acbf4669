//! Commands for the running server: `health`, `status`, `top`, `figures`, `clients`, `sessions`,
//! `events`, `trace`, `ban`, `subscriptions`, `topics`, `log`, `config effective`, `config diff`,
//! `reload` and `stop`.

pub(crate) mod ban;
pub(crate) mod certificates;
pub(crate) mod config;
pub(crate) mod console;
pub(crate) mod events;
pub(crate) mod figures;
pub(crate) mod health;
mod heaviest;
pub(crate) mod log;
pub(crate) mod sessions;
mod status;
pub(crate) mod subscriptions;
pub(crate) mod table;
pub(crate) mod top;
pub(crate) mod trace;

use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use stentor_control::clients::{
    self, Client, Connection, Kicked, LostBy, Order, Presence, Subscription,
};
use stentor_control::reload::{self, Done, Last, Reloaded};
use stentor_control::{ZoneWord, heaviest as heavy, topics};

use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;
pub(crate) use ban::Bans;
pub(crate) use certificates::Certificates;
pub(crate) use console::Console;
pub(crate) use events::Events;
pub(crate) use figures::Figures;
pub(crate) use health::Health;
pub(crate) use log::Log;
pub(crate) use sessions::Sessions;
pub(crate) use status::Status;
pub(crate) use subscriptions::Subscriptions;
use table::{Table, bytes, duration, maybe};
pub(crate) use top::Top;
pub(crate) use trace::Trace;

/// When the configuration was read last, who asked for it, and what came of it.
fn last_reload(reload: &Last, now_secs: u64) -> String {
    let result = match (reload.ok, &reload.done) {
        (true, Some(done)) => reloaded(done),
        (true, None) => reloaded(&Done::default()),
        (false, _) => {
            let reason = lines(reload.reason.as_deref().unwrap_or("-"));
            format!("failed, the old configuration stays:{reason}")
        }
    };
    format!("{}: {result}", when(reload, now_secs))
}

/// What is wrong with a configuration, to stand behind a colon: several things below each other.
fn lines(reason: &str) -> String {
    let lines: Vec<String> = reason.lines().map(shown).collect();
    match lines.len() {
        0 | 1 => format!(" {}", lines.concat()),
        _ => format!("\n  {}", lines.join("\n  ")),
    }
}

fn when(reload: &Last, now_secs: u64) -> String {
    let ago = duration(now_secs.saturating_sub(reload.at));
    format!("last reload, {ago} ago ({})", shown(&reload.cause))
}

/// What a reload did; if that was nothing, since when, and what came of the one before.
fn just_reloaded(answer: &Reloaded, now_secs: u64) -> String {
    let done = reloaded(&answer.done);
    let Some(before) = &answer.before else {
        return done;
    };
    let since = format!("{done} since the {}", when(before, now_secs));
    if !before.ok {
        return format!(
            "{done}: the server runs with what the file says. The mistakes of the {} are corrected",
            when(before, now_secs),
        );
    }
    match before.done.as_ref().and_then(phrases) {
        None => since,
        Some(found) => format!("{since}, which found {found}"),
    }
}

/// Seconds since 1970.
pub(crate) fn now_secs() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

fn reloaded(done: &Done) -> String {
    phrases(done).unwrap_or_else(|| "nothing has changed".to_owned())
}

/// What a reload did, unless that was nothing.
fn phrases(done: &Done) -> Option<String> {
    let phrases = [
        ("changed: ", &done.changed),
        ("new certificates or keys: ", &done.renewed),
        ("waiting for a restart: ", &done.waiting),
    ];
    let said = |(title, what): (&str, &Vec<String>)| {
        let what: Vec<String> = what.iter().map(|one| shown(one)).collect();
        (!what.is_empty()).then(|| format!("{title}{}", what.join(", ")))
    };
    let said: Vec<String> = phrases.into_iter().filter_map(said).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The clients of the running server.
#[derive(Debug, Args)]
pub(crate) struct Clients {
    #[command(subcommand)]
    command: ClientsCommand,
}

#[derive(Debug, Subcommand)]
enum ClientsCommand {
    /// List sessions, connected or away
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Show one client with its subscriptions
    Show(Show),
    /// Show the clients that publish most, by an estimate of the last minute or two
    Heaviest(Heaviest),
    /// Disconnect a client
    Kick(Kick),
}

#[derive(Debug, Args)]
struct Ls {
    /// Only ids that contain this
    containing: Option<String>,
    /// Only clients of this zone
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    /// The order
    #[arg(long, visible_alias = "sort", value_enum, value_name = "ORDER", default_value_t = By::Id)]
    by: By,
    /// The other way round
    #[arg(long)]
    reverse: bool,
    /// Only clients of this user, by the name in its zone
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only connections from this address or network, such as 192.0.2.0/24
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Only clients that are connected, or only those that are away
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<State>,
    #[command(flatten)]
    page: Page,
    /// Go on where a page has ended: the cursor that it told
    #[arg(long, value_name = "CURSOR", conflicts_with = "offset")]
    cursor: Option<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// Clients that are there
    Connected,
    /// Sessions that wait for their clients
    Away,
}

impl State {
    const fn presence(self) -> Presence {
        match self {
            Self::Connected => Presence::Connected,
            Self::Away => Presence::Away,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Client id
    Id,
    /// Zone, by name
    Zone,
    /// User, those without a name last
    User,
    /// Address, those without one last
    Address,
    /// Version of MQTT, the oldest first
    Version,
    /// How long it has been connected, the longest first
    Connected,
    /// How long nothing has come from it, the longest first
    Silent,
    /// What is in the way of its messages, the worst first
    State,
    /// Subscriptions, the most first
    Subscriptions,
    /// Messages that wait for it, the most first
    Waiting,
    /// How long it has been away, the longest first
    Away,
    /// Bytes that it makes the server hold, the most first
    Bytes,
    /// Messages that wait or are in flight, the most first
    Messages,
    /// Messages that its connection has sent to the server, the most first
    Received,
    /// The same by bytes
    ReceivedBytes,
    /// Messages that its connection was sent, the most first
    Sent,
    /// The same by bytes
    SentBytes,
    /// Messages that it has lost, the most first
    Lost,
}

impl By {
    const fn order(self) -> Order {
        match self {
            Self::Id => Order::Id,
            Self::Zone => Order::Zone,
            Self::User => Order::User,
            Self::Address => Order::Address,
            Self::Version => Order::Version,
            Self::Connected => Order::Connected,
            Self::Silent => Order::Silent,
            Self::State => Order::State,
            Self::Subscriptions => Order::Subscriptions,
            Self::Waiting => Order::Waiting,
            Self::Away => Order::Away,
            Self::Bytes => Order::Bytes,
            Self::Messages => Order::Messages,
            Self::Received => Order::Received,
            Self::ReceivedBytes => Order::ReceivedBytes,
            Self::Sent => Order::Sent,
            Self::SentBytes => Order::SentBytes,
            Self::Lost => Order::Lost,
        }
    }

    /// What decides about the place of a client, as a column with its head; nothing of what has a
    /// column anyway.
    fn column(self, client: &Client) -> Option<(&'static str, String)> {
        let of = |value: fn(&Connection) -> u64| client.connection.as_ref().map_or(0, value);
        Some(match self {
            Self::Id
            | Self::Zone
            | Self::User
            | Self::Address
            | Self::Version
            | Self::Connected
            | Self::State
            | Self::Subscriptions
            | Self::Waiting
            | Self::Away => return None,
            Self::Silent => {
                let silent = client.connection.as_ref();
                let silent = silent.map(|it| duration(it.silent_secs));
                ("SILENT", silent.unwrap_or_else(|| "-".into()))
            }
            Self::Bytes => ("HOLDS", bytes(client.held_bytes)),
            Self::Messages => {
                let messages = client.waiting + client.in_flight;
                ("MESSAGES", messages.to_string())
            }
            Self::Received => ("RECEIVED", of(|it| it.received).to_string()),
            Self::ReceivedBytes => ("RECEIVED", bytes(of(|it| it.received_bytes))),
            Self::Sent => ("SENT", of(|it| it.sent).to_string()),
            Self::SentBytes => ("SENT", bytes(of(|it| it.sent_bytes))),
            Self::Lost => ("LOST", client.lost.total.to_string()),
        })
    }
}

#[derive(Debug, Args)]
struct Page {
    /// Show up to N
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    /// Skip the first N
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
}

#[derive(Debug, Args)]
struct Heaviest {
    /// The order
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Weight::Messages)]
    by: Weight,
    /// Only clients of this zone
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    /// Show up to N, 1,000 at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    which: Which,
}

/// What topics and those who publish are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Weight {
    /// Messages a second, the most first
    #[default]
    Messages,
    /// Bytes of payload a second, the most first
    Bytes,
}

impl Weight {
    const fn by(self) -> heavy::By {
        match self {
            Self::Messages => heavy::By::Messages,
            Self::Bytes => heavy::By::Bytes,
        }
    }
}

#[derive(Debug, Args)]
struct One {
    /// Client id
    client_id: String,
    /// Its zone [default: the default zone, or the only one that has such a client]
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    one: One,
    /// Pass over this many subscriptions
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    offset: usize,
}

#[derive(Debug, Args)]
struct Kick {
    #[command(flatten)]
    one: One,
    /// End the session too
    #[arg(long)]
    end_session: bool,
}

impl Clients {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            ClientsCommand::Ls(ls) => {
                let told = ls.which.tell(&clients::Ls {
                    zone: ls.zone.map(ZoneWord::Name),
                    containing: ls.containing.unwrap_or_default(),
                    limit: Some(ls.page.limit),
                    offset: ls.page.offset,
                    by: ls.by.order(),
                    reverse: ls.reverse,
                    user: ls.user,
                    address: ls.address,
                    state: ls.state.map(State::presence),
                    fresh: true,
                    cursor: ls.cursor,
                    ..clients::Ls::default()
                })?;
                told.print(|answer| clients_text(answer, ls.by))
            }
            ClientsCommand::Show(Show { one, offset }) => {
                let told = one.which.tell(&clients::Show {
                    client_id: one.client_id,
                    zone: one.zone.map(ZoneWord::Name),
                    offset,
                })?;
                told.print(|told| client_text(told, offset))
            }
            ClientsCommand::Heaviest(heaviest) => {
                let told = heaviest.which.tell(&heavy::Clients {
                    zone: heaviest.zone.map(ZoneWord::Name),
                    by: heaviest.by.by(),
                    limit: Some(heaviest.limit),
                })?;
                told.print(heaviest::clients)
            }
            ClientsCommand::Kick(Kick { one, end_session }) => {
                let told = one.which.tell(&clients::Kick {
                    client_id: one.client_id.clone(),
                    zone: one.zone.map(ZoneWord::Name),
                    end_session,
                    away_secs: None,
                })?;
                told.print(|kick| kicked(&one.client_id, kick))
            }
        }
    }
}

/// The result for a client that was to be disconnected.
fn kicked(client_id: &str, answer: &Kicked) -> String {
    let client_id = shown(client_id);
    match (answer.was_connected, answer.session_ended) {
        (true, true) => format!("{client_id} is disconnected, and its session has ended\n"),
        (true, false) => format!("{client_id} is disconnected\n"),
        (false, _) => format!("{client_id} was not connected; its session has ended\n"),
    }
}

/// One client: who it is, its connection, what waits for it, and its subscriptions.
fn client_text(told: &clients::Shown, offset: usize) -> String {
    let client = &told.client;
    let mut table = Table::new(&["CLIENT", ""]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("client id", shown(&client.client_id));
    row("user", maybe(client.user.as_deref()));
    row("zone", shown(&client.zone_name));
    if let Some(connection) = &client.connection {
        let secs = duration(connection.connected_secs);
        row("connected", format!("for {secs}"));
        row("from", maybe(connection.peer.as_deref()));
        row("by listener", maybe(connection.listener.as_deref()));
        row("MQTT version", shown(&connection.version));
        let keep_alive = match connection.keep_alive_secs {
            0 => "none".to_owned(),
            secs => duration(secs.into()),
        };
        row("keep alive", keep_alive);
        let silent = duration(connection.silent_secs);
        row("last packet", format!("{silent} ago"));
        let gone = |messages: u64, size: u64| format!("{messages} messages, {}", bytes(size));
        row(
            "received",
            gone(connection.received, connection.received_bytes),
        );
        row("sent", gone(connection.sent, connection.sent_bytes));
        let waiting = bytes(connection.queued_bytes as u64);
        let socket = if connection.blocked {
            ", which is full: it reads too slowly"
        } else {
            ""
        };
        row("for its socket", format!("{waiting}{socket}"));
    } else {
        let secs = client.away_secs.map(duration);
        row("away", format!("for {}", secs.unwrap_or_default()));
    }
    let expiry = match client.session_expiry_secs {
        None => "never".to_owned(),
        Some(0) => "with the connection".to_owned(),
        Some(secs) => format!("{} after the connection", duration(secs.into())),
    };
    let expiry = match client.ends_in_secs {
        Some(secs) => format!("in {}", duration(secs)),
        None => expiry,
    };
    row("session ends", expiry);
    row("holds", bytes(client.held_bytes));
    row("in flight", client.in_flight.to_string());
    row("waiting", client.waiting.to_string());
    for (name, told) in happened(client) {
        row(name, told);
    }
    for by in &told.lost_causes {
        row(&format!("lost by {}", shown(&by.cause)), losses(by));
    }
    let mut text = table.render();
    if !told.granted.is_empty() {
        text += &format!("\n{}", subscriptions_text(&told.granted));
    }
    if told.left_out > 0 {
        let (more, next) = (told.left_out, offset + told.granted.len());
        text += &format!(
            "{more} more subscriptions; `stentor clients show {} --offset {next}` shows them\n",
            shown(&client.client_id)
        );
    }
    text
}

/// What a client has lost by one cause.
fn losses(by: &LostBy) -> String {
    match by.while_memory_short {
        0 => by.messages.to_string(),
        short => format!("{}, {short} of them while memory was short", by.messages),
    }
}

fn subscriptions_text(granted: &[Subscription]) -> String {
    let mut filters = Table::new(&["SUBSCRIBED TO", "QOS", ""]);
    for one in granted {
        let no_local = one.no_local.then(|| "no-local".to_owned());
        let max_rate = one.max_rate.map(|rate| format!("max-rate {rate}"));
        let options: Vec<String> = no_local.into_iter().chain(max_rate).collect();
        filters.row([shown(&one.filter), one.qos.to_string(), options.join(", ")]);
    }
    filters.render()
}

/// What has happened to a client that happens to few.
fn happened(client: &Client) -> Vec<(&'static str, String)> {
    let by = |cause: &Option<String>| format!(", the last by {}", maybe(cause.as_deref()));
    let rights = || ", for want of rights".to_owned();
    let rows = [
        ("withheld", client.withheld, rights()),
        ("lost", client.lost, by(&client.lost_by)),
        (
            "conflated",
            client.conflated,
            ", by a [[policy]] or a max-rate of its own".into(),
        ),
        ("publishes refused", client.publishes_refused, rights()),
        (
            "topics refused",
            client.topics_refused,
            ", above limits.topic_bytes or limits.topic_levels".into(),
        ),
        ("pauses", client.pauses, by(&client.paused_by)),
    ];
    let some = rows.into_iter().filter(|(_, count, _)| count.total > 0);
    some.map(|(name, count, more)| {
        let (total, lately) = (count.total, count.last_minute);
        (name, format!("{total}, {lately} in the last minute{more}"))
    })
    .collect()
}

/// For how long a client has been away.
fn away(client: &Client) -> String {
    let secs = client.away_secs.map(duration);
    format!("away {}", secs.unwrap_or_default())
}

fn clients_text(answer: &clients::List, by: By) -> String {
    let heads = [
        "CLIENT",
        "ZONE",
        "USER",
        "PEER",
        "VERSION",
        "CONNECTED",
        "SUBSCRIPTIONS",
        "WAITING",
        "STATE",
    ];
    let first = by.column(&Client::default()).map(|(head, _)| head);
    let heads: Vec<&str> = first.into_iter().chain(heads).collect();
    let mut table = Table::new(&heads);
    for client in &answer.clients {
        let connection = client.connection.as_ref();
        let connected = match connection {
            Some(connection) => duration(connection.connected_secs),
            None => away(client),
        };
        let ranked = by.column(client).map(|(_, value)| value);
        let cells = [
            shown(&client.client_id),
            shown(&client.zone_name),
            maybe(client.user.as_deref()),
            maybe(connection.and_then(|it| it.peer.as_deref())),
            maybe(connection.map(|it| &*it.version)),
            connected,
            client.subscriptions.to_string(),
            client.waiting.to_string(),
            state(client),
        ];
        table.cells(ranked.into_iter().chain(cells).collect());
    }
    table.render() + &others(answer)
}

/// How many are not shown.
fn others(answer: &clients::List) -> String {
    match (&answer.unsorted, &answer.cursor) {
        (Some(why), None) => format!("… {why}\n"),
        (Some(why), Some(cursor)) => format!("… {why}; --cursor {cursor} shows others\n"),
        _ if answer.truncated => {
            format!("… of {}; --limit and --offset show others\n", answer.total)
        }
        _ => String::new(),
    }
}

/// What is in the way of a client's messages now or was in the last minute.
fn state(client: &Client) -> String {
    let connection = client.connection.as_ref();
    let paused = connection.and_then(|it| it.paused.as_ref());
    let paused = paused.map(|paused| format!("paused by {}", shown(&paused.by)));
    let is_full = connection.is_some_and(|it| it.blocked);
    let full = is_full.then(|| "reads too slowly".to_owned());
    let lately = [("withheld", client.withheld), ("lost", client.lost)].map(|(what, count)| {
        let count = count.last_minute;
        (count > 0).then(|| format!("{what} {count}"))
    });
    let all: Vec<String> = [paused, full].into_iter().chain(lately).flatten().collect();
    all.join(", ")
}

/// Lists topic filters with their subscribers, and retained topics.
#[derive(Debug, Args)]
pub(crate) struct Topics {
    /// Only those that contain this text; the words `ls` and `list` before it have no effect
    #[arg(num_args = 0..=2, value_name = "CONTAINING")]
    containing: Vec<String>,
    /// Show the names of retained topics at the level below PREFIX, or at the first level
    #[arg(long, value_name = "PREFIX", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["containing", "offset"])]
    children: Option<String>,
    /// Show the topics that most is published to, by an estimate of the last minute or two
    #[arg(long, conflicts_with_all = ["containing", "offset", "children"])]
    heaviest: bool,
    /// With --heaviest: the order
    #[arg(long, value_enum, value_name = "ORDER", requires = "heaviest")]
    by: Option<Weight>,
    /// Of this zone [default: filters of all zones, retained topics of the default one]
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    which: Which,
}

/// Names of one level that an answer has at most.
const NAMES_MAX: usize = 10_000;

impl Topics {
    /// What topics are to contain: everything does that is not given.
    fn containing(&self) -> Result<&str, Failure> {
        match self
            .containing
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()[..]
        {
            [] | ["ls" | "list"] => Ok(""),
            ["ls" | "list", text] | [text] => Ok(text),
            _ => Err(Failure::usage("one text is enough")),
        }
    }

    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(below) = self.children {
            // The server looks at no more of one level, and says so in its answer.
            let limit = self.page.limit.min(NAMES_MAX);
            let told = self.which.tell(&topics::Children {
                zone: self.zone.map(ZoneWord::Name),
                below: Some(below).filter(|below| !below.is_empty()),
                after: None,
                limit: Some(limit),
            })?;
            return told.print(names_text);
        }
        if self.heaviest {
            let told = self.which.tell(&heavy::Topics {
                zone: self.zone.map(ZoneWord::Name),
                by: self.by.unwrap_or_default().by(),
                limit: Some(self.page.limit),
            })?;
            return told.print(heaviest::topics);
        }
        let containing = self.containing()?.to_owned();
        let told = self.which.tell(&topics::Topics {
            zone: self.zone.map(ZoneWord::Name),
            containing,
            limit: Some(self.page.limit),
            offset: self.page.offset,
            fresh: true,
        })?;
        told.print(topics_text)
    }
}

fn topics_text(answer: &topics::Told) -> String {
    let mut filters = Table::new(&["FILTER", "SUBSCRIBERS"]);
    for entry in &answer.filters {
        filters.row([shown(&entry.filter), entry.subscribers.to_string()]);
    }
    let mut retained = Table::new(&["RETAINED TOPIC", "BYTES"]);
    for entry in &answer.retained {
        retained.row([shown(&entry.topic), entry.bytes.to_string()]);
    }
    let mut text = format!("{}\n{}", filters.render(), retained.render());
    if answer.truncated {
        text += "… and more; --limit and --offset show others\n";
    }
    text
}

/// The names of a level; those that have topics below them end with a slash.
fn names_text(answer: &topics::Names) -> String {
    let mut text = String::new();
    for one in &answer.names {
        let name = shown(&one.name);
        text += &match (one.topic, one.below) {
            (true, true) => format!("{name}\n{name}/\n"),
            (false, true) => format!("{name}/\n"),
            _ => format!("{name}\n"),
        };
    }
    if answer.more || answer.truncated {
        text += "… and more; name a longer prefix, or --limit\n";
    }
    text
}

/// Makes the running server read its configuration again.
#[derive(Debug, Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    which: Which,
}

impl Reload {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let told = self.which.tell(&reload::Reload {})?;
        told.print(|answer| format!("reloaded; {}\n", just_reloaded(answer, now_secs())))
    }
}

/// Stops the running server, as SIGTERM does.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    which: Which,
}

impl Stop {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let told = self.which.tell(&stentor_control::Stop {})?;
        told.print(|_| "the server stops\n".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn last(value: serde_json::Value) -> Last {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_last_reload_is_told_in_phrases() {
        let check = |reload, text: &str| assert_eq!(last_reload(&last(reload), 1_065), text);
        let done = json!({
            "at": 1_000, "cause": "SIGHUP", "ok": true,
            "changed": ["log.level", "sys.interval"], "renewed": [], "waiting": ["shards"],
        });
        let text = "last reload, 1m 5s ago (SIGHUP): changed: log.level, sys.interval; waiting \
                    for a restart: shards";
        check(done, text);
        let failed = json!({ "at": 1_060, "cause": "file", "ok": false, "reason": "no such key" });
        let text = "last reload, 5s ago (file): failed, the old configuration stays: no such key";
        check(failed, text);
        let renewed = Done {
            renewed: vec!["mqtts://0.0.0.0:8883".into()],
            ..Done::default()
        };
        assert_eq!(
            reloaded(&renewed),
            "new certificates or keys: mqtts://0.0.0.0:8883"
        );
    }

    #[test]
    fn a_reload_that_does_nothing_tells_of_the_one_before() {
        let told = |before: Option<serde_json::Value>| {
            let answer = Reloaded {
                before: before.map(last),
                ..Reloaded::default()
            };
            just_reloaded(&answer, 1_065)
        };
        assert_eq!(told(None), "nothing has changed");
        let failed =
            json!({ "at": 1_062, "cause": "SIGHUP", "ok": false, "reason": "no such key" });
        assert_eq!(
            told(Some(failed)),
            "nothing has changed: the server runs with what the file says. The mistakes of the last \
             reload, 3s ago (SIGHUP) are corrected"
        );
        for (result, more) in [
            (json!({ "ok": true, "changed": [] }), ""),
            (
                json!({ "ok": true, "changed": ["adaptor"] }),
                ", which found changed: adaptor",
            ),
        ] {
            let mut before = result;
            (before["at"], before["cause"]) = (json!(1_062), json!("SIGHUP"));
            let text = format!("nothing has changed since the last reload, 3s ago (SIGHUP){more}");
            assert_eq!(told(Some(before)), text);
        }
    }
}
