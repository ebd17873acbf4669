//! `stentor import mosquitto`: takes over what mosquitto was configured with.

mod acl;
mod clash;
mod conf;
mod dynsec;
mod files;
mod fill;

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::{Ipv6Addr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use stentor_auth::model::{ANONYMOUS, PLACEHOLDERS, Role, Rule, User};
use stentor_auth::store::Imported;

use super::client::AccountsClient;
use super::{import, show};
use crate::failure::Failure;
use crate::which::Which;
use files::Files;

/// Takes over users, rights and settings of another server.
#[derive(Debug, Args)]
pub(crate) struct Import {
    #[command(subcommand)]
    command: From,
}

#[derive(Debug, Subcommand)]
enum From {
    /// Take over mosquitto.conf with its includes, password file, ACL file and dynamic security
    /// file
    #[command(after_help = HELP)]
    Mosquitto(Mosquitto),
}

const HELP: &str = "\
It writes a stentor.toml, users, roles and rules, and lists every line that it could not carry, with
the reason and what to do. Users keep their passwords. Relative paths in the file are taken as
mosquitto takes them: from the folder in which the command is run.

Examples:
  stentor import mosquitto /etc/mosquitto/mosquitto.conf --dry-run
  stentor import mosquitto /etc/mosquitto/mosquitto.conf --output stentor.toml";

#[derive(Debug, Args)]
struct Mosquitto {
    /// mosquitto's configuration file
    file: PathBuf,
    /// Show what the import would do, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The configuration file to write; it must not exist
    #[arg(long, short, value_name = "FILE", default_value = "stentor.toml")]
    output: PathBuf,
    /// Replace users and roles that exist
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    which: Which,
}

/// A line that says something.
#[derive(Clone, Debug)]
struct Line {
    file: String,
    number: usize,
    key: String,
    value: String,
    /// Whether it is UTF-8. What is not stands as U+FFFD in the value.
    is_text: bool,
}

/// Why a line that is not UTF-8 is not carried, and what to do.
const NO_TEXT: (&str, &str) = (
    "it is not valid UTF-8 (names and topics must be)",
    "save the file as UTF-8, and import it again",
);

/// What could not be carried.
#[derive(Debug, Serialize)]
struct Trouble {
    file: String,
    #[serde(rename = "line")]
    number: usize,
    text: String,
    reason: String,
    remedy: String,
}

impl Line {
    /// Whether its value means yes, as mosquitto reads it: the first word counts.
    fn is_true(&self) -> bool {
        matches!(self.value.split_whitespace().next(), Some("true" | "1"))
    }

    /// That this line could not be carried. What may be secret is not shown.
    fn trouble(&self, reason: &str, remedy: &str) -> Trouble {
        let is_secret = self.key.contains("password") || self.key.contains("psk");
        let text = match is_secret && self.key != "password_file" {
            true => format!("{} …", self.key),
            false => format!("{} {}", self.key, self.value),
        };
        Trouble {
            file: self.file.clone(),
            number: self.number,
            text,
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.number > 0 {
            write!(f, ":{}", self.number)?;
        }
        write!(f, ": {}\n    {}; {}", self.text, self.reason, self.remedy)
    }
}

/// Everything that will be written.
#[derive(Debug, Default)]
struct Plan {
    /// Whether this machine has IPv6: without an address, mosquitto listens on it as well.
    has_ipv6: bool,
    config: String,
    listeners: usize,
    /// Whether clients may log in by the name in their certificate.
    has_certificate_names: bool,
    roles: Vec<Role>,
    users: Vec<User>,
    troubles: Vec<Trouble>,
}

/// A topic of mosquitto as our pattern. Braces would be placeholders here.
fn literal(topic: &str) -> Result<String, String> {
    match PLACEHOLDERS.iter().find(|name| topic.contains(**name)) {
        Some(name) => Err(format!("{name} stands for a name in Stentor's rules")),
        None => Ok(topic.to_owned()),
    }
}

impl Import {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let From::Mosquitto(mosquitto) = self.command;
        mosquitto.run()
    }
}

impl Mosquitto {
    fn run(self) -> Result<(), Failure> {
        let plan = Plan::read(&self.file).map_err(Failure::new)?;
        let config = self.config(&plan);
        let mut accounts = self.which.open_with(&self.output, &config)?;
        let there = match self.replace {
            true => HashSet::new(),
            false => clash::check(&mut accounts, &plan)?,
        };
        if !self.dry_run {
            self.carry_out(&mut accounts, &config, &plan, &there)?;
        }
        let answer = json!({
            "config": plan.config,
            "listeners": plan.listeners,
            "users": plan.users.len(),
            "roles": plan.roles.iter().map(|role| &role.name).collect::<Vec<_>>(),
            "not_carried": plan.troubles,
            "written": !self.dry_run,
        });
        show(self.which.json, &answer, || {
            plan.text(self.dry_run, &self.output)
        })
    }

    /// Adds everything, and leaves a configuration only when that is done.
    fn carry_out(
        &self,
        accounts: &mut AccountsClient,
        config: &str,
        plan: &Plan,
        there: &HashSet<Arc<str>>,
    ) -> Result<(), Failure> {
        if self.output.symlink_metadata().is_ok() {
            return Err(self.exists());
        }
        let draft = Draft::of(&self.output);
        self.write(&draft.0, config)?;
        self.fill(accounts, plan, there).map_err(|failure| {
            failure.with_note(
                "no configuration is written, and what was added stays; correct the error, and \
                 start again with --replace",
            )
        })?;
        // A link takes no file's place, as a new name would.
        fs::hard_link(&draft.0, &self.output).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => self.exists(),
            _ => Failure::new(format!("cannot make {}: {error}", self.output.display())),
        })
    }

    fn exists(&self) -> Failure {
        Failure::new(format!(
            "{} exists; name another file with --output, or move it away",
            self.output.display()
        ))
    }

    /// The configuration file, which names the data folder that was filled.
    fn config(&self, plan: &Plan) -> String {
        let Some(folder) = self.which.data_dir() else {
            return plan.config.clone();
        };
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let folder = serde_json::Value::from(folder.to_string_lossy());
        format!("data_dir = {folder}\n{}", plan.config)
    }

    fn write(&self, path: &Path, config: &str) -> Result<(), Failure> {
        let shown = self.output.display();
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o640);
        let file = options.open(path);
        let mut file =
            file.map_err(|error| Failure::new(format!("cannot make {shown}: {error}")))?;
        file.write_all(config.as_bytes())
            .map_err(|error| Failure::new(format!("cannot write {shown}: {error}")))
    }

    fn fill(
        &self,
        accounts: &mut AccountsClient,
        plan: &Plan,
        there: &HashSet<Arc<str>>,
    ) -> Result<(), Failure> {
        let missing = |role: &&Role| !there.contains(&role.name);
        for role in plan.roles.iter().filter(missing) {
            fill::put(accounts, role, self.replace || *role.name == *ANONYMOUS)?;
        }
        let users = plan.users.iter().cloned().map(Imported::from).collect();
        import::send(accounts, users, self.replace).map(|_| ())
    }
}

