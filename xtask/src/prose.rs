//! The sentences of a Markdown page, without its code.

/// Where a sentence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a paragraph or an item of a list.
    Running,
    /// In a cell of a table.
    Cell,
    Heading,
}

/// A sentence. Code spans are [`CODE`], links are their text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentence {
    /// The line on which its block begins, counted from 1.
    pub(crate) line: usize,
    pub(crate) place: Place,
    pub(crate) text: String,
}

/// The comment above a paragraph or a table that has bad English on purpose, as an example.
const EXAMPLES: &str = "<!-- not English -->";

/// What stands for a code span: a name counts as one word, and no rule about words applies in it.
const CODE: &str = "`…`";

impl Sentence {
    /// Its words in lower case, without the punctuation around them.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = self.text.split_whitespace();
        let is_word = |word: &&str| word.contains(char::is_alphanumeric) || word.contains(CODE);
        words.filter(is_word).map(bare).collect()
    }
}

/// A word in lower case, without the punctuation around it.
pub(crate) fn bare(word: &str) -> String {
    let is_mark = |c: char| !c.is_alphanumeric() && c != '`' && c != '…';
    word.trim_matches(is_mark).to_lowercase()
}

/// All sentences of a page in their order. Fenced blocks, comments, link definitions and what is
/// below [`EXAMPLES`] have none.
pub(crate) fn sentences(page: &str) -> Vec<Sentence> {
    let mut reader = Reader::default();
    let mut is_code = false;
    let mut is_comment = false;
    let mut is_example = false;
    for (index, line) in page.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            reader.end();
            is_code = !is_code;
        } else if is_code {
        } else if is_example {
            is_example = !line.is_empty();
        } else if line == EXAMPLES {
            reader.end();
            is_example = true;
        } else if is_comment || line.starts_with("<!--") {
            reader.end();
            is_comment = !line.contains("-->");
        } else {
            reader.line(index + 1, line);
        }
    }
    reader.end();
    reader.sentences
}

/// Collects the lines of a block until it ends.
#[derive(Default)]
struct Reader {
    begins: usize,
    block: String,
    sentences: Vec<Sentence>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        let is_definition = line.starts_with('[') && line.contains("]: ");
        if line.is_empty() || is_definition {
            self.end();
        } else if line.starts_with('#') {
            self.end();
            self.add(number, Place::Heading, line.trim_start_matches('#'));
        } else if line.starts_with('|') {
            self.end();
            for cell in cells(line) {
                self.add(number, Place::Cell, &cell);
            }
        } else {
            let line = line.trim_start_matches("> ");
            let item = item(line);
            if item.is_some() {
                self.end();
            }
            if self.block.is_empty() {
                self.begins = number;
            }
            self.block.push_str(item.unwrap_or(line));
            self.block.push(' ');
        }
    }

    fn end(&mut self) {
        let block = std::mem::take(&mut self.block);
        self.add(self.begins, Place::Running, &block);
    }

    fn add(&mut self, line: usize, place: Place, block: &str) {
        let sentences = split(&plain(block))
            .into_iter()
            .map(|text| Sentence { line, place, text });
        self.sentences.extend(sentences);
    }
}

/// The text of a list's item behind its mark.
fn item(line: &str) -> Option<&str> {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = numbered.len() < line.len();
    let bulleted = ["- ", "* "].iter().find_map(|mark| line.strip_prefix(mark));
    bulleted.or_else(|| numbered.strip_prefix(". ").filter(|_| is_numbered))
}

/// The cells of a table's row; the line below its head has none.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_code = false;
    let mut before = ' ';
    for c in row.chars() {
        is_code ^= c == '`';
        if c == '|' && before != '\\' && !is_code {
            cells.push(String::new());
        } else {
            cells.last_mut().expect("one was put there").push(c);
        }
        before = c;
    }
    cells.retain(|cell| cell.contains(char::is_alphanumeric) || cell.contains('`'));
    cells
}

/// A block without code spans, the targets of links and emphasis.
fn plain(block: &str) -> String {
    let mut text = String::new();
    let mut rest = block;
    while let Some(at) = rest.find('`') {
        text.push_str(&rest[..at]);
        let span = &rest[at..];
        let ticks = span.len() - span.trim_start_matches('`').len();
        let (fence, inside) = span.split_at(ticks);
        let Some(end) = inside.find(fence) else {
            rest = inside;
            continue;
        };
        text.push_str(CODE);
        rest = &inside[end + ticks..];
    }
    text.push_str(rest);
    without_targets(&text).replace(['*', '\\'], "")
}

fn without_targets(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, behind)| behind);
    }
    plain.push_str(rest);
    plain.replace(['[', ']'], "")
}

/// Cuts a block at the ends of its sentences.
fn split(block: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut sentence = String::new();
    for word in block.split_whitespace() {
        let begins =
            word.starts_with(|c: char| c.is_uppercase() || c.is_numeric() || "`(\"".contains(c));
        let ended = sentence
            .trim_end_matches([')', '"'])
            .ends_with(['.', '!', '?']);
        if begins && ended {
            sentences.push(std::mem::take(&mut sentence));
        }
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
    }
    sentences.push(sentence);
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &str) -> Vec<(usize, Place, String)> {
        let sentences = sentences(page).into_iter();
        sentences
            .map(|sentence| (sentence.line, sentence.place, sentence.text))
            .collect()
    }

    #[test]
    fn a_page_falls_into_its_sentences() {
        let page = "# A title\n\nOne goes\non. Two (it ends.) Three is version 3.1 of `a. B`!\n\
                    - An item\n  of a list\n2. Another. `x` follows\n";
        let running = |line, text: &str| (line, Place::Running, text.to_owned());
        assert_eq!(
            texts(page),
            [
                (1, Place::Heading, "A title".to_owned()),
                running(3, "One goes on."),
                running(3, "Two (it ends.)"),
                running(3, "Three is version 3.1 of `…`!"),
                running(5, "An item of a list"),
                running(7, "Another."),
                running(7, "`…` follows"),
            ]
        );
    }

    #[test]
    fn code_comments_and_targets_are_left_out() {
        let page = "<!-- not run: it\nis long. -->\n```sh\nIs no. Text.\n```\n\
                    See [**the page**](a.md#b) and ``a ` b``.\n\n[x]: http://a\n";
        let found = texts(page);
        assert_eq!(
            found,
            [(6, Place::Running, "See the page and `…`.".to_owned())]
        );
    }

    #[test]
    fn examples_of_bad_english_are_left_out() {
        let page = "One.\n<!-- not English -->\n| it is no file |\n| bad |\n\nTwo.\n";
        let found: Vec<String> = sentences(page)
            .into_iter()
            .map(|sentence| sentence.text)
            .collect();
        assert_eq!(found, ["One.", "Two."]);
    }

    #[test]
    fn each_cell_of_a_table_is_one() {
        let page = "| a | b |\n|---|---|\n| `x\\|y` | It works. So does `a|b` |\n";
        let cells: Vec<String> = sentences(page)
            .into_iter()
            .map(|sentence| sentence.text)
            .collect();
        assert_eq!(cells, ["a", "b", "`…`", "It works.", "So does `…`"]);
    }

    #[test]
    fn words_have_no_punctuation() {
        let found = &sentences("It's (a) \"test\" – of `x y`, no more.")[0];
        let words = ["it's", "a", "test", "of", "`…`", "no", "more"];
        assert_eq!(found.words(), words);
    }
}
