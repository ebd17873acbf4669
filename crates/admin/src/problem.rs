//! Errors, as RFC 9457 has them: `application/problem+json`.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Value, json};
use stentor_control::Verb;

/// Where all kinds of problems are listed; each is named by its code as a fragment.
pub(crate) const PROBLEMS: &str = "/api/v1/problems";

/// The content type of a problem.
const PROBLEM_JSON: &str = "application/problem+json";

/// The content type of all other JSON.
pub(crate) const JSON: &str = "application/json";

/// A kind of problem.
struct Kind {
    /// A word for programs.
    code: &'static str,
    status: StatusCode,
    /// What helps, for people.
    remedy: &'static str,
}

const fn kind(code: &'static str, status: StatusCode, remedy: &'static str) -> Kind {
    Kind {
        code,
        status,
        remedy,
    }
}

/// All kinds of problems: those of HTTP, then those of verbs.
const KINDS: [Kind; 35] = [
    kind(
        "no-host",
        StatusCode::BAD_REQUEST,
        "send one header Host that names the server",
    ),
    kind(
        "other-host",
        StatusCode::MISDIRECTED_REQUEST,
        "ask for localhost, or add the name to http.names",
    ),
    kind(
        "too-large",
        StatusCode::PAYLOAD_TOO_LARGE,
        "send less in one request",
    ),
    kind(
        "slow-body",
        StatusCode::REQUEST_TIMEOUT,
        "send the body right behind the headers",
    ),
    kind(
        "content-type",
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "send the header Content-Type: application/json",
    ),
    kind(
        "method",
        StatusCode::METHOD_NOT_ALLOWED,
        "use a method of the header Allow",
    ),
    kind(
        "no-token",
        StatusCode::UNAUTHORIZED,
        "make a token with `stentor token create USER`, and send it in the header \
         Authorization: Bearer TOKEN",
    ),
    kind(
        "wrong-login",
        StatusCode::UNAUTHORIZED,
        "check user, password and zone; `stentor user show USER` says whether the user is disabled",
    ),
    kind(
        "wrong-password",
        StatusCode::FORBIDDEN,
        "send the present password; an administrator gives another one by `stentor user \
         set-password`",
    ),
    kind(
        "no-user",
        StatusCode::UNAUTHORIZED,
        "add the user whom the certificate names by `stentor user add`, or show a token",
    ),
    kind(
        "no-session",
        StatusCode::UNAUTHORIZED,
        "log in again: by /api/v1/login, or by a link of `stentor console`",
    ),
    kind(
        "no-link",
        StatusCode::UNAUTHORIZED,
        "make another link with `stentor console`, and open it within a minute",
    ),
    kind(
        "cross-site",
        StatusCode::FORBIDDEN,
        "ask from a page of the server itself; a program needs no cookie: it sends the header \
         Authorization: Bearer TOKEN",
    ),
    kind(
        "too-fast",
        StatusCode::TOO_MANY_REQUESTS,
        "send the next request after the time of the header Retry-After",
    ),
    kind(
        "slowed",
        StatusCode::TOO_MANY_REQUESTS,
        "correct the token or the password, and try again after the time of the header Retry-After",
    ),
    kind(
        "denied",
        StatusCode::FORBIDDEN,
        "give the user a role with the right by `stentor grant`; `stentor user test` says which rule \
         decides",
    ),
    kind(
        "banned",
        StatusCode::FORBIDDEN,
        "`stentor ban ls` lists the bans, `stentor ban rm` removes one",
    ),
    kind(
        "other-zone",
        StatusCode::FORBIDDEN,
        "leave the key zone out, or use the token of a user of the zone default",
    ),
    kind(
        "adaptor",
        StatusCode::FORBIDDEN,
        "ask the operator: an adaptor refuses the login, and `stentor adaptor ls` lists them",
    ),
    kind(
        "socket-only",
        StatusCode::NOT_FOUND,
        "use the command `stentor` on the machine of the server",
    ),
    kind(
        "not-found",
        StatusCode::NOT_FOUND,
        "compare the path with /api/v1/openapi.json, and the name with a list: most nouns have a verb \
         ls",
    ),
    kind(
        "expired",
        StatusCode::GONE,
        "begin the list again: ask without the cursor",
    ),
    kind(
        "bad-request",
        StatusCode::BAD_REQUEST,
        "/api/v1/openapi.json describes the request",
    ),
    kind(
        "ambiguous",
        StatusCode::CONFLICT,
        "name the zone in the request",
    ),
    kind(
        "not-connected",
        StatusCode::CONFLICT,
        "look whether the client is connected: /api/v1/clients/show",
    ),
    kind(
        "not-away",
        StatusCode::CONFLICT,
        "look since when the client is away: /api/v1/clients/show",
    ),
    kind(
        "exists",
        StatusCode::CONFLICT,
        "choose another name, or change the one that is there",
    ),
    kind(
        "conflict",
        StatusCode::CONFLICT,
        "the detail says what is in the way; remove it, or try again",
    ),
    kind(
        "refused",
        StatusCode::CONFLICT,
        "change what the detail names, in the request or in the server",
    ),
    kind(
        "queue",
        StatusCode::CONFLICT,
        "take its [[queue]] out of the configuration, and restart the server",
    ),
    kind(
        "reload-failed",
        StatusCode::CONFLICT,
        "correct the configuration file; `stentor check-config` checks it",
    ),
    kind(
        "too-many",
        StatusCode::TOO_MANY_REQUESTS,
        "the detail says what there is too much of; remove some of it, or try again later",
    ),
    kind(
        "quota",
        StatusCode::TOO_MANY_REQUESTS,
        "publish slower, or raise the quota that the detail names by `stentor role change`",
    ),
    kind(
        "busy",
        StatusCode::SERVICE_UNAVAILABLE,
        "try again after the time of the header Retry-After",
    ),
    kind(
        "unavailable",
        StatusCode::SERVICE_UNAVAILABLE,
        "try again; the log of the server has more",
    ),
];

