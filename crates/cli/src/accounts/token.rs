//! `stentor token`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use stentor_auth::credential::Token as Secret;
use stentor_auth::store::Order;

use super::login::Login;
use super::secret::dated;
use super::user::done;
use super::{WHERE, show};
use crate::admin::table::{Table, plain};
use crate::failure::Failure;
use crate::which::Which;

/// Tokens: passwords for machines, which are shown once.
#[derive(Debug, Args)]
#[command(after_help = WHERE)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a token for a user and print it once. A client uses it as its password, and needs no
    /// user name then
    #[command(visible_aliases = ["add", "new"])]
    Create(Create),
    /// List the tokens of a user, or of all users
    #[command(visible_alias = "ls")]
    List(List),
    /// Take a token away
    #[command(visible_aliases = ["delete", "remove", "rm"])]
    Revoke {
        #[command(flatten)]
        login: Login,
        /// Id of the token, as the list shows it, or its label
        id: String,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Args)]
struct Create {
    #[command(flatten)]
    login: Login,
    /// What the token is for
    #[arg(long, default_value = "")]
    label: String,
    /// Days until the token expires [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: Option<u32>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct List {
    /// Login name: NAME or ZONE/NAME; not given, all users
    name: Option<String>,
    /// Zone of the user, if its name does not say it; without a name, only users of this zone
    #[arg(long, value_name = "NAME")]
    zone: Option<String>,
    #[command(flatten)]
    which: Which,
}

impl Token {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Create(create) => create.run(),
            Command::List(list) => list.run(),
            Command::Revoke { login, id, which } => {
                let order = Order::TokenRevoke {
                    name: login.full()?,
                    id: id.clone(),
                };
                done(&which, order, &id, "is revoked")
            }
        }
    }
}

impl Create {
    fn run(self) -> Result<(), Failure> {
        let name = self.login.full()?;
        let token = Secret::generate_for(&name)
            .map_err(|error| Failure::new(format!("cannot make a token: {error}")))?;
        let mut credential = dated(&token.hash().to_string());
        credential.label = self.label.as_str().into();
        let days = self.days.map(|days| u64::from(days) * 86_400);
        credential.expires_at_secs = days.map(|secs| credential.created_at_secs + secs);
        let order = Order::TokenCreate { name, credential };
        let mut answer = self.which.open()?.order(&order)?;
        answer["token"] = token.reveal().into();
        show(self.which.json, &answer, || format!("{}\n", token.reveal()))
    }
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let mut accounts = self.which.open()?;
        let Some(name) = self.name else {
            let mut tokens = Vec::new();
            accounts.each_page(self.zone.as_deref(), |page| {
                tokens.extend(tokens_of(page));
            })?;
            let answer = json!({ "tokens": tokens });
            return show(self.which.json, &answer, || list_text(&answer, &["user"]));
        };
        let name = Login::new(name, self.zone).full()?;
        let answer = accounts.order(&Order::TokenList { name })?;
        show(self.which.json, &answer, || list_text(&answer, &[]))
    }
}

/// The tokens of the users of a page, each with its user.
fn tokens_of(page: &Value) -> Vec<Value> {
    let lists = ["configured", "users"].map(|list| page[list].as_array());
    let mut tokens = Vec::new();
    for user in lists.into_iter().flatten().flatten() {
        let credentials = user["credentials"].as_array().into_iter().flatten();
        // What else users prove themselves by has no id.
        for token in credentials.filter(|one| !one["id"].is_null()) {
            let mut token = token.clone();
            token["user"] = user["login"].clone();
            tokens.push(token);
        }
    }
    tokens
}

/// A table of tokens, with these columns before the usual ones.
fn list_text(answer: &Value, more: &[&str]) -> String {
    let usual = ["id", "label", "created_at", "expires_at"];
    let keys = more.iter().chain(&usual);
    let heads = keys.clone().map(|key| match *key {
        "user" => "USER",
        "id" => "TOKEN",
        "label" => "LABEL",
        "created_at" => "CREATED",
        _ => "EXPIRES",
    });
    let mut table = Table::new(&heads.collect::<Vec<_>>());
    for token in answer["tokens"].as_array().into_iter().flatten() {
        table.cells(keys.clone().map(|key| plain(&token[*key])).collect());
    }
    table.render()
}
