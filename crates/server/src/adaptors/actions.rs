//! What adaptors do, done.

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use stentor_auth::center::Center;
use stentor_hub::{Act, ServiceCommand};
use stentor_procedure::adaptor::{Action, Host};
use stentor_procedure::{Call, Caller, Content, Envelope, Format, Message, Registry};
use stentor_topic::Zone;

use super::Shared;
use crate::call::answer_json;
use crate::context::ServerContext;
use crate::shard::ShardCommand;

/// How long a procedure may take that an adaptor calls.
const PATIENCE: Duration = Duration::from_secs(30);

/// What adaptors reach of the server. Each part is set once, when it is there; until then what
/// they do is forgotten.
pub(super) struct AdaptorActions {
    center: Arc<Center>,
    context: OnceLock<Weak<ServerContext>>,
    registry: OnceLock<Weak<Registry>>,
    shared: OnceLock<Weak<Shared>>,
}

impl AdaptorActions {
    pub(super) const fn new(center: Arc<Center>) -> Self {
        Self {
            center,
            context: OnceLock::new(),
            registry: OnceLock::new(),
            shared: OnceLock::new(),
        }
    }

    pub(super) fn belong_to(&self, shared: &Arc<Shared>) {
        let _ = self.shared.set(Arc::downgrade(shared));
    }

    pub(super) fn serve(&self, context: &Arc<ServerContext>) {
        let _ = self.context.set(Arc::downgrade(context));
    }

    pub(super) fn serve_calls(&self, registry: &Arc<Registry>) {
        let _ = self.registry.set(Arc::downgrade(registry));
    }

    pub(super) fn context(&self) -> Option<Arc<ServerContext>> {
        self.context.get().and_then(Weak::upgrade)
    }
}

impl Host for AdaptorActions {
    fn act(&self, zone: &str, action: Action) {
        let number = self.center.zone_number(zone);
        let context = self.context();
        let (Ok(zone), Some(context)) = (number, context) else {
            return;
        };
        let act = match action {
            Action::Publish {
                topic,
                payload,
                retain,
            } => Act::Publish {
                zone,
                topic,
                payload,
                retain,
            },
            Action::Send { to, from, payload } => Act::Send {
                zone,
                to,
                from,
                payload,
            },
            Action::Command {
                procedure,
                payload,
                number,
            } => Act::Command {
                zone,
                procedure,
                payload,
                number,
            },
            Action::Call {
                procedure,
                arguments,
                payload,
                number,
            } => return self.call(&context, zone, procedure, arguments, payload, number),
        };
        // The home of a zone, as hubs have it.
        let home = zone.get() % u32::from(context.shard_count());
        context.post(
            home as usize,
            ShardCommand::Hub(ServiceCommand::Act(Arc::new(act)).into()),
        );
    }
}

impl AdaptorActions {
    fn call(
        &self,
        context: &ServerContext,
        zone: Zone,
        procedure: String,
        arguments: Vec<(String, String)>,
        payload: Vec<u8>,
        number: u64,
    ) {
        let Some(shared) = self.shared.get().cloned() else {
            return;
        };
        let answer = move |json: Vec<u8>| {
            if let Some(shared) = shared.upgrade() {
                shared.answered(number, json);
            }
        };
        let refused = |text: &str| serde_json::json!({ "status": "not-found", "text": text });
        let Some(registry) = self.registry.get().and_then(Weak::upgrade) else {
            let json = refused("this server runs no procedures");
            return answer(json.to_string().into_bytes());
        };
        let content = if payload.is_empty() {
            Content::None
        } else {
            Content::Bytes(payload)
        };
        let message = match Message::new(content, 0, Format::Message) {
            Ok((message, _)) => message,
            Err(error) => {
                let json = refused(&error.to_string());
                return answer(json.to_string().into_bytes());
            }
        };
        let call = Call {
            procedure,
            envelope: Envelope::of_arguments(&arguments),
            arguments,
            caller: Caller::User {
                zone: context.zone_name(zone),
                name: "adaptor".to_owned(),
            },
            message,
            deadline: Instant::now() + PATIENCE,
            can_edit: false,
            is_clients: false,
            outlet: None,
        };
        registry.call(call, move |said, _| answer(answer_json(&said)));
    }
}
