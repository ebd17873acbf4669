//! `stentor role`, `grant` and `revoke`.

use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::Value;
use stentor_auth::model::{Quotas, Rule};
use stentor_auth::store::Order;

use super::login::Login;
use super::{ROLES, WHERE, show};
use crate::admin::table::{Table, plain};
use crate::failure::Failure;
use crate::which::Which;

/// Roles: what users may do. A role is a list of rules; deny wins, and what no rule allows is
/// denied.
#[derive(Debug, Args)]
#[command(after_help = format!("{ROLES}\n\n{WHERE}"))]
pub(crate) struct Role {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a role
    #[command(after_help = RULES, visible_aliases = ["create", "new"])]
    Add(Add),
    /// Add and remove rules of a role
    #[command(after_help = RULES)]
    Change(Change),
    /// List roles
    #[command(visible_alias = "ls")]
    List {
        /// Only roles that users of this zone can have: its own, and those of all zones
        #[arg(long, value_name = "NAME")]
        zone: Option<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Show a role with its rules
    Show(One),
    /// Delete a role
    #[command(visible_aliases = ["remove", "rm"])]
    Delete(Delete),
}

const RULES: &str = "\
A rule has three words: allow or deny; publish, subscribe or both; and a topic filter, in which
{user}, {client} and {zone} stand for the client that asks. `$#` stands for every topic that begins
with $.

Examples:
  stentor role add sensor --rule 'allow publish sensors/{user}/#'
  stentor role change member --add 'deny subscribe secret/#'";

#[derive(Debug, Args)]
struct Add {
    /// Name of the role
    name: String,
    /// A rule; can be repeated
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<Rule>,
    #[command(flatten)]
    quotas: QuotaFlags,
    /// Only for the users of this zone
    #[arg(long)]
    zone: Option<String>,
    /// Replace the role if it exists
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Change {
    /// Name of the role
    name: String,
    /// A rule to add; can be repeated
    #[arg(long, value_name = "RULE")]
    add: Vec<Rule>,
    /// A rule to remove; can be repeated
    #[arg(long, value_name = "RULE")]
    remove: Vec<Rule>,
    #[command(flatten)]
    quotas: QuotaFlags,
    /// A quota to remove; can be repeated. The other quotas stay
    #[arg(long, value_name = "QUOTA", value_parser = quota_names())]
    no_quota: Vec<String>,
    /// The role of this zone
    #[arg(long)]
    zone: Option<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct One {
    /// Name of the role
    name: String,
    /// The role of this zone
    #[arg(long)]
    zone: Option<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Delete {
    /// Name of the role
    name: String,
    /// The role of this zone
    #[arg(long)]
    zone: Option<String>,
    /// Take the role from all users who have it. Without it a role that a user has is not deleted
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    which: Which,
}

/// Bounds for whoever has the role; of several roles the largest counts.
#[derive(Debug, Args)]
struct QuotaFlags {
    /// Connections of a user at the same time
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
    /// Messages that one connection publishes per second
    #[arg(long, value_name = "N")]
    messages_per_sec: Option<u32>,
    /// Bytes that one connection publishes per second
    #[arg(long, value_name = "N")]
    bytes_per_sec: Option<u64>,
    /// Subscriptions of one session
    #[arg(long, value_name = "N")]
    subscriptions: Option<u32>,
    /// Bytes that wait for one session
    #[arg(long, value_name = "N")]
    queued_bytes: Option<u64>,
}

/// How the flags write the names of the quotas, in the order of [`Quotas::NAMES`].
const FLAGS: [&str; 5] = [
    "connections",
    "messages-per-sec",
    "bytes-per-sec",
    "subscriptions",
    "queued-bytes",
];

/// Names of quotas, as files write them or as flags do.
fn quota_names() -> impl TypedValueParser<Value = String> {
    let names = Quotas::NAMES.into_iter().zip(FLAGS);
    let names = names.map(|(name, flag)| PossibleValue::new(name).alias(flag));
    PossibleValuesParser::new(names).map(|name| name.replace('-', "_"))
}

impl QuotaFlags {
    fn quotas(&self) -> Quotas {
        Quotas {
            connections: self.connections,
            messages_per_sec: self.messages_per_sec,
            bytes_per_sec: self.bytes_per_sec,
            subscriptions: self.subscriptions,
            queued_bytes: self.queued_bytes,
        }
    }
}

impl Role {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Add(add) => {
                let order = Order::RoleAdd {
                    zone: add.zone.map(Arc::from),
                    name: add.name.into(),
                    rules: add.rules,
                    quotas: add.quotas.quotas(),
                    replace: add.replace,
                };
                show_role(&add.which, &order)
            }
            Command::Change(change) => {
                let order = Order::RoleChange {
                    zone: change.zone.map(Arc::from),
                    name: change.name.into(),
                    add: change.add,
                    remove: change.remove,
                    quotas: change.quotas.quotas(),
                    unbound: change.no_quota,
                };
                show_role(&change.which, &order)
            }
            Command::List { zone, which } => {
                let mut accounts = which.open()?;
                let mut answer = accounts.order(&Order::RoleList {})?;
                if let Some(zone) = &zone {
                    accounts.check_zone(zone)?;
                    only_of(&mut answer, zone);
                }
                show(which.json, &answer, || list_text(&answer))
            }
            Command::Show(one) => {
                let order = Order::RoleShow {
                    zone: one.zone.map(Arc::from),
                    name: one.name.into(),
                };
                show_role(&one.which, &order)
            }
            Command::Delete(delete) => {
                let order = Order::RoleDelete {
                    zone: delete.zone.map(Arc::from),
                    name: delete.name.as_str().into(),
                    force: delete.force,
                };
                let answer = delete.which.open()?.order(&order)?;
                show(delete.which.json, &answer, || {
                    deleted_text(&delete.name, &answer)
                })
            }
        }
    }
}

fn show_role(which: &Which, order: &Order) -> Result<(), Failure> {
    let role = which.open()?.order(order)?;
    show(which.json, &role, || role_text(&role))
}

fn role_text(role: &Value) -> String {
    let mut text = plain(&role["name"]);
    if !role["zone"].is_null() {
        text += &format!(", of zone {}", plain(&role["zone"]));
    }
    text.push('\n');
    for rule in role["rules"].as_array().into_iter().flatten() {
        text += &format!("  {}\n", plain(rule));
    }
    let quotas = role["quotas"].as_object().into_iter().flatten();
    for (name, value) in quotas {
        text += &format!("  at most {} {}\n", plain(value), name.replace('_', " "));
    }
    text
}

fn deleted_text(name: &str, answer: &Value) -> String {
    let mut text = match answer["taken_from"].as_u64() {
        None | Some(0) => format!("{name} is deleted\n"),
        Some(users) => format!("{name} is deleted, and taken from users: {users}\n"),
    };
    if let Some(note) = answer["note"].as_str() {
        text += &format!("note: {note}\n");
    }
    text
}

/// Leaves the roles that users of a zone can have: of two with one name, the zone's own.
fn only_of(answer: &mut Value, zone: &str) {
    let Some(roles) = answer["roles"].as_array_mut() else {
        return;
    };
    let own = roles.iter().filter(|role| role["zone"] == zone);
    let own: Vec<Value> = own.map(|role| role["name"].clone()).collect();
    roles.retain(|role| match role["zone"].is_null() {
        true => !own.contains(&role["name"]),
        false => role["zone"] == zone,
    });
}

fn list_text(answer: &Value) -> String {
    let mut table = Table::new(&["ROLE", "ZONE", "RULES"]);
    for role in answer["roles"].as_array().into_iter().flatten() {
        let rules = role["rules"].as_array().map_or(0, Vec::len);
        table.row([
            plain(&role["name"]),
            plain(&role["zone"]),
            rules.to_string(),
        ]);
    }
    table.render()
}

/// Gives roles to a user, at once also to its connections.
#[derive(Debug, Args)]
#[command(after_help = WHERE)]
pub(crate) struct Grant {
    #[command(flatten)]
    login: Login,
    /// Roles
    #[arg(required = true)]
    roles: Vec<String>,
    #[command(flatten)]
    which: Which,
}

/// Takes roles from a user, at once also from its connections.
#[derive(Debug, Args)]
#[command(after_help = WHERE)]
pub(crate) struct Revoke {
    #[command(flatten)]
    login: Login,
    /// Roles
    #[arg(required = true)]
    roles: Vec<String>,
    #[command(flatten)]
    which: Which,
}

/// Names as orders carry them.
fn names(given: &[String]) -> Vec<Arc<str>> {
    given.iter().map(|name| Arc::from(name.as_str())).collect()
}

impl Grant {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (name, roles) = (self.login.full()?, names(&self.roles));
        show_roles(&self.which, &Order::Grant { name, roles })
    }
}

impl Revoke {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (name, roles) = (self.login.full()?, names(&self.roles));
        show_roles(&self.which, &Order::Revoke { name, roles })
    }
}

fn show_roles(which: &Which, order: &Order) -> Result<(), Failure> {
    let user = which.open()?.order(order)?;
    show(which.json, &user, || {
        let (login, roles) = (plain(&user["login"]), plain(&user["roles"]));
        match roles.as_str() {
            "" => format!("{login} has no roles now, and may do nothing\n"),
            _ => format!("{login} has these roles now: {roles}\n"),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_zone_has_its_own_roles_and_those_of_all() {
        let role = |name: &str, zone: Option<&str>| json!({ "name": name, "zone": zone });
        let all = [
            role("admin", None),
            role("member", None),
            role("member", Some("game")),
            role("seller", Some("shop")),
        ];
        let mut answer = json!({ "roles": all });
        only_of(&mut answer, "game");
        assert_eq!(answer["roles"], json!([all[0], all[2]]));
    }
}
