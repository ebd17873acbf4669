//! What all figures were in a period, and the bytes of that.
//!
//! A row is its start (8 bytes, seconds since 1970), the seconds that it covers (4), the number of
//! figures (1), two bits for each of them (absent, zero, one value, or three), the values (4 bytes
//! each), and the histogram.
//!
//! The histogram is a scale (1 byte), the number of its buckets, and for each of them the distance
//! from the one before and its count, all as varints. Each step of the scale joins two buckets. A
//! row has at most [`ROW_BYTES_MAX`] bytes: a histogram that would not fit gets a coarser scale.

use crate::bytes::{Reader, put_varint};
use crate::histogram::{BUCKETS, Histogram};
use crate::{FIGURES_MAX, Span};

/// The most bytes of a row.
pub(crate) const ROW_BYTES_MAX: usize = 990;

/// The coarsest scale: 1,024 buckets in one, which is all of them.
const SCALE_MAX: u8 = 10;

const ABSENT: u8 = 0;
const ZERO: u8 = 1;
const ONE: u8 = 2;
const THREE: u8 = 3;

/// What the figures were in a period.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// When the period begins, in seconds since 1970.
    pub start: u64,
    /// How much of it was measured, in seconds.
    pub secs: f64,
    /// Each figure, by its number; `None` where it is not known.
    pub spans: [Option<Span>; FIGURES_MAX],
    /// Latencies in the period.
    pub latency: Histogram,
}

impl Row {
    /// A row without anything.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Self {
            start,
            secs: 0.0,
            spans: [None; FIGURES_MAX],
            latency: Histogram::default(),
        }
    }

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(Option::is_none)
    }

    /// Adds what was measured in another row, whenever that was.
    pub fn merge(&mut self, other: &Self) {
        self.secs += other.secs;
        for (own, more) in self.spans.iter_mut().zip(&other.spans) {
            if let Some(more) = more {
                more.add_to(own);
            }
        }
        self.latency.add(&other.latency);
    }

    /// Its bytes, at most [`ROW_BYTES_MAX`].
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend(self.start.to_le_bytes());
        out.extend((self.secs as f32).to_le_bytes());
        let known = self.spans.iter().rposition(Option::is_some);
        let count = known.map_or(0, |last| last + 1);
        // At most 64.
        out.push(count as u8);
        let spans = &self.spans[..count];
        for four in spans.chunks(4) {
            let tags = four.iter().enumerate();
            out.push(tags.fold(0, |byte, (at, span)| byte | (tag(*span) << (2 * at))));
        }
        for span in spans.iter().flatten() {
            match tag(Some(*span)) {
                ZERO => {}
                ONE => out.extend(span.max.to_le_bytes()),
                _ => [span.min, span.mean as f32, span.max]
                    .iter()
                    .for_each(|value| out.extend(value.to_le_bytes())),
            }
        }
        let room = ROW_BYTES_MAX - out.len();
        let latency = (0..=SCALE_MAX).map(|scale| pack(&self.latency, scale));
        out.extend(
            latency
                .into_iter()
                .find(|it| it.len() <= room)
                .unwrap_or_default(),
        );
        out
    }

    /// Reads what [`Row::encode`] wrote; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let mut row = Self::new(reader.u64()?);
        row.secs = f64::from(reader.f32().filter(|secs| *secs >= 0.0)?);
        let count = usize::from(reader.u8()?);
        if count > FIGURES_MAX {
            return None;
        }
        let tags = reader.take(count.div_ceil(4))?;
        for (at, span) in row.spans[..count].iter_mut().enumerate() {
            let (min, mean, max) = match (tags[at / 4] >> (2 * (at % 4))) & 3 {
                ABSENT => continue,
                ZERO => (0.0, 0.0, 0.0),
                ONE => {
                    let value = reader.f32()?;
                    (value, value, value)
                }
                _ => (reader.f32()?, reader.f32()?, reader.f32()?),
            };
            *span = Some(Span {
                min,
                max,
                mean: f64::from(mean),
                secs: row.secs,
            });
        }
        unpack(&mut reader, &mut row.latency)?;
        reader.0.is_empty().then_some(row)
    }
}

fn tag(span: Option<Span>) -> u8 {
    match span {
        None => ABSENT,
        Some(span) if span.min == 0.0 && span.max == 0.0 => ZERO,
        Some(span) if span.min.to_bits() == span.max.to_bits() => ONE,
        Some(_) => THREE,
    }
}

/// A histogram with some of its buckets joined.
fn pack(histogram: &Histogram, scale: u8) -> Vec<u8> {
    let mut joined: Vec<(usize, u64)> = Vec::new();
    for (bucket, count) in histogram.occupied() {
        match joined.last_mut() {
            Some((last, sum)) if *last == bucket >> scale => *sum = sum.saturating_add(count),
            _ => joined.push((bucket >> scale, count)),
        }
    }
    if joined.is_empty() {
        return Vec::new();
    }
    let mut out = vec![scale];
    put_varint(&mut out, joined.len() as u64);
    let mut next = 0;
    for (bucket, count) in joined {
        put_varint(&mut out, (bucket - next) as u64);
        put_varint(&mut out, count);
        next = bucket + 1;
    }
    out
}

