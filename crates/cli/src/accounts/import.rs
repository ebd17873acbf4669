//! `stentor user import` and `export`: many users in one file.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use indicatif::ProgressBar;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::{Map, Value, json};
use stentor_auth::credential::Stored;
use stentor_auth::model::{Credential, DEFAULT_ZONE, Login, User};
use stentor_auth::store::Order;

use super::desk::{Desk, Which};
use super::secret::{Maker, check as check_password, dated};
use super::show;
use super::user::{Format, output};
use crate::failure::Failure;
use crate::file;

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Bytes of users that one order carries; a request has to fit into 64 KiB.
const ORDER_BYTES: usize = 40 << 10;

/// Users that one order carries.
const ORDER_USERS: usize = 500;

/// Adds many users. A CSV file begins with the names of its columns: name (or zone/name) and
/// password or credential (hashes that exist already, separated by spaces); zone, roles (separated
/// by spaces) and disabled may be there too. A JSON file is a list of objects with name and
/// password, or what `stentor user export --format json` writes.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file; its name ends in .csv or .json, unless --format says what it is
    file: PathBuf,
    /// The form of the file
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Replace users who exist; otherwise they are refused
    #[arg(long)]
    replace: bool,
    /// A role for users who have none in the file; may be given several times. Not given, member
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Store what SCRAM-SHA-256 and SCRAM-SHA-512 need of passwords as well
    #[arg(long)]
    scram: bool,
    #[command(flatten)]
    which: Which,
}

/// A user as the file has it, perhaps with a password that is not hashed yet.
struct Row {
    place: Place,
    user: User,
    password: Option<String>,
}

/// Where a user stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a line of CSV.
    Line(usize),
    /// In an entry of a list, from 1 on.
    Entry(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Entry(number) => write!(f, "entry {number}"),
        }
    }
}

/// Checks names and bounds, and that nobody stands there twice: where everybody stands.
fn check(rows: &[Row]) -> Result<HashMap<String, Place>, String> {
    let mut places = HashMap::with_capacity(rows.len());
    for row in rows {
        let (place, key) = (row.place, row.user.key().to_string());
        let wrong = |reason: &dyn fmt::Display| format!("{place}, user {key:?}: {reason}");
        row.user.check().map_err(|error| wrong(&error))?;
        if let Some(password) = &row.password {
            check_password(password.as_bytes()).map_err(|reason| wrong(&reason.message()))?;
        }
        if let Some(first) = places.insert(key.clone(), place) {
            return Err(wrong(&format!("it stands in {first} already")));
        }
    }
    Ok(places)
}

/// Where the user stands whom a refusal is about.
fn place_of(places: &HashMap<String, Place>, message: &str) -> Option<Place> {
    let rest = message.strip_prefix("user ")?;
    // A name may contain what follows it.
    let ends = rest.match_indices(": ").map(|(at, _)| &rest[..at]);
    ends.filter_map(|login| places.get(login)).last().copied()
}

impl Import {
    pub(super) fn run(self) -> Result<(), Failure> {
        let shown = self.file.display();
        let failed = |reason: &dyn fmt::Display| Failure::new(format!("{shown}: {reason}"));
        let text = file::read_text(&self.file, FILE_BYTES_MAX);
        let text = text.map_err(|error| failed(&format!("cannot read it: {error}")))?;
        let rows = match self.form()? {
            Format::Csv => parse_csv(&text),
            Format::Json => parse_json(&text),
        };
        let mut rows = rows.map_err(|reason| failed(&reason))?;
        for row in &mut rows {
            if row.user.roles.is_empty() {
                row.user.roles = self.roles.iter().map(|role| role.as_str().into()).collect();
            }
        }
        // Everything that can be refused is, before the long work begins.
        let places = check(&rows).map_err(|reason| failed(&reason))?;
        let mut desk = self.which.open()?;
        let maker = desk.maker(self.scram)?;
        let users = hash_all(rows, &maker).map_err(|reason| failed(&reason))?;
        let sent = send(&mut desk, users, self.replace);
        let imported = sent.map_err(|failure| match place_of(&places, failure.message()) {
            Some(place) => failure.with_note(&format!("it stands in {shown}, {place}")),
            None => failure,
        })?;
        let answer = json!({ "imported": imported });
        show(self.which.json, &answer, || {
            format!("{imported} users are imported\n")
        })
    }

