//! Opens many connections at once: connect, log in, subscribe.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::time::Duration;

use mio::event::Event;
use mio::{Events, Poll};
use nix::errno::Errno;

use crate::clock::{SECOND_NS, as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::link::{Endpoint, Link};
use crate::progress::Gauge;
use crate::wire::{self, Frame, KEEP_ALIVE_SECS, Lasts, Login, Version};
use stentor_auth::credential::scram::{AwaitingFinal, AwaitingFirst, SaltedPassword, ScramClient};

/// One client of a crowd, ready to be used.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its connection, registered under its index.
    pub(crate) link: Link,
    /// Bytes that came after the acknowledgements.
    pub(crate) carry: Vec<u8>,
    /// QoS 1 and 2 messages that the server takes at once.
    pub(crate) receive_maximum: u16,
    /// After one and a half of this many seconds without a packet the server closes it; 0: never.
    pub(crate) keep_alive_secs: u16,
    /// Whether the server had a session of it.
    pub(crate) is_present: bool,
    /// From the first SYN to CONNACK.
    pub(crate) login_ns: u64,
}

/// Which clients to open.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) login: &'a Login,
    pub(crate) version: Version,
    /// How many.
    pub(crate) count: usize,
    /// Index of the first among all threads' clients: source addresses follow from it.
    pub(crate) first: usize,
    /// How many may be on their way at once.
    pub(crate) at_once: usize,
    /// How many may begin in a second.
    pub(crate) pace: Option<u32>,
    /// Gives up when nothing has happened for this long.
    pub(crate) patience: Duration,
    /// The client id of the nth.
    pub(crate) client_id: &'a dyn Fn(usize) -> String,
    /// What the nth logs in with, if each has an account of its own; then `login` is nobody's.
    pub(crate) entry: Option<&'a dyn Fn(usize) -> Entry>,
    /// The filter and QoS of the nth, if it subscribes.
    pub(crate) filter: &'a dyn Fn(usize) -> Option<(String, u8)>,
    /// How long their sessions last; those that log in by SCRAM have one of the connection.
    pub(crate) lasts: Lasts,
    /// Shows how many are settled, if somebody wants to know.
    pub(crate) gauge: Option<&'a Gauge>,
    /// Bytes that this end's kernel may hold of each, if it is to be little.
    pub(crate) receive_buffer: Option<usize>,
}

/// What one client logs in with.
pub(crate) struct Entry {
    /// Name and password.
    pub(crate) login: Login,
    /// Instead of them: SCRAM, with a password that was salted before.
    pub(crate) scram: Option<(String, SaltedPassword)>,
}

/// What became of a crowd.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Those that made it, at the index that is their token.
    pub(crate) clients: Vec<Option<Client>>,
    /// How many did not.
    pub(crate) failed: usize,
    /// How many of those were told so, by a CONNACK.
    pub(crate) refused: usize,
    /// Why the first of them did not.
    pub(crate) first_failure: Option<String>,
}

impl Crowd {
    /// All clients, or the reason why one is missing.
    pub(crate) fn complete(self) -> Result<Vec<Client>, BenchError> {
        let wanted = self.clients.len();
        let clients: Vec<Client> = self.clients.into_iter().flatten().collect();
        if clients.len() == wanted {
            return Ok(clients);
        }
        let why = self
            .first_failure
            .unwrap_or_else(|| "no reason known".into());
        Err(BenchError::server(format!(
            "{} of {wanted} connections failed: {why}",
            wanted - clients.len()
        )))
    }
}

/// How far one connection has come.
enum Stage {
    Connecting,
    /// CONNECT began an exchange by SCRAM.
    ExpectChallenge(Box<AwaitingFirst>),
    /// With the server's own proof, if it makes one.
    ExpectConnAck(Option<Box<AwaitingFinal>>),
    /// With the QoS that was asked for.
    ExpectSubAck(u8),
    /// An answer is checked; a bad answer leaves it here.
    Judging,
    /// CONNACK said no.
    Refused,
    Ready,
}

/// What one look at a socket brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    Nothing,
    Bytes,
    /// After whatever came with it.
    TheEnd,
}

struct Entrant {
    client: Client,
    stage: Stage,
    started_ns: u64,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
}

