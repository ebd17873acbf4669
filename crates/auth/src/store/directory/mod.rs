//! The directory of users, roles and zones, which the rest of the server asks.

mod cache;
mod caught;
mod edits;
mod first;
mod health;
mod queue;
mod roles;
mod sift;
mod worker;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::warn;

use super::{AuditLog, AuditTrouble, Books, Order, OrderError, StoreError, Who};
use crate::model::{User, UserKey, ZoneRecord};
use cache::Cache;
pub use cache::Watch;
pub use health::Health;
use queue::Queue;
pub use roles::Roles;
pub(super) use worker::Worker;
use worker::{Job, LookUp};

/// Orders that may wait.
const ORDERS_WAITING_MAX: usize = 1_000;

/// How a directory works.
#[derive(Debug)]
pub struct DirectoryOptions {
    /// How often users who are in use, and all roles and zones, are read again.
    pub refresh: Duration,
    /// How long the database may take for one answer before it counts as gone.
    pub timeout: Duration,
    /// Look-ups that may wait; one more is refused.
    pub waiting_max: usize,
    /// Where changes of rights are written down.
    pub audit: AuditLog,
    /// Where the password of the first administrator goes, who is made at the first start. `None`
    /// for a command that is not the server.
    pub admin_password: Option<PathBuf>,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            refresh: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
            waiting_max: 20_000,
            audit: AuditLog::nowhere(),
            admin_password: None,
        }
    }
}

/// The database does not answer now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the user database does not answer")]
pub struct Unavailable;

/// Where the answer to a look-up goes: to the user, or none if nobody has that name.
pub type Found = Box<dyn FnOnce(Result<Option<Arc<User>>, Unavailable>) + Send>;

/// Where the answer to an order goes.
pub type OrderAnswer = Box<dyn FnOnce(Result<Value, OrderError>) + Send>;

/// Something that is known has changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// A user who is watched or was looked up lately: as it is now, or gone.
    User(UserKey, Option<Arc<User>>),
    /// One of the roles; which ones is not told.
    Roles,
    /// One of the zones.
    Zones,
}

/// What the directory tells.
pub enum Told {
    /// Something has changed.
    Changed(Change),
    /// To be called once everything that was told before is taken over. An order is answered by
    /// it: with the answer, what was ordered counts for everybody.
    Then(Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(change) => f.debug_tuple("Changed").field(change).finish(),
            Self::Then(_) => f.debug_struct("Then").finish_non_exhaustive(),
        }
    }
}

/// A listener to all this.
type Hook = Box<dyn Fn(Told) + Send + Sync>;

/// Users, roles and zones, from a thread of its own.
///
/// Look-ups that arrive while a query is under way wait and go into the next one together, so a
/// login storm costs few queries. A database that goes away costs each look-up nothing: it is
/// answered [`Unavailable`] at once until the database is back, which is found out by trying with
/// growing pauses. What is known stays known.
pub struct Directory {
    shared: Arc<Shared>,
    look_ups: Arc<Queue>,
    /// Closed first when the directory ends.
    orders: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// What the directory's thread shares with those who ask.
struct Shared {
    roles: ArcSwap<Roles>,
    zones: ArcSwap<Vec<ZoneRecord>>,
    /// Users of the configuration, who go before all others.
    pinned: ArcSwap<HashMap<UserKey, Arc<User>>>,
    /// Held while changes of users are sent: a change in the user database must not follow the
    /// news that the configuration has taken over the name.
    telling: Mutex<()>,
    /// Zones that the configuration names.
    named_zones: ArcSwap<Vec<Arc<str>>>,
    /// Whether a subscription that is permitted in part is refused.
    strict: AtomicBool,
    cache: Cache,
    health: Health,
    hook: OnceLock<Hook>,
    queries: AtomicU64,
    audit: AuditLog,
}

impl Shared {
    fn has_zone(&self, name: &str) -> bool {
        let is_it = |zone: &Arc<str>| **zone == *name;
        name == crate::model::DEFAULT_ZONE
            || self.zones.load().iter().any(|zone| is_it(&zone.name))
            || self.named_zones.load().iter().any(is_it)
    }

