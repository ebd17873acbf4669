//! Which server a command talks to: the one at an address, or the one on a data folder.

use std::io::{self, BufReader, ErrorKind};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use stentor_client::{Scheme, Url};
use stentor_control::status::Status;

use crate::control;
use crate::failure::Failure;

/// Where a connection goes. Whoever named a folder is never led to another server: that one would
/// get to see the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the address of the options.
    Address,
    /// To the server of this data folder.
    Folder(PathBuf),
    /// To the server of this data folder if one runs there, else to the address of the options.
    FolderOrAddress(PathBuf),
}

/// How to enter the server of a data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryPoint {
    /// Through its control socket, as administrator.
    Control,
    /// Through a listener with one of these schemes, the first one preferred.
    Listener(&'static [&'static str]),
}

/// What suits a login that asks for nothing special. A connection within the machine needs no
/// encryption, so one that takes no certificate comes first.
pub(crate) const ANY: EntryPoint = EntryPoint::Listener(&["mqtt", "unix", "ws", "mqtts", "wss"]);

/// For connections from an address of the user's choice.
pub(crate) const NETWORK: EntryPoint = EntryPoint::Listener(&["mqtt", "ws", "mqtts", "wss"]);

/// For TLS.
pub(crate) const ENCRYPTED: EntryPoint = EntryPoint::Listener(&["mqtts"]);

/// For WebSocket.
pub(crate) const WEBSOCKET: EntryPoint = EntryPoint::Listener(&["ws"]);

/// For WebSocket over TLS.
pub(crate) const ENCRYPTED_WEBSOCKET: EntryPoint = EntryPoint::Listener(&["wss"]);

impl Route {
    /// Decides between folder and address.
    pub(crate) fn settle(&self) -> Self {
        match self {
            Self::Address | Self::Folder(_) => self.clone(),
            Self::FolderOrAddress(folder) => match control::connect(folder) {
                Err(error) if is_away(&error) || is_somebody_elses(&error) => Self::Address,
                // The request to the folder's server reports other errors.
                Ok(_) | Err(_) => Self::Folder(folder.clone()),
            },
        }
    }
}

/// No server runs on the folder; one may at any time.
pub(crate) fn is_away(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory
    )
}

fn is_somebody_elses(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

/// The address of a listener of the server on a data folder, whose control socket is connected.
pub(crate) fn listener(
    stream: UnixStream,
    folder: &Path,
    schemes: &[&str],
) -> Result<Url, Failure> {
    let status = control::tell(&mut BufReader::new(stream), &Status::default())?;
    let listeners = status.listeners.iter();
    let urls: Vec<&str> = listeners.map(|listener| &*listener.url).collect();
    choose(&urls, schemes).ok_or_else(|| {
        Failure::new(format!(
            "the server on the data folder {} has no listener for {}; it listens on {}",
            folder.display(),
            schemes.join(", "),
            urls.join(", ")
        ))
    })
}

fn choose(urls: &[&str], schemes: &[&str]) -> Option<Url> {
    schemes.iter().find_map(|scheme| {
        let of_scheme = |url: &&&str| url.split(':').next() == Some(scheme);
        urls.iter().filter(of_scheme).find_map(|url| reachable(url))
    })
}

/// How the listener is reached from this machine.
fn reachable(url: &str) -> Option<Url> {
    let mut url: Url = url.parse().ok()?;
    if url.scheme == Scheme::Unix {
        // A relative path begins where the server was started, which nobody here knows.
        return url.path.starts_with('/').then_some(url);
    }
    match url.host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) if address.is_unspecified() => url.host = "127.0.0.1".into(),
        Ok(IpAddr::V6(address)) if address.is_unspecified() => url.host = "::1".into(),
        _ => {}
    }
    Some(url)
}

/// Says that nothing was done, and what else there is.
pub(crate) fn no_server(folder: &Path, error: &io::Error) -> Failure {
    let failure = control::no_server(folder, error);
    if is_somebody_elses(error) {
        return failure.with_note("or name its address: -h HOST");
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_chosen_by_what_it_speaks() {
        let all = [
            "call+unix:/run/call",
            "wss://0.0.0.0:4",
            "mqtts://127.0.0.1:2",
            "unix:relative",
            "unix:/run/s",
            "ws://[::]:3",
            "mqtt://0.0.0.0:1",
        ];
        let check = |urls: &[&str], entry_point: EntryPoint, chosen: &str| {
            let EntryPoint::Listener(schemes) = entry_point else {
                panic!("the control socket is no listener");
            };
            let url = choose(urls, schemes).map(|url| url.to_string());
            assert_eq!(url.as_deref().unwrap_or("none"), chosen);
        };
        check(&all, ANY, "mqtt://127.0.0.1:1");
        check(&all[..6], ANY, "unix:/run/s");
        check(&all[..6], NETWORK, "ws://[::1]:3/mqtt");
        check(&all[..4], ANY, "mqtts://127.0.0.1:2");
        check(&all, ENCRYPTED, "mqtts://127.0.0.1:2");
        check(&all, WEBSOCKET, "ws://[::1]:3/mqtt");
        check(&all, ENCRYPTED_WEBSOCKET, "wss://127.0.0.1:4/mqtt");
        check(&all[..1], ANY, "none");
        check(&all[4..5], NETWORK, "none");
    }

    #[test]
    fn an_address_is_only_a_last_resort_if_no_folder_was_named() {
        let nowhere = || PathBuf::from("/nonexistent/folder");
        assert_eq!(Route::FolderOrAddress(nowhere()).settle(), Route::Address);
        let named = Route::Folder(nowhere());
        assert_eq!(named.settle(), named);
    }
}
