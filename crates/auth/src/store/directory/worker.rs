//! The directory's thread.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::{MissedTickBehavior, timeout};
use tracing::{info, warn};

use super::caught::{Ending, caught};
use super::edits::Edits;
use super::queue::Queue;
use super::sift::Findings;
use super::{Change, DirectoryOptions, Found, OrderAnswer, Roles, Shared, Unavailable, first};
use crate::counted;
use crate::model::{ADMIN, DEFAULT_ZONE, User, UserKey};
use crate::store::books::Known;
use crate::store::{Books, Order, StoreError, Who, order};

/// Names that one query asks for.
const BATCH_MAX: usize = 1_024;

/// How long an order may take.
const ORDER_TIME: Duration = Duration::from_secs(60);

/// Why a database counts as gone that says nothing.
const NO_ANSWER: &str = "no answer in time";

/// A look-up that waits.
pub(super) struct LookUp {
    pub(super) key: UserKey,
    pub(super) found: Found,
}

/// An order that waits.
pub(super) struct Job {
    pub(super) who: Who,
    pub(super) order: Order,
    pub(super) answer: OrderAnswer,
}

/// What the directory's thread works with.
pub(in crate::store) struct Worker {
    pub(in crate::store) books: Books,
    pub(in crate::store) options: DirectoryOptions,
    shared: Arc<Shared>,
    shown: String,
    /// What was wrong with the tables when they were asked last, so that it is logged once.
    trouble: RefCell<String>,
    /// Administrators whose names somebody else has given away, as was told.
    taken: RefCell<HashSet<UserKey>>,
    /// Names in the table of zones that no zone can have, as was told.
    odd_zones: RefCell<HashSet<Arc<str>>>,
    /// What orders have changed.
    edits: RefCell<Edits>,
}

impl Worker {
    pub(super) fn new(books: Books, options: DirectoryOptions, shared: Arc<Shared>) -> Self {
        Self {
            shown: books.describe(),
            books,
            options,
            shared,
            trouble: RefCell::default(),
            taken: RefCell::default(),
            odd_zones: RefCell::default(),
            edits: RefCell::default(),
        }
    }

