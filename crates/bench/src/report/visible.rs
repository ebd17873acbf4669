//! Text from files and servers, for a terminal or a page.

/// Whether a character cannot be seen itself: a control character, or one that turns the direction
/// of the text around it.
pub(crate) fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// The text with every character spelled out that cannot be seen.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_spelled_out() {
        assert_eq!(
            visible("a\u{202e}b\u{7}\n\u{2069}ä"),
            "a\\u{202e}b\\u{7}\n\\u{2069}ä"
        );
        assert_eq!(visible("5 µs × 2\t"), "5 µs × 2\t");
    }
}
