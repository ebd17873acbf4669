//! Rust source with its comments and literals blanked, so that a check meets code only.
//!
//! This is no parser. It knows enough of the language to tell code from text, which suffices for
//! counting lines and finding words; what it may get wrong is a check's message, never the build.

/// Source in which every character of comments, strings and character literals is a space. Lines
/// and columns are those of the original.
#[derive(Debug)]
pub(crate) struct Masked {
    code: String,
}

/// A function and the lines it spans, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
}

impl Masked {
    pub(crate) fn new(source: &str) -> Self {
        Self { code: mask(source) }
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The line of a byte offset, counted from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        1 + self.code.as_bytes()[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    }

    /// The offsets at which a word stands alone.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        self.code
            .match_indices(word)
            .map(|(at, _)| at)
            .filter(move |at| {
                !self.code[..*at].ends_with(is_part)
                    && !self.code[at + word.len()..].starts_with(is_part)
            })
    }

    /// The functions that have a body.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for at in self.words("fn") {
            let rest = self.code[at + 2..].trim_start();
            let name: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            // `fn(u8)` is the type of a function pointer.
            if name.is_empty() {
                continue;
            }
            if let Some(end) = self.body(at).and_then(|open| self.closing(open)) {
                let (first_line, last_line) = (self.line(at), self.line(end));
                functions.push(Function {
                    name,
                    first_line,
                    last_line,
                });
            }
        }
        functions
    }

    /// The lines of modules that are compiled for tests only, as first and last line.
    pub(crate) fn test_regions(&self) -> Vec<(usize, usize)> {
        let mut regions = Vec::new();
        for (at, _) in self.code.match_indices("#[cfg(test)]") {
            let end = self
                .body(at + "#[cfg(test)]".len())
                .and_then(|open| self.closing(open));
            if let Some(end) = end {
                regions.push((self.line(at), self.line(end)));
            }
        }
        regions
    }

    /// The brace that opens the body of the item that begins at `from`, unless the item ends
    /// before.
    fn body(&self, from: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, c) in self.code[from..].char_indices() {
            match c {
                '(' | '[' => depth += 1,
                ')' | ']' => depth = depth.saturating_sub(1),
                ';' if depth == 0 => return None,
                '{' if depth == 0 => return Some(from + at),
                _ => {}
            }
        }
        None
    }

    /// The brace that closes the one at `open`.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, c) in self.code[open..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(open + at);
            }
        }
        None
    }
}

/// What the scanner is in the middle of.
enum Within {
    Code,
    LineComment,
    /// The number of block comments that are open.
    BlockComment(usize),
    Text,
    /// The number of `#` that close the raw string.
    RawText(usize),
    Letter,
}

fn mask(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut within = Within::Code;
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        // What is taken in one step: its length in bytes, and whether it is code.
        let (taken, shown) = match within {
            Within::Code => code_step(rest, c, out.as_bytes().last().copied(), &mut within),
            Within::LineComment => {
                if c == '\n' {
                    within = Within::Code;
                }
                (c.len_utf8(), false)
            }
            Within::BlockComment(depth) => {
                let (taken, now) = match () {
                    () if rest.starts_with("*/") => (2, depth - 1),
                    () if rest.starts_with("/*") => (2, depth + 1),
                    () => (c.len_utf8(), depth),
                };
                within = if now == 0 {
                    Within::Code
                } else {
                    Within::BlockComment(now)
                };
                (taken, false)
            }
            Within::Text | Within::Letter if c == '\\' => (
                1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                false,
            ),
            Within::Text | Within::Letter => {
                let quote = if matches!(within, Within::Text) {
                    '"'
                } else {
                    '\''
                };
                if c == quote {
                    within = Within::Code;
                }
                (c.len_utf8(), false)
            }
            Within::RawText(hashes) => {
                let ends =
                    c == '"' && rest[1..].bytes().take_while(|b| *b == b'#').count() >= hashes;
                if ends {
                    within = Within::Code;
                }
                (if ends { 1 + hashes } else { c.len_utf8() }, false)
            }
        };
        let (piece, tail) = rest.split_at(taken);
        for c in piece.chars() {
            out.push(if shown || c == '\n' { c } else { ' ' });
        }
        rest = tail;
    }
    out
}

/// One step through code: what it takes, and whether that is code; enters comments and literals.
fn code_step(rest: &str, c: char, before: Option<u8>, within: &mut Within) -> (usize, bool) {
    let after_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if rest.starts_with("//") {
        *within = Within::LineComment;
        return (2, false);
    }
    if rest.starts_with("/*") {
        *within = Within::BlockComment(1);
        return (2, false);
    }
    if c == '"' {
        *within = Within::Text;
        return (1, false);
    }
    if let (Some((taken, hashes)), false) = (raw_start(rest), after_word) {
        *within = Within::RawText(hashes);
        return (taken, false);
    }
    if c == '\'' {
        let mut next = rest[1..].chars();
        let (first, second) = (next.next(), next.next());
        // `'a'` and `'\n'` are letters, `'a` is a lifetime.
        if first == Some('\\') || second == Some('\'') {
            *within = Within::Letter;
            return (1, false);
        }
    }
    (c.len_utf8(), true)
}

/// The beginning of a raw string (`r"`, `br#"`, `cr##"`): its length and its number of `#`.
fn raw_start(rest: &str) -> Option<(usize, usize)> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        rest.strip_prefix(prefix)
            .is_some_and(|tail| tail.starts_with(['"', '#']))
    })?;
    let tail = &rest[prefix.len()..];
    let hashes = tail.bytes().take_while(|byte| *byte == b'#').count();
    tail[hashes..]
        .starts_with('"')
        .then_some((prefix.len() + hashes + 1, hashes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        for (source, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"x\\\"y\", 1)", "f(      , 1)"),
            ("f(r#\"a\"b\"#, 1)", "f(        , 1)"),
            ("f(br\"a\\\", 1)", "f(      , 1)"),
            ("f('\\'', 'x', '\"')", "f(    ,    ,    )"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("let r#fn = br_x;", "let r#fn = br_x;"),
            ("\"a\nb\"", "  \n  "),
        ] {
            assert_eq!(
                Masked::new(source).code().trim_end(),
                code.trim_end(),
                "{source}"
            );
        }
    }

    #[test]
    fn functions_are_measured() {
        let source = "fn a() {}\nimpl X {\n    fn b(x: [u8; 2]) -> Y\n    where\n        Z: W,\n    {\n\
                      if x { \"}\" }\n    }\n    fn c();\n}\nlet d: fn(u8) = e;\n";
        let found: Vec<(String, usize, usize)> = Masked::new(source)
            .functions()
            .into_iter()
            .map(|function| (function.name, function.first_line, function.last_line))
            .collect();
        assert_eq!(found, [("a".to_owned(), 1, 1), ("b".to_owned(), 3, 8)]);
    }

    #[test]
    fn test_modules_are_found() {
        let source =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n#[cfg(test)]\nmod x;\n";
        assert_eq!(Masked::new(source).test_regions(), [(2, 5)]);
    }

    #[test]
    fn words_stand_alone() {
        let masked = Masked::new("unsafe unsafe_code not_unsafe \"unsafe\" (unsafe)");
        assert_eq!(masked.words("unsafe").collect::<Vec<_>>(), [0, 40]);
    }
}
