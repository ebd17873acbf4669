//! The parts of a message.
//!
//! Messages come from strangers, and reading one cannot be interrupted: what is nested too deeply
//! or has too many parts is an error, so that nothing hides there, and time grows with the size
//! alone.

use std::borrow::Cow;
use std::ops::Range;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use stentor_call_protocol::headers_end;
use stentor_call_protocol::limits::HEAD_BYTES_MAX;

use crate::mime;

/// Parts of a message, those of messages in it included.
const PARTS_MAX: usize = 1000;
/// Containers in containers.
const DEPTH_MAX: usize = 20;
/// Boundaries that one container may say it has.
const CONTAINERS_MAX: usize = 4;
/// Containers and messages of a message that are read once more: decoded and as they are, or by
/// another boundary.
const TWOFOLD_MAX: usize = 8;

/// Why the parts of a message are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// There are too many.
    #[error("parts: the message has more than {PARTS_MAX} parts")]
    Many,
    /// They are nested too deeply.
    #[error("parts: the message has parts in parts, more than {DEPTH_MAX} deep")]
    Deep,
    /// Too many of those that hold others are encoded, or have several boundaries.
    #[error("parts: more than {TWOFOLD_MAX} parts with parts in them can be read in several ways")]
    Twofold,
    /// The headers of the message or of a part are too long.
    #[error("parts: the message, or a part of it, has more than {HEAD_BYTES_MAX} bytes of headers")]
    Long,
}

/// A part that is not a container of others, or a message in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// As in `text/plain`, in small letters.
    pub kind: String,
    /// The names that mail programs may give the file that it is, the usual one first: without
    /// folders, quotation marks and what nobody sees.
    pub names: Vec<String>,
    /// Decoded; of text that says its character set, as UTF-8.
    pub content: Cow<'a, [u8]>,
    /// It is in the message as quoted-printable or base64.
    pub is_encoded: bool,
    /// It is in something signed or encrypted, which a change would break.
    pub is_signed: bool,
    /// Where its body is in the message, unless it is in a message in the message.
    pub place: Option<Range<usize>>,
}

impl Part<'_> {
    /// Whether people read it as it is.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.kind.starts_with("text/") && self.kind != "text/html"
    }
}

/// Shows all parts of a message in their order; those of a message in it follow it.
///
/// # Errors
/// What `show` says, or when the message goes beyond what is read of one.
pub fn walk<E: From<PartsError>>(
    message: &[u8],
    show: &mut impl FnMut(Part<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut walk = Walk {
        show,
        shown: 0,
        twofold: 0,
        signed: 0,
    };
    walk.entity(message, Some(0), 0, "text/plain")
}

struct Walk<'a, F> {
    show: &'a mut F,
    shown: usize,
    /// What was read in two ways.
    twofold: usize,
    /// Signed and encrypted containers around the place that is read.
    signed: usize,
}

