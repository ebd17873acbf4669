//! The program that has TLS in it.
//!
//! The library of TLS makes a program four times as large, and prepares itself at each start. Mail
//! servers start `stentor-call` for every message, mostly without TLS. So a program of its own has
//! TLS, and takes over where it is needed. It does all that `stentor-call` does: it gets the same
//! arguments, variables and streams, and on Unix it is the same process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use stentor_call::Fault;

/// The program's name.
const NAME: &str = "stentor-call-tls";

/// A variable that says that `stentor-call` has already looked for the program. Whoever reads this
/// was started in its place, and would look for it without end.
const MARK: &str = "STENTOR_CALL_HANDED_OVER";

/// Goes on as the program with TLS, which gets these arguments. Returns why it did not.
pub(crate) fn hand_over(arguments: &[OsString]) -> Fault {
    if let Some(started) = env::var_os(MARK) {
        return Fault::NoTls(format!(
            "{} is not the program of that name: it has started stentor-call; {REMEDY}",
            Path::new(&started).display()
        ));
    }
    let own = env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent);
    let path = env::var_os("PATH");
    match places(own, path.as_deref()).find(|place| place.is_file()) {
        Some(program) => {
            let error = take_over(&program, arguments);
            Fault::NoTls(format!("cannot start {}: {error}", program.display()))
        }
        None => Fault::NoTls(missing(own)),
    }
}

/// What to do where the program is missing.
const REMEDY: &str = "build both by `make call`, and install stentor-call-tls beside stentor-call";

/// Why it cannot be started.
fn missing(own: Option<&Path>) -> String {
    let beside = own.map(|own| format!("{} nor in ", own.display()));
    let beside = beside.unwrap_or_default();
    format!("TLS needs the program {NAME}, which is neither in {beside}a folder of PATH; {REMEDY}")
}

/// Where the program may be: beside this one, then in the folders of `PATH`. Relative ones do not
/// count: the current folder may be one in which strangers write.
fn places(own: Option<&Path>, path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let name = format!("{NAME}{}", env::consts::EXE_SUFFIX);
    let path = path.map(|path| env::split_paths(path).collect::<Vec<_>>());
    let folders = own.map(Path::to_owned).into_iter();
    let folders = folders.chain(path.into_iter().flatten());
    let folders = folders.filter(|folder| folder.is_absolute());
    folders.map(move |folder| folder.join(&name))
}

/// Returns only if it failed. The standard library would do it too, but adds 24 kB, and two page
/// faults to every call without TLS. Signals stay as they are.
#[cfg(unix)]
#[expect(unsafe_code, reason = "execve: the safe way makes every call slower")]
fn take_over(program: &Path, arguments: &[OsString]) -> io::Error {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::ptr;

    let own = [program.as_os_str()].into_iter();
    let words = own.chain(arguments.iter().map(OsString::as_os_str));
    let words: Result<Vec<CString>, _> = words.map(|word| CString::new(word.as_bytes())).collect();
    let variables = env::vars_os().chain([(MARK.into(), program.into())]);
    let variables: Result<Vec<CString>, _> = variables
        .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect();
    let (Ok(words), Ok(variables)) = (words, variables) else {
        return io::ErrorKind::InvalidInput.into();
    };
    let pointers = |texts: &[CString]| {
        let texts = texts.iter().map(|text| text.as_ptr());
        texts.chain([ptr::null()]).collect::<Vec<_>>()
    };
    let (argv, envp) = (pointers(&words), pointers(&variables));
    // SAFETY: both are lists of C strings with a null at their end, and `words` and `variables` own
    // the strings until it returns, which it does only if it failed.
    unsafe { libc::execve(argv[0], argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// Returns only if it failed. This process waits for the other one, and ends as it does.
#[cfg(not(unix))]
fn take_over(program: &Path, arguments: &[OsString]) -> io::Error {
    let mut command = std::process::Command::new(program);
    match command.args(arguments).env(MARK, program).status() {
        Ok(status) => match status.code() {
            Some(code) => std::process::exit(code),
            None => io::Error::other("it was killed"),
        },
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_relative_folder_is_searched() {
        let path = env::join_paths(["", ".", "bin", "/usr/bin", "../x"].map(Path::new)).unwrap();
        let found: Vec<PathBuf> = places(Some(Path::new("/opt")), Some(&path)).collect();
        let expected = ["/opt/stentor-call-tls", "/usr/bin/stentor-call-tls"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(places(None, None).count(), 0);
    }
}
