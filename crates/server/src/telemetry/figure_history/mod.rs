//! What the figures were, from an hour to two years ago.
//!
//! A thread of its own asks the shards each second, as `/metrics` does, and writes to the file. No
//! shard waits for either.

mod table;

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use stentor_auth::store::Directory;
use stentor_control::figures::{Kind, Unit};
use stentor_series::{Archive, Curve, FIGURES_MAX, Histogram, Peaks, Range, Recorder, Sample};
use stentor_session::Tick;

use super::ShardReport;
use super::collect::total;
use super::metrics::process::Process;
use super::rounds::Rounds;
use crate::clock::unix_secs;
use crate::context::ServerContext;
use crate::error::ServerError;
use crate::shard::Inquiry;
use table::{FIGURES, Sources};

pub use table::figures_reference;

/// The file in the data folder.
const FILE: &str = "figures.redb";

/// The time from one sample to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a sample waits for the reports of shards. One that is late is counted later.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long the end of the server waits for the file.
const END_TIME: Duration = Duration::from_secs(2);

/// The history, for those who ask.
#[derive(Debug)]
pub(crate) struct FigureHistory {
    recorder: Mutex<Recorder>,
    /// None if there is no file.
    archive: Option<Archive>,
}

impl FigureHistory {
    fn new(archive: Option<Archive>) -> Self {
        // Another number than that of the process before, which may have written to the file.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let number = since.map_or(0, |since| since.as_nanos() as u64);
        Self {
            recorder: Mutex::new(Recorder::new(number)),
            archive,
        }
    }

    /// The recorder is changed by one thread, and is whole after any panic of the others.
    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name, the kind and the unit of each figure, by its number.
    pub(crate) fn figures() -> impl Iterator<Item = (&'static str, Kind, Unit)> {
        FIGURES.iter().map(|it| (it.name, it.kind, it.unit))
    }

    /// Why the file is not written, if it is not.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.archive.as_ref().and_then(Archive::trouble)
    }

    /// The figures in a range of time.
    pub(crate) fn curve(&self, range: Range, now: u64) -> Curve {
        let recorder = self.recorder();
        let ring = range.ring(now, &recorder);
        let mut curve = Curve::new(range, ring);
        // Taken under the lock: what the recorder gives up later is in it, and what it has is not.
        let snapshot = self.archive.as_ref().and_then(Archive::snapshot);
        let number = snapshot.as_ref().and_then(|it| it.number().ok()).flatten();
        recorder.rows(ring, number, |row| curve.add(row));
        drop(recorder);
        if let Some(snapshot) = snapshot {
            // Rows that cannot be read are missing, and the next commit reports the file.
            let _ = snapshot.rows(ring, |row| curve.add(row));
        }
        curve
    }

    /// The peaks of all times.
    pub(crate) fn peaks(&self) -> Peaks {
        let mut peaks = self.recorder().peaks().clone();
        let snapshot = self.archive.as_ref().and_then(Archive::snapshot);
        if let Some(Ok(Some(earlier))) = snapshot.map(|it| it.peaks()) {
            peaks.merge(&earlier);
        }
        peaks
    }

    /// The peaks of each day that begins at this time or later, the newest first.
    pub(crate) fn days(&self, since: u64) -> Vec<Peaks> {
        let recorder = self.recorder();
        let mut days: Vec<Peaks> = recorder.days().cloned().collect();
        let snapshot = self.archive.as_ref().and_then(Archive::snapshot);
        drop(recorder);
        let take = |day: &Peaks| match days.iter_mut().find(|known| known.start == day.start) {
            Some(known) => known.merge(day),
            None => days.push(day.clone()),
        };
        if let Some(snapshot) = snapshot {
            let _ = snapshot.days(take);
        }
        days.retain(|day| day.start >= since);
        days.sort_by_key(|day| std::cmp::Reverse(day.start));
        days
    }

    /// Writes what is not in the file.
    fn commit(&self) {
        let Some(archive) = &self.archive else {
            return;
        };
        let batch = self.recorder().batch();
        // Without the lock: a disk may take long.
        if archive.commit(&batch) {
            self.recorder().written();
        }
    }
}

