//! `stentor why`: what keeps a message from a client, and what to do about it.

use clap::Args;
use stentor_control::ZoneWord;
use stentor_control::clients::{self, Because};

use crate::admin::table::Table;
use crate::failure::{EXIT_NO_ANSWER, Failure};
use crate::output::shown;
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
        let told = self.which.tell(&clients::Why {
            client_id: self.client_id.clone(),
            topic: self.topic.clone(),
            to: self.to.clone(),
            zone: self.zone.clone().map(ZoneWord::Name),
        });
        let told = told.map_err(|failure| failure.not_an_answer(EXIT_NO_ANSWER))?;
        told.print(|answer| text(answer) + &self.hint())?;
        match told.answer.gets == "no" {
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
        false => format!("'{}'", shown(text).replace('\'', r"'\''")),
    }
}

/// One screen: the verdict, what was looked at, and what to do.
fn text(answer: &Because) -> String {
    let mut text = format!("{}\n", shown(&answer.verdict));
    let mut remedies = Vec::new();
    let publisher = answer.publisher.iter().map(|party| (party, "PUBLISHER"));
    for (party, head) in publisher.chain([(&answer.subscriber, "SUBSCRIBER")]) {
        let client_id = shown(&party.client_id);
        let mut table = Table::new(&["", head, &client_id]);
        for check in &party.checks {
            let mark = match &*check.state {
                "bad" => "✗",
                "note" => "!",
                _ => "✓",
            };
            table.row([mark.into(), shown(&check.what), shown(&check.text)]);
            if check.state != "good"
                && let Some(remedy) = &check.remedy
            {
                remedies.push(format!("  {}: {remedy}\n", shown(&check.what)));
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
    use serde_json::json;

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
        let answer = serde_json::from_value(answer).unwrap();
        assert_eq!(text(&answer), expected);
    }
}
