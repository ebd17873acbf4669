//! The verbs `log.level`, `log.show` and `log.tail`.

use std::time::Duration;

use stentor_control::log::{Level, Lines, LogLevel, Now, Tail};
use tracing::info;

use super::protocol::Failure;
use super::{Admin, lock};
use crate::config::Level as Least;
use crate::log::{Logger, Passing};

/// For how long another level holds if nothing is said, and at most.
const SECS: u64 = 600;
const SECS_MAX: u64 = 3_600;

/// The longest name of a part of the program.
const TARGET_BYTES_MAX: usize = 100;

/// Takes another level for a while, or goes back to that of the configuration.
pub(super) fn level(admin: &Admin, request: &Level) -> Result<Now, Failure> {
    let logger = logger(admin)?;
    let secs = request.for_secs.unwrap_or(SECS);
    if secs == 0 || secs > SECS_MAX {
        let message = format!(
            "for_secs = {secs}: another log level holds for 1 second to {SECS_MAX} seconds, so that \
             nobody forgets it; change log.level in the configuration for longer"
        );
        return Err(Failure::new("bad-request", message).about("for_secs"));
    }
    let target = request.target.clone();
    if let Some(target) = target.as_deref().filter(|target| !is_target(target)) {
        let message = format!(
            "target = {target:?}: a part of the program is named like stentor_auth or \
             stentor_server::http, in up to {TARGET_BYTES_MAX} letters, digits, underscores and \
             colons"
        );
        return Err(Failure::new("bad-request", message).about("target"));
    }
    let passing = request.level.map(|level| {
        let time = Duration::from_secs(secs);
        Passing::new(least(level), target, time)
    });
    let told = passing.is_some();
    logger.pass(passing).map_err(|error| {
        let message = format!("the system gives no thread to end it: {error}; try again");
        Failure::new("unavailable", message)
    })?;
    let now = now(&logger);
    if told {
        info!(
            level = now.level,
            target = now.target.as_deref().unwrap_or_default(),
            secs,
            "the log has another level for a while"
        );
    }
    Ok(now)
}

/// The last lines of the log.
pub(super) fn tail(request: Tail) -> Lines {
    Lines {
        lines: Logger::tail(request.lines.unwrap_or(usize::MAX)),
    }
}

/// The level that holds now.
pub(super) fn show(admin: &Admin) -> Result<Now, Failure> {
    logger(admin).map(|logger| now(&logger))
}

fn logger(admin: &Admin) -> Result<Logger, Failure> {
    let logger = lock(&admin.notes).logger.clone();
    logger.ok_or_else(|| Failure::new("unavailable", "the server is starting; try again"))
}

fn now(logger: &Logger) -> Now {
    let (configured, passing) = logger.level();
    let of_all = passing.as_ref().filter(|it| it.target.is_none());
    let level = of_all.map_or(configured, |it| it.level);
    Now {
        configured: configured.name().to_owned(),
        level: level.name().to_owned(),
        target: passing.as_ref().and_then(|it| it.target.clone()),
        target_level: passing
            .as_ref()
            .filter(|it| it.target.is_some())
            .map(|it| it.level.name().to_owned()),
        left_secs: passing.map(|it| it.left().as_millis().div_ceil(1_000) as u64),
    }
}

fn is_target(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    (1..=TARGET_BYTES_MAX).contains(&text.len()) && text.chars().all(is_part)
}

const fn least(level: LogLevel) -> Least {
    match level {
        LogLevel::Error => Least::Error,
        LogLevel::Warn => Least::Warn,
        LogLevel::Info => Least::Info,
        LogLevel::Debug => Least::Debug,
        LogLevel::Trace => Least::Trace,
    }
}
