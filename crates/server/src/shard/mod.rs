//! A shard: a thread that owns everything it touches.
//!
//! It has a poll, listeners, connections, and a hub with the sessions whose home it is. One turn of
//! its loop: wait; apply what other threads left; accept; read what is ready, with a budget per
//! connection; flush each connection that has output once; close what is over; fire timers. Under
//! load turns get longer and one write carries many messages, so batching adapts by itself and
//! costs no latency when there is little to do.
//!
//! **Invariants.** A shard blocks in its poll alone, but for the moment that `coalesce` asks for.
//! It takes no lock on the way of a message, and writes no files. Descriptors come from its own
//! accept or its inbox. A slot is given free at the end of the turn only, so that what happens
//! earlier in the turn never meets a stranger in it. Before the bytes of a read are applied, the
//! control queue is looked at: what another shard announced before a client could know of it is
//! then known here too.

mod absent;
mod accept;
mod asked;
mod backlog;
mod banned;
mod close;
mod command;
mod control_queues;
mod errands;
mod exchange;
mod flush;
mod handover;
mod inquiry;
mod leave;
mod link;
mod login;
mod pace;
mod pause;
mod policy;
mod poller;
mod read;
mod readiness;
mod recording;
mod replies;
mod scratch;
mod strangers;
mod tail;
mod take_over;
mod tell;
mod unwritten;
mod wait;
mod watch;
mod weigh;

pub(crate) use accept::unix_peer;
pub(crate) use command::{
    AboutClient, ClientEntry, Found, Handover, Incoming, Inquiry, Listeners, Purpose, QueueSeen,
    ShardCommand, Survey,
};
pub(crate) use link::LinkBytes;
pub(crate) use login::reason_of;
pub(crate) use policy::Policy;

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use stentor_auth::{Asker, Exchange};
use stentor_hub::journal::end_restoring;
use stentor_hub::{
    Authentication, Beside, Holding, Hub, MeshItem, MeshRoom, SessionKey, ShardId, ShardItem,
    Shared,
};
use stentor_session::{Batch, Tick, Wheel};
use stentor_topic::Slots;

use crate::call::Reply;
use crate::context::ServerContext;
use crate::inbox::{Arrivals, Inbox, Outbox, Tickets};
use crate::listener::Port;
use crate::mesh::{Mesh, Waker};
use crate::sessions::{Heritage, Prior, Recorder};
use crate::telemetry::Histogram;
use crate::trace::Taps;
use crate::transport::Transport;
use accept::Listening;
use backlog::Backlog;
use inquiry::Questions;
use link::{Link, LinkKey, Phase, Reading};
use pace::{ADVANCE_TIME, ADVANCE_VISITS, Crowd, Longer, Part};
use poller::Poller;
use read::Rows;
use readiness::{Readiness, inherit};
use scratch::Scratch;
use strangers::Strangers;
use take_over::TakeOvers;
use unwritten::Unwritten;
use watch::Watch;
use weigh::Long;

/// Tokens above the slots of connections, which are 32 bits wide.
const WAKER: Token = Token(usize::MAX - 1);
const INBOX: Token = Token(usize::MAX - 2);
const ALARM: Token = Token(usize::MAX - 3);
const FIRST_LISTENER: usize = 1 << 40;

/// Events taken from the poll at a time.
const EVENTS: usize = 1024;

/// Timers that fire in one turn: each takes some microseconds at most.
const FIRED_MAX: usize = 256;

/// What the main thread makes for a shard before the shards leave its descriptor table.
pub(crate) struct Equipment {
    /// The shard's number.
    pub(crate) id: usize,
    pub(crate) poll: Poll,
    pub(crate) waker: Arc<Waker>,
    pub(crate) inbox: Inbox,
    pub(crate) mesh: Mesh<MeshItem>,
    pub(crate) listeners: Vec<(Arc<Port>, OwnedFd)>,
    /// What its hub shares with those of other shards; the hub itself never leaves its thread.
    pub(crate) shared: Shared,
    pub(crate) policy: Arc<Policy>,
    pub(crate) context: Arc<ServerContext>,
    /// None if nothing is written down of sessions.
    pub(crate) heritage: Option<Heritage>,
}

