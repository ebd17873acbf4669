//! Whether the process that `--pid` names is the server at an address: the figures of any other one
//! would be believed as well.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

use crate::error::BenchError;
use crate::link::Endpoint;
use crate::process;

/// A listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// What can be said about a process and an address.
#[derive(Debug, PartialEq, Eq)]
enum Bond {
    /// It listens there, or a descendant of it does.
    Holds,
    /// The same, and another one does so too.
    Shares(u32),
    /// Another one does.
    Foreign(u32),
    /// Nobody can say, and why.
    Unknown(&'static str),
}

/// Looks who listens; what a reader has to know where that cannot be found out.
///
/// # Errors
/// When it is certain that another process listens, and the process that was named has no part in
/// it; or when this benchmark runs below that process, so that its own work would be the server's.
pub(super) fn check(endpoint: &Endpoint, pid: u32) -> Result<Option<String>, BenchError> {
    if process::family(pid).contains(&std::process::id()) {
        return Err(BenchError::usage(format!(
            "--pid {pid} ({}): this benchmark was started below that process, and would count as \
             the server's; give the process of the server itself",
            name(pid)
        )));
    }
    match bond(endpoint, pid) {
        Bond::Holds => Ok(None),
        Bond::Shares(other) => Ok(Some(format!(
            "CPU and memory are those of process {pid} ({}); {other} ({}) listens at the target \
             too, and is not counted",
            name(pid),
            name(other)
        ))),
        Bond::Foreign(holder) => Err(BenchError::usage(format!(
            "--pid {pid} ({}): another process listens at the target, {holder} ({}): give --pid \
             {holder}, or leave it out; if {holder} only passes on what it gets, measure the \
             server at its own address",
            name(pid),
            name(holder)
        ))),
        Bond::Unknown(why) => Ok(Some(format!(
            "CPU and memory are those of process {pid} ({}); that it is the server at the target \
             cannot be checked: {why}",
            name(pid)
        ))),
    }
}

/// What a process is called, as far as a terminal may see it.
fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().replace(char::is_control, "?")
}

fn bond(endpoint: &Endpoint, pid: u32) -> Bond {
    match endpoint {
        Endpoint::Unix(path) => bond_by_unix(path, pid),
        Endpoint::Tcp(address) | Endpoint::Layered(address, _) => bond_by_tcp(*address, pid),
    }
}

/// The kernel remembers who began to listen at a Unix socket, whatever its file is called by now.
fn bond_by_unix(path: &Path, pid: u32) -> Bond {
    let Ok(stream) = UnixStream::connect(path) else {
        return Bond::Unknown("nobody answers there");
    };
    let peer = getsockopt(&stream, PeerCredentials).map_or(0, |peer| peer.pid());
    // 0 stands for a process that is not known here, as of another container.
    let Some(holder) = u32::try_from(peer).ok().filter(|peer| *peer > 0) else {
        return Bond::Unknown("the kernel does not say which process listens there");
    };
    if process::family(pid).contains(&holder) {
        Bond::Holds
    } else if process::family(holder).contains(&pid) {
        Bond::Unknown("the process that listens there started it")
    } else if process::all().any(|pid| pid == holder) {
        Bond::Foreign(holder)
    } else {
        Bond::Unknown("the process that began to listen there has ended")
    }
}

fn bond_by_tcp(address: SocketAddr, pid: u32) -> Bond {
    let sockets = listening(address);
    if sockets.is_empty() {
        return Bond::Unknown("no process of this machine is known to listen there");
    }
    let family = process::family(pid);
    let held: Vec<Option<bool>> = family.iter().map(|pid| holds(*pid, &sockets)).collect();
    let holders: Vec<u32> = process::all()
        .filter(|pid| !family.contains(pid) && holds(*pid, &sockets) == Some(true))
        .collect();
    if held.contains(&Some(true)) {
        return holders.first().map_or(Bond::Holds, |it| Bond::Shares(*it));
    }
    if held.contains(&None) {
        return Bond::Unknown("its descriptors may not be looked at");
    }
    if !family.iter().all(|pid| is_in_this_network(*pid)) {
        return Bond::Unknown("it has a network of its own, as in a container");
    }
    // Elsewhere, a process of another machine may be meant.
    if !address.ip().to_canonical().is_loopback() {
        return Bond::Unknown("the target is not on the loopback network");
    }
    // A process that listens may hand over connections to its children.
    if holders
        .iter()
        .any(|holder| process::family(*holder).contains(&pid))
    {
        return Bond::Unknown("the process that listens there started it");
    }
    match holders.first() {
        Some(holder) => Bond::Foreign(*holder),
        None => Bond::Unknown("the process that listens there cannot be read"),
    }
}

