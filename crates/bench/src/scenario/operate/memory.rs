//! The memory of a client that does nothing, of a server with everything for operators built in.

use serde_json::json;

use super::Base;
use crate::error::BenchError;
use crate::measure::Leg;
use crate::progress::Progress;
use crate::scenario::idle::{self, Idle};
use crate::target::Running;
use crate::workload::{Bar, Limit, Sheet, Workload};

/// 0.9 KiB.
const BARS: [Bar; 1] = [Bar {
    key: idle::RSS_EACH.key,
    limit: Limit::AtMost(921.6),
    control: None,
}];

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) base: Base,
}

impl Workload for Memory {
    fn sheet(&self) -> Sheet {
        let load = Idle::of(self.base.clients, self.base.version);
        let mut sheet = self
            .base
            .sheet("memory", "what each connection takes", 0, json!({}));
        let plan = load.sheet().plan;
        let plan: Vec<&str> = plan.iter().map(String::as_str).collect();
        sheet = sheet.with(&plan, &BARS);
        sheet.pairs = 3;
        sheet
    }

    fn leg(
        &mut self,
        subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let mut load = Idle::of(self.base.clients, self.base.version);
        let mut leg = load.leg(subject, running, progress)?;
        leg.notes.extend(self.base.leg().notes);
        Ok(leg)
    }
}
