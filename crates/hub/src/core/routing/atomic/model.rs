//! A model of memory that takes its time, and a search through all that it can do to two shards.
//!
//! In a scenario, each shard is a thread, and at each access to a word one of them goes on: the
//! search tries every order. A write goes into a buffer of its shard, and becomes visible at some
//! later step of the search. The ordering says how much later: a relaxed write may overtake earlier
//! ones to other words, one that releases may not, and one that is sequentially consistent waits
//! until everything before it and itself are visible. Reads take place in the order of the program:
//! the model does not find an ordering of reads that is too weak.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::{self, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{thread, thread_local};

/// The shards of a scenario.
const SHARDS: usize = 2;
/// More executions than any scenario needs: it has a loop that it should not have.
const EXECUTIONS_MAX: usize = 2_000_000;

/// A word that shards share. Outside of a scenario it is an ordinary one.
#[derive(Debug, Default)]
pub(crate) struct AtomicU64(atomic::AtomicU64);

impl AtomicU64 {
    pub(crate) const fn new(value: u64) -> Self {
        Self(atomic::AtomicU64::new(value))
    }

    pub(crate) fn load(&self, ordering: Ordering) -> u64 {
        let word = self.place();
        let read = |memory: &mut Memory, shard| memory.read(shard, word);
        access(word, false, read).unwrap_or_else(|| self.0.load(ordering))
    }

    pub(crate) fn store(&self, value: u64, ordering: Ordering) {
        let word = self.place();
        let write = |memory: &mut Memory, shard| memory.write(shard, word, value, ordering);
        access(word, true, write).unwrap_or_else(|| self.0.store(value, ordering));
    }

    /// As of all changes that read first, nothing of it is buffered.
    pub(crate) fn fetch_add(&self, more: u64, ordering: Ordering) -> u64 {
        let word = self.place();
        let change = |memory: &mut Memory, shard: usize| {
            let before = memory.read(shard, word);
            memory.write(shard, word, before + more, Ordering::SeqCst);
            before
        };
        access(word, true, change).unwrap_or_else(|| self.0.fetch_add(more, ordering))
    }

    /// What a scenario calls this word.
    pub(crate) fn place(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

/// An ordering that is too weak, for some words, as somebody might write it.
pub(crate) type Weakening = Arc<dyn Fn(usize, Ordering) -> Ordering + Send + Sync>;

/// A write that is not visible yet.
#[derive(Clone, Copy, Debug)]
struct Buffered {
    word: usize,
    value: u64,
    /// Whether it comes after all earlier ones.
    is_release: bool,
}

#[derive(Default)]
struct Memory {
    words: BTreeMap<usize, u64>,
    buffers: [Vec<Buffered>; SHARDS],
    weakening: Option<Weakening>,
}

impl Memory {
    fn read(&self, shard: usize, word: usize) -> u64 {
        let own = self.buffers[shard].iter().rev();
        let own = own.filter(|it| it.word == word).map(|it| it.value).next();
        own.unwrap_or_else(|| self.words.get(&word).copied().unwrap_or(0))
    }

    fn write(&mut self, shard: usize, word: usize, value: u64, ordering: Ordering) {
        let ordering = match &self.weakening {
            Some(weaker) => weaker(word, ordering),
            None => ordering,
        };
        let is_release = ordering != Ordering::Relaxed;
        self.buffers[shard].push(Buffered {
            word,
            value,
            is_release,
        });
        if ordering == Ordering::SeqCst {
            while !self.buffers[shard].is_empty() {
                self.show(shard, 0);
            }
        }
    }

    /// Makes a write visible.
    fn show(&mut self, shard: usize, index: usize) {
        let shown = self.buffers[shard].remove(index);
        self.words.insert(shown.word, shown.value);
    }

    /// Whether a write may become visible before those that stand before it.
    fn is_free(&self, shard: usize, index: usize) -> bool {
        let (before, rest) = self.buffers[shard].split_at(index);
        let write = rest[0];
        before.is_empty()
            || !write.is_release && before.iter().all(|other| other.word != write.word)
    }
}

/// What a shard does at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It runs between two accesses, or has been chosen.
    Runs,
    /// It is about to make an access.
    Waits,
    /// It waits until the other shards have ended and everything is visible.
    Last,
    Ended,
}

/// What the search may choose.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Run(usize),
    Show(usize, usize),
}

#[derive(Default)]
struct State {
    memory: Memory,
    doing: Vec<Doing>,
    /// The choices of this execution so far: which one, of how many.
    path: Vec<(usize, usize)>,
    depth: usize,
    /// Words that each shard has used, and whether one has written them.
    used: BTreeMap<usize, (BTreeSet<usize>, bool)>,
    /// Words that shards share, at which the search chooses.
    shared: BTreeSet<usize>,
}

