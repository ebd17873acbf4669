//! The command line of `stentor bench`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Parser, Subcommand};
use stentor_client::Url;

use crate::affinity::Placement;
use crate::call::CallArgs;
use crate::compare::CompareArgs;
use crate::floor::FloorKind;
use crate::report::html::ReportArgs;
use crate::scenario::Scenario;
use crate::scenario::connect::ConnectArgs;
use crate::scenario::durable::DurableArgs;
use crate::scenario::fanout::FanoutArgs;
use crate::scenario::fanout::mine::MineArgs;
use crate::scenario::idle::IdleArgs;
use crate::scenario::login::LoginArgs;
use crate::scenario::operate::OperateArgs;
use crate::scenario::pingpong::PingPongArgs;
use crate::scenario::private::PrivateArgs;
use crate::scenario::recover::RecoverArgs;
use crate::scenario::slow::SlowArgs;
use crate::scenario::subscribe::SubscribeArgs;
use crate::stamp::STAMP_LEN;
use crate::suite::SuiteArgs;
use crate::target::{Against, Subject, Transport, Writes, address};
use crate::wire::Version;

/// Measure this server, or any other MQTT server, against the bare cost of its system calls.
#[derive(Debug, Parser)]
#[command(name = "stentor-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the workloads and their presets
    #[command(visible_alias = "ls")]
    List,
    /// Run all workloads but mine, durable, slow, connect and operate one after the other, with one
    /// table at the end
    Suite(SuiteArgs),
    /// Say which figures became better or worse between two files of --json
    Compare(CompareArgs),
    /// Make a page of HTML from files of --json
    Report(ReportArgs),
    /// A few publishers and thousands of subscribers: ice-1 and ice-2
    Fanout(FanoutArgs),
    /// A load of your own, and whether the server carries it
    Mine(MineArgs),
    /// Many users send many subscriptions at once: ice-subscribe
    Subscribe(SubscribeArgs),
    /// Many users subscribe at once to topics that hold a message; also after a restart:
    /// ice-last-tick
    Recover(RecoverArgs),
    /// Sessions that outlive their connections: what they cost, and what a kill leaves of them
    Durable(DurableArgs),
    /// The age of messages that a slow client reads, with conflation
    Slow(SlowArgs),
    /// Memory of connections that do nothing
    Idle(IdleArgs),
    /// A storm of connections against the listen backlog
    Connect(ConnectArgs),
    /// A storm of logins with accounts that nobody has used before: ice-login
    Login(LoginArgs),
    /// Clients that write private messages to themselves: appwarp-light, -medium and -heavy
    Private(PrivateArgs),
    /// Round trips of two clients through the server
    Pingpong(PingPongArgs),
    /// What it costs to look after a server: metrics, event streams, lists, traces, HTTP
    Operate(OperateArgs),
    /// A small program asks about a file and exits with the verdict, again and again:
    /// scope-2002
    Call(CallArgs),
    /// Ends the servers of a benchmark that was killed (started by the other commands)
    #[command(hide = true)]
    Reaper,
    /// The server of the floor of `call` (started by it)
    #[command(hide = true)]
    Canned {
        /// The Unix socket; TCP without it
        path: Option<PathBuf>,
    },
    /// A group of subscribers of `fanout` (started by it)
    #[command(hide = true)]
    Group,
    /// The bare program that servers are compared with (started by the other commands)
    #[command(hide = true)]
    Floor {
        /// What it does
        kind: FloorKind,
        /// Bytes of the messages that it makes up
        #[arg(long, default_value_t = 100)]
        payload: usize,
        /// Where those write that write
        #[arg(long)]
        folder: Option<PathBuf>,
    },
}

