//! The verbs `procedure.…`.

use serde_json::{Value, json};
use stentor_procedure::Figures;

use super::protocol::{Answer, Failure};
use crate::backplane::Backplane;

/// The kind of procedures that have no file.
const BUILT_IN: &str = "builtin";

/// All procedures, with their figures.
pub(super) fn list(backplane: &Backplane) -> Value {
    json!({ "procedures": backplane.desk.procedures() })
}

/// Looks at the files of procedures now, and tells which version of each is in use.
pub(super) fn reload(backplane: &Backplane) -> Answer {
    let looked = backplane.desk.look();
    let looked = looked.map_err(|reason| Failure::new("reload-failed", reason))?;
    let state = |one: &Figures| {
        json!({
            "procedure": one.procedure,
            "kind": one.kind,
            "version": one.version,
            "observe": one.observe,
            "new": looked.loaded.loaded.contains(&one.procedure),
            "problem": one.problem,
        })
    };
    // A file may have the name of one that is built in; then it is refused.
    let has_file = |one: &&Figures| one.kind != BUILT_IN || !one.problem.is_empty();
    let files = looked.figures.iter().filter(has_file);
    Ok(json!({
        "folder": looked.folder,
        "procedures": files.map(state).collect::<Vec<_>>(),
        "removed": looked.loaded.removed,
    }))
}
