//! The adaptors of a server, between shards and their threads.
//!
//! A [`Plane`] knows which adaptors a zone has ([`adaptor_set`]), in the order in which they are
//! asked: those of the server, of the zone, of the room. Each sees what those before it have made
//! of a request; the first that denies decides. Shards ask and go on; the verdict comes back
//! through the control queue. [`LoginHooks`] asks them about logins before the Auth Center.

mod actions;
mod adaptor_set;
mod job;
mod login_hooks;

use std::collections::VecDeque;
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use arc_swap::ArcSwap;
use stentor_auth::center::Center;
use stentor_auth::store::Directory;
use stentor_hub::{
    Adaptors, Denial, HookEvent, HookRequest, HookVerdict, Hooks, Identity, Question, Rewrite,
    ServiceCommand, ShardId,
};
use stentor_mqtt::ReasonCode;
use stentor_procedure::adaptor::{Answer, Event, Field, Start, Trials, Verdict};
use stentor_procedure::{Registry, Trust};
use stentor_topic::Zone;

use crate::config::{self, Config};
use crate::context::ServerContext;
use crate::error::ServerError;
use crate::shard::ShardCommand;

use actions::AdaptorActions;
use adaptor_set::{AdaptorSet, Scoped};
use job::{Job, who};
pub(crate) use login_hooks::LoginHooks;

/// How long somebody without a connection waits for adaptors.
const VERDICT_TIME: Duration = Duration::from_secs(10);

/// The reason string for a client when an adaptor is overloaded.
const BUSY: &str = "the zone's adaptor has too much to do; try again";

/// All adaptors, of which there may be none.
#[derive(Clone)]
pub(crate) struct Plane(Arc<Shared>);

/// What lives as long as the server.
struct Shared {
    adaptor_set: ArcSwap<AdaptorSet>,
    actions: Arc<AdaptorActions>,
    center: Arc<Center>,
    /// The longest payload that one of them makes.
    payload_max: Arc<AtomicUsize>,
    trials: Arc<Trials>,
    last_id: AtomicU16,
    /// The certificate authorities that adaptors trust at `https://`.
    trust: Trust,
}

impl Plane {
    /// Starts the adaptors of a configuration.
    ///
    /// # Errors
    /// When one cannot be used: its file, and why.
    pub(crate) fn start(
        config: &Config,
        center: &Arc<Center>,
        directory: &Directory,
    ) -> Result<Self, ServerError> {
        let shared = Arc::new(Shared {
            adaptor_set: ArcSwap::default(),
            actions: Arc::new(AdaptorActions::new(Arc::clone(center))),
            center: Arc::clone(center),
            payload_max: Arc::default(),
            trials: Arc::default(),
            last_id: AtomicU16::new(0),
            trust: crate::call::trust(&config.procedures)?,
        });
        shared.actions.belong_to(&shared);
        let plane = Self(shared);
        plane.configure(config, directory)?;
        Ok(plane)
    }

    /// Goes on with the adaptors of another configuration. Shards have to be told whether there are
    /// [any](Self::if_any).
    ///
    /// # Errors
    /// When one cannot be used: its file, and why. Then those that were there go on.
    pub(crate) fn configure(
        &self,
        config: &Config,
        directory: &Directory,
    ) -> Result<(), ServerError> {
        let shared = &self.0;
        let adaptor_set = AdaptorSet::configured(shared, config, directory)?;
        let payload_max = config.limits.packet_bytes as usize;
        shared.payload_max.store(payload_max, Ordering::Relaxed);
        shared.adaptor_set.store(Arc::new(adaptor_set));
        Ok(())
    }

    /// Itself, if there are adaptors: where there are none, shards ask nobody.
    pub(crate) fn if_any(&self) -> Option<Arc<dyn Adaptors>> {
        let is_empty = self.0.adaptor_set.load().all.is_empty();
        (!is_empty).then(|| Arc::new(self.clone()) as _)
    }

    /// The shards are there: what adaptors do reaches them from now on.
    pub(crate) fn serve(&self, context: &Arc<ServerContext>) {
        self.0.actions.serve(context);
    }

    /// The procedures are there.
    pub(crate) fn serve_calls(&self, registry: &Arc<Registry>) {
        self.0.actions.serve_calls(registry);
    }