    fn form(&self) -> Result<Format, Failure> {
        let form = self.format.or_else(|| Format::of(&self.file));
        form.ok_or_else(|| Failure::usage("say what the file is: --format csv or json"))
    }
}

/// Adds users in orders of bounded size; how many.
pub(super) fn send(desk: &mut Desk, users: Vec<User>, replace: bool) -> Result<usize, Failure> {
    let count = users.len();
    let mut users = users.into_iter().peekable();
    let mut imported = 0;
    while users.peek().is_some() {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < ORDER_USERS
            && let Some(user) = users.next_if(|user| bytes == 0 || bytes + size(user) < ORDER_BYTES)
        {
            bytes += size(&user);
            batch.push(user);
        }
        let len = batch.len();
        let order = Order::UserImport {
            users: batch,
            replace,
        };
        let note = format!("{imported} of {count} users were imported before");
        desk.order(&order).map_err(|failure| match imported {
            0 => failure,
            _ => failure.with_note(&note),
        })?;
        imported += len;
    }
    Ok(imported)
}

/// About the bytes that a user takes in an order.
fn size(user: &User) -> usize {
    let credentials = user.credentials.iter().map(|one| one.text.len() + 100);
    let roles = user.roles.iter().map(|role| 2 * role.len() + 4);
    2 * (user.name.len() + user.zone.len()) + credentials.sum::<usize>() + roles.sum::<usize>() + 80
}

/// Hashes all passwords, on all processors; that takes a while for thousands.
fn hash_all(rows: Vec<Row>, maker: &Maker) -> Result<Vec<User>, String> {
    let count = rows.iter().filter(|row| row.password.is_some()).count();
    let progress = ProgressBar::new(count as u64).with_message("hashing passwords");
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let work = || -> Result<Vec<(usize, Vec<Credential>)>, String> {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(at) else {
                return Ok(made);
            };
            let Some(password) = &row.password else {
                continue;
            };
            let credentials = maker.make(password.as_bytes());
            let told = |failure: Failure| {
                let login = row.user.key().to_string();
                format!("{}, user {login:?}: {}", row.place, failure.message())
            };
            made.push((at, credentials.map_err(told)?));
            progress.inc(1);
        }
    };
    let made = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a thread that hashes has failed".to_owned()))
        });
        results.collect::<Result<Vec<_>, _>>()
    })?;
    progress.finish_and_clear();
    let mut users: Vec<User> = rows.into_iter().map(|row| row.user).collect();
    for (at, credentials) in made.into_iter().flatten() {
        users[at].credentials.extend(credentials);
    }
    Ok(users)
}

/// An object of a list, with the first key that stands in it twice: of two passwords, nobody knows
/// which one is meant.
struct Entry {
    fields: Map<String, Value>,
    twice: Option<String>,
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let (mut fields, mut twice) = (Map::new(), None);
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            if fields.insert(key.clone(), value).is_some() {
                twice.get_or_insert(key);
            }
        }
        Ok(Entry { fields, twice })
    }
}

fn parse_json(text: &str) -> Result<Vec<Row>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| no_list(&error))?;
    let row = |(at, entry)| json_row(Place::Entry(at + 1), entry);
    entries.into_iter().enumerate().map(row).collect()
}

/// Why a file is no list of users. What the parser says might quote a value, which may be a secret.
fn no_list(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let what = match error.classify() {
        Category::Eof => "the file ends in the middle of its JSON",
        Category::Io | Category::Syntax => "this is no JSON",
        Category::Data => {
            "it is no list of objects, which `stentor user export --format json` writes"
        }
    };
    format!("line {line}, column {column}: {what}")
}

