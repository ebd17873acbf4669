//! Making everything, in the order that private descriptor tables ask for.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::Poll;
use stentor_auth::Authenticator;
use stentor_auth::center::Center;
use stentor_auth::store::Directory;
use stentor_disk::MappedDisk;
use stentor_hub::{InterestTable, Ledger, SHARDS_MAX, Shared};
use stentor_retained::{Store, StoreMaintenance};
use stentor_spool::Spool;
use stentor_topic::TopicHasher;
use tracing::warn;

use super::Command;
use super::open_listeners::{Called, OpenListeners};
use super::retained;
use super::sessions::{self, Prior};
use crate::accounts;
use crate::adaptors::{LoginHooks, Plane};
use crate::admission::Admission;
use crate::bans::{Bans, Now};
use crate::clock::Clock;
use crate::config::Config;
use crate::context::{Capacity, ServerContext, Way};
use crate::data_dir::DataDir;
use crate::error::ServerError;
use crate::fdtable::{self, Table};
use crate::give_back;
use crate::http::{Errands, Visitors};
use crate::inbox::{self, Inbox, Tickets};
use crate::listener::Opened;
use crate::logins;
use crate::mesh::{self, ControlQueue, Waker};
use crate::queues::Queues;
use crate::retained::TopicBounds;
use crate::sessions::{Journals, Owners};
use crate::shard::{Equipment, Policy, Shard};
use crate::survey::Surveys;
use crate::telemetry::Journal;
use crate::tenants::Tenants;
use crate::trace::Traces;
use crate::warden::Alarm;
use crate::zones;

/// The threads that wait for disks.
pub(super) struct BackgroundThreads {
    pub(super) retained: StoreMaintenance,
    /// None if nothing is written down of them.
    pub(super) sessions: Option<SessionMaintenance>,
    /// The backlogs of sessions on the disk. Its threads end with it.
    pub(super) spool: Option<Spool>,
}

/// The maintenance thread of the journals of sessions.
pub(super) type SessionMaintenance = stentor_session_store::JournalMaintenance<MappedDisk>;

/// The maintenance thread of journals, if there are any, and whose sessions were in them.
type Inherited = ((Option<SessionMaintenance>, Option<Spool>), Option<Owners>);

/// Descriptors kept free in each table: for connections between accept and home, and for the
/// rest of the process.
const RESERVE: u64 = 512;
/// Connections that are refused politely at a time, at the limit: one of 32 descriptors.
const REFUSALS_MIN: u64 = 32;
/// As many as a storm brings between two turns of a shard, and more.
const REFUSALS_MAX: u64 = 512;

/// A server whose shards serve.
pub(super) struct Started {
    pub(super) context: Arc<ServerContext>,
    pub(super) center: Arc<Center>,
    pub(super) directory: Arc<Directory>,
    pub(super) open_listeners: OpenListeners,
    pub(super) shards: Shards,
    pub(super) background: BackgroundThreads,
    /// The listeners of procedures, which no shard serves.
    pub(super) calls: Vec<Called>,
}

/// The shards' threads.
pub(super) struct Shards {
    threads: Vec<JoinHandle<()>>,
    /// Where a thread that fails says so; set once the supervisor is there.
    failures: Arc<Mutex<Option<Sender<Command>>>>,
    pub(super) table: Table,
    /// Connections per shard.
    pub(super) capacity: Capacity,
}

/// How many shards a configuration asks for.
fn shard_count(config: &Config) -> u8 {
    let count = match config.general.shards {
        0 => std::thread::available_parallelism().map_or(1, |count| count.get().min(64) as u8),
        count => count,
    };
    count.clamp(1, SHARDS_MAX)
}