/// See the module.
pub(crate) struct Shard {
    id: usize,
    context: Arc<ServerContext>,
    policy: Arc<Policy>,
    poller: Poller,
    waker: Arc<Waker>,
    hub: Hub,
    /// Writes sessions down, where that is wanted.
    recorder: Option<Recorder>,
    /// Sessions whose answers wait until what they belong to is written down.
    unwritten: Unwritten,
    /// The items that wait for that and are for other shards: their number, and their bytes.
    unsent: (usize, usize),
    readiness: Readiness,
    mesh: Mesh<MeshItem>,
    links: Slots<Link>,
    serials: u32,
    /// The link of each session that has one, by the session's slot.
    link_of: Vec<u32>,
    listeners: Slab<Listening>,
    /// Listeners with connections to accept.
    accepting: Vec<usize>,
    patience: Patience,
    arrivals: Arrivals<Incoming>,
    outbox: Outbox,
    tickets: Tickets,
    timers: Wheel<LinkKey>,
    /// Timers that have fired, and that nothing was done about yet.
    due: VecDeque<LinkKey>,
    /// Enhanced authentications of connected clients that wait for them, and until when.
    exchanges: HashMap<LinkKey, (Exchange, Tick)>,
    /// Clients whose logins wait for the authenticator: it drops those of the ones that are gone.
    askers: HashMap<LinkKey, Asker>,
    /// Links with bytes to read.
    readable: Rows,
    /// Links that have not sent their CONNECT.
    strangers: Strangers,
    /// For each shard, the links that are not read until it has caught up.
    stalled: Vec<Vec<u32>>,
    /// Links whose next packet needs other shards, or a journal, which have to catch up first.
    awaiting_room: Vec<u32>,
    /// Links that nothing was read from until something was decided, which it is now.
    resumed: Vec<u32>,
    /// Links whose transport has bytes to write.
    pending: Vec<u32>,
    dirty: Vec<SessionKey>,
    /// Sessions with output that an earlier turn had no time for.
    backlog: Backlog,
    /// Links with a final output whose socket may take some of it.
    leaving: VecDeque<LinkKey>,
    /// Links that could not be written to, and are not ended yet.
    broken: VecDeque<LinkKey>,
    /// Connections that wait until the earlier ones of their clients are read out.
    taking_over: TakeOvers,
    /// Links whose slot is free after this turn, or after the next ones.
    gone: Vec<u32>,
    commands: Vec<ShardCommand>,
    applying: Applying,
    scratch: Scratch,
    batch: Batch,
    now: Tick,
    stage: Stage,
    /// A descriptor to give up when there is no other, so that a connection can be accepted and
    /// closed instead of being left hanging.
    spare: Option<OwnedFd>,
    napped: Nap,
    figures: Figures,
    watch: Watch,
    crowd: Crowd,
    longer: Longer,
    /// What traces look at.
    taps: Taps,
    questions: Questions,
    errands: errands::Desk,
    /// Answers of procedures that wait to be delivered.
    replies: VecDeque<Reply>,
}

/// Whether a shard is there for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// It closes everything and ends when that is done, or at this time.
    Stopping(Tick),
}

/// Whether to wait a moment before more connections are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// The turn had no time for more of them.
    None,
    /// There is no descriptor for more of them.
    Moment,
}

/// Whether commands are being applied.
enum Applying {
    Idle,
    Busy,
}

/// Whether output has been held back to be sent in larger pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nap {
    Due,
    Taken,
}

/// What the shard itself counts.
#[derive(Debug, Default)]
struct Figures {
    refused: u64,
    bytes_received: u64,
    bytes_sent: u64,
    turns: u64,
    flushes: u64,
    /// Pieces of final outputs written.
    final_outputs: u64,
    accepted: u64,
    /// Bytes of final outputs that are not written yet.
    draining: u64,
    /// Bytes that connections hold beside their sessions.
    links: u64,
    /// Connections with long unfinished packets: see [`Shard::bound_long`].
    long: Long,
    latency: Histogram,
}

fn hub(number: u8, shared: Shared, policy: &Policy, context: &ServerContext) -> Hub {
    let (shards, hasher) = (context.shard_count(), context.hasher.clone());
    let settings = Arc::clone(&policy.hub);
    let mut hub = Hub::new(ShardId(number), shards, hasher, shared, settings);
    hub.turn_mut().count_beside(Beside::Slice(ADVANCE_VISITS));
    hub
}

