//! Files and what is made of them: looked at, read, compiled, tested.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::Access;
use stentor_call_protocol::limits::PROCEDURE_BYTES_MAX;

use super::{How, Procedure, Registry};
use crate::blind::{self, Blind};
use crate::call::Reply;
use crate::client::{ClientRunner, Clients, NoClients};
use crate::endpoint::EndpointRunner;
use crate::file::read_regular;
use crate::lacking::{self, Lack};
use crate::luau::Script;
use crate::manifest::{Grant, Kind, Manifest};
use crate::program::ProgramRunner;
use crate::queue::{MakeRunner, Queue, Runner};
use crate::script::{Program, ScriptRunner, TEST_TIME};
use crate::spamd::SpamdRunner;
use crate::statistics::Statistics;
use crate::store::Shelf;

/// Procedures of one folder.
const PROCEDURES_MAX: usize = 256;
/// Files that are loaded at a time, so that the test of one, which may run for seconds, does not
/// hold up the others.
const LOADED_AT_A_TIME: usize = 8;

/// A script whose test takes longer than this is logged: a server that starts waits for it.
const SLOW_TEST_TIME: Duration = Duration::from_secs(1);

/// Files by the names of their procedures, or why one of them is none.
pub(super) type Files = BTreeMap<String, Result<Stamp, String>>;

/// What tells one version of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    path: PathBuf,
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
}

impl Registry {
    /// Loads one file: reads, compiles and tests it.
    pub(super) fn make(
        &self,
        name: &str,
        stamp: Stamp,
        statistics: Option<Arc<Statistics>>,
    ) -> Result<Procedure, String> {
        let file = stamp
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let explain = |reason: &dyn std::fmt::Display| format!("{file}: {reason}");
        let text = read_regular(&stamp.path).map_err(|error| explain(&error))?;
        let is_script = stamp
            .path
            .extension()
            .is_some_and(|extension| extension == "luau");
        let manifest = if is_script {
            Manifest::of_script(&text)
        } else {
            Manifest::of_file(&text)
        };
        let manifest = Arc::new(manifest.map_err(|error| explain(&error))?);
        let make = self.runner(name, &file, &manifest)?;
        let statistics = statistics.unwrap_or_else(|| Arc::new(Statistics::new()));
        let (threads, waiting) = (manifest.concurrency, manifest.queue);
        let queue = Queue::new(name, threads, waiting, &statistics, make);
        Ok(Procedure {
            name: name.to_owned(),
            how: How::Queue(queue),
            manifest,
            statistics,
            stamp: Some(stamp),
        })
    }

    /// What makes a runner on each thread. A script is compiled, and tested in a machine of its
    /// own, before anything is replaced.
    fn runner(
        &self,
        name: &str,
        file: &str,
        manifest: &Arc<Manifest>,
    ) -> Result<Box<MakeRunner>, String> {
        match manifest.kind.clone() {
            Kind::Luau(text) => self.script(name, file, &text, manifest),
            Kind::Program(command) => {
                let manifest = Arc::clone(manifest);
                if let Err(reason) = check_program(Path::new(&command[0])) {
                    return Err(format!("{file}: command: {}: {reason}", command[0]));
                }
                Ok(Box::new(move || {
                    Ok(Box::new(ProgramRunner {
                        command: command.clone(),
                        manifest: Arc::clone(&manifest),
                        spent: Duration::ZERO,
                    }))
                }))
            }
            Kind::Spamd(options) => {
                let manifest = Arc::clone(manifest);
                Ok(Box::new(move || {
                    Ok(Box::new(SpamdRunner {
                        options: options.clone(),
                        manifest: Arc::clone(&manifest),
                    }))
                }))
            }
            Kind::Http(url) => {
                let (manifest, outside) = (Arc::clone(manifest), self.settings.outside.clone());
                Ok(Box::new(move || {
                    Ok(Box::new(EndpointRunner {
                        url: url.clone(),
                        manifest: Arc::clone(&manifest),
                        outside: outside.clone(),
                    }))
                }))
            }
            Kind::Client(zone) => {
                let clients = match self.settings.clients.clone() {
                    Some(clients) => clients,
                    None if self.settings.forgets => Arc::new(NoClients) as Arc<dyn Clients>,
                    None => return Err(format!("{file}: this server has no clients to serve it")),
                };
                let manifest = Arc::clone(manifest);
                Ok(Box::new(move || {
                    Ok(Box::new(ClientRunner {
                        clients: Arc::clone(&clients),
                        zone: zone.clone(),
                        manifest: Arc::clone(&manifest),
                    }))
                }))
            }
            Kind::Builtin => Err(format!("{file}: what is built in has no file")),
        }
    }

