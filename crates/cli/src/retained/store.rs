//! Which store, and the way to it: a running server, or the files of a stopped one.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use stentor_auth::model::DEFAULT_ZONE;
use stentor_server::{Access, OfflineStore};

use crate::accounts::{Which, is_stopped};
use crate::control;
use crate::failure::Failure;

/// How long the server may take for one request: a page, or a compaction.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct Where {
    #[command(flatten)]
    which: Which,
    /// Name of the zone
    #[arg(long, value_name = "ZONE", default_value = DEFAULT_ZONE)]
    zone: String,
}

/// A store that answers.
pub(crate) struct Store {
    zone: String,
    way: Way,
}

enum Way {
    Running(RefCell<BufReader<UnixStream>>),
    Stopped(Box<OfflineStore>),
}

impl Where {
    /// Whether programs read the answer.
    pub(crate) const fn is_json(&self) -> bool {
        self.which.json
    }

    /// The store of the running server, or the files if there is none, for what the command is
    /// about to do.
    pub(crate) fn open(&self, access: Access) -> Result<Store, Failure> {
        let config = self.which.load()?;
        let data_dir = &config.general.data_dir;
        let way = match control::connect(data_dir) {
            Ok(stream) => {
                let failed = |error| Failure::new(format!("cannot use the socket: {error}"));
                stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
                Way::Running(RefCell::new(BufReader::new(stream)))
            }
            Err(error) if is_stopped(error.kind()) => {
                let store = OfflineStore::open(&config, access).map_err(|error| {
                    let folder = data_dir.display();
                    Failure::new(format!("no server runs on {folder}, and {error}"))
                })?;
                if let Some(made) = store.made() {
                    eprintln!("there was no store, and a new one is in {}", made.display());
                }
                Way::Stopped(Box::new(store))
            }
            Err(error) => {
                let path = control::socket(data_dir);
                let text = format!("cannot use {}: {error}", path.display());
                return Err(Failure::new(text));
            }
        };
        Ok(Store {
            zone: self.zone.clone(),
            way,
        })
    }
}

impl Store {
    /// Whether the files of a stopped server are read.
    pub(crate) const fn is_stopped(&self) -> bool {
        matches!(self.way, Way::Stopped(_))
    }

    /// Asks, in the zone of the command.
    pub(crate) fn ask(&self, mut request: Value) -> Result<Value, Failure> {
        if self.zone != DEFAULT_ZONE {
            request["zone"] = json!(self.zone);
        }
        let stream = match &self.way {
            Way::Stopped(store) => return store.ask(&request).map_err(Failure::new),
            Way::Running(stream) => stream,
        };
        request["v"] = json!(1);
        let failed =
            |error: io::Error| Failure::new(format!("the server does not answer: {error}"));
        let mut stream = stream.borrow_mut();
        stream
            .get_mut()
            .write_all(format!("{request}\n").as_bytes())
            .map_err(failed)?;
        let mut line = Vec::new();
        stream.read_until(b'\n', &mut line).map_err(failed)?;
        control::answer(&line)
    }

    /// Asks for page after page, until an answer has no `cursor`.
    pub(crate) fn ask_pages(
        &self,
        mut request: Value,
        mut each: impl FnMut(Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        loop {
            let mut answer = self.ask(request.clone())?;
            let cursor = answer["cursor"].take();
            each(answer)?;
            if cursor.is_null() {
                return Ok(());
            }
            request["cursor"] = cursor;
        }
    }

    /// Calls `each` with every message that matches.
    pub(crate) fn messages(
        &self,
        filter: &str,
        mut each: impl FnMut(Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let request = json!({ "verb": "retained.page", "filter": filter });
        self.ask_pages(request, |mut page| {
            let messages = page["messages"].as_array_mut();
            let mut messages = messages.into_iter().flatten();
            messages.try_for_each(|message| each(message.take()))
        })
    }
}
