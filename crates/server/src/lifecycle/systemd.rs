//! Telling systemd how the server is; nothing happens where there is none.

use std::sync::mpsc::channel;
use std::time::Duration;

use sd_notify::NotifyState;

use crate::context::ServerContext;
use crate::shard::{Inquiry, ShardCommand};

/// The service manager's side of the server.
#[derive(Debug)]
pub(super) struct Systemd {
    watchdog: Option<Duration>,
}

impl Systemd {
    /// As the service manager set the environment.
    pub(super) fn from_environment() -> Self {
        Self {
            watchdog: sd_notify::watchdog_enabled(),
        }
    }

    /// How often the watchdog must be fed; half the time after which it bites.
    pub(super) fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    /// The server serves.
    pub(super) fn ready(&self) {
        notify(&[NotifyState::Ready]);
    }

    /// The configuration is read again. The time stamp lets the manager match the `ready` after.
    pub(super) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => notify(&[NotifyState::Reloading, now]),
            Err(_) => notify(&[NotifyState::Reloading]),
        }
    }

    /// The server stops.
    pub(super) fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }

    /// Feeds the watchdog if every shard shows a pulse.
    pub(super) fn feed_watchdog(&self, context: &ServerContext) {
        let Some(limit) = self.watchdog else {
            return;
        };
        let (sender, pulses) = channel();
        for shard in 0..context.shards.len() {
            context.post(shard, ShardCommand::Inquiry(Inquiry::Pulse(sender.clone())));
        }
        let alive = context
            .shards
            .iter()
            .all(|_| pulses.recv_timeout(limit / 4).is_ok());
        if alive {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

fn notify(state: &[NotifyState<'_>]) {
    // Without a service manager there is nobody to tell.
    let _ = sd_notify::notify(state);
}
