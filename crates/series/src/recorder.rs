//! Samples become rows. What is here is not in the file yet.

use std::collections::{BTreeMap, VecDeque};

use crate::ring::{DAY_SECS, Ring};
use crate::{FIGURES_MAX, Histogram, Peak, Peaks, Row, Span};

/// Days whose peaks may wait for the file.
const DAYS_WAITING_MAX: usize = 8;

/// How long the clock has to go on without a step until it is believed, in seconds.
const SETTLED_SECS: f64 = 3_600.0;

/// How far the clock may be from where it ought to be without that being a step, in seconds.
const STEP_SECS: f64 = 5.0;

/// What was measured at a moment.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When, by the wall clock: seconds since 1970.
    pub at: u64,
    /// The time since the sample before, by a clock that is never set, in seconds.
    pub secs: f64,
    /// Each figure, by its number; `None` where it is not known.
    pub values: [Option<f64>; FIGURES_MAX],
    /// Latencies since the sample before.
    pub latency: Histogram,
}

impl Sample {
    fn row(&self) -> Row {
        let mut row = Row::new(self.at);
        row.secs = self.secs;
        for (span, value) in row.spans.iter_mut().zip(&self.values) {
            *span = value.map(|value| Span::of(value, self.secs));
        }
        row.latency = self.latency.clone();
        row
    }
}

/// What is to be written to the file.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Its number. The file has the number of the last batch in it.
    pub(crate) number: u64,
    pub(crate) rows: Vec<(Ring, Row)>,
    pub(crate) peaks: Peaks,
    pub(crate) days: Vec<Peaks>,
    /// Whether rows of the future in the file may be replaced: the clock is right, and they come
    /// from a time when it was not.
    pub(crate) is_settled: bool,
}

/// Makes rows of samples, and keeps them until they are in the file. Its memory is bounded: less
/// than 3 MiB, however long the file cannot be written.
#[derive(Debug)]
pub struct Recorder {
    /// The newest seconds, in the order of their arrival.
    seconds: VecDeque<Vec<u8>>,
    /// What came to each ring since the last batch, in the period that goes on.
    open: Vec<(Ring, Row)>,
    waiting: BTreeMap<(Ring, u64), Vec<u8>>,
    peaks: Peaks,
    days: BTreeMap<u64, Peaks>,
    /// The number of the last batch.
    number: u64,
    /// Whether what waits is all in the last batch.
    is_in_batch: bool,
    /// When the last sample was, by both clocks.
    last_at: Option<u64>,
    steady_secs: f64,
}

