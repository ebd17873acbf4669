//! Noticing that the configuration file has changed.

use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tracing::warn;

use super::{Command, spawn};
use crate::config::Config;

/// Editors write in several steps: wait until a file has been quiet for this long.
const QUIET: Duration = Duration::from_millis(300);

/// What a reload is said to come from that nobody has asked for.
pub(crate) const FILE_CHANGED: &str = "the file changed";

/// The watch on the file of a configuration that wants one.
pub(super) fn of(config: &Config, commands: &Sender<Command>) -> Option<Watch> {
    let file = config.file.as_deref()?;
    match config.general.apply_on_save {
        true => start(file, commands),
        false => None,
    }
}

/// Keeps the watch going; dropping it ends the watch.
pub(super) struct Watch {
    _watcher: RecommendedWatcher,
}

/// Asks for a reload whenever the file changes. The folder is watched, since editors and
/// configuration tools replace the file.
fn start(file: &Path, commands: &Sender<Command>) -> Option<Watch> {
    let name: OsString = file.file_name()?.to_owned();
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (changes, changed) = channel();
    let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| concerns(&event, &name)) {
            // The other end lives as long as the watch.
            let _ = changes.send(());
        }
    });
    let watching = watcher.and_then(|mut watcher| {
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    let commands = commands.clone();
    match watching {
        Ok(watcher) => {
            spawn("watch", move || report(&changed, &commands)).ok()?;
            Some(Watch { _watcher: watcher })
        }
        Err(error) => {
            warn!(%error, "the configuration file is not watched; run `stentor reload` after a change");
            None
        }
    }
}

fn concerns(event: &Event, name: &OsString) -> bool {
    // A reload reads the file, which is not a change.
    !matches!(event.kind, EventKind::Access(_))
        && event
            .paths
            .iter()
            .any(|path| path.file_name() == Some(name))
}

fn report(changed: &Receiver<()>, commands: &Sender<Command>) {
    while changed.recv().is_ok() {
        while changed.recv_timeout(QUIET).is_ok() {}
        if commands.send(Command::Reload(FILE_CHANGED, None)).is_err() {
            return;
        }
    }
}
