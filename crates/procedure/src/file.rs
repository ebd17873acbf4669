//! Reading files that somebody else puts there.

use std::fs;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode as FileMode, OFlags};

/// The longest script or manifest, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of a script or manifest. Only a regular file is read: others could block.
pub(crate) fn read_regular(path: &Path) -> Result<String, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fail = |error: std::io::Error| error.to_string();
    let file =
        rustix::fs::open(path, flags, FileMode::empty()).map_err(|error| fail(error.into()))?;
    let file = fs::File::from(file);
    if !file.metadata().map_err(fail)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut text = String::new();
    let mut file = file.take(FILE_BYTES_MAX + 1);
    file.read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err("the file has more than 1 MiB".to_owned());
    }
    Ok(text)
}
