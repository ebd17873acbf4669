//! `stentor token`.

use clap::{Args, Subcommand};
use serde_json::Value;
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
    #[command(visible_alias = "add")]
    Create(Create),
    /// List the tokens of a user
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        login: Login,
        #[command(flatten)]
        which: Which,
    },
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

impl Token {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Create(create) => create.run(),
            Command::List { login, which } => {
                let name = login.full()?;
                let answer = which.open()?.order(&Order::TokenList { name })?;
                show(which.json, &answer, || list_text(&answer))
            }
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

fn list_text(answer: &Value) -> String {
    let mut table = Table::new(&["TOKEN", "LABEL", "CREATED", "EXPIRES"]);
    for token in answer["tokens"].as_array().into_iter().flatten() {
        table.row([
            plain(&token["id"]),
            plain(&token["label"]),
            plain(&token["created_at"]),
            plain(&token["expires_at"]),
        ]);
    }
    table.render()
}