/// The keys that an object may have.
const KEYS: [&str; 6] = [
    "name",
    "password",
    "credentials",
    "zone",
    "roles",
    "disabled",
];

/// Takes a value out of an object; null is none.
fn field<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    key: &str,
) -> Result<Option<T>, String> {
    match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value).map(Some).map_err(|_| {
            format!("the value of {key:?} is not as `stentor user export --format json` writes it")
        }),
    }
}

/// A user with what is stored of it, or with a password.
fn json_row(place: Place, entry: Entry) -> Result<Row, String> {
    let Entry { mut fields, twice } = entry;
    let name: Option<String> = field(&mut fields, "name").map_err(|error| at(place, "", &error))?;
    let name = name.ok_or_else(|| at(place, "", "the key \"name\" is missing"))?;
    let wrong = |reason: &str| at(place, &name, reason);
    if let Some(key) = twice {
        return Err(wrong(&format!("the key {key:?} stands there twice")));
    }
    let password: Option<String> = field(&mut fields, "password").map_err(|e| wrong(&e))?;
    let credentials: Option<Vec<Credential>> =
        field(&mut fields, "credentials").map_err(|e| wrong(&e))?;
    let zone: Option<String> = field(&mut fields, "zone").map_err(|e| wrong(&e))?;
    let roles: Option<Vec<Arc<str>>> = field(&mut fields, "roles").map_err(|e| wrong(&e))?;
    let disabled: Option<bool> = field(&mut fields, "disabled").map_err(|e| wrong(&e))?;
    if let Some(key) = fields.keys().next() {
        let known = KEYS.join(", ");
        return Err(wrong(&format!(
            "there is no key {key:?}; there are {known}"
        )));
    }
    let credentials = credentials.unwrap_or_default();
    for credential in &credentials {
        Stored::parse(&credential.text).map_err(|error| wrong(&error.to_string()))?;
    }
    let (zone, name) = match zone.as_deref() {
        None | Some(DEFAULT_ZONE) => {
            let login = Login::parse(&name);
            (login.zone, login.name)
        }
        Some(zone) => (zone, &*name),
    };
    let user = User {
        zone: zone.into(),
        name: name.into(),
        credentials,
        roles: roles.unwrap_or_default(),
        disabled: disabled.unwrap_or_default(),
    };
    Ok(Row {
        place,
        user,
        password,
    })
}

/// A reason with its place; the name is empty where none is known.
fn at(place: Place, name: &str, reason: &str) -> String {
    match name {
        "" => format!("{place}: {reason}"),
        name => format!("{place}, user {name:?}: {reason}"),
    }
}

/// The columns that a file may have.
const COLUMNS: [&str; 6] = [
    "name",
    "password",
    "credential",
    "zone",
    "roles",
    "disabled",
];

fn parse_csv(text: &str) -> Result<Vec<Row>, String> {
    let mut records = csv(text)?.into_iter();
    let (_, head) = records.next().ok_or("the file is empty")?;
    let head: Vec<String> = head.iter().map(|name| name.trim().to_lowercase()).collect();
    let known = COLUMNS.join(", ");
    // Without it, the first line is most likely a user already, whose password nobody is shown.
    if !head.iter().any(|name| name == "name") {
        return Err(format!(
            "line 1: the column \"name\" is missing; the first line has the names of the columns, \
             of {known}"
        ));
    }
    if let Some(name) = head.iter().find(|name| !COLUMNS.contains(&name.as_str())) {
        return Err(format!(
            "line 1: there is no column {name:?}; there are {known}"
        ));
    }
    let twice = |(at, name): &(usize, &String)| head[..*at].contains(name);
    if let Some((_, name)) = head.iter().enumerate().find(twice) {
        return Err(format!("line 1: there are two columns {name:?}"));
    }
    let mut rows = Vec::new();
    for (line, record) in records {
        if record.len() != head.len() {
            let name = head.iter().position(|column| column == "name");
            let name = name.and_then(|at| record.get(at));
            return Err(format!(
                "line {line}, user {:?}: it has {} columns, and the first line {}; a comma in a \
                 value needs quotes around that",
                name.map_or("", String::as_str),
                record.len(),
                head.len()
            ));
        }
        let value = |name: &str| {
            let at = head.iter().position(|column| column == name)?;
            Some(record[at].as_str()).filter(|value| !value.is_empty())
        };
        rows.push(row(line, value)?);
    }
    Ok(rows)
}

