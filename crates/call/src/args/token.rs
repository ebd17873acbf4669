//! The token.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use stentor_call_protocol::limits::TOKEN_BYTES_MAX;

use super::Server;
use crate::file::regular;

/// The longest token file that is read.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Whether a token may go over a network unencrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Clear {
    #[default]
    Never,
    /// `--clear-token`: whoever calls trusts the network.
    Allowed,
}

/// The token for a server over the network. On a Unix socket one is sent only if it was named.
pub(super) fn token(
    file: Option<PathBuf>,
    server: &Server,
    clear: Clear,
) -> Result<Vec<u8>, String> {
    let token = match file {
        Some(path) => read_token(&path)
            .map_err(|reason| format!("--token-file {}: {reason}", path.display()))?,
        None => match (server, std::env::var_os("STENTOR_TOKEN")) {
            (Server::Tcp(..) | Server::Tls { .. }, Some(token)) => {
                trim(token.as_encoded_bytes()).to_vec()
            }
            _ => return Ok(Vec::new()),
        },
    };
    if token.len() > TOKEN_BYTES_MAX {
        return Err(format!("the token has more than {TOKEN_BYTES_MAX} bytes"));
    }
    match server {
        Server::Tcp(host, _) if clear == Clear::Never && !token.is_empty() && is_away(*host) => {
            Err(format!(
                "the token would go to {server} unencrypted: call calls://{host}, a listener with \
                 TLS; on a network that you trust, add --clear-token"
            ))
        }
        _ => Ok(token),
    }
}

/// Whether others may see what goes to this address.
fn is_away(host: IpAddr) -> bool {
    !host.to_canonical().is_loopback()
}

fn read_token(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = regular(path)
        .and_then(File::open)
        .and_then(|file| {
            let mut bytes = Vec::new();
            let mut file = file.take(TOKEN_FILE_BYTES_MAX);
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        })
        .map_err(|error| error.to_string())?;
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let token = trim(line);
    if token.is_empty() {
        return Err("the first line is empty; it has to be the token".to_owned());
    }
    Ok(token.to_vec())
}

fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}
