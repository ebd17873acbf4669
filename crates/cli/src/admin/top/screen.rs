//! One page after the other in the same place of a terminal.

use std::io;

/// A page from the top left corner of the terminal on, with nothing of the one before. What the
/// terminal has no room for is left out: otherwise it would scroll, and each page would begin
/// where the one before has not.
pub(super) fn screen(page: &str) -> String {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let size = size.map(|it| (usize::from(it.ws_row), usize::from(it.ws_col)));
    // A terminal that does not know its size says 0.
    match size.filter(|(rows, columns)| *rows > 0 && *columns > 0) {
        Some((rows, columns)) => placed(&fitted(page, rows, columns)),
        None => placed(page),
    }
}

fn placed(page: &str) -> String {
    const HOME: &str = "\u{1B}[H";
    const REST_OF_LINE: &str = "\u{1B}[K\n";
    const REST_OF_SCREEN: &str = "\u{1B}[J";
    [HOME, &page.replace('\n', REST_OF_LINE), REST_OF_SCREEN].concat()
}

/// As many lines as there are rows, but for the one where the cursor stays, each as far as the
/// columns go.
fn fitted(page: &str, rows: usize, columns: usize) -> String {
    let lines = page.lines().take(rows.saturating_sub(1).max(1));
    lines.map(|line| cut(line, columns) + "\n").collect()
}

/// The beginning of a line, with the sequences that make it bold, which take no column.
fn cut(line: &str, columns: usize) -> String {
    let (mut text, mut left, mut is_sequence) = (String::new(), columns, false);
    for one in line.chars() {
        if one == '\u{1B}' {
            is_sequence = true;
        }
        if is_sequence {
            text.push(one);
            is_sequence = one != 'm';
        } else if left > 0 {
            left -= 1;
            text.push(one);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_replaces_the_one_before() {
        assert_eq!(placed("a\nb\n"), "\u{1B}[Ha\u{1B}[K\nb\u{1B}[K\n\u{1B}[J");
    }

    #[test]
    fn a_page_is_cut_to_the_terminal() {
        let page = "\u{1B}[1mheads\u{1B}[0m\nfirst row\nsecond\nthird\n";
        let bold = |text: &str| format!("\u{1B}[1m{text}\u{1B}[0m\n");
        assert_eq!(fitted(page, 4, 80), bold("heads") + "first row\nsecond\n");
        assert_eq!(fitted(page, 3, 3), bold("hea") + "fir\n");
        assert_eq!(fitted(page, 1, 1), bold("h"));
    }
}
