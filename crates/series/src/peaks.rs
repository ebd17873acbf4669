//! The highest value of each figure, and when that was.
//!
//! Their bytes are the start of the period (8), the number of figures (1), and for each of them the
//! value (4) and the time (8); the time of a figure without a peak is the highest number.

use crate::FIGURES_MAX;
use crate::bytes::Reader;

const NEVER: u64 = u64::MAX;

/// The most bytes of encoded peaks.
pub(crate) const PEAKS_BYTES_MAX: usize = 9 + FIGURES_MAX * 12;

/// The highest value of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// The value.
    pub value: f32,
    /// When it was reached first, in seconds since 1970.
    pub at: u64,
}

/// The peaks of a day, or of all times.
#[derive(Debug, Clone, PartialEq)]
pub struct Peaks {
    /// When the day begins, in seconds since 1970; 0 for all times.
    pub start: u64,
    /// Each figure, by its number.
    pub peaks: [Option<Peak>; FIGURES_MAX],
}

impl Peaks {
    /// Nothing is known.
    #[must_use]
    pub const fn new(start: u64) -> Self {
        Self {
            start,
            peaks: [None; FIGURES_MAX],
        }
    }

    /// Takes a value, if it is higher than what is known. Of two equal ones the earlier counts.
    pub(crate) fn raise(&mut self, figure: usize, new: Peak) {
        let Some(peak) = self.peaks.get_mut(figure) else {
            return;
        };
        let is_higher = |known: Peak| (new.value, known.at) > (known.value, new.at);
        if peak.is_none_or(is_higher) {
            *peak = Some(new);
        }
    }

    /// Takes the higher peaks of both. To merge the same ones again changes nothing.
    pub fn merge(&mut self, other: &Self) {
        for (figure, peak) in other.peaks.iter().enumerate() {
            if let Some(peak) = peak {
                self.raise(figure, *peak);
            }
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let known = self.peaks.iter().rposition(Option::is_some);
        let count = known.map_or(0, |last| last + 1);
        let mut out = Vec::with_capacity(PEAKS_BYTES_MAX);
        out.extend(self.start.to_le_bytes());
        // At most 64.
        out.push(count as u8);
        for peak in &self.peaks[..count] {
            let peak = peak.unwrap_or(Peak {
                value: 0.0,
                at: NEVER,
            });
            out.extend(peak.value.to_le_bytes());
            out.extend(peak.at.to_le_bytes());
        }
        out
    }

    /// Reads what [`Peaks::encode`] wrote; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let mut peaks = Self::new(reader.u64()?);
        let count = usize::from(reader.u8()?);
        for peak in peaks.peaks.get_mut(..count)? {
            let (value, at) = (reader.f32()?, reader.u64()?);
            *peak = (at != NEVER).then_some(Peak { value, at });
        }
        reader.0.is_empty().then_some(peaks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_peaks_counts_in_any_order() {
        let of = |all: &[(f32, u64)]| {
            let mut peaks = Peaks::new(0);
            all.iter()
                .for_each(|&(value, at)| peaks.raise(3, Peak { value, at }));
            peaks
        };
        let expected = Some(Peak { value: 7.0, at: 20 });
        let (a, b) = (of(&[(5.0, 10), (7.0, 20)]), of(&[(7.0, 30), (6.0, 5)]));
        for (first, second) in [(&a, &b), (&b, &a)] {
            let mut both = first.clone();
            both.merge(second);
            both.merge(second);
            assert_eq!(both.peaks[3], expected);
            assert_eq!(Peaks::decode(&both.encode()), Some(both));
        }
        let mut wide = Peaks::new(1);
        wide.raise(FIGURES_MAX, Peak { value: 1.0, at: 1 });
        assert_eq!(wide, Peaks::new(1));
    }

    #[test]
    fn other_bytes_are_refused() {
        let mut peaks = Peaks::new(86_400);
        (0..FIGURES_MAX).for_each(|at| peaks.raise(at, Peak { value: 1.5, at: 9 }));
        let bytes = peaks.encode();
        assert_eq!(bytes.len(), PEAKS_BYTES_MAX);
        (0..bytes.len()).for_each(|end| assert_eq!(Peaks::decode(&bytes[..end]), None));
        let mut many = bytes;
        many[8] = 65;
        assert_eq!(Peaks::decode(&many), None);
    }
}
