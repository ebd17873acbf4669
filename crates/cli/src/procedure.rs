//! `stentor procedure`: makes, checks and tests procedures without a server, and lists those of a
//! running one.

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use stentor_auth::counted;
use stentor_control::procedures::{self, Counts, List, Reloaded};
use stentor_procedure::{
    Answer, Blind, Call, Caller, Change, Content, Envelope, Format, Kind, Lack, MESSAGE, Message,
    Outcome, Procedure as StoredProcedure, Registry, SCRIPT, Settings,
};

use crate::admin::table::Table;
use crate::failure::Failure;
use crate::output::{print, shown};
use crate::scripts::{Check, New, Template};
use crate::which::Which;

/// What a new procedure is.
const TEMPLATES: Template = Template {
    command: "procedure",
    what: "a procedure",
    example: "lotteries",
    files: &[("luau", SCRIPT), ("eml", MESSAGE)],
};

/// What `--help` says.
pub(crate) const HELP: &str = "\
Examples:
  stentor procedure new lotteries         # lotteries.luau, lotteries.eml
  stentor procedure check lotteries.luau
  stentor procedure test lotteries.luau lotteries.eml --from ann@example.org
  stentor procedure test lotteries.luau mail.eml --expect accept
  stentor procedure ls            # those of the running server, and what is wrong with a file
  stentor procedure reload        # the running server looks at its files now

A server loads the files of its folder (`stentor serve --procedures DIR`) within a second, and
`stentor call NAME -f mail.eml` asks it.";

/// Named functions that are asked about a message: a file each, in Luau or as a .toml.
#[derive(Debug, Args)]
pub(crate) struct Procedure {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a new script, and a message to test it with
    #[command(visible_aliases = ["add", "create"])]
    New(New),
    /// Check the manifest and what the script uses by it, compile it and run its own test
    Check(Check),
    /// Check a file, and ask it about a message
    Test(Box<Test>),
    /// List the procedures of the running server
    #[command(visible_alias = "list")]
    Ls {
        #[command(flatten)]
        which: Which,
    },
    /// Make the running server look at the files of its procedures now, and say what is in use
    Reload {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Args)]
struct Test {
    /// The file
    file: PathBuf,
    /// A message as mail servers have it (.eml). Without it only the test of the script runs
    message: Option<PathBuf>,
    /// Sender of the envelope
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Recipient of the envelope; can be repeated
    #[arg(long, value_name = "ADDRESS")]
    rcpt: Vec<String>,
    /// Address of the SMTP client
    #[arg(long, value_name = "ADDRESS")]
    client: Option<String>,
    /// Name in the HELO of the SMTP client
    #[arg(long, value_name = "NAME")]
    helo: Option<String>,
    /// User name of the SMTP client
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Argument of the procedure; can be repeated
    #[arg(short = 'a', long, value_name = "NAME=VALUE", value_parser = crate::call::argument)]
    argument: Vec<(String, String)>,
    /// Fail if the verdict is another one
    #[arg(long, value_name = "VERDICT", value_parser = verdicts())]
    expect: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn verdicts() -> PossibleValuesParser {
    PossibleValuesParser::new(stentor_procedure::Verdict::ALL.iter().map(|one| one.name()))
}

impl Procedure {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::New(new) => new.write(&TEMPLATES),
            Command::Check(Check { file, json }) => check(&file, json),
            Command::Test(test) => test.run(),
            Command::Ls { which } => {
                let told = which.tell(&procedures::Ls {})?;
                told.print(list_text)
            }
            Command::Reload { which } => {
                let told = which.tell(&procedures::Reload {})?;
                told.print(reload_text)?;
                let mut all = told.answer.procedures.iter();
                match all.any(|one| !one.problem.is_empty()) {
                    true => Err(Failure::new(
                        "a file was not taken; the server goes on with what it has",
                    )),
                    false => Ok(()),
                }
            }
        }
    }
}

/// Of a procedure with `mode = "observe"`.
const ONLY_LOGGED: &str = "its verdicts are only logged";

/// What the server does instead of using a file that it refused; `None` if it uses the file.
fn refused(kind: &str, problem: &str) -> Option<String> {
    match (problem, kind == "none") {
        ("", _) => None,
        (problem, true) => Some(format!("not loaded: {problem}")),
        (problem, false) => Some(format!("an older version is in use: {problem}")),
    }
}

