//! What a script uses without a grant, found without running it.
//!
//! The words of the script are looked at, and nothing is run. So it finds what no test comes to,
//! and misses what a script reaches by other names. A name that the script itself gives to
//! something is its own from there on. It is certain only where the script neither looks whether
//! the module is there nor catches errors.

use crate::lexer::{Word, words};
use crate::manifest::{Grant, Kind, Manifest};

/// Names by which a script can go on without a module, or reach one in another way.
const EVASIONS: [&str; 4] = ["pcall", "xpcall", "coroutine", "_G"];

/// A module that is not granted, and that the script uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The line of the first use.
    pub line: usize,
    /// What is missing.
    pub grant: Grant,
    /// Whether the script fails for certain when it comes to that line.
    pub is_certain: bool,
}

/// What a script uses without a grant, in the order of its lines.
pub(crate) fn lacking(manifest: &Manifest) -> Vec<Lack> {
    let Kind::Luau(text) = &manifest.kind else {
        return Vec::new();
    };
    let words = words(text);
    let mut look = Look::new(&words);
    for at in 0..words.len() {
        look.at(at);
    }
    let can_evade = can_evade(&words);
    let lack = |(grant, found): (Grant, &Found)| {
        Some(Lack {
            line: found.first_use?,
            grant,
            is_certain: !found.is_looked_at && !can_evade,
        })
    };
    let all = Grant::ALL.into_iter().zip(&look.found);
    let missing = all.filter(|(grant, _)| !manifest.grants.contains(grant));
    let mut lacks: Vec<Lack> = missing.filter_map(lack).collect();
    lacks.sort_by_key(|lack| lack.line);
    lacks
}

/// What to write into the manifest of a script so that it lacks nothing.
pub(crate) fn remedy(manifest: &Manifest, lacks: &[Lack]) -> String {
    let mut grants = manifest.grants.clone();
    grants.extend(lacks.iter().map(|lack| lack.grant));
    let names = grants.iter().map(|grant| format!("\"{}\"", grant.name()));
    let mut line = format!("`grants = [{}]`", names.collect::<Vec<_>>().join(", "));
    if lacks.iter().any(|lack| lack.grant == Grant::Http) {
        line += " and `allow_urls = [\"https://HOST/\"]`, where it may turn to";
    }
    into_manifest(manifest, &line)
}

/// Whether a script can go on after what fails, or reach a module in another way.
pub(crate) fn can_evade(words: &[(usize, Word<'_>)]) -> bool {
    words
        .iter()
        .any(|(_, word)| matches!(word, Word::Name(name) if EVASIONS.contains(name)))
}

/// How a line comes into the manifest of a script.
pub(crate) fn into_manifest(manifest: &Manifest, line: &str) -> String {
    match &manifest.kind {
        Kind::Luau(text) if !has_manifest(text) => {
            format!("begin the file with `--[[ procedure`, a line with {line}, and `]]`")
        }
        _ => format!("put {line} into the manifest"),
    }
}

fn has_manifest(text: &str) -> bool {
    let begins = |line: &str| {
        let inner = line.trim_start().strip_prefix("--[[");
        inner.is_some_and(|inner| inner.trim_start().starts_with("procedure"))
    };
    text.lines().any(begins)
}

/// What is known of one module.
#[derive(Default)]
struct Found {
    first_use: Option<usize>,
    /// Named without being used: the script may ask whether it is there, or hand it on.
    is_looked_at: bool,
    /// The script gives this name to something of its own.
    is_own: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// Of the names that a function gets.
    Parameters,
    Braces,
    Other,
}

/// A walk through the words of a script.
struct Look<'a> {
    words: &'a [(usize, Word<'a>)],
    found: [Found; Grant::ALL.len()],
    brackets: Vec<Bracket>,
    /// Within the names behind `local` or `for`.
    in_names: bool,
}

