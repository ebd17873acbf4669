//! All sessions, as one walk over the shards saw them.

use std::ops::{ControlFlow, Range};

use stentor_session::Tick;
use stentor_topic::Zone;

use super::rows::Rows;
use super::selection::{Selection, places};
use super::{Surveys, TooMany, each_step};
use crate::context::ServerContext;
use crate::shard::{Inquiry, Survey};
use crate::telemetry::collect::ask_all;

/// The most sessions whose rows are kept, and that are brought into an order.
pub(crate) const SESSIONS_MAX: usize = 500_000;

/// All sessions at a time.
pub(crate) struct Census {
    /// Names it in cursors. No other one has this number, also after a restart.
    pub(crate) number: u64,
    pub(crate) rows: Rows,
    /// Of each row, the place in the order of the client ids.
    pub(super) ranks: Box<[u32]>,
    /// When the walk began and when it ended.
    pub(crate) began: Tick,
    pub(crate) at: Tick,
    /// Whether all shards have answered.
    pub(crate) is_complete: bool,
}

impl Census {
    /// What it takes.
    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes() + size_of_val(&*self.ranks)
    }

    /// Some places in the order of a selection, and how many there are in all. O(sessions).
    pub(crate) fn places(
        &self,
        some: &Selection,
        page: Range<usize>,
        name: impl Fn(Zone) -> String,
    ) -> (Vec<u32>, usize) {
        places(self, some, page, name)
    }
}

/// Sessions on all shards. It asks for no walk.
pub(crate) fn sessions(context: &ServerContext) -> usize {
    let reports = ask_all(context, Inquiry::Figures);
    reports
        .iter()
        .map(|report| report.stats.sessions as usize)
        .sum()
}

/// Walks over all sessions.
pub(super) fn walk(context: &ServerContext) -> Result<Census, TooMany> {
    let (surveys, began) = (&context.surveys, context.clock.now());
    if sessions(context) > SESSIONS_MAX {
        return Err(TooMany::Sessions);
    }
    let mut rows = Rows::default();
    let question = |rows, answer| Survey::Clients { rows, answer };
    let mut too_many = None;
    let is_complete = each_step(context, Rows::with_room, question, |part| {
        rows.append(part);
        let ranks = rows.len() * size_of::<u32>();
        if rows.len() > SESSIONS_MAX {
            too_many = Some(TooMany::Sessions);
        } else if !surveys.has_room_for_clients(context, rows.bytes() + ranks) {
            too_many = Some(TooMany::Bytes(Surveys::bytes_max(context)));
        }
        match too_many {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    surveys.has_room_for_clients(context, 0);
    match too_many {
        Some(too_many) => Err(too_many),
        None => Ok(Census {
            number: surveys.number(),
            ranks: rows.ranks(),
            rows,
            began,
            at: context.clock.now(),
            is_complete,
        }),
    }
}
