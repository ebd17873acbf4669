//! A scripted server and a way to run the client.

use std::fs::File;
use std::io::{IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use stentor_call_protocol::{Answer, Call, Status, ToServer, Verdict};
use tempfile::TempDir;

/// What a scripted server has of a connection.
pub(crate) struct Peer {
    pub(crate) stream: Box<dyn Stream>,
    /// The call's frame.
    pub(crate) call: Vec<u8>,
    /// What follows it already.
    pub(crate) input: Vec<u8>,
    pub(crate) file: Option<File>,
}

/// A connection of either kind.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Peer {
    pub(crate) fn call(&self) -> Call<'_> {
        match ToServer::decode(&self.call) {
            Ok(Some((ToServer::Call(call), _))) => call,
            other => panic!("no call: {other:?}"),
        }
    }

    /// The file that was passed.
    pub(crate) fn read_file(&mut self) -> Vec<u8> {
        let mut content = Vec::new();
        let file = self.file.as_mut().expect("a file was passed");
        // Its position is shared with the client, which may have written it.
        file.rewind().expect("it is a file");
        file.read_to_end(&mut content).expect("it can be read");
        content
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // A client that gave up has closed.
        let _ = self.stream.write_all(bytes);
    }

    /// Waits until the client has closed.
    pub(crate) fn until_closed(&mut self) {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
    }
}

/// A folder with a socket in it, behind which a script answers one call.
pub(crate) struct Fake {
    pub(crate) folder: TempDir,
    server: Vec<String>,
    thread: Option<JoinHandle<()>>,
    /// A socket that keeps its port from others.
    _taken: Option<OwnedFd>,
}

impl Fake {
    pub(crate) fn unix(script: impl FnOnce(Peer) + Send + 'static) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("call.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client comes");
            let (bytes, file) = first_bytes(&stream);
            if let Some(peer) = peer(Box::new(stream), bytes, file) {
                script(peer);
            }
        });
        Self {
            server: vec!["-s".into(), format!("unix:{}", path.display())],
            folder,
            thread: Some(thread),
            _taken: None,
        }
    }

    pub(crate) fn tcp(script: impl FnOnce(Peer) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client comes");
            if let Some(peer) = peer(Box::new(stream), Vec::new(), None) {
                script(peer);
            }
        });
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            server: ["-s", "127.0.0.1", "-p", &port.to_string()]
                .map(str::to_owned)
                .into(),
            thread: Some(thread),
            _taken: None,
        }
    }

    /// Nobody is there.
    pub(crate) fn dead() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("call.sock");
        Self {
            server: vec!["-s".into(), path.display().to_string()],
            folder,
            thread: None,
            _taken: None,
        }
    }

    /// A port at which nobody listens, and which nobody else gets.
    pub(crate) fn dead_tcp() -> Self {
        let family = rustix::net::AddressFamily::INET;
        let kind = rustix::net::SocketType::STREAM;
        let socket = rustix::net::socket(family, kind, None).expect("a socket");
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        rustix::net::bind(&socket, &any).expect("a port is free");
        let address = rustix::net::getsockname(&socket).expect("it has an address");
        let address = std::net::SocketAddr::try_from(address).expect("of the internet");
        let port = address.port().to_string();
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            server: ["-s", "127.0.0.1", "-p", &port].map(str::to_owned).into(),
            thread: None,
            _taken: Some(socket),
        }
    }

    /// A file in the folder.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("a file can be written");
        path
    }

    /// A named pipe, unless it is there already.
    pub(crate) fn pipe(&self, name: &str) {
        let path = self.folder.path().join(name);
        if !path.exists() {
            let made = Command::new("mkfifo").arg(path).status();
            assert!(made.expect("mkfifo is everywhere").success());
        }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = client();
        command.args(&self.server).args(words);
        command
    }

    /// Waits for the end of the script.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the script ends well");
        }
    }

    /// Runs the client to its end, and the script.
    pub(crate) fn run(mut self, words: &[&str]) -> Finished {
        let output = self.command(words).output().expect("the client runs");
        self.join();
        Finished::of(&output)
    }
}

/// The client without a server.
pub(crate) fn client() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stentor-call"));
    command.env_remove("STENTOR_TOKEN").stdin(Stdio::null());
    command
}

/// What a client left.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

/// `None` for a client that gave up before it had said anything.
fn peer(mut stream: Box<dyn Stream>, mut input: Vec<u8>, file: Option<OwnedFd>) -> Option<Peer> {
    let len = loop {
        match ToServer::decode(&input).expect("the client speaks the protocol") {
            Some((_, len)) => break len,
            None => {
                let mut more = [0; 65_536];
                let read = stream.read(&mut more).expect("the client goes on");
                if read == 0 {
                    return None;
                }
                input.extend_from_slice(&more[..read]);
            }
        }
    };
    let rest = input.split_off(len);
    Some(Peer {
        stream,
        call: input,
        input: rest,
        file: file.map(File::from),
    })
}

/// The first bytes with the descriptor that came along.
fn first_bytes(stream: &UnixStream) -> (Vec<u8>, Option<OwnedFd>) {
    let mut bytes = vec![0; 65_536];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let message =
        recvmsg(stream, &mut parts, &mut control, RecvFlags::empty()).expect("something comes");
    let fd = control.drain().find_map(|entry| match entry {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    bytes.truncate(message.bytes);
    (bytes, fd)
}

/// An encoded answer.
pub(crate) fn answer(answer: &Answer<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    answer.encode(&mut bytes).expect("a valid answer");
    bytes
}

/// An encoded verdict.
pub(crate) fn verdict(verdict: Verdict, text: &str) -> Vec<u8> {
    answer(&Answer {
        verdict: Some(verdict),
        ..Answer::of(Status::Done, text)
    })
}

/// A path as a word of a command line.
pub(crate) fn word(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}
