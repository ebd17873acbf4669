//! The order of commands, and what a message is about.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Command, Reply, Words, actions, steps};
use crate::{NAME_BYTES_MAX, RECIPIENTS_BYTES_MAX, RECIPIENTS_MAX, Violation};

/// All headers of one message together.
pub const HEADERS_BYTES_MAX: usize = 1 << 20;
/// The newest version of the protocol that is spoken.
const VERSION: u32 = 6;
/// What is wanted if it is offered: to know fewer things, and to say less.
const STEPS: u32 = steps::NO_UNKNOWN
    | steps::SILENT_CONNECT
    | steps::SILENT_HELO
    | steps::SILENT_MAIL
    | steps::SILENT_RCPT
    | steps::SILENT_HEADER
    | steps::SILENT_END_OF_HEADERS
    | steps::SILENT_BODY
    | steps::LEADING_SPACE;

/// What is known of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The sender's address; empty for a bounce, `None` before MAIL.
    pub sender: Option<String>,
    /// The recipients' addresses.
    pub recipients: Vec<String>,
    /// The size that the SMTP client announced (`SIZE=`), in bytes.
    pub announced: Option<u64>,
    /// The mail server's name for the message.
    pub queue_id: Option<String>,
    /// The user who the SMTP client logged in as.
    pub user: Option<String>,
    /// The headers as they are in the message, with CRLF, without the empty line after them.
    pub headers: Vec<u8>,
}

