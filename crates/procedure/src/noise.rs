//! Everything that procedures read of what others wrote, given any bytes at all: manifests,
//! messages, verdicts, and what other servers say. For tests and fuzzers.

use mail_parser::MessageParser;
use stentor_call_protocol::limits::{HEAD_BYTES_MAX, RESULT_BYTES_MAX, TEXT_BYTES_MAX};

use crate::manifest::Manifest;
use crate::message::{Content, Message};
use crate::net::{dns, http};
use crate::parts::{PartsError, walk};
use crate::{Format, Outcome, Url, message_id, program, said, spamd};

/// Reads bytes in each of those ways.
///
/// # Panics
/// When something comes of them that is beyond its bounds.
pub fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    manifests(&text);
    messages(bytes);
    if let Ok(outcome) = said::outcome(bytes) {
        check(&outcome);
        assert!(outcome.changes.is_empty() && outcome.result.len() <= RESULT_BYTES_MAX);
    }
    for code in [0, 69, 75, 98, 99] {
        check(
            &program::outcome(code, bytes)
                .outcome
                .expect("this code is a verdict"),
        );
    }
    servers(bytes, &text);
}

fn check(outcome: &Outcome) {
    assert!(matches!(outcome.reply_code, 0 | 400..=599), "{outcome:?}");
    assert!(outcome.text.len() <= TEXT_BYTES_MAX, "{outcome:?}");
    let shown = [&outcome.text, &outcome.enhanced];
    assert!(
        !shown.iter().any(|text| text.contains(char::is_control)),
        "{outcome:?}"
    );
}

fn manifests(text: &str) {
    let both = [Manifest::of_script(text), Manifest::of_file(text)];
    for manifest in both.into_iter().flatten() {
        assert!((10..=300_000).contains(&manifest.deadline.as_millis()));
        assert!((1..=64).contains(&manifest.concurrency) && manifest.queue <= 10_000);
        assert!(!manifest.version.contains(char::is_control));
    }
}

fn messages(bytes: &[u8]) {
    let mut shown = 0;
    let walked = walk(bytes, &mut |part| {
        shown += 1;
        if let Some(place) = part.place {
            assert!(place.start <= place.end && place.end <= bytes.len());
        }
        for name in &part.names {
            assert!(!name.is_empty() && !name.contains(|c: char| c.is_control() || c == '/'));
        }
        Ok::<(), PartsError>(())
    });
    assert!(shown <= 1000 && (shown > 0 || walked.is_err()));
    if let Some(id) = message_id(bytes) {
        assert!(id.len() <= 250 && !id.contains(char::is_control));
    }
    let head = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let parsed = MessageParser::new()
        .default_header_text()
        .parse_headers(head);
    for header in parsed.iter().flat_map(|parsed| parsed.headers()) {
        assert!(header.offset_field() <= header.offset_end());
        assert!(header.offset_end() as usize <= head.len());
    }
    let content = Content::Bytes(bytes.to_vec());
    if let Ok((message, envelope)) = Message::new(content, 0, Format::XmailSpool) {
        let from = usize::try_from(message.start()).expect("it is in the bytes");
        let whole = message.read().expect("bytes can be read");
        assert!(!message.exists() || whole == bytes[from..]);
        let head = message.headers().expect("bytes can be read");
        assert!(head.len() <= HEAD_BYTES_MAX);
        assert!(envelope.recipients.len() <= bytes.len());
    }
}

