//! `DATA_DIR/bans.json`: the bans, so that a restart or a kill frees nobody.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stentor_control::bans::Ban;

/// The version of the file. One that a newer server has written is not read.
const VERSION: u32 = 1;

/// The largest file that is read: 10,000 bans have room in it.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Document {
    v: u32,
    bans: Vec<Ban>,
}

/// Reads the file; without one there are no bans.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn read(path: &Path) -> Result<Vec<Ban>, String> {
    let text = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(file) if file.len() > BYTES_MAX => return Err("it is too large".to_owned()),
        _ => fs::read_to_string(path).map_err(|error| error.to_string())?,
    };
    let document: Document = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    match document.v {
        VERSION => Ok(document.bans),
        v => Err(format!(
            "it has the version {v}, and this server reads {VERSION}"
        )),
    }
}

/// Puts a file that cannot be read aside; where it is then.
///
/// # Errors
/// When it cannot be renamed.
pub(super) fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = path.with_extension("json.damaged");
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Writes the file in one step: whatever happens, the old one or the new one is there.
///
/// # Errors
/// When it cannot be written; then the old one is there.
pub(super) fn write(path: &Path, bans: &[Ban]) -> io::Result<()> {
    let document = Document {
        v: VERSION,
        bans: bans.to_vec(),
    };
    let text = serde_json::to_vec(&document)?;
    let draft = path.with_extension("json.new");
    // One that a killed server left behind.
    let _ = fs::remove_file(&draft);
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&draft)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    // The name of the file has to last too.
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bans.json");
        assert_eq!(read(&path), Ok(Vec::new()));
        let ban = Ban {
            reason: "a \"reason\"".into(),
            until: Some(7),
            ..Ban::default()
        };
        write(&path, std::slice::from_ref(&ban)).unwrap();
        assert_eq!(read(&path), Ok(vec![ban]));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for text in ["{", "", "{\"v\":2,\"bans\":[]}"] {
            fs::write(&path, text).unwrap();
            assert!(read(&path).is_err(), "{text}");
        }
        let aside = put_aside(&path).unwrap();
        assert!(aside.exists() && !path.exists());
    }
}
