//! The reference page of exit codes, `docs/reference/exit-codes.md`.

use std::fmt::Write as _;

use stentor_client::ReasonCode;
use stentor_server::ServerExit;

use crate::bench::EXIT_CANNOT_RUN;
use crate::failure::{EXIT_FAILED, EXIT_NO_ANSWER, EXIT_TIMEOUT, EXIT_USAGE};

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from crates/cli/src/reference/exit_codes.rs and the enum of
     crates/server/src/exit.rs: change them there. -->

# Exit codes

The exit code of a command says how it ended. Standard error has a sentence with the cause. Commands
about the server and its users put both into an object with `--json`:
`{\"error\": \"…\", \"exit_code\": 1}`.

";

const SERVE: &str = "
## `stentor serve`

`stentor serve` ends with 0 after `SIGTERM`, `SIGINT` or `stentor stop`. Its other codes are those
of `sysexits.h`:

";

const MESSAGES: &str = "
## Commands that talk MQTT

These are `pub`, `sub`, `rr`, `send`, `inbox`, `call` and `room`. They pass on what the server says:

| code | meaning | what to do |
|---|---|---|
";

const RETURN_CODES: &str = "
### What the server said

A client of MQTT 5 exits with the reason code of the refusal. A client of MQTT 3.1 or 3.1.1 exits
with the return code of its login, which is in the last column. [Reasons](reasons.md) says when the
server sends each code, and what to do.

| code | name | MQTT 3 login |
|---|---|---|
";

const CALL: &str = "
## `stentor-call`

The exit code is the verdict of the procedure. `--profile` chooses the codes that your mail server
understands. [The help of `stentor-call`](commands.md#the-program-stentor-call) has the table.
";

/// The page.
pub(crate) fn page() -> String {
    let mut out = String::from(INTRODUCTION);
    table(
        &mut out,
        &[
            (0, "The command did what it should.", ""),
            (
                EXIT_FAILED,
                "Something failed that has no code of its own. For `health`, `why` and `user \
                 test`: the answer is negative. For `retained verify` and `sessions verify`: \
                 something is lost.",
                "Read standard error.",
            ),
            (
                EXIT_USAGE,
                "The command line has a mistake.",
                "`stentor COMMAND --help` shows the options.",
            ),
            (
                EXIT_NO_ANSWER,
                "`health`, `why` and `user test`: there is no answer, for example because no \
                 server runs or the user is unknown.",
                "Read standard error.",
            ),
            (
                ServerExit::Configuration as u8,
                "`check-config` and commands that read a configuration: it has an error.",
                ServerExit::Configuration.remedy(),
            ),
        ],
    );
    out.push_str(SERVE);
    let codes = ServerExit::ALL.map(|exit| (exit as u8, exit.meaning(), exit.remedy()));
    table(&mut out, &codes);
    messages(&mut out);
    out.push_str("\n## `stentor bench`\n\n");
    table(
        &mut out,
        &[
            (
                0,
                "The measurement is sound. For `compare`: nothing became worse.",
                "",
            ),
            (
                EXIT_FAILED,
                "Messages were lost, came in the wrong order, or failed. For `compare`: something \
                 became worse.",
                "Read the report.",
            ),
            (
                EXIT_USAGE,
                "The generator of load was the limit, so the figures say little about the server.",
                "Use a smaller load, or more processors.",
            ),
            (
                EXIT_CANNOT_RUN,
                "The benchmark could not run, its command line has a mistake, or the program \
                 `stentor-bench` is not installed.",
                "Read standard error.",
            ),
        ],
    );
    out.push_str(CALL);
    out
}

/// What is special about commands that are MQTT clients.
fn messages(out: &mut String) {
    out.push_str(MESSAGES);
    for (code, meaning, remedy) in [
        (
            EXIT_TIMEOUT.to_string(),
            "The time of `-W` is over.",
            "Raise `-W`, or find out why nothing came: `stentor why`.",
        ),
        (
            "130, 143".to_owned(),
            "`SIGINT` or `SIGTERM` ended the command before it was done. A connected `sub` ends \
             with 0.",
            "",
        ),
        (
            "1 to 5".to_owned(),
            "The server refused the login, in MQTT 3.1 or 3.1.1.",
            "See the last column below.",
        ),
        (
            "16".to_owned(),
            "`send`: no client receives private messages under this name.",
            "Check the name, or try again when the user is connected.",
        ),
        (
            "128 to 162".to_owned(),
            "The server refused or ended something, in MQTT 5.",
            "See the first column below.",
        ),
    ] {
        let _ = writeln!(out, "| {code} | {meaning} | {remedy} |");
    }
    out.push_str(RETURN_CODES);
    for code in ReasonCode::ALL.iter().filter(|code| code.is_error()) {
        let login = code.connect_return_code();
        let _ = writeln!(
            out,
            "| {} (0x{:02X}) | {} | {login} |",
            *code as u8,
            *code as u8,
            code.name()
        );
    }
}

fn table(out: &mut String, rows: &[(u8, &str, &str)]) {
    out.push_str("| code | meaning | what to do |\n|---|---|---|\n");
    for (code, meaning, remedy) in rows {
        let _ = writeln!(out, "| {code} | {meaning} | {remedy} |");
    }
}
