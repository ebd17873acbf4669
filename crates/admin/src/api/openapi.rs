//! The description of `/api/v1`, as OpenAPI 3.1: its schemas are those of the types.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use stentor_control::schema::Schemas;
use stentor_control::{Http, Need, Scope, Verb};

use super::ROOT;
use super::request::limit_of;
use crate::login;
use crate::problem::{JSON, PROBLEMS};
use crate::stream;

/// The version of the API. Paths and keys may be added to it; what is there keeps its meaning.
const VERSION: &str = "1";

/// The whole description, which is also in the project as `docs/openapi.json`.
#[must_use]
pub fn document() -> String {
    let verbs = Verb::ALL.into_iter();
    let verbs: Vec<Verb> = verbs.filter(|verb| verb.http() != Http::Never).collect();
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for verb in verbs {
        let Schemas { request, answer } = Schemas::of(verb);
        let request = bounded(verb, request);
        paths.insert(format!("{ROOT}{}", verb.path()), path(verb, &request));
        schemas.insert(named(verb, "Request"), Value::Object(request));
        schemas.insert(named(verb, "Answer"), Value::Object(answer));
    }
    paths.extend(stream::describe::paths());
    paths.extend(login::paths());
    for (name, schema) in login::schemas() {
        schemas.insert(name.to_owned(), Value::Object(schema));
    }
    paths.insert(PROBLEMS.to_owned(), problems());
    schemas.insert("Problem".to_owned(), problem());
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Stentor",
            "version": VERSION,
            "summary": "What operators and programs can ask of a Stentor server.",
            "description": "Each path is a verb of the control socket. The right to a verb is the \
                right to a topic, which its description names. docs/http.md is the guide.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "the server that serves this document" }],
        "security": [{ "token": [] }, { "cookie": [] }, { "certificate": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": security(),
            "responses": { "Problem": {
                "description": "Why it was not done.",
                "content": { "application/problem+json": { "schema": reference("Problem") } },
            } },
            "schemas": schemas,
        },
    });
    format!("{document:#}\n")
}

/// How somebody is known.
fn security() -> Value {
    json!({
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "the token of a user: `stentor token create USER`",
        },
        "certificate": {
            "type": "mutualTLS",
            "description": "the certificate of a client, where `http.certificate_user` says which \
                name in it is the user's",
        },
        "cookie": {
            "type": "apiKey",
            "in": "cookie",
            "name": "stentor-PORT",
            "description": "the session of a browser, by `/api/v1/login` or a link of `stentor \
                console`; the port is that of the header Host, and by https the name begins with \
                `__Host-`; for all methods but GET and HEAD, the header Sec-Fetch-Site has to be \
                same-origin, or Origin has to name the Host",
        },
    })
}

/// The same, made once.
pub(super) fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(document)
}

/// The schema of a request with what holds for HTTP alone.
fn bounded(verb: Verb, mut request: Map<String, Value>) -> Map<String, Value> {
    request.insert("additionalProperties".into(), json!(false));
    let keys = request.get_mut("properties").and_then(Value::as_object_mut);
    let key = keys.and_then(|keys| keys.get_mut("limit"));
    if let (Some(key), Some(limit)) = (key, limit_of(verb)) {
        key["minimum"] = json!(limit.least);
        key["maximum"] = json!(limit.most);
    }
    request
}

