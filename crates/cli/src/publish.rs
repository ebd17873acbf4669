//! `stentor pub`.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use stentor_client::{Client, ClientError, Publication, QoS, ReasonCode};

use crate::connect::{Connect, Plan, hint_at_shell, qos};
use crate::failure::Failure;
use crate::payload::Payload;

/// Lines that are read ahead of what the server has taken.
const LINES_AHEAD: usize = 1_024;

/// How long the connection goes unattended while no line comes.
const ATTEND: Duration = Duration::from_secs(1);

/// Publishes messages on a topic.
#[derive(Debug, Args)]
pub(crate) struct Pub {
    /// Topic; can also be the path of -L
    #[arg(short, long)]
    topic: Option<String>,
    #[command(flatten)]
    payload: Payload,
    /// 0: at most once, 1: at least once, 2: exactly once
    #[arg(short, long, default_value = "0", value_parser = qos)]
    qos: QoS,
    /// Set RETAIN: the server keeps it as the last message of the topic
    #[arg(short, long)]
    retain: bool,
    /// Publish the message N times
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u64,
    /// Seconds between repetitions
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    repeat_delay: f64,
    /// With -l and QoS 1 or 2: how many messages can wait for their acknowledgement
    #[arg(short = 'M', long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..))]
    max_inflight: u16,
    #[command(flatten)]
    connect: Connect,
}

impl Pub {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let quiet = self.connect.quiet;
        self.publish().map_err(|failure| failure.silenced(quiet))
    }

    fn publish(self) -> Result<(), Failure> {
        let plan = self.connect.plan()?;
        let topic = self.topic.as_ref().or(plan.url_topic.as_ref());
        let topic = topic.ok_or_else(|| Failure::usage("there is no topic: -t TOPIC"))?;
        stentor_topic::validate_name(topic)
            .map_err(|error| Failure::usage(format!("{topic:?} is not a topic: {error}")))?;
        hint_at_shell(topic);
        let pause = Duration::try_from_secs_f64(self.repeat_delay)
            .map_err(|_| Failure::usage("--repeat-delay is a number of seconds"))?;
        let payload = self.payload.read()?;
        let mut client = plan.open()?;
        let publication = Publication {
            topic,
            payload: payload.as_deref().unwrap_or_default(),
            qos: self.qos,
            retain: self.retain,
            properties: plan.properties.publish.clone(),
        };
        let failed = |error: ClientError| Failure::client(&error, plan.version());
        if payload.is_some() {
            for round in 0..self.repeat {
                if round > 0 {
                    attend(&mut client, pause).map_err(failed)?;
                }
                let reason = client.publish(&publication).map_err(failed)?;
                note(&plan, &publication, reason);
            }
        } else {
            self.publish_lines(&plan, &mut client, &publication)?;
        }
        if self.qos == QoS::AtMostOnce {
            // Nothing acknowledges these; but a server that answers after them has taken them, and
            // one that they made close the connection does not answer.
            client.ping().map_err(failed)?;
        }
        plan.goodbye(client, Ok(()))
    }

    /// Publishes each line while others are still on their way.
    fn publish_lines(
        &self,
        plan: &Plan,
        client: &mut Client,
        template: &Publication<'_>,
    ) -> Result<(), Failure> {
        let failed = |error: ClientError| Failure::client(&error, plan.version());
        let lines = read_lines();
        while let Some(line) = next_line(&lines, client, plan)? {
            if self.qos != QoS::AtMostOnce {
                let others = usize::from(self.max_inflight) - 1;
                client.wait_outstanding(others).map_err(failed)?;
            }
            let publication = Publication {
                payload: &line,
                ..template.clone()
            };
            client.publish_soon(&publication).map_err(failed)?;
            check(client, plan)?;
        }
        client.wait_outstanding(0).map_err(failed)?;
        check(client, plan)
    }
}

/// Fails if the server did not take one of the messages.
fn check(client: &mut Client, plan: &Plan) -> Result<(), Failure> {
    match client
        .settled()
        .into_iter()
        .find(|(_, settled)| settled.reason.is_error())
    {
        None => Ok(()),
        Some((_, settled)) => {
            let error = ClientError::Rejected {
                reason: settled.reason,
                text: settled.text,
            };
            Err(Failure::client(&error, plan.version()))
        }
    }
}

fn note(plan: &Plan, publication: &Publication<'_>, reason: ReasonCode) {
    let (bytes, topic) = (publication.payload.len(), publication.topic);
    plan.note(&format!(
        "published {bytes} bytes on {topic:?}: {}",
        reason.name()
    ));
}

/// Waits with the connection kept alive; what arrives is not for us.
fn attend(client: &mut Client, pause: Duration) -> Result<(), ClientError> {
    let end = Instant::now() + pause;
    while Instant::now() < end {
        client.receive(Some(end.saturating_duration_since(Instant::now())))?;
    }
    Ok(())
}

/// Reads lines in a thread of its own, because standard input may be silent for longer than the
/// server has patience.
fn read_lines() -> Receiver<io::Result<Vec<u8>>> {
    let (sender, lines) = sync_channel(LINES_AHEAD);
    thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn next_line(
    lines: &Receiver<io::Result<Vec<u8>>>,
    client: &mut Client,
    plan: &Plan,
) -> Result<Option<Vec<u8>>, Failure> {
    let failed = |error: ClientError| Failure::client(&error, plan.version());
    let mut next = lines.try_recv();
    if matches!(next, Err(TryRecvError::Empty)) {
        client.flush().map_err(failed)?;
    }
    let line = loop {
        match next {
            Ok(line) => break line,
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => {}
        }
        let patience = if plan.keep_alive().is_zero() {
            ATTEND
        } else {
            ATTEND.min(plan.keep_alive())
        };
        next = match lines.recv_timeout(patience) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Disconnected) => Err(TryRecvError::Disconnected),
            Err(RecvTimeoutError::Timeout) => {
                client.receive(Some(Duration::ZERO)).map_err(failed)?;
                Err(TryRecvError::Empty)
            }
        };
    };
    let line =
        line.map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
    Ok(Some(line))
}
