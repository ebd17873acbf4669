//! `stentor room`: the rooms of a zone.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use stentor_auth::counted;
use stentor_client::{Client, ClientError, Publication, QoS, ReasonCode, SubscribeOptions};
use stentor_zone::{check_name, topic};

use crate::ask::ask;
use crate::connect::{Connect, Plan};
use crate::failure::{self, Failure};
use crate::output;
use crate::subscribe::{Style, Watch};

/// What `--help` says.
pub(crate) const HELP: &str = "\
Examples:
  stentor room create -u alice tea --capacity 10
  stentor room join -u alice tea               print what happens there, until Ctrl-C
  stentor room say -u bob tea 'hello'
  stentor room ls
  stentor room kick tea bob                    as administrator of this machine's server";

/// Commands about rooms.
#[derive(Debug, Args)]
pub(crate) struct Room {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List rooms
    #[command(disable_help_flag = true, visible_alias = "list")]
    Ls(Ls),
    /// Show a room, its members and properties
    #[command(disable_help_flag = true)]
    Show(One),
    /// Make a room
    #[command(disable_help_flag = true, visible_aliases = ["add", "new"])]
    Create(Create),
    /// Join a room and print what happens there
    #[command(disable_help_flag = true)]
    Join(Join),
    /// Say something in a room, and join it for that if necessary
    #[command(disable_help_flag = true)]
    Say(Say),
    /// Remove a member from a room
    #[command(disable_help_flag = true)]
    Kick(Kick),
    /// Close a room. The lobby and rooms of the configuration lose their members, but stay
    #[command(disable_help_flag = true, visible_aliases = ["delete", "remove", "rm"])]
    Close(One),
}

#[derive(Debug, Args)]
struct Ls {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Args)]
struct One {
    /// The room
    room: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Args)]
struct Create {
    /// The room
    room: String,
    /// Highest number of members
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    capacity: Option<u32>,
    /// Number of messages that new members receive
    #[arg(long, value_name = "N", default_value_t = 0)]
    history: u32,
    /// Keep the room when it is empty; for administrators
    #[arg(long)]
    permanent: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Args)]
struct Join {
    /// The room
    room: String,
    #[command(flatten)]
    watch: Watch,
}

#[derive(Debug, Args)]
struct Say {
    /// The room
    room: String,
    /// What to say
    #[arg(allow_hyphen_values = true)]
    text: String,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Args)]
struct Kick {
    /// The room
    room: String,
    /// The member
    user: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Seconds that a command waits for its answer.
const PATIENCE_SECS: u64 = 30;

impl Room {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Ls(ls) => print(&ls.all()?, ls.json, list),
            Command::Show(one) => {
                let words = json!({ "room": checked(&one.room)? });
                print(&command(&one.connect, "info", &words)?, one.json, show)
            }
            Command::Create(create) => {
                let mut words = json!({
                    "room": checked(&create.room)?,
                    "permanent": create.permanent,
                });
                if create.history > 0 {
                    words["history"] = json!({ "count": create.history });
                }
                if let Some(capacity) = create.capacity {
                    words["capacity"] = capacity.into();
                }
                let result = command(&create.connect, "create", &words)?;
                print(&result, create.json, |_| String::new())
            }
            Command::Join(join) => {
                let filter = format!("$room/{}/#", checked(&join.room)?);
                join.watch.run_in_room(filter, Style::Topics)
            }
            Command::Say(say) => say.run(),
            Command::Kick(kick) => {
                let words = json!({ "room": checked(&kick.room)?, "user": kick.user });
                let result = command(&kick.connect, "kick", &words)?;
                print(&result, kick.json, |_| String::new())
            }
            Command::Close(one) => {
                let words = json!({ "room": checked(&one.room)? });
                let result = command(&one.connect, "close", &words)?;
                print(&result, one.json, |result| closed(&one.room, result))
            }
        }
    }
}

impl Ls {
    /// All parts of the list.
    fn all(&self) -> Result<Value, Failure> {
        let mut rooms = Vec::new();
        let mut words = json!({});
        loop {
            let mut part = command(&self.connect, "list", &words)?;
            if let Value::Array(some) = part["rooms"].take() {
                rooms.extend(some);
            }
            match part["next"].take() {
                Value::Null => break,
                next => words["after"] = next,
            }
        }
        Ok(json!({ "total": rooms.len(), "rooms": rooms }))
    }
}

