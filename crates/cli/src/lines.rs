//! Files of lines that commands import, each line with a bound.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::failure::Failure;

/// A file that is open, or standard input.
pub(crate) struct Lines<'f> {
    file: &'f Path,
    source: BufReader<Box<dyn Read>>,
}

impl<'f> Lines<'f> {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn open(file: &'f Path) -> Result<Self, Failure> {
        let source: Box<dyn Read> = if file.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(file).map_err(|error| cannot_read(file, &error))?)
        };
        let source = BufReader::new(source);
        Ok(Self { file, source })
    }

    /// Gives `take` each line that is not blank, with its number; `None` for a line of this many
    /// bytes or more, with its end.
    ///
    /// # Errors
    /// When the file cannot be read, or `take` fails.
    pub(crate) fn each(
        mut self,
        bytes_max: u64,
        mut take: impl FnMut(u64, Option<&[u8]>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let cannot = |error: io::Error| cannot_read(self.file, &error);
        for number in 1.. {
            // Not kept from line to line: one of them may be very long.
            let mut line = Vec::new();
            let len = Read::take(&mut self.source, bytes_max)
                .read_until(b'\n', &mut line)
                .map_err(cannot)?;
            if len == 0 {
                break;
            }
            if len as u64 == bytes_max && !line.ends_with(b"\n") {
                self.source.skip_until(b'\n').map_err(cannot)?;
                take(number, None)?;
            } else if !line.trim_ascii().is_empty() {
                take(number, Some(&line))?;
            }
        }
        Ok(())
    }
}

fn cannot_read(file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", file.display()))
}