impl Command {
    /// The files that its results go to; none if it only explains.
    pub(crate) fn outputs(&self) -> (Option<&Path>, Option<&Path>) {
        let (files, explain) = match (self, self.scenario()) {
            (Self::Call(args), _) => (&args.files, args.explain),
            (_, Some(scenario)) => (&scenario.common().files, scenario.common().explain),
            (_, None) => return (None, None),
        };
        if explain {
            return (None, None);
        }
        (files.json.as_deref(), files.html.as_deref())
    }

    /// The files that it reads, which no result may replace.
    pub(crate) fn inputs(&self) -> Vec<&Path> {
        match (self, self.scenario()) {
            (Self::Call(args), _) => args.inputs(),
            (_, Some(scenario)) => scenario.common().inputs(),
            (_, None) => Vec::new(),
        }
    }

    /// Whether it may start servers, which have to end with it.
    pub(crate) fn starts_servers(&self) -> bool {
        matches!(self, Self::Suite(_) | Self::Call(_)) || self.scenario().is_some()
    }

    /// The scenario that this command runs, if it does.
    pub(crate) fn scenario(&self) -> Option<&dyn Scenario> {
        match self {
            Self::List
            | Self::Suite(_)
            | Self::Compare(_)
            | Self::Report(_)
            | Self::Call(_)
            | Self::Reaper
            | Self::Canned { .. }
            | Self::Group
            | Self::Floor { .. } => None,
            Self::Fanout(args) => Some(args),
            Self::Mine(args) => Some(args),
            Self::Subscribe(args) => Some(args),
            Self::Recover(args) => Some(args),
            Self::Durable(args) => Some(args),
            Self::Slow(args) => Some(args),
            Self::Idle(args) => Some(args),
            Self::Connect(args) => Some(args),
            Self::Login(args) => Some(args),
            Self::Private(args) => Some(args),
            Self::Pingpong(args) => Some(args),
            Self::Operate(args) => Some(args),
        }
    }
}

/// Where results are written besides standard output.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Files {
    /// Write a line with a JSON object for each workload to this file; "-" is standard output, and
    /// tables go to standard error then
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report with tables and plots to this HTML file; "-" is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// The servers to measure, and how often.
#[derive(Debug, ClapArgs)]
pub(crate) struct Common {
    /// Measure a server that runs already, instead of starting one
    #[arg(long, value_name = "URL")]
    pub(crate) target: Option<Url>,
    /// Process id of the --target server, to measure its CPU time and memory, and to place it
    #[arg(long, requires = "target")]
    pub(crate) pid: Option<u32>,
    /// Measure this server too, in turn: mosquitto, rumqttd, mochi or nats, with -tuned or
    /// -defaults behind the name for one of its two setups, or stentor, or a URL. Can be repeated
    #[arg(long, value_name = "RIVAL", value_parser = Against::parse)]
    pub(crate) against: Vec<Against>,
    /// Measure only the floor and what --against names
    #[arg(long, conflicts_with = "target")]
    pub(crate) no_server: bool,
    /// Shards of the server that is started [default: its own; pingpong: 1, since messages between
    /// shards take another way]
    #[arg(long, conflicts_with = "target", value_parser = clap::value_parser!(u16).range(1..=64))]
    shards: Option<u16>,
    /// Program to start as the server [default: the stentor that runs this command, else the one
    /// beside stentor-bench or on the PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,
    /// Trusted authorities for --target servers with TLS, or the certificate of the server
    /// [default: those of the system]
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// Where server and generator run [default: apart; pingpong: together and apart in turn; free
    /// where a server's process is unknown]
    #[arg(long, value_enum)]
    placement: Option<Placement>,
    /// Repetitions, each of floor, server and rivals in turn [default: 1 to 9, by workload]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: Option<u32>,
    /// Do not measure the floor
    #[arg(long)]
    pub(crate) no_floor: bool,
    /// Transport of MQTT to the server that is started. Can be repeated: each workload runs once
    /// for each [default: mqtt]
    #[arg(long, value_enum, conflicts_with = "target")]
    transport: Vec<Transport>,
    /// MQTT version that the clients speak
    #[arg(long, value_enum, default_value = "3.1.1")]
    pub(crate) version: Version,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Print what would run, and send nothing
    #[arg(long)]
    pub(crate) explain: bool,
}

