//! `stentor top`: how the running server is doing, again and again.

mod ranking;
mod screen;
mod zones;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args, ValueEnum};
use stentor_auth::calendar::Utc;
use stentor_control::ZoneWord;
use stentor_control::clients::{self, Order};
use stentor_control::heaviest::{self as heavy, By as Weight};
use stentor_control::status::{Rates, Status, Told};
use stentor_control::zones::Zones;
use stentor_server::config::parse_duration;

use self::screen::screen;
use super::status::{FLOWS, holders, memory, millis, shards};
use super::table::{Table, bytes, duration};
use super::{heaviest, now_secs};
use crate::failure::Failure;
use crate::output::{print_next, shown};
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor top                                 a screen that is new every 2 seconds, until Ctrl-C
  stentor top --interval 10s --count 6        for one minute
  stentor top >load.txt                       a line for each interval, for a file or a pipe
  stentor top --zones                         what happens in each zone, the busiest first
  stentor top --topics                        the topics that most is published to, and by whom
  stentor top --clients --by bytes            the clients that publish most bytes
  stentor top --clients --by queue            the clients for which most messages wait
  stentor top --topics --zone game -n 1       one look at one zone
  stentor top --json                          the answer of `stentor status` for each, on a line

Each interval is one question to the server, which counts for so long and then answers.

What is published, by topic and by client, is an estimate: the server looks at one publish in 64.
Its counts are halved each minute, so a flood that has ended fades within some minutes. A row says
which client publishes most of a topic, and to which topic a client publishes most, where one has a
large share. `stentor topics --heaviest` and `stentor clients heaviest` show the same once.";

/// The server measures for this long at least and at most.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Lines below one head, where the output is a file or a pipe.
const LINES: u64 = 20;

/// Intervals over which peaks are shown.
const PEAK_OVER: usize = 1_000;

/// Shows rates, connections, memory, threads and what has ended, again and again.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["zones", "topics", "clients"]))]
#[command(group = ArgGroup::new("ranked").args(["topics", "clients"]).multiple(true))]
pub(crate) struct Top {
    /// Measure for this long each time, 100ms to 10s
    #[arg(long, short, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// End after N times
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// Show what happens in each zone: the 20 busiest, and all others as one
    #[arg(long)]
    zones: bool,
    /// Show the topics that most is published to, and who publishes most of it
    #[arg(long)]
    topics: bool,
    /// Show the clients that publish most, or those that --by ranks
    #[arg(long)]
    clients: bool,
    /// Rank topics and clients by this; topics by messages or bytes
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = By::Messages,
          requires = "ranked")]
    by: By,
    /// Only topics or clients of this zone
    #[arg(long, value_name = "NAME", requires = "ranked")]
    zone: Option<String>,
    /// Show up to N topics or clients, 1,000 at most
    #[arg(long, value_name = "N", default_value_t = 20, requires = "ranked")]
    limit: usize,
    #[command(flatten)]
    which: Which,
}

/// What topics and clients are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Messages published a second
    Messages,
    /// Bytes of payload published a second
    Bytes,
    /// Messages that wait for a client
    Queue,
    /// Messages that a client has lost
    Lost,
    /// Messages that the connection of a client was sent
    Sent,
    /// The same by bytes
    SentBytes,
}

