//! Opening listeners.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::unix;
use crate::config::{ListenUrl, Listener};
use crate::error::ServerError;

/// The backlog asked for; the kernel caps it at `net.core.somaxconn`. A storm of connects must
/// not overflow it: each overflow costs its client a second or more.
pub(super) const BACKLOG: i32 = 16_384;

/// A connection takes more bytes only while less than this many wait unsent in the kernel: the
/// backlog of a slow client then stays in its queue here, where policies can see it.
const NOTSENT_LOWAT_BYTES: u32 = 128 * 1024;

/// How often a free port is tried again when somebody takes it between two steps.
const FREE_PORT_ATTEMPTS: usize = 20;

/// A listener that was opened: its URL with the real port, and one socket per shard.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) url: ListenUrl,
    pub(crate) sockets: Vec<OwnedFd>,
}

/// Opens a listener for that many shards. A name with several addresses gives several.
///
/// # Errors
/// When the place is taken or may not be used.
pub(crate) fn bind(listener: &Listener, shards: u8) -> Result<Vec<Bound>, ServerError> {
    match &listener.url {
        ListenUrl::Unix(path) | ListenUrl::AskUnix(_, path) => {
            let socket = unix::bind(listener, path)?;
            let sockets = duplicates(socket, shards)
                .map_err(|error| ServerError::system("duplicating a listener", error))?;
            Ok(vec![Bound {
                url: listener.url.clone(),
                sockets,
            }])
        }
        ListenUrl::Net { host, port, .. } => {
            let fail = |error| failure(&listener.url, error);
            let addresses = addresses(host, *port).map_err(fail)?;
            let opened = bind_addresses(&addresses, shards).map_err(fail)?;
            let several = opened.len() > 1;
            let bound = |(address, sockets): (SocketAddr, Vec<OwnedFd>)| Bound {
                url: if several {
                    listener.url.with_address(address)
                } else {
                    listener.url.with_port(address.port())
                },
                sockets,
            };
            Ok(opened.into_iter().map(bound).collect())
        }
    }
}

/// Opens a port of a host for one thread, at each address that the host stands for.
///
/// # Errors
/// When it is taken or may not be used.
pub(crate) fn bind_tcp(host: &str, port: u16) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
    let opened = bind_addresses(&addresses(host, port)?, 1)?;
    let one = |(address, sockets): (SocketAddr, Vec<OwnedFd>)| {
        let mut sockets = sockets.into_iter();
        sockets.next().map(|socket| (address, socket))
    };
    Ok(opened.into_iter().filter_map(one).collect())
}

/// What a host stands for. `localhost` means both loopback addresses, as clients try either of
/// them first, whatever this machine's files say (RFC 6761, section 6.3).
fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if host.eq_ignore_ascii_case("localhost") {
        let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        return Ok(both.map(|address| SocketAddr::new(address, port)).into());
    }
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in (host, port).to_socket_addrs()? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// Opens all of these addresses on one port, with one socket per shard each. Addresses of a family
/// that this machine does not use are left out, as long as there are others.
fn bind_addresses(
    addresses: &[SocketAddr],
    shards: u8,
) -> io::Result<Vec<(SocketAddr, Vec<OwnedFd>)>> {
    let any_port = addresses.iter().all(|address| address.port() == 0);
    for _ in 1..FREE_PORT_ATTEMPTS {
        match bind_addresses_once(addresses, shards) {
            // The port that is free on one of them is taken on another, or somebody took it
            // between the probe and the sockets.
            Err(error) if any_port && error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
    bind_addresses_once(addresses, shards)
}

fn bind_addresses_once(
    addresses: &[SocketAddr],
    shards: u8,
) -> io::Result<Vec<(SocketAddr, Vec<OwnedFd>)>> {
    let mut opened: Vec<(SocketAddr, Vec<OwnedFd>)> = Vec::new();
    let mut unavailable = None;
    for address in addresses {
        let mut address = *address;
        if let Some((first, _)) = opened.first() {
            address.set_port(first.port());
        }
        match bind_once(address, shards) {
            Ok((port, sockets)) => {
                address.set_port(port);
                opened.push((address, sockets));
            }
            Err(error) if is_unavailable(&error) => unavailable = Some(error),
            Err(error) => return Err(error),
        }
    }
    match unavailable {
        Some(error) if opened.is_empty() => Err(error),
        _ => Ok(opened),
    }
}

fn duplicates(socket: OwnedFd, shards: u8) -> io::Result<Vec<OwnedFd>> {
    let mut sockets = Vec::new();
    for _ in 1..shards {
        sockets.push(socket.try_clone()?);
    }
    sockets.push(socket);
    Ok(sockets)
}

/// Whether the address cannot exist on this machine.
pub(crate) fn is_unavailable(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EADDRNOTAVAIL | Errno::EAFNOSUPPORT)
    )
}

/// Whether a connection waits for which the system has no descriptor or memory left.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)
    )
}

