//! Numbers for the names of zones.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stentor_topic::Zone;

use crate::model::DEFAULT_ZONE;

/// How the copy begins; the checksum of all that follows its first line comes behind it.
const MAGIC: &str = "stentor-zones 1 ";

/// Numbers that are looked after; nobody has as many zones.
const NUMBERS_MAX: u32 = 1 << 20;

/// Where the numbers of zones are kept.
#[derive(Clone, Debug)]
pub struct ZoneFiles {
    /// The server's own list.
    pub own: PathBuf,
    /// A copy beside the messages that name zones by number: it belongs to them, so it is right
    /// where the two contradict each other.
    pub copy: PathBuf,
    /// The highest number that those messages use.
    pub used: u32,
}

/// Gives each zone a number and never another one: what is kept on disk names zones by number. A
/// file has one name per line; the line's number is the zone's. An empty line stands for a zone
/// whose name is lost: nobody gets its number.
#[derive(Debug)]
pub struct ZoneNumbers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The names, by number less one.
    names: Names,
    numbers: HashMap<String, u32>,
    /// Where new zones are written; `None` for a server that keeps nothing.
    files: Option<ZoneFiles>,
    /// What was wrong with the files.
    trouble: Option<String>,
}

impl ZoneNumbers {
    /// Numbers that nobody remembers.
    #[must_use]
    pub fn forgetful() -> Self {
        Self(Mutex::default())
    }

    /// The numbers in files. Missing files are created, and damaged ones are repaired.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn open(files: &ZoneFiles) -> io::Result<Self> {
        let (mut state, loaded) = State::load(files)?;
        if let Err(error) = loaded.mend(files, &state.names) {
            // They say enough as they are, until a zone is new.
            state.trouble = Some(format!("the numbers of zones cannot be written: {error}"));
        }
        state.files = Some(files.clone());
        Ok(Self(Mutex::new(state)))
    }

    /// The numbers in files as they are now, which are not written: new ones are forgotten.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn read(files: &ZoneFiles) -> io::Result<Self> {
        let (state, _) = State::load(files)?;
        Ok(Self(Mutex::new(state)))
    }

    /// What was wrong with the files, in a sentence.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// The number of a zone; a new zone gets the next one. Costs a write for a new zone, else a
    /// look into a table.
    ///
    /// # Errors
    /// When the number of a new zone cannot be written down.
    pub fn number(&self, name: &str) -> io::Result<Zone> {
        if name == DEFAULT_ZONE {
            return Ok(Zone::DEFAULT);
        }
        let mut state = self.lock();
        if let Some(number) = state.numbers.get(name) {
            return Ok(Zone(*number));
        }
        let number = u32::try_from(state.names.len() + 1).map_err(io::Error::other)?;
        if name.is_empty() || name.contains('\n') {
            return Err(io::Error::other(
                "the zone's name is empty or has a line feed",
            ));
        }
        let mut names = state.names.clone();
        names.push(Some(name.to_owned()));
        if let Some(files) = &state.files {
            // The copy is never ahead of the other one, which may then be a line longer.
            replace(&files.own, &own_text(&names))?;
            replace(&files.copy, &copy_text(&names))?;
        }
        state.names = names;
        state.numbers.insert(name.to_owned(), number);
        Ok(Zone(number))
    }

    /// The number of a zone that has one.
    #[must_use]
    pub fn known(&self, name: &str) -> Option<Zone> {
        if name == DEFAULT_ZONE {
            return Some(Zone::DEFAULT);
        }
        self.lock().numbers.get(name).copied().map(Zone)
    }

    /// The name of a zone that has this number.
    #[must_use]
    pub fn name(&self, zone: Zone) -> Option<String> {
        if zone == Zone::DEFAULT {
            return Some(DEFAULT_ZONE.to_owned());
        }
        let state = self.lock();
        let at = (zone.get() as usize).checked_sub(1)?;
        state.names.get(at)?.clone()
    }

    /// A name is added in one step, so the table is whole after any panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Names = Vec<Option<String>>;

