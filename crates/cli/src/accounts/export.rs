//! `stentor user export`: all users in one file.

use std::path::Path;

use serde_json::json;
use stentor_auth::credential::Stored;
use stentor_auth::model::{Credential, User};
use stentor_auth::store::Order;

use super::client::AccountsClient;
use super::import::{in_words, quoted};
use super::user::Format;
use crate::failure::Failure;
use crate::output::Pieces;

/// Names of the columns.
pub(super) const HEAD: &str = "zone,name,credential,roles,disabled\n";

/// Writes all users, page by page. A file is made when the first of them are there.
pub(super) fn export(
    accounts: &mut AccountsClient,
    format: Format,
    zone: Option<&str>,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let (mut users, mut next) = page(accounts, zone, None)?;
    let mut out = match file {
        Some(path) => Pieces::private_file(path)?,
        None => Pieces::standard(),
    };
    if format == Format::Csv {
        out.put(HEAD)?;
    }
    let mut first = true;
    loop {
        for user in &users {
            let text = match format {
                Format::Csv => csv_line(user),
                Format::Json => {
                    let start = if first { "[" } else { "," };
                    format!("{start}\n{}", json!(user))
                }
            };
            first = false;
            out.put(&text)?;
        }
        if next.is_none() {
            break;
        }
        (users, next) = page(accounts, zone, next)?;
    }
    if format == Format::Json {
        out.put(if first { "[]\n" } else { "\n]\n" })?;
    }
    out.end()
}

/// Some users, and after whom the next ones come.
fn page(
    accounts: &mut AccountsClient,
    zone: Option<&str>,
    after: Option<String>,
) -> Result<(Vec<User>, Option<String>), Failure> {
    let order = Order::UserExport {
        zone: zone.map(str::to_owned),
        after,
        limit: None,
    };
    let answer = accounts.order(&order)?;
    let users = serde_json::from_value(answer["users"].clone())
        .map_err(|error| Failure::new(format!("the answer makes no sense: {error}")))?;
    Ok((users, answer["next"].as_str().map(str::to_owned)))
}

/// A user as a line. There is no room for the labels and ends of tokens, so they are left out:
/// without its end, a token would hold for ever.
pub(super) fn csv_line(user: &User) -> String {
    let stay = |one: &&Credential| {
        let is_token = matches!(Stored::parse(&one.text), Ok(Stored::Token(_)));
        !is_token && one.expires_at_secs.is_none()
    };
    let texts: Vec<&str> = user
        .credentials
        .iter()
        .filter(stay)
        .map(|one| &*one.text)
        .collect();
    let (texts, roles) = (texts.join(" "), in_words(&user.roles));
    let fields = [&*user.zone, &*user.name, &texts, &roles];
    let fields: Vec<String> = fields.into_iter().map(quoted).collect();
    format!("{},{}\n", fields.join(","), user.disabled)
}
