//! Somebody who watches: the token or the session, and the rights, are looked at again each time.

use std::sync::Arc;
use std::time::Duration;

use hyper::http::request::Parts;
use serde_json::{Map, Value};
use stentor_control::Verb;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::backend::{Caller, NotAdmitted, Proof, Unproven};
use crate::identity::{Asking, Shown, not_admitted, not_done, told};
use crate::pages::ListenerContext;
use crate::problem::{Problem, busy};
use crate::slots::Slot;

/// For how long a token counts as wrong that a stream has asked about.
const REFUSED_TIME: Duration = Duration::from_secs(10);

/// Tokens of streams that do not hold any more: each stream adds one at most.
#[derive(Debug, Default)]
pub(crate) struct Refused(Mutex<Vec<(String, Instant)>>);

/// The reader of a stream.
pub(crate) struct Watcher {
    context: Arc<ListenerContext>,
    asking: Asking,
    caller: Arc<dyn Caller>,
}

impl Watcher {
    /// By what a request shows.
    ///
    /// # Errors
    /// The answer, if nobody is known by it.
    pub(crate) async fn admit(
        context: &Arc<ListenerContext>,
        parts: &Parts,
    ) -> Result<Self, Problem> {
        let mut asking = Asking::of(context, parts, "this path")?;
        Ok(Self {
            caller: asking.caller(context).await?,
            context: Arc::clone(context),
            asking,
        })
    }

    /// The user, as at a login.
    pub(crate) fn name(&self) -> &str {
        self.caller.name()
    }

    pub(crate) fn context(&self) -> &Arc<ListenerContext> {
        &self.context
    }

    pub(crate) fn caller(&self) -> &Arc<dyn Caller> {
        &self.caller
    }

    /// Whether the reader may have all these verbs done.
    ///
    /// # Errors
    /// When not.
    pub(crate) fn may(&self, verbs: &[Verb]) -> Result<(), Problem> {
        verbs.iter().try_for_each(|verb| {
            let denied = |why| told(why, self.name(), Some(*verb));
            self.caller.may(*verb).map_err(denied)
        })
    }

    /// Looks whether the token or the session still holds, and with which rights.
    ///
    /// # Errors
    /// When it does not, or the right to one of these verbs is gone.
    pub(crate) async fn renew(&mut self, verbs: &[Verb]) -> Result<(), Problem> {
        self.caller = self.caller_now().await?;
        self.may(verbs)
    }

    /// The reader as of now. The streams of one token ask together, so that a token which was
    /// revoked counts as one wrong token, however many streams it has.
    async fn caller_now(&self) -> Result<Arc<dyn Caller>, Problem> {
        let Shown::Token(token) = &self.asking.shown else {
            return self.asking.caller_again(&self.context).await;
        };
        if let Some(known) = self
            .context
            .backend
            .known(Proof::Token(token), self.asking.address)
        {
            return known.map_err(not_admitted);
        }
        let mut refused = self.context.streams.refused.0.lock().await;
        refused.retain(|(_, at)| at.elapsed() < REFUSED_TIME);
        if refused.iter().any(|(one, _)| one == token) {
            return Err(not_admitted(NotAdmitted::Unknown(Unproven::default())));
        }
        // Another stream may have asked in the meantime: then it is known.
        let caller = self.asking.caller_again(&self.context).await;
        if caller.as_ref().is_err_and(Problem::is_of_token) {
            refused.push((token.clone(), Instant::now()));
        }
        caller
    }

    /// Has a verb done.
    ///
    /// # Errors
    /// When it is not done.
    pub(crate) async fn ask(
        &self,
        slot: &Slot,
        verb: Verb,
        request: Map<String, Value>,
    ) -> Result<Value, Problem> {
        let caller = Arc::clone(&self.caller);
        let done = slot.run(move || caller.ask(verb, request)).await;
        let not_done = |refused| not_done(refused, self.name(), verb);
        done.ok_or_else(busy)?.map_err(not_done)
    }

    /// The same at once: for what answers at once.
    ///
    /// # Errors
    /// When it is not done.
    pub(crate) async fn look(
        &self,
        verb: Verb,
        request: Map<String, Value>,
    ) -> Result<Value, Problem> {
        self.ask(&self.context.slots.looks, verb, request).await
    }
}