/// Counts joined buckets as their highest one: a percentile is never too low.
fn unpack(reader: &mut Reader<'_>, histogram: &mut Histogram) -> Option<()> {
    if reader.0.is_empty() {
        return Some(());
    }
    let scale = reader.u8().filter(|scale| *scale <= SCALE_MAX)?;
    let mut next = 0_u64;
    for _ in 0..reader.varint()? {
        let bucket = next.checked_add(reader.varint()?)?;
        if bucket >= BUCKETS as u64 {
            return None;
        }
        next = bucket + 1;
        histogram.count_in(((next as usize) << scale) - 1, reader.varint()?);
    }
    Some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A row that is as large as a row can be.
    pub(crate) fn largest(start: u64) -> Row {
        let mut row = Row::new(start);
        row.secs = 10.0;
        for (at, span) in row.spans.iter_mut().enumerate() {
            let value = (at as f64 + start as f64).sin().mul_add(1e6, 2e6);
            *span = Some(Span::of(value, 5.0).merged(Span::of(value * 1.5, 5.0)));
        }
        for bucket in 0..BUCKETS {
            row.latency.count_in(bucket, u64::from(u32::MAX) << 20);
        }
        row
    }

    #[test]
    fn the_largest_row_fits_and_keeps_its_figures() {
        let row = largest(1_000);
        let bytes = row.encode();
        assert!(bytes.len() <= ROW_BYTES_MAX, "{}", bytes.len());
        assert!(bytes.len() > 800, "{}", bytes.len());
        let read = Row::decode(&bytes).unwrap();
        assert_eq!(
            read.latency.count_and_secs().0,
            row.latency.count_and_secs().0
        );
        for (read, span) in read.spans.iter().zip(&row.spans) {
            let (read, span) = (read.unwrap(), span.unwrap());
            assert_eq!((read.min, read.max), (span.min, span.max));
            assert!((read.mean - span.mean).abs() < 1.0);
        }
    }

    #[test]
    fn percentiles_come_from_the_counts_of_both() {
        let (mut calm, mut busy) = (Row::new(0), Row::new(60));
        (0..990).for_each(|_| calm.latency.record(100));
        (0..10).for_each(|_| busy.latency.record(9_000));
        // The average of the two 99th percentiles would be 4,550.
        calm.merge(&Row::decode(&busy.encode()).unwrap());
        assert!((100..110).contains(&calm.latency.quantile(990)));
        assert!((9_000..9_600).contains(&calm.latency.quantile(999)));
    }

    #[test]
    fn merging_again_and_again_does_not_drift() {
        let mut row = largest(7);
        let count = row.latency.count_and_secs().0;
        for _ in 0..5 {
            row = Row::decode(&row.encode()).unwrap();
        }
        assert_eq!(row.latency.count_and_secs().0, count);
        assert_eq!(Row::decode(&row.encode()), Some(row));
    }

    fn any_row() -> impl Strategy<Value = Row> {
        let span = proptest::option::of((0.0..1e9_f64, 0.0..1e9_f64));
        let spans = proptest::collection::vec(span, 0..=FIGURES_MAX);
        let counts = proptest::collection::vec((0..BUCKETS, 0..u64::MAX / 1_000), 0..200);
        (any::<u64>(), spans, counts).prop_map(|(start, spans, counts)| {
            let mut row = Row::new(start);
            row.secs = 2.0;
            for (own, span) in row.spans.iter_mut().zip(spans) {
                *own = span.map(|(a, b)| Span::of(a, 1.0).merged(Span::of(b, 1.0)));
            }
            for (bucket, count) in counts {
                row.latency.count_in(bucket, count);
            }
            row
        })
    }

    proptest! {
        #[test]
        fn a_row_is_read_as_it_was_written(row in any_row()) {
            let bytes = row.encode();
            prop_assert!(bytes.len() <= ROW_BYTES_MAX);
            let read = Row::decode(&bytes).unwrap();
            prop_assert_eq!(read.start, row.start);
            prop_assert_eq!(read.latency.count_and_secs().0, row.latency.count_and_secs().0);
            for per_mille in [500, 990, 1_000] {
                prop_assert!(read.latency.quantile(per_mille) >= row.latency.quantile(per_mille));
            }
            for (read, span) in read.spans.iter().zip(&row.spans) {
                prop_assert_eq!(read.map(|it| (it.min, it.max)), span.map(|it| (it.min, it.max)));
            }
            prop_assert_eq!(Row::decode(&read.encode()), Some(read));
        }

        #[test]
        fn noise_is_refused_or_read_and_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            row in any_row(), at in 0..900_usize, flip in 1..=255_u8,
        ) {
            let _ = Row::decode(&bytes);
            let mut damaged = row.encode();
            let at = at % damaged.len();
            damaged[at] ^= flip;
            if let Some(read) = Row::decode(&damaged) {
                prop_assert!(read.encode().len() <= ROW_BYTES_MAX);
            }
            damaged.truncate(at);
            let _ = Row::decode(&damaged);
        }
    }
}