fn row<'a>(line: usize, value: impl Fn(&str) -> Option<&'a str>) -> Result<Row, String> {
    let place = Place::Line(line);
    let login = Login::parse(value("name").unwrap_or_default());
    let wrong = |column: &str, reason: &dyn fmt::Display| {
        let name = value("name").unwrap_or_default();
        format!("{place}, user {name:?}, column {column}: {reason}")
    };
    let credentials = match value("credential") {
        None => Vec::new(),
        Some(texts) => {
            let parsed = texts.split_whitespace().map(|text| {
                Stored::parse(text).map_err(|error| wrong("credential", &error))?;
                Ok(dated(text))
            });
            parsed.collect::<Result<_, String>>()?
        }
    };
    let password = value("password").map(str::to_owned);
    let disabled = match value("disabled").unwrap_or("false") {
        "true" | "1" | "yes" => true,
        "false" | "0" | "no" => false,
        _ => return Err(wrong("disabled", &"it is true or false")),
    };
    let roles = value("roles").unwrap_or_default().split_whitespace();
    let user = User {
        zone: value("zone").unwrap_or(login.zone).into(),
        name: login.name.into(),
        credentials,
        roles: roles.map(Arc::from).collect(),
        disabled,
    };
    Ok(Row {
        place,
        user,
        password,
    })
}

/// Takes CSV apart as RFC 4180 has it: fields in quotes may contain commas, line feeds and doubled
/// quotes. Each record comes with the number of its first line; empty lines are passed over.
fn csv(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Vec::new();
    let (mut line, mut chars) = (1, text.chars().peekable());
    while chars.peek().is_some() {
        let first = line;
        let mut record = Vec::new();
        loop {
            let mut field = String::new();
            if chars.next_if_eq(&'"').is_some() {
                loop {
                    match chars.next() {
                        None => return Err(format!("line {first}: a quote is not closed")),
                        Some('"') if chars.next_if_eq(&'"').is_none() => break,
                        Some(char) => {
                            line += usize::from(char == '\n');
                            field.push(char);
                        }
                    }
                }
            }
            while let Some(char) = chars.next_if(|char| !matches!(char, ',' | '\n')) {
                field.push(char);
            }
            if chars.peek() != Some(&',') && field.ends_with('\r') {
                field.pop();
            }
            record.push(field);
            if chars.next_if_eq(&',').is_none() {
                break;
            }
        }
        if chars.next_if_eq(&'\n').is_some() {
            line += 1;
        }
        if record != [""] {
            records.push((first, record));
        }
    }
    Ok(records)
}