/// Opens the crowd; token n of `poll` is the nth client.
pub(crate) fn open(poll: &mut Poll, plan: &Plan<'_>) -> Result<Crowd, BenchError> {
    let mut connector = Connector {
        plan: *plan,
        entrants: Vec::with_capacity(plan.count),
        waiting: 0,
        begun_ns: now_ns(),
        refused: 0,
        failures: VecDeque::new(),
    };
    let mut events = Events::with_capacity(1_024);
    let mut last_ns = now_ns();
    let mut settled = 0;
    loop {
        let mut is_full = false;
        while !is_full
            && connector.entrants.len() < connector.allowed()
            && connector.waiting < plan.at_once
        {
            is_full = !connector.begin(poll)?;
        }
        if connector.waiting == 0 && connector.entrants.len() == plan.count {
            break;
        }
        let pause = if is_full || plan.pace.is_some() {
            5
        } else {
            100
        };
        match poll.poll(&mut events, Some(Duration::from_millis(pause))) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => result.doing("wait for connections")?,
        }
        for event in &events {
            connector.advance(event);
        }
        let done = connector.entrants.len() - connector.waiting;
        if let Some(gauge) = plan.gauge {
            gauge.set(done);
        }
        if done > settled || !events.is_empty() {
            (settled, last_ns) = (done, now_ns());
        } else if now_ns() - last_ns > as_ns(plan.patience) {
            connector.give_up(is_full);
        }
    }
    let (failed, refused) = (connector.failures.len(), connector.refused);
    let clients = connector
        .entrants
        .into_iter()
        .map(|entrant| entrant.map(|e| e.client))
        .collect();
    Ok(Crowd {
        clients,
        failed,
        refused,
        first_failure: connector.failures.pop_front(),
    })
}

struct Connector<'a> {
    plan: Plan<'a>,
    entrants: Vec<Option<Entrant>>,
    /// Begun, and neither ready nor failed.
    waiting: usize,
    /// When the first began.
    begun_ns: u64,
    /// Told so by a CONNACK.
    refused: usize,
    failures: VecDeque<String>,
}

impl Connector<'_> {
    /// How many may have begun by now.
    fn allowed(&self) -> usize {
        let Some(pace) = self.plan.pace else {
            return self.plan.count;
        };
        let passed = (now_ns() - self.begun_ns) as f64 / SECOND_NS as f64;
        let allowed = 1.0 + passed * f64::from(pace);
        (allowed as usize).min(self.plan.count)
    }

    /// `false` if the backlog of a Unix socket is full, which says so instead of waiting as TCP
    /// does.
    ///
    /// # Errors
    /// When this machine has no more descriptors or addresses.
    fn begin(&mut self, poll: &Poll) -> Result<bool, BenchError> {
        let index = self.entrants.len();
        let started_ns = now_ns();
        let source = self.plan.endpoint.source(self.plan.first + index);
        let buffer = self.plan.receive_buffer;
        let begun = Link::connect(self.plan.endpoint, source, buffer).and_then(|mut link| {
            link.register(poll.registry(), index)?;
            Ok(link)
        });
        match begun {
            Ok(link) => {
                let client = Client {
                    link,
                    carry: Vec::new(),
                    receive_maximum: u16::MAX,
                    keep_alive_secs: KEEP_ALIVE_SECS,
                    is_present: false,
                    login_ns: 0,
                };
                let stage = Stage::Connecting;
                self.entrants.push(Some(Entrant {
                    client,
                    stage,
                    started_ns,
                    unsent: Vec::new(),
                }));
                self.waiting += 1;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // Nothing that the server could help.
            Err(e) if is_own_limit(&e) => {
                return Err(e).doing(format!(
                    "open connection {} of this load (descriptors: ulimit -n; or fewer clients)",
                    self.plan.first + index + 1
                ));
            }
            Err(e) => {
                self.entrants.push(None);
                self.failures.push_back(format!("cannot connect: {e}"));
            }
        }
        Ok(true)
    }

    fn advance(&mut self, event: &Event) {
        let index = event.token().0;
        let Some(entrant) = self.entrants.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        // The last answer and the end may come together.
        let was_ready = matches!(entrant.stage, Stage::Ready);
        match entrant.advance(event, &self.plan, index) {
            Ok(true) => self.waiting -= 1,
            Ok(false) => {}
            Err(reason) => {
                if !was_ready {
                    self.waiting -= 1;
                }
                self.refused += usize::from(matches!(entrant.stage, Stage::Refused));
                self.entrants[index] = None;
                self.failures.push_back(reason);
            }
        }
    }

    fn give_up(&mut self, is_full: bool) {
        let seconds = self.plan.patience.as_secs();
        while is_full && self.entrants.len() < self.plan.count {
            self.entrants.push(None);
            self.failures
                .push_back(format!("the listen backlog was full for {seconds} seconds"));
        }
        for slot in &mut self.entrants {
            let stage = match slot {
                Some(Entrant {
                    stage: Stage::Connecting,
                    ..
                }) => "no connection",
                Some(Entrant {
                    stage: Stage::ExpectChallenge(_),
                    ..
                }) => "no AUTH",
                Some(Entrant {
                    stage: Stage::ExpectConnAck(_),
                    ..
                }) => "no CONNACK",
                Some(Entrant {
                    stage: Stage::ExpectSubAck(_),
                    ..
                }) => "no SUBACK",
                Some(Entrant {
                    stage: Stage::Judging | Stage::Refused | Stage::Ready,
                    ..
                })
                | None => continue,
            };
            self.failures
                .push_back(format!("{stage} for {seconds} seconds"));
            *slot = None;
            self.waiting -= 1;
        }
    }
}

