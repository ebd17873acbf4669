//! Pages of the reference that the server knows best.

mod acknowledgements;
mod closes;

use std::fmt::Write as _;

use stentor_mqtt::{DecodeErrorKind, ReasonCode};
use stentor_session::CloseReason;

use acknowledgements::{PUBLISH, Row, SUBSCRIBE, UNSUBSCRIBE};
use closes::{CLOSES, Close};

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from crates/server/src/reference/ and the enums of close reasons
     and reason codes: change them there. -->

# Reasons

The server says in three places why it refuses something or ends a connection:

- **Reason code:** a number in CONNACK, PUBACK, PUBREC, SUBACK, UNSUBACK or DISCONNECT. Clients of
  MQTT 5 receive it. MQTT 3 has return codes from 1 to 5 in CONNACK, and 128 in SUBACK.
- **Reason string:** a sentence beside the code, for clients of MQTT 5 only. It never says whether a
  name or a password was wrong.
- **Close reason:** a word in the server's log, in the field `reason` of the events `refused` and
  `disconnected`. The log adds the cause and the setting that helps.

MQTT 3 has no reason code in PUBACK and PUBREC. If a message cannot be kept, the server ends such a
connection without an acknowledgement. If the client has no right to publish, the server
acknowledges the message and drops it. `stentor why` and `stentor user test` answer questions about
one client.

The recipe [Why was that refused?](../recipes/reason-strings.md) shows reason strings in a client.
The commands `stentor pub` and `stentor sub` use reason codes as [exit codes](exit-codes.md).

## Refused logins and ended connections

A refused login ends with CONNACK, an ended connection with DISCONNECT. `-` in the column of the
code means that the server sends no packet. \"none\" in the column of the reason string means that
the code says enough, or that more would help an attacker.
";

const MALFORMED: &str = "
### Packets that cannot be read

The close reason is `malformed`. The log says which rule of MQTT the packet breaks. An error like
this is a bug of the client, or the port speaks another protocol. Update the client library, and
check that the client uses the right port.

| code | rule | cause |
|---|---|---|
";

const PUBLISHES: &str = "
## Acknowledgements of publishes

These codes are in PUBACK and PUBREC. A message of QoS 0 has no acknowledgement. An
[adaptor](../adaptors.md) may deny a message with a code and a text of its own; its default code is
131.

";

const SUBSCRIPTIONS: &str = "
## Acknowledgements of subscriptions

SUBACK has a code for each topic filter, and one reason string for all of them. An adaptor may deny
with a code of its own here too.

";

const UNSUBSCRIPTIONS: &str = "
## Acknowledgements of unsubscriptions

UNSUBACK has a code for each topic filter. MQTT 3 has none.

";

const OTHERS: &str = "
## Other packets

- **PUBREL and PUBCOMP:** 146 means that the server does not know the packet identifier. The session
  was lost between the two steps of a QoS 2 message. The client goes on with the next message.
- **AUTH:** 24 asks for the next step of an enhanced authentication. 0 ends it.
- **CONNACK and DISCONNECT with 156:** this server is full or stops, and `server_reference` in the
  configuration names another one. The property Server Reference has its address.
";

/// The labels of all close reasons, for whoever counts by them. One may come twice.
pub(crate) fn close_labels() -> impl Iterator<Item = &'static str> {
    let rows = CLOSES.iter().flat_map(|(_, closes)| *closes);
    let malformed = DecodeErrorKind::ALL.iter().map(|kind| {
        let kind = *kind;
        CloseReason::Malformed(stentor_mqtt::DecodeError { kind })
    });
    let reasons = rows.map(|close| close.reason).chain(malformed);
    reasons
        .chain([CloseReason::Bug("")])
        .map(CloseReason::label)
}

