//! The thread of an adaptor: one run after the other, waits aside, the file looked at.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use mlua::Thread;
use tracing::{info, warn};

use super::http::Request;
use super::interface::Used;
use super::machine::{Machine, Resumed, Step, Wait, until};
use super::trial::{Patience, Stamp, begin};
use super::{Action, Asked, Common, Event, Host, OnError, Options, Refused, Start, Verdict};
use crate::luau::Trouble;

/// How often the file is looked at: one `stat`.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Hooks that may wait at a time.
const ASIDE_MAX: usize = 1_000;
/// Threads that wait for an HTTP answer, some of them perhaps for nobody any more. Other requests
/// wait for one of them.
const HTTP_MAX: usize = 64;
/// Failures are logged once in this time, with their number.
const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// What reaches the thread.
pub(super) enum Input {
    Event(Event, Option<Asked>),
    Answered(u64, Vec<u8>),
    Http(u64, Result<(u16, Vec<u8>), String>),
    Look(Start, Sender<Result<bool, String>>),
    /// Other options, the receiver of their check's result, and the sender of the word to use them.
    Change(Box<Options>, Sender<Result<bool, String>>, Receiver<()>),
    Stop,
}

/// A hook that waits. It goes on in the version in which it began.
struct Aside {
    machine: Arc<Machine>,
    thread: Thread,
    used: Used,
    entry: Entry,
}

pub(super) struct Worker {
    options: Options,
    host: Arc<dyn Host>,
    machine: Arc<Machine>,
    /// Of the version that runs, and of the one that was looked at last.
    running: Option<Stamp>,
    seen: Option<Stamp>,
    common: Arc<Common>,
    /// Threads that wait for an HTTP answer.
    https: Arc<AtomicUsize>,
    /// Requests that wait for one of them, the oldest first. No more than there are hooks aside.
    requests: VecDeque<(u64, Request)>,
    /// For the threads of HTTP requests.
    inputs: Sender<Input>,
    aside: HashMap<u64, Aside>,
    /// News that begins when fewer hooks wait, in its order.
    news: VecDeque<Event>,
    number: u64,
    next_timer: Option<Instant>,
    failures: Failures,
}

/// Failures that are not told yet.
#[derive(Default)]
struct Failures {
    told: Option<Instant>,
    untold: u64,
    /// How often a machine was full and another one began.
    begun_anew: u64,
    last: Option<Failure>,
}

/// What a run came to that failed.
struct Failure {
    hook: &'static str,
    zone: Arc<str>,
    reason: String,
}

impl Worker {
    pub(super) fn start(
        options: Options,
        host: Arc<dyn Host>,
        common: Arc<Common>,
        inputs: Sender<Input>,
    ) -> Result<Self, String> {
        let stamp = Stamp::of(&options);
        let machine = Machine::load(&options, &common.counters)?;
        let mut worker = Self {
            next_timer: None,
            // Numbers of different adaptors are apart.
            number: u64::from(options.id) << 48,
            machine: Arc::new(machine),
            options,
            host,
            running: stamp.clone(),
            seen: stamp,
            common,
            https: Arc::default(),
            requests: VecDeque::new(),
            inputs,
            aside: HashMap::new(),
            news: VecDeque::new(),
            failures: Failures::default(),
        };
        worker.announce();
        Ok(worker)
    }

