//! The thread, its sockets and its connections.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::warn;

use crate::backend::Backend;
use crate::bounds::{
    CONNECTION_TIME, END_TIME, FAREWELL_TIME, HEAD_BYTES_MAX, HEADER_TIME, HEADERS_MAX, IDLE_TIME,
    THREADS, UNACKNOWLEDGED_TIME,
};
use crate::connections::{Connection, Connections};
use crate::pages::{self, Client, ListenerContext};
use crate::patience::{Answers, Patient};
use crate::slots::Slots;
use crate::soon::{self, Soon};
use crate::stream::Streams;
use crate::visit::{Paths, Visit};

/// Where the TLS settings for the next connection come from: a reload may replace them.
pub type TlsSource = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// The user whom a client's certificate names, which comes in DER form; `None` if it names none.
pub type CertificateName = Arc<dyn Fn(&[u8]) -> Option<String> + Send + Sync>;

/// A socket that listens.
pub enum ListenerSocket {
    /// One of TCP.
    Tcp(StdListener),
    /// One of this machine. Its file, at this path, is removed when the HTTP server is dropped.
    Unix(StdUnixListener, PathBuf),
}

/// An open socket.
pub struct HttpListener {
    /// The socket, which listens.
    pub socket: ListenerSocket,
    /// For https.
    pub tls: Option<TlsSource>,
    /// Whether only this machine can reach it.
    pub is_local: bool,
    /// Which user a client's certificate names, where such names count.
    pub certificate_name: Option<CertificateName>,
}

/// What the configuration says of all listeners.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Hosts that a request to a listener of this machine may name besides localhost.
    pub names: Vec<String>,
    /// Whether everybody who reaches a listener may read the metrics.
    pub are_metrics_open: bool,
}

/// The running HTTP server. Dropping it ends its thread.
pub struct HttpServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The files of Unix sockets.
    files: Vec<PathBuf>,
}

impl HttpServer {
    /// Serves these listeners. `prepare` is called on each thread as it begins.
    ///
    /// # Errors
    /// When the system gives no thread, or a socket cannot be used.
    pub fn start(
        listeners: Vec<HttpListener>,
        rules: &Rules,
        backend: Arc<dyn Backend>,
        prepare: fn(),
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(THREADS)
            .thread_name("http-answer")
            .on_thread_start(prepare)
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let (slots, soon) = (Arc::new(Slots::default()), Arc::new(Soon::default()));
        let connections = Arc::new(Connections::default());
        let final_output = Arc::clone(&connections);
        let (stopping, streams) = Streams::new(backend.held());
        let (mut open, mut files) = (Vec::new(), Vec::new());
        for listener in listeners {
            let socket = {
                let _inside = runtime.enter();
                Listening::new(listener.socket, &mut files)?
            };
            let context = Arc::new(ListenerContext {
                backend: Arc::clone(&backend),
                slots: Arc::clone(&slots),
                soon: Arc::clone(&soon),
                is_local: listener.is_local,
                is_tls: listener.tls.is_some(),
                names: rules.names.clone(),
                are_metrics_open: rules.are_metrics_open,
                streams: Arc::clone(&streams),
            });
            open.push(Open {
                socket,
                tls: listener.tls,
                certificate_name: listener.certificate_name,
                paths: Paths::new(Arc::clone(&context), pages::router(context)),
                connections: Arc::clone(&connections),
            });
        }
        let replies = {
            let _inside = runtime.enter();
            soon::hear(backend.reply_event()?, Arc::clone(&backend))?
        };
        let run = move || {
            prepare();
            runtime.block_on(async {
                for listener in open {
                    tokio::spawn(listener.serve());
                }
                tokio::spawn(soon.tell(backend));
                tokio::spawn(replies);
                // The sender is dropped.
                let _ = stopped.await;
                drop(stopping);
                // The client that stops the server learns that it stops.
                let _ = timeout(FAREWELL_TIME, final_output.is_at_rest()).await;
            });
            // An answer that a thread still makes reaches nobody.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("http".into()).spawn(run)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            files,
        })
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It waits for nothing, and a panic was told when it happened.
            let _ = thread.join();
        }
        for file in &self.files {
            // If it is gone already, that is what was wanted.
            let _ = fs::remove_file(file);
        }
    }
}

