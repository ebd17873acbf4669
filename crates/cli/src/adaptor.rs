//! `stentor adaptor`: makes, checks, tests and reloads the operator's own code.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use stentor_auth::counted;
use stentor_control::ZoneWord;
use stentor_control::adaptors::{self, Adaptor as Shown, Became};
use stentor_procedure::adaptor::{Builtin, Source, TEMPLATE, TEMPLATE_TEST, TYPES, check, test};

use crate::admin::now_secs;
use crate::admin::table::{Table, duration, maybe};
use crate::failure::Failure;
use crate::output::{print, shown};
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
  stentor adaptor new chess --from turns       # the rules of rooms with turns, to be changed
  stentor adaptor check greet.luau
  stentor adaptor test greet.luau
  stentor adaptor reload             # the running server looks at its files now
  stentor adaptor reload greet.luau --fresh    # this one, without what it has kept

In the configuration:
  [[adaptor]]
  file = \"greet.luau\"               # or builtin = \"turns\"
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
    New(NewAdaptor),
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

#[derive(Debug, Args)]
struct NewAdaptor {
    #[command(flatten)]
    new: New,
    /// Begin with an adaptor that comes with the server, such as turns
    #[arg(long, value_name = "BUILTIN")]
    from: Option<String>,
}

impl Adaptor {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::New(NewAdaptor { new, from }) => make(&new, from.as_deref()),
            Command::Check(Check { file, json }) => {
                let hooks = source(&file).and_then(|source| check(&source));
                let hooks = hooks.map_err(Failure::new)?;
                let shown = file.display();
                print(&if json {
                    format!("{}\n", json!({ "file": shown.to_string(), "hooks": hooks }))
                } else {
                    format!("{shown}: good, with the hooks {}\n", hooks.join(", "))
                })
            }
            Command::Test { file, tests, json } => run_tests(&file, tests, json),
            Command::Ls { zone, which } => {
                let told = which.tell(&adaptors::Ls {
                    zone: zone.map(ZoneWord::Name),
                })?;
                let now_secs = now_secs();
                told.print(|answer| {
                    let all = answer.adaptors.iter();
                    list(all.map(|one| (one, state(one, now_secs))))
                })
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
                let told = which.tell(&adaptors::Reload {
                    fresh,
                    file,
                    zone: zone.map(ZoneWord::Name),
                })?;
                let became = |one: &Became| match &one.error {
                    Some(reason) => format!("not taken: {}", shown(reason)),
                    None if one.new == Some(true) => "new version".to_owned(),
                    None => "unchanged".to_owned(),
                };
                told.print(|answer| {
                    let all = answer.adaptors.iter();
                    list(all.map(|one| (&one.adaptor, became(one))))
                })?;
                let mut all = told.answer.adaptors.iter();
                let failed = all.any(|one| one.error.is_some());
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
fn state(one: &Shown, now_secs: u64) -> String {
    let figure = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let wrong = [
        figure(one.failures, "failed"),
        figure(one.refused, "refused"),
        figure(one.suppressed_lines, "lines suppressed"),
    ];
    let runs = one.runs;
    let file = one.file_refused.as_ref().map_or_else(String::new, |file| {
        format!(
            "; runs an older version, the file on disk was refused {} ago: {}",
            duration(now_secs.saturating_sub(file.since)),
            shown(&file.reason)
        )
    });
    let hooks = shown(&one.hooks.join(", "));
    format!("{hooks}; {runs} runs{}{file}", wrong.concat())
}

/// Adaptors, with something that is said of each.
fn list<'a>(all: impl Iterator<Item = (&'a Shown, String)>) -> String {
    let mut table = Table::new(&["FILE", "ZONE", "ROOM", ""]);
    for (one, last) in all {
        let (zone, room) = (one.zone.as_deref(), one.room.as_deref());
        table.row([shown(&one.file), maybe(zone), maybe(room), last]);
    }
    table.render()
}

fn make(new: &New, from: Option<&str>) -> Result<(), Failure> {
    match from {
        Some(name) => {
            let Builtin { text, tests, .. } = Builtin::named(name).map_err(Failure::new)?;
            new.write_files(&TEMPLATES, &[("luau", text), ("test.luau", tests)])?;
        }
        None => new.write(&TEMPLATES)?,
    }
    if !new.dir.join(TYPES_FILE).exists() {
        scripts::write(&new.dir, TYPES_FILE, TYPES)?;
    }
    Ok(())
}

/// A file, or `builtin:NAME` as `stentor adaptor ls` shows one that comes with the server.
fn source(file: &Path) -> Result<Source, String> {
    let builtin = file.to_str().and_then(|text| text.strip_prefix("builtin:"));
    builtin.map_or_else(
        || Ok(Source::File(file.to_owned())),
        |name| Builtin::named(name).map(Source::Builtin),
    )
}

fn run_tests(file: &Path, tests: Option<PathBuf>, as_json: bool) -> Result<(), Failure> {
    if let Source::Builtin(builtin) = source(file).map_err(Failure::new)? {
        let text = format!(
            "builtin:{0} is tested with the server; to test rules of your own, write them to a \
             file with `stentor adaptor new NAME --from {0}`",
            builtin.name
        );
        return Err(Failure::usage(text));
    }
    let tests = tests.unwrap_or_else(|| file.with_extension("test.luau"));
    check(&Source::File(file.to_owned())).map_err(Failure::new)?;
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
    use stentor_control::adaptors::Refused;

    use super::*;

    #[test]
    fn a_refused_file_is_told_with_its_adaptor() {
        let mut one = Shown {
            hooks: vec!["say".into()],
            runs: 2,
            failures: 1,
            ..Shown::default()
        };
        assert_eq!(state(&one, 1_065), "say; 2 runs, 1 failed");
        one.file_refused = Some(Refused {
            since: 1_060,
            reason: "a.luau:2: no end".into(),
        });
        let told = "say; 2 runs, 1 failed; runs an older version, the file on disk was refused \
                    5s ago: a.luau:2: no end";
        assert_eq!(state(&one, 1_065), told);
    }
}
