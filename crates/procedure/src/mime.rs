//! What the headers of a part say about it, read as leniently as the most lenient mail program:
//! what one of them would open under a forbidden name must not look harmless here.
//!
//! All of this takes time that grows with the length of the headers alone.

use std::collections::HashSet;
use std::ops::Range;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;

/// Where each header of a block stands, with the lines that go on with it.
pub(crate) fn headers(head: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut lines = head.split_inclusive(|byte| *byte == b'\n').peekable();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        at += lines.next()?.len();
        while let Some(more) = lines.next_if(|line| matches!(line.first(), Some(b' ' | b'\t'))) {
            at += more.len();
        }
        Some(start..at)
    })
}

/// The line end that a message uses, as its first line has it.
pub(crate) fn line_end(message: &[u8]) -> &'static str {
    match message.iter().position(|byte| *byte == b'\n') {
        Some(at) if !message[..at].ends_with(b"\r") => "\n",
        _ => "\r\n",
    }
}

/// The headers of a part that say what it is; each may be there several times.
#[derive(Default)]
pub(crate) struct Fields {
    types: Vec<Field>,
    dispositions: Vec<Field>,
    encodings: Vec<String>,
}

/// A header with parameters.
struct Field {
    /// What stands before the parameters, in small letters.
    value: String,
    parameters: Vec<Parameter>,
    /// Parameters as some read them: with nothing in the place of a folded line's end, or beyond a
    /// comment that does not end.
    others: Vec<Parameter>,
}

/// A name in small letters, and its value as it stands there, without quotation marks.
type Parameter = (String, String);

impl Fields {
    /// Those in a block of headers.
    pub(crate) fn read(head: &[u8]) -> Self {
        let mut fields = Self::default();
        for header in headers(head) {
            let mut lines = head[header].split_inclusive(|byte| *byte == b'\n');
            let line = lines.next().unwrap_or_default().trim_ascii_end();
            let mut whole = String::from_utf8_lossy(line).into_owned();
            let mut tight = None;
            for more in lines {
                let more = String::from_utf8_lossy(more.trim_ascii_end());
                tight
                    .get_or_insert_with(|| whole.clone())
                    .push_str(more.trim_start());
                whole.push_str(&more);
            }
            let Some((name, value)) = whole.split_once(':') else {
                continue;
            };
            let tight = tight.as_deref().and_then(|text| text.split_once(':'));
            let field = || Field::read(value, tight.map(|(_, value)| value));
            match name.trim().to_ascii_lowercase().as_str() {
                "content-type" => fields.types.push(field()),
                "content-disposition" => fields.dispositions.push(field()),
                "content-transfer-encoding" => fields.encodings.push(token(value)),
                _ => {}
            }
        }
        fields
    }

    /// The type as in `text/plain`, in small letters.
    pub(crate) fn kind(&self) -> Option<String> {
        let value = &self.types.first()?.value;
        match value.split_once('/') {
            Some((kind, subtype)) if !kind.is_empty() && !subtype.is_empty() => Some(value.clone()),
            _ if value.is_empty() => None,
            _ => Some(format!("{}/*", value.trim_matches('/'))),
        }
    }

    /// The kinds and the boundaries, if it is a container of others.
    pub(crate) fn containers(&self) -> impl Iterator<Item = (&str, String)> {
        self.types.iter().flat_map(|field| {
            let kind = field.value.strip_prefix("multipart");
            let kind = kind.and_then(|kind| match kind {
                "" => Some(kind),
                _ => kind.strip_prefix('/'),
            });
            let boundaries = kind.map(|kind| {
                let all = assembled(&field.parameters, "boundary").into_iter();
                all.filter(|boundary| !boundary.is_empty())
                    .map(move |boundary| (kind, boundary))
            });
            boundaries.into_iter().flatten()
        })
    }

