//! What to publish: `-m`, `-f`, `-n`, `-s` and `-l`.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::{ArgAction, Args};

use crate::failure::Failure;

/// The message.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Payload {
    /// The message
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true,
          action = ArgAction::Append)]
    message: Vec<String>,
    /// File with the message
    #[arg(short, long, value_name = "FILE", action = ArgAction::Append)]
    file: Vec<PathBuf>,
    /// An empty message; with -r it removes the topic's retained message
    #[arg(short, long)]
    null_message: bool,
    /// All of standard input is the message
    #[arg(short, long)]
    stdin_file: bool,
    /// Every line of standard input is a message
    #[arg(short = 'l', long)]
    stdin_line: bool,
}

impl Payload {
    /// The one message; nothing with `-l`.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, Failure> {
        if self.stdin_line {
            return Ok(None);
        }
        if let Some(text) = only("-m", &self.message)? {
            return Ok(Some(text.clone().into_bytes()));
        }
        if let Some(path) = only("-f", &self.file)? {
            let bytes = fs::read(path).map_err(|error| {
                Failure::new(format!("cannot read {}: {error}", path.display()))
            })?;
            return Ok(Some(bytes));
        }
        let mut bytes = Vec::new();
        if self.stdin_file {
            io::stdin()
                .read_to_end(&mut bytes)
                .map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
        }
        Ok(Some(bytes))
    }
}

/// The value of an option that has one; two would be two messages, of which one were lost.
fn only<'a, T>(option: &str, values: &'a [T]) -> Result<Option<&'a T>, Failure> {
    match values {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(Failure::usage(format!(
            "{option} is given {} times, and one message is published; run `stentor pub` once for \
             each, or use -l for a message per line",
            values.len()
        ))),
    }
}