/// Which version of each file the server uses after it has looked at all of them.
fn reload_text(answer: &Reloaded) -> String {
    let mut table = Table::new(&["PROCEDURE", "VERSION", ""]);
    for one in &answer.procedures {
        let state = refused(&one.kind, &one.problem).unwrap_or_else(|| {
            let since = if one.new { ", new" } else { "" };
            let how = match one.observe {
                true => format!("; {ONLY_LOGGED}"),
                false => String::new(),
            };
            format!("in use{since}{how}")
        });
        table.row([shown(&one.procedure), shown(&one.version), shown(&state)]);
    }
    for name in &answer.removed {
        table.row([shown(name), String::new(), "removed".to_owned()]);
    }
    if table.is_empty() {
        let folder = shown(&answer.folder);
        return format!("{folder} has no file of a procedure\n");
    }
    table.render()
}

/// Each procedure with how its calls went, and what is wrong with its file.
fn list_text(answer: &List) -> String {
    let heads = [
        "PROCEDURE",
        "KIND",
        "VERSION",
        "CALLS",
        "ACCEPTED",
        "REFUSED",
        "OTHER",
        "FAILED",
        "",
    ];
    let mut table = Table::new(&heads);
    for one in &answer.procedures {
        let sum = |list: &Counts, is_meant: fn(&str) -> bool| -> String {
            let meant = list.iter().filter(|(word, _)| is_meant(word));
            let sum: u64 = meant.map(|(_, count)| count).sum();
            sum.to_string()
        };
        let observed: u64 = one.observed.iter().map(|(_, count)| count).sum();
        let state = refused(&one.kind, &one.problem);
        let state = state.unwrap_or_else(|| match (one.observe, observed) {
            (true, _) => ONLY_LOGGED.to_owned(),
            (false, 0) => String::new(),
            (false, verdicts) => format!("{} only logged", counted(verdicts, "verdict")),
        });
        let kind = match &*one.kind {
            "builtin" => "built in",
            "none" | "" => "-",
            kind => kind,
        };
        table.row([
            shown(&one.procedure),
            kind.into(),
            shown(&one.version),
            one.calls.to_string(),
            sum(&one.verdicts, is_accepted),
            sum(&one.verdicts, is_refused),
            sum(&one.verdicts, |verdict| {
                !is_accepted(verdict) && !is_refused(verdict)
            }),
            sum(&one.errors, |_| true),
            shown(&state),
        ]);
    }
    table.render()
}

/// Whether a message goes on after this verdict.
fn is_accepted(verdict: &str) -> bool {
    matches!(verdict, "accept" | "modified")
}

/// Whether the mail server refuses the message, for now or for good.
fn is_refused(verdict: &str) -> bool {
    matches!(verdict, "reject" | "tempfail")
}

/// Procedures without a server: what they keep is forgotten.
fn registry() -> Result<Registry, Failure> {
    let settings = Settings {
        forgets: true,
        ..Settings::default()
    };
    let (registry, _) = Registry::open(settings).map_err(Failure::new)?;
    Ok(registry)
}

fn check(file: &Path, as_json: bool) -> Result<(), Failure> {
    let procedure = registry()?.load_file(file).map_err(Failure::new)?;
    let manifest = procedure.manifest();
    let needs = manifest.needs.name();
    let grants: Vec<&str> = manifest.grants.iter().map(|grant| grant.name()).collect();
    let warnings = unsaid(&procedure, file)?;
    let note = of_clients(&procedure);
    let (kind, shown) = (manifest.kind.name(), file.display().to_string());
    print(&if as_json {
        let told = json!({
            "file": shown,
            "procedure": procedure.name(),
            "kind": kind,
            "version": manifest.version,
            "needs": needs,
            "grants": grants,
            "warnings": warnings,
            "note": note,
        });
        format!("{told}\n")
    } else {
        let grants = match grants.as_slice() {
            [] => "no grants".to_owned(),
            some => format!("the grants {}", some.join(", ")),
        };
        let (name, version) = (procedure.name(), &manifest.version);
        let warnings: String = warnings
            .iter()
            .map(|one| format!("warning: {one}\n"))
            .collect();
        let note = note.map_or_else(String::new, |note| format!("note: {note}\n"));
        format!(
            "{shown}: good: /{name}, version {version}, of kind {kind}, sees {needs}, has \
             {grants}\n{warnings}{note}"
        )
    })
}

/// What a procedure still needs that connected clients serve.
fn of_clients(procedure: &StoredProcedure) -> Option<String> {
    let Kind::Client(zone) = &procedure.manifest().kind else {
        return None;
    };
    let name = procedure.name();
    Some(format!(
        "a client of the zone {zone} has to serve it: it subscribes to $serve/{name}/+ while the \
         server runs"
    ))
}