    /// The character set of a text.
    pub(crate) fn charset(&self) -> Option<String> {
        let field = self.types.first()?;
        assembled(&field.parameters, "charset").into_iter().next()
    }

    /// How the content is encoded, in small letters; the first one that says something.
    pub(crate) fn encoding(&self) -> &str {
        let known = |text: &&String| matches!(text.as_str(), "base64" | "quoted-printable");
        self.encodings.iter().find(known).map_or("", String::as_str)
    }

    /// All names that a mail program may give the file, the usual one first.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut names = Vec::new();
        for (fields, keys) in [
            (&self.dispositions, ["filename", "name"]),
            (&self.types, ["name", "filename"]),
        ] {
            let lists = fields
                .iter()
                .flat_map(|field| [&field.parameters, &field.others]);
            for (list, key) in lists.flat_map(|list| keys.map(|key| (list, key))) {
                let values = assembled(list, key);
                for name in values.iter().filter_map(|value| file_name(&words(value))) {
                    if seen.insert(name.clone()) {
                        names.push(name);
                    }
                }
            }
        }
        names
    }
}

impl Field {
    fn read(value: &str, tight: Option<&str>) -> Self {
        let (first, rest) = head_of(value);
        let mut others = tight.map_or_else(Vec::new, |tight| parameters(head_of(tight).1));
        let count = |c: char| value.matches(c).count();
        if count('(') > count(')') {
            others.extend(parameters(head_of(&value.replace('(', " ")).1));
        }
        Self {
            value: first,
            parameters: parameters(rest),
            others,
        }
    }
}

/// What stands before the parameters, without comments and spaces, and the rest.
fn head_of(value: &str) -> (String, &str) {
    let mut rest = skip(value);
    let mut first = String::new();
    while let Some(c) = rest.chars().next().filter(|c| !matches!(c, ';' | '=')) {
        first.extend(c.to_lowercase());
        rest = &rest[c.len_utf8()..];
        let after = skip(rest);
        // A word after a space is a parameter already, unless it is the other half of the type.
        let is_half = first.ends_with('/') || after.starts_with('/');
        if after.len() < rest.len() && !is_half {
            break;
        }
        rest = after;
    }
    if rest.starts_with('=') {
        // A parameter where the type should be.
        return (String::new(), value);
    }
    (first, rest)
}

/// The first word of a value, in small letters.
fn token(value: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let text = skip(value).trim_start_matches(['"', '\'', ' ']);
    text.chars()
        .take_while(|c| word(*c))
        .collect::<String>()
        .to_ascii_lowercase()
}

/// Passes over spaces and comments.
fn skip(text: &str) -> &str {
    let mut depth = 0_usize;
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if depth > 0 => is_escaped = true,
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth > 0 || c.is_whitespace() => {}
            _ => return &text[at..],
        }
    }
    ""
}

/// The parameters, whether or not semicolons are between them.
fn parameters(mut rest: &str) -> Vec<Parameter> {
    let mut list = Vec::new();
    loop {
        rest = skip(rest);
        if let Some(more) = rest.strip_prefix(';') {
            rest = more;
            continue;
        }
        let end = rest.find(|c: char| matches!(c, '=' | ';') || c.is_whitespace());
        let name = &rest[..end.unwrap_or(rest.len())];
        let Some(value) = skip(&rest[name.len()..]).strip_prefix('=') else {
            if rest.is_empty() {
                return list;
            }
            // A word that is not a parameter.
            let len = name
                .len()
                .max(rest.chars().next().map_or(0, char::len_utf8));
            rest = &rest[len..];
            continue;
        };
        let (value, more) = value_of(skip(value));
        list.push((name.to_ascii_lowercase(), value));
        rest = more;
    }
}

/// A value at the beginning of a text, and what follows it.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = plain_end(text);
        return (text[..end].trim().to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            _ => value.push(c),
        }
    }
    (value, "")
}