/// Keeps the history.
pub(crate) struct FigureRecorder {
    history: Arc<FigureHistory>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl FigureRecorder {
    /// Starts the thread, which writes to a file in this folder so often; never, if that is zero.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start(
        context: &Arc<ServerContext>,
        directory: &Arc<Directory>,
        folder: &Path,
        commit: Duration,
    ) -> Result<Self, ServerError> {
        let archive = (!commit.is_zero()).then(|| Archive::new(&folder.join(FILE)));
        let history = Arc::new(FigureHistory::new(archive));
        let up = context.clock.now().since(Tick::ZERO);
        let now = Instant::now();
        let sampler = Sampler {
            context: Arc::clone(context),
            directory: Arc::clone(directory),
            rounds: Rounds::new(context),
            counters: [0.0; FIGURES_MAX],
            latency: Histogram::default(),
            // All counters have begun at 0 when the server started.
            sampled_at: now.checked_sub(up).unwrap_or(now),
        };
        let (stop, stopped) = channel();
        let own = Arc::clone(&history);
        let run = move || run(&own, sampler, commit, &stopped);
        let thread = std::thread::Builder::new()
            .name("figures".into())
            .spawn(run);
        Ok(Self {
            history,
            stop,
            thread: thread.map_err(|error| ServerError::system("starting a thread", error))?,
        })
    }

    pub(crate) const fn history(&self) -> &Arc<FigureHistory> {
        &self.history
    }

    /// Writes the rest. A disk that hangs does not hold the server up for long.
    pub(crate) fn end(self) {
        const STEP: Duration = Duration::from_millis(5);
        drop(self.stop);
        let deadline = Instant::now() + END_TIME;
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(STEP);
        }
    }
}

/// Samples and commits until the sender is gone.
fn run(history: &FigureHistory, mut sampler: Sampler, commit: Duration, stop: &Receiver<()>) {
    if let Some(archive) = &history.archive {
        archive.open();
    }
    let mut sample_at = Instant::now() + INTERVAL;
    let mut commit_at = Instant::now() + commit;
    loop {
        let wait = sample_at.saturating_duration_since(Instant::now());
        if stop.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
            return history.commit();
        }
        let sample = sampler.sample();
        history.recorder().sample(&sample);
        let now = Instant::now();
        if now >= commit_at {
            history.commit();
            commit_at = now + commit;
        }
        // What was missed is not made up for.
        sample_at = (sample_at + INTERVAL).max(Instant::now());
    }
}

/// Measures.
struct Sampler {
    context: Arc<ServerContext>,
    directory: Arc<Directory>,
    rounds: Rounds<ShardReport>,
    /// What each counter was.
    counters: [f64; FIGURES_MAX],
    latency: Histogram,
    sampled_at: Instant,
}

impl Sampler {
    fn sample(&mut self) -> Sample {
        self.rounds
            .ask(&self.context, Inquiry::Figures, Duration::ZERO, PATIENCE);
        let sum = total(self.rounds.last().filter_map(|(report, _)| report));
        let (now, at) = (Instant::now(), SystemTime::now());
        let elapsed = now.duration_since(self.sampled_at).as_secs_f64().max(1e-3);
        self.sampled_at = now;
        let procedures = self.context.call_queue.procedures();
        let sources = Sources {
            context: &self.context,
            directory: &self.directory,
            sum: &sum,
            process: Process::read(false),
            procedures: &procedures,
        };
        let mut values = [None; FIGURES_MAX];
        let places = values.iter_mut().zip(&mut self.counters);
        for (figure, (value, counter)) in FIGURES.iter().zip(places) {
            let read = (figure.read)(&sources);
            *value = match figure.kind {
                Kind::Level => read,
                Kind::PerSecond => read.map(|read| {
                    let before = std::mem::replace(counter, read);
                    (read - before).max(0.0) / elapsed
                }),
            };
        }
        let latency = sum.latency.since(&self.latency);
        self.latency = sum.latency;
        Sample {
            at: unix_secs(at),
            secs: elapsed,
            values,
            latency,
        }
    }
}
