//! From a query or a body to a request of a verb.

use serde_json::{Map, Value};
use stentor_control::schema::{Field, Kind, check};
use stentor_control::{Http, Limit, Verb};

use super::query;
use crate::bounds::LIMIT_MAX;

/// What a request is read from.
pub(crate) enum Source {
    /// The part of the URL behind the question mark.
    Query(String),
    /// JSON.
    Body(Vec<u8>),
}

/// Why something is not a request of a verb.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// A sentence.
    pub(crate) detail: String,
    /// The key that is wrong, if it is one.
    pub(crate) field: Option<String>,
}

fn wrong(detail: impl Into<String>, field: Option<&str>) -> Wrong {
    Wrong {
        detail: detail.into(),
        field: field.map(str::to_owned),
    }
}

/// The bounds of the key `limit` by HTTP, of verbs that have it.
pub(super) fn limit_of(verb: Verb) -> Option<Limit> {
    let limit = verb.limit()?;
    let most = limit.most.min(LIMIT_MAX as usize);
    Some(Limit { most, ..limit })
}

fn check_limit(verb: Verb, request: &Map<String, Value>) -> Result<(), Wrong> {
    let asked = request.get("limit").and_then(Value::as_u64);
    let (Some(limit), Some(asked)) = (limit_of(verb), asked) else {
        return Ok(());
    };
    let checked = limit.of(Some(usize::try_from(asked).unwrap_or(usize::MAX)));
    checked.map_err(|failure| wrong(failure.message, failure.field))?;
    Ok(())
}

/// The key whose value no answer shows, whatever it is.
const PASSWORD: &str = "password";

/// A verb with what requests of it may have.
pub(crate) struct Line {
    pub(crate) verb: Verb,
    pub(crate) fields: Vec<Field>,
}

impl Line {
    /// Reads a request, and checks it.
    ///
    /// # Errors
    /// When it is not one of this verb: keys that are not known are not passed over here, since
    /// whoever writes them means something.
    pub(crate) fn read(&self, source: Source) -> Result<Map<String, Value>, Wrong> {
        let request = match source {
            Source::Query(query) => self.of_query(&query)?,
            Source::Body(bytes) => self.of_body(&bytes)?,
        };
        check_limit(self.verb, &request)?;
        let whole = Value::Object(request);
        check(self.verb, &whole).map_err(|error| self.blame(&error.to_string(), &whole))?;
        match whole {
            Value::Object(request) => Ok(request),
            _ => Ok(Map::new()),
        }
    }

    /// Why a request is not one of the verb, with the key that the reader means: one that is
    /// missing, or one that has a word which it cannot have.
    fn blame(&self, error: &str, request: &Value) -> Wrong {
        let names = |text: &str| error.contains(&format!("`{text}`"));
        let missing = error.starts_with("missing field");
        let has_word = |name: &str| request[name].as_str().is_some_and(names);
        let is_it = |name: &str| match missing {
            true => names(name),
            false => has_word(name),
        };
        let mut all = self.fields.iter().map(|field| &*field.name);
        let field = all.find(|name| is_it(name));
        wrong(error, field)
    }

    /// Whether a request is one that waits.
    pub(crate) fn may_wait(&self) -> bool {
        self.verb.http() == Http::Waits
    }

    fn of_query(&self, text: &str) -> Result<Map<String, Value>, Wrong> {
        let pairs = query::read(text).map_err(|error| wrong(error.to_string(), None))?;
        let mut request = Map::new();
        for (name, text) in pairs {
            let field = self.field(&name)?;
            let value = value_of(&text, field)?;
            if request.insert(name, value).is_some() {
                let detail = format!("{} stands twice in the URL", field.name);
                return Err(wrong(detail, Some(&field.name)));
            }
        }
        Ok(request)
    }

    fn of_body(&self, bytes: &[u8]) -> Result<Map<String, Value>, Wrong> {
        // A verb that takes nothing needs no braces.
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Map::new());
        }
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| wrong(format!("the body is not JSON: {error}"), None))?;
        let Value::Object(request) = value else {
            return Err(wrong("the body has to be a JSON object: {…}", None));
        };
        for (name, value) in &request {
            let field = self.field(name)?;
            if !fits(value, field.kind) {
                let expected = expected(field.kind);
                let detail = match name == PASSWORD {
                    true => format!("{name} has to be {expected}"),
                    false => format!("{name} has to be {expected}, not {}", short(value)),
                };
                return Err(wrong(detail, Some(name)));
            }
        }
        Ok(request)
    }

    fn field(&self, name: &str) -> Result<&Field, Wrong> {
        let found = self.fields.iter().find(|field| field.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.fields.iter().map(|field| &*field.name).collect();
            let known = match names.is_empty() {
                true => "it takes nothing".to_owned(),
                false => format!("it takes {}", names.join(", ")),
            };
            let name = shortened(name);
            let detail = format!("{} takes no {name:?}; {known}", self.verb.name());
            wrong(detail, Some(name))
        })
    }
}