/// What a command comes to, for whoever runs the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing is to be said.
    Nothing,
    /// This is to be said.
    Answer(Reply<'static>),
    /// The envelope is complete: a verdict or [`Reply::Continue`] is to be said.
    Envelope,
    /// The next piece of the body; a verdict or [`Reply::Continue`] is to be said if the value is
    /// true, and nothing otherwise.
    Body(&'a [u8], bool),
    /// The message is complete with this last piece: changes and a verdict are to be said.
    End(&'a [u8]),
    /// Whatever message was on its way comes to nothing; [`Reply::Continue`] is to be said if the
    /// value is true.
    Reset(bool),
    /// The connection is over.
    Over,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Nothing was said.
    New,
    /// There is no message.
    Idle,
    /// The recipients are on their way.
    Envelope,
    /// The headers are on their way.
    Headers,
    /// The body is on its way.
    Body,
}

/// A connection with a mail server.
#[derive(Clone, Debug)]
pub struct Session {
    stage: Stage,
    actions: u32,
    steps: u32,
    client: Option<String>,
    helo: Option<String>,
    transaction: Transaction,
    /// Of the recipients in `transaction`.
    recipients_bytes: usize,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A connection on which nothing was said.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stage: Stage::New,
            actions: 0,
            steps: 0,
            client: None,
            helo: None,
            transaction: Transaction {
                sender: None,
                recipients: Vec::new(),
                announced: None,
                queue_id: None,
                user: None,
                headers: Vec::new(),
            },
            recipients_bytes: 0,
        }
    }

    /// The SMTP client's address.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// The name that the SMTP client said hello with.
    #[must_use]
    pub fn helo(&self) -> Option<&str> {
        self.helo.as_deref()
    }

    /// The message on its way.
    #[must_use]
    pub const fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// Whether the mail server takes changes of headers and body.
    #[must_use]
    pub const fn can_edit(&self) -> bool {
        self.actions & actions::EDIT == actions::EDIT
    }

    /// Whether the mail server can put messages aside.
    #[must_use]
    pub const fn can_quarantine(&self) -> bool {
        self.actions & actions::QUARANTINE != 0
    }

    /// Whether values of headers come with the space after the colon.
    #[must_use]
    pub const fn has_space(&self) -> bool {
        self.steps & steps::LEADING_SPACE != 0
    }

    /// Whether there is a message on its way.
    #[must_use]
    pub fn in_message(&self) -> bool {
        self.stage >= Stage::Envelope
    }

    /// The message was decided on before its end: what still comes of it is passed over.
    pub fn settle(&mut self) {
        self.stage = Stage::Idle;
        self.transaction = Transaction::default();
        self.recipients_bytes = 0;
    }

    /// Ends the message on its way, if there is one. What is known of the next one stays.
    fn give_up(&mut self) -> bool {
        let is_there = self.in_message();
        if is_there {
            self.settle();
        }
        is_there
    }

    /// Takes a command.
    ///
    /// # Errors
    /// When it must not come now, or goes beyond a bound.
    pub fn receive<'a>(&mut self, command: &Command<'a>) -> Result<Event<'a>, Violation> {
        if (self.stage == Stage::New) != matches!(command, Command::Negotiate { .. }) {
            return match command {
                Command::Quit => Ok(Event::Over),
                _ => Err(Violation::Unexpected(command.byte())),
            };
        }
        let unexpected = Err(Violation::Unexpected(command.byte()));
        match command {
            Command::Negotiate {
                version,
                actions,
                steps,
            } => self.negotiate(*version, *actions, *steps),
            Command::Macros { command, list } => {
                // They come before the message that they belong to.
                let is_given_up = *command == b'M' && self.give_up();
                self.macros(*list)?;
                Ok(match is_given_up {
                    true => Event::Reset(false),
                    false => Event::Nothing,
                })
            }
            Command::Connect { address, .. } => {
                let address = bounded(address, "client's address")?;
                self.client = Some(address).filter(|address| !address.is_empty());
                Ok(self.reply_unless(steps::SILENT_CONNECT))
            }
            Command::Helo(name) => {
                self.give_up();
                self.helo = Some(bounded(name, "client's name")?);
                Ok(self.reset_unless(steps::SILENT_HELO))
            }
            Command::Mail(words) => self.mail(*words),
            Command::Rcpt(words) => self.rcpt(*words),
            Command::Data if self.stage == Stage::Envelope => {
                self.stage = Stage::Headers;
                Ok(Event::Envelope)
            }
            // It was settled before.
            Command::Data | Command::Unknown(_) => Ok(Event::Answer(Reply::Continue)),
            Command::Header { name, value } if self.in_message() => {
                self.stage = Stage::Headers;
                self.header(name, value)
            }
            Command::EndOfHeaders if self.in_message() => {
                self.stage = Stage::Body;
                Ok(self.reply_unless(steps::SILENT_END_OF_HEADERS))
            }
            Command::Body(piece) if self.in_message() => {
                self.stage = Stage::Body;
                Ok(Event::Body(piece, self.steps & steps::SILENT_BODY == 0))
            }
            Command::End(piece) if self.in_message() => Ok(Event::End(piece)),
            Command::Header { .. } | Command::EndOfHeaders | Command::Body(_) | Command::End(_) => {
                unexpected
            }
            Command::Abort => {
                self.settle();
                Ok(Event::Reset(false))
            }
            Command::Next => {
                self.settle();
                (self.client, self.helo) = (None, None);
                Ok(Event::Reset(false))
            }
            Command::Quit => Ok(Event::Over),
        }
    }

    /// What ends the message on its way without a word about it.
    const fn reset_unless(&self, silent: u32) -> Event<'static> {
        Event::Reset(self.steps & silent == 0)
    }

    fn reply_unless(&self, silent: u32) -> Event<'static> {
        if self.steps & silent == 0 {
            Event::Answer(Reply::Continue)
        } else {
            Event::Nothing
        }
    }

    fn negotiate(
        &mut self,
        version: u32,
        offered: u32,
        steps: u32,
    ) -> Result<Event<'static>, Violation> {
        if version < 2 {
            return Err(Violation::Version(version));
        }
        self.stage = Stage::Idle;
        self.actions = offered & (actions::EDIT | actions::QUARANTINE);
        self.steps = steps & STEPS;
        Ok(Event::Answer(Reply::Negotiate {
            version: version.min(VERSION),
            actions: self.actions,
            steps: self.steps,
        }))
    }

    fn macros(&mut self, mut list: Words<'_>) -> Result<(), Violation> {
        while let (Some(name), Some(value)) = (list.next(), list.next()) {
            let known = || bounded(value, "macro").map(Some);
            match name {
                b"i" | b"{i}" => self.transaction.queue_id = known()?,
                b"{auth_authen}" if !value.is_empty() => self.transaction.user = known()?,
                b"{client_addr}" if self.client.is_none() => self.client = known()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A message begins. Sendmail does not say that the SMTP client gave up the one before (RSET,
    /// or another EHLO): the next one begins in the middle of it.
    fn mail(&mut self, mut words: Words<'_>) -> Result<Event<'static>, Violation> {
        self.give_up();
        self.stage = Stage::Envelope;
        self.transaction.sender = Some(address(words.next().ok_or(Violation::Length)?)?);
        self.transaction.announced = words.find_map(|word| {
            let value = word.get(..5)?.eq_ignore_ascii_case(b"SIZE=");
            value.then(|| text(&word[5..]).parse().ok()).flatten()
        });
        Ok(self.reset_unless(steps::SILENT_MAIL))
    }

    fn rcpt(&mut self, mut words: Words<'_>) -> Result<Event<'static>, Violation> {
        if self.stage != Stage::Envelope {
            return Err(Violation::Unexpected(b'R'));
        }
        if self.transaction.recipients.len() >= RECIPIENTS_MAX {
            return Err(Violation::TooLong("list of recipients"));
        }
        let recipient = address(words.next().ok_or(Violation::Length)?)?;
        self.recipients_bytes += recipient.len();
        if self.recipients_bytes > RECIPIENTS_BYTES_MAX {
            return Err(Violation::TooLong("list of recipients"));
        }
        self.transaction.recipients.push(recipient);
        Ok(self.reply_unless(steps::SILENT_RCPT))
    }

    fn header(&mut self, name: &[u8], value: &[u8]) -> Result<Event<'static>, Violation> {
        let headers = &mut self.transaction.headers;
        if headers.len() + name.len() + value.len() > HEADERS_BYTES_MAX {
            return Err(Violation::TooLong("list of headers"));
        }
        headers.extend_from_slice(name);
        headers.push(b':');
        if self.steps & steps::LEADING_SPACE == 0 {
            headers.push(b' ');
        }
        for (index, byte) in value.iter().enumerate() {
            if *byte == b'\n' && (index == 0 || value[index - 1] != b'\r') {
                headers.push(b'\r');
            }
            headers.push(*byte);
        }
        headers.extend_from_slice(b"\r\n");
        Ok(self.reply_unless(steps::SILENT_HEADER))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_string()
}

/// What is kept of a message until its end.
fn bounded(bytes: &[u8], what: &'static str) -> Result<String, Violation> {
    if bytes.len() > NAME_BYTES_MAX {
        return Err(Violation::TooLong(what));
    }
    Ok(text(bytes))
}

/// An address without its angle brackets.
fn address(word: &[u8]) -> Result<String, Violation> {
    let inner = word.strip_prefix(b"<").unwrap_or(word);
    bounded(inner.strip_suffix(b">").unwrap_or(inner), "address")
}
