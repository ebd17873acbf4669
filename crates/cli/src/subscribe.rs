//! `stentor sub`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use stentor_client::{
    Client, ClientError, Message, Publication, QoS, ReasonCode, RetainHandling, SubscribeOptions,
};

use crate::connect::{Connect, Plan, hint_at_shell, qos};
use crate::failure::{self, Failure};
use crate::format::Format;
use crate::time::Time;

/// How messages are printed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Print the topic before the payload
    #[arg(short, long)]
    verbose: bool,
    /// Format: %t topic, %p payload, %q QoS, %r retained, %l length, %m packet id, %x %X payload in
    /// hex, %j %J JSON, %I %U time (UTC), %C %D %E %F %P %R %S %A properties, %% a %; flags and
    /// widths as in %-20.20t; @H:@M:@S strftime; \n \t \0
    #[arg(short = 'F', long, value_name = "FORMAT")]
    format: Option<String>,
    /// Print one JSON object per message
    #[arg(long, conflicts_with_all = ["format", "verbose"])]
    json: bool,
    /// Spread JSON over lines
    #[arg(long)]
    pretty: bool,
    /// Print no end of line after a message
    #[arg(short = 'N')]
    no_newline: bool,
}

/// Prints messages to standard output.
pub(crate) struct Printer {
    format: Format,
    end: &'static [u8],
}

impl Output {
    pub(crate) fn printer(&self) -> Result<Printer, Failure> {
        let format = match &self.format {
            Some(format) => format,
            None if self.json => "%j",
            None if self.verbose => "%t %p",
            None => "%p",
        };
        let format = Format::parse(format, self.pretty)
            .map_err(|error| Failure::usage(format!("-F {format:?}: {error}")))?;
        Ok(Printer {
            format,
            end: if self.no_newline { b"" } else { b"\n" },
        })
    }
}

impl Printer {
    /// Prints a message, at once: somebody may be waiting for it.
    pub(crate) fn print(&self, message: &Message) -> Result<(), Failure> {
        let mut text = Vec::new();
        let mut out = io::stdout().lock();
        self.format
            .write(message, Time::now(), &mut text)
            .and_then(|()| text.write_all(self.end))
            .and_then(|()| out.write_all(&text))
            .and_then(|()| out.flush())
            .map_err(|error| Failure::output(&error))
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
    /// Topic filter, + and # stand for levels; may be repeated, or stand at the end of -L
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
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl Sub {
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
            stentor_topic::validate_filter(filter)
                .map_err(|error| Failure::usage(format!("{filter:?} is no filter: {error}")))?;
        }
        self.topic.iter().for_each(|topic| hint_at_shell(topic));
        let printer = self.output.printer()?;
        let mut client = plan.open()?;
        self.ask(&plan, &mut client)?;
        let failed = |error: ClientError| Failure::client(&error, plan.version());
        if !self.exit_after_subscribe {
            match self.receive_all(&mut client, &printer, deadline) {
                // The reader of the output or the time is gone, the server is still there.
                Ok(Err(failure)) => {
                    let _ =
                        client.disconnect_with(ReasonCode::Success, &plan.properties.disconnect);
                    return Err(failure);
                }
                Ok(Ok(())) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        client
            .disconnect_with(ReasonCode::Success, &plan.properties.disconnect)
            .map_err(failed)
    }

    /// Sends the subscriptions. Fails if none is granted, warns if some are not.
    fn ask(&self, plan: &Plan, client: &mut Client) -> Result<(), Failure> {
        let failed = |error: ClientError| Failure::client(&error, plan.version());
        if !self.unsubscribe.is_empty() {
            let filters: Vec<&str> = self.unsubscribe.iter().map(String::as_str).collect();
            let properties = &plan.properties.unsubscribe;
            client
                .unsubscribe_with(&filters, properties)
                .map_err(failed)?;
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
        let answers = client
            .subscribe_with(&filters, properties)
            .map_err(failed)?;
        for (filter, reason) in self.topic.iter().zip(&answers) {
            plan.note(&format!("subscribed {filter:?}: {}", reason.name()));
            if reason.is_error() && !self.connect.quiet {
                eprintln!(
                    "stentor: the subscription to {filter:?} was refused: {}",
                    reason.name()
                );
            }
        }
        match answers.iter().find(|reason| reason.is_error()) {
            Some(reason) if answers.iter().all(|reason| reason.is_error()) => Err(
                Failure::with_code(failure::code(*reason), "no subscription is left"),
            ),
            _ => Ok(()),
        }
    }

    /// Prints until there is a reason to stop: the outer error is the connection's.
    fn receive_all(
        &self,
        client: &mut Client,
        printer: &Printer,
        deadline: Option<Instant>,
    ) -> Result<Result<(), Failure>, ClientError> {
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            let patience = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let Some(message) = client.receive(patience)? else {
                return Ok(Err(Failure::timeout()));
            };
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
                client.publish(&empty)?;
            }
            if self.no_retained && message.retain {
                continue;
            }
            if let Err(failure) = printer.print(&message) {
                return Ok(Err(failure));
            }
            left -= 1;
        }
        Ok(Ok(()))
    }
}