/// A file beside another one, until it takes that one's name. It is gone with this.
struct Draft(PathBuf);

impl Draft {
    fn of(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        Self(name.into())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = fs::remove_file(&self.0);
    }
}

impl Plan {
    /// Reads everything that a configuration names.
    fn read(file: &Path) -> Result<Self, String> {
        let mut plan = Self {
            has_ipv6: UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok(),
            ..Self::default()
        };
        let elsewhere = conf::take(&conf::gather(file)?, &mut plan);
        if let Some(path) = &elsewhere.dynsec {
            let text = conf::read(path)?;
            dynsec::take(&path.to_string_lossy(), &text, &mut plan)
                .map_err(|reason| format!("{}: {reason}", path.display()))?;
        }
        let names_nobody = elsewhere.passwords.is_none() && elsewhere.dynsec.is_none();
        if let (true, Some(line)) = (names_nobody, &elsewhere.anybody) {
            plan.troubles.push(line.trouble(
                "without a password file, mosquitto accepts any name with any password; here a \
                 name has to be a user's",
                "add the users: stentor user add NAME; or let clients connect without a name",
            ));
        }
        let acl = match &elsewhere.acl {
            None => None,
            Some(path) => {
                let lines = conf::lines(&path.to_string_lossy(), conf::read_bytes(path)?);
                Some(acl::parse(&lines, &mut plan.troubles))
            }
        };
        let mut files = Files::new(&mut plan, acl, elsewhere.dynsec.is_some());
        if let Some(path) = &elsewhere.passwords {
            files.take_passwords(&path.to_string_lossy(), &conf::read_bytes(path)?);
        }
        files.add_nameless();
        plan.settle(&file.to_string_lossy());
        Ok(plan)
    }

    /// Reports something that could not be carried and belongs to no line.
    fn tell(&mut self, file: &str, text: String, reason: &str, remedy: &str) {
        self.troubles.push(Trouble {
            file: file.to_owned(),
            number: 0,
            text,
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        });
    }

    fn text(&self, dry_run: bool, output: &Path) -> String {
        let mut out = String::new();
        if dry_run {
            out += &format!("{} would be:\n\n{}\n", output.display(), self.config);
        }
        let done = if dry_run {
            "would be taken over"
        } else {
            "are taken over"
        };
        out += &format!(
            "users: {}, roles: {}, listeners: {}; they {done}\n",
            self.users.len(),
            self.roles.len(),
            self.listeners
        );
        if !self.troubles.is_empty() {
            out += "\nNot carried:\n";
        }
        for trouble in &self.troubles {
            out += &format!("  {trouble}\n");
        }
        if !dry_run {
            out += &format!("\nStart it: stentor serve --config {}\n", output.display());
        }
        out
    }
}

