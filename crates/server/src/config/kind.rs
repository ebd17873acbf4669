//! The types of keys: how a value is read, which range it has, and how both are described.

use std::time::Duration;

use stentor_auth::credential::Stored;
use stentor_auth::store::{Place, PlaceError};

use super::memory_limit::MemoryLimit;
use super::units;
use super::url::ListenUrl;
use super::value::{Raw, Value};
use crate::proxy::Network;

/// The type of a key with its unit and range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A whole number without a unit.
    Count {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// A number of bytes.
    Bytes {
        /// The least value, in bytes.
        min: u64,
        /// The greatest value, in bytes.
        max: u64,
    },
    /// Memory: a number of bytes, or a part of what the machine has.
    Memory,
    /// A span of time.
    Duration {
        /// The least value.
        min: Duration,
        /// The greatest value.
        max: Duration,
        /// Whether `never` is allowed too, which is read as [`Duration::MAX`].
        never: bool,
    },
    /// Any text on one line, at most 65,535 bytes long (the longest string in MQTT).
    Text,
    /// The name of a user or zone: 1 to 255 bytes without `/`, `+`, `#`, `$` and control
    /// characters.
    Name,
    /// An MQTT topic filter [MQTT-4.7].
    Filter,
    /// Origins of web pages, `scheme://host[:port]`.
    Origins,
    /// A list of texts, none of them empty.
    Texts,
    /// Network addresses, each alone or as a network like `192.0.2.0/24`.
    Networks,
    /// A listener's URL.
    Url,
    /// A file or folder. A relative path in the configuration file starts at that file's folder.
    Path,
    /// The permissions of a file, in octal.
    Mode,
    /// A path of an HTTP request, beginning with `/`.
    HttpPath,
    /// The hash of a password, or another credential as it is stored; never shown.
    Secret,
    /// A password; never shown.
    Password,
    /// Where a database or a file with users is. It is never shown, since it may hold a password
    /// by mistake.
    Place {
        /// The key for its password; the same with `_file` names a file that holds it.
        password: &'static str,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// Why a URL cannot be the place of a database, and where its password belongs.
fn refused_place(error: &PlaceError, password: &str) -> String {
    match error {
        PlaceError::Password => format!(
            "{error}; take it out, write it into the file of {password}_file, or to {password}"
        ),
        PlaceError::Scheme | PlaceError::Path | PlaceError::Url(_) => error.to_string(),
    }
}

/// Why a number is not one that can be counted to.
fn no_count(number: &str) -> String {
    // `inf` and `nan` are none either. Numbers with `0x` before them have letters too.
    let is_whole = number.starts_with("0x") || !number.contains(['.', 'e', 'E', 'n']);
    match is_whole {
        true => "the number is too large".to_owned(),
        false => "this is not a whole number".to_owned(),
    }
}

impl Kind {
    /// Reads a value.
    ///
    /// # Errors
    /// The reason, in words that follow the offending value.
    pub(super) fn parse(&self, raw: &Raw) -> Result<Value, String> {
        match self {
            Self::Flag => parse_flag(raw).map(Value::Flag),
            Self::Count { min, max } => {
                let number = match raw {
                    Raw::Words(text) => units::parse_count(text)?,
                    Raw::Integer(number) => unsigned(*number)?,
                    Raw::Number(text) => return Err(no_count(text)),
                    _ => return Err("this is not a number".to_owned()),
                };
                in_range(number, *min, *max).map(Value::Number)
            }
            Self::Bytes { min, max } => {
                let bytes = match raw {
                    Raw::Words(text) | Raw::Text(text) => units::parse_size(text)?,
                    Raw::Integer(number) => unsigned(*number)?,
                    _ => return Err("this is not a size".to_owned()),
                };
                in_range(bytes, *min, *max).map(Value::Number)
            }
            Self::Memory => {
                let text = match raw {
                    Raw::Words(text) | Raw::Text(text) => text.clone(),
                    Raw::Integer(number) => number.to_string(),
                    _ => return Err("this is not a size".to_owned()),
                };
                MemoryLimit::parse(&text).map(|_| Value::Text(text))
            }
            Self::Duration { min, max, never } => match raw {
                Raw::Words(text) | Raw::Text(text) if *never && text.trim() == "never" => {
                    Ok(Value::Duration(Duration::MAX))
                }
                Raw::Words(text) | Raw::Text(text) => {
                    in_range(units::parse_duration(text)?, *min, *max).map(Value::Duration)
                }
                Raw::Integer(0) => in_range(Duration::ZERO, *min, *max).map(Value::Duration),
                Raw::Integer(_) => Err("the unit is missing".to_owned()),
                _ => Err("this is not a duration".to_owned()),
            },
            Self::Origins => parse_list(raw, check_origin).map(Value::List),
            Self::Networks => parse_list(raw, check_network).map(Value::List),
            Self::Texts => parse_list(raw, check_text).map(Value::List),
            _ => self.parse_text(raw),
        }
    }

    fn parse_text(&self, raw: &Raw) -> Result<Value, String> {
        let (Raw::Words(text) | Raw::Text(text)) = raw else {
            return Err("this is not a text".to_owned());
        };
        match self {
            Self::Name => check_name(text)?,
            Self::Filter => {
                stentor_topic::validate_filter(text).map_err(|error| error.to_string())?;
            }
            Self::Url => return text.parse::<ListenUrl>().map(Value::Url),
            Self::Mode => {
                return match u64::from_str_radix(text, 8) {
                    Ok(mode) if mode <= 0o777 => Ok(Value::Number(mode)),
                    _ => Err(format!("\"{text}\" is not a file mode")),
                };
            }
            Self::HttpPath if !text.starts_with('/') || text.contains(['?', '#', ' ']) => {
                return Err(format!(
                    "\"{text}\" is not a path of a URL; it begins with / and has no ?, # or space"
                ));
            }
            Self::Secret => {
                Stored::parse(text).map_err(|error| error.to_string())?;
            }
            Self::Password if text.is_empty() => return Err("the password is empty".to_owned()),
            Self::Place { password } => {
                text.parse::<Place>()
                    .map_err(|error| refused_place(&error, password))?;
            }
            Self::Choice(words) if !words.contains(&text.as_str()) => {
                return Err("there is no such choice".to_owned());
            }
            Self::Path if text.is_empty() => return Err("the path is empty".to_owned()),
            _ => {}
        }
        if text.len() > 65_535 || text.chars().any(char::is_control) {
            return Err("the text is too long or has control characters".to_owned());
        }
        Ok(Value::Text(text.clone()))
    }

    /// What a value has to look like, range and example included: the remedy in a message.
    #[must_use]
    pub fn expects(&self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Count { min, max } => format!("a whole number from {min} to {max}"),
            Self::Bytes { min, max } => format!(
                "a size from {} to {}: \"64KiB\", for example, or a number of bytes",
                units::show_size(*min),
                units::show_size(*max),
            ),
            Self::Duration { min, max, never } => format!(
                "a duration from {} to {}, such as \"{}\"{}",
                units::show_duration(*min),
                units::show_duration(*max),
                match *max {
                    max if max < Duration::from_secs(1) => "250us",
                    max if max < Duration::from_secs(90) => "250ms",
                    _ => "1m30s",
                },
                if *never { ", or \"never\"" } else { "" },
            ),
            Self::Memory => {
                "a part of the machine's memory, such as \"50%\", or a size from 4MiB, such as \
                 \"2GiB\"; 0 for no bound"
                    .to_owned()
            }
            Self::Text => "a text on one line".to_owned(),
            Self::Name => {
                "a name of 1 to 255 bytes without / + # $ and control characters".to_owned()
            }
            Self::Filter => "an MQTT topic filter, such as \"sensors/+/raw/#\"".to_owned(),
            Self::Origins => {
                "a list of origins, such as [\"https://example.org\", \"http://localhost:3000\"]"
                    .to_owned()
            }
            Self::Texts => "a list of texts, such as [\"one\", \"two\"]".to_owned(),
            Self::Networks => {
                "a list of addresses and networks, such as [\"127.0.0.1\", \"10.0.0.0/8\"]"
                    .to_owned()
            }
            Self::Url => "mqtt://HOST:PORT, mqtts://HOST:PORT, ws://HOST:PORT, wss://HOST:PORT \
                          or unix:PATH; for procedures call, calls, milter or policy://HOST:PORT, \
                          and call, milter or policy+unix:PATH"
                .to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Mode => "permissions in octal between quotes, such as \"0660\"".to_owned(),
            Self::HttpPath => "the path of a URL, such as \"/mqtt\"".to_owned(),
            Self::Secret => {
                "a hash, \"$argon2id$…\", \"$2b$…\", \"SCRAM-SHA-256$…\" and so on".to_owned()
            }
            Self::Password => "the password of a login to the database".to_owned(),
            Self::Place { .. } => {
                "sqlite:PATH, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE \
                            (for MariaDB too), file:PATH or mosquitto:PATH"
                    .to_owned()
            }
            Self::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                match quoted.split_last() {
                    Some((last, [])) => last.clone(),
                    Some((last, first)) => format!("{} or {last}", first.join(", ")),
                    None => String::new(),
                }
            }
        }
    }

    /// A default or example as it is written in TOML.
    pub(super) fn toml(&self, text: &str) -> String {
        match self {
            Self::Flag | Self::Count { .. } => text.to_owned(),
            Self::Bytes { .. } if text.bytes().all(|byte| byte.is_ascii_digit()) => text.to_owned(),
            Self::Origins | Self::Networks | Self::Texts => {
                let items = text
                    .split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty());
                let quoted: Vec<String> = items.map(|item| format!("{item:?}")).collect();
                format!("[{}]", quoted.join(", "))
            }
            _ => format!("{text:?}"),
        }
    }
}