/// Opens everything and starts the shards.
///
/// # Errors
/// When something cannot be had; what was opened is closed again.
pub(super) fn start(config: &Config, data_dir: &DataDir) -> Result<Started, ServerError> {
    let count = shard_count(config);
    let limit = fdtable::raise_limit();
    let table = fdtable::probe();
    let capacity = capacity(limit, table, count, config.listeners.len());
    let journal = Journal::new(data_dir.path());
    journal
        .start()
        .map_err(|error| ServerError::system("starting the log thread", error))?;
    let clock = Clock::start();
    // Before all that leaves traces: a server that cannot start for a taken port makes no store
    // and no administrator. Dropping the open listeners takes away what they made.
    let (open_listeners, opened, calls) = OpenListeners::open(&config.listeners, count)?;
    let store = retained::open(config, data_dir.path(), clock)?;
    let directory = Arc::new(accounts::open(config, data_dir, true)?);
    // The first start has hashed a password. What is made from here on would lie in that memory,
    // so that the pages which it never writes would stay resident.
    give_back::give_back();
    let prior = sessions::open(config, data_dir.path(), clock, count)?;
    let zone_max = prior.as_ref().map_or(0, Prior::zone_max);
    let zones = logins::zones(config, data_dir.path(), &store, zone_max)?;
    let logins = logins::start(config, data_dir.path(), &directory, zones, clock)?;
    let adaptors = Plane::start(config, &logins.center, &directory)?;
    let kept = Kept {
        clock,
        hasher: TopicHasher::new(random()),
        store,
    };
    let basis = Basis {
        journal,
        retained: kept,
        center: &logins.center,
        adaptors,
    };
    let started = start_shards(config, count, table, capacity, basis, prior, opened);
    let started = started.and_then(
        |(context, shards, ((session_maintenance, spool), owners))| {
            let center = logins.follow_changes(&context, owners)?;
            let background = BackgroundThreads {
                retained: retained::start(&context)?,
                sessions: session_maintenance,
                spool,
            };
            Ok((context, shards, background, center))
        },
    );
    let (context, shards, background, center) =
        started.map_err(|error| ServerError::system("starting the shards", error))?;
    Ok(Started {
        context,
        center,
        directory,
        open_listeners,
        shards,
        background,
        calls,
    })
}

/// How many connections each shard can hold, so that descriptors remain for everything else.
fn capacity(limit: u64, table: Table, shards: u8, listeners: usize) -> Capacity {
    let refusals = (limit / 32).clamp(REFUSALS_MIN, REFUSALS_MAX);
    let own = 2 * u64::from(shards) + listeners as u64 + 16 + refusals;
    let reserve = RESERVE.min(limit / 8) + own;
    let per_shard = match table {
        Table::Private => limit.saturating_sub(reserve),
        Table::Shared => {
            warn!(
                limit,
                "this system refuses private descriptor tables (a container profile may block \
                 unshare): all shards together can hold as many connections as one process may \
                 open files"
            );
            limit.saturating_sub(reserve * u64::from(shards)) / u64::from(shards)
        }
    };
    Capacity {
        connections: usize::try_from(per_shard).unwrap_or(usize::MAX).max(1),
        // Far below what a usize holds.
        refusals: refusals as usize,
    }
}

/// What the main thread makes for each shard before any of them leaves its table.
struct Made {
    polls: Vec<Poll>,
    wakers: Vec<Arc<Waker>>,
    inboxes: Vec<Inbox>,
    slots: Vec<inbox::Slot>,
    errands: Errands,
}

impl Made {
    fn new(count: u8) -> io::Result<Self> {
        let mut made = Self {
            polls: Vec::new(),
            wakers: Vec::new(),
            inboxes: Vec::new(),
            slots: Vec::new(),
            errands: Errands::new()?,
        };
        for _ in 0..count {
            made.polls.push(Poll::new()?);
            made.wakers.push(Arc::new(Waker::new()?));
            let (slot, inbox) = inbox::open()?;
            made.slots.push(slot);
            made.inboxes.push(inbox);
        }
        Ok(made)
    }

    /// What every shard keeps in its table.
    fn common(&self) -> Vec<RawFd> {
        let wakers = self.wakers.iter().map(|waker| waker.as_raw_fd());
        let slots = self.slots.iter().map(AsRawFd::as_raw_fd);
        let errands = self.errands.as_raw_fd();
        wakers.chain(slots).chain([errands]).collect()
    }
}

/// The retained store, the clock that it was opened with, and the hasher of the hubs.
struct Kept {
    clock: Clock,
    hasher: TopicHasher,
    store: Arc<Store<MappedDisk>>,
}

/// What was opened before the shards, and what they and the rest of the server use together.
struct Basis<'c> {
    journal: Journal,
    retained: Kept,
    center: &'c Arc<Center>,
    adaptors: Plane,
}

