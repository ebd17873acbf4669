//! Calls over MQTT: a queue from the shards, and a thread that hands each call to its procedure.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use stentor_call_protocol::{Format, Status, Verdict};
use stentor_hub::{Call, Callees, Fate, Served};
use stentor_procedure::{
    Answer, Call as Asked, Caller, Content, Envelope, Figures, Loaded, Message, Registry, has_share,
};
use stentor_session::Tick;
use stentor_topic::Zone;

use super::answers::Answers;
use super::clients::Requests;
use super::outlets::{Broadcasts, Outlets};
use crate::context::ServerContext;
use crate::shard::ShardCommand;

/// Calls of all shards that may wait to be handed over. Procedures have queues of their own, so
/// these wait only while the thread is busy with what is built in.
const WAITING_MAX: usize = 2_048;

/// How long a caller waits that sets no message expiry interval.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of a look at the folder of procedures.
#[derive(Debug)]
pub(crate) struct Looked {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// What the look changed.
    pub(crate) loaded: Loaded,
    /// All procedures after it.
    pub(crate) figures: Vec<Figures>,
}

/// Where shards leave calls.
#[derive(Debug, Default)]
pub(crate) struct CallQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// What procedures have answered, until it is delivered.
    pub(crate) answers: Arc<Answers>,
    /// What clients are asked that serve procedures.
    pub(super) requests: Requests,
    /// What procedures send in the names of their callers.
    pub(super) broadcasts: Broadcasts,
    /// Those that are called.
    registry: OnceLock<Weak<Registry>>,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: VecDeque<Call>,
    /// How many of them each user has.
    by_user: HashMap<User, usize>,
    /// Calls that were handed over and are not answered.
    handed: usize,
    stage: Stage,
}

/// Whether calls are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Open,
    /// Those that came before are answered.
    Ending,
    Closed,
}

/// A user of a zone. Those without a name are one.
pub(super) type User = (Zone, Option<Arc<str>>);

/// The user that a call is of.
fn user_of(call: &Call) -> User {
    (call.identity.zone, call.identity.user.clone())
}

impl Waiting {
    /// Whether another call may wait: there is a place, and its user has not all that it gets.
    fn has_room(&self, call: &Call) -> bool {
        let theirs = || self.by_user.get(&user_of(call)).copied().unwrap_or(0);
        !has_share(self.calls.len(), WAITING_MAX, theirs)
    }

    /// Hands the first one over.
    fn take(&mut self) -> Option<Call> {
        let call = self.calls.pop_front()?;
        self.handed += 1;
        let user = user_of(&call);
        if let Some(theirs) = self.by_user.get_mut(&user) {
            *theirs -= 1;
            if *theirs == 0 {
                self.by_user.remove(&user);
            }
        }
        Some(call)
    }
}

