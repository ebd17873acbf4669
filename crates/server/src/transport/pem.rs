//! Files of certificates and keys.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use zeroize::Zeroizing;

/// Bytes of such a file at most: a thousand authorities take less.
const BYTES_MAX: u64 = 16 << 20;

/// What a file of certificates or keys holds.
///
/// A pipe could keep the server waiting for ever, so only regular files are read. One that is
/// opened without blocking does not wait for another end.
///
/// # Errors
/// A sentence that names the file, what is wrong and what to do.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let place = path.display();
    let failed = |error: std::io::Error| {
        format!("cannot read {place}: {error}; check the path and its permissions")
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(format!(
            "{place} is not a regular file; name a file with the certificate or key, no folder, \
             pipe or device"
        ));
    }
    // A buffer that grew would leave pieces of a key behind.
    let mut bytes = Zeroizing::new(Vec::new());
    let len = metadata.len().min(BYTES_MAX);
    bytes.reserve(len as usize + 1);
    file.take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!(
            "{place} is larger than {} MiB, so it holds no certificate or key; check the path",
            BYTES_MAX >> 20
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_none_that_is_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pem");
        std::fs::write(&path, "text").unwrap();
        let link = folder.path().join("link.pem");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(*read(&link).unwrap(), b"text");
        File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.contains("a.pem is larger than 16 MiB"), "{error}");
        let pipe = folder.path().join("pipe.pem");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [&*pipe, folder.path(), Path::new("/dev/zero")] {
            let error = read(path).unwrap_err();
            let expected = format!("{} is not a regular file", path.display());
            assert!(error.starts_with(&expected), "{error}");
        }
        let error = read(&folder.path().join("none.pem")).unwrap_err();
        assert!(
            error.starts_with("cannot read ") && error.contains("none.pem"),
            "{error}"
        );
    }
}