impl By {
    /// By what those who publish are ranked, or else in which order sessions are listed.
    const fn ranking(self) -> Result<Weight, Order> {
        match self {
            Self::Messages => Ok(Weight::Messages),
            Self::Bytes => Ok(Weight::Bytes),
            Self::Queue => Err(Order::Waiting),
            Self::Lost => Err(Order::Lost),
            Self::Sent => Err(Order::Sent),
            Self::SentBytes => Err(Order::SentBytes),
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    match (SHORTEST..=LONGEST).contains(&time) {
        true => Ok(time),
        false => Err(format!("{text} is not between 100ms and 10s")),
    }
}

impl Top {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match (self.zones, self.topics, self.clients) {
            (true, ..) => self.run_zones(),
            (_, true, _) => self.run_topics(),
            (.., true) => self.run_clients(),
            _ => self.run_all(),
        }
    }

    /// Looks again and again, as often as asked for. The argument of `look` is whether the output
    /// is a terminal.
    fn repeat(&self, mut look: impl FnMut(bool) -> Result<String, Failure>) -> Result<(), Failure> {
        let is_screen = io::stdout().is_terminal() && !self.which.json;
        let mut shown = 0;
        while self.count.is_none_or(|count| shown < count) {
            if shown > 0 {
                std::thread::sleep(self.interval);
            }
            print_next(look(is_screen)?)?;
            shown += 1;
        }
        Ok(())
    }

    /// Looks at the zones, and again after each interval: the sums tell the rates.
    fn run_zones(&self) -> Result<(), Failure> {
        let mut before = zones::Before::default();
        self.repeat(|is_screen| {
            let told = self.which.tell(&Zones {
                fresh: true,
                zone: None,
            })?;
            let page = before.page(Instant::now(), &told.answer);
            Ok(told.text(|_| one_of_many(&page, is_screen)))
        })
    }

    fn run_topics(&self) -> Result<(), Failure> {
        let Ok(by) = self.by.ranking() else {
            let name = self.by.to_possible_value();
            let name = name.map_or_else(String::new, |name| name.get_name().to_owned());
            return Err(Failure::usage(format!(
                "--by {name} ranks clients; rank topics --by messages or --by bytes, or use \
                 --clients"
            )));
        };
        self.repeat(|is_screen| {
            let told = self.which.tell(&heavy::Topics {
                zone: self.zone(),
                by,
                limit: Some(self.limit),
            })?;
            Ok(told.text(|answer| one_of_many(&heaviest::topics(answer), is_screen)))
        })
    }

    fn run_clients(&self) -> Result<(), Failure> {
        let order = match self.by.ranking() {
            Ok(by) => return self.run_publishers(by),
            Err(order) => order,
        };
        let mut before = ranking::Before::default();
        self.repeat(|is_screen| {
            let told = self.which.tell(&clients::Ls {
                zone: self.zone(),
                limit: Some(self.limit),
                by: order,
                fresh: true,
                ..clients::Ls::default()
            })?;
            let page = before.page(Instant::now(), &told.answer);
            Ok(told.text(|_| one_of_many(&page, is_screen)))
        })
    }

    fn run_publishers(&self, by: Weight) -> Result<(), Failure> {
        self.repeat(|is_screen| {
            let told = self.which.tell(&heavy::Clients {
                zone: self.zone(),
                by,
                limit: Some(self.limit),
            })?;
            Ok(told.text(|answer| one_of_many(&heaviest::clients(answer), is_screen)))
        })
    }

    fn zone(&self) -> Option<ZoneWord> {
        self.zone.clone().map(ZoneWord::Name)
    }

    fn run_all(self) -> Result<(), Failure> {
        let request = Status {
            sample_ms: self.interval.as_millis() as u64,
            fresh: false,
        };
        let is_screen = io::stdout().is_terminal() && !self.which.json;
        let mut lately = Lately::default();
        let mut shown = 0;
        while self.count.is_none_or(|count| shown < count) {
            let told = self.which.tell(&request)?;
            lately.note(&told.answer);
            print_next(told.text(|status| match is_screen {
                true => screen(&page(status, &lately)),
                false => line(status, shown % LINES == 0),
            }))?;
            shown += 1;
        }
        Ok(())
    }
}

/// What was seen since the command began.
#[derive(Debug, Default)]
struct Lately {
    rates: VecDeque<Rates>,
    /// Connections that were refused or have ended, by reason: in all, and in the last interval.
    ends: BTreeMap<String, (u64, u64)>,
    has_begun: bool,
}

impl Lately {
    fn note(&mut self, status: &Told) {
        if self.rates.len() == PEAK_OVER {
            self.rates.pop_front();
        }
        self.rates.extend(status.rates);
        let refused = status.refused_by.iter().map(|it| ("refused: ", it));
        let ended = status.ended_by.iter().map(|it| ("ended: ", it));
        for (kind, (reason, count)) in refused.chain(ended) {
            let known = self.ends.entry(format!("{kind}{reason}")).or_default();
            let before = if self.has_begun { known.0 } else { *count };
            *known = (*count, count.saturating_sub(before));
        }
        self.has_begun = true;
    }

