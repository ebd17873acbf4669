//! The verb `why`: what keeps a message of a topic from a client, and what to do about it.
//!
//! Everything is looked up now: what was decided about an earlier message may have been decided
//! otherwise. Shards look at a bounded part of a session in one turn.

mod publisher;
mod queue;
mod subscriber;
mod way;

use std::sync::Arc;
use std::time::Duration;

use stentor_auth::center::LoginRecord;
use stentor_auth::rights::Explanation;
use stentor_control::clients::{Because, Check as Shown, Party as Side, Why};
use stentor_hub::{Access, Delivering, Granted, Retained as _, Rights};
use stentor_session::{CloseReason, Limit, Local, Tick};
use stentor_topic::{Zone, validate_name};

use self::way::Way;
use super::clients::{describe_entry, home, meant, silent, subscription, zone_of};
use super::protocol::Failure;
use super::zones;
use crate::context::ServerContext;
use crate::shard::{AboutClient, ClientEntry, Inquiry};
use crate::telemetry::collect::ask_one;

/// What is known of one client and a topic.
struct Party {
    zone: Zone,
    zone_name: String,
    client_id: String,
    /// No zone was named, so it was looked for in all of them.
    is_sought_everywhere: bool,
    /// `None`: it has no session.
    session: Option<Session>,
    /// Which client was probably meant, where there is no session: the end of a sentence.
    meant: String,
    /// For how long at least nothing has come from the client, while messages wait for its
    /// acknowledgement.
    silent: Option<Duration>,
    /// When and why the server has ended its last connection, if it has none and that is known.
    departed: Option<(Tick, CloseReason)>,
}

struct Session {
    entry: ClientEntry,
    delivering: Delivering,
    /// The subscriptions that match.
    matching: Vec<Granted>,
}

/// Whether something is in the way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    /// It is not in the way of every message.
    Note,
    Bad,
}

impl State {
    const fn label(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Bad => "bad",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    what: &'static str,
    state: State,
    text: String,
    /// What to do, as a command or a sentence.
    remedy: Option<String>,
    /// How the verdict leads to it, where the messages arrive and there is more to say.
    lead: Option<&'static str>,
}

impl Check {
    fn new(what: &'static str, state: State, text: impl Into<String>) -> Self {
        Self {
            what,
            state,
            text: text.into(),
            remedy: None,
            lead: None,
        }
    }

    /// A note that the verdict tells too, behind these words.
    fn with_lead(mut self, lead: &'static str) -> Self {
        self.lead = Some(lead);
        self
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    fn shown(&self) -> Shown {
        Shown {
            what: self.what.to_owned(),
            state: self.state.label().to_owned(),
            text: self.text.clone(),
            remedy: self.remedy.clone(),
        }
    }
}

/// Answers the verb.
pub(super) fn why(context: &ServerContext, request: &Why) -> Result<Because, Failure> {
    let said = zones::named(context, request.zone.as_ref())?;
    let (client_id, topic) = (&*request.client_id, &*request.topic);
    check(client_id, request.to.as_deref(), topic)?;
    let way = Way::of(topic);
    let (publisher, subscriber) = match &request.to {
        None => {
            let arrives = way.arrives(topic, None);
            (None, look(context, said, client_id, None, &arrives)?)
        }
        Some(to) => {
            let other = Some(to.as_str());
            let publisher = look(context, said, client_id, other, topic)?;
            let arrives = way.arrives(topic, publisher.name());
            let subscriber = look(
                context,
                said.or(Some(publisher.zone)),
                to,
                Some(client_id),
                &arrives,
            )?;
            // The answer says that a subscriber is in another zone, not that it is missing.
            let subscriber = match (said, &subscriber.session) {
                (None, None) => look(context, None, to, Some(client_id), &arrives)?,
                _ => subscriber,
            };
            (Some(publisher), subscriber)
        }
    };
    let mut checks = Vec::new();
    let now = context.clock.now();
    if let Some(publisher) = &publisher {
        checks.extend(publisher::checks(publisher, &subscriber, topic, &way, now));
    }
    let of_publisher = checks.len();
    checks.extend(way.adaptors(context, &subscriber.zone_name));
    let store = &context.retained;
    let held = store.get(subscriber.zone, topic, store.mark(), now);
    let holds = held.map(|message| message.payload().len());
    let question = subscriber::Question {
        publisher: publisher.as_ref(),
        topic,
        way: &way,
        holds,
        now,
    };
    checks.extend(subscriber::checks(&subscriber, &question));
    let (gets, verdict) = verdict(&checks, publisher.as_ref(), &subscriber, topic);
    let (before, after) = checks.split_at(of_publisher);
    let all = |checks: &[Check]| checks.iter().map(Check::shown).collect::<Vec<_>>();
    let publisher = publisher.map(|party| party.shown(context, all(before)));
    Ok(Because {
        topic: topic.to_owned(),
        gets: gets.to_owned(),
        verdict,
        publisher,
        subscriber: subscriber.shown(context, all(after)),
    })
}

/// Refuses a question about what cannot be.
fn check(client_id: &str, to: Option<&str>, topic: &str) -> Result<(), Failure> {
    for (field, id) in [("client_id", Some(client_id)), ("to", to)] {
        if id == Some("") {
            let message = "the client id is empty; `stentor clients ls` lists the clients";
            return Err(Failure::new("bad-request", message).about(field));
        }
    }
    validate_name(topic).map_err(|error| {
        let message = format!(
            "{} is not a topic that a message can have: {error}; a filter such as a/# is not one",
            quoted(topic)
        );
        Failure::new("bad-request", message).about("topic")
    })
}

/// A text in quotation marks; of a long one, its beginning.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
    }
}