/// Whether a process has the network of this one: the tables here tell of no other.
fn is_in_this_network(pid: u32) -> bool {
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    network("self").is_some_and(|own| network(&pid.to_string()) == Some(own))
}

/// Whether a process has one of these sockets; `None` where it may not be looked at. Its threads
/// may have descriptor tables of their own.
fn holds(pid: u32, sockets: &BTreeSet<u64>) -> Option<bool> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if table_has(&process, sockets)? {
        return Some(true);
    }
    for thread in entries(&process.join("task"))? {
        if table_has(&thread, sockets)? {
            return Some(true);
        }
    }
    Some(false)
}

fn table_has(process: &Path, sockets: &BTreeSet<u64>) -> Option<bool> {
    for descriptor in entries(&process.join("fd"))? {
        let target = match fs::read_link(&descriptor) {
            Ok(target) => target,
            Err(error) if has_ended(&error) => continue,
            Err(_) => return None,
        };
        if socket_number(&target.to_string_lossy()).is_some_and(|it| sockets.contains(&it)) {
            return Some(true);
        }
    }
    Some(false)
}

/// What is in a folder of /proc: nothing if the process has ended, `None` where it may not be
/// looked at.
fn entries(folder: &Path) -> Option<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => Some(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if has_ended(&error) => Some(Vec::new()),
        Err(_) => None,
    }
}

fn has_ended(error: &io::Error) -> bool {
    let is_gone = error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32);
    is_gone || error.kind() == io::ErrorKind::NotFound
}

