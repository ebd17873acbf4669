//! `clients`: the sessions of the running server, and what becomes of their messages.

use clap::{Args, Subcommand, ValueEnum};
use stentor_control::clients::{
    self, Client, Connection, Kicked, LostBy, Order, Presence, Subscription,
};
use stentor_control::{ZoneWord, heaviest as heavy};

use super::table::{Table, bytes, duration, maybe};
use super::{Page, Weight, heaviest};
use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

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
pub(super) fn kicked(client_id: &str, answer: &Kicked) -> String {
    let client_id = shown(client_id);
    match (answer.was_connected, answer.session_ended) {
        (true, true) => format!("{client_id} is disconnected, and its session has ended\n"),
        (true, false) => format!("{client_id} is disconnected\n"),
        (false, _) => format!("{client_id} was not connected; its session has ended\n"),
    }
}

/// One client: who it is, its connection, what waits for it, and its subscriptions.
pub(super) fn client_text(told: &clients::Shown, offset: usize) -> String {
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
pub(super) fn others(answer: &clients::List) -> String {
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
