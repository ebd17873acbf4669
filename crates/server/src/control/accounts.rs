//! `users.…`, `roles.…`, `tokens.…` and `zones.…`: the orders of the Auth Center for those who send
//! passwords and not hashes. The threads that hash passwords of logins make the hashes, and tokens
//! are made here. What is too long is refused before anything looks at it.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde::de::DeserializeOwned;
use stentor_auth::center::PASSWORD_BYTES_MAX;
use stentor_auth::credential::made::{MECHANISMS, dated, of_password};
use stentor_auth::credential::{MakeError, Sha, Token};
use stentor_auth::model::{Credential, NAME_BYTES_MAX, ROLE_RULES_MAX, Rule, USER_ROLES_MAX};
use stentor_auth::store::{Order, Who};
use stentor_control::{Request as _, Secret, Verb, roles, tokens, users, zones};
use zeroize::Zeroizing;

use super::protocol::{Answer, Failure, answer as respond};
use super::{Admin, lock};

/// How long somebody waits for the hash of a password: logins that came before go first.
const HASH_TIME: Duration = Duration::from_secs(20);

/// Days that a token may last.
const DAYS_MAX: u32 = 36_500;

/// Seconds of a day.
const DAY_SECS: u64 = 86_400;

/// What a verb about users, roles, tokens or zones answers.
pub(super) fn answer(admin: &Admin, verb: Verb, line: &[u8], who: &Who) -> Answer {
    let books = Books { admin, who };
    match verb {
        Verb::UsersLs => respond(line, |request| books.users(request)),
        Verb::UsersShow => respond(line, |request: users::Show| {
            let name = login(&request.name, request.zone.as_deref())?;
            books.order(Order::UserShow { name })
        }),
        Verb::UsersAdd => respond(line, |request| books.add_user(request)),
        Verb::UsersSetPassword => respond(line, |request| books.set_password(&request)),
        Verb::UsersDisable => respond(line, |request: users::Disable| {
            let name = login(&request.name, request.zone.as_deref())?;
            books.order(Order::UserDisable { name })
        }),
        Verb::UsersEnable => respond(line, |request: users::Enable| {
            let name = login(&request.name, request.zone.as_deref())?;
            books.order(Order::UserEnable { name })
        }),
        Verb::UsersRm => respond(line, |request: users::Rm| {
            let name = login(&request.name, request.zone.as_deref())?;
            books.order(Order::UserDelete { name })
        }),
        Verb::UsersGrant => respond(line, |request: users::Grant| {
            let name = login(&request.name, request.zone.as_deref())?;
            let roles = role_names(&request.roles)?;
            books.order(Order::Grant { name, roles })
        }),
        Verb::UsersRevoke => respond(line, |request: users::Revoke| {
            let name = login(&request.name, request.zone.as_deref())?;
            let roles = role_names(&request.roles)?;
            books.order(Order::Revoke { name, roles })
        }),
        Verb::TokensLs => respond(line, |request: tokens::Ls| {
            let name = login(&request.name, request.zone.as_deref())?;
            books.order(Order::TokenList { name })
        }),
        Verb::TokensCreate => respond(line, |request| books.create_token(&request)),
        Verb::TokensRevoke => respond(line, |request: tokens::Revoke| {
            let name = login(&request.name, request.zone.as_deref())?;
            let id = short("id", &request.id)?.to_owned();
            books.order(Order::TokenRevoke { name, id })
        }),
        _ => of_roles_and_zones(&books, verb, line),
    }
}

/// Gives a user another password, in every form in which it was stored. `made` hears each hash
/// before it counts.
///
/// # Errors
/// When the password cannot be one, or the user database refuses it.
pub(super) fn set_password(
    admin: &Admin,
    who: &Who,
    login: &str,
    password: &Secret,
    made: &dyn Fn(&Arc<str>),
) -> Result<(), Failure> {
    let books = Books { admin, who };
    books
        .renew_password(login.to_owned(), password, &[], made)
        .map(drop)
}

