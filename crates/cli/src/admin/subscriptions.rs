//! `stentor subscriptions`: who gets the messages of a topic.

use clap::Args;
use stentor_control::ZoneWord;
use stentor_control::subscriptions::{self, Matching, Told};

use super::table::{Table, maybe};
use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor subscriptions plant/17/temp              who gets messages of this topic?
  stentor subscriptions orders/new --zone shop --limit 20

A client is shown with each of its subscriptions that match. RIGHT says which rule of a role lets it
have the messages, or keeps them from it. `stentor why CLIENT TOPIC` looks at all that may be in the
way of one client.";

/// Shows the subscriptions that match a topic, with the clients, and the rules that decide.
#[derive(Debug, Args)]
pub(crate) struct Subscriptions {
    /// The topic, without wildcards
    topic: String,
    /// Of this zone [default: the default zone]
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    /// Show up to N, 10,000 at most
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    #[command(flatten)]
    which: Which,
}

impl Subscriptions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let told = self.which.tell(&subscriptions::Subscriptions {
            topic: self.topic,
            zone: self.zone.map(ZoneWord::Name),
            limit: Some(self.limit),
            cursor: None,
        })?;
        told.print(text)
    }
}

fn text(answer: &Told) -> String {
    let heads = ["CLIENT", "ZONE", "USER", "FILTER", "QOS", "", "RIGHT"];
    let mut table = Table::new(&heads);
    for one in &answer.subscriptions {
        table.row([
            shown(&one.client_id),
            shown(&one.zone),
            maybe(one.user.as_deref()),
            shown(&one.filter),
            one.qos.to_string(),
            options(one),
            right(one),
        ]);
    }
    let mut text = table.render();
    if answer.cursor.is_some() {
        text += "… and perhaps more; --limit shows others\n";
    }
    if answer.truncated {
        text += "… and more: too many filters match this topic\n";
    }
    text
}

/// What there is to know of a subscription beside its filter.
fn options(one: &Matching) -> String {
    let all = [
        (!one.connected).then(|| "away".to_owned()),
        one.group.as_ref().map(|_| "one of its group".to_owned()),
        one.no_local.then(|| "no-local".to_owned()),
        one.max_rate.map(|rate| format!("max-rate {rate}")),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Whether the client gets the messages, and which rule says so.
fn right(one: &Matching) -> String {
    let rule = one.rule.as_deref().map(shown);
    match (one.withheld, rule) {
        (false, rule) => rule.unwrap_or_else(|| "-".to_owned()),
        (true, Some(rule)) => format!("withheld: {rule}"),
        (true, None) => "withheld: no rule allows it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_says_what_is_special_about_it() {
        let plain = Matching {
            connected: true,
            rule: Some("role member: allow both #".into()),
            ..Matching::default()
        };
        assert_eq!(options(&plain), "");
        assert_eq!(right(&plain), "role member: allow both #");
        let special = Matching {
            group: Some("g".into()),
            max_rate: Some(0.5),
            withheld: true,
            ..Matching::default()
        };
        assert_eq!(options(&special), "away, one of its group, max-rate 0.5");
        assert_eq!(right(&special), "withheld: no rule allows it");
    }
}