/// What a script may use without its manifest saying so, as warnings.
///
/// # Errors
/// When it uses something for certain.
fn unsaid(procedure: &StoredProcedure, file: &Path) -> Result<Vec<String>, Failure> {
    let kinds = [
        missing_grants(procedure, file),
        missing_needs(procedure, file),
    ];
    let mut warnings = Vec::new();
    let mut errors = Vec::new();
    for kind in kinds {
        match kind {
            Ok(told) => warnings.extend(told),
            Err(told) => errors.extend(told),
        }
    }
    match errors.as_slice() {
        [] => Ok(warnings),
        _ => Err(Failure::new(errors.join("\n"))),
    }
}

/// What a script asks of its call without having said that it needs it: as warnings, or as errors
/// if it is certain.
fn missing_needs(procedure: &StoredProcedure, file: &Path) -> Result<Vec<String>, Vec<String>> {
    let found = procedure.blind();
    let is_certain = found.iter().any(|one| one.is_certain);
    let (uses, hint) = match is_certain {
        true => ("uses", ""),
        false => ("may use", "if it is to, "),
    };
    let file = file.display();
    let mut told = Vec::from_iter(found.iter().map(|Blind { line, what, .. }| {
        format!(
            "{file}:{line}: the script {uses} `{what}`, which needs more than its manifest says"
        )
    }));
    if let Some(last) = told.last_mut() {
        *last += &format!("; {hint}{}", procedure.remedy_of_blind(&found));
    }
    if is_certain { Err(told) } else { Ok(told) }
}

/// What a script uses without a grant: as warnings, or as errors if it is certain.
fn missing_grants(procedure: &StoredProcedure, file: &Path) -> Result<Vec<String>, Vec<String>> {
    let lacks = procedure.lacks();
    let (certain, perhaps): (Vec<Lack>, Vec<Lack>) =
        lacks.into_iter().partition(|lack| lack.is_certain);
    let file = file.display();
    let told = |lacks: &[Lack], uses: &str, hint: &str| -> Vec<String> {
        let mut told = Vec::from_iter(lacks.iter().map(|Lack { line, grant, .. }| {
            let module = grant.name();
            format!("{file}:{line}: the script {uses} `{module}`, which is not granted")
        }));
        if let Some(last) = told.last_mut() {
            *last += &format!("; {hint}{}", procedure.remedy(lacks));
        }
        told
    };
    if certain.is_empty() {
        return Ok(told(&perhaps, "may use", "if it is to, "));
    }
    Err(told(&certain, "uses", ""))
}

impl Test {
    fn run(self) -> Result<(), Failure> {
        let registry = registry()?;
        let procedure = registry.load_file(&self.file).map_err(Failure::new)?;
        let Some(path) = &self.message else {
            if self.expect.is_some() {
                return Err(Failure::usage("--expect is about a message: give its file"));
            }
            let shown = self.file.display();
            return print(match self.json {
                true => format!("{}\n", json!({ "file": shown.to_string(), "ok": true })),
                false => format!("ok      {shown}: it can be loaded, and its own test passes\n"),
            });
        };
        let bytes = std::fs::read(path).map_err(|error| {
            Failure::new(format!(
                "cannot read the message {}: {error}",
                path.display()
            ))
        })?;
        let size = bytes.len() as u64;
        let message = Message::new(Content::Bytes(bytes), size, Format::Message);
        let (message, _) = message.map_err(|error| {
            Failure::new(format!("{} is not a message: {error}", path.display()))
        })?;
        let call = self.call(&procedure, message);
        let (send, receive) = channel();
        registry.run(&procedure, call, move |answer, _| {
            // It is received below.
            let _ = send.send(answer);
        });
        let answer = receive.recv();
        let answer = answer.map_err(|_| Failure::new("the procedure gave no answer"))?;
        self.tell(&answer)
    }

    /// The call of a user who may make it.
    fn call(&self, procedure: &StoredProcedure, message: Message) -> Call {
        let users = procedure.manifest().allow_users.as_deref();
        let user = users
            .and_then(<[String]>::first)
            .map_or("test", String::as_str);
        let (zone, name) = user.split_once('/').unwrap_or(("default", user));
        Call {
            procedure: procedure.name().to_owned(),
            arguments: self.argument.clone(),
            envelope: Envelope {
                from: self.from.clone(),
                recipients: self.rcpt.clone(),
                client: self.client.clone(),
                helo: self.helo.clone(),
                user: self.user.clone(),
                ..Envelope::default()
            },
            caller: Caller::User {
                zone: zone.to_owned(),
                name: name.to_owned(),
            },
            message,
            deadline: Instant::now() + procedure.deadline() + Duration::from_secs(1),
            can_edit: true,
            is_clients: false,
            outlet: None,
        }
    }

