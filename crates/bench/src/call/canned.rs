//! The server of the floor: answers whoever says anything with the same bytes.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::error::{BenchError, Doing};

/// The length of an ANSWER frame that says "accept".
const ANSWER: [u8; 32] = [0; 32];

/// Runs until the parent process ends: on a Unix socket if there is a path, else by TCP. Prints
/// where, like a real server.
pub(crate) fn run(path: Option<&Path>) -> Result<(), BenchError> {
    // One that outlives a killed benchmark would disturb the next one.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let served = match path {
        Some(path) => {
            let listener = UnixListener::bind(path).doing("open the floor's socket")?;
            announce(&path.display().to_string()).doing("print the address")?;
            serve(|| listener.accept().map(|(stream, _)| stream))
        }
        None => {
            let listener = TcpListener::bind("127.0.0.1:0").doing("open the floor's port")?;
            let address = listener.local_addr().doing("read the floor's port")?;
            announce(&address.port().to_string()).doing("print the address")?;
            serve(|| {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(stream)
            })
        }
    };
    served.doing("run the floor")
}

fn announce(place: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "listening {place}")
}

/// One connection after the other. A descriptor that comes along is not taken: the kernel drops it.
fn serve<S: Read + Write>(accept: impl Fn() -> io::Result<S>) -> io::Result<()> {
    let mut scratch = vec![0; 128 * 1024];
    loop {
        let mut stream = accept()?;
        // A caller that is gone already is its own affair.
        if stream.read(&mut scratch).is_ok_and(|read| read > 0) {
            let _ = stream.write_all(&ANSWER);
        }
    }
}