/// The number in `socket:[4711]`.
fn socket_number(target: &str) -> Option<u64> {
    let number = target.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// The sockets that listen at an address, by their numbers.
fn listening(address: SocketAddr) -> BTreeSet<u64> {
    let table = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    tcp_sockets(&(table("tcp") + &table("tcp6")), address)
}

/// Whoever listens at that very address; else whoever does so everywhere; else, for IPv4, whoever
/// listens everywhere by IPv6: it may do so for both. The kernel prefers them in this order.
fn tcp_sockets(table: &str, address: SocketAddr) -> BTreeSet<u64> {
    let wanted = address.ip().to_canonical();
    let everywhere = match wanted {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let at = |ip: IpAddr| -> BTreeSet<u64> {
        let lines = table.lines();
        lines
            .filter_map(|line| listener_at(line, ip, address.port()))
            .collect()
    };
    let ways = [wanted, everywhere, IpAddr::from(Ipv6Addr::UNSPECIFIED)];
    let mut found = ways.into_iter().map(at);
    found.find(|found| !found.is_empty()).unwrap_or_default()
}

/// The number of the socket in a line of the table, if it listens there.
fn listener_at(line: &str, wanted: IpAddr, wanted_port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (ip, port) = fields.get(1)?.split_once(':')?;
    let is_there = ip_of(ip)? == wanted && u16::from_str_radix(port, 16).ok()? == wanted_port;
    let is_it = is_there && *fields.get(3)? == LISTENING;
    is_it.then(|| fields.get(9)?.parse().ok()).flatten()
}

/// An address as /proc has it: words of 32 bits, each as this processor has numbers.
fn ip_of(text: &str) -> Option<IpAddr> {
    let words = text.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    fn endpoint(listener: &TcpListener) -> Endpoint {
        Endpoint::Tcp(listener.local_addr().unwrap())
    }

    /// A process that waits, with what it was given as its standard output.
    fn cat(output: Stdio) -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(output);
        command.spawn().unwrap()
    }

    /// Looks until the bond is the expected one. A program that another test starts has all sockets
    /// of this process until it is executed, so a single look may find one process more.
    #[track_caller]
    fn expect_bond(there: &Endpoint, pid: u32, expected: &Bond) {
        let found = (0..10_000).any(|_| bond(there, pid) == *expected);
        assert!(found, "{:?} instead of {expected:?}", bond(there, pid));
    }

    #[test]
    fn who_listens_is_found() {
        let own = std::process::id();
        let everywhere = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = everywhere.local_addr().unwrap().port();
        let here = Endpoint::Tcp(SocketAddr::from(([127, 0, 0, 1], port)));
        expect_bond(&here, own, &Bond::Holds);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        expect_bond(&endpoint(&listener), own, &Bond::Holds);
    }

    /// Its file may be moved, and another one come in its place.
    #[test]
    fn who_listens_at_a_unix_socket_is_found() {
        let own = std::process::id();
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a socket"), folder.path().join("link"));
        let listener = UnixListener::bind(folder.path().join("new")).unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut other = cat(Stdio::null());
        // Its parent has ended, so that it is nobody's child.
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", "sleep 100 > /dev/null 2>&1 & echo $!"]);
        let stranger = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let stranger: u32 = stranger.trim().parse().unwrap();
        for path in [path, link] {
            let there = Endpoint::Unix(path);
            expect_bond(&there, own, &Bond::Holds);
            let why = "the process that listens there started it";
            expect_bond(&there, other.id(), &Bond::Unknown(why));
            expect_bond(&there, stranger, &Bond::Foreign(own));
        }
        kill(Pid::from_raw(stranger.cast_signed()), Signal::SIGKILL).unwrap();
        drop(listener);
        let gone = Endpoint::Unix(folder.path().join("a socket"));
        expect_bond(&gone, own, &Bond::Unknown("nobody answers there"));
        other.kill().unwrap();
        other.wait().unwrap();
    }

    /// Shards of a server have such tables.
    #[test]
    fn a_thread_with_a_table_of_its_own_is_looked_at() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            unshare(CloneFlags::CLONE_FILES).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            tell.send(endpoint(&listener)).unwrap();
            let _ = ended.recv();
        });
        let there = told.recv().unwrap();
        expect_bond(&there, std::process::id(), &Bond::Holds);
        drop(end);
        thread.join().unwrap();
    }

    #[test]
    fn a_child_that_listens_is_its_parents_and_the_parent_is_no_childs() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = endpoint(&listener);
        let mut other = cat(Stdio::null());
        let why = "the process that listens there started it";
        expect_bond(&there, other.id(), &Bond::Unknown(why));
        let mut child = cat(Stdio::from(std::os::fd::OwnedFd::from(listener)));
        expect_bond(&there, child.id(), &Bond::Holds);
        expect_bond(&there, std::process::id(), &Bond::Holds);
        expect_bond(&there, other.id(), &Bond::Foreign(child.id()));
        let refused = || check(&there, other.id()).unwrap_err().to_string();
        let (other_id, child_id) = (other.id(), child.id());
        for part in [
            format!("--pid {other_id} (cat)"),
            format!("give --pid {child_id}"),
        ] {
            let found = (0..10_000).any(|_| refused().contains(&part));
            assert!(found, "{}", refused());
        }
        for child in [&mut other, &mut child] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn who_listens_as_well_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = endpoint(&listener);
        let copy = listener.try_clone().unwrap();
        let mut child = cat(Stdio::from(std::os::fd::OwnedFd::from(copy)));
        expect_bond(&there, child.id(), &Bond::Shares(std::process::id()));
        let note = check(&there, child.id()).unwrap().unwrap();
        assert!(note.contains("too, and is not counted"), "{note}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_cannot_be_known_is_a_note() {
        let mut other = cat(Stdio::null());
        let pid = other.id();
        for address in ["192.0.2.1:1883", "127.0.0.1:1"] {
            let there = Endpoint::Tcp(address.parse().unwrap());
            let note = check(&there, pid).unwrap().unwrap();
            assert!(note.contains(&format!("process {pid} (")), "{note}");
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }

    /// A shell that has started both would be measured with the benchmark's own work.
    #[test]
    fn what_the_benchmark_runs_below_is_no_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for pid in [std::process::id(), std::os::unix::process::parent_id()] {
            let refused = check(&endpoint(&listener), pid).unwrap_err().to_string();
            assert!(refused.contains("started below that process"), "{refused}");
        }
    }

    #[test]
    fn tables_are_read() {
        let line = |ip: &str, state: &str, number: u32| {
            format!("   0: {ip}:075B 00000000:0000 {state} 0:0 00:0 0 0 0 {number} 1 0 100\n")
        };
        let loopback = "0100007F";
        let mapped = "0000000000000000FFFF00000100007F";
        let table = [
            "  sl  local_address rem_address   st\n".to_owned(),
            line(loopback, "0A", 1),
            line(loopback, "01", 2),
            line("0200007F", "0A", 3),
            line("00000000", "0A", 4),
            line(mapped, "0A", 5),
            line(&"0".repeat(32), "0A", 6),
        ];
        let table = table.concat();
        for (address, expected) in [
            ("127.0.0.1:1883", &[1, 5][..]),
            ("127.0.0.2:1883", &[3]),
            ("127.0.0.3:1883", &[4]),
            ("[::1]:1883", &[6]),
            ("127.0.0.1:1884", &[]),
        ] {
            let found = tcp_sockets(&table, address.parse().unwrap());
            assert_eq!(found, expected.iter().copied().collect(), "{address}");
        }
        // By IPv6 for IPv4 as well, where nobody else does.
        let both = line(&"0".repeat(32), "0A", 6);
        let found = tcp_sockets(&both, "127.0.0.1:1883".parse().unwrap());
        assert_eq!(found, BTreeSet::from([6]));
    }
}