/// Where a value without quotation marks ends: at a semicolon, or before the next parameter. Some
/// programs write names with spaces like this.
fn plain_end(text: &str) -> usize {
    let mut word_at = None;
    for (at, c) in text.char_indices() {
        match c {
            ';' => return at,
            '=' => match word_at {
                // `name=value` after a space.
                Some(start) if start < at => return start,
                _ => {}
            },
            _ if c.is_whitespace() => word_at = Some(at + c.len_utf8()),
            _ if c.is_ascii_alphanumeric() || matches!(c, '*' | '-' | '_') => {}
            // This word is not the name of a parameter.
            _ => word_at = None,
        }
    }
    text.len()
}

/// The values of a parameter as they are meant: those in an extended form or in pieces (RFC 2231)
/// first.
fn assembled(list: &[Parameter], name: &str) -> Vec<String> {
    let mut plain = Vec::new();
    let mut found = Vec::new();
    let mut pieces: Vec<(u32, bool, &str)> = Vec::new();
    for (key, value) in list {
        let Some(rest) = key.strip_prefix(name) else {
            continue;
        };
        match rest.strip_prefix('*') {
            None if rest.is_empty() => plain.push(value.clone()),
            None => {}
            Some("") => found.push(extended(&[(0, true, value)])),
            Some(number) => {
                let digits = number.trim_end_matches('*');
                if let Ok(index) = digits.parse() {
                    pieces.push((index, digits.len() < number.len(), value));
                }
            }
        }
    }
    if !pieces.is_empty() {
        pieces.sort_by_key(|(index, _, _)| *index);
        found.push(extended(&pieces));
    }
    found.extend(plain);
    found
}

