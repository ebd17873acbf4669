//! The log: lines on standard error, for people or for programs, and the means to write a line
//! that repeats only so often.
//!
//! Shards do not write; they hand events to the log thread, which uses `tracing` like every other
//! thread of the control plane. Nothing is logged per message.

mod level;
mod limit;
mod lines;

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::{Format, Level, Log};

use level::Levels;
use lines::{LINES, Lined};

pub(crate) use level::Passing;

pub use limit::{Admission, FirstTimes, RateLimit};

/// The installed log, whose level a reload changes.
#[derive(Debug, Clone)]
pub struct Logger {
    levels: Levels,
}

impl Logger {
    /// Installs the log for the whole process.
    ///
    /// # Errors
    /// When the process has one already.
    pub fn install(config: &Log) -> Result<Self, String> {
        let journal = is_journal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let style = Style::choose(config.format, io::stderr().is_terminal(), no_color, journal);
        let (level, levels) = Levels::new(config.level);
        let ours = filter_fn(is_ours);
        let out = Lined {
            has_priority: journal && !io::stderr().is_terminal(),
        };
        let lines = style.layer(out).with_filter(level.and(ours));
        let installed = Registry::default().with(lines).try_init();
        installed.map_err(|error| error.to_string())?;
        Ok(Self { levels })
    }

    /// Starts the thread that writes lines from now on, so that no other waits for whoever reads
    /// them. The thread takes over the caller's signal mask.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(&self) -> io::Result<()> {
        LINES.hand_over();
        let thread = std::thread::Builder::new().name("log".into());
        thread.spawn(|| LINES.write_to(io::stderr())).map(drop)
    }

    /// Waits until all lines are written, at most `time`: the last thing before the end.
    pub fn settle(&self, time: Duration) {
        LINES.settle(time);
    }

    /// Changes the least important lines that are written, at once.
    pub fn set_level(&self, level: Level) {
        self.levels.configure(level);
    }

    /// The last lines, at most this many.
    pub(crate) fn tail(at_most: usize) -> Vec<String> {
        LINES.tail(at_most)
    }

    /// What the configuration says, and what holds instead for a while.
    pub(crate) fn level(&self) -> (Level, Option<Passing>) {
        self.levels.now()
    }

    /// Takes another level for a while, or that of the configuration again.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn pass(&self, passing: Option<Passing>) -> io::Result<()> {
        self.levels.pass(passing)
    }
}

/// Whether standard error goes to systemd's journal.
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM");
    stream.is_ok_and(|stream| is_stream(&stream, io::stderr()))
}

