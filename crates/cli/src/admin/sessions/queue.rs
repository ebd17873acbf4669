//! `stentor sessions queue`: what waits for one client.

use clap::Args;
use stentor_auth::counted;
use stentor_control::ZoneWord;
use stentor_control::sessions::{Message, Queue, Queued, State};

use super::InZone;
use crate::admin::table::{Table, bytes, duration, maybe};
use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

#[derive(Debug, Args)]
pub(super) struct Show {
    /// Client id
    client_id: String,
    #[command(flatten)]
    zone: InZone,
    /// Show up to N messages, 1,000 at most
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Go on where an earlier answer has ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Show payloads too
    #[arg(long)]
    payloads: bool,
    #[command(flatten)]
    which: Which,
}

impl Show {
    pub(super) fn run(self) -> Result<(), Failure> {
        let payloads = self.payloads;
        let told = self.which.tell(&Queue {
            client_id: self.client_id,
            zone: self.zone.zone.map(ZoneWord::Name),
            limit: Some(self.limit.into()),
            cursor: self.cursor,
            payloads,
        })?;
        told.print(|answer| text(answer, payloads))
    }
}

fn text(answer: &Queued, payloads: bool) -> String {
    let mut heads = vec!["STATE", "TOPIC", "BYTES", "QOS", "AGE", "EXPIRES IN", ""];
    heads.extend(payloads.then_some("PAYLOAD"));
    let mut table = Table::new(&heads);
    for message in &answer.messages {
        let secs = |secs: Option<u64>| secs.map_or_else(|| "-".to_owned(), duration);
        let mut cells = vec![
            state(message, answer.connected),
            maybe(message.topic.as_deref()),
            message
                .payload_bytes
                .map_or_else(|| "-".to_owned(), |len| bytes(len as u64)),
            message
                .qos
                .map_or_else(|| "-".to_owned(), |qos| qos.to_string()),
            secs(message.age_secs),
            secs(message.expires_in_secs),
            rest(message),
        ];
        cells.extend(payloads.then(|| payload(message)));
        table.cells(cells);
    }
    let mut text = sums(answer);
    if !table.is_empty() {
        text += &table.render();
    }
    if let Some(cursor) = &answer.cursor {
        text += &format!("… and perhaps more: --cursor {cursor}\n");
    }
    text
}

/// How much there is of what.
fn sums(answer: &Queued) -> String {
    let parts = [
        (answer.in_flight, "in flight"),
        (answer.waiting, "in memory"),
        (answer.on_disk, "on the disk"),
        (answer.held_back, "held back"),
    ];
    let all: usize = parts.iter().map(|(count, _)| count).sum();
    let is_there = if answer.connected {
        "connected"
    } else {
        "away"
    };
    let whose = format!("{} is {is_there}", shown(&answer.client_id));
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let mut text = match parts.is_empty() {
        true => format!("{whose}; nothing waits for it\n"),
        false => {
            let all = counted(all as u64, "message");
            format!("{whose}; {all}: {}\n", parts.join(", "))
        }
    };
    if answer.in_socket > 0 {
        let messages = counted(answer.in_socket as u64, "message");
        text += &format!("{messages} in the buffer of its connection, of any QoS\n");
    }
    text
}

fn state(message: &Message, is_connected: bool) -> String {
    let flies = |secs: u64| format!("in flight for {}", duration(secs));
    match message.state {
        State::InFlight => match message.in_flight_secs {
            Some(secs) => flies(secs),
            None if is_connected => "to be sent again".into(),
            None => "to be sent again when it is back".into(),
        },
        State::Received => "received, not completed".into(),
        State::Waiting => "in memory".into(),
        State::OnDisk => "on the disk".into(),
        State::Unreadable => "unreadable on the disk".into(),
        State::HeldBack => "held back".into(),
    }
}

/// What else there is to know of a message.
fn rest(message: &Message) -> String {
    let all = [
        (message.retain == Some(true)).then(|| "retained".to_owned()),
        message.packet_id.map(|id| format!("packet id {id}")),
        message
            .conflated
            .filter(|count| *count > 0)
            .map(|count| format!("in the place of {count}")),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn payload(message: &Message) -> String {
    let mut text = match (&message.payload, &message.payload_base64) {
        (Some(text), _) => shown(text),
        (None, Some(text)) => format!("base64:{text}"),
        (None, None) => "-".to_owned(),
    };
    if message.payload_cut {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_where_it_is_and_what_is_special_about_it() {
        let sent = Message {
            state: State::InFlight,
            in_flight_secs: Some(75),
            packet_id: Some(3),
            retain: Some(true),
            conflated: Some(2),
            ..Message::default()
        };
        assert_eq!(state(&sent, true), "in flight for 1m 15s");
        assert_eq!(rest(&sent), "retained, packet id 3, in the place of 2");
        let again = Message {
            in_flight_secs: None,
            ..sent
        };
        assert_eq!(state(&again, true), "to be sent again");
        assert_eq!(state(&again, false), "to be sent again when it is back");
        let answer = Queued {
            messages: vec![Message {
                state: State::Unreadable,
                ..Message::default()
            }],
            ..Queued::default()
        };
        let text = text(&answer, false);
        let row = text.lines().last().unwrap_or_default();
        let cells: Vec<&str> = row.split_whitespace().collect();
        let unknown = ["unreadable", "on", "the", "disk", "-", "-", "-", "-", "-"];
        assert_eq!(cells, unknown, "{text}");
    }

    #[test]
    fn sums_leave_out_what_there_is_not() {
        let mut answer = Queued {
            client_id: "pump".into(),
            ..Queued::default()
        };
        assert_eq!(sums(&answer), "pump is away; nothing waits for it\n");
        (answer.waiting, answer.on_disk) = (2, 1);
        let text = "pump is away; 3 messages: 2 in memory, 1 on the disk\n";
        assert_eq!(sums(&answer), text);
    }
}