    fn note(&self, who: &Who, what: &str, target: &str, detail: Value) {
        if let Err(error) = self.audit.note(&who.to_string(), what, target, detail) {
            warn!(what, target, "the audit log cannot be written: {error}");
        }
    }

    /// Sends the change of a user of the user database, unless the configuration has a user of
    /// that name, which goes first.
    fn tell_user(&self, key: &UserKey, user: Option<Arc<User>>) {
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.pinned.load().contains_key(key) {
            self.tell(Change::User(key.clone(), user));
        }
    }

    fn tell(&self, change: Change) {
        if let Some(hook) = self.hook.get() {
            hook(Told::Changed(change));
        }
    }

    /// Has something done once all changes so far are taken over.
    fn then(&self, act: impl FnOnce() + Send + 'static) {
        match self.hook.get() {
            Some(hook) => hook(Told::Then(Box::new(act))),
            None => act(),
        }
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory")
            .field("health", &self.shared.health)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl Directory {
    /// Starts the thread and waits until the user database is open, or until it is clear that it
    /// does not answer now; then the directory starts without it and goes on trying.
    ///
    /// # Errors
    /// When the database refuses, a file cannot be used, or the system gives no thread.
    pub fn start(books: Books, mut options: DirectoryOptions) -> Result<Self, StoreError> {
        let look_ups = Arc::new(Queue::new(options.waiting_max));
        let (orders, order_queue) = mpsc::channel(ORDERS_WAITING_MAX);
        let shared = Arc::new(Shared {
            roles: ArcSwap::from_pointee(Roles::default()),
            zones: ArcSwap::default(),
            pinned: ArcSwap::default(),
            telling: Mutex::default(),
            named_zones: ArcSwap::default(),
            strict: AtomicBool::new(false),
            cache: Cache::default(),
            health: Health::default(),
            hook: OnceLock::new(),
            queries: AtomicU64::new(0),
            audit: std::mem::replace(&mut options.audit, AuditLog::nowhere()),
        });
        let (confirm, confirmed) = std::sync::mpsc::channel();
        let worker = Worker::new(books, options, Arc::clone(&shared));
        let failed = |error: std::io::Error| StoreError::Refused(error.to_string());
        let mut directory = Self {
            shared,
            look_ups: Arc::clone(&look_ups),
            orders: Some(orders),
            threads: Vec::new(),
        };
        let relay = Arc::clone(&look_ups);
        let mut spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.into()).spawn(run);
            thread.map(|thread| directory.threads.push(thread))
        };
        spawn("look-ups", Box::new(move || relay.relay())).map_err(failed)?;
        let run = move || worker.run(&look_ups, order_queue, confirm);
        spawn("directory", Box::new(run)).map_err(failed)?;
        match confirmed.recv() {
            Ok(Ok(())) => Ok(directory),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::Refused("the directory's thread ended".into())),
        }
    }

    /// Asks for a user. False if too many ask already; `found` is forgotten then. Otherwise it is
    /// called once, on the directory's own thread, where it must not wait for anything. May be
    /// called by threads with descriptor tables of their own.
    #[must_use]
    pub fn look_up(&self, key: UserKey, found: Found) -> bool {
        self.look_ups.push(LookUp { key, found })
    }

    /// A user who was looked up before, no older than `auth.refresh` while the database answers.
    #[must_use]
    pub fn cached(&self, key: &UserKey) -> Option<Arc<User>> {
        if let Some(user) = self.shared.pinned.load().get(key) {
            return Some(Arc::clone(user));
        }
        self.shared.cache.get(key)
    }

    /// A user who was looked up, as it is now; `None` if it is gone, or if the configuration has
    /// somebody else of that name by now. What changed between a look-up and a watch is found out
    /// by this.
    #[must_use]
    pub fn confirm(&self, user: &Arc<User>) -> Option<Arc<User>> {
        if let Some(pinned) = self.shared.pinned.load().get(&user.key()) {
            return (pinned == user).then(|| Arc::clone(pinned));
        }
        self.shared.cache.confirm(user)
    }

