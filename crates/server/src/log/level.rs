//! How much the log takes: what the configuration says, or something else for a while.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::info;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::{Registry, reload};

use crate::config::Level;

/// The levels of an installed log.
#[derive(Debug, Clone)]
pub(super) struct Levels(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    handle: reload::Handle<Targets, Registry>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    configured: Level,
    passing: Option<Passing>,
    /// Whether a thread waits for the end of what passes.
    is_awaited: bool,
}

/// A level that holds for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passing {
    pub(crate) level: Level,
    /// Only for the lines of this part of the program.
    pub(crate) target: Option<String>,
    until: Instant,
}

impl Passing {
    pub(crate) fn new(level: Level, target: Option<String>, time: Duration) -> Self {
        Self {
            level,
            target,
            until: Instant::now() + time,
        }
    }

    /// For how long it still holds.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl State {
    fn filter(&self) -> Targets {
        let configured = Targets::new().with_default(filter(self.configured));
        match &self.passing {
            None => configured,
            Some(Passing {
                level,
                target: None,
                ..
            }) => Targets::new().with_default(filter(*level)),
            Some(Passing {
                level,
                target: Some(target),
                ..
            }) => configured.with_target(target.as_str(), filter(*level)),
        }
    }
}

pub(super) const fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    }
}

impl Levels {
    /// The filter of a new log, and what changes it.
    pub(super) fn new(configured: Level) -> (reload::Layer<Targets, Registry>, Self) {
        let state = State {
            configured,
            passing: None,
            is_awaited: false,
        };
        let (layer, handle) = reload::Layer::new(state.filter());
        let shared = Shared {
            handle,
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        (layer, Self(Arc::new(shared)))
    }

    /// Takes the level of a configuration. What holds for a while stays until its end.
    pub(super) fn configure(&self, level: Level) {
        let mut state = self.0.lock();
        state.configured = level;
        self.0.apply(&state);
    }

    /// What the configuration says, and what holds instead.
    pub(super) fn now(&self) -> (Level, Option<Passing>) {
        let state = self.0.lock();
        let passing = state.passing.clone();
        (state.configured, passing.filter(|it| !it.left().is_zero()))
    }

    /// Takes another level for a while, instead of the one that holds for a while now; or that of
    /// the configuration at once.
    ///
    /// # Errors
    /// When the system gives no thread: then nothing is changed.
    pub(super) fn pass(&self, passing: Option<Passing>) -> io::Result<()> {
        let mut state = self.0.lock();
        if passing.is_some() && !state.is_awaited {
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("log-level".into());
            thread.spawn(move || shared.await_end())?;
            state.is_awaited = true;
        }
        state.passing = passing;
        self.0.apply(&state);
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl Shared {
    /// Nothing is left half changed by whoever holds it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, state: &State) {
        // This fails only when the log is gone, and then there is nobody to tell.
        let _ = self.handle.reload(state.filter());
    }

    /// Goes back to the configuration when it is time.
    fn await_end(&self) {
        let mut state = self.lock();
        while let Some(left) = state.passing.as_ref().map(Passing::left) {
            if left.is_zero() {
                state.passing = None;
                self.apply(&state);
                break;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_awaited = false;
        drop(state);
        info!("the log level is that of the configuration again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(levels: &Levels) -> String {
        levels.0.lock().filter().to_string()
    }

    #[test]
    fn a_level_passes_and_the_configuration_holds_again() {
        let (_layer, levels) = Levels::new(Level::Info);
        assert_eq!((shown(&levels), levels.now().1), ("info".into(), None));
        let hour = Duration::from_secs(3_600);
        let passing = Passing::new(Level::Debug, None, hour);
        levels.pass(Some(passing)).unwrap();
        levels.configure(Level::Warn);
        assert_eq!(shown(&levels), "debug", "a reload does not end it");
        let passing = Passing::new(Level::Trace, Some("stentor_auth".into()), hour);
        levels.pass(Some(passing)).unwrap();
        let both = shown(&levels);
        assert!(
            both.contains("warn") && both.contains("stentor_auth=trace"),
            "{both}"
        );
        levels.pass(None).unwrap();
        assert_eq!(
            (shown(&levels), levels.now()),
            ("warn".into(), (Level::Warn, None))
        );
        let short = Passing::new(Level::Debug, None, Duration::from_millis(5));
        levels.pass(Some(short)).unwrap();
        while levels.0.lock().passing.is_some() {
            std::thread::yield_now();
        }
        assert_eq!(shown(&levels), "warn", "it has gone back by itself");
    }
}
