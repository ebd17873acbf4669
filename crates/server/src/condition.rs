//! How the server is: what probes ask.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stentor_admin::{Reason, Report};
use stentor_auth::counted;
use stentor_auth::store::Directory;
use stentor_control::health;
use stentor_hub::Pressure;

use crate::context::ServerContext;
use crate::sessions::Journals;
use crate::shard::Inquiry;
use crate::telemetry::Rounds;

/// A pulse that is younger than this is not taken again.
const FRESH: Duration = Duration::from_secs(1);

/// How long a probe waits for the pulses of shards. A shard that takes longer is not late yet.
const PATIENCE: Duration = Duration::from_millis(250);

/// A shard that owes an answer for this long does not work. A turn ends within milliseconds, but a
/// machine may have too much to do.
const LATE: Duration = Duration::from_secs(15);

/// What is known of the server's condition.
pub(crate) struct Condition {
    context: Arc<ServerContext>,
    directory: Arc<Directory>,
    pulses: Mutex<Rounds<()>>,
    is_stopping: AtomicBool,
}

impl Condition {
    /// A server that serves.
    pub(crate) fn new(context: &Arc<ServerContext>, directory: &Arc<Directory>) -> Self {
        Self {
            context: Arc::clone(context),
            directory: Arc::clone(directory),
            pulses: Mutex::new(Rounds::new(context)),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// The server stops from now on.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Whether the process works: each shard shows a pulse. Asks nobody else.
    pub(crate) fn health(&self) -> Report {
        // Shards that have ended in order are not late.
        if self.is_stopping.load(Ordering::Acquire) {
            return Report::default();
        }
        let mut pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        pulses.ask(&self.context, Inquiry::Pulse, FRESH, PATIENCE);
        let late = pulses.late(LATE).map(|(shard, age)| {
            let time = counted(age.as_secs(), "second");
            reason(
                "shard",
                format!("shard {shard} has not answered for {time}"),
            )
        });
        Report {
            reasons: late.collect(),
        }
    }

    /// Whether new clients can be let in, and what keeps them out.
    pub(crate) fn readiness(&self) -> Report {
        let mut reasons = self.health().reasons;
        if self.is_stopping.load(Ordering::Acquire) {
            reasons.push(reason("stopping", "the server stops"));
        }
        if !self.directory.is_available() {
            let detail = "the user database does not answer; the log says why";
            reasons.push(reason("user-database", detail));
        }
        for (trouble, _) in self.context.retained.troubles() {
            reasons.push(reason("retained-store", trouble));
        }
        let journals = self.context.journals.as_ref();
        for trouble in journals.map_or_else(Vec::new, Journals::troubles) {
            reasons.push(reason("session-store", trouble));
        }
        if self.context.ledger.pressure() == Pressure::Full {
            let detail = "limits.memory is reached, so new clients are refused";
            reasons.push(reason("memory", detail));
        }
        Report { reasons }
    }

    /// Both, for the control socket.
    pub(crate) fn describe(&self) -> health::Told {
        let (health, readiness) = (self.health(), self.readiness());
        let told = |reason: &Reason| health::Reason {
            name: reason.name.to_owned(),
            detail: reason.detail.clone(),
        };
        health::Told {
            healthy: health.is_well(),
            ready: readiness.is_well(),
            reasons: readiness.reasons.iter().map(told).collect(),
        }
    }
}

fn reason(name: &'static str, detail: impl Into<String>) -> Reason {
    Reason {
        name,
        detail: detail.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::testing::Running;

    #[test]
    fn a_server_is_ready_until_it_stops() {
        let server = Running::start(&[("shards", "1")]);
        let condition = Condition::new(server.context(), server.directory());
        assert_eq!(condition.health(), Report::default());
        let described = condition.describe();
        let expected = health::Told {
            healthy: true,
            ready: true,
            reasons: Vec::new(),
        };
        assert_eq!(described, expected);
        condition.stop();
        assert!(condition.health().is_well(), "a server that stops is well");
        let names: Vec<_> = condition.readiness().reasons;
        assert_eq!(names, [reason("stopping", "the server stops")]);
        server.stop();
    }
}
