//! `stentor events`: what has happened to connections lately.

use std::time::{Duration, SystemTime};

use clap::Args;
use clap::builder::PossibleValuesParser;
use stentor_auth::calendar::Utc;
use stentor_control::events::{self, Event, Kind};
use stentor_server::config::parse_duration;

use crate::failure::Failure;
use crate::output::{json_lines, print_next, shown};
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor events                              the newest events
  stentor events --client pump-17 --since 1h  why does pump-17 come and go?
  stentor events --event refused --follow     who is refused, and what helps
  stentor events --address 192.0.2.0/24

The server keeps the last 10,000 events in memory, and up to 4 MiB. The log has older ones. With
--json each event is an object on a line of its own.";

/// How long the server waits for the next event.
const WAIT: Duration = Duration::from_secs(10);

/// Shows connections, their ends, refusals with what helps, denials, losses and bans.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Only of this client id
    #[arg(long, visible_alias = "id", value_name = "CLIENT_ID")]
    client: Option<String>,
    /// Only of this user: NAME, or ZONE/NAME
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only from this address or network
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Only events of this kind
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    event: Option<String>,
    /// Only of this zone
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    /// Only those of the last minutes or hours, such as 10m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    since: Option<Duration>,
    /// Show up to N, the newest
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Go on with each new event, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    which: Which,
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(Kind::ALL.iter().map(|kind| kind.label()))
}

impl Events {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut request = events::Events {
            after: None,
            client_id: self.client,
            user: self.user,
            address: self.address,
            event: self.event.as_deref().and_then(Kind::labelled),
            zone: self.zone,
            since_ms: self.since.map(since),
            limit: Some(self.limit),
            wait_ms: 0,
        };
        loop {
            let told = self.which.tell(&request)?;
            if told.answer.missed {
                eprintln!("stentor: events are missing here: more happened than the server keeps");
            }
            let text = match self.which.json {
                true => json_lines(&told.answer.events, "an event")?,
                false => told.answer.events.iter().map(line).collect(),
            };
            if !text.is_empty() {
                print_next(text)?;
            }
            if !self.follow {
                return Ok(());
            }
            request.after = Some(told.answer.cursor);
            request.wait_ms = WAIT.as_millis() as u64;
        }
    }
}

/// That long ago, in milliseconds since 1970.
fn since(time: Duration) -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    now.saturating_sub(time).as_millis() as u64
}

/// An event in one line: when, what, who, from where, why.
fn line(event: &Event) -> String {
    let utc = Utc::new(event.at_ms / 1_000);
    let millis = event.at_ms % 1_000;
    let mut line = format!("{} {}.{millis:03}", utc.date(), utc.clock());
    line += &format!("  {:<12}", shown(&event.event));
    for (name, value) in [
        ("client", &event.client_id),
        ("user", &event.user),
        ("zone", &event.zone),
        ("from", &event.peer),
        ("reason", &event.reason),
    ] {
        if let Some(value) = value {
            line += &format!("  {name} {}", shown(value));
        }
    }
    if let Some(text) = &event.text {
        line += &format!("  {}", shown(text));
    }
    if event.held_back > 0 {
        line += &format!("  ({} more like it were left out before)", event.held_back);
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let event = Event {
            at_ms: 951_782_400_007,
            event: "refused".into(),
            client_id: Some("pump\n".into()),
            peer: Some("192.0.2.7:5".into()),
            reason: Some("bad-credentials".into()),
            text: Some("wrong user name or password".into()),
            held_back: 3,
            ..Event::default()
        };
        assert_eq!(
            line(&event),
            "2000-02-29 00:00:00.007  refused       client pump\\n  from 192.0.2.7:5  reason \
             bad-credentials  wrong user name or password  (3 more like it were left out before)\n"
        );
    }
}