fn failure(url: &ListenUrl, error: io::Error) -> ServerError {
    let url = url.clone();
    match error.kind() {
        io::ErrorKind::AddrInUse => ServerError::PortTaken { url },
        io::ErrorKind::PermissionDenied => ServerError::PortForbidden { url },
        _ => ServerError::Bind { url, error },
    }
}

/// Opens one socket per shard on an address; returns the real port.
fn bind_once(address: SocketAddr, shards: u8) -> io::Result<(u16, Vec<OwnedFd>)> {
    // SO_REUSEPORT hides that another program listens there, so ask without it first.
    let probe = socket(address)?;
    probe.bind(&address.into())?;
    let port = probe
        .local_addr()?
        .as_socket()
        .map_or(0, |real| real.port());
    drop(probe);
    let address = SocketAddr::new(address.ip(), port);
    let sockets = (0..shards)
        .map(|_| open(address))
        .collect::<io::Result<_>>()?;
    Ok((port, sockets))
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // So that [::] and 0.0.0.0 can be opened side by side, and each means what it says.
        socket.set_only_v6(true)?;
    }
    // Old connections that the kernel still remembers do not make a port taken.
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    // Accepted connections inherit both: two system calls less for each.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(NOTSENT_LOWAT_BYTES)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn open_at(url: &str, shards: u8) -> Result<Vec<Bound>, ServerError> {
        bind(
            &Listener {
                url: url.parse().unwrap(),
                ..crate::listener::configured()
            },
            shards,
        )
    }

    fn port_of(url: &ListenUrl) -> u16 {
        match url {
            ListenUrl::Net { port, .. } => *port,
            ListenUrl::Unix(_) | ListenUrl::AskUnix(..) => panic!("{url} has no port"),
        }
    }

    #[test]
    fn every_shard_gets_a_socket_on_the_same_free_port() {
        let bound = open_at("mqtt://127.0.0.1:0", 3).unwrap();
        assert_eq!(bound.len(), 1);
        assert_eq!(bound[0].sockets.len(), 3);
        let port = port_of(&bound[0].url);
        assert_ne!(port, 0);
        for socket in &bound[0].sockets {
            let listener = TcpListener::from(socket.try_clone().unwrap());
            assert_eq!(listener.local_addr().unwrap().port(), port);
        }
    }

    /// A port that is free on the first address only is given up for one that is free on all.
    #[test]
    fn a_name_opens_all_its_addresses_on_one_port() {
        let any = |address: &str| SocketAddr::new(address.parse().unwrap(), 0);
        for _ in 0..20 {
            let opened = bind_addresses(&[any("127.0.0.1"), any("127.0.0.2")], 2).unwrap();
            assert_eq!(opened.len(), 2);
            assert_eq!(opened[0].0.port(), opened[1].0.port());
            let taken = TcpListener::bind(opened[0].0);
            assert!(taken.is_err(), "both are listened on");
        }
        // What this machine has no address for is left out, and is an error alone.
        let opened = bind_addresses(&[any("192.0.2.1"), any("127.0.0.1")], 1).unwrap();
        assert_eq!(opened.len(), 1);
        assert!(is_unavailable(
            &bind_addresses(&[any("192.0.2.1")], 1).unwrap_err()
        ));
        // A port that was asked for is not exchanged.
        let taken = TcpListener::bind(any("127.0.0.2"))
            .unwrap()
            .local_addr()
            .unwrap();
        let held = TcpListener::bind(taken).unwrap();
        let first = SocketAddr::new(any("127.0.0.1").ip(), taken.port());
        let error = bind_addresses(&[first, taken], 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(held);
    }

    #[test]
    fn localhost_is_both_loopback_addresses() {
        let shown: Vec<String> = addresses("LocalHost", 1883)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["127.0.0.1:1883", "[::1]:1883"]);
        assert_eq!(addresses("127.0.0.2", 1).unwrap().len(), 1);
    }

    #[test]
    fn a_taken_port_is_noticed_in_spite_of_reuse() {
        let bound = open_at("mqtt://127.0.0.1:0", 2).unwrap();
        let result = open_at(&bound[0].url.to_string(), 2);
        assert!(matches!(result, Err(ServerError::PortTaken { .. })));
    }

    /// Linux copies both options to accepted sockets; the server relies on it.
    #[test]
    fn accepted_connections_inherit_the_options() {
        let bound = open_at("mqtt://127.0.0.1:0", 1).unwrap();
        let client = TcpStream::connect(("127.0.0.1", port_of(&bound[0].url))).unwrap();
        let listener = TcpListener::from(bound[0].sockets[0].try_clone().unwrap());
        listener.set_nonblocking(false).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let accepted = Socket::from(accepted);
        assert!(accepted.tcp_nodelay().unwrap());
        assert_eq!(accepted.tcp_notsent_lowat().unwrap(), NOTSENT_LOWAT_BYTES);
        drop(client);
    }

    #[test]
    fn a_strange_address_is_a_clear_error() {
        let result = open_at("mqtt://192.0.2.1:0", 1);
        assert!(matches!(result, Err(ServerError::Bind { .. })));
    }
}