/// A value in pieces, those that say so with a percent sign before numbers of bytes, and the
/// character set at the beginning.
fn extended(pieces: &[(u32, bool, &str)]) -> String {
    let mut charset = "";
    let mut bytes = Vec::new();
    for (place, (_, is_extended, text)) in pieces.iter().enumerate() {
        let mut text = *text;
        if !is_extended {
            bytes.extend_from_slice(text.as_bytes());
            continue;
        }
        if place == 0
            && let Some((set, rest)) = text.split_once('\'')
            && let Some((_, rest)) = rest.split_once('\'')
        {
            (charset, text) = (set, rest);
        }
        bytes.extend(percent_decoded(text.as_bytes()));
    }
    decoded(charset, &bytes)
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let digits = text
            .get(at + 1..at + 3)
            .and_then(|two| std::str::from_utf8(two).ok());
        let number = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        match number {
            Some(number) if *byte == b'%' => {
                bytes.push(number);
                at += 3;
            }
            _ => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
    bytes
}

fn decoded(charset: &str, bytes: &[u8]) -> String {
    match charset_decoder(charset.as_bytes()) {
        Some(decode) => decode(bytes),
        None => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A text with its encoded words (RFC 2047) decoded, wherever they stand.
fn words(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut was_word = false;
    while let Some(at) = rest.find("=?") {
        let before = &rest[..at];
        let word = word(&rest[at + 2..]);
        // Spaces between two words belong to them.
        if word.is_none() || !was_word || !before.trim().is_empty() {
            out.push_str(before);
        }
        was_word = word.is_some();
        if let Some((decoded, after)) = word {
            out.push_str(&decoded);
            rest = after;
        } else {
            out.push_str("=?");
            rest = &rest[at + 2..];
        }
    }
    out.push_str(rest);
    out
}

/// An encoded word after its beginning, and what follows it.
fn word(text: &str) -> Option<(String, &str)> {
    let mut parts = text.splitn(4, '?');
    let (charset, encoding, content, rest) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let rest = rest.strip_prefix('=')?;
    // A language may follow the character set.
    let charset = charset.split('*').next()?;
    let bytes = match encoding {
        "b" | "B" => base64_decode(content.as_bytes())?,
        "q" | "Q" => quoted_printable_decode(content.replace('_', " ").as_bytes())?,
        _ => return None,
    };
    Some((decoded(charset, &bytes), rest))
}

/// The name that a file gets which is called like this: without folders, quotation marks, what
/// nobody sees, and what Windows leaves out; letters and dots of full width are plain ones.
pub(crate) fn file_name(name: &str) -> Option<String> {
    let name: String = name
        .chars()
        .filter(|c| !is_invisible(*c))
        .map(plain)
        .collect();
    let is_edge = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>');
    let name = name.trim_matches(is_edge).trim_end_matches(['/', '\\']);
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    // A stream of the file (`a.exe::$DATA`); the letter of a drive is not a file.
    let name = match name.split_once(':') {
        Some((drive, rest)) if drive.chars().count() <= 1 => rest.split(':').next(),
        Some((file, _)) => Some(file),
        None => Some(name),
    };
    let name = name?.trim_matches(is_edge);
    let name = name.trim_end_matches(|c: char| c == '.' || is_edge(c));
    (!name.is_empty()).then(|| name.to_owned())
}

/// Characters that take no place: controls, joiners, marks of direction, variations.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// The plain form of characters that look like others.
fn plain(c: char) -> char {
    match c {
        '\u{3002}' | '\u{ff61}' | '\u{2024}' | '\u{fe52}' => '.',
        '\u{2215}' | '\u{2044}' => '/',
        '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' => '"',
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
        _ if c.is_whitespace() => ' ',
        _ => c,
    }
}

/// A file within a text, between `begin` and `end`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Embedded {
    /// As it stands there.
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

/// What a line of a file in a text means; nothing if it is none.
type Decode = fn(&[u8]) -> Option<Vec<u8>>;

/// The files in a text or in anything else, in the way of uuencode, one after the other.
pub(crate) fn embedded(text: &[u8]) -> impl Iterator<Item = Embedded> {
    let lines = text
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end);
    let mut lines = lines.peekable();
    std::iter::from_fn(move || {
        loop {
            let Some((name, decode)) = beginning(lines.next()?) else {
                continue;
            };
            let mut content = None;
            while let Some(bytes) = lines.peek().and_then(|line| decode(line)) {
                content.get_or_insert_with(Vec::new).extend(bytes);
                lines.next();
            }
            if let Some(content) = content {
                return Some(Embedded { name, content });
            }
        }
    })
}

/// `begin 644 NAME`.
fn beginning(line: &[u8]) -> Option<(String, Decode)> {
    let (rest, decode) = match line.strip_prefix(b"begin-base64 ") {
        Some(rest) => (rest, base64_line as Decode),
        None => (line.strip_prefix(b"begin ")?, uuencoded_line as Decode),
    };
    let text = String::from_utf8_lossy(rest);
    let (mode, name) = text.trim_start().split_once(' ')?;
    let is_mode = matches!(mode.len(), 3 | 4) && mode.bytes().all(|b| matches!(b, b'0'..=b'7'));
    (is_mode && !name.trim().is_empty()).then(|| (name.trim().to_owned(), decode))
}

fn uuencoded_line(line: &[u8]) -> Option<Vec<u8>> {
    let (first, data) = line.split_first()?;
    let len = usize::from(first.wrapping_sub(b' ') & 63);
    let groups = len.div_ceil(3);
    let is_code = |byte: &u8| (b' '..=b'`').contains(byte);
    // Some put a checksum at the end; spaces at the end may have been lost.
    if !is_code(first) || !data.iter().all(is_code) || data.len() > groups * 4 + 2 {
        return None;
    }
    let code = |at: usize| data.get(at).map_or(0, |byte| (byte - b' ') & 63);
    let mut bytes: Vec<u8> = (0..groups)
        .flat_map(|group| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|at| code(group * 4 + at));
            [(a << 2) | (b >> 4), (b << 4) | (c >> 2), (c << 6) | d]
        })
        .collect();
    bytes.truncate(len);
    Some(bytes)
}

