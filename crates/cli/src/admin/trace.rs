//! `stentor trace`: the packets of some clients, as they come and go.

use std::time::Duration;

use clap::{Args, Subcommand};
use stentor_auth::calendar::Utc;
use stentor_control::trace::{self, Line, List, Read, Running, Start, Way};
use stentor_server::config::parse_duration;

use super::now_secs;
use super::table::{Table, duration};
use crate::failure::Failure;
use crate::output::{json_lines, print_next, shown};
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor trace --client pump-17              all packets of pump-17
  stentor trace --topic 'plant/+/temp'        who publishes that, and who receives it?
  stentor trace --address 192.0.2.0/24 --for 1m
  stentor trace --user ann --payload 64       with the first 64 bytes of each payload
  stentor trace ls                            who traces what, by commands and by HTTP
  stentor trace stop 7                        end the trace 7 of that list

A trace runs for 5 minutes, or until Ctrl-C. It has up to 10,000 lines, and up to 1,000 in a second.
With --json each packet is an object on a line of its own.";

/// How long the server waits for the next packet.
const WAIT: Duration = Duration::from_secs(10);

/// Shows the packets of clients: by client id, user, address, topic filter and zone.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Trace {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    follow: Follow,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the traces that run, with who began them
    #[command(visible_alias = "list")]
    Ls {
        #[command(flatten)]
        which: Which,
    },
    /// End a trace
    Stop {
        /// The number of the trace, of `stentor trace ls`
        id: u64,
        #[command(flatten)]
        which: Which,
    },
}

/// A trace of the command itself, as long as it runs.
#[derive(Debug, Args)]
struct Follow {
    /// Only of this client id
    #[arg(long, visible_alias = "id", value_name = "CLIENT_ID")]
    client: Option<String>,
    /// Only of this user: NAME, or ZONE/NAME
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only from and to this address or network
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Only PUBLISH packets whose topic matches this filter
    #[arg(long, short, value_name = "FILTER")]
    topic: Option<String>,
    /// Only of this zone
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    /// End after this time, up to 15m
    #[arg(long = "for", value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    time: Duration,
    /// End after N packets
    #[arg(long, value_name = "N")]
    lines: Option<u64>,
    /// Show up to N bytes of each payload, 1,024 at most
    #[arg(long, value_name = "N", default_value_t = 0)]
    payload: usize,
    #[command(flatten)]
    which: Which,
}

impl Trace {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            None => self.follow.run(),
            Some(Command::Ls { which }) => {
                let table = |list: &List| table(list, now_secs());
                which.tell(&trace::Ls {})?.print(table)
            }
            Some(Command::Stop { id, which }) => which
                .tell(&trace::Stop { id })?
                .print(|_| format!("the trace {id} has ended\n")),
        }
    }
}

/// The traces that run.
fn table(list: &List, now_secs: u64) -> String {
    if list.traces.is_empty() {
        return "no trace runs\n".to_owned();
    }
    let mut table = Table::new(&["TRACE", "BY", "SINCE", "ENDS", "PACKETS", "ABOUT"]);
    for trace in &list.traces {
        let since = now_secs.saturating_sub(trace.begun_at_ms / 1_000);
        table.row([
            trace.id.to_string(),
            shown(&trace.by),
            format!("{} ago", duration(since)),
            format!("in {}", duration(trace.ends_in_secs)),
            trace.packets.to_string(),
            about(trace),
        ]);
    }
    table.render()
}

/// What a trace is about, in the words of the options that begin one.
fn about(trace: &Running) -> String {
    let options = [
        ("--client", &trace.client_id),
        ("--user", &trace.user),
        ("--address", &trace.address),
        ("--topic", &trace.topic),
        ("--zone", &trace.zone),
    ];
    let said = options.into_iter().filter_map(|(option, value)| {
        let value = value.as_deref()?;
        Some(format!("{option} {}", shown(value)))
    });
    said.collect::<Vec<_>>().join(" ")
}

impl Follow {
    fn run(self) -> Result<(), Failure> {
        let started = self.which.tell(&Start {
            client_id: self.client,
            user: self.user,
            address: self.address,
            topic: self.topic,
            zone: self.zone,
            for_secs: Some(self.time.as_secs().max(1)),
            lines: self.lines,
            payload_bytes: self.payload,
        })?;
        let mut request = Read {
            id: started.answer.id,
            after: 0,
            wait_ms: WAIT.as_millis() as u64,
        };
        loop {
            let told = self.which.tell(&request)?.answer;
            request.after = told.cursor;
            let text = match self.which.json {
                true => json_lines(&told.lines, "a packet")?,
                false => told.lines.iter().map(line).collect(),
            };
            if !text.is_empty() {
                print_next(text)?;
            }
            if told.suppressed > 0 {
                eprintln!(
                    "stentor: {} packets are missing here: there were too many in a second",
                    told.suppressed
                );
            }
            if told.ended {
                return Ok(());
            }
        }
    }
}

/// A packet in one line: when, whose, which way, what.
fn line(line: &Line) -> String {
    let utc = Utc::new(line.at_ms / 1_000);
    let millis = line.at_ms % 1_000;
    let way = match line.way {
        Way::Received => "<-",
        Way::Sent => "->",
    };
    // A message of somebody without a connection has no client.
    let client = match &*line.client_id {
        "" => "-".into(),
        client_id => shown(client_id),
    };
    let mut text = format!("{}.{millis:03}  {way} {client}", utc.clock());
    text += &format!("  {}", shown(&line.packet));
    if let Some(topic) = &line.topic {
        text += &format!("  {}", shown(topic));
    }
    if !line.text.is_empty() {
        text += &format!("  {}", shown(&line.text));
    }
    if let Some(payload) = &line.payload {
        text += &format!("  {payload:?}");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_a_row_that_says_who_began_it() {
        let trace = Running {
            id: 7,
            by: "olga by HTTP from 127.0.0.1".into(),
            begun_at_ms: 940_000,
            ends_in_secs: 61,
            packets: 12,
            client_id: Some("pump\n".into()),
            zone: Some("game".into()),
            ..Running::default()
        };
        let text = table(
            &List {
                traces: vec![trace],
            },
            1_000,
        );
        let row = text.lines().nth(1).unwrap_or_default();
        for part in ["7 ", "olga by HTTP from 127.0.0.1", "1m 0s ago", " 12 "] {
            assert!(row.contains(part), "{part}: {text}");
        }
        assert!(row.ends_with("--client pump\\n --zone game"), "{text}");
        assert_eq!(table(&List::default(), 0), "no trace runs\n");
    }

    #[test]
    fn a_packet_is_one_line() {
        let packet = Line {
            at_ms: 951_782_400_007,
            client_id: "pump\n".into(),
            way: Way::Sent,
            packet: "PUBLISH".into(),
            topic: Some("a/b".into()),
            text: "qos=0 payload=5 bytes".into(),
            payload: Some("21.5\u{1B}".into()),
            ..Line::default()
        };
        assert_eq!(
            line(&packet),
            "00:00:00.007  -> pump\\n  PUBLISH  a/b  qos=0 payload=5 bytes  \"21.5\\u{1b}\"\n"
        );
    }
}