/// What an unknown code counts as.
const BUG: Kind = kind(
    "bug",
    StatusCode::INTERNAL_SERVER_ERROR,
    "this is a bug of the server; its log may have more",
);

fn of(code: &str) -> &'static Kind {
    KINDS.iter().find(|one| one.code == code).unwrap_or(&BUG)
}

/// How long to wait before another try, in seconds.
const RETRY_SECS: u64 = 5;

/// Why a request is not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    code: &'static str,
    detail: String,
    /// One more key.
    more: Option<(&'static str, String)>,
    /// The methods that the path answers, if this is not one of them.
    allow: Option<&'static str>,
    /// After how many seconds another try may succeed, where that is known.
    retry_secs: Option<u64>,
    /// What the operator hears of it.
    noted: Option<Box<Noted>>,
}

/// A refusal, for the log of the server: an answer that is sent carries it as an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// One of [`crate::REASONS`].
    pub(crate) reason: &'static str,
    /// Empty if nobody is named.
    pub(crate) user: String,
    pub(crate) text: String,
    /// Whether the user is known, and lacks a right.
    pub(crate) is_known: bool,
    pub(crate) verb: Option<Verb>,
}

/// A problem of this kind, with a sentence.
pub(crate) fn problem(code: &'static str, detail: impl Into<String>) -> Problem {
    Problem {
        code,
        detail: detail.into(),
        more: None,
        allow: None,
        retry_secs: None,
        noted: None,
    }
}

/// A path that does not answer this method, but those.
pub(crate) fn other_method(allow: &'static str) -> Problem {
    Problem {
        allow: Some(allow),
        ..problem("method", format!("this path answers {allow}"))
    }
}

/// Too much is to be answered already.
pub(crate) fn busy() -> Problem {
    problem("busy", "the server cannot answer now; try again later")
}

impl Problem {
    /// The same, of which the operator hears for this reason.
    pub(crate) fn noted(mut self, reason: &'static str) -> Self {
        let text = format!("{}; {}", self.detail, of(self.code).remedy);
        self.noted = Some(Box::new(Noted {
            reason,
            user: String::new(),
            text,
            is_known: false,
            verb: None,
        }));
        self
    }

