//! What a script asks of its call without having said that it needs it, found without running it.
//!
//! Only the words of the script are looked at: what it reaches by other names is missed. It is
//! certain only where the script catches no errors.

use crate::lacking::{can_evade, into_manifest};
use crate::lexer::{Word, words};
use crate::manifest::{Kind, Manifest, Need};

/// What a call has only if the manifest says so.
const PARTS: [(&str, Need); 12] = [
    ("from", Need::Envelope),
    ("rcpt", Need::Envelope),
    ("header", Need::Headers),
    ("headers", Need::Headers),
    ("add_header", Need::Headers),
    ("remove_header", Need::Headers),
    ("line_end", Need::Headers),
    ("parts", Need::Body),
    ("raw", Need::Body),
    ("insert", Need::Body),
    ("append", Need::Body),
    ("delete", Need::Body),
];

/// The fields among them; the others are methods.
const FIELDS: [&str; 2] = ["from", "rcpt"];

/// What a script asks of its call, and its manifest does not say that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blind {
    /// The line where it asks first.
    pub line: usize,
    /// As the script says it: `call:header`.
    pub what: String,
    /// What the manifest has to say.
    pub need: Need,
    /// Whether the script fails for certain when it comes to that line.
    pub is_certain: bool,
}

/// The first use of each need that a script has and does not say, in the order of its lines.
pub(crate) fn blind(manifest: &Manifest) -> Vec<Blind> {
    let Kind::Luau(text) = &manifest.kind else {
        return Vec::new();
    };
    let words = words(text);
    let plain: Vec<Word<'_>> = words.iter().map(|(_, word)| *word).collect();
    let calls = names_of_calls(&plain);
    let own = [Word::Name("local"), Word::Name("call")];
    let is_certain = !can_evade(&words) && !plain.windows(2).any(|pair| pair == own);
    let mut found: Vec<Blind> = Vec::new();
    for (at, three) in plain.windows(3).enumerate() {
        let [Word::Name(call), Word::Mark(mark), Word::Name(part)] = three else {
            continue;
        };
        let before = at.checked_sub(1).map(|before| plain[before]);
        let is_call = calls.contains(call) && !matches!(before, Some(Word::Mark("." | ":")));
        let is_said = *mark == if FIELDS.contains(part) { "." } else { ":" };
        let known = PARTS.iter().find(|(known, _)| known == part);
        let Some((_, need)) = known.filter(|_| is_call && is_said) else {
            continue;
        };
        if *need > manifest.needs && found.iter().all(|one| one.need != *need) {
            found.push(Blind {
                line: words[at].0,
                what: format!("{call}{mark}{part}"),
                need: *need,
                is_certain,
            });
        }
    }
    found
}

/// The names that the script gives to its call.
fn names_of_calls<'a>(words: &[Word<'a>]) -> Vec<&'a str> {
    let mut names = vec!["call"];
    for (at, four) in words.windows(4).enumerate() {
        let [
            first,
            Word::Name("function"),
            Word::Mark("("),
            Word::Name(name),
        ] = four
        else {
            continue;
        };
        let is_field = || at > 0 && words[at - 1] == Word::Name("call");
        if *first == Word::Name("return") || (*first == Word::Mark("=") && is_field()) {
            names.push(name);
        }
    }
    names
}

/// What to write into the manifest of a script so that it sees all these.
pub(crate) fn remedy(manifest: &Manifest, found: &[Blind]) -> String {
    let most = found.iter().map(|one| one.need).max().unwrap_or_default();
    let line = format!("`needs = \"{}\"`", most.name());
    into_manifest(manifest, &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a script: line, what it asks, and a question mark where it is not certain.
    fn found(text: &str) -> String {
        let manifest = Manifest::of_script(text).expect("a manifest");
        let shown = |one: &Blind| {
            let mark = if one.is_certain { "" } else { "?" };
            format!("{} {}{mark}", one.line, one.what)
        };
        let all = blind(&manifest);
        all.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_a_script_asks_without_needing_it_is_found() {
        for (text, expected) in [
            (
                "return function(call)\nreturn call:header('a') end",
                "2 call:header",
            ),
            ("return function(mail) mail:raw() end", "1 mail:raw"),
            (
                "return { call = function(m) return m.from end }",
                "1 m.from",
            ),
            (
                "return function(call) local a = call.rcpt\ncall:parts() end",
                "1 call.rcpt, 2 call:parts",
            ),
            (
                "--[[ procedure\nneeds = \"headers\"\n]]\nreturn function(call)\n\
                 call:header('a')\ncall:append('b') end",
                "6 call:append",
            ),
            (
                "return function(call) pcall(function() call:raw() end) end",
                "1 call:raw?",
            ),
            ("local call = f()\ncall:raw()", "2 call:raw?"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_question_about_the_call_is_not_told() {
        for text in [
            "return function(call) return call.args.from end",
            "return function(call) x.call:raw() list:insert(1) end",
            "-- call:raw()\nreturn function(call) return 'call:raw()' end",
            "--[[ procedure\nneeds = \"body\"\n]]\nreturn function(call) call:raw() end",
            "return function(call) return call.size end",
        ] {
            assert_eq!(found(text), "", "{text}");
        }
    }

    #[test]
    fn the_remedy_says_the_largest_need() {
        let told = |text: &str| {
            let manifest = Manifest::of_script(text).expect("a manifest");
            remedy(&manifest, &blind(&manifest))
        };
        assert_eq!(
            told("return function(call) call:raw() return call.from end"),
            "begin the file with `--[[ procedure`, a line with `needs = \"body\"`, and `]]`"
        );
        assert_eq!(
            told(
                "--[[ procedure\nneeds = \"size\"\n]]\nreturn function(call) call:header('a') end"
            ),
            "put `needs = \"headers\"` into the manifest"
        );
    }
}
