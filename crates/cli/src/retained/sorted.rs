//! Lines in the order of their topics, as far as there is room to sort them.

use crate::failure::Failure;
use crate::output::Pieces;

/// Bytes of lines that are gathered to be sorted.
const BYTES_MAX: usize = 64 << 20;

/// Lines on their way out. The store gives messages in an order of its own. They are sorted here;
/// when they are too many for that, they are written as they come.
pub(super) struct Sorted<'a> {
    out: &'a mut Pieces,
    lines: Vec<(String, String)>,
    bytes: usize,
    bytes_max: usize,
}

impl<'a> Sorted<'a> {
    pub(super) const fn new(out: &'a mut Pieces) -> Self {
        Self {
            out,
            lines: Vec::new(),
            bytes: 0,
            bytes_max: BYTES_MAX,
        }
    }

    /// Takes the line about a topic.
    pub(super) fn put(&mut self, topic: &str, line: String) -> Result<(), Failure> {
        if self.bytes > self.bytes_max {
            return self.out.put(&line);
        }
        self.bytes += topic.len() + line.len();
        self.lines.push((topic.to_owned(), line));
        if self.bytes > self.bytes_max {
            eprintln!("stentor: there are too many messages to sort: they come in any order");
            return self.flush();
        }
        Ok(())
    }

    /// Writes what was gathered.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.lines.sort();
        let mut lines = std::mem::take(&mut self.lines).into_iter();
        lines.try_for_each(|(_, line)| self.out.put(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_to_sort_is_written_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        for (bytes_max, expected) in [(BYTES_MAX, "a\nb\nc\n"), (3, "b\nc\na\n")] {
            let path = folder.path().join(bytes_max.to_string());
            let mut out = Pieces::private_file(&path).unwrap();
            let mut sorted = Sorted::new(&mut out);
            sorted.bytes_max = bytes_max;
            for topic in ["c", "b", "a"] {
                sorted.put(topic, format!("{topic}\n")).unwrap();
            }
            sorted.flush().unwrap();
            out.end().unwrap();
            assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
        }
    }
}
