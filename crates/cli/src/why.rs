//! `stentor why`: what keeps a message from a client, and what to do about it.

use clap::Args;
use serde_json::{Value, json};

use crate::admin::table::{Table, plain};
use crate::failure::{EXIT_NO_ANSWER, Failure};
use crate::output::print;
use crate::which::Which;

/// What `--help` says.
pub(crate) const HELP: &str = "\
Examples:
  stentor why display sensors/attic             does `display` receive messages of this topic?
  stentor why pump sensors/attic --to display   does what `pump` publishes reach `display`?
  stentor why bob '$room/tea/say' --zone game

Exit codes: 0 the client receives the messages, or they wait for it; 1 it does not receive them;
3 there is no answer.";

/// Looks at all that decides whether a client gets a message: connection, subscriptions, rights,
/// policy, queue, quotas, and what was withheld, lost or conflated.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// Client id of the subscriber; with --to, of the publisher
    client_id: String,
    /// The topic, without wildcards
    topic: String,
    /// Client id of the subscriber: does it get what CLIENT_ID publishes?
    #[arg(long, value_name = "CLIENT_ID")]
    to: Option<String>,
    /// Zone of the clients [default: the default zone, or the only one that has such a client]
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    #[command(flatten)]
    which: Which,
}

impl Why {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let answer = self.which.ask(json!({
            "verb": "why",
            "client_id": self.client_id,
            "topic": self.topic,
            "to": self.to,
            "zone": self.zone,
        }));
        let answer = answer.map_err(|failure| failure.not_an_answer(EXIT_NO_ANSWER))?;
        print(match self.which.json {
            true => format!("{answer}\n"),
            false => text(&answer) + &self.hint(),
        })?;
        match answer["gets"] == "no" {
            true => Err(Failure::answered_no()),
            false => Ok(()),
        }
    }
}

impl Why {
    /// That one publisher can be asked about too, where that was not done.
    fn hint(&self) -> String {
        const LONG: usize = 200;
        if self.to.is_some() || self.topic.len() > LONG {
            return String::new();
        }
        let (topic, to) = (word(&self.topic), word(&self.client_id));
        let zone = self.zone.as_deref();
        let zone = zone.map_or_else(String::new, |zone| format!(" --zone {}", word(zone)));
        format!("\nFor one publisher: `stentor why PUBLISHER {topic} --to {to}{zone}`\n")
    }
}

/// A word of a command as a shell takes it.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_.-:@%+,".contains(c);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", plain(&json!(text)).replace('\'', r"'\''")),
    }
}

/// One screen: the verdict, what was looked at, and what to do.
fn text(answer: &Value) -> String {
    let mut text = format!("{}\n", plain(&answer["verdict"]));
    let mut remedies = Vec::new();
    for (side, head) in [("publisher", "PUBLISHER"), ("subscriber", "SUBSCRIBER")] {
        let party = &answer[side];
        if party.is_null() {
            continue;
        }
        let client_id = plain(&party["client_id"]);
        let mut table = Table::new(&["", head, &client_id]);
        for check in party["checks"].as_array().into_iter().flatten() {
            let mark = match check["state"].as_str() {
                Some("bad") => "✗",
                Some("note") => "!",
                _ => "✓",
            };
            table.row([mark.into(), plain(&check["what"]), plain(&check["text"])]);
            if check["state"] != "good"
                && let Some(remedy) = check["remedy"].as_str()
            {
                remedies.push(format!("  {}: {remedy}\n", plain(&check["what"])));
            }
        }
        text += &format!("\n{}", table.render());
    }
    if !remedies.is_empty() {
        text += &format!("\nWHAT TO DO\n{}", remedies.concat());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (text, quoted) in [
            ("sensors/dev1/t", "sensors/dev1/t"),
            ("$room/tea/say", "'$room/tea/say'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(word(text), quoted);
        }
    }

    #[test]
    fn what_is_in_the_way_comes_with_what_to_do() {
        let checks = json!([
            { "what": "connected", "state": "good", "text": "for 3 s", "remedy": "no need" },
            { "what": "subscribed", "state": "bad", "text": "to nothing", "remedy": "subscribe" },
        ]);
        let answer = json!({
            "verdict": "\"c\" does not get it",
            "publisher": null,
            "subscriber": { "client_id": "c", "checks": checks },
        });
        let expected = "\"c\" does not get it\n\n   SUBSCRIBER  c\n✓  connected   for 3 s\n\
                        ✗  subscribed  to nothing\n\nWHAT TO DO\n  subscribed: subscribe\n";
        assert_eq!(text(&answer), expected);
    }
}
