//! The verbs `procedure.…`.

use stentor_control::procedures::{Became, Counts, List, Ls, Procedure, Reloaded};
use stentor_procedure::Figures;

use super::protocol::Failure;
use crate::context::ServerContext;

/// The kind of procedures that have no file.
const BUILT_IN: &str = "builtin";

/// All procedures, with their figures.
pub(super) fn list(context: &ServerContext, Ls {}: Ls) -> List {
    let all = context.call_queue.procedures().into_iter();
    List {
        procedures: all.map(shown).collect(),
    }
}

fn shown(figures: Figures) -> Procedure {
    let counts = |counts: Vec<(&'static str, u64)>| -> Counts {
        let counts = counts.into_iter();
        counts
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    };
    Procedure {
        procedure: figures.procedure,
        version: figures.version,
        kind: figures.kind.to_owned(),
        observe: figures.observe,
        waiting: figures.waiting as u64,
        calls: figures.calls,
        errors: counts(figures.errors),
        verdicts: counts(figures.verdicts),
        observed: counts(figures.observed),
        p50_us: figures.p50_us,
        p99_us: figures.p99_us,
        max_us: figures.max_us,
        cpu_us: figures.cpu_us,
        problem: figures.problem,
    }
}

/// Looks at the files of procedures now, and tells which version of each is in use.
pub(super) fn reload(context: &ServerContext) -> Result<Reloaded, Failure> {
    let looked = context.call_queue.look();
    let looked = looked.map_err(|reason| Failure::new("reload-failed", reason))?;
    let state = |one: &Figures| Became {
        procedure: one.procedure.clone(),
        kind: one.kind.to_owned(),
        version: one.version.clone(),
        observe: one.observe,
        new: looked.loaded.loaded.contains(&one.procedure),
        problem: one.problem.clone(),
    };
    // A file may have the name of one that is built in; then it is refused.
    let has_file = |one: &&Figures| one.kind != BUILT_IN || !one.problem.is_empty();
    let files = looked.figures.iter().filter(has_file);
    Ok(Reloaded {
        folder: looked.folder.display().to_string(),
        procedures: files.map(state).collect(),
        removed: looked.loaded.removed.clone(),
    })
}
