//! How commands fail: a sentence and an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use nix::sys::signal::Signal;
use serde_json::json;
use stentor_client::{ClientError, ReasonCode, Version};

/// What has no code of its own failed.
pub(crate) const EXIT_FAILED: u8 = 1;

/// The command line has a mistake.
pub(crate) const EXIT_USAGE: u8 = 2;

/// A question has no answer. A negative answer has the code 1.
pub(crate) const EXIT_NO_ANSWER: u8 = 3;

/// `-W` has run out; as in `mosquitto_sub`.
pub(crate) const EXIT_TIMEOUT: u8 = 27;

/// Joins the examples of a command with what all of them share.
macro_rules! help {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "
Exit codes:
  0         done
  1         something else failed; standard error says what
  2         the command line has a mistake
  27        the time of -W is over
  130, 143  SIGINT or SIGTERM ended pub, rr, or a sub that was not connected; a connected sub
            disconnects and ends with 0
  1-5       the server refused the login, with this return code (MQTT 3.1 and 3.1.1)
  128-162   the server refused or ended something, with this reason code (MQTT 5); these are
            limits that the server announced: 148 topic alias, 149 packet size, 154 retained,
            155 QoS

pub ends with 0 when the server has acknowledged everything, or at QoS 0 when the connection was
still up after the last message.
Without -h, -p, -L, --unix or --data-dir the command asks the server on ./data, or on
/var/lib/stentor if ./data does not exist, as administrator or, with -u, at one of its listeners.
If no server runs there, it tries localhost.
The password comes from -P, --password-file or the variable STENTOR_PASSWORD. With -u on a terminal
the command asks for it."
        )
    };
}

/// What `--help` of `pub` says.
pub(crate) const PUB_HELP: &str = help!(
    "  stentor pub -t sensors/attic -m 21.5 -r -q 1     the server keeps it as the last message
  tail -f log | stentor pub -t logs/web -l         a message for each line
  stentor pub -h broker.example -u ann -t t -s < file
  stentor pub -t t -m x -D publish message-expiry-interval 60 -D publish user-property unit C
"
);

/// What `--help` of `sub` says.
pub(crate) const SUB_HELP: &str = help!(
    "  stentor sub -v -t 'sensors/#'                    quotes, since # and $ mean something to shells
  stentor sub -t '$SYS/#' -F '%I %t %p'            with the time
  stentor sub -t jobs -C 1 -W 10                   one message, or exit code 27 after 10 s
  stentor sub -t jobs -q 1 -c -i worker            receive later what arrives in the meantime
  stentor sub -t '$share/workers/jobs' -q 1        each message to one member of the group
  stentor sub -t 'old/#' --retained-only --remove-retained -W 1
"
);

/// What `--help` of `rr` says.
pub(crate) const RR_HELP: &str = help!(
    "  stentor rr -t sum -e sum/answer -m '1 2' -W 5
  stentor rr -t sum -e sum/answer -m '1 2' -D publish correlation-data 7   only its own answer
"
);

/// Why a command ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What to tell; nothing if nobody wants to hear it.
    message: Option<String>,
    code: u8,
}

impl Failure {
    /// Anything that has no code of its own.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::with_code(EXIT_FAILED, message)
    }

    /// The answer is "no" and has been printed already.
    pub(crate) const fn answered_no() -> Self {
        Self {
            message: None,
            code: 1,
        }
    }

    pub(crate) fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self {
            message: Some(message.into()),
            code,
        }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::with_code(
            EXIT_USAGE,
            format!("{}; --help shows how it works", message.into()),
        )
    }

    /// The time of `-W` is over.
    pub(crate) fn timeout() -> Self {
        Self::with_code(EXIT_TIMEOUT, "timed out")
    }

    /// A signal came before what was waited for.
    pub(crate) fn interrupted(signal: Signal, before: &str) -> Self {
        // Signals have small numbers.
        let code = 128 + (signal as i32 as u8);
        Self::with_code(code, format!("ended by {signal} before {before}"))
    }

    /// What the client says, with the exit code that belongs to it.
    pub(crate) fn client(error: &ClientError, version: Version) -> Self {
        let code = match error {
            ClientError::Refused { reason, .. } if !version.is_v5() => reason.connect_return_code(),
            ClientError::Refused { reason, .. }
            | ClientError::Rejected { reason, .. }
            | ClientError::Disconnected { reason, .. } => code(*reason),
            _ => 1,
        };
        let failure = Self::with_code(code, error.to_string());
        match error {
            ClientError::Closed | ClientError::Io(_) if !version.is_v5() => failure
                .with_note("MQTT 3 servers do not say why, -V 5 or the server's log may tell"),
            _ => failure,
        }
    }

    /// The reader of the output has left: nothing has failed.
    pub(crate) const fn nobody_reads() -> Self {
        Self {
            message: None,
            code: 0,
        }
    }

    /// Says something more.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        if let Some(message) = &mut self.message {
            *message = format!("{message}; {note}");
        }
        self
    }

    /// Ends with this code where it would with 1, which is an answer here.
    pub(crate) fn not_an_answer(mut self, code: u8) -> Self {
        if self.code == 1 {
            self.code = code;
        }
        self
    }

    /// Leaves the exit code, but says nothing.
    pub(crate) fn silenced(mut self, quiet: bool) -> Self {
        if quiet {
            self.message = None;
        }
        self
    }

    /// Tells, and turns into the exit code.
    pub(crate) fn report(self, as_json: bool) -> ExitCode {
        if let Some(message) = &self.message {
            let line = match as_json {
                true => json!({ "error": message, "exit_code": self.code }).to_string(),
                false => format!("stentor: {message}"),
            };
            // The reader may have gone; the exit code says it too.
            let _ = writeln!(io::stderr(), "{line}");
        }
        ExitCode::from(self.code)
    }

    #[cfg(test)]
    pub(crate) const fn code(&self) -> u8 {
        self.code
    }

    /// What there is to tell.
    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }
}

/// The exit code of a reason; a DISCONNECT without a failure still ends what was not finished.
pub(crate) const fn code(reason: ReasonCode) -> u8 {
    if reason.is_error() { reason as u8 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_login_exits_with_the_number_on_the_wire() {
        let refused = |reason| ClientError::Refused { reason, text: None };
        let cases = [
            (ReasonCode::NotAuthorized, Version::V5, 135),
            (ReasonCode::NotAuthorized, Version::V311, 5),
            (ReasonCode::BadUserNameOrPassword, Version::V31, 4),
            (ReasonCode::ServerBusy, Version::V5, 137),
        ];
        for (reason, version, code) in cases {
            assert_eq!(
                Failure::client(&refused(reason), version).code(),
                code,
                "{reason:?}"
            );
        }
        assert_eq!(Failure::client(&ClientError::Closed, Version::V5).code(), 1);
        assert_eq!(Failure::timeout().code(), 27);
    }
}
