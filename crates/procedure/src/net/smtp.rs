//! Handing a message to a relay by SMTP.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::Stream;

/// Recipients of one message.
pub(crate) const RECIPIENTS_MAX: usize = 100;
/// The longest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The longest reply of a relay.
const REPLY_BYTES_MAX: usize = 64 * 1024;

/// How long a relay may take to say final output.
const FAREWELL: Duration = Duration::from_millis(100);

/// A message to be sent.
pub(crate) struct Mail<'a> {
    /// The sender; empty for a message that must not bounce.
    pub(crate) from: &'a str,
    pub(crate) to: &'a [String],
    /// Headers, an empty line, the body.
    pub(crate) text: &'a [u8],
}

/// Whether this may stand between the angle brackets of an SMTP command.
fn is_address(text: &str) -> bool {
    let is_allowed = |c: char| !c.is_control() && !matches!(c, '<' | '>' | ' ');
    text.len() <= 320 && text.chars().all(is_allowed)
}

/// Hands a mail to a relay, until `end`.
///
/// # Errors
/// When an address is none, or the relay does not take it in time; with its words.
pub(crate) fn send(relay: &str, mail: &Mail<'_>, end: Instant) -> io::Result<()> {
    for address in mail.to.iter().map(String::as_str).chain([mail.from]) {
        if !is_address(address) {
            return Err(io::Error::other(format!(
                "\"{address}\" is not a mail address"
            )));
        }
    }
    if mail.to.is_empty() || mail.to.len() > RECIPIENTS_MAX {
        let reason = format!("a message has 1 to {RECIPIENTS_MAX} recipients");
        return Err(io::Error::other(reason));
    }
    if mail.text.len() > MESSAGE_BYTES_MAX {
        return Err(io::Error::other("the message is longer than 1 MiB"));
    }
    let mut talk = Talk {
        stream: Stream::connect(relay, end)?,
        input: Vec::new(),
    };
    talk.expect(2)?;
    talk.say(b"EHLO stentor.localhost\r\n", 2)?;
    talk.say(format!("MAIL FROM:<{}>\r\n", mail.from).as_bytes(), 2)?;
    for to in mail.to {
        talk.say(format!("RCPT TO:<{to}>\r\n").as_bytes(), 2)?;
    }
    talk.say(b"DATA\r\n", 3)?;
    talk.say(&dotted(mail.text), 2)?;
    // It has the message; what it says to the final output, and when, changes nothing.
    talk.stream.hurry(Instant::now() + FAREWELL);
    let _ = talk.say(b"QUIT\r\n", 2);
    Ok(())
}

/// The message as it goes over the wire: lines end with CRLF, a dot at a line's beginning is
/// doubled, and a line with one dot ends it.
fn dotted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.first() == Some(&b'.') {
            out.push(b'.');
        }
        // A return in the middle of a line could end the message for some servers.
        out.extend(line.iter().filter(|byte| **byte != b'\r'));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b".\r\n");
    out
}

struct Talk {
    stream: Stream,
    input: Vec<u8>,
}

impl Talk {
    /// Says something, and expects a reply of a class.
    fn say(&mut self, words: &[u8], class: u8) -> io::Result<()> {
        self.stream.write_all(words)?;
        self.expect(class)
    }

    /// Reads one reply, which may have several lines: the last one has a space after its code.
    fn expect(&mut self, class: u8) -> io::Result<()> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                match line.get(3) {
                    Some(b'-') => continue,
                    _ if line.first() == Some(&(b'0' + class)) => return Ok(()),
                    _ => return Err(io::Error::other(format!("the relay said: {text}"))),
                }
            }
            if self.input.len() > REPLY_BYTES_MAX {
                return Err(io::Error::other("the relay's reply is too long"));
            }
            if !self.stream.read_more(&mut self.input)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::sync::mpsc::{Receiver, channel};

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A relay that takes everything but a recipient `no@…`, and what it heard.
    fn relay() -> (String, Receiver<String>) {
        let (send, heard) = channel();
        let address = crate::net::serve(move |mut stream| {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut all = String::new();
            let mut in_data = false;
            let _ = stream.write_all(b"220-hello\r\n220 there\r\n");
            for line in lines.map_while(Result::ok) {
                all.push_str(&line);
                all.push('\n');
                let reply: &[u8] = match line.as_str() {
                    // Nothing is said to the final output.
                    "QUIT" => continue,
                    "." => {
                        in_data = false;
                        b"250 taken\r\n"
                    }
                    _ if in_data => continue,
                    "DATA" => {
                        in_data = true;
                        b"354 go on\r\n"
                    }
                    _ if line.contains("no@") => b"550 unknown\r\n",
                    _ => b"250 fine\r\n",
                };
                let _ = stream.write_all(reply);
            }
            let _ = send.send(all);
        });
        (address.to_string(), heard)
    }

    fn give(relay: &str, from: &str, to: &str) -> io::Result<()> {
        let mail = Mail {
            from,
            to: &[to.to_owned()],
            text: b"A: b\n\n.dot\r\nx\ry\r\n",
        };
        send(relay, &mail, Instant::now() + PATIENCE)
    }

    #[test]
    fn a_mail_goes_as_smtp_has_it() {
        let (address, heard) = relay();
        let start = Instant::now();
        give(&address, "", "b@here.test").unwrap();
        assert!(start.elapsed() < PATIENCE, "it waits for the final_output");
        let expected = "EHLO stentor.localhost\nMAIL FROM:<>\nRCPT TO:<b@here.test>\nDATA\n\
                        A: b\n\n..dot\nxy\n.\nQUIT\n";
        assert_eq!(heard.recv().unwrap(), expected);
        let refused = give(&address, "a@b", "no@here.test").unwrap_err();
        assert!(refused.to_string().contains("550 unknown"), "{refused}");
    }

    #[test]
    fn addresses_stay_addresses() {
        for address in ["a@b>\r\nRCPT TO:<c@d", "a b@c", "<a@b>"] {
            assert!(give("127.0.0.1:1", "", address).is_err(), "{address}");
            assert!(give("127.0.0.1:1", address, "a@b").is_err(), "{address}");
        }
    }
}