/// A value of a query.
fn value_of(text: &str, field: &Field) -> Result<Value, Wrong> {
    let value = match field.kind {
        Kind::Text => Some(Value::from(text)),
        Kind::Whole => text.parse::<u64>().ok().map(Value::from),
        Kind::Flag => text.parse::<bool>().ok().map(Value::from),
        Kind::Json => serde_json::from_str(text).ok(),
    };
    value.ok_or_else(|| {
        let (name, expected) = (&field.name, expected(field.kind));
        let detail = format!("{name} has to be {expected}, not {:?}", shortened(text));
        wrong(detail, Some(name))
    })
}

/// Whether a value of a body is of a kind. What is `null` counts as not given.
fn fits(value: &Value, kind: Kind) -> bool {
    match kind {
        _ if value.is_null() => true,
        Kind::Text => value.is_string(),
        Kind::Whole => value.is_u64(),
        Kind::Flag => value.is_boolean(),
        Kind::Json => true,
    }
}

const fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "a text",
        Kind::Whole => "a whole number of 0 or more",
        Kind::Flag => "true or false",
        Kind::Json => "JSON",
    }
}

/// Characters of a name or a value that a sentence shows.
const SHOWN: usize = 40;

fn shortened(text: &str) -> &str {
    let end = text
        .char_indices()
        .nth(SHOWN)
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

fn short(value: &Value) -> String {
    shortened(&value.to_string()).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use stentor_control::schema::Schemas;

    use super::*;

    fn line(verb: Verb) -> Line {
        let fields = Schemas::of(verb).fields();
        Line { verb, fields }
    }

    fn of_query(verb: Verb, query: &str) -> Result<Value, Wrong> {
        let request = line(verb).read(Source::Query(query.to_owned()));
        request.map(Value::Object)
    }

    fn of_body(verb: Verb, body: &str) -> Result<Value, Wrong> {
        let request = line(verb).read(Source::Body(body.as_bytes().to_vec()));
        request.map(Value::Object)
    }

    #[test]
    fn a_query_has_the_types_of_the_verb() {
        let query = "zone=7&limit=5&lasting=true&by=bytes&containing=a%2Fb";
        let expected = json!({
            "zone": "7", "limit": 5, "lasting": true, "by": "bytes", "containing": "a/b",
        });
        assert_eq!(of_query(Verb::ClientsLs, query), Ok(expected));
        let query = "filter=%23&cursor=%7B%22stripe%22:1,%22after%22:null%7D";
        let expected = json!({ "filter": "#", "cursor": { "stripe": 1, "after": null } });
        assert_eq!(of_query(Verb::RetainedPage, query), Ok(expected));
        assert_eq!(of_query(Verb::Health, ""), Ok(json!({})));
        for (query, field) in [
            ("limit=-1", Some("limit")),
            ("limit=1e3", Some("limit")),
            ("limit=10001", Some("limit")),
            ("lasting=yes", Some("lasting")),
            ("fly=1", Some("fly")),
            ("verb=stop", Some("verb")),
            ("limit=1&limit=2", Some("limit")),
            ("by=colour", Some("by")),
            ("limit=%", None),
        ] {
            let wrong = of_query(Verb::ClientsLs, query).expect_err(query);
            assert_eq!(wrong.field.as_deref(), field, "{query}: {}", wrong.detail);
        }
        let wrong = of_query(Verb::RoomsLs, "limit=1001").expect_err("a page has up to 1,000");
        let detail =
            "limit is 1001, and has to be from 1 to 1000; the next page follows by `after`";
        assert_eq!(
            (&*wrong.detail, wrong.field.as_deref()),
            (detail, Some("limit"))
        );
        let wrong = of_query(Verb::ClientsShow, "").expect_err("the client id is missing");
        assert_eq!(wrong.field.as_deref(), Some("client_id"));
        assert!(wrong.detail.contains("`client_id`"), "{}", wrong.detail);
    }

    #[test]
    fn a_body_has_the_types_of_the_verb_and_nothing_else() {
        let kick = r#"{"client_id":"a","zone":null,"end_session":true}"#;
        let expected = json!({ "client_id": "a", "zone": null, "end_session": true });
        assert_eq!(of_body(Verb::ClientsKick, kick), Ok(expected));
        assert_eq!(of_body(Verb::Reload, " \r\n"), Ok(json!({})));
        for (body, part) in [
            ("[]", "object"),
            ("{", "not JSON"),
            ("\u{fffd}", "not JSON"),
            (r#"{"client_id":7}"#, "client_id has to be a text, not 7"),
            (r#"{"client_id":"a","zone":7}"#, "zone has to be a text"),
            (r#"{"client_id":"a","end_session":1}"#, "true or false"),
            (r#"{"client_id":"a","v":1}"#, "takes no \"v\""),
            ("{}", "`client_id`"),
        ] {
            let wrong = of_body(Verb::ClientsKick, body).expect_err(body);
            assert!(wrong.detail.contains(part), "{body}: {}", wrong.detail);
        }
        let long = format!(r#"{{"{}":1}}"#, "\u{202e}".repeat(10_000));
        let wrong = of_body(Verb::ClientsKick, &long).expect_err("no such key");
        assert!(wrong.detail.len() < 1_000, "{}", wrong.detail.len());
    }
}
