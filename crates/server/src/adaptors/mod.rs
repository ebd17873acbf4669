//! The adaptors of a server, between shards and their threads.
//!
//! A [`Plane`] knows which adaptors a zone has, in the order in which they are asked: those of the
//! server, of the zone, of the room. Each sees what those before it have made of a deed; the first
//! that denies decides. Shards ask and go on; the judgement comes back through the control lane. A
//! [`Doorkeeper`] asks them about log-ins before the Auth Center.

mod door;
mod hands;
mod job;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use stentor_auth::center::Center;
use stentor_auth::model::DEFAULT_ZONE;
use stentor_auth::store::Directory;
use stentor_hub::{
    Adaptors, ControlItem, Deed, Denial, Happening, Hooks, Judgement, Question, Rewrite,
};
use stentor_mqtt::ReasonCode;
use stentor_procedure::Registry;
use stentor_procedure::adaptor::{
    Adaptor, Allowed, Answer, Event, Field, HOOKS, Host, OnError, Options, Verdict,
};
use stentor_topic::Zone;
use tracing::info;

use crate::backplane::Backplane;
use crate::config::{self, Config, OnTrouble};
use crate::error::ServerError;
use crate::shard::Letter;

pub(crate) use door::Doorkeeper;
use hands::Hands;
use job::{Job, who};

/// Zones of which each has a machine and a thread of its own for an adaptor that is for all zones;
/// the others share one.
const ZONES_APART_MAX: usize = 64;

/// Adaptors that run at a time, each with a thread.
const ADAPTORS_MAX: usize = 1_000;

/// All adaptors.
#[derive(Clone)]
pub(crate) struct Plane(Arc<Inner>);

struct Inner {
    /// In the order in which they are asked.
    adaptors: Vec<Scoped>,
    hands: Arc<Hands>,
}

/// An adaptor and what it is for.
struct Scoped {
    adaptor: Adaptor,
    zone: Scope,
    /// `None` for all rooms and everything that is in none.
    room: Option<Box<str>>,
}

/// The zones that a running adaptor is for.
enum Scope {
    One(Arc<str>, Zone),
    /// All but these.
    Others(Arc<[(Arc<str>, Zone)]>),
}

impl Scope {
    fn has(&self, zone: Zone) -> bool {
        match self {
            Self::One(_, own) => *own == zone,
            Self::Others(not) => not.iter().all(|(_, number)| *number != zone),
        }
    }
}

impl Plane {
    /// Starts the adaptors of a configuration; `None` if it has none. One for all zones is started
    /// for each zone, so that what one of them makes of it is nothing to the others.
    ///
    /// # Errors
    /// When one cannot be used: its file, and why.
    pub(crate) fn start(
        config: &Config,
        (center, directory): (&Arc<Center>, &Directory),
    ) -> Result<Option<Self>, ServerError> {
        if config.adaptors.is_empty() {
            return Ok(None);
        }
        let hands = Arc::new(Hands::new(Arc::clone(center)));
        let mut ordered: Vec<&config::Adaptor> = config.adaptors.iter().collect();
        // Those for more come before those for less; a sort keeps the order of equals.
        ordered.sort_by_key(|one| (one.zone.is_some(), one.room.is_some()));
        let apart = numbered(zones_apart(config, directory), center)?;
        let mut adaptors: Vec<Scoped> = Vec::new();
        for one in ordered {
            for scope in scopes(one, &apart, center)? {
                if adaptors.len() >= ADAPTORS_MAX {
                    let reason = format!(
                        "{}: more than {ADAPTORS_MAX} machines would run; give adaptors a `zone`",
                        one.file.display()
                    );
                    return Err(ServerError::Adaptor(reason));
                }
                let id = adaptors.len() as u16;
                adaptors.push(scoped(id, one, scope, &hands)?);
            }
            info!("adaptor {} loaded", one.file.display());
        }
        let inner = Arc::new(Inner {
            adaptors,
            hands: Arc::clone(&hands),
        });
        hands.belong_to(&inner);
        Ok(Some(Self(inner)))
    }

    /// The shards are there: what adaptors do reaches them from now on.
    pub(crate) fn serve(&self, backplane: &Arc<Backplane>) {
        self.0.hands.serve(backplane);
    }

    /// The procedures are there.
    pub(crate) fn serve_calls(&self, registry: &Arc<Registry>) {
        self.0.hands.serve_calls(registry);
    }

    /// Looks at all files now: each with its scope, its hooks, and what came of it.
    pub(crate) fn reload(&self) -> Vec<(serde_json::Value, Result<bool, String>)> {
        let adaptors = self.0.adaptors.iter();
        adaptors
            .map(|one| (one.describe(), one.adaptor.reload()))
            .collect()
    }

    /// All of them: files, scopes, hooks.
    pub(crate) fn describe(&self) -> Vec<serde_json::Value> {
        self.0.adaptors.iter().map(Scoped::describe).collect()
    }
}