fn outbox(context: &ServerContext) -> Outbox {
    let slots = context.shards.iter().map(|way| way.slot.clone());
    Outbox::new(slots.collect())
}

/// Has the poll watch what is the shard's own: its waker and its inbox.
fn watch_own(poll: &Poll, waker: &Waker, inbox: Inbox) -> std::io::Result<Arrivals<Incoming>> {
    let arrivals = Arrivals::new(inbox);
    let registry = poll.registry();
    waker.register(registry, WAKER)?;
    let inbox = arrivals.as_raw_fd();
    registry.register(&mut SourceFd(&inbox), INBOX, Interest::READABLE)?;
    Ok(arrivals)
}

impl Shard {
    /// A shard that serves nothing yet. To be called on its own thread, in its own descriptor
    /// table.
    ///
    /// # Errors
    /// When the poll does not take what it has to watch.
    pub(crate) fn new(equipment: Equipment) -> std::io::Result<Self> {
        let Equipment {
            id,
            poll,
            waker,
            inbox,
            mesh,
            listeners,
            shared,
            policy,
            context,
            heritage,
        } = equipment;
        let (recorder, prior, readiness) = inherit(heritage);
        Self {
            id,
            arrivals: watch_own(&poll, &waker, inbox)?,
            poller: Poller::new(poll, ALARM)?,
            waker,
            hub: hub(number_of(id), shared, &policy, &context),
            recorder,
            unwritten: Unwritten::default(),
            unsent: Default::default(),
            readiness,
            mesh,
            links: Slots::new(),
            serials: 0,
            link_of: Vec::new(),
            listeners: Slab::new(),
            accepting: Vec::new(),
            patience: Patience::None,
            outbox: outbox(&context),
            tickets: Tickets::of(number_of(id)),
            timers: Wheel::new(context.clock.now()),
            due: VecDeque::new(),
            exchanges: HashMap::new(),
            askers: HashMap::new(),
            readable: Rows::default(),
            strangers: Strangers::default(),
            stalled: vec![Vec::new(); context.shards.len()],
            awaiting_room: Vec::new(),
            resumed: Vec::new(),
            pending: Vec::new(),
            dirty: Vec::new(),
            backlog: Backlog::default(),
            leaving: VecDeque::new(),
            broken: VecDeque::new(),
            taking_over: TakeOvers::default(),
            gone: Vec::new(),
            commands: Vec::new(),
            applying: Applying::Idle,
            scratch: Scratch::new(),
            batch: Batch::new(),
            now: context.clock.now(),
            stage: Stage::Serving,
            spare: None,
            napped: Nap::Due,
            figures: Figures::default(),
            watch: Watch::new(),
            crowd: Crowd::new(),
            longer: Longer::new(),
            taps: Taps::default(),
            questions: Questions::default(),
            errands: errands::Desk::default(),
            replies: VecDeque::new(),
            policy,
            context,
        }
        .begin(listeners, prior)
    }

    /// Watches its listeners, and goes on with sessions.
    fn begin(
        mut self,
        listeners: Vec<(Arc<Port>, OwnedFd)>,
        prior: Prior,
    ) -> std::io::Result<Self> {
        for (port, socket) in listeners {
            Transport::prepare(&port);
            self.listen(port, socket)?;
        }
        self.keep_spare();
        self.restore(prior);
        Ok(self)
    }

