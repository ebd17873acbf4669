//! `stentor sub`.

use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::Value;
use stentor_client::{
    Client, ClientError, Message, Publication, QoS, ReasonCode, RetainHandling, SubscribeOptions,
};

use crate::connect::{Attempt, Connect, Plan, hint_at_shell, qos};
use crate::failure::{self, Failure};
use crate::format::Format;
use crate::output::{print_next, shown};
use crate::stop::Stop;
use crate::time::Time;

/// How messages are printed.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Print the topic before the payload
    #[arg(short, long)]
    verbose: bool,
    /// Format: %t topic, %p payload, %q QoS, %r retained, %l length, %m packet id. Also %x %X
    /// payload in hex, %j %J JSON, %I %U time (UTC), %C %D %E %F %P %R %S %A properties, %% a %.
    /// Flags and widths: %-20.20t; strftime: @H:@M:@S; escapes: \n \t \0
    #[arg(short = 'F', long, value_name = "FORMAT")]
    format: Option<String>,
    /// Print one JSON object per message
    #[arg(long, conflicts_with_all = ["format", "verbose"])]
    json: bool,
    /// Print JSON over several lines
    #[arg(long)]
    pretty: bool,
    /// Do not print a line feed after a message
    #[arg(short = 'N')]
    no_newline: bool,
    #[arg(skip)]
    style: Style,
}

/// What the other flags do not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// They say it all.
    #[default]
    Flags,
    /// One JSON object per message.
    Json,
    /// The topic before the payload.
    Topics,
    /// `ann: hello`: the last level of the topic is the name of who said it.
    Senders,
}

/// Prints messages to standard output.
pub(crate) struct Printer {
    style: Style,
    format: Format,
    end: &'static [u8],
}

impl Output {
    pub(crate) fn printer(&self) -> Result<Printer, Failure> {
        let format = match &self.format {
            Some(format) => format,
            None if self.style == Style::Senders => "%p",
            None if self.json || self.style == Style::Json => "%j",
            None if self.verbose || self.style == Style::Topics => "%t %p",
            None => "%p",
        };
        let format = Format::parse(format, self.pretty)
            .map_err(|error| Failure::usage(format!("-F {format:?}: {error}")))?;
        Ok(Printer {
            style: self.style,
            format,
            end: if self.no_newline { b"" } else { b"\n" },
        })
    }
}