    /// The same with another text for the operator, if there is one.
    pub(crate) fn noted_as(mut self, text: String) -> Self {
        if let Some(noted) = self.noted.as_mut().filter(|_| !text.is_empty()) {
            noted.text = text;
        }
        self
    }

    /// The same for a request that names this user.
    pub(crate) fn by(mut self, user: &str) -> Self {
        if let Some(noted) = self.noted.as_mut().filter(|noted| noted.user.is_empty()) {
            user.clone_into(&mut noted.user);
        }
        self
    }

    /// The same for a right that this user lacks, perhaps that to a verb.
    pub(crate) fn lacked_by(mut self, user: &str, verb: Option<Verb>) -> Self {
        if let Some(noted) = &mut self.noted {
            noted.is_known = true;
            noted.verb = verb;
        }
        self.by(user)
    }

    /// The same, of which the operator hears otherwise.
    pub(crate) fn unnoted(mut self) -> Self {
        self.noted = None;
        self
    }

    /// Whether nobody is known by the token.
    pub(crate) fn is_of_token(&self) -> bool {
        self.code == "no-token"
    }

    /// What is said of it.
    pub(crate) fn value(&self) -> Value {
        let kind = of(self.code);
        let mut value = json!({
            "type": format!("{PROBLEMS}#{}", kind.code),
            "title": kind.status.canonical_reason(),
            "status": kind.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
            "remedy": kind.remedy,
        });
        if let Some((key, text)) = &self.more {
            value[*key] = Value::from(text.as_str());
        }
        value
    }

    /// The same for a request that may be sent again after this time.
    pub(crate) fn after(mut self, time: Duration) -> Self {
        self.retry_secs = Some(time.as_millis().div_ceil(1_000).max(1) as u64);
        self
    }

    /// The same with one more key, if it has a value.
    pub(crate) fn with(mut self, key: &'static str, value: Option<String>) -> Self {
        self.more = value.map(|value| (key, value));
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let kind = of(self.code);
        let text = format!("{}\n", self.value());
        let mut response = answer(kind.status, PROBLEM_JSON, text);
        let headers = response.headers_mut();
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        match kind.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                let secs = self.retry_secs.unwrap_or(RETRY_SECS);
                headers.insert(RETRY_AFTER, HeaderValue::from(secs));
            }
            _ => {}
        }
        if let Some(noted) = self.noted {
            response.extensions_mut().insert(*noted);
        }
        response
    }
}

/// All kinds of problems, for people who follow the `type` of one.
pub(crate) fn list() -> Value {
    let kinds = KINDS.iter().chain([&BUG]);
    let shown = kinds.map(|kind| {
        json!({
            "type": format!("{PROBLEMS}#{}", kind.code),
            "code": kind.code,
            "title": kind.status.canonical_reason(),
            "status": kind.status.as_u16(),
            "remedy": kind.remedy,
        })
    });
    json!({ "problems": shown.collect::<Vec<_>>() })
}

/// An answer.
pub(crate) fn answer(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_kind_and_says_what_helps() {
        for (at, kind) in KINDS.iter().enumerate() {
            assert_eq!(of(kind.code).status, kind.status);
            let first = KINDS.iter().position(|one| one.code == kind.code);
            assert_eq!(first, Some(at), "{}", kind.code);
            assert!(!kind.remedy.is_empty() && kind.status.as_u16() >= 400);
        }
        assert_eq!(of("fly").status, StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn what_can_be_repeated_says_when() {
        for (code, header) in [
            ("busy", RETRY_AFTER),
            ("too-many", RETRY_AFTER),
            ("no-token", WWW_AUTHENTICATE),
        ] {
            let response = problem(code, "").into_response();
            assert!(response.headers().contains_key(header), "{code}");
            assert_eq!(response.headers()[CONTENT_TYPE], PROBLEM_JSON);
        }
    }
}