/// What is wrong with the files of a configuration's adaptors: each is compiled and tested.
pub(crate) fn check(config: &Config) -> impl Iterator<Item = ServerError> {
    let checked = |one: &config::Adaptor| stentor_procedure::adaptor::check(&one.file).err();
    config
        .adaptors
        .iter()
        .filter_map(checked)
        .map(ServerError::Adaptor)
}

/// The zones that have machines of their own for adaptors of all zones.
fn zones_apart(config: &Config, directory: &Directory) -> Vec<Arc<str>> {
    let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
    names.insert(DEFAULT_ZONE.into());
    names.extend(
        config
            .zones
            .iter()
            .map(|zone| Arc::from(zone.name.as_str())),
    );
    for record in directory.zones().iter() {
        if names.len() < ZONES_APART_MAX {
            names.insert(Arc::clone(&record.name));
        }
    }
    names.into_iter().take(ZONES_APART_MAX).collect()
}

fn numbered(names: Vec<Arc<str>>, center: &Center) -> Result<Vec<(Arc<str>, Zone)>, ServerError> {
    let number = |name: Arc<str>| {
        let number = center.zone_number(&name);
        let number = number.map_err(|error| ServerError::system("numbering a zone", error))?;
        Ok((name, number))
    };
    names.into_iter().map(number).collect()
}

/// The zones that a configured adaptor is started for.
fn scopes(
    one: &config::Adaptor,
    apart: &[(Arc<str>, Zone)],
    center: &Center,
) -> Result<Vec<Scope>, ServerError> {
    let single = |(name, number)| Scope::One(name, number);
    if let Some(name) = &one.zone {
        let named = numbered(vec![name.as_str().into()], center)?;
        return Ok(named.into_iter().map(single).collect());
    }
    let each = apart.iter().cloned().map(single);
    Ok(each.chain([Scope::Others(apart.into())]).collect())
}

fn scoped(
    id: u16,
    one: &config::Adaptor,
    zone: Scope,
    hands: &Arc<Hands>,
) -> Result<Scoped, ServerError> {
    let home = match &zone {
        Scope::One(name, _) => Arc::clone(name),
        Scope::Others(_) => DEFAULT_ZONE.into(),
    };
    let options = Options {
        id,
        path: one.file.clone(),
        // Of zones that share a machine none is the one whose time it is.
        has_timer: matches!(zone, Scope::One(..)),
        zone: home,
        memory: usize::try_from(one.memory).unwrap_or(usize::MAX),
        time: one.time,
        deadline: one.deadline,
        hosts: one.http.clone(),
        on_error: match one.on_error {
            OnTrouble::Deny => OnError::Deny,
            OnTrouble::Allow => OnError::Allow,
        },
    };
    let host = Arc::clone(hands) as Arc<dyn Host>;
    let adaptor = Adaptor::start(options, host).map_err(ServerError::Adaptor)?;
    Ok(Scoped {
        adaptor,
        zone,
        room: one.room.as_deref().map(Into::into),
    })
}

impl Scoped {
    fn is_of(&self, zone: Zone) -> bool {
        self.zone.has(zone)
    }

    /// Whether it is asked about log-ins to a zone.
    fn judges_logins(&self, zone: &str) -> bool {
        let is_of = match &self.zone {
            Scope::One(name, _) => **name == *zone,
            Scope::Others(not) => not.iter().all(|(name, _)| **name != *zone),
        };
        is_of && self.room.is_none() && self.adaptor.has("login")
    }

    /// Whether it is asked by this hook about something in a room, or in none.
    fn hears(&self, hook: &str, room: Option<&str>) -> bool {
        let fits = self.room.as_deref().is_none_or(|own| Some(own) == room);
        fits && self.adaptor.has(hook)
    }

    fn describe(&self) -> serde_json::Value {
        let zone = match &self.zone {
            Scope::One(name, _) => Some(&**name),
            Scope::Others(_) => None,
        };
        let hooks = self.adaptor.hooks();
        let has = |(bit, _): &(usize, &&str)| hooks & (1 << bit) != 0;
        let names: Vec<&str> = HOOKS
            .iter()
            .enumerate()
            .filter(has)
            .map(|(_, name)| *name)
            .collect();
        serde_json::json!({
            "file": self.adaptor.path().display().to_string(),
            "zone": zone,
            "room": self.room,
            "hooks": names,
        })
    }
}