    /// Runs until it receives [`Input::Stop`].
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
                self.begin_news();
                self.note_forgotten();
                self.machine.flush_log();
                self.tell_failures(now);
                if let Err(reason) = self.look() {
                    warn!("the adaptor's new version is not taken, the old one goes on: {reason}");
                }
            }
        }
        // Those who wait are answered as what they wait for is dropped.
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Event(event, None) => self.news.push_back(event),
            Input::Event(event, asked) => {
                self.common.questions.leave(&event);
                self.begin(&event, asked);
            }
            Input::Answered(number, json) => self.resume(number, &Resumed::Json(json)),
            Input::Http(number, reply) => {
                self.resume(number, &Resumed::Http(reply));
                self.send_requests();
            }
            // Nobody may wait any more for these.
            Input::Look(start, answer) => drop(answer.send(self.look_now(start))),
            Input::Change(options, answer, decided) => self.change(*options, &answer, &decided),
            Input::Stop => {}
        }
        self.begin_news();
    }

    /// Begins what nobody waits for, as far as its hooks may wait: nothing of it is lost because
    /// much happens at once. At a start there may be thousands of permanent rooms.
    fn begin_news(&mut self) {
        while self.aside.len() < ASIDE_MAX
            && let Some(event) = self.news.pop_front()
        {
            self.common.news.leave(&event);
            self.begin(&event, None);
        }
    }

    fn begin(&mut self, event: &Event, asked: Option<Asked>) {
        self.common.counters.runs.fetch_add(1, Ordering::Relaxed);
        let machine = Arc::clone(&self.machine);
        let entry = Entry {
            hook: event.hook,
            zone: Arc::clone(&event.zone),
            asked,
            end: until(self.options.deadline),
        };
        match machine.begin(event) {
            Ok(None) => entry.answer(Verdict::Allow(super::Allowed::default())),
            Ok(Some(step)) => self.follow(machine, step, entry),
            Err(trouble) => self.fail(&machine, entry, &trouble),
        }
    }

    fn resume(&mut self, number: u64, with: &Resumed) {
        // It may have been given up.
        let Some(aside) = self.aside.remove(&number) else {
            return;
        };
        let Aside {
            machine,
            thread,
            used,
            entry,
        } = aside;
        match machine.resume(entry.hook, &thread, used, with) {
            Ok(step) => self.follow(machine, step, entry),
            Err(trouble) => self.fail(&machine, entry, &trouble),
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
        if self.aside.len() >= ASIDE_MAX {
            let trouble = Trouble::Mistake("too many of its hooks wait".to_owned());
            let verdict = self.options.on_error.busy();
            return self.fail_with(&machine, entry, &trouble, verdict);
        }
        self.number += 1;
        let number = self.number;
        let zone = Arc::clone(&entry.zone);
        let used = machine.used();
        let aside = Aside {
            machine,
            thread,
            used,
            entry,
        };
        self.aside.insert(number, aside);
        self.wait(number, wait, &zone);
    }

    fn wait(&mut self, number: u64, wait: Wait, zone: &str) {
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
            Wait::Http(request) => {
                self.requests.push_back((number, request));
                self.send_requests();
            }
        }
    }

    /// Sends as many requests as may be under way.
    fn send_requests(&mut self) {
        while self.https.load(Ordering::Relaxed) < HTTP_MAX
            && let Some((number, request)) = self.requests.pop_front()
        {
            // Its hook may have been given up.
            if let Some(aside) = self.aside.get(&number) {
                let end = aside.entry.end;
                self.request(number, request, end);
            }
        }
    }

    /// Sends a request from a thread of its own.
    fn request(&mut self, number: u64, request: Request, end: Instant) {
        let (inputs, https) = (self.inputs.clone(), Arc::clone(&self.https));
        https.fetch_add(1, Ordering::Relaxed);
        let trust = self.options.trust.clone();
        let run = move || {
            let reply = request
                .send(&trust, end)
                .map(|reply| (reply.status, reply.body));
            https.fetch_sub(1, Ordering::Relaxed);
            // Nobody waits when the adaptor has ended.
            let _ = inputs.send(Input::Http(number, reply));
        };
        let thread = std::thread::Builder::new().name("adaptor-http".into());
        if let Err(error) = thread.spawn(run) {
            self.https.fetch_sub(1, Ordering::Relaxed);
            self.resume(number, &Resumed::Http(Err(error.to_string())));
        }
    }

    /// Gives up hooks that wait for too long.
    fn end_overdue(&mut self, now: Instant) {
        let is_over = |aside: &Aside| aside.entry.end + TELL_INTERVAL < now;
        let over: Vec<u64> = self
            .aside
            .iter()
            .filter(|(_, aside)| is_over(aside))
            .map(|(number, _)| *number)
            .collect();
        for number in over {
            if let Some(aside) = self.aside.remove(&number) {
                let reason = "the hook waited beyond its deadline".to_owned();
                self.fail(&aside.machine, aside.entry, &Trouble::Mistake(reason));
            }
        }
        let aside = &self.aside;
        self.requests
            .retain(|(number, _)| aside.contains_key(number));
    }

    fn fail(&mut self, machine: &Arc<Machine>, entry: Entry, trouble: &Trouble) {
        let verdict = self.options.on_error.verdict("the zone's adaptor failed");
        self.fail_with(machine, entry, trouble, verdict);
    }

    fn fail_with(
        &mut self,
        machine: &Arc<Machine>,
        entry: Entry,
        trouble: &Trouble,
        verdict: Verdict,
    ) {
        // What a failed run has done is not done.
        machine.take();
        self.common
            .counters
            .failures
            .fetch_add(1, Ordering::Relaxed);
        self.failures.untold += 1;
        self.failures.last = Some(Failure {
            hook: entry.hook,
            zone: Arc::clone(&entry.zone),
            reason: trouble.told(&self.options.source.label()),
        });
        entry.answer(verdict);
        if *trouble == Trouble::Memory && Arc::ptr_eq(machine, &self.machine) && machine.is_spent()
        {
            self.begin_anew();
        }
        self.tell_failures(Instant::now());
    }

    /// News that was forgotten failed.
    fn note_forgotten(&mut self) {
        let forgotten = self.common.forgotten.swap(0, Ordering::Relaxed);
        if forgotten == 0 {
            return;
        }
        let counters = &self.common.counters;
        counters.failures.fetch_add(forgotten, Ordering::Relaxed);
        self.failures.untold += forgotten;
        self.failures.last = Some(Failure {
            hook: "any",
            zone: Arc::clone(&self.options.zone),
            reason: format!("{forgotten} events were forgotten, because 64 MiB of them wait"),
        });
    }

    /// Tells the last of the failures that are not told, and their number, unless others have been
    /// told just now.
    fn tell_failures(&mut self, now: Instant) {
        let failures = &mut self.failures;
        if failures.told.is_some_and(|told| now < told + TELL_INTERVAL) {
            return;
        }
        let Some(last) = failures.last.take() else {
            return;
        };
        warn!(
            adaptor = self.options.source.label(),
            hook = last.hook,
            zone = &*last.zone,
            failures = failures.untold,
            begun_anew = (failures.begun_anew > 0).then_some(failures.begun_anew),
            "the adaptor failed: {}",
            last.reason
        );
        failures.told = Some(now);
        failures.untold = 0;
        failures.begun_anew = 0;
    }

    /// A machine that is full is replaced by one of the same version, whatever is on disk by now;
    /// what the script kept is lost.
    fn begin_anew(&mut self) {
        match self.machine.anew(&self.options, &self.common.counters) {
            Ok(machine) => {
                self.failures.begun_anew += 1;
                self.machine = Arc::new(machine);
                self.announce();
            }
            // Its text or its test failed this time. The reason goes with that of the failure.
            Err(why) => {
                if let Some(last) = &mut self.failures.last {
                    last.reason += &format!("; it cannot start again: {why}");
                }
            }
        }
    }

    /// Goes on with the version that is on disk.
    fn replace(&mut self, machine: Machine) {
        self.machine = Arc::new(machine);
        *self.common.refused() = None;
        self.announce();
    }

    /// Has others know what the machine that runs now wants.
    fn announce(&mut self) {
        let interval = self.machine.interval.filter(|_| self.options.has_timer);
        self.next_timer = interval.map(until);
        let common = &self.common;
        common.hooks.store(self.machine.bits(), Ordering::Relaxed);
        let denies = self.options.on_error == OnError::Deny;
        common.denies.store(denies, Ordering::Relaxed);
    }

    /// Takes a new version of the file over, if there is one that was not refused before.
    fn look(&mut self) -> Result<bool, String> {
        let stamp = Stamp::of(&self.options);
        if stamp == self.seen {
            return Ok(false);
        }
        self.take_over(stamp, Start::CarryOver, Patience::ComesAgain)
    }

    /// The same because somebody wants it: also one that was refused before.
    fn look_now(&mut self, start: Start) -> Result<bool, String> {
        let stamp = Stamp::of(&self.options);
        if stamp == self.running && start == Start::CarryOver {
            // A newer one that was refused is not there any more.
            *self.common.refused() = None;
            return Ok(false);
        }
        self.take_over(stamp, start, Patience::Waits)
    }

    fn take_over(
        &mut self,
        stamp: Option<Stamp>,
        start: Start,
        patience: Patience,
    ) -> Result<bool, String> {
        let is_known = stamp == self.seen;
        let taken = self.try_version(stamp, start, patience);
        if let Err(reason) = &taken {
            let mut refused = self.common.refused();
            let before = refused.take().filter(|_| is_known);
            *refused = Some(Refused {
                since: before.map_or_else(SystemTime::now, |before| before.since),
                reason: reason.clone(),
            });
        }
        taken
    }

    fn try_version(
        &mut self,
        stamp: Option<Stamp>,
        start: Start,
        patience: Patience,
    ) -> Result<bool, String> {
        let trial = self.options.trials.of(&self.options);
        let Some(mut failed) = begin(&trial, patience) else {
            // Another zone tries it; this one looks again.
            return Ok(false);
        };
        self.seen.clone_from(&stamp);
        if let Some((_, reason)) = failed.as_ref().filter(|(tried, _)| *tried == stamp) {
            return Err(reason.clone());
        }
        let loaded = Machine::load(&self.options, &self.common.counters);
        let new = loaded.inspect_err(|reason| *failed = Some((stamp.clone(), reason.clone())))?;
        drop(failed);
        if start == Start::CarryOver {
            self.carry_over(&new)?;
        }
        self.running = stamp;
        self.replace(new);
        info!(
            "the adaptor {} has a new version",
            self.options.source.label()
        );
        Ok(true)
    }

    /// Gives a new machine what the present one has kept.
    fn carry_over(&self, new: &Machine) -> Result<(), String> {
        // The way out, since the running version cannot be corrected any more.
        let told = |whose: &str, reason: String| {
            let file = self.options.source.label();
            format!(
                "{whose} {reason}; `stentor adaptor reload {file} --fresh` takes the new version \
                 without what the running one has kept"
            )
        };
        let saved = self.machine.save();
        match saved.map_err(|reason| told("the running version's", reason))? {
            Some(saved) => {
                let restored = new.restore(&saved);
                restored.map_err(|reason| told("the new version's", reason))
            }
            None => Ok(()),
        }
    }

    /// Goes on with other options, if they are good and whoever has them wants that still.
    fn change(
        &mut self,
        options: Options,
        answer: &Sender<Result<bool, String>>,
        decided: &Receiver<()>,
    ) {
        let options = Options {
            id: self.options.id,
            zone: Arc::clone(&self.options.zone),
            has_timer: self.options.has_timer,
            ..options
        };
        let stamp = Stamp::of(&options);
        let loaded = Machine::load(&options, &self.common.counters);
        let carried = loaded.and_then(|new| self.carry_over(&new).map(|()| new));
        let told = carried.as_ref().map(|_| true).map_err(String::clone);
        // It runs nothing in the meantime, or what it keeps by then would be lost.
        let counts = answer.send(told).is_ok() && decided.recv().is_ok();
        if let (Ok(new), true) = (carried, counts) {
            self.running.clone_from(&stamp);
            self.seen = stamp;
            self.options = options;
            self.replace(new);
        }
    }
}

/// A hook that is being run.
struct Entry {
    hook: &'static str,
    zone: Arc<str>,
    asked: Option<Asked>,
    end: Instant,
}

impl Entry {
    fn answer(self, verdict: Verdict) {
        if let Some(asked) = self.asked {
            asked.give(verdict);
        }
    }
}
