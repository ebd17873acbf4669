//! A question to a name server and its answer (RFC 1035), over UDP, and over TCP if that is too
//! short.

use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::{Stream, is_late, left};

/// After this time a question is asked again: packets get lost.
const AGAIN: Duration = Duration::from_secs(2);
/// The longest answer over UDP without extensions.
const ANSWER_BYTES_MAX: usize = 512;
/// The bit of an answer that is cut off.
const CUT_OFF: u8 = 0x02;
/// Records of one answer.
const RECORDS_MAX: usize = 64;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    A,
    Aaaa,
    Mx,
    Ptr,
    Txt,
}

impl Kind {
    /// The kind of that name, in capital letters.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "A" => Self::A,
            "AAAA" => Self::Aaaa,
            "MX" => Self::Mx,
            "PTR" => Self::Ptr,
            "TXT" => Self::Txt,
            _ => return None,
        })
    }

    const fn number(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Ptr => 12,
            Self::Mx => 15,
            Self::Txt => 16,
            Self::Aaaa => 28,
        }
    }
}

/// The name server of this machine: the first one in `/etc/resolv.conf`, else this machine.
pub(crate) fn default_server() -> SocketAddr {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        is_server.then(|| words.next()?.parse::<IpAddr>().ok())?
    });
    let address = servers.into_iter().next();
    SocketAddr::new(address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), 53)
}