/// The reference page, `docs/reference/reasons.md`.
#[must_use]
pub fn reasons() -> String {
    let mut out = String::from(INTRODUCTION);
    for (title, closes) in CLOSES {
        let _ = write!(
            out,
            "\n### {title}\n\n| code | close reason | reason string | when | what to do |\n\
             |---|---|---|---|---|\n"
        );
        for close in *closes {
            close_row(close, &mut out);
        }
    }
    out.push_str(MALFORMED);
    for kind in DecodeErrorKind::ALL {
        let error = stentor_mqtt::DecodeError { kind: *kind };
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            code(error.reason()),
            error.requirement(),
            error.text()
        );
    }
    for (text, rows) in [
        (PUBLISHES, PUBLISH),
        (SUBSCRIPTIONS, SUBSCRIBE),
        (UNSUBSCRIPTIONS, UNSUBSCRIBE),
    ] {
        out.push_str(text);
        out.push_str("| code | reason string | when | what to do |\n|---|---|---|---|\n");
        for row in rows {
            acknowledgement_row(row, &mut out);
        }
    }
    out.push_str(OTHERS);
    out
}

fn code(reason: ReasonCode) -> String {
    format!("{} {}", reason as u8, reason.name())
}

fn close_row(close: &Close, out: &mut String) {
    let Close {
        reason,
        when,
        remedy,
    } = close;
    let label = reason.label();
    let code = reason.reason_code().map_or_else(|| "-".to_owned(), code);
    let told = quoted(reason.told());
    let _ = writeln!(out, "| {code} | `{label}` | {told} | {when} | {remedy} |");
}

fn acknowledgement_row(row: &Row, out: &mut String) {
    let Row {
        reason,
        text,
        when,
        remedy,
    } = row;
    let (code, text) = (code(*reason), quoted(text));
    let _ = writeln!(out, "| {code} | {text} | {when} | {remedy} |");
}

fn quoted(text: &str) -> String {
    match text {
        "" => "none".to_owned(),
        text => format!("`{}`", text.replace('`', "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// At run time: objects may be shared between checkouts, and this one is meant.
    fn root() -> PathBuf {
        let crate_folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
        PathBuf::from(crate_folder).join("../..")
    }

    /// All sources below a folder in one text, without line breaks inside of literals.
    fn sources(folder: &Path, out: &mut String) {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                sources(&path, out);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs")
            {
                let text = std::fs::read_to_string(&path).expect("it can be read");
                let end = text.find("#[cfg(test)]\nmod").unwrap_or(text.len());
                out.push_str(&text[..end]);
            }
        }
    }

    #[test]
    fn the_page_in_docs_is_up_to_date() {
        let found = std::fs::read_to_string(root().join("docs/reference/reasons.md"));
        assert!(
            found.unwrap_or_default() == reasons(),
            "docs/reference/reasons.md is out of date; run `cargo xtask gen`"
        );
    }

    #[test]
    fn each_close_reason_has_one_row() {
        let mut seen = BTreeSet::new();
        for close in CLOSES.iter().flat_map(|(_, closes)| *closes) {
            assert!(seen.insert(close.reason.label()), "{:?}", close.reason);
            assert!(!close.when.is_empty(), "{:?}", close.reason);
        }
    }

    /// The texts of acknowledgements are those of the sources, and each code that the hub gives is
    /// on the page.
    #[test]
    fn acknowledgements_say_what_the_sources_say() {
        let mut text = String::new();
        for folder in ["hub", "zone", "topic"] {
            sources(&root().join("crates").join(folder).join("src"), &mut text);
        }
        let one_line = |text: &str| {
            let text = text.replace("\\\n", " ");
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let text = one_line(&text);
        let rows = || PUBLISH.iter().chain(SUBSCRIBE).chain(UNSUBSCRIBE);
        for row in rows() {
            let is_there = row.text.is_empty() || text.contains(row.text);
            assert!(is_there, "no source says {:?}", row.text);
        }
        let page = reasons();
        for given in text.split("ReasonCode::").skip(1) {
            let end = given.find(|c: char| !c.is_alphanumeric());
            let name = &given[..end.unwrap_or(given.len())];
            let found = ReasonCode::ALL
                .iter()
                .find(|code| format!("{code:?}") == name);
            if let Some(reason) = found {
                let number = (*reason as u8).to_string();
                assert!(page.contains(&number), "{reason:?} is not on the page");
            }
        }
    }
}