/// Characters that a refusal shows of a topic.
const SHOWN_MAX: usize = 64;

/// The answer in a word and in a sentence.
fn verdict(
    checks: &[Check],
    publisher: Option<&Party>,
    subscriber: &Party,
    topic: &str,
) -> (&'static str, String) {
    let whose = match publisher {
        Some(publisher) => {
            let who = &publisher.client_id;
            format!("what {who:?} publishes to {}", quoted(topic))
        }
        None => format!("messages of {}", quoted(topic)),
    };
    let client = &subscriber.client_id;
    if let Some(bad) = checks.iter().find(|check| check.state == State::Bad) {
        return (
            "no",
            format!("{client:?} does not get {whose}: {}", bad.text),
        );
    }
    let led = |check: &Check| {
        let lead = check.lead.filter(|_| check.state == State::Note)?;
        Some(format!("; {lead}: {}", check.text))
    };
    let more = checks.iter().find_map(led);
    if !subscriber.is_connected() {
        let more = more.unwrap_or_default();
        let text = format!("{client:?} gets {whose} when it comes back: they wait for it{more}");
        return ("later", text);
    }
    let more = more.unwrap_or_else(|| "; nothing is in the way now".to_owned());
    ("yes", format!("{client:?} gets {whose}{more}"))
}

/// How long a client may take for an acknowledgement before the answer mentions it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Looks a client up. One that has messages to acknowledge is looked at again after a while.
/// "Did you mean" never names the `other` side.
fn look(
    context: &ServerContext,
    said: Option<Zone>,
    client_id: &str,
    other: Option<&str>,
    topic: &str,
) -> Result<Party, Failure> {
    let zone = zone_of(context, said, client_id)?;
    let session = session_of(context, zone, client_id, topic)?;
    let mut party = Party::new(context, zone, client_id, session);
    if party.session.is_none() {
        party.is_sought_everywhere = said.is_none();
        party.meant = meant(context, said, client_id, other);
    }
    if let Some(before) = party.owing() {
        // This is a thread of its own.
        std::thread::sleep(PATIENCE);
        party.session = session_of(context, zone, client_id, topic)?;
        let now = context.clock.now();
        let still = party.owing().filter(|still| *still == before);
        party.silent = still.map(|(_, last_seen)| now.since(last_seen));
    }
    if !party.is_connected() {
        let question = |answer| Inquiry::Client {
            zone,
            client_id: client_id.to_owned(),
            about: AboutClient::Departure(answer),
        };
        let answer = ask_one(context, home(context, zone, client_id), question);
        party.departed = answer.ok_or_else(silent)?;
    }
    Ok(party)
}

/// The session of a client, if it has one.
fn session_of(
    context: &ServerContext,
    zone: Zone,
    client_id: &str,
    topic: &str,
) -> Result<Option<Session>, Failure> {
    let mut session: Option<Session> = None;
    let mut from = Some(0);
    while let Some(first) = from {
        let question = |answer| Inquiry::Client {
            zone,
            client_id: client_id.to_owned(),
            about: AboutClient::Why {
                topic: topic.to_owned(),
                from: first,
                answer,
            },
        };
        let answer = ask_one(context, home(context, zone, client_id), question);
        let Some(reasons) = answer.ok_or_else(silent)? else {
            break;
        };
        from = reasons.next;
        let before = session.map_or_else(Vec::new, |session| session.matching);
        session = Some(Session {
            entry: reasons.entry,
            delivering: reasons.delivering,
            matching: before.into_iter().chain(reasons.matching).collect(),
        });
    }
    Ok(session)
}

impl Party {
    /// When its connection began and its last packet came, if it has messages to acknowledge.
    fn owing(&self) -> Option<(Tick, Tick)> {
        let info = &self.session.as_ref()?.entry.info;
        let connection = info.connection.filter(|_| info.in_flight > 0)?;
        Some((connection.since, connection.last_seen))
    }

