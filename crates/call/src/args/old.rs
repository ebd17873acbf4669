//! The old spelling: `scope -s HOST -p PORT /sizecheck -file @@FILE -rrcpt @@RRCPT`.
//!
//! The client of 2002 had the message behind the procedure's name, among the arguments. Lines of
//! filter files that were written for it are understood: a message that nobody looks at would pass
//! whatever it is. What is said in the new spelling goes before; then the old words are arguments
//! like others. Other options that stand there are refused, for the same reason, unless they come
//! behind `--`.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

use stentor_call_protocol::limits::HEAD_BYTES_MAX;

use super::{FLAGS, Given, Rest, VALUED, port};
use crate::file::regular;
use crate::profile::Profile;

/// What parts the envelope of a spool file from its message.
const MARKER: &[u8] = b"<<MAIL-DATA>>";

/// How XMail names the files that filters get while the SMTP client waits.
const SMTP_ENDING: &str = ".xtmp";

/// Options that were written before the procedure, or are `stentor call`'s, and what they are here.
const SHORT: [(&str, &str); 3] = [("-s", "--server"), ("-p", "--port"), ("-f", "--file")];

/// The options of today that an old line has among the arguments.
const UNDERSTOOD: [&str; 3] = ["-file", "-server", "-port"];

/// Options of today that stand among the arguments: the first of each.
#[derive(Debug, Default)]
pub(super) struct Words {
    file: Option<OsString>,
    server: Option<OsString>,
    port: Option<OsString>,
}

impl Words {
    /// Notes an argument that may be such an option.
    pub(super) fn add(&mut self, name: &str, value: &OsStr) {
        let word = match name {
            "-file" => &mut self.file,
            "-server" => &mut self.server,
            "-port" => &mut self.port,
            _ => return,
        };
        word.get_or_insert_with(|| value.to_owned());
    }
}

impl Given {
    /// Takes what the old spelling says out of the arguments.
    ///
    /// # Errors
    /// When its port is none, or an option stands there twice.
    pub(super) fn understand_old(&mut self) -> Result<(), String> {
        let old = std::mem::take(&mut self.old);
        if let (None, Some(file)) = (&self.file, old.file) {
            if self.profile.is_none() {
                self.profile = profile_of(Path::new(&file));
            }
            self.file = Some(file);
            self.take_out("file")?;
        }
        if let (None, Some(host)) = (&self.host, old.server) {
            self.host = Some(host);
            self.take_out("server")?;
        }
        // XMail's names of the envelope as it is after aliases.
        for (old, key) in [("rrcpt", "rcpt"), ("rfrom", "from")] {
            if self.arguments.iter().all(|(name, _)| name != key) {
                let named = self.arguments.iter_mut().filter(|(name, _)| name == old);
                named.for_each(|(name, _)| key.clone_into(name));
            }
        }
        if let (None, Some(text)) = (self.port, old.port) {
            self.port = Some(port(&text.to_string_lossy())?);
            self.take_out("port")?;
        }
        Ok(())
    }

    /// Refuses an option that stands among the arguments in a spelling that is none of an old line:
    /// as an argument it would have no effect, and be missed by nobody. What it says about the exit
    /// code counts.
    ///
    /// # Errors
    /// When it is such an option.
    pub(super) fn refuse_option(&mut self, name: &str, rest: &mut Rest<'_>) -> Result<(), String> {
        let Some(option) = option_of(name, rest) else {
            return Ok(());
        };
        if VALUED.contains(&option) {
            self.option(option, name, rest)?;
        }
        Err(format!(
            "{name} after the procedure is not understood: write {option}, or `-- {name} VALUE` if \
             it is an argument of the procedure"
        ))
    }

    /// Takes the argument of this name away, which is an option.
    fn take_out(&mut self, key: &str) -> Result<(), String> {
        let count = self.arguments.len();
        self.arguments.retain(|(name, _)| name != key);
        if count - self.arguments.len() > 1 {
            return Err(format!("-{key} is given twice; leave one out"));
        }
        Ok(())
    }
}

/// The option that a word among the arguments seems to be.
fn option_of(name: &str, rest: &mut Rest<'_>) -> Option<&'static str> {
    if let Some((_, option)) = SHORT.iter().find(|(short, _)| *short == name) {
        return Some(option);
    }
    let mut options = VALUED.iter().chain(&FLAGS).copied();
    let option = options.find(|option| option.strip_prefix('-') == Some(name))?;
    let is_argument = match option {
        // `/status` has an argument of this name.
        "--format" => !rest
            .peek()
            .is_some_and(|it| *it == "message" || *it == "xmail"),
        _ => UNDERSTOOD.contains(&name),
    };
    (!is_argument).then_some(option)
}

/// The version of XMail that has written a spool file, which says how it reads exit codes; `None`
/// if it is not such a file. Since 1.14 spool files begin with a line about the connection.
fn profile_of(path: &Path) -> Option<Profile> {
    let mut head = Vec::new();
    let file = regular(path).and_then(std::fs::File::open).ok()?;
    file.take(HEAD_BYTES_MAX as u64)
        .read_to_end(&mut head)
        .ok()?;
    let mut lines = head
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end);
    if !lines.any(|line| line == MARKER) {
        return None;
    }
    let name = path.file_name().unwrap_or_default();
    Some(if !head.starts_with(b"[") {
        Profile::Xmail2002
    } else if name.as_encoded_bytes().ends_with(SMTP_ENDING.as_bytes()) {
        Profile::XmailSmtp
    } else {
        Profile::XmailQueue
    })
}