    /// [`Registry::runner`] of a script.
    fn script(
        &self,
        name: &str,
        file: &str,
        text: &str,
        manifest: &Arc<Manifest>,
    ) -> Result<Box<MakeRunner>, String> {
        let wants_store = manifest.grants.contains(&Grant::Store);
        // What a test keeps is nothing that calls are to find.
        let (shelf, scratch) = match (&self.store, wants_store) {
            (_, false) => (None, None),
            (Some(store), true) => {
                let scratch = Shelf::scratch(manifest.store_bytes);
                let scratch = scratch.map_err(|error| format!("{file}: {error}"))?;
                let shelf = store.shelf(name, manifest.store_bytes);
                (Some(Arc::new(shelf)), Some(Arc::new(scratch)))
            }
            (None, true) if self.settings.forgets => {
                let scratch = || Shelf::scratch(manifest.store_bytes).map(Arc::new);
                let fail = |error| format!("{file}: {error}");
                (
                    Some(scratch().map_err(fail)?),
                    Some(scratch().map_err(fail)?),
                )
            }
            (None, true) => {
                return Err(format!("{file}: this server has no store to grant"));
            }
        };
        let program = Program {
            name: name.to_owned(),
            script: Script::compile(file, text)?,
            manifest: Arc::clone(manifest),
            time: Arc::clone(self.watchdog.time()),
            shelf,
            outside: Arc::new(self.settings.outside.clone()),
        };
        self.test(&Arc::new(Program {
            shelf: scratch,
            ..program.clone()
        }))?;
        warn_of_lacks(name, file, manifest);
        warn_of_blind(name, file, manifest);
        let program = Arc::new(program);
        Ok(Box::new(move || {
            let runner = ScriptRunner::new(&program)?;
            Ok(Box::new(runner) as Box<dyn Runner>)
        }))
    }

    /// Tests a script. The clock of scripts runs only while something is watched.
    fn test(&self, program: &Arc<Program>) -> Result<(), String> {
        let [slow, clock] = [(); 2].map(|()| Arc::new(Reply::new(|_| {})));
        let (start, name) = (Instant::now(), program.name.clone());
        let say = move || {
            let most = TEST_TIME.as_secs();
            tracing::warn!(
                "procedure /{name}: its own test takes long; it is ended after {most} seconds, and \
                 a server that starts takes no calls before"
            );
        };
        self.watchdog.watch(start + SLOW_TEST_TIME, &slow, say);
        let end = start + Duration::from_secs(60);
        self.watchdog.watch(end, &clock, || {});
        ScriptRunner::new(program)?.test()
    }
}

/// Says in the log what a script uses without a grant: it fails only when it comes to that line.
fn warn_of_lacks(name: &str, file: &str, manifest: &Manifest) {
    let mut lacks = lacking::lacking(manifest);
    lacks.retain(|lack| lack.is_certain);
    let remedy = lacking::remedy(manifest, &lacks);
    for Lack { line, grant, .. } in &lacks {
        let module = grant.name();
        tracing::warn!(
            "procedure /{name}: {file}:{line}: it uses `{module}`, which is not granted; {remedy}"
        );
    }
}