fn of_roles_and_zones(books: &Books<'_>, verb: Verb, line: &[u8]) -> Answer {
    match verb {
        Verb::RolesLs => respond(line, |request| books.roles(&request)),
        Verb::RolesShow => respond(line, |request| books.role(&request)),
        Verb::RolesAdd => respond(line, |request: roles::Add| {
            books.order(Order::RoleAdd {
                zone: zone(request.zone.as_deref())?,
                name: short("name", &request.name)?.into(),
                rules: rules(&request.rules)?,
                quotas: quotas(request.quotas),
                replace: request.replace,
            })
        }),
        Verb::RolesChange => respond(line, |request: roles::Change| {
            let unbound = request.unbound.iter();
            let unbound = unbound.map(|name| short("unbound", name).map(str::to_owned));
            books.order(Order::RoleChange {
                zone: zone(request.zone.as_deref())?,
                name: short("name", &request.name)?.into(),
                add: rules(&request.add)?,
                remove: rules(&request.remove)?,
                quotas: quotas(request.quotas),
                unbound: unbound.collect::<Result<_, Failure>>()?,
            })
        }),
        Verb::RolesRm => respond(line, |request: roles::Rm| {
            books.order(Order::RoleDelete {
                zone: zone(request.zone.as_deref())?,
                name: short("name", &request.name)?.into(),
                force: request.force,
            })
        }),
        Verb::ZonesLs => respond(line, |_: zones::Ls| books.order(Order::ZoneList {})),
        Verb::ZonesAdd => respond(line, |request: zones::Add| {
            let name = short("name", &request.name)?.into();
            let connections = request.connections;
            books.order(Order::ZoneAdd { name, connections })
        }),
        Verb::ZonesRm => respond(line, |request: zones::Rm| {
            let name = short("name", &request.name)?.into();
            books.order(Order::ZoneRemove { name })
        }),
        _ => {
            let message = format!("nothing does {}: this is a bug of the server", verb.name());
            Err(Failure::new("unavailable", message))
        }
    }
}

/// The Auth Center, with the name of the caller for the audit log.
struct Books<'a> {
    admin: &'a Admin,
    who: &'a Who,
}

