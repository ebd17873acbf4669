//! `stentor send` and `stentor inbox`: private messages between the users of a zone.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use stentor_client::{ClientError, ReasonCode};
use stentor_zone::{encode_name, topic};

use crate::ask::ask;
use crate::connect::Connect;
use crate::failure::Failure;
use crate::output::print;
use crate::subscribe::{Style, Watch};

/// What `--help` of `send` says.
pub(crate) const SEND_HELP: &str = "\
Exit codes:
  0    delivered, or stored for a recipient who is away
  16   no client receives private messages under this name
  27   the time of -W is over
  135  private messages to this user are not allowed
  149  the message is too large for the recipient
  151  the recipient's queue is full, or too many private messages wait

Examples:
  stentor send -u alice bob 'dinner at eight?'
  uptime | stentor send -u alice bob
  stentor inbox -u bob                         print what arrives for bob";

/// What `--help` of `inbox` says.
pub(crate) const INBOX_HELP: &str = "\
Examples:
  stentor inbox -u bob                         alice: dinner at eight?
  stentor inbox -u bob --from alice -C 1       wait for one message from alice
  stentor inbox -u bob --json                  one JSON object per message
  stentor inbox -u bob -c -i terminal          receive later what arrives while you are away";

/// Sends a private message and says what became of it.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The recipient's name, in the zone of your login
    user: String,
    /// The message [default: standard input]
    #[arg(allow_hyphen_values = true, conflicts_with = "file")]
    text: Option<String>,
    /// File with the message
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print the server's response as JSON
    #[arg(long)]
    json: bool,
    /// End after this many seconds, with exit code 27
    #[arg(short = 'W', value_name = "SECONDS", default_value_t = 10)]
    timeout: u64,
    #[command(flatten)]
    connect: Connect,
}

/// Prints the private messages that arrive.
#[derive(Debug, Args)]
pub(crate) struct Inbox {
    /// Messages of this user only
    #[arg(long, value_name = "USER")]
    from: Option<String>,
    #[command(flatten)]
    watch: Watch,
}

impl Send {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let quiet = self.connect.quiet;
        self.send().map_err(|failure| failure.silenced(quiet))
    }

    fn payload(&self) -> Result<Vec<u8>, Failure> {
        if let Some(text) = &self.text {
            return Ok(text.clone().into_bytes());
        }
        if let Some(path) = &self.file {
            return fs::read(path)
                .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())));
        }
        let mut bytes = Vec::new();
        io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
        Ok(bytes)
    }

    fn send(self) -> Result<(), Failure> {
        let plan = self.connect.plan()?;
        check_user(&self.user)?;
        let payload = self.payload()?;
        let mut client = plan.open()?;
        let failed = |error: ClientError| Failure::client(&error, plan.version());
        let to = topic::private_to(&self.user);
        let properties = plan.properties.publish.clone();
        let response = ask(&plan, &mut client, &to, &payload, properties, self.timeout)?;
        client.disconnect().map_err(failed)?;
        self.tell(&response)
    }

    /// Tells what the server said, by a line and by the exit code.
    fn tell(&self, response: &[u8]) -> Result<(), Failure> {
        let parsed: Option<Value> = serde_json::from_slice(response).ok();
        let field = |name| parsed.as_ref().and_then(|value| value.get(name));
        let code = field("code").and_then(Value::as_u64);
        let code = code.and_then(|code| u8::try_from(code).ok());
        let word = |name| field(name).and_then(Value::as_str).unwrap_or_default();
        let Some(code) = code else {
            return Err(Failure::new("the server's response makes no sense"));
        };
        if self.json {
            print([response, b"\n"].concat())?;
        } else if code == ReasonCode::Success as u8 {
            print(format!("{}: {}\n", self.user, word("status")))?;
        }
        if code == ReasonCode::Success as u8 {
            return Ok(());
        }
        let failure = Failure::with_code(code, format!("{}: {}", self.user, word("text")));
        Err(failure.silenced(self.json))
    }
}

impl Inbox {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let filter = match &self.from {
            Some(user) => {
                check_user(user)?;
                topic::private_from(user)
            }
            None => "$private/from/+".to_owned(),
        };
        self.watch.run(filter, Style::Senders)
    }
}

/// A name that fits into a topic.
fn check_user(user: &str) -> Result<(), Failure> {
    /// Leaves room for what stands around it.
    const NAME_BYTES_MAX: usize = 1 << 15;
    if user.is_empty() || encode_name(user).len() > NAME_BYTES_MAX {
        return Err(Failure::usage("USER is a name of 1 to 32,768 bytes"));
    }
    Ok(())
}