/// A socket that is listened to.
enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that was accepted.
enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Listening {
    fn new(socket: ListenerSocket, files: &mut Vec<PathBuf>) -> io::Result<Self> {
        Ok(match socket {
            ListenerSocket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Self::Tcp(TcpListener::from_std(socket)?)
            }
            ListenerSocket::Unix(socket, path) => {
                files.push(path);
                socket.set_nonblocking(true)?;
                Self::Unix(UnixListener::from_std(socket)?)
            }
        })
    }

    async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Self::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                let _ = stream.set_nodelay(true);
                let option = SockRef::from(&stream);
                let _ = option.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIME));
                Accepted::Tcp(stream, peer)
            }
            Self::Unix(socket) => Accepted::Unix(socket.accept().await?.0),
        })
    }
}

impl Accepted {
    /// A client of a Unix socket counts as one of this machine.
    const fn address(&self) -> SocketAddr {
        match self {
            Self::Tcp(_, address) => *address,
            Self::Unix(_) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        }
    }
}

/// A listener that is served.
struct Open {
    socket: Listening,
    tls: Option<TlsSource>,
    certificate_name: Option<CertificateName>,
    paths: Paths,
    connections: Arc<Connections>,
}

/// How long nobody is let in when the system has no descriptor.
const PAUSE: Duration = Duration::from_millis(200);

impl Open {
    /// Lets connections in for as long as the runtime lives.
    async fn serve(self) {
        loop {
            let accepted = match self.socket.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Only want of descriptors is a reason to wait, not a client that has gone.
                    if error.kind() != io::ErrorKind::ConnectionAborted {
                        warn!(%error, "an HTTP connection was not accepted");
                        sleep(PAUSE).await;
                    }
                    continue;
                }
            };
            let address = accepted.address();
            let connection = self.connections.enter(address.ip()).await;
            let tls = self.tls.as_ref().map(|source| source());
            let (paths, named) = (self.paths.clone(), self.certificate_name.clone());
            tokio::spawn(async move {
                let visit = async {
                    let mut client = Client {
                        address: SocketAddr::new(address.ip().to_canonical(), address.port()),
                        certified: None,
                    };
                    match (accepted, tls) {
                        (Accepted::Unix(stream), _) => {
                            converse(stream, client, &connection, paths).await;
                        }
                        (Accepted::Tcp(stream, _), None) => {
                            converse(stream, client, &connection, paths).await;
                        }
                        (Accepted::Tcp(stream, _), Some(config)) => {
                            let greeting = TlsAcceptor::from(config).accept(stream);
                            if let Ok(Ok(stream)) = timeout(HEADER_TIME, greeting).await {
                                client.certified = certified(&stream, named);
                                converse(stream, client, &connection, paths).await;
                            }
                        }
                    }
                };
                tokio::select! {
                    () = visit => {}
                    () = connection.has_to_leave() => {}
                }
            });
        }
    }
}

/// The user whom the certificate of a client names.
fn certified(stream: &TlsStream<TcpStream>, named: Option<CertificateName>) -> Option<Arc<str>> {
    let chain = stream.get_ref().1.peer_certificates();
    let own = chain.and_then(|chain| chain.first());
    let name = named.zip(own).and_then(|(named, own)| named(own.as_ref()));
    name.map(Arc::from)
}

/// Serves one connection to its end.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: Client,
    connection: &Connection,
    paths: Paths,
) {
    let answers = Answers::default();
    let service = Visit {
        paths,
        client,
        connection: connection.clone(),
        answers: answers.clone(),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The headers themselves have less: see `Patient`.
        .header_read_timeout(IDLE_TIME)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(
            TokioIo::new(Patient::new(stream, connection.clone(), answers.clone())),
            service,
        );
    let mut connection = pin!(connection);
    // What a client does wrong is its own affair.
    if timeout(CONNECTION_TIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = match answers.is_stream() {
            // It has bounds of its own.
            true => Ok(connection.await),
            false => timeout(END_TIME, connection).await,
        };
    }
}