/// The name of a schema: `ClientsKickRequest`.
fn named(verb: Verb, what: &str) -> String {
    let mut name = String::new();
    for word in verb.name().split(['.', '-']) {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name + what
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// A path with its methods.
fn path(verb: Verb, request: &Map<String, Value>) -> Value {
    let body = json!({
        "required": true,
        "content": { JSON: { "schema": reference(&named(verb, "Request")) } },
    });
    let mut post = operation(verb, request);
    post["requestBody"] = body;
    if verb.need() != Need::Read {
        return json!({ "post": post });
    }
    let mut get = operation(verb, request);
    get["operationId"] = json!(format!("{}.get", verb.name()));
    let parameters = parameters(request);
    if !parameters.is_empty() {
        get["parameters"] = json!(parameters);
    }
    json!({ "get": get, "post": post })
}

fn operation(verb: Verb, request: &Map<String, Value>) -> Value {
    let noun = verb.name().split('.').next();
    json!({
        "operationId": verb.name(),
        "tags": [noun],
        "summary": summary(verb, request),
        "description": who_may(verb),
        "responses": responses(json!({
            "description": "It was done.",
            "content": { JSON: { "schema": reference(&named(verb, "Answer")) } },
        })),
    })
}

/// The answers of a path: this one, and problems. Other statuses do not occur.
pub(crate) fn responses(done: Value) -> Value {
    let problem = || json!({ "$ref": "#/components/responses/Problem" });
    json!({ "200": done, "4XX": problem(), "503": problem() })
}

/// What a verb does: the text of its type, without its name.
fn summary(verb: Verb, request: &Map<String, Value>) -> String {
    let text = request.get("description").and_then(Value::as_str);
    let text = text.unwrap_or_default();
    let text = text
        .strip_prefix(&format!("`{}`: ", verb.name()))
        .unwrap_or(text);
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Which right a verb needs.
pub(crate) fn who_may(verb: Verb) -> String {
    let right = match verb.need() {
        Need::Read => format!("Needs the right to subscribe to `{}`.", verb.right()),
        Need::Change => format!("Needs the right to publish to `{}`.", verb.right()),
        Need::Topic => "Needs the right to publish to the topic of the request.".to_owned(),
        Need::Administer => format!(
            "Needs the right to publish to `{}`, and all other rights: the rules `allow both #` and \
             `allow both $#`, and none that denies.",
            verb.right()
        ),
    };
    match verb.scope() {
        Scope::Server => format!("{right} For users of the zone default alone."),
        Scope::Zone => format!("{right} A user of another zone than default has that zone alone."),
    }
}

/// The keys of a request as parameters of the URL.
pub(crate) fn parameters(request: &Map<String, Value>) -> Vec<Value> {
    let required = request.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        let names = required.into_iter().flatten();
        names.into_iter().any(|one| one == name)
    };
    let keys = request.get("properties").and_then(Value::as_object);
    let keys = keys.into_iter().flatten();
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let text = schema
            .as_object_mut()
            .and_then(|it| it.remove("description"));
        let mut parameter = json!({
            "name": name,
            "in": "query",
            "required": is_required(name),
        });
        if let Some(text) = text {
            parameter["description"] = text;
        }
        // Objects are written as JSON.
        match schema.to_string().contains("\"properties\"") {
            true => parameter["content"] = json!({ JSON: { "schema": schema } }),
            false => parameter["schema"] = schema,
        }
        parameter
    };
    keys.map(parameter).collect()
}

/// The path that lists the kinds of problems.
fn problems() -> Value {
    let list = json!({
        "type": "object",
        "required": ["problems"],
        "properties": { "problems": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "code", "title", "status", "remedy"],
                "properties": problem_keys(),
            },
        } },
    });
    json!({ "get": {
        "operationId": "problems",
        "tags": ["problems"],
        "summary": "All kinds of problems.",
        "security": [],
        "responses": { "200": {
            "description": "The kinds of problems.",
            "content": { JSON: { "schema": list } },
        } },
    } })
}

fn problem_keys() -> Value {
    json!({
        "type": {
            "type": "string",
            "format": "uri-reference",
            "description": "The kind of problem, in the list of the path /api/v1/problems.",
        },
        "code": { "type": "string", "description": "The same as a word for programs." },
        "title": { "type": "string", "description": "The words of the status." },
        "status": { "type": "integer", "description": "The status of the answer." },
        "remedy": { "type": "string", "description": "What helps with this kind of problem." },
    })
}

/// Why something was not done, as RFC 9457 has it.
fn problem() -> Value {
    let mut keys = problem_keys();
    keys["detail"] = json!({ "type": "string", "description": "What happened, as a sentence." });
    keys["field"] = json!({ "type": "string", "description": "The key that is wrong." });
    keys["rule"] = json!({ "type": "string", "description": "The rule that denies it." });
    json!({
        "type": "object",
        "description": "Why it was not done, as RFC 9457 has it.",
        "required": ["type", "title", "status", "detail", "code", "remedy"],
        "properties": keys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> Value {
        serde_json::from_str(&document()).expect("it is JSON")
    }

    #[test]
    fn the_document_of_the_project_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let committed = std::fs::read_to_string(path).expect("it is in the project");
        assert!(
            committed == document(),
            "docs/openapi.json is out of date; `cargo xtask gen` writes it again"
        );
    }

    #[test]
    fn every_verb_has_a_path_but_those_of_the_socket_alone() {
        let document = read();
        for verb in Verb::ALL {
            let path = &document["paths"][format!("{ROOT}{}", verb.path())];
            let methods = path.as_object().into_iter().flatten();
            let methods: Vec<&str> = methods.map(|(method, _)| method.as_str()).collect();
            let expected: &[&str] = match (verb.http(), verb.need()) {
                (Http::Never, _) => &[],
                (_, Need::Read) => &["get", "post"],
                (_, Need::Change | Need::Topic | Need::Administer) => &["post"],
            };
            assert_eq!(methods, expected, "{verb:?}");
            if let Some(method) = methods.first() {
                let summary = path[*method]["summary"].as_str().unwrap_or_default();
                assert!(
                    summary.ends_with('.') && summary.len() > 10,
                    "{verb:?}: {summary}"
                );
                assert_ne!(summary, "The request.", "{verb:?}");
            }
        }
    }

    /// A status that the document does not name is a bug of the server: 500 is one.
    #[test]
    fn every_path_names_its_statuses() {
        let document = read();
        let paths = document["paths"].as_object().expect("there are some");
        for (path, methods) in paths.iter().filter(|(path, _)| *path != PROBLEMS) {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let statuses = operation["responses"].as_object().into_iter().flatten();
                let statuses: Vec<&str> = statuses.map(|(status, _)| status.as_str()).collect();
                assert_eq!(statuses, ["200", "4XX", "503"], "{method} {path}");
            }
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => map.iter().for_each(|(key, value)| match value.as_str() {
                    Some(place) if key == "$ref" => found.push(place.to_owned()),
                    _ => references(value, found),
                }),
                Value::Array(all) => all.iter().for_each(|one| references(one, found)),
                _ => {}
            }
        }
        let document = read();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50, "{found:?}");
        for place in found {
            let pointer = place.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{place}");
        }
    }
}
