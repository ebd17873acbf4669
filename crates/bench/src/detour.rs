//! A way around to a database on which each answer takes a while longer.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Doing};

/// Pieces of answers that may be on their way at a time, for each connection.
const PIECES_MAX: usize = 1_024;

/// Where a database listens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Tcp(String),
    Unix(PathBuf),
}

/// What the URL of a database says.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    address: Address,
    scheme: String,
    /// `USER@`, or nothing.
    login: String,
    database: String,
}

/// Listens on a loopback port, carries what comes to the database of a URL at once, and each piece
/// of its answers after `delay`; the URL that leads there. It lasts as long as this process.
///
/// # Errors
/// When the URL names no server, or there is no port.
pub(crate) fn open(url: &str, delay: Duration) -> Result<String, BenchError> {
    let parts = parse(url).ok_or_else(|| {
        BenchError::usage(format!(
            "{url} names no database server that can be delayed"
        ))
    })?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).doing("find a free port")?;
    let port = listener.local_addr().doing("find a free port")?.port();
    let address = parts.address;
    let serve = move || {
        for client in listener.incoming().map_while(Result::ok) {
            // A connection that cannot be made is closed, and the server says so.
            let _ = carry(client, &address, delay);
        }
    };
    let thread = thread::Builder::new().name("detour".into());
    thread.spawn(serve).doing("start a thread")?;
    let Parts {
        scheme,
        login,
        database,
        ..
    } = parts;
    Ok(format!("{scheme}://{login}127.0.0.1:{port}/{database}"))
}

/// Takes `SCHEME://[USER@]HOST[:PORT]/DATABASE[?host=FOLDER|socket=FILE]` apart.
fn parse(url: &str) -> Option<Parts> {
    let (scheme, rest) = url.split_once("://")?;
    let (port, query_key) = match scheme {
        "postgres" | "postgresql" => (5_432, "host"),
        "mysql" | "mariadb" => (3_306, "socket"),
        _ => return None,
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/')?;
    let (login, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (format!("{user}@"), host),
        None => (String::new(), authority),
    };
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut socket = pairs
        .filter(|(key, _)| *key == query_key)
        .map(|(_, value)| value);
    let address = match socket.next_back() {
        Some(folder) if query_key == "host" => {
            Address::Unix(PathBuf::from(folder).join(format!(".s.PGSQL.{port}")))
        }
        Some(file) => Address::Unix(file.into()),
        None if host.contains(':') => Address::Tcp(host.to_owned()),
        None => Address::Tcp(format!("{host}:{port}")),
    };
    Some(Parts {
        address,
        scheme: scheme.to_owned(),
        login,
        database: database.to_owned(),
    })
}

fn carry(client: TcpStream, address: &Address, delay: Duration) -> io::Result<()> {
    client.set_nodelay(true)?;
    match address {
        Address::Tcp(address) => {
            let server = TcpStream::connect(address)?;
            server.set_nodelay(true)?;
            let (answers, back) = (server.try_clone()?, client.try_clone()?);
            join(client, server, answers, back, delay)
        }
        Address::Unix(path) => {
            let server = UnixStream::connect(path)?;
            let (answers, back) = (server.try_clone()?, client.try_clone()?);
            join(client, server, answers, back, delay)
        }
    }
}

/// Joins two streams: there at once, back after the delay.
fn join<S: Read + Write + Send + 'static>(
    mut client: TcpStream,
    mut server: S,
    mut answers: S,
    back: TcpStream,
    delay: Duration,
) -> io::Result<()> {
    let (sender, pieces) = sync_channel(PIECES_MAX);
    spawn(move || {
        // Either side's end is the end of both.
        let _ = io::copy(&mut client, &mut server);
    })?;
    spawn(move || {
        let mut buffer = [0; 64 * 1_024];
        while let Ok(read @ 1..) = answers.read(&mut buffer) {
            let piece = (Instant::now() + delay, buffer[..read].to_vec());
            if sender.send(piece).is_err() {
                return;
            }
        }
    })?;
    spawn(move || deliver(back, &pieces))
}

/// Writes each piece at its time.
fn deliver(mut back: TcpStream, pieces: &Receiver<(Instant, Vec<u8>)>) {
    for (at, piece) in pieces {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if back.write_all(&piece).is_err() {
            return;
        }
    }
    let _ = back.shutdown(Shutdown::Both);
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("detour".into());
    thread.spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, address, login) in [
            (
                "postgres://stentor@localhost/users?host=/tmp/pg",
                Address::Unix("/tmp/pg/.s.PGSQL.5432".into()),
                "stentor@",
            ),
            (
                "mysql://root@localhost/users?socket=/tmp/m/sock",
                Address::Unix("/tmp/m/sock".into()),
                "root@",
            ),
            (
                "postgres://db.example/users",
                Address::Tcp("db.example:5432".into()),
                "",
            ),
            (
                "mysql://a@10.0.0.1:3307/users?ssl-mode=DISABLED",
                Address::Tcp("10.0.0.1:3307".into()),
                "a@",
            ),
        ] {
            let parts = parse(url).unwrap();
            assert_eq!((parts.address, parts.login.as_str()), (address, login));
            assert_eq!(parts.database, "users");
        }
        assert_eq!(parse("sqlite:auth.db"), None);
        assert_eq!(parse("postgres://nobody"), None);
    }

    #[test]
    fn answers_take_their_time() {
        let upstream = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = upstream.local_addr().unwrap().port();
        let delay = Duration::from_millis(30);
        let url = open(&format!("mysql://127.0.0.1:{port}/x"), delay).unwrap();
        let address = url.trim_start_matches("mysql://").trim_end_matches("/x");
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, _) = upstream.accept().unwrap();
        let mut byte = [0];
        client.write_all(b"?").unwrap();
        server.read_exact(&mut byte).unwrap();
        let asked = Instant::now();
        server.write_all(b"!").unwrap();
        client.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"!");
        assert!(asked.elapsed() >= delay);
        drop(server);
        assert_eq!(client.read(&mut byte).unwrap(), 0);
    }
}