/// A text for standard error that says why a server does not run. For systemd's journal, each line
/// begins with the priority of an error.
#[must_use]
pub fn as_error(text: &str) -> String {
    if !is_journal() {
        return text.to_owned();
    }
    let lines = text.lines().map(|line| format!("<3>{line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether `JOURNAL_STREAM` names this descriptor, by its device and inode as sd-daemon(3) says. A
/// program inherits the variable also where its output goes elsewhere.
fn is_stream(journal_stream: &str, out: impl AsFd) -> bool {
    let file = out.as_fd().try_clone_to_owned().map(std::fs::File::from);
    let metadata = file.and_then(|file| file.metadata());
    metadata.is_ok_and(|it| journal_stream == format!("{}:{}", it.dev(), it.ino()))
}

/// Writes the warnings of a log to standard error, for a command that does what a server does
/// otherwise. A process that has a log has them there.
pub fn warn_on_stderr() {
    let style = Style::Human {
        color: false,
        time: false,
    };
    let warnings = filter_fn(|line| *line.level() <= tracing::Level::WARN && is_ours(line));
    let lines = style.layer(io::stderr).with_filter(warnings);
    // There is a log already.
    let _ = Registry::default().with(lines).try_init();
}

/// What a database says besides its answers is about statements that nobody here typed. The watch
/// on the configuration's folder speaks of each change there, also of a line of this log that is
/// written there: it would speak for ever.
fn is_ours(line: &tracing::Metadata<'_>) -> bool {
    const OTHERS: [&str; 3] = ["sqlx::postgres::notice", "notify", "mio"];
    !OTHERS.iter().any(|other| line.target().starts_with(other))
}

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// For people. The journal of systemd stamps the time itself.
    Human { color: bool, time: bool },
    /// One JSON object per line.
    Json,
}

impl Style {
    const fn choose(format: Format, terminal: bool, no_color: bool, journal: bool) -> Self {
        match format {
            Format::Json => Self::Json,
            Format::Human => Self::Human {
                color: false,
                time: true,
            },
            Format::Auto => Self::Human {
                color: terminal && !no_color,
                time: terminal || !journal,
            },
        }
    }

    fn layer<W>(self, writer: W) -> Box<dyn Layer<Registry> + Send + Sync>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let lines = fmt::layer().with_writer(writer);
        match self {
            Self::Json => lines
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .boxed(),
            Self::Human { color, time: true } => {
                lines.compact().with_target(false).with_ansi(color).boxed()
            }
            Self::Human { color, time: false } => lines
                .compact()
                .with_target(false)
                .with_ansi(color)
                .without_time()
                .boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0
                .lock()
                .expect("not poisoned")
                .extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(style: Style, log: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let layer = style.layer(move || writer.clone());
        tracing::subscriber::with_default(Registry::default().with(layer), log);
        let bytes = buffer.0.lock().expect("not poisoned").clone();
        String::from_utf8(bytes).expect("the log is UTF-8")
    }

    #[test]
    fn the_style_follows_format_terminal_and_environment() {
        let human = |color, time| Style::Human { color, time };
        for (format, terminal, no_color, journal, style) in [
            (Format::Auto, true, false, false, human(true, true)),
            (Format::Auto, true, true, false, human(false, true)),
            (Format::Auto, true, false, true, human(true, true)),
            (Format::Auto, false, false, false, human(false, true)),
            (Format::Auto, false, false, true, human(false, false)),
            (Format::Human, true, false, true, human(false, true)),
            (Format::Json, true, false, true, Style::Json),
        ] {
            assert_eq!(Style::choose(format, terminal, no_color, journal), style);
        }
    }

    /// `serve 2>&1 | cat` in a unit of systemd inherits the variable, and writes into a pipe.
    #[test]
    fn only_the_stream_of_the_journal_is_one() {
        let (_reader, pipe) = io::pipe().expect("there are pipes");
        let file = std::fs::File::from(pipe.as_fd().try_clone_to_owned().expect("a copy"));
        let metadata = file.metadata().expect("it has some");
        let own = format!("{}:{}", metadata.dev(), metadata.ino());
        assert!(is_stream(&own, &pipe));
        let (_other_reader, other) = io::pipe().expect("there are pipes");
        assert!(!is_stream(&own, &other));
        assert!(!is_stream("", &pipe) && !is_stream("8:12345", &pipe));
    }

    #[test]
    fn json_lines_are_objects_with_the_fields_on_top() {
        let text = written(Style::Json, || tracing::info!(client = "c1", "connected"));
        let line: serde_json::Value = serde_json::from_str(text.trim()).expect("one object");
        assert_eq!(line["client"], "c1");
        assert_eq!(line["message"], "connected");
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn human_lines_are_plain_without_color() {
        let text = written(
            Style::Human {
                color: false,
                time: false,
            },
            || {
                tracing::warn!(port = 1883, "taken");
            },
        );
        assert_eq!(text.trim(), "WARN taken port=1883");
    }

    #[test]
    fn color_is_there_on_request() {
        let text = written(
            Style::Human {
                color: true,
                time: false,
            },
            || tracing::error!("x"),
        );
        assert!(text.contains('\u{1b}'), "{text:?}");
    }
}
