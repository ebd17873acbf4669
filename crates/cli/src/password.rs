//! Where passwords come from.

use std::fmt;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::Path;

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

use crate::failure::Failure;
use crate::file;

/// The largest file with a password, in bytes, and the longest line of standard input.
const BYTES_MAX: u64 = 64 << 10;

/// Why bytes cannot be a password: clients would send others.
pub(crate) const NO_UTF8: &str = "it is not valid UTF-8, which clients send; save it as UTF-8";

/// The first line of a file.
pub(crate) fn from_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = file::read(path, BYTES_MAX)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    let end = bytes
        .iter()
        .position(|&byte| byte == b'\n')
        .unwrap_or(bytes.len());
    let line = &bytes[..end];
    Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
}

/// Whether there is somebody to ask.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on the terminal, without echo.
pub(crate) fn ask(question: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot ask for the password: {error}"));
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).map_err(|error| failed(error.into()))?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    silent.local_flags.insert(LocalFlags::ECHONL);
    // Before the question: what is typed as soon as it is seen must be neither shown nor lost.
    tcsetattr(&stdin, SetArg::TCSAFLUSH, &silent).map_err(|error| failed(error.into()))?;
    eprint!("{question}: ");
    let line = io::stderr()
        .flush()
        .map_err(failed)
        .and_then(|()| read_line());
    // The terminal belongs to the shell again; whatever came of the line.
    let _ = tcsetattr(&stdin, SetArg::TCSAFLUSH, &before);
    line
}

/// Asks for a new password, or reads a line of standard input where there is nobody to ask.
/// `instead` says what else may be done where there is neither.
pub(crate) fn ask_twice(instead: &str) -> Result<String, Failure> {
    // A terminal shows what is typed, unless somebody sees the question and the echo is off.
    let stdin = io::stdin();
    let is_typed = stdin.is_terminal();
    if is_typed && !can_ask() {
        let message = format!("cannot ask for the password without a terminal; {instead}");
        return Err(Failure::new(message));
    }
    if !is_typed {
        let line = read_line()?;
        return match line.is_empty() {
            true => Err(Failure::new(format!(
                "there is no password: standard input is not a terminal, and its first line \
                 is empty; {instead}"
            ))),
            false => Ok(line),
        };
    }
    let first = ask("Password")?;
    match ask("Again")? == first {
        true => Ok(first),
        false => Err(Failure::new("the passwords differ")),
    }
}

/// A line of standard input, without its end.
pub(crate) fn read_line() -> Result<String, Failure> {
    let failed =
        |error: &dyn fmt::Display| Failure::new(format!("cannot read the password: {error}"));
    let mut line = Vec::new();
    let mut input = io::stdin().lock().take(BYTES_MAX + 1);
    input
        .read_until(b'\n', &mut line)
        .map_err(|error| failed(&error))?;
    if line.len() as u64 > BYTES_MAX {
        return Err(failed(&"the line has more than 64 KiB"));
    }
    let line = String::from_utf8(line).map_err(|_| failed(&NO_UTF8))?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
