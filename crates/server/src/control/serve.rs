//! Serving the control socket.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::{Value, json};
use stentor_admin::Exposition;
use stentor_auth::store::{Order, OrderError, Who};
use stentor_control::adaptors::{self, Became};
use stentor_control::bans::Ls as ListBans;
use stentor_control::certificates::Ls as Certificates;
use stentor_control::config::Diff;
use stentor_control::login::{Link, Made};
use stentor_control::reload::{Reload, Reloaded};
use stentor_control::zones::Zones;
use stentor_control::{Done, Mqtt, Need, Stop, Verb, health, metrics, told as line};
use stentor_procedure::adaptor::Start;
use stentor_topic::Zone;
use tracing::warn;

use super::audit::Subject;
use super::protocol::{Answer, Failure, answer, head};
use super::{Admin, NotesReader, lock};
use super::{
    accounts, bans, certificates, clients, config, events, figures, heaviest, list, log,
    procedures, publish, queue, retained, rooms, status, subscriptions, topics, traces, why, zones,
};
use crate::lifecycle::{Asker, Command};
use crate::peer::Peer;
use crate::shard::{Handover, Incoming, Purpose, unix_peer};
use crate::survey::Age;
use crate::telemetry::Metrics;
use crate::transport::Transport;

/// Connections served at a time; one more receives an error and is closed.
const CONNECTIONS_MAX: usize = 32;

/// The longest request line, in bytes: `retained.put` carries messages, the largest of which has
/// a payload of 256 MiB in base 64.
const REQUEST_BYTES_MAX: usize = 360 << 20;

/// What is said to a longer one.
const TOO_LONG: &str = "the request has no end within 360 MiB; end each request by a line feed";

/// How long a connection may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// How long somebody who is refused may take to read why.
const REFUSAL_TIME: Duration = Duration::from_millis(100);

/// How long a reload may take.
const RELOAD_TIME: Duration = Duration::from_secs(60);

/// Starts the thread that accepts.
pub(super) fn start(listener: UnixListener, admin: Arc<Admin>) -> io::Result<()> {
    let connections = Arc::new(AtomicUsize::new(0));
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // No descriptor or memory is left; do not turn in circles.
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                if !is_administrator(&stream) {
                    continue;
                }
                if connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                    refuse(stream);
                    continue;
                }
                connections.fetch_add(1, Ordering::Relaxed);
                let (admin, count) = (Arc::clone(&admin), Arc::clone(&connections));
                let thread = std::thread::Builder::new().name("control-client".into());
                let spawned = thread.spawn(move || {
                    admin.serve(stream);
                    count.fetch_sub(1, Ordering::Relaxed);
                });
                if spawned.is_err() {
                    connections.fetch_sub(1, Ordering::Relaxed);
                }
            }
        })?;
    Ok(())
}

/// Tells somebody who would be one too many.
fn refuse(mut stream: UnixStream) {
    let message = format!(
        "{CONNECTIONS_MAX} connections to the control socket are open, and there can be no more; \
         end one of those programs, and try again"
    );
    let answer = Err(Failure::new("busy", message));
    // Fits into the socket's buffer, so this does not wait; whoever has left misses it.
    let _ = stream
        .set_write_timeout(Some(REFUSAL_TIME))
        .and_then(|()| stream.write_all(line(&answer).as_bytes()));
    // The request, read before closing, so that the answer is not lost with it.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream
        .set_read_timeout(Some(REFUSAL_TIME))
        .and_then(|()| stream.read(&mut [0; 1024]));
}

/// Whether the other end is the server's own user, or root.
fn is_administrator(stream: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    let Peer::Unix { uid, .. } = unix_peer(stream) else {
        return false;
    };
    let allowed = uid == own || uid == 0;
    if !allowed {
        warn!(
            uid,
            "a program of another user than the server's tried the control socket"
        );
    }
    allowed
}

/// The maker of a link, for what is done in its session: `uid 0 (console)`.
fn maker(who: &Who) -> String {
    let who = who.to_string();
    let name = who.split(" by ").next().unwrap_or_default();
    format!("{name} (console)")
}