impl Common {
    /// The files that are read, programs included.
    pub(crate) fn inputs(&self) -> Vec<&Path> {
        let files = [&self.server, &self.cafile].into_iter().flatten();
        files.map(PathBuf::as_path).collect()
    }

    /// The options for a suite's commands, as words: with `target`, those about a server that runs
    /// already, with `rivals`, those about other servers too.
    pub(crate) fn words(&self, target: bool, rivals: bool) -> Vec<String> {
        let mut words = self.call_words();
        let mut push = |option: &str, value: String| {
            words.extend([option.to_owned(), value]);
        };
        if let Some(url) = self.target.as_ref().filter(|_| target) {
            push("--target", address(url));
        }
        if let Some(pid) = self.pid.filter(|_| target) {
            push("--pid", pid.to_string());
        }
        if let Some(file) = self.cafile.as_ref().filter(|_| target || rivals) {
            push("--cafile", file.display().to_string());
        }
        for rival in self.against.iter().filter(|_| rivals) {
            push("--against", rival.word().to_owned());
        }
        if let Some(shards) = self.shards {
            push("--shards", shards.to_string());
        }
        for transport in &self.transport {
            push("--transport", transport.as_str().into());
        }
        if let Some(pairs) = self.pairs {
            push("--pairs", pairs.to_string());
        }
        let version = self.version.as_str();
        if self.version != Version::V311 {
            push("--version", version.into());
        }
        let flags = [
            (self.no_server && rivals, "--no-server"),
            (self.no_floor, "--no-floor"),
        ];
        let set = flags.iter().filter(|(is_set, _)| *is_set);
        words.extend(set.map(|(_, flag)| (*flag).to_owned()));
        words
    }

    /// Those of them that `call` has too.
    pub(crate) fn call_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(server) = &self.server {
            words.extend(["--server".into(), server.display().to_string()]);
        }
        if let Some(placement) = self.placement {
            words.extend(["--placement".into(), placement.as_str().into()]);
        }
        words.extend(self.explain.then(|| "--explain".into()));
        words
    }

    /// What carries MQTT, in turn.
    pub(crate) fn transports(&self) -> Vec<Transport> {
        match self.transport.as_slice() {
            [] => vec![Transport::Mqtt],
            transports => transports.to_vec(),
        }
    }

    /// Whether the user says how many times to measure.
    pub(crate) const fn has_pairs(&self) -> bool {
        self.pairs.is_some()
    }

    /// How many times to measure something that is measured `usual` times.
    pub(crate) fn pairs(&self, usual: u32) -> u32 {
        self.pairs.unwrap_or(usual)
    }

    /// Shards of the server that is started, if the user or the scenario says how many.
    pub(crate) fn shards(&self, usual: Option<u16>) -> Option<u16> {
        self.shards.or(usual)
    }

    /// Where to measure, in turn.
    pub(crate) fn placements(&self, usual: &[Placement]) -> Vec<Placement> {
        let is_unknown = |subject: &Subject| matches!(subject, Subject::Url { pid: None, .. });
        match self.placement {
            Some(placement) => vec![placement],
            None if self.subjects(None).iter().any(is_unknown) => vec![Placement::Free],
            None => usual.into(),
        }
    }

    /// The measured server first; `shards` as [`Common::shards`] says.
    pub(crate) fn subjects(&self, shards: Option<u16>) -> Vec<Subject> {
        let first = match &self.target {
            Some(url) => Some(Subject::Url {
                url: url.clone(),
                pid: self.pid,
                trusted: self.cafile.clone(),
            }),
            None if self.no_server => None,
            None => Some(Subject::Own {
                binary: self.server.clone(),
                shards,
                writes: Writes::Sessions,
            }),
        };
        let rivals = self.against.iter().flat_map(|against| &against.subjects);
        let rivals = rivals.map(|rival| match rival {
            Subject::Own { writes, .. } => Subject::Own {
                binary: self.server.clone(),
                shards,
                writes: *writes,
            },
            Subject::Url { url, pid, .. } => Subject::Url {
                url: url.clone(),
                pid: *pid,
                trusted: self.cafile.clone(),
            },
            rival => rival.clone(),
        });
        first.into_iter().chain(rivals).collect()
    }
}

