//! What commands about the operator's own code share.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use crate::failure::Failure;
use crate::output::print;

/// Whether something new can have this name, which a file gets.
pub(crate) fn check_name(name: &str, what: &str, example: &str) -> Result<(), Failure> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        let reason = format!(
            "{name:?} is no name of {what}; give letters, digits, - and _, such as {example:?}"
        );
        return Err(Failure::new(reason));
    }
    Ok(())
}

/// Writes a file that is not there yet, and says where it is.
pub(crate) fn write(dir: &Path, file: &str, text: &str) -> Result<(), Failure> {
    let path = dir.join(file);
    let opened = OpenOptions::new().write(true).create_new(true).open(&path);
    match opened.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => print(format!("{}\n", path.display())),
        Err(error) => {
            let path = path.display();
            Err(Failure::new(format!("cannot make {path}: {error}")))
        }
    }
}
