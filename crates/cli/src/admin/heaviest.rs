//! The heaviest topics and clients as tables: for `stentor top`, `stentor topics` and
//! `stentor clients`.

use stentor_control::heaviest::{
    By, HeaviestClients, HeaviestTopics, HeavyClient, HeavyTopic, Publisher, Rates, Sample,
};

use super::table::{Table, bytes, maybe};
use crate::output::shown;

/// What is shown of a name, in characters: a table stays readable, and one name does not fill the
/// terminal.
const NAME_MAX: usize = 64;

/// A table of topics, and what its figures are worth.
pub(super) fn topics(told: &HeaviestTopics) -> String {
    let mut table = Table::new(&[
        "TOPIC",
        "ZONE",
        "MESSAGES/S",
        "SIZE/S",
        "SHARE",
        "MOSTLY BY",
        "USER",
    ]);
    for HeavyTopic {
        zone,
        topic,
        cut,
        rates,
        mostly_by,
    } in &told.topics
    {
        let who = mostly_by.as_ref();
        table.row([
            name(topic, *cut),
            shown(zone),
            rate(rates.messages_per_sec),
            size(rates.bytes_per_sec),
            share(rates, &told.sample),
            who.map_or_else(|| "-".to_owned(), client),
            maybe(who.and_then(|who| who.user.as_deref())),
        ]);
    }
    table.render() + &worth(&told.sample)
}

/// A table of those who publish most, and what its figures are worth.
pub(super) fn clients(told: &HeaviestClients) -> String {
    let mut table = Table::new(&[
        "CLIENT",
        "ZONE",
        "USER",
        "MESSAGES/S",
        "SIZE/S",
        "SHARE",
        "MOSTLY TO",
    ]);
    for HeavyClient {
        zone,
        publisher,
        rates,
        mostly_to,
    } in &told.clients
    {
        table.row([
            client(publisher),
            shown(zone),
            maybe(publisher.user.as_deref()),
            rate(rates.messages_per_sec),
            size(rates.bytes_per_sec),
            share(rates, &told.sample),
            maybe_name(mostly_to.as_deref()),
        ]);
    }
    table.render() + &worth(&told.sample)
}

/// The client id of somebody who publishes; a user without one publishes by HTTP.
fn client(who: &Publisher) -> String {
    match &who.client_id {
        Some(client_id) => name(client_id, who.cut),
        None => "(by HTTP)".to_owned(),
    }
}

fn maybe_name(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| name(text, false))
}

/// The beginning of a name, with an ellipsis where that is not all of it.
fn name(text: &str, is_cut: bool) -> String {
    let name = shown(text);
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None if is_cut => format!("{name}…"),
        None => name,
    }
}

fn rate(per_sec: f64) -> String {
    match per_sec < 10.0 {
        true => format!("{per_sec:.1}"),
        false => format!("{per_sec:.0}"),
    }
}

fn size(per_sec: f64) -> String {
    bytes(per_sec as u64)
}

/// Its part of all that is published, by what the rows are ranked by.
fn share(rates: &Rates, sample: &Sample) -> String {
    let (own, all) = match sample.by {
        By::Messages => (rates.messages_per_sec, sample.messages_per_sec),
        By::Bytes => (rates.bytes_per_sec, sample.bytes_per_sec),
    };
    match all.filter(|all| *all > 0.0) {
        // Rounding may bring a part above the whole.
        Some(all) => format!("{:.0} %", (own / all * 100.0).min(100.0)),
        None => "-".into(),
    }
}

