//! The requests of one connection, on their way from hyper to the paths and back.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use crate::backend::Rejected;
use crate::connections::Connection;
use crate::pages::{Client, ListenerContext, add_rules, check};
use crate::patience::Answers;
use crate::problem::Noted;
use crate::stream;

/// A listener, as each of its connections has it.
#[derive(Clone)]
pub(crate) struct Paths {
    context: Arc<ListenerContext>,
    router: TowerToHyperService<Router>,
}

impl Paths {
    pub(crate) fn new(context: Arc<ListenerContext>, router: Router) -> Self {
        let router = TowerToHyperService::new(router);
        Self { context, router }
    }
}

/// What answers the requests of a connection. What holds for all of them is done here and not by
/// layers of the router: a layer copies and boxes what is below it for each request.
pub(crate) struct Visit {
    pub(crate) paths: Paths,
    pub(crate) client: Client,
    pub(crate) connection: Connection,
    pub(crate) answers: Answers,
}

impl Service<Request<Incoming>> for Visit {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.connection.is_answered();
        self.answers.has_come();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.client.clone());
        let checked = check(&self.paths.context, &request);
        let answer = checked.map(|()| self.paths.router.call(request));
        let answers = self.answers.clone();
        let (backend, address) = (Arc::clone(&self.paths.context.backend), self.client.address);
        Box::pin(async move {
            let mut response = match answer {
                Ok(answer) => answer.await?,
                Err(problem) => problem.into_response(),
            };
            if let Some(noted) = response.extensions_mut().remove::<Noted>() {
                backend.refused(&Rejected {
                    reason: noted.reason,
                    user: &noted.user,
                    text: &noted.text,
                    address: Some(address),
                    is_known: noted.is_known,
                    verb: noted.verb,
                });
            }
            add_rules(response.headers_mut());
            match stream::is_stream(&response) {
                true => answers.streams(),
                false => answers.is_made(),
            }
            Ok(response)
        })
    }
}