    /// Looks at all files now, or at one only: each with its scope, its hooks, and what came of it.
    pub(crate) fn reload(
        &self,
        start: Start,
        file: Option<&Path>,
        zone: Option<&str>,
    ) -> Vec<(stentor_control::adaptors::Adaptor, Result<bool, String>)> {
        self.0.trials.forget();
        let adaptor_set = self.0.adaptor_set.load_full();
        let meant = |one: &&Arc<Scoped>| {
            file.is_none_or(|file| one.is_of_file(file))
                && zone.is_none_or(|zone| one.runs_in(zone))
        };
        let all = adaptor_set.all.iter().filter(meant);
        all.map(|one| {
            let result = one.reload(start);
            (one.describe(), result)
        })
        .collect()
    }

    /// All of them, or those of a zone: files, scopes, hooks, figures, and whether what is on disk
    /// was refused: `since` in seconds since 1970, and why.
    pub(crate) fn describe(&self, zone: Option<&str>) -> Vec<stentor_control::adaptors::Adaptor> {
        let adaptor_set = self.0.adaptor_set.load();
        let meant = |one: &&Arc<Scoped>| zone.is_none_or(|zone| one.runs_in(zone));
        let all = adaptor_set.all.iter().filter(meant);
        all.map(|one| one.describe()).collect()
    }

    /// The adaptors of a zone that are asked by a hook, about a room or what is in none.
    pub(crate) fn asked(
        &self,
        zone: &str,
        hook: &str,
        room: Option<&str>,
    ) -> Vec<stentor_control::adaptors::Adaptor> {
        let adaptor_set = self.0.adaptor_set.load();
        let all = adaptor_set.all.iter();
        let asked = all.filter(|one| one.runs_in(zone) && one.hears(hook, room));
        asked.map(|one| one.describe()).collect()
    }

    /// Whether the adaptors of a zone are asked about publishes.
    pub(crate) fn judges_publishes(&self, zone: Zone) -> bool {
        self.hooks(zone).has(Hooks::PUBLISH)
    }

    /// Asks the adaptors of a zone about a publish of somebody without a connection, and waits for
    /// them; `None` if they do not answer in time. Where none is asked, all is done.
    pub(crate) fn judge_publish(
        &self,
        identity: &Arc<Identity>,
        zone: Arc<str>,
        request: HookRequest,
    ) -> Option<HookVerdict> {
        if !self.judges_publishes(identity.zone) {
            return Some(HookVerdict::Done(Rewrite::default()));
        }
        let (asker, judged) = channel();
        let job = Job {
            zone,
            steps: self.0.adaptor_set.load().steps(identity.zone, &request),
            by_room: job::by_room(&request),
            question: Question {
                identity: Arc::clone(identity),
                client_id: Box::default(),
                request,
                // The asker waits elsewhere.
                shard: ShardId(0),
                number: 0,
            },
            rewrite: Rewrite::default(),
            asker: Some(asker),
            detour: None,
            denials: Vec::new(),
        };
        self.0.go_on(Box::new(job));
        judged.recv_timeout(VERDICT_TIME).ok()
    }

    /// Whether somebody is asked about logins, to whatever zone.
    fn judges_logins(&self) -> bool {
        let adaptor_set = self.0.adaptor_set.load();
        adaptor_set.all.iter().any(|one| one.hears("login", None))
    }

    /// Those who are asked about logins to a zone.
    fn judges_of_logins(&self, zone: &str) -> VecDeque<Arc<Scoped>> {
        let adaptor_set = self.0.adaptor_set.load();
        let judges = adaptor_set.all.iter().filter(|one| one.judges_logins(zone));
        judges.cloned().collect()
    }
}

/// What is wrong with the files of a configuration's adaptors: each is compiled and tested.
pub(crate) fn check(config: &Config) -> impl Iterator<Item = ServerError> {
    let checked = |one: &config::Adaptor| {
        let source = one.source();
        let hooks = source.and_then(|source| stentor_procedure::adaptor::check(&source));
        hooks.err()
    };
    config
        .adaptors
        .iter()
        .filter_map(checked)
        .map(ServerError::Adaptor)
}

impl Shared {
    /// Asks the next adaptor, or tells the shard.
    fn go_on(self: &Arc<Self>, mut job: Box<Job>) {
        if job.steps.is_empty() && job.turn_off() {
            let identity = &job.question.identity;
            job.steps = self
                .adaptor_set
                .load()
                .steps(identity.zone, &job.question.request);
        }
        let Some((next, filter)) = job.steps.pop_front() else {
            return self.finish(*job);
        };
        let event = job.event(filter);
        let shared = Arc::clone(self);
        let answer: Answer = Box::new(move |verdict| shared.take(job, filter, verdict));
        next.running.adaptor.ask(event, answer);
    }

