//! Where results go: tables to standard output as they come, objects to files. Where standard
//! output is the file, it has nothing else, and tables go to standard error.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{BenchError, Doing};
use crate::interrupt::{self, Kept};
use crate::report::html;
use crate::report::visible::visible;

/// The files that a run writes, and what it has measured so far.
#[derive(Debug)]
pub(crate) struct Output {
    json: Option<PathBuf>,
    html: Option<PathBuf>,
    objects: Vec<Value>,
    /// Whether what is measured is short, and its figures noisy.
    is_quick: bool,
    /// The files that were not there before: a run that ends early leaves no empty ones.
    _new: Vec<Kept>,
}

impl Output {
    /// Checks at once that the files can be written, and are none of those that are read: an hour
    /// later would be too late.
    pub(crate) fn open(
        json: Option<&Path>,
        html: Option<&Path>,
        inputs: &[&Path],
    ) -> Result<Self, BenchError> {
        for (option, file) in [("--json", json), ("--html", html)] {
            if let Some(file) = file {
                refuse_input(option, file, inputs)?;
            }
        }
        let same =
            || BenchError::usage("--json and --html name the same file: give each one of its own");
        if json == html && json.is_some() {
            return Err(same());
        }
        let mut new = Vec::new();
        for file in json.into_iter().chain(html).filter(|file| !is_stdout(file)) {
            if OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(file)
                .is_ok()
            {
                new.push(interrupt::keep_filled(file.to_owned()));
                continue;
            }
            let opened = OpenOptions::new().create(true).append(true).open(file);
            opened.doing(format!("write {}", file.display()))?;
        }
        // Now both are there: by another name, they may be one.
        if json
            .zip(html)
            .is_some_and(|(json, html)| is_same(json, html))
        {
            return Err(same());
        }
        Ok(Self {
            json: json.map(Path::to_owned),
            html: html.map(Path::to_owned),
            objects: Vec::new(),
            is_quick: false,
            _new: new,
        })
    }

    /// All that comes is measured with `--quick`: its figures are noisy.
    pub(crate) fn mark_quick(&mut self) {
        self.is_quick = true;
    }

    /// Shows a table, or a line above or below one.
    ///
    /// # Errors
    /// When it cannot be written, or nobody reads it and there are no files that somebody could
    /// read later: then there is no reason to go on.
    pub(crate) fn show(&self, text: &str) -> Result<(), BenchError> {
        let files = || self.json.iter().chain(&self.html);
        // Servers have their say in it, by their names and last words.
        let text = &visible(text);
        if files().any(|file| is_stdout(file)) {
            // The file is what was asked for: who closes standard error does not want the table.
            let _ = io::stderr().lock().write_all(text.as_bytes());
            return Ok(());
        }
        let is_read = print_to_reader(text)?;
        if !is_read && files().next().is_none() {
            return Err(BenchError::NobodyReads);
        }
        Ok(())
    }

    /// Takes one workload's object; in the file it is one line. The first line of a run replaces
    /// what an earlier run has left.
    ///
    /// # Errors
    /// When it cannot be written, or nobody reads it any more.
    pub(crate) fn take(&mut self, mut object: Value) -> Result<(), BenchError> {
        if self.is_quick {
            object["quick"] = true.into();
        }
        let line = format!("{object}\n");
        match &self.json {
            Some(file) if is_stdout(file) => {
                let has_reader = print_to_reader(&line)? || self.html.is_some();
                has_reader.then_some(()).ok_or(BenchError::NobodyReads)?;
            }
            Some(file) => append(file, &line, self.objects.is_empty())?,
            None => {}
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

/// Prints to standard output. A reader that has left, as `head` does, is not a failure.
pub(crate) fn print(text: &str) -> Result<(), BenchError> {
    print_to_reader(text).map(drop)
}

/// Prints to standard output; whether anybody reads it.
fn print_to_reader(text: &str) -> Result<bool, BenchError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).doing("write to standard output"),
    }
}

/// Writes a whole file; `-` is standard output.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), BenchError> {
    if is_stdout(file) {
        return print(text);
    }
    fs::write(file, text).doing(format!("write {}", file.display()))
}

fn append(file: &Path, line: &str, first: bool) -> Result<(), BenchError> {
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

/// Refuses to write to a file that is read as well: it would be lost, whatever it is called.
///
/// # Errors
/// When the output, which `option` names, is one of these.
pub(crate) fn refuse_input(
    option: &str,
    output: &Path,
    inputs: &[impl AsRef<Path>],
) -> Result<(), BenchError> {
    let mut inputs = inputs.iter().map(AsRef::as_ref);
    match inputs.find(|input| !is_stdout(output) && is_same(output, input)) {
        None => Ok(()),
        Some(input) => Err(BenchError::usage(format!(
            "{option} {}: this is {}, which is read, and would be replaced: name another file",
            output.display(),
            input.display()
        ))),
    }
}

/// Whether two names, links included, are of one file. Devices are none: nothing in them is
/// replaced.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |file: &Path| {
        let found = fs::metadata(file).ok().filter(Metadata::is_file)?;
        Some((found.dev(), found.ino()))
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_ends_early_leaves_no_new_empty_file() {
        let folder = tempfile::tempdir().unwrap();
        let [json, html, before] = ["r.json", "r.html", "before"].map(|f| folder.path().join(f));
        let open = |json: &Path| Output::open(Some(json), Some(&html), &[]).unwrap();
        drop(open(&json));
        assert!(!json.exists() && !html.exists());
        let mut output = open(&json);
        output.take(Value::Null).unwrap();
        drop(output);
        assert!(json.exists() && !html.exists(), "what was measured stays");
        fs::write(&before, "").unwrap();
        drop(open(&before));
        assert!(before.exists(), "it was somebody else's");
        open(&json).finish().unwrap();
        assert!(html.exists());
        // One of them cannot be written.
        let [new, none] = ["new.json", "no/folder"].map(|f| folder.path().join(f));
        Output::open(Some(&new), Some(&none), &[]).unwrap_err();
        assert!(!new.exists());
    }

    /// By whatever name; devices are written to as often as one likes.
    #[test]
    fn a_file_that_is_read_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let [read, link, hard, other] =
            ["read", "link", "hard", "other"].map(|file| folder.path().join(file));
        fs::write(&read, "what is read").unwrap();
        std::os::unix::fs::symlink("read", &link).unwrap();
        fs::hard_link(&read, &hard).unwrap();
        let long = folder.path().join(".").join("read");
        for file in [&read, &link, &hard, &long] {
            let refused = Output::open(Some(file), None, &[&other, &read]).unwrap_err();
            let told = format!("--json {}: this is {}", file.display(), read.display());
            assert!(refused.to_string().starts_with(&told), "{refused}");
            Output::open(Some(&read), Some(file), &[]).unwrap_err();
        }
        assert_eq!(fs::read_to_string(&read).unwrap(), "what is read");
        assert!(!other.exists());
        let null = Path::new("/dev/null");
        Output::open(Some(null), Some(&other), &[null]).unwrap();
    }
}