fn parse_flag(raw: &Raw) -> Result<bool, String> {
    match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Words(text) => match text.to_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err("this is neither true nor false".to_owned()),
        },
        _ => Err("this is neither true nor false".to_owned()),
    }
}

fn parse_list(raw: &Raw, check: fn(&str) -> Result<(), String>) -> Result<Vec<String>, String> {
    let items: Vec<String> = match raw {
        Raw::Words(text) => text
            .split(',')
            .map(|item| item.trim().to_owned())
            .filter(|i| !i.is_empty())
            .collect(),
        Raw::List(items) => {
            let texts = items.iter().map(|item| match item {
                Raw::Text(text) => Ok(text.clone()),
                other => Err(format!("{} is not a text", other.show())),
            });
            texts.collect::<Result<_, _>>()?
        }
        _ => return Err("this is not a list".to_owned()),
    };
    items.iter().try_for_each(|item| check(item))?;
    Ok(items)
}

fn unsigned(number: i64) -> Result<u64, String> {
    u64::try_from(number).map_err(|_| "the number is negative".to_owned())
}

fn in_range<T: PartialOrd>(value: T, min: T, max: T) -> Result<T, String> {
    if value < min {
        Err("the value is too small".to_owned())
    } else if value > max {
        Err("the value is too large".to_owned())
    } else {
        Ok(value)
    }
}

fn check_name(text: &str) -> Result<(), String> {
    let forbidden = |c: char| c.is_control() || matches!(c, '/' | '+' | '#' | '$');
    match text.chars().find(|c| forbidden(*c)) {
        Some(c) => Err(format!("the name contains {c:?}")),
        None if text.is_empty() => Err("the name is empty".to_owned()),
        None if text.len() > 255 => Err("the name is too long".to_owned()),
        None => Ok(()),
    }
}

fn check_text(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > 1_024 || text.chars().any(char::is_control) {
        return Err("a text is empty, too long or has control characters".to_owned());
    }
    Ok(())
}

fn check_network(text: &str) -> Result<(), String> {
    text.parse::<Network>().map(|_| ())
}

fn check_origin(text: &str) -> Result<(), String> {
    let authority = text.split_once("://").map(|(_, authority)| authority);
    match authority {
        Some(host) if !host.is_empty() && !host.contains(['/', ' ', '?', '#']) => Ok(()),
        _ => Err(format!(
            "\"{text}\" is not an origin; give scheme://host or scheme://host:port"
        )),
    }
}
