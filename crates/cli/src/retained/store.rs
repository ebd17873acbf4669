//! Which store, and the way to it: a running server, or the files of a stopped one.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use stentor_auth::model::DEFAULT_ZONE;
use stentor_control::retained::Page;
use stentor_control::{Need, Request, Verb, asked};
use stentor_server::config::Config;
use stentor_server::{Access, OfflineError, OfflineStore};

use crate::control;
use crate::failure::Failure;
use crate::which::{Which, is_stopped};

/// How long the server may take for one request: a page, or a compaction.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long a server may have the files without a control socket: while it starts or stops.
const BETWEEN: Duration = Duration::from_secs(10);
/// How often it is looked whether it is still so.
const STEP: Duration = Duration::from_millis(50);

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
    config: Config,
    access: Access,
    way: RefCell<Way>,
}

enum Way {
    Running(BufReader<UnixStream>),
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
        let way = RefCell::new(Way::open(&config, access)?);
        Ok(Store {
            zone: self.zone.clone(),
            config,
            access,
            way,
        })
    }
}

impl Way {
    /// A server that has the files and does not answer starts or stops: that is waited for.
    fn open(config: &Config, access: Access) -> Result<Self, Failure> {
        let data_dir = &config.general.data_dir;
        let folder = data_dir.display();
        let until = Instant::now() + BETWEEN;
        loop {
            match control::connect(data_dir) {
                Ok(stream) => {
                    let failed = |error| Failure::new(format!("cannot use the socket: {error}"));
                    stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
                    return Ok(Self::Running(BufReader::new(stream)));
                }
                Err(error) if is_stopped(error.kind()) => {}
                Err(error) => {
                    let path = control::socket(data_dir);
                    let text = format!("cannot use {}: {error}", path.display());
                    return Err(Failure::new(text));
                }
            }
            match OfflineStore::open(config, access) {
                Ok(store) => {
                    if let Some(missing) = store.missing() {
                        let folder = missing.display();
                        match access {
                            Access::Compare => {
                                eprintln!("there is no store; a new one would be in {folder}");
                            }
                            _ => eprintln!("there was no store, and a new one is in {folder}"),
                        }
                    }
                    return Ok(Self::Stopped(Box::new(store)));
                }
                Err(OfflineError::InUse { .. }) if Instant::now() < until => thread::sleep(STEP),
                Err(error @ OfflineError::InUse { .. }) => {
                    return Err(Failure::new(error.to_string()));
                }
                Err(error) => {
                    return Err(Failure::new(format!(
                        "no server runs on {folder}, and {error}"
                    )));
                }
            }
        }
    }

    /// Asks once. A server that ends in the meantime closes the connection.
    fn ask(&mut self, request: &Value) -> Result<Value, Unanswered> {
        let stream = match self {
            Self::Stopped(store) => {
                let refused = |text| Unanswered::Refused(Failure::new(text));
                return store.ask(request).map_err(refused);
            }
            Self::Running(stream) => stream,
        };
        let mut line = Vec::new();
        stream
            .get_mut()
            .write_all(format!("{request}\n").as_bytes())
            .and_then(|()| stream.read_until(b'\n', &mut line))
            .map_err(Unanswered::of)?;
        if line.is_empty() {
            return Err(Unanswered::Closed);
        }
        control::answer(&line).map_err(Unanswered::Refused)
    }
}

/// Why there is no answer.
enum Unanswered {
    Refused(Failure),
    /// The server has gone.
    Closed,
}

impl Unanswered {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Refused(Failure::new(format!("the server does not answer: {error}"))),
        }
    }
}

/// Whether a request may be asked again of whoever has the files then: it changes nothing, and
/// does not go on from what somebody else has answered. The parts that are verified are the same
/// for everybody.
fn is_repeatable(verb: Verb, request: &Value) -> bool {
    let goes_on = !request["cursor"].is_null() || request["from"].as_u64().is_some_and(|at| at > 0);
    verb.need() == Need::Read && !goes_on
}

impl Store {
    /// Whether the files of a stopped server are read.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(*self.way.borrow(), Way::Stopped(_))
    }

    /// Asks, in the zone of the command.
    pub(crate) fn ask<R: Request>(&self, request: &R) -> Result<R::Answer, Failure> {
        let nonsense = |error| control::nonsense::<R>(&error);
        let answer = self.exchange(R::VERB, asked(request).map_err(nonsense)?)?;
        serde_json::from_value(answer).map_err(nonsense)
    }

    fn exchange(&self, verb: Verb, mut request: Value) -> Result<Value, Failure> {
        if self.zone != DEFAULT_ZONE {
            request["zone"] = json!(self.zone);
        }
        request["v"] = json!(1);
        let until = Instant::now() + BETWEEN;
        let mut way = self.way.borrow_mut();
        loop {
            match way.ask(&request) {
                Ok(answer) => return Ok(answer),
                Err(Unanswered::Refused(failure)) => return Err(failure),
                Err(Unanswered::Closed)
                    if is_repeatable(verb, &request) && Instant::now() < until =>
                {
                    // A socket may take connections until the process has ended.
                    thread::sleep(STEP);
                    *way = Way::open(&self.config, self.access)?;
                }
                Err(Unanswered::Closed) => {
                    let part = match verb.need() {
                        Need::Read => "",
                        Need::Change | Need::Topic | Need::Administer => {
                            ", and may have done a part of it"
                        }
                    };
                    return Err(Failure::new(format!(
                        "the server stopped before it had answered{part}: run the command again"
                    )));
                }
            }
        }
    }

    /// Calls `each` with every message that matches.
    pub(crate) fn messages(
        &self,
        filter: &str,
        mut each: impl FnMut(Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut request = Page {
            filter: filter.to_owned(),
            ..Page::default()
        };
        loop {
            let page = self.ask(&request)?;
            page.messages.into_iter().try_for_each(&mut each)?;
            if page.cursor.is_none() {
                return Ok(());
            }
            request.cursor = page.cursor;
        }
    }
}

#[cfg(test)]
mod tests {
    use stentor_control::retained::{Clear, Cursor, Put, Status, Verify};

    use super::*;

    #[test]
    fn only_what_reads_from_the_beginning_is_asked_again() {
        fn is<R: Request>(request: &R) -> bool {
            is_repeatable(R::VERB, &asked(request).unwrap())
        }
        let page = |cursor: Option<Cursor>| Page {
            filter: "#".into(),
            cursor,
            ..Page::default()
        };
        let verify = |stripe, from| Verify { stripe, from };
        assert!(is(&Status {}) && is(&page(None)) && is(&verify(1, 0)));
        assert!(!is(&page(Some(Cursor::default()))) && !is(&verify(1, 1_000)));
        assert!(!is(&Put::default()) && !is(&Clear::default()));
    }
}
