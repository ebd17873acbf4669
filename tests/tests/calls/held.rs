//! A procedure, `/held`, whose calls last for as long as a test wants, and then reject.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use nix::sys::stat::Mode;

/// Its two pipes: on one it says that a call has begun, on the other it waits.
pub(crate) struct Held {
    begun: File,
    end: File,
}

impl Held {
    /// Writes the procedure into the folder of a plan, for so many calls at a time.
    pub(crate) fn new(folder: &Path, concurrency: usize) -> Self {
        let [begun, end] = ["begun", "end"].map(|name| folder.join(name));
        for pipe in [&begun, &end] {
            nix::unistd::mkfifo(pipe, Mode::S_IRWXU).expect("a pipe can be made");
        }
        let shell = format!(
            "echo > {}; head -c 1 {} >&2; exit 69",
            begun.display(),
            end.display()
        );
        let manifest = format!(
            "kind = \"program\"\ncommand = [\"/bin/sh\", \"-c\", \"{shell}\"]\n\
             anonymous = true\ndeadline = \"300s\"\nmemory = \"512MiB\"\n\
             concurrency = {concurrency}\n"
        );
        fs::write(folder.join("procedures/held.toml"), manifest).expect("a file can be written");
        // For both, so that opening one does not wait for the program.
        let open = |path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).open(path)
        };
        Self {
            begun: open(begun).expect("it was made"),
            end: open(end).expect("it was made"),
        }
    }

    /// Waits until one more call has begun.
    pub(crate) fn wait(&self) {
        (&self.begun).read_exact(&mut [0]).expect("it is a pipe");
    }

    /// Lets one call end.
    pub(crate) fn release(&self) {
        (&self.end).write_all(b"x").expect("it is a pipe");
    }
}
