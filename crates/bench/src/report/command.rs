//! The command that makes a result again.

/// Options that say where a result goes, not what is measured; each takes a value.
const OUTPUTS: [&str; 2] = ["--json", "--html"];

/// How `stentor bench` calls this program in its first argument, as people call it there.
const CALLED: &str = "stentor bench";

/// What people type to run this program: it may have been started alone, on a machine without a
/// `stentor`.
pub(crate) fn program() -> &'static str {
    match std::env::args_os().next() {
        Some(name) if name == CALLED => CALLED,
        _ => "stentor-bench",
    }
}

/// The command line of this process without its outputs and without passwords.
pub(crate) fn of_this_process() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    line(program(), &words)
}

/// The program with these words, as a shell takes them.
pub(crate) fn line(program: &str, words: &[String]) -> String {
    let mut line = program.to_owned();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if OUTPUTS.contains(&word.as_str()) {
            words.next();
            continue;
        }
        if OUTPUTS.iter().any(|o| word.starts_with(&format!("{o}="))) {
            continue;
        }
        line.push(' ');
        line.push_str(&quoted(&masked(word)));
    }
    line
}

/// An address without its password.
fn masked(word: &str) -> String {
    // Addresses may come without their scheme, and behind `--target=`.
    let (scheme, rest) = match word.find("://") {
        Some(at) => word.split_at(at + 3),
        None => ("", word),
    };
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let Some((user, host)) = authority.rsplit_once('@') else {
        return word.to_owned();
    };
    match user.split_once(':') {
        Some((name, _)) => format!("{scheme}{name}:PASSWORD@{host}{}", &rest[authority.len()..]),
        None => word.to_owned(),
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@,=+%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_no_outputs_and_no_passwords() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (given, expected) in [
            (
                "fanout ice-1 --json a.json --pairs 3 --html=b.html",
                "stentor bench fanout ice-1 --pairs 3",
            ),
            (
                "idle --target mqtt://me:secret@h:1883",
                "stentor bench idle --target mqtt://me:PASSWORD@h:1883",
            ),
            (
                "login --database postgres://u:p@h/db?x=1",
                "stentor bench login --database 'postgres://u:PASSWORD@h/db?x=1'",
            ),
            (
                "idle --target me:secret@h:1883 --against=me:secret@h",
                "stentor bench idle --target me:PASSWORD@h:1883 --against=me:PASSWORD@h",
            ),
            (
                "idle --target mqtt://h",
                "stentor bench idle --target mqtt://h",
            ),
        ] {
            assert_eq!(line("stentor bench", &words(given)), expected);
        }
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
