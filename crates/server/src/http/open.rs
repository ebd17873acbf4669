//! Opening the addresses.

use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use stentor_admin::ListenerSocket;
use tracing::{info, warn};

use crate::config::{Http, HttpUrl};
use crate::error::ServerError;
use crate::listener::{bind_tcp, bind_unix, demand, is_unavailable};
use crate::transport::Certificate;

/// The certificate of all addresses that are encrypted.
pub(crate) type HttpTls = Arc<ArcSwapOption<Certificate>>;

/// The open addresses.
#[derive(Default)]
pub(crate) struct HttpListeners {
    pub(super) sockets: Vec<(HttpUrl, ListenerSocket)>,
    pub(super) tls: HttpTls,
    /// Whether the configuration names them.
    are_named: bool,
}

/// Reads the certificate, if an address needs one.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn certificate(config: &Http) -> Result<Option<Certificate>, ServerError> {
    let (urls, _) = config.urls();
    let Some(url) = urls.into_iter().find(HttpUrl::is_tls) else {
        return Ok(None);
    };
    let (Some(certificate), Some(key)) = (&config.certificate, &config.key) else {
        return Ok(None);
    };
    let clients = demand(config.client_certificates, config.client_ca.as_deref());
    let loaded = Certificate::load(certificate, key, clients);
    loaded
        .map(Some)
        .map_err(|reason| ServerError::HttpCertificate {
            url: url.to_string(),
            reason,
        })
}

impl HttpListeners {
    /// Opens the addresses of the configuration. Those that it names have to be free; those that
    /// hold without being named are left out where they are not.
    ///
    /// # Errors
    /// When an address that is named, or its certificate, cannot be used.
    pub(crate) fn open(config: &Http) -> Result<Self, ServerError> {
        let (urls, are_named) = config.urls();
        let mut listeners = Self {
            sockets: Vec::new(),
            are_named,
            tls: Arc::new(ArcSwapOption::from(certificate(config)?.map(Arc::new))),
        };
        let mut missing = Vec::new();
        for url in urls {
            let (is_tls, host, port) = match &url {
                HttpUrl::Tcp { is_tls, host, port } => (*is_tls, host, *port),
                HttpUrl::Unix(path) => {
                    let socket = at_path(path)?;
                    listeners.sockets.push((url, socket));
                    continue;
                }
            };
            match bind_tcp(host, port) {
                Ok(places) => {
                    listeners
                        .sockets
                        .extend(places.into_iter().map(|(place, socket)| {
                            let url = HttpUrl::Tcp {
                                is_tls,
                                host: place.ip().to_string(),
                                port: place.port(),
                            };
                            (url, ListenerSocket::Tcp(TcpListener::from(socket)))
                        }))
                }
                Err(error) if are_named => return Err(refusal(&url, error)),
                // A machine without IPv6.
                Err(error) if is_unavailable(&error) => {}
                Err(error) => missing.push((url, error)),
            }
        }
        tell_missing(&missing);
        Ok(listeners)
    }

    /// The addresses that are encrypted.
    pub(crate) fn encrypted(&self) -> Vec<String> {
        let urls = self.sockets.iter().map(|(url, _)| url);
        let encrypted = urls.filter(|url| url.is_tls());
        encrypted.map(HttpUrl::to_string).collect()
    }

    /// The certificate, for a reload.
    pub(crate) fn tls(&self) -> HttpTls {
        Arc::clone(&self.tls)
    }

    /// The addresses that a browser can open, the best one for a browser on this machine first:
    /// those without encryption that only this machine reaches, then the encrypted ones.
    pub(super) fn bases(&self, names: &[String]) -> Vec<String> {
        let urls = self.sockets.iter().map(|(url, _)| url);
        let tcp = urls.filter(|url| !matches!(url, HttpUrl::Unix(_)));
        let mut tcp: Vec<&HttpUrl> = tcp.collect();
        tcp.sort_by_key(|url| match (url.is_local(), url.is_tls()) {
            (true, false) => 0,
            (true, true) => 1,
            (false, true) => 2,
            (false, false) => 3,
        });
        tcp.into_iter()
            .filter_map(|url| url.for_browsers(names))
            .collect()
    }

    /// Says where HTTP is spoken: in the log, and on standard output if somebody has named the
    /// address. Scripts that know nothing of it find the listeners there that they named.
    pub(super) fn announce(&self) {
        let mut out = io::stdout().lock();
        for (url, _) in &self.sockets {
            info!("listening on {url}: /metrics, /healthz, /readyz and /api/v1 for operators");
            if self.are_named {
                // Nobody may be reading.
                let _ = writeln!(out, "listening {url}");
            }
        }
        let _ = out.flush();
    }
}

/// A Unix socket. Its file goes with the server.
fn at_path(path: &Path) -> Result<ListenerSocket, ServerError> {
    let socket = UnixListener::from(bind_unix(path)?);
    Ok(ListenerSocket::Unix(socket, path.to_owned()))
}

/// Says that the server runs without the addresses that it would have by itself.
fn tell_missing(missing: &[(HttpUrl, io::Error)]) {
    let Some((_, error)) = missing.first() else {
        return;
    };
    let urls: Vec<String> = missing.iter().map(|(url, _)| url.to_string()).collect();
    let urls = urls.join(" and ");
    let reason = match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there".to_owned(),
        _ => error.to_string(),
    };
    warn!(
        "{urls} cannot be opened: {reason}. The server runs without /metrics, /healthz, /readyz \
         and /api/v1 at this address. Choose another address with --http http://127.0.0.1:PORT or \
         http.listen, or turn it off with --http off"
    );
}

fn refusal(url: &HttpUrl, error: io::Error) -> ServerError {
    let url = url.to_string();
    match error.kind() {
        io::ErrorKind::AddrInUse => ServerError::HttpTaken { url },
        _ => ServerError::Http { url, error },
    }
}
