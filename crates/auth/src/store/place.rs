//! Where a database is: the URLs of the configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::postgres::PgConnectOptions;
use thiserror::Error;

/// Where records or foreign users are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `sqlite:PATH`
    Sqlite(PathBuf),
    /// `postgres://USER@HOST:PORT/DATABASE`
    Postgres(String),
    /// `mysql://USER@HOST:PORT/DATABASE`, for MariaDB too.
    MySql(String),
    /// `file:PATH`: a text file of Stentor's own.
    Text(PathBuf),
    /// `mosquitto:PATH`: mosquitto's password file.
    Mosquitto(PathBuf),
}

/// Why a URL names no place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlaceError {
    /// No scheme that is known.
    #[error(
        "this does not name a database; write sqlite:PATH, postgres://USER@HOST/DATABASE, \
         mysql://USER@HOST/DATABASE (for MariaDB too), file:PATH or mosquitto:PATH"
    )]
    Scheme,
    /// The path is missing.
    #[error("the path is missing after the colon")]
    Path,
    /// The URL contains a password. Where it is given instead, only who asked for the URL knows.
    #[error("a password does not belong into the URL, where logs and listings would show it")]
    Password,
    /// The driver does not understand the URL.
    #[error("the URL is not valid: {0}")]
    Url(String),
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let (scheme, rest) = text.split_once(':').ok_or(PlaceError::Scheme)?;
        let path = || match rest {
            "" => Err(PlaceError::Path),
            path => Ok(PathBuf::from(path)),
        };
        match scheme {
            "sqlite" => path().map(Self::Sqlite),
            "file" => path().map(Self::Text),
            "mosquitto" => path().map(Self::Mosquitto),
            "postgres" | "postgresql" => {
                refuse_password(rest)?;
                let parsed: Result<PgConnectOptions, _> = text.parse();
                parsed.map_err(|error| PlaceError::Url(error.to_string()))?;
                Ok(Self::Postgres(text.to_owned()))
            }
            "mysql" | "mariadb" => {
                refuse_password(rest)?;
                let text = format!("mysql:{rest}");
                let parsed: Result<MySqlConnectOptions, _> = text.parse();
                parsed.map_err(|error| PlaceError::Url(error.to_string()))?;
                Ok(Self::MySql(text))
            }
            _ => Err(PlaceError::Scheme),
        }
    }
}

/// Refuses `//USER:PASSWORD@HOST` and `?password=`.
fn refuse_password(rest: &str) -> Result<(), PlaceError> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    let in_authority = authority
        .rsplit_once('@')
        .is_some_and(|(login, _)| login.contains(':'));
    let in_query = query.split('&').any(|pair| pair.starts_with("password="));
    if in_authority || in_query {
        return Err(PlaceError::Password);
    }
    Ok(())
}

/// As it is written; it holds no password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Text(path) => write!(f, "file:{}", path.display()),
            Self::Mosquitto(path) => write!(f, "mosquitto:{}", path.display()),
            Self::Postgres(url) | Self::MySql(url) => f.write_str(url),
        }
    }
}

impl Place {
    /// The same place, with a relative path taken from this folder.
    #[must_use]
    pub fn below(self, folder: &std::path::Path) -> Self {
        match self {
            Self::Sqlite(path) => Self::Sqlite(folder.join(path)),
            Self::Text(path) => Self::Text(folder.join(path)),
            Self::Mosquitto(path) => Self::Mosquitto(folder.join(path)),
            Self::Postgres(_) | Self::MySql(_) => self,
        }
    }
}

/// How to reach MySQL or MariaDB. A connection over the network is encrypted, unless the URL says
/// otherwise: without encryption, newer servers ask for a kind of login that Stentor does not have.
pub(super) fn mysql_options(
    url: &str,
    password: Option<&str>,
) -> sqlx::Result<MySqlConnectOptions> {
    let mut options: MySqlConnectOptions = url.parse()?;
    let says = url.contains("sslmode=") || url.contains("ssl-mode=");
    let local = options.get_socket().is_some()
        || matches!(
            options.get_host(),
            "localhost" | "127.0.0.1" | "::1" | "[::1]"
        );
    if !says && !local {
        options = options.ssl_mode(MySqlSslMode::Required);
    }
    Ok(match password {
        Some(password) => options.password(password),
        None => options,
    })
}

/// How to reach PostgreSQL.
pub(super) fn postgres_options(
    url: &str,
    password: Option<&str>,
) -> sqlx::Result<PgConnectOptions> {
    let options: PgConnectOptions = url.parse()?;
    let options = options.application_name("stentor");
    Ok(match password {
        Some(password) => options.password(password),
        None => options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_shown() {
        for text in [
            "sqlite:auth.db",
            "sqlite:/var/lib/stentor/auth.db",
            "postgres://stentor@db.example/users?sslmode=verify-full",
            "mysql://stentor@localhost/users?socket=/run/mysqld/mysqld.sock",
            "file:/etc/stentor/users.toml",
            "mosquitto:/etc/mosquitto/passwd",
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!(place.to_string(), text);
        }
        let maria: Place = "mariadb://a@b/c".parse().unwrap();
        assert_eq!(maria.to_string(), "mysql://a@b/c");
        let below = "sqlite:auth.db"
            .parse::<Place>()
            .unwrap()
            .below("/data".as_ref());
        assert_eq!(below, Place::Sqlite("/data/auth.db".into()));
    }

    #[test]
    fn what_names_no_place_or_tells_a_password_is_refused() {
        for (text, expected) in [
            ("", PlaceError::Scheme),
            ("auth.db", PlaceError::Scheme),
            ("redis://x", PlaceError::Scheme),
            ("sqlite:", PlaceError::Path),
            ("postgres://a:secret@b/c", PlaceError::Password),
            ("mysql://a:secret@b/c", PlaceError::Password),
            ("postgres://a@b/c?x=1&password=secret", PlaceError::Password),
        ] {
            assert_eq!(text.parse::<Place>().unwrap_err(), expected, "{text}");
        }
        for text in ["postgres://b/c?sslmode=maybe", "mysql://a@b:port/c"] {
            assert!(
                matches!(text.parse::<Place>(), Err(PlaceError::Url(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn mysql_over_a_network_is_encrypted() {
        for (url, mode) in [
            ("mysql://a@db.example/x", MySqlSslMode::Required),
            (
                "mysql://a@db.example/x?ssl-mode=DISABLED",
                MySqlSslMode::Disabled,
            ),
            ("mysql://a@localhost/x", MySqlSslMode::Preferred),
            ("mysql://a@h/x?socket=/run/m.sock", MySqlSslMode::Preferred),
        ] {
            let options = mysql_options(url, Some("secret")).unwrap();
            let shown = |mode| format!("{mode:?}");
            assert_eq!(shown(options.get_ssl_mode()), shown(mode), "{url}");
        }
    }
}
