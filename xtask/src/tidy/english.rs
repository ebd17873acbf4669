//! The rules of CONTRIBUTING about plain English, as far as a machine can check them.

use super::{Finding, list, phrases};
use crate::prose::{Place, Sentence, sentences};
use crate::tree::Tree;

/// The pages that nobody has edited yet. The list may only shrink.
const UNEDITED: &str = "xtask/unedited-pages.txt";

/// No sentence has more words than this.
const WORDS_MAX: usize = 35;

/// The sentences of a page have this many words on average, or fewer.
const AVERAGE_MAX: usize = 20;

/// A page with fewer sentences has no average worth a rule.
const SENTENCES_MIN: usize = 8;

/// Phrases that are not English, are pictures, or have a standard word, each with what to write.
pub(super) const PHRASES: &[(&str, &str)] = &[
    ("is no", "is not a"),
    ("are no", "are not"),
    ("was no", "was not a"),
    ("were no", "were not"),
    ("anew", "again"),
    ("so many", "up to N, or the limit"),
    ("called so", "the name is unknown"),
    ("there is not", "does not exist"),
    ("there are not", "do not exist"),
    ("counts not", "is not counted"),
    ("meanwhile", "in the meantime, or say when"),
    ("is told", "receives, or name who reports it"),
    ("are told", "receive, or name who reports it"),
    ("stands in", "is in, or name what shows it"),
    ("stand in", "are in, or name what shows it"),
    ("tells of", "reports"),
    ("goodbye", "disconnected"),
    ("sent away", "disconnected, or refused"),
    ("sends away", "disconnects, or refuses"),
    ("kept out", "refused"),
    ("shut out", "refused, or disabled"),
    ("let go", "disconnected"),
    ("dear", "expensive"),
    ("reckoned", "estimated, or calculated"),
    ("mend", "correct, or fix"),
    ("mends", "corrects, or fixes"),
    ("mended", "corrected, or fixed"),
    ("log-in", "login"),
    ("log-ins", "logins"),
    ("the books", "the user database"),
    ("in vain", "without success"),
];

/// A statement does not begin with these: its subject has a name.
pub(super) const OPENINGS: &[&str] = &["who", "whom", "whose"];

/// Checks the pages that have been edited, and that the list of the others is right.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let unedited: Vec<(usize, Vec<&str>)> = list(tree.text(UNEDITED).unwrap_or_default()).collect();
    for (path, text) in tree.texts_with(&["md"]).filter(|(path, _)| is_page(path)) {
        if !unedited.iter().any(|(_, words)| words[0] == path) {
            findings.extend(page(path, text));
        }
    }
    for (line, words) in unedited {
        let text = tree.text(words[0]).unwrap_or_default();
        if page(words[0], text).is_empty() {
            let message = format!("{} is plain English or is gone: delete this line", words[0]);
            findings.push(Finding::new(UNEDITED, line, message));
        }
    }
    findings
}

/// A table of all pages with the length of their sentences and how many findings each has, and the
/// findings of the pages whose path begins with one of `paths`.
pub(crate) fn report(tree: &Tree, paths: &[&str]) -> String {
    let mut lines = vec!["sentences average longest findings".to_owned()];
    let mut details = Vec::new();
    for (path, text) in tree.texts_with(&["md"]).filter(|(path, _)| is_page(path)) {
        let lengths = lengths(&sentences(text));
        let longest = lengths.iter().max().unwrap_or(&0);
        let findings = page(path, text);
        lines.push(format!(
            "{:9} {:7.1} {longest:7} {:8} {path}",
            lengths.len(),
            average(&lengths),
            findings.len()
        ));
        if paths.iter().any(|start| path.starts_with(start)) {
            details.extend(findings.iter().map(ToString::to_string));
        }
    }
    lines.extend(details);
    lines.extend(phrases::report(tree, paths));
    lines.join("\n")
}

/// Whether people read it as a page of the book. Decisions are records: they stay as they are, and
/// the summary has their titles.
fn is_page(path: &str) -> bool {
    let is_record = path.starts_with("docs/decisions/") || path == "docs/SUMMARY.md";
    let is_front = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&path);
    let is_crate = path.starts_with("crates/") && path.ends_with("/README.md");
    is_front || is_crate || (path.starts_with("docs/") && !is_record)
}

fn page(path: &str, text: &str) -> Vec<Finding> {
    let sentences = sentences(text);
    let mut findings: Vec<Finding> = sentences
        .iter()
        .flat_map(|sentence| {
            let messages = faults(sentence).into_iter();
            messages.map(|message| Finding::new(path, sentence.line, message))
        })
        .collect();
    let lengths = lengths(&sentences);
    let average = average(&lengths);
    if lengths.len() >= SENTENCES_MIN && average > AVERAGE_MAX as f64 {
        let message =
            format!("{average:.1} words a sentence on average; {AVERAGE_MAX} are the limit");
        findings.push(Finding::new(path, 0, message));
    }
    findings
}