    /// Keeps a user current and reports its changes for as long as the watch is held, as a session
    /// of the user does. See [`Directory::confirm`].
    #[must_use]
    pub fn watch(&self, user: &Arc<User>) -> Watch {
        let key = user.key();
        if self.shared.pinned.load().contains_key(&key) {
            return Watch::nothing(key);
        }
        self.shared.cache.watch(user)
    }

    /// Has it told as a change when somebody gets a name that nobody has, for as long as the watch
    /// is held: by who comes with a token that needs no user.
    #[must_use]
    pub fn watch_absent(&self, key: &UserKey) -> Watch {
        self.shared.cache.watch_absent(key.clone())
    }

    /// What is said here of a user whom somebody else kept and does not know any more. It is none;
    /// but whoever has the name and needs to be none is bound by it. Known after a look-up that
    /// found nobody, and for as long as [`Directory::watch_absent`] is held.
    #[must_use]
    pub fn left(&self, key: &UserKey) -> Option<Arc<User>> {
        self.shared.cache.left(key)
    }

    /// All roles, as they are now.
    #[must_use]
    pub fn roles(&self) -> Arc<Roles> {
        self.shared.roles.load_full()
    }

    /// All zones that were added, as they are now.
    #[must_use]
    pub fn zones(&self) -> Arc<Vec<ZoneRecord>> {
        self.shared.zones.load_full()
    }

    /// Whether a zone may have users: one that was added, or that the configuration names.
    #[must_use]
    pub fn has_zone(&self, name: &str) -> bool {
        self.shared.has_zone(name)
    }

    /// Has something done whenever a user, a role or a zone has changed, on the directory's thread.
    /// The hook sees to it that each [`Told::Then`] is called after the changes before it are taken
    /// over: no order is answered before. There is one such hook; a second one is refused.
    #[must_use]
    pub fn on_change(&self, hook: impl Fn(Told) + Send + Sync + 'static) -> bool {
        self.shared.hook.set(Box::new(hook)).is_ok()
    }

    /// Takes other users of the configuration from now on. They go before all others: they replace
    /// a user of the same name in the user database.
    pub fn pin(&self, users: Vec<User>) {
        let new: HashMap<UserKey, Arc<User>> = users
            .into_iter()
            .map(|user| (user.key(), Arc::new(user)))
            .collect();
        let telling = self.shared.telling.lock();
        let _telling = telling.unwrap_or_else(PoisonError::into_inner);
        let old = self.shared.pinned.swap(Arc::new(new.clone()));
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            self.shared.tell(Change::User(key.clone(), None));
        }
        for (key, user) in new {
            if old.get(&key) != Some(&user) {
                // A credential of the user database does not prove the configured user.
                if self.shared.cache.forget(&key) {
                    self.shared.tell(Change::User(key.clone(), None));
                }
                self.shared.tell(Change::User(key, Some(user)));
            }
        }
    }

    /// Writes a change of rights that is not an order into the audit log.
    pub fn note(&self, who: &Who, what: &str, target: &str, detail: Value) {
        self.shared.note(who, what, target, detail);
    }

    /// The zones that the configuration names: they are listed with those of the user database.
    pub fn name_zones(&self, zones: Vec<Arc<str>>) {
        self.shared.named_zones.store(Arc::new(zones));
    }

    /// Tells whoever follows the changes that other rules hold in zones from now on.
    pub fn zones_have_changed(&self) {
        self.shared.tell(Change::Zones);
    }

    /// Says what becomes of a subscription of which only a part is permitted, as
    /// `auth.subscribe` has it: whether it is refused. [`Order::UserTest`] answers by it.
    pub fn subscribe_strictly(&self, strict: bool) {
        self.shared.strict.store(strict, Ordering::Relaxed);
    }

    /// Carries an order out; `answer` is called on the directory's thread, or on the one that takes
    /// over what has changed. Not for threads with descriptor tables of their own.
    pub fn submit(&self, who: Who, order: Order, answer: OrderAnswer) {
        let job = Job { who, order, answer };
        let refused = match &self.orders {
            Some(orders) => match orders.try_send(job) {
                Ok(()) => return,
                Err(
                    mpsc::error::TrySendError::Full(job) | mpsc::error::TrySendError::Closed(job),
                ) => job,
            },
            None => job,
        };
        (refused.answer)(Err(OrderError::busy()));
    }

    /// Carries an order out and waits for it. Not to be called on the directory's own thread.
    ///
    /// # Errors
    /// Why it was not done.
    pub fn order(&self, who: Who, order: Order) -> Result<Value, OrderError> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let answer = Box::new(move |result| {
            // Nobody waits any more if the asking thread has gone.
            let _ = sender.send(result);
        });
        self.submit(who, order, answer);
        receiver.recv().unwrap_or_else(|_| Err(OrderError::busy()))
    }

    /// Whether a credential of a user who was looked up is in Stentor's own store, where it can
    /// be changed.
    #[must_use]
    pub fn keeps(&self, user: &User, credential: &str) -> bool {
        let is_pinned = self.shared.pinned.load().contains_key(&user.key());
        let mut credentials = user.credentials.iter();
        !is_pinned && credentials.any(|one| *one.text == *credential && !one.foreign)
    }

    /// Puts a better hash in the place of an outdated one, if the user still has that.
    pub fn upgrade_credential(&self, key: UserKey, outdated: Arc<str>, better: Arc<str>) {
        let order = Order::Upgrade {
            key,
            outdated,
            better,
        };
        self.submit(Who::server(), order, Box::new(|_| {}));
    }

    /// Whether the database answers.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.shared.health.is_up()
    }

    /// What keeps the audit log from being written, if anything does.
    #[must_use]
    pub fn audit_trouble(&self) -> Option<AuditTrouble> {
        self.shared.audit.trouble()
    }

    /// Look-ups that wait for their answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.look_ups.len()
    }

    /// How many queries look-ups have cost so far.
    #[must_use]
    pub fn queries(&self) -> u64 {
        self.shared.queries.load(Ordering::Relaxed)
    }
}