/// Warm-up and measurement may take so long, each: together no longer than the clients' keep alive.
const SECONDS_MAX: f64 = 1_800.0;

/// Reads a number of seconds, perhaps none.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    seconds_from(text, 0.0)
}

/// Reads how long something is measured: in less than a tenth of a second nothing can be.
pub(crate) fn measured_seconds(text: &str) -> Result<f64, String> {
    seconds_from(text, 0.1)
}

fn seconds_from(text: &str, least: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (least..=SECONDS_MAX).contains(&value) => Ok(value),
        Ok(value) if value > SECONDS_MAX => Err(format!(
            "at most {SECONDS_MAX} seconds: clients send no pings, which would disturb what is \
             measured, so a server would close them when their keep alive is over"
        )),
        _ => Err(format!("a number of seconds from {least} to {SECONDS_MAX}")),
    }
}

/// Reads a number of clients.
pub(crate) fn clients(text: &str) -> Result<usize, String> {
    within(text, 1, 1_000_000)
}

/// Reads a number of clients that one thread has.
pub(crate) fn users(text: &str) -> Result<usize, String> {
    within(text, 1, 19_000)
}

/// Reads a number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    within(text, 1, 1_024)
}

/// The bytes of a message: there has to be room for its stamp, and as servers come, many take
/// packets of 1 MiB at most.
const PAYLOAD_BYTES: RangeInclusive<usize> = STAMP_LEN..=1_000_000;

/// Reads the bytes of a message.
pub(crate) fn payload_bytes(text: &str) -> Result<usize, String> {
    let (least, most) = (*PAYLOAD_BYTES.start(), *PAYLOAD_BYTES.end());
    within(text, least, most).map_err(|_| {
        format!(
            "a number of bytes from {least} to {most}: each message carries its number and time"
        )
    })
}

fn within(text: &str, least: usize, most: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => Err(format!("a number from {least} to {most}")),
    }
}

/// What `bench list` shows.
pub(crate) const LIST: &str = "\
fanout      a few publishers, thousands of subscribers
              ice-1  5 publishers × 10 msg/s × 1,000 B, 3,000 subscribers: 30,000 deliveries/s
              ice-2  5 publishers × 35 msg/s ×   100 B, 3,000 subscribers: 105,000 deliveries/s
              --rate max  the most that is delivered without loss
              --ramp 10   10 messages a second more, again and again, to the breaking point
mine        your own load: does this machine carry it? A verdict in a sentence
              --topics 2000 --publishers 5 --subscribers 50 --rate 10000 --payload 100
subscribe   100 users fire 1,000 subscriptions each at once
              ice-subscribe  as published; --topics distinct|shared|both
recover     100 users subscribe to 1,000 topics each that hold a message; warm, then after
            kill -9 and restart
              ice-last-tick  as described; --stored 1000000 for more topics than subscriptions
durable     sessions that outlive their connections, against a bare program that copies each
            message into a file
              one-topic  10,000 sessions away on one topic, 100 messages
              own-topics  the same with a topic each, 20 messages
              connected  2,000 subscribers beside as many with clean sessions: CPU per delivery
              kills      kill -9 at 500 messages a second: acknowledged and lost
              backlog    one session away, 200,000 messages of 1 KB, then drained
              start      10,000 sessions that are owed 20 messages each, until all are served
              --sync always, --against stentor-forgetful (writes nothing down of sessions)
