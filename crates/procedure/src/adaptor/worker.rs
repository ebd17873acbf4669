//! The thread of an adaptor: one run after the other, waits aside, the file looked at.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use mlua::Thread;
use tracing::{info, warn};

use super::machine::{Machine, Resumed, Step, Wait, label, until};
use super::{Action, Answer, Event, Host, Options, Verdict};
use crate::luau::Trouble;

/// How often the file is looked at: one `stat`.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Hooks that may wait at a time, and of those, for an HTTP answer: each has a thread.
const ASIDE_MAX: usize = 1_000;
const HTTP_MAX: usize = 64;
/// Failures are told once in this time, with their number.
const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// What reaches the thread.
pub(super) enum Input {
    Event(Event, Option<Answer>),
    Answered(u64, Vec<u8>),
    Http(u64, Result<(u16, Vec<u8>), String>),
    Look(Sender<Result<bool, String>>),
    Stop,
}

/// What tells one version of the file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Option<SystemTime>, u64, u64);

/// A hook that waits. It goes on in the version in which it began.
struct Aside {
    machine: Arc<Machine>,
    thread: Thread,
    hook: &'static str,
    zone: Arc<str>,
    answer: Option<Answer>,
    end: Instant,
    waits_for_http: bool,
}

pub(super) struct Worker {
    options: Options,
    host: Arc<dyn Host>,
    machine: Arc<Machine>,
    stamp: Option<Stamp>,
    hooks: Arc<AtomicU16>,
    waiting: Arc<AtomicUsize>,
    /// For the threads of HTTP requests.
    inputs: Sender<Input>,
    aside: HashMap<u64, Aside>,
    number: u64,
    next_timer: Option<Instant>,
    failures: Failures,
}

/// Failures that are not told yet.
#[derive(Default)]
struct Failures {
    told: Option<Instant>,
    untold: u64,
}

impl Worker {
    pub(super) fn start(
        options: Options,
        host: Arc<dyn Host>,
        (hooks, waiting): (Arc<AtomicU16>, Arc<AtomicUsize>),
        inputs: Sender<Input>,
    ) -> Result<Self, String> {
        let stamp = stamp(&options);
        let machine = Machine::load(&options)?;
        hooks.store(machine.bits(), Ordering::Relaxed);
        Ok(Self {
            next_timer: machine.interval.filter(|_| options.has_timer).map(until),
            // Numbers of different adaptors are apart.
            number: u64::from(options.id) << 48,
            machine: Arc::new(machine),
            options,
            host,
            stamp,
            hooks,
            waiting,
            inputs,
            aside: HashMap::new(),
            failures: Failures::default(),
        })
    }

