//! The thread that owns the call listeners and their connections.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use stentor_auth::center::Center;
use stentor_auth::{Decision, Refusal};
use stentor_call_protocol::Status;
use stentor_hub::Identity;
use stentor_procedure::{Answer, Call, Caller, Closer, Line, Need, Procedure, Registry};
use stentor_zone::topic;
use tracing::warn;

use super::body::Bodies;
use super::callers::Callers;
use super::closers::Closers;
use super::connection::{Around, Called, Connection, Next, READ_BYTES};
use super::crowd::{Crowd, Name, Origin};
use super::entrance::{Entrance, Peer};
use super::identity::{Claim, Tokens};
use super::mounts::Mounts;
use super::outlets::Outlets;
use super::stream::Stream;
use crate::listener::is_shortage;
use crate::log::{Admission, RateLimit};

/// The token of the waker; listeners follow, then connections.
const WAKER: Token = Token(0);
/// The token of the list of what is mounted.
const MOUNTS: Token = Token(usize::MAX - 1);
/// How often connections whose time is up are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The answer to callers when all places are taken.
const FULL: &str = "too many callers are connected (procedures.connections)";
/// The answer to callers without a token, when others from their address, or of their user, have
/// half of the places.
const BESIEGED: &str = "too many callers without a token are connected from this address or user";
/// The answer to a caller that shows no message to a procedure that looks into one.
const NO_MESSAGE: &str = "there is no message to look at, and the procedure needs its headers or \
                          body; stentor-call shows one by --file FILE";
/// The answer to callers when the server stops.
const STOPPING: &str = "the server is stopping";
/// Lines in each [`COMPLAINTS_PERIOD`] about calls that no procedure gets to see.
const COMPLAINTS_MAX: u32 = 30;
/// The time that [`COMPLAINTS_MAX`] holds for.
const COMPLAINTS_PERIOD: Duration = Duration::from_secs(60);
/// Connections of one listener that are accepted before others, and whoever is there, have a turn.
const ACCEPTS: usize = 64;
/// How long nothing is accepted after the system had no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);

/// What other threads say about a call: its connection's key and number, and what.
type Posted = (usize, u64, News);

enum News {
    /// The procedure has answered; the line goes into the log when the answer has left.
    Answer(Answer, Line),
    /// The Auth Center has decided who calls.
    Identified(Box<Called>, Decision),
}

/// Where procedures and the Auth Center put what they say.
struct Outbox {
    /// None once nobody looks any more.
    posted: Mutex<Option<Vec<Posted>>>,
    waker: Waker,
    /// Nothing new is taken; calls in flight may take until then.
    end: Mutex<Option<Instant>>,
}

impl Outbox {
    fn push(&self, key: usize, number: u64, news: News, owner: ThreadId) {
        let mut posted = self.lock();
        match &mut *posted {
            Some(posted) => posted.push((key, number, news)),
            // By being dropped, not under the lock, the line of an answer goes into the log.
            None => return drop(posted),
        }
        drop(posted);
        // What is built in answers on the thread that looks here right after.
        if std::thread::current().id() != owner {
            self.wake();
        }
    }