impl State {
    fn choices(&self) -> Vec<Choice> {
        let all_else = |shard| {
            let is_last = |other: &usize| *other == shard || self.doing[*other] == Doing::Ended;
            (0..SHARDS).all(|other| is_last(&other))
                && self.memory.buffers.iter().all(Vec::is_empty)
        };
        let mut choices = Vec::new();
        for shard in 0..SHARDS {
            match self.doing[shard] {
                Doing::Waits => choices.push(Choice::Run(shard)),
                Doing::Last if all_else(shard) => choices.push(Choice::Run(shard)),
                _ => {}
            }
            for index in 0..self.memory.buffers[shard].len() {
                if self.memory.is_free(shard, index) {
                    choices.push(Choice::Show(shard, index));
                }
            }
        }
        choices
    }

    /// Chooses until a shard runs, if none does and one can.
    fn go_on(&mut self) {
        let is_over = self.doing.iter().all(|doing| *doing == Doing::Ended);
        while !is_over && !self.doing.contains(&Doing::Runs) {
            let choices = self.choices();
            if choices.is_empty() {
                return;
            }
            if self.path.len() == self.depth {
                self.path.push((0, choices.len()));
            }
            let (chosen, count) = self.path[self.depth];
            assert_eq!(
                count,
                choices.len(),
                "an execution is not like the last one"
            );
            self.depth += 1;
            match choices[chosen] {
                Choice::Run(shard) => self.doing[shard] = Doing::Runs,
                Choice::Show(shard, index) => self.memory.show(shard, index),
            }
        }
    }

    /// Goes to the next path; false if there is none.
    fn advance(&mut self) -> bool {
        while let Some((chosen, count)) = self.path.pop() {
            if chosen + 1 < count {
                self.path.push((chosen + 1, count));
                return true;
            }
        }
        false
    }
}

#[derive(Default)]
struct Search {
    state: Mutex<State>,
    changed: Condvar,
}

impl Search {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as `doing` until the search chooses this shard.
    fn wait(&self, shard: usize, doing: Doing) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.doing[shard] = doing;
        state.go_on();
        self.changed.notify_all();
        while state.doing[shard] != Doing::Runs {
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn end(&self, shard: usize) {
        let mut state = self.state();
        state.doing[shard] = Doing::Ended;
        state.go_on();
        self.changed.notify_all();
    }
}

thread_local! {
    /// The search that this thread is a part of, and which shard it is.
    static PART: RefCell<Option<(Arc<Search>, usize)>> = const { RefCell::new(None) };
}

fn part() -> Option<(Arc<Search>, usize)> {
    PART.with_borrow(Clone::clone)
}

/// Makes an access in a scenario; `None` outside of one.
fn access<T>(word: usize, is_write: bool, act: impl FnOnce(&mut Memory, usize) -> T) -> Option<T> {
    let (search, shard) = part()?;
    let mut state = search.state();
    let used = state.used.entry(word).or_default();
    used.0.insert(shard);
    used.1 |= is_write;
    if state.shared.contains(&word) {
        drop(state);
        state = search.wait(shard, Doing::Waits);
    }
    Some(act(&mut state.memory, shard))
}

/// Waits until the other shards have ended, and everything that they wrote is visible.
pub(crate) fn wait_for_the_others() {
    if let Some((search, shard)) = part() {
        drop(search.wait(shard, Doing::Last));
    }
}

/// Ends the part of a thread, also by a panic.
struct Ends(Arc<Search>, usize);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

/// Runs a scenario in every order. It gets the number of its shard, and returns what the shard says
/// is wrong. Returns how many executions there were, or the first thing that was wrong.
///
/// Words of the scenario begin with 0 and stay where they are in all executions.
pub(crate) fn search(
    weakening: Option<&Weakening>,
    scenario: impl Fn(usize) -> Result<(), &'static str> + Sync,
) -> Result<usize, &'static str> {
    let search = Arc::new(Search::default());
    let mut executions = 0;
    loop {
        executions += 1;
        assert!(executions < EXECUTIONS_MAX, "a scenario without an end");
        {
            let mut state = search.state();
            state.memory = Memory {
                weakening: weakening.cloned(),
                ..Memory::default()
            };
            state.doing = alloc::vec![Doing::Runs; SHARDS];
            state.depth = 0;
        }
        let run = |shard| {
            PART.set(Some((Arc::clone(&search), shard)));
            let _ends = Ends(Arc::clone(&search), shard);
            drop(search.wait(shard, Doing::Waits));
            scenario(shard)
        };
        let results = thread::scope(|scope| {
            let run = &run;
            let threads = [0, 1].map(|shard| scope.spawn(move || run(shard)));
            threads.map(|thread| thread.join().unwrap_or(Err("a shard panicked")))
        });
        results.into_iter().collect::<Result<(), _>>()?;
        let mut state = search.state();
        let used = state.used.iter();
        let shared = used.filter(|(_, (shards, is_written))| *is_written && shards.len() > 1);
        let shared: BTreeSet<usize> = shared.map(|(word, _)| *word).collect();
        if shared != state.shared {
            // The search has to choose at these too: it begins again.
            state.shared = shared;
            state.path.clear();
        } else if !state.advance() {
            return Ok(executions);
        }
    }
}