/// How many words each sentence of the running text has.
fn lengths(sentences: &[Sentence]) -> Vec<usize> {
    let running = sentences.iter().filter(|it| it.place == Place::Running);
    running.map(|sentence| sentence.words().len()).collect()
}

fn average(lengths: &[usize]) -> f64 {
    lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64
}

/// What is wrong with a sentence.
fn faults(sentence: &Sentence) -> Vec<String> {
    let words = sentence.words();
    let begin = words.iter().take(6).cloned().collect::<Vec<_>>().join(" ");
    let mut faults = Vec::new();
    if words.len() > WORDS_MAX {
        let count = words.len();
        faults.push(format!(
            "{count} words in one sentence, {WORDS_MAX} are the limit: {begin} …"
        ));
    }
    let is_statement = sentence.place != Place::Heading && !sentence.text.ends_with('?');
    let opens = words
        .first()
        .is_some_and(|first| OPENINGS.contains(&first.as_str()));
    if is_statement && opens && words.len() > 1 {
        faults.push(format!("name the subject, and put it first: {begin} …"));
    }
    let found = PHRASES.iter().filter(|(phrase, _)| has(&words, phrase));
    faults.extend(found.map(|(phrase, instead)| format!("{phrase:?}: say {instead}: {begin} …")));
    faults
}

/// Whether the words hold the phrase, other than where it is English.
pub(super) fn has(words: &[String], phrase: &str) -> bool {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    let is_negation = phrase.last() == Some(&"no");
    words.windows(phrase.len()).enumerate().any(|(at, window)| {
        let before = at.checked_sub(1).map_or("", |at| words[at].as_str());
        let after = words.get(at + phrase.len()).map_or("", String::as_str);
        let is_english = is_negation && (before == "there" || ["longer", "more"].contains(&after));
        window == phrase && !is_english
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let tree = Tree::from([("docs/a.md", text)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    /// Whether the only fault of the text is this one.
    fn is_fault(text: &str, words: &str) {
        let found = messages(text);
        assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
    }

    #[test]
    fn long_sentences_are_found() {
        let words = |count: usize| "word ".repeat(count);
        assert_eq!(messages(&words(35)), [""; 0]);
        is_fault(&words(36), "36 words in one sentence");
        is_fault(&format!("| {} |", words(36)), "36 words in one sentence");
    }

    #[test]
    fn the_average_of_a_page_has_a_limit() {
        let page = |words: usize| format!("Word{}. ", " word".repeat(words - 1)).repeat(8);
        assert_eq!(messages(&page(20)), [""; 0]);
        is_fault(&page(21), "21.0 words a sentence on average");
        let seven = format!("Word{}. ", " word".repeat(29)).repeat(7);
        assert_eq!(messages(&seven), [""; 0]);
    }

    #[test]
    fn a_statement_names_its_subject() {
        is_fault("Who keeps up gets all.", "name the subject");
        is_fault("- Whom it does not know waits.", "name the subject");
        assert_eq!(messages("# Who may do what\n\nWho may enter?\n"), [""; 0]);
    }

    #[test]
    fn phrases_that_are_not_english_are_found() {
        for (phrase, _) in PHRASES {
            is_fault(&format!("It {phrase}, today."), &format!("{phrase:?}"));
        }
        is_fault("| It is no file |", "say is not a");
    }

    #[test]
    fn the_same_words_are_english_elsewhere() {
        let text = "There is no file. It is no longer there. It is\nnot a `dear` file. The newest.";
        assert_eq!(messages(text), [""; 0]);
    }

    #[test]
    fn decisions_and_unedited_pages_are_left_alone() {
        let bad = "It is no file.";
        let tree = Tree::from([
            ("docs/decisions/1.md", bad),
            ("docs/b.md", bad),
            ("docs/good.md", "It is a file."),
            ("CHANGELOG.md", bad),
            (UNEDITED, "docs/b.md # later\ndocs/good.md\ndocs/gone.md\n"),
        ]);
        let lines: Vec<usize> = check(&tree).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3]);
    }

    #[test]
    fn the_report_has_a_line_for_each_page() {
        let tree = Tree::from([
            ("docs/a.md", "It is no file."),
            ("README.md", "Good. It is."),
        ]);
        let report = report(&tree, &["docs/"]);
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!(lines.len(), 4, "{report}");
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            ["2", "1.5", "2", "0", "README.md"]
        );
        assert!(lines[3].starts_with("docs/a.md:1: \"is no\""), "{report}");
    }
}
