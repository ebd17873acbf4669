//! The retained store of a server: opening it, and passing on what it says.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use stentor_disk::MappedDisk;
use stentor_hub::{NotKept, ShardItem};
use stentor_retained::{Quota, Store, StoreEvent, StoreMaintenance, StoreOptions, Sync, Watcher};
use stentor_session::{Outcome, Ticket};
use tracing::{info, warn};

use super::start::random;
use crate::clock::Clock;
use crate::config::{Config, SyncLevel};
use crate::context::ServerContext;
use crate::error::ServerError;
use crate::shard::ShardCommand;

/// The store's folder in the data folder.
const FOLDER: &str = "retained";
/// Damaged records that the log tells one by one.
const REPORTS_MAX: usize = 20;

/// The quotas of a configuration: in total, and of each zone.
pub(crate) fn quotas(config: &Config) -> (Quota, Quota) {
    let retained = &config.retained;
    let or_unlimited = |bound| if bound == 0 { u64::MAX } else { bound };
    let total = Quota {
        messages_max: retained.messages,
        bytes_max: retained.bytes,
    };
    let zone = Quota {
        messages_max: or_unlimited(retained.zone_messages),
        bytes_max: or_unlimited(retained.zone_bytes),
    };
    (total, zone)
}

/// Where the store of a configuration is; relative paths start where the command does.
pub(crate) fn folder(config: &Config, data_dir: &Path) -> PathBuf {
    let folder = config.retained.dir.clone();
    folder.unwrap_or_else(|| data_dir.join(FOLDER))
}

/// Opens the store that a configuration asks for, and tells what was found damaged.
///
/// # Errors
/// When the folder cannot be used, or a later version wrote it.
pub(super) fn open(
    config: &Config,
    data_dir: &Path,
    clock: Clock,
) -> Result<Arc<Store<MappedDisk>>, ServerError> {
    let folder = folder(config, data_dir);
    let fail = |reason: String| ServerError::RetainedDir {
        path: folder.clone(),
        reason,
    };
    let (total, zone) = quotas(config);
    let options = StoreOptions {
        sync: match config.retained.sync {
            SyncLevel::Never => Sync::Never,
            SyncLevel::Interval => Sync::Interval(config.retained.sync_interval),
            SyncLevel::Always => Sync::Always,
        },
        total,
        zone,
        started_at: clock.started_at(),
        now: clock.now(),
        random: random(),
        boot: boot(),
    };
    let disk = MappedDisk::new(&folder).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => ServerError::RetainedDirInUse {
            path: folder.clone(),
        },
        _ => fail(error.to_string()),
    })?;
    let store = Store::open(disk, &options).map_err(|error| fail(error.to_string()))?;
    tell_damage(&store, &folder);
    Ok(Arc::new(store))
}

/// Tells what was found damaged, losses first.
fn tell_damage(store: &Store<MappedDisk>, folder: &Path) {
    let (count, mut reports) = store.damage();
    reports.sort_by_key(|report| !report.outcome.is_loss());
    for report in reports.iter().take(REPORTS_MAX) {
        warn!(
            file = report.file,
            offset = report.offset,
            topic = report.place().map(|(_, topic)| topic),
            outcome = report.outcome.as_str(),
            "a damaged place among the retained messages"
        );
    }
    if count > 0 {
        warn!(
            places = count,
            losses = store.losses(),
            "damage was found among the retained messages in {}: what could not be read is skipped; \
             `stentor retained verify` lists all places",
            folder.display()
        );
    }
}

/// Starts the threads of the store.
///
/// # Errors
/// When a thread cannot be started.
pub(super) fn start(context: &Arc<ServerContext>) -> std::io::Result<StoreMaintenance> {
    let messenger = Messenger {
        context: Arc::downgrade(context),
    };
    let clock = context.clock;
    context
        .retained
        .start(Arc::new(messenger), move || clock.now())
}

/// A number that changes when the machine starts again; 0 where the system does not tell.
pub(crate) fn boot() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// Passes on what the store says. The store belongs to the server context, so this must not own it.
struct Messenger {
    context: Weak<ServerContext>,
}

impl Watcher for Messenger {
    fn resolved(&self, ticket: Ticket, is_kept: bool) {
        let Some(context) = self.context.upgrade() else {
            return;
        };
        let outcome = if is_kept {
            Outcome::SUCCESS
        } else {
            NotKept::Failed.outcome()
        };
        for shard in 0..context.shards.len() {
            let outcome = outcome.clone();
            let item = ShardItem::Resolved { ticket, outcome };
            context.post(shard, ShardCommand::Hub(item.into()));
        }
    }

    fn event(&self, event: StoreEvent) {
        match event {
            StoreEvent::Trouble(what) => warn!("retained messages are in trouble: {what}"),
            StoreEvent::Recovered => info!("retained messages are kept again"),
        }
    }
}