impl Recorder {
    /// Nothing is recorded. The number is to be another one than that of any other recorder that
    /// has written to the same file.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self {
            seconds: VecDeque::new(),
            open: Ring::KEPT.map(|ring| (ring, Row::new(0))).into(),
            waiting: BTreeMap::new(),
            peaks: Peaks::new(0),
            days: BTreeMap::new(),
            number,
            is_in_batch: false,
            last_at: None,
            steady_secs: 0.0,
        }
    }

    /// Takes what was measured.
    pub fn sample(&mut self, sample: &Sample) {
        self.watch_clock(sample);
        let row = sample.row();
        if self.seconds.len() as u64 == Ring::Seconds.len() {
            self.seconds.pop_front();
        }
        self.seconds.push_back(row.encode());
        for at in 0..self.open.len() {
            let ring = self.open[at].0;
            let start = ring.start(sample.at);
            if self.open[at].1.start != start {
                let ended = std::mem::replace(&mut self.open[at].1, Row::new(start));
                self.wait(ring, ended);
            }
            self.open[at].1.merge(&row);
        }
        let day = sample.at - sample.at % DAY_SECS;
        let of_day = self.days.entry(day).or_insert_with(|| Peaks::new(day));
        for (figure, span) in row.spans.iter().enumerate() {
            if let Some(span) = span {
                let peak = Peak {
                    value: span.max,
                    at: sample.at,
                };
                of_day.raise(figure, peak);
                self.peaks.raise(figure, peak);
            }
        }
        if self.days.len() > DAYS_WAITING_MAX {
            self.days.pop_first();
        }
    }

    /// Notes how long the clock goes on without a step.
    fn watch_clock(&mut self, sample: &Sample) {
        let expected = self.last_at.map(|at| at as f64 + sample.secs);
        let is_step = expected.is_none_or(|at| (sample.at as f64 - at).abs() > STEP_SECS);
        self.steady_secs = if is_step {
            0.0
        } else {
            self.steady_secs + sample.secs
        };
        self.last_at = Some(sample.at);
    }

    /// Keeps a row until it is in the file. If too many wait, the oldest one of its ring is given
    /// up.
    fn wait(&mut self, ring: Ring, mut row: Row) {
        if row.is_empty() {
            return;
        }
        let key = (ring, row.start);
        if let Some(known) = self.waiting.get(&key).and_then(|it| Row::decode(it)) {
            row.merge(&known);
        }
        self.is_in_batch = false;
        self.waiting.insert(key, row.encode());
        let of_ring = self.waiting.range((ring, 0)..=(ring, u64::MAX));
        if of_ring.count() > ring.waiting_max() {
            let mut of_ring = self.waiting.range((ring, 0)..=(ring, u64::MAX));
            if let Some(oldest) = of_ring.next().map(|(key, _)| *key) {
                self.waiting.remove(&oldest);
            }
        }
    }

    /// What is to be written now. Until [`Recorder::written`] is called, it stays here, too.
    pub fn batch(&mut self) -> Batch {
        for at in 0..self.open.len() {
            let (ring, row) = &mut self.open[at];
            let (ring, begun) = (*ring, Row::new(row.start));
            let row = std::mem::replace(row, begun);
            self.wait(ring, row);
        }
        self.number = self.number.wrapping_add(1);
        self.is_in_batch = true;
        let rows = self.waiting.iter();
        let rows = rows.filter_map(|((ring, _), row)| Some((*ring, Row::decode(row)?)));
        Batch {
            number: self.number,
            rows: rows.collect(),
            peaks: self.peaks.clone(),
            days: self.days.values().cloned().collect(),
            is_settled: self.steady_secs >= SETTLED_SECS,
        }
    }

    /// The last batch is in the file.
    pub fn written(&mut self) {
        self.is_in_batch = false;
        self.waiting.clear();
        self.days.clear();
    }

    /// The rows of a ring that are not in the file; `number` is that of the last batch in it.
    pub fn rows(&self, ring: Ring, number: Option<u64>, mut take: impl FnMut(&Row)) {
        if ring == Ring::Seconds {
            let rows = self.seconds.iter();
            rows.filter_map(|row| Row::decode(row))
                .for_each(|row| take(&row));
            return;
        }
        if !self.is_in_batch || number != Some(self.number) {
            let waiting = self.waiting.range((ring, 0)..=(ring, u64::MAX));
            let waiting = waiting.filter_map(|(_, row)| Row::decode(row));
            waiting.for_each(|row| take(&row));
        }
        let open = self.open.iter().filter(|(own, _)| *own == ring);
        open.filter(|(_, row)| !row.is_empty())
            .for_each(|(_, row)| take(row));
    }

    /// When the oldest second is that is known.
    #[must_use]
    pub fn seconds_since(&self) -> Option<u64> {
        Row::decode(self.seconds.front()?).map(|row| row.start)
    }

    /// The peaks since the recorder began.
    #[must_use]
    pub const fn peaks(&self) -> &Peaks {
        &self.peaks
    }

    /// The peaks of days that are not in the file.
    pub fn days(&self) -> impl Iterator<Item = &Peaks> {
        self.days.values()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A sample with one figure, after a second.
    pub(crate) fn sample(at: u64, value: f64) -> Sample {
        let mut values = [None; FIGURES_MAX];
        values[0] = Some(value);
        let mut latency = Histogram::default();
        latency.record(value as u64);
        Sample {
            at,
            secs: 1.0,
            values,
            latency,
        }
    }

    fn rows(recorder: &Recorder, ring: Ring) -> Vec<(u64, f32, u64)> {
        let mut rows = Vec::new();
        recorder.rows(ring, None, |row| {
            rows.push((
                row.start,
                row.spans[0].unwrap().max,
                row.latency.count_and_secs().0,
            ));
        });
        rows
    }

    #[test]
    fn samples_become_rows_of_each_length() {
        let mut recorder = Recorder::new(0);
        (0..25).for_each(|at| recorder.sample(&sample(1_000 + at, at as f64)));
        assert_eq!(rows(&recorder, Ring::Seconds).len(), 25);
        let expected = [(1_000, 9.0, 10), (1_010, 19.0, 10), (1_020, 24.0, 5)];
        assert_eq!(rows(&recorder, Ring::Tens), expected);
        let expected = [(960, 19.0, 20), (1_020, 24.0, 5)];
        assert_eq!(rows(&recorder, Ring::Minutes), expected);
        let batch = recorder.batch();
        assert_eq!(batch.rows.len(), 3 + 2 + 1 + 1);
        // They stay until they are written, and nothing is there twice.
        assert_eq!(rows(&recorder, Ring::Tens).len(), 3);
        recorder.rows(Ring::Tens, Some(batch.number), |row| panic!("{row:?}"));
        recorder.written();
        assert_eq!(rows(&recorder, Ring::Tens), []);
        recorder.sample(&sample(1_025, 7.0));
        assert_eq!(rows(&recorder, Ring::Tens), [(1_020, 7.0, 1)]);
    }

    #[test]
    fn memory_is_bounded_without_a_file() {
        let mut recorder = Recorder::new(0);
        for at in 0..2_000 {
            // Each sample is in another period of every ring.
            recorder.sample(&sample(at * 21_600, 1.0));
            recorder.batch();
        }
        let most: usize = Ring::KEPT.map(Ring::waiting_max).iter().sum();
        assert_eq!(recorder.waiting.len(), most);
        assert_eq!(recorder.days.len(), DAYS_WAITING_MAX);
        assert_eq!(recorder.seconds.len(), 900);
        assert!((most + 900) * crate::row::ROW_BYTES_MAX < 3 << 20);
        // The newest ones are there.
        assert_eq!(
            rows(&recorder, Ring::Tens).last().unwrap().0,
            1_999 * 21_600
        );
    }

    #[test]
    fn a_clock_is_believed_after_an_hour_without_a_step() {
        let mut recorder = Recorder::new(0);
        let mut go = |from: u64, count: u64| {
            (0..count).for_each(|at| recorder.sample(&sample(from + at, 1.0)));
            recorder.batch().is_settled
        };
        assert!(!go(10_000, 3_600));
        assert!(go(13_600, 1));
        assert!(!go(10_000, 3_600), "it was set back");
        assert!(go(13_600, 10));
        assert!(!go(4_000_000_000, 1), "it was set forward");
        assert!(!go(0, 1));
        assert!(!go(u64::MAX - 10, 5));
    }
}