    /// Runs until the server stops.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        while !self.is_finished() {
            self.turn(&mut events);
        }
        self.tell();
        if let Some(recorder) = self.recorder.take() {
            recorder.finish(&mut self.hub);
        }
    }

    /// Whether far too much waits for other shards, or for the journal.
    fn is_overfull(&self) -> bool {
        self.mesh_room() == MeshRoom::Overfull || self.is_overladen()
    }

    fn is_finished(&self) -> bool {
        match self.stage {
            Stage::Serving => false,
            Stage::Stopping(deadline) => self.links.is_empty() || self.now >= deadline,
        }
    }

    fn turn(&mut self, events: &mut Events) {
        self.wait(events);
        self.now = self.context.clock.now();
        self.figures.turns += 1;
        self.begin_turn();
        self.share_control_queues();
        self.drain_commands();
        self.answer_all();
        self.deliver_replies();
        self.run_errands();
        let has_drained = self.drain_unladen();
        self.take_events(events);
        self.open_when_ready();
        if self.readiness.is_open() {
            self.accept_all();
        }
        let held = std::mem::take(&mut self.resumed);
        self.end_broken();
        let has_read_all = self.read_all();
        let goes_on = !held.is_empty() || !has_drained;
        if goes_on {
            self.answer_few();
            self.resume_held(held);
        }
        self.take_over_all();
        let packets = self.crowd.note(has_read_all);
        self.hub.turn_mut().set_packets_at_once(packets);
        self.mesh.wake_peers();
        self.record(None);
        if self.may_flush() {
            if goes_on {
                self.flush_all_timed();
            } else {
                self.flush_all();
            }
        }
        self.advance();
        self.tend_recorder();
        self.close_all();
        self.write_final_outputs();
        self.mesh.wake_peers();
        self.outbox.flush();
        self.tell();
        self.free();
        self.keep_accounts();
        self.end_turn();
    }

    /// Writes down what this shard holds beside its sessions: the hub writes the rest.
    fn keep_accounts(&mut self) {
        let shard = ShardId(number_of(self.id));
        let unwritten = self.unwritten_bytes();
        let ledger = &self.context.ledger;
        ledger.write(shard, Holding::Draining, self.figures.draining);
        ledger.write(shard, Holding::Connections, self.figures.links);
        let untold = self.hub.turn().untold_bytes();
        ledger.write(shard, Holding::Mesh, self.mesh.overflowed_bytes() + untold);
        ledger.write(shard, Holding::Journal, unwritten);
        if ledger.has_grown(shard) {
            self.context.alarm.ring();
        }
    }

    fn drain_commands(&mut self) {
        let mut commands = std::mem::take(&mut self.commands);
        self.context.shards[self.id]
            .control_queue
            .take(&mut commands);
        let was_idle = matches!(self.applying, Applying::Idle);
        if was_idle {
            self.applying = Applying::Busy;
        }
        for command in commands.drain(..) {
            self.apply_command(command);
        }
        if was_idle {
            self.applying = Applying::Idle;
        }
        self.commands = commands;
    }

    fn apply_command(&mut self, command: ShardCommand) {
        match command {
            ShardCommand::Hub(item) => {
                self.hub.control(self.now, item);
                self.forward();
            }
            ShardCommand::Incoming(ticket, incoming) => {
                if let Some((incoming, fd)) = self.arrivals.expect(ticket, incoming) {
                    self.take_in(incoming, fd);
                }
            }
            ShardCommand::Login(key, decision) => self.decided(key, decision),
            ShardCommand::Configure(policy) => {
                self.hub.operate().reconfigure(Arc::clone(&policy.hub));
                self.policy = policy;
            }
            ShardCommand::Adaptors(adaptors) => self.hub.operate().set_adaptors(adaptors),
            ShardCommand::Unlisten(port) => self.unlisten(&port),
            ShardCommand::Traces(traces) => self.taps.set(traces),
            ShardCommand::Answer(reply) => self.replies.push_back(reply),
            ShardCommand::Publish(errands) => self.take_errands(errands),
            ShardCommand::Inquiry(inquiry) => self.question(inquiry),
            ShardCommand::Stop(deadline) => self.stop(deadline),
        }
    }

    /// [`Shard::drain_mesh`], unless too much waits for the journal: other shards keep what they
    /// have sent then, and hold their clients back.
    fn drain_unladen(&mut self) -> bool {
        self.is_overladen() || self.drain_mesh()
    }

    /// Takes what other shards have sent, as far as the turn has time. Returns whether that was all
    /// that they had sent when the round began.
    fn drain_mesh(&mut self) -> bool {
        let (hub, now, clock) = (&mut self.hub, self.now, &self.context.clock);
        if self.mesh.begin_round() {
            hub.begin_drain();
            self.readiness.drain_begins();
        }
        let mut part = Part::drain(hub, now, &self.longer);
        if self.backlog.is_behind() {
            part.take_little(hub);
        }
        let is_through = self.mesh.drain(|from, item| {
            hub.apply(now, ShardId(from as u8), item);
            part.is_over(hub, clock)
        });
        if is_through {
            if self.readiness.drain_ends() {
                end_restoring(hub);
            }
            hub.end_drain(now);
        } else {
            hub.settle(now);
        }
        self.forward();
        self.refill_mesh();
        is_through
    }

    /// Sends on what the last call to the hub left for other shards. Returns the last shard that
    /// is behind.
    fn forward(&mut self) -> Option<usize> {
        self.forward_for(None)
    }

    /// The same after a call for one session: see [`Shard::record`].
    fn forward_for(&mut self, key: Option<SessionKey>) -> Option<usize> {
        self.record(key);
        let waits = self.recorder.as_ref().is_some_and(Recorder::lacks_room);
        // Most calls leave nothing.
        if self.hub.effects().has_urgent() {
            return self.forward_urgent(waits);
        }
        self.has_forwarded(waits);
        None
    }

    fn forward_urgent(&mut self, waits: bool) -> Option<usize> {
        let (behind, authentications) = self.send_on(waits);
        self.has_forwarded(waits);
        let room = Beside::MeshRoom(self.mesh_room());
        self.hub.turn_mut().count_beside(room);
        for authentication in authentications {
            self.authenticate_again(authentication);
        }
        behind
    }

    fn has_forwarded(&mut self, waits: bool) {
        if !waits && !self.mesh.has_overflow() {
            self.hub.forwarded();
        }
    }

    /// What does not wait for the end of the turn goes where it belongs; what is for other shards
    /// stays if the journal has to have something first. Returns the last shard that is behind, and
    /// what is for the authenticator.
    fn send_on(&mut self, waits: bool) -> (Option<usize>, Vec<Authentication>) {
        let effects = self.hub.effects();
        let goes = |(_, item): &mut (ShardId, ShardItem)| !waits || !item.is_outcome();
        let syncs = self.recorder.as_ref().is_some_and(Recorder::waits);
        for (to, item) in effects.control_items.extract_if(.., goes) {
            match syncs && item.is_outcome() {
                true => self.unwritten.hold_outcome((to, item)),
                false => self.context.post_item(to, item),
            }
        }
        self.resumed
            .extend(effects.resumed.drain(..).map(|link| link.0));
        let authentications = std::mem::take(&mut effects.authentications);
        let mut behind = None;
        // Other shards name the messages that are written here: they get them with their names.
        let sent = if waits { 0 } else { effects.mesh.len() };
        for (to, mut item) in effects.mesh.drain(..sent) {
            item.seal();
            let to = usize::from(to.0);
            if self.mesh.push(to, item) == crate::mesh::Pushed::Overflowed {
                behind = Some(to);
            }
        }
        (behind, authentications)
    }

    fn take_events(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                WAKER | ALARM => {}
                INBOX => self.receive_arrivals(),
                Token(token) if token >= FIRST_LISTENER => {
                    self.accepting.push(token - FIRST_LISTENER);
                }
                Token(index) => {
                    // Tokens of links are slots of 32 bits.
                    let index = index as u32;
                    if event.is_writable() {
                        self.writable(index);
                    }
                    if event.is_read_closed() && self.note_end(index) {
                        continue;
                    }
                    if event.is_readable() || event.is_read_closed() || event.is_error() {
                        self.list(index);
                    }
                }
            }
        }
    }

    /// Lists a link for the next round of reads.
    fn list(&mut self, index: u32) {
        if let Some(link) = self.links.get_mut(index)
            && matches!(link.reading, Reading::Waiting | Reading::Missed)
        {
            link.reading = Reading::Listed;
            self.push_readable(index);
        }
    }

    /// Lists a link from which nothing was read for a while, if the poll has announced something
    /// in the meantime: it does so only once.
    fn list_missed(&mut self, index: u32) {
        if let Some(link) = self.links.get(index)
            && link.reading == Reading::Missed
        {
            self.list(index);
        }
    }

    /// Whether output goes out in this turn, or is held back for more.
    fn may_flush(&mut self) -> bool {
        let coalesce = self.policy.coalesce;
        if coalesce.is_zero() || self.stage != Stage::Serving || !self.backlog.is_empty() {
            return true;
        }
        match self.napped {
            Nap::Due if self.hub.effects().has_output() => {
                // Shorter than the poll could be told to wait. What arrives in the meantime is read
                // in the next turn and goes out together.
                std::thread::sleep(coalesce);
                self.napped = Nap::Taken;
                false
            }
            Nap::Due => true,
            Nap::Taken => {
                self.napped = Nap::Due;
                true
            }
        }
    }

    /// How long this turn has held back output.
    fn napped_for(&self) -> Duration {
        match self.napped {
            Nap::Taken => self.policy.coalesce,
            Nap::Due => Duration::ZERO,
        }
    }

    fn advance(&mut self) {
        if self.hub.advance(self.now) {
            self.forward();
            if self.goes_on() {
                self.advance_on();
            }
        }
        let due = &mut self.due;
        self.timers.advance(self.now, |key| due.push_back(key));
        for _ in 0..FIRED_MAX {
            let Some(key) = self.due.pop_front() else {
                break;
            };
            self.expire(key);
        }
    }

    /// Whether the hub has more to do at once, and the turn has not done its work.
    fn goes_on(&self) -> bool {
        !self.hub.turn().is_spent() && self.hub.is_due(self.now)
    }

    /// Goes on with what earlier turns have left, for as long as this one has time.
    fn advance_on(&mut self) {
        let now = self.context.clock.now();
        let mut part = Part::short(&self.hub, self.now, now, ADVANCE_TIME).of_long_steps();
        let mut before = None;
        while self.goes_on()
            && before.replace(self.hub.turn().visits()) != Some(self.hub.turn().visits())
            && !part.is_over(&self.hub, &self.context.clock)
        {
            self.hub.advance(self.now);
            self.forward();
        }
    }

    /// Adds a connection and watches it. Returns its slot.
    fn insert(&mut self, mut link: Link) -> Option<u32> {
        self.serials = self.serials.wrapping_add(1);
        link.serial = self.serials;
        let fd = link.fd.as_raw_fd();
        let index = self.links.insert(link);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let (registry, token) = (self.poller.registry(), Token(index as usize));
        let registered = registry.register(&mut SourceFd(&fd), token, interest);
        if registered.is_err() {
            self.links.remove(index);
            return None;
        }
        self.weigh(index);
        self.context.shards[self.id]
            .load
            .fetch_add(1, Ordering::Relaxed);
        Some(index)
    }

    /// Begins to stop: answers those who wait to be accepted, tells the clients, closes.
    fn stop(&mut self, deadline: Tick) {
        if self.stage != Stage::Serving {
            return;
        }
        self.stage = Stage::Stopping(deadline);
        self.accept_last();
        self.deliver_last_replies();
        // What other shards have acknowledged already goes out before the DISCONNECT: after the
        // round that may be under way, another one.
        while !self.drain_mesh() {}
        while !self.drain_mesh() {}
        if let Some(recorder) = &mut self.recorder {
            recorder.stop();
        }
        let (links, policy) = (&self.links, &self.policy);
        self.hub.operate().shut_down(self.now, |link| {
            let link = links.get(link.0)?;
            policy.server_reference(&link.port)
        });
        self.forward();
        self.turn_away_unfinished();
    }
}

impl Phase {
    /// Whether bytes are wanted from the socket.
    const fn reads(&self) -> bool {
        match self {
            Self::ExpectConnect(_) | Self::ExpectAuth(_) | Self::Live(_) | Self::Draining(_) => {
                true
            }
            Self::Authenticating(_) | Self::Gone => false,
        }
    }
}

impl Equipment {
    /// What belongs to this shard alone: kept in its table, and closed in the main thread's.
    pub(crate) fn descriptors(&self) -> Vec<std::os::fd::RawFd> {
        let own = [self.poll.as_raw_fd(), self.inbox.as_raw_fd()];
        own.into_iter()
            .chain(self.listeners.iter().map(|(_, socket)| socket.as_raw_fd()))
            .collect()
    }
}

/// The number of a shard, of which there are at most 64.
fn number_of(id: usize) -> u8 {
    u8::try_from(id).unwrap_or(u8::MAX)
}
