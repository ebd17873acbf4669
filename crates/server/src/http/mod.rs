//! HTTP for operators: its addresses, and what the server says there.
//!
//! The crate `admin` speaks HTTP, on threads of its own. They share the main thread's table of
//! descriptors, and give way to shards. Probes and metrics ask shards no more than a watchdog does.
//! Verbs ask what they ask by the control socket.

mod accounts;
mod bearers;
mod caller;
mod errands;
mod known;
mod links;
mod meter;
mod open;
mod payloads;
mod rights;
mod sessions;
mod visitors;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use stentor_admin::{
    Admitted, Backend, Begun, CertificateName, Exposition, Held, HttpListener, HttpServer, Login,
    NotAdmitted, Proof, Rejected, Report, Rules, TlsSource,
};
use stentor_auth::center::Center;
use stentor_auth::credential::certificate::{NameSource, user_name};

use stentor_control::events::Kind;

use crate::condition::Condition;
use crate::config::{Http, HttpUrl};
use crate::control::{Clerk, Control, NotesReader};
use crate::error::ServerError;
use crate::listener::name_source;
use crate::peer::Peer;
use crate::priority;
use crate::shard::ShardCommand;
use crate::telemetry::{ByHttp, Metrics};
use bearers::Bearers;
pub(crate) use errands::{Done, Errand, Errands};
pub(crate) use open::{HttpListeners, HttpTls, certificate};
use sessions::Visit;
pub(crate) use visitors::Visitors;

/// What the HTTP server asks.
struct HttpBackend {
    condition: Arc<Condition>,
    metrics: Metrics,
    notes: NotesReader,
    bearers: Bearers,
    streams: Held,
    clerk: Clerk,
}

impl Backend for HttpBackend {
    fn health(&self) -> Report {
        self.condition.health()
    }

    fn readiness(&self) -> Report {
        self.condition.readiness()
    }

    fn metrics(&self, format: Exposition) -> String {
        self.metrics.page(format, &self.notes.read())
    }

    fn known(&self, proof: Proof<'_>, address: Option<SocketAddr>) -> Option<Admitted> {
        self.bearers.known(proof, address)
    }

    fn admit(
        &self,
        proof: Proof<'_>,
        address: Option<SocketAddr>,
        then: Box<dyn FnOnce(Admitted) + Send>,
    ) {
        self.bearers.admit(proof, address, then);
    }

    fn log_in(
        &self,
        login: Login,
        address: Option<SocketAddr>,
        then: Box<dyn FnOnce(Begun) + Send>,
    ) -> Box<dyn Send> {
        Box::new(self.bearers.log_in(login, address, then))
    }

    fn prove(
        &self,
        login: Login,
        address: Option<SocketAddr>,
        then: Box<dyn FnOnce(Result<(), NotAdmitted>) + Send>,
    ) -> Box<dyn Send> {
        Box::new(self.bearers.prove(login, address, then))
    }

    fn open_link(&self, once: &str, address: Option<SocketAddr>) -> Begun {
        self.bearers.open_link(once, address)
    }

    fn session(&self, cookie: &str, address: Option<SocketAddr>) -> Admitted {
        self.bearers.session(cookie, address, Visit::Request)
    }

    fn session_now(&self, cookie: &str, address: Option<SocketAddr>) -> Admitted {
        self.bearers.session(cookie, address, Visit::Look)
    }

    fn refused(&self, refused: &Rejected<'_>) {
        let kind = match refused.is_known {
            true => Kind::Denied,
            false => Kind::Refused,
        };
        self.clerk.note(ByHttp {
            kind,
            reason: refused.reason,
            user: refused.user.into(),
            peer: refused.address.map(Peer::from),
            port: Arc::clone(self.clerk.http_port()),
            text: refused.text.into(),
            verb: refused.verb,
        });
    }

    fn log_out(&self, cookie: &str) {
        self.bearers.log_out(cookie);
    }

    fn held(&self) -> Held {
        self.streams.clone()
    }

    fn go_on(&self) {
        let context = self.clerk.context();
        let post = |shard, errands| context.post(shard, ShardCommand::Publish(errands));
        context.visitors.errands.send(post);
    }

    fn reply_event(&self) -> io::Result<OwnedFd> {
        self.clerk.context().visitors.errands.reply_event()
    }

    fn give_replies(&self) {
        let clerk = &self.clerk;
        let errands = &clerk.context().visitors.errands;
        errands.give(|done| clerk.published(done));
    }
}

impl HttpListeners {
    /// Serves the open addresses, and says so; `None` if there are none.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn serve(
        self,
        config: &Http,
        condition: &Arc<Condition>,
        metrics: Metrics,
        control: &Control,
        center: &Arc<Center>,
    ) -> Result<Option<HttpServer>, ServerError> {
        if self.sockets.is_empty() {
            return Ok(None);
        }
        self.announce();
        let clerk = control.clerk();
        let visitors = &clerk.context().visitors;
        visitors.links.announce(self.bases(&config.names));
        let backend = HttpBackend {
            condition: Arc::clone(condition),
            metrics,
            notes: control.reader(),
            streams: visitors.streams.clone(),
            bearers: Bearers::new(center, clerk.clone()),
            clerk,
        };
        let (tls, named) = (self.tls, name_source(config.certificate_user));
        let listener = |(url, socket): (HttpUrl, _)| HttpListener {
            socket,
            tls: url.is_tls().then(|| source(&tls)).flatten(),
            is_local: url.is_local(),
            certificate_name: named.map(names),
        };
        let sockets = self.sockets.into_iter().map(listener).collect();
        let rules = Rules {
            names: config.names.clone(),
            are_metrics_open: config.open_metrics,
        };
        HttpServer::start(sockets, &rules, Arc::new(backend), priority::lower_somewhat)
            .map(Some)
            .map_err(|error| ServerError::system("starting the HTTP threads", error))
    }
}

/// The user that a certificate names, and nobody if it names none.
fn names(source: NameSource) -> CertificateName {
    Arc::new(move |certificate| user_name(certificate, source).ok())
}

/// The certificate for the next connection: a reload may bring another one.
fn source(tls: &HttpTls) -> Option<TlsSource> {
    let first = tls.load_full()?;
    let tls = Arc::clone(tls);
    Some(Arc::new(move || {
        tls.load_full()
            .unwrap_or_else(|| Arc::clone(&first))
            .config()
    }))
}