    fn take(self: &Arc<Self>, mut job: Box<Job>, filter: usize, verdict: Verdict) {
        let denial = match verdict {
            Verdict::Allow(allowed) => {
                job.change(allowed);
                None
            }
            Verdict::Deny { code, text } => {
                let reason = code.and_then(ReasonCode::from_u8);
                Some(Denial {
                    reason: reason.unwrap_or(ReasonCode::ImplementationSpecificError),
                    text: text.into(),
                })
            }
            Verdict::Busy => Some(Denial {
                reason: ReasonCode::QuotaExceeded,
                text: BUSY.into(),
            }),
        };
        if let Some(denial) = denial {
            if !matches!(job.question.request, HookRequest::Subscribe(_)) {
                return self.judge(&job, HookVerdict::Denied(denial));
            }
            job.deny(filter, &denial);
        }
        self.go_on(job);
    }

    fn finish(&self, mut job: Job) {
        let verdict = match job.question.request {
            HookRequest::Subscribe(_) => HookVerdict::Filters(mem::take(&mut job.denials)),
            _ => {
                job.come_back();
                HookVerdict::Done(mem::take(&mut job.rewrite))
            }
        };
        self.judge(&job, verdict);
    }

    fn judge(&self, job: &Job, verdict: HookVerdict) {
        if let Some(asker) = &job.asker {
            // The asker may have given up.
            let _ = asker.send(verdict);
            return;
        }
        let (question, context) = (&job.question, self.actions.context());
        if let Some(context) = context {
            let item = ServiceCommand::Judged {
                number: question.number,
                verdict: Arc::new(verdict),
            };
            context.post(
                usize::from(question.shard.0),
                ShardCommand::Hub(item.into()),
            );
        }
    }

    fn tell(&self, zone: Zone, room: Option<&str>, hook: &'static str, event: &Event) {
        for one in self.adaptor_set.load().of(zone) {
            if one.hears(hook, room) {
                one.running.adaptor.tell(event.clone());
            }
        }
    }
}

impl Adaptors for Plane {
    fn hooks(&self, zone: Zone) -> Hooks {
        let adaptor_set = self.0.adaptor_set.load();
        let all = adaptor_set.of(zone).iter();
        Hooks(all.fold(0, |hooks, one| hooks | one.running.adaptor.hooks()))
    }

    fn ask(&self, question: Question) -> Result<(), Box<Question>> {
        let zone = question.identity.zone;
        let Some(context) = self.0.actions.context() else {
            return Err(Box::new(question));
        };
        let filters = match &question.request {
            HookRequest::Subscribe(filters) => filters.len(),
            _ => 0,
        };
        let job = Job {
            zone: context.zone_name(zone).into(),
            steps: self.0.adaptor_set.load().steps(zone, &question.request),
            by_room: job::by_room(&question.request),
            question,
            rewrite: Rewrite::default(),
            asker: None,
            detour: None,
            denials: vec![None; filters],
        };
        self.0.go_on(Box::new(job));
        Ok(())
    }

    fn tell(&self, zone: Zone, told: HookEvent) {
        let Some(context) = self.0.actions.context() else {
            return;
        };
        let name: Arc<str> = context.zone_name(zone).into();
        let event = |hook, fields| Event {
            hook,
            zone: name,
            fields,
        };
        match told {
            HookEvent::Left { room, user } => {
                let fields = vec![("room", Field::from(&*room)), ("user", Field::from(&*user))];
                self.0
                    .tell(zone, Some(&room), "leave", &event("leave", fields));
            }
            HookEvent::Created { room } => {
                let fields = vec![("room", Field::from(&*room))];
                self.0
                    .tell(zone, Some(&room), "created", &event("created", fields));
            }
            HookEvent::Closed { room } => {
                let fields = vec![("room", Field::from(&*room))];
                self.0
                    .tell(zone, Some(&room), "closed", &event("closed", fields));
            }
            HookEvent::Disconnected {
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

impl Shared {
    fn answered(&self, number: u64, json: Vec<u8>) {
        // Numbers begin with that of their adaptor.
        let id = number >> 48;
        let adaptor_set = self.adaptor_set.load();
        let mut all = adaptor_set.all.iter().map(|one| &one.running.adaptor);
        if let Some(one) = all.find(|one| u64::from(one.id()) == id) {
            one.answered(number, json);
        }
    }
}