/// What to do with a connection after a request.
pub(super) enum Next {
    /// Answer and go on.
    Answer(Answer),
    /// Answer; the connection speaks MQTT from then on, in this zone.
    Mqtt(Zone),
}

impl Admin {
    fn serve(&self, mut stream: UnixStream) {
        let limits = stream
            .set_read_timeout(Some(SILENCE_MAX))
            .and_then(|()| stream.set_write_timeout(Some(SILENCE_MAX)));
        if limits.is_err() {
            return;
        }
        let who = match unix_peer(&stream) {
            Peer::Unix { uid, .. } => Who::new(format!("uid {uid} by the control socket")),
            _ => Who::new("the control socket"),
        };
        let mut buffer = Vec::new();
        loop {
            match read_line(&mut stream, &mut buffer) {
                Ok(Some(request)) => match self.handle(&request, &who) {
                    Next::Answer(answer) => {
                        if stream.write_all(line(&answer).as_bytes()).is_err() {
                            return;
                        }
                    }
                    Next::Mqtt(zone) => return self.hand_to_shard(stream, buffer, zone),
                },
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    let answer = Err(Failure::new("bad-request", TOO_LONG));
                    let _ = stream.write_all(line(&answer).as_bytes());
                    return;
                }
                // The end, a broken connection, or silence.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Carries a request out, and notes what it has changed.
    pub(super) fn handle(&self, line: &[u8], who: &Who) -> Next {
        let head = match head(line) {
            Ok(head) => head,
            Err(failure) => return Next::Answer(Err(failure)),
        };
        let subject = Subject::of(&head.verb, line);
        let next = self.carry_out(&head.verb, line, who);
        if changes(&head.verb) {
            self.context.surveys.outdate();
        }
        if let (Some(subject), Next::Answer(answer)) = (subject, &next) {
            subject.note(&self.directory, who, answer);
        }
        next
    }

    fn carry_out(&self, verb: &str, line: &[u8], who: &Who) -> Next {
        if Order::is_verb(verb) {
            return Next::Answer(self.order(line, who));
        }
        let Some(verb) = Verb::named(verb) else {
            return Next::Answer(Err(unknown(verb)));
        };
        if verb == Verb::Mqtt {
            return self.begin_mqtt(line);
        }
        Next::Answer(self.about_server(verb, line, who))
    }

    /// Verbs about the server as a whole; the others are those of a noun.
    fn about_server(&self, verb: Verb, line: &[u8], who: &Who) -> Answer {
        let context = &*self.context;
        match verb {
            Verb::Health => answer(line, |_: health::Health| Ok(self.condition.describe())),
            Verb::Status => answer(line, |request| Ok(status::status(self, &request))),
            Verb::Events => answer(line, |request| events::events(context, &request)),
            Verb::FiguresHistory => answer(line, |request| figures::history(self, &request)),
            Verb::FiguresPeaks => answer(line, |request| figures::peaks(self, &request)),
            Verb::Zones => answer(line, |request| self.zones(request, who)),
            Verb::ConfigEffective => answer(line, |request| config::effective(self, &request)),
            Verb::ConfigDiff => answer(line, |_: Diff| config::changes(self)),
            Verb::LogLevel => answer(line, |request| log::level(self, &request)),
            Verb::LogShow => answer(line, |_: stentor_control::log::Show| log::show(self)),
            Verb::LogTail => answer(line, |request| Ok(log::tail(request))),
            Verb::LoginLink => answer(line, |_: Link| self.link(who)),
            Verb::Metrics => answer(line, |_: metrics::Metrics| Ok(self.metrics())),
            Verb::Reload => answer(line, |_: Reload| self.reload(who)),
            Verb::Stop => answer(line, |_: Stop| self.stop(who)),
            _ => self.about_clients(verb, line, who),
        }
    }

    /// Verbs about clients: who they are, what they do, and who may not come in.
    fn about_clients(&self, verb: Verb, line: &[u8], who: &Who) -> Answer {
        let context = &*self.context;
        match verb {
            Verb::ClientsLs => answer(line, |request| list::list(context, &request)),
            Verb::ClientsShow => answer(line, |request| clients::show(context, &request)),
            Verb::ClientsKick => answer(line, |request| clients::kick(context, &request)),
            Verb::ClientsHeaviest => answer(line, |request| heaviest::clients(context, &request)),
            Verb::SessionsQueue => answer(line, |request| queue::queue(context, &request)),
            Verb::Why => answer(line, |request| why::why(context, &request)),
            Verb::BansAdd => answer(line, |request| bans::add(context, who, &request)),
            Verb::BansLs => answer(line, |_: ListBans| Ok(bans::list(context))),
            Verb::BansRm => answer(line, |request| bans::remove(context, who, &request)),
            Verb::TracesStart => answer(line, |request| traces::start(context, who, &request)),
            Verb::TracesLs => answer(line, |request| Ok(traces::list(context, request))),
            Verb::TracesRead => answer(line, |request| traces::read(context, &request)),
            Verb::TracesStop => answer(line, |request| traces::stop(context, &request)),
            _ => self.about_messages(verb, line, who),
        }
    }

    /// Verbs about topics, messages, and what judges them.
    fn about_messages(&self, verb: Verb, line: &[u8], who: &Who) -> Answer {
        let context = &*self.context;
        match verb {
            Verb::Subscriptions => answer(line, |request| {
                subscriptions::subscriptions(context, &request)
            }),
            Verb::Topics => answer(line, |request| topics::topics(context, &request)),
            Verb::TopicsChildren => answer(line, |request| topics::children(context, &request)),
            Verb::TopicsHeaviest => answer(line, |request| heaviest::topics(context, &request)),
            Verb::RoomsLs => answer(line, |request| rooms::list(context, &request)),
            Verb::RoomsShow => answer(line, |request| rooms::show(context, &request)),
            Verb::RoomsKick => answer(line, |request| rooms::kick(context, &request)),
            Verb::RoomsClose => answer(line, |request| rooms::close(context, &request)),
            Verb::CertificatesLs => answer(line, |_: Certificates| Ok(certificates::list(self))),
            Verb::AdaptorsLs => answer(line, |request| self.adaptors(&request)),
            Verb::AdaptorsReload => answer(line, |request| self.reload_adaptors(&request)),
            Verb::ProceduresLs => answer(line, |request| Ok(procedures::list(context, request))),
            Verb::ProceduresReload => answer(line, |_: stentor_control::procedures::Reload| {
                procedures::reload(context)
            }),
            Verb::Publish => answer(line, |request| {
                publish::by_owner(context, &self.directory, who, &request)
            }),
            Verb::RetainedPage
            | Verb::RetainedHistory
            | Verb::RetainedFilters
            | Verb::RetainedPut
            | Verb::RetainedClear
            | Verb::RetainedVerify
            | Verb::RetainedStatus
            | Verb::RetainedCompact => retained::answer(context, line),
            _ => accounts::answer(self, verb, line, who),
        }
    }

    /// The connection goes on as one of MQTT, in the zone that the request names.
    fn begin_mqtt(&self, line: &[u8]) -> Next {
        let mut zone = Zone::DEFAULT;
        let answer = answer(line, |request: Mqtt| {
            zone = zones::named(&self.context, request.zone.as_ref())?.unwrap_or(zone);
            Ok(Done {})
        });
        match answer {
            Ok(_) => Next::Mqtt(zone),
            Err(failure) => Next::Answer(Err(failure)),
        }
    }

    /// Carries out an order to the Auth Center.
    fn order(&self, line: &[u8], who: &Who) -> Answer {
        let refused = |error: OrderError| Failure::new(error.code, error.message);
        let request = serde_json::from_slice(line)
            .map_err(|error| Failure::new("bad-request", error.to_string()))?;
        self.give(Order::parse(request).map_err(refused)?, who)
    }

    /// Has the Auth Center carry out an order.
    pub(super) fn give(&self, order: Order, who: &Who) -> Answer {
        let refused = |error: OrderError| Failure::new(error.code, error.message);
        let removed = match &order {
            Order::ZoneRemove { name } => Some(Arc::clone(name)),
            _ => None,
        };
        let answer = self.directory.order(who.clone(), order);
        match removed {
            Some(zone) => self.end_zone(who, &zone, answer),
            None => answer.map_err(refused),
        }
    }

    /// Removes the sessions and messages of a removed zone. A zone that the user database does not
    /// know may have some too, because the configuration or a token named it.
    fn end_zone(&self, who: &Who, name: &str, removed: Result<Value, OrderError>) -> Answer {
        let refused = |error: OrderError| Failure::new(error.code, error.message);
        let is_unknown = match &removed {
            Ok(_) => false,
            Err(error) if error.code == "not-found" => true,
            Err(error) => return Err(refused(error.clone())),
        };
        let Some(zone) = self.context.authenticator.known_zone(name) else {
            return removed.map_err(refused);
        };
        let (sessions, messages) = zones::end(&self.context, zone)?;
        match removed {
            Err(error) if is_unknown && sessions + messages == 0 => Err(refused(error)),
            // The user database writes no audit entry for a zone that it does not know.
            Err(_) => {
                let detail = json!({ "sessions": sessions, "retained_messages": messages });
                self.directory
                    .note(who, "zone.remove", name, detail.clone());
                Ok(detail)
            }
            Ok(_) => Ok(json!({ "sessions": sessions, "retained_messages": messages })),
        }
    }

    fn link(&self, who: &Who) -> Result<Made, Failure> {
        let now = self.context.clock.now();
        self.context.visitors.links.make(now, maker(who))
    }

    fn reload(&self, who: &Who) -> Result<Reloaded, Failure> {
        let (answer, result) = channel();
        let asker = Asker {
            who: who.clone(),
            answer,
        };
        // What the watch on the file has taken over already is what its editor asks about.
        let before = lock(&self.notes).last_reload.as_ref().map(status::reload);
        self.command(Command::Reload("stentor reload", Some(asker)))?;
        match result.recv_timeout(RELOAD_TIME) {
            Ok(Ok(reloaded)) => {
                let before = before.filter(|_| reloaded.is_nothing());
                let done = status::done(&reloaded);
                Ok(Reloaded { done, before })
            }
            Ok(Err(reason)) => Err(Failure::new("reload-failed", reason)),
            Err(_) => Err(Failure::new(
                "unavailable",
                "the server does not answer; see its log",
            )),
        }
    }

    fn zones(&self, request: Zones, who: &Who) -> Result<stentor_control::zones::Told, Failure> {
        let refused = |error: OrderError| Failure::new(error.code, error.message);
        let listed = self.directory.order(who.clone(), Order::ZoneList {});
        let listed = listed.map_err(refused)?;
        let names = listed["zones"].as_array().into_iter().flatten();
        let names = names.filter_map(|zone| zone["name"].as_str().map(str::to_owned));
        let mut told = zones::zones(&self.context, Age::of(request.fresh), names);
        if let Some(name) = request.zone {
            told.zones.retain(|zone| zone.name == name);
            if told.zones.is_empty() {
                let message = format!(
                    "there is nothing of a zone {name:?}; `stentor zone list` lists the zones"
                );
                return Err(Failure::new("not-found", message).about("zone"));
            }
        }
        Ok(told)
    }

    /// The adaptors, of a zone if one is named.
    fn adaptors(&self, request: &adaptors::Ls) -> Result<adaptors::List, Failure> {
        let zone = zones::name(&self.context, request.zone.as_ref())?;
        Ok(adaptors::List {
            adaptors: self.context.adaptors.describe(zone.as_deref()),
        })
    }

    fn reload_adaptors(&self, request: &adaptors::Reload) -> Result<adaptors::Reloaded, Failure> {
        let zone = zones::name(&self.context, request.zone.as_ref())?;
        let start = if request.fresh {
            Start::Afresh
        } else {
            Start::CarryOver
        };
        let file = request.file.as_deref();
        let adaptors = &self.context.adaptors;
        let reloaded = adaptors.reload(start, file.map(Path::new), zone.as_deref());
        if let (true, Some(file)) = (reloaded.is_empty(), file) {
            let place = zone.map_or_else(String::new, |zone| format!(" for the zone {zone:?}"));
            let reason =
                format!("no adaptor runs {file:?}{place}; `stentor adaptor ls` lists them");
            return Err(Failure::new("not-found", reason).about("file"));
        }
        let became = |(adaptor, result): (_, Result<bool, String>)| Became {
            adaptor,
            new: result.as_ref().ok().copied(),
            error: result.err(),
        };
        Ok(adaptors::Reloaded {
            adaptors: reloaded.into_iter().map(became).collect(),
        })
    }

    /// All figures, as a page for Prometheus.
    fn metrics(&self) -> metrics::Page {
        let page = Metrics::new(&self.context, &self.directory, self.table);
        let noted = NotesReader::of(&self.notes).read();
        metrics::Page {
            text: page.page(Exposition::Prometheus, &noted),
        }
    }

    fn stop(&self, who: &Who) -> Result<Done, Failure> {
        self.command(Command::Stop("stentor stop", Some(who.clone())))?;
        Ok(Done {})
    }

    fn command(&self, command: Command) -> Result<(), Failure> {
        let commands = lock(&self.commands);
        commands
            .send(command)
            .map_err(|_| Failure::new("unavailable", "the server is stopping"))
    }

    /// Makes the connection an MQTT connection of the administrator of a zone.
    fn hand_to_shard(&self, mut stream: UnixStream, unread: Vec<u8>, zone: Zone) {
        let ready = stream
            .write_all(line(&Ok(json!({}))).as_bytes())
            .and_then(|()| stream.set_nonblocking(true));
        if ready.is_err() {
            return;
        }
        let handover = Handover {
            transport: Transport::Plain,
            unread,
            peer: unix_peer(&stream),
            port: Arc::clone(&self.port),
            // An administrator gets in when nobody else does.
            permit: None,
            purpose: Purpose::Administrate(zone),
        };
        let incoming = Incoming::Connection(Box::new(handover));
        let shard = self.idlest_shard();
        if let Err(errno) = self.context.send(shard, incoming, OwnedFd::from(stream)) {
            warn!(%errno, "an administrator's connection found no room");
        }
    }
}

/// Whether somebody who has asked for this expects to see the outcome in lists.
fn changes(verb: &str) -> bool {
    let need = Verb::named(verb).map(Verb::need);
    matches!(need, Some(Need::Change | Need::Administer)) || Order::is_verb(verb)
}

fn unknown(verb: &str) -> Failure {
    let mut names: Vec<&str> = Verb::ALL.into_iter().map(Verb::name).collect();
    let last = names.pop().unwrap_or_default();
    let message = format!(
        "there is no verb \"{verb}\"; there are {} and {last}, and user.…, role.…, grant, revoke, \
         token.…, zone.… and auth.refresh",
        names.join(", ")
    );
    Failure::new("unknown-verb", message)
}

/// Reads up to the next line feed; what follows it stays in the buffer. `None` at the end.
fn read_line(stream: &mut UnixStream, buffer: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut searched = 0;
    loop {
        if let Some(end) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
            let rest = buffer.split_off(searched + end + 1);
            return Ok(Some(std::mem::replace(buffer, rest)));
        }
        searched = buffer.len();
        if buffer.len() > REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut chunk = [0; 16 * 1024];
        match stream.read(&mut chunk)? {
            0 => return Ok(None),
            len => buffer.extend_from_slice(&chunk[..len]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_any_pieces_and_the_rest_is_kept() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            for piece in [&b"{\"v\""[..], b":1}\n{\"v", b"\":2}\n\x10\x0c"] {
                theirs.write_all(piece).unwrap();
            }
        });
        let mut buffer = Vec::new();
        assert_eq!(
            read_line(&mut ours, &mut buffer).unwrap().unwrap(),
            b"{\"v\":1}\n"
        );
        assert_eq!(
            read_line(&mut ours, &mut buffer).unwrap().unwrap(),
            b"{\"v\":2}\n"
        );
        writer.join().unwrap();
        assert!(read_line(&mut ours, &mut buffer).unwrap().is_none());
        assert_eq!(buffer, b"\x10\x0c", "what belongs to MQTT is not lost");
    }
}