impl<F> Walk<'_, F> {
    /// Headers and a body that begin at `place`; without a type of its own it has a default.
    fn entity<E>(
        &mut self,
        bytes: &[u8],
        place: Option<usize>,
        depth: usize,
        default: &str,
    ) -> Result<(), E>
    where
        E: From<PartsError>,
        F: FnMut(Part<'_>) -> Result<(), E>,
    {
        if depth > DEPTH_MAX {
            return Err(PartsError::Deep.into());
        }
        let at = headers_end(bytes).unwrap_or(bytes.len());
        if at > HEAD_BYTES_MAX {
            return Err(PartsError::Long.into());
        }
        let (head, body) = bytes.split_at(at);
        let head = Head::read(head, default);
        if head.containers.len() > CONTAINERS_MAX {
            return Err(PartsError::Twofold.into());
        }
        let decoded = head.encoding.decode(body);
        let is_sealed = head.is_sealed();
        self.signed += usize::from(is_sealed);
        let mut is_container = self.container(body, place.map(|place| place + at), depth, &head)?;
        if let Cow::Owned(decoded) = &decoded
            && !head.containers.is_empty()
        {
            self.read_twice()?;
            is_container |= self.container(decoded, None, depth, &head)?;
        }
        self.signed -= usize::from(is_sealed);
        if is_container {
            return Ok(());
        }
        let is_message = matches!(&*head.kind, "message/rfc822" | "message/global");
        let inner = is_message.then(|| decoded.clone());
        let files: Vec<_> = match inner {
            Some(_) => Vec::new(),
            None => mime::embedded(&decoded).collect(),
        };
        self.show(Part {
            content: head.text(decoded),
            kind: head.kind,
            names: head.names,
            is_encoded: head.encoding != Encoding::None,
            is_signed: self.signed > 0,
            place: place.map(|place| place + at..place + bytes.len()),
        })?;
        match inner {
            Some(inner) => self.message(&inner, body, depth),
            None => self.files(files),
        }
    }

    /// The parts of a container, which begins at `place`; whether there are some. Of several
    /// boundaries some mail programs take the one and some the other, so all of them count.
    fn container<E>(
        &mut self,
        body: &[u8],
        place: Option<usize>,
        depth: usize,
        head: &Head,
    ) -> Result<bool, E>
    where
        E: From<PartsError>,
        F: FnMut(Part<'_>) -> Result<(), E>,
    {
        let mut is_container = false;
        for (kind, boundary) in &head.containers {
            let parts = split(body, boundary.as_bytes());
            if parts.is_empty() {
                continue;
            }
            if is_container {
                self.read_twice()?;
            }
            // A part that is shown a second time cannot be changed there.
            let place = place.filter(|_| !is_container);
            is_container = true;
            let default = match kind.as_str() {
                "digest" => "message/rfc822",
                _ => "text/plain",
            };
            for part in &parts {
                let place = place.map(|place| place + part.start);
                self.entity(&body[part.clone()], place, depth + 1, default)?;
            }
        }
        Ok(is_container)
    }

    /// A message in the message, decoded and as it stands there. Neither may be encoded (RFC 2046),
    /// and of those that are, some mail programs show the one and some the other.
    fn message<E>(&mut self, decoded: &[u8], body: &[u8], depth: usize) -> Result<(), E>
    where
        E: From<PartsError>,
        F: FnMut(Part<'_>) -> Result<(), E>,
    {
        self.entity(decoded, None, depth + 1, "text/plain")?;
        let head = &body[..headers_end(body).unwrap_or(body.len())];
        // Without a colon there is no header: this is encoded indeed.
        if decoded == body || !head.contains(&b':') {
            return Ok(());
        }
        self.read_twice()?;
        self.entity(body, None, depth + 1, "text/plain")
    }

    /// Something is read in two ways, which takes time.
    fn read_twice(&mut self) -> Result<(), PartsError> {
        self.twofold += 1;
        if self.twofold > TWOFOLD_MAX {
            return Err(PartsError::Twofold);
        }
        Ok(())
    }

    /// The files within a part, whatever its type says: mail programs that know them look for them
    /// in all that they show.
    fn files<E>(&mut self, files: Vec<mime::Embedded>) -> Result<(), E>
    where
        E: From<PartsError>,
        F: FnMut(Part<'_>) -> Result<(), E>,
    {
        for file in files {
            self.show(Part {
                kind: "application/octet-stream".to_owned(),
                names: mime::file_name(&file.name).into_iter().collect(),
                content: Cow::Owned(file.content),
                is_encoded: true,
                is_signed: self.signed > 0,
                place: None,
            })?;
        }
        Ok(())
    }

    fn show<E>(&mut self, part: Part<'_>) -> Result<(), E>
    where
        E: From<PartsError>,
        F: FnMut(Part<'_>) -> Result<(), E>,
    {
        if self.shown >= PARTS_MAX {
            return Err(PartsError::Many.into());
        }
        self.shown += 1;
        (self.show)(part)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    None,
    Base64,
    QuotedPrintable,
}

impl Encoding {
    /// What cannot be decoded stays as it is.
    fn decode(self, body: &[u8]) -> Cow<'_, [u8]> {
        let decoded = match self {
            Self::None => None,
            Self::QuotedPrintable => quoted_printable_decode(body),
            Self::Base64 => base64_decode(body).or_else(|| {
                // Other characters are to be ignored, and mail programs do that.
                let known = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
                base64_decode(&body.iter().filter(known).copied().collect::<Vec<_>>())
            }),
        };
        decoded.map_or(Cow::Borrowed(body), Cow::Owned)
    }
}

/// What the headers of a part say about its body.
struct Head {
    kind: String,
    names: Vec<String>,
    encoding: Encoding,
    charset: Option<String>,
    /// Kinds and boundaries, each once; at most one more than may be there.
    containers: Vec<(String, String)>,
}

impl Head {
    fn read(head: &[u8], default: &str) -> Self {
        let fields = mime::Fields::read(head);
        let mut containers = Vec::new();
        for (kind, boundary) in fields.containers() {
            let container = (kind.to_owned(), boundary);
            if containers.len() <= CONTAINERS_MAX && !containers.contains(&container) {
                containers.push(container);
            }
        }
        Self {
            containers,
            kind: fields.kind().unwrap_or_else(|| default.to_owned()),
            names: fields.names(),
            encoding: match fields.encoding() {
                "base64" => Encoding::Base64,
                "quoted-printable" => Encoding::QuotedPrintable,
                _ => Encoding::None,
            },
            charset: fields.charset(),
        }
    }

    /// Whether what is in it is signed or encrypted (RFC 1847).
    fn is_sealed(&self) -> bool {
        let mut kinds = self.containers.iter().map(|(kind, _)| kind.as_str());
        kinds.any(|kind| matches!(kind, "signed" | "encrypted"))
    }

    /// The content, as UTF-8 if it is text.
    fn text<'a>(&self, content: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        let charset = self
            .charset
            .as_deref()
            .filter(|_| self.kind.starts_with("text/"));
        match charset.and_then(|charset| charset_decoder(charset.as_bytes())) {
            Some(decode) => Cow::Owned(decode(&content).into_bytes()),
            None => content,
        }
    }
}

/// The parts between the lines that begin with a boundary, at most one more than may be shown.
fn split(body: &[u8], boundary: &[u8]) -> Vec<Range<usize>> {
    // What ends in spaces is compared without them, as the lines are.
    let boundary = boundary.trim_ascii_end();
    let mut parts = Vec::new();
    let (mut at, mut start) = (0, None);
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let before = at;
        at += line.len();
        let rest = line.strip_prefix(b"--");
        let Some(rest) = rest.and_then(|rest| rest.strip_prefix(boundary)) else {
            continue;
        };
        let is_last = match rest.trim_ascii_end() {
            b"" => false,
            b"--" => true,
            _ => continue,
        };
        if let Some(start) = start.replace(at) {
            parts.push(start..line_end(body, start, before));
        }
        if is_last || parts.len() > PARTS_MAX {
            return parts;
        }
    }
    if let Some(start) = start {
        parts.push(start..body.len());
    }
    parts
}

/// The line end before a boundary belongs to the boundary.
fn line_end(body: &[u8], start: usize, end: usize) -> usize {
    let piece = &body[start..end];
    let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
    start + piece.strip_suffix(b"\r").unwrap_or(piece).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types, names and contents.
    fn seen(message: &str) -> Result<Vec<String>, PartsError> {
        let mut all = Vec::new();
        walk(message.as_bytes(), &mut |part| {
            let text = String::from_utf8_lossy(&part.content).into_owned();
            if let Some(place) = &part.place
                && !part.is_encoded
            {
                assert_eq!(message[place.clone()], text);
            }
            let name = part.names.first().map_or("-", String::as_str).to_owned();
            all.push(format!("{} {name} {text}", part.kind));
            Ok::<(), PartsError>(())
        })?;
        Ok(all)
    }

    fn mixed(boundary: &str, parts: &[&str]) -> String {
        let parts: Vec<_> = parts
            .iter()
            .map(|part| format!("--{boundary}\r\n{part}\r\n"))
            .collect();
        format!(
            "Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\nbefore\r\n{}\
             --{boundary}--\r\nafter\r\n",
            parts.concat()
        )
    }

    #[test]
    fn a_message_without_parts_is_one() {
        assert_eq!(seen("T: u\r\n\r\nhi\r\n").unwrap(), ["text/plain - hi\r\n"]);
        assert_eq!(seen("\nhi").unwrap(), ["text/plain - hi"]);
        assert_eq!(seen("").unwrap(), ["text/plain - "]);
        assert_eq!(seen("T: u").unwrap(), ["text/plain - "]);
    }

    #[test]
    fn parts_are_decoded_and_named() {
        let message = mixed(
            "b b",
            &[
                "\r\nplain",
                "Content-Type: application/x-msdownload; name=a.exe\r\n\
                 Content-Transfer-Encoding: \"BASE64\" (x)\r\n\r\nTV\u{1}o=",
                "Content-Type: text/html; charset=iso-8859-1\r\n\
                 Content-Transfer-Encoding: quoted-printable\r\n\r\n=E4",
                "Content-Disposition: attachment; filename*0*=utf-8''x%2e; filename*1=scr\r\n\r\n",
            ],
        );
        assert_eq!(
            seen(&message).unwrap(),
            [
                "text/plain - plain",
                "application/x-msdownload a.exe MZ",
                "text/html - ä",
                "text/plain x.scr ",
            ]
        );
    }

    #[test]
    fn messages_in_messages_are_opened() {
        let evil = mixed("i", &["Content-Type: a/b; name=x.exe\r\n\r\nMZ"]);
        let attached = mixed(
            "o",
            &[&format!("Content-Type: message/rfc822\r\n\r\n{evil}")],
        );
        let digest = attached
            .replace(
                "multipart/mixed; boundary=\"o\"",
                "multipart/digest; boundary=\"o\"",
            )
            .replace("Content-Type: message/rfc822\r\n", "");
        for message in [attached, digest] {
            let seen = seen(&message).unwrap();
            assert_eq!(seen.len(), 2, "{seen:?}");
            assert_eq!(seen[0], format!("message/rfc822 - {evil}"));
            assert_eq!(seen[1], "a/b x.exe MZ");
        }
    }

    /// Mail programs open these as well.
    #[test]
    fn files_in_texts_and_second_types_are_shown() {
        let text = "Content-Type: text/plain; charset=utf-8\r\n\r\nhi\r\nbegin 644 a.exe\r\n\
                    #35H`\r\n`\r\nend\r\n";
        assert_eq!(
            seen(text).unwrap()[1],
            "application/octet-stream a.exe MZ\0"
        );
        let encoded = "Content-Transfer-Encoding: base64;\r\n\r\n\
                       YmVnaW4gNjQ0IGEuZXhlCiMzNUhgCmAKZW5kCg==";
        assert_eq!(
            seen(encoded).unwrap()[1],
            "application/octet-stream a.exe MZ\0"
        );
        for kind in [
            "Content-Type: x/y\r\n",
            "Content-Type: plain\r\n",
            "Content-Type: text\r\n",
        ] {
            let odd = text.replace("Content-Type: text/plain; charset=utf-8\r\n", kind);
            assert_eq!(
                seen(&odd).unwrap()[1],
                "application/octet-stream a.exe MZ\0",
                "{kind}"
            );
        }
        let two = mixed("b", &["Content-Type: x/y; name=a.exe\r\n\r\nMZ"]);
        let two = format!("Content-Type: text/plain\r\n{two}");
        assert_eq!(seen(&two).unwrap(), ["x/y a.exe MZ"]);
    }

    /// What holds others must not be encoded, and where it is, mail programs do not agree.
    #[test]
    fn encoded_containers_are_read_in_both_ways() {
        let inner = mixed("i", &["Content-Type: a/b; name=a.exe\r\n\r\nMZ"]);
        let (_, body) = inner.split_once("\r\n\r\n").unwrap();
        let base64 = |text: &str| base64_of(text.as_bytes());
        let quoted = |text: &str| text.replace('=', "=3D").replace("--i", "=2D-i");
        let head = |kind: &str, encoding: &str| {
            format!("Content-Type: {kind}\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n")
        };
        let multipart = "multipart/mixed; boundary=i";
        for (kind, encoding, text) in [
            (multipart, "base64", base64(body)),
            (multipart, "quoted-printable", quoted(body)),
            // It says so, and is not.
            (multipart, "base64", body.to_owned()),
            (multipart, "quoted-printable", body.to_owned()),
            ("message/rfc822", "base64", base64(&inner)),
            ("message/rfc822", "quoted-printable", quoted(&inner)),
            ("message/rfc822", "base64", inner.clone()),
        ] {
            let part = head(kind, encoding) + &text;
            for message in [part.clone(), mixed("o", &[&part])] {
                let seen = seen(&message).unwrap();
                let is_there = seen.iter().any(|part| part == "a/b a.exe MZ");
                assert!(is_there, "{kind} {encoding}: {seen:?}");
            }
        }
        // Both readings of each would be 2^n of n.
        let nested = (0..TWOFOLD_MAX + 1).fold(inner, |inner, _| {
            head("message/rfc822", "quoted-printable") + &inner.replace('=', "=3D")
        });
        assert_eq!(seen(&nested), Err(PartsError::Twofold));
    }

    /// Of several boundaries each is some mail program's.
    #[test]
    fn all_boundaries_of_a_container_are_read() {
        let two = |head: &str| {
            format!(
                "{head}\r\n--A\r\n\r\nharmless\r\n--A--\r\n\
                 --B\r\nContent-Type: a/b; name=a.exe\r\n\r\nMZ\r\n--B--\r\n"
            )
        };
        let multipart = "Content-Type: multipart/mixed";
        for (first, second) in [("A", "B"), ("B", "A")] {
            for head in [
                format!("{multipart}; boundary={first}; boundary*=us-ascii''{second}\r\n"),
                format!("{multipart}; boundary={first}; boundary*0={second}\r\n"),
                format!("{multipart}; boundary={first}; boundary={second}\r\n"),
                format!("{multipart}; boundary={first}\r\n{multipart}; boundary={second}\r\n"),
            ] {
                let mut seen = seen(&two(&head)).unwrap();
                seen.sort();
                assert_eq!(seen, ["a/b a.exe MZ", "text/plain - harmless"], "{head}");
            }
        }
        // The same one twice is one.
        let same = format!("{multipart}; boundary=A; boundary*=us-ascii''A\r\n");
        assert_eq!(seen(&two(&same)).unwrap(), ["text/plain - harmless"]);
        // Nothing hides behind many of them.
        let boundaries: String = (0..CONTAINERS_MAX)
            .map(|n| format!("; boundary=x{n}"))
            .collect();
        let many = format!("{multipart}{boundaries}; boundary=B\r\n");
        assert_eq!(seen(&two(&many)), Err(PartsError::Twofold));
        let nested = (0..=TWOFOLD_MAX).fold(two(&same), |inner, level| {
            let (one, other) = (format!("a{level}"), format!("b{level}"));
            format!(
                "{multipart}; boundary={one}; boundary={other}\r\n\r\n\
                 --{one}\r\n{inner}\r\n--{one}--\r\n--{other}\r\n\r\nx\r\n--{other}--\r\n"
            )
        });
        assert_eq!(seen(&nested), Err(PartsError::Twofold));
    }

    fn base64_of(bytes: &[u8]) -> String {
        let code = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let groups = bytes.chunks(3).map(|group| {
            let bits = (0..3).fold(0_u32, |bits, at| {
                (bits << 8) | u32::from(*group.get(at).unwrap_or(&0))
            });
            let letter = |at: usize| match at > group.len() {
                true => '=',
                false => char::from(code[(bits >> (18 - 6 * at)) as usize & 63]),
            };
            (0..4).map(letter).collect::<String>()
        });
        groups.collect::<Vec<_>>().join("\r\n")
    }

    #[test]
    fn a_boundary_that_never_ends_or_comes_hides_nothing() {
        let message = mixed("b", &["\r\none", "\r\ntwo"]);
        let (open, _) = message.split_once("--b--").unwrap();
        assert_eq!(seen(open).unwrap().len(), 2);
        let never = "Content-Type: multipart/mixed; boundary=x\r\n\r\n--y\r\n\r\nz";
        assert_eq!(seen(never).unwrap(), ["multipart/mixed - --y\r\n\r\nz"]);
        let longer = mixed("b", &["\r\n--bb\r\n--b x\r\nz"]);
        assert_eq!(seen(&longer).unwrap(), ["text/plain - --bb\r\n--b x\r\nz"]);
    }

    /// A line of spaces goes on with the header before it (RFC 5322, obsolete folding).
    #[test]
    fn spaces_hide_nothing() {
        for spaces in [" \r\n", "\t\r\n", " \t \n"] {
            let part = format!("X: y\r\n{spaces}Content-Type: a/b; name=a.exe\r\n\r\nMZ");
            let message = format!("Subject: x\r\n{spaces}{}", mixed("b", &[&part]));
            assert_eq!(seen(&message).unwrap(), ["a/b a.exe MZ"], "{spaces:?}");
        }
        let message = mixed("b", &["Content-Type: a/b; name=a.exe\r\n\r\nMZ"]);
        let message = message.replace("boundary=\"b\"", "boundary=\"b \"");
        assert_eq!(seen(&message).unwrap(), ["a/b a.exe MZ"]);
    }

    #[test]
    fn what_goes_beyond_is_an_error() {
        let padding = "X-Padding: 0123456789abcdef\r\n".repeat(HEAD_BYTES_MAX / 29 + 1);
        let evil = format!("{padding}Content-Type: a/b; name=a.exe\r\n\r\nMZ");
        assert_eq!(seen(&evil), Err(PartsError::Long));
        assert_eq!(seen(&mixed("b", &[&evil])), Err(PartsError::Long));
        let many = vec!["\r\nx"; PARTS_MAX];
        assert_eq!(seen(&mixed("b", &many)).unwrap().len(), PARTS_MAX);
        let many = vec!["\r\nx"; 3 * PARTS_MAX];
        assert_eq!(seen(&mixed("b", &many)), Err(PartsError::Many));
        let levels = "Content-Type: message/rfc822\n\n".repeat(300_000);
        assert_eq!(seen(&levels), Err(PartsError::Deep));
        let nested = |depth: usize| {
            (0..depth).fold("\r\nx".to_owned(), |inner, level| {
                mixed(&format!("b{level}"), &[&inner])
            })
        };
        assert!(seen(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(seen(&nested(DEPTH_MAX + 1)), Err(PartsError::Deep));
    }

    /// Each of these took other readers minutes.
    #[test]
    fn time_grows_with_the_size_alone() {
        let parameters: String = (0..5_000).map(|n| format!(" x*{n}*=a;")).collect();
        let message = format!("Content-Type: a/b;{parameters}\r\n\r\nx");
        assert!(message.len() < HEAD_BYTES_MAX);
        let message = mixed("b", &[message.as_str(); 200]);
        assert!(seen(&message).is_ok());
        let part = "Content-Type: multipart/mixed; boundary=none\r\n\r\n\r\n--o\r\n";
        let message = format!(
            "Content-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\n{}",
            part.repeat(100_000)
        );
        assert_eq!(seen(&message), Err(PartsError::Many));
    }
}
