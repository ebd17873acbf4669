//! What there is instead of an option or a command that is unknown.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use stentor_usage::verb;

/// Flags that somebody may look for, and what there is instead.
const ELSEWHERE: [(&str, &str); 5] = [
    (
        "--zone",
        "this command is about no zone, or about all; --help shows what it takes",
    ),
    (
        "--tls",
        "name the authorities to trust: --cafile FILE, or --tls-use-os-certs",
    ),
    (
        "--expires",
        "--days N of `stentor token create` says how many days a token lasts",
    ),
    (
        "--days",
        "a token expires, made by `stentor token create NAME --days N`",
    ),
    (
        "--quota",
        "each quota is a flag of its own, such as --messages-per-sec; --help lists them",
    ),
];

/// What helps where a zone is what the command is about.
const NAMED: &str = "a zone is named without a flag here: `stentor zone show NAME`";

/// What helps where a command of the command is missing.
const BEHIND: &str = "--zone follows the command, as in `stentor clients ls --zone NAME`";

/// What helps where a server is to speak TLS.
const SERVED: &str = "--listen mqtts://HOST:PORT with --tls-certificate FILE and --tls-key FILE";

/// What helps where a user is to expire.
const NO_EXPIRY: &str = "a user does not expire: `stentor user disable NAME` ends its logins, and \
                         `stentor token create NAME --days N` makes a token that expires";

/// Commands that somebody may look for: below which command (none: below `stentor` itself), what
/// they may be called, and what there is instead.
const COMMANDS: [(&str, &[&str], &str); 10] = [
    (
        "role",
        &["revoke", "take", "unassign"],
        "`stentor revoke USER ROLE` takes a role from a user",
    ),
    (
        "role",
        &["grant", "give", "assign"],
        "`stentor grant USER ROLE` gives a role to a user",
    ),
    (
        "user",
        &[
            "grant", "revoke", "role", "roles", "add-role", "set-role", "change", "modify",
        ],
        "`stentor grant USER ROLE` gives a role to a user, `stentor revoke USER ROLE` takes it",
    ),
    (
        "user",
        &["passwd", "password", "change-password"],
        "`stentor user set-password NAME` gives a user another password",
    ),
    ("clients", &["ban", "block", "disable"], BAN),
    (
        "clients",
        &["delete", "remove", "rm", "disconnect"],
        "`stentor clients kick CLIENT_ID` disconnects a client; --end-session ends its session too",
    ),
    ("", &["block", "kick"], BAN),
    (
        "ban",
        &["client", "user", "address", "zone", "new", "create"],
        "`stentor ban add --client ID` bans a client id; --user, --address and --zone ban others",
    ),
    (
        "retained",
        &["add", "create", "new"],
        "`stentor retained set TOPIC PAYLOAD` sets the message of a topic",
    ),
    (
        "adaptor",
        &["delete", "remove", "rm"],
        "an adaptor is a file and an [[adaptor]] of the configuration: delete both there",
    ),
];

/// What helps against somebody.
const BAN: &str = "`stentor ban add --client ID` keeps a client out, and --user NAME or --address \
                   ADDRESS others; `stentor clients kick CLIENT_ID` disconnects a client once";

/// What there is instead of an unknown flag or an unknown command.
pub(crate) fn instead(error: &clap::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::UnknownArgument => of_flag(error),
        ErrorKind::InvalidSubcommand => of_command(error),
        _ => None,
    }
}

/// What there is instead of a flag.
fn of_flag(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let verb = verb(error);
    let verb = verb.as_deref();
    let (known, tip) = ELSEWHERE.iter().find(|(known, _)| known == flag)?;
    Some(match (*known, verb) {
        ("--zone", Some("zone")) => NAMED,
        ("--zone", _) if error.to_string().contains("<COMMAND>") => BEHIND,
        ("--tls", Some("serve")) => SERVED,
        ("--expires" | "--days", Some("user")) => NO_EXPIRY,
        _ => *tip,
    })
}

