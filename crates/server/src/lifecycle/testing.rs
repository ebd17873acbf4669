//! A server inside a test: shards and listeners, without signals and supervisor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stentor_auth::store::Directory;
use tempfile::TempDir;

use super::open_listeners::OpenListeners;
use super::start::{self, BackgroundThreads, Shards, Started};
use crate::config::{Config, Sources};
use crate::context::ServerContext;
use crate::data_dir::DataDir;
use crate::fdtable::Table;
use crate::listener::Port;
use crate::shard::ShardCommand;

/// How long shards may take to end.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server whose shards serve.
pub(crate) struct Running {
    context: Arc<ServerContext>,
    directory: Arc<Directory>,
    open_listeners: OpenListeners,
    shards: Shards,
    background: BackgroundThreads,
    _folder: TempDir,
}

impl Running {
    /// Starts one with these flags, on a free port.
    pub(crate) fn start(flags: &[(&str, &str)]) -> Self {
        let flags = [("listener.url", "mqtt://127.0.0.1:0")].iter().chain(flags);
        let config = Config::load(&Sources {
            file: None,
            environment: Vec::new(),
            flags: flags
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            read_file: Box::new(|_| Err(std::io::ErrorKind::NotFound.into())),
        });
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(folder.path()).unwrap();
        let Started {
            context,
            directory,
            open_listeners,
            shards,
            background,
            ..
        } = start::start(&config.unwrap(), &data_dir).unwrap();
        Self {
            context,
            directory,
            open_listeners,
            shards,
            background,
            _folder: folder,
        }
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    pub(crate) fn context(&self) -> &Arc<ServerContext> {
        &self.context
    }

    pub(crate) fn table(&self) -> Table {
        self.shards.table
    }

    pub(crate) fn ports(&self) -> impl Iterator<Item = &Arc<Port>> {
        self.open_listeners.ports()
    }

    /// Stops it as the supervisor would.
    pub(crate) fn stop(self) {
        let deadline = self.context.clock.now().after(DEADLINE);
        for shard in 0..self.context.shards.len() {
            self.context.post(shard, ShardCommand::Stop(deadline));
        }
        assert!(
            self.shards.join(Instant::now() + DEADLINE),
            "the shards end"
        );
        self.background.retained.end();
        let sessions = self.background.sessions.expect("they are written down");
        sessions.end().unwrap();
    }
}
