//! `DATA_DIR/control.sock`: the way to the server of this machine.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use stentor_control::{Mqtt, Request, VERSION, ZoneWord, asked};

use crate::failure::Failure;

/// How long the server may think about an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The length limit of an answer to the verb `mqtt`, which is short.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A question over a control socket, and its answer. More may follow.
pub(crate) fn ask(stream: &mut BufReader<UnixStream>, request: Value) -> Result<Value, Failure> {
    let verb = request["verb"].as_str().unwrap_or_default().to_owned();
    let line = exchange(stream, request)?;
    if is_unknown(&line)
        && let Ok(status) = exchange(stream, json!({ "verb": "status" })).and_then(answer_of)
    {
        return Err(Failure::new(format!(
            "the server that runs (stentor {}) does not know what this command (stentor {}) asks \
             it for: {verb}; restart the server with this release, or use the `stentor` command \
             that belongs to the server",
            status["version"].as_str().unwrap_or("of no version"),
            env!("CARGO_PKG_VERSION")
        )));
    }
    answer_of(line)
}

/// The same for a verb of the table.
pub(crate) fn tell<R: Request>(
    stream: &mut BufReader<UnixStream>,
    request: &R,
) -> Result<R::Answer, Failure> {
    let told = ask(
        stream,
        asked(request).map_err(|error| nonsense::<R>(&error))?,
    )?;
    serde_json::from_value(told).map_err(|error| nonsense::<R>(&error))
}

/// That the server and this command do not understand each other.
pub(crate) fn nonsense<R: Request>(error: &serde_json::Error) -> Failure {
    let verb = R::VERB.name();
    Failure::new(format!(
        "the server's answer to {verb} makes no sense: {error}; use the `stentor` command that \
         belongs to the server"
    ))
}

fn answer_of(line: String) -> Result<Value, Failure> {
    answer(line.as_bytes())
}

/// Whether an answer is that of an older server to a verb that came later, or to a new part of what
/// it carries.
fn is_unknown(line: &str) -> bool {
    let Ok(answer) = serde_json::from_str::<Value>(line) else {
        return false;
    };
    let error = answer["error"].as_str().unwrap_or_default();
    match answer["code"].as_str() {
        Some("unknown-verb") => true,
        Some("bad-request") => {
            error.starts_with("unknown variant") || error.starts_with("unknown field")
        }
        _ => false,
    }
}

/// A request with the version of the protocol.
fn versioned(mut request: Value) -> Value {
    request["v"] = json!(VERSION);
    request
}

/// Sends a request; the line that comes back.
fn exchange(stream: &mut BufReader<UnixStream>, request: Value) -> Result<String, Failure> {
    let request = versioned(request);
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::new(format!(
            "the server does not answer within {} s; it may still do what was asked",
            TIMEOUT.as_secs()
        )),
        _ => Failure::new(format!("the server does not answer: {error}")),
    };
    stream
        .get_mut()
        .write_all(format!("{request}\n").as_bytes())
        .map_err(failed)?;
    let mut line = String::new();
    stream.read_line(&mut line).map_err(failed)?;
    Ok(line)
}

/// Where the socket of a data folder is.
pub(crate) fn socket(data_dir: &Path) -> PathBuf {
    data_dir.join("control.sock")
}

/// Connects to the server of a data folder.
pub(crate) fn connect(data_dir: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket(data_dir))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Asks for MQTT, in a zone if one is given: what follows on the stream is MQTT, from the first
/// byte after the answer.
pub(crate) fn upgrade(stream: &mut UnixStream, zone: Option<&str>) -> Result<(), Failure> {
    let zone = zone.map(|zone| ZoneWord::Name(zone.to_owned()));
    let request = asked(&Mqtt { zone }).map_err(|error| nonsense::<Mqtt>(&error))?;
    let request = versioned(request);
    let failed = |error: io::Error| Failure::new(format!("the server does not answer: {error}"));
    stream
        .write_all(format!("{request}\n").as_bytes())
        .map_err(failed)?;
    let mut line = Vec::new();
    let mut byte = [0];
    // Byte by byte, so that nothing of MQTT is taken.
    while byte != [b'\n'] && line.len() < LINE_BYTES_MAX {
        stream.read_exact(&mut byte).map_err(failed)?;
        line.push(byte[0]);
    }
    answer(&line).map(|_| ())
}

/// What an answer says.
pub(crate) fn answer(line: &[u8]) -> Result<Value, Failure> {
    if line.is_empty() {
        return Err(Failure::new(
            "the server closed the connection without an answer",
        ));
    }
    let mut answer: Value = serde_json::from_slice(line)
        .map_err(|error| Failure::new(format!("the server's answer makes no sense: {error}")))?;
    if let Some(error) = answer["error"].as_str() {
        return Err(Failure::new(error));
    }
    Ok(answer["ok"].take())
}

/// Says why the server of a data folder cannot be asked.
pub(crate) fn no_server(data_dir: &Path, error: &io::Error) -> Failure {
    let folder = data_dir.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Failure::new(format!(
            "no server runs on the data folder {folder}; start one with `stentor serve --data-dir \
             {folder}`, or name another folder with --data-dir or STENTOR_DATA_DIR"
        )),
        ErrorKind::PermissionDenied => Failure::new(format!(
            "the server on {folder} belongs to another user; run this command as that user or root"
        )),
        _ => Failure::new(format!(
            "cannot use {}: {error}",
            socket(data_dir).display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        assert_eq!(
            answer(b"{\"v\":1,\"ok\":{\"a\":1}}\n").unwrap(),
            json!({"a": 1})
        );
        let failure = answer(b"{\"v\":1,\"error\":\"no such client\"}\n").unwrap_err();
        assert_eq!(failure.message(), "no such client");
        assert!(answer(b"").is_err());
        assert!(answer(b"nonsense").is_err());
    }
}