    /// The highest of a rate.
    fn peak(&self, of: fn(&Rates) -> f64) -> f64 {
        self.rates.iter().map(of).fold(0.0, f64::max)
    }
}

/// A page in place of the one before, or below it where the output is a file or a pipe.
fn one_of_many(page: &str, is_screen: bool) -> String {
    match is_screen {
        true => screen(page),
        false => format!("{page}\n"),
    }
}

/// What a terminal shows.
fn page(status: &Told, lately: &Lately) -> String {
    let figures = &status.figures;
    let first = format!(
        "stentor {}, process {}, up {}, at {} UTC\n\
         {} clients connected, {} sessions, {} subscriptions, {} retained messages\n\
         memory for clients {}\n",
        shown(&status.version),
        status.pid,
        duration(status.uptime_secs),
        Utc::new(now_secs()).clock(),
        figures.clients_connected,
        figures.sessions,
        figures.subscriptions,
        status.retained.messages,
        memory(&status.memory),
    );
    let mut parts = vec![first, flows(status, lately), shards(status)];
    parts.extend(ends(lately));
    parts.extend(holders(&status.memory));
    parts.join("\n")
}

/// The rates of now, their peaks, and the sums.
fn flows(status: &Told, lately: &Lately) -> String {
    let mut table = Table::new(&["FLOW", "PER SECOND", "PEAK", "SINCE START"]);
    let now = status.rates.unwrap_or_default();
    for flow in FLOWS {
        let shown = |rate: f64| match flow.is_bytes {
            true => bytes(rate as u64),
            false => format!("{rate:.0}"),
        };
        let (rate, peak) = (shown((flow.rate)(&now)), shown(lately.peak(flow.rate)));
        table.row([flow.name.into(), rate, peak, flow.total(&status.figures)]);
    }
    table.render()
}

/// Why connections were refused and have ended, the most frequent of the last interval first.
fn ends(lately: &Lately) -> Option<String> {
    const MOST: usize = 5;
    let all = lately.ends.iter().filter(|(_, (count, _))| *count > 0);
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, (count, new))| std::cmp::Reverse((*new, *count)));
    let mut table = Table::new(&["CONNECTIONS", "NEW", "SINCE START"]);
    for (reason, (count, new)) in all.into_iter().take(MOST) {
        table.row([shown(reason), new.to_string(), count.to_string()]);
    }
    (!table.is_empty()).then(|| table.render())
}

/// What a file or a pipe gets of an interval, below a head.
fn line(status: &Told, has_head: bool) -> String {
    let rates = status.rates.unwrap_or_default();
    let utc = Utc::new(now_secs());
    let longest = status.shards.iter();
    let longest = longest.map(|shard| shard.long_turns.longest_lately.micros);
    let cells: [(&str, String); 9] = [
        ("TIME", utc.clock().to_string()),
        ("CLIENTS", status.figures.clients_connected.to_string()),
        ("SESSIONS", status.figures.sessions.to_string()),
        ("IN/S", format!("{:.0}", rates.messages_in)),
        ("OUT/S", format!("{:.0}", rates.messages_out)),
        ("LOST/S", format!("{:.0}", rates.messages_dropped)),
        ("LOGINS/S", format!("{:.0}", rates.connects)),
        ("HELD", bytes(status.memory.held_bytes)),
        ("LONGEST TURN", millis(longest.max().unwrap_or(0))),
    ];
    let row = |of: fn(&(&str, String)) -> String| {
        let cells = cells.iter().map(|cell| {
            let width = cell.0.len().max(10);
            format!("{:>width$}", of(cell))
        });
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    let head = row(|(name, _)| (*name).to_owned());
    let values = row(|(_, value)| value.clone());
    match has_head {
        true => head + &values,
        false => values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(messages_in: f64, refused: u64) -> Told {
        Told {
            rates: Some(Rates {
                messages_in,
                ..Rates::default()
            }),
            refused_by: BTreeMap::from([("bad-login".to_owned(), refused)]),
            ..Told::default()
        }
    }

    #[test]
    fn peaks_and_new_ends_are_those_since_the_command_began() {
        let mut lately = Lately::default();
        for (rate, refused) in [(5.0, 7), (90.0, 7), (20.0, 10)] {
            lately.note(&told(rate, refused));
        }
        let page = page(&told(20.0, 10), &lately);
        let line = |name: &str| {
            let mut lines = page.lines().filter(|line| line.starts_with(name));
            let words = lines.next().unwrap_or_default().split_whitespace();
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(line("messages in"), ["messages", "in", "20", "90", "0"]);
        assert_eq!(line("refused:"), ["refused:", "bad-login", "3", "10"]);
    }

    #[test]
    fn an_interval_is_bounded() {
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["0s", "50ms", "11s", "x"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_has_a_column_for_each_head() {
        let text = line(&told(3.0, 0), true);
        let [head, values] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("{text}");
        };
        assert_eq!(head.len(), values.len(), "{text}");
        assert!(values.contains("         3"), "{text}");
    }
}