    /// Says what became of it.
    fn tell(&self, answer: &Answer) -> Result<(), Failure> {
        let Some(outcome) = &answer.outcome else {
            let (status, reason) = (answer.status.name(), &answer.reason);
            return Err(Failure::new(format!("{status}: {reason}")));
        };
        let verdict = outcome.verdict.name();
        let is_expected = self
            .expect
            .as_deref()
            .is_none_or(|expected| expected == verdict);
        print(match self.json {
            true => format!("{}\n", as_json(outcome, is_expected)),
            false => text(outcome),
        })?;
        match (&self.expect, is_expected) {
            (Some(expected), false) => Err(Failure::new(format!(
                "the verdict is {verdict}, not {expected}"
            ))),
            _ => Ok(()),
        }
    }
}

fn as_json(outcome: &Outcome, is_expected: bool) -> Value {
    json!({
        "verdict": outcome.verdict.name(),
        "text": outcome.text,
        "code": (outcome.reply_code != 0).then_some(outcome.reply_code),
        "changes": outcome.changes.iter().map(change).collect::<Vec<_>>(),
        "ok": is_expected,
    })
}

/// The verdict, its text, and what becomes of the message.
fn text(outcome: &Outcome) -> String {
    let code = match outcome.reply_code {
        0 => String::new(),
        code => format!("{code} "),
    };
    let said = format!("{code}{}", outcome.text);
    let mut text = match said.trim() {
        "" => format!("{}\n", outcome.verdict.name()),
        said => format!("{}: {said}\n", outcome.verdict.name()),
    };
    for one in &outcome.changes {
        text += &format!("  {}\n", change(one));
    }
    if !outcome.result.is_empty() {
        let bytes = counted(outcome.result.len() as u64, "byte");
        text += &format!("  {bytes} for the caller\n");
    }
    text
}

/// One change of the message, in words.
fn change(change: &Change) -> String {
    let at = change.offset;
    let added = String::from_utf8_lossy(&change.inserted);
    let added = added.trim_end();
    match (change.deleted, added) {
        (0, added) => format!("at byte {at}: adds {added:?}"),
        (deleted, "") => format!("at byte {at}: removes {}", counted(deleted, "byte")),
        (deleted, added) => {
            let deleted = counted(deleted, "byte");
            format!("at byte {at}: replaces {deleted} by {added:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_is_wrong_with_a_file() {
        let one = |name: &str, kind: &str, problem: &str| {
            json!({
                "procedure": name, "kind": kind, "version": "", "calls": 3, "observe": false,
                "errors": [["failed", 1], ["timed-out", 1]], "problem": problem,
                "verdicts": [
                    ["accept", 10], ["modified", 1], ["reject", 20], ["tempfail", 2],
                    ["discard", 30],
                ],
            })
        };
        let mut all = [
            one("a", "luau", ""),
            one("b", "luau", "b.luau:2: no end"),
            one("c", "none", "c.luau:1: what"),
            one("noop", "builtin", ""),
        ];
        all[0]["observed"] = json!([["reject", 2], ["accept", 1]]);
        let all = json!({ "procedures": all });
        let text = list_text(&serde_json::from_value(all).unwrap());
        for told in [
            "CALLS  ACCEPTED  REFUSED  OTHER  FAILED",
            "a          luau               3      11        22       30     2       3 verdicts only logged\n",
            "an older version is in use: b.luau:2: no end",
            "not loaded: c.luau:1: what",
            "noop       built in",
        ] {
            assert!(text.contains(told), "{told:?} is missing: {text}");
        }
    }

    #[test]
    fn a_reload_says_which_version_of_each_file_is_in_use() {
        let one = |name: &str, kind: &str, new: bool, problem: &str| {
            json!({
                "procedure": name, "kind": kind, "version": "1", "observe": name == "b",
                "new": new, "problem": problem,
            })
        };
        let all = [
            one("a", "luau", true, ""),
            one("b", "luau", false, ""),
            one("c", "luau", false, "c.luau:2: no end"),
            one("d", "none", false, "d.luau:1: what"),
        ];
        let all = json!({ "procedures": all, "removed": ["e"] });
        let text = reload_text(&serde_json::from_value(all).unwrap());
        let told = "\
PROCEDURE  VERSION
a          1        in use, new
b          1        in use; its verdicts are only logged
c          1        an older version is in use: c.luau:2: no end
d          1        not loaded: d.luau:1: what
e                   removed
";
        assert_eq!(text, told);
        let empty = Reloaded {
            folder: "/etc/p".into(),
            ..Reloaded::default()
        };
        assert_eq!(reload_text(&empty), "/etc/p has no file of a procedure\n");
    }
}
