//! What a procedure is asked.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::answer::Answer;
use crate::manifest::DEFAULT_ZONE;
use crate::message::Message;
use crate::outlet::Outlet;

/// The people responsible for a message, as far as the mail server named them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The sender's address; empty for a bounce.
    pub from: Option<String>,
    /// The recipients' addresses.
    pub recipients: Vec<String>,
    /// The address of the SMTP client.
    pub client: Option<String>,
    /// The name that it said hello with.
    pub helo: Option<String>,
    /// The user who it logged in as.
    pub user: Option<String>,
    /// The mail server's name for the message.
    pub queue_id: Option<String>,
    /// The message's own name, where whoever brings the call has seen its headers.
    pub message_id: Option<String>,
}

impl Envelope {
    /// The envelope in a call's arguments: `from`, `rcpt` (once for each recipient), `client`,
    /// `helo`, `user`, `queue-id`.
    #[must_use]
    pub fn of_arguments(arguments: &[(String, String)]) -> Self {
        let mut envelope = Self::default();
        for (name, value) in arguments {
            let value = value.clone();
            match name.as_str() {
                "from" => envelope.from = Some(value),
                "rcpt" => envelope.recipients.push(value),
                "client" => envelope.client = Some(value),
                "helo" => envelope.helo = Some(value),
                "user" => envelope.user = Some(value),
                "queue-id" => envelope.queue_id = Some(value),
                _ => {}
            }
        }
        envelope
    }

    /// Takes from `other` what is missing here.
    pub fn complete(&mut self, other: Self) {
        if self.recipients.is_empty() {
            self.recipients = other.recipients;
        }
        self.from = self.from.take().or(other.from);
        self.client = self.client.take().or(other.client);
        self.helo = self.helo.take().or(other.helo);
        self.user = self.user.take().or(other.user);
        self.queue_id = self.queue_id.take().or(other.queue_id);
        self.message_id = self.message_id.take().or(other.message_id);
    }
}

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Nobody in particular, from an address.
    Anonymous(String),
    /// A user of a zone.
    User {
        /// The zone's name.
        zone: String,
        /// The user's name.
        name: String,
    },
}

impl Caller {
    /// The login name, for logs, scripts and manifests: `NAME` in the default zone, `ZONE/NAME` in
    /// others; empty for nobody in particular.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Anonymous(_) => "".into(),
            Self::User { zone, name } if zone == DEFAULT_ZONE => name.into(),
            Self::User { zone, name } => format!("{zone}/{name}").into(),
        }
    }
}

/// One call.
#[derive(Debug)]
pub struct Call {
    /// The procedure's name, without a slash.
    pub procedure: String,
    /// All arguments in their order, those of the envelope included.
    pub arguments: Vec<(String, String)>,
    /// The envelope.
    pub envelope: Envelope,
    /// The caller.
    pub caller: Caller,
    /// What it is about.
    pub message: Message,
    /// When the caller stops waiting.
    pub deadline: Instant,
    /// The caller can change the message.
    pub can_edit: bool,
    /// Its caller gets only a share of the queue: a client, and not a mail server, whose calls are
    /// about the mails of everybody.
    pub is_clients: bool,
    /// What may be published by the rights of the caller; `None` if it has none of its own.
    pub outlet: Option<Arc<dyn Outlet>>,
}

impl Call {
    /// Reads what has to be known of a message whose file was not read yet.
    ///
    /// # Errors
    /// As [`Message::new`].
    pub(crate) fn open(&mut self) -> std::io::Result<()> {
        let spooled = self.message.open()?;
        self.complete(spooled);
        Ok(())
    }

    /// The same where that waits for nothing; otherwise this is `None`.
    pub(crate) fn try_open(&mut self) -> Option<std::io::Result<()>> {
        let opened = self.message.try_open()?;
        Some(opened.map(|spooled| self.complete(spooled)))
    }

    fn complete(&mut self, spooled: Option<Envelope>) {
        if let Some(spooled) = spooled {
            self.envelope.complete(spooled);
            self.can_edit &= self.message.exists();
        }
    }

    /// The first argument of that name.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        let mut arguments = self.arguments.iter();
        let found = arguments.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Where the answer goes: to whoever takes it first, once.
///
/// The thread that runs the procedure and the watchdog both hold one; the later of them finds it
/// taken. One that is dropped by all without an answer says [`Status::Failed`] for itself.
///
/// [`Status::Failed`]: crate::Status::Failed
pub struct Reply(Mutex<Option<Then>>);

/// What happens with an answer.
type Then = Box<dyn FnOnce(Answer) + Send>;

impl Reply {
    /// A reply that goes to `then`, which must not block.
    pub fn new(then: impl FnOnce(Answer) + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(then))))
    }

    /// Answers, unless somebody has; whether this was the answer.
    pub fn send(&self, answer: Answer) -> bool {
        let then = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match then {
            Some(then) => {
                then(answer);
                true
            }
            None => false,
        }
    }

    /// Whether somebody has answered already.
    pub(crate) fn is_sent(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(Answer::failed(
            crate::Status::Failed,
            "the procedure ended without an answer",
        ));
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reply").field(&self.is_sent()).finish()
    }
}