/// A role of all zones with these rules.
fn role(name: &str, rules: Vec<Rule>) -> Role {
    Role {
        zone: None,
        name: name.into(),
        rules,
        quotas: Default::default(),
    }
}

/// The role with the rules of one user.
fn of_user(name: &str) -> String {
    format!("mosquitto-{name}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stentor_auth::model::ADMIN;

    use super::*;

    #[test]
    fn a_line_that_is_no_utf8_is_listed_and_the_others_count() {
        let hash = "$7$101$f1WpsmZk6mFJBDkR$vR6MSCbbfF/JZVmzHGmIiFGgZmpiHZCzvGbM7hRbCpEvzRqjR\
                    XDQpQh7lKm3yXQGf0LL5WjDcsXU9LpvI9d8tQ==";
        let mut bytes = format!("ann:{hash}\r\n").into_bytes();
        bytes.extend(b"b\xff:x\n");
        bytes.extend(format!("cid:{hash}\n").as_bytes());
        let mut plan = Plan::default();
        Files::new(&mut plan, None, false).take_passwords("passwords", &bytes);
        let names: Vec<&str> = plan.users.iter().map(|user| &*user.name).collect();
        assert_eq!(names, ["ann", "cid"], "{:?}", plan.troubles);
        let told = plan.troubles.remove(0);
        assert!(
            told.number == 2 && told.reason.contains("UTF-8"),
            "{told:?}"
        );
        assert!(plan.troubles.is_empty());
    }

    /// Words of mosquitto's files, and anything.
    fn word() -> impl Strategy<Value = String> {
        const KNOWN: [&str; 34] = [
            "listener",
            "port",
            "1883",
            "99999999999",
            "protocol",
            "websockets",
            "connection",
            "allow_anonymous",
            "true",
            "max_packet_size",
            "max_connections",
            "-1",
            "persistent_client_expiration",
            "5y",
            "é",
            "password_file",
            "plugin",
            "user",
            "topic",
            "pattern",
            "read",
            "write",
            "deny",
            "readwrite",
            "a/#",
            "#",
            "+",
            "a/#/b",
            "%u",
            "%c/x",
            "{user}",
            "$SYS/#",
            "include_dir",
            "#comment",
        ];
        prop_oneof![
            4 => proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned),
            1 => any::<String>(),
        ]
    }

    fn file() -> impl Strategy<Value = String> {
        let line = proptest::collection::vec(word(), 0..5).prop_map(|words| words.join(" "));
        proptest::collection::vec(line, 0..20).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        /// Whatever the files hold, they are taken apart; what is taken is sound.
        #[test]
        fn files_of_anything_are_taken_apart(text in file()) {
            let lines = conf::lines("file", &text);
            let mut plan = Plan::default();
            conf::take(&lines, &mut plan);
            prop_assert!(plan.listeners > 0);
            let acl = acl::parse(&lines, &mut plan.troubles);
            Files::new(&mut plan, Some(acl), false).add_nameless();
            for role in &plan.roles {
                prop_assert!(role.check().is_ok(), "{role:?}");
            }
            for trouble in &plan.troubles {
                prop_assert!(!trouble.reason.is_empty() && !trouble.remedy.is_empty());
            }
        }

        #[test]
        fn dynamic_security_of_anything_is_taken_apart(
            names in proptest::collection::vec(word(), 6), allow in any::<bool>(), number: i64,
        ) {
            let [user, role, topic, kind, hash, salt] = &names[..] else {
                unreachable!("six names");
            };
            let kinds = ["publishClientSend", "publishClientReceive", "subscribeLiteral", kind];
            let acls = kinds.map(|kind| json!({
                "acltype": kind, "topic": topic, "priority": number, "allow": allow,
            }));
            let text = json!({
                "clients": [{
                    "username": user, "password": hash, "salt": salt, "iterations": 101,
                    "roles": [{ "rolename": role }],
                }],
                "groups": [{
                    "groupname": "g", "roles": [{ "rolename": role }],
                    "clients": [{ "username": user }],
                }],
                "roles": [{ "rolename": role, "acls": acls }],
                "anonymousGroup": "g",
            });
            let mut plan = Plan::default();
            prop_assert!(dynsec::take("file", &text.to_string(), &mut plan).is_ok());
            plan.settle("file");
            for user in &plan.users {
                prop_assert!(user.check().is_ok() && *user.name != *ADMIN, "{user:?}");
            }
            for rule in plan.roles.iter().flat_map(|role| &role.rules) {
                prop_assert!(rule.check().is_ok(), "{rule}");
            }
            // What is no JSON of the plugin is refused, not half taken.
            let _ = dynsec::take("file", topic, &mut plan);
        }
    }
}