    fn new(context: &ServerContext, zone: Zone, client_id: &str, session: Option<Session>) -> Self {
        Self {
            zone,
            zone_name: context.zone_name(zone),
            client_id: client_id.to_owned(),
            is_sought_everywhere: false,
            session,
            meant: String::new(),
            silent: None,
            departed: None,
        }
    }

    /// That there is no such client, and whom somebody may have meant.
    fn missing(&self, what: &str) -> String {
        format!("{:?} {what}{}", self.client_id, self.meant)
    }

    /// Where it was looked for.
    fn place(&self) -> String {
        match self.is_sought_everywhere {
            true => "in any zone".to_owned(),
            false => format!("in the zone {}", self.zone_name),
        }
    }

    fn is_connected(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| session.entry.info.connection.is_some())
    }

    /// Its user's name in its zone; `None` for who has none.
    fn name(&self) -> Option<&str> {
        self.session.as_ref()?.entry.info.user.as_deref()
    }

    /// Why it has no connection, if the server has ended it: the end of a sentence.
    fn ended(&self, now: Tick) -> String {
        let Some((at, reason)) = self.departed else {
            return String::new();
        };
        let words = match reason {
            CloseReason::Limit(Limit::QueueBytes) => {
                ": its queue was full, since it read too slowly"
            }
            CloseReason::Timeout(_) => ": nothing came from it in time",
            CloseReason::Local(Local::Kicked) => ": an administrator did that",
            CloseReason::Local(Local::Banned) => ": it is banned, as `stentor ban ls` shows",
            _ => "",
        };
        let (ago, label) = (now.since(at).as_secs(), reason.label());
        format!("; the server ended its connection {ago} s ago ({label}){words}")
    }

    /// The name for `stentor user test`; `None` for a client without one.
    fn user(&self) -> Option<String> {
        let user = self.name()?;
        Some(match self.zone == Zone::DEFAULT {
            true => user.to_owned(),
            false => format!("{}/{user}", self.zone_name),
        })
    }

    fn shown(&self, context: &ServerContext, checks: Vec<Shown>) -> Side {
        let session = self.session.as_ref();
        let all = |session: &Session| session.matching.iter().map(subscription).collect();
        let zone = (!self.is_sought_everywhere).then(|| self.zone_name.clone());
        Side {
            client_id: self.client_id.clone(),
            zone: zone.clone(),
            zone_name: zone,
            client: session.map(|session| describe_entry(context, &session.entry)),
            matching: session.map(all),
            checks,
        }
    }
}

/// What the Auth Center has said about somebody, where it was asked.
fn login_record(rights: &Arc<dyn Rights>) -> Option<&LoginRecord> {
    rights
        .as_any()
        .and_then(|any| any.downcast_ref::<LoginRecord>())
}

/// The rule that decides whether somebody gets messages of a topic, if a role has one.
pub(super) fn rule_of_receiver(rights: &Arc<dyn Rights>, topic: &str) -> Option<String> {
    let explanation = login_record(rights)?.holder().explain_receive(topic);
    explanation.deciding().map(ToString::to_string)
}

/// Whether something is permitted, and what says so.
fn permitted(
    what: &'static str,
    is_permitted: bool,
    rights: &Arc<dyn Rights>,
    explain: impl FnOnce(&LoginRecord) -> Explanation,
) -> Check {
    let explanation = login_record(rights).map(explain);
    let is_agreed = explanation
        .as_ref()
        .is_some_and(|explanation| (explanation.access == Access::All) == is_permitted);
    let rule = explanation.filter(|_| is_agreed);
    let rule = rule.as_ref().and_then(|explanation| explanation.deciding());
    match (is_permitted, rule) {
        (true, Some(rule)) => Check::new(what, State::Good, format!("yes, by {rule}")),
        (true, None) if rights.is_operator() => Check::new(
            what,
            State::Good,
            "yes: the server's owner may do everything",
        ),
        (true, None) => Check::new(what, State::Good, "yes"),
        (false, Some(rule)) => {
            let remedy = format!(
                "`stentor role change {} --remove '{}'`, since a rule that denies wins",
                rule.role.name,
                rule.rule()
            );
            Check::new(what, State::Bad, format!("{rule}")).with_remedy(remedy)
        }
        (false, None) => Check::new(what, State::Bad, "no rule of its roles allows it"),
    }
}

/// A check of a right that is missing, with what to do about it: what the check says already, or
/// another rule.
fn with_right_remedy(check: Check, party: &Party, action: &str, topic: &str) -> Check {
    let role = match party.user() {
        Some(_) => "ROLE",
        None => "anonymous",
    };
    let allow = || format!("`stentor role change {role} --add 'allow {action} {topic}'`");
    let change = check.remedy.clone().unwrap_or_else(allow);
    check.with_remedy(match party.user() {
        Some(user) => {
            format!("{change}; `stentor user test {user} {action} '{topic}'` tries it")
        }
        None => format!("it is anonymous: let it log in, or {change}"),
    })
}