impl Drop for Directory {
    /// Ends the thread: what waits is still answered.
    fn drop(&mut self) {
        self.look_ups.close();
        self.orders = None;
        let own = std::thread::current().id();
        for thread in self.threads.drain(..) {
            if thread.thread().id() != own {
                // A panic was reported when it happened.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;
    use crate::store::{Source, Task, TextStore};

    /// Users of somebody else, in a store that panics now and then.
    struct Panicking(Arc<AtomicBool>);

    impl Source for Panicking {
        fn describe(&self) -> String {
            "the test".to_owned()
        }

        fn open(&self) -> Task<'_, ()> {
            Box::pin(async { self.find(&[]).await.map(drop) })
        }

        fn find<'a>(&'a self, _: &'a [UserKey]) -> Task<'a, Vec<User>> {
            Box::pin(async {
                assert!(!self.0.load(Ordering::SeqCst), "this is expected");
                Ok(Vec::new())
            })
        }
    }

    #[test]
    fn a_store_that_panics_ends_nothing() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut books = Books::of(TextStore::new(&folder.path().join("users.toml")));
        let panics = Arc::new(AtomicBool::new(false));
        books.source = Some(Arc::new(Panicking(Arc::clone(&panics))));
        let directory = Directory::start(books, DirectoryOptions::default()).expect("it is there");
        let look = || {
            let (sender, receiver) = channel();
            let found = Box::new(move |answer| sender.send(answer).expect("the test waits"));
            assert!(directory.look_up(UserKey::parse("ann"), found));
            receiver
                .recv_timeout(Duration::from_secs(60))
                .expect("an answer comes")
        };
        let show = || {
            let name = "ann".to_owned();
            let shown = directory.order(Who::server(), Order::UserShow { name });
            shown.expect_err("there is nobody").code
        };
        assert_eq!((look(), show()), (Ok(None), "not-found"));
        panics.store(true, Ordering::SeqCst);
        assert_eq!(
            (look(), look(), show()),
            (Err(Unavailable), Err(Unavailable), "unavailable")
        );
        panics.store(false, Ordering::SeqCst);
        let start = Instant::now();
        while look() != Ok(None) {
            assert!(start.elapsed() < Duration::from_secs(60), "it stays gone");
            std::thread::yield_now();
        }
        assert_eq!(show(), "not-found");
    }
}
