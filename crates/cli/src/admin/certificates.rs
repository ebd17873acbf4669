//! `stentor certificates`: the certificates of listeners, and how long they hold.

use std::time::Duration;

use clap::Args;
use stentor_auth::counted;
use stentor_control::certificates::{Certificate, Files, List, Listener, Ls, Purpose};

use super::now_secs;
use super::table::Table;
use crate::failure::Failure;
use crate::output::shown;
use crate::time::Time;
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor certificates                             which one expires next?
  stentor certificates --json                      serial numbers and files too

It shows what is in use: the certificate of each encrypted listener and of HTTP, those that come
with it, and the authorities of client certificates. After a renewal, `stentor reload` takes the
new ones.";

/// Days before its end from which a certificate is pointed out.
const SOON_DAYS: i64 = 30;

/// Shows the certificates that are in use: names, issuers, days left.
#[derive(Debug, Args)]
pub(crate) struct Certificates {
    #[command(flatten)]
    which: Which,
}

impl Certificates {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.which.tell(&Ls {})?.print(text)
    }
}

fn text(answer: &List) -> String {
    if answer.listeners.is_empty() {
        return "no listener is encrypted\n".to_owned();
    }
    let heads = [
        "LISTENER",
        "FOR",
        "SUBJECT",
        "NAMES",
        "ISSUER",
        "UNTIL",
        "DAYS LEFT",
    ];
    let mut table = Table::new(&heads);
    for listener in &answer.listeners {
        for one in &listener.certificates {
            table.row([
                shown(&listener.url),
                purpose(one.purpose).to_owned(),
                shown(&one.subject),
                names(one),
                shown(&one.issuer),
                date(one.not_after_secs),
                one.days_left.to_string(),
            ]);
        }
    }
    let mut text = table.render();
    if answer.truncated {
        text += "… and more: an answer has up to 1,000 certificates\n";
    }
    for listener in &answer.listeners {
        text.extend(notes(listener).into_iter().map(|note| format!("{note}\n")));
    }
    text
}

/// What needs somebody's attention.
fn notes(listener: &Listener) -> Vec<String> {
    let url = shown(&listener.url);
    let mut notes: Vec<String> = { &listener.certificates }
        .iter()
        .filter_map(|one| note(&url, one))
        .collect();
    match (listener.files, &listener.problem) {
        (Files::InUse, _) => {}
        (Files::Newer, _) => notes.push(format!(
            "{url}: the files hold other certificates than those in use; `stentor reload` takes them"
        )),
        (Files::Unusable, problem) => {
            let problem = shown(problem.as_deref().unwrap_or("they cannot be used"));
            notes.push(format!(
                "{url}: a reload would fail, and what is in use stays: {problem}"
            ));
        }
    }
    notes
}

fn note(url: &str, one: &Certificate) -> Option<String> {
    let subject = shown(&one.subject);
    if let Some(problem) = &one.problem {
        return Some(format!(
            "{url}: a certificate cannot be read: {}",
            shown(problem)
        ));
    }
    if u64::try_from(one.not_before_secs).is_ok_and(|from| from > now_secs()) {
        let from = date(one.not_before_secs);
        return Some(format!(
            "{url}: {subject} is not valid before {from}; clients refuse it until then"
        ));
    }
    match one.days_left {
        days if days < 0 => Some(format!("{url}: {subject} has expired; renew it")),
        days if days < SOON_DAYS => {
            let days = counted(days.unsigned_abs(), "day");
            Some(format!("{url}: {subject} expires in {days}; renew it"))
        }
        _ => None,
    }
}

const fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Server => "server",
        Purpose::Chain => "chain",
        Purpose::ClientAuthority => "client authority",
    }
}

/// The names of a certificate, as far as the server tells them.
fn names(one: &Certificate) -> String {
    let mut text = shown(&one.names.join(", "));
    if one.names_left_out > 0 {
        text += &format!(", … and {} more", one.names_left_out);
    }
    text
}

/// The day of a time in seconds since 1970.
fn date(secs: i64) -> String {
    let since = u64::try_from(secs).unwrap_or(0);
    let iso = Time::new(Duration::from_secs(since)).iso();
    iso.chars().take_while(|it| *it != 'T').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_left_out_are_counted() {
        let mut one = Certificate {
            names: vec!["DNS:a".into(), "DNS:b".into()],
            ..Certificate::default()
        };
        assert_eq!(names(&one), "DNS:a, DNS:b");
        one.names_left_out = 7;
        assert_eq!(names(&one), "DNS:a, DNS:b, … and 7 more");
    }

    #[test]
    fn what_needs_attention_is_pointed_out() {
        let of = |days_left| Certificate {
            subject: "CN=a".into(),
            days_left,
            ..Certificate::default()
        };
        let note = |days| note("mqtts://a", &of(days));
        assert_eq!(note(30), None);
        assert_eq!(
            note(1).as_deref(),
            Some("mqtts://a: CN=a expires in 1 day; renew it")
        );
        assert_eq!(
            note(-1).as_deref(),
            Some("mqtts://a: CN=a has expired; renew it")
        );
        let later = Certificate {
            subject: "CN=a".into(),
            not_before_secs: i64::MAX,
            days_left: 90,
            ..Certificate::default()
        };
        let told = super::note("mqtts://a", &later).unwrap_or_default();
        assert!(told.contains("is not valid before"), "{told}");
        let mut listener = Listener {
            url: "mqtts://a".into(),
            files: Files::Newer,
            ..Listener::default()
        };
        assert!(notes(&listener)[0].contains("`stentor reload` takes them"));
        listener.files = Files::Unusable;
        listener.problem = Some("no such file".into());
        let text = "mqtts://a: a reload would fail, and what is in use stays: no such file";
        assert_eq!(notes(&listener), [text]);
        assert_eq!(date(1_580_428_800), "2020-01-31");
    }
}