/// What the files say, each by itself.
struct Loaded {
    own: Option<Names>,
    copy: Option<Names>,
    /// They give a number to two zones.
    contradicts: bool,
}

impl Loaded {
    /// Has both files say the same.
    fn mend(&self, files: &ZoneFiles, names: &[Option<String>]) -> io::Result<()> {
        if self.contradicts {
            // For whoever wants to look at it.
            let aside = files.own.with_extension("damaged");
            fs::rename(&files.own, aside).map_err(|error| naming(&files.own, &error))?;
        }
        if self.own.as_deref() != Some(names) {
            replace(&files.own, &own_text(names))?;
        }
        if self.copy.as_deref() != Some(names) {
            replace(&files.copy, &copy_text(names))?;
        }
        Ok(())
    }
}

impl State {
    fn load(files: &ZoneFiles) -> io::Result<(Self, Loaded)> {
        let own_bytes = bytes_of(&files.own)?;
        let copy_bytes = bytes_of(&files.copy)?;
        let own = own_bytes.as_deref().map(parse_own);
        let copy = copy_bytes.as_deref().and_then(parse_copy);
        let contradicts = match (&own, &copy) {
            (Some(own), Some(copy)) => !agree(own, copy),
            _ => false,
        };
        let mut names = copy.clone().unwrap_or_default();
        if let Some(own) = own.as_ref().filter(|_| !contradicts) {
            names.resize(names.len().max(own.len()), None);
            for (name, other) in names.iter_mut().zip(own) {
                *name = name.take().or_else(|| other.clone());
            }
        }
        // Nobody may get the messages of a zone whose name is lost.
        let used = files.used.min(NUMBERS_MAX) as usize;
        names.resize(names.len().max(used), None);
        let lost = names
            .iter()
            .take(used)
            .filter(|name| name.is_none())
            .count();
        let trouble = if contradicts {
            Some(format!(
                "{} is not of these retained messages: {} says whose they are, and counts",
                files.own.display(),
                files.copy.display()
            ))
        } else if lost > 0 {
            Some(format!(
                "the names of {lost} zones are lost from {}: their retained messages are kept, \
                 but not delivered; `stentor retained count` shows their numbers",
                files.own.display()
            ))
        } else if copy.is_none() && copy_bytes.is_some() {
            Some(format!(
                "{} was damaged; the server restores it",
                files.copy.display()
            ))
        } else {
            None
        };
        let mut numbers = HashMap::new();
        for (number, name) in (1..).zip(&names) {
            if let Some(name) = name {
                numbers.entry(name.clone()).or_insert(number);
            }
        }
        let state = Self {
            numbers,
            names,
            files: None,
            trouble,
        };
        let loaded = Loaded {
            own,
            copy,
            contradicts,
        };
        Ok((state, loaded))
    }
}

/// Whether no number has two names.
fn agree(one: &[Option<String>], other: &[Option<String>]) -> bool {
    one.iter().zip(other).all(|pair| match pair {
        (Some(one), Some(other)) => one == other,
        _ => true,
    })
}

/// What is in a file; `None` if it is not there.
fn bytes_of(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|error| naming(path, &error)),
    }
}

/// The names in the whole lines of a file. A last line that was cut off was not used by anybody,
/// and a line that is not text is lost.
fn parse_own(bytes: &[u8]) -> Names {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    lines.pop();
    let name = |line: &[u8]| {
        let text = std::str::from_utf8(line).ok()?;
        (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned())
    };
    lines.into_iter().map(name).collect()
}

/// The names in a copy; `None` if it is damaged.
fn parse_copy(bytes: &[u8]) -> Option<Names> {
    let at = bytes.iter().position(|byte| *byte == b'\n')?;
    let (first, rest) = (std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 1..]);
    let stored = u64::from_str_radix(first.strip_prefix(MAGIC)?, 16).ok()?;
    (stored == checksum(rest)).then(|| parse_own(rest))
}

fn own_text(names: &[Option<String>]) -> String {
    let line = |name: &Option<String>| format!("{}\n", name.as_deref().unwrap_or_default());
    names.iter().map(line).collect()
}

