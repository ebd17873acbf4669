//! `stentor user`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;
use stentor_auth::model::{Action, GUEST};
use stentor_auth::store::Order;

use super::export::export;
use super::import::Import;
use super::login::Login;
use super::secret::Password;
use super::{ROLES, WHERE, show};
use crate::admin::table::{Table, lines, plain};
use crate::failure::{EXIT_NO_ANSWER, Failure};
use crate::output::shown;
use crate::which::Which;

/// Users: who may log in.
#[derive(Debug, Args)]
#[command(after_help = format!("{ROLES}\n\n{WHERE}"))]
pub(crate) struct User {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a user who can then log in
    #[command(visible_aliases = ["create", "new"])]
    Add(Add),
    /// List users: those of the configuration, then those of the database
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a user, without anything secret
    Show(One),
    /// Give a user another password
    SetPassword(SetPassword),
    /// Disable a user, and end its connections
    Disable(One),
    /// Let a user log in again
    Enable(One),
    /// Delete a user, and end its connections
    #[command(visible_aliases = ["remove", "rm"])]
    Delete(One),
    /// Answer whether a user may publish or subscribe to a topic, with the rule that decides
    #[command(after_help = TEST)]
    Test(Test),
    /// Add many users from a CSV or JSON file
    Import(Import),
    /// Write all users to a file or standard output; as CSV without their tokens
    Export(Export),
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    login: Login,
    #[command(flatten)]
    password: Password,
    /// A role of the user; can be repeated [default: member]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Store no password: the user logs in with a token or a certificate
    #[arg(long, conflicts_with_all = ["password_file", "credential_file", "scram"])]
    no_password: bool,
    /// Add the user as disabled: it cannot log in
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct SetPassword {
    #[command(flatten)]
    login: Login,
    #[command(flatten)]
    password: Password,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct One {
    #[command(flatten)]
    login: Login,
    #[command(flatten)]
    which: Which,
}

const TEST: &str = "\
Examples:
  stentor user test alice publish sensors/attic
  stentor user test alice subscribe 'sensors/#'

Exit codes:
  0   allowed, at least for a part of the filter
  1   not allowed
  2   the command line has a mistake
  3   there is no answer, for example because the user is unknown; standard error says why
  78  the configuration has an error";

#[derive(Debug, Args)]
struct Test {
    #[command(flatten)]
    login: Login,
    /// What to do with the topic
    #[arg(value_enum)]
    action: Question,
    /// The topic, or the filter of a subscription
    topic: String,
    /// Client id for rules with {client}
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// What `test` asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Question {
    /// Publishing to a topic
    Publish,
    /// Subscribing to a filter
    Subscribe,
}

#[derive(Debug, Args)]
struct List {
    /// Only names that contain this
    containing: Option<String>,
    /// Only users of this zone
    #[arg(long)]
    zone: Option<String>,
    /// Show up to N
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    /// Only names after this login name
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// The form of a file with users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines with columns, the first one with their names
    Csv,
    /// A list of objects
    Json,
}

impl Format {
    /// What the ending of a file's name says.
    pub(super) fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
struct Export {
    /// The file; only its owner can read it [default: standard output]
    #[arg(conflicts_with = "output")]
    file: Option<PathBuf>,
    /// Format [default: from the name of the file or --json, else csv]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Only users of this zone
    #[arg(long)]
    zone: Option<String>,
    /// The file as well
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

impl User {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Add(add) => add.run(),
            Command::List(list) => list.run(),
            Command::Show(one) => {
                let name = one.login.full()?;
                let answer = one.which.open()?.order(&Order::UserShow { name })?;
                show(one.which.json, &answer, || user_text(&answer))
            }
            Command::SetPassword(command) => command.run(),
            Command::Disable(one) => one.done(|name| Order::UserDisable { name }, "is disabled"),
            Command::Enable(one) => one.done(|name| Order::UserEnable { name }, "is enabled"),
            Command::Delete(one) => one.done(|name| Order::UserDelete { name }, "is deleted"),
            Command::Test(test) => test.run(),
            Command::Import(import) => import.run(),
            Command::Export(export) => export.run(),
        }
    }
}

/// Carries out an order that has little to show.
pub(super) fn done(which: &Which, order: Order, name: &str, what: &str) -> Result<(), Failure> {
    let answer = which.open()?.order(&order)?;
    show(which.json, &answer, || format!("{name} {what}\n"))
}

impl One {
    fn done(self, order: impl FnOnce(String) -> Order, what: &str) -> Result<(), Failure> {
        let name = self.login.full()?;
        done(&self.which, order(name.clone()), &name, what)
    }
}

impl Add {
    fn run(self) -> Result<(), Failure> {
        let name = self.login.full()?;
        // Nobody types a password for a configuration that is wrong.
        let config = self.which.load()?;
        let given = match self.no_password {
            true => None,
            false => Some(self.password.read()?),
        };
        let mut accounts = Which::open_config(config)?;
        let credentials = match given {
            None => Vec::new(),
            Some(given) => accounts.maker(self.password.scram)?.credentials(given)?,
        };
        let roles = self.roles.iter().map(|role| Arc::from(role.as_str()));
        let order = Order::UserAdd {
            name: name.clone(),
            credentials,
            roles: (!self.roles.is_empty()).then(|| roles.collect()),
            disabled: self.disabled,
        };
        let answer = accounts.order(&order)?;
        show(self.which.json, &answer, || {
            format!(
                "{name} is added, with the role {}\n",
                plain(&answer["roles"])
            )
        })?;
        if is_guests(&name) {
            eprintln!(
                "stentor: where the [[zone]] has `guests = true`, a client that logs in as {name} \
                 without a password is a guest; this user needs its password, token or certificate"
            );
        }
        Ok(())
    }
}

/// Whether a login name is the one by which guests come in, where the zone has guests.
fn is_guests(login: &str) -> bool {
    let name = login.split_once('/').map_or(login, |(_, name)| name);
    name == GUEST
}

impl Export {
    fn run(self) -> Result<(), Failure> {
        let file = self.file.or(self.output);
        let ending = file.as_deref().and_then(Format::of);
        let otherwise = match self.which.json {
            true => Format::Json,
            false => Format::Csv,
        };
        let format = self.format.or(ending).unwrap_or(otherwise);
        let mut accounts = self.which.open()?;
        export(&mut accounts, format, self.zone.as_deref(), file.as_deref())
    }
}

impl Test {
    fn run(self) -> Result<(), Failure> {
        let (action, verb) = match self.action {
            Question::Publish => (Action::Publish, "publish"),
            Question::Subscribe => (Action::Subscribe, "subscribe to"),
        };
        let name = self.login.full()?;
        let order = Order::UserTest {
            name: name.clone(),
            action,
            topic: self.topic.clone(),
            client_id: self.client_id,
        };
        let ask = || self.which.open()?.order(&order);
        let answer = ask().map_err(|failure| failure.not_an_answer(EXIT_NO_ANSWER))?;
        let is_allowed = answer["allowed"] == true;
        show(self.which.json, &answer, || {
            let word = if is_allowed { "may" } else { "may not" };
            let reason = plain(&answer["reason"]);
            format!("{name} {word} {verb} {}: {reason}\n", self.topic)
        })?;
        match is_allowed {
            true => Ok(()),
            false => Err(Failure::answered_no()),
        }
    }
}

impl SetPassword {
    fn run(self) -> Result<(), Failure> {
        let name = self.login.full()?;
        let config = self.which.load()?;
        let given = self.password.read()?;
        let mut accounts = Which::open_config(config)?;
        let mut maker = accounts.maker(self.password.scram)?;
        let user = accounts.order(&Order::UserShow { name: name.clone() })?;
        let credentials = user["credentials"].as_array().into_iter().flatten();
        maker.keep(credentials.filter_map(|one| one["kind"].as_str()));
        let credentials = maker.credentials(given)?;
        let order = Order::UserSetPassword {
            name: name.clone(),
            credentials,
        };
        let answer = accounts.order(&order)?;
        show(self.which.json, &answer, || {
            format!("{name} has a new password\n")
        })
    }
}

/// Users that an answer has at most.
const AT_ONCE: usize = 10_000;

/// How many users of the user database a list has.
fn rows(list: &Value) -> usize {
    list["users"].as_array().map_or(0, Vec::len)
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let mut accounts = self.which.open()?;
        let mut answer = accounts.order(&self.page(0, self.after.clone()))?;
        while let (listed, Some(next)) = (rows(&answer), answer["next"].as_str())
            && listed < self.limit
        {
            let mut page = accounts.order(&self.page(listed, Some(next.to_owned())))?;
            if let (Value::Array(users), Value::Array(more)) =
                (&mut answer["users"], page["users"].take())
            {
                users.extend(more);
            }
            answer["next"] = page["next"].take();
        }
        show(self.which.json, &answer, || list_text(&answer))
    }

    /// The order for the page behind this number of users.
    fn page(&self, listed: usize, after: Option<String>) -> Order {
        Order::UserList {
            zone: self.zone.clone(),
            containing: self.containing.clone().unwrap_or_default(),
            after,
            limit: Some((self.limit - listed).min(AT_ONCE)),
        }
    }
}

/// What a user proves itself by, for people: mosquitto's hashes have numbers for names.
fn proof(kind: &Value) -> String {
    match kind.as_str() {
        Some("6") => "sha512 (mosquitto)".to_owned(),
        Some("7") => "sha512-pbkdf2 (mosquitto)".to_owned(),
        _ => plain(kind),
    }
}

/// A user, in words.
fn user_text(user: &Value) -> String {
    let roles = match user["roles"].as_array() {
        Some(roles) if !roles.is_empty() => plain(&user["roles"]),
        _ => "none: it may do nothing".to_owned(),
    };
    let state = match user["disabled"] == true {
        true => "disabled: it cannot log in",
        false => "it may log in",
    };
    let mut rows = vec![
        ("user", plain(&user["login"])),
        ("zone", plain(&user["zone"])),
        ("roles", roles),
        ("state", state.to_owned()),
    ];
    let credentials = user["credentials"].as_array().into_iter().flatten();
    let before = rows.len();
    rows.extend(credentials.map(credential_text));
    if rows.len() == before {
        rows.push((
            "password",
            "none: it logs in with a token or a certificate".into(),
        ));
    }
    if let Some(by) = user["kept_by"].as_str() {
        rows.push(("kept by", by.to_owned()));
    }
    lines(&rows)
}

/// A password or a token, and its times.
fn credential_text(one: &Value) -> (&'static str, String) {
    let day = |key: &str| {
        one[key]
            .as_str()
            .map(|time| time[..time.len().min(10)].to_owned())
    };
    let mut parts = Vec::new();
    let what = match one["id"].is_null() {
        true => {
            parts.push(format!("hashed with {}", proof(&one["kind"])));
            "password"
        }
        false => {
            parts.extend(
                one["label"]
                    .as_str()
                    .map(|label| format!("`{}`", shown(label))),
            );
            parts.push(format!("id {}", plain(&one["id"])));
            "token"
        }
    };
    parts.extend(day("created_at").map(|day| format!("made on {day}")));
    parts.extend(day("expires_at").map(|day| format!("ends on {day}")));
    (what, parts.join(", "))
}

fn list_text(answer: &Value) -> String {
    let mut table = Table::new(&["USER", "ROLES", "CREDENTIALS", "STATE", "KEPT BY"]);
    let lists = ["configured", "users"].map(|list| answer[list].as_array());
    for user in lists.into_iter().flatten().flatten() {
        let kinds = user["credentials"].as_array().into_iter().flatten();
        let kinds: Vec<String> = kinds.map(|one| proof(&one["kind"])).collect();
        let state = if user["disabled"] == true {
            "disabled"
        } else {
            ""
        };
        table.row([
            plain(&user["login"]),
            plain(&user["roles"]),
            kinds.join(", "),
            state.to_owned(),
            user["kept_by"].as_str().unwrap_or_default().to_owned(),
        ]);
    }
    let mut text = table.render();
    if let Some(next) = answer["next"].as_str() {
        let total = plain(&answer["total"]);
        text += &format!("… of {total}; --after {next} shows the next ones\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_user_is_told_in_words() {
        let mut user = json!({
            "login": "game/ann", "zone": "game", "name": "ann", "roles": ["member"],
            "disabled": false,
            "credentials": [
                { "kind": "argon2id", "created_at": "2026-11-21T08:15:30Z" },
                {
                    "kind": "token", "id": "x1", "label": "attic",
                    "created_at": "2026-11-22T08:15:30Z", "expires_at": "2027-11-22T08:15:30Z",
                },
            ],
        });
        let text = "user      game/ann\n\
                    zone      game\n\
                    roles     member\n\
                    state     it may log in\n\
                    password  hashed with argon2id, made on 2026-11-21\n\
                    token     `attic`, id x1, made on 2026-11-22, ends on 2027-11-22\n";
        assert_eq!(user_text(&user), text);
        user["credentials"] = json!([]);
        user["roles"] = json!([]);
        user["disabled"] = true.into();
        user["kept_by"] = "the configuration".into();
        let text = user_text(&user);
        for line in [
            "roles     none: it may do nothing\n",
            "state     disabled: it cannot log in\n",
            "password  none: it logs in with a token or a certificate\n",
            "kept by   the configuration\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
