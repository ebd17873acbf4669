//! What the main thread notes, for those who show it elsewhere.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use stentor_retained::Quota;

use super::{Notes, lock};
use crate::listener::Port;

/// What was noted, as of one moment.
pub(crate) struct Noted {
    /// The open listeners.
    pub(crate) ports: Vec<Arc<Port>>,
    /// When the certificates of other addresses expire, in seconds since 1970: those of listeners
    /// for calls, and of HTTP.
    pub(crate) expiries: Vec<(String, i64)>,
    /// The limits of all retained messages.
    pub(crate) quota: Quota,
    /// Whether the last reload succeeded, if there was one.
    pub(crate) is_reload_good: bool,
    /// When the configuration was read without an error.
    pub(crate) read_at: SystemTime,
}

/// Reads the notes. It may outlive the control socket.
pub(crate) struct Reader(Arc<Mutex<Notes>>);

impl Reader {
    pub(super) fn of(notes: &Arc<Mutex<Notes>>) -> Self {
        Self(Arc::clone(notes))
    }

    /// What is noted now.
    pub(crate) fn read(&self) -> Noted {
        let notes = lock(&self.0);
        let last = notes.last_reload.as_ref();
        Noted {
            ports: notes.ports.clone(),
            expiries: expiries(&notes),
            quota: notes.quota,
            is_reload_good: last.is_none_or(|note| note.result.is_ok()),
            read_at: notes.read_at,
        }
    }
}

fn expiries(notes: &Notes) -> Vec<(String, i64)> {
    let calls = notes.call_ports.iter().filter_map(|port| {
        let rules = port.rules.load();
        let at = rules.certificate.as_ref()?.expires_at()?;
        Some((port.url.to_string(), at))
    });
    let (urls, tls) = &notes.http;
    let at = tls.load().as_ref().and_then(|it| it.expires_at());
    let http = at
        .into_iter()
        .flat_map(|at| urls.iter().map(move |url| (url.clone(), at)));
    calls.chain(http).collect()
}

#[cfg(test)]
impl Noted {
    /// Those of a server without a configuration file.
    pub(crate) fn for_tests(ports: Vec<Arc<Port>>) -> Self {
        Self {
            ports,
            expiries: Vec::new(),
            quota: Quota::UNLIMITED,
            is_reload_good: true,
            read_at: SystemTime::now(),
        }
    }
}
