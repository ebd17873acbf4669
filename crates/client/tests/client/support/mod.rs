//! A server that follows a script, in a thread of the test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// One thing that the server does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Reads exactly these bytes.
    Expect(&'static [u8]),
    /// Sends these bytes.
    Send(&'static [u8]),
    /// Closes the connection.
    Close,
}

/// A running script.
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) url: String,
    thread: JoinHandle<()>,
}

impl Server {
    /// Lets go of the client, then does as [`join`](Self::join).
    pub(crate) fn join_after<T>(self, client: T) {
        drop(client);
        self.join();
    }

    /// Waits for the end of the script, and of the client; fails if something else was read than
    /// expected.
    pub(crate) fn join(self) {
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Serves one connection by the script, then reads until the client closes.
pub(crate) fn serve(script: Vec<Step>) -> Server {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind a free port");
    let url = format!("mqtt://{}", listener.local_addr().expect("the port"));
    let thread = thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a client");
        follow(socket, &script);
    });
    Server { url, thread }
}

fn follow(mut socket: TcpStream, script: &[Step]) {
    for step in script {
        match step {
            Step::Expect(bytes) => {
                let mut read = vec![0; bytes.len()];
                socket
                    .read_exact(&mut read)
                    .unwrap_or_else(|e| panic!("{step:?}: {e}"));
                assert_eq!(
                    read.escape_ascii().to_string(),
                    bytes.escape_ascii().to_string()
                );
            }
            Step::Send(bytes) => socket.write_all(bytes).expect("send"),
            Step::Close => return,
        }
    }
    // What the client still sends does not matter.
    let _ = socket.read_to_end(&mut Vec::new());
}