fn base64_line(line: &[u8]) -> Option<Vec<u8>> {
    let is_code = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let is_end = line.iter().all(|byte| *byte == b'=');
    let is_line = !is_end && line.iter().all(is_code);
    is_line.then(|| base64_decode(line)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(head: &str) -> Vec<String> {
        Fields::read(head.as_bytes()).names()
    }

    /// What mail programs show as `a.exe`, or open as one.
    #[test]
    fn names_are_found_however_they_are_written() {
        let mut missed = Vec::new();
        for head in [
            "Content-Disposition: attachment; filename=a.exe",
            "Content-Disposition: attachment; filename=\"a.exe\"",
            "content-disposition : ATTACHMENT; FILENAME = \"a.exe\" ; size=3",
            "Content-Disposition: attachment filename=a.exe",
            "Content-Disposition: attachment; size=3 filename=a.exe",
            "Content-Disposition: attachment; size=\"3\"filename=\"a.exe\"",
            "Content-Disposition: filename=a.exe",
            "Content-Disposition: (note) attachment (x); (y) filename (z) = (!) a.exe",
            "Content-Disposition: attachment; (open filename=a.exe",
            "Content-Type: application/pdf; name=a.exe",
            "Content-Type: application/pdf\r\nContent-Type: text/plain; name=a.exe",
            "Content-Type: x / y; name=a.exe",
            "Content-Disposition: attachment;\r\n\tfilename=a.exe",
            "Content-Disposition: attachment; filename=\"a.e\r\n xe\"",
            "Content-Disposition: attachment; filename*=utf-8''a%2eexe",
            "Content-Disposition: attachment; filename*=UTF-8'en'%61.exe",
            "Content-Disposition: attachment; filename*=iso-8859-1''a.e%78e",
            "Content-Disposition: attachment; filename*0*=utf-8''a%2e; filename*1=exe",
            "Content-Disposition: attachment; filename*1=\"exe\"; filename*0=\"a.\"",
            "Content-Disposition: attachment; filename*0=a; filename*1*=%2e; filename*2=exe",
            "Content-Disposition: attachment; filename=\"=?utf-8?B?YS5leGU=?=\"",
            "Content-Disposition: attachment; filename==?utf-8?Q?a=2Eexe?=",
            "Content-Disposition: attachment; filename=\"=?utf-8?q?a.e?= =?us-ascii*en?b?eGU=?=\"",
            "Content-Disposition: attachment; filename*0=\"=?utf-8?B?YS5l\"; filename*1=\"eGU=?=\"",
            "Content-Type: x/y; name=\"=?utf-8?B?YS5leGU=?=\"",
            "Content-Disposition: attachment; filename='a.exe'",
            "Content-Disposition: attachment; filename=\"'a.exe'\"",
            "Content-Disposition: attachment; filename=\"a.exe. . \"",
            "Content-Disposition: attachment; filename=\"a.exe\u{200b}\"",
            "Content-Disposition: attachment; filename=\"a\u{200b}.e\u{ad}xe\"",
            "Content-Disposition: attachment; filename=\"a\u{ff0e}exe\"",
            "Content-Disposition: attachment; filename=\"a\u{3002}\u{ff45}xe\"",
            "Content-Disposition: attachment; filename=\"a.exe::$DATA\"",
            "Content-Disposition: attachment; filename=\"C:\\\\b\\\\a.exe\"",
            "Content-Disposition: attachment; filename=\"../b/a.exe\"",
            "Content-Disposition: attachment; filename=\"a.e\\xe\"",
            "Content-Disposition: attachment; filename=a.pdf\r\nContent-Type: x/y; name=a.exe",
            "Content-Disposition: attachment; filename=a.pdf; filename=a.exe",
            "Content-Disposition: attachment; filename=a.pdf; filename*=utf-8''a.exe",
        ] {
            let names = names(head);
            if !names.iter().any(|name| name == "a.exe") {
                missed.push((head, names));
            }
        }
        assert_eq!(missed, []);
    }

    #[test]
    fn names_stay_what_they_are() {
        for (head, expected) in [
            ("Content-Disposition: attachment", &[] as &[&str]),
            ("Content-Disposition: attachment; filename=\"\"", &[]),
            ("Content-Disposition: attachment; filenames=x", &[]),
            (
                "Content-Disposition: attachment; filename=my file.pdf; size=3",
                &["my file.pdf"],
            ),
            (
                "Content-Disposition: attachment; filename=\"a (1).pdf\"",
                &["a (1).pdf"],
            ),
            (
                "Content-Disposition: attachment; filename=\"Grüße; x=y.txt\"",
                &["Grüße; x=y.txt"],
            ),
            (
                "Content-Disposition: attachment; filename=\"50%25.txt\"",
                &["50%25.txt"],
            ),
            (
                "Content-Disposition: attachment; filename=\"=?x?y\"",
                &["=?x?y"],
            ),
            (
                "Content-Disposition: attachment; filename=b; filename*=utf-8''a\r\n\
                 Content-Type: text/plain; name=b",
                &["a", "b"],
            ),
        ] {
            assert_eq!(names(head), expected, "{head}");
        }
    }

    #[test]
    fn types_and_encodings_are_read_leniently() {
        for (head, kind, encoding) in [
            ("Content-Type: Text/HTML; charset=x", Some("text/html"), ""),
            ("Content-Type: text (x) / plain (y)", Some("text/plain"), ""),
            ("Content-Type: text", Some("text/*"), ""),
            ("Content-Type: name=a.exe", None, ""),
            ("Content-Transfer-Encoding: (x) BASE64", None, "base64"),
            ("Content-Transfer-Encoding: base64;", None, "base64"),
            ("Content-Transfer-Encoding: \"base64\" (x)", None, "base64"),
            ("Content-Transfer-Encoding:\r\n base64", None, "base64"),
            (
                "Content-Transfer-Encoding: 7bit\nContent-Transfer-Encoding: Quoted-Printable",
                None,
                "quoted-printable",
            ),
            ("Content-Transfer-Encoding: base65", None, ""),
        ] {
            let fields = Fields::read(head.as_bytes());
            assert_eq!(
                (fields.kind().as_deref(), fields.encoding()),
                (kind, encoding),
                "{head}"
            );
        }
        let two = "Content-Type: text/plain\nContent-Type: multipart/mixed; boundary=\"a b\"";
        let fields = Fields::read(two.as_bytes());
        let containers: Vec<_> = fields.containers().collect();
        assert_eq!(containers, [("mixed", "a b".to_owned())]);
    }

    #[test]
    fn files_in_texts_are_found() {
        let text = b"hi\r\nbegin 644 a.exe\r\n#35H`\r\n`\r\nend\r\nbegin 99 x\nbegin 600 b c\n\
                     no code\nbegin-base64 644 c.exe\nTVo=\n====\nend\n";
        let files: Vec<_> = embedded(text).collect();
        let file = |name: &str, content: &[u8]| Embedded {
            name: name.to_owned(),
            content: content.to_vec(),
        };
        assert_eq!(files, [file("a.exe", b"MZ\0"), file("c.exe", b"MZ")]);
    }

    /// Each of these is slow for a reader that looks ahead.
    #[test]
    fn time_grows_with_the_size_alone() {
        for piece in [
            "a=b ",
            "a b ",
            "(",
            "=?x?b?",
            "\"",
            ";",
            "a*=b;",
            "filename=\"a\\\";",
        ] {
            let head = format!("Content-Type: {}", piece.repeat(100_000));
            let _ = names(&head);
        }
    }
}
