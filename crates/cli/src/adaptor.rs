//! `stentor adaptor`: makes, checks, tests and reloads the operator's own code.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use stentor_auth::counted;
use stentor_procedure::adaptor::{TEMPLATE, TEMPLATE_TEST, TYPES, check, test};

use crate::admin::now_secs;
use crate::admin::table::{Table, duration, plain};
use crate::failure::Failure;
use crate::output::print;
use crate::scripts::{self, Check, New, Template};
use crate::which::Which;

/// The file with type definitions for editors.
const TYPES_FILE: &str = "stentor.d.luau";

/// What a new adaptor is.
const TEMPLATES: Template = Template {
    command: "adaptor",
    what: "an adaptor",
    example: "greet",
    files: &[("luau", TEMPLATE), ("test.luau", TEMPLATE_TEST)],
};

/// What `--help` says.
pub(crate) const HELP: &str = "\
Examples:
  stentor adaptor new greet          # greet.luau, greet.test.luau, stentor.d.luau
  stentor adaptor check greet.luau
  stentor adaptor test greet.luau
  stentor adaptor reload             # the running server looks at its files now
  stentor adaptor reload greet.luau --fresh    # this one, without what it has kept

In the configuration:
  [[adaptor]]
  file = \"greet.luau\"
  zone = \"game\"";

/// Your own code in Luau that sees, changes and refuses what clients do.
#[derive(Debug, Args)]
pub(crate) struct Adaptor {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a new adaptor, its tests, and type definitions for editors
    #[command(visible_aliases = ["add", "create"])]
    New(New),
    /// Compile a file and run its own test, as the server does before it uses it
    Check(Check),
    /// Run the tests of a file
    Test {
        /// The file
        file: PathBuf,
        /// The tests [default: NAME.test.luau beside NAME.luau]
        tests: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the adaptors of the running server
    #[command(visible_alias = "list")]
    Ls {
        /// Only adaptors of this zone
        #[arg(long, value_name = "NAME")]
        zone: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Make the running server look at the files of its adaptors now
    Reload {
        /// The file, in all zones and rooms where it runs [default: all files]
        file: Option<PathBuf>,
        /// Do not keep the state of the running version, and do not call its `save`
        #[arg(long)]
        fresh: bool,
        /// Only adaptors of this zone
        #[arg(long, value_name = "NAME")]
        zone: Option<String>,
        #[command(flatten)]
        which: Which,
    },
}

impl Adaptor {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::New(new) => make(&new),
            Command::Check(Check { file, json }) => {
                let hooks = check(&file).map_err(Failure::new)?;
                let shown = file.display();
                print(&if json {
                    format!("{}\n", json!({ "file": shown.to_string(), "hooks": hooks }))
                } else {
                    format!("{shown}: good, with the hooks {}\n", hooks.join(", "))
                })
            }
            Command::Test { file, tests, json } => run_tests(&file, tests, json),
            Command::Ls { zone, which } => {
                let answer = which.ask(json!({ "verb": "adaptor.ls", "zone": zone }))?;
                let now_secs = now_secs();
                show(&which, &answer, |one| state(one, now_secs))
            }
            Command::Reload {
                file,
                fresh,
                zone,
                which,
            } => {
                // The server may be in another folder.
                let place = |file: PathBuf| file.canonicalize().unwrap_or(file);
                let file = file.map(|file| place(file).display().to_string());
                let request = json!({
                    "verb": "adaptor.reload", "fresh": fresh, "file": file, "zone": zone,
                });
                let answer = which.ask(request)?;
                let became = |one: &Value| match one["error"].as_str() {
                    Some(reason) => format!("not taken: {reason}"),
                    None if one["new"] == true => "new version".to_owned(),
                    None => "unchanged".to_owned(),
                };
                show(&which, &answer, became)?;
                let adaptors = answer["adaptors"].as_array();
                let failed =
                    adaptors.is_some_and(|all| all.iter().any(|one| !one["error"].is_null()));
                if failed {
                    let reason = "a file was not taken; the server goes on with what it has";
                    return Err(Failure::new(reason));
                }
                Ok(())
            }
        }
    }
}

/// The hooks of an adaptor, what went wrong with them, and what is wrong with its file on disk.
fn state(one: &Value, now_secs: u64) -> String {
    let figure = |key: &str, what: &str| match one[key].as_u64() {
        None | Some(0) => String::new(),
        Some(count) => format!(", {count} {what}"),
    };
    let wrong = [
        figure("failures", "failed"),
        figure("refused", "refused"),
        figure("suppressed_lines", "lines suppressed"),
    ];
    let runs = one["runs"].as_u64().unwrap_or(0);
    let refused = &one["file_refused"];
    let file = if refused.is_null() {
        String::new()
    } else {
        let since = refused["since"].as_u64().unwrap_or(now_secs);
        format!(
            "; runs an older version, the file on disk was refused {} ago: {}",
            duration(now_secs.saturating_sub(since)),
            plain(&refused["reason"])
        )
    };
    let hooks = plain(&one["hooks"]);
    format!("{hooks}; {runs} runs{}{file}", wrong.concat())
}

fn show(which: &Which, answer: &Value, last: impl Fn(&Value) -> String) -> Result<(), Failure> {
    if which.json {
        return print(format!("{answer}\n"));
    }
    let mut table = Table::new(&["FILE", "ZONE", "ROOM", ""]);
    for one in answer["adaptors"].as_array().into_iter().flatten() {
        table.row([
            plain(&one["file"]),
            plain(&one["zone"]),
            plain(&one["room"]),
            last(one),
        ]);
    }
    print(table.render())
}

fn make(new: &New) -> Result<(), Failure> {
    new.write(&TEMPLATES)?;
    if !new.dir.join(TYPES_FILE).exists() {
        scripts::write(&new.dir, TYPES_FILE, TYPES)?;
    }
    Ok(())
}

fn run_tests(file: &Path, tests: Option<PathBuf>, as_json: bool) -> Result<(), Failure> {
    let tests = tests.unwrap_or_else(|| file.with_extension("test.luau"));
    check(file).map_err(Failure::new)?;
    let outcomes = test(file, &tests).map_err(Failure::new)?;
    let failed = outcomes
        .iter()
        .filter(|(_, result)| result.is_err())
        .count();
    for (name, result) in &outcomes {
        let reason = result.as_ref().err();
        print(&if as_json {
            format!(
                "{}\n",
                json!({ "test": name, "ok": reason.is_none(), "error": reason })
            )
        } else {
            match reason {
                None => format!("ok      {name}\n"),
                Some(reason) => format!("FAILED  {name}\n        {reason}\n"),
            }
        })?;
    }
    if outcomes.is_empty() {
        return Err(Failure::new(format!("{} has no tests", tests.display())));
    }
    if failed > 0 {
        return Err(Failure::new(format!(
            "{failed} of {} failed",
            counted(outcomes.len() as u64, "test")
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_file_is_told_with_its_adaptor() {
        let mut one = json!({ "hooks": ["say"], "runs": 2, "failures": 1, "file_refused": null });
        assert_eq!(state(&one, 1_065), "say; 2 runs, 1 failed");
        one["file_refused"] = json!({ "since": 1_060, "reason": "a.luau:2: no end" });
        let told = "say; 2 runs, 1 failed; runs an older version, the file on disk was refused \
                    5s ago: a.luau:2: no end";
        assert_eq!(state(&one, 1_065), told);
    }
}
