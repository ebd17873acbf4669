//! What has to be delivered live before a snapshot goes on.

use stentor_session::Message;
use stentor_topic::{Zone, matches};

use super::queue::Snapshot;
use crate::core::routing::fence::Fence;
use crate::core::routing::route::{JobsAhead, Look};
use crate::core::{Core, Routing};

/// Messages that were kept before, and have not been delivered yet.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Those that other shards have not told of.
    fence: Option<Fence>,
    /// Those that go on in later turns here.
    jobs: Option<JobsAhead>,
}

/// Why a snapshot waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// For other shards.
    Shards,
    /// For a job, by number.
    Job(u64),
    /// For another look at jobs.
    Look,
}

impl Routing {
    /// What a snapshot has to wait for whose mark has been taken; `None` for nothing.
    pub(crate) fn what_is_ahead(&self) -> Option<Ahead> {
        let (fence, jobs) = (self.fences.raise(), self.routes.ahead());
        (fence.is_some() || jobs.is_some()).then_some(Ahead { fence, jobs })
    }
}

/// Whether a message may still come live that was kept before a snapshot began.
pub(super) fn is_behind(core: &mut Core, zone: Zone, snapshot: &mut Snapshot) -> Option<Wait> {
    let ahead = snapshot.ahead.as_mut()?;
    if let Some(fence) = &ahead.fence {
        if !core.routing.fences.is_passed(fence) {
            return Some(Wait::Shards);
        }
        ahead.fence = None;
        // What it has waited for may have become a job.
        ahead.jobs = core.routing.routes.ahead();
    }
    if let Some(jobs) = &mut ahead.jobs {
        let filter = &snapshot.filter;
        let is_kept = |message: &Message| message.retain || core.rules.keeps_last(message.topic());
        let concerns = |message: &Message| {
            message.zone == zone && matches(filter, message.topic()) && is_kept(message)
        };
        let (look, looks) = core.routing.routes.look_ahead(jobs, concerns);
        core.turn.spend(looks);
        match look {
            Look::Clear => {}
            Look::Behind(number) => return Some(Wait::Job(number)),
            Look::Unfinished => return Some(Wait::Look),
        }
    }
    snapshot.ahead = None;
    None
}