/// How the rest of the server reaches the shards, and what they can take.
struct Access {
    ways: Vec<Way>,
    capacity: Capacity,
    rings: mesh::Gauges,
    errands: Errands,
}

/// The ways into the shards.
fn ways(wakers: &[Arc<Waker>], slots: Vec<inbox::Slot>) -> Vec<Way> {
    let way = |(waker, slot)| Way {
        control_queue: ControlQueue::new(Arc::clone(waker)),
        slot,
        load: AtomicUsize::new(0),
    };
    wakers.iter().zip(slots).map(way).collect()
}

/// What joins the shards with each other and with the rest of the server.
fn connect(
    config: &Config,
    basis: Basis<'_>,
    journals: Option<Journals>,
    access: Access,
) -> Arc<ServerContext> {
    let Basis {
        journal,
        retained,
        center,
        adaptors,
    } = basis;
    let shards = access.ways;
    let admission = Arc::new(Admission::default());
    admission.reconfigure(&config.limits);
    let login_hooks = LoginHooks::new(Arc::clone(center), adaptors.clone());
    let authenticator: Arc<dyn Authenticator> = Arc::new(login_hooks);
    // At most `SHARDS_MAX`.
    let shard_count = u8::try_from(shards.len()).unwrap_or(u8::MAX);
    let now = Now::at(retained.clock.now());
    let context = Arc::new(ServerContext {
        adaptors,
        bans: Bans::open(journal.data_dir(), &authenticator, now),
        visitors: Visitors::new(access.errands),
        traces: Traces::default(),
        surveys: Surveys::default(),
        clock: retained.clock,
        hasher: retained.hasher,
        authenticator,
        admission,
        tenants: Tenants::default(),
        ledger: Arc::new(Ledger::new(shard_count)),
        alarm: Alarm::default(),
        retained: retained.store,
        journals,
        topic_bounds: TopicBounds::new(&config.limits),
        journal,
        call_queue: Arc::default(),
        shards,
        capacity: access.capacity,
        rings: access.rings,
        // No shard has this number.
        tickets: Mutex::new(Tickets::of(u8::MAX)),
    });
    context.adaptors.serve(&context);
    context
}

fn start_shards(
    config: &Config,
    count: u8,
    table: Table,
    capacity: Capacity,
    basis: Basis<'_>,
    prior: Option<Prior>,
    opened: Vec<Opened>,
) -> io::Result<(Arc<ServerContext>, Shards, Inherited)> {
    let made = Made::new(count)?;
    let common = made.common();
    let Made {
        polls,
        wakers,
        inboxes,
        slots,
        errands,
    } = made;
    let meshes = mesh::build(&wakers, mesh::RING_ITEMS);
    let access = Access {
        ways: ways(&wakers, slots),
        capacity,
        rings: mesh::Gauges::of(&meshes),
        errands,
    };
    let (center, journals) = (basis.center, prior.as_ref().map(Prior::journals));
    let context = connect(config, basis, journals, access);
    let queues = Queues::of(config, center)?;
    let dealt = prior.map(|prior| prior.deal(queues, center, &context));
    let dealt = dealt.transpose()?.unwrap_or_default();
    let mut heritages = dealt.heritages.into_iter();
    let interest = Arc::new(InterestTable::new());
    let policy = Arc::new(Policy::of(config, zones::settings(config, center)?, count));
    let mut listeners = per_shard(opened, count);
    let mut shards = Shards::none(table, capacity);
    let (confirm, confirmed) = channel();
    let mut moved = Vec::new();
    let persistent_sessions = Arc::default();
    let parts = polls.into_iter().zip(wakers).zip(inboxes).zip(meshes);
    for (id, (((poll, waker), inbox), mesh)) in parts.enumerate() {
        let equipment = Equipment {
            id,
            heritage: heritages.next(),
            poll,
            waker,
            inbox,
            mesh,
            listeners: listeners.next().unwrap_or_default(),
            shared: shared(config, &context, &interest, &persistent_sessions),
            policy: Arc::clone(&policy),
            context: Arc::clone(&context),
        };
        let own = equipment.descriptors();
        moved.extend(&own);
        let keep: Vec<RawFd> = own.into_iter().chain(common.iter().copied()).collect();
        shards.spawn(equipment, keep, confirm.clone())?;
    }
    drop(confirm);
    await_all(&confirmed, count)?;
    if table == Table::Private {
        // Every shard has its own copies now; these would keep closed listeners open.
        fdtable::close_moved(&moved);
    }
    Ok((
        context,
        shards,
        ((dealt.maintenance, dealt.spool), dealt.owners),
    ))
}