fn servers(bytes: &[u8], text: &str) {
    for is_over in [false, true] {
        if let Ok(Some(response)) = http::parse(bytes, is_over) {
            assert!(response.body.len() <= http::BODY_BYTES_MAX);
        }
    }
    for kind in ["A", "AAAA", "MX", "PTR", "TXT"] {
        let kind = dns::Kind::of(kind).expect("it is a kind");
        let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        let question = dns::question(id, "a.test", kind).expect("it is a name");
        if let Some(Ok(records)) = dns::records(bytes, &question, kind) {
            assert!(records.len() <= bytes.len());
        }
    }
    spamd::parse(text);
    if let Ok(url) = Url::parse(text) {
        assert!(url.is_below(&url));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [&[u8]; 9] = [
        b"--[[ procedure\nversion = \"1\"\nneeds = \"body\"\ndeadline = \"5s\"\nmemory = \"2MiB\"\n\
          grants = [\"store\", \"http\"]\nallow_urls = [\"http://a/b\"]\n]]\nreturn function() end",
        b"kind = \"program\"\ncommand = [\"/bin/true\"]\nmax_body = \"1MiB\"\nqueue = 5",
        b"kind = \"spamd\"\nserver = \"127.0.0.1:783\"\nreject_score = 15.0\non_large = \"reject\"",
        b"Message-ID: <1@a>\r\nSubject: =?utf-8?q?hi?=\r\nContent-Type: multipart/mixed;\r\n \
          boundary=\"b\"\r\n\r\n--b\r\n\r\nhi\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nT: u\
          \r\n\r\nx\r\n--b\r\nContent-Transfer-Encoding: base64\r\n\
          Content-Disposition: attachment;\r\n filename*=utf-8''a%2eexe; filename*0=\"b\"\r\n\
          Content-Type: (x) a/b; name=\"=?utf-8?B?YS5leGU=?=\" filename=c d.e\r\n\r\nTVo=\r\n\
          --b\r\n\r\nbegin 644 a.exe\n#35H`\n`\nend\n--b--\r\n",
        b"[127.0.0.1]:1;[127.0.0.1]:2;Sat\r\nx.test\r\nS2\r\nMAIL FROM:<a@b> size=9\r\n\
          RCPT TO:<c@d> {ra=e@f}\r\n<<MAIL-DATA>>\r\nT: u\r\n\r\nbody",
        br#"{"verdict":"reject","text":"no","code":550,"status":"5.7.1","result":"r"}"#,
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: b\r\n\r\nyes",
        b"\0\x01\x81\0\0\x01\0\x02\0\0\0\0\x01a\x04test\0\0\x01\0\x01\xC0\x0C\0\x01\0\x01\0\0\0\
          \x09\0\
          \x04\xC0\0\x02\x01\xC0\x0E\0\x0F\0\x01\0\0\0\x09\0\x07\0\x0A\x02mx\xC0\x0C",
        b"SPAMD/1.1 0 EX_OK\r\nSpam: True ; 15.3 / 5.0\r\n\r\n",
    ];

    /// Numbers that look like chance and are the same each time.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % bound.max(1) as u64) as usize
        }

        /// A sample that is damaged in a few places.
        fn damaged(&mut self) -> Vec<u8> {
            let mut bytes = SAMPLES[self.below(SAMPLES.len())].to_vec();
            for _ in 0..=self.below(4) {
                let at = self.below(bytes.len());
                let to = (at + 1 + self.below(20)).min(bytes.len());
                match self.below(5) {
                    0 => bytes[at] = self.below(256) as u8,
                    1 => bytes.insert(at, self.below(256) as u8),
                    2 => drop(bytes.drain(at..to)),
                    3 => {
                        let piece = bytes[at..to].to_vec();
                        bytes.splice(at..at, piece);
                    }
                    _ => {
                        let other = SAMPLES[self.below(SAMPLES.len())];
                        let from = self.below(other.len());
                        bytes.splice(at..to, other[from..].iter().copied());
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            bytes
        }
    }

    /// A short form of the fuzzer: damaged samples.
    #[test]
    fn noise_is_read() {
        SAMPLES.into_iter().for_each(read);
        read(b"");
        let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
        let is_soak = std::env::var_os("STENTOR_SOAK").is_some();
        let rounds = if is_soak { 2_000_000 } else { 20_000 };
        for _ in 0..rounds {
            let bytes = chance.damaged();
            read(&bytes);
        }
    }
}