/// What there is instead of a command.
fn of_command(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    // The usage of `stentor` itself names no command.
    let verb = verb(error).filter(|verb| !verb.starts_with(['[', '<']));
    let verb = verb.unwrap_or_default();
    let suits =
        |(below, words, _): &&(&str, &[&str], _)| *below == verb && words.contains(&word.as_str());
    COMMANDS.iter().find(suits).map(|(.., tip)| *tip)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use stentor_usage::{mended, readable};

    use super::*;
    use crate::Cli;

    fn told(words: &str) -> String {
        match Cli::try_parse_from(words.split(' ')) {
            Ok(_) => panic!("{words} is understood"),
            Err(error) => readable(&mended(error, instead).to_string()),
        }
    }

    #[test]
    fn an_unknown_flag_is_not_said_to_be_a_value() {
        for (words, tip) in [
            ("stentor reload --zone game", "about no zone"),
            ("stentor zone show --zone game", "without a flag here"),
            ("stentor pub -t t -m x --tls", "--cafile FILE"),
            ("stentor serve --tls", "--tls-certificate FILE"),
            ("stentor role add r --quota 5", "--messages-per-sec"),
            ("stentor token create bob --expires 5d", "--days N"),
            ("stentor clients --zone game", "follows the command"),
            ("stentor user list --limt 1", "--limit"),
            (
                "stentor user add bob --expires 5d",
                "a user does not expire",
            ),
        ] {
            let text = told(words);
            assert!(!text.contains("as a value") && text.contains(tip), "{text}");
            assert!(
                !text.contains("--tls-alpn") && !text.contains("--tls-key'"),
                "{text}"
            );
            assert!(!text.contains("'--server'"), "{text}");
        }
    }

    #[test]
    fn a_command_that_is_elsewhere_is_named() {
        for (words, tip) in [
            ("stentor role revoke bob admin", "stentor revoke USER ROLE"),
            ("stentor role grant bob admin", "stentor grant USER ROLE"),
            ("stentor user grant bob admin", "stentor grant USER ROLE"),
            ("stentor user role bob admin", "stentor grant USER ROLE"),
            ("stentor user set-role bob admin", "stentor grant USER ROLE"),
            ("stentor user change bob", "stentor grant USER ROLE"),
            ("stentor user passwd bob", "stentor user set-password NAME"),
            ("stentor block bob", "stentor ban add --client ID"),
            ("stentor ban user bob", "stentor ban add --client ID"),
            ("stentor clients ban bob", "stentor ban add --client ID"),
            ("stentor clients rm bob", "stentor clients kick"),
            ("stentor retained add t x", "stentor retained set"),
            ("stentor adaptor rm greet.luau", "[[adaptor]]"),
            ("stentor user lst", "'list'"),
        ] {
            let text = told(words);
            assert!(text.contains(tip), "{text}");
            for wrong in ["'man'", "'remove'", "'set-password'", "as a value"] {
                assert!(!text.contains(wrong), "{text}");
            }
        }
    }

    #[test]
    fn help_about_users_and_roles_names_how_a_user_gets_a_role() {
        for words in ["stentor user --help", "stentor role --help"] {
            let text = told(words);
            for command in ["stentor grant USER ROLE", "stentor revoke USER ROLE"] {
                assert!(text.contains(command), "{text}");
            }
        }
    }

    #[test]
    fn makers_and_removers_are_said_in_the_same_words() {
        let known = |words: String| {
            let error = Cli::try_parse_from(words.split(' ')).err();
            let kind = error.map(|error| error.kind());
            assert_ne!(kind, Some(ErrorKind::InvalidSubcommand), "{words}");
        };
        for command in [
            "user",
            "role",
            "zone",
            "token",
            "room",
            "adaptor",
            "procedure",
        ] {
            for word in ["add", "create", "new"] {
                known(format!("stentor {command} {word}"));
            }
        }
        for command in ["user", "role", "zone", "token", "room", "retained"] {
            for word in ["delete", "remove", "rm"] {
                known(format!("stentor {command} {word}"));
            }
        }
    }

    #[test]
    fn a_number_that_is_none_is_called_so() {
        for words in [
            "stentor room create tea --capacity x",
            "stentor clients ls --limit x",
        ] {
            let text = told(words);
            assert!(text.contains("it is not a whole number"), "{text}");
            assert!(!text.contains("invalid digit"), "{text}");
        }
    }
}