/// What the hub of a shard shares with the others.
fn shared(
    config: &Config,
    context: &ServerContext,
    interest: &Arc<InterestTable>,
    persistent_sessions: &Arc<AtomicU64>,
) -> Shared {
    let writes = context.journals.is_some();
    Shared {
        sessions_zero_ms: writes.then(|| sessions::zero_ms(context.clock)),
        keeps_wills: config.sessions.keep_wills,
        interest: Arc::clone(interest),
        retained: context.retained.clone(),
        persistent_sessions: Arc::clone(persistent_sessions),
        random: Arc::new(random_bits),
        ledger: Arc::clone(&context.ledger),
        callees: Some(context.call_queue.clone()),
        adaptors: context.adaptors.if_any(),
    }
}

/// Deals the sockets of each port out, one per shard.
fn per_shard(
    opened: Vec<Opened>,
    count: u8,
) -> impl Iterator<Item = Vec<(Arc<crate::listener::Port>, std::os::fd::OwnedFd)>> {
    let mut dealt: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    for (port, sockets) in opened {
        for (shard, socket) in dealt.iter_mut().zip(sockets) {
            shard.push((Arc::clone(&port), socket));
        }
    }
    dealt.into_iter()
}

/// Waits until each shard has said that it serves.
fn await_all(confirmed: &Receiver<io::Result<()>>, count: u8) -> io::Result<()> {
    for _ in 0..count {
        match confirmed.recv() {
            Ok(result) => result?,
            Err(_) => return Err(io::Error::other("a shard ended before it served")),
        }
    }
    Ok(())
}

/// A number that nobody can foresee: the standard library seeds its hash maps with one.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Bits that nobody can foresee. A system without random bytes has been up for too short a time to
/// have clients; what comes then has a key of random bits all the same.
fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u128::from_ne_bytes(bytes),
        Err(_) => u128::from(random()) << 64 | u128::from(random()),
    }
}

impl Shards {
    /// No thread yet.
    fn none(table: Table, capacity: Capacity) -> Self {
        Self {
            threads: Vec::new(),
            failures: Arc::new(Mutex::new(None)),
            table,
            capacity,
        }
    }

    fn spawn(
        &mut self,
        equipment: Equipment,
        keep: Vec<RawFd>,
        confirm: Sender<io::Result<()>>,
    ) -> io::Result<()> {
        let (table, failures) = (self.table, Arc::clone(&self.failures));
        let id = equipment.id;
        let thread = std::thread::Builder::new()
            .name(format!("shard-{id}"))
            .spawn(move || {
                let run = || {
                    if table == Table::Private
                        && let Err(errno) = fdtable::make_private(&keep)
                    {
                        return confirm.send(Err(errno.into())).unwrap_or_default();
                    }
                    match Shard::new(equipment) {
                        Err(error) => confirm.send(Err(error)).unwrap_or_default(),
                        Ok(shard) => {
                            confirm.send(Ok(())).unwrap_or_default();
                            drop(confirm);
                            shard.run();
                        }
                    }
                };
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    let failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(commands) = &*failures {
                        // The supervisor outlives the shards.
                        let _ = commands.send(Command::ShardFailed(id));
                    }
                }
            })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Tells the supervisor when a shard fails from now on.
    pub(super) fn watch(&self, commands: &Sender<Command>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures = Some(commands.clone());
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.threads.len()
    }

    /// Waits for all shards to end, until a deadline; whether they all did.
    pub(super) fn join(self, deadline: Instant) -> bool {
        const STEP: Duration = Duration::from_millis(5);
        for thread in self.threads {
            while !thread.is_finished() {
                if Instant::now() >= deadline {
                    return false;
                }
                std::thread::sleep(STEP);
            }
            // A panic was reported when it happened.
            let _ = thread.join();
        }
        true
    }
}
