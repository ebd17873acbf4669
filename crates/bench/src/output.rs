//! Where results go: tables to standard output as they come, objects to files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{BenchError, Doing};
use crate::report::html;

/// The files that a run writes, and what it has measured so far.
#[derive(Debug)]
pub(crate) struct Output {
    json: Option<PathBuf>,
    html: Option<PathBuf>,
    objects: Vec<Value>,
}

impl Output {
    /// Checks at once that the files can be written: an hour later would be too late.
    pub(crate) fn open(json: Option<&Path>, html: Option<&Path>) -> Result<Self, BenchError> {
        for file in json.into_iter().chain(html).filter(|file| !is_stdout(file)) {
            let opened = OpenOptions::new().create(true).append(true).open(file);
            opened.doing(format!("write {}", file.display()))?;
        }
        Ok(Self {
            json: json.map(Path::to_owned),
            html: html.map(Path::to_owned),
            objects: Vec::new(),
        })
    }

    /// Takes one workload's object; in the file it is one line. The first line of a run replaces
    /// what an earlier run has left.
    pub(crate) fn take(&mut self, object: Value) -> Result<(), BenchError> {
        if let Some(file) = &self.json {
            append(file, &format!("{object}\n"), self.objects.is_empty())?;
        }
        self.objects.push(object);
        Ok(())
    }

    /// All objects so far.
    pub(crate) fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// Writes the report.
    pub(crate) fn finish(&self) -> Result<(), BenchError> {
        match &self.html {
            None => Ok(()),
            Some(file) => write(file, &html::page(&self.objects)),
        }
    }
}

/// Prints to standard output.
pub(crate) fn print(text: &str) -> Result<(), BenchError> {
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .doing("write to standard output")
}

/// Writes a whole file; `-` is standard output.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), BenchError> {
    if is_stdout(file) {
        return print(text);
    }
    fs::write(file, text).doing(format!("write {}", file.display()))
}

fn append(file: &Path, line: &str, first: bool) -> Result<(), BenchError> {
    if is_stdout(file) {
        return print(line);
    }
    let opened = OpenOptions::new()
        .create(true)
        .write(true)
        .append(!first)
        .truncate(first)
        .open(file);
    opened
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .doing(format!("write {}", file.display()))
}

fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}
