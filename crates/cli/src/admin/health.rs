//! `stentor health`: whether the running server works, for scripts and probes.

use std::fmt::Write as _;

use clap::Args;
use stentor_control::health::Told;

use crate::failure::{EXIT_NO_ANSWER, Failure};
use crate::output::shown;
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor health                for readiness probes: whether new clients can connect
  stentor health --live         for liveness probes: whether the process works at all

The command asks through the control socket in the data folder, so it needs no port and no password.
/healthz and /readyz say the same by HTTP.

Exit codes:
  0   the server is ready; with --live: it works
  1   it is not; standard output says why
  2   the command line has a mistake
  3   no server answers";

/// Says whether the running server works and is ready for clients
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Ask only whether the process works, not whether it is ready for clients
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    which: Which,
}

impl Health {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let told = self.which.tell(&stentor_control::health::Health {});
        let told = told.map_err(|failure| failure.not_an_answer(EXIT_NO_ANSWER))?;
        told.print(text)?;
        let is_good = match self.live {
            true => told.answer.healthy,
            false => told.answer.ready,
        };
        match is_good {
            true => Ok(()),
            false => Err(Failure::answered_no()),
        }
    }
}

fn text(answer: &Told) -> String {
    let mut out = match (answer.healthy, answer.ready) {
        (_, true) => "ready\n".to_owned(),
        (true, false) => "works, but is not ready for new clients:\n".to_owned(),
        (false, false) => "does not work:\n".to_owned(),
    };
    for reason in &answer.reasons {
        let (name, detail) = (shown(&reason.name), shown(&reason.detail));
        let _ = writeln!(out, "  {name}: {detail}");
    }
    out
}

#[cfg(test)]
mod tests {
    use stentor_control::health::Reason;

    use super::*;

    #[test]
    fn reasons_stand_below_the_answer() {
        let told = |healthy: bool, ready: bool, detail: &str| {
            let reason = Reason {
                name: "memory".into(),
                detail: detail.into(),
            };
            let reasons = if ready { vec![] } else { vec![reason] };
            text(&Told {
                healthy,
                ready,
                reasons,
            })
        };
        assert_eq!(told(true, true, ""), "ready\n");
        let away = told(true, false, "full\u{1b}");
        assert!(
            away.starts_with("works, but") && !away.contains('\u{1b}'),
            "{away}"
        );
        let hung = told(false, false, "full");
        assert!(hung.starts_with("does not work:\n  memory: full"));
    }
}