/// Asks for the records of a name, as text; none if there is no such name.
///
/// # Errors
/// When the name is none, or the server says nothing sensible in time.
pub(crate) fn ask(
    server: SocketAddr,
    name: &str,
    kind: Kind,
    end: Instant,
) -> io::Result<Vec<String>> {
    // An answer has to come from the server, to a port and with a number that nobody else knows.
    let id = RandomState::new().build_hasher().finish() as u16;
    let question = question(id, name, kind).map_err(io::Error::other)?;
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    let mut again = Instant::now();
    loop {
        // By time alone: a sender of false answers must not have the question sent each time.
        let now = Instant::now();
        if now >= again {
            socket.send(&question)?;
            again = now + AGAIN;
        }
        socket.set_read_timeout(Some(left(end)?.min(again - now)))?;
        let mut answer = [0; ANSWER_BYTES_MAX];
        match socket.recv(&mut answer) {
            // A packet that does not answer this question may be an attacker's guess.
            Ok(read) if is_answer(&answer[..read], &question) && answer[2] & CUT_OFF != 0 => {
                return ask_by_tcp(server, &question, kind, end);
            }
            Ok(read) => match records(&answer[..read], &question, kind) {
                Some(Ok(records)) => return Ok(records),
                Some(Err(reason)) => return Err(io::Error::other(reason)),
                None => {}
            },
            Err(error) if is_late(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Asks for an answer that is too long for one packet.
fn ask_by_tcp(
    server: SocketAddr,
    question: &[u8],
    kind: Kind,
    end: Instant,
) -> io::Result<Vec<String>> {
    let mut stream = Stream::connect(&server.to_string(), end)?;
    // A question is much shorter than 64 KiB.
    let len = question.len() as u16;
    stream.write_all(&[&len.to_be_bytes(), question].concat())?;
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut answer = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut answer)?;
    match records(&answer, question, kind) {
        Some(records) => records.map_err(io::Error::other),
        None => Err(io::Error::other("the name server answers something else")),
    }
}

pub(crate) fn question(id: u16, name: &str, kind: Kind) -> Result<Vec<u8>, String> {
    let mut bytes = id.to_be_bytes().to_vec();
    // One question, and please look further.
    bytes.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let name = name.strip_suffix('.').unwrap_or(name);
    for label in name.split('.') {
        let is_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if label.is_empty() || label.len() > 63 || !label.bytes().all(is_label) {
            return Err(format!("\"{name}\" is not a name that can be looked up"));
        }
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    if name.len() > 253 {
        return Err("the name is longer than 253 bytes".to_owned());
    }
    bytes.push(0);
    bytes.extend_from_slice(&kind.number().to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    Ok(bytes)
}

/// The records of an answer; `None` if it is none to this question.
pub(crate) fn records(
    answer: &[u8],
    question: &[u8],
    kind: Kind,
) -> Option<Result<Vec<String>, &'static str>> {
    if !is_answer(answer, question) {
        return None;
    }
    match answer[3] & 0x0F {
        0 => {}
        3 => return Some(Ok(Vec::new())),
        _ => return Some(Err("the name server could not find out")),
    }
    if answer[2] & CUT_OFF != 0 {
        return Some(Err("the answer is cut off"));
    }
    let count = usize::from(u16::from_be_bytes([answer[6], answer[7]]));
    let mut at = question.len();
    let mut found = Vec::new();
    for _ in 0..count.min(RECORDS_MAX) {
        match record(answer, &mut at, kind) {
            Some(Some(text)) => found.push(text),
            Some(None) => {}
            None => return Some(Err("the answer makes no sense")),
        }
    }
    Some(Ok(found))
}

/// Whether these bytes answer the question.
fn is_answer(answer: &[u8], question: &[u8]) -> bool {
    let Some(asked) = answer.get(12..question.len()) else {
        return false;
    };
    let is_reply = answer[2] & 0x80 != 0;
    answer[..2] == question[..2] && is_reply && asked.eq_ignore_ascii_case(&question[12..])
}

/// The record at a place, which moves on; an inner `None` for one of another kind.
fn record(answer: &[u8], at: &mut usize, kind: Kind) -> Option<Option<String>> {
    let (_, after) = name(answer, *at)?;
    let fixed = answer.get(after..after + 10)?;
    let number = u16::from_be_bytes([fixed[0], fixed[1]]);
    let length = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
    let start = after + 10;
    let data = answer.get(start..start + length)?;
    *at = start + length;
    if number != kind.number() {
        return Some(None);
    }
    Some(Some(match kind {
        Kind::A => Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).to_string(),
        Kind::Aaaa => Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string(),
        Kind::Ptr => name(answer, start)?.0,
        Kind::Mx => {
            let preference = u16::from_be_bytes([*data.first()?, *data.get(1)?]);
            format!("{preference} {}", name(answer, start + 2)?.0)
        }
        Kind::Txt => {
            let mut text = String::new();
            let mut rest = data;
            while let Some((length, after)) = rest.split_first() {
                let (part, next) = after.split_at_checked(usize::from(*length))?;
                text.push_str(&String::from_utf8_lossy(part));
                rest = next;
            }
            text
        }
    }))
}

/// A name and where it ends. Each reference leads backwards, so none can go round.
fn name(answer: &[u8], at: usize) -> Option<(String, usize)> {
    let mut text = String::new();
    let (mut at, mut end, mut least) = (at, None, at);
    loop {
        let length = *answer.get(at)?;
        match length {
            0 => return Some((text, end.unwrap_or(at + 1))),
            0xC0.. => {
                let to = usize::from(length & 0x3F) << 8 | usize::from(*answer.get(at + 1)?);
                end.get_or_insert(at + 2);
                if to >= least {
                    return None;
                }
                (at, least) = (to, to);
            }
            1..=63 => {
                let label = answer.get(at + 1..at + 1 + usize::from(length))?;
                let dot = if text.is_empty() { "" } else { "." };
                // Writing into a string does not fail.
                let _ = write!(text, "{dot}{}", String::from_utf8_lossy(label));
                at += 1 + usize::from(length);
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name server that answers each question with these records, of that code.
    fn server(code: u8, records: Vec<(u16, Vec<u8>)>) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((read, from)) = socket.recv_from(&mut question) {
                let mut answer = question[..read].to_vec();
                answer[2] |= 0x80;
                answer[3] = code;
                // Somebody's guess comes first.
                let mut guess = answer.clone();
                guess[0] ^= 1;
                let _ = socket.send_to(&guess, from);
                answer[7] = records.len() as u8;
                for (kind, data) in &records {
                    answer.extend_from_slice(&[0xC0, 12]);
                    answer.extend_from_slice(&kind.to_be_bytes());
                    answer.extend_from_slice(&[0, 1, 0, 0, 0, 9, 0, data.len() as u8]);
                    answer.extend_from_slice(data);
                }
                let _ = socket.send_to(&answer, from);
            }
        });
        address
    }

    fn look(server: SocketAddr, kind: Kind) -> io::Result<Vec<String>> {
        let end = Instant::now() + Duration::from_secs(60);
        ask(server, "a.test", kind, end)
    }

    #[test]
    fn records_are_read_and_others_are_passed_over() {
        let all = vec![
            (5, vec![0xC0, 12]),
            (1, vec![192, 0, 2, 1]),
            (1, vec![192, 0, 2, 2]),
            (28, vec![0; 16]),
            (15, vec![0, 10, 2, b'm', b'x', 0xC0, 12]),
            (12, vec![0xC0, 14]),
            (16, b"\x02a=\x01b".to_vec()),
        ];
        let server = server(0, all);
        for (kind, expected) in [
            (Kind::A, &["192.0.2.1", "192.0.2.2"] as &[&str]),
            (Kind::Aaaa, &["::"]),
            (Kind::Mx, &["10 mx.a.test"]),
            (Kind::Ptr, &["test"]),
            (Kind::Txt, &["a=b"]),
        ] {
            assert_eq!(look(server, kind).unwrap(), expected);
        }
    }

    /// A name server, or who pretends to be it, that sends nonsense first.
    #[test]
    fn nonsense_does_not_have_the_question_sent_again() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let asked = std::thread::spawn(move || look(address, Kind::A));
        let mut question = [0; 512];
        let (read, from) = socket.recv_from(&mut question).unwrap();
        let mut answer = question[..read].to_vec();
        for number in 0..50_u8 {
            socket.send_to(&[number; 40], from).unwrap();
        }
        // No record.
        answer[2] |= 0x80;
        socket.send_to(&answer, from).unwrap();
        assert_eq!(asked.join().unwrap().unwrap(), [""; 0]);
        socket.set_nonblocking(true).unwrap();
        let again = std::iter::from_fn(|| socket.recv_from(&mut question).ok()).count();
        // On a machine that stands still for seconds it may be asked again for that.
        assert!(again < 25, "asked again {again} times");
    }

    /// A name server that says by UDP that its answer is too long, and gives it by TCP.
    #[test]
    fn long_answers_come_by_tcp() {
        let address = super::super::serve(|mut stream| {
            let mut len = [0; 2];
            stream.read_exact(&mut len).expect("a length comes");
            let mut answer = vec![0; u16::from_be_bytes(len).into()];
            stream.read_exact(&mut answer).expect("a question comes");
            answer[2] |= 0x80;
            answer[7] = 9;
            for _ in 0..9 {
                answer.extend_from_slice(&[0xC0, 12, 0, 16, 0, 1, 0, 0, 0, 9, 0, 201, 200]);
                answer.extend_from_slice(&[b'x'; 200]);
            }
            let len = (answer.len() as u16).to_be_bytes();
            let _ = stream.write_all(&[&len, &answer[..]].concat());
        });
        let socket = UdpSocket::bind(address).expect("the same port is free");
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((read, from)) = socket.recv_from(&mut question) {
                question[2] |= 0x80 | CUT_OFF;
                let _ = socket.send_to(&question[..read], from);
            }
        });
        assert_eq!(look(address, Kind::Txt).unwrap(), vec!["x".repeat(200); 9]);
    }

    #[test]
    fn no_name_is_no_record_and_no_answer_is_an_error() {
        assert_eq!(look(server(3, Vec::new()), Kind::A).unwrap(), [""; 0]);
        let refused = look(server(2, Vec::new()), Kind::A).unwrap_err();
        assert!(refused.to_string().contains("could not find out"));
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let end = Instant::now() + Duration::from_millis(50);
        let late = ask(silent.local_addr().unwrap(), "a.test", Kind::A, end);
        assert!(is_late(&late.unwrap_err()));
        for name in ["", "a..b", "a b", &"a.".repeat(150), &"a".repeat(64)] {
            let end = Instant::now() + Duration::from_secs(60);
            assert!(ask(silent.local_addr().unwrap(), name, Kind::A, end).is_err());
        }
    }

    #[test]
    fn references_that_go_round_or_out_are_refused() {
        for data in [vec![0xC0, 40], vec![0xC0, 0xFF], vec![5, b'a'], vec![0x80]] {
            assert!(look(server(0, vec![(12, data)]), Kind::Ptr).is_err());
        }
    }
}