impl Printer {
    /// Prints a message, at once: somebody may be waiting for it.
    pub(crate) fn print(&self, message: &Message) -> Result<(), Failure> {
        let mut text = Vec::new();
        if self.style == Style::Senders {
            let sender = message.topic.rsplit('/').next().unwrap_or_default();
            let name = stentor_zone::decode_name(sender).unwrap_or_else(|| sender.into());
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(b": ");
        }
        self.format.write(message, Time::now(), &mut text);
        if matches!(self.style, Style::Senders | Style::Topics) {
            // Nobody's words look like another's, or like the terminal's own.
            text = shown(&String::from_utf8_lossy(&text)).into_bytes();
        }
        text.extend_from_slice(self.end);
        print_next(&text)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Retained {
    /// At every subscribe
    Always,
    /// Only if the subscription is new
    New,
    /// Not at all
    Never,
}

/// Subscribes to topics and prints what arrives.
#[derive(Debug, Args)]
pub(crate) struct Sub {
    /// Topic filter with the wildcards + and #; can be repeated, or be the path of -L
    #[arg(short, long)]
    topic: Vec<String>,
    /// Unsubscribe from this filter
    #[arg(short = 'U', long, value_name = "FILTER")]
    unsubscribe: Vec<String>,
    /// Do not print what matches this filter
    #[arg(short = 'T', long, value_name = "FILTER")]
    filter_out: Vec<String>,
    /// The highest QoS to receive
    #[arg(short, long, default_value = "0", value_parser = qos)]
    qos: QoS,
    /// End after this many messages
    #[arg(short = 'C', value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this many seconds, with exit code 27
    #[arg(short = 'W', value_name = "SECONDS")]
    timeout: Option<u64>,
    /// End when the subscriptions are acknowledged
    #[arg(short = 'E')]
    exit_after_subscribe: bool,
    /// Do not print retained messages
    #[arg(short = 'R', conflicts_with = "retained_only")]
    no_retained: bool,
    /// Print retained messages only, and end at the first other one
    #[arg(long)]
    retained_only: bool,
    /// Remove the retained messages that arrive
    #[arg(long)]
    remove_retained: bool,
    /// Keep the RETAIN flag as it was published (MQTT 5)
    #[arg(long)]
    retain_as_published: bool,
    /// Do not deliver what this client published itself (MQTT 5)
    #[arg(long)]
    no_local: bool,
    /// When to send retained messages (MQTT 5)
    #[arg(long, value_enum, value_name = "WHEN", default_value = "always")]
    retain_handling: Retained,
    /// Print a random share of the messages, in percent
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    random_filter: Option<f64>,
    /// End when the connection is lost; otherwise connect and subscribe again
    #[arg(long)]
    no_reconnect: bool,
    /// Whether it is to be in a room: then it ends when it is sent out
    #[arg(skip)]
    in_room: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// What commands take that print all of one subscription.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// End after this many messages
    #[arg(short = 'C', value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this many seconds, with exit code 27
    #[arg(short = 'W', value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Print one JSON object per message
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

impl Watch {
    /// Prints what matches the filter, at QoS 1; in this style unless it is to be JSON.
    pub(crate) fn run(self, filter: String, style: Style) -> Result<(), Failure> {
        self.sub(filter, style).run()
    }

    /// Prints what happens in a room; ends when this session is not in it any more.
    pub(crate) fn run_in_room(self, filter: String, style: Style) -> Result<(), Failure> {
        let in_room = true;
        Sub {
            in_room,
            ..self.sub(filter, style)
        }
        .run()
    }

    fn sub(self, filter: String, style: Style) -> Sub {
        let style = if self.json { Style::Json } else { style };
        Sub::only(filter, style, self.count, self.timeout, self.connect)
    }
}

/// Where the server says why a session is not in a room.
const ABOUT_JOIN: &str = "$reply/join";

/// How long the reason of a refusal is waited for, which comes right behind it.
const REASON_TIME: Duration = Duration::from_secs(5);

/// Why a session is not in a room, as the server says it on [`ABOUT_JOIN`].
fn out_of_room(payload: &[u8]) -> Failure {
    let told: Value = serde_json::from_slice(payload).unwrap_or_default();
    let code = told["code"]
        .as_u64()
        .and_then(|code| u8::try_from(code).ok());
    let word = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    let text = format!("room {}: {}", word("room"), word("text"));
    Failure::with_code(code.unwrap_or(ReasonCode::UnspecifiedError as u8), text)
}

/// The first pause before another attempt to connect; each next one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Why the printing of messages ends.
enum Ended {
    /// The user, or the command line, wanted no more.
    Content,
    /// The time is over or the reader of the output has left; the server is still there.
    Failed(Failure),
    /// The connection is lost.
    Lost(ClientError),
}

impl Sub {
    /// A subscription to one filter, at QoS 1.
    fn only(
        filter: String,
        style: Style,
        count: Option<u64>,
        timeout: Option<u64>,
        connect: Connect,
    ) -> Self {
        Self {
            topic: vec![filter],
            unsubscribe: Vec::new(),
            filter_out: Vec::new(),
            qos: QoS::AtLeastOnce,
            count,
            timeout,
            exit_after_subscribe: false,
            no_retained: false,
            retained_only: false,
            remove_retained: false,
            retain_as_published: false,
            no_local: false,
            retain_handling: Retained::Always,
            random_filter: None,
            no_reconnect: false,
            in_room: false,
            output: Output {
                style,
                ..Output::default()
            },
            connect,
        }
    }

    pub(crate) fn run(self) -> Result<(), Failure> {
        let quiet = self.connect.quiet;
        self.subscribe().map_err(|failure| failure.silenced(quiet))
    }

    fn subscribe(mut self) -> Result<(), Failure> {
        let deadline = self
            .timeout
            .map(|secs| Instant::now() + Duration::from_secs(secs));
        let mut plan = self.connect.plan()?;
        self.topic.extend(plan.url_topic.take());
        if self.topic.is_empty() && self.unsubscribe.is_empty() {
            return Err(Failure::usage("there is no topic: -t FILTER"));
        }
        for filter in self
            .topic
            .iter()
            .chain(&self.unsubscribe)
            .chain(&self.filter_out)
        {
            stentor_topic::validate_filter(filter).map_err(|error| {
                Failure::usage(format!("{filter:?} is not a topic filter: {error}"))
            })?;
        }
        self.topic.iter().for_each(|topic| hint_at_shell(topic));
        let printer = self.output.printer()?;
        let stop = Stop::listen()?;
        let mut client = plan.open()?;
        stop.guard(&client)?;
        let result = match self.ask(&plan, &mut client) {
            Err(_) if stop.is_asked() => Ok(()),
            Err(attempt) => return Err(attempt.into_failure(&plan)),
            Ok(()) if self.exit_after_subscribe => Ok(()),
            Ok(()) => self.watch(&plan, &mut client, &printer, &stop, deadline),
        };
        plan.goodbye(client, result)
    }

    /// Prints what arrives, over as many connections as it takes.
    fn watch(
        &self,
        plan: &Plan,
        client: &mut Client,
        printer: &Printer,
        stop: &Stop,
        deadline: Option<Instant>,
    ) -> Result<(), Failure> {
        let mut left = self.count.unwrap_or(u64::MAX);
        loop {
            match self.receive_all(client, printer, deadline, &mut left) {
                Ended::Content => return Ok(()),
                Ended::Failed(failure) => return Err(failure),
                Ended::Lost(_) if stop.is_asked() => return Ok(()),
                Ended::Lost(error) if self.no_reconnect || !is_passing(&error) => {
                    return Err(Failure::client(&error, plan.version()));
                }
                Ended::Lost(error) => {
                    self.say(&error.to_string());
                    let next = self.connect_again(plan, stop, deadline)?;
                    let before = std::mem::replace(client, next);
                    client.inherit(before);
                }
            }
        }
    }

    /// Connects and subscribes again, with longer and longer pauses between attempts.
    fn connect_again(
        &self,
        plan: &Plan,
        stop: &Stop,
        deadline: Option<Instant>,
    ) -> Result<Client, Failure> {
        let mut pause = PAUSE;
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left <= pause) {
                thread::sleep(left.unwrap_or_default());
                return Err(Failure::timeout());
            }
            self.say(&format!("connecting again in {} s", pause.as_secs()));
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            let attempt = plan.try_open().and_then(|mut client| {
                stop.guard(&client).map_err(Attempt::Hopeless)?;
                match self.ask(plan, &mut client) {
                    // What it waits for next will tell that the user wants an end.
                    Err(_) if stop.is_asked() => Ok(client),
                    result => result.map(|()| client),
                }
            });
            match attempt {
                Ok(client) => return Ok(client),
                Err(Attempt::Failed(error)) if is_passing(&error) => {
                    self.say(&error.to_string());
                }
                Err(Attempt::Away(failure)) => self.say(failure.message()),
                Err(attempt) => return Err(attempt.into_failure(plan)),
            }
        }
    }

    fn say(&self, text: &str) {
        if !self.connect.quiet {
            eprintln!("stentor: {text}");
        }
    }

    /// Sends the subscriptions. Fails if none is granted, warns if some are not.
    fn ask(&self, plan: &Plan, client: &mut Client) -> Result<(), Attempt> {
        if !self.unsubscribe.is_empty() {
            let filters: Vec<&str> = self.unsubscribe.iter().map(String::as_str).collect();
            let properties = &plan.properties.unsubscribe;
            client
                .unsubscribe_with(&filters, properties)
                .map_err(Attempt::Failed)?;
        }
        if self.topic.is_empty() {
            return Ok(());
        }
        let options = SubscribeOptions {
            qos: self.qos,
            no_local: self.no_local,
            retain_as_published: self.retain_as_published,
            retain_handling: match self.retain_handling {
                Retained::Always => RetainHandling::Send,
                Retained::New => RetainHandling::SendIfNew,
                Retained::Never => RetainHandling::DoNotSend,
            },
        };
        let filters: Vec<_> = self
            .topic
            .iter()
            .map(|filter| (filter.as_str(), options))
            .collect();
        let properties = &plan.properties.subscribe;
        if self.in_room {
            // A client without the right to subscribe to these answers does not learn why it may
            // not join.
            client
                .subscribe(&[(ABOUT_JOIN, options)])
                .map_err(Attempt::Failed)?;
        }
        let answers = client
            .subscribe_with(&filters, properties)
            .map_err(Attempt::Failed)?;
        let text = client.answer_text().map(|text| format!(" ({text})"));
        let text = text.unwrap_or_default();
        for (filter, reason) in self.topic.iter().zip(&answers) {
            plan.note(&format!("subscribed {filter:?}: {}", reason.name()));
            if reason.is_error() && !self.connect.quiet {
                eprintln!(
                    "stentor: the subscription to {filter:?} was refused: {}{text}",
                    reason.name()
                );
            }
        }
        let is_refused = answers.iter().any(|reason| reason.is_error());
        if self.in_room && is_refused && !plan.version().is_v5() {
            let told = client.receive(Some(REASON_TIME)).map_err(Attempt::Failed)?;
            if let Some(told) = told.filter(|told| told.topic == ABOUT_JOIN) {
                return Err(Attempt::Hopeless(out_of_room(&told.payload)));
            }
        }
        match answers.iter().find(|reason| reason.is_error()) {
            Some(reason) if answers.iter().all(|reason| reason.is_error()) => {
                let code = failure::code(*reason);
                let failure = Failure::with_code(code, "no subscription is left");
                Err(Attempt::Hopeless(failure))
            }
            _ => Ok(()),
        }
    }

    /// Prints until there is a reason to stop; `left` is how many messages are still wanted.
    fn receive_all(
        &self,
        client: &mut Client,
        printer: &Printer,
        deadline: Option<Instant>,
        left: &mut u64,
    ) -> Ended {
        while *left > 0 {
            let patience = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let message = match client.receive(patience) {
                Ok(Some(message)) => message,
                Ok(None) => return Ended::Failed(Failure::timeout()),
                Err(error) => return Ended::Lost(error),
            };
            if self.in_room && message.topic == ABOUT_JOIN {
                return Ended::Failed(out_of_room(&message.payload));
            }
            if self.retained_only && !message.retain {
                break;
            }
            let is_out = self
                .filter_out
                .iter()
                .any(|filter| stentor_topic::matches(filter, &message.topic));
            if is_out {
                continue;
            }
            if self.remove_retained && message.retain && !message.payload.is_empty() {
                let empty = Publication {
                    retain: true,
                    ..Publication::new(&message.topic, b"")
                };
                if let Err(error) = client.publish(&empty) {
                    return Ended::Lost(error);
                }
            }
            if self.no_retained && message.retain {
                continue;
            }
            if self.random_filter.is_some_and(|share| chance() >= share) {
                continue;
            }
            if let Err(failure) = printer.print(&message) {
                return Ended::Failed(failure);
            }
            *left -= 1;
        }
        Ended::Content
    }
}

/// A share in percent as a part of one.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=100.0).contains(&share) => Ok(share / 100.0),
        _ => Err("it is a number from 0 to 100".into()),
    }
}