/// Whether it is this machine that has no more to give, rather than the server.
fn is_own_limit(error: &io::Error) -> bool {
    let own = [Errno::EMFILE, Errno::ENFILE, Errno::EADDRNOTAVAIL];
    let code = error.raw_os_error().map(Errno::from_raw);
    code.is_some_and(|code| own.contains(&code))
}

impl Entrant {
    /// `true` when it has just become ready.
    fn advance(&mut self, event: &Event, plan: &Plan<'_>, index: usize) -> Result<bool, String> {
        if matches!(self.stage, Stage::Connecting) {
            if !self
                .client
                .link
                .is_connected()
                .map_err(|e| format!("cannot connect: {e}"))?
            {
                return Ok(false);
            }
            self.client.link.tune();
            self.begin(plan, index)?;
        }
        self.send()?;
        if !event.is_readable() {
            return Ok(false);
        }
        let received = self.receive()?;
        if received == Received::Nothing {
            // What a handshake below was in the way of.
            self.send()?;
            return Ok(false);
        }
        let was_ready = matches!(self.stage, Stage::Ready);
        self.apply(plan, index)?;
        if received == Received::TheEnd {
            return Err("the server closed the connection".into());
        }
        self.send()?;
        Ok(!was_ready && matches!(self.stage, Stage::Ready))
    }

    /// Says who it is.
    fn begin(&mut self, plan: &Plan<'_>, index: usize) -> Result<(), String> {
        let id = (plan.client_id)(index);
        let out = &mut self.unsent;
        self.stage = Stage::ExpectConnAck(None);
        match plan.entry.map(|entry| entry(index)) {
            None => wire::push_connect(out, plan.version, &id, plan.login, plan.lasts),
            Some(Entry {
                login, scram: None, ..
            }) => wire::push_connect(out, plan.version, &id, &login, plan.lasts),
            Some(Entry {
                scram: Some((name, salted)),
                ..
            }) => {
                let method = salted.sha().mechanism();
                let begun = ScramClient::with_salted(salted, b"").first(&name);
                let (client, first) = begun.map_err(|e| e.to_string())?;
                wire::push_connect_by(out, &id, method, &first);
                self.stage = Stage::ExpectChallenge(Box::new(client));
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), String> {
        let sent = self.client.link.send(&mut self.unsent);
        sent.map_err(|e| format!("cannot send: {e}"))
    }

    /// Reads what there is into the carry.
    fn receive(&mut self) -> Result<Received, String> {
        let mut chunk = [0; 4_096];
        let mut received = Received::Nothing;
        loop {
            match self.client.link.read(&mut chunk) {
                Ok(0) => return Ok(Received::TheEnd),
                Ok(read) => self.client.carry.extend_from_slice(&chunk[..read]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(received),
                // What came before a reset may say why.
                Err(_) if received == Received::Bytes => return Ok(Received::TheEnd),
                Err(e) => return Err(format!("cannot receive: {e}")),
            }
            received = Received::Bytes;
        }
    }

    fn apply(&mut self, plan: &Plan<'_>, index: usize) -> Result<(), String> {
        while !matches!(self.stage, Stage::Ready) {
            let (kind, body, end) = match wire::frame(&self.client.carry) {
                Frame::Whole { first, body, end } => (first >> 4, body..end, end),
                Frame::Partial => return Ok(()),
                Frame::Malformed => return Err("the server sent a malformed packet".into()),
            };
            let body = &self.client.carry[body];
            match (std::mem::replace(&mut self.stage, Stage::Judging), kind) {
                (Stage::ExpectChallenge(client), wire::AUTH) => {
                    let (method, challenge) = wire::auth(body)?;
                    let answered = client.answer(challenge).map_err(|e| e.to_string())?;
                    let (client, proof) = answered;
                    wire::push_auth(&mut self.unsent, 0x18, method, &proof);
                    self.stage = Stage::ExpectConnAck(Some(Box::new(client)));
                }
                (Stage::ExpectConnAck(client), wire::CONNACK) => {
                    self.stage = Stage::Refused;
                    let accepted = wire::connack(body, plan.version)?;
                    self.client.receive_maximum = accepted.receive_maximum;
                    self.client.is_present = accepted.is_present;
                    self.client.keep_alive_secs = accepted.keep_alive_secs;
                    // The floor knows no secret, so it proves nothing.
                    if let (Some(client), Some(last)) = (client, wire::connack_data(body)) {
                        client.finish(last).map_err(|e| e.to_string())?;
                    }
                    self.client.login_ns = now_ns() - self.started_ns;
                    self.stage = Stage::Ready;
                    if let Some((filter, qos)) = (plan.filter)(index) {
                        wire::push_subscribe(&mut self.unsent, plan.version, 1, &filter, qos);
                        self.stage = Stage::ExpectSubAck(qos);
                    }
                }
                (Stage::ExpectSubAck(asked), wire::SUBACK) => {
                    wire::granted(body, asked)?;
                    self.stage = Stage::Ready;
                }
                _ => {
                    return Err(format!(
                        "the server sent an unexpected packet of type {kind}"
                    ));
                }
            }
            self.client.carry.drain(..end);
        }
        Ok(())
    }
}
