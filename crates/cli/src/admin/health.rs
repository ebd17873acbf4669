//! `stentor health`: whether the running server works, for scripts and probes.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use super::show;
use super::table::plain;
use crate::failure::{EXIT_NO_ANSWER, Failure};
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
        let answer = self.which.ask(json!({ "verb": "health" }));
        let answer = answer.map_err(|failure| failure.not_an_answer(EXIT_NO_ANSWER))?;
        show(&self.which, &answer, || text(&answer))?;
        let wanted = if self.live { "healthy" } else { "ready" };
        match answer[wanted] == true {
            true => Ok(()),
            false => Err(Failure::answered_no()),
        }
    }
}

fn text(answer: &Value) -> String {
    let mut out = match (answer["healthy"] == true, answer["ready"] == true) {
        (_, true) => "ready\n".to_owned(),
        (true, false) => "works, but is not ready for new clients:\n".to_owned(),
        (false, false) => "does not work:\n".to_owned(),
    };
    for reason in answer["reasons"].as_array().into_iter().flatten() {
        let (name, detail) = (plain(&reason["name"]), plain(&reason["detail"]));
        let _ = writeln!(out, "  {name}: {detail}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_below_the_answer() {
        let ready = json!({ "healthy": true, "ready": true, "reasons": [] });
        assert_eq!(text(&ready), "ready\n");
        let reasons = [json!({ "name": "memory", "detail": "full\u{1b}" })];
        let away = json!({ "healthy": true, "ready": false, "reasons": reasons });
        let told = text(&away);
        assert!(
            told.starts_with("works, but") && !told.contains('\u{1b}'),
            "{told}"
        );
        let hung = json!({ "healthy": false, "ready": false, "reasons": reasons });
        assert!(text(&hung).starts_with("does not work:\n  memory: full"));
    }
}
