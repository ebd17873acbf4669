//! `stentor config effective` and `stentor config diff`.

use stentor_control::config::{Change, Changes, Diff, Effective, Source, Value, Values};

use super::table::{Table, maybe};
use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

/// What the running server runs with.
pub(crate) fn effective(which: &Which, containing: String, all: bool) -> Result<(), Failure> {
    let told = which.tell(&Effective { containing })?;
    told.print(|answer| effective_text(answer, all))
}

/// What a reload would change.
pub(crate) fn diff(which: &Which) -> Result<(), Failure> {
    which.tell(&Diff {})?.print(diff_text)
}

fn effective_text(answer: &Values, all: bool) -> String {
    let mut table = Table::new(&["KEY", "VALUE", "FROM"]);
    for one in &answer.values {
        if all || one.source != Source::Default {
            table.row([shown(&one.key), value(one), place(one)]);
        }
    }
    let file = match &answer.file {
        Some(file) => format!("configuration file: {}\n", shown(file)),
        None => "there is no configuration file\n".to_owned(),
    };
    let rest = match all {
        true => "",
        false => "all other keys have their defaults: --all shows them too\n",
    };
    format!("{file}{}{rest}", table.render())
}

fn value(one: &Value) -> String {
    match (&one.value, one.secret) {
        (_, true) => "(secret)".to_owned(),
        (value, false) => maybe(value.as_deref()),
    }
}

fn place(one: &Value) -> String {
    let place = match (&one.place, one.source) {
        (Some(place), Source::Environment) => format!("variable {}", shown(place)),
        (Some(place), _) => shown(place),
        (None, _) => "default".to_owned(),
    };
    match one.waiting {
        true => format!("{place}; waits for a restart"),
        false => place,
    }
}

fn diff_text(answer: &Changes) -> String {
    if answer.changes.is_empty() {
        return "a reload would change nothing\n".to_owned();
    }
    let mut table = Table::new(&["KEY", "NOW", "NEW", "TAKES EFFECT"]);
    for Change {
        key,
        from,
        to,
        takes_effect,
    } in &answer.changes
    {
        let effect = match takes_effect.as_str() {
            "live" => "at a reload",
            "new connections" => "at a reload, for new connections",
            _ => "at a restart",
        };
        let (from, to) = (maybe(from.as_deref()), maybe(to.as_deref()));
        table.row([shown(key), from, to, effect.to_owned()]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_say_where_they_come_from() {
        let one = |key: &str, value: Option<&str>, source, place: Option<&str>| Value {
            key: key.into(),
            value: value.map(str::to_owned),
            secret: value.is_none(),
            source,
            place: place.map(str::to_owned),
            waiting: key == "shards",
        };
        let answer = Values {
            file: Some("s.toml".into()),
            values: vec![
                one("shards", Some("2"), Source::File, Some("s.toml:1")),
                one("log.level", Some("info"), Source::Default, None),
                one("auth.source_password", None, Source::Environment, Some("P")),
            ],
        };
        let text = effective_text(&answer, false);
        assert!(text.contains("s.toml:1; waits for a restart"), "{text}");
        assert!(text.contains("(secret)  variable P"), "{text}");
        assert!(!text.contains("log.level"), "{text}");
        assert!(effective_text(&answer, true).contains("log.level"));
    }

    #[test]
    fn changes_say_when_they_take_effect() {
        let change = |effect: &str| Changes {
            changes: vec![Change {
                key: "shards".into(),
                from: None,
                to: Some("2".into()),
                takes_effect: effect.into(),
            }],
        };
        assert!(diff_text(&change("restart")).contains("shards  -    2    at a restart"));
        assert!(diff_text(&change("live")).contains("at a reload"));
        assert_eq!(
            diff_text(&Changes::default()),
            "a reload would change nothing\n"
        );
    }
}