impl<'a> Look<'a> {
    fn new(words: &'a [(usize, Word<'a>)]) -> Self {
        Self {
            words,
            found: std::array::from_fn(|_| Found::default()),
            brackets: Vec::new(),
            in_names: false,
        }
    }

    /// The word at a place; none before the beginning and behind the end.
    fn word(&self, at: Option<usize>) -> Option<Word<'a>> {
        self.words.get(at?).map(|(_, word)| *word)
    }

    fn at(&mut self, at: usize) {
        let (line, word) = self.words[at];
        match word {
            Word::Mark("(") if self.is_header(at) => self.brackets.push(Bracket::Parameters),
            Word::Mark("{") => self.brackets.push(Bracket::Braces),
            Word::Mark("(" | "[") => self.brackets.push(Bracket::Other),
            Word::Mark(")" | "]" | "}") => {
                self.brackets.pop();
            }
            _ => {}
        }
        match word {
            Word::Name("local" | "for") => self.in_names = true,
            Word::Name(name) => {
                let grant = Grant::ALL.iter().position(|grant| grant.name() == name);
                if let Some(grant) = grant {
                    self.name(at, line, grant);
                }
                self.in_names &= self.is_listed(at);
            }
            Word::Mark("," | ":" | ".") => {}
            Word::Mark(_) | Word::Literal => self.in_names = false,
        }
    }

    /// Whether the name at a place is one more of those behind `local` or `for`, or the type of
    /// one.
    fn is_listed(&self, at: usize) -> bool {
        matches!(
            self.word(at.checked_sub(1)),
            Some(Word::Name("local" | "for") | Word::Mark("," | ":" | "."))
        )
    }

    /// Whether the parenthesis at a place holds what a function gets.
    fn is_header(&self, at: usize) -> bool {
        let before = self.words[..at].iter().rev().map(|(_, word)| *word);
        for word in before {
            match word {
                Word::Name("function") => return true,
                Word::Name(_) | Word::Mark("." | ":" | "<" | ">" | ",") => {}
                _ => return false,
            }
        }
        false
    }

    /// The name of a module stands at a place.
    fn name(&mut self, at: usize, line: usize, grant: usize) {
        let (before, after) = (self.word(at.checked_sub(1)), self.word(Some(at + 1)));
        // A field, a method or a type.
        if matches!(before, Some(Word::Mark("." | ":"))) {
            return;
        }
        let innermost = self.brackets.last().copied();
        let is_assigned = after == Some(Word::Mark("="));
        if is_assigned && innermost == Some(Bracket::Braces) {
            return;
        }
        let is_named = before == Some(Word::Name("function"))
            || innermost == Some(Bracket::Parameters)
            || (self.in_names && self.is_listed(at));
        // What stands behind `local log = log` is the module itself.
        let is_alias = is_named && is_assigned && self.word(Some(at + 2)) == self.word(Some(at));
        let found = &mut self.found[grant];
        if found.is_own {
            return;
        }
        if is_named || is_assigned {
            found.is_own = true;
            if is_alias {
                found.is_looked_at = true;
                found.first_use = found.first_use.or(Some(line));
            }
            return;
        }
        match after {
            Some(Word::Mark("(" | "." | "[" | ":" | "{") | Word::Literal) => {
                found.first_use = found.first_use.or(Some(line));
            }
            _ => found.is_looked_at = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a script: line, module, and a question mark where it is not certain.
    fn found(text: &str) -> String {
        let manifest = Manifest::of_script(text).expect("a manifest");
        let lacks = lacking(&manifest);
        let shown = |lack: &Lack| {
            let mark = if lack.is_certain { "" } else { "?" };
            format!("{} {}{mark}", lack.line, lack.grant.name())
        };
        lacks.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_is_used_without_a_grant_is_found_where_no_test_comes_to() {
        for (text, expected) in [
            ("log('a')", "1 log"),
            ("if x then\n  log 'a'\nend", "2 log"),
            ("local a = store.get('b')\nstore.set('b', 'c')", "1 store"),
            (
                "return function(call) return `{dns.lookup(\"a\")}` end",
                "1 dns",
            ),
            (
                "http.get(a)\nmail.send({})\nlog(1)",
                "1 http, 2 mail, 3 log",
            ),
            (
                "--[[ procedure\ngrants = [\"log\"]\n]]\nlog(store.get('a'))",
                "4 store",
            ),
            ("local t = { log = 1 }\nlog(t.log)", "2 log"),
            ("x = y and store['get']('a')", "1 store"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_use_of_a_module_is_not_told() {
        for text in [
            "-- log('a')\nlocal a = \"store.set()\" .. [[ mail.send() ]] .. `http.get`",
            "call.args.log()\ncall:store('a')",
            "local a = { log = 1, store = 2; mail = 3 }",
            "local function log(text) return text end\nlog('a')",
            "local a, log: any = 1, print_it\nlog('a')",
            "for log, store in pairs({}) do log(store.a) end",
            "local f = function(a: string, log, ...) log(a) end",
            "function mail(a) end\nmail('a')",
            "log = function() end\nlog('a')",
            "if log then end",
        ] {
            assert_eq!(found(text), "", "{text}");
        }
    }

    #[test]
    fn where_it_cannot_know_it_is_not_certain() {
        for (text, expected) in [
            ("if log then log('a') end", "1 log?"),
            (
                "local ok = pcall(function() store.set('a', 'b') end)",
                "1 store?",
            ),
            ("_G.log = f\nlog('a')", "2 log?"),
            ("local log = log\nlog('a')", "1 log?"),
            ("f(dns)\ndns.lookup('a')", "2 dns?"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn the_remedy_is_a_line_of_the_manifest() {
        let told = |text: &str| {
            let manifest = Manifest::of_script(text).expect("a manifest");
            remedy(&manifest, &lacking(&manifest))
        };
        assert_eq!(
            told("log(http.get(a))"),
            "begin the file with `--[[ procedure`, a line with `grants = [\"log\", \"http\"]` and \
             `allow_urls = [\"https://HOST/\"]`, where it may turn to, and `]]`"
        );
        assert_eq!(
            told("--[[ procedure\ngrants = [\"dns\"]\n]]\nstore.get('a')"),
            "put `grants = [\"store\", \"dns\"]` into the manifest"
        );
    }
}