impl Books<'_> {
    /// Has an order carried out.
    fn order<T: DeserializeOwned>(&self, order: Order) -> Result<T, Failure> {
        let answer = self.admin.give(order, self.who)?;
        serde_json::from_value(answer).map_err(|error| {
            let message = format!("the answer has another form: {error}; this is a bug");
            Failure::new("unavailable", message)
        })
    }

    fn users(&self, request: users::Ls) -> Result<users::Page, Failure> {
        let limit = users::Ls::VERB.wanted(request.limit)?;
        for text in [Some(&request.containing), request.after.as_ref()] {
            login(text.map_or("", String::as_str), None)?;
        }
        self.order(Order::UserList {
            zone: zone(request.zone.as_deref())?.map(|zone| zone.to_string()),
            containing: request.containing,
            after: request.after,
            limit: Some(limit),
        })
    }

    fn add_user(&self, request: users::Add) -> Result<users::User, Failure> {
        let name = login(&request.name, request.zone.as_deref())?;
        let roles = request.roles.as_deref().map(role_names).transpose()?;
        let credentials = match &request.password {
            None if request.scram => {
                let message = "scram needs a password to be made from; give one, or leave it out";
                return Err(Failure::new("bad-request", message).about("scram"));
            }
            None => Vec::new(),
            Some(password) => {
                let mechanisms: &[Sha] = if request.scram { &MECHANISMS } else { &[] };
                self.hash(password, mechanisms)?
            }
        };
        self.order(Order::UserAdd {
            name,
            credentials,
            roles,
            disabled: request.disabled,
        })
    }

    fn set_password(&self, request: &users::SetPassword) -> Result<users::User, Failure> {
        let name = login(&request.name, request.zone.as_deref())?;
        let mechanisms: &[Sha] = if request.scram { &MECHANISMS } else { &[] };
        self.renew_password(name, &request.password, mechanisms, &|_| {})
    }

    /// A user who logs in by SCRAM still does with another password, and by these mechanisms too.
    fn renew_password(
        &self,
        name: String,
        password: &Secret,
        more: &[Sha],
        made: &dyn Fn(&Arc<str>),
    ) -> Result<users::User, Failure> {
        check(password)?;
        let user: users::User = self.order(Order::UserShow { name: name.clone() })?;
        let kinds = user.credentials.iter();
        let has = |sha: &Sha| {
            let of = |one: &users::Credential| Sha::of_mechanism(&one.kind);
            kinds.clone().filter_map(of).any(|one| one == *sha)
        };
        let mechanisms = MECHANISMS.into_iter();
        let mechanisms = mechanisms.filter(|sha| more.contains(sha) || has(sha));
        let mechanisms: Vec<Sha> = mechanisms.collect();
        let credentials = self.hash(password, &mechanisms)?;
        for credential in &credentials {
            made(&credential.text);
        }
        self.order(Order::UserSetPassword { name, credentials })
    }

    /// What is stored of a password. It is made where passwords of logins are hashed, in their
    /// turn and within their bounds.
    fn hash(&self, password: &Secret, mechanisms: &[Sha]) -> Result<Vec<Credential>, Failure> {
        check(password)?;
        let cost = lock(&self.admin.notes).password_hash.cost();
        let password = Zeroizing::new(password.reveal().as_bytes().to_vec());
        let mechanisms = mechanisms.to_vec();
        let (sender, made) = channel();
        let job = move || {
            // The asker may have given up, or has an answer already.
            let _ = sender.send(of_password(&password, cost, &mechanisms));
        };
        let busy = || {
            let message = "too many logins wait for the hash of a password; try again later";
            Failure::new("busy", message)
        };
        if !self.admin.context.authenticator.hash(Arc::new(job)) {
            return Err(busy());
        }
        match made.recv_timeout(HASH_TIME) {
            Ok(made) => made.map_err(not_made),
            Err(RecvTimeoutError::Timeout) => Err(busy()),
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the password could not be hashed; the log of the server has more";
                Err(Failure::new("unavailable", message))
            }
        }
    }

    fn create_token(&self, request: &tokens::Create) -> Result<tokens::Created, Failure> {
        let name = login(&request.name, request.zone.as_deref())?;
        let label = short("label", &request.label)?;
        if request
            .days
            .is_some_and(|days| !(1..=DAYS_MAX).contains(&days))
        {
            let message =
                format!("days is from 1 to {DAYS_MAX}; leave it out for a token that lasts");
            return Err(Failure::new("bad-request", message).about("days"));
        }
        let token = Token::generate_for(&name).map_err(not_made)?;
        let mut credential = dated(&token.hash().to_string());
        credential.label = label.into();
        let lasts = request.days.map(|days| u64::from(days) * DAY_SECS);
        credential.expires_at_secs = lasts.map(|secs| credential.created_at_secs + secs);
        let mut created: tokens::Created = self.order(Order::TokenCreate { name, credential })?;
        created.token = token.reveal().to_owned().into();
        Ok(created)
    }

    /// All roles, or those for the users of a zone.
    fn roles(&self, request: &roles::Ls) -> Result<roles::List, Failure> {
        let wanted = zone(request.zone.as_deref())?;
        let mut list: roles::List = self.order(Order::RoleList {})?;
        if let Some(wanted) = wanted {
            let is_of = |zone: &String| **zone == *wanted;
            list.roles
                .retain(|role| role.zone.as_ref().is_none_or(is_of));
        }
        Ok(list)
    }

    /// The role that the users of a zone have by this name.
    fn role(&self, request: &roles::Show) -> Result<roles::Role, Failure> {
        let name: Arc<str> = short("name", &request.name)?.into();
        let own = Order::RoleShow {
            zone: zone(request.zone.as_deref())?,
            name: Arc::clone(&name),
        };
        match self.order(own) {
            Err(failure) if failure.code == "not-found" && request.zone.is_some() => {
                self.order(Order::RoleShow { zone: None, name })
            }
            other => other,
        }
    }
}

/// A login name, as two keys say it.
///
/// # Errors
/// `bad-request` when it is too long, or the keys say two zones.
pub(crate) fn login(name: &str, zone: Option<&str>) -> Result<String, Failure> {
    const MAX: usize = 2 * NAME_BYTES_MAX + 1;
    if name.len() > MAX {
        let message = format!("a login name has at most {MAX} bytes, with its zone");
        return Err(Failure::new("bad-request", message).about("name"));
    }
    let Some(zone) = zone else {
        return Ok(name.to_owned());
    };
    let zone = short("zone", zone)?;
    match name.split_once('/') {
        None => Ok(format!("{zone}/{name}")),
        Some((said, _)) if said == zone => Ok(name.to_owned()),
        Some((said, _)) => {
            let message = format!(
                "{name:?} is in the zone {said:?}, and the key zone says {zone:?}; leave one of \
                 them out"
            );
            Err(Failure::new("bad-request", message).about("zone"))
        }
    }
}