fn copy_text(names: &[Option<String>]) -> String {
    let text = own_text(names);
    format!("{MAGIC}{:016x}\n{text}", checksum(text.as_bytes()))
}

/// FNV-1a, which finds what a disk does to a short list.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
    })
}

/// Writes a file again: the old one stays until the new one is complete.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let write = || {
        let new = path.with_extension("new");
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        match path.parent() {
            Some(folder) => fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(|error| naming(path, &error))
}

/// An error that says which file it is about.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> ZoneFiles {
        ZoneFiles {
            own: folder.join("zones"),
            copy: folder.join("copy"),
            used: 0,
        }
    }

    #[test]
    fn a_zone_keeps_its_number_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let numbers = ZoneNumbers::open(&files).unwrap();
        assert_eq!(numbers.number("game").unwrap(), Zone(1));
        assert_eq!(numbers.number("chat").unwrap(), Zone(2));
        assert_eq!(numbers.number(DEFAULT_ZONE).unwrap(), Zone::DEFAULT);
        drop(numbers);
        // A line that was not written to its end.
        let mut file = OpenOptions::new().append(true).open(&files.own).unwrap();
        file.write_all(b"torn").unwrap();
        let read = ZoneNumbers::read(&files).unwrap();
        assert_eq!(read.known("chat"), Some(Zone(2)));
        assert_eq!(read.known("torn"), None);
        let numbers = ZoneNumbers::open(&files).unwrap();
        assert_eq!(numbers.known("torn"), None);
        assert_eq!(numbers.number("new").unwrap(), Zone(3));
        assert_eq!(numbers.number("chat").unwrap(), Zone(2));
        assert_eq!(numbers.name(Zone(1)).as_deref(), Some("game"));
        assert_eq!(numbers.name(Zone(9)), None);
        assert!(numbers.number("a\nb").is_err());
        assert_eq!(numbers.trouble(), None);
    }

    #[test]
    fn whatever_becomes_of_one_file_no_zone_gets_the_number_of_another() {
        for damage in [
            "",
            "chat\n",
            "chat\ngame\n",
            "\u{fffd}\n",
            "x",
            "game\nchat\nmore\n",
        ] {
            for is_own in [true, false] {
                let folder = tempfile::tempdir().unwrap();
                let files = files(folder.path());
                let numbers = ZoneNumbers::open(&files).unwrap();
                assert_eq!(numbers.number("game").unwrap(), Zone(1));
                assert_eq!(numbers.number("chat").unwrap(), Zone(2));
                let path = if is_own { &files.own } else { &files.copy };
                let damage = damage.as_bytes();
                let latin = [0xFF, b'\n'];
                let bytes = if damage.len() == 4 {
                    &latin[..]
                } else {
                    damage
                };
                fs::write(path, bytes).unwrap();
                for numbers in [ZoneNumbers::read(&files), ZoneNumbers::open(&files)] {
                    let numbers = numbers.unwrap();
                    assert_eq!(numbers.known("chat"), Some(Zone(2)), "{damage:?} {is_own}");
                    assert_eq!(numbers.known("game"), Some(Zone(1)), "{damage:?} {is_own}");
                }
                fs::remove_file(path).unwrap();
                let numbers = ZoneNumbers::open(&files).unwrap();
                assert_eq!(numbers.known("chat"), Some(Zone(2)));
            }
        }
    }

    #[test]
    fn a_number_whose_name_is_lost_is_not_given_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = ZoneFiles {
            used: 2,
            ..files(folder.path())
        };
        let numbers = ZoneNumbers::open(&files).unwrap();
        assert!(numbers.trouble().is_some());
        assert_eq!(numbers.number("beta").unwrap(), Zone(3));
        assert_eq!(numbers.name(Zone(1)), None);
        // As an older version wrote it, without a copy.
        fs::write(&files.own, "alpha\nbeta\n").unwrap();
        fs::remove_file(&files.copy).unwrap();
        let numbers = ZoneNumbers::open(&files).unwrap();
        assert_eq!(numbers.known("beta"), Some(Zone(2)));
        assert_eq!(numbers.trouble(), None);
    }
}