slow        the age of what a slow client reads while its topics change
idle        resident memory of 15,000 connections with one subscription each; --qos 1
connect     5,000 connections at once: does the listen backlog hold? --pace, --beside-fanout
login       3,000 logins at once with 3,000 accounts that nobody has used before
              ice-login  as published
              --proof token|scram-sha256|argon2id|…  --store sqlite|file|mariadb  --database URL
              --delay 5 for late answers of the database, --beside-fanout for one that goes on
private     clients write private messages to themselves: each in makes two out
              appwarp-light   every 10 s, 10,000 to 80,000 clients
              appwarp-medium  every 2 s, 5,000 to 30,000 clients
              appwarp-heavy   every second, 5,000 to 20,000 clients
              --own-topic  the same work by topics, for servers without private messages
              --adaptor    once more with an adaptor that is asked about each message
              --room       a room of 3,000, beside an ordinary topic
              --ramp 10000  10,000 more clients, again and again, to the breaking point
pingpong    round trips of two clients through the server
operate     what it costs to look after a server that has 80,000 idle clients, each figure
            beside the bar that it is to keep
              watched  a scrape and five event streams a second, beside a fan-out
              asked    lists of all kinds for eight callers in a loop, beside a ping-pong
              traced   a trace of one client, beside a fan-out
              pages    a page of 100 clients in any order
              scrape   a scrape of the metrics: CPU, bytes, series
              memory   an idle connection
              publish  messages by HTTP on kept connections
call        stentor-call asks /sizecheck about a file, beside static C programs that make one
            bare round trip and do nothing, and beside spamc
              scope-2002  100, 1,000 and 10,000 calls, one after the other
              --callers 64 for many at once, --target HOST for a server on another machine
suite       all of them but mine, durable, slow, connect and operate, with one table and what
            was found at the end; --quick for a short one
compare     what got better or worse between two files of --json
report      a page of HTML from files of --json

Each runs against its floor, a bare program that makes the same system calls; but not mine, slow,
operate, rooms, private with --ramp, and more than 19,900 clients of idle and private. Examples:
  stentor bench mine --topics 2000 --rate 10000 --subscribers 50
  stentor bench fanout ice-2
  stentor bench fanout ice-2 --rate max --against mosquitto --against rumqttd
  stentor bench recover ice-last-tick --against mosquitto
  stentor bench idle --target mqtt://localhost:1883 --pid 4711
  stentor bench subscribe --explain
  stentor bench suite --quick --json new.json --html report.html
  stentor bench compare old.json new.json

--transport mqtts (ws, wss, unix) has the servers started with such a listener; --against takes
mosquitto, rumqttd, mochi and nats, each tuned and as it comes (or one of them: mosquitto-tuned,
mosquitto-defaults), stentor (beside --target), or the URL of a running server.

Exit code: 0 sound, 1 loss, reordering or failure, 2 the generator was the limit, 3 could not run.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::KEEP_ALIVE_SECS;

    /// Warm-up and measurement together do not outlast the keep alive.
    #[test]
    fn seconds_have_bounds() {
        for (text, warm_up, measured) in [
            ("0", true, false),
            ("0.05", true, false),
            ("0.1", true, true),
            ("1800", true, true),
            ("1801", false, false),
            ("86400", false, false),
            ("-1", false, false),
            ("NaN", false, false),
            ("soon", false, false),
        ] {
            assert_eq!(seconds(text).is_ok(), warm_up, "{text}");
            assert_eq!(measured_seconds(text).is_ok(), measured, "{text}");
        }
        let why = seconds("86400").unwrap_err();
        assert!(why.contains("keep alive"), "{why}");
        assert!(2.0 * SECONDS_MAX <= f64::from(KEEP_ALIVE_SECS));
    }
}