    /// Until it is told to stop.
    pub(super) fn run(mut self, inputs: &Receiver<Input>) {
        let mut next_look = until(LOOK_INTERVAL);
        loop {
            let now = Instant::now();
            let next = self
                .next_timer
                .map_or(next_look, |timer| timer.min(next_look));
            match inputs.recv_timeout(next.saturating_duration_since(now)) {
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if self.next_timer.is_some_and(|at| at <= now) {
                self.next_timer = self.machine.interval.map(until);
                let event = Event {
                    hook: "timer",
                    zone: Arc::clone(&self.options.zone),
                    fields: Vec::new(),
                };
                self.begin(&event, None);
            }
            if next_look <= now {
                next_look = now + LOOK_INTERVAL;
                self.end_overdue(now);
                if let Err(reason) = self.look() {
                    warn!("the adaptor's new version is not taken, the old one goes on: {reason}");
                }
            }
        }
        for (_, aside) in self.aside.drain() {
            if let Some(answer) = aside.answer {
                answer(self.options.on_error.verdict("the adaptor ends"));
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Event(event, answer) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                self.begin(&event, answer);
            }
            Input::Answered(number, json) => self.resume(number, &Resumed::Json(json)),
            Input::Http(number, reply) => self.resume(number, &Resumed::Http(reply)),
            Input::Look(answer) => {
                // Nobody may wait any more.
                let _ = answer.send(self.look());
            }
            Input::Stop => {}
        }
    }

    fn begin(&mut self, event: &Event, answer: Option<Answer>) {
        let machine = Arc::clone(&self.machine);
        let aside = Entry {
            hook: event.hook,
            zone: Arc::clone(&event.zone),
            answer,
            end: until(self.options.deadline),
        };
        match machine.begin(event) {
            Ok(None) => aside.answer(Verdict::Allow(super::Allowed::default())),
            Ok(Some(step)) => self.follow(machine, step, aside),
            Err(trouble) => self.fail(&machine, aside, &trouble),
        }
    }

    fn resume(&mut self, number: u64, with: &Resumed) {
        // It may have been given up.
        let Some(aside) = self.aside.remove(&number) else {
            return;
        };
        let entry = Entry {
            hook: aside.hook,
            zone: aside.zone,
            answer: aside.answer,
            end: aside.end,
        };
        match aside.machine.resume(&aside.thread, with) {
            Ok(step) => self.follow(aside.machine, step, entry),
            Err(trouble) => self.fail(&aside.machine, entry, &trouble),
        }
    }

    /// Does what a run has done, then answers or puts aside.
    fn follow(&mut self, machine: Arc<Machine>, step: Step, entry: Entry) {
        for action in machine.take() {
            self.host.act(&entry.zone, action);
        }
        let (thread, wait) = match step {
            Step::Done(verdict) => return entry.answer(verdict),
            Step::Waits(thread, wait) => (thread, wait),
        };
        let is_http = matches!(wait, Wait::Http(_));
        let busy = self
            .aside
            .values()
            .filter(|aside| aside.waits_for_http)
            .count();
        if self.aside.len() >= ASIDE_MAX || is_http && busy >= HTTP_MAX {
            let trouble = Trouble::Mistake("too many of its hooks wait".to_owned());
            return self.fail(&machine, entry, &trouble);
        }
        self.number += 1;
        let number = self.number;
        let zone = Arc::clone(&entry.zone);
        let end = entry.end;
        let aside = Aside {
            machine,
            thread,
            hook: entry.hook,
            zone: entry.zone,
            answer: entry.answer,
            end,
            waits_for_http: is_http,
        };
        self.aside.insert(number, aside);
        self.wait(number, wait, &zone, end);
    }

    fn wait(&mut self, number: u64, wait: Wait, zone: &str, end: Instant) {
        match wait {
            Wait::Command(procedure, payload) => self.host.act(
                zone,
                Action::Command {
                    procedure,
                    payload,
                    number,
                },
            ),
            Wait::Call(procedure, arguments, payload) => self.host.act(
                zone,
                Action::Call {
                    procedure,
                    arguments,
                    payload,
                    number,
                },
            ),
            Wait::Http(Err(reason)) => self.resume(number, &Resumed::Http(Err(reason))),
            Wait::Http(Ok(request)) => {
                let inputs = self.inputs.clone();
                let run = move || {
                    let reply = request.send(end).map(|reply| (reply.status, reply.body));
                    // Nobody waits when the adaptor has ended.
                    let _ = inputs.send(Input::Http(number, reply));
                };
                let spawned = std::thread::Builder::new()
                    .name("adaptor-http".into())
                    .spawn(run);
                if let Err(error) = spawned {
                    self.resume(number, &Resumed::Http(Err(error.to_string())));
                }
            }
        }
    }

    /// Gives up hooks that wait for too long.
    fn end_overdue(&mut self, now: Instant) {
        let is_over = |aside: &Aside| aside.end + TELL_INTERVAL < now;
        let over: Vec<u64> = self
            .aside
            .iter()
            .filter(|(_, aside)| is_over(aside))
            .map(|(number, _)| *number)
            .collect();
        for number in over {
            if let Some(aside) = self.aside.remove(&number) {
                let entry = Entry {
                    hook: aside.hook,
                    zone: aside.zone,
                    answer: aside.answer,
                    end: aside.end,
                };
                self.fail(&aside.machine, entry, &Trouble::Time);
            }
        }
    }

    fn fail(&mut self, machine: &Arc<Machine>, entry: Entry, trouble: &Trouble) {
        // What a failed run has done is not done.
        machine.take();
        self.failures.untold += 1;
        let now = Instant::now();
        if self
            .failures
            .told
            .is_none_or(|told| told + TELL_INTERVAL <= now)
        {
            warn!(
                adaptor = label(&self.options.path),
                hook = entry.hook,
                zone = &*entry.zone,
                failures = self.failures.untold,
                "the adaptor failed: {trouble}"
            );
            self.failures.told = Some(now);
            self.failures.untold = 0;
        }
        entry.answer(self.options.on_error.verdict("the zone's adaptor failed"));
        if *trouble == Trouble::Memory && Arc::ptr_eq(machine, &self.machine) && machine.is_spent()
        {
            self.begin_anew();
        }
    }

    /// A machine that is full is replaced; what the script kept is lost.
    fn begin_anew(&mut self) {
        match Machine::load(&self.options) {
            Ok(machine) => {
                warn!("the adaptor {} begins anew", label(&self.options.path));
                self.replace(machine);
            }
            Err(reason) => warn!("the adaptor cannot begin anew: {reason}"),
        }
    }

    fn replace(&mut self, machine: Machine) {
        let interval = machine.interval.filter(|_| self.options.has_timer);
        self.next_timer = interval.map(until);
        self.hooks.store(machine.bits(), Ordering::Relaxed);
        self.machine = Arc::new(machine);
    }

    /// Takes a new version of the file over, if there is one.
    fn look(&mut self) -> Result<bool, String> {
        let stamp = stamp(&self.options);
        if stamp == self.stamp {
            return Ok(false);
        }
        // One that is refused is not tried again until it changes.
        self.stamp = stamp;
        let new = Machine::load(&self.options)?;
        if let Some(saved) = self.machine.save()? {
            new.restore(&saved)?;
        }
        new.take();
        self.replace(new);
        info!(
            "the adaptor {} has a new version",
            label(&self.options.path)
        );
        Ok(true)
    }
}

/// A hook that is being run.
struct Entry {
    hook: &'static str,
    zone: Arc<str>,
    answer: Option<Answer>,
    end: Instant,
}

impl Entry {
    fn answer(self, verdict: Verdict) {
        if let Some(answer) = self.answer {
            answer(verdict);
        }
    }
}

fn stamp(options: &Options) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(&options.path).ok()?;
    Some(Stamp(
        metadata.modified().ok(),
        metadata.len(),
        metadata.ino(),
    ))
}
