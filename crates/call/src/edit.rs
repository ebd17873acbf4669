//! Passing the message on, with the changes that the procedure asked for.

use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use crate::args::{Changed, Options, beside};
use crate::fault::Fault;
use crate::file::Message;
use crate::platform::{self, Deadline};

/// The longest piece that is copied at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A change that was received. The protocol's checks hold: offsets ascend, nothing overlaps, all
/// lies inside the file.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) offset: u64,
    pub(crate) deleted: u64,
    pub(crate) inserted: Vec<u8>,
}

/// Puts the changed message where the options say.
///
/// # Errors
/// When it cannot be written. A file that was to be changed is as it was then.
pub(crate) fn deliver(
    message: Message,
    options: &Options,
    changes: &[Change],
    deadline: &Deadline,
) -> Result<(), Fault> {
    if let Some(first) = changes.first()
        && first.offset < message.start(options.format)?
    {
        let reason = "the server changes the part before the message";
        return Err(Fault::Broken(reason.to_owned()));
    }
    match (options.changed, &message.path) {
        (Changed::Printed, _) => print(&message, changes, deadline),
        (Changed::InPlace, Some(path)) if !changes.is_empty() => {
            replace(&message, path, changes, deadline)
        }
        _ => Ok(()),
    }
}

/// Prints the message. What somebody has written to its file in the meantime may be in it, and
/// nobody was asked about that.
fn print(message: &Message, changes: &[Change], deadline: &Deadline) -> Result<(), Fault> {
    copy(message, changes, &mut platform::Output(deadline), deadline)?;
    let now = message.file.metadata();
    let now = platform::Mark::of(&now.map_err(|error| cannot("look at the message", &error))?);
    match &message.mark {
        Some(mark) if !mark.has_content_of(&now) => Err(Fault::Delivery(
            "the message was changed during the call, so what was printed is not what the server \
             was asked about"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Writes a new file beside the old one and gives it the old one's name. Whoever looks sees the
/// old message or the new one, never half of it. A file that others change as well, or that has
/// other names, stays as it is; and so does one that cannot be copied before the deadline.
fn replace(
    message: &Message,
    path: &Path,
    changes: &[Change],
    deadline: &Deadline,
) -> Result<(), Fault> {
    let new = beside(
        path.as_os_str(),
        &format!(".stentor-{}", std::process::id()),
    );
    let what = format!("change {}", path.display());
    let mut file =
        platform::create_like(&new, &message.file).map_err(|error| cannot(&what, &error))?;
    let written = copy(message, changes, &mut file, deadline).and_then(|()| {
        drop(file);
        check(message, path)
            .map_err(|reason| format!("cannot {what}: {reason}; it stays as it is"))
            .map_err(Fault::Delivery)?;
        in_time(deadline)?;
        fs::rename(&new, path).map_err(|error| cannot(&what, &error))
    });
    if written.is_err() {
        // The reason for the failure is what counts.
        let _ = fs::remove_file(&new);
    }
    written
}

/// Whether a new file may take the place of the one that was read.
fn check(message: &Message, path: &Path) -> Result<(), String> {
    let now = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if now.is_symlink() {
        return Err("it is a symbolic link; name the file that it leads to".to_owned());
    }
    let names = platform::names(&now);
    if names > 1 {
        return Err(format!(
            "it has {names} names (hard links), and the others would keep the old message"
        ));
    }
    if message.mark.as_ref() != Some(&platform::Mark::of(&now)) {
        return Err("it was changed during the call".to_owned());
    }
    Ok(())
}

fn copy(
    message: &Message,
    changes: &[Change],
    out: &mut impl Write,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let mut at = 0;
    for change in changes {
        copy_range(message, at..change.offset, out, deadline)?;
        for piece in change.inserted.chunks(PIECE_BYTES) {
            write(piece, out, deadline)?;
        }
        at = change.offset + change.deleted;
    }
    copy_range(message, at..message.size, out, deadline)
}

fn copy_range(
    message: &Message,
    range: Range<u64>,
    out: &mut impl Write,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(PIECE_BYTES as u64) as usize;
        let piece = message.read(at, len)?;
        if piece.len() < len {
            return Err(Fault::File("the message has become shorter".to_owned()));
        }
        write(&piece, out, deadline)?;
        at += len as u64;
    }
    Ok(())
}

fn write(piece: &[u8], out: &mut impl Write, deadline: &Deadline) -> Result<(), Fault> {
    in_time(deadline)?;
    out.write_all(piece)
        .map_err(|error| cannot("write the message", &error))
}

/// Whether there is time for the next step. A file is changed by the last one alone.
fn in_time(deadline: &Deadline) -> Result<(), Fault> {
    match deadline.left() {
        Ok(_) => Ok(()),
        Err(_) => Err(Fault::TooLarge),
    }
}

fn cannot(what: &str, error: &io::Error) -> Fault {
    Fault::Delivery(format!("cannot {what}: {error}"))
}