/// A number from 0 to 1 that nobody can foresee: the standard library seeds its hash maps with one.
fn chance() -> f64 {
    let number = RandomState::new().hash_one(()) >> 11;
    number as f64 / (1_u64 << 53) as f64
}

/// Whether the same may work later. A server that says why says whether coming back is welcome: it
/// is not for a client whose id another one uses now, or who may not be there.
const fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. }
        | ClientError::Closed
        | ClientError::Io(_)
        | ClientError::Timeout(_) => true,
        ClientError::Refused { reason, .. } | ClientError::Disconnected { reason, .. } => {
            matches!(
                reason,
                ReasonCode::UnspecifiedError
                    | ReasonCode::ServerUnavailable
                    | ReasonCode::ServerBusy
                    | ReasonCode::ServerShuttingDown
                    | ReasonCode::KeepAliveTimeout
                    | ReasonCode::MessageRateTooHigh
                    | ReasonCode::QuotaExceeded
                    | ReasonCode::ConnectionRateExceeded
            )
        }
        ClientError::Tls(_)
        | ClientError::Handshake(_)
        | ClientError::Frame(_)
        | ClientError::Rejected { .. }
        | ClientError::Decode(_)
        | ClientError::SpeaksTls
        | ClientError::SpeaksNoTls
        | ClientError::SpeaksHttp
        | ClientError::SpeaksCalls
        | ClientError::SpeaksNoHttp
        | ClientError::Unexpected(_)
        | ClientError::Encode(_) => false,
    }
}
