//! Verbs for callers that come by HTTP. Their rights are checked before.

use std::sync::Arc;

use serde_json::{Map, Value};
use stentor_auth::store::Who;
use stentor_control::{VERSION, Verb};
use stentor_hub::Identity;

use super::Desk;
use super::protocol::{Answer, Failure, write};
use super::publish::publish;
use super::serve::Next;
use crate::backplane::Backplane;

/// Carries out verbs, as the control socket does.
#[derive(Clone)]
pub(crate) struct Clerk(Arc<Desk>);

impl Clerk {
    pub(super) const fn new(desk: Arc<Desk>) -> Self {
        Self(desk)
    }

    /// What the verbs work with.
    pub(crate) fn backplane(&self) -> &Backplane {
        &self.0.backplane
    }

    /// Publishes a message of somebody who has the right to its topic.
    pub(crate) fn publish(&self, identity: &Arc<Identity>, request: Value, who: &Who) -> Answer {
        let request = serde_json::from_value(request)
            .map_err(|error| Failure::new("bad-request", error.to_string()))?;
        let desk = &*self.0;
        let by = (&*desk.directory, who);
        write(publish(&desk.backplane, by, identity, &request)?)
    }

    /// Carries a verb out, and notes what it has changed.
    pub(crate) fn carry_out(&self, verb: Verb, request: Map<String, Value>, who: &Who) -> Answer {
        let mut line = Map::new();
        line.insert("v".into(), VERSION.into());
        line.insert("verb".into(), verb.name().into());
        // No verb has a key of these names.
        line.extend(request);
        match self
            .0
            .handle(Value::Object(line).to_string().as_bytes(), who)
        {
            Next::Answer(answer) => answer,
            Next::Mqtt(_) => {
                let message = "this verb is one of the control socket alone";
                Err(Failure::new("bad-request", message))
            }
        }
    }
}
