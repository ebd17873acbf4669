//! Sessions of browsers: how they begin and end, and who is behind one.
//!
//! A session begins by a password (`/api/v1/login`), or by a link that `stentor console` prints
//! (`/login`). Its cookie is all that a browser has of it.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use hyper::header::{CONTENT_LENGTH, HeaderValue, LOCATION, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value, json};
use stentor_control::login::{Login as Said, Me, NewPassword};
use stentor_control::schema::{of_answer, of_request};
use stentor_control::{Http, Need, Verb};
use tokio::sync::oneshot;

use crate::api::{ROOT, body, query, responses};
use crate::backend::{Begun, Caller, Login, NewSession, NotAdmitted};
use crate::bounds::{BODY_AT_ONCE, LOGIN_BODY_BYTES_MAX};
use crate::cookie;
use crate::identity::{cross_site, failed, identify, not_admitted};
use crate::origin::{self, Demand};
use crate::pages::{ListenerContext, address_of};
use crate::problem::{JSON, Problem, answer, busy, other_method, problem};

/// Where a link of `stentor console` leads.
const LINK: &str = "/login";

fn login_path() -> String {
    format!("{ROOT}login")
}

fn logout_path() -> String {
    format!("{ROOT}logout")
}

fn me_path() -> String {
    format!("{ROOT}me")
}

fn password_path() -> String {
    format!("{ROOT}me/password")
}

/// Adds the paths of logins.
pub(crate) fn router(router: Router<Arc<ListenerContext>>) -> Router<Arc<ListenerContext>> {
    router
        .route(&login_path(), any(log_in))
        .route(&logout_path(), any(log_out))
        .route(&me_path(), any(me))
        .route(&password_path(), any(set_password))
        .route(LINK, any(open_link))
}

/// Begins a session by a password.
async fn log_in(
    State(context): State<Arc<ListenerContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    check_post(&parts, Demand::NotAnother)?;
    let address = address_of(&parts);
    let whole = body::whole(body, LOGIN_BODY_BYTES_MAX);
    // Nobody knows who sends this: it takes no place of those who are known.
    let whole = context
        .slots
        .strangers
        .wait(address.map(|it| it.ip()), whole)
        .await;
    let bytes = whole.ok_or_else(busy)?.map_err(body::no_body)?;
    let login = read(&bytes)?;
    let name = login.name.clone();
    let begun = ask(&context, login, &parts).await?;
    let session = begun.map_err(|why| match why {
        NotAdmitted::Unknown(unproven) => {
            let detail = "the user or the password is wrong, or the user may not log in";
            let problem = problem("wrong-login", detail).noted("wrong-login");
            problem.noted_as(unproven.why).by(&name)
        }
        why => not_admitted(why).by(&name),
    })?;
    let text = format!("{}\n", json!(described(&*session.caller)));
    let mut response = answer(StatusCode::OK, JSON, text);
    give_cookie(&context, &parts.headers, &session, &mut response);
    Ok(response)
}

/// Ends the session of a browser.
async fn log_out(
    State(context): State<Arc<ListenerContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    check_post(&parts, Demand::Own)?;
    if let Some(cookie) = cookie::of(&parts.headers, context.is_tls) {
        context.backend.log_out(&cookie);
    }
    let mut response = answer(StatusCode::OK, JSON, "{}\n".to_owned());
    let is_secure = is_secure(&context, &parts.headers);
    if let Some(header) = cookie::clear(&parts.headers, is_secure) {
        response.headers_mut().append(SET_COOKIE, header);
    }
    Ok(response)
}

/// Says who asks.
async fn me(
    State(context): State<Arc<ListenerContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    if !origin::looks(&parts.method) {
        return Err(other_method("GET, HEAD"));
    }
    let caller = identify(&context, &parts, "this path").await?;
    let text = format!("{}\n", json!(described(&*caller)));
    Ok(answer(StatusCode::OK, JSON, text))
}

