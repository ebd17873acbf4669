//! What is part of the server: quick, without threads of their own.

use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Outcome};
use crate::broadcast;
use crate::call::Call;
use crate::history;
use crate::manifest::{Manifest, Need};
use crate::overview::Overview;
use crate::queue::Runner;

/// What `/sizecheck` takes for the largest message if it is not told: Postfix's own default.
const SIZE_MAX: u64 = 10_240_000;

/// The answer to who shows no message to a procedure that is about one.
const NO_MESSAGE: &str = "there is no message to look at; stentor-call shows one by --file FILE";

/// A procedure that is part of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// Accepts.
    Noop,
    /// Accepts, and returns what it was told.
    Echo,
    /// Refuses messages above a size.
    Sizecheck,
    /// Returns since when the server runs, and everybody's figures.
    Status,
    /// Sends a message to many recipients.
    Broadcast,
    /// Returns messages of a topic's history.
    History,
}

/// Runs one that waits: for a file, which may be on a file system that hangs, or for shards.
pub(crate) struct BuiltinRunner(pub(crate) Builtin);

impl Runner for BuiltinRunner {
    fn run(&mut self, call: &Call) -> Answer {
        self.0.run(call, Overview::default)
    }
}

/// Whether every server has a procedure of this name, without a file.
#[must_use]
pub fn is_builtin(name: &str) -> bool {
    Builtin::ALL.iter().any(|(_, known)| *known == name)
}

impl Builtin {
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::Broadcast, "broadcast"),
        (Self::History, "history"),
        (Self::Noop, "noop"),
        (Self::Echo, "echo"),
        (Self::Sizecheck, "sizecheck"),
        (Self::Status, "status"),
    ];

    pub(crate) fn manifest(self) -> Manifest {
        let manifest = Manifest::builtin();
        match self {
            Self::Noop | Self::Echo | Self::Sizecheck => manifest,
            // What others do is for those who may log in.
            Self::Status => Manifest {
                anonymous: false,
                ..manifest
            },
            Self::Broadcast => Manifest {
                anonymous: false,
                needs: Need::Body,
                deadline: broadcast::DEADLINE,
                max_body: broadcast::MESSAGE_BYTES_MAX,
                on_large: Verdict::Reject,
                ..manifest
            },
            // Its caller's rights are those to the topic.
            Self::History => Manifest {
                needs: Need::Body,
                deadline: history::DEADLINE,
                max_body: history::ARGUMENTS_BYTES_MAX,
                on_large: Verdict::Reject,
                ..manifest
            },
        }
    }

    /// Whether it waits for others, so that it needs a thread of its own.
    pub(crate) const fn waits(self) -> bool {
        matches!(self, Self::Broadcast | Self::History)
    }

    /// Runs on the thread that took the call, unless that is about a file: nothing here waits.
    pub(crate) fn run(self, call: &Call, overview: impl FnOnce() -> Overview) -> Answer {
        match self {
            Self::Noop => Answer::done(Outcome::of(Verdict::Accept, "")),
            Self::Echo => {
                let lines = call
                    .arguments
                    .iter()
                    .map(|(name, value)| format!("{name}={value}\n"));
                let mut outcome = Outcome::of(Verdict::Accept, "");
                outcome.result = lines.collect::<String>().into_bytes();
                outcome
                    .result
                    .extend(format!("size={}\n", call.message.size()).into_bytes());
                Answer::done(outcome)
            }
            Self::Sizecheck => sizecheck(call),
            Self::Status => status(call, &overview()),
            Self::Broadcast => broadcast::run(call),
            Self::History => history::run(call),
        }
    }
}

fn sizecheck(call: &Call) -> Answer {
    let max = match call.argument("max") {
        None => SIZE_MAX,
        Some(text) => match text.parse() {
            Ok(max) => max,
            Err(_) => {
                let reason = format!("-max {text}: expected a number of bytes");
                return Answer::failed(Status::BadCall, &reason);
            }
        },
    };
    if !call.message.exists() {
        // What nobody shows would pass, whatever it is.
        return Answer::failed(Status::BadCall, NO_MESSAGE);
    }
    let size = call.message.size();
    if size <= max {
        return Answer::done(Outcome::of(Verdict::Accept, ""));
    }
    let text = format!("the message has {size} bytes; the limit is {max}");
    let mut outcome = Outcome::of(Verdict::Reject, &text);
    outcome.reply_code = 552;
    outcome.set_enhanced("5.3.4");
    Answer::done(outcome)
}

fn status(call: &Call, overview: &Overview) -> Answer {
    let mut outcome = Outcome::of(Verdict::Accept, "");
    outcome.result = match call.argument("format") {
        None | Some("text") => overview.text().into_bytes(),
        Some("json") => overview.json(),
        Some(other) => {
            let reason = format!("-format {other}: it is text or json");
            return Answer::failed(Status::BadCall, &reason);
        }
    };
    Answer::done(outcome)
}
