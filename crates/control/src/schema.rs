//! The types of requests and answers as JSON Schema, 2020-12.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::types::Visit;
use crate::{Request, Verb};

/// The request and the answer of a verb.
#[derive(Debug, Clone)]
pub struct Schemas {
    /// What a request may have. Keys that it does not list are ignored on the control socket, and
    /// refused elsewhere.
    pub request: Map<String, Value>,
    /// What an answer has.
    pub answer: Map<String, Value>,
}

struct Describe;

impl Visit for Describe {
    type Outcome = Schemas;

    fn visit<R: Request>(self) -> Schemas {
        Schemas {
            request: of_request::<R>(),
            answer: of_answer::<R::Answer>(),
        }
    }
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true)
}

/// The schema of a type that is read from a request.
#[must_use]
pub fn of_request<T: JsonSchema>() -> Map<String, Value> {
    let generator = settings().for_deserialize().into_generator();
    object(generator.into_root_schema_for::<T>().to_value())
}

/// The schema of a type that is an answer.
#[must_use]
pub fn of_answer<T: JsonSchema>() -> Map<String, Value> {
    let generator = settings().for_serialize().into_generator();
    object(generator.into_root_schema_for::<T>().to_value())
}

/// The schema without the name of its type, which means nothing outside this crate.
fn object(schema: Value) -> Map<String, Value> {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.remove("title");
    schema.remove("$schema");
    tidy(&mut schema);
    schema
}

/// Takes the brackets of links between types out of the texts.
fn tidy(schema: &mut Map<String, Value>) {
    for (key, value) in schema.iter_mut() {
        match value {
            Value::String(text) if key == "description" => {
                *text = text.replace("[`", "`").replace("`]", "`");
            }
            Value::Object(inner) => tidy(inner),
            Value::Array(all) => all
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(tidy),
            _ => {}
        }
    }
}

/// What kind of value a key of a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text, or one of some words.
    Text,
    /// A whole number that is not negative.
    Whole,
    /// `true` or `false`.
    Flag,
    /// An object, a list, or whatever is JSON.
    Json,
}

impl Kind {
    /// The kind of values that a schema allows, `null` aside.
    fn of(schema: &Value) -> Self {
        let mut types = Vec::new();
        gather(schema, &mut types);
        let has = |name: &str| types.iter().any(|one| one == name);
        if has("string") {
            Self::Text
        } else if has("integer") {
            Self::Whole
        } else if has("boolean") {
            Self::Flag
        } else {
            Self::Json
        }
    }
}

/// The types of values that a schema allows.
fn gather(schema: &Value, types: &mut Vec<String>) {
    match &schema["type"] {
        Value::String(one) => types.push(one.clone()),
        Value::Array(some) => {
            types.extend(some.iter().filter_map(|one| Some(one.as_str()?.to_owned())));
        }
        _ => {}
    }
    for key in ["anyOf", "oneOf"] {
        let choices = schema[key].as_array().into_iter().flatten();
        choices.for_each(|choice| gather(choice, types));
    }
}

/// A key of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The key.
    pub name: String,
    /// What it has.
    pub kind: Kind,
}

impl Schemas {
    /// Those of a verb. Each call makes them again, so keep them.
    #[must_use]
    pub fn of(verb: Verb) -> Self {
        verb.visit(Describe)
    }

    /// The keys that a request may have.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        let keys = self.request.get("properties").and_then(Value::as_object);
        let keys = keys.into_iter().flatten();
        let field = |(name, schema): (&String, &Value)| Field {
            name: name.clone(),
            kind: Kind::of(schema),
        };
        keys.map(field).collect()
    }
}

struct Check<'a>(&'a Value);

impl Visit for Check<'_> {
    type Outcome = Result<(), serde_json::Error>;

    fn visit<R: Request>(self) -> Self::Outcome {
        R::deserialize(self.0).map(drop)
    }
}

/// Whether a value is a request of a verb.
///
/// # Errors
/// When a key is missing, or has a value that it cannot have.
pub fn check(verb: Verb, request: &Value) -> Result<(), serde_json::Error> {
    verb.visit(Check(request))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(verb: Verb) -> Vec<(String, Kind)> {
        let fields = Schemas::of(verb).fields().into_iter();
        fields.map(|field| (field.name, field.kind)).collect()
    }

    #[test]
    fn keys_are_those_of_the_types() {
        let named = |names: &[(&str, Kind)]| -> Vec<(String, Kind)> {
            let names = names.iter();
            names
                .map(|(name, kind)| ((*name).to_owned(), *kind))
                .collect()
        };
        let ls = named(&[
            ("zone", Kind::Text),
            ("containing", Kind::Text),
            ("cursor", Kind::Text),
            ("fresh", Kind::Flag),
            ("limit", Kind::Whole),
            ("offset", Kind::Whole),
            ("reverse", Kind::Flag),
            ("state", Kind::Text),
            ("user", Kind::Text),
            ("lasting", Kind::Flag),
            ("address", Kind::Text),
            ("away_secs", Kind::Whole),
            ("by", Kind::Text),
        ]);
        assert_eq!(sorted(fields(Verb::ClientsLs)), sorted(ls));
        let page = named(&[
            ("zone", Kind::Text),
            ("filter", Kind::Text),
            ("cursor", Kind::Json),
        ]);
        assert_eq!(sorted(fields(Verb::RetainedPage)), sorted(page));
        // The target stands beside the other keys.
        let names: Vec<String> = fields(Verb::BansAdd).into_iter().map(|it| it.0).collect();
        for name in [
            "client_id",
            "user",
            "address",
            "zone",
            "for_secs",
            "reason",
            "force",
        ] {
            assert!(names.iter().any(|one| one == name), "{name}: {names:?}");
        }
        assert_eq!(fields(Verb::Health), []);
    }

    fn sorted(mut all: Vec<(String, Kind)>) -> Vec<(String, Kind)> {
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    #[test]
    fn requests_are_checked_by_their_types() {
        let show = |request: Value| check(Verb::ClientsShow, &request).map_err(|it| it.to_string());
        assert_eq!(show(json!({ "client_id": "a" })), Ok(()));
        assert_eq!(show(json!({ "client_id": "a", "zone": null })), Ok(()));
        assert!(show(json!({})).unwrap_err().contains("`client_id`"));
        assert!(show(json!({ "client_id": 7 })).is_err());
    }

    /// By this key alone, a user of a zone is kept to it.
    #[test]
    fn a_verb_that_can_be_limited_to_a_zone_has_a_key_for_it() {
        for verb in Verb::ALL {
            let is_zoned = fields(verb).iter().any(|(name, _)| name == "zone");
            let is_limited = verb.scope() == crate::Scope::Zone;
            assert!(is_zoned || !is_limited, "{verb:?}");
        }
    }

    #[test]
    fn every_verb_is_described() {
        for verb in Verb::ALL {
            let schemas = Schemas::of(verb);
            assert_eq!(schemas.request["type"], "object", "{verb:?}");
            assert_eq!(schemas.answer["type"], "object", "{verb:?}");
            let text = json!(schemas.answer).to_string();
            assert!(!text.contains("$ref") && !text.contains("[`"), "{text}");
            // Draft 2020-12 has pairs in another way.
            assert!(!text.contains("\"items\":["), "{text}");
        }
    }
}