/// Gives a user who shows the present password another one.
async fn set_password(
    State(context): State<Arc<ListenerContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        return Err(other_method("POST"));
    }
    let mut caller = identify(&context, &parts, "this path").await?;
    if caller.me().user.is_none() {
        let detail = "whoever came by a link of `stentor console` has no password to change";
        return Err(problem("refused", detail));
    }
    if !body::is_json(&parts.headers) {
        return Err(no_json());
    }
    let begun = Instant::now();
    let whole = body::whole(body, LOGIN_BODY_BYTES_MAX);
    let whole = context.slots.bodies.wait_for(caller.name(), whole).await;
    let bytes = whole.ok_or_else(busy)?.map_err(body::no_body)?;
    if begun.elapsed() > BODY_AT_ONCE {
        // The user may have been disabled since.
        caller = identify(&context, &parts, "this path").await?;
    }
    let NewPassword {
        password,
        new_password,
    } = new_password(&bytes)?;
    prove(&context, &parts, &*caller, password.reveal()).await?;
    let set = move || caller.set_password(new_password.reveal());
    let set = context.slots.waits.run(set).await.ok_or_else(busy)?;
    set.map_err(failed)?;
    Ok(answer(StatusCode::OK, JSON, "{}\n".to_owned()))
}

/// What a user says who wants another password.
fn new_password(bytes: &[u8]) -> Result<NewPassword, Problem> {
    let is_object = bytes.trim_ascii_start().starts_with(b"{");
    let said = serde_json::from_slice(bytes).ok().filter(|_| is_object);
    // An error of the parser may show a part of a password.
    let said: NewPassword = said.ok_or_else(|| {
        let detail = "the body is not JSON of the form {\"password\":…,\"new_password\":…}, \
                      without another key";
        problem("bad-request", detail)
    })?;
    for (field, text) in [
        ("password", &said.password),
        ("new_password", &said.new_password),
    ] {
        if text.reveal().is_empty() {
            let empty = problem("bad-request", format!("{field} is empty"));
            return Err(empty.with("field", Some(field.to_owned())));
        }
    }
    Ok(said)
}

/// Asks whether a user's password is right, as at a login.
async fn prove(
    context: &ListenerContext,
    parts: &Parts,
    caller: &dyn Caller,
    password: &str,
) -> Result<(), Problem> {
    let address = address_of(parts);
    let login = Login {
        name: caller.name().to_owned(),
        password: password.to_owned(),
    };
    let (then, proved) = oneshot::channel();
    let answer = async {
        let then = Box::new(|proved| drop(then.send(proved)));
        let _waiting = context.backend.prove(login, address, then);
        proved.await.unwrap_or(Err(NotAdmitted::Unavailable))
    };
    let proved = context
        .slots
        .tokens
        .wait(address.map(|it| it.ip()), answer)
        .await;
    proved.ok_or_else(busy)?.map_err(|why| match why {
        NotAdmitted::Unknown(_) => problem("wrong-password", "this is not the present password")
            .noted("wrong-password")
            .by(caller.name()),
        why => not_admitted(why).by(caller.name()),
    })
}