impl Inner {
    /// Who is asked about a deed, in this order.
    fn steps(&self, zone: Zone, deed: &Deed) -> VecDeque<(usize, usize)> {
        let hearers = |hook: &'static str, room: Option<Box<str>>, filter: usize| {
            let all = self.adaptors.iter().enumerate();
            let hears = move |(_, one): &(usize, &Scoped)| {
                one.is_of(zone) && one.hears(hook, room.as_deref())
            };
            all.filter(hears).map(move |(at, _)| (at, filter))
        };
        match deed {
            Deed::Publish { .. } => hearers("publish", None, 0).collect(),
            Deed::Private { .. } => hearers("private", None, 0).collect(),
            Deed::Say { room, .. } => hearers("say", Some(room.clone()), 0).collect(),
            Deed::Subscribe(filters) => {
                let each = filters
                    .iter()
                    .enumerate()
                    .flat_map(|(at, (filter, room))| match room {
                        Some(_) => hearers("join", room.clone(), at).collect::<Vec<_>>(),
                        None if filter.starts_with('$') && !filter.starts_with("$share/") => {
                            Vec::new()
                        }
                        None => hearers("subscribe", None, at).collect(),
                    });
                each.collect()
            }
        }
    }

    /// Asks the next adaptor, or tells the shard.
    fn go_on(self: &Arc<Self>, mut job: Box<Job>) {
        let Some((at, filter)) = job.steps.pop_front() else {
            return self.finish(*job);
        };
        let event = job.event(filter);
        let inner = Arc::clone(self);
        let answer: Answer = Box::new(move |verdict| inner.take(job, filter, verdict));
        match self.adaptors.get(at) {
            Some(one) => one.adaptor.ask(event, answer),
            None => answer(Verdict::Allow(Allowed::default())),
        }
    }

    fn take(self: &Arc<Self>, mut job: Box<Job>, filter: usize, verdict: Verdict) {
        match verdict {
            Verdict::Allow(allowed) => job.change(allowed),
            Verdict::Deny { code, text } => {
                let reason = code.and_then(ReasonCode::from_u8);
                let denial = Denial {
                    reason: reason.unwrap_or(ReasonCode::ImplementationSpecificError),
                    text: text.into(),
                };
                if !matches!(job.question.deed, Deed::Subscribe(_)) {
                    return self.judge(&job.question, Judgement::Denied(denial));
                }
                job.steps.retain(|(_, of)| *of != filter);
                if let Some(place) = job.denials.get_mut(filter) {
                    *place = Some(denial);
                }
            }
        }
        self.go_on(job);
    }

    fn finish(&self, job: Job) {
        let judgement = match job.question.deed {
            Deed::Subscribe(_) => Judgement::Filters(job.denials),
            _ => Judgement::Done(job.rewrite),
        };
        self.judge(&job.question, judgement);
    }

    fn judge(&self, question: &Question, judgement: Judgement) {
        let backplane = self.hands.backplane();
        if let Some(backplane) = backplane {
            let item = ControlItem::Judged {
                number: question.number,
                judgement: Arc::new(judgement),
            };
            backplane.post(usize::from(question.shard.0), Letter::Hub(item));
        }
    }

    fn tell(&self, zone: Zone, room: Option<&str>, hook: &'static str, event: &Event) {
        for one in &self.adaptors {
            if one.is_of(zone) && one.hears(hook, room) {
                one.adaptor.tell(event.clone());
            }
        }
    }
}

impl Adaptors for Plane {
    fn hooks(&self, zone: Zone) -> Hooks {
        let of_zone = self.0.adaptors.iter().filter(|one| one.is_of(zone));
        Hooks(of_zone.fold(0, |all, one| all | one.adaptor.hooks()))
    }

    fn ask(&self, question: Question) -> Result<(), Box<Question>> {
        let zone = question.identity.zone;
        let Some(backplane) = self.0.hands.backplane() else {
            return Err(Box::new(question));
        };
        let filters = match &question.deed {
            Deed::Subscribe(filters) => filters.len(),
            _ => 0,
        };
        let job = Job {
            zone: backplane.zone_name(zone).into(),
            steps: self.0.steps(zone, &question.deed),
            question,
            rewrite: Rewrite::default(),
            denials: vec![None; filters],
        };
        self.0.go_on(Box::new(job));
        Ok(())
    }

    fn tell(&self, zone: Zone, happening: Happening) {
        let Some(backplane) = self.0.hands.backplane() else {
            return;
        };
        let name: Arc<str> = backplane.zone_name(zone).into();
        let event = |hook, fields| Event {
            hook,
            zone: name,
            fields,
        };
        match happening {
            Happening::Left { room, user } => {
                let fields = vec![("room", Field::from(&*room)), ("user", Field::from(&*user))];
                self.0
                    .tell(zone, Some(&room), "leave", &event("leave", fields));
            }
            Happening::Created { room } => {
                let fields = vec![("room", Field::from(&*room))];
                self.0
                    .tell(zone, Some(&room), "created", &event("created", fields));
            }
            Happening::Closed { room } => {
                let fields = vec![("room", Field::from(&*room))];
                self.0
                    .tell(zone, Some(&room), "closed", &event("closed", fields));
            }
            Happening::Disconnected {
                identity,
                client_id,
                reason,
            } => {
                let mut fields = who(&identity, &client_id);
                fields.push(("reason", Field::from(reason)));
                self.0
                    .tell(zone, None, "disconnect", &event("disconnect", fields));
            }
        }
    }

    fn answered(&self, number: u64, json: Vec<u8>) {
        self.0.answered(number, json);
    }
}

impl Inner {
    fn answered(&self, number: u64, json: Vec<u8>) {
        // Numbers begin with that of their adaptor.
        let id = number >> 48;
        let of = |one: &&Scoped| u64::from(one.adaptor.id()) == id;
        if let Some(one) = self.adaptors.iter().find(of) {
            one.adaptor.answered(number, json);
        }
    }
}
