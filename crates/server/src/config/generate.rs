//! The documents that are written from the table: the sample file and the reference page.

use super::keys::SECTIONS;
use super::table::{Fallback, Key, Section};

/// The key of the sample that is not commented out: a file without any key is refused.
const GIVEN: &str = "allow_anonymous";

/// The sample configuration file: every key with its default, commented out but for `GIVEN`.
#[must_use]
pub fn sample() -> String {
    let mut out = String::from(
        "# Stentor's configuration. Every key is here with its default or, where there is none, with\n\
         # an example; all but one are commented out, since a file without any key is refused.\n\
         # Environment variables and flags go before this file; docs/configuration.md explains\n\
         # each key. `stentor check-config` checks a file, `stentor reload` applies a changed\n\
         # one.\n\
         # Relative paths start at the folder of this file.\n",
    );
    for section in SECTIONS {
        out.push('\n');
        out.push_str(&wrapped(section.text, "# "));
        if !section.name.is_empty() {
            // An entry of a list is only an example, a plain section may stand empty.
            let mark = if section.repeated { "#" } else { "" };
            out.push_str(&format!("{mark}{}\n", section.header()));
        }
        for key in section.keys {
            out.push('\n');
            out.push_str(&wrapped(key.text, "# "));
            let range = format!("{}{}.", kind_sentence(key), example_note(key));
            out.push_str(&wrapped(&range, "# "));
            let mark = if key.path() == GIVEN { "" } else { "#" };
            out.push_str(&format!(
                "{mark}{} = {}\n",
                key.name,
                key.kind.toml(key.fallback.text())
            ));
        }
    }
    out
}

fn kind_sentence(key: &Key) -> String {
    let expects = key.kind.expects();
    let mut letters = expects.chars();
    let first = letters
        .next()
        .map(|c| c.to_uppercase().to_string())
        .unwrap_or_default();
    // A URL's scheme or a quoted word keeps its case.
    if expects.starts_with('"') || expects.starts_with("mqtt") || expects.starts_with("true") {
        expects
    } else {
        format!("{first}{}", letters.as_str())
    }
}

fn example_note(key: &Key) -> &'static str {
    match key.fallback {
        Fallback::Value(_) => "",
        Fallback::Unset(_) => "; not given by default",
        Fallback::Required(_) => "; required",
    }
}

/// The reference page, `docs/configuration.md`.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for section in SECTIONS {
        let title = match section.header() {
            header if header.is_empty() => "Keys outside any section".to_owned(),
            header => format!("`{header}`"),
        };
        out.push_str(&format!("\n## {title}\n\n{}", wrapped(section.text, "")));
        for key in section.keys {
            out.push_str(&entry(section, key));
        }
    }
    out
}

fn entry(section: &Section, key: &Key) -> String {
    let default = match key.fallback {
        Fallback::Value(text) => format!("default `{}`", key.kind.toml(text)),
        Fallback::Unset(text) => {
            format!("not given by default; example `{}`", key.kind.toml(text))
        }
        Fallback::Required(text) => format!("required; example `{}`", key.kind.toml(text)),
    };
    let secret = if key.is_secret() {
        " (or the same with `_FILE`: a file that holds it)"
    } else {
        ""
    };
    let flag = match key.flag {
        Some(flag) if section.repeated => format!(", flag `--{flag}` (repeatable)"),
        Some(flag) => format!(", flag `--{flag}`"),
        None => String::new(),
    };
    format!(
        "\n### `{}`\n\n{}\n- Value: {}\n- {}{}\n- Takes effect: {}\n- Environment: `{}`{secret}{flag}\n",
        key.path(),
        wrapped(key.text, ""),
        key.kind.expects(),
        default[..1].to_uppercase(),
        &default[1..],
        key.reload.label(),
        key.environment(),
    )
}

/// A paragraph of at most 100 columns, each line with a prefix.
fn wrapped(text: &str, prefix: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && prefix.len() + line.chars().count() + word.chars().count() >= 100 {
            out.push_str(&format!("{prefix}{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&format!("{prefix}{line}\n"));
    out
}

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from crates/server/src/config/keys.rs: change it there. -->

# Configuration

The configuration is one TOML file, named by `--config FILE` or `STENTOR_CONFIG`. You can also give
every key as an environment variable, and the most used ones as a flag. A flag takes precedence over
a variable, a variable over the file, and the file over the default. Without a file, the defaults
give a server that only this machine can reach and that asks for a login.
[stentor.sample.toml](stentor.sample.toml) has every key with its default.

- **Unknown keys are errors**, so a mistyped key never goes unnoticed. `stentor check-config` checks
  a file without starting anything. It also reads what the file names: certificates, keys, folders,
  users and groups, the code of adaptors. It opens no port and connects to no database. So only the
  log of a start and `stentor auth refresh` say whether `auth.query` works and its columns can be
  read.
- **Sizes** are a number of bytes or a text with a unit: `B`, `KiB`, `MiB`, `GiB`, `TiB` (powers of
  1024), `kB`, `MB`, `GB`, `TB` (powers of 1000). **Durations** are texts with a unit: `us`, `ms`,
  `s`, `m`, `h`, `d`, also several, as in `\"1h30m\"`.
- **Relative paths** in the file start at the file's folder. Elsewhere they start at the folder in
  which the server was started.
- **Environment variables**: `STENTOR_` and the key in capitals, with two underscores after the
  section: `STENTOR_LIMITS__PACKET_BYTES=1MiB`. In a list, put the number of the entry between them:
  `STENTOR_LISTENER__0__ANONYMOUS=true`. Numbers count from 0, in the order of the file, or of the
  `--listen` flags if there are any. The number after the last adds an entry. Lists in a value are
  separated by commas. A variable `STENTOR_…` that names no key is an error, too. The exceptions are
  those of other commands (`STENTOR_PASSWORD`) and those that Kubernetes makes of a service's name.
- **`--listen URL`** replaces the listeners of the file. A listener that the file configures under
  the same URL keeps its other keys.
- **A reload** (`stentor reload` or SIGHUP; with `apply_on_save`, also a change of the file) reads
  everything again. *Live* keys take effect at once, *new connections* for clients that connect
  afterwards, and *restart* when the server is started again. The server says which of these it met.
  A reload opens and closes listeners, Unix sockets included; only those for calls wait for a
  restart. It reads certificates and keys again from their files. A file with an error, or without
  any key, changes nothing.
";
