//! The words of a script in Luau, for those who look at a script without running it.
//!
//! It takes for granted that the script compiles: of one that does not, the words are any.

/// One word of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word<'a> {
    /// A name, or a word of the language.
    Name(&'a str),
    /// A text, a number.
    Literal,
    /// Anything else: `(`, `..`, `==`.
    Mark(&'a str),
}

/// Marks of several characters; the longer ones first.
const MARKS: [&str; 10] = ["...", "..", "::", "->", "==", "~=", "<=", ">=", "//", "+="];

/// The words of a script, each with its line. What an interpolated text has in its braces follows
/// that text in parentheses.
pub(crate) fn words(text: &str) -> Vec<(usize, Word<'_>)> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: 1,
        words: Vec::new(),
        braces: Vec::new(),
    };
    while lexer.step().is_some() {}
    lexer.words
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    words: Vec<(usize, Word<'a>)>,
    /// Of each interpolated text that is open, the braces that are open within it.
    braces: Vec<usize>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Goes on by this many bytes.
    fn skip(&mut self, bytes: usize) {
        let passed = &self.rest()[..bytes];
        self.line += passed.matches('\n').count();
        self.at += bytes;
    }

    /// Goes on behind what ends with this, or to the end.
    fn skip_past(&mut self, end: &str) {
        let rest = self.rest();
        let bytes = rest.find(end).map_or(rest.len(), |at| at + end.len());
        self.skip(bytes);
    }

    fn push(&mut self, word: Word<'a>, bytes: usize) {
        self.words.push((self.line, word));
        self.skip(bytes);
    }

    /// Reads one word, or what is none; `None` at the end.
    fn step(&mut self) -> Option<()> {
        let rest = self.rest();
        let first = rest.chars().next()?;
        if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else if let Some(comment) = rest.strip_prefix("--") {
            let end = long_end(comment);
            self.skip_past(end.as_deref().unwrap_or("\n"));
        } else if let Some(end) = long_end(rest) {
            self.words.push((self.line, Word::Literal));
            self.skip_past(&end);
        } else if first == '"' || first == '\'' {
            self.words.push((self.line, Word::Literal));
            self.skip(1);
            self.quoted(first);
        } else if first == '`' {
            self.words.push((self.line, Word::Literal));
            self.skip(1);
            self.interpolated();
        } else if first.is_ascii_alphabetic() || first == '_' {
            let bytes = length(rest, |c| c.is_ascii_alphanumeric() || c == '_');
            self.push(Word::Name(&rest[..bytes]), bytes);
        } else if first.is_ascii_digit() {
            let bytes = length(rest, |c| c.is_ascii_alphanumeric() || "_.".contains(c));
            self.push(Word::Literal, bytes);
        } else {
            self.mark(first);
        }
        Some(())
    }

    fn mark(&mut self, first: char) {
        let rest = self.rest();
        match (first, self.braces.last_mut()) {
            ('{', Some(open)) => *open += 1,
            ('}', Some(0)) => {
                self.braces.pop();
                self.push(Word::Mark(")"), 1);
                self.interpolated();
                return;
            }
            ('}', Some(open)) => *open -= 1,
            _ => {}
        }
        let long = MARKS.iter().find(|mark| rest.starts_with(**mark));
        let bytes = long.map_or_else(|| first.len_utf8(), |mark| mark.len());
        self.push(Word::Mark(&rest[..bytes]), bytes);
    }

    /// Goes on behind the end of a text in quotation marks.
    fn quoted(&mut self, end: char) {
        while let Some(next) = self.rest().chars().next() {
            self.skip(next.len_utf8());
            if next == end {
                return;
            }
            self.escaped(next);
        }
    }

    /// Goes on behind the end of an interpolated text, or into its next braces.
    fn interpolated(&mut self) {
        while let Some(next) = self.rest().chars().next() {
            if next == '{' {
                self.push(Word::Mark("("), 1);
                self.braces.push(0);
                return;
            }
            self.skip(next.len_utf8());
            if next == '`' {
                return;
            }
            self.escaped(next);
        }
    }

    /// Passes over what stands behind a backslash.
    fn escaped(&mut self, before: char) {
        if let ('\\', Some(next)) = (before, self.rest().chars().next()) {
            self.skip(next.len_utf8());
        }
    }
}

/// The end of the long text or comment that begins here with `[[` or `[==[`.
fn long_end(text: &str) -> Option<String> {
    let inner = text.strip_prefix('[')?;
    let level = length(inner, |c| c == '=');
    inner[level..].strip_prefix('[')?;
    Some(format!("]{}]", "=".repeat(level)))
}

/// The bytes at the beginning that fit.
fn length(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_comments_have_no_words() {
        let text = "-- a\n--[==[ b ]] \n c ]==] d = 'e\\'f' .. \"g\\\\\" .. [[ h\n ]] i\n1.5e3..k";
        let names: Vec<(usize, &str)> = words(text)
            .into_iter()
            .filter_map(|(line, word)| match word {
                Word::Name(name) => Some((line, name)),
                _ => None,
            })
            .collect();
        assert_eq!(names, [(3, "d"), (4, "i")]);
    }

    #[test]
    fn braces_of_interpolated_texts_have_words() {
        let text = "a = `b {c({ d = `{e}` })} f` g";
        let names: Vec<&str> = words(text)
            .into_iter()
            .filter_map(|(_, word)| match word {
                Word::Name(name) => Some(name),
                _ => None,
            })
            .collect();
        assert_eq!(names, ["a", "c", "d", "e", "g"]);
    }
}