impl Say {
    fn run(self) -> Result<(), Failure> {
        let plan = self.connect.plan()?;
        let to = topic::say(checked(&self.room)?);
        let mut client = plan.open()?;
        let message = Publication {
            qos: QoS::AtLeastOnce,
            ..Publication::new(&to, self.text.as_bytes())
        };
        let failed = |error: ClientError| Failure::client(&error, plan.version());
        // Administrators may send from outside. MQTT 3.x receives no refusal, so it always joins.
        let said = if plan.version().is_v5() {
            client.publish(&message).map(|_| true)
        } else {
            Ok(false)
        };
        match said {
            Ok(true) => {}
            Ok(false) => {
                join(&self.room, &plan, &mut client)?;
                client.publish(&message).map_err(failed)?;
            }
            Err(ClientError::Rejected {
                reason: ReasonCode::NotAuthorized,
                ..
            }) => {
                join(&self.room, &plan, &mut client)?;
                client.publish(&message).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        client.disconnect().map_err(failed)
    }
}

/// Enters a room, and receives nothing but its events.
pub(crate) fn join(room: &str, plan: &Plan, client: &mut Client) -> Result<(), Failure> {
    let failed = |error: ClientError| Failure::client(&error, plan.version());
    // The quietest place below the room.
    let filter = topic::event(room);
    let options = SubscribeOptions::default();
    let answers = client.subscribe(&[(filter.as_str(), options)]);
    let answers = answers.map_err(failed)?;
    if let Some(reason) = answers.iter().find(|reason| reason.is_error()) {
        let words = client.answer_text().unwrap_or_else(|| reason.name());
        let text = format!("room {room}: {words}");
        return Err(Failure::with_code(failure::code(*reason), text));
    }
    Ok(())
}

/// A room's name that can be one.
pub(crate) fn checked(room: &str) -> Result<&str, Failure> {
    match check_name(room) {
        Ok(()) => Ok(room),
        Err(error) => Err(Failure::usage(format!("room {room:?}: {error}"))),
    }
}

/// Runs a command of rooms; gives back its result.
fn command(connect: &Connect, name: &str, words: &Value) -> Result<Value, Failure> {
    let plan = connect.plan()?;
    let mut client = plan.open()?;
    let to = topic::call(&format!("room.{name}"));
    let payload = words.to_string();
    let properties = plan.properties.publish.clone();
    let body = payload.as_bytes();
    let answer = ask(&plan, &mut client, &to, body, properties, PATIENCE_SECS)?;
    let failed = |error: ClientError| Failure::client(&error, plan.version());
    client.disconnect().map_err(failed)?;
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    if answer["status"] == "done" {
        return Ok(answer["result"].clone());
    }
    let text = answer["text"]
        .as_str()
        .unwrap_or("the answer makes no sense");
    let failure = match answer["error"] == "unknown" {
        true => unknown(&plan, words, text, answer["part"].as_str()),
        false => Failure::new(text),
    };
    Err(failure.silenced(connect.quiet))
}

/// Says which room, or whom in it, the server does not know, and where to look.
fn unknown(plan: &Plan, words: &Value, text: &str, part: Option<&str>) -> Failure {
    let failure = match words["room"].as_str() {
        // The text names the room.
        _ if part == Some("room") => Failure::new(text),
        Some(room) => {
            let failure = Failure::new(format!("room {room}: {text}"));
            return failure.with_note(&format!("`stentor room show {room}` lists who is there"));
        }
        None => Failure::new(text),
    };
    match plan.zone() {
        Some(zone) => failure.with_note(&format!(
            "`stentor room ls --zone {zone}` lists the rooms of that zone"
        )),
        None if plan.is_in_first_zone() => failure.with_note(
            "`stentor room ls` lists the rooms of the default zone, and `--zone NAME` means another \
             zone",
        ),
        None => failure,
    }
}

fn print(result: &Value, json: bool, text: impl FnOnce(&Value) -> String) -> Result<(), Failure> {
    output::print(if json {
        format!("{result}\n")
    } else {
        text(result)
    })
}

/// One line per room.
fn list(result: &Value) -> String {
    let rooms = result["rooms"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let line = |room: &Value| {
        let members = room["members"].as_u64().unwrap_or_default();
        let members = match room["capacity"].as_u64() {
            None => counted(members, "member"),
            Some(capacity) => format!("{members} of {}", counted(capacity, "member")),
        };
        let locked = if room["locked"] == true {
            ", locked"
        } else {
            ""
        };
        let name = output::shown(room["room"].as_str().unwrap_or_default());
        format!("{name}: {members}{locked}\n")
    };
    rooms.iter().map(line).collect()
}

/// What closing a room has led to.
fn closed(room: &str, result: &Value) -> String {
    if result["stays"] == true {
        format!("{room} is emptied; it stays, since the zone always has it\n")
    } else {
        String::new()
    }
}

/// A room and who is in it.
fn show(result: &Value) -> String {
    let room = &result["room"];
    let members = result["members"].as_array().map(|members| {
        let names = members.iter().filter_map(Value::as_str);
        let names: Vec<String> = names.map(output::shown).collect();
        names.join(", ")
    });
    let members = members.unwrap_or_else(|| "shown only to users who may join".into());
    let owner = output::shown(room["owner"].as_str().unwrap_or("nobody"));
    let mut text = list(&json!({ "rooms": [room] }));
    text.push_str(&format!("owner: {owner}\nmembers: {members}\n"));
    if let Some(properties) = room["properties"].as_object() {
        let line = |(name, value): (&String, &Value)| {
            format!(
                "{} = {}\n",
                output::shown(name),
                output::shown(&value.to_string())
            )
        };
        text.extend(properties.iter().map(line));
    }
    text
}