/// A field that is read as it was.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) || field.starts_with(' ') {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Writes all users, page by page.
pub(super) fn export(
    desk: &mut Desk,
    format: Format,
    zone: Option<&str>,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let mut out = output(file)?;
    let mut after = None;
    let mut first = true;
    let failed = |error: std::io::Error| Failure::output(&error);
    if format == Format::Csv {
        writeln!(out, "zone,name,credential,roles,disabled").map_err(failed)?;
    }
    loop {
        let order = Order::UserExport {
            zone: zone.map(str::to_owned),
            after,
            limit: None,
        };
        let answer = desk.order(&order)?;
        let users: Vec<User> = serde_json::from_value(answer["users"].clone())
            .map_err(|error| Failure::new(format!("the answer makes no sense: {error}")))?;
        for user in &users {
            let text = match format {
                Format::Csv => csv_line(user),
                Format::Json => {
                    let start = if first { "[" } else { "," };
                    format!("{start}\n{}", json!(user))
                }
            };
            first = false;
            out.write_all(text.as_bytes()).map_err(failed)?;
        }
        after = answer["next"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    if format == Format::Json {
        let end = if first { "[]\n" } else { "\n]\n" };
        out.write_all(end.as_bytes()).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

/// A user as a line. There is no room for the labels and ends of tokens, so they are left out:
/// without its end, a token would hold for ever.
fn csv_line(user: &User) -> String {
    let stay = |one: &&Credential| {
        let is_token = matches!(Stored::parse(&one.text), Ok(Stored::Token(_)));
        !is_token && one.expires_at_secs.is_none()
    };
    let texts: Vec<&str> = user
        .credentials
        .iter()
        .filter(stay)
        .map(|one| &*one.text)
        .collect();
    let (texts, roles) = (texts.join(" "), user.roles.join(" "));
    let fields = [&*user.zone, &*user.name, &texts, &roles];
    let fields: Vec<String> = fields.into_iter().map(quoted).collect();
    format!("{},{}\n", fields.join(","), user.disabled)
}

#[cfg(test)]
mod tests {
    use stentor_auth::credential::Cost;

    use super::*;

    #[test]
    fn csv_is_taken_apart_as_the_rules_say() {
        let text = "\u{feff}name,password\r\nann,\"a,b\"\"c\"\r\n\r\n\"multi\nline\",x\nlast,";
        let records = csv(text).unwrap();
        let expected = [
            (1, vec!["name", "password"]),
            (2, vec!["ann", "a,b\"c"]),
            (4, vec!["multi\nline", "x"]),
            (6, vec!["last", ""]),
        ];
        let expected = expected.map(|(line, record)| {
            let record: Vec<String> = record.into_iter().map(str::to_owned).collect();
            (line, record)
        });
        assert_eq!(records, expected);
        assert!(csv("a,\"b").unwrap_err().contains("not closed"));
        for field in ["plain", "a,b", "say \"hi\"", "two\nlines", " space"] {
            let read = csv(&format!("{},x\n", quoted(field))).unwrap();
            assert_eq!(read[0].1[0], field);
        }
    }

    #[test]
    fn rows_become_users() {
        let text = "name,password,zone,roles,disabled\n\
                    ann,secret,,,\n\
                    game/bob,,,player boss,true\n\
                    cid,x,chat,,no\n";
        let rows = parse_csv(text).unwrap();
        let shown: Vec<String> = rows.iter().map(|row| row.user.key().to_string()).collect();
        assert_eq!(shown, ["ann", "game/bob", "chat/cid"]);
        assert_eq!(rows[0].password.as_deref(), Some("secret"));
        assert_eq!((rows[1].user.roles.len(), rows[1].user.disabled), (2, true));
        assert!(rows[1].password.is_none());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, reason) in [
            ("", "empty"),
            ("name,pasword\n", "no column \"pasword\""),
            ("password\nx\n", "\"name\" is missing"),
            ("name,name\n", "two columns"),
            (
                "name,password\nann\n",
                "line 2, user \"ann\": it has 1 columns",
            ),
            (
                "name,password\n\nann,hush,hush\n",
                "line 3, user \"ann\": it has 3 columns",
            ),
            (
                "name,disabled\nann,maybe\n",
                "line 2, user \"ann\", column disabled: ",
            ),
            (
                "name,credential\nann,hush\n",
                "line 2, user \"ann\", column credential: ",
            ),
            ("hush,ann\n", "\"name\" is missing"),
        ] {
            let error = parse_csv(text).err().unwrap();
            assert!(error.contains(reason), "{text:?}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
        for (text, reason) in [
            ("name,password\nann,a\na+b,hush\n", "line 3, user \"a+b\": "),
            (
                "name,password\nann,a\nann,hush\n",
                "line 3, user \"ann\": it stands in line 2",
            ),
            ("name,password\n,hush\n", "line 2, user \"\": "),
        ] {
            let error = check(&parse_csv(text).unwrap()).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_in_json_is_told_with_its_entry() {
        for (text, reason) in [
            ("", "line 1, column 0: the file ends"),
            (r#"[{"name": "ann""#, "the file ends"),
            ("[{\n\"name\": hush}]", "line 2, column 9: this is no JSON"),
            (r#""hush""#, "it is no list of objects"),
            (r#"["hush"]"#, "it is no list of objects"),
            (r#"{"name": "hush"}"#, "it is no list of objects"),
            (
                r#"[{"name": "ann"}, {"password": "hush"}]"#,
                "entry 2: the key \"name\" is missing",
            ),
            (r#"[{"name": 7}]"#, "entry 1: the value of \"name\""),
            (
                r#"[{"name": "ann", "password": "hush", "password": "hush"}]"#,
                "entry 1, user \"ann\": the key \"password\" stands there twice",
            ),
            (
                r#"[{"name": "ann", "pasword": "hush"}]"#,
                "user \"ann\": there is no key \"pasword\"",
            ),
            (
                r#"[{"name": "ann", "credentials": "hush"}]"#,
                "the value of \"credentials\"",
            ),
            (
                r#"[{"name": "ann", "credentials": [{"text": "hush"}]}]"#,
                "user \"ann\": ",
            ),
            (
                r#"[{"name": "ann", "password": ["hush"]}]"#,
                "the value of \"password\"",
            ),
            (
                r#"[{"name": "ann", "disabled": "hush"}]"#,
                "the value of \"disabled\"",
            ),
        ] {
            let error = parse_json(text).err().unwrap();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
        let text = r#"[{"name": "game/ann", "password": null, "roles": ["r"], "disabled": true}]"#;
        let row = parse_json(text).unwrap().remove(0);
        assert_eq!((&*row.user.zone, &*row.user.name), ("game", "ann"));
        assert!(row.password.is_none() && row.user.disabled && &*row.user.roles[0] == "r");
    }

    #[test]
    fn a_refusal_is_told_with_the_line_of_its_user() {
        let rows = parse_csv("name,password\na: b,x\na,y\n").unwrap();
        let places = check(&rows).unwrap();
        let line = |message: &str| place_of(&places, message);
        assert_eq!(line("user a: b: there is no role"), Some(Place::Line(2)));
        assert_eq!(line("user a: there is no role"), Some(Place::Line(3)));
        assert_eq!(line("user c: x"), None);
        assert_eq!(line("the database does not answer"), None);
    }

    #[test]
    fn what_is_exported_can_be_imported() {
        let mut user = User {
            zone: "game".into(),
            name: "a, \"b\"".into(),
            credentials: Maker::new(Cost::CHEAPEST, true).make(b"x").unwrap(),
            roles: vec!["member".into(), "boss".into()],
            disabled: true,
        };
        let token = stentor_auth::credential::Token::generate().unwrap().hash();
        user.credentials.insert(0, dated(&token.to_string()));
        let text = format!("zone,name,credential,roles,disabled\n{}", csv_line(&user));
        let row = parse_csv(&text).unwrap().remove(0);
        assert_eq!(row.user.roles, user.roles);
        assert_eq!((row.user.key(), row.user.disabled), (user.key(), true));
        let texts = |all: &[Credential]| {
            let texts: Vec<Arc<str>> = all.iter().map(|one| Arc::clone(&one.text)).collect();
            texts
        };
        assert_eq!(texts(&row.user.credentials), texts(&user.credentials[1..]));
    }
}