    /// Runs until both queues are closed and empty.
    pub(super) fn run(
        self,
        look_ups: &Queue,
        orders: Receiver<Job>,
        confirm: Sender<Result<(), StoreError>>,
    ) {
        let _ending = Ending(look_ups);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = match builder.enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                // The receiver waits for it.
                let _ = confirm.send(Err(StoreError::Refused(error.to_string())));
                return;
            }
        };
        runtime.block_on(async {
            if let Err(error) = self.open().await {
                if !error.is_unavailable() {
                    let _ = confirm.send(Err(error));
                    return;
                }
                warn!(
                    "the user database {} does not answer ({error}); logins are refused as \
                     unavailable until it does",
                    self.shown
                );
                self.shared.health.lose(&self.shown, "");
            }
            let _ = confirm.send(Ok(()));
            drop(confirm);
            let serve = async { tokio::join!(self.serve(look_ups), self.obey(orders)) };
            let care = async {
                let told = RefCell::new(String::new());
                let attempt = async || self.try_again(&told).await;
                let recover = self.shared.health.keep_trying(&self.shown, attempt);
                tokio::join!(self.keep_fresh(), recover)
            };
            tokio::select! {
                _ = serve => {}
                _ = care => {}
            }
        });
    }

    /// Tries to open the lost user database again, and returns whether it is open. A database that
    /// answers but refuses is logged once.
    async fn try_again(&self, told: &RefCell<String>) -> bool {
        let reason = match self.open().await {
            Ok(()) => String::new(),
            Err(error) if error.is_unavailable() => return false,
            Err(error) => error.to_string(),
        };
        if !reason.is_empty() && *told.borrow() != reason {
            warn!(
                "the user database {} answers again, but cannot be used ({reason}); logins are \
                 refused as unavailable until it can",
                self.shown
            );
        }
        let is_open = reason.is_empty();
        told.replace(reason);
        is_open
    }

    /// Opens the user database and reads the roles and zones, which are always in memory.
    async fn open(&self) -> Result<(), StoreError> {
        let open = async {
            self.books.open().await?;
            self.read_roles().await?;
            self.read_zones().await?;
            if let Some(file) = &self.options.admin_password
                && first::administrator(&self.books, file).await?
            {
                self.note(
                    &Who::server(),
                    "user.add",
                    "admin",
                    serde_json::json!({
                        "roles": ["admin"],
                    }),
                );
            }
            self.look_for_namesake().await;
            Ok(())
        };
        match timeout(self.options.timeout, caught(open)).await {
            Ok(Ok(())) => {
                self.shared.health.begin();
                Ok(())
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(no_answer()),
        }
    }

    async fn serve(&self, queue: &Queue) {
        let mut taken = Vec::with_capacity(BATCH_MAX);
        loop {
            queue.take(&mut taken, BATCH_MAX).await;
            if taken.is_empty() {
                return;
            }
            let mut waiting: HashMap<UserKey, Vec<Found>> = HashMap::with_capacity(taken.len());
            let pinned = self.shared.pinned.load_full();
            for LookUp { key, found } in taken.drain(..) {
                match pinned.get(&key) {
                    Some(user) => found(Ok(Some(Arc::clone(user)))),
                    None => waiting.entry(key).or_default().push(found),
                }
            }
            if waiting.is_empty() {
                continue;
            }
            let keys: Vec<UserKey> = waiting.keys().cloned().collect();
            let users = match self.shared.health.is_up() {
                true => self.find(&keys).await,
                false => Err(Unavailable),
            };
            let Findings { mut users, unknown } = match users {
                Ok(findings) => findings,
                Err(Unavailable) => {
                    let founds = waiting.into_values().flatten();
                    founds.for_each(|found| found(Err(Unavailable)));
                    continue;
                }
            };
            for (key, founds) in waiting {
                if unknown.contains(&key) {
                    founds.into_iter().for_each(|found| found(Err(Unavailable)));
                    continue;
                }
                let user = self.found(&key, users.remove(&key).unwrap_or_default());
                for found in founds {
                    found(Ok(user.clone()));
                }
            }
        }
    }

    /// Takes over what a look-up has found. If that is new, connections of the user learn of it at
    /// once, because a refresh would find it known already.
    fn found(&self, key: &UserKey, known: Known) -> Option<Arc<User>> {
        let cache = &self.shared.cache;
        // A reload may have given the configuration a user of that name in the meantime.
        if let Some(user) = self.pinned(key) {
            return Some(user);
        }
        if known.is_nobody() {
            self.tell(key, cache.refresh(key, known));
            return None;
        }
        let (user, has_changed) = cache.keep(known)?;
        if has_changed {
            self.tell(key, Some(Some(Arc::clone(&user))));
        }
        Some(user)
    }

    /// One query, within its time.
    pub(super) async fn ask(
        &self,
        keys: &[UserKey],
    ) -> Result<HashMap<UserKey, Known>, StoreError> {
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        let users = self.in_time(self.books.look(keys)).await?;
        for (key, _) in users.iter().filter(|(_, known)| known.is_taken()) {
            self.tell_taken(key);
        }
        Ok(users)
    }

    /// Tells once that somebody of the source does not become an administrator by its name.
    fn tell_taken(&self, key: &UserKey) {
        if let Some(source) = &self.books.source
            && self.taken.borrow_mut().insert(key.clone())
        {
            warn!(
                "{key} is an administrator of Stentor's own, and {} has a user of that name too, whose \
                 password is not accepted; rename one of them, or give the \
                 administrator another role (`stentor grant` and `stentor revoke`): then both are \
                 one user",
                source.describe()
            );
        }
    }

    /// Looks for somebody in the source who is called as the first administrator is, so that the
    /// log says so before that user wonders.
    async fn look_for_namesake(&self) {
        if self.books.source.is_some() && self.options.admin_password.is_some() {
            // A row of that name that cannot be read is nobody's trouble but that user's.
            let _ = self.ask(&[UserKey::new(DEFAULT_ZONE, ADMIN)]).await;
        }
    }

    /// One query, or a few more if it is refused for some of the names. What an order changes in
    /// the meantime may have been read before, and is read again: what was answered counts from
    /// then on, however long somebody else's tables take.
    async fn look(&self, keys: &[UserKey]) -> Result<Findings, StoreError> {
        let mut seen = self.edits.borrow().count();
        let mut findings = match self.ask(keys).await {
            Ok(users) => Findings {
                users,
                ..Findings::default()
            },
            Err(error) if error.is_unavailable() => return Err(error),
            Err(error) => self.sift(keys, error).await?,
        };
        // Orders come one at a time, and each takes longer than one look into the store.
        loop {
            let changed = self.edits.borrow().after(seen, keys);
            if changed.is_empty() {
                return Ok(findings);
            }
            seen = self.edits.borrow().count();
            let own = self.in_time(self.books.own(&changed)).await?;
            findings.put_own(&changed, own);
        }
    }

    /// Looks users up, and reports what is wrong.
    async fn find(&self, keys: &[UserKey]) -> Result<Findings, Unavailable> {
        let shown = &self.shown;
        match self.look(keys).await {
            Ok(findings) => {
                if !std::mem::take(&mut *self.trouble.borrow_mut()).is_empty() {
                    info!("looking users up in {shown} works again");
                }
                Ok(findings)
            }
            Err(error) if error.is_unavailable() => {
                self.shared.health.lose(shown, &error.to_string());
                Err(Unavailable)
            }
            Err(error) => {
                // Something is wrong with the tables: nobody can log in, but this is not an outage.
                let error = error.to_string();
                if *self.trouble.borrow() != error {
                    warn!(
                        "looking users up in {shown} fails ({error}); logins are refused as \
                         unavailable until it works again"
                    );
                    self.trouble.replace(error);
                }
                Err(Unavailable)
            }
        }
    }

    async fn obey(&self, mut queue: Receiver<Job>) {
        while let Some(Job { who, order, answer }) = queue.recv().await {
            let obey = async {
                self.make_sure().await?;
                order::execute(self, &who, order).await
            };
            let result = match timeout(ORDER_TIME, caught(obey)).await {
                Ok(result) => result,
                Err(_) => Err(no_answer().into()),
            };
            self.shared.then(move || answer(result));
        }
    }

    /// Refuses if the store does not answer, soon: an order that waits holds up those behind it.
    /// While something is lost, it may be the operator's tables alone; roles are read then, since
    /// they may never have been.
    async fn make_sure(&self) -> Result<(), StoreError> {
        let was_up = self.shared.health.is_up();
        let mut answer = self.read_zones().await;
        if answer.is_ok() && !was_up {
            answer = self.read_roles().await;
        }
        match answer {
            Err(error) if error.is_unavailable() => {
                self.shared.health.lose(&self.shown, &error.to_string());
                Err(error)
            }
            Err(error) if !was_up => Err(error),
            // The order itself reports whatever else is wrong.
            _ => Ok(()),
        }
    }

    /// What one query answers, if it does in time. One that was sent into a void would hold its
    /// connection for ever, and with it whoever tries whether the database is back.
    pub(in crate::store) async fn in_time<T>(
        &self,
        query: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let answer = timeout(self.options.timeout, caught(query)).await;
        answer.unwrap_or_else(|_| Err(no_answer()))
    }

    async fn keep_fresh(&self) {
        let mut ticks = tokio::time::interval(self.options.refresh.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut told = String::new();
        loop {
            ticks.tick().await;
            if !self.shared.health.is_up() {
                continue;
            }
            let trouble = match self.refresh().await {
                Ok(_) => String::new(),
                Err(error) if error.is_unavailable() => {
                    self.shared.health.lose(&self.shown, &error.to_string());
                    String::new()
                }
                Err(error) => error.to_string(),
            };
            if !trouble.is_empty() && trouble != told {
                warn!(
                    "{} cannot be read again ({trouble}); what was read before stays in use",
                    self.shown
                );
            }
            told = trouble;
        }
    }

    /// Reads everything that is known again.
    pub(in crate::store) async fn refresh(&self) -> Result<usize, StoreError> {
        self.read_roles().await?;
        self.read_zones().await?;
        let mut changed = 0;
        for keys in self.shared.cache.keys_to_refresh().chunks(BATCH_MAX) {
            changed += self.reread(keys).await?;
        }
        if changed > 0 {
            let users = counted(changed as u64, "user");
            info!("changed in {}: {users}", self.shown);
        }
        Ok(changed)
    }

    /// Takes over at once what an order has written to the store, or deleted from it. Nobody is
    /// asked: an outage of somebody else's tables keeps no connection alive.
    pub(in crate::store) fn take_over(&self, key: UserKey, own: Option<User>) {
        let change = self.shared.cache.put_own(&key, own);
        self.tell(&key, change);
        self.edits.borrow_mut().add(key);
    }

    /// The same for a user of whom nobody else knows either.
    pub(in crate::store) fn forget(&self, key: UserKey) {
        let change = self.shared.cache.deleted(&key);
        self.tell(&key, change);
        self.edits.borrow_mut().add(key);
    }

    /// Tells what has become of a user, if something has.
    fn tell(&self, key: &UserKey, change: Option<Option<Arc<User>>>) {
        if let Some(user) = change {
            self.shared.tell_user(key, user);
        }
    }

    /// Reads these users again, if they are known; how many have changed.
    async fn reread(&self, keys: &[UserKey]) -> Result<usize, StoreError> {
        let is_known = |key: &&UserKey| self.shared.cache.has(key) && self.pinned(key).is_none();
        let known = keys.iter().filter(is_known);
        let keys: Vec<UserKey> = known.cloned().collect();
        if keys.is_empty() {
            return Ok(0);
        }
        let Findings { mut users, unknown } = self.look(&keys).await?;
        let mut changed = 0;
        for key in keys {
            if unknown.contains(&key) {
                continue;
            }
            let found = users.remove(&key).unwrap_or_default();
            if let Some(user) = self.shared.cache.refresh(&key, found) {
                changed += 1;
                self.tell(&key, Some(user));
            }
        }
        Ok(changed)
    }

    /// Reads all roles again.
    pub(in crate::store) async fn read_roles(&self) -> Result<(), StoreError> {
        let roles = self.in_time(self.books.store.roles()).await?;
        if !self.shared.roles.load().are(&roles) {
            self.shared.roles.store(Arc::new(Roles::new(roles)));
            self.shared.tell(Change::Roles);
        }
        Ok(())
    }

    /// Reads all zones again. A row with a name that no zone can have, which only somebody else can
    /// have written, is none: nobody is let in by it, and everybody else is.
    pub(in crate::store) async fn read_zones(&self) -> Result<(), StoreError> {
        let mut zones = self.in_time(self.books.store.zones()).await?;
        let mut odd = HashSet::new();
        zones.retain(|zone| {
            let Err(error) = zone.check() else {
                return true;
            };
            if !self.odd_zones.borrow().contains(&zone.name) {
                warn!(
                    "{}: the row with the name {:?} of the table stentor_zone is left out, and \
                     nobody of that zone can log in: {error}; delete the row, as by `stentor zone \
                     remove`, or give it another name",
                    self.shown, zone.name
                );
            }
            odd.insert(Arc::clone(&zone.name));
            false
        });
        self.odd_zones.replace(odd);
        if **self.shared.zones.load() != zones {
            self.shared.zones.store(Arc::new(zones));
            self.shared.tell(Change::Zones);
        }
        Ok(())
    }

    /// All roles, as they were read last.
    pub(in crate::store) fn roles(&self) -> Arc<Roles> {
        self.shared.roles.load_full()
    }

    /// The zones that the configuration names.
    pub(in crate::store) fn named_zones(&self) -> Arc<Vec<Arc<str>>> {
        self.shared.named_zones.load_full()
    }

    /// Whether a subscription that is permitted in part is refused.
    pub(in crate::store) fn is_strict(&self) -> bool {
        self.shared.strict.load(Ordering::Relaxed)
    }

    /// A user of the configuration.
    pub(in crate::store) fn pinned(&self, key: &UserKey) -> Option<Arc<User>> {
        self.shared.pinned.load().get(key).cloned()
    }

    /// All users of the configuration, in the order of zone and name.
    pub(in crate::store) fn all_pinned(&self) -> Vec<Arc<User>> {
        let pinned = self.shared.pinned.load();
        let mut users: Vec<Arc<User>> = pinned.values().cloned().collect();
        users.sort_by(|a, b| (&a.zone, &a.name).cmp(&(&b.zone, &b.name)));
        users
    }

    /// Whether a zone may have users.
    pub(in crate::store) fn has_zone(&self, name: &str) -> bool {
        self.shared.has_zone(name)
    }

    /// Writes down what was done.
    pub(in crate::store) fn note(
        &self,
        who: &Who,
        what: &str,
        target: &str,
        detail: serde_json::Value,
    ) {
        self.shared.note(who, what, target, detail);
    }
}

/// That a query took longer than it may.
fn no_answer() -> StoreError {
    StoreError::Unavailable(NO_ANSWER.to_owned())
}
