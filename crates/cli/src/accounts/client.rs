//! Where orders go: to the running server, or to the user database itself.

use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;
use stentor_auth::store::Order;
use stentor_control::status::Status;
use stentor_server::Accounts;
use stentor_server::config::{Config, PasswordFunction};

use super::secret::Maker;
use crate::control;
use crate::failure::Failure;
use crate::which::{Which, is_stopped, load};

/// Where orders go.
pub(super) struct AccountsClient {
    way: Way,
    /// What new passwords are stored as, says the configuration that the command was given.
    password_hash: PasswordFunction,
}

/// The ways of an order.
enum Way {
    /// To the running server.
    Running(BufReader<UnixStream>),
    /// To the user database of a stopped one.
    Stopped(Box<Stopped>),
}

/// The user database of a stopped server, opened by the first order.
struct Stopped {
    config: Config,
    accounts: Option<Accounts>,
}

impl Which {
    /// Opens the way to the user database.
    pub(super) fn open(&self) -> Result<AccountsClient, Failure> {
        Self::open_config(self.load()?)
    }

    /// Opens the way to the user database of a configuration file that is not written yet.
    pub(super) fn open_with(&self, file: &Path, text: &str) -> Result<AccountsClient, Failure> {
        let mut sources = self.sources(Some(file.to_owned()));
        let read = move |path: &Path| match path == file {
            true => Ok(text.to_owned()),
            false => std::fs::read_to_string(path),
        };
        sources.read_file = Box::new(read);
        Self::open_config(load(&sources)?)
    }

    /// The same of a configuration that was read.
    pub(super) fn open_config(config: Config) -> Result<AccountsClient, Failure> {
        let data_dir = &config.general.data_dir;
        match control::connect(data_dir) {
            Ok(stream) => {
                return Ok(AccountsClient {
                    password_hash: config.auth.password_hash,
                    way: Way::Running(BufReader::new(stream)),
                });
            }
            Err(error) if is_stopped(error.kind()) => {}
            Err(error) => {
                let path = control::socket(data_dir);
                return Err(Failure::new(format!(
                    "cannot use {}: {error}",
                    path.display()
                )));
            }
        }
        Ok(AccountsClient {
            password_hash: config.auth.password_hash,
            way: Way::Stopped(Box::new(Stopped {
                config,
                accounts: None,
            })),
        })
    }
}

impl Stopped {
    /// The user database. An order that adds something creates a missing folder or database. For
    /// any other order a missing one is an error: the order was meant for one that exists.
    fn open_for(&mut self, order: &Order) -> Result<&Accounts, Failure> {
        let adds = matches!(
            order,
            Order::UserAdd { .. }
                | Order::UserImport { .. }
                | Order::UserImportCheck { .. }
                | Order::RoleAdd { .. }
                | Order::ZoneAdd { .. }
        );
        let data_dir = &self.config.general.data_dir;
        if !adds && !data_dir.exists() {
            return Err(Failure::new(format!(
                "there is no data folder {}; name the server's configuration by --config, or its \
                 data folder by --data-dir",
                data_dir.display()
            )));
        }
        if self.accounts.is_none()
            && let Some(reason) = Accounts::missing(&self.config, adds)
        {
            return Err(Failure::new(reason));
        }
        let accounts = match self.accounts.take() {
            Some(accounts) => accounts,
            None => Accounts::open(&self.config)
                .map_err(|error| Failure::with_code(error.exit_code(), error.to_string()))?,
        };
        Ok(self.accounts.insert(accounts))
    }
}

impl AccountsClient {
    /// Whether there may be books: a stopped server without a user database has none yet.
    pub(super) fn has_books(&self) -> bool {
        match &self.way {
            Way::Running(_) => true,
            Way::Stopped(stopped) => Accounts::missing(&stopped.config, false).is_none(),
        }
    }

    /// The login names of users who exist, of those that are asked about.
    pub(super) fn users_among(
        &mut self,
        is_asked: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, Failure> {
        let mut known = Vec::new();
        if !self.has_books() {
            return Ok(known);
        }
        self.each_page(None, |page| {
            let users = page["users"].as_array().into_iter().flatten();
            let logins = users.filter_map(|user| user["login"].as_str());
            known.extend(logins.filter(|login| is_asked(login)).map(str::to_owned));
        })?;
        Ok(known)
    }

    /// All pages of the list of users, or of those of a zone.
    pub(super) fn each_page(
        &mut self,
        zone: Option<&str>,
        mut each: impl FnMut(&Value),
    ) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let page = self.order(&Order::UserList {
                zone: zone.map(str::to_owned),
                containing: String::new(),
                after,
                limit: None,
            })?;
            each(&page);
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Whether there is a zone of this name.
    pub(super) fn check_zone(&mut self, name: &str) -> Result<(), Failure> {
        let answer = self.order(&Order::ZoneList {})?;
        let mut zones = answer["zones"].as_array().into_iter().flatten();
        match zones.any(|zone| zone["name"] == name) {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "there is no zone {name:?}; `stentor zone list` lists them"
            ))),
        }
    }

    /// Carries an order out, wherever.
    pub(super) fn order(&mut self, order: &Order) -> Result<Value, Failure> {
        match &mut self.way {
            Way::Stopped(stopped) => stopped
                .open_for(order)?
                .order(order.clone())
                .map_err(|error| Failure::new(error.message)),
            Way::Running(stream) => {
                let request =
                    serde_json::to_value(order).map_err(|error| Failure::new(error.to_string()))?;
                control::ask(stream, request)
            }
        }
    }

    /// How passwords are stored: as the running server has it, or its configuration.
    pub(super) fn maker(&mut self, scram: bool) -> Result<Maker, Failure> {
        let mut function = self.password_hash;
        if let Way::Running(stream) = &mut self.way {
            let status = control::tell(stream, &Status::default())?;
            function = PasswordFunction::named(&status.password_hash).unwrap_or(function);
        }
        Ok(Maker::new(function.cost(), scram))
    }
}
