//! The verbs `config.effective` and `config.diff`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use stentor_control::config::{Change, Changes, Effective, Source, Value, Values};

use super::protocol::Failure;
use super::{Admin, lock};
use crate::config::{Config, Listed, Origin, Reload, Sources, diff};

/// What the server runs with, for those who ask.
#[derive(Clone)]
pub(crate) struct Loaded {
    /// What the process was started with: what keys of the class `restart` still hold.
    pub(crate) started: Arc<Config>,
    /// What was read last.
    pub(crate) config: Arc<Config>,
    /// Where it came from.
    pub(crate) file: Option<PathBuf>,
    pub(crate) flags: Vec<(String, String)>,
}

/// All keys with their values and sources.
pub(super) fn effective(admin: &Admin, request: &Effective) -> Result<Values, Failure> {
    let loaded = loaded(admin)?;
    let waiting = diff(&loaded.started, &loaded.config);
    let waiting: BTreeSet<&str> = waiting.restart().collect();
    let listed = loaded.config.listing.iter();
    let wanted = listed.filter(|listed| listed.path.contains(&request.containing));
    let values = wanted.map(|listed| value(listed, waiting.contains(&*listed.path)));
    Ok(Values {
        file: loaded.file.map(|file| file.display().to_string()),
        values: values.collect(),
    })
}

/// What a reload would change.
pub(super) fn changes(admin: &Admin) -> Result<Changes, Failure> {
    let loaded = loaded(admin)?;
    let failed = |reason: String| Failure::new("reload-failed", reason);
    let sources = Sources::from_process(loaded.file, loaded.flags);
    let new = Config::load(&sources).map_err(|error| failed(error.to_string()))?;
    if let Some(refusal) = crate::check(&new).first() {
        return Err(failed(refusal.to_string()));
    }
    // A setting that waits for a restart is compared with the one that the process runs with.
    let of = |old: &Config, is_of_class: fn(Reload) -> bool| -> Vec<Change> {
        let changes = diff(old, &new).changes.into_iter();
        let changes = changes.filter(|change| is_of_class(change.reload));
        let shown = changes.map(|change| Change {
            from: old.listing.value(&change.path).map(str::to_owned),
            to: new.listing.value(&change.path).map(str::to_owned),
            takes_effect: change.reload.label().to_owned(),
            key: change.path,
        });
        shown.collect()
    };
    let mut changes = of(&loaded.config, |class| class != Reload::Restart);
    changes.extend(of(&loaded.started, |class| class == Reload::Restart));
    Ok(Changes { changes })
}

fn loaded(admin: &Admin) -> Result<Loaded, Failure> {
    let loaded = lock(&admin.notes).loaded.clone();
    loaded.ok_or_else(|| Failure::new("unavailable", "the server is starting; try again"))
}

fn value(listed: &Listed, waiting: bool) -> Value {
    let source = match &listed.origin {
        Origin::Default => Source::Default,
        Origin::File(..) | Origin::WholeFile(_) => Source::File,
        Origin::Environment(_) => Source::Environment,
        Origin::Flag(_) => Source::Flag,
    };
    let place = match &listed.origin {
        Origin::Default => None,
        Origin::Environment(name) => Some(name.clone()),
        origin => Some(origin.to_string()),
    };
    Value {
        key: listed.path.clone(),
        value: listed.value.clone(),
        secret: listed.is_secret,
        source,
        place,
        waiting,
    }
}
