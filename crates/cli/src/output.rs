//! The one place where commands write what they have to say: standard output, or a new file.
//!
//! A reader that has left, as `head` does, is not a failure. A command with one answer goes on,
//! since the exit code is an answer too. A command with a stream of answers ends.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

const STANDARD: &str = "standard output";

/// Prints an answer, at once: somebody may be waiting for it.
pub(crate) fn print(bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    match write(bytes.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| failure(STANDARD, &error)),
    }
}

/// Prints one of many answers, at once.
pub(crate) fn print_next(bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    write(bytes.as_ref()).map_err(|error| failure(STANDARD, &error))
}

/// Answers as JSON, an object on a line of its own each. `what` is the name of one.
pub(crate) fn json_lines(answers: &[impl Serialize], what: &str) -> Result<String, Failure> {
    let one = |answer| serde_json::to_string(answer).map(|line| line + "\n");
    let lines: Result<String, _> = answers.iter().map(one).collect();
    lines.map_err(|error| Failure::new(format!("{what} cannot be written as JSON: {error}")))
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

fn failure(place: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::nobody_reads(),
        _ => Failure::new(format!("cannot write to {place}: {error}")),
    }
}

/// Something long that is written piece by piece.
pub(crate) struct Pieces {
    out: Box<dyn Write>,
    /// As errors name it.
    place: String,
}

impl Pieces {
    /// To standard output.
    pub(crate) fn standard() -> Self {
        Self {
            out: Box::new(BufWriter::new(io::stdout().lock())),
            place: STANDARD.into(),
        }
    }

    /// To a new file that only its owner may read.
    pub(crate) fn private_file(path: &Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| {
            let message = format!("cannot make {}: {error}; choose a new file", path.display());
            Failure::new(message)
        })?;
        Ok(Self {
            out: Box::new(BufWriter::new(file)),
            place: path.display().to_string(),
        })
    }

    pub(crate) fn put(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.out.write_all(text.as_bytes());
        written.map_err(|error| failure(&self.place, &error))
    }

    /// Nothing more comes.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let flushed = self.out.flush();
        flushed.map_err(|error| failure(&self.place, &error))
    }
}

/// A text of somebody else's for people: in one line, and without what plays tricks on a terminal.
/// What cannot be seen is written as an escape, so that two different names look different.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() || is_format(char) {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Whether a character only has an effect on others: it turns their direction, joins or separates
/// them, or is not seen.
const fn is_format(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let left = failure(STANDARD, &io::ErrorKind::BrokenPipe.into());
        assert_eq!((left.code(), left.message()), (0, ""));
        let full = failure("a.csv", &io::ErrorKind::StorageFull.into());
        assert_eq!(full.code(), 1);
        assert!(full.message().starts_with("cannot write to a.csv: "));
    }

    #[test]
    fn nobodys_words_look_like_anothers() {
        let told = shown("evil\u{1b}[31m\nalice: fake\u{9b}2J\u{7f} \u{e9}");
        assert_eq!(told, "evil\\u{1b}[31m\\nalice: fake\\u{9b}2J\\u{7f} \u{e9}");
        let turned = shown("pump-\u{202e}71\u{2066}\u{200b}\u{feff}\u{2028}\u{e0041} e\u{301}");
        let expected = "pump-\\u{202e}71\\u{2066}\\u{200b}\\u{feff}\\u{2028}\\u{e0041} e\u{301}";
        assert_eq!(turned, expected);
    }
}
