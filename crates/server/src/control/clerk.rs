//! Verbs for callers that come by HTTP. Their rights are checked before.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use stentor_admin::{Outcome, Reply};
use stentor_auth::store::Who;
use stentor_control::clients::Show;
use stentor_control::publish::Plain;
use stentor_control::{Secret, VERSION, Verb, ZoneWord};
use stentor_hub::Identity;
use stentor_session::Message;
use stentor_topic::Zone;

use super::protocol::{Answer, Failure, write};
use super::serve::Next;
use super::{Admin, accounts, clients, publish};
use crate::context::ServerContext;
use crate::http::Done;
use crate::listener::Port;
use crate::shard::{AboutClient, Inquiry};
use crate::telemetry::collect::ask_one;
use crate::telemetry::{ByHttp, Entry};

/// Carries out verbs, as the control socket does.
#[derive(Clone)]
pub(crate) struct Clerk(Arc<Admin>);

impl Clerk {
    pub(super) const fn new(admin: Arc<Admin>) -> Self {
        Self(admin)
    }

    /// What the verbs work with.
    pub(crate) fn context(&self) -> &ServerContext {
        &self.0.context
    }

    /// The entrance of all that come by HTTP.
    pub(crate) fn http_port(&self) -> &Arc<Port> {
        &self.0.http_port
    }

    /// Notes something that has come by HTTP. It waits for nothing.
    pub(crate) fn note(&self, request: ByHttp) {
        let journal = &self.context().journal;
        journal.note(Entry::ByHttp(Box::new(request.shortened())));
        journal.wake();
    }

    /// Publishes a message of somebody who has the right to its topic.
    pub(crate) fn publish(
        &self,
        identity: &Arc<Identity>,
        address: Option<SocketAddr>,
        request: Value,
        who: &Who,
    ) -> Answer {
        let request = serde_json::from_value(request)
            .map_err(|error| Failure::new("bad-request", error.to_string()))?;
        let admin = &*self.0;
        let address = address.map(|it| it.ip());
        let (context, directory) = (&admin.context, &*admin.directory);
        let published = publish::publish(context, directory, who, address, identity, &request);
        write(published?)
    }

    /// The message of a request of somebody who has the right to its topic; `None` if it cannot be
    /// one, or if adaptors have to be asked.
    pub(crate) fn plain(&self, zone: Zone, request: &Plain<'_>) -> Option<Message> {
        publish::plain(self.context(), zone, request)
    }

    /// Begins to publish a message of somebody.
    pub(crate) fn begin_publish(
        &self,
        identity: &Identity,
        address: Option<SocketAddr>,
        message: Message,
        reply: Reply,
    ) {
        publish::trace(
            self.context(),
            identity,
            address.map(|it| it.ip()),
            &message,
        );
        publish::begin(self.context(), message, identity.user.clone(), reply);
    }

    /// What has become of a message that was begun.
    pub(crate) fn published(&self, done: Done) -> Outcome {
        publish::told(self.context(), done)
    }

    /// Opens a session of somebody, which ends with its connection.
    pub(crate) fn open_session(
        &self,
        identity: &Arc<Identity>,
        address: Option<SocketAddr>,
    ) -> Result<UnixStream, Failure> {
        self.0.open_session(identity, address)
    }

    /// How many messages a client of a zone has lost; `None` without a session.
    pub(crate) fn lost(&self, zone: &str, client_id: &str) -> Option<u64> {
        let request = Show {
            client_id: client_id.to_owned(),
            zone: Some(ZoneWord::Name(zone.to_owned())),
            offset: 0,
        };
        let client = clients::client(&self.0.context, &request).ok()?;
        Some(client.lost.total)
    }

    /// Ends the connection of a client whose event stream holds too much memory.
    pub(crate) fn cut(&self, zone: Zone, client_id: &str) {
        let context = &self.0.context;
        let home = clients::home(context, zone, client_id);
        // Without an answer it ends by itself.
        let _ = ask_one(context, home, |answer| Inquiry::Client {
            zone,
            client_id: client_id.to_owned(),
            about: AboutClient::Cut(answer),
        });
    }

    /// Gives a user another password. `made` hears each hash of it before it counts. What is
    /// refused is noted here, and the rest by the directory.
    pub(crate) fn set_password(
        &self,
        login: &str,
        password: &Secret,
        who: &Who,
        made: &dyn Fn(&Arc<str>),
    ) -> Result<(), Failure> {
        let admin = &*self.0;
        let set = accounts::set_password(admin, who, login, password, made);
        if let Err(failure) = &set {
            let detail = json!({ "outcome": "refused", "reason": failure.message });
            admin
                .directory
                .note(who, "user.set-password", login, detail);
        }
        set
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
