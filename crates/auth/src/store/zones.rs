//! Numbers for the names of zones.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stentor_topic::Zone;

use crate::model::DEFAULT_ZONE;

/// Gives each zone a number and never another one: what is kept on disk names zones by number. The
/// file has one name per line; the line's number is the zone's.
#[derive(Debug)]
pub struct ZoneNumbers(Mutex<State>);

#[derive(Debug)]
struct State {
    numbers: HashMap<String, u32>,
    /// Where new zones are written; `None` for a server that keeps nothing.
    file: Option<File>,
}

impl ZoneNumbers {
    /// Numbers that nobody remembers.
    #[must_use]
    pub fn forgetful() -> Self {
        Self(Mutex::new(State {
            numbers: HashMap::new(),
            file: None,
        }))
    }

    /// The numbers in a file, which is made if it is missing.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        if !text.is_empty() && !text.ends_with('\n') {
            // The last line was cut off by a full disk or a power loss; nobody has used it.
            text.truncate(whole_lines(&text));
            file.set_len(text.len() as u64)?;
        }
        Ok(Self(Mutex::new(State {
            numbers: numbered(&text),
            file: Some(file),
        })))
    }

    /// The numbers in a file as it is now, which is not written: new ones are forgotten.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        Ok(Self(Mutex::new(State {
            numbers: numbered(&text[..whole_lines(&text)]),
            file: None,
        })))
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
        let number = u32::try_from(state.numbers.len() + 1).map_err(io::Error::other)?;
        if name.contains('\n') {
            return Err(io::Error::other("the zone's name has a line feed"));
        }
        if let Some(file) = &mut state.file {
            file.write_all(format!("{name}\n").as_bytes())?;
            file.sync_data()?;
        }
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
        let found = state
            .numbers
            .iter()
            .find(|(_, number)| **number == zone.get());
        found.map(|(name, _)| name.clone())
    }

    /// A name is added in one step, so the table is whole after any panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the last whole line ends.
fn whole_lines(text: &str) -> usize {
    text.rfind('\n').map_or(0, |end| end + 1)
}

fn numbered(text: &str) -> HashMap<String, u32> {
    let names = text.lines().map(str::to_owned);
    names.zip(1..).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_keeps_its_number_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zones");
        let numbers = ZoneNumbers::open(&path).unwrap();
        assert_eq!(numbers.number("game").unwrap(), Zone(1));
        assert_eq!(numbers.number("chat").unwrap(), Zone(2));
        assert_eq!(numbers.number(DEFAULT_ZONE).unwrap(), Zone::DEFAULT);
        drop(numbers);
        // A line that was not written to its end.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"torn").unwrap();
        let read = ZoneNumbers::read(&path).unwrap();
        assert_eq!(read.known("chat"), Some(Zone(2)));
        assert_eq!(read.known("torn"), None);
        let missing = ZoneNumbers::read(&folder.path().join("none")).unwrap();
        assert_eq!(missing.known("chat"), None);
        let numbers = ZoneNumbers::open(&path).unwrap();
        assert_eq!(numbers.known("torn"), None);
        assert_eq!(numbers.number("new").unwrap(), Zone(3));
        assert_eq!(numbers.number("chat").unwrap(), Zone(2));
        assert_eq!(numbers.name(Zone(1)).as_deref(), Some("game"));
        assert_eq!(numbers.name(Zone(9)), None);
        assert!(numbers.number("a\nb").is_err());
    }
}
