//! Commands for users, roles, tokens and zones: of the running server, or of its data folder while
//! none runs.

mod client;
mod export;
mod import;
mod login;
mod mosquitto;
mod role;
mod secret;
mod token;
mod user;
mod zone;

use serde_json::Value;

use crate::failure::Failure;
use crate::output::print;

pub(crate) use mosquitto::Import;
pub(crate) use role::{Grant, Revoke, Role};
pub(crate) use secret::hash;
pub(crate) use token::Token;
pub(crate) use user::User;
pub(crate) use zone::{Auth, Zone, zone_figures};

/// What `--help` says below each of these commands.
const WHERE: &str = "\
The command talks to the server that runs on the data folder. If no server runs, it opens the
database itself. --config FILE names the server's configuration, --data-dir DIR its data folder.";

/// What `--help` says below commands about users, and below those about roles.
const ROLES: &str = "\
Roles of users:
  stentor grant USER ROLE      give a role to a user
  stentor revoke USER ROLE     take a role from a user";

/// Prints an answer for programs or for people.
fn show(json: bool, answer: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
    print(if json { format!("{answer}\n") } else { text() })
}