/// A text that is no longer than a name may be.
fn short<'t>(key: &'static str, text: &'t str) -> Result<&'t str, Failure> {
    if text.len() <= NAME_BYTES_MAX {
        return Ok(text);
    }
    let message = format!("{key} has at most {NAME_BYTES_MAX} bytes");
    Err(Failure::new("bad-request", message).about(key))
}

fn zone(name: Option<&str>) -> Result<Option<Arc<str>>, Failure> {
    let name = name.map(|name| short("zone", name)).transpose()?;
    Ok(name.map(Arc::from))
}

fn role_names(names: &[String]) -> Result<Vec<Arc<str>>, Failure> {
    if names.len() > USER_ROLES_MAX {
        let message = format!("a user has at most {USER_ROLES_MAX} roles");
        return Err(Failure::new("bad-request", message).about("roles"));
    }
    let names = names.iter();
    names.map(|name| Ok(short("roles", name)?.into())).collect()
}

fn rules(sentences: &[String]) -> Result<Vec<Rule>, Failure> {
    if sentences.len() > ROLE_RULES_MAX {
        let message = format!("a role has at most {ROLE_RULES_MAX} rules");
        return Err(Failure::new("bad-request", message).about("rules"));
    }
    let rule = |(at, sentence): (usize, &String)| {
        sentence.parse::<Rule>().map_err(|error| {
            let message = format!("rule {}: {error}", at + 1);
            Failure::new("bad-request", message).about("rules")
        })
    };
    sentences.iter().enumerate().map(rule).collect()
}

fn quotas(quotas: roles::Quotas) -> stentor_auth::model::Quotas {
    stentor_auth::model::Quotas {
        connections: quotas.connections,
        messages_per_sec: quotas.messages_per_sec,
        bytes_per_sec: quotas.bytes_per_sec,
        subscriptions: quotas.subscriptions,
        queued_bytes: quotas.queued_bytes,
    }
}

/// Refuses passwords that nobody could log in with.
fn check(password: &Secret) -> Result<(), Failure> {
    let message = match password.reveal().len() {
        0 => "the password is empty; it needs at least one character".to_owned(),
        len if len > PASSWORD_BYTES_MAX => {
            format!("a password has at most {PASSWORD_BYTES_MAX} bytes")
        }
        _ => return Ok(()),
    };
    Err(Failure::new("bad-request", message).about("password"))
}

/// Why there is no hash or token. The sentence never contains what it was to be made from.
fn not_made(error: MakeError) -> Failure {
    let (code, field) = match error {
        MakeError::TooLongForBcrypt | MakeError::Prohibited => ("bad-request", Some("password")),
        MakeError::Random(_) | MakeError::Function(_) => ("unavailable", None),
    };
    let failure = Failure::new(code, error.to_string());
    Failure { field, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_said_once_or_twice_the_same() {
        let full = |name: &str, zone: Option<&str>| login(name, zone).map_err(|it| it.code);
        assert_eq!(full("bob", None).as_deref(), Ok("bob"));
        assert_eq!(full("bob", Some("game")).as_deref(), Ok("game/bob"));
        assert_eq!(full("game/bob", Some("game")).as_deref(), Ok("game/bob"));
        assert_eq!(full("shop/bob", Some("game")), Err("bad-request"));
        let long = "x".repeat(512);
        assert_eq!(full(&long, None), Err("bad-request"));
        assert_eq!(full("bob", Some(&long)), Err("bad-request"));
    }

    #[test]
    fn a_wrong_rule_is_named_by_its_place() {
        let all = ["allow both a/#", "allow everything"].map(str::to_owned);
        let error = rules(&all).expect_err("it has two words");
        assert!(error.message.starts_with("rule 2: "), "{}", error.message);
        assert_eq!(rules(&all[..1]).map(|it| it.len()), Ok(1));
    }
}