impl CallQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knows the procedures from now on.
    pub(super) fn serves(&self, registry: &Arc<Registry>) {
        // It starts once.
        let _ = self.registry.set(Arc::downgrade(registry));
    }

    /// What each procedure is and did, and why the newest version of its file is not in use.
    pub(crate) fn procedures(&self) -> Vec<Figures> {
        let registry = self.registry.get().and_then(Weak::upgrade);
        registry.map_or_else(Vec::new, |registry| registry.figures())
    }

    /// Looks at the folder of procedures now, and says in the log what that changed. Waits for a
    /// look that is under way.
    ///
    /// # Errors
    /// When there is no folder, or it cannot be read; nothing changes then.
    pub(crate) fn look(&self) -> Result<Looked, String> {
        let registry = self.registry.get().and_then(Weak::upgrade);
        let registry = registry.ok_or("the server is stopping")?;
        let folder = registry.folder().ok_or(
            "the server has no folder of procedures; set procedures.folder in its configuration, \
             or start it with --procedures DIR",
        )?;
        let loaded = registry.refresh()?;
        super::report(&loaded);
        Ok(Looked {
            folder: folder.to_owned(),
            loaded,
            figures: registry.figures(),
        })
    }

    /// Takes no more calls, and waits until then for those that it has.
    pub(super) fn drain(&self, end: Instant) {
        let mut waiting = self.lock();
        waiting.stage = waiting.stage.max(Stage::Ending);
        while waiting.handed > 0 || !waiting.calls.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A call that was handed over is answered.
    fn answered(&self) {
        self.lock().handed -= 1;
        self.changed.notify_all();
    }

    /// Takes no more calls; those that wait are forgotten.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.stage = Stage::Closed;
        waiting.calls.clear();
        waiting.by_user.clear();
        drop(waiting);
        self.changed.notify_all();
    }

    /// The next call; `None` when the queue is closed.
    fn next(&self) -> Option<Call> {
        let mut waiting = self.lock();
        loop {
            if waiting.stage == Stage::Closed {
                return None;
            }
            if let Some(call) = waiting.take() {
                return Some(call);
            }
            waiting = self
                .changed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Callees for CallQueue {
    fn call(&self, call: Call) -> Result<(), Box<Call>> {
        let mut waiting = self.lock();
        if waiting.stage != Stage::Open || !waiting.has_room(&call) {
            return Err(Box::new(call));
        }
        *waiting.by_user.entry(user_of(&call)).or_default() += 1;
        waiting.calls.push_back(call);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    fn served(&self, number: u64, served: Served<'_>) -> bool {
        self.requests.served(number, served)
    }

    fn told(&self, number: u64, place: usize, fate: Fate) {
        self.broadcasts.told(number, place, fate);
    }
}

/// Hands calls over until the queue is closed.
pub(super) fn run(context: &Arc<ServerContext>, registry: &Registry) {
    let outlets = Outlets::new(context);
    while let Some(call) = context.call_queue.next() {
        let (to, user) = (call.return_to.clone(), user_of(&call));
        let budget = context.ledger.budget();
        let refusal = context.call_queue.answers.refusal(&user, budget);
        let asked = match refusal.filter(|_| to.is_somewhere()) {
            Some(refusal) => Err(refusal),
            None => asked(context, &outlets, call)
                .map_err(|reason| Answer::failed(Status::BadCall, &reason)),
        };
        let context = Arc::clone(context);
        let then = move |answer: Answer| {
            if to.is_somewhere() {
                let (shard, budget) = (usize::from(to.shard.0), context.ledger.budget());
                let answers = &context.call_queue.answers;
                let reply = answers.send(user, to, &answer, budget);
                context.post(shard, ShardCommand::Answer(reply));
            }
            // After it was posted: what the shard gets next may be to stop.
            context.call_queue.answered();
        };
        match asked {
            Ok(asked) => registry.call(asked, move |answer, line| {
                // Nobody waits for the line; the end of the server waits for what follows it.
                drop(line);
                then(answer);
            }),
            Err(refusal) => then(refusal),
        }
    }
}

/// A call as procedures know it.
fn asked(context: &ServerContext, outlets: &Outlets, call: Call) -> Result<Asked, String> {
    let outlet = outlets.of_call(&call);
    let now = context.clock.now();
    let patience = match call.expires_at {
        Tick::NEVER => PATIENCE,
        expires_at => expires_at.since(now),
    };
    let caller = match &call.identity.user {
        Some(user) => Caller::User {
            zone: context.zone_name(call.identity.zone),
            name: user.as_ref().to_owned(),
        },
        None => Caller::Anonymous(String::new()),
    };
    let pair = |(name, value): (Box<str>, Box<str>)| (name.into_string(), value.into_string());
    let arguments: Vec<_> = call.arguments.into_iter().map(pair).collect();
    let content = if call.payload.is_empty() {
        Content::None
    } else {
        Content::Bytes(call.payload.into_vec())
    };
    let (message, _) = Message::new(content, 0, Format::Message).map_err(|e| e.to_string())?;
    Ok(Asked {
        procedure: call.procedure.into_string(),
        envelope: Envelope::of_arguments(&arguments),
        arguments,
        caller,
        message,
        deadline: Instant::now() + patience,
        can_edit: false,
        is_clients: true,
        outlet,
    })
}

/// The payload of an answer. What is empty is left out, but for the status.
#[derive(Serialize)]
struct Said<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    /// What the operator wants where the call came to no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_code: Option<u16>,
    #[serde(skip_serializing_if = "str::is_empty")]
    enhanced: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
}

pub(crate) fn json(answer: &Answer) -> Vec<u8> {
    let outcome = answer.outcome.as_ref();
    let result = outcome.map_or(&[][..], |outcome| &outcome.result);
    let text = str::from_utf8(result);
    // Nobody is there to change the message: as on the call listeners, it is accepted as it is.
    let verdict = outcome.map(|outcome| match outcome.verdict {
        Verdict::Modified => Verdict::Accept,
        verdict => verdict,
    });
    let said = Said {
        status: answer.status.name(),
        verdict: verdict.map(Verdict::name),
        advice: answer.advice.map(Verdict::name),
        text: answer.text(),
        reply_code: outcome.map(|o| o.reply_code).filter(|code| *code != 0),
        enhanced: outcome.map_or("", |outcome| &outcome.enhanced),
        version: &answer.version,
        result: text.unwrap_or_default(),
        result_base64: text.is_err().then(|| STANDARD.encode(result)),
    };
    // Numbers and text always serialise.
    serde_json::to_vec(&said).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stentor_procedure::Outcome;

    #[test]
    fn an_answer_says_what_there_is_to_say() {
        let text = |answer: &Answer| String::from_utf8(json(answer)).expect("text");
        let accepted = Answer::done(Outcome::of(Verdict::Accept, ""));
        assert_eq!(text(&accepted), r#"{"status":"done","verdict":"accept"}"#);
        let mut outcome = Outcome::of(Verdict::Reject, "too \"large\"");
        outcome.reply_code = 552;
        outcome.enhanced = "5.3.4".into();
        outcome.result = vec![0xFF, 0x00];
        let expected = concat!(
            r#"{"status":"done","verdict":"reject","text":"too \"large\"","reply_code":552,"#,
            r#""enhanced":"5.3.4","result_base64":"/wA="}"#
        );
        assert_eq!(text(&Answer::done(outcome)), expected);
        let missing = Answer::failed(Status::NotFound, "there is no procedure /x");
        let expected = r#"{"status":"not-found","text":"there is no procedure /x"}"#;
        assert_eq!(text(&missing), expected);
        let failed = Answer {
            advice: Some(Verdict::Tempfail),
            ..Answer::failed(Status::Failed, "broken")
        };
        let expected = r#"{"status":"failed","advice":"tempfail","text":"broken"}"#;
        assert_eq!(text(&failed), expected);
        let modified = Answer::done(Outcome::of(Verdict::Modified, ""));
        assert_eq!(text(&modified), r#"{"status":"done","verdict":"accept"}"#);
    }
}