    fn wake(&self) {
        // It fails only when the poll is gone, and then nobody waits.
        let _ = self.waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Posted>>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Posted> {
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Nobody will look again: what comes from now on is dropped.
    fn close(&self) {
        let rest = self.lock().take();
        drop(rest);
    }
}

/// Ends the thread.
pub(super) struct Stopper(Arc<Outbox>);

impl Stopper {
    /// Closes the listeners, and ends the thread once the calls in flight are answered, or then.
    pub(super) fn stop(&self, end: Instant) {
        *self.0.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        self.0.wake();
    }
}

/// A connection and what is known about it.
struct Held {
    number: u64,
    connection: Connection,
    peer: Peer,
    /// The number of its listener.
    listener: usize,
    /// Where it calls from, as long as it has not shown who it is.
    stranger: Option<Origin>,
    /// While its message is on its way: when the call is over without it.
    alarm: Option<Instant>,
}

struct Server {
    poll: Poll,
    /// None once the server ends.
    entrances: Vec<Entrance>,
    /// The token of the first connection.
    first: usize,
    tokens: Tokens,
    callers: Callers,
    outlets: Outlets,
    registry: Arc<Registry>,
    bodies: Arc<Bodies>,
    mounts: Mounts,
    closers: Closers,
    outbox: Arc<Outbox>,
    connections: Slab<Held>,
    /// What is read passes through it.
    buffer: Box<[u8]>,
    /// By the numbers of the listeners.
    crowds: Vec<Crowd>,
    /// How the log names the listeners.
    urls: Vec<String>,
    /// When calls are over whose message is on its way, by their numbers.
    alarms: BTreeMap<(Instant, u64), usize>,
    /// Of the next connection: a key may be taken again before an answer for its last one comes.
    number: u64,
    /// Listeners that may have more connections: the poll does not say so again.
    accepting: Vec<usize>,
    /// Nothing is accepted before.
    paused_until: Option<Instant>,
    complaints: RateLimit,
}

/// Makes everything that can fail; the second value is the thread's work.
///
/// # Errors
/// When the system has no descriptor left.
pub(super) fn prepare(
    mut entrances: Vec<Entrance>,
    tokens: Tokens,
    center: &Arc<Center>,
    outlets: Outlets,
    registry: &Arc<Registry>,
    bodies: Arc<Bodies>,
    connections_max: usize,
) -> io::Result<(Stopper, impl FnOnce() + Send + 'static)> {
    let poll = Poll::new()?;
    let outbox = Arc::new(Outbox {
        posted: Mutex::new(Some(Vec::new())),
        waker: Waker::new(poll.registry(), WAKER)?,
        end: Mutex::default(),
    });
    for (index, entrance) in entrances.iter_mut().enumerate() {
        let token = Token(1 + index);
        poll.registry()
            .register(entrance.source(), token, Interest::READABLE)?;
    }
    let listeners = entrances.iter().map(|entrance| entrance.listener + 1);
    let crowds = (0..listeners.max().unwrap_or(0)).map(|_| Crowd::new(connections_max));
    let mut urls = vec![String::new(); crowds.len()];
    for entrance in &entrances {
        urls[entrance.listener].clone_from(&entrance.url);
    }
    let mut server = Server {
        mounts: Mounts::watch(poll.registry(), MOUNTS),
        poll,
        crowds: crowds.collect(),
        urls,
        first: 1 + entrances.len(),
        entrances,
        tokens,
        callers: Callers::new(center),
        outlets,
        registry: Arc::clone(registry),
        bodies,
        closers: Closers::default(),
        outbox: Arc::clone(&outbox),
        connections: Slab::new(),
        buffer: vec![0; READ_BYTES].into(),
        alarms: BTreeMap::new(),
        number: 0,
        accepting: Vec::new(),
        paused_until: None,
        complaints: RateLimit::new(COMPLAINTS_MAX, COMPLAINTS_PERIOD),
    };
    Ok((Stopper(outbox), move || server.run()))
}

impl Server {
    fn run(&mut self) {
        self.entrances.iter().for_each(Entrance::prepare);
        let mut events = Events::with_capacity(256);
        let mut swept = Instant::now();
        let mut end = None;
        loop {
            let wait = self.wait(end);
            if let Err(error) = self.poll.poll(&mut events, wait)
                && error.kind() != io::ErrorKind::Interrupted
            {
                warn!("waiting for calls failed: {error}");
                return self.final_output();
            }
            self.attend(&events);
            let now = Instant::now();
            self.ring(now);
            if now.duration_since(swept) >= SWEEP_INTERVAL {
                swept = now;
                self.sweep(now);
            }
            if end.is_none() {
                end = *self
                    .outbox
                    .end
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                if end.is_some() {
                    self.close_doors();
                }
            }
            if end.is_some_and(|end| end <= now || self.connections.is_empty()) {
                return self.final_output();
            }
        }
    }

    /// Does what the poll, other threads and the clock have announced.
    fn attend(&mut self, events: &Events) {
        // A file that came in the meantime may lie on what was mounted in the meantime.
        if events.iter().any(|event| event.token() == MOUNTS) {
            self.mounts.refresh();
        }
        for event in events {
            match event.token().0 {
                token if token == WAKER.0 || token == MOUNTS.0 => {}
                token if token < self.first => self.accepting.push(token - 1),
                token => self.ready(token - self.first, event.is_writable()),
            }
        }
        self.hand_out();
        if self
            .paused_until
            .is_some_and(|until| until <= Instant::now())
        {
            self.paused_until = None;
            self.accepting = (0..self.entrances.len()).collect();
        }
        for index in std::mem::take(&mut self.accepting) {
            if self.accept(index) && !self.accepting.contains(&index) {
                self.accepting.push(index);
            }
        }
    }

    /// How long to wait for something to happen.
    fn wait(&self, end: Option<Instant>) -> Option<Duration> {
        if !self.accepting.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let alarm = self.alarms.keys().next().map(|(at, _)| *at);
        let times = [self.paused_until, alarm, end].into_iter().flatten();
        let until = times.min().map(|at| at.saturating_duration_since(now));
        if self.connections.is_empty() {
            return until;
        }
        Some(until.map_or(SWEEP_INTERVAL, |until| until.min(SWEEP_INTERVAL)))
    }

    /// Ends calls whose message did not come in time.
    fn ring(&mut self, now: Instant) {
        while let Some(((at, number), key)) = self.alarms.first_key_value().map(|(k, v)| (*k, *v))
            && at <= now
        {
            self.alarms.remove(&(at, number));
            let Some(held) = self.connections.get_mut(key) else {
                continue;
            };
            if held.number == number
                && let Some(asked) = held.connection.give_up()
            {
                let reason = "the message did not come before the deadline";
                self.refuse(key, number, &asked.call, Status::TimedOut, reason);
                self.hand_out();
            }
        }
    }

    /// Closes what has had its time.
    fn sweep(&mut self, now: Instant) {
        let late = self.connections.iter();
        let late = late.filter(|(_, held)| held.connection.until <= now);
        for key in late.map(|(key, _)| key).collect::<Vec<_>>() {
            let is_silent = self.connections[key].connection.is_silent();
            let reason = if is_silent {
                "the call did not come in time"
            } else {
                "it took too long"
            };
            self.dismiss(key, Status::TimedOut, reason);
        }
        self.closers.tidy();
        let connections = &self.connections;
        for crowd in &mut self.crowds {
            crowd.tidy(|name| is_waited_for(connections, *name));
        }
    }

    /// The server ends: nobody is let in any more, and who has not made a call goes.
    fn close_doors(&mut self) {
        // Closing them tells the poll.
        self.entrances.clear();
        self.accepting.clear();
        self.paused_until = None;
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            // The call may just have come.
            self.ready(key, false);
            self.hand_out();
            let held = self.connections.get(key);
            if held.is_some_and(|held| held.connection.is_silent()) {
                self.dismiss(key, Status::Failed, STOPPING);
            }
        }
    }

    /// Nothing is waited for any more.
    fn final_output(&mut self) {
        // Calls that were answered in time still receive their answers.
        self.hand_out();
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        if !keys.is_empty() {
            warn!(
                "the server stopped before {} calls had their answer",
                keys.len()
            );
            self.registry.cut_off(STOPPING);
            self.hand_out();
        }
        for key in keys {
            self.dismiss(key, Status::Failed, STOPPING);
        }
        self.outbox.close();
    }

    /// Closes a connection; says why if it has not been answered.
    fn dismiss(&mut self, key: usize, status: Status, reason: &str) {
        if let Some(held) = self.connections.get_mut(key)
            && !held.connection.is_answering()
        {
            let mut answer = Answer::failed(status, reason);
            if let Some(asked) = held.connection.give_up() {
                let refused = |said, _| answer = said;
                self.registry.refuse(&asked.call, status, reason, refused);
            }
            // What the socket does not take at once is not waited for.
            held.connection.answer(&answer);
        }
        self.close(key);
    }

    fn close(&mut self, key: usize) {
        let Some(held) = self.connections.try_remove(key) else {
            return;
        };
        if let Some(at) = held.alarm {
            self.alarms.remove(&(at, held.number));
        }
        self.crowds[held.listener].leave(held.stranger);
    }

    /// Accepts some connections of a listener; whether it may have more.
    fn accept(&mut self, index: usize) -> bool {
        for _ in 0..ACCEPTS {
            let Some(entrance) = self.entrances.get(index) else {
                return false;
            };
            if self.paused_until.is_some() {
                return false;
            }
            let listener = entrance.listener;
            match entrance.accept() {
                Ok((stream, peer)) => self.open(stream, peer, listener),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if is_shortage(&error) => {
                    // One connection less is one descriptor more.
                    if !(0..self.crowds.len()).any(|listener| self.make_room(listener, None)) {
                        warn!("no call can be taken for a moment: {error}");
                        self.paused_until = Some(Instant::now() + PAUSE);
                    }
                }
                // That caller is gone already.
                Err(_) => {}
            }
        }
        true
    }

    fn open(&mut self, stream: Stream, peer: Peer, listener: usize) {
        let closer = match &peer {
            // A file system of theirs that hangs is nobody else's trouble.
            Peer::Local(_, uid) => self.closers.of(*uid),
            Peer::Remote(..) => Closer::new(),
        };
        let connection = Connection::new(stream, peer.arrival_time(), closer);
        let stranger = peer.origin();
        self.number += 1;
        let number = self.number;
        self.crowds[listener].enter(stranger);
        let key = self.connections.insert(Held {
            number,
            connection,
            peer,
            listener,
            stranger,
            alarm: None,
        });
        // The call is most often there already, and answered at once if it is to something built
        // in: then the poll need not know of it.
        self.ready(key, false);
        self.hand_out();
        let name = (key, number);
        if !self.watch(name) || !is_silent(&self.connections, name) {
            return;
        }
        self.crowds[listener].wait(name);
        if self.crowds[listener].is_besieged(stranger) {
            self.make_room(listener, stranger);
        } else if self.crowds[listener].is_packed() {
            self.make_room(listener, None);
        }
    }

    /// Has the poll tell of a connection, if it is still there; whether it is.
    fn watch(&mut self, (key, number): Name) -> bool {
        let found = self.connections.get_mut(key);
        let Some(held) = found.filter(|held| held.number == number) else {
            return false;
        };
        let source = held.connection.stream.source();
        let token = Token(self.first + key);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(source, token, interest);
        if let Err(error) = registered {
            let reason = format!("the system cannot watch more connections: {error}");
            self.complain(key, Status::Overloaded, &reason);
            self.dismiss(key, Status::Overloaded, &reason);
            return false;
        }
        registered.is_ok()
    }

    /// Disconnects the caller that has been silent for longest, of that origin if one is given;
    /// whether there was one.
    fn make_room(&mut self, listener: usize, from: Option<Origin>) -> bool {
        let connections = &self.connections;
        let is_from = |key: usize| from.is_none() || connections[key].stranger == from;
        let is_meant = |name: &Name| is_waited_for(connections, *name) && is_from(name.0);
        let found = self.crowds[listener].most_silent(is_meant);
        if let Some((key, _)) = found {
            let reason = if from.is_some() { BESIEGED } else { FULL };
            self.dismiss(key, Status::Overloaded, reason);
        }
        found.is_some()
    }

    fn ready(&mut self, key: usize, is_writable: bool) {
        let Some(held) = self.connections.get_mut(key) else {
            return;
        };
        let (number, connection) = (held.number, &mut held.connection);
        let mut next = if is_writable {
            connection.writable()
        } else {
            Next::Wait
        };
        if matches!(next, Next::Wait) {
            let (tokens, peer, mounts) = (&self.tokens, &held.peer, &self.mounts);
            let claim = |token: &[u8]| peer.claim(tokens, token);
            let around = Around {
                claim: &claim,
                mounts,
            };
            next = connection.readable(&mut self.buffer, &around);
        }
        if let (None, Some(at)) = (held.alarm, connection.deadline()) {
            held.alarm = Some(at);
            self.alarms.insert((at, number), key);
        }
        self.follow(key, number, next);
    }

    fn follow(&mut self, key: usize, number: u64, next: Next) {
        match next {
            Next::Wait => {}
            Next::Close => self.close(key),
            Next::Called(called) => self.identify(key, number, called),
            Next::Run(asked) => {
                let reply = self.reply(key, number);
                self.registry.run(&asked.procedure, asked.call, reply);
            }
            Next::Wrong(status, reason) => {
                self.complain(key, status, &reason);
                if let Some(held) = self.connections.get_mut(key) {
                    let next = held.connection.answer(&Answer::failed(status, &reason));
                    self.follow(key, number, next);
                }
            }
            Next::Refuse(asked, (status, reason)) => {
                self.refuse(key, number, &asked.call, status, &reason);
            }
        }
    }

    /// Tells the operator of a call that no procedure gets to see: its caller, a mail server say,
    /// may tell nobody.
    fn complain(&mut self, key: usize, status: Status, reason: &str) {
        let Some(held) = self.connections.get(key) else {
            return;
        };
        if let Admission::Write { held_back } = self.complaints.admit(Instant::now()) {
            let (caller, listener) = (held.peer.to_string(), &self.urls[held.listener]);
            let status = status.name();
            warn!(target: "call", status, listener, caller, held_back, "{reason}");
        }
    }

    /// Finds out who calls. Most are known from before.
    fn identify(&mut self, key: usize, number: u64, mut called: Box<Called>) {
        let Some(held) = self.connections.get(key) else {
            return;
        };
        let (listener, stranger) = (held.listener, held.stranger);
        // This one says something.
        if self.crowds[listener].is_full() && !self.make_room(listener, None) {
            return self.refuse(key, number, &called.call, Status::Overloaded, FULL);
        }
        if matches!(called.claim, Claim::Nobody(_) | Claim::Owner(_)) {
            if self.crowds[listener].is_besieged(stranger) && !self.make_room(listener, stranger) {
                return self.refuse(key, number, &called.call, Status::Overloaded, BESIEGED);
            }
            if let Claim::Owner(_) = called.claim {
                called.call.outlet = self.outlets.of_owner();
            }
            return self.call(key, number, called.call);
        }
        if let Some(identity) = self.callers.find(&called.claim) {
            return self.admit(key, number, called.call, &identity);
        }
        let outbox = Arc::clone(&self.outbox);
        let owner = std::thread::current().id();
        let claim = called.claim.clone();
        self.callers.ask(&claim, move |decision| {
            let news = News::Identified(called, decision);
            outbox.push(key, number, news, owner);
        });
    }

    /// The Auth Center has said who calls.
    fn identified(&mut self, key: usize, number: u64, called: Box<Called>, decision: Decision) {
        let Called { call, claim } = *called;
        let (status, reason) = match (decision, &claim) {
            (Decision::Accepted(identity, _), _) => {
                self.callers.keep(&claim, &identity);
                return self.admit(key, number, call, &identity);
            }
            (Decision::Refused(Refusal::Unavailable), _) => {
                (Status::Failed, "the user database does not answer")
            }
            (Decision::Refused(Refusal::Busy | Refusal::Slowed | Refusal::GuestRate), _) => {
                (Status::Overloaded, "too many callers have to be identified")
            }
            (_, Claim::Shown { .. }) => (Status::NotAllowed, "nobody has this token"),
            _ => return self.bar(key, number, call, "this user is disabled"),
        };
        self.refuse(key, number, &call, status, reason);
    }

    /// Runs a call if its caller has the right to make it.
    fn admit(&mut self, key: usize, number: u64, mut call: Call, identity: &Arc<Identity>) {
        if let Some(held) = self.connections.get_mut(key) {
            self.crowds[held.listener].known(held.stranger.take());
        }
        if identity.rights.may_publish(&topic::call(&call.procedure)) {
            call.outlet = self.outlets.of_user(identity);
            self.call(key, number, call);
        } else {
            self.bar(
                key,
                number,
                call,
                "the right to call this procedure is missing",
            );
        }
    }

    /// A caller who may call only what everybody may.
    fn bar(&mut self, key: usize, number: u64, mut call: Call, reason: &str) {
        if self.registry.is_open(&call.procedure) {
            call.caller = Caller::Anonymous(call.caller.name().into_owned());
            return self.call(key, number, call);
        }
        self.refuse(key, number, &call, Status::NotAllowed, reason);
    }

    /// Runs a call, once its message is here if the procedure needs that. A caller without the
    /// right is refused before a byte of the message is read.
    fn call(&mut self, key: usize, number: u64, call: Call) {
        let reply = self.reply(key, number);
        let Some(procedure) = self.registry.find(&call.procedure) else {
            return self.registry.call(call, reply);
        };
        // A procedure that judges what a message says would accept nothing at all.
        if procedure.judges_messages() && !call.message.exists() {
            return self.refuse(key, number, &call, Status::BadCall, NO_MESSAGE);
        }
        if !is_short(&procedure, &call) {
            return self.registry.run(&procedure, call, reply);
        }
        let Some(held) = self.connections.get_mut(key) else {
            return;
        };
        let next = held.connection.ask(call, procedure, &self.bodies);
        if held.stranger.is_some() {
            self.crowds[held.listener].wait((key, number));
        }
        let is_asked = matches!(next, Next::Wait);
        self.follow(key, number, next);
        if is_asked {
            // Some of it may have come along.
            self.ready(key, false);
        }
    }

    fn refuse(&self, key: usize, number: u64, call: &Call, status: Status, reason: &str) {
        let reply = self.reply(key, number);
        self.registry.refuse(call, status, reason, reply);
    }

    /// Brings an answer back to its connection.
    fn reply(&self, key: usize, number: u64) -> impl FnOnce(Answer, Line) + Send + use<> {
        let outbox = Arc::clone(&self.outbox);
        let owner = std::thread::current().id();
        move |answer, line| outbox.push(key, number, News::Answer(answer, line), owner)
    }

    /// Goes on with calls that others have said something about. What is built in, and whoever is
    /// refused, is answered at once, so there may be more.
    fn hand_out(&mut self) {
        loop {
            let posted = self.outbox.take();
            if posted.is_empty() {
                return;
            }
            for (key, number, news) in posted {
                let Some(held) = self.connections.get_mut(key) else {
                    continue;
                };
                if held.number != number {
                    continue;
                }
                match news {
                    News::Answer(answer, _line) => {
                        let next = held.connection.answer(&answer);
                        self.follow(key, number, next);
                    }
                    News::Identified(called, decision) => {
                        self.identified(key, number, called, decision);
                    }
                }
            }
        }
    }
}

/// Whether the rest of a call's message has to be asked for.
fn is_short(procedure: &Procedure, call: &Call) -> bool {
    let message = &call.message;
    procedure.needs() == Need::Body
        && !message.is_whole()
        && message.size() <= procedure.max_body()
        && procedure.admits(&call.caller)
}

/// Whether a connection of that name is there and makes room for others: it has not made its call,
/// or a stranger's message is on its way.
fn is_waited_for(connections: &Slab<Held>, (key, number): Name) -> bool {
    let held = connections.get(key).filter(|held| held.number == number);
    held.is_some_and(|held| {
        let connection = &held.connection;
        let is_receiving = connection.deadline().is_some();
        connection.is_silent() || (is_receiving && held.stranger.is_some())
    })
}

/// Whether a connection of that name is there and has not made its call.
fn is_silent(connections: &Slab<Held>, (key, number): Name) -> bool {
    let held = connections.get(key);
    held.is_some_and(|held| held.number == number && held.connection.is_silent())
}