/// Begins a session by a link, and leads the browser on: the link does not stay in its address.
async fn open_link(
    State(context): State<Arc<ListenerContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    // HEAD opens nothing: programs send it to look what a link is.
    if parts.method != Method::GET {
        return Err(other_method("GET"));
    }
    let pairs = query::read(parts.uri.query().unwrap_or_default());
    let pairs = pairs.map_err(|error| problem("bad-request", error.to_string()))?;
    let [(key, once)] = &pairs[..] else {
        let detail = "open the whole link that `stentor console` prints";
        return Err(problem("bad-request", detail));
    };
    if key != "once" {
        let detail = "a link has the key once, and no other one";
        return Err(problem("bad-request", detail));
    }
    let address = address_of(&parts);
    let session = context.backend.open_link(once, address);
    let session = session.map_err(not_admitted)?;
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static("/"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    give_cookie(&context, &parts.headers, &session, &mut response);
    Ok(response)
}

/// Checks what a POST of a browser or a program has to say.
fn check_post(parts: &Parts, demand: Demand) -> Result<(), Problem> {
    if parts.method != Method::POST {
        return Err(other_method("POST"));
    }
    if !origin::is_own(&parts.headers, demand, false) {
        return Err(cross_site());
    }
    match body::is_json(&parts.headers) {
        true => Ok(()),
        false => Err(no_json()),
    }
}

fn no_json() -> Problem {
    let detail = "a POST has a body of JSON here, and its header Content-Type says so";
    problem("content-type", detail)
}

/// What somebody says at a login.
fn read(bytes: &[u8]) -> Result<Login, Problem> {
    let wrong = |field: &str, detail: String| {
        problem("bad-request", detail).with("field", Some(field.to_owned()))
    };
    // A list of the values would be taken as well.
    let is_object = bytes.trim_ascii_start().starts_with(b"{");
    let said = serde_json::from_slice(bytes).ok().filter(|_| is_object);
    // An error of the parser may show a part of the password.
    let Some(Said {
        user,
        password,
        zone,
    }) = said
    else {
        let detail = "the body is not JSON of the form {\"user\":…,\"password\":…}, with a zone or \
                      without, and no other key";
        return Err(problem("bad-request", detail));
    };
    for (field, text) in [("user", &user), ("password", &password)] {
        if text.is_empty() {
            return Err(wrong(field, format!("{field} is empty")));
        }
    }
    let name = match zone {
        None => user,
        Some(zone) if user.contains('/') || zone.contains('/') || zone.is_empty() => {
            let detail = "name the zone once: as zone, or as user = \"zone/name\"";
            return Err(wrong("zone", detail.to_owned()));
        }
        Some(zone) => format!("{zone}/{user}"),
    };
    Ok(Login { name, password })
}

/// Asks whether a login is right. A session that nobody waits for any more ends at once.
async fn ask(context: &ListenerContext, login: Login, parts: &Parts) -> Result<Begun, Problem> {
    let address = address_of(parts);
    let (then, begun) = oneshot::channel::<Begun>();
    let answer = async {
        let backend = Arc::clone(&context.backend);
        let then = Box::new(move |begun: Begun| {
            if let Err(Ok(session)) = then.send(begun) {
                backend.log_out(&session.cookie);
            }
        });
        let _waiting = context.backend.log_in(login, address, then);
        begun.await.unwrap_or(Err(NotAdmitted::Unavailable))
    };
    let begun = context
        .slots
        .tokens
        .wait(address.map(|it| it.ip()), answer)
        .await;
    begun.ok_or_else(busy)
}

/// Whether the cookie of an answer is for https alone.
fn is_secure(context: &ListenerContext, headers: &HeaderMap) -> bool {
    context.is_tls || origin::is_https(headers)
}

fn give_cookie(
    context: &ListenerContext,
    headers: &HeaderMap,
    session: &NewSession,
    response: &mut Response,
) {
    let is_secure = is_secure(context, headers);
    if let Some(header) = cookie::set(headers, is_secure, &session.cookie) {
        response.headers_mut().append(SET_COOKIE, header);
    }
}

/// Somebody with the verbs that he may ask for.
pub(crate) fn described(caller: &dyn Caller) -> Me {
    let verbs = Verb::ALL.into_iter();
    let may = |verb: Verb| match verb.need() {
        Need::Topic => caller.may_publish(),
        Need::Read | Need::Change | Need::Administer => caller.may(verb).is_ok(),
    };
    let verbs = verbs.filter(|verb| verb.http() != Http::Never && may(*verb));
    Me {
        may: verbs.map(|verb| verb.name().to_owned()).collect(),
        ..caller.me()
    }
}

/// These paths in the description of the API.
pub(crate) fn paths() -> Map<String, Value> {
    let me = json!({ "description": "The caller.", "content": { JSON: {
        "schema": { "$ref": "#/components/schemas/Me" },
    } } });
    let with_cookie = json!({
        "description": me["description"],
        "headers": { "Set-Cookie": {
            "description": "The cookie of the session.",
            "schema": { "type": "string" },
        } },
        "content": me["content"],
    });
    let login = json!({ "post": {
        "operationId": "login",
        "tags": ["login"],
        "summary": "Begins a session of a browser by a password.",
        "description": "A browser sends the cookie of the answer with all later requests. Other \
            programs need no session: they show a token with each request.",
        "security": [],
        "requestBody": { "required": true, "content": { JSON: {
            "schema": { "$ref": "#/components/schemas/Login" },
        } } },
        "responses": responses(with_cookie),
    } });
    let logout = json!({ "post": {
        "operationId": "logout",
        "tags": ["login"],
        "summary": "Ends the session of the cookie.",
        "description": "It has no effect without a session.",
        "security": [{ "cookie": [] }, {}],
        "responses": responses(json!({
            "description": "The session has ended.",
            "content": { JSON: { "schema": { "type": "object" } } },
        })),
    } });
    let whoami = json!({ "get": {
        "operationId": "me",
        "tags": ["login"],
        "summary": "Says who asks, and which verbs that one may ask for.",
        "description": "Needs no right.",
        "responses": responses(me),
    } });
    let password = json!({ "post": {
        "operationId": "me.password",
        "tags": ["login"],
        "summary": "Gives the caller another password.",
        "description": "Needs no right, but the present password. The session that asks goes on, \
            and the other sessions of the user end. Tokens stay.",
        "requestBody": { "required": true, "content": { JSON: {
            "schema": { "$ref": "#/components/schemas/NewPassword" },
        } } },
        "responses": responses(json!({
            "description": "It was done.",
            "content": { JSON: { "schema": { "type": "object" } } },
        })),
    } });
    Map::from_iter([
        (password_path(), password),
        (login_path(), login),
        (logout_path(), logout),
        (me_path(), whoami),
    ])
}

/// The types of these paths.
pub(crate) fn schemas() -> [(&'static str, Map<String, Value>); 3] {
    [
        ("Login", of_request::<Said>()),
        ("Me", of_answer::<Me>()),
        ("NewPassword", of_request::<NewPassword>()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_names_a_user_and_a_zone_once() {
        let name = |text: &str| read(text.as_bytes()).map(|login| login.name);
        let full = r#"{"user":"ann","password":"x","zone":"game"}"#;
        assert_eq!(name(full), Ok("game/ann".to_owned()));
        let within = r#"{"user":"game/ann","password":"x","zone":null}"#;
        assert_eq!(name(within), Ok("game/ann".to_owned()));
        for wrong in [
            "",
            "[]",
            r#"["ann","x",null]"#,
            "{}",
            r#"{"user":"ann"}"#,
            r#"{"user":"","password":"x"}"#,
            r#"{"user":"ann","password":""}"#,
            r#"{"user":"ann","password":7}"#,
            r#"{"user":"ann","password":"x","zone":""}"#,
            r#"{"user":"ann","password":"x","zone":"a/b"}"#,
            r#"{"user":"a/ann","password":"x","zone":"b"}"#,
            r#"{"user":"ann","password":"x","stay":true}"#,
            r#"{"user":"ann","user":"ben","password":"x"}"#,
        ] {
            let problem = name(wrong).expect_err(wrong).value();
            assert_eq!(problem["code"], "bad-request", "{wrong}");
        }
    }

    #[test]
    fn a_wrong_body_does_not_show_the_password() {
        let problem = read(br#"{"user":"ann","password":{"secret":1}}"#).expect_err("it is wrong");
        let text = problem.value().to_string();
        assert!(!text.contains("secret"), "{text}");
        let said: Said =
            serde_json::from_str(r#"{"user":"a","password":"secret"}"#).expect("it is");
        assert!(!format!("{said:?}").contains("secret"));
        let login = read(br#"{"user":"a","password":"secret"}"#).expect("it is one");
        assert!(!format!("{login:?}").contains("secret"));
    }
}
