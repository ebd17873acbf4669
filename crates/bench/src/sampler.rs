//! CPU and memory over time, of the server and of the generator, while one of them is measured.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::{SECOND_NS, now_ns};
use crate::process;

/// Between two looks. A look takes a millisecond or two of the generator's processor.
const STEP: Duration = Duration::from_millis(500);

/// What two looks show: the share of one processor between them, and the memory at the second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Seconds since the first look.
    pub(crate) at_s: f64,
    /// The server; `None` where its process is unknown or was gone.
    pub(crate) server: Option<Load>,
    /// The generator: this process with all worker threads, and the groups of subscribers.
    pub(crate) generator: Option<Load>,
}

/// What a process tree uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// Hundredths of one processor.
    pub(crate) cpu_percent: f64,
    /// Resident memory in bytes.
    pub(crate) rss: u64,
}

/// Takes samples until it is asked to stop.
#[derive(Debug)]
pub(crate) struct Sampler {
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<Vec<Sample>>>,
}

impl Sampler {
    /// Begins; without a thread to do it there are no samples.
    pub(crate) fn start(server: Option<u32>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("sampler".into());
        let thread = thread.spawn(move || watch(server, &stopped)).ok();
        Self { stop, thread }
    }

    /// All samples so far.
    pub(crate) fn finish(self) -> Vec<Sample> {
        drop(self.stop);
        let joined = self.thread.and_then(|thread| thread.join().ok());
        joined.unwrap_or_default()
    }
}

/// One look at both.
struct Look {
    at_ns: u64,
    server: Option<(f64, u64)>,
    own: Option<(f64, u64)>,
}

impl Look {
    fn take(server: Option<u32>) -> Self {
        // The server is a child of this process where it was started for the purpose.
        let server = server.and_then(process::glance);
        let own = process::glance_generator();
        Self {
            at_ns: now_ns(),
            server,
            own,
        }
    }
}

fn watch(server: Option<u32>, stopped: &mpsc::Receiver<()>) -> Vec<Sample> {
    let mut samples = Vec::new();
    let first = Look::take(server);
    let begun_ns = first.at_ns;
    let mut before = first;
    while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
        let now = Look::take(server);
        let seconds = (now.at_ns - before.at_ns) as f64 / SECOND_NS as f64;
        let load = |before: Option<(f64, u64)>, now: Option<(f64, u64)>| {
            let ((was_s, _), (is_s, rss)) = before.zip(now)?;
            // Threads that ended take their time along: then nothing is known.
            let used_s = (is_s - was_s).max(0.0);
            Some(Load {
                cpu_percent: used_s / seconds * 100.0,
                rss,
            })
        };
        samples.push(Sample {
            at_s: (now.at_ns - begun_ns) as f64 / SECOND_NS as f64,
            server: load(before.server, now.server),
            generator: load(before.own, now.own),
        });
        before = now;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampler_that_ends_at_once_has_seen_nothing() {
        assert_eq!(Sampler::start(None).finish(), []);
    }

    #[test]
    fn this_process_has_a_load() {
        let (cpu_s, rss) = process::glance_alone().unwrap();
        assert!(cpu_s > 0.0 && rss > 100_000, "{cpu_s} {rss}");
        assert!(process::glance(u32::MAX).is_none());
    }
}
