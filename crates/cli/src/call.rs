//! `stentor call`: calls a procedure over MQTT.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use stentor_client::{Client, ClientError, Property};
use stentor_zone::{Refusal, topic};

use crate::ask::ask;
use crate::connect::Connect;
use crate::failure::Failure;
use crate::output::print;
use crate::room;

/// What `--help` says.
pub(crate) const HELP: &str = "\
Exit codes:
  0    the procedure ended, with any verdict
  1    it did not: not-found, not-allowed, overloaded, timed-out, failed, bad-call or unavailable
  27   the time of -W is over
  and those of the login, and of a --room that cannot be joined

Examples:
  stentor call status
  stentor call sizecheck -a max=1000 -f message.eml
  stentor call -u alice attachments -f message.eml --json
  stentor call -u alice --room chess move -m '\"e4\"'

Mail servers use stentor-call, which starts faster and has the verdict as its exit code.";

/// Calls a procedure of the server and prints its answer.
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The procedure, without a slash
    procedure: String,
    /// Call the code of this room instead: the hook `call` of its adaptor. A user who is not a
    /// member joins the room for the call, and leaves it at the end: to stay a member, join with
    /// another client, such as `stentor room join`
    #[arg(long, value_name = "ROOM")]
    room: Option<String>,
    /// Argument of the procedure; can be repeated (MQTT 5)
    #[arg(short = 'a', long, value_name = "NAME=VALUE", value_parser = argument)]
    argument: Vec<(String, String)>,
    /// The message that the call is about
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    /// File with that message; - for standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "message")]
    file: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    /// End after this many seconds, with exit code 27
    #[arg(short = 'W', value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    #[command(flatten)]
    connect: Connect,
}

/// `NAME=VALUE`.
pub(crate) fn argument(text: &str) -> Result<(String, String), String> {
    // MQTT has no longer texts in properties.
    let max = usize::from(u16::MAX);
    match text.split_once('=') {
        None | Some(("", _)) => Err("it is NAME=VALUE".into()),
        Some((name, value)) if name.len().max(value.len()) <= max => {
            Ok((name.to_owned(), value.to_owned()))
        }
        Some((name, value)) => {
            let bytes = name.len().max(value.len());
            Err(format!(
                "it has {bytes} bytes; a name and a value have {max} at most"
            ))
        }
    }
}

/// A verdict with its text, and what the procedure returns, as whole lines.
fn told(verdict: &str, text: &str, result: &str) -> String {
    let mut told = match text {
        "" => format!("{verdict}\n{result}"),
        _ => format!("{verdict}: {text}\n{result}"),
    };
    if !told.ends_with('\n') {
        told.push('\n');
    }
    told
}

/// Whether a room has refused a call because its caller is not a member.
fn is_stranger(answer: &[u8]) -> bool {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    answer["status"] == "refused" && answer["text"] == Refusal::NotMember.text()
}

impl Call {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let quiet = self.connect.quiet;
        self.call().map_err(|failure| failure.silenced(quiet))
    }

    fn payload(&self) -> Result<Vec<u8>, Failure> {
        if let Some(text) = &self.message {
            return Ok(text.clone().into_bytes());
        }
        let mut bytes = Vec::new();
        match &self.file {
            None => {}
            Some(path) if path.as_os_str() == "-" => {
                io::stdin().read_to_end(&mut bytes).map_err(|error| {
                    Failure::new(format!("cannot read standard input: {error}"))
                })?;
            }
            Some(path) => {
                bytes = fs::read(path).map_err(|error| {
                    Failure::new(format!("cannot read {}: {error}", path.display()))
                })?;
            }
        }
        Ok(bytes)
    }

    fn call(self) -> Result<(), Failure> {
        let plan = self.connect.plan()?;
        if !self.argument.is_empty() && !plan.version().is_v5() {
            return Err(Failure::usage("-a needs MQTT 5"));
        }
        let name = self.procedure.trim_start_matches('/');
        let to = match &self.room {
            Some(room) => topic::call_room(room::checked(room)?, name),
            None => topic::call(name),
        };
        stentor_topic::validate_name(&to)
            .ok()
            .filter(|()| !name.is_empty() && !name.contains('/'))
            .ok_or_else(|| Failure::usage(format!("{name:?} is not the name of a procedure")))?;
        let payload = self.payload()?;
        let mut properties = plan.properties.publish.clone();
        if plan.version().is_v5() {
            let seconds = u32::try_from(self.timeout).unwrap_or(u32::MAX);
            properties.push(Property::MessageExpiryInterval(seconds));
        }
        for (name, value) in &self.argument {
            properties.push(Property::UserProperty((name, value)));
        }
        let mut client = plan.open()?;
        let call = |client: &mut Client| {
            let properties = properties.clone();
            ask(&plan, client, &to, &payload, properties, self.timeout)
        };
        let mut answer = call(&mut client)?;
        // A member, or one who may call from outside, does not come in once more.
        if let Some(room) = self.room.as_ref().filter(|_| is_stranger(&answer)) {
            room::join(room, &plan, &mut client)?;
            answer = call(&mut client)?;
        }
        let failed = |error: ClientError| Failure::client(&error, plan.version());
        client.disconnect().map_err(failed)?;
        self.tell(&answer)
    }

    fn tell(&self, answer: &[u8]) -> Result<(), Failure> {
        let parsed: Option<Value> = serde_json::from_slice(answer).ok();
        let word = |name| {
            let value = parsed.as_ref().and_then(|value| value.get(name));
            value.and_then(Value::as_str).unwrap_or_default()
        };
        let is_done = word("status") == "done";
        let mut text = Vec::new();
        if self.json {
            text.extend_from_slice(answer);
            text.push(b'\n');
        } else if is_done {
            text.extend(told(word("verdict"), word("text"), word("result")).into_bytes());
        }
        print(&text)?;
        if is_done {
            return Ok(());
        }
        let (status, why) = (word("status"), word("text"));
        let failure = Failure::new(format!("{}: {status}: {why}", self.procedure));
        Err(failure.silenced(self.json))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stranger_is_told_from_a_member_whom_the_room_refuses() {
        let answer = |text: &str| json!({ "status": "refused", "code": 135, "text": text });
        let is_stranger = |answer: Value| is_stranger(answer.to_string().as_bytes());
        assert!(is_stranger(answer(Refusal::NotMember.text())));
        assert!(!is_stranger(answer("it is not your turn")));
        assert!(!is_stranger(json!({ "status": "done" })));
        assert!(!super::is_stranger(b"no JSON"));
    }

    #[test]
    fn an_argument_fits_into_a_property() {
        let ok = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(argument("a=b=c"), ok("a", "b=c"));
        let long = "x".repeat(65_535);
        assert_eq!(argument(&format!("a={long}")), ok("a", &long));
        for (text, told) in [("a", "NAME=VALUE"), ("=a", "NAME=VALUE")] {
            assert!(argument(text).unwrap_err().contains(told));
        }
        let refused = argument(&format!("a={long}x")).unwrap_err();
        assert!(refused.contains("65536 bytes"), "{refused}");
    }

    #[test]
    fn the_verdict_comes_first() {
        assert_eq!(told("accept", "", "a table\n"), "accept\na table\n");
        assert_eq!(told("accept", "", ""), "accept\n");
        assert_eq!(told("accept", "why", "a\n"), "accept: why\na\n");
        assert_eq!(told("reject", "", "a\n"), "reject\na\n");
        assert_eq!(told("accept", "", "[]"), "accept\n[]\n");
    }
}