/// Says in the log what a script asks of its call without having said that it needs it.
fn warn_of_blind(name: &str, file: &str, manifest: &Manifest) {
    let mut found = blind::blind(manifest);
    found.retain(|one| one.is_certain);
    let remedy = blind::remedy(manifest, &found);
    for Blind { line, what, .. } in &found {
        tracing::warn!(
            "procedure /{name}: {file}:{line}: it uses `{what}` without `needs`; {remedy}"
        );
    }
}

/// Makes something of each of the things, several at a time, and hands over what became of it as it
/// is done.
pub(super) fn each<T: Send, R: Send>(
    things: Vec<T>,
    make: impl Fn(&T) -> R + Sync,
    mut then: impl FnMut(T, R),
) {
    if things.len() < 2 {
        for thing in things {
            let made = make(&thing);
            then(thing, made);
        }
        return;
    }
    let at_a_time = things.len().min(LOADED_AT_A_TIME);
    let waiting = Mutex::new(things.into_iter());
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.next()
    };
    let work = |done: Sender<(T, R)>| {
        while let Some(thing) = next() {
            let made = make(&thing);
            // It is received below.
            let _ = done.send((thing, made));
        }
    };
    let work = &work;
    std::thread::scope(|scope| {
        let (done, all_done) = channel();
        let start = |done: Sender<(T, R)>| {
            let thread = std::thread::Builder::new().name("proc-load".into());
            thread.spawn_scoped(scope, move || work(done)).is_ok()
        };
        // Where the system has no thread left, this one does what others do not.
        let is_short = (0..at_a_time).any(|_| !start(done.clone()));
        if is_short {
            work(done);
        } else {
            drop(done);
        }
        for (thing, made) in all_done {
            then(thing, made);
        }
    });
}

/// The files of a folder by the names of their procedures; two of one name are an error.
pub(super) fn scan(folder: &Path) -> Result<Files, String> {
    let fail =
        |error: std::io::Error| format!("the folder of procedures {}: {error}", folder.display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let is_kind = |kind: &str| path.extension().is_some_and(|extension| extension == kind);
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        // Editors leave hidden files.
        if name.starts_with('.') || !(is_kind("luau") || is_kind("toml")) {
            continue;
        }
        let stamp = if is_name(name) {
            Stamp::of(&path)
        } else {
            Err(no_name(&path))
        };
        let two = format!("{name}.luau and {name}.toml are one name; remove one of them");
        found
            .entry(name.to_owned())
            .and_modify(|entry| *entry = Err(two))
            .or_insert(stamp);
        if found.len() > PROCEDURES_MAX {
            return Err(format!(
                "the folder of procedures {} has more than {PROCEDURES_MAX} of them",
                folder.display()
            ));
        }
    }
    Ok(found)
}

fn no_name(path: &Path) -> String {
    let file = path.display();
    format!("{file}: a name is 1 to 64 letters, digits, -, _ and .")
}

/// The name of the procedure that a file has, wherever the file is.
pub(super) fn name_of(path: &Path) -> Result<String, String> {
    let ending = path.extension().unwrap_or_default();
    if ending != "luau" && ending != "toml" {
        let file = path.display();
        return Err(format!(
            "{file}: the file of a procedure is NAME.luau, or NAME.toml for other kinds than scripts"
        ));
    }
    let name = path.file_stem().and_then(|name| name.to_str());
    let name = name.filter(|name| is_name(name));
    name.map(str::to_owned).ok_or_else(|| no_name(path))
}

/// Whether there is a program that this server may start.
fn check_program(path: &Path) -> Result<(), String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    let may = rustix::fs::access(path, Access::EXEC_OK);
    may.map_err(|_| "this server may not run it (chmod a+x)".to_owned())
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=PROCEDURE_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Result<Self, String> {
        use std::os::unix::fs::MetadataExt;
        let metadata =
            fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            modified: metadata.modified().ok(),
            size: metadata.len(),
            inode: metadata.ino(),
        })
    }

    pub(super) const fn none() -> Self {
        Self {
            path: PathBuf::new(),
            modified: None,
            size: 0,
            inode: 0,
        }
    }
}