/// Below a table.
fn worth(sample: &Sample) -> String {
    let mut text = format!(
        "estimates from 1 publish in {}, over the last {:.0} s",
        sample.one_in, sample.window_secs
    );
    if let (Some(messages), Some(size_per_sec)) = (sample.messages_per_sec, sample.bytes_per_sec) {
        let (messages, size) = (rate(messages), size(size_per_sec));
        text += &format!("; in all {messages} messages and {size} a second");
    }
    text.push('\n');
    if sample.missing_below > 0.0 {
        let least = match sample.by {
            By::Messages => format!("{} messages", rate(sample.missing_below)),
            By::Bytes => size(sample.missing_below),
        };
        text += &format!("what has less than {least} a second may be missing\n");
    }
    if sample.silent_shards > 0 {
        text += &format!(
            "{} of the shards did not answer, so their messages are missing\n",
            sample.silent_shards
        );
    }
    if sample.truncated {
        text += "… and more; --limit shows others\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(by: By) -> Sample {
        Sample {
            by,
            one_in: 64,
            window_secs: 61.7,
            messages_per_sec: Some(200.0),
            bytes_per_sec: Some(4_096.0),
            ..Sample::default()
        }
    }

    fn rates(messages_per_sec: f64, bytes_per_sec: f64) -> Rates {
        Rates {
            messages_per_sec,
            bytes_per_sec,
            error: 0.0,
        }
    }

    fn lines(text: &str) -> Vec<Vec<&str>> {
        text.lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
            })
            .map(Iterator::collect)
            .collect()
    }

    #[test]
    fn a_topic_is_shown_with_its_share_and_its_publisher() {
        let topic = |topic: &str, messages, mostly_by| HeavyTopic {
            zone: "default".into(),
            topic: topic.into(),
            cut: false,
            rates: rates(messages, 1_024.0),
            mostly_by,
        };
        let pump = Publisher {
            client_id: Some("pump".into()),
            user: Some("plant".into()),
            cut: false,
        };
        let mut told = HeaviestTopics {
            topics: vec![topic("a/b", 150.0, Some(pump)), topic("c", 1.25, None)],
            sample: sample(By::Messages),
        };
        let text = topics(&told);
        let rows = lines(&text);
        assert_eq!(
            rows[1],
            ["a/b", "default", "150", "1.0 KiB", "75 %", "pump", "plant"]
        );
        assert_eq!(rows[2], ["c", "default", "1.2", "1.0 KiB", "1 %", "-", "-"]);
        assert!(
            text.contains("1 publish in 64, over the last 62 s; in all 200 messages"),
            "{text}"
        );
        assert!(
            !text.contains("missing") && !text.contains("--limit"),
            "{text}"
        );

        told.sample = Sample {
            missing_below: 2_048.0,
            silent_shards: 1,
            truncated: true,
            messages_per_sec: None,
            ..sample(By::Bytes)
        };
        let text = topics(&told);
        for part in ["less than 2.0 KiB a second", "1 of the shards", "--limit"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("in all"), "{text}");
    }

    #[test]
    fn a_user_without_a_connection_publishes_by_http() {
        let told = HeaviestClients {
            clients: vec![HeavyClient {
                zone: "default".into(),
                publisher: Publisher {
                    client_id: None,
                    user: Some("web".into()),
                    cut: false,
                },
                rates: rates(300.0, 5_000.0),
                mostly_to: Some("t".into()),
            }],
            sample: sample(By::Bytes),
        };
        let text = clients(&told);
        let expected = [
            "(by HTTP)",
            "default",
            "web",
            "300",
            "4.9 KiB",
            "100 %",
            "t",
        ];
        assert_eq!(lines(&text)[1], expected, "{text}");
    }

    #[test]
    fn names_are_short_and_play_no_tricks() {
        assert_eq!(name("a/b", false), "a/b");
        assert_eq!(name("a/b", true), "a/b…");
        assert_eq!(name(&"é".repeat(64), false).chars().count(), 64);
        assert_eq!(name(&"é".repeat(65), true).chars().count(), 65);
        let told = name("\u{1b}[2J\u{202e}<b>\n", false);
        assert_eq!(told, "\\u{1b}[2J\\u{202e}<b>\\n");
    }
}
